/* test_lab_runs.c: grids of training runs in experiments: each run is what `train` makes of the same
 * task, one that diverges is counted and shown, and what is said of a grid follows from its runs; a killed
 * grid goes on where it was. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "lab/kept_runs.h"
#include "lab/runs.h"
#include "lab/toy.h"

#include <math.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SEEDS = 2, STEPS = 20, EVERY = 5 };

/* The second rate of the first recipe is so large that numbers end. */
static const rs_lab_recipe recipes[] = {
    {"bare", ", 'norm': 'none'", ", 'kind': 'sgd'", "", {1e-3, 1e6}},
    {"post", ", 'depth': 2", ", 'kind': 'sgd'", ", 'trainable': ['branches']", {0.1}},
};
static const rs_lab_grid described = {
    .task = "'task': 'reversal', 'data': {'length': 4, 'eval': 16}, 'batch': 4",
    .model = "'d_model': 8, 'mlp_width': 8, 'depth': 1",
    .recipes = recipes,
    .n_recipes = 2,
    .seeds = SEEDS,
    .steps = STEPS,
    .every = EVERY};

static void open_grid(rs_lab_grid *grid, int threads)
{
    const rs_context context = {.threads = threads, .seed = 7};
    rs_error err;
    *grid = described;
    assert_int_equal(rs_lab_grid_train(grid, &context, &err), RS_OK);
}

static void runs_are_those_of_train(void **state)
{
    (void)state;
    const rs_context context = {.threads = 1, .seed = 0};
    rs_lab_grid grid;
    rs_result *result = NULL;
    rs_error err;
    open_grid(&grid, 2);
    assert_int_equal(
        rs_lab_train(&result,
                     "{'task': 'reversal', 'data': {'length': 4, 'eval': 16}, 'batch': 4, 'model': "
                     "{'d_model': 8, 'mlp_width': 8, 'depth': 2}, 'steps': 20, 'seed': 8, "
                     "'log_every': 5, 'eval_every': 20, 'rank_every': 20, 'optimizer': {'lr': 0.1, "
                     "'kind': 'sgd'}, 'trainable': ['branches']}",
                     NULL, &context, &err),
        RS_OK);
    const rs_table *log = rs_result_table(result, "log");
    const rs_grid_run *run = rs_lab_grid_run(&grid, 1, 0, 1);
    assert_int_equal(run->logs, STEPS / EVERY + 1);
    assert_int_equal(rs_table_rows(log), run->logs);
    for (int i = 0; i < run->logs; i++) {
        assert_true(run->step[i] == EVERY * i);
        assert_true(run->loss[i] == rs_lab_cell(log, (size_t)i, "loss"));
        assert_true(run->accuracy[i] == rs_lab_cell(log, (size_t)i, "accuracy"));
    }
    assert_true(run->eval_loss == rs_lab_cell(log, STEPS / EVERY, "eval_loss"));
    assert_true(run->eval_accuracy == rs_lab_cell(log, STEPS / EVERY, "eval_accuracy"));
    rs_result_free(result);
    rs_lab_grid_close(&grid);
}

/* Also where the steps are no multiple of what lies between two logs. */
static void the_end_is_seen(void **state)
{
    (void)state;
    const rs_context context = {.threads = 1, .seed = 7};
    rs_lab_grid grid = described;
    rs_error err;
    grid.steps = STEPS + 2;
    assert_int_equal(rs_lab_grid_train(&grid, &context, &err), RS_OK);
    const rs_grid_run *run = rs_lab_grid_run(&grid, 1, 0, 0);
    assert_true(run->logs == STEPS / EVERY + 2);
    assert_true(run->step[run->logs - 1] == STEPS + 2);
    assert_true(!isnan(run->eval_accuracy));
    rs_lab_grid_close(&grid);
}

static void divergence_is_counted(void **state)
{
    (void)state;
    rs_lab_grid grid;
    open_grid(&grid, 3);
    assert_int_equal(rs_lab_grid_rates(&grid, 0), 2);
    assert_int_equal(rs_lab_grid_rates(&grid, 1), 1);
    assert_int_equal(rs_lab_grid_diverged(&grid, 0), SEEDS);
    assert_int_equal(rs_lab_grid_diverged(&grid, 1), 0);
    for (int seed = 0; seed < SEEDS; seed++) {
        const rs_grid_run *run = rs_lab_grid_run(&grid, 0, 1, seed);
        assert_true(run->made && run->diverged >= 1 && run->diverged < STEPS);
        assert_true(isnan(run->eval_accuracy));
        assert_true(rs_lab_run_reaches(&grid, run, 0.0001) == STEPS);
    }
    assert_int_equal(rs_lab_grid_best(&grid, 0, 0, 0.9), 0);
    /* a chance above what was learnt makes the rate that diverged the better one */
    assert_int_equal(rs_lab_grid_best(&grid, 0, 2, 0.9), 1);
    rs_lab_grid_close(&grid);
}

/* Of two rates that end alike the one that gets there first. */
static void the_best_of_equal_ones_is_sooner(void **state)
{
    (void)state;
    double step[] = {0, 5, 10}, late[] = {0.1, 0.2, 0.9}, soon[] = {0.1, 0.7, 0.9};
    for (int first = 0; first < 2; first++) {
        rs_grid_run runs[RS_LAB_RATES * SEEDS] = {{0}};
        for (int i = 0; i < RS_LAB_RATES * SEEDS; i++)
            runs[i] = (rs_grid_run){.diverged = NAN,
                                    .logs = 3,
                                    .step = step,
                                    .accuracy = i / SEEDS == first ? soon : late,
                                    .eval_accuracy = 0.9};
        rs_lab_grid grid = described;
        grid.of = runs;
        assert_int_equal(rs_lab_grid_best(&grid, 0, 0, 0.5), first);
    }
}

static void says_when_it_is_enough(void **state)
{
    (void)state;
    double step[] = {0, 5, 10}, accuracy[] = {0.1, 0.6, 0.4};
    const rs_grid_run run = {.diverged = NAN, .logs = 3, .step = step, .accuracy = accuracy};
    assert_true(rs_lab_run_reaches(&described, &run, 0.5) == 5);
    assert_true(rs_lab_run_reaches(&described, &run, 0.05) == 0);
    assert_true(rs_lab_run_reaches(&described, &run, 0.6) == STEPS);
}

static void the_table_has_every_run(void **state)
{
    (void)state;
    rs_lab_grid grid;
    rs_error err;
    rs_lab_report report = {.result = rs_result_new("lab"), .experiment = "none"};
    open_grid(&grid, 1);
    assert_int_equal(rs_lab_grid_table(&report, &grid, "runs", 0.9, &err), RS_OK);
    const rs_table *table = rs_result_table(report.result, "runs");
    assert_int_equal(rs_table_rows(table), 3 * SEEDS);
    for (size_t row = 0; row < 3 * SEEDS; row++) {
        bool bad = row / SEEDS == 1;
        assert_string_equal(rs_lab_cell_text(table, row, "recipe"), row < 4 ? "bare" : "post");
        assert_true(rs_lab_cell(table, row, "seed") == (double)(row % SEEDS));
        assert_true(isnan(rs_lab_cell(table, row, "eval_accuracy")) == bad);
        assert_true(isnan(rs_lab_cell(table, row, "diverged")) != bad);
    }
    rs_result_free(report.result);
    rs_lab_grid_close(&grid);
}

/* The last logged step is one at which it can be enough; a number that was seen has a column. */
static void the_last_step_counts(void **state)
{
    (void)state;
    static const rs_column shown[] = {RS_LAB_SEEN(0, "one", "one", "the first"),
                                      RS_LAB_SEEN(1, "two", "two", "the second")};
    double step[] = {0, STEPS}, late[] = {0.1, 0.95}, never[] = {0.1, 0.9}, seen[] = {3, 7};
    rs_grid_run runs[RS_LAB_RATES * SEEDS] = {{0}};
    rs_error err;
    rs_lab_report report = {.result = rs_result_new("lab"), .experiment = "none"};
    for (int i = 0; i < SEEDS; i++)
        runs[i] = (rs_grid_run){.made = true,
                                .diverged = NAN,
                                .logs = 2,
                                .step = step,
                                .loss = step,
                                .accuracy = i == 0 ? late : never,
                                .seen = seen};
    rs_lab_grid grid = described;
    grid.of = runs;
    grid.n_recipes = 1;
    grid.shown = shown;
    grid.n_shown = 2;
    assert_int_equal(rs_lab_grid_table(&report, &grid, "runs", 0.9, &err), RS_OK);
    const rs_table *table = rs_result_table(report.result, "runs");
    assert_int_equal(rs_table_rows(table), SEEDS);
    for (size_t row = 0; row < SEEDS; row++) {
        double reached = rs_lab_cell(table, row, "reached");
        assert_true(row == 0 ? reached == STEPS : isnan(reached));
        assert_true(rs_lab_cell(table, row, "one") == 3 && rs_lab_cell(table, row, "two") == 7);
    }
    rs_result_free(report.result);
}

/* ---- runs that are kept ---- */

static void name_db(char *path, size_t size)
{
    const char *folder = getenv("TMPDIR");
    snprintf(path, size, "%s/rankscope-runs-%ld.db", folder ? folder : "/tmp", (long)getpid());
    (void)remove(path);
}

static int64_t ask(const char *path, const char *text)
{
    sqlite3 *sql;
    sqlite3_stmt *query;
    assert_int_equal(sqlite3_open(path, &sql), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(sql, text, -1, &query, NULL), SQLITE_OK);
    int64_t answer = sqlite3_step(query) == SQLITE_ROW ? sqlite3_column_int64(query, 0) : -1;
    sqlite3_finalize(query);
    sqlite3_close(sql);
    return answer;
}

static rs_status train_kept(rs_lab_grid *grid, const char *path, const rs_context *context)
{
    rs_error err;
    *grid = described;
    grid->experiment = "test";
    assert_int_equal(rs_kept_runs_open(&grid->kept, path, &err), RS_OK);
    rs_status status = rs_lab_grid_train(grid, context, &err);
    rs_kept_runs_close(grid->kept);
    return status;
}

static volatile sig_atomic_t stop;

static void stop_behind_two(void *user, const char *phase, uint64_t done, uint64_t total,
                            const char *unit)
{
    (void)user, (void)phase, (void)total, (void)unit;
    stop = done >= 2;
}

static void same_numbers(const rs_lab_grid *a, const rs_lab_grid *b)
{
    for (int i = 0; i < a->n_recipes * RS_LAB_RATES * a->seeds; i++) {
        const rs_grid_run *x = &a->of[i], *y = &b->of[i];
        assert_true(x->made == y->made && x->logs == y->logs);
        assert_memory_equal(&x->diverged, &y->diverged, sizeof x->diverged);
        assert_memory_equal(&x->eval_loss, &y->eval_loss, sizeof x->eval_loss);
        assert_memory_equal(x->step, y->step, 3 * (STEPS / EVERY + 1) * sizeof *x->step);
    }
}

static void a_grid_goes_on_where_it_was(void **state)
{
    (void)state;
    char path[300];
    rs_lab_grid whole, grid;
    const rs_context context = {.threads = 2, .seed = 7};
    const rs_context stopped = {
        .threads = 1, .seed = 7, .cancel = &stop, .progress = stop_behind_two};
    name_db(path, sizeof path);
    open_grid(&whole, 1);
    stop = 0;
    assert_int_equal(train_kept(&grid, path, &stopped), RS_E_INTERRUPTED);
    rs_lab_grid_close(&grid);
    assert_int_equal(ask(path, "SELECT count(*) FROM lab_runs"), 2);
    assert_int_equal(train_kept(&grid, path, &context), RS_OK);
    same_numbers(&whole, &grid);
    rs_lab_grid_close(&grid);
    assert_int_equal(ask(path, "SELECT count(*) FROM lab_runs"), 3 * SEEDS);
    /* what is there is not trained again: what another version made is */
    ask(path, "UPDATE lab_runs SET numbers = zeroblob(length(numbers))");
    assert_int_equal(train_kept(&grid, path, &context), RS_OK);
    assert_int_equal(rs_lab_grid_run(&grid, 1, 0, 0)->logs, 0);
    rs_lab_grid_close(&grid);
    ask(path, "UPDATE lab_runs SET version = 'none'");
    assert_int_equal(train_kept(&grid, path, &context), RS_OK);
    same_numbers(&whole, &grid);
    rs_lab_grid_close(&grid);
    rs_lab_grid_close(&whole);
    (void)remove(path);
}

static rs_status note_run(void *user, const char *task, rs_error *err)
{
    (void)task, (void)err;
    *(bool *)user = true;
    return RS_OK;
}

static void foreign_files_are_refused(void **state)
{
    (void)state;
    char path[300];
    rs_kept_runs *kept;
    rs_error err;
    name_db(path, sizeof path);
    ask(path, "CREATE TABLE theirs (x)");
    assert_int_equal(rs_kept_runs_open(&kept, path, &err), RS_E_WRITE);
    assert_non_null(strstr(err.what, "something else"));
    assert_null(kept);
    assert_int_equal(ask(path, "SELECT count(*) FROM sqlite_master"), 1);
    FILE *text = fopen(path, "w");
    assert_non_null(text);
    for (int i = 0; i < 200; i++)
        fprintf(text, "this is no database\n");
    fclose(text);
    assert_int_equal(rs_kept_runs_open(&kept, path, &err), RS_E_WRITE);
    (void)remove(path);
    assert_int_equal(rs_kept_runs_open(&kept, "/nonexistent/runs.db", &err), RS_E_WRITE);
}

/* What cannot be written to gives what it has; what it has not is not trained in vain. */
static void read_only_files_are_read(void **state)
{
    (void)state;
    char path[300];
    rs_lab_grid grid;
    rs_error err;
    const rs_context context = {.threads = 1, .seed = 7}, other = {.threads = 1, .seed = 8};
    name_db(path, sizeof path);
    assert_int_equal(train_kept(&grid, path, &context), RS_OK);
    rs_lab_grid_close(&grid);
    assert_int_equal(chmod(path, 0444), 0);
    bool root = geteuid() == 0; /* to whom nothing is read-only */
    if (root) assert_int_equal(seteuid(65534), 0);
    rs_status again = train_kept(&grid, path, &context);
    rs_lab_grid_close(&grid);
    rs_status more = train_kept(&grid, path, &other);
    rs_lab_grid_close(&grid);
    rs_kept_runs *kept;
    rs_status opened = rs_kept_runs_open(&kept, path, &err);
    double numbers[1] = {0};
    bool run = false;
    const rs_kept_maker maker = {&run, note_run};
    rs_status taken =
        opened == RS_OK ? rs_kept_runs_take(kept, "none", "none", numbers, 1, &maker, &err) : RS_OK;
    rs_kept_runs_close(opened == RS_OK ? kept : NULL);
    if (root) assert_int_equal(seteuid(0), 0);
    assert_true(again == RS_OK && more == RS_E_WRITE && opened == RS_OK);
    assert_int_equal(taken, RS_E_WRITE);
    assert_non_null(strstr(err.what, "cannot be written to"));
    assert_false(run);
    assert_int_equal(ask(path, "SELECT count(*) FROM lab_runs"), 3 * SEEDS);
    (void)remove(path);
}

static void seeds_and_their_spread(void **state)
{
    (void)state;
    const double values[] = {1, 2, 6};
    const rs_lab_spread three = rs_lab_spread_of(values, 3), one = rs_lab_spread_of(values, 1);
    assert_true(fabs(three.mean - 3) < 1e-15 && fabs(three.error - sqrt(14.0 / 6)) < 1e-15);
    assert_true(one.mean == 1 && isinf(one.error));
    assert_true(three.n == 3 && one.n == 1 && isinf(rs_lab_order_error(one)));
    /* t(0.975, n - 1)/1.96 from tables of Student's law, and the error itself of five and more */
    static const double few[] = {6.483, 2.195, 1.624, 1, 1, 1};
    for (int n = 2; n < 8; n++)
        assert_true(fabs(rs_lab_order_error((rs_lab_spread){1, 0.5, n}) - few[n - 2] / 2) < 3e-4);
    assert_true(rs_lab_order_error((rs_lab_spread){1, 0.5, 0}) == 0.5);
    assert_int_equal(rs_lab_seeds(&(rs_lab_options){.quick = true, .seeds = 3}, 5), 1);
    assert_int_equal(rs_lab_seeds(&(rs_lab_options){.seeds = 3}, 5), 3);
    assert_int_equal(rs_lab_seeds(&(rs_lab_options){.seeds = 9}, 5), 5);
    assert_int_equal(rs_lab_seeds(&(rs_lab_options){0}, 5), 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(runs_are_those_of_train),
        cmocka_unit_test(the_end_is_seen),
        cmocka_unit_test(divergence_is_counted),
        cmocka_unit_test(says_when_it_is_enough),
        cmocka_unit_test(the_best_of_equal_ones_is_sooner),
        cmocka_unit_test(the_table_has_every_run),
        cmocka_unit_test(the_last_step_counts),
        cmocka_unit_test(a_grid_goes_on_where_it_was),
        cmocka_unit_test(foreign_files_are_refused),
        cmocka_unit_test(read_only_files_are_read),
        cmocka_unit_test(seeds_and_their_spread),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
