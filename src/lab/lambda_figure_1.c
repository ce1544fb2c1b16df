/*
 * lambda_figure_1.c: how far apart tokens are behind every layer of a model without gates, for several
 * skip strengths: figure 1 of Arangath Joseph, Sieber, Zeilinger, Amo Alonso 2025 (arXiv 2410.10609),
 * of Mamba-2 2.7b.
 *
 * Random Mamba-2 layers do not collapse at any strength (docs/theory/ssm.md, 12): what the figure shows
 * is a property of trained weights, which --model judges.
 */
#include "lab/lambda_layers.h"

#include <math.h>
#include <stdio.h>

enum { SKIPS = 10, STATES = RS_LAYER_LINES_STATES };
static const double skips[SKIPS] = {-20, -10, -1, 0, 0.5, 1, 2, 5, 10, 20};
static const char *const series[SKIPS] = {"skip -20", "skip -10", "skip -1", "skip 0",  "skip 0.5",
                                          "skip 1",   "skip 2",   "skip 5",  "skip 10", "skip 20"};
/* where the published curves are at 0, and where they are flat */
static const double small[] = {0.5, 1}, large[] = {-20, -10, 10, 20};

/* tests/oracle/lab_lambda_figures.py: residual over norm behind 1, 8, 32 and 64 layers, mean and
 * standard deviation over draws. */
static const double expected[SKIPS][STATES][2] = {
    {{0.88751, 0.01612}, {0.88751, 0.01611}, {0.88751, 0.01611}, {0.88751, 0.01611}},
    {{0.88754, 0.01613}, {0.88755, 0.01612}, {0.88755, 0.01612}, {0.88755, 0.01612}},
    {{0.88677, 0.02015}, {0.88539, 0.02754}, {0.88471, 0.03511}, {0.88309, 0.03951}},
    {{0.88131, 0.03210}, {0.86643, 0.06158}, {0.86301, 0.06336}, {0.86608, 0.05987}},
    {{0.88333, 0.02617}, {0.87326, 0.05768}, {0.86952, 0.06015}, {0.87072, 0.05937}},
    {{0.88538, 0.02105}, {0.88134, 0.03196}, {0.87927, 0.03796}, {0.87596, 0.04160}},
    {{0.88663, 0.01791}, {0.88621, 0.01845}, {0.88621, 0.01845}, {0.88621, 0.01845}},
    {{0.88722, 0.01654}, {0.88716, 0.01659}, {0.88716, 0.01659}, {0.88716, 0.01659}},
    {{0.88736, 0.01628}, {0.88735, 0.01629}, {0.88735, 0.01629}, {0.88735, 0.01629}},
    {{0.88742, 0.01619}, {0.88741, 0.01620}, {0.88741, 0.01620}, {0.88741, 0.01620}}};
/* The same for one network whose numbers are a hash of their index. */
static const double expected_hashed[SKIPS][STATES] = {
    {0.8847826654, 0.8847988756, 0.8847988756, 0.8847988756},
    {0.8849891118, 0.8850535660, 0.8850535660, 0.8850535660},
    {0.8935122211, 0.9042989048, 0.8994574970, 0.8671236601},
    {0.9111862676, 0.9373284181, 0.9024438622, 0.9067898823},
    {0.8977104531, 0.8402654146, 0.9115997011, 0.8782715399},
    {0.8893876379, 0.8759871605, 0.8060914900, 0.7868705423},
    {0.8854597603, 0.8853776221, 0.8853932324, 0.8853932324},
    {0.8844368375, 0.8845079841, 0.8845079933, 0.8845079933},
    {0.8844364692, 0.8844589891, 0.8844589892, 0.8844589892},
    {0.8845056307, 0.8845115906, 0.8845115906, 0.8845115906}};

/* The sweep of the figure; gates are off where there are any. */
static rs_sweep_spec sweep_of(rs_sweep_switch gate)
{
    return (rs_sweep_spec){.n = SKIPS, .lambdas = skips, .gate = gate, .norm = RS_SWEEP_ON};
}

/* ---- what came out ---- */

static const rs_column point_columns[] =
    RS_LAB_POINTS(RS_LAB_X_STATE, RS_LAB_Y("relative_residual", "residual over norm",
                                           "|X - 1x|_F/|X|_F, x the mean token; series says the "
                                           "skip strength; mean over draws or samples"));
static const rs_table_kind table_kind = {"lab", "lambda_figure_1", {RS_PART(point_columns)}};
static const rs_lab_curves curves = {
    .kind = &table_kind,
    .title = "Skip strengths, layer by layer, without gates",
    .about =
        "Residual over norm behind every layer of a model without its gates, by skip strength: "
        "0 where all tokens are equal. Random Mamba-2 layers, unless --model gave another.",
};

static const rs_layer_lines lines = {
    .id = "lambda-figure-1",
    .stream = 0x66696731,
    .curves = &curves,
    .n = SKIPS,
    .series = series,
    .claims = {"skip strength -20", "skip strength -10", "skip strength -1", "skip strength 0",
               "skip strength 0.5", "skip strength 1", "skip strength 2", "skip strength 5",
               "skip strength 10", "skip strength 20"},
    .expected = expected,
    .hashed = expected_hashed};

static int32_t point_of(double skip)
{
    int32_t i = 0;
    while (skips[i] != skip)
        i++;
    return i;
}

/* The largest change since the first state. */
static double change(const rs_strengths_states *found, int32_t point)
{
    double most = 0;
    for (int32_t l = 1; l <= found->layers; l++) {
        double step =
            fabs(rs_strengths_left(found, 0, point, l) - rs_strengths_left(found, 0, point, 0));
        if (!(step <= most)) most = step; /* NaN stays */
    }
    return most;
}

/* found: NULL where nothing is there to be judged. */
static rs_status claim_published(rs_strengths_judge *judge, const rs_strengths_states *found,
                                 rs_error *err)
{
    char text[120];
    for (size_t i = 0; i < sizeof small / sizeof *small; i++) {
        double last = found ? rs_strengths_left(found, 0, point_of(small[i]), found->layers) : NAN;
        snprintf(text, sizeof text, "trained, skip strength %g: residual over norm at the end",
                 small[i]);
        RS_TRY(rs_strengths_published(judge, text, 0, last, 0.05, err));
    }
    for (size_t i = 0; i < sizeof large / sizeof *large; i++) {
        double most = found ? change(found, point_of(large[i])) : NAN;
        snprintf(text, sizeof text,
                 "trained, skip strength %g: largest change of residual over norm over the layers",
                 large[i]);
        RS_TRY(rs_strengths_published(judge, text, 0, most, 0.1, err));
    }
    return RS_OK;
}

static rs_status run_model(rs_lab_report *report, rs_strengths_judge *judge,
                           const rs_lab_model *model, const rs_context *context, rs_error *err)
{
    bool gated = rs_strengths_gated(model->network);
    rs_strengths_states found = {.spec = sweep_of(gated ? RS_SWEEP_OFF : RS_SWEEP_ON)};
    RS_TRY(rs_strengths_run_model(&found, model, context, err));
    rs_status status = rs_layer_lines_show(report, &lines, &found, err);
    if (status == RS_OK) status = claim_published(judge, &found, err);
    rs_strengths_close(&found);
    return status;
}

static rs_status run_lambda_figure_1(rs_lab_report *report, const rs_lab_options *options,
                                     const rs_context *context, rs_error *err)
{
    rs_strengths_judge judge = rs_strengths_judge_of(report, options->model);
    if (options->model) {
        RS_TRY(run_model(report, &judge, options->model, context, err));
    } else {
        const rs_sweep_spec spec = sweep_of(RS_SWEEP_OFF);
        RS_TRY(rs_layer_lines_draw(report, &lines, &spec, options, context, err));
        RS_TRY(claim_published(&judge, NULL, err));
    }
    return rs_strengths_say(&judge, options, err);
}

const rs_lab_experiment rs_lab_lambda_figure_1 = {
    "lambda-figure-1",
    "Skip strengths, layer by layer",
    "Arangath Joseph et al. 2025, figure 1",
    "The residual over the norm behind every layer of a model without its gates, for skip "
    "strengths "
    "from -20 to 20: of the model that --model names, whose claims are the paper's, or of 64 "
    "random "
    "Mamba-2 layers, which do not collapse. Arangath Joseph, Sieber, Zeilinger, Amo Alonso, ICLR "
    "2025 (arXiv 2410.10609).",
    run_lambda_figure_1,
    "2 s",
    "< 1 s",
    &table_kind,
    1};
