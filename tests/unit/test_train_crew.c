/*
 * test_train_crew.c: a batch that is cut into parts: its loss, counts and gradients are those of the whole
 * batch, and the same bits for any number of threads; memory that ends.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "train_support.h"

#include "base/memory.h"
#include "train/learner.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SAMPLES = 48, TOKENS = 8, PARTS = 3 };

typedef struct crowd {
    rs_context context;
    rs_train_settings *settings;
    rs_train_task *task;
    rs_learner learner;
    rs_task_batch batch;
} crowd;

/* Associative recall of 48 samples of 8 tokens; more: members with ' for ". It must not move. */
static rs_status open_crowd(crowd *c, const char *more, int threads, rs_error *err)
{
    char text[900];
    snprintf(
        text, sizeof text,
        "{'task': 'associative-recall', 'batch': 48, 'steps': 9, 'data': {'keys': 6, 'values': 5,"
        " 'pairs': 3, 'queries': 2}, 'model': {'depth': 2, 'd_model': 12, 'heads': 3, 'mask': "
        "'causal', 'positions': 'learned', 'norm_affine': 'both', 'bias': true}, %s}",
        more);
    for (char *at = text; *at; at++)
        if (*at == '\'') *at = '"';
    json_t *json = json_loads(text, 0, NULL);
    assert_non_null(json);
    *c = (crowd){.context = {.threads = threads, .seed = 1}};
    rs_status status = rs_train_settings_read(&c->settings, json, "test", NULL, 0, err);
    json_decref(json);
    if (status != RS_OK) fail_msg("%s: %s: %s", text, err->where, err->what);
    c->task = open_task("associative-recall", &c->settings->data, 7);
    c->batch = new_batch(c->task, SAMPLES);
    fill_batch(&c->batch, c->task, RS_TASK_TRAIN, 3);
    return rs_learner_open(&c->learner, c->settings, rs_task_sizes(c->task), &c->context, err);
}

static void close_crowd(crowd *c)
{
    rs_learner_close(&c->learner);
    rs_task_batch_free(&c->batch);
    rs_task_close(c->task);
    rs_train_settings_close(c->settings);
}

/* Two batches of a step, the second of fewer samples. */
static rs_batch_outcome run_two(crowd *c, int64_t samples)
{
    rs_batch_outcome first, second;
    rs_error err = {0};
    assert_int_equal(rs_learner_batch(&first, &c->learner, &c->batch, 0, &err), RS_OK);
    c->batch.samples = samples;
    assert_int_equal(rs_learner_batch(&second, &c->learner, &c->batch, 1, &err), RS_OK);
    c->batch.samples = SAMPLES;
    second.loss += first.loss;
    second.accuracy += first.accuracy;
    second.targets += first.targets;
    rs_trained_end(&c->learner.trained.sink);
    return second;
}

/* Has the learner run its batches whole. */
static void leave_whole(crowd *c)
{
    rs_error err = {0};
    rs_learner *l = &c->learner;
    rs_crew_close(l->crew);
    assert_int_equal(
        rs_crew_open(&l->crew, &l->trained, l->precision, 1, 1, l->runner, l->context, &err),
        RS_OK);
}

static double largest(const double *x, int64_t n)
{
    double most = 0;
    for (int64_t i = 0; i < n; i++)
        most = fmax(most, fabs(x[i]));
    return most;
}

static void as_the_whole_batch(void **state)
{
    (void)state;
    static const char *const cases[] = {
        "'precision': 'f64'",
        "'precision': 'f64', 'dropout': 0.3, 'accumulate': 2",
        "'precision': 'f64', 'loss': 'squared', 'trainable': ['skips', 'branches']",
        "'precision': 'f64', 'loss': 'hinge', 'optimizer': {'frozen': ['attention']}",
        "'precision': 'f64', 'label_smoothing': 0.2",
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        crowd parts, whole;
        rs_error err = {0};
        assert_int_equal(open_crowd(&parts, cases[k], 2, &err), RS_OK);
        assert_int_equal(open_crowd(&whole, cases[k], 2, &err), RS_OK);
        const rs_trained_list *a = &parts.learner.trained, *b = &whole.learner.trained;
        assert_int_equal(rs_crew_parts(a->numbers, a->size, SAMPLES, SAMPLES * TOKENS), PARTS);
        leave_whole(&whole);
        int64_t samples = k == 0 ? 2 : 37; /* one part has none */
        rs_batch_outcome x = run_two(&parts, samples), y = run_two(&whole, samples);
        assert_int_equal(x.targets, y.targets);
        assert_true(x.accuracy == y.accuracy || (isnan(x.accuracy) && isnan(y.accuracy)));
        assert_true(fabs(x.loss - y.loss) <= 1e-14 * fabs(y.loss));
        int64_t n = (int64_t)(a->bytes / a->size);
        const double *g = a->gradients, *h = b->gradients;
        assert_true(largest(h, n) > 1e-3);
        for (int64_t i = 0; i < n; i++)
            if (fabs(g[i] - h[i]) > 1e-14 * largest(h, n))
                fail_msg("%s: number %lld: %.17g, %.17g", cases[k], (long long)i, g[i], h[i]);
        close_crowd(&parts);
        close_crowd(&whole);
    }
}

static void threads_change_no_bit(void **state)
{
    (void)state;
    static const char *const precisions[] = {"'precision': 'f32', 'dropout': 0.1",
                                             "'precision': 'f64'"};
    static const int threads[] = {2, 7};
    for (size_t k = 0; k < 2; k++) {
        crowd one, more;
        rs_error err = {0};
        assert_int_equal(open_crowd(&one, precisions[k], 1, &err), RS_OK);
        rs_batch_outcome x = run_two(&one, 37);
        for (size_t t = 0; t < 2; t++) {
            assert_int_equal(open_crowd(&more, precisions[k], threads[t], &err), RS_OK);
            rs_batch_outcome y = run_two(&more, 37);
            assert_true(x.loss == y.loss && x.accuracy == y.accuracy);
            assert_memory_equal(one.learner.trained.gradients, more.learner.trained.gradients,
                                one.learner.trained.bytes);
            close_crowd(&more);
        }
        close_crowd(&one);
    }
}

/* How a batch is cut. */
static void parts_of_batches(void **state)
{
    (void)state;
    assert_int_equal(rs_crew_parts(1000, 4, 1, 100000), 1); /* one sample */
    assert_int_equal(rs_crew_parts(1000, 4, 100, 255), 1);  /* few rows */
    assert_int_equal(rs_crew_parts(1000, 4, 100, 256), 2);
    assert_int_equal(rs_crew_parts(1000, 4, 3, 100000), 3);
    assert_int_equal(rs_crew_parts(1000, 4, 100, 100000), 8);
    assert_int_equal(rs_crew_parts(124439808, 4, 100, 100000), 1);
    assert_int_equal(rs_crew_parts(0, 4, 0, 0), 1);
}

/* One thread, so that requests have an order. */
static void memory_that_ends(void **state)
{
    (void)state;
    bool done = false;
    int64_t refused = 0;
    for (int64_t k = 1; !done; k += 1 + k / 16) {
        crowd c;
        rs_error err = {0};
        rs_batch_outcome outcome;
        int64_t before = rs_memory_blocks();
        assert_int_equal(open_crowd(&c, "'precision': 'f32'", 1, &err), RS_OK);
        int64_t asked = rs_memory_requests();
        rs_memory_fail_once(k);
        rs_status status = rs_learner_batch(&outcome, &c.learner, &c.batch, 0, &err);
        done = rs_memory_requests() - asked < k;
        rs_memory_fail_at(0);
        assert_true(status == RS_E_NO_MEMORY || status == RS_OK); /* products do without */
        refused += status == RS_E_NO_MEMORY;
        close_crowd(&c);
        assert_int_equal(rs_memory_blocks(), before);
    }
    assert_true(refused > 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_the_whole_batch),
        cmocka_unit_test(threads_change_no_bit),
        cmocka_unit_test(parts_of_batches),
        cmocka_unit_test(memory_that_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
