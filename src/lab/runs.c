/* runs.c: grids of training runs: see runs.h. */
#include "lab/runs.h"

#include "lab/kept_runs.h"

#include "base/memory.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- places ---- */

rs_grid_run *rs_lab_grid_run(const rs_lab_grid *grid, int recipe, int rate, int seed)
{
    return &grid->of[(recipe * RS_LAB_RATES + rate) * grid->seeds + seed];
}

int rs_lab_grid_rates(const rs_lab_grid *grid, int recipe)
{
    int n = 0;
    while (n < RS_LAB_RATES && grid->recipes[recipe].rates[n] > 0)
        n++;
    return n;
}

static int logs_of(const rs_lab_grid *grid)
{
    return (grid->steps + grid->every - 1) / grid->every + 1; /* the last step has one, too */
}

static rs_status place(rs_lab_grid *grid, rs_error *err)
{
    size_t runs = (size_t)(grid->n_recipes * RS_LAB_RATES * grid->seeds);
    size_t logs = (size_t)logs_of(grid), each = 3 * logs + (size_t)grid->n_seen;
    grid->of = rs_calloc(runs, sizeof *grid->of);
    grid->numbers = rs_calloc(runs * each, sizeof *grid->numbers);
    if (!grid->of || !grid->numbers)
        return rs_fail_memory(err, "a grid of runs", runs * each * sizeof *grid->numbers);
    for (size_t i = 0; i < runs; i++) {
        double *at = grid->numbers + i * each;
        grid->of[i] = (rs_grid_run){.diverged = NAN,
                                    .step = at,
                                    .loss = at + logs,
                                    .accuracy = at + 2 * logs,
                                    .eval_loss = NAN,
                                    .eval_accuracy = NAN,
                                    .seen = at + 3 * logs};
        for (int k = 0; k < grid->n_seen; k++)
            grid->of[i].seen[k] = NAN;
    }
    return RS_OK;
}

void rs_lab_grid_close(rs_lab_grid *grid)
{
    rs_free(grid->of);
    rs_free(grid->numbers);
    grid->of = NULL;
    grid->numbers = NULL;
}

/* ---- one run ---- */

/* The caller frees it; NULL: memory is out. */
static char *write_task(const rs_lab_grid *grid, int recipe, int rate, uint64_t seed)
{
    enum { OTHERS = 400 };
    const rs_lab_recipe *r = &grid->recipes[recipe];
    size_t size = OTHERS + strlen(grid->task) + strlen(grid->model) + strlen(r->model) +
                  strlen(r->optimizer) + strlen(r->task);
    char *text = rs_malloc(size, 1);
    if (!text) return NULL;
    snprintf(text, size,
             "{%s, 'model': {%s%s}, 'steps': %d, 'seed': %llu, 'log_every': %d, 'eval_every': %d,"
             " 'rank_every': %d, 'optimizer': {'lr': %.17g%s}%s}",
             grid->task, grid->model, r->model, grid->steps, (unsigned long long)seed, grid->every,
             grid->steps, grid->n_seen > 0 ? grid->every : grid->steps, r->rates[rate],
             r->optimizer, r->task);
    return text;
}

static void see_log(rs_grid_run *run, const rs_result *result, int most)
{
    const rs_table *log = rs_result_table(result, "log");
    for (size_t i = 0; log && i < rs_table_rows(log) && run->logs < most; i++, run->logs++) {
        run->step[run->logs] = rs_lab_cell(log, i, "step");
        run->loss[run->logs] = rs_lab_cell(log, i, "loss");
        run->accuracy[run->logs] = rs_lab_cell(log, i, "accuracy");
        run->eval_loss = rs_lab_cell(log, i, "eval_loss");
        run->eval_accuracy = rs_lab_cell(log, i, "eval_accuracy");
    }
}

/* A run as one list of numbers: four of its own, and what it points to, which lies in one piece. */
enum { OWN = 4 };

static size_t list_size(const rs_lab_grid *grid)
{
    return OWN + (size_t)(3 * logs_of(grid) + grid->n_seen);
}

static void put_list(double *list, const rs_grid_run *run, const rs_lab_grid *grid)
{
    const double own[OWN] = {run->diverged, run->logs, run->eval_loss, run->eval_accuracy};
    memcpy(list, own, sizeof own);
    memcpy(list + OWN, run->step, (list_size(grid) - OWN) * sizeof *list);
}

static void take_list(rs_grid_run *run, const double *list, const rs_lab_grid *grid)
{
    run->diverged = list[0];
    run->logs = (int)list[1];
    run->eval_loss = list[2];
    run->eval_accuracy = list[3];
    memcpy(run->step, list + OWN, (list_size(grid) - OWN) * sizeof *list);
}

/* A run that is trained, into its list. */
typedef struct training {
    rs_grid_run *run;
    double *list;
    const rs_lab_grid *grid;
    const rs_lab_prepare *prepare;
    const rs_context *context;
} training;

static rs_status look_at(void *user, rs_learner *learner, rs_train_task *task, rs_error *err)
{
    const training *t = user;
    return t->grid->look(t->run, learner, task, err);
}

static rs_status train(void *user, const char *task, rs_error *err)
{
    training *t = user;
    rs_grid_run *run = t->run;
    rs_result *result = NULL;
    const rs_lab_finish finish = {t, look_at};
    RS_TRY(rs_lab_train_to(&result, &run->diverged, task, t->prepare,
                           t->grid->look ? &finish : NULL, t->context, err));
    see_log(run, result, logs_of(t->grid));
    if (isnan(run->diverged) && t->grid->see) t->grid->see(run, result);
    if (!isnan(run->diverged)) run->eval_loss = run->eval_accuracy = NAN;
    rs_result_free(result);
    put_list(t->list, run, t->grid);
    return RS_OK;
}

/* list: [list_size] room. */
static rs_status take_or_train(rs_grid_run *run, double *list, const rs_lab_grid *grid,
                               const rs_lab_recipe *recipe, const char *task,
                               const rs_context *context, rs_error *err)
{
    char name[120];
    training t = {run, list, grid, grid->prepare ? grid->prepare(recipe) : NULL, context};
    const rs_kept_maker maker = {&t, train};
    int at = snprintf(name, sizeof name, "%.40s", grid->experiment ? grid->experiment : "");
    if (grid->data)
        at += snprintf(name + at, sizeof name - (size_t)at, ", data %016llx",
                       (unsigned long long)grid->data);
    if (t.prepare) snprintf(name + at, sizeof name - (size_t)at, ", %.40s", recipe->name);
    RS_TRY(rs_kept_runs_take(grid->kept, name, task, list, list_size(grid), &maker, err));
    take_list(run, list, grid);
    return RS_OK;
}

static rs_status make(const rs_lab_grid *grid, int recipe, int rate, int seed,
                      const rs_context *context, rs_error *err)
{
    rs_grid_run *run = rs_lab_grid_run(grid, recipe, rate, seed);
    double *list = rs_malloc(list_size(grid), sizeof *list);
    char *task = write_task(grid, recipe, rate, context->seed + (uint64_t)seed);
    rs_status status =
        list && task ? take_or_train(run, list, grid, &grid->recipes[recipe], task, context, err)
                     : rs_fail_memory(err, "a run", list_size(grid) * sizeof *list);
    run->made = status == RS_OK;
    rs_free(list);
    rs_free(task);
    return status;
}

rs_status rs_lab_grid_try(const rs_lab_grid *grid, const rs_context *context, rs_error *err)
{
    if (grid->n_recipes == 0 || grid->data == 0) return RS_OK;
    char *task = write_task(grid, 0, 0, context->seed);
    rs_status status = task ? rs_lab_try_data(task, context, err)
                            : rs_fail_memory(err, "a run", list_size(grid) * sizeof(double));
    rs_free(task);
    return status;
}

static int count_runs(const rs_lab_grid *grid)
{
    int total = 0;
    for (int r = 0; r < grid->n_recipes; r++)
        total += rs_lab_grid_rates(grid, r) * grid->seeds;
    return total;
}

rs_status rs_lab_say_runs(rs_lab_report *report, int n, const rs_lab_grid *grids, size_t apart,
                          bool quick, int own, rs_error *err)
{
    const rs_lab_experiment *of = rs_lab_find(report->experiment);
    char message[240], range[40];
    double seconds = of ? strtod(quick ? of->takes_quick : of->takes, NULL) : 0;
    int runs = 0, least = 0, most = 0;
    for (int i = 0; i < n; i++) {
        const void *at = (const char *)grids + (size_t)i * apart;
        const rs_lab_grid *grid = at;
        if (grid->n_recipes == 0) continue;
        runs += count_runs(grid);
        least = least == 0 || grid->steps < least ? grid->steps : least;
        most = grid->steps > most ? grid->steps : most;
    }
    if (!quick) seconds *= (double)grids->seeds / own;
    if (least < most)
        snprintf(range, sizeof range, "%d to %d", least, most);
    else
        snprintf(range, sizeof range, "%d", most);
    snprintf(message, sizeof message,
             "%s: %d runs of %s steps, about %.0f s foreseen on two cores that do nothing else",
             report->experiment, runs, range, seconds);
    rs_finding finding = rs_finding_of(RS_INFO, "training_runs");
    finding.message = message;
    finding.hint = "--db FILE keeps finished runs, --seeds N trains fewer";
    return rs_result_add_finding(report->result, &finding, err);
}

rs_status rs_lab_grid_train(rs_lab_grid *grid, const rs_context *context, rs_error *err)
{
    RS_TRY(place(grid, err));
    int each = RS_LAB_RATES * grid->seeds, all = grid->n_recipes * each, done = 0;
    int total = count_runs(grid);
    char phase[40];
    snprintf(phase, sizeof phase, "runs of %d steps", grid->steps);
    rs_progress(context, phase, 0, (uint64_t)total, "runs");
    rs_status status = RS_OK;
    rs_error first = {0};
#pragma omp parallel for num_threads(context->threads) schedule(dynamic)
    for (int i = 0; i < all; i++) {
        rs_error own = {0};
        int recipe = i / each, rate = i % each / grid->seeds, seed = i % grid->seeds;
        if (rate >= rs_lab_grid_rates(grid, recipe)) continue;
        rs_status made = rs_check_cancelled(context, &own);
        if (made == RS_OK) made = make(grid, recipe, rate, seed, context, &own);
        if (made != RS_OK) rs_keep_first(&status, &first, made, &own);
#pragma omp critical(rs_lab_grid_progress)
        rs_progress(context, phase, (uint64_t)++done, (uint64_t)total, "runs");
    }
    if (status != RS_OK && err) *err = first;
    return status;
}

/* ---- what is seen of it ---- */

int rs_lab_grid_diverged(const rs_lab_grid *grid, int recipe)
{
    int n = 0;
    for (int k = 0; k < RS_LAB_RATES * grid->seeds; k++)
        n += !isnan(grid->of[recipe * RS_LAB_RATES * grid->seeds + k].diverged);
    return n;
}

/* NaN where it never is. */
static double step_of(const rs_grid_run *run, double enough)
{
    for (int i = 0; isnan(run->diverged) && i < run->logs; i++)
        if (run->accuracy[i] > enough) return run->step[i];
    return NAN;
}

double rs_lab_run_reaches(const rs_lab_grid *grid, const rs_grid_run *run, double enough)
{
    double step = step_of(run, enough);
    return isnan(step) ? grid->steps : step;
}

int rs_lab_grid_best(const rs_lab_grid *grid, int recipe, double chance, double enough)
{
    int best = 0;
    double most = -INFINITY, least = INFINITY;
    for (int rate = 0; rate < rs_lab_grid_rates(grid, recipe); rate++) {
        double sum = 0, steps = 0;
        for (int s = 0; s < grid->seeds; s++) {
            const rs_grid_run *run = rs_lab_grid_run(grid, recipe, rate, s);
            sum += isnan(run->diverged) ? run->eval_accuracy : chance;
            steps += rs_lab_run_reaches(grid, run, enough);
        }
        if (sum > most || (sum == most && steps < least)) best = rate, most = sum, least = steps;
    }
    return best;
}

/* ---- the table ---- */

#define RUN(member, name, title, formula)                                                          \
    RS_COLUMN(rs_lab_run_cells, member, name, title, NULL, formula, "measured")
const rs_column rs_lab_run_columns[RS_LAB_RUN_COLUMNS] = {
    RS_COLUMN(rs_lab_run_cells, recipe, "recipe", "recipe", NULL, "how it was trained", NULL),
    RS_COLUMN(rs_lab_run_cells, rate, "learning_rate", "rate", NULL, "learning rate", NULL),
    RS_COLUMN(rs_lab_run_cells, seed, "seed", "seed", NULL, "of weights and data, from --seed on",
              NULL),
    RUN(loss, "loss", "loss", "running mean at the last log"),
    RUN(accuracy, "accuracy", "accuracy", "running mean at the last log"),
    RUN(eval_loss, "eval_loss", "eval loss", "on data of its own, at the end"),
    RUN(eval_accuracy, "eval_accuracy", "eval accuracy", "on data of its own, at the end"),
    RUN(reached, "reached", "reached", "first logged step at which the accuracy was enough"),
    RUN(diverged, "diverged", "diverged", "step at which the loss or a gradient was no number"),
};

rs_status rs_lab_grid_table(rs_lab_report *report, const rs_lab_grid *grid, const char *name,
                            double enough, rs_error *err)
{
    rs_table *table = NULL;
    char about[160];
    int at = snprintf(about, sizeof about, "Every run, of %d steps", grid->steps);
    if (!isnan(enough))
        snprintf(about + at, sizeof about - (size_t)at,
                 "; reached: the accuracy (running mean) is above %g", enough);
    const char *kept = rs_arena_strdup(rs_result_arena(report->result), about);
    if (!kept) return rs_fail_memory(err, "a table", sizeof about);
    rs_column columns[RS_LAB_RUN_COLUMNS + RS_LAB_SHOWN];
    memcpy(columns, rs_lab_run_columns, sizeof rs_lab_run_columns);
    for (int k = 0; k < grid->n_shown; k++)
        columns[RS_LAB_RUN_COLUMNS + k] = grid->shown[k];
    RS_TRY(rs_result_add_table(report->result, name, "All runs", kept, columns,
                               (size_t)(RS_LAB_RUN_COLUMNS + grid->n_shown), &table, err));
    for (int i = 0; i < grid->n_recipes * RS_LAB_RATES * grid->seeds; i++) {
        const rs_grid_run *run = &grid->of[i];
        const rs_lab_recipe *recipe = &grid->recipes[i / (RS_LAB_RATES * grid->seeds)];
        if (!run->made) continue;
        rs_lab_run_cells cells = {.recipe = recipe->name,
                                  .rate = recipe->rates[i / grid->seeds % RS_LAB_RATES],
                                  .seed = i % grid->seeds,
                                  .loss = run->logs ? run->loss[run->logs - 1] : NAN,
                                  .accuracy = run->logs ? run->accuracy[run->logs - 1] : NAN,
                                  .eval_loss = run->eval_loss,
                                  .eval_accuracy = run->eval_accuracy,
                                  .reached = step_of(run, enough),
                                  .diverged = run->diverged};
        for (int k = 0; k < grid->n_shown; k++)
            cells.seen[k] = run->seen[k];
        RS_TRY(rs_table_append(table, &cells, err));
    }
    return RS_OK;
}
