/*
 * noci_table1_small.c: table 1 of Noci et al. (NeurIPS 2022, arXiv 2206.03126) at the size of a toy:
 * which optimiser trains which architecture. Five layers of one head, 16 wide, learn to put 20 digits
 * into the reverse order, every way with rates of its own, all for as many steps.
 */
#include "lab/runs.h"
#include "lab/toy.h"

#include <math.h>
#include <stdio.h>

enum { SGD_POST, SGD_SCALED, SGD_WARM, ADAM_POST, RECIPES, SEEDS = 5, STEPS = 1500, EVERY = 50 };
enum { QUICK_STEPS = 700 };
static const double chance = 0.1, enough = 0.9;

#define SGD ", 'kind': 'sgd', 'clip': 1"
#define SCALED ", 'norm': 'none', 'branch_mixer': '1/sqrt(L)', 'branch_mlp': '1/sqrt(L)'"
#define TRAINED ", 'trainable': ['branches']"
/* tau of the paper: logits times 8.5 in the end (signal_propagation A.7) */
#define WARM ", 'schedule': {'temperature': {'start': 1, 'final': 8.5, 'steps': 500}}"

static const rs_lab_recipe recipes[RECIPES] = {
    {"SGD, post-norm", "", SGD, "", {0.1, 0.3, 1}},
    {"SGD, 1/sqrt(L), no norm", SCALED, SGD, TRAINED, {0.1, 0.3, 1}},
    {"SGD, 1/sqrt(L), temperature", SCALED, SGD, TRAINED WARM, {0.1, 0.3, 1}},
    {"Adam, post-norm", "", "", "", {1e-3, 3e-3, 1e-2}},
};
static const rs_lab_recipe quick_recipes[] = {
    {"SGD, post-norm", "", SGD, "", {0.3}},
    {"SGD, 1/sqrt(L), no norm", SCALED, SGD, TRAINED, {0.3}},
};

/* ---- what became of a recipe at its best rate ---- */

typedef struct outcome {
    int rate;
    double accuracy[SEEDS], steps[SEEDS]; /* at the end; until it is enough */
    double least;                         /* of the accuracies */
} outcome;

static outcome outcome_of(const rs_lab_grid *grid, int recipe)
{
    outcome o = {.rate = rs_lab_grid_best(grid, recipe, chance, enough), .least = INFINITY};
    for (int s = 0; s < grid->seeds; s++) {
        const rs_grid_run *run = rs_lab_grid_run(grid, recipe, o.rate, s);
        o.accuracy[s] = isnan(run->diverged) ? run->eval_accuracy : chance;
        o.steps[s] = rs_lab_run_reaches(grid, run, enough);
        o.least = fmin(o.least, o.accuracy[s]);
    }
    return o;
}

/* ---- tables and the figure ---- */

const rs_table_kind rs_lab_noci_runs_kind = {
    "lab", "noci_table1_runs", {{rs_lab_run_columns, RS_LAB_RUN_COLUMNS, NULL}}};

/* A row of table noci_table1_recipes. */
typedef struct recipe_cells {
    const char *recipe;
    double rate, accuracy, accuracy_error, steps, steps_error;
    int64_t runs, diverged;
} recipe_cells;

#define CELL(member, title, formula)                                                               \
    RS_COLUMN(recipe_cells, member, #member, title, NULL, formula, "measured")
static const rs_column recipe_columns[] = {
    RS_COLUMN(recipe_cells, recipe, "recipe", "recipe", NULL, "how it was trained", NULL),
    RS_COLUMN(recipe_cells, rate, "learning_rate", "best rate", NULL,
              "of those tried: largest mean accuracy, then fewest steps", NULL),
    CELL(accuracy, "accuracy", "on data of its own at the end, mean over seeds at the best rate"),
    CELL(accuracy_error, "its error", "standard error over seeds"),
    CELL(steps, "steps to 0.9",
         "until the running mean of the accuracy is above 0.9, mean over "
         "seeds; all steps where it never is"),
    CELL(steps_error, "its error", "standard error over seeds"),
    RS_COLUMN(recipe_cells, runs, "runs", "runs", NULL, "at all rates", NULL),
    RS_COLUMN(recipe_cells, diverged, "diverged", "diverged", NULL,
              "of them: the loss or a gradient was no number", "measured"),
};
const rs_table_kind rs_lab_noci_recipes_kind = {
    "lab", "noci_table1_recipes", {RS_PART(recipe_columns)}};

static rs_status add_recipes(rs_lab_report *report, const rs_lab_grid *grid, const outcome *of,
                             rs_error *err)
{
    rs_table *table = NULL;
    RS_TRY(rs_result_add_table(report->result, rs_lab_noci_recipes_kind.name, "Ways to train",
                               "What each came to at the best of its rates.", recipe_columns,
                               sizeof recipe_columns / sizeof *recipe_columns, &table, err));
    for (int r = 0; r < grid->n_recipes; r++) {
        const rs_lab_spread a = rs_lab_spread_of(of[r].accuracy, grid->seeds);
        const rs_lab_spread t = rs_lab_spread_of(of[r].steps, grid->seeds);
        const recipe_cells cells = {.recipe = grid->recipes[r].name,
                                    .rate = grid->recipes[r].rates[of[r].rate],
                                    .accuracy = a.mean,
                                    .accuracy_error = a.error,
                                    .steps = t.mean,
                                    .steps_error = t.error,
                                    .runs = rs_lab_grid_rates(grid, r) * grid->seeds,
                                    .diverged = rs_lab_grid_diverged(grid, r)};
        RS_TRY(rs_table_append(table, &cells, err));
    }
    return RS_OK;
}

static const rs_column point_columns[] =
    RS_LAB_POINTS(RS_LAB_X_WHOLE("step", "step", "steps that were made"),
                  RS_LAB_Y("accuracy", "accuracy",
                           "share of digits that are right, running mean, mean over seeds"));
static const rs_table_kind table_kind = {"lab", "noci_table1_small", {RS_PART(point_columns)}};
static const rs_lab_curves curves = {
    .kind = &table_kind,
    .title = "Reversing 20 digits",
    .about = "The accuracy while five layers learn to reverse 20 digits, each way at the best of "
             "its learning rates, mean over seeds. 0.1 is chance.",
};

static rs_status draw(rs_lab_report *report, const rs_lab_grid *grid, const outcome *of,
                      rs_error *err)
{
    rs_table *table = NULL;
    RS_TRY(rs_lab_curves_open(&table, report, &curves, err));
    for (int r = 0; r < grid->n_recipes; r++) {
        const rs_grid_run *first = rs_lab_grid_run(grid, r, of[r].rate, 0);
        for (int i = 0; i < first->logs; i++) {
            double mean = 0;
            for (int s = 0; s < grid->seeds; s++) {
                const rs_grid_run *run = rs_lab_grid_run(grid, r, of[r].rate, s);
                mean += (i < run->logs ? run->accuracy[i] : chance) / grid->seeds;
            }
            RS_TRY(rs_lab_curves_add(table, grid->recipes[r].name, first->step[i], mean, err));
        }
    }
    return RS_OK;
}

/* ---- claims ---- */

/* That one takes fewer steps than the other, whichever it is: nothing is presumed of these two. */
static rs_status claim_sooner(rs_lab_report *report, const rs_lab_grid *grid, const outcome *of,
                              int a, int b, rs_error *err)
{
    double by[SEEDS];
    char text[160];
    for (int s = 0; s < grid->seeds; s++)
        by[s] = of[b].steps[s] - of[a].steps[s];
    const rs_lab_spread d = rs_lab_spread_of(by, grid->seeds);
    snprintf(text, sizeof text, "steps by which '%s' learns sooner than '%s'",
             grid->recipes[d.mean < 0 ? b : a].name, grid->recipes[d.mean < 0 ? a : b].name);
    return rs_lab_order(report, text, fabs(d.mean), rs_lab_order_error(d), err);
}

/* Published: SGD trains post-norm worst of all, 1/sqrt(L) without norms does it, and temperature adds
 * to that what Adam has over it. */
static rs_status claim_all(rs_lab_report *report, const rs_lab_grid *grid, const outcome *of,
                           rs_error *err)
{
    double by[SEEDS];
    for (int s = 0; s < grid->seeds; s++)
        by[s] = of[SGD_SCALED].accuracy[s] - of[SGD_POST].accuracy[s];
    const rs_lab_spread d = rs_lab_spread_of(by, grid->seeds),
                        post = rs_lab_spread_of(of[SGD_POST].accuracy, grid->seeds);
    RS_TRY(rs_lab_order_published(
        report, "SGD, post-norm: accuracy at the end below 0.4, best rate, mean of seeds, by",
        0.4 - post.mean, rs_lab_order_error(post), err));
    RS_TRY(rs_lab_at_most(report, "SGD, 1/sqrt(L), no norm: share that is wrong, worst seed",
                          1 - of[SGD_SCALED].least, 0.02, err));
    double latest = 0;
    for (int s = 0; s < grid->seeds; s++)
        latest = fmax(latest, of[SGD_SCALED].steps[s]);
    RS_TRY(rs_lab_at_most(report, "SGD, 1/sqrt(L), no norm: steps to 0.9, latest seed", latest,
                          grid->steps - EVERY, err));
    if (grid->n_recipes < RECIPES) return RS_OK;
    RS_TRY(rs_lab_order_published(report, "accuracy that SGD gains by 1/sqrt(L) without norms",
                                  d.mean, rs_lab_order_error(d), err));
    RS_TRY(rs_lab_at_most(report, "Adam, post-norm: share that is wrong, worst seed",
                          1 - of[ADAM_POST].least, 0.02, err));
    RS_TRY(claim_sooner(report, grid, of, SGD_SCALED, ADAM_POST, err));
    return claim_sooner(report, grid, of, SGD_SCALED, SGD_WARM, err);
}

/* ---- the whole ---- */

static rs_status report_all(rs_lab_report *report, const rs_lab_grid *grid, rs_error *err)
{
    outcome of[RECIPES];
    for (int r = 0; r < grid->n_recipes; r++)
        of[r] = outcome_of(grid, r);
    RS_TRY(draw(report, grid, of, err));
    RS_TRY(add_recipes(report, grid, of, err));
    RS_TRY(rs_lab_grid_table(report, grid, rs_lab_noci_runs_kind.name, enough, err));
    return claim_all(report, grid, of, err);
}

static rs_status run_noci_table1_small(rs_lab_report *report, const rs_lab_options *options,
                                       const rs_context *context, rs_error *err)
{
    bool quick = options->quick;
    rs_lab_grid grid = {.experiment = report->experiment,
                        .kept = options->kept,
                        .task = "'task': 'reversal'",
                        .model = "'depth': 5",
                        .recipes = quick ? quick_recipes : recipes,
                        .n_recipes = quick ? 2 : RECIPES,
                        .seeds = rs_lab_seeds(options, SEEDS),
                        .steps = quick ? QUICK_STEPS : STEPS,
                        .every = EVERY};
    rs_status status = rs_lab_grid_train(&grid, context, err);
    if (status == RS_OK) status = report_all(report, &grid, err);
    rs_lab_grid_close(&grid);
    if (status != RS_OK) return status;
    if (!quick) return rs_lab_say_seeds(report, grid.seeds, SEEDS, err);
    return rs_lab_say_quick(
        report, "2 recipes of 4, 1 rate of 3, 1 seed of 5, 700 steps of 1500, and no orders", err);
}

const rs_lab_experiment rs_lab_noci_table1_small = {
    "noci-table1-small",
    "What trains which architecture",
    "Noci et al. 2022, table 1",
    "Five layers learn to reverse 20 digits: SGD (gradients cut at norm 1) of post-norm, of "
    "branches times a trained "
    "1/sqrt(L) without norms, of those with a temperature that rises to 8.5, and Adam of "
    "post-norm; three learning rates each, five seeds, 1500 steps. After Noci, Anagnostidis, "
    "Biggio, Orvieto, Singh, Lucchi, NeurIPS 2022 (arXiv 2206.03126).",
    run_noci_table1_small,
    "420 s",
    "8 s",
    &table_kind,
    0};
