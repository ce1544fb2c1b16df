/* dong_lengths.c: trains the models of Dong et al. 2021 and claims what paths of each length are worth. */
#include "lab/dong_lengths.h"

#include "lab/kept_runs.h"
#include "lab/training.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { CODE, THEOREM, UP_TO, WAYS, DRAWN = 100000 };
static const char *const way_names[WAYS] = {"code", "theorem", "up to"};

/* ---- runs ---- */

typedef struct watcher {
    rs_lengths_run *run;
    rs_path_asked asked;
    double floor; /* of a run that diverged */
    const rs_context *context;
} watcher;
enum { NUMBERS = sizeof(rs_lengths_run) / sizeof(double) };

static rs_status watch(void *user, rs_learner *learner, rs_train_task *task, rs_error *err)
{
    watcher *w = user;
    RS_TRY(rs_task_floors_of(&w->run->floors, task, RS_TASK_EVAL, w->asked.samples, w->asked.places,
                             err));
    return rs_path_accuracy_of(&w->run->of, learner, task, &w->asked, err);
}

static rs_status train_task(void *user, const char *task, rs_error *err)
{
    watcher *w = user;
    bool diverged = false;
    const rs_lab_finish finish = {w, watch};
    RS_TRY(rs_lab_train_seen(&diverged, task, &finish, w->context, err));
    w->run->diverged = diverged;
    if (diverged)
        w->run->floors = (rs_task_floors){.constant = w->floor, .alone = NAN, .ceiling = 1};
    return RS_OK;
}

static rs_status train_one(rs_lengths *all, const char *id, int seed, int rate,
                           const rs_context *context, rs_error *err)
{
    const rs_lengths_task *task = all->task;
    rs_lengths_run *run = &all->of[seed][rate];
    watcher w = {run, task->asked, task->floor, context};
    const rs_kept_maker maker = {&w, train_task};
    char text[600];
    if (all->quick) w.asked.samples = task->quick_samples;
    w.asked.seed = all->seed + (uint64_t)seed;
    snprintf(text, sizeof text,
             "{'task': '%s', 'steps': %d, 'log_every': 100000000, 'rank_every': 0, 'seed': %llu, "
             "'optimizer': {'lr': %s}%s}",
             task->task, all->quick ? task->quick_steps : task->steps,
             (unsigned long long)w.asked.seed, task->rates[rate],
             all->quick ? task->quick_more : task->more);
    return rs_kept_runs_take(all->kept, id, text, (double *)run, NUMBERS, &maker, err);
}

/* Runs side by side, a thread each. */
static rs_status train_all(rs_lengths *all, const char *id, const rs_context *context,
                           rs_error *err)
{
    rs_status status = RS_OK;
    rs_error first = {0};
    uint64_t done = 0, runs = (uint64_t)(RS_LENGTHS_RATES * all->seeds);
    RS_TRY(rs_check_cancelled(context, err));
    rs_progress(context, id, 0, runs, "runs");
#pragma omp parallel for num_threads(context->threads) schedule(dynamic)
    for (int i = 0; i < RS_LENGTHS_RATES * all->seeds; i++) {
        rs_error own = {0};
        rs_status made =
            train_one(all, id, i / RS_LENGTHS_RATES, i % RS_LENGTHS_RATES, context, &own);
        if (made != RS_OK) rs_keep_first(&status, &first, made, &own);
#pragma omp critical
        rs_progress(context, id, ++done, runs, "runs");
    }
    if (status != RS_OK && err) *err = first;
    return status;
}

/* ---- over seeds ---- */

static double accuracy_of(const rs_lengths_run *run, int way, int length)
{
    const double *const of[WAYS] = {run->of.code, run->of.theorem, run->of.up_to};
    return of[way][length];
}

/* Of a rate: of the model (way WAYS), or of a way and a length. */
static rs_lab_spread spread(const rs_lengths *all, int rate, int way, int length)
{
    double values[RS_LENGTHS_SEEDS];
    for (int s = 0; s < all->seeds; s++) {
        const rs_lengths_run *run = &all->of[s][rate];
        values[s] = way == WAYS ? run->of.model : accuracy_of(run, way, length);
    }
    return rs_lab_spread_of(values, all->seeds);
}

static rs_task_floors mean_floors(const rs_lengths *all, int rate)
{
    rs_task_floors mean = {0};
    for (int s = 0; s < all->seeds; s++) {
        const rs_task_floors *f = &all->of[s][rate].floors;
        mean.constant += f->constant / all->seeds;
        mean.alone += f->alone / all->seeds;
        mean.ceiling += f->ceiling / all->seeds;
    }
    return mean;
}

/* ---- tables ---- */

/* A row of table ..._lengths. */
typedef struct length_cells {
    const char *rate;
    int64_t length;
    double released, released_error, theorem, theorem_error, up_to, up_to_error;
    double floor, alone, ceiling, model, model_error;
} length_cells;

#define LENGTH(member, title, formula)                                                             \
    RS_COLUMN(length_cells, member, #member, title, NULL, formula, "measured")
const rs_column rs_lengths_columns[RS_LENGTHS_COLUMNS] = {
    RS_COLUMN(length_cells, rate, "rate", "learning rate", NULL, "that the model was trained at",
              NULL),
    RS_COLUMN(length_cells, length, "length", "length", NULL, "heads that a path takes", NULL),
    LENGTH(released, "code's paths",
           "share of right answers of single-head networks, drawn for each sample, summed and "
           "normed as the released code does, mean over seeds"),
    LENGTH(released_error, "+- code", "its standard error over seeds; null of one seed"),
    LENGTH(theorem, "theorem's paths",
           "the same of the sum of all P_path X W_path of that length, normed the same way"),
    LENGTH(theorem_error, "+- theorem", "its standard error over seeds"),
    LENGTH(up_to, "up to it",
           "the same of all lengths up to this one, with what biases and MLPs add: the whole model "
           "at the last"),
    LENGTH(up_to_error, "+- up to", "its standard error over seeds"),
    LENGTH(floor, "floor", "of the best answer that sees no token, on the same samples"),
    LENGTH(alone, "token alone",
           "of the best answer that sees one token (and its place), on the same samples"),
    LENGTH(ceiling, "ceiling", "of a model without positions: equal tokens get one answer"),
    LENGTH(model, "model", "of the whole model"),
    LENGTH(model_error, "+- model", "its standard error over seeds"),
};

/* One seed has no error. */
static double error_of(const rs_lab_spread *s)
{
    return isfinite(s->error) ? s->error : NAN;
}

static rs_status add_length(rs_table *table, const rs_lengths *all, int rate, int k, rs_error *err)
{
    const rs_lab_spread code = spread(all, rate, CODE, k), theorem = spread(all, rate, THEOREM, k),
                        up_to = spread(all, rate, UP_TO, k), model = spread(all, rate, WAYS, k);
    const rs_task_floors floors = mean_floors(all, rate);
    const length_cells cells = {.rate = all->task->rates[rate],
                                .length = k,
                                .released = code.mean,
                                .released_error = error_of(&code),
                                .theorem = theorem.mean,
                                .theorem_error = error_of(&theorem),
                                .up_to = up_to.mean,
                                .up_to_error = error_of(&up_to),
                                .floor = floors.constant,
                                .alone = floors.alone,
                                .ceiling = floors.ceiling,
                                .model = model.mean,
                                .model_error = error_of(&model)};
    return rs_table_append(table, &cells, err);
}

/* A row of table ..._runs. */
typedef struct run_cells {
    const char *rate, *end;
    int64_t seed;
    double model, floor, shortest, best, best_theorem;
} run_cells;

#define RUN(member, title, formula)                                                                \
    RS_COLUMN(run_cells, member, #member, title, NULL, formula, "measured")
const rs_column rs_lengths_run_columns[RS_LENGTHS_RUN_COLUMNS] = {
    RS_COLUMN(run_cells, rate, "rate", "learning rate", NULL, "that it was trained at", NULL),
    RS_COLUMN(run_cells, seed, "seed", "seed", NULL, "of weights, data, dropout and paths", NULL),
    RS_COLUMN(run_cells, end, "end", "end", NULL,
              "trained; diverged: the loss stopped being finite, and counts as never right", NULL),
    RUN(model, "model", "share of right answers of the whole model"),
    RUN(floor, "floor", "of the best answer that sees no token, on the same samples"),
    RUN(shortest, "length 1", "of the code's paths of length 1"),
    RUN(best, "longer, code", "the most of the code's paths of one length from 2 on"),
    RUN(best_theorem, "longer, theorem", "the most of the theorem's of one length from 2 on"),
};

static double best_longer(const rs_lengths_run *run, int way)
{
    double most = 0;
    for (int k = 2; k < RS_PATH_LENGTHS; k++)
        most = fmax(most, accuracy_of(run, way, k));
    return most;
}

static rs_status add_run(rs_table *table, const rs_lengths *all, int rate, int seed, rs_error *err)
{
    const rs_lengths_run *run = &all->of[seed][rate];
    const run_cells cells = {.rate = all->task->rates[rate],
                             .end = run->diverged != 0 ? "diverged" : "trained",
                             .seed = (int64_t)all->seed + seed,
                             .model = run->of.model,
                             .floor = run->floors.constant,
                             .shortest = run->of.code[1],
                             .best = best_longer(run, CODE),
                             .best_theorem = best_longer(run, THEOREM)};
    return rs_table_append(table, &cells, err);
}

static rs_status add_tables(rs_lab_report *report, const rs_lengths *all, rs_error *err)
{
    rs_table *lengths = NULL, *runs = NULL;
    RS_TRY(rs_result_add_table(report->result, all->task->lengths->name,
                               "Accuracy by length of path",
                               "What paths of each length answer by themselves, in the released "
                               "code's way and in the theorem's, beside what needs no attention.",
                               rs_lengths_columns, RS_LENGTHS_COLUMNS, &lengths, err));
    RS_TRY(rs_result_add_table(report->result, all->task->runs->name, "Runs",
                               "Every run, those that diverged among them.", rs_lengths_run_columns,
                               RS_LENGTHS_RUN_COLUMNS, &runs, err));
    for (int rate = 0; rate < RS_LENGTHS_RATES; rate++) {
        for (int k = 0; k < RS_PATH_LENGTHS; k++)
            RS_TRY(add_length(lengths, all, rate, k, err));
        for (int seed = 0; seed < all->seeds; seed++)
            RS_TRY(add_run(runs, all, rate, seed, err));
    }
    return RS_OK;
}

static rs_status draw(rs_lab_report *report, const rs_lengths *all, rs_error *err)
{
    rs_table *table = NULL;
    RS_TRY(rs_lab_curves_open(&table, report, all->task->curves, err));
    for (int rate = 0; rate < RS_LENGTHS_RATES; rate++)
        for (int way = 0; way < WAYS; way++)
            for (int k = 0; k < RS_PATH_LENGTHS; k++) {
                char series[48];
                snprintf(series, sizeof series, "%s, rate %s", way_names[way],
                         all->task->rates[rate]);
                RS_TRY(rs_lab_curves_add(table, series, k, spread(all, rate, way, k).mean, err));
            }
    const rs_task_floors floors = mean_floors(all, 0);
    for (int k = 0; k < RS_PATH_LENGTHS; k += RS_PATH_LONGEST)
        RS_TRY(rs_lab_curves_compute(table, "floor", k, floors.constant, err));
    for (int k = 0; k < RS_PATH_LENGTHS && !isnan(floors.alone); k += RS_PATH_LONGEST)
        RS_TRY(rs_lab_curves_compute(table, "token alone", k, floors.alone, err));
    return RS_OK;
}

/* ---- claims ---- */

rs_status rs_lengths_claim(rs_lab_report *report, const char *text, double published,
                           double expected, double measured, double tolerance, rs_error *err)
{
    const rs_lab_claim claim = {text, published, expected, measured, tolerance, false, false};
    return rs_lab_add_claim(report, &claim, err);
}

/* The figure's numbers are read or remembered to a twentieth. */
static const double by_eye = 0.05;

static rs_status claim_published(rs_lab_report *report, const rs_lengths *all, int rate,
                                 rs_error *err)
{
    char text[120];
    const char *name = all->task->rates[rate];
    snprintf(text, sizeof text, "rate %s: the whole model is right", name);
    RS_TRY(rs_lengths_claim(report, text, all->task->published_model, NAN,
                            spread(all, rate, WAYS, 0).mean, by_eye, err));
    snprintf(text, sizeof text, "rate %s: paths of length 1 are right, code's way", name);
    return rs_lengths_claim(report, text, all->task->published_shortest, NAN,
                            spread(all, rate, CODE, 1).mean, by_eye, err);
}

/* The paper's reading: the shortest paths work, and longer ones are as good as none. Of longer ones the
 * mean over lengths: the best of five would be above the floor by being picked. */
enum { SHORTEST_WORKS, SHORTER_IS_BETTER, LONGER_IS_NONE, ORDERS };
static const char *const orders[ORDERS] = {"length 1 beats the floor", "length 1 beats length 2",
                                           "the floor beats lengths 2 to 6"};

static double order_of(const rs_lengths_run *run, int way, int which)
{
    double floor = run->floors.constant, longer = 0, shortest = accuracy_of(run, way, 1);
    for (int k = 2; k < RS_PATH_LENGTHS; k++)
        longer += accuracy_of(run, way, k) / (RS_PATH_LONGEST - 1);
    return which == SHORTEST_WORKS      ? shortest - floor
           : which == SHORTER_IS_BETTER ? shortest - accuracy_of(run, way, 2)
                                        : floor - longer;
}

static rs_status claim_orders(rs_lab_report *report, const rs_lengths *all, int rate, rs_error *err)
{
    for (int i = 0; i < ORDERS * 2; i++) {
        double by[RS_LENGTHS_SEEDS];
        int which = i / 2, way = i % 2 ? THEOREM : CODE;
        char text[120];
        for (int s = 0; s < all->seeds; s++)
            by[s] = order_of(&all->of[s][rate], way, which);
        const rs_lab_spread d = rs_lab_spread_of(by, all->seeds);
        snprintf(text, sizeof text, "rate %s: %s, %s's way, by", all->task->rates[rate],
                 orders[which], way_names[way]);
        RS_TRY(rs_lab_order_published(report, text, d.mean, rs_lab_order_error(d), err));
    }
    return RS_OK;
}

/* What must hold of every run, whatever it learnt. */
static rs_status claim_exact(rs_lab_report *report, const rs_lengths *all, rs_error *err)
{
    double whole = 0, alone = 0;
    for (int s = 0; s < all->seeds; s++)
        for (int rate = 0; rate < RS_LENGTHS_RATES; rate++) {
            const rs_lengths_run *run = &all->of[s][rate];
            double most = fmax(run->of.code[0], run->of.theorem[0]);
            whole = fmax(whole, fabs(run->of.up_to[RS_PATH_LONGEST] - run->of.model));
            if (!isnan(run->floors.alone)) alone = fmax(alone, most - run->floors.alone);
        }
    RS_TRY(rs_lab_at_most(report, "all lengths, biases and MLPs: other answers than the model's",
                          whole, 0.002, err));
    if (isnan(mean_floors(all, 0).alone)) return RS_OK;
    return rs_lab_at_most(report, "length 0: above the best answer by a token alone", alone, 0,
                          err);
}

rs_status rs_lengths_run_all(rs_lengths *out, rs_lab_report *report, const rs_lengths_task *task,
                             const rs_lab_options *options, const rs_context *context,
                             rs_error *err)
{
    *out = (rs_lengths){.task = task,
                        .quick = options->quick,
                        .kept = options->kept,
                        .seeds = rs_lab_seeds(options, task->seeds),
                        .seed = context->seed};
    RS_TRY(train_all(out, report->experiment, context, err));
    RS_TRY(draw(report, out, err));
    RS_TRY(add_tables(report, out, err));
    RS_TRY(claim_exact(report, out, err));
    for (int rate = 0; rate < RS_LENGTHS_RATES && !out->quick; rate++) {
        RS_TRY(claim_published(report, out, rate, err));
        RS_TRY(claim_orders(report, out, rate, err));
    }
    return RS_OK;
}

rs_status rs_lengths_say(const rs_lengths *all, rs_lab_report *report, const char *quick,
                         rs_error *err)
{
    return all->quick ? rs_lab_say_quick(report, quick, err)
                      : rs_lab_say_seeds(report, all->seeds, all->task->seeds, err);
}

/* ---- floors ---- */

rs_status rs_lengths_mark(double *out, const char *task, const char *name, rs_error *err)
{
    const rs_task_kind *kind = rs_task_find(task);
    rs_task_mark marks[RS_TASK_MARKS];
    rs_train_task *opened;
    int n = 0;
    *out = NAN;
    RS_TRY(rs_task_open(&opened, kind, &kind->data, 0, task, err));
    rs_status status = rs_task_marks(marks, &n, opened, err);
    for (int i = 0; status == RS_OK && i < n; i++)
        if (strcmp(marks[i].name, name) == 0) *out = marks[i].value;
    rs_task_close(opened);
    return status;
}

rs_status rs_lengths_draw_floors(rs_task_floors *out, const char *task, bool places, uint64_t seed,
                                 rs_error *err)
{
    const rs_task_kind *kind = rs_task_find(task);
    rs_task_data data = kind->data;
    rs_train_task *drawn;
    data.train = 0; /* without end */
    RS_TRY(rs_task_open(&drawn, kind, &data, seed, task, err));
    rs_status status = rs_task_floors_of(out, drawn, RS_TASK_TRAIN, DRAWN, places, err);
    rs_task_close(drawn);
    return status;
}
