/* losses.c: grids judged by their loss: see losses.h. */
#include "lab/losses.h"

#include "base/memory.h"

#include <math.h>
#include <stdio.h>

/* ---- the best rate ---- */

static double lost_by(const rs_losses *all, const rs_grid_run *run)
{
    return isnan(all->lost) && run->logs > 0 ? run->loss[0] : all->lost;
}

static double loss_of(const rs_losses *all, int recipe, int rate, int seed)
{
    const rs_grid_run *run = rs_lab_grid_run(&all->grid, recipe, rate, seed);
    return (isnan(run->diverged) ? run->eval_loss : lost_by(all, run)) / all->unit;
}

static void judge(rs_loss_way *out, const rs_losses *all, int recipe)
{
    *out = (rs_loss_way){.of.mean = INFINITY, .of.error = NAN, .seeds = all->grid.seeds};
    for (int s = 0; s < out->seeds; s++)
        out->loss[s] = NAN; /* where every rate has a run that ended before its first loss */
    for (int rate = 0; rate < rs_lab_grid_rates(&all->grid, recipe); rate++) {
        rs_loss_way way = {.rate = rate, .seeds = all->grid.seeds};
        for (int s = 0; s < way.seeds; s++)
            way.loss[s] = loss_of(all, recipe, rate, s);
        way.of = rs_lab_spread_of(way.loss, way.seeds);
        if (way.of.mean < out->of.mean) *out = way;
    }
}

rs_status rs_losses_train(rs_losses *all, const rs_context *context, rs_error *err)
{
    size_t n = (size_t)all->grid.n_recipes;
    RS_TRY(rs_lab_grid_train(&all->grid, context, err));
    all->way = rs_calloc(n, sizeof *all->way);
    if (!all->way) return rs_fail_memory(err, "an experiment", n * sizeof *all->way);
    for (int r = 0; r < all->grid.n_recipes; r++)
        judge(&all->way[r], all, r);
    return RS_OK;
}

void rs_losses_close(rs_losses *all)
{
    rs_lab_grid_close(&all->grid);
    rs_free(all->way);
    all->way = NULL;
}

static const rs_grid_run *best_run(const rs_losses *all, int recipe, int seed)
{
    return rs_lab_grid_run(&all->grid, recipe, all->way[recipe].rate, seed);
}

double rs_losses_mean(const rs_losses *all, int recipe, int number)
{
    double sum = 0;
    for (int s = 0; s < all->grid.seeds; s++)
        sum += best_run(all, recipe, s)->seen[number];
    return sum / all->grid.seeds;
}

/* ---- what is said of it ---- */

/* What recipe `more` has of loss beyond `less`, over seeds. */
static rs_lab_spread beyond(const rs_losses *all, int more, int less)
{
    double by[RS_LOSS_SEEDS];
    for (int s = 0; s < all->grid.seeds; s++)
        by[s] = all->way[more].loss[s] - all->way[less].loss[s];
    return rs_lab_spread_of(by, all->grid.seeds);
}

rs_status rs_losses_order(rs_lab_report *report, const rs_losses *all, const char *text, int more,
                          int less, rs_error *err)
{
    const rs_lab_spread d = beyond(all, more, less);
    return rs_lab_order_published(report, text, d.mean, rs_lab_order_error(d), err);
}

rs_status rs_losses_share(rs_lab_report *report, const rs_losses *all, const char *text, int more,
                          int less, rs_error *err)
{
    double by[RS_LOSS_SEEDS];
    for (int s = 0; s < all->grid.seeds; s++)
        by[s] = 1 - all->way[less].loss[s] / all->way[more].loss[s];
    const rs_lab_spread d = rs_lab_spread_of(by, all->grid.seeds);
    return rs_lab_order_published(report, text, d.mean, rs_lab_order_error(d), err);
}

rs_status rs_losses_between(rs_lab_report *report, const rs_losses *all, int a, int b,
                            rs_error *err)
{
    char text[160];
    const rs_lab_spread d = beyond(all, a, b);
    snprintf(text, sizeof text, "loss by which '%s' ends below '%s'",
             all->grid.recipes[d.mean > 0 ? b : a].name,
             all->grid.recipes[d.mean > 0 ? a : b].name);
    return rs_lab_order(report, text, fabs(d.mean), rs_lab_order_error(d), err);
}

rs_status rs_losses_draw(rs_table *table, const rs_losses *all, int recipe, rs_error *err)
{
    const rs_grid_run *first = best_run(all, recipe, 0);
    for (int i = 0; i < first->logs; i++) {
        double mean = 0;
        for (int s = 0; s < all->grid.seeds; s++) {
            const rs_grid_run *run = best_run(all, recipe, s);
            mean +=
                (i < run->logs ? run->loss[i] : lost_by(all, run)) / all->unit / all->grid.seeds;
        }
        RS_TRY(rs_lab_curves_add(table, all->grid.recipes[recipe].name, first->step[i], mean, err));
    }
    return RS_OK;
}

/* A row of the table. */
typedef struct way_cells {
    const char *recipe;
    double rate, loss, error, least, most;
    int64_t runs, diverged;
} way_cells;

#define CELL(member, name, title, formula)                                                         \
    RS_COLUMN(way_cells, member, name, title, NULL, formula, "measured")
const rs_column rs_loss_columns[RS_LOSS_COLUMNS] = {
    RS_COLUMN(way_cells, recipe, "recipe", "recipe", NULL, "how it was trained", NULL),
    RS_COLUMN(way_cells, rate, "learning_rate", "best rate", NULL,
              "of those tried: least loss, mean over seeds", NULL),
    CELL(loss, "loss", "loss", "of evaluation at the end, mean over seeds at the best rate"),
    CELL(error, "loss_error", "its error", "standard error over seeds; null of one seed"),
    CELL(least, "least", "least", "of the seeds' losses"),
    CELL(most, "most", "most", "of the seeds' losses"),
    RS_COLUMN(way_cells, runs, "runs", "runs", NULL, "at all rates", NULL),
    RS_COLUMN(way_cells, diverged, "diverged", "diverged", NULL,
              "of them: the loss or a gradient was no number", "measured"),
};

rs_status rs_losses_table(rs_lab_report *report, const rs_losses *all, const char *name,
                          rs_error *err)
{
    rs_table *table = NULL;
    const rs_lab_grid *grid = &all->grid;
    RS_TRY(rs_result_add_table(report->result, name, "Ways to train",
                               "What each came to at the best of its rates.", rs_loss_columns,
                               RS_LOSS_COLUMNS, &table, err));
    for (int r = 0; r < grid->n_recipes; r++) {
        const rs_loss_way *way = &all->way[r];
        way_cells cells = {.recipe = grid->recipes[r].name,
                           .rate = grid->recipes[r].rates[way->rate],
                           .loss = way->of.mean,
                           .error = way->seeds > 1 ? way->of.error : NAN,
                           .least = INFINITY,
                           .most = -INFINITY,
                           .runs = rs_lab_grid_rates(grid, r) * grid->seeds,
                           .diverged = rs_lab_grid_diverged(grid, r)};
        for (int s = 0; s < way->seeds; s++) {
            cells.least = fmin(cells.least, way->loss[s]);
            cells.most = fmax(cells.most, way->loss[s]);
        }
        RS_TRY(rs_table_append(table, &cells, err));
    }
    return RS_OK;
}

rs_status rs_losses_run(rs_losses *all, rs_lab_report *report, const rs_lab_options *options,
                        rs_status (*report_all)(rs_lab_report *report, const rs_losses *all,
                                                rs_error *err),
                        const char *quick, const rs_context *context, rs_error *err)
{
    int seeds = all->grid.seeds;
    rs_status status = rs_losses_train(all, context, err);
    if (status == RS_OK)
        status = rs_lab_say_runs(report, 1, &all->grid, 0, options->quick, RS_LOSS_SEEDS, err);
    if (status == RS_OK) status = report_all(report, all, err);
    rs_losses_close(all);
    if (status != RS_OK) return status;
    if (!options->quick) return rs_lab_say_seeds(report, seeds, RS_LOSS_SEEDS, err);
    return rs_lab_say_quick(report, quick, err);
}
