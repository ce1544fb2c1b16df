/*
 * lambda_figure_2.c: how far apart tokens are behind the last layer, by skip strength of either sign:
 * figure 2 of Arangath Joseph, Sieber, Zeilinger, Amo Alonso 2025 (arXiv 2410.10609); and in place of
 * its trained model two stacks of random Mamba-2 layers with a norm behind every sum, and two of the
 * paper's own simplified layer, M_ij = decay^(i-j) cos(y_i, y_j), whose tokens have positive cosines.
 *
 * The simplified layers have no point at -1: there skip + M_11 is 0, the first token vanishes, then
 * the second, and what is left after 64 layers hangs on eps and on rounding.
 */
#include "lab/lambda_figures.h"
#include "lab/post_norm.h"

#include "base/memory.h"

#include <math.h>
#include <stdio.h>

enum {
    SIZE = RS_STRENGTHS_SIZE,
    SKIPS = 13,
    SURE = 16,  /* layers behind which the network from a hash is compared: then rounding grows */
    FEW = 32,   /* tokens of the selective layer */
    NARROW = 16 /* its features */
};
enum { BARE, WHOLE, SLOW, FAST, STACKS, MAMBAS = SLOW };
static const char *const series[STACKS] = {"Mamba-2, no gate, no inner norm", "Mamba-2",
                                           "selective, decay 0.9", "selective, decay 0.5"};
static const double decays[STACKS] = {NAN, NAN, 0.9, 0.5};
static const double skips[SKIPS] = {-20, -10, -5, -2, -1, -0.5, 0, 0.5, 1, 2, 5, 10, 20};
static const double singular = -1; /* of the selective layers */
static const double selective_eps = 1e-12;

/* tests/oracle/lab_lambda_figures.py: residual over norm behind 64 layers, of the selective layers its
 * log10; mean and standard deviation over draws. */
static const double expected[STACKS][SKIPS][2] = {{{0.88752, 0.01610},
                                                   {0.88755, 0.01612},
                                                   {0.88755, 0.01632},
                                                   {0.88706, 0.01802},
                                                   {0.88493, 0.02335},
                                                   {0.87731, 0.03788},
                                                   {0.86597, 0.05994},
                                                   {0.87129, 0.04184},
                                                   {0.88114, 0.02671},
                                                   {0.88527, 0.01935},
                                                   {0.88687, 0.01675},
                                                   {0.88721, 0.01632},
                                                   {0.88735, 0.01620}},
                                                  {{0.89184, 0.01597},
                                                   {0.90383, 0.01513},
                                                   {0.93907, 0.01121},
                                                   {0.98857, 0.00205},
                                                   {0.98961, 0.00191},
                                                   {0.98912, 0.00243},
                                                   {0.98892, 0.00256},
                                                   {0.98943, 0.00222},
                                                   {0.98954, 0.00196},
                                                   {0.98863, 0.00214},
                                                   {0.93902, 0.01038},
                                                   {0.90364, 0.01444},
                                                   {0.89172, 0.01561}},
                                                  {{-0.01364, 0.00095},
                                                   {-0.01103, 0.00138},
                                                   {-0.00509, 0.00138},
                                                   {-0.00684, 0.00177},
                                                   {NAN, NAN},
                                                   {-12.45971, 0.00001},
                                                   {-13.05614, 0.00004},
                                                   {-11.84415, 0.13015},
                                                   {-9.45416, 0.13027},
                                                   {-6.79269, 0.13027},
                                                   {-3.80575, 0.13008},
                                                   {-2.33989, 0.12764},
                                                   {-1.52816, 0.11191}},
                                                  {{-0.05845, 0.00143},
                                                   {-0.04100, 0.00130},
                                                   {-0.03131, 0.00131},
                                                   {-0.02077, 0.00146},
                                                   {NAN, NAN},
                                                   {-8.27011, 0.12312},
                                                   {-3.79788, 0.11307},
                                                   {-2.21051, 0.10222},
                                                   {-1.48952, 0.09244},
                                                   {-0.91990, 0.07756},
                                                   {-0.64072, 0.06153},
                                                   {-0.64650, 0.05297},
                                                   {-0.65124, 0.03967}}};
/* The same behind SURE layers for one network whose numbers are a hash of their index. */
static const double expected_hashed[MAMBAS][SKIPS] = {
    {0.8845526087, 0.8844791838, 0.8843199276, 0.8837920563, 0.8831536436, 0.8854777977,
     0.8944651400, 0.8518995281, 0.8739820060, 0.8809596017, 0.8835336541, 0.8841357660,
     0.8843925049},
    {0.8842878501, 0.8861089356, 0.8956729001, 0.9480741207, 0.9882347286, 0.9897481256,
     0.9891581807, 0.9877900392, 0.9884889754, 0.9534551076, 0.8981700597, 0.8867067664,
     0.8843800649}};

/* One strength of one stack over the draws. */
typedef struct cell {
    double sum, squares, log10_sum; /* of the residual over the norm */
} cell;

typedef struct strengths_found {
    int32_t draws;
    cell cells[STACKS][SKIPS];
    double hashed[MAMBAS][SKIPS];
    double tokens[SIZE * SIZE];
} strengths_found;

static bool has_point(int stack, int s)
{
    return stack < MAMBAS || skips[s] != singular;
}

static rs_strengths_states strengths_of(bool gate)
{
    return (rs_strengths_states){.spec = {.n = SKIPS,
                                          .lambdas = skips,
                                          .gate = gate ? RS_SWEEP_ON : RS_SWEEP_OFF,
                                          .norm = RS_SWEEP_ON}};
}

/* ---- random weights ---- */

static rs_status run_mamba(rs_strengths_states *found, strengths_found *f, int stack, uint64_t seed,
                           bool hashed, const rs_context *context, rs_error *err)
{
    rs_toy toy;
    *found = strengths_of(stack != BARE);
    found->no_inner_norm = stack == BARE;
    RS_TRY(rs_strengths_mamba2(&toy, "post", seed, context, err));
    rs_status status = hashed ? rs_strengths_hash_weights(&toy, err) : RS_OK;
    if (hashed) toy.network->n_layers = SURE;
    if (status == RS_OK) status = rs_strengths_run_toy(found, &toy, f->tokens, SIZE, err);
    rs_toy_close(&toy);
    return status;
}

static rs_status run_selective(rs_strengths_states *found, strengths_found *f, int stack,
                               const rs_context *context, rs_error *err)
{
    rs_toy toy;
    *found = strengths_of(true);
    RS_TRY(rs_post_norm_selective(&toy, SIZE, NARROW, decays[stack], context, err));
    for (int32_t l = 0; l < SIZE; l++)
        toy.network->layers[l].branches[0].after.eps = selective_eps;
    rs_status status = rs_strengths_run_toy(found, &toy, f->tokens, FEW, err);
    rs_toy_close(&toy);
    return status;
}

static void draw_positive(double *x, rs_random *random)
{
    rs_draw_gaussian(x, FEW * NARROW, 1, random);
    for (int i = 0; i < FEW; i++, x += NARROW) {
        double length = rs_norm_frobenius(x, 1, NARROW) / sqrt(NARROW);
        for (int k = 0; k < NARROW; k++)
            x[k] = fabs(x[k]) / length;
    }
}

static rs_status one_draw(strengths_found *f, int stack, int32_t draw, const rs_context *context,
                          rs_error *err)
{
    rs_strengths_states found;
    uint64_t seed = rs_strengths_seed(context, draw);
    rs_random random = rs_random_new(seed, 0x66696732 + (uint64_t)stack);
    if (stack < MAMBAS) {
        rs_strengths_tokens(f->tokens, &random);
        RS_TRY(run_mamba(&found, f, stack, seed + (uint64_t)stack, false, context, err));
    } else {
        draw_positive(f->tokens, &random);
        RS_TRY(run_selective(&found, f, stack, context, err));
    }
    for (int s = 0; s < SKIPS; s++) {
        double left = rs_strengths_left(&found, 0, s, SIZE);
        f->cells[stack][s].sum += left;
        f->cells[stack][s].squares += left * left;
        f->cells[stack][s].log10_sum += log10(left);
    }
    rs_strengths_close(&found);
    return RS_OK;
}

static rs_status measure_draws(strengths_found *f, const rs_context *context, rs_error *err)
{
    for (int stack = 0; stack < STACKS; stack++)
        for (int32_t i = 0; i < f->draws; i++) {
            rs_progress(context, "lambda-figure-2", (uint64_t)(stack * f->draws + i),
                        (uint64_t)(STACKS * f->draws), "networks");
            RS_TRY(one_draw(f, stack, i, context, err));
        }
    rs_strengths_hash_tokens(f->tokens);
    for (int stack = 0; stack < MAMBAS; stack++) {
        rs_strengths_states found;
        RS_TRY(run_mamba(&found, f, stack, 0, true, context, err));
        for (int s = 0; s < SKIPS; s++)
            f->hashed[stack][s] = rs_strengths_left(&found, 0, s, SURE);
        rs_strengths_close(&found);
    }
    return RS_OK;
}

/* ---- what came out ---- */

static const rs_column point_columns[] =
    RS_LAB_POINTS(RS_LAB_X("skip_strength", "skip strength",
                           "the state becomes this times itself plus the branch"),
                  RS_LAB_Y("relative_residual", "residual over norm behind the last layer",
                           "|X - 1x|_F/|X|_F, x the mean token; mean over draws or samples"));
static const rs_table_kind table_kind = {"lab", "lambda_figure_2", {RS_PART(point_columns)}};
static const rs_lab_curves curves = {
    .kind = &table_kind,
    .title = "Skip strengths of either sign",
    .about = "Residual over norm behind the last layer, by skip strength: of random stacks with a "
             "norm behind every sum, or of the model that --model gave, without its gates.",
};

/* A row of table lambda_figure_2_cells. */
typedef struct cell_row {
    const char *series;
    double skip, mean, deviation;
    int64_t draws;
} cell_row;

static const rs_column cell_columns[] = {
    RS_COLUMN(cell_row, series, "series", "series", NULL, "which random layers", NULL),
    RS_COLUMN(cell_row, skip, "skip_strength", "skip strength", NULL,
              "the state becomes this times itself plus the branch", NULL),
    RS_COLUMN(cell_row, draws, "draws", "draws", NULL, "of weights and tokens", NULL),
    RS_COLUMN(cell_row, mean, "mean", "mean", NULL,
              "of the residual over the norm behind the last layer, over the draws", "measured"),
    RS_COLUMN(cell_row, deviation, "deviation", "deviation", NULL, "standard deviation of one draw",
              "measured"),
};
const rs_table_kind rs_lab_lambda_cells_kind = {
    "lab", "lambda_figure_2_cells", {RS_PART(cell_columns)}};

static rs_status add_cells(rs_lab_report *report, rs_table *points, const strengths_found *f,
                           rs_error *err)
{
    rs_table *table = NULL;
    double n = f->draws;
    RS_TRY(rs_result_add_table(report->result, rs_lab_lambda_cells_kind.name,
                               "Random layers at each skip strength",
                               "Mean and deviation over draws of weights and tokens.", cell_columns,
                               sizeof cell_columns / sizeof *cell_columns, &table, err));
    for (int stack = 0; stack < STACKS; stack++)
        for (int s = 0; s < SKIPS; s++) {
            const cell *c = &f->cells[stack][s];
            double mean = c->sum / n, square = (c->squares - n * mean * mean) / (n - 1);
            const cell_row row = {.series = series[stack],
                                  .skip = skips[s],
                                  .mean = mean,
                                  .deviation = sqrt(fmax(0, square)),
                                  .draws = f->draws};
            if (!has_point(stack, s)) continue;
            RS_TRY(rs_lab_curves_add(points, series[stack], skips[s], mean, err));
            RS_TRY(rs_table_append(table, &row, err));
        }
    return RS_OK;
}

static rs_status claim_cell(rs_lab_report *report, const strengths_found *f, int stack, int s,
                            rs_error *err)
{
    char text[120];
    const cell *c = &f->cells[stack][s];
    bool logs = stack >= MAMBAS;
    if (!has_point(stack, s)) return RS_OK;
    snprintf(text, sizeof text, "%s, skip strength %g: mean %sresidual over norm", series[stack],
             skips[s], logs ? "log10 of " : "");
    /* down to 1e-13, where float64 states leave three digits of what tells them apart */
    return rs_strengths_expect(report, text, expected[stack][s],
                               (logs ? c->log10_sum : c->sum) / f->draws, f->draws, logs ? 1e-3 : 0,
                               err);
}

static rs_status claim_draws(rs_lab_report *report, const strengths_found *f, rs_error *err)
{
    char text[120];
    for (int stack = 0; stack < STACKS; stack++) {
        double worst = 0;
        for (int s = 0; s < SKIPS; s++)
            RS_TRY(claim_cell(report, f, stack, s, err));
        if (stack >= MAMBAS) continue;
        for (int s = 0; s < SKIPS; s++)
            worst = fmax(worst, fabs(f->hashed[stack][s] - expected_hashed[stack][s]));
        snprintf(text, sizeof text, "%s, weights from a hash: largest error behind %d layers",
                 series[stack], (int)SURE);
        RS_TRY(rs_lab_at_most(report, text, worst, 1e-9, err));
    }
    return RS_OK;
}

static int32_t point_of(double skip)
{
    int32_t i = 0;
    while (skips[i] != skip)
        i++;
    return i;
}

static double last_of(const rs_strengths_states *found, double skip)
{
    return found ? rs_strengths_left(found, 0, point_of(skip), found->layers) : NAN;
}

/* found: NULL where nothing is there to be judged. */
static rs_status claim_published(rs_strengths_judge *judge, const rs_strengths_states *found,
                                 rs_error *err)
{
    static const double pairs[] = {1, 2, 5, 10, 20};
    double more = found ? 0 : NAN;
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        double excess = last_of(found, pairs[i]) - last_of(found, -pairs[i]);
        if (!(excess <= more)) more = excess; /* NaN stays */
    }
    RS_TRY(
        rs_strengths_published(judge,
                               "trained: by how much a positive strength leaves more of the norm "
                               "than the negative one, at most",
                               0, more, 0.02, err));
    RS_TRY(rs_strengths_published(judge,
                                  "trained: flat between skip strengths 10 and 20: difference", 0,
                                  last_of(found, 20) - last_of(found, 10), 0.05, err));
    return rs_strengths_published(judge,
                                  "trained: flat between skip strengths -10 and -20: difference", 0,
                                  last_of(found, -20) - last_of(found, -10), 0.05, err);
}

static rs_status run_draws(rs_lab_report *report, const rs_lab_options *options,
                           const rs_context *context, rs_error *err)
{
    rs_table *table = NULL;
    strengths_found *f = rs_calloc(1, sizeof *f);
    if (!f) return rs_fail_memory(err, "an experiment", sizeof *f);
    f->draws = options->quick ? RS_STRENGTHS_QUICK_DRAWS : RS_STRENGTHS_DRAWS;
    rs_status status = measure_draws(f, context, err);
    if (status == RS_OK) status = rs_lab_curves_open(&table, report, &curves, err);
    if (status == RS_OK) status = add_cells(report, table, f, err);
    if (status == RS_OK) status = claim_draws(report, f, err);
    rs_free(f);
    return status;
}

static rs_status run_model(rs_lab_report *report, rs_strengths_judge *judge,
                           const rs_lab_model *model, const rs_context *context, rs_error *err)
{
    rs_table *table = NULL;
    rs_strengths_states found = strengths_of(!rs_strengths_gated(model->network));
    RS_TRY(rs_strengths_run_model(&found, model, context, err));
    rs_status status = rs_lab_curves_open(&table, report, &curves, err);
    for (int s = 0; s < SKIPS && status == RS_OK; s++)
        status =
            rs_lab_curves_add(table, "model, no gate", skips[s], last_of(&found, skips[s]), err);
    if (status == RS_OK) status = claim_published(judge, &found, err);
    rs_strengths_close(&found);
    return status;
}

static rs_status run_lambda_figure_2(rs_lab_report *report, const rs_lab_options *options,
                                     const rs_context *context, rs_error *err)
{
    rs_strengths_judge judge = rs_strengths_judge_of(report, options->model);
    if (options->model) {
        RS_TRY(run_model(report, &judge, options->model, context, err));
    } else {
        RS_TRY(run_draws(report, options, context, err));
        RS_TRY(claim_published(&judge, NULL, err));
    }
    return rs_strengths_say(&judge, options, err);
}

const rs_lab_experiment rs_lab_lambda_figure_2 = {
    "lambda-figure-2",
    "Skip strengths of either sign",
    "Arangath Joseph et al. 2025, figure 2",
    "The residual over the norm behind the last layer for skip strengths from -20 to 20: of the "
    "model that --model names, without its gates, whose claims are the paper's, or of 64 random "
    "Mamba-2 layers and 64 of the paper's simplified selective layers, normed behind every sum. "
    "Arangath Joseph, Sieber, Zeilinger, Amo Alonso, ICLR 2025 (arXiv 2410.10609).",
    run_lambda_figure_2,
    "6 s",
    "1 s",
    &table_kind,
    1};
