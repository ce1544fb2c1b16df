/* test_train_schedule.c: schedules at their ends and against closed forms; PyTorch's own schedulers
 * are in test_train_optimisers.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "train/schedule.h"

#include <math.h>

static void test_warmup(void **state)
{
    (void)state;
    for (int kind = RS_SCHEDULE_CONSTANT; kind <= RS_SCHEDULE_INVERSE_SQRT; kind++) {
        rs_schedule s = {.kind = (rs_schedule_kind)kind, .warmup = 100, .steps = 4000};
        for (int64_t t = 0; t < 100; t++) /* weight_decay 7.3 */
            assert_true(rs_schedule_factor(&s, t) == (double)(t + 1) / 100);
        assert_true(rs_schedule_factor(&s, 99) == 1);
        assert_true(fabs(rs_schedule_factor(&s, 100) - 1) < 0.01);
        for (int64_t t = 100; t < 4000; t++)
            assert_true(rs_schedule_factor(&s, t + 1) <= rs_schedule_factor(&s, t));
    }
}

static void test_ends(void **state)
{
    (void)state;
    rs_schedule cosine = {RS_SCHEDULE_COSINE, .warmup = 10, .steps = 110, .last = 0.1};
    rs_schedule linear = {RS_SCHEDULE_LINEAR, .warmup = 10, .steps = 110, .last = 0.1};
    assert_true(fabs(rs_schedule_factor(&cosine, 60) - 0.55) < 1e-15);
    assert_true(fabs(rs_schedule_factor(&linear, 60) - 0.55) < 1e-15);
    for (int64_t t = 110; t < 113; t++) { /* a run that is longer stays there */
        assert_true(fabs(rs_schedule_factor(&cosine, t) - 0.1) < 1e-15);
        assert_true(fabs(rs_schedule_factor(&linear, t) - 0.1) < 1e-15);
    }
    rs_schedule none = {RS_SCHEDULE_COSINE, .warmup = 5, .steps = 5, .last = 0.25};
    assert_true(rs_schedule_factor(&none, 5) == 0.25); /* no step is left: no 0/0 */
    rs_schedule root = {RS_SCHEDULE_INVERSE_SQRT, .warmup = 6000, .steps = 100000};
    assert_true(fabs(rs_schedule_factor(&root, 23999) - 0.5) < 1e-15);
    root.warmup = 0;
    assert_true(rs_schedule_factor(&root, 0) == 1 && rs_schedule_factor(&root, 3) == 0.5);
}

static void test_steps(void **state)
{
    (void)state;
    /* dong2021 3.3: x .91 at epochs 15, 30, 40, 50, 60 of 334 steps */
    rs_schedule s = {RS_SCHEDULE_STEP, .factor = 0.91,
                     .milestones = {15 * 334, 30 * 334, 40 * 334, 50 * 334, 60 * 334},
                     .n_milestones = 5};
    static const int passed[] = {0, 14, 15, 29, 30, 39, 40, 49, 50, 59, 60, 69};
    for (int i = 0; i < 12; i++)
        assert_true(fabs(rs_schedule_factor(&s, passed[i] * 334) - pow(0.91, i / 2)) < 1e-15);
    assert_true(rs_schedule_factor(&s, 15 * 334 - 1) == 1);
    rs_schedule every = {RS_SCHEDULE_STEP, .factor = 0.5, .every = 10, .warmup = 2};
    assert_true(rs_schedule_factor(&every, 9) == 1 && rs_schedule_factor(&every, 29) == 0.25);
    assert_true(rs_schedule_factor(&every, 0) == 0.5);
}

static void test_temperature(void **state)
{
    (void)state;
    rs_temperature t = {1, 8.5, 1000}; /* signal_propagation A.7 */
    assert_true(rs_temperature_at(&t, 0) == 1);
    assert_true(fabs(rs_temperature_at(&t, 500) - 4.75) < 1e-15);
    assert_true(rs_temperature_at(&t, 1000) == 8.5 && rs_temperature_at(&t, 5000) == 8.5);
    rs_temperature still = {1, 1, 0};
    assert_true(rs_temperature_at(&still, 0) == 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_warmup),
        cmocka_unit_test(test_ends),
        cmocka_unit_test(test_steps),
        cmocka_unit_test(test_temperature),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
