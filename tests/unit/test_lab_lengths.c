/*
 * test_lab_lengths.c: what the laboratory's trained paths stand on: floors against enumeration by hand, the
 * released code's paths through MLPs against a network that is just such a path, and circles with a lag.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/memory.h"
#include "lab/path_accuracy.h"
#include "lab/toy.h"
#include "lab/training.h"
#include "paths/paths.h"

#include <math.h>
#include <string.h>

static void near(double got, double expected, double tolerance)
{
    if (!(fabs(got - expected) <= tolerance)) fail_msg("%.17g is not %.17g", got, expected);
}

/* ---- floors ---- */

/* All 27 samples of three letters of three: for each place and letter the commonest smallest, middle and
 * largest. */
static double sorted_alone_by_hand(void)
{
    int count[3][3][3] = {0}, right = 0;
    for (int sample = 0; sample < 27; sample++) {
        int x[3] = {sample % 3, sample / 3 % 3, sample / 9}, y[3];
        memcpy(y, x, sizeof y);
        for (int i = 0; i < 2; i++)
            for (int j = 0; j < 2 - i; j++)
                if (y[j] > y[j + 1]) {
                    int other = y[j];
                    y[j] = y[j + 1];
                    y[j + 1] = other;
                }
        for (int i = 0; i < 3; i++)
            count[i][x[i]][y[i]]++;
    }
    for (int i = 0; i < 3; i++)
        for (int x = 0; x < 3; x++) {
            int most = 0;
            for (int v = 0; v < 3; v++)
                most = count[i][x][v] > most ? count[i][x][v] : most;
            right += most;
        }
    return right / 81.0;
}

static void sorting_by_a_letter(void **state)
{
    (void)state;
    near(rs_sorted_alone(3, 3), sorted_alone_by_hand(), 1e-14);
    near(rs_sorted_alone(1, 7), 1, 1e-14); /* sorted already */
    near(rs_sorted_alone(8, 10), 0.3869332425, 1e-10);
}

static rs_train_task *open_task(const char *name, const rs_task_data *data)
{
    rs_error err = {0};
    rs_train_task *task;
    assert_int_equal(rs_task_open(&task, rs_task_find(name), data, 3, name, &err), RS_OK);
    return task;
}

static double commonest(const int count[2])
{
    return count[0] > count[1] ? count[0] : count[1];
}

static void floors_of_memorization(void **state)
{
    (void)state;
    enum { TEXTS = 7, WORDS = 5 };
    const rs_task_data data = {
        .length = 9, .shortest = 4, .symbols = WORDS, .train = TEXTS, .eval = TEXTS};
    rs_train_task *task = open_task("memorization", &data);
    rs_error err = {0};
    rs_task_floors floors;
    rs_task_batch batch;
    int all[2] = {0}, word[WORDS][2] = {0};
    double same = 0, tokens = 0, alone = 0;
    assert_int_equal(rs_task_batch_new(&batch, rs_task_sizes(task), TEXTS, &err), RS_OK);
    assert_int_equal(rs_task_fill(&batch, task, RS_TASK_EVAL, 0, &err), RS_OK);
    for (int s = 0; s < TEXTS; s++) {
        int own[WORDS][2] = {0};
        for (int t = 0; t < batch.lengths[s]; t++) {
            int w = batch.tokens[9 * s + t], label = batch.classes[9 * s + t];
            all[label]++, word[w][label]++, own[w][label]++, tokens++;
        }
        for (int w = 0; w < WORDS; w++)
            same += commonest(own[w]);
    }
    for (int w = 0; w < WORDS; w++)
        alone += commonest(word[w]);
    assert_int_equal(rs_task_floors_of(&floors, task, RS_TASK_EVAL, 100, false, &err), RS_OK);
    near(floors.constant, commonest(all) / tokens, 1e-15);
    near(floors.alone, alone / tokens, 1e-15);
    near(floors.ceiling, same / tokens, 1e-15);
    /* of the first text alone its words are alone what they are together */
    assert_int_equal(rs_task_floors_of(&floors, task, RS_TASK_EVAL, 1, false, &err), RS_OK);
    assert_true(floors.alone == floors.ceiling);
    rs_task_batch_free(&batch);
    rs_task_close(task);
}

static void floors_of_real_points(void **state)
{
    (void)state;
    const rs_task_data data = {.length = 3, .side = 10, .shift = 1, .train = 5, .eval = 5};
    rs_train_task *task = open_task("convex-hull", &data);
    rs_error err = {0};
    rs_task_floors floors;
    assert_int_equal(rs_task_floors_of(&floors, task, RS_TASK_EVAL, 5, false, &err), RS_OK);
    assert_true(floors.constant == 1 && floors.ceiling == 1); /* a triangle has no inner point */
    assert_true(isnan(floors.alone));
    rs_task_close(task);
}

/* ---- the released code's paths through MLPs ---- */

enum { N = 4, D = 6 };

/* Two layers of one head without skip, their norms without gains: the network is its only path. */
static void a_path_with_mlps(void **state)
{
    (void)state;
    rs_error err = {0};
    const rs_context context = {.threads = 1, .seed = 5};
    rs_toy toy;
    json_t *arch =
        json_pack("{si si si ss ss si si si}", "depth", 2, "d_model", D, "heads", 1, "norm", "post",
                  "mlp", "gelu", "mlp_width", 8, "skip_mixer", 0, "seq_len", N);
    double x[N * D], sums[3 * N * D];
    rs_toy_trace trace;
    rs_path_plan *plan;
    rs_path_set *set;
    int64_t begin[2] = {0, N};
    const rs_batch batch = {.samples = 1, .begin = begin, .states = x};
    rs_random random = rs_random_new(7, 1);
    rs_random_normals(&random, x, N * D);
    assert_int_equal(rs_toy_open(&toy, arch, 11, &context, &err), RS_OK);
    for (int32_t l = 0; l < 2; l++)
        toy.network->layers[l].branches[0].after.eps = 1e-5;
    assert_int_equal(rs_toy_run(&trace, &toy, x, 1, N, false, &err), RS_OK);
    assert_int_equal(rs_path_plan_open(&plan, toy.network, -1, &err), RS_OK);
    assert_int_equal(rs_path_set_draw(&set, plan, 5, 0, &err), RS_OK);
    assert_int_equal(set->n, 1);
    assert_int_equal(rs_path_code_sums_of(sums, toy.network, toy.weights, &batch, plan, set, true,
                                          &context, &err),
                     RS_OK);
    double *expected = rs_toy_state(&trace, 2, 0);
    rs_path_plain_norm(expected, N, D);
    for (int i = 0; i < N * D; i++) {
        near(sums[2 * N * D + i], expected[i], 1e-12);
        assert_true(sums[i] == 0 && sums[N * D + i] == 0); /* there are no shorter paths */
    }
    /* without the MLPs it is another one */
    assert_int_equal(rs_path_code_sums_of(sums, toy.network, toy.weights, &batch, plan, set, false,
                                          &context, &err),
                     RS_OK);
    assert_true(fabs(sums[2 * N * D] - expected[0]) > 1e-6);
    rs_path_set_close(set);
    rs_path_plan_close(plan);
    rs_toy_trace_free(&trace);
    rs_toy_close(&toy);
}

/* ---- training that is seen ---- */

typedef struct seen {
    int calls;
    int64_t step;
    rs_path_accuracy accuracy;
} seen;

static rs_status see(void *user, rs_learner *learner, rs_train_task *task, rs_error *err)
{
    seen *s = user;
    const rs_path_asked asked = {.paths = 2, .places = true, .samples = 3, .seed = 1};
    s->calls++;
    s->step = learner->step;
    return rs_path_accuracy_of(&s->accuracy, learner, task, &asked, err);
}

#define SORTING(rate)                                                                              \
    "{'task': 'sorting', 'steps': 6, 'model': {'d_model': 8}, 'rank_every': 0, "                   \
    "'optimizer': {'lr': " rate "}}"

static void a_run_is_seen_at_its_end(void **state)
{
    (void)state;
    rs_error err = {0};
    const rs_context context = {.threads = 1};
    seen s = {0};
    bool diverged = true;
    const rs_lab_finish finish = {&s, see};
    assert_int_equal(rs_lab_train_seen(&diverged, SORTING("1e-3"), &finish, &context, &err), RS_OK);
    assert_false(diverged);
    assert_int_equal(s.calls, 1);
    assert_int_equal(s.step, 6);
    for (int k = 0; k < RS_PATH_LENGTHS; k++)
        assert_true(s.accuracy.code[k] >= 0 && s.accuracy.code[k] <= 1);
    assert_true(s.accuracy.up_to[RS_PATH_LONGEST] == s.accuracy.model);
    /* numbers that end: nobody sees them */
    assert_int_equal(rs_lab_train_seen(&diverged, SORTING("1e6"), &finish, &context, &err), RS_OK);
    assert_true(diverged == (s.calls == 1));
}

/* ---- the released circle ---- */

static void a_lag_adds_points(void **state)
{
    (void)state;
    rs_task_data data = rs_task_find("circle")->data;
    rs_error err = {0};
    rs_task_batch plain, lagged;
    rs_train_task *task = open_task("circle", &data);
    data.lag = 30;
    rs_train_task *other = open_task("circle", &data);
    assert_int_equal(rs_task_batch_new(&plain, rs_task_sizes(task), 100, &err), RS_OK);
    assert_int_equal(rs_task_batch_new(&lagged, rs_task_sizes(other), 100, &err), RS_OK);
    assert_int_equal(rs_task_fill(&plain, task, RS_TASK_TRAIN, 0, &err), RS_OK);
    assert_int_equal(rs_task_fill(&lagged, other, RS_TASK_TRAIN, 0, &err), RS_OK);
    for (int i = 0; i < 400; i++) {
        double before = i < 120 ? 0 : plain.rows[i - 120];
        near(lagged.rows[i], plain.rows[i] + before, 1e-15);
        assert_true(lagged.values[i] == plain.values[i]);
    }
    rs_task_batch_free(&plain);
    rs_task_batch_free(&lagged);
    rs_task_close(task);
    rs_task_close(other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sorting_by_a_letter),      cmocka_unit_test(floors_of_memorization),
        cmocka_unit_test(floors_of_real_points),    cmocka_unit_test(a_path_with_mlps),
        cmocka_unit_test(a_run_is_seen_at_its_end), cmocka_unit_test(a_lag_adds_points),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
