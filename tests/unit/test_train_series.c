/* test_train_series.c: series of a user's .npy files, what the data say of the model and of the loss,
 * and refusals of arrays. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/memory.h"
#include "source_support.h"

#include <math.h>

static void put_npy(const char *folder, const char *name, const char *descr, const char *shape,
                    const void *data, size_t bytes)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    write_npy(path, descr, shape, data, bytes);
}

static const char *x_of(const char *folder, bool y, const char *rest)
{
    static char text[32][1100];
    static int which;
    which = (which + 1) % 32;
    snprintf(text[which], sizeof text[which], "'x': '%s/x.npy'%s%s%s%s%s", folder,
             y ? ", 'y': '" : "", y ? folder : "", y ? "/y.npy'" : "", *rest ? ", " : "", rest);
    return text[which];
}

/* ---- one series ---- */

/* x is [T, 2] of (t, -t): a value tells its step. Every step that a set reads, as a row or as a
 * target, is its own. */
static void mark_steps(int *owner, rs_train_task *task, rs_task_set set, int64_t steps, int horizon)
{
    const rs_task_shape *shape = rs_task_sizes(task);
    int64_t n = shape->n_tok;
    rs_task_batch batch = new_batch(task, 4);
    for (int64_t step = 0; step < steps; step++) {
        fill_batch(&batch, task, set, step);
        for (int64_t i = 0; i < batch.samples; i++)
            for (int64_t t = 0; t < n; t++) {
                const double *row = batch.rows + (i * n + t) * 2;
                const double *value = batch.values + (i * n + t) * 2;
                int at = (int)row[0];
                assert_true(row[0] == batch.rows[i * n * 2] + (double)t && row[1] == -row[0]);
                assert_true(value[0] == row[0] + horizon && value[1] == -value[0]);
                assert_int_equal(batch.counted[i * n + t], 1);
                owner[at] |= 1 << set;
                owner[at + horizon] |= 1 << set;
            }
    }
    rs_task_batch_free(&batch);
}

static void test_next_values(void **state)
{
    enum { T = 400 };
    static double x[T][2];
    for (int t = 0; t < T; t++)
        x[t][0] = t, x[t][1] = -t;
    put_npy(*state, "x.npy", "<f8", "400, 2", x, sizeof x);
    static const struct {
        const char *data;
        int length, horizon, eval, probe;
    } cases[] = {{"'length': 5", 5, 1, 4, 3},               /* (40 - 2) / 5 = 7 */
                 {"'length': 5, 'horizon': 7", 5, 7, 3, 2}, /* (40 - 14) / 5 = 5 */
                 {"'length': 5, 'eval_share': 0.5", 5, 1, 31, 8},
                 {"'length': 1, 'horizon': 100", 1, 100, 1, 1}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        opened o = open_files("series", x_of(*state, false, cases[c].data), "");
        const rs_task_shape *shape = rs_task_sizes(o.task);
        assert_true(shape->d_in == 2 && shape->d_out == 2 && shape->target == RS_TARGET_REALS);
        assert_true(shape->n_tok == cases[c].length && shape->train == 0);
        assert_true(shape->eval == cases[c].eval && shape->probe == cases[c].probe);
        int owner[T] = {0}, last = 0;
        for (int set = RS_TASK_TRAIN; set <= RS_TASK_PROBE; set++)
            mark_steps(owner, o.task, (rs_task_set)set, set == RS_TASK_TRAIN ? 1000 : 40,
                       cases[c].horizon);
        for (int t = 0; t < T; t++) {
            assert_true(owner[t] == 0 || owner[t] == 1 || owner[t] == 2 || owner[t] == 4);
            if (owner[t]) assert_true(owner[t] >= last);
            if (owner[t]) last = owner[t];
        }
        assert_true(owner[0] == 1 && owner[T - 1] == 4);
        /* each of two channels is `horizon` away */
        double again = 2.0 * cases[c].horizon * cases[c].horizon * cases[c].length;
        assert_true(fabs(mark_of(o.task, "the last value again") - again) < 1e-9);
        close_opened(&o);
    }
    check_keys("series", x_of(*state, false, "'length': 5"), "");
}

/* Marks are of every step of the training part, not of whole windows alone: their ends are far away. */
static void test_marks_of_a_part(void **state)
{
    enum { T = 60, LENGTH = 5, HORIZON = 2, TRAIN = 46, TARGETS = TRAIN - HORIZON };
    double x[T], mean = 0, variance = 0, again = 0;
    for (int t = 0; t < T; t++)
        x[t] = t * t;
    for (int t = HORIZON; t < TRAIN; t++)
        mean += x[t] / TARGETS, again += pow(x[t] - x[t - HORIZON], 2) / TARGETS;
    for (int t = HORIZON; t < TRAIN; t++)
        variance += pow(x[t] - mean, 2) / TARGETS;
    put_npy(*state, "x.npy", "<f8", "60,", x, sizeof x);
    opened o = open_files("series",
                          x_of(*state, false, "'length': 5, 'horizon': 2, 'eval_share': 0.3"), "");
    assert_non_null(strstr(rs_task_said(o.task), "46 to train on"));
    assert_true(fabs(mark_of(o.task, "best constant") / (variance * LENGTH) - 1) < 1e-9);
    assert_true(fabs(mark_of(o.task, "the last value again") / (again * LENGTH) - 1) < 1e-9);
    close_opened(&o);
}

/* Whole numbers [T] as x; labels and numbers of each step as y. */
static void test_labelled_steps(void **state)
{
    enum { T = 200 };
    int32_t x[T];
    int64_t labels[T];
    float numbers[T][3];
    for (int t = 0; t < T; t++) {
        x[t] = t;
        labels[t] = t % 4 == 3 ? -1 : t % 4;
        for (int c = 0; c < 3; c++)
            numbers[t][c] = t == 7 && c == 1 ? NAN : (float)(t + c);
    }
    put_npy(*state, "x.npy", "<i4", "200,", x, sizeof x);
    put_npy(*state, "y.npy", "<i8", "200,", labels, sizeof labels);
    opened o = open_files("series", x_of(*state, true, "'length': 10"), "");
    rs_task_batch batch = new_batch(o.task, 8);
    assert_true(rs_task_sizes(o.task)->d_out == 3 && rs_task_sizes(o.task)->d_in == 1);
    for (int64_t step = 0; step < 20; step++) {
        fill_batch(&batch, o.task, RS_TASK_TRAIN, step);
        for (int i = 0; i < 80; i++)
            assert_int_equal(batch.classes[i], labels[(int)batch.rows[i]]);
    }
    rs_task_batch_free(&batch);
    close_opened(&o);
    put_npy(*state, "y.npy", "<f4", "200, 3", numbers, sizeof numbers);
    o = open_files("series", x_of(*state, true, "'length': 10"), "");
    batch = new_batch(o.task, 8);
    for (int64_t step = 0; step < 20; step++) {
        fill_batch(&batch, o.task, RS_TASK_TRAIN, step);
        for (int i = 0; i < 80; i++) {
            int at = (int)batch.rows[i];
            assert_int_equal(batch.counted[i], at != 7);
            for (int c = 0; c < 3; c++)
                assert_true(batch.values[3 * i + c] == (at == 7 ? 0 : at + c));
        }
    }
    rs_task_batch_free(&batch);
    close_opened(&o);
}

/* ---- several series ---- */

static void test_several(void **state)
{
    enum { N = 10, T = 12 };
    float x[N][T][1];
    int64_t each[N], steps[N][T];
    for (int n = 0; n < N; n++) {
        each[n] = n % 3;
        for (int t = 0; t < T; t++) {
            x[n][t][0] = (float)(100 * n + t);
            steps[n][t] = (n + t) % 2;
        }
    }
    put_npy(*state, "x.npy", "<f4", "10, 12, 1", x, sizeof x);
    /* windows inside a series: whole series are kept back */
    for (int labelled = 0; labelled < 2; labelled++) {
        put_npy(*state, "y.npy", "<i8", "10, 12", steps, sizeof steps);
        opened o =
            open_files("series", x_of(*state, labelled, "'length': 3, 'eval_share': 0.4"), "");
        const rs_task_shape *shape = rs_task_sizes(o.task);
        /* 4 series are kept, 2 each; 3 or 4 windows in one */
        assert_true(shape->eval == (labelled ? 8 : 6) && shape->probe == (labelled ? 8 : 6));
        rs_task_batch batch = new_batch(o.task, 5);
        int owner[N] = {0}, starts[N * 200] = {0};
        for (int set = RS_TASK_TRAIN; set <= RS_TASK_PROBE; set++)
            for (int64_t step = 0; step < 300; step++) {
                fill_batch(&batch, o.task, (rs_task_set)set, step);
                for (int64_t i = 0; i < batch.samples; i++) {
                    int first = (int)batch.rows[3 * i], n = first / 100;
                    owner[n] |= 1 << set;
                    starts[first]++;
                    for (int t = 0; t < 3; t++) {
                        assert_true(batch.rows[3 * i + t] == first + t);
                        if (labelled)
                            assert_int_equal(batch.classes[3 * i + t], steps[n][first % 100 + t]);
                        else
                            assert_true(batch.values[3 * i + t] == first + t + 1);
                    }
                }
            }
        int sets[5] = {0};
        for (int n = 0; n < N; n++) {
            assert_true(owner[n] == 1 || owner[n] == 2 || owner[n] == 4);
            sets[owner[n]]++;
            for (int t = 0; t < T && owner[n] == 1; t++) /* places of training windows */
                assert_int_equal(starts[100 * n + t] > 0, t <= T - 3 - !labelled);
        }
        assert_true(sets[1] == 6 && sets[2] == 2 && sets[4] == 2);
        rs_task_batch_free(&batch);
        close_opened(&o);
    }
    /* one label a series: each is a sample, whatever "length" says */
    put_npy(*state, "y.npy", "<i8", "10,", each, sizeof each);
    opened o = open_files("series", x_of(*state, true, ""), "");
    const rs_task_shape *shape = rs_task_sizes(o.task);
    assert_true(shape->n_tok == T && shape->train == 8 && shape->eval == 1 && shape->probe == 1);
    rs_task_batch batch = new_batch(o.task, 8);
    fill_batch(&batch, o.task, RS_TASK_TRAIN, 0);
    for (int64_t i = 0; i < 8; i++) {
        int n = (int)batch.rows[T * i] / 100;
        for (int t = 0; t < T; t++) {
            assert_true(batch.rows[T * i + t] == 100 * n + t);
            assert_int_equal(batch.classes[T * i + t], t == T - 1 ? each[n] : -1);
        }
    }
    rs_task_batch_free(&batch);
    close_opened(&o);
}

/* ---- what follows from the data ---- */

static void test_settled(void **state)
{
    put_text(*state, "text", "abcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabc");
    char text[600];
    snprintf(text, sizeof text, "'text': '%s/text', 'length': 5", (char *)*state);
    opened o = open_files("char-lm", text, "");
    const json_t *model = o.settings->model;
    assert_int_equal(json_integer_value(json_object_get(model, "vocab")), 3);
    assert_int_equal(json_integer_value(json_object_get(model, "seq_len")), 5);
    assert_true(o.settings->loss == RS_TRAIN_LOSS_CROSS_ENTROPY && o.settings->shape.vocab == 3);
    json_t *written = rs_train_settings_write(o.settings); /* it opens again */
    rs_train_settings *again;
    rs_train_task *task;
    rs_error err;
    assert_int_equal(rs_train_settings_read(&again, written, "again", NULL, 0, &err), RS_OK);
    assert_int_equal(rs_train_open_task(&task, again, NULL, &err), RS_OK);
    rs_task_close(task);
    rs_train_settings_close(again);
    json_decref(written);
    close_opened(&o);
    o = open_files("char-lm", text, "'model': {'vocab': 300, 'seq_len': 64}");
    assert_int_equal(json_integer_value(json_object_get(o.settings->model, "vocab")), 300);
    assert_int_equal(json_integer_value(json_object_get(o.settings->model, "seq_len")), 64);
    close_opened(&o);
    refusal r = {"char-lm",
                 text,
                 "'model': {'vocab': 2}",
                 RS_E_TASK_SCHEMA,
                 "t.json",
                 "\"vocab\" is 2; 3 or more",
                 ""};
    check_refusal(&r);
    double x[60];
    for (int t = 0; t < 60; t++)
        x[t] = sin(t);
    put_npy(*state, "x.npy", "<f8", "60,", x, sizeof x);
    o = open_files("series", x_of(*state, false, "'length': 8"), "");
    assert_true(o.settings->loss == RS_TRAIN_LOSS_SQUARED);
    assert_null(json_object_get(o.settings->model, "vocab"));
    close_opened(&o);
    r = (refusal){"series",
                  x_of(*state, false, "'length': 8"),
                  "'loss': 'cross_entropy'",
                  RS_E_TASK_SCHEMA,
                  "t.json",
                  "no cross-entropy",
                  "squared"};
    check_refusal(&r);
    r = (refusal){"series",
                  x_of(*state, false, "'length': 8"),
                  "'embed': {'map': 'none'}",
                  RS_E_TASK_SCHEMA,
                  "t.json",
                  "rows of 1 numbers",
                  "linear"};
    check_refusal(&r);
    /* drawn tasks are opened by the same door */
    rs_train_settings *drawn;
    assert_int_equal(rs_train_settings_open(&drawn, "sorting", NULL, 0, &err), RS_OK);
    assert_int_equal(rs_train_open_task(&task, drawn, NULL, &err), RS_OK);
    assert_int_equal(rs_task_sizes(task)->n_tok, 8);
    assert_string_equal(rs_task_said(task), "");
    rs_task_close(task);
    rs_train_settings_close(drawn);
}

/* ---- refusals ---- */

/* Arrays of zeros, but for one element, and what is said of them. */
static void test_refusals(void **state)
{
    enum { X = 1, Y = 2 };
    static const struct {
        const char *task, *x, *x_shape, *y, *y_shape, *data, *rest;
        int odd; /* whose element 3 is `value` */
        double value;
        rs_status status;
        const char *where, *what;
    } cases[] = {
        {"image", "<f4", "9, 8", "<i4", "9,", "", "", 0, 0, RS_E_INPUT_SHAPE, "x.npy",
         "float32 of 2 dimensions"},
        {"image", "<f4", "9, 8, 6", "<i4", "9,", "", "", 0, 0, RS_E_TASK_SCHEMA, "t.json",
         "8 x 6 cannot be cut into patches of 4 x 4"},
        {"image", "<f4", "9, 4, 4", "<i4", "8,", "", "", 0, 0, RS_E_INPUT_SHAPE, "y.npy",
         "x has 9 samples, y has 8"},
        {"image", "<f4", "8, 4, 4", "<i4", "9,", "", "", 0, 0, RS_E_INPUT_SHAPE, "x.npy",
         "x has 8 samples, y has 9"},
        {"image", "<f4", "9, 4, 4", "<f4", "9,", "", "", 0, 0, RS_E_INPUT_FORMAT, "y.npy",
         "[9] whole numbers"},
        {"image", "<f4", "9, 4, 4", "<i4", "9,", "", "", Y, -1, RS_E_INPUT_FORMAT, "y.npy",
         "element [3] is -1; labels are from 0"},
        {"image", "<f4", "9, 4, 4", "<i4", "9,", "", "", Y, 1e9, RS_E_INPUT_FORMAT, "y.npy",
         "element [3] is 1000000000"},
        {"image", "<f4", "9, 4, 4", "<i4", "9,", "", "", X, NAN, RS_E_INPUT_FORMAT, "x.npy",
         "element [0, 0, 3] is nan"},
        {"image", "<f8", "9, 4, 4", "<i4", "9,", "", "", X, INFINITY, RS_E_INPUT_FORMAT, "x.npy",
         "element [0, 0, 3] is inf"},
        {"image", "<i4", "9, 4, 4", "<i4", "9,", "", "", X, -2, RS_E_INPUT_FORMAT, "x.npy",
         "the least is -2"},
        {"image", "<f4", "2, 4, 4", "<i4", "2,", "", "", 0, 0, RS_E_INPUT_SHAPE, "x.npy",
         "there are 2 images; at least 3"},
        {"image", "<f4", "0, 4, 4", "<i4", "0,", "", "", 0, 0, RS_E_INPUT_SHAPE, "x.npy",
         "no sample"},
        {"image", "<f4", "0, 4611686018427387904, 4", "<i4", "0,", "", "", 0, 0, RS_E_INPUT_SHAPE,
         "x.npy", "no sample"},
        {"image", "<f4", "4611686018427387904, 4, 4", "<i4", "9,", "", "", 0, 0, RS_E_INPUT_FORMAT,
         "x.npy", "larger than any file"},
        {"image", "<f2", "9, 4, 4", "<i4", "9,", "", "", 0, 0, RS_E_INPUT_FORMAT, "x.npy",
         "type '<f2'"},
        {"image", "<f4", "", "<i4", "9,", "", "", 0, 0, RS_E_INPUT_SHAPE, "x.npy", "no sample"},
        {"series", "<f4", "9, 9, 9, 9", "<i4", "9,", "", "", 0, 0, RS_E_INPUT_SHAPE, "x.npy",
         "float32 of 4 dimensions"},
        {"series", "<f4", "50,", "<i4", "49,", "'length': 5", "", 0, 0, RS_E_INPUT_SHAPE, "y.npy",
         "targets [49] do not belong to 1 samples of 50 tokens"},
        {"series", "<f4", "50,", "<i4", "50,", "'length': 40", "", 0, 0, RS_E_INPUT_SHAPE, "x.npy",
         "there are 50 steps; a window takes 40, and 80"},
        {"series", "<f4", "5, 9, 2", "<i4", "5, 9", "'length': 10", "", 0, 0, RS_E_INPUT_SHAPE,
         "x.npy", "a window takes 10"},
        {"series", "<f4", "5, 9, 2", "<i4", "5, 8", "'length': 5", "", 0, 0, RS_E_INPUT_SHAPE,
         "y.npy", "targets [5, 8]"},
        {"series", "<f4", "5, 9, 2", "<f4", "5, 9, 2", "'length': 5", "", Y, INFINITY,
         RS_E_INPUT_FORMAT, "y.npy", "element [0, 1, 1] is inf"},
        {"series", "<f4", "5, 9, 2", "<f4", "5,", "", "", Y, NAN, RS_E_INPUT_FORMAT, "y.npy",
         "element [3] is nan"},
        {"tokens", "<f4", "9, 4", "<i4", "9,", "", "", 0, 0, RS_E_INPUT_SHAPE, "x.npy",
         "float32 of 2 dimensions"},
        {"tokens", "<i4", "9, 4, 4", "<i4", "9,", "", "", 0, 0, RS_E_INPUT_SHAPE, "x.npy",
         "int32 of 3 dimensions"},
        {"tokens", "<i4", "9, 4", "<i4", "9,", "", "", X, -2, RS_E_INPUT_FORMAT, "x.npy",
         "element [0, 3] is -2"},
        {"tokens", "<i4", "9, 3", "<i4", "9,", "", "", X, -1, RS_E_INPUT_FORMAT, "x.npy",
         "element [1, 0] is -1"},
        {"tokens", "<i4", "9, 5", "<i4", "9,", "", "", X, -1, RS_E_INPUT_FORMAT, "x.npy",
         "element [0, 4] is 0; ids are from 0 to 16777215; -1 stands only behind"},
        {"tokens", "<i8", "9, 4", "<i4", "9,", "", "", X, 1e12, RS_E_INPUT_FORMAT, "x.npy",
         "element [0, 3] is 1000000000000"},
        {"tokens", "<i4", "9, 4", "<i4", "9, 4", "", "", Y, -2, RS_E_INPUT_FORMAT, "y.npy",
         "element [0, 3] is -2"},
        {"tokens", "<i4", "1, 4", "<i4", "1, 4", "", "", 0, 0, RS_E_INPUT_SHAPE, "x.npy",
         "there are 1 samples; at least 3"},
        {"tokens", "<i4", "9, 4", "<i4", "9, 4, 2", "", "", 0, 0, RS_E_INPUT_SHAPE, "y.npy",
         "targets [9, 4, 2]"},
        {"tokens", "<i4", "9, 4", "<f4", "9, 4, 2", "", "'loss': 'cross_entropy'", 0, 0,
         RS_E_INPUT_FORMAT, "y.npy", "the probabilities of target 0 sum to 0"},
        {"tokens", "<i4", "9, 4", "<f4", "9, 4, 4", "", "'loss': 'cross_entropy'", Y, -0.5,
         RS_E_INPUT_FORMAT, "y.npy", "element [0, 0, 3] is -0.5"},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        for (int file = X; file <= Y; file++) {
            const char *descr = file == X ? cases[c].x : cases[c].y;
            const char *shape = file == X ? cases[c].x_shape : cases[c].y_shape;
            size_t size = (size_t)(descr[2] - '0'), count = 1;
            for (const char *at = shape; at; at = strchr(at, ' ') ? strchr(at, ' ') + 1 : NULL)
                count *= *shape ? (size_t)strtoull(at, NULL, 10) : 1;
            if (count > 100000) count = 0; /* the header says more than there is */
            char *data = calloc(count + 1, size);
            double value = cases[c].value;
            float f4 = (float)value;
            int64_t i8 = file == cases[c].odd && fabs(value) < 1e15 ? (int64_t)value : 0;
            int32_t i4 = (int32_t)i8;
            const void *as = descr[1] == 'f' ? (size == 8 ? (const void *)&value : &f4)
                             : size == 8     ? (const void *)&i8
                                             : &i4;
            if (file == cases[c].odd) memcpy(data + 3 * size, as, size);
            put_npy(*state, file == X ? "x.npy" : "y.npy", descr, shape, data, count * size);
            free(data);
        }
        refusal r = {cases[c].task,
                     x_of(*state, true, cases[c].data),
                     cases[c].rest,
                     cases[c].status,
                     cases[c].where,
                     cases[c].what,
                     ""};
        check_refusal(&r);
    }
    put_text(*state, "x.npy", "");
    refusal others[] = {
        {"series", x_of(*state, false, ""), "", RS_E_EMPTY_FILE, "x.npy", "empty", ""},
        {"image", "", "", RS_E_TASK_SCHEMA, "t.json", "image needs \"x\"", "data.x"},
        {"tokens", "'x': 'no/such/file.npy'", "", RS_E_NOT_FOUND, "no/such/file.npy", "", ""},
        {"tokens", x_of(*state, true, "'at': 'middle'"), "", RS_E_TASK_SCHEMA, "t.json",
         "\"at\" is \"middle\"", ""},
    };
    for (size_t c = 0; c < sizeof others / sizeof *others; c++)
        check_refusal(&others[c]);
    int32_t ids[9 * 4] = {0}, labels[9 * 4];
    memset(labels, -1, sizeof labels);
    put_npy(*state, "x.npy", "<i4", "9, 4", ids, sizeof ids);
    put_npy(*state, "y.npy", "<i4", "9, 4", labels, sizeof labels);
    refusal bare = {"tokens", x_of(*state, true, ""), "", RS_E_INPUT_FORMAT,
                    "y.npy",  "all labels are -1",    ""};
    check_refusal(&bare);
    float image[9 * 16] = {0};
    put_npy(*state, "x.npy", "<f4", "9, 4, 4", image, sizeof image);
    refusal r = {"image",  x_of(*state, false, ""), "", RS_E_TASK_SCHEMA,
                 "t.json", "image needs \"y\"",     ""};
    check_refusal(&r);
}

/* Whoever is asked to stop while the files are read does. */
static void test_interrupted(void **state)
{
    float x[90] = {0};
    put_npy(*state, "x.npy", "<f4", "9, 10", x, sizeof x);
    json_t *json = task_file("series", x_of(*state, false, "'length': 2"), "");
    static const volatile sig_atomic_t stop = 1, go = 0;
    for (int i = 0; i < 2; i++) {
        const rs_context context = {.cancel = i ? &go : &stop};
        rs_train_settings *s;
        rs_train_task *task;
        rs_error err;
        assert_int_equal(rs_train_settings_read(&s, json, "t.json", NULL, 0, &err), RS_OK);
        assert_int_equal(rs_train_open_task(&task, s, &context, &err),
                         i ? RS_OK : RS_E_INTERRUPTED);
        assert_int_equal(task != NULL, i);
        rs_task_close(task);
        rs_train_settings_close(s);
    }
    json_decref(json);
}

static void test_memory(void **state)
{
    float x[200];
    for (int t = 0; t < 200; t++)
        x[t] = (float)t;
    put_npy(*state, "x.npy", "<f4", "10, 10, 2", x, sizeof x);
    check_memory("series", x_of(*state, false, "'length': 4"), "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_next_values),     cmocka_unit_test(test_labelled_steps),
        cmocka_unit_test(test_marks_of_a_part), cmocka_unit_test(test_several),
        cmocka_unit_test(test_settled),         cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_interrupted),     cmocka_unit_test(test_memory),
    };
    return cmocka_run_group_tests(tests, make_folder, drop_folder);
}
