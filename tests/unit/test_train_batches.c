/* test_train_batches.c: what a batch hangs on (seed, set, step, sample), epochs, batches from files,
 * and refusals. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/memory.h"
#include "train_support.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* Whether two batches hold the same bits, of the first `samples`. */
static bool same_batch(const rs_task_batch *a, const rs_task_batch *b, const rs_task_shape *s,
                       int64_t samples)
{
    size_t rows = (size_t)(samples * s->n_tok), in = rows * (size_t)s->d_in;
    size_t out = rows * (size_t)s->d_out;
    return (!a->tokens || !memcmp(a->tokens, b->tokens, rows * sizeof(int32_t))) &&
           (!a->rows || !memcmp(a->rows, b->rows, in * sizeof(double))) &&
           (!a->classes || !memcmp(a->classes, b->classes, rows * sizeof(int32_t))) &&
           (!a->values || !memcmp(a->values, b->values, out * sizeof(double))) &&
           !memcmp(a->counted, b->counted, rows);
}

static void test_keys(void **state)
{
    (void)state;
    for (const rs_task_kind *kind = rs_task_kinds; kind->name; kind++) {
        rs_task_data data = kind->data;
        rs_train_task *task = open_task(kind->name, &data, 21),
                      *again = open_task(kind->name, &data, 21);
        rs_train_task *other = open_task(kind->name, &data, 22);
        const rs_task_shape *shape = rs_task_sizes(task);
        rs_task_batch a = new_batch(task, 6), b = new_batch(task, 6), wide = new_batch(task, 9);
        /* step 5 after others, and at once */
        for (int64_t step = 0; step <= 5; step++)
            fill_batch(&a, task, RS_TASK_TRAIN, step);
        fill_batch(&b, again, RS_TASK_TRAIN, 5);
        assert_true(same_batch(&a, &b, shape, 6));
        if (!shape->train) { /* a sample does not hang on how many there are */
            fill_batch(&wide, task, RS_TASK_TRAIN, 5);
            assert_true(same_batch(&a, &wide, shape, 6));
        }
        fill_batch(&b, again, RS_TASK_TRAIN, 6);
        assert_false(same_batch(&a, &b, shape, 6));
        fill_batch(&b, other, RS_TASK_TRAIN, 5);
        assert_int_equal(same_batch(&a, &b, shape, 6), kind->fixed);
        fill_batch(&b, again, RS_TASK_EVAL, 5);
        assert_int_equal(same_batch(&a, &b, shape, 6), kind->one_set);
        fill_batch(&a, again, RS_TASK_PROBE, 5);
        assert_int_equal(same_batch(&a, &b, shape, 6), kind->fixed);
        rs_task_batch_free(&wide);
        rs_task_batch_free(&b);
        rs_task_batch_free(&a);
        rs_task_close(other);
        rs_task_close(again);
        rs_task_close(task);
    }
}

static void test_epochs(void **state)
{
    (void)state;
    rs_task_data data = task_defaults("sorting");
    data.train = 100, data.eval = 10;
    rs_train_task *task = open_task("sorting", &data, 2);
    rs_task_batch all = new_batch(task, 100), part = new_batch(task, 30);
    fill_batch(&all, task, RS_TASK_TRAIN, 0);
    assert_int_equal(rs_task_epoch(task, 30), 4);
    for (int64_t step = 0; step < 8; step++) {
        fill_batch(&part, task, RS_TASK_TRAIN, step);
        int64_t first = 30 * (step % 4);
        assert_int_equal(part.samples, step % 4 == 3 ? 10 : 30);
        assert_memory_equal(part.tokens, all.tokens + 8 * first, (size_t)part.samples * 32);
    }
    fill_batch(&part, task, RS_TASK_EVAL, 0);
    assert_int_equal(part.samples, 10);
    fill_batch(&part, task, RS_TASK_EVAL, 1);
    assert_int_equal(part.samples, 0);
    rs_task_close(task);

    data.shuffle = true;
    task = open_task("sorting", &data, 2);
    rs_task_batch mixed = new_batch(task, 100), next = new_batch(task, 100);
    fill_batch(&mixed, task, RS_TASK_TRAIN, 0);
    fill_batch(&next, task, RS_TASK_TRAIN, 1);
    assert_memory_not_equal(mixed.tokens, next.tokens, 3200);
    for (int i = 0; i < 100; i++) { /* each sample is there once */
        int found = 0;
        for (int j = 0; j < 100; j++)
            found += !memcmp(mixed.tokens + 8 * j, all.tokens + 8 * i, 32);
        assert_true(found >= 1);
    }
    rs_task_batch_free(&next);
    rs_task_batch_free(&mixed);
    rs_task_batch_free(&part);
    rs_task_batch_free(&all);
    rs_task_close(task);
}

static void test_files(void **state)
{
    (void)state;
    char path[] = "/tmp/rs_batches_XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    /* two steps of three samples as another program would write them: drawn here under a seed */
    rs_task_data data = task_defaults("associative-recall");
    rs_train_task *source = open_task("associative-recall", &data, 77);
    rs_task_batch drawn[2] = {new_batch(source, 3), new_batch(source, 3)};
    int64_t numbers[2][3][2][18];
    for (int step = 0; step < 2; step++) {
        fill_batch(&drawn[step], source, RS_TASK_TRAIN, step);
        for (int i = 0; i < 3; i++)
            for (int t = 0; t < 18; t++) {
                numbers[step][i][0][t] = drawn[step].tokens[18 * i + t];
                numbers[step][i][1][t] = drawn[step].classes[18 * i + t];
            }
    }
    write_npy(path, "<i8", "2, 3, 2, 18", numbers, sizeof numbers);
    data.batches = path;
    rs_train_task *task = open_task("associative-recall", &data, 1);
    rs_task_batch read = new_batch(task, 3), four = new_batch(task, 4);
    rs_error err;
    for (int step = 0; step < 2; step++) {
        fill_batch(&read, task, RS_TASK_TRAIN, step);
        assert_true(same_batch(&read, &drawn[step], rs_task_sizes(task), 3));
        assert_int_equal(read.lengths[2], 18);
    }
    assert_int_equal(rs_task_fill(&read, task, RS_TASK_TRAIN, 2, &err), RS_E_INPUT_SHAPE);
    assert_int_equal(rs_task_fill(&four, task, RS_TASK_TRAIN, 0, &err), RS_E_INPUT_SHAPE);
    /* the batches of every step and the last look's */
    assert_int_equal(rs_task_check_batches(task, 1, 1, 3, &err), RS_OK);
    assert_int_equal(rs_task_check_batches(task, 0, 2, 3, &err), RS_OK);
    assert_int_equal(rs_task_check_batches(task, 2, 1, 3, &err), RS_E_INPUT_SHAPE);
    assert_string_equal(err.what, "it has 2 batches; 2 steps of 1 and the last look take 3");
    assert_string_equal(err.hint, "give a file of more, or set \"steps\" to at most 1");
    assert_int_equal(rs_task_check_batches(task, 1, 2, 3, &err), RS_E_INPUT_SHAPE);
    assert_int_equal(rs_task_check_batches(task, 0, 3, 3, &err), RS_E_INPUT_SHAPE);
    assert_int_equal(rs_task_check_batches(task, INT64_MAX, 1, 3, &err), RS_E_INPUT_SHAPE);
    assert_int_equal(rs_task_check_batches(task, 1, 1, 4, &err), RS_E_INPUT_SHAPE);
    assert_int_equal(rs_task_check_batches(source, 1000, 1, 4, &err), RS_OK);
    uint64_t print = rs_task_fingerprint(task);
    assert_true(print != 0 && rs_task_fingerprint(source) == 0);
    rs_task_close(task);
    numbers[0][1][0][4] = 32;
    write_npy(path, "<i8", "2, 3, 2, 18", numbers, sizeof numbers);
    task = open_task("associative-recall", &data, 1);
    assert_true(rs_task_fingerprint(task) != print);
    assert_int_equal(rs_task_fill(&read, task, RS_TASK_TRAIN, 0, &err), RS_E_TOKEN_RANGE);
    rs_task_close(task);
    write_npy(path, "<i8", "2, 3, 36", numbers, sizeof numbers);
    const rs_task_kind *kind = rs_task_find("associative-recall");
    assert_int_equal(rs_task_open(&task, kind, &data, 1, "t", &err), RS_E_INPUT_SHAPE);
    write_npy(path, "<f8", "2, 3, 2, 18", numbers, sizeof numbers);
    assert_int_equal(rs_task_open(&task, kind, &data, 1, "t", &err), RS_E_INPUT_FORMAT);

    double reals[1][1][2][4] = {{{{1, 2, 3, 4}, {5, 6, NAN, 8}}}};
    write_npy(path, "<f8", "1, 1, 2, 4", reals, sizeof reals);
    data = task_defaults("circle");
    data.batches = path;
    task = open_task("circle", &data, 1);
    rs_task_batch one = new_batch(task, 1);
    fill_batch(&one, task, RS_TASK_TRAIN, 0);
    assert_true(one.rows[0] == 1 && one.rows[3] == 6 && one.values[1] == 4);
    assert_true(one.counted[0] == 1 && one.counted[1] == 0);
    rs_task_close(task);
    rs_task_batch_free(&one);
    rs_task_batch_free(&four);
    rs_task_batch_free(&read);
    rs_task_batch_free(&drawn[0]);
    rs_task_batch_free(&drawn[1]);
    rs_task_close(source);
    unlink(path);
}

static void test_refusals(void **state)
{
    (void)state;
    const struct {
        const char *name;
        rs_task_data data;
    } cases[] = {
        {"sorting", {.length = 0, .symbols = 10}},
        {"sorting", {.length = 8, .symbols = 10, .train = -1}},
        {"memorization", {.length = 8, .shortest = 9, .symbols = 10}},
        {"convex-hull", {.length = 8, .side = 0}},
        {"circle", {.radius = 0.3, .angles = 3}},
        {"associative-recall", {.keys = 4, .values = 4, .pairs = 5, .queries = 1}},
        {"associative-recall", {.keys = 8, .values = 4, .pairs = 5, .queries = 6}},
        {"mqar", {.length = 63, .symbols = 64, .pairs = 4}},
        {"mqar", {.length = 64, .symbols = 64, .pairs = 17}},
        {"mqar", {.length = 64, .symbols = 8, .pairs = 4}},
        {"entrywise", {.length = 4, .width = 4, .deviation = NAN}},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        rs_train_task *task;
        rs_error err = {0};
        const rs_task_kind *kind = rs_task_find(cases[c].name);
        assert_int_equal(rs_task_open(&task, kind, &cases[c].data, 1, "t.json", &err),
                         RS_E_TASK_SCHEMA);
        assert_null(task);
        assert_string_equal(err.where, "t.json");
    }
    assert_null(rs_task_find("sort"));
}

static void test_memory(void **state)
{
    (void)state;
    rs_task_data data = task_defaults("mqar");
    data.shuffle = true;
    const rs_task_kind *kind = rs_task_find("mqar");
    int64_t blocks = rs_memory_blocks();
    for (int64_t n = 1;; n++) {
        rs_train_task *task = NULL;
        rs_task_batch batch = {0};
        rs_error err;
        rs_memory_fail_at(n);
        rs_status status = rs_task_open(&task, kind, &data, 1, "t", &err);
        if (status == RS_OK) status = rs_task_batch_new(&batch, rs_task_sizes(task), 2, &err);
        rs_memory_fail_at(0);
        rs_task_batch_free(&batch);
        rs_task_close(task);
        assert_int_equal(rs_memory_blocks(), blocks);
        if (status == RS_OK) break;
        assert_int_equal(status, RS_E_NO_MEMORY);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_keys),   cmocka_unit_test(test_epochs),
        cmocka_unit_test(test_files),  cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
