/*
 * lambda_figure_3.c: gates and norms of blocks taken away, one, the other and both: figure 3 of
 * Arangath Joseph, Sieber, Zeilinger, Amo Alonso 2025 (arXiv 2410.10609), of Mamba-2 2.7b with its
 * skip strength of 1.
 *
 * Norms inside of mixers stay, as they do under --no-norm. Of random layers none of the four collapses
 * (docs/theory/ssm.md, 12): what the figure shows is a property of trained weights.
 */
#include "lab/lambda_layers.h"

#include <math.h>
#include <stdio.h>

enum { SETTINGS = 4, STATES = RS_LAYER_LINES_STATES };
/* in the order of rs_sweep_states */
enum { FULL, NO_NORM, NO_GATE, NEITHER };
static const char *const series[SETTINGS] = {"gate and norm", "gate, no norm", "norm, no gate",
                                             "no gate, no norm"};
static const double skip_of_1[] = {1};

/* tests/oracle/lab_lambda_figures.py: residual over norm behind 1, 8, 32 and 64 layers, mean and
 * standard deviation over draws. */
static const double expected[SETTINGS][STATES][2] = {
    {{0.90802, 0.01527}, {0.95461, 0.00951}, {0.97747, 0.00484}, {0.98292, 0.00339}},
    {{0.90802, 0.01527}, {0.95227, 0.01020}, {0.96732, 0.00739}, {0.96460, 0.00700}},
    {{0.88538, 0.02105}, {0.88134, 0.03196}, {0.87927, 0.03796}, {0.87596, 0.04160}},
    {{0.88538, 0.02105}, {0.87347, 0.03257}, {0.83724, 0.04058}, {0.81187, 0.03943}}};
/* The same for one network whose numbers are a hash of their index. */
static const double expected_hashed[SETTINGS][STATES] = {
    {0.9065231441, 0.9534343851, 0.9785726003, 0.9786874066},
    {0.9065231441, 0.9489923011, 0.9688439787, 0.9535222704},
    {0.8893876379, 0.8759871605, 0.8060914900, 0.7868705423},
    {0.8893876379, 0.8631172070, 0.7445881911, 0.6920113682}};

static const rs_sweep_spec all_settings = {
    .n = 1, .lambdas = skip_of_1, .gate = RS_SWEEP_BOTH, .norm = RS_SWEEP_BOTH};

/* ---- what came out ---- */

static const rs_column point_columns[] =
    RS_LAB_POINTS(RS_LAB_X_STATE, RS_LAB_Y("relative_residual", "residual over norm",
                                           "|X - 1x|_F/|X|_F, x the mean token; series says what "
                                           "was taken away; mean over draws or samples"));
static const rs_table_kind table_kind = {"lab", "lambda_figure_3", {RS_PART(point_columns)}};
static const rs_lab_curves curves = {
    .kind = &table_kind,
    .title = "Without gates, without norms",
    .about = "Residual over norm behind every layer, with and without the gates of mixers and the "
             "norms of blocks: 0 where all tokens are equal. Random Mamba-2 layers, unless --model "
             "gave another.",
};

static const rs_layer_lines lines = {
    .id = "lambda-figure-3",
    .stream = 0x66696733,
    .curves = &curves,
    .n = SETTINGS,
    .by_setting = true,
    .series = series,
    .claims = {"gate and norm", "gate, no norm", "norm, no gate", "no gate, no norm"},
    .expected = expected,
    .hashed = expected_hashed};

/* 1 where the last curve at least halves, and at least doubles from its lowest state to the end; NaN
 * where a state is not finite. */
static double drops_and_grows(const rs_strengths_states *found)
{
    double first = rs_strengths_left(found, NEITHER, 0, 0), least = first;
    double last = rs_strengths_left(found, NEITHER, 0, found->layers);
    for (int32_t l = 0; l <= found->layers; l++) {
        double here = rs_strengths_left(found, NEITHER, 0, l);
        if (!isfinite(here)) return NAN;
        least = fmin(least, here);
    }
    return least <= first / 2 && last >= 2 * least;
}

/* found: NULL where nothing is there to be judged. */
static rs_status claim_published(rs_strengths_judge *judge, const rs_strengths_states *found,
                                 rs_error *err)
{
    double full = found ? rs_strengths_left(found, FULL, 0, found->layers) : NAN;
    double bare = found ? rs_strengths_left(found, NO_GATE, 0, found->layers) : NAN;
    RS_TRY(rs_strengths_published(judge, "trained, gate and norm: residual over norm at the end", 1,
                                  full, 0.1, err));
    RS_TRY(rs_strengths_published(judge, "trained, norm and no gate: residual over norm at the end",
                                  0, bare, 0.05, err));
    return rs_strengths_published(
        judge,
        "trained, no gate, no norm: it drops to a half or less, and grows "
        "from there to twice that or more (1: so)",
        1, found ? drops_and_grows(found) : NAN, 0.5, err);
}

/* A model without gates has the two curves with them; its claims are skipped. */
static rs_status run_model(rs_lab_report *report, rs_strengths_judge *judge,
                           const rs_lab_model *model, const rs_context *context, rs_error *err)
{
    rs_strengths_states found = {.spec = all_settings};
    bool gated = rs_strengths_gated(model->network);
    if (!gated) found.spec.gate = RS_SWEEP_ON;
    if (!gated && !judge->reason) judge->reason = "the model has no gate that could be taken away";
    RS_TRY(rs_strengths_run_model(&found, model, context, err));
    rs_status status = rs_layer_lines_show(report, &lines, &found, err);
    if (status == RS_OK) status = claim_published(judge, gated ? &found : NULL, err);
    rs_strengths_close(&found);
    return status;
}

static rs_status run_lambda_figure_3(rs_lab_report *report, const rs_lab_options *options,
                                     const rs_context *context, rs_error *err)
{
    rs_strengths_judge judge = rs_strengths_judge_of(report, options->model);
    if (options->model) {
        RS_TRY(run_model(report, &judge, options->model, context, err));
    } else {
        RS_TRY(rs_layer_lines_draw(report, &lines, &all_settings, options, context, err));
        RS_TRY(claim_published(&judge, NULL, err));
    }
    return rs_strengths_say(&judge, options, err);
}

const rs_lab_experiment rs_lab_lambda_figure_3 = {
    "lambda-figure-3",
    "Without gates, without norms",
    "Arangath Joseph et al. 2025, figure 3",
    "The residual over the norm behind every layer with and without the gates of mixers and the "
    "norms of blocks: of the model that --model names, whose claims are the paper's, or of 64 "
    "random "
    "Mamba-2 layers, which collapse in none of the four ways. Arangath Joseph, Sieber, Zeilinger, "
    "Amo Alonso, ICLR 2025 (arXiv 2410.10609).",
    run_lambda_figure_3,
    "1 s",
    "< 1 s",
    &table_kind,
    1};
