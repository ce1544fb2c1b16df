/*
 * gap_training.c: training with the outlying singular value of attention and without it (Nait Saada,
 * Naderi, Tanner, ICML 2025, arXiv 2410.07799): layers without MLP learn a map of each entry, with A and
 * with A - 11^T/T, with skips and norms and without, 1, 2 and 5 layers deep (docs/theory/mean_field.md, 8).
 */
#include "lab/losses.h"

#include <math.h>
#include <stdio.h>

enum { ARCHITECTURES = 4, DEPTHS = 3, RECIPES = 2 * ARCHITECTURES * DEPTHS };
enum { STEPS = 400, QUICK_STEPS = 50, EVERY = 25, LOGS = STEPS / EVERY + 1 };
enum { START, CONSTANT, SEEN }; /* what is seen of a run */

/* Two recipes each: as it is, and without the gap. */
#define WITHOUT ", 'attention': 'centred'"
#define ONE(label, depth, fields, ...)                                                             \
    {                                                                                              \
        .name = label, .model = ", 'depth': " #depth fields, .optimizer = "", .task = "",          \
        .rates = __VA_ARGS__                                                                       \
    }
#define PAIR(label, depth, fields, ...)                                                            \
    ONE(label ", " #depth " deep", depth, fields, __VA_ARGS__),                                    \
        ONE(label ", " #depth " deep, gap removed", depth, fields WITHOUT, __VA_ARGS__)
#define DEEP(label, fields)                                                                        \
    PAIR(label, 1, fields, {1e-3, 3e-3, 1e-2, 3e-2}),                                              \
        PAIR(label, 2, fields, {1e-3, 3e-3, 1e-2, 3e-2}),                                          \
        PAIR(label, 5, fields, {1e-3, 3e-3, 1e-2, 3e-2})
#define NO_SKIP ", 'skip_mixer': 0"
static const rs_lab_recipe recipes[RECIPES] = {
    DEEP("neither", ", 'norm': 'none'" NO_SKIP), DEEP("norm", ", 'norm': 'post'" NO_SKIP),
    DEEP("skip", ", 'norm': 'none'"), DEEP("skip and norm", ", 'norm': 'post'")};
static const rs_lab_recipe quick_recipes[] = {PAIR("norm", 5, ", 'norm': 'post'" NO_SKIP, {1e-2}),
                                              PAIR("skip and norm", 5, ", 'norm': 'post'", {1e-2})};

static void see(rs_grid_run *run, const rs_result *result)
{
    double residual[LOGS] = {NAN};
    rs_lab_last_layer(residual, LOGS, result, "relative_residual");
    run->seen[START] = residual[0];
    run->seen[CONSTANT] = rs_lab_mark(result, "best constant");
}

/* ---- tables and the figure ---- */

const rs_table_kind rs_lab_gap_ways_kind = {
    "lab", "gap_training_ways", {{rs_loss_columns, RS_LOSS_COLUMNS, NULL}}};
static const rs_column shown[SEEN] = {
    RS_LAB_SEEN(START, "residual", "residual at the start",
                "relative_residual of the tokens behind the last layer, before training"),
    RS_LAB_SEEN(CONSTANT, "best_constant", "best constant", "loss that it leaves"),
};
const rs_table_kind rs_lab_gap_runs_kind = {
    "lab", "gap_training_runs", {{rs_lab_run_columns, RS_LAB_RUN_COLUMNS, NULL}, RS_PART(shown)}};

static const rs_column point_columns[] =
    RS_LAB_POINTS(RS_LAB_X_WHOLE("step", "step", "steps that were made"),
                  RS_LAB_Y("loss", "loss over that of the best constant",
                           "running mean of the squared error, mean over seeds"));
static const rs_table_kind table_kind = {"lab", "gap_training", {RS_PART(point_columns)}};
static const rs_lab_curves curves = {
    .kind = &table_kind,
    .title = "Learning a map of each entry, with the gap and without",
    .about = "The squared error of five layers of attention that learn Heaviside's step of each "
             "entry, over what the best constant leaves, with A and with A - 11'/T, each at the "
             "best of its rates, mean over seeds.",
};

static rs_status draw(rs_lab_report *report, const rs_losses *all, rs_error *err)
{
    rs_table *table = NULL;
    RS_TRY(rs_lab_curves_open(&table, report, &curves, err));
    int group =
        all->grid.n_recipes < RECIPES ? 2 : 2 * DEPTHS; /* of which the last two are deepest */
    for (int r = 0; r < all->grid.n_recipes; r++)
        if (r % group >= group - 2) RS_TRY(rs_losses_draw(table, all, r, err));
    /* E x H(x) = 1/sqrt(2 pi): of the variance 1/4 the best linear answer leaves 1/4 - 1/(2 pi) */
    for (int end = 0; end < 2; end++)
        RS_TRY(rs_lab_curves_compute(table, "best linear answer", end * all->grid.steps,
                                     1 - 2 / acos(-1), err));
    return RS_OK;
}

/* ---- claims ---- */

/* Published: without the gap it trains better. */
static rs_status claim_orders(rs_lab_report *report, const rs_losses *all, rs_error *err)
{
    for (int r = 0; r < RECIPES && all->grid.n_recipes == RECIPES; r += 2) {
        char text[120];
        snprintf(text, sizeof text, "%s: share of the loss that removing the gap takes away",
                 all->grid.recipes[r].name);
        RS_TRY(rs_losses_share(report, all, text, r, r + 1, err));
    }
    return RS_OK;
}

/* Five layers with a norm and no skip, where tokens are equal at the start unless the gap goes, and nothing
 * is learnt either way. */
static rs_status claim_five(rs_lab_report *report, const rs_losses *all, rs_error *err)
{
    int five = all->grid.n_recipes < RECIPES ? 0 : 4 * DEPTHS - 2;
    RS_TRY(rs_lab_at_most(report, "norm, 5 deep: residual of the tokens at the start, mean",
                          rs_losses_mean(all, five, START), 0.05, err));
    RS_TRY(rs_lab_at_most(report, "norm, 5 deep, gap removed: 1 less that residual, mean",
                          1 - rs_losses_mean(all, five + 1, START), 0.1, err));
    return rs_lab_at_most(
        report, "norm, 5 deep, gap or none: how far the loss ends from the best constant's",
        fmax(fabs(all->way[five].of.mean - 1), fabs(all->way[five + 1].of.mean - 1)), 0.05, err);
}

static rs_status report_all(rs_lab_report *report, const rs_losses *all, rs_error *err)
{
    RS_TRY(draw(report, all, err));
    RS_TRY(rs_losses_table(report, all, rs_lab_gap_ways_kind.name, err));
    RS_TRY(rs_lab_grid_table(report, &all->grid, rs_lab_gap_runs_kind.name, NAN, err));
    RS_TRY(claim_five(report, all, err));
    return claim_orders(report, all, err);
}

static rs_status run_gap_training(rs_lab_report *report, const rs_lab_options *options,
                                  const rs_context *context, rs_error *err)
{
    bool quick = options->quick;
    const double constant = 128 * 32 / 4.0;
    rs_losses all = {.lost = constant, .unit = constant};
    all.grid = (rs_lab_grid){.experiment = report->experiment,
                             .kept = options->kept,
                             .task = "'task': 'entrywise', 'data': {'length': 128, 'width': 32}",
                             .model = "'d_model': 32, 'heads': 1",
                             .recipes = quick ? quick_recipes : recipes,
                             .n_recipes = quick ? 4 : RECIPES,
                             .seeds = rs_lab_seeds(options, RS_LOSS_SEEDS),
                             .steps = quick ? QUICK_STEPS : STEPS,
                             .every = EVERY,
                             .n_seen = SEEN,
                             .shown = shown,
                             .n_shown = SEEN,
                             .see = see};
    return rs_losses_run(&all, report, options, report_all,
                         "2 architectures of 4, 5 layers alone, 1 rate of 4, 1 seed of 5, 50 "
                         "steps of 400, and no orders",
                         context, err);
}

const rs_lab_experiment rs_lab_gap_training = {
    "gap-training",
    "Training without the spectral gap",
    "Nait Saada et al. 2025, training",
    "Attention without MLP learns Heaviside's step of each of 128 x 32 numbers: with A and with "
    "A - 11'/T, with a skip, a norm behind, both and neither, 1, 2 and 5 layers; four learning "
    "rates each, five seeds, 400 steps. After Nait Saada, Naderi, Tanner, ICML 2025 (arXiv "
    "2410.07799).",
    run_gap_training,
    "320 s",
    "3 s",
    &table_kind,
    0};
