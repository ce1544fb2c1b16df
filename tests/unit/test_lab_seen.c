/*
 * test_lab_seen.c: what experiments see of a training run beside its losses, against the tables of the
 * same run, trained once more. All other runs of the experiment are made up (made_up_runs.h).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "made_up_runs.h"

static void fill_nothing(double *numbers, size_t n, const made_up_task *task)
{
    (void)task;
    memset(numbers, 0, n * sizeof *numbers);
    numbers[0] = NAN; /* it did not diverge */
}

/* Trains the run of a quick experiment whose task has those words, and once more, outside of it, for
 * its tables; what was seen of it is behind the numbers that every run has. */
static rs_result *train_twice(rs_kept_runs *kept, const char *id, const char *words, int logs)
{
    const rs_context context = {.threads = 1};
    rs_result *again = NULL;
    rs_error err;
    kept->train = words;
    rs_result_free(run_made_up(id, kept, &(rs_lab_options){.quick = true}));
    assert_true(kept->trained > 0);
    assert_int_equal(rs_lab_train(&again, kept->task, NULL, &context, &err), RS_OK);
    assert_true(kept->numbers[1] == logs);
    return again;
}

/* The last layer's number in the first or the last step. */
static double layer_number(const rs_result *run, const char *column, bool last)
{
    const rs_table *layers = rs_result_table(run, "layers");
    size_t n = rs_table_rows(layers);
    double step = last ? rs_lab_cell(layers, n - 1, "step") : 0, deepest = -1, number = NAN;
    for (size_t row = 0; row < n; row++)
        if (rs_lab_cell(layers, row, "step") == step &&
            rs_lab_cell(layers, row, "layer") > deepest) {
            deepest = rs_lab_cell(layers, row, "layer");
            number = rs_lab_cell(layers, row, column);
        }
    return number;
}

static void near(double got, double expected)
{
    if (!(fabs(got - expected) <= 1e-12 * (1 + fabs(expected))))
        fail_msg("%.17g is not %.17g", got, expected);
}

static void gap_is_seen(void **state)
{
    (void)state;
    enum { LOGS = 3 };
    rs_kept_runs kept = {.fill = fill_nothing};
    rs_result *run =
        train_twice(&kept, "gap-training", "'skip_mixer': 0, 'attention': 'centred'", LOGS);
    const double *seen = kept.numbers + 4 + 3 * LOGS;
    double first = layer_number(run, "relative_residual", false);
    assert_true(fabs(first - layer_number(run, "relative_residual", true)) > 1e-6);
    near(seen[0], first);
    near(seen[1], 128 * 32 / 4.0);
    rs_result_free(run);
}

static void skipless_is_seen(void **state)
{
    (void)state;
    enum { LOGS = 7 };
    rs_kept_runs kept = {.fill = fill_nothing};
    rs_result *run = train_twice(&kept, "skipless-train", "'skip_mlp': 0", LOGS);
    const double *seen = kept.numbers + 4 + 3 * LOGS;
    const rs_table *log = rs_result_table(run, "log"), *marks = rs_result_table(run, "marks");
    double loss = rs_lab_cell(log, rs_table_rows(log) - 1, "eval_loss"), entropy = NAN;
    for (size_t row = 0; row < rs_table_rows(marks); row++)
        if (strcmp(rs_lab_cell_text(marks, row, "name"), "unigram entropy") == 0)
            entropy = rs_lab_cell(marks, row, "value");
    near(kept.numbers[2], loss);
    near(seen[0], loss - entropy);
    near(seen[1], layer_number(run, "relative_residual", true));
    rs_result_free(run);
}

/* Mean over heads, and over layers where layer is -1, at the end. */
static double rank_of(const rs_result *run, const char *product, const char *column, int layer)
{
    const rs_table *ranks = rs_result_table(run, "ranks");
    size_t rows = rs_table_rows(ranks);
    double sum = 0, n = 0, end = rs_lab_cell(ranks, rows - 1, "step");
    for (size_t row = 0; row < rows; row++) {
        if (rs_lab_cell(ranks, row, "step") != end) continue;
        if (layer >= 0 && rs_lab_cell(ranks, row, "layer") != layer) continue;
        if (strcmp(rs_lab_cell_text(ranks, row, "product"), product) != 0) continue;
        sum += rs_lab_cell(ranks, row, column), n++;
    }
    assert_true(n > 0 && end > 0);
    return sum / n;
}

static void ranks_are_seen(void **state)
{
    (void)state;
    enum { LOGS = 2 };
    static const char *const products[] = {"qk", "ov"}, *const columns[] = {"pseudo_rank",
                                                                            "effective_rank"};
    rs_kept_runs kept = {.fill = fill_nothing};
    rs_result *run =
        train_twice(&kept, "kobayashi-table1-small", "'attention': 1, 'mlp': 1,", LOGS);
    const double *seen = kept.numbers + 4 + 3 * LOGS;
    for (int k = 0; k < 2; k++)
        near(seen[k], rank_of(run, products[k], "pseudo_rank", -1));
    near(seen[2], rs_lab_mark(run, "unigram entropy"));
    near(seen[3], rs_lab_mark(run, "entropy of the source"));
    assert_true(seen[3] < seen[2]);
    rs_result_free(run);
    kept = (rs_kept_runs){.fill = fill_nothing};
    run = train_twice(&kept, "kobayashi-fig3", "'attention': 1, 'mlp': 0.1,", LOGS);
    for (int k = 0; k < 16; k++)
        near(seen[k], rank_of(run, products[k / 2 % 2], columns[k % 2], k / 4));
    rs_result_free(run);
}

static void strengths_are_seen(void **state)
{
    (void)state;
    enum { LOGS = 4 };
    rs_kept_runs kept = {.fill = fill_nothing};
    rs_result *run = train_twice(&kept, "lambda-table1-small", "'trainable': ['skips']", LOGS);
    const double *seen = kept.numbers + 4 + 3 * LOGS;
    const rs_table *layers = rs_result_table(run, "layers"), *log = rs_result_table(run, "log");
    double spikes = 0;
    int found = 0;
    assert_int_equal(kept.trained, 4);
    for (size_t row = 0; row < rs_table_rows(layers); row++) {
        double layer = rs_lab_cell(layers, row, "layer");
        if (rs_lab_cell(layers, row, "step") != 60 || layer < 0 || layer > 1) continue;
        near(seen[(int)layer], rs_lab_cell(layers, row, "mixer_skip"));
        assert_true(fabs(seen[(int)layer] - 1) > 1e-4);
        found++;
    }
    for (size_t row = 0; row < rs_table_rows(log); row++)
        spikes += rs_lab_cell(log, row, "batch_loss") / rs_lab_cell(log, row, "loss") > 1.5;
    assert_int_equal(found, 2);
    near(seen[2], spikes);
    rs_result_free(run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gap_is_seen),
        cmocka_unit_test(skipless_is_seen),
        cmocka_unit_test(ranks_are_seen),
        cmocka_unit_test(strengths_are_seen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
