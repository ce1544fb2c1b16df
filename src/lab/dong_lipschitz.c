/*
 * dong_lipschitz.c: MLPs and the rate of collapse (Dong, Cordonnier, Loukas 2021, corollary on MLPs;
 * docs/theory/collapse.md, 5).
 *
 * The bound with MLPs has their Lipschitz constant beside the heads' norms, so it rises by (3^L -
 * 1)/2 times the logarithm of a factor of that constant. Five layers of attention and a ReLU MLP
 * without skips, the MLP's output times 1/4 ... 4, without norms: the residual itself does that,
 * for as long as the cubic law holds. Behind LayerNorm a factor of what it reads is lost but for
 * its epsilon, and with it the constant's effect.
 */
#include "lab/collapse.h"

#include "base/memory.h"

#include <math.h>
#include <stdio.h>

enum { FACTORS = 5, STEPS = FACTORS - 1, STREAM = 0x6c697073 };
enum { NONE, LAYERNORM, NORMS };
static const double factors[FACTORS] = {0.25, 0.5, 1, 2, 4};
static const char *const factor_names[FACTORS] = {"1/4", "1/2", "1", "2", "4"};
static const char *const norm_words[NORMS] = {"none", "post"};
static const char *const norm_names[NORMS] = {"no norm", "LayerNorm"};

/* Cells of a draw: log10 |R| and log10 |R|/|X| by norm and factor; steps between factors. */
enum { RESIDUAL, RELATIVE, KINDS, LEVELS = NORMS * KINDS * FACTORS, STEP = LEVELS };
enum { CELLS = LEVELS + NORMS * KINDS * STEPS };

static int32_t level_of(int norm, int kind, int factor)
{
    return (norm * KINDS + kind) * FACTORS + factor;
}

static int32_t step_of(int norm, int kind, int step)
{
    return STEP + (norm * KINDS + kind) * STEPS + step;
}

/* tests/oracle/lab_collapse.py: means and deviations of one draw without norms; for the last step,
 * and for steps behind LayerNorm, medians and what a normal law of their quartiles deviates by. */
static const struct {
    double mean, deviation;
} expected_level[STEPS] = {{-133.39, 6.22}, {-98.475, 6.23}, {-63.471, 6.23}, {-28.567, 6.31}},
  expected_step[3] = {{36.422, 0.423}, {36.509, 0.902}, {36.413, 2.0}},
  expected_relative = {34.917, 0.423}, expected_last = {17.912, 10.9},
  expected_normed = {-29.276, 5.73},
  expected_epsilon[STEPS] = {
      {2.0412e-3, 5.17e-4}, {5.0867e-4, 1.30e-4}, {1.2717e-4, 3.24e-5}, {3.1793e-5, 8.12e-6}};

/* ---- draws ---- */

static json_t *architecture(int norm, double factor)
{
    return json_pack("{s:i, s:i, s:s, s:s, s:f, s:f, s:f}", "depth", RS_COLLAPSE_LAYERS, "d_model",
                     RS_COLLAPSE_WIDTH, "norm", norm_words[norm], "mlp", "relu", "skip_mixer", 0.0,
                     "skip_mlp", 0.0, "branch_mlp", factor);
}

static void fill_steps(double *cells)
{
    for (int n = 0; n < NORMS; n++)
        for (int k = 0; k < KINDS; k++)
            for (int i = 0; i < STEPS; i++)
                cells[step_of(n, k, i)] = cells[level_of(n, k, i + 1)] - cells[level_of(n, k, i)];
}

/* One network, by factor of its MLPs and with and without norms. */
static rs_status one_draw(double *cells, const void *of, rs_random *random,
                          const rs_context *context, rs_error *err)
{
    double x[RS_COLLAPSE_TOKENS * RS_COLLAPSE_WIDTH];
    uint64_t seed = rs_draw_seed(random);
    (void)of;
    rs_collapse_tokens(x, random);
    for (int n = 0; n < NORMS; n++)
        for (int f = 0; f < FACTORS; f++) {
            rs_collapse left;
            RS_TRY(rs_collapse_run(&left, architecture(n, factors[f]), seed, x, context, err));
            cells[level_of(n, RESIDUAL, f)] = left.residual;
            cells[level_of(n, RELATIVE, f)] = left.relative;
        }
    fill_steps(cells);
    return RS_OK;
}

/* ---- what came out ---- */

static const rs_column point_columns[] = RS_LAB_POINTS(
    RS_LAB_X("factor", "factor of the MLPs' Lipschitz constants",
             "what the MLP of every layer is multiplied by"),
    RS_LAB_Y("log10_relative_residual", "log10 of the relative residual",
             "log10 of |X - 1x|_F/|X|_F behind five layers, x the mean token: median over draws"));
static const rs_table_kind table_kind = {"lab", "dong_lipschitz", {RS_PART(point_columns)}};
static const rs_lab_curves curves = {
    .kind = &table_kind,
    .title = "Steeper MLPs slow collapse, and behind LayerNorm do not",
    .about =
        "log10 of the relative residual behind five layers of attention and a ReLU MLP without "
        "skips, by a factor of the MLPs, with and without norms; and the line of slope 116 that "
        "the cubic law draws through the networks as they are. Where tokens are no longer close "
        "to each other that law ends.",
    .log_x = true,
};

static rs_status add_curves(rs_lab_report *report, const rs_draws *draws, rs_error *err)
{
    rs_table *table = NULL;
    double as_is = NAN;
    RS_TRY(rs_lab_curves_open(&table, report, &curves, err));
    for (int n = 0; n < NORMS; n++)
        for (int f = 0; f < FACTORS; f++) {
            double median;
            RS_TRY(rs_collapse_median(&median, draws, level_of(n, RELATIVE, f), err));
            RS_TRY(rs_lab_curves_add(table, norm_names[n], factors[f], median, err));
            if (n == NONE && factors[f] == 1) as_is = median;
        }
    for (int f = 0; f < FACTORS; f++)
        RS_TRY(rs_lab_curves_compute(table, "cubic law, no norm", factors[f],
                                     as_is + rs_collapse_relative_exponent * log10(factors[f]),
                                     err));
    return RS_OK;
}

static rs_status claim_levels(rs_lab_report *report, const rs_draws *draws, rs_error *err)
{
    char text[120];
    for (int f = 0; f < STEPS; f++) {
        snprintf(text, sizeof text, "no norm, MLPs x %s: log10 of the relative residual",
                 factor_names[f]);
        RS_TRY(rs_lab_seen(report, text,
                           rs_collapse_awaited(expected_level[f].mean, expected_level[f].deviation),
                           0, rs_draws_seen(draws, level_of(NONE, RELATIVE, f)), err));
    }
    return RS_OK;
}

/* The theorem's own number is of |R|: (3^L - 1)/2 log10 2 decades for twice the constant. */
static rs_status claim_steps(rs_lab_report *report, const rs_draws *draws, rs_error *err)
{
    char text[120];
    for (int i = 0; i < STEPS - 1; i++) {
        snprintf(text, sizeof text, "no norm, MLPs x %s to x %s: decades that the residual gains",
                 factor_names[i], factor_names[i + 1]);
        RS_TRY(rs_lab_seen_published(
            report, text, rs_collapse_exponent * log10(2),
            rs_collapse_awaited(expected_step[i].mean, expected_step[i].deviation),
            rs_draws_seen(draws, step_of(NONE, RESIDUAL, i)), err));
    }
    return rs_lab_seen_published(
        report, "no norm, MLPs x 1/4 to x 1/2: decades that the relative residual gains",
        rs_collapse_relative_exponent * log10(2),
        rs_collapse_awaited(expected_relative.mean, expected_relative.deviation),
        rs_draws_seen(draws, step_of(NONE, RELATIVE, 0)), err);
}

/* The median's claim: a few networks lose all logits but one, and their tokens, at x 4. */
static rs_status claim_median(rs_lab_report *report, const char *text, double published,
                              double expected, double deviation, const rs_draws *draws,
                              int32_t cell, rs_error *err)
{
    rs_lab_claim claim = {
        text,  published, expected, NAN, rs_collapse_median_tolerance(deviation, draws->draws),
        false, false};
    RS_TRY(rs_collapse_median(&claim.measured, draws, cell, err));
    return rs_lab_add_claim(report, &claim, err);
}

static rs_status claim_normed(rs_lab_report *report, const rs_draws *draws, rs_error *err)
{
    char text[140];
    RS_TRY(rs_lab_seen(report, "LayerNorm, MLPs x 1: log10 of the relative residual",
                       rs_collapse_awaited(expected_normed.mean, expected_normed.deviation), 0,
                       rs_draws_seen(draws, level_of(LAYERNORM, RELATIVE, 2)), err));
    for (int i = 0; i < STEPS; i++) {
        snprintf(text, sizeof text,
                 "LayerNorm, MLPs x %s to x %s: decades that the relative residual gains, by its "
                 "epsilon",
                 factor_names[i], factor_names[i + 1]);
        double published = i == 0 ? rs_collapse_exponent * log10(2) : NAN;
        RS_TRY(claim_median(report, text, published, expected_epsilon[i].mean,
                            expected_epsilon[i].deviation, draws, step_of(LAYERNORM, RELATIVE, i),
                            err));
    }
    return RS_OK;
}

static rs_status write_up(rs_lab_report *report, const rs_draws *draws, rs_error *err)
{
    RS_TRY(add_curves(report, draws, err));
    RS_TRY(rs_lab_statement(
        report, "a larger Lipschitz constant of the MLPs slows collapse, without norms", err));
    RS_TRY(claim_levels(report, draws, err));
    RS_TRY(claim_steps(report, draws, err));
    RS_TRY(rs_lab_statement(report, NULL, err));
    RS_TRY(claim_median(
        report, "no norm, MLPs x 2 to x 4: the same, less than the cubic law's 34.9 (median)", NAN,
        expected_last.mean, expected_last.deviation, draws, step_of(NONE, RELATIVE, STEPS - 1),
        err));
    RS_TRY(rs_lab_statement(
        report, "a larger Lipschitz constant of the MLPs slows collapse, behind LayerNorm", err));
    return claim_normed(report, draws, err);
}

static rs_status run_dong_lipschitz(rs_lab_report *report, const rs_lab_options *options,
                                    const rs_context *context, rs_error *err)
{
    const rs_draws_plan plan = {.cells = CELLS, .stream = STREAM, .one = one_draw};
    return rs_collapse_experiment(report, &plan, write_up, options, context, err);
}

const rs_lab_experiment rs_lab_dong_lipschitz = {
    "dong-lipschitz",
    "Steeper MLPs and the rate",
    "Dong et al. 2021, MLPs",
    "Five layers of attention and a ReLU MLP without skips, the MLPs' Lipschitz constants times "
    "1/4 "
    "to 4, in the residual precision: how far apart the tokens are left, without norms and behind "
    "LayerNorm. After Dong, Cordonnier, Loukas, ICML 2021 (arXiv 2103.03404), on MLPs.",
    run_dong_lipschitz,
    "1 s",
    "< 1 s",
    &table_kind,
    0};
