/*
 * dong_heads.c: the number of heads and the rate of collapse (Dong, Cordonnier, Loukas 2021, theorem
 * 2.3; docs/theory/collapse.md, 4).
 *
 * The published bound of depth L has 4 gamma beta H to the power (3^L - 1)/2, beta the largest
 * product of one head's norms. Five layers of attention alone at random, of 1 to 16 heads: of one
 * size, each with a W_V of its own that W_O is merged into (beta stays), and concatenated ones
 * that share the width (beta falls more slowly than 1/H). What heads at random add up to is the
 * root of the sum of the squares, so the residual rises with the root of H for the first and not
 * at all for the second.
 */
#include "lab/collapse.h"

#include "base/memory.h"

#include <math.h>
#include <stdio.h>

enum { COUNTS = 5, STEPS = 3, STREAM = 0x68656164 };
enum { MERGED, CONCATENATED, SERIES };
static const int counts[COUNTS] = {1, 2, 4, 8, 16};
static const char *const series_names[SERIES] = {"heads of one size, W_O merged",
                                                 "concatenated heads"};

/* Cells of a draw: by series and number of heads log10 |R| and log10 |R|/|X|; the first steps of
 * the former's merged heads; and what sixteen concatenated heads gain on one. */
enum { RESIDUAL, RELATIVE, KINDS, STEP = SERIES * KINDS * COUNTS, GAIN = STEP + STEPS, CELLS };

static int32_t level_of(int series, int kind, int count)
{
    return (series * KINDS + kind) * COUNTS + count;
}

/* tests/oracle/lab_collapse.py: means and deviations of one draw. */
static const struct {
    double mean, deviation;
} expected_level[SERIES][COUNTS] =
    {{{-58.291, 5.39}, {-42.610, 3.90}, {-26.721, 2.73}, {-10.113, 2.15}, {-1.6083, 0.606}},
     {{-58.339, 5.76}, {-58.987, 4.38}, {-60.896, 3.85}, {-61.943, 3.71}, {-63.220, 3.43}}},
  expected_step[STEPS] = {{16.432, 6.78}, {16.646, 4.89}, {17.365, 3.45}},
  expected_gain = {-4.868, 6.71};
/* log10 of beta H at sixteen concatenated heads over one, of those weights. */
static const double bound_gain = 1.0237;

/* ---- draws ---- */

static json_t *architecture(int series, int heads)
{
    json_t *arch = json_pack("{s:i, s:i, s:i, s:i, s:s, s:s, s:f}", "depth", RS_COLLAPSE_LAYERS,
                             "d_model", RS_COLLAPSE_WIDTH, "heads", heads, "d_head",
                             series == MERGED ? RS_COLLAPSE_WIDTH : RS_COLLAPSE_WIDTH / heads,
                             "norm", "none", "mlp", "none", "skip_mixer", 0.0);
    if (!arch || series != MERGED) return arch;
    json_t *init = json_pack("{s:s}", "wo", "none");
    if (json_object_set_new(arch, "init", init) == 0) return arch;
    json_decref(arch);
    return NULL;
}

static rs_status one_draw(double *cells, const void *of, rs_random *random,
                          const rs_context *context, rs_error *err)
{
    double x[RS_COLLAPSE_TOKENS * RS_COLLAPSE_WIDTH];
    (void)of;
    for (int s = 0; s < SERIES; s++)
        for (int c = 0; c < COUNTS; c++) {
            rs_collapse left;
            uint64_t seed = rs_draw_seed(random);
            rs_collapse_tokens(x, random);
            RS_TRY(rs_collapse_run(&left, architecture(s, counts[c]), seed, x, context, err));
            cells[level_of(s, RESIDUAL, c)] = left.residual;
            cells[level_of(s, RELATIVE, c)] = left.relative;
        }
    for (int i = 0; i < STEPS; i++)
        cells[STEP + i] =
            cells[level_of(MERGED, RESIDUAL, i + 1)] - cells[level_of(MERGED, RESIDUAL, i)];
    cells[GAIN] = cells[level_of(CONCATENATED, RESIDUAL, COUNTS - 1)] -
                  cells[level_of(CONCATENATED, RESIDUAL, 0)];
    return RS_OK;
}

/* ---- what came out ---- */

static const rs_column point_columns[] = RS_LAB_POINTS(
    RS_LAB_X_WHOLE("heads", "heads", "of every layer"),
    RS_LAB_Y("log10_relative_residual", "log10 of the relative residual",
             "log10 of |X - 1x|_F/|X|_F behind five layers, x the mean token: mean over draws"));
static const rs_table_kind table_kind = {"lab", "dong_heads", {RS_PART(point_columns)}};
static const rs_lab_curves curves = {
    .kind = &table_kind,
    .title = "More heads slow collapse where each is as large as before",
    .about = "log10 of the relative residual behind five layers of attention alone, by the number "
             "of heads: of one size with values of their own, and concatenated ones that share the "
             "width; and lines through one head, of slope 116 per decade of heads, as a bound with "
             "H in it rises, and of half that, as random heads add up.",
    .log_x = true,
};

static rs_status add_curves(rs_lab_report *report, const rs_draws *draws, rs_error *err)
{
    rs_table *table = NULL;
    double one = rs_draws_seen(draws, level_of(MERGED, RELATIVE, 0)).mean;
    RS_TRY(rs_lab_curves_open(&table, report, &curves, err));
    for (int s = 0; s < SERIES; s++)
        for (int c = 0; c < COUNTS; c++)
            RS_TRY(rs_lab_curves_add(table, series_names[s], counts[c],
                                     rs_draws_seen(draws, level_of(s, RELATIVE, c)).mean, err));
    for (int half = 0; half < 2; half++)
        for (int c = 0; c < COUNTS; c++) {
            double slope = rs_collapse_relative_exponent * (half ? 0.5 : 1);
            double y = one + slope * log10(counts[c]);
            if (y > 0) continue; /* no residual is larger than its tokens */
            RS_TRY(rs_lab_curves_compute(table, half ? "law, root of H" : "law, H", counts[c], y,
                                         err));
        }
    return RS_OK;
}

static rs_status claim_levels(rs_lab_report *report, int series, const rs_draws *draws,
                              rs_error *err)
{
    char text[120];
    for (int c = 0; c < COUNTS; c++) {
        snprintf(text, sizeof text, "%s, %d: log10 of the relative residual", series_names[series],
                 counts[c]);
        RS_TRY(rs_lab_seen(report, text,
                           rs_collapse_awaited(expected_level[series][c].mean,
                                               expected_level[series][c].deviation),
                           0, rs_draws_seen(draws, level_of(series, RELATIVE, c)), err));
    }
    return RS_OK;
}

static rs_status claim_merged(rs_lab_report *report, const rs_draws *draws, rs_error *err)
{
    char text[120];
    RS_TRY(rs_lab_statement(report, "more heads of one size slow collapse", err));
    RS_TRY(claim_levels(report, MERGED, draws, err));
    for (int i = 0; i < STEPS; i++) {
        rs_seen step = rs_draws_seen(draws, STEP + i);
        snprintf(text, sizeof text, "%d heads of one size leave more than %d", counts[i + 1],
                 counts[i]);
        RS_TRY(rs_lab_order(report, text, step.mean, step.error, err));
    }
    RS_TRY(
        rs_lab_statement(report, "more heads of one size slow collapse by as much as H says", err));
    for (int i = 0; i < STEPS; i++) {
        snprintf(text, sizeof text, "heads of one size, %d to %d: decades that the residual gains",
                 counts[i], counts[i + 1]);
        RS_TRY(rs_lab_seen_published(
            report, text, rs_collapse_exponent * log10(2),
            rs_collapse_awaited(expected_step[i].mean, expected_step[i].deviation),
            rs_draws_seen(draws, STEP + i), err));
    }
    return RS_OK;
}

static rs_status claim_concatenated(rs_lab_report *report, const rs_draws *draws, rs_error *err)
{
    RS_TRY(rs_lab_statement(report, "more concatenated heads slow collapse, as 4 gamma beta H does",
                            err));
    RS_TRY(claim_levels(report, CONCATENATED, draws, err));
    return rs_lab_seen_published(report,
                                 "concatenated heads, 1 to 16: decades that the residual gains",
                                 rs_collapse_exponent * bound_gain,
                                 rs_collapse_awaited(expected_gain.mean, expected_gain.deviation),
                                 rs_draws_seen(draws, GAIN), err);
}

static rs_status write_up(rs_lab_report *report, const rs_draws *draws, rs_error *err)
{
    RS_TRY(add_curves(report, draws, err));
    RS_TRY(claim_merged(report, draws, err));
    return claim_concatenated(report, draws, err);
}

static rs_status run_dong_heads(rs_lab_report *report, const rs_lab_options *options,
                                const rs_context *context, rs_error *err)
{
    const rs_draws_plan plan = {.cells = CELLS, .stream = STREAM, .one = one_draw};
    return rs_collapse_experiment(report, &plan, write_up, options, context, err);
}

const rs_lab_experiment rs_lab_dong_heads = {
    "dong-heads",
    "Heads and the rate",
    "Dong et al. 2021, theorem 2.3",
    "Five layers of attention alone at random, of 1 to 16 heads, in the residual precision: heads "
    "of one size with W_O merged, and concatenated ones that share the width, beside what the "
    "factor H of the published bound says. After Dong, Cordonnier, Loukas, ICML 2021 (arXiv "
    "2103.03404).",
    run_dong_heads,
    "1 s",
    "< 1 s",
    &table_kind,
    0};
