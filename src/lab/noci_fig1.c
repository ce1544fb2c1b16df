/*
 * noci_fig1.c: figures of Noci, Anagnostidis, Biggio, Orvieto, Singh, Lucchi 2022 (arXiv 2206.03126) at
 * initialisation: the cosine of tokens by depth, norm and residual scale (figures 1, 3a, 4), gradients of
 * queries and values by layer (3b, 3c), ‖A − J‖ by head width, and the spread of ‖X‖² by depth
 * (appendix; docs/theory/mean_field.md, 1 and 7).
 */
#include "lab/noci_density.h"
#include "lab/signals.h"

#include <math.h>
#include <stdio.h>

enum {
    N = 16,
    D = 32,
    DEPTH = 16,
    PLACES = 3,
    SCALES = 3,
    DRAWS = 64,
    QUICK_DRAWS = 32,
    STREAM = 0x6e666967
};
enum { POST, PRE, NONE };
static const char *const places[PLACES] = {"post-norm", "pre-norm", "no norm"};
static const char *const scale_names[SCALES] = {"scale 1", "scale 1/2", "scale 1/sqrt L"};

/* By place: cosines behind every layer, by scale; log10 of gQ and gV of the last layer over the first's at
 * scale 1. */
enum { STATES = DEPTH + 1, GRADIENTS = SCALES * STATES, OF_PLACE = GRADIENTS + 2 };
/* ln‖A − J‖² by head width, of TRIES networks; log10 of ‖X‖² behind layers 1 and 10 over its start, by
 * attention and size. */
enum { WIDTHS = 3, VALUES = 100, FEW = 6, DENSE = 30, DEEP = 10, TRIES = 4 };
enum { UNIFORM, REAL, WAYS, SMALL = 0, UNIT, SIZES };
enum {
    HEADS_AT = PLACES * OF_PLACE,
    SPREAD = HEADS_AT + WIDTHS,
    CELLS = SPREAD + WAYS * SIZES * 2
};
static const int head_widths[WIDTHS] = {100, 400, 1600};

/* tests/oracle/lab_signals.py noci-fig1: by place the last cosine, gQ and gV at scale 1, the last cosine at
 * 1/2 and at 1/√L */
static const rs_awaited awaited[PLACES][5] = {
    {{0.999843, 2.3e-05},
     {-6.72077, 0.086},
     {1.1567, 0.069},
     {0.898577, 0.0061},
     {0.348335, 0.0088}},
    {{0.728494, 0.008},
     {-2.26707, 0.034},
     {-0.64774, 0.021},
     {0.532918, 0.0098},
     {0.256328, 0.0068}},
    {{0.994256, 0.0016}, {0, 0}, {0, 0}, {0.817069, 0.0097}, {0.378753, 0.011}},
};
/* and behind 10 layers, by attention and size: mean over networks of log10 ‖X‖² over its start */
static const rs_awaited density[WAYS][SIZES] = {
    {{5.01667, 0.023}, {5.03269, 0.023}},
    {{5.13103, 0.022}, {5.63335, 0.017}},
};

/* ---- networks ---- */

static double scale_of(int scale)
{
    return scale == 0 ? 1 : scale == 1 ? 0.5 : 1 / sqrt(DEPTH);
}

static rs_status see_place(double *cells, int place, int scale, rs_random *random,
                           const rs_context *context, rs_error *err)
{
    static const char *const norms[PLACES] = {"post", "pre", "none"};
    double x[N * D], alpha = scale_of(scale);
    rs_toy toy;
    rs_signal_layer layers[STATES];
    json_t *arch = json_pack("{s:i, s:i, s:s, s:s, s:f, s:f, s:{s:s}}", "depth", DEPTH, "d_model",
                             D, "norm", norms[place], "mlp", "relu", "branch_mixer", alpha,
                             "branch_mlp", alpha, "init", "wo", "none");
    RS_TRY(rs_toy_open(&toy, arch, rs_draw_seed(random), context, err));
    rs_draw_tokens(x, N, D, 1, 0, random);
    rs_status status = rs_signal_pass(layers, &toy, x, N, rs_draw_seed(random), true, err);
    rs_toy_close(&toy);
    RS_TRY(status);
    for (int l = 0; l < STATES; l++)
        cells[scale * STATES + l] = layers[l].cosine;
    /* without norms attention condenses at scale 1, and gQ may be 0 */
    if (scale != 0 || place == NONE) return RS_OK;
    cells[GRADIENTS] = log10(layers[DEPTH - 1].query / layers[0].query);
    cells[GRADIENTS + 1] = log10(layers[DEPTH - 1].value / layers[0].value);
    return RS_OK;
}

/* Xavier's law for queries and keys, tokens of length 1: ln‖A − J‖². */
static rs_status see_head(double *cell, int width, rs_random *random, const rs_context *context,
                          rs_error *err)
{
    double x[FEW * VALUES];
    rs_toy toy;
    rs_toy_trace trace;
    json_t *arch = json_pack("{s:i, s:i, s:i, s:s, s:s, s:{s:s, s:s, s:s, s:s}}", "depth", 1,
                             "d_model", VALUES, "d_head", width, "norm", "none", "mlp", "none",
                             "init", "wq", "normal(0, 2/(fan_in + fan_out))", "wk",
                             "normal(0, 2/(fan_in + fan_out))", "wv", "zero", "wo", "zero");
    RS_TRY(rs_toy_open(&toy, arch, rs_draw_seed(random), context, err));
    rs_draw_tokens(x, FEW, VALUES, 1.0 / VALUES, 0, random);
    rs_status status = rs_toy_run(&trace, &toy, x, 1, FEW, true, err);
    rs_toy_close(&toy);
    RS_TRY(status);
    double sum = 0;
    for (int i = 0; i < FEW * FEW; i++) {
        double off = rs_toy_mixing(&trace, 0, 0, 0)[i] - 1.0 / FEW;
        sum += off * off;
    }
    rs_toy_trace_free(&trace);
    *cell += log(sum) / TRIES;
    return RS_OK;
}

static rs_status see_spread(double cells[2], int way, int size, rs_random *random,
                            const rs_context *context, rs_error *err)
{
    double x[FEW * DENSE], variance = size == UNIT ? 1 : 1.0 / DENSE;
    rs_toy toy;
    rs_signal_layer layers[DEEP + 1];
    json_t *arch = json_pack("{s:i, s:i, s:s, s:s, s:{s:s, s:s}}", "depth", DEEP, "d_model", DENSE,
                             "norm", "none", "mlp", "linear", "init", "wo", "none", "wq",
                             way == UNIFORM ? "zero" : "normal(0, 1/d)");
    RS_TRY(rs_toy_open(&toy, arch, rs_draw_seed(random), context, err));
    rs_draw_tokens(x, FEW, DENSE, variance, 0, random);
    rs_status status = rs_signal_pass(layers, &toy, x, FEW, 0, true, err);
    rs_toy_close(&toy);
    RS_TRY(status);
    double start = FEW * DENSE * variance;
    cells[0] = log10(layers[1].square / start);
    cells[1] = log10(layers[DEEP].square / start);
    return RS_OK;
}

static rs_status one_draw(double *cells, const void *of, rs_random *random,
                          const rs_context *context, rs_error *err)
{
    (void)of;
    for (int place = 0; place < PLACES; place++)
        for (int scale = 0; scale < SCALES; scale++)
            RS_TRY(see_place(cells + place * OF_PLACE, place, scale, random, context, err));
    for (int w = 0; w < WIDTHS; w++)
        for (int t = 0; t < TRIES; t++)
            RS_TRY(see_head(&cells[HEADS_AT + w], head_widths[w], random, context, err));
    for (int way = 0; way < WAYS; way++)
        for (int size = 0; size < SIZES; size++)
            RS_TRY(see_spread(&cells[SPREAD + (way * SIZES + size) * 2], way, size, random, context,
                              err));
    return RS_OK;
}

/* ---- what came out ---- */

static const rs_column point_columns[] = RS_LAB_POINTS(
    RS_LAB_X_STATE, RS_LAB_Y("cosine", "mean cosine of tokens", "over pairs of different tokens"));
static const rs_table_kind table_kind = {"lab", "noci_fig1", {RS_PART(point_columns)}};
static const rs_lab_curves curves = {
    .kind = &table_kind,
    .title = "Tokens by depth, norm and residual scale",
    .about = "Mean cosine of independent tokens by layer of 16, with norms behind the sums, in "
             "front and without, branches as they are and over √L.",
};

static rs_status draw(rs_lab_report *report, const rs_draws *draws, rs_error *err)
{
    rs_table *table = NULL;
    char series[64];
    RS_TRY(rs_lab_curves_open(&table, report, &curves, err));
    for (int place = 0; place < PLACES; place++)
        for (int scale = 0; scale < SCALES; scale += 2)
            for (int l = 0; l < STATES; l++) {
                int cell = place * OF_PLACE + scale * STATES + l;
                snprintf(series, sizeof series, "%s, %s", places[place], scale_names[scale]);
                RS_TRY(rs_lab_curves_add(table, series, l, rs_draws_seen(draws, cell).mean, err));
            }
    return RS_OK;
}

static rs_status claim_places(rs_lab_report *report, const rs_draws *draws, rs_error *err)
{
    static const char *const gradients[2] = {"gQ", "gV"};
    char text[160];
    for (int place = 0; place < PLACES; place++) {
        int first = place * OF_PLACE;
        rs_seen ends[SCALES];
        for (int scale = 0; scale < SCALES; scale++) {
            ends[scale] = rs_draws_seen(draws, first + scale * STATES + DEPTH);
            snprintf(text, sizeof text, "%s, %s: cosine behind 16 layers", places[place],
                     scale_names[scale]);
            RS_TRY(rs_lab_seen(report, text, awaited[place][scale ? scale + 2 : 0], 0, ends[scale],
                               err));
        }
        snprintf(text, sizeof text, "%s: 1/sqrt L keeps tokens apart, cosine less by",
                 places[place]);
        RS_TRY(rs_lab_order(report, text, ends[0].mean - ends[2].mean,
                            hypot(ends[0].error, ends[2].error), err));
        for (int g = 0; g < 2 && place != NONE; g++) {
            snprintf(text, sizeof text, "%s: log10 of %s, layer 16 over layer 1", places[place],
                     gradients[g]);
            RS_TRY(rs_lab_seen(report, text, awaited[place][1 + g], 0,
                               rs_draws_seen(draws, first + GRADIENTS + g), err));
        }
    }
    /* figure 3: with norms behind, queries' gradients fall by layer; values' fall with norms in front */
    rs_seen queries = rs_draws_seen(draws, POST * OF_PLACE + GRADIENTS);
    rs_seen values = rs_draws_seen(draws, POST * OF_PLACE + GRADIENTS + 1);
    rs_seen front = rs_draws_seen(draws, PRE * OF_PLACE + GRADIENTS + 1);
    RS_TRY(rs_lab_order(report, "post-norm: gQ falls more than gV, decades by",
                        values.mean - queries.mean, hypot(values.error, queries.error), err));
    return rs_lab_order(report, "pre-norm: gV falls more than post-norm's, decades by",
                        values.mean - front.mean, hypot(values.error, front.error), err);
}

/* Weights of variance 2/(d_v + d_k): logits as 1/(d_v + d_k), and ‖A − J‖² with their squares, to second
 * order in logits of at most 2/(d_v + d_k). */
static rs_status claim_heads(rs_lab_report *report, const rs_draws *draws, rs_error *err)
{
    double w[WIDTHS] = {0}, decades;
    decades = log((double)(VALUES + head_widths[WIDTHS - 1]) / (VALUES + head_widths[0]));
    w[0] = -1 / decades;
    w[WIDTHS - 1] = 1 / decades;
    rs_seen slope = rs_draws_combined(draws, HEADS_AT, w, WIDTHS);
    RS_TRY(rs_lab_seen(report, "slope of ln|A - J|^2 in ln(d_v + d_k)", (rs_awaited){-2, 0},
                       2.0 / (VALUES + head_widths[0]) / decades, slope, err));
    /* d_v = 100: between 400 and 1600 the law's own slope in d_k is not yet the published one */
    double own = log(4), law = -2 * log(1700.0 / 500) / own;
    const double last[2] = {-1 / own, 1 / own};
    return rs_lab_seen_published(report, "slope of ln|A - J|^2 in ln d_k, 400 to 1600", -2,
                                 (rs_awaited){law, 0},
                                 rs_draws_combined(draws, HEADS_AT + 1, last, 2), err);
}

/* The deviation over draws of a cell, by its standard error. */
static double deviation(const rs_draws *draws, int32_t cell)
{
    return rs_draws_seen(draws, cell).error * sqrt(draws->draws);
}

static rs_status claim_spread(rs_lab_report *report, const rs_draws *draws, rs_error *err)
{
    static const char *const ways[WAYS] = {"uniform", "softmax"};
    char text[160];
    double free = 2 * (draws->draws - 1.0);
    for (int way = 0; way < WAYS; way++)
        for (int size = 0; size < SIZES; size++) {
            int cell = SPREAD + (way * SIZES + size) * 2;
            double first = deviation(draws, cell), last = deviation(draws, cell + 1);
            snprintf(text, sizeof text, "%s, tokens of %s: log10|X|^2 behind 10 layers", ways[way],
                     size ? "sqrt d" : "length 1");
            RS_TRY(rs_lab_seen(report, text, density[way][size], 0, rs_draws_seen(draws, cell + 1),
                               err));
            snprintf(text, sizeof text, "%s, tokens of %s: deviation grows with depth, by",
                     ways[way], size ? "sqrt d" : "length 1");
            RS_TRY(rs_lab_order(report, text, last - first, hypot(first, last) / sqrt(free), err));
        }
    return RS_OK;
}

static rs_status run_noci_fig1(rs_lab_report *report, const rs_lab_options *options,
                               const rs_context *context, rs_error *err)
{
    const rs_draws_plan plan = {.draws = options->quick ? QUICK_DRAWS : DRAWS,
                                .cells = CELLS,
                                .stream = (uint64_t)STREAM << 32,
                                .one = one_draw};
    rs_draws draws;
    RS_TRY(rs_draws_run(&draws, &plan, context, err));
    rs_status status = draw(report, &draws, err);
    if (status == RS_OK) status = claim_places(report, &draws, err);
    if (status == RS_OK) status = claim_heads(report, &draws, err);
    if (status == RS_OK) status = claim_spread(report, &draws, err);
    rs_draws_free(&draws);
    if (status == RS_OK) status = rs_noci_density(report, options, context, err);
    if (status != RS_OK || !options->quick) return status;
    return rs_lab_say_quick(report, "32 networks of each kind instead of 64, 100 instead of 400",
                            err);
}

const rs_lab_experiment rs_lab_noci_fig1 = {
    "noci-fig1",
    "Tokens and gradients at initialisation",
    "Noci et al. 2022, figures 1, 3, 4, appendix",
    "The cosine of tokens by depth, norm and residual scale, gradients of queries and values of "
    "the "
    "first and last layer, how far attention is from uniform by head width, and the spread and "
    "density of ‖X‖² over networks. Noci, Anagnostidis, Biggio, Orvieto, Singh, Lucchi, NeurIPS "
    "2022 (arXiv "
    "2206.03126).",
    run_noci_fig1,
    "4 s",
    "2 s",
    &table_kind,
    0};
