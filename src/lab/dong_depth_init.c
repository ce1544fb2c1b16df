/*
 * dong_depth_init.c: Dong, Cordonnier, Loukas 2021, the panel "BERT at initialization" of the
 * figure that follows the residual through the layers of BERT, ALBERT and XLNet
 * (docs/theory/collapse.md, 13).
 *
 * BERT-base with random weights N(0, 0.02²), 128 tokens, four variants: self-attention alone (SAN),
 * with MLPs, with skips, whole. The quantity is |X - 1x|/|X|, x the mean token, |.| the composite
 * norm sqrt(|.|_1 |.|_inf). The paper took 32 samples of text through one random network; here each
 * repetition is another network and another sample of tokens, which follow Zipf's law.
 */
#include "lab/dong_depth_kin.h"
#include "lab/random_bert.h"
#include "lab/toy.h"

#include "observe/measure.h"
#include "report/figures.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
    LAYERS = 12,
    STATES = LAYERS + 1,
    VARIANTS = 4,
    PRECISIONS = RS_PRECISION_F64 + 1, /* float32 and float64, as published figures are */
    REPETITIONS = 6,
    QUICK_REPETITIONS = 2
};

enum { SAN, SAN_MLP, SAN_SKIP, FULL };
static const char *const variant_names[VARIANTS] = {"san", "san+mlp", "san+skip", "full"};
static const char *const precision_names[PRECISIONS] = {"f32", "f64"};

/* An independent NumPy calculation with the same settings, six initialisations
 * (docs/theory/collapse.md, 13). */
static const double expected_san[3] = {0.599, 0.0183, 7.1e-7};
static const double expected_san_std[3] = {0.023, 0.0015, 1.7e-7};
static const double expected_skip_end = 0.411, expected_full_end = 0.407;

typedef struct curves {
    int32_t repetitions;
    bool has[PRECISIONS][VARIANTS];
    double value[PRECISIONS][VARIANTS][STATES][REPETITIONS];
} curves;

/* ---- one network ---- */

static rs_status measure_states(double values[STATES], const rs_network *network,
                                rs_weights *weights, rs_precision precision,
                                const rs_inputs *inputs, const rs_context *context, rs_error *err)
{
    rs_measure_options options;
    rs_measure_defaults(&options);
    options.precision = precision;
    options.spectral = options.attention = options.loss = false;
    options.phase = "dong-depth-init";
    rs_measured *measured = NULL;
    RS_TRY(
        rs_measure_network(&measured, network, weights, inputs, &options, NULL, 0, context, err));
    for (int32_t l = 0; l < STATES; l++) {
        const rs_token_row *row = rs_measured_row(measured, RS_TOKEN_SITE_BLOCK_OUT, l);
        values[l] = row ? row->mean.relative_residual_1inf : NAN;
    }
    rs_measured_free(measured);
    return RS_OK;
}

static rs_status one_variant(curves *all, int32_t repetition, int variant, rs_precision precision,
                             const rs_network *whole, rs_weights *weights, const rs_inputs *inputs,
                             const rs_context *context, rs_error *err)
{
    rs_edit edit;
    rs_edit_init(&edit);
    RS_TRY(rs_edit_named(&edit, variant_names[variant], err));
    rs_network *network = NULL;
    RS_TRY(rs_network_copy(&network, whole, err));
    double values[STATES];
    rs_status status = rs_edit_apply(network, &edit, err);
    if (status == RS_OK)
        status = measure_states(values, network, weights, precision, inputs, context, err);
    rs_network_close(network);
    RS_TRY(status);
    for (int l = 0; l < STATES; l++)
        all->value[precision][variant][l][repetition] = values[l];
    return RS_OK;
}

/* All variants that are asked for of one network in one precision. */
static rs_status one_precision(curves *all, int32_t repetition, rs_precision precision,
                               const rs_network *network, const rs_inputs *inputs,
                               const rs_context *context, rs_error *err)
{
    rs_weights *weights = NULL;
    RS_TRY(rs_weights_open(&weights, precision, rs_weight_limit(context), err));
    rs_status status = RS_OK;
    for (int v = 0; status == RS_OK && v < VARIANTS; v++)
        if (all->has[precision][v])
            status =
                one_variant(all, repetition, v, precision, network, weights, inputs, context, err);
    rs_weights_close(weights);
    return status;
}

static rs_status one_network(curves *all, int32_t repetition, uint64_t seed,
                             const rs_context *context, rs_error *err)
{
    rs_lab_bert bert;
    RS_TRY(rs_lab_bert_open(&bert, LAYERS, seed, context, err));
    rs_status status = RS_OK;
    for (int p = 0; status == RS_OK && p < PRECISIONS; p++)
        status = one_precision(all, repetition, (rs_precision)p, bert.network, &bert.inputs,
                               context, err);
    rs_lab_bert_close(&bert);
    return status;
}

static rs_status run_all(curves *all, const rs_context *context, rs_error *err)
{
    for (int32_t r = 0; r < all->repetitions; r++) {
        rs_progress(context, "dong-depth-init", (uint64_t)r, (uint64_t)all->repetitions,
                    "networks");
        RS_TRY(rs_check_cancelled(context, err));
        /* Seeds of repetitions lie far apart from those that users count up. */
        RS_TRY(one_network(all, r, context->seed + ((uint64_t)r << 32), context, err));
    }
    return RS_OK;
}

/* ---- what came out ---- */

static rs_spread spread(const curves *all, int precision, int variant, int state)
{
    double values[REPETITIONS];
    memcpy(values, all->value[precision][variant][state], sizeof values);
    return rs_spread_of(values, all->repetitions);
}

/* A row of table dong_depth_init. */
typedef struct depth_cells {
    const char *precision, *variant;
    int32_t layer;
    rs_spread of;
    double published;
} depth_cells;

static const rs_column depth_columns[] = {
    RS_COLUMN(depth_cells, precision, "precision", "precision", NULL, "arithmetic of the run",
              NULL),
    RS_COLUMN(depth_cells, variant, "variant", "variant", NULL, "which parts of a block are left",
              NULL),
    RS_COLUMN(depth_cells, layer, "layer", "state", NULL, "0 enters the first block", NULL),
    RS_COLUMN(depth_cells, of.mean, "relative_residual_1inf", "relative residual", NULL,
              "|X - 1x|/|X| in the composite norm, mean over the random networks", "measured"),
    RS_COLUMN(depth_cells, of.std, "std", "standard deviation", NULL, "over the random networks",
              "measured"),
    RS_COLUMN(depth_cells, of.min, "min", "least", NULL, "over the random networks", "measured"),
    RS_COLUMN(depth_cells, of.max, "max", "largest", NULL, "over the random networks", "measured"),
    RS_COLUMN(depth_cells, published, "published", "published", NULL,
              "mean in the paper's figure, read from its vector form", "published"),
};
static const rs_table_kind table_kind = {"lab", "dong_depth_init", {RS_PART(depth_columns)}};

static rs_status add_table(rs_lab_report *report, const curves *all, rs_error *err)
{
    rs_table *table = NULL;
    char about[200];
    snprintf(about, sizeof about,
             "Relative residual by state, over %d random networks with %d tokens each.",
             (int)all->repetitions, (int)RS_LAB_BERT_TOKENS);
    RS_TRY(rs_result_add_table(report->result, "dong_depth_init", "BERT at initialisation", about,
                               depth_columns, sizeof depth_columns / sizeof *depth_columns, &table,
                               err));
    for (int p = 0; p < PRECISIONS; p++)
        for (int v = 0; v < VARIANTS; v++)
            for (int l = 0; all->has[p][v] && l < STATES; l++) {
                const depth_cells cells = {precision_names[p], variant_names[v], l,
                                           spread(all, p, v, l), rs_lab_bert_published[v][l]};
                RS_TRY(rs_table_append(table, &cells, err));
            }
    return RS_OK;
}

static rs_status add_figure(rs_lab_report *report, rs_error *err)
{
    static const char *const keys[] = {"variant", "precision"}, *const facets[] = {"precision"};
    rs_lines lines = {
        .table = "dong_depth_init",
        .x = {"layer", "state (0 enters the first block)"},
        .y = {"relative_residual_1inf", "relative residual, composite norm"},
        .low = {"min", NULL},
        .high = {"max", NULL},
        .colour = {"variant", "variant"},
        .more = {{.field = "published", .title = "published (float32)", .published = true}},
        .x_whole = true,
        .facets = {facets, 1},
        .keys = {keys, 2},
        .log_y = true,
        .y_floor = 1e-17};
    rs_result_show_curve(report->result, &(rs_curve){.table = "dong_depth_init",
                                                     .title = "Relative residual, float64",
                                                     .x = "layer",
                                                     .x_title = "state",
                                                     .y = {{.column = "relative_residual_1inf"}},
                                                     .series = "variant",
                                                     .only = "precision",
                                                     .only_text = "f64",
                                                     .floor = 1e-17});
    return rs_result_add_figure(
        report->result, "dong_depth_init", "BERT at initialisation: what holds tokens apart",
        "Relative residual by state for self-attention alone (san), with MLPs, with skips, and the "
        "whole network; the band reaches from the least random network to the largest. Dotted, "
        "with "
        "hollow marks: the paper's means. In float32 "
        "the plateau of san is rounding; float64 shows that the curve goes on falling.",
        rs_figure_lines(&lines), err);
}

/* Largest mean of SAN's states from `first` on. */
static double plateau(const curves *all, int precision, int first)
{
    double largest = 0;
    for (int l = first; l < STATES; l++)
        largest = fmax(largest, spread(all, precision, SAN, l).mean);
    return largest;
}

/* One random network was published: it is compared with three standard deviations of one network,
 * those of the independent calculation. */
static rs_status claim_beginning(rs_lab_report *report, const curves *all, rs_error *err)
{
    for (int l = 0; l < 3; l++) {
        rs_spread s = spread(all, RS_PRECISION_F32, SAN, l);
        char text[120];
        snprintf(text, sizeof text, "SAN: relative residual of state %d, float32", l);
        rs_lab_claim claim = {text,   rs_lab_bert_published[SAN][l], expected_san[l],
                              s.mean, 3 * expected_san_std[l],       false,
                              false};
        RS_TRY(rs_lab_add_claim(report, &claim, err));
    }
    return RS_OK;
}

static rs_status claim_ends(rs_lab_report *report, const curves *all, rs_error *err)
{
    const rs_lab_claim claims[] = {
        {"SAN+skip: relative residual of the last state, float32",
         rs_lab_bert_published[SAN_SKIP][LAYERS], expected_skip_end,
         spread(all, RS_PRECISION_F32, SAN_SKIP, LAYERS).mean, 0.08, false, false},
        {"whole network: relative residual of the last state, float32",
         rs_lab_bert_published[FULL][LAYERS], expected_full_end,
         spread(all, RS_PRECISION_F32, FULL, LAYERS).mean, 0.08, false, false},
    };
    for (size_t i = 0; i < sizeof claims / sizeof *claims; i++)
        RS_TRY(rs_lab_add_claim(report, &claims[i], err));
    return RS_OK;
}

/* The published plateau, and what it is. Both bounds are the floor of the token measures, eight
 * units of roundoff (measures/token_measures.h), times two for the composite norm, which is not the
 * norm that floor is stated in: |R|_{1,inf} <= 2 (1 - 1/n) times its least value over centres. */
static rs_status claim_floors(rs_lab_report *report, const curves *all, rs_error *err)
{
    double u[] = {rs_precision_roundoff(RS_PRECISION_F32), rs_precision_roundoff(RS_PRECISION_F64)};
    const rs_lab_claim claims[] = {
        {"SAN: the plateau from state 3 on is float32 rounding (at most 16 units)",
         rs_lab_bert_published[SAN][3], NAN, plateau(all, RS_PRECISION_F32, 3),
         2 * RS_TOKEN_FLOOR * u[0], true, false},
        {"SAN: float64 falls from state 3 on to its own rounding (at most 16 units)", NAN, NAN,
         plateau(all, RS_PRECISION_F64, 3), 2 * RS_TOKEN_FLOOR * u[1], true, false},
        {"SAN: relative residual of state 3, float64 (the figure has float32)",
         rs_lab_bert_published[SAN][3], NAN, spread(all, RS_PRECISION_F64, SAN, 3).mean, 1e-9,
         false, false},
    };
    for (size_t i = 0; i < sizeof claims / sizeof *claims; i++)
        RS_TRY(rs_lab_add_claim(report, &claims[i], err));
    return RS_OK;
}

static rs_status write_up(rs_lab_report *report, const curves *all, bool quick, rs_error *err)
{
    RS_TRY(add_table(report, all, err));
    RS_TRY(add_figure(report, err));
    RS_TRY(claim_beginning(report, all, err));
    RS_TRY(claim_ends(report, all, err));
    RS_TRY(claim_floors(report, all, err));
    if (!quick) return RS_OK;
    char what[80];
    snprintf(what, sizeof what, "%d random networks instead of %d, BERT in float64 only SAN",
             (int)all->repetitions, (int)REPETITIONS);
    return rs_lab_say_quick(report, what, err);
}

static rs_status run_dong_depth_init(rs_lab_report *report, const rs_lab_options *options,
                                     const rs_context *context, rs_error *err)
{
    curves *all = rs_calloc(1, sizeof *all);
    if (!all) return rs_fail_memory(err, "curves", sizeof *all);
    all->repetitions = options->quick ? QUICK_REPETITIONS : REPETITIONS;
    for (int p = 0; p < PRECISIONS; p++)
        for (int v = 0; v < VARIANTS; v++)
            all->has[p][v] = !options->quick || p == RS_PRECISION_F32 || v == SAN;
    rs_status status = run_all(all, context, err);
    if (status == RS_OK) status = write_up(report, all, options->quick, err);
    rs_free(all);
    return status == RS_OK ? rs_lab_depth_kin(report, options, context, err) : status;
}

const rs_lab_experiment rs_lab_dong_depth_init = {
    "dong-depth-init",
    "BERT, ALBERT, XLNet at random",
    "Dong et al. 2021, models at init",
    "BERT-base with random weights and 128 tokens by Zipf's law: the relative residual after every "
    "layer, for self-attention alone, with MLPs, with skips, and whole; in float32 and float64. "
    "Then ALBERT and XLNet. After the figure on the three at initialization of Dong, "
    "Cordonnier, Loukas, ICML 2021 (arXiv 2103.03404).",
    run_dong_depth_init,
    "80 s",
    "25 s",
    &table_kind,
    0};
