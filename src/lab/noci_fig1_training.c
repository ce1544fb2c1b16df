/*
 * noci_fig1_training.c: figure 1 of Noci et al. (NeurIPS 2022, arXiv 2206.03126) at the size of a toy:
 * how near to each other the tokens behind the last layer are while networks of growing depth are
 * trained, post-norm, with branches as they are and times 1/sqrt(L).
 */
#include "lab/runs.h"
#include "lab/toy.h"

#include <math.h>
#include <stdio.h>

enum { DEPTHS = 5, RECIPES = 2 * DEPTHS, SEEDS = 3, STEPS = 200, EVERY = 20 };
enum { LOGS = STEPS / EVERY + 1, QUICK_STEPS = 60 };
static const int depths[DEPTHS] = {2, 4, 8, 16, 32};

#define PLAIN(depth)                                                                               \
    {                                                                                              \
#depth " layers", ", 'depth': " #depth, "", "",                                            \
        {                                                                                          \
            1e-3                                                                                   \
        }                                                                                          \
    }
#define SCALED(depth)                                                                              \
    {                                                                                              \
#depth " layers, 1/sqrt(L)",                                                               \
            ", 'depth': " #depth ", 'branch_mixer': '1/sqrt(L)', 'branch_mlp': '1/sqrt(L)'", "",   \
            "",                                                                                    \
        {                                                                                          \
            1e-3                                                                                   \
        }                                                                                          \
    }
static const rs_lab_recipe recipes[RECIPES] = {PLAIN(2),   PLAIN(4),  PLAIN(8),  PLAIN(16),
                                               PLAIN(32),  SCALED(2), SCALED(4), SCALED(8),
                                               SCALED(16), SCALED(32)};
static const rs_lab_recipe quick_recipes[] = {PLAIN(2), PLAIN(16), SCALED(16)};

static void see_cosines(rs_grid_run *run, const rs_result *result)
{
    rs_lab_last_layer(run->seen, run->logs, result, "mean_cosine");
}

/* ---- the figure ---- */

static const rs_column point_columns[] =
    RS_LAB_POINTS(RS_LAB_X_WHOLE("step", "step", "steps that were made"),
                  RS_LAB_Y("apart", "1 - cosine",
                           "one minus the mean cosine of the tokens of a sequence behind the last "
                           "layer, geometric mean over seeds"));
static const rs_table_kind table_kind = {"lab", "noci_fig1_training", {RS_PART(point_columns)}};
static const rs_lab_curves curves = {
    .kind = &table_kind,
    .title = "Tokens while a network is trained",
    .about = "One minus the mean cosine of tokens behind the last layer while the order of 20 "
             "digits is learnt by Adam, by depth, with branches as they are and times 1/sqrt(L).",
    .log_y = true,
    .y_floor = 1e-8,
};

static double apart(const rs_grid_run *run, int log)
{
    return log < run->logs ? 1 - run->seen[log] : NAN;
}

static rs_status draw(rs_lab_report *report, const rs_lab_grid *grid, rs_error *err)
{
    rs_table *table = NULL;
    RS_TRY(rs_lab_curves_open(&table, report, &curves, err));
    for (int r = 0; r < grid->n_recipes; r++)
        for (int i = 0; i < grid->steps / grid->every + 1; i++) {
            double sum = 0;
            for (int s = 0; s < grid->seeds; s++)
                sum += log(fmax(apart(rs_lab_grid_run(grid, r, 0, s), i), 1e-12)) / grid->seeds;
            RS_TRY(rs_lab_curves_add(table, grid->recipes[r].name, i * grid->every, exp(sum), err));
        }
    return RS_OK;
}

/* ---- claims ---- */

/* Of all steps and seeds. */
static double most_apart(const rs_lab_grid *grid, int recipe)
{
    double most = -INFINITY;
    for (int s = 0; s < grid->seeds; s++) {
        const rs_grid_run *run = rs_lab_grid_run(grid, recipe, 0, s);
        for (int i = 0; i < run->logs; i++)
            most = isnan(run->seen[i]) ? NAN : fmax(most, apart(run, i));
    }
    return most;
}

/* Recipe a's cosine at the end, less that of b. */
static rs_status claim_nearer(rs_lab_report *report, const rs_lab_grid *grid, const char *text,
                              int a, int b, rs_error *err)
{
    double by[SEEDS];
    for (int s = 0; s < grid->seeds; s++) {
        const rs_grid_run *near = rs_lab_grid_run(grid, a, 0, s);
        const rs_grid_run *far = rs_lab_grid_run(grid, b, 0, s);
        by[s] = apart(far, far->logs - 1) - apart(near, near->logs - 1);
    }
    const rs_lab_spread d = rs_lab_spread_of(by, grid->seeds);
    return rs_lab_order(report, text, d.mean, rs_lab_order_error(d), err);
}

/* Also where branches are scaled the tokens come nearer at first, and leave again. */
static rs_status claim_detour(rs_lab_report *report, const rs_lab_grid *grid, int recipe,
                              rs_error *err)
{
    double down[SEEDS], up[SEEDS];
    for (int s = 0; s < grid->seeds; s++) {
        const rs_grid_run *run = rs_lab_grid_run(grid, recipe, 0, s);
        double least = INFINITY;
        for (int i = 0; i < run->logs; i++)
            least = fmin(least, apart(run, i));
        down[s] = apart(run, 0) - least;
        up[s] = apart(run, run->logs - 1) - least;
    }
    const rs_lab_spread d = rs_lab_spread_of(down, grid->seeds),
                        u = rs_lab_spread_of(up, grid->seeds);
    RS_TRY(rs_lab_order(report, "32 layers, 1/sqrt(L): tokens come nearer at first, by", d.mean,
                        rs_lab_order_error(d), err));
    return rs_lab_order(report, "32 layers, 1/sqrt(L): and leave again, by", u.mean,
                        rs_lab_order_error(u), err);
}

static rs_status claim_quick(rs_lab_report *report, const rs_lab_grid *grid, rs_error *err)
{
    double deep = most_apart(grid, 1), scaled = most_apart(grid, 2), end[2];
    for (int r = 0; r < 2; r++)
        end[r] = apart(rs_lab_grid_run(grid, r, 0, 0), QUICK_STEPS / EVERY);
    RS_TRY(rs_lab_at_most(report, "16 layers: 1 - cosine at the end, over that of 2 layers",
                          end[1] / end[0], 0.1, err));
    RS_TRY(rs_lab_at_most(report, "16 layers: 1 - cosine, largest of all steps", deep, 0.05, err));
    return rs_lab_at_most(report, "16 layers: 1 - cosine at its largest, over that of 1/sqrt(L)",
                          deep / scaled, 0.1, err);
}

static rs_status claim_all(rs_lab_report *report, const rs_lab_grid *grid, rs_error *err)
{
    char text[120];
    RS_TRY(rs_lab_at_most(report, "32 layers: 1 - cosine, largest of all steps and seeds",
                          most_apart(grid, DEPTHS - 1), 1e-3, err));
    for (int k = 1; k < DEPTHS - 1; k++) { /* of the deepest two nothing is left but rounding */
        snprintf(text, sizeof text, "cosine at the end: of %d layers above that of %d, by",
                 depths[k], depths[k - 1]);
        RS_TRY(claim_nearer(report, grid, text, k, k - 1, err));
    }
    RS_TRY(claim_nearer(report, grid, "32 layers: cosine at the end that 1/sqrt(L) takes off",
                        DEPTHS - 1, RECIPES - 1, err));
    return claim_detour(report, grid, RECIPES - 1, err);
}

/* ---- the whole ---- */

static rs_status run_noci_fig1_training(rs_lab_report *report, const rs_lab_options *options,
                                        const rs_context *context, rs_error *err)
{
    bool quick = options->quick;
    rs_lab_grid grid = {.experiment = report->experiment,
                        .kept = options->kept,
                        .task = "'task': 'reversal'",
                        .model = "'norm': 'post'",
                        .recipes = quick ? quick_recipes : recipes,
                        .n_recipes = quick ? 3 : RECIPES,
                        .seeds = rs_lab_seeds(options, SEEDS),
                        .steps = quick ? QUICK_STEPS : STEPS,
                        .every = EVERY,
                        .n_seen = LOGS,
                        .see = see_cosines};
    rs_status status = rs_lab_grid_train(&grid, context, err);
    if (status == RS_OK) status = draw(report, &grid, err);
    if (status == RS_OK)
        status = quick ? claim_quick(report, &grid, err) : claim_all(report, &grid, err);
    rs_lab_grid_close(&grid);
    if (status != RS_OK) return status;
    if (!quick) return rs_lab_say_seeds(report, grid.seeds, SEEDS, err);
    return rs_lab_say_quick(report, "2 and 16 layers of 5 depths, 1 seed of 3, 60 steps of 200",
                            err);
}

const rs_lab_experiment rs_lab_noci_fig1_training = {
    "noci-fig1-training",
    "Tokens while a network is trained",
    "Noci et al. 2022, figure 1",
    "Post-norm networks of 2 to 32 layers learn to reverse 20 digits by Adam: the mean cosine of "
    "tokens behind the last layer over the steps, with branches as they are and times 1/sqrt(L), "
    "three seeds. After Noci, Anagnostidis, Biggio, Orvieto, Singh, Lucchi, NeurIPS 2022 (arXiv "
    "2206.03126).",
    run_noci_fig1_training,
    "90 s",
    "4 s",
    &table_kind,
    0};
