/* test_lab_losses.c: grids that are judged by their loss: the best rate, what a run that diverged counts
 * as, orders, the table; and networks that are given other numbers than the drawn ones. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "lab/losses.h"

#include <math.h>
#include <string.h>

enum { SEEDS = 2, STEPS = 20, EVERY = 5 };

/* The second rate is so large that numbers end. */
static const rs_lab_recipe recipes[] = {
    {"drawn", "", ", 'kind': 'sgd'", "", {0.3, 1e6}},
    {"zero head", "", ", 'kind': 'sgd'", "", {1e-2}},
};

static rs_status start_head(void *user, rs_learner *learner, rs_error *err)
{
    float *head = rs_lab_weight(learner, "head.weight");
    (void)user, (void)err;
    assert_non_null(head);
    assert_null(rs_lab_weight(learner, "head"));
    memset(head, 0, 10 * 8 * sizeof *head);
    return RS_OK;
}

static const rs_lab_prepare *prepare(const rs_lab_recipe *recipe)
{
    static const rs_lab_prepare start = {NULL, start_head};
    return recipe == &recipes[1] ? &start : NULL;
}

static void open_losses(rs_losses *all, double lost, double unit)
{
    const rs_context context = {.threads = 2, .seed = 7};
    rs_error err;
    *all = (rs_losses){.lost = lost, .unit = unit};
    all->grid =
        (rs_lab_grid){.task = "'task': 'reversal', 'data': {'length': 4, 'eval': 16}, 'batch': 4",
                      .model = "'d_model': 8, 'mlp_width': 8, 'depth': 1, 'norm': 'none'",
                      .recipes = recipes,
                      .prepare = prepare,
                      .n_recipes = 2,
                      .seeds = SEEDS,
                      .steps = STEPS,
                      .every = EVERY};
    assert_int_equal(rs_losses_train(all, &context, &err), RS_OK);
}

/* A head of zeros guesses each of ten digits alike; only one recipe has it. */
static void numbers_are_given(void **state)
{
    (void)state;
    rs_losses all;
    open_losses(&all, NAN, 1);
    for (int seed = 0; seed < SEEDS; seed++) {
        double drawn = rs_lab_grid_run(&all.grid, 0, 0, seed)->loss[0];
        double zero = rs_lab_grid_run(&all.grid, 1, 0, seed)->loss[0];
        assert_true(fabs(zero - log(10)) < 1e-6);
        assert_true(fabs(drawn - log(10)) > 1e-3);
    }
    rs_losses_close(&all);
}

static void the_best_rate_has_least_loss(void **state)
{
    (void)state;
    rs_losses all;
    open_losses(&all, NAN, 2);
    assert_int_equal(all.way[0].rate, 0);
    double mean = 0;
    for (int seed = 0; seed < SEEDS; seed++) {
        double loss = rs_lab_grid_run(&all.grid, 0, 0, seed)->eval_loss;
        assert_true(all.way[0].loss[seed] == loss / 2);
        mean += loss / 2 / SEEDS;
    }
    assert_true(fabs(all.way[0].of.mean - mean) < 1e-12);
    rs_losses_close(&all);
    /* what diverged would be the better rate if it counted as no loss */
    open_losses(&all, 0, 2);
    assert_int_equal(all.way[0].rate, 1);
    assert_true(all.way[0].of.mean == 0);
    rs_losses_close(&all);
}

/* The drawn network's lead, whichever is named first; and a published order that is the other way round. */
static void orders_are_those_of_the_losses(void **state)
{
    (void)state;
    rs_losses all;
    rs_error err;
    rs_lab_report report = {.result = rs_result_new("lab"), .experiment = "none"};
    open_losses(&all, NAN, 1);
    assert_int_equal(rs_lab_open_claims(&report, &err), RS_OK);
    for (int seed = 0; seed < SEEDS; seed++) {
        all.way[0].loss[seed] = 2 + 0.01 * seed;
        all.way[1].loss[seed] = 1;
    }
    assert_int_equal(rs_losses_between(&report, &all, 0, 1, &err), RS_OK);
    assert_int_equal(rs_losses_between(&report, &all, 1, 0, &err), RS_OK);
    assert_int_equal(rs_losses_order(&report, &all, "a", 0, 1, &err), RS_OK);
    assert_int_equal(rs_losses_order(&report, &all, "b", 1, 0, &err), RS_OK);
    static const char *const verdicts[] = {"pass", "pass", "pass", "differs_from_paper"};
    for (size_t row = 0; row < 4; row++) {
        assert_string_equal(rs_lab_cell_text(report.claims, row, "verdict"), verdicts[row]);
        assert_true(fabs(fabs(rs_lab_cell(report.claims, row, "measured")) - 1.005) < 1e-12);
        assert_true(fabs(rs_lab_cell(report.claims, row, "tolerance") - 0.01 * 12.7062 / 1.959964) <
                    2e-6);
    }
    assert_string_equal(rs_lab_cell_text(report.claims, 0, "claim"),
                        rs_lab_cell_text(report.claims, 1, "claim"));
    all.way[0].loss[0] = 0;
    all.way[0].loss[1] = 3;
    assert_int_equal(rs_losses_between(&report, &all, 0, 1, &err), RS_OK);
    assert_string_equal(rs_lab_cell_text(report.claims, 4, "verdict"), "no_difference");
    rs_losses_close(&all);
    rs_result_free(report.result);
}

static void the_table_tells_all_recipes(void **state)
{
    (void)state;
    rs_losses all;
    rs_error err;
    rs_lab_report report = {.result = rs_result_new("lab"), .experiment = "none"};
    open_losses(&all, NAN, 1);
    assert_int_equal(rs_losses_table(&report, &all, "ways", &err), RS_OK);
    const rs_table *table = rs_result_table(report.result, "ways");
    assert_int_equal(rs_table_rows(table), 2);
    for (size_t row = 0; row < 2; row++) {
        const double *loss = all.way[row].loss;
        assert_true(rs_lab_cell(table, row, "learning_rate") == (row == 0 ? 0.3 : 1e-2));
        assert_true(rs_lab_cell(table, row, "least") == fmin(loss[0], loss[1]));
        assert_true(rs_lab_cell(table, row, "most") == fmax(loss[0], loss[1]));
        assert_true(rs_lab_cell(table, row, "loss_error") == fabs(loss[0] - loss[1]) / 2);
        assert_true(rs_lab_cell(table, row, "runs") == (row == 0 ? 4 : 2));
        assert_true(rs_lab_cell(table, row, "diverged") == (row == 0 ? 2 : 0));
    }
    rs_losses_close(&all);
    rs_result_free(report.result);
}

/* ---- numbers by hand ---- */

/* A grid of one recipe and one rate without a training; run: [SEEDS]. */
static void give_runs(rs_losses *all, rs_grid_run *runs, rs_loss_way *way, double lost)
{
    *all = (rs_losses){.lost = lost, .unit = 4, .way = way};
    all->grid = (rs_lab_grid){
        .recipes = recipes, .n_recipes = 1, .seeds = SEEDS, .steps = STEPS, .of = runs};
}

/* The curve of a run that ended early goes on as what it counts as. */
static void curves_go_on(void **state)
{
    (void)state;
    static const rs_column columns[] =
        RS_LAB_POINTS(RS_LAB_X_WHOLE("x", "x", "steps"), RS_LAB_Y("y", "y", "loss"));
    static const rs_table_kind kind = {"lab", "curves", {RS_PART(columns)}};
    static const rs_lab_curves drawn = {.kind = &kind, .title = "curves", .about = "losses"};
    double step[] = {0, 5, 10}, first[] = {8, 6, 5}, second[] = {10, 0, 0};
    rs_grid_run runs[RS_LAB_RATES * SEEDS] = {
        {.diverged = NAN, .logs = 3, .step = step, .loss = first},
        {.diverged = 3, .logs = 1, .step = step, .loss = second}};
    static const double ends[][3] = {{18, 16, 15}, {18, 7, 6}};
    rs_losses all;
    rs_loss_way way = {.rate = 0};
    rs_error err;
    for (int given = 0; given < 2; given++) { /* it counts as its first loss, or as 1 */
        rs_table *table = NULL;
        rs_lab_report report = {.result = rs_result_new("lab"), .experiment = "none"};
        give_runs(&all, runs, &way, given ? 1 : (double)NAN);
        assert_int_equal(rs_lab_curves_open(&table, &report, &drawn, &err), RS_OK);
        assert_int_equal(rs_losses_draw(table, &all, 0, &err), RS_OK);
        assert_int_equal(rs_table_rows(table), 3);
        for (size_t i = 0; i < 3; i++) {
            assert_true(rs_lab_cell(table, i, "x") == step[i]);
            assert_true(fabs(rs_lab_cell(table, i, "y") - ends[given][i] / 2 / 4) < 1e-14);
        }
        rs_result_free(report.result);
    }
}

/* Numbers seen of runs: one that is not there makes the mean none. */
static void what_was_seen_is_a_mean(void **state)
{
    (void)state;
    double a[] = {7, 2}, b[] = {9, 5};
    rs_grid_run runs[RS_LAB_RATES * SEEDS] = {{.diverged = NAN, .seen = a},
                                              {.diverged = NAN, .seen = b}};
    rs_losses all;
    rs_loss_way way = {.rate = 0};
    give_runs(&all, runs, &way, NAN);
    assert_true(rs_losses_mean(&all, 0, 0) == 8 && rs_losses_mean(&all, 0, 1) == 3.5);
    b[1] = NAN;
    assert_true(rs_losses_mean(&all, 0, 0) == 8 && isnan(rs_losses_mean(&all, 0, 1)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_are_given),
        cmocka_unit_test(the_best_rate_has_least_loss),
        cmocka_unit_test(orders_are_those_of_the_losses),
        cmocka_unit_test(the_table_tells_all_recipes),
        cmocka_unit_test(curves_go_on),
        cmocka_unit_test(what_was_seen_is_a_mean),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
