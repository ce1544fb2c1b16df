/*
 * dong_depth_kin.c: Dong, Cordonnier, Loukas 2021, the panels of ALBERT and XLNet at initialisation
 * of the figure that dong-depth-init begins (docs/theory/collapse.md, 13).
 *
 * ALBERT as the paper describes it and as its code ran it, which leaves LN(gelu(a) + a) where an MLP
 * was (--compat dong2021-code); XLNet, whose relative positions make the fall linear; and XLNet's
 * first states by how many of its 128 ids are different, which texts and Zipf's law do not share.
 * What is expected is measured of transformers' own classes (tests/oracle/make_depth_golden.py).
 */
#include "lab/dong_depth_kin.h"
#include "lab/random_bert.h"
#include "lab/toy.h"

#include "base/memory.h"
#include "observe/measure.h"

#include <math.h>
#include <stdio.h>

enum {
    LAYERS = 12,
    STATES = LAYERS + 1,
    RUNS = 10, /* of variants, of both networks */
    NETWORKS = 6,
    QUICK_NETWORKS = 2,
    COUNTS = 5,    /* of different ids */
    ID_LAYERS = 3, /* that those are run through */
    EARLY = 3,     /* states 1 to 3, those that the figure has above rounding */
    LIMIT = 3      /* deviations of one network, which is what was published */
};

/* skip: nothing is below float32's rounding then. */
static const struct {
    rs_lab_encoder encoder;
    const char *name, *variant;
    bool code, skip;
    int published; /* its row there */
} runs[RUNS] = {
    {RS_LAB_ALBERT, "albert, san", "san", false, false, 0},
    {RS_LAB_ALBERT, "albert, san, their code", "san", true, false, 0},
    {RS_LAB_ALBERT, "albert, san+mlp", "san+mlp", false, false, 1},
    {RS_LAB_ALBERT, "albert, san+skip", "san+skip", false, true, 2},
    {RS_LAB_ALBERT, "albert, san+skip, their code", "san+skip", true, true, 2},
    {RS_LAB_ALBERT, "albert, full", "full", false, true, 3},
    {RS_LAB_XLNET, "xlnet, san", "san", false, false, 0},
    {RS_LAB_XLNET, "xlnet, san+mlp", "san+mlp", false, false, 1},
    {RS_LAB_XLNET, "xlnet, san+skip", "san+skip", false, true, 2},
    {RS_LAB_XLNET, "xlnet, full", "full", false, true, 3},
};
static const int32_t counts[COUNTS] = {16, 32, 64, 96, 128};

/* Sixteen networks of transformers' classes (tests/golden/lab/depth_init.json): by run states 1 to 3
 * where nothing is below rounding, and the last; state 1 by the number of ids; that number by Zipf's
 * law. */
typedef struct awaited {
    double mean, deviation; /* over networks */
} awaited;
static const awaited expected_early[RUNS][EARLY] = {
    [0] = {{0.0013065, 0.000141}},
    [1] = {{0.0013784, 0.000146}},
    [2] = {{0.0013288, 0.000155}},
    [6] = {{0.0031181, 0.00039}, {0.0001105, 2.53e-05}, {4.9685e-06, 1.52e-06}},
    [7] = {{0.0030994, 0.000417}, {0.00011131, 2.48e-05}, {4.9242e-06, 1.43e-06}},
};
static const awaited expected_last[RUNS] = {[3] = {0.082811, 0.011},
                                            [4] = {0.30065, 0.0374},
                                            [5] = {0.22343, 0.0208},
                                            [8] = {0.98549, 0.0147},
                                            [9] = {0.73844, 0.0364}};
static const awaited expected_ids[COUNTS] = {{0.0012868, 0.000117},
                                             {0.0018544, 0.000197},
                                             {0.0026663, 0.000295},
                                             {0.0030734, 0.000249},
                                             {0.0037067, 0.000422}};
static const awaited expected_different = {110.06, 3.78};

typedef struct kin {
    int networks;
    double state[RUNS][STATES]; /* means over the networks */
    double ids[COUNTS][ID_LAYERS + 1];
    double different;
} kin;

/* ---- runs ---- */

static rs_status measure_states(double *out, int32_t states, const rs_network *network,
                                rs_weights *weights, const rs_inputs *inputs,
                                const rs_lab_depth_run *run, const rs_context *context,
                                rs_error *err)
{
    rs_measure_options options;
    rs_measure_defaults(&options);
    options.precision = run->precision;
    options.spectral = options.attention = options.loss = false;
    options.phase = run->phase;
    rs_measured *measured = NULL;
    RS_TRY(
        rs_measure_network(&measured, network, weights, inputs, &options, NULL, 0, context, err));
    for (int32_t l = 0; l < states; l++) {
        const rs_token_row *row = rs_measured_row(measured, RS_TOKEN_SITE_BLOCK_OUT, l);
        out[l] = row ? row->mean.relative_residual_1inf : NAN;
    }
    rs_measured_free(measured);
    return RS_OK;
}

rs_status rs_lab_depth_states(double *out, int32_t states, const rs_network *whole,
                              rs_weights *weights, const rs_inputs *inputs,
                              const rs_lab_depth_run *run, const rs_context *context, rs_error *err)
{
    rs_edit edit;
    rs_edit_init(&edit);
    RS_TRY(rs_edit_named(&edit, run->variant, err));
    edit.dong2021_code = run->code;
    rs_network *network = NULL;
    RS_TRY(rs_network_copy(&network, whole, err));
    rs_status status = rs_edit_apply(network, &edit, err);
    if (status == RS_OK)
        status = measure_states(out, states, network, weights, inputs, run, context, err);
    rs_network_close(network);
    return status;
}

/* Adds the relative residuals of the first `states` states to `sums`, over the networks. */
static rs_status one_variant(double *sums, int states, int networks, const rs_lab_bert *bert,
                             int run, const rs_context *context, rs_error *err)
{
    double values[STATES];
    const rs_lab_depth_run how = {runs[run].variant, runs[run].code,
                                  runs[run].skip ? RS_PRECISION_F32 : RS_PRECISION_F64,
                                  "dong-depth-init"};
    rs_weights *weights = NULL;
    RS_TRY(rs_weights_open(&weights, how.precision, rs_weight_limit(context), err));
    rs_status status = rs_lab_depth_states(values, states, bert->network, weights, &bert->inputs,
                                           &how, context, err);
    rs_weights_close(weights);
    for (int l = 0; l < states && status == RS_OK; l++)
        sums[l] += values[l] / networks;
    return status;
}

static int run_of(rs_lab_encoder encoder)
{
    int run = 0;
    while (runs[run].encoder != encoder)
        run++;
    return run;
}

static rs_status one_encoder(kin *all, rs_lab_encoder which, uint64_t seed,
                             const rs_context *context, rs_error *err)
{
    rs_lab_bert bert;
    RS_TRY(rs_lab_encoder_open(&bert, which, LAYERS, seed, context, err));
    rs_status status = RS_OK;
    all->different += (double)rs_lab_encoder_different(&bert) / (2 * all->networks);
    for (int r = 0; r < RUNS && status == RS_OK; r++)
        if (runs[r].encoder == which)
            status = one_variant(all->state[r], STATES, all->networks, &bert, r, context, err);
    rs_lab_bert_close(&bert);
    return status;
}

static rs_status by_ids(kin *all, uint64_t seed, const rs_context *context, rs_error *err)
{
    rs_lab_bert bert;
    RS_TRY(rs_lab_encoder_open(&bert, RS_LAB_XLNET, ID_LAYERS, seed, context, err));
    rs_status status = RS_OK;
    for (int c = 0; c < COUNTS && status == RS_OK; c++) {
        rs_lab_encoder_repeat(&bert, RS_LAB_XLNET, counts[c], seed);
        status = one_variant(all->ids[c], ID_LAYERS + 1, all->networks, &bert, run_of(RS_LAB_XLNET),
                             context, err);
    }
    rs_lab_bert_close(&bert);
    return status;
}

static rs_status run_kin(kin *all, const rs_context *context, rs_error *err)
{
    for (int i = 0; i < all->networks; i++) {
        uint64_t seed = context->seed + ((uint64_t)i << 32);
        rs_progress(context, "dong-depth-init", (uint64_t)i, (uint64_t)all->networks,
                    "ALBERT and XLNet");
        RS_TRY(rs_check_cancelled(context, err));
        RS_TRY(one_encoder(all, RS_LAB_ALBERT, seed, context, err));
        RS_TRY(one_encoder(all, RS_LAB_XLNET, seed, context, err));
        RS_TRY(by_ids(all, seed, context, err));
    }
    return RS_OK;
}

/* ---- tables and figures ---- */

#define RESIDUAL_COLUMN                                                                            \
    RS_LAB_Y("relative_residual_1inf", "relative residual, composite norm",                        \
             "|X - 1x|/|X| in the composite norm, mean over the random networks")
static const rs_column state_columns[] = RS_LAB_POINTS(RS_LAB_X_STATE, RESIDUAL_COLUMN);
static const rs_column id_columns[] =
    RS_LAB_POINTS(RS_LAB_X_WHOLE("ids", "different ids among 128 tokens", "each as often as any"),
                  RESIDUAL_COLUMN);
const rs_table_kind rs_lab_depth_albert_kind = {
    "lab", "dong_depth_albert", {RS_PART(state_columns)}};
const rs_table_kind rs_lab_depth_xlnet_kind = {"lab", "dong_depth_xlnet", {RS_PART(state_columns)}};
const rs_table_kind rs_lab_depth_ids_kind = {"lab", "dong_depth_ids", {RS_PART(id_columns)}};

static const rs_lab_curves albert_curves = {
    .kind = &rs_lab_depth_albert_kind,
    .title = "ALBERT at initialisation",
    .about = "Relative residual by state, mean over random networks: the four variants, those "
             "without an MLP also as the released code ran them, and the published means. Without "
             "skips it is float64 that runs here: the published plateau is float32's rounding.",
    .log_y = true,
    .y_floor = 1e-17,
};
static const rs_lab_curves xlnet_curves = {
    .kind = &rs_lab_depth_xlnet_kind,
    .title = "XLNet at initialisation",
    .about = "The same of XLNet: relative positions make the fall without skips linear, a factor a "
             "layer, where ALBERT's and BERT's is doubly exponential.",
    .log_y = true,
    .y_floor = 1e-17,
};
static const rs_lab_curves id_curves = {
    .kind = &rs_lab_depth_ids_kind,
    .title = "XLNet without skips, by how often its ids repeat",
    .about = "Relative residual of states 1 to 3 by the number of different ids among 128 tokens: "
             "the more often an id repeats the lower, at the same factor a layer.",
    .log_x = true,
    .log_y = true,
};

static const double *published_of(int run)
{
    return runs[run].encoder == RS_LAB_ALBERT ? rs_lab_albert_published[runs[run].published]
                                              : rs_lab_xlnet_published[runs[run].published];
}

static rs_status add_published(rs_table *table, int run, rs_error *err)
{
    static const char source[] = "Dong et al. 2021, at initialization, read from the vector figure";
    char name[80];
    snprintf(name, sizeof name, "%s, published", runs[run].name);
    for (int l = 0; l < STATES; l++)
        RS_TRY(rs_lab_curves_publish(table, source, name, l, published_of(run)[l], err));
    return RS_OK;
}

static rs_status add_panel(rs_lab_report *report, const kin *all, rs_lab_encoder which,
                           const rs_lab_curves *panel, rs_error *err)
{
    rs_table *table = NULL;
    RS_TRY(rs_lab_curves_open(&table, report, panel, err));
    for (int r = 0; r < RUNS; r++) {
        if (runs[r].encoder != which) continue;
        for (int l = 0; l < STATES; l++)
            RS_TRY(rs_lab_curves_add(table, runs[r].name, l, all->state[r][l], err));
        if (!runs[r].code) RS_TRY(add_published(table, r, err));
    }
    return RS_OK;
}

static rs_status add_ids(rs_lab_report *report, const kin *all, rs_error *err)
{
    rs_table *table = NULL;
    RS_TRY(rs_lab_curves_open(&table, report, &id_curves, err));
    for (int l = 1; l <= EARLY; l++)
        for (int c = 0; c < COUNTS; c++) {
            char name[20];
            snprintf(name, sizeof name, "state %d", l);
            RS_TRY(rs_lab_curves_add(table, name, counts[c], all->ids[c][l], err));
        }
    return RS_OK;
}

/* ---- claims ---- */

/* What falls over decades is compared by its logarithm: a mean, whose networks deviate so. */
static rs_status claim_log(rs_lab_report *report, const char *text, double published,
                           awaited expected, double measured, rs_error *err)
{
    double tolerance = LIMIT * log10(1 + expected.deviation / expected.mean);
    return rs_lab_add_claim(report,
                            &(rs_lab_claim){text, log10(published), log10(expected.mean),
                                            log10(measured), tolerance, false, false},
                            err);
}

static rs_status claim_falls(rs_lab_report *report, const kin *all, int run, rs_error *err)
{
    /* behind state 1 ALBERT is below what float32 shows */
    int last = runs[run].encoder == RS_LAB_ALBERT ? 1 : EARLY;
    for (int l = 1; l <= last; l++) {
        char text[120];
        snprintf(text, sizeof text, "%s: log10 of the relative residual of state %d",
                 runs[run].name, l);
        RS_TRY(claim_log(report, text, published_of(run)[l], expected_early[run][l - 1],
                         all->state[run][l], err));
    }
    return RS_OK;
}

static rs_status claim_runs(rs_lab_report *report, const kin *all, rs_error *err)
{
    for (int r = 0; r < RUNS; r++) {
        if (!runs[r].skip) {
            RS_TRY(claim_falls(report, all, r, err));
            continue;
        }
        char text[120];
        snprintf(text, sizeof text, "%s: relative residual of the last state", runs[r].name);
        const rs_lab_claim claim = {text,
                                    published_of(r)[LAYERS],
                                    expected_last[r].mean,
                                    all->state[r][LAYERS],
                                    LIMIT * expected_last[r].deviation,
                                    false,
                                    false};
        RS_TRY(rs_lab_add_claim(report, &claim, err));
    }
    return RS_OK;
}

static rs_status claim_ids(rs_lab_report *report, const kin *all, rs_error *err)
{
    RS_TRY(rs_lab_expect(report, "different ids among 128 tokens by Zipf's law, mean",
                         expected_different.mean, all->different,
                         LIMIT * expected_different.deviation, err));
    /* the common token is a mean over ids, whose length goes as 1/sqrt(ids) beside what differs */
    const awaited most = expected_ids[COUNTS - 1], least = expected_ids[0];
    RS_TRY(rs_lab_expect(
        report,
        "xlnet, san, 128 different ids over 16: log10 of state 1 (root of their ratio: 0.45)",
        log10(most.mean / least.mean), log10(all->ids[COUNTS - 1][1] / all->ids[0][1]),
        LIMIT * log10(1 + hypot(most.deviation / most.mean, least.deviation / least.mean)), err));
    for (int c = 0; c < COUNTS; c++) {
        char text[120];
        snprintf(text, sizeof text, "xlnet, san, %d different ids: log10 of state 1",
                 (int)counts[c]);
        RS_TRY(claim_log(report, text, NAN, expected_ids[c], all->ids[c][1], err));
    }
    return RS_OK;
}

rs_status rs_lab_depth_kin(rs_lab_report *report, const rs_lab_options *options,
                           const rs_context *context, rs_error *err)
{
    kin *all = rs_calloc(1, sizeof *all);
    if (!all) return rs_fail_memory(err, "curves", sizeof *all);
    all->networks = options->quick ? QUICK_NETWORKS : NETWORKS;
    rs_status status = run_kin(all, context, err);
    if (status == RS_OK) status = add_panel(report, all, RS_LAB_ALBERT, &albert_curves, err);
    if (status == RS_OK) status = add_panel(report, all, RS_LAB_XLNET, &xlnet_curves, err);
    if (status == RS_OK) status = add_ids(report, all, err);
    if (status == RS_OK) status = claim_runs(report, all, err);
    if (status == RS_OK) status = claim_ids(report, all, err);
    rs_free(all);
    return status;
}
