/*
 * dong_circle.c: the circle of Dong, Cordonnier, Loukas 2021: a recurrent layer that is to keep two
 * points on their ways. The released program is beside it, whose layers keep a skip and a norm in
 * every variant; so here are three without norms of which the first is what the theorem is about.
 */
#include "lab/dong_circle_loop.h"
#include "lab/toy.h"
#include "lab/training.h"

#include "base/memory.h"
#include "observe/measure.h"

#include <math.h>
#include <stdio.h>

enum { RATES = 2, WIDTHS = 3, SEEDS = 5, STEPS = 1190, QUICK_STEPS = 200, CELLS = 36 };
static const char *const rates[RATES] = {"1e-5", "1e-3"};
static const int widths[WIDTHS] = {32, 64, 128};
/* What counts as merged, and as having left the circle. */
static const double merged = 0.05, left = 2;
/* tests/cli/dong_floors.py */
static const double constant_error = 0.1799992771184715;

typedef struct circle {
    bool quick;
    int seeds, widths;
    struct rs_kept_runs *kept; /* or NULL */
    rs_circle_run of[SEEDS][RATES][RS_CIRCLE_KINDS][WIDTHS];
} circle;

/* ---- runs ---- */

static rs_status go_one(circle *all, int i, const rs_context *context, rs_error *err)
{
    int width = i % WIDTHS, kind = i / WIDTHS % RS_CIRCLE_KINDS;
    int rate = i / (WIDTHS * RS_CIRCLE_KINDS) % RATES, seed = i / CELLS;
    const rs_circle_asked asked = {.kind = (rs_circle_kind)kind,
                                   .width = widths[width],
                                   .steps = all->quick ? QUICK_STEPS : STEPS,
                                   .rate = rates[rate],
                                   .seed = context->seed + (uint64_t)seed};
    return rs_circle_go(&all->of[seed][rate][kind][width], &asked, all->kept, context, err);
}

/* The widest first: they take the longest. */
static rs_status go_all(circle *all, const rs_context *context, rs_error *err)
{
    rs_status status = RS_OK;
    rs_error first = {0};
    uint64_t done = 0, runs = (uint64_t)(CELLS / WIDTHS * all->widths * all->seeds);
    rs_progress(context, "circles", 0, runs, "runs");
#pragma omp parallel for num_threads(context->threads) schedule(dynamic)
    for (int i = CELLS * all->seeds - 1; i >= 0; i--) {
        rs_error own = {0};
        if (i % WIDTHS >= all->widths) continue;
        rs_status made = rs_check_cancelled(context, &own);
        if (made == RS_OK) made = go_one(all, i, context, &own);
        if (made != RS_OK) rs_keep_first(&status, &first, made, &own);
#pragma omp critical(rs_circle_progress)
        rs_progress(context, "circles", ++done, runs, "runs");
    }
    if (status != RS_OK && err) *err = first;
    return status;
}

/* ---- over seeds ---- */

/* What became of the points: numbers that were lost have left. */
typedef enum fate { MERGED, LEFT, STAYED } fate;

static fate fate_of(const rs_circle_run *run)
{
    if (!(run->radius[RS_CIRCLE_STEPS] <= left)) return LEFT;
    return run->apart[RS_CIRCLE_STEPS] < merged ? MERGED : STAYED;
}

/* How much longer one cell's points stay apart than another's, over seeds. */
static rs_lab_spread between(const circle *all, int rate, int kind, int width, int other,
                             int other_width)
{
    double by[SEEDS];
    for (int s = 0; s < all->seeds; s++)
        by[s] = all->of[s][rate][kind][width].stays - all->of[s][rate][other][other_width].stays;
    return rs_lab_spread_of(by, all->seeds);
}

/* The mean over seeds of what is left of the distance at the end; of one that left the circle 1. */
static double left_at_end(const circle *all, int rate, int kind, int width)
{
    double sum = 0;
    for (int s = 0; s < all->seeds; s++)
        sum += fmin(all->of[s][rate][kind][width].apart[RS_CIRCLE_STEPS], 1) / all->seeds;
    return sum;
}

/* ---- table and figure ---- */

/* A row of table dong_circle_runs: a kind, a width and a rate. */
typedef struct cell {
    const char *kind, *rate;
    int64_t width, merged, left, stayed, diverged;
    double loss, loss_error, stays, stays_error, first, tenth, last;
} cell;

#define CELL(member, title, formula)                                                               \
    RS_COLUMN(cell, member, #member, title, NULL, formula, "measured")
static const rs_column cell_columns[] = {
    RS_COLUMN(cell, kind, "kind", "network", NULL,
              "attention: without norm and skip; released: as the program has it", NULL),
    RS_COLUMN(cell, width, "width", "width", NULL, "features of a point inside", NULL),
    RS_COLUMN(cell, rate, "rate", "learning rate", NULL, "of Adam", NULL),
    CELL(loss, "loss", "squared error of a step behind training, sum of two points, mean of seeds"),
    CELL(loss_error, "+- loss", "its standard error over seeds; null of one seed"),
    CELL(stays, "stay apart",
         "mean of the distance of the points over that at the start, at most 1, over 300 steps"),
    CELL(stays_error, "+- stay", "its standard error over seeds"),
    CELL(first, "step 1", "distance behind one step, over that at the start, median of seeds"),
    CELL(tenth, "step 10", "behind ten"),
    CELL(last, "step 300", "behind 300; null: numbers were lost"),
    CELL(left, "left", "seeds whose points are farther out than twice the circle at step 300"),
    CELL(merged, "merged",
         "of the others those whose distance is then below 0.05 of that at the start"),
    CELL(stayed, "stayed", "the rest"),
    CELL(diverged, "diverged", "seeds whose training stopped being finite"),
};
const rs_table_kind rs_lab_dong_circle_runs_kind = {
    "lab", "dong_circle_runs", {RS_PART(cell_columns)}};

static double median_apart(const circle *all, int rate, int kind, int width, int step)
{
    double values[SEEDS];
    for (int s = 0; s < all->seeds; s++)
        values[s] = all->of[s][rate][kind][width].apart[step];
    return rs_spread_of(values, all->seeds).median;
}

static rs_status add_cell(rs_table *table, const circle *all, int rate, int kind, int width,
                          rs_error *err)
{
    double losses[SEEDS], stays[SEEDS];
    cell c = {.kind = rs_circle_names[kind], .rate = rates[rate], .width = widths[width]};
    for (int s = 0; s < all->seeds; s++) {
        const rs_circle_run *run = &all->of[s][rate][kind][width];
        losses[s] = run->diverged != 0 ? (double)NAN : run->loss;
        stays[s] = run->stays;
        c.merged += fate_of(run) == MERGED;
        c.left += fate_of(run) == LEFT;
        c.stayed += fate_of(run) == STAYED;
        c.diverged += run->diverged != 0;
    }
    const rs_lab_spread loss = rs_lab_spread_of(losses, all->seeds),
                        stay = rs_lab_spread_of(stays, all->seeds);
    c.loss = loss.mean, c.loss_error = loss.error;
    c.stays = stay.mean, c.stays_error = stay.error;
    c.first = median_apart(all, rate, kind, width, 1);
    c.tenth = median_apart(all, rate, kind, width, 10);
    c.last = median_apart(all, rate, kind, width, RS_CIRCLE_STEPS);
    if (all->seeds == 1) c.loss_error = c.stays_error = NAN;
    if (!isfinite(c.last)) c.last = NAN;
    return rs_table_append(table, &c, err);
}

static const rs_column point_columns[] =
    RS_LAB_POINTS(RS_LAB_X_WHOLE("step", "step", "times that the network was fed its own answer"),
                  RS_LAB_Y("apart", "distance of the two points, over that at the start",
                           "|z_1 - z_2|, median over seeds"));
static const rs_table_kind table_kind = {"lab", "dong_circle", {RS_PART(point_columns)}};
static const rs_lab_curves curves = {
    .kind = &table_kind,
    .title = "Two points that are to follow their circle",
    .about = "How far apart two trajectories are that a trained layer draws when it is fed its own "
             "answers, by network and width, at the learning rate 1e-3, median over seeds.",
    .log_y = true,
    .y_floor = 1e-6,
};

static rs_status draw(rs_lab_report *report, const circle *all, rs_error *err)
{
    static const int shown[] = {0, 1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 70, 100, 150, 200, 250, 300};
    rs_table *table = NULL;
    RS_TRY(rs_lab_curves_open(&table, report, &curves, err));
    for (int kind = 0; kind < RS_CIRCLE_KINDS; kind++)
        for (int width = 0; width < all->widths; width += WIDTHS - 1) {
            char series[48];
            snprintf(series, sizeof series, "%s, %d", rs_circle_names[kind], widths[width]);
            for (size_t i = 0; i < sizeof shown / sizeof *shown; i++) {
                double apart = median_apart(all, RATES - 1, kind, width, shown[i]);
                if (isfinite(apart)) RS_TRY(rs_lab_curves_add(table, series, shown[i], apart, err));
            }
        }
    return RS_OK;
}

static rs_status add_cells(rs_lab_report *report, const circle *all, rs_error *err)
{
    rs_table *table = NULL;
    RS_TRY(rs_result_add_table(report->result, rs_lab_dong_circle_runs_kind.name, "Networks",
                               "What each network learnt, and what becomes of the two points.",
                               cell_columns, sizeof cell_columns / sizeof *cell_columns, &table,
                               err));
    for (int rate = 0; rate < RATES; rate++)
        for (int kind = 0; kind < RS_CIRCLE_KINDS; kind++)
            for (int width = 0; width < all->widths; width++)
                RS_TRY(add_cell(table, all, rate, kind, width, err));
    return RS_OK;
}

/* ---- claims ---- */

/* Without positions both points get one answer where attention does not tell them apart: the best is
 * their targets' mean, of twice 499 neighbours on the circle. */
static double one_constant(void)
{
    const rs_task_data *data = &rs_task_find("circle")->data;
    double half = 3.14159265358979323846 / (double)data->angles;
    double n = 2 * (double)(data->angles / 2 - 1);
    double mean = sin(n * half) / (n * sin(half));
    return 2 * data->radius * data->radius * (1 - mean * mean);
}

/* At the published rate the narrow network learns nothing: that its points merge says nothing of
 * depth. */
static rs_status claim_untrained(rs_lab_report *report, const circle *all, rs_error *err)
{
    double least = INFINITY;
    for (int s = 0; s < all->seeds; s++)
        least = fmin(least, all->of[s][0][RS_CIRCLE_ATTENTION][0].loss);
    RS_TRY(rs_lab_compute(report, "one constant for both points: squared error", constant_error,
                          one_constant(), 1e-9, err));
    return rs_lab_at_most(report, "attention, 32, rate 1e-5: share of it that training takes away",
                          1 - least / one_constant(), 0.05, err);
}

/* What a norm keeps: without one, a point that is a little farther in is drawn in, one that is a little
 * farther out is thrown out (docs/lab.md). */
static rs_status claim_norms(rs_lab_report *report, const circle *all, rs_error *err)
{
    double runs[2] = {0}, stay[2] = {0};
    for (int i = 0; i < CELLS * all->seeds; i++) {
        int width = i % WIDTHS, kind = i / WIDTHS % RS_CIRCLE_KINDS;
        if (width >= all->widths) continue;
        const rs_circle_run *run =
            &all->of[i / CELLS][i / (WIDTHS * RS_CIRCLE_KINDS) % RATES][kind][width];
        bool normed = kind >= RS_CIRCLE_RELEASED;
        runs[normed]++;
        stay[normed] += fate_of(run) == STAYED;
    }
    RS_TRY(rs_lab_at_most(report, "without norms: share of runs that neither merge nor leave",
                          stay[0] / runs[0], 0.1, err));
    return rs_lab_at_most(report, "released, with norms: share of runs that merge or leave",
                          1 - stay[1] / runs[1], 0.25, err);
}

/* The story of the figure, of three networks from `plain` on. */
static rs_status claim_story(rs_lab_report *report, const circle *all, int rate, int plain,
                             rs_error *err)
{
    char text[120];
    const char *name = rs_circle_names[plain];
    snprintf(text, sizeof text, "%s, 32, rate %s: distance left at step 300", name, rates[rate]);
    const rs_lab_claim claim = {text, 0, NAN, left_at_end(all, rate, plain, 0), 0.1, false, false};
    RS_TRY(rs_lab_add_claim(report, &claim, err));
    if (all->quick) return RS_OK;
    const rs_lab_spread wide = between(all, rate, plain, WIDTHS - 1, plain, 0),
                        mlp = between(all, rate, plain + 1, 0, plain, 0),
                        skip = between(all, rate, plain + 2, 0, plain, 0);
    snprintf(text, sizeof text, "%s, rate %s: width 128 stays apart more than 32, by", name,
             rates[rate]);
    RS_TRY(rs_lab_order_published(report, text, wide.mean, rs_lab_order_error(wide), err));
    snprintf(text, sizeof text, "%s, rate %s: with an MLP it stays apart more, by", name,
             rates[rate]);
    RS_TRY(rs_lab_order_published(report, text, mlp.mean, rs_lab_order_error(mlp), err));
    snprintf(text, sizeof text, "%s, rate %s: with a skip it stays apart more, by", name,
             rates[rate]);
    return rs_lab_order_published(report, text, skip.mean, rs_lab_order_error(skip), err);
}

static rs_status claim_all(rs_lab_report *report, const circle *all, rs_error *err)
{
    RS_TRY(claim_untrained(report, all, err));
    RS_TRY(claim_norms(report, all, err));
    for (int rate = 0; rate < RATES; rate++) {
        RS_TRY(claim_story(report, all, rate, RS_CIRCLE_ATTENTION, err));
        RS_TRY(claim_story(report, all, rate, RS_CIRCLE_RELEASED, err));
    }
    return RS_OK;
}

/* ---- the whole ---- */

static rs_status run_dong_circle(rs_lab_report *report, const rs_lab_options *options,
                                 const rs_context *context, rs_error *err)
{
    circle *all = rs_calloc(1, sizeof *all);
    if (!all) return rs_fail_memory(err, "an experiment", sizeof *all);
    all->quick = options->quick;
    all->kept = options->kept;
    all->seeds = rs_lab_seeds(options, SEEDS);
    all->widths = options->quick ? 1 : WIDTHS;
    rs_status status = go_all(all, context, err);
    if (status == RS_OK) status = draw(report, all, err);
    if (status == RS_OK) status = add_cells(report, all, err);
    if (status == RS_OK) status = claim_all(report, all, err);
    int seeds = all->seeds;
    rs_free(all);
    if (status != RS_OK) return status;
    if (!options->quick) return rs_lab_say_seeds(report, seeds, SEEDS, err);
    return rs_lab_say_quick(
        report,
        "1 seed instead of 5, width 32 of 32, 64 and 128, 200 steps of 1190, and "
        "left out orders",
        err);
}

const rs_lab_experiment rs_lab_dong_circle = {
    "dong-circle",
    "A recurrent layer on a circle",
    "Dong et al. 2021, section 4.3, the circle",
    "A layer learns to move two points a step along their circle and is then fed its own answers: "
    "do the two trajectories merge? Attention alone, with an MLP, with a skip, all without norms; "
    "and the released program's three, which have a skip and a norm inside. After Dong, "
    "Cordonnier, "
    "Loukas, ICML 2021 (arXiv 2103.03404).",
    run_dong_circle,
    "55 s",
    "1 s",
    &table_kind,
    0};
