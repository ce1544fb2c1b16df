/* test_train_arrays.c: images and tokens of a user's .npy files: patches, scales and targets by direct
 * loops, sets that share no sample, and refusals. */
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

static const char *xy(const char *folder, const char *rest)
{
    static char text[32][1100];
    static int which;
    which = (which + 1) % 32;
    snprintf(text[which], sizeof text[which], "'x': '%s/x.npy', 'y': '%s/y.npy'%s%s", folder,
             folder, *rest ? ", " : "", rest);
    return text[which];
}

/* Counts how often each of n samples occurs in a set; `which` tells a sample by its place in the
 * batch. */
static void count_set(int *seen, rs_train_task *task, rs_task_set set, int64_t first_step,
                      int64_t steps,
                      int (*which)(const rs_task_batch *, const rs_task_shape *, int64_t))
{
    rs_task_batch batch = new_batch(task, 3);
    for (int64_t step = first_step; step < first_step + steps; step++) {
        fill_batch(&batch, task, set, step);
        for (int64_t i = 0; i < batch.samples; i++)
            seen[which(&batch, rs_task_sizes(task), i)]++;
    }
    rs_task_batch_free(&batch);
}

/* Each of n samples is in one set, once an epoch. */
static void check_sets(opened *o, int n, int eval, int probe,
                       int (*which)(const rs_task_batch *, const rs_task_shape *, int64_t))
{
    const rs_task_shape *shape = rs_task_sizes(o->task);
    assert_true(shape->eval == eval && shape->probe == probe);
    assert_int_equal(shape->train, n - eval - probe);
    int64_t epoch = rs_task_epoch(o->task, 3);
    assert_int_equal(epoch, (n - eval - probe + 2) / 3);
    int *train = calloc((size_t)n, sizeof(int)), *others = calloc((size_t)n, sizeof(int));
    count_set(train, o->task, RS_TASK_TRAIN, 0, epoch, which);
    count_set(train, o->task, RS_TASK_TRAIN, 5 * epoch, epoch, which);
    count_set(others, o->task, RS_TASK_EVAL, 0, n, which);
    int kept = 0;
    for (int i = 0; i < n; i++)
        kept += others[i];
    assert_int_equal(kept, eval);
    count_set(others, o->task, RS_TASK_PROBE, 0, n, which);
    for (int i = 0; i < n; i++) {
        assert_true((train[i] == 2 && others[i] == 0) || (train[i] == 0 && others[i] == 1));
        kept += others[i];
    }
    assert_int_equal(kept, 2 * eval + probe);
    free(train);
    free(others);
}

/* ---- images ---- */

enum { IMAGES = 20, H = 4, W = 6, PATCH = 2 };

/* Element (n, c, y, x), different for each of the first 20 images of 3 channels. */
static int pixel_of(int n, int c, int y, int x)
{
    return ((n * 3 + c) * H + y) * W + x;
}

static int image_of(const rs_task_batch *batch, const rs_task_shape *shape, int64_t i)
{
    return (int)batch->rows[i * shape->n_tok * shape->d_in] / (3 * H * W);
}

/* Patches of the sample are those of image n, entry by entry. */
static void check_image(const rs_task_batch *batch, int64_t i, int n, int channels, double scale)
{
    int across = W / PATCH, d = channels * PATCH * PATCH;
    for (int t = 0; t < (H / PATCH) * across; t++)
        for (int c = 0; c < channels; c++)
            for (int y = 0; y < PATCH; y++)
                for (int x = 0; x < PATCH; x++) {
                    double got = batch->rows[(i * (H / PATCH) * across + t) * d +
                                             (c * PATCH + y) * PATCH + x];
                    int wanted = pixel_of(n, c, t / across * PATCH + y, t % across * PATCH + x);
                    assert_true(fabs(got - scale * wanted) < 1e-12 * (1 + wanted));
                }
}

static void test_images(void **state)
{
    static float first[IMAGES][3][H][W];
    static int64_t whole[IMAGES][H][W];
    int64_t labels[IMAGES];
    for (int n = 0; n < IMAGES; n++) {
        labels[n] = n % 3;
        for (int c = 0; c < 3; c++)
            for (int y = 0; y < H; y++)
                for (int x = 0; x < W; x++) {
                    first[n][c][y][x] = (float)pixel_of(n, c, y, x);
                    if (c == 0) whole[n][y][x] = pixel_of(n, 0, y, x);
                }
    }
    double largest = pixel_of(IMAGES - 1, 0, H - 1, W - 1);
    const struct {
        const char *descr, *shape;
        const void *data;
        size_t bytes;
        int channels;
        double scale;
    } cases[] = {{"<f4", "20, 3, 4, 6", first, sizeof first, 3, 1},
                 {"<i8", "20, 4, 6", whole, sizeof whole, 1, 1 / largest}};
    put_npy(*state, "y.npy", "<i8", "20,", labels, sizeof labels);
    for (size_t k = 0; k < 2; k++) {
        put_npy(*state, "x.npy", cases[k].descr, cases[k].shape, cases[k].data, cases[k].bytes);
        opened o = open_files("image", xy(*state, "'patch': 2"), "");
        const rs_task_shape *shape = rs_task_sizes(o.task);
        assert_true(shape->n_tok == 6 && shape->d_in == 4 * cases[k].channels);
        assert_true(shape->d_out == 3 && shape->vocab == 0);
        rs_task_batch batch = new_batch(o.task, 100);
        for (int set = RS_TASK_TRAIN; set <= RS_TASK_PROBE; set++) {
            fill_batch(&batch, o.task, (rs_task_set)set, 0);
            assert_int_equal(batch.samples, set == RS_TASK_TRAIN ? 18 : 1);
            for (int64_t i = 0; i < batch.samples; i++) {
                int n = (int)lround(batch.rows[i * 24 * cases[k].channels] / cases[k].scale) / 72;
                check_image(&batch, i, n, cases[k].channels, cases[k].scale);
                for (int t = 0; t < 6; t++) /* "at" is all */
                    assert_int_equal(batch.classes[6 * i + t], n % 3);
            }
        }
        rs_task_batch_free(&batch);
        close_opened(&o);
    }
}

/* Channels last, bytes: [n, h, w, 3] with h above 4. */
static void test_bytes(void **state)
{
    enum { N = 5, HIGH = 6, WIDE = 3, P = 3 };
    uint8_t pixels[N][HIGH][WIDE][3], labels[N] = {0, 1, 0, 1, 1};
    uint8_t *all = &pixels[0][0][0][0];
    for (size_t i = 0; i < sizeof pixels; i++)
        all[i] = (uint8_t)(i * 37 % 256);
    put_npy(*state, "x.npy", "|u1", "5, 6, 3, 3", pixels, sizeof pixels);
    put_npy(*state, "y.npy", "|u1", "5,", labels, sizeof labels);
    for (int at = 0; at < 2; at++) {
        opened o = open_files(
            "image", xy(*state, at ? "'patch': 3, 'at': 'first'" : "'patch': 3, 'at': 'last'"), "");
        rs_task_batch batch = new_batch(o.task, N);
        fill_batch(&batch, o.task, RS_TASK_TRAIN, 0);
        assert_int_equal(batch.samples, 3);
        for (int64_t i = 0; i < 3; i++) {
            int found = -1;
            for (int n = 0; n < N; n++) {
                bool same = true;
                for (int t = 0; t < 2; t++)
                    for (int c = 0; c < 3; c++)
                        for (int y = 0; y < P; y++)
                            for (int x = 0; x < P; x++)
                                same = same &&
                                       fabs(batch.rows[(2 * i + t) * 27 + (c * P + y) * P + x] -
                                            pixels[n][3 * t + y][x][c] / 255.0) < 1e-15;
                if (same) found = n;
            }
            assert_true(found >= 0);
            assert_int_equal(batch.classes[2 * i + !at], labels[found]);
            assert_int_equal(batch.classes[2 * i + at], -1);
            assert_true(batch.counted[2 * i + !at] == 1 && batch.counted[2 * i + at] == 0);
        }
        rs_task_batch_free(&batch);
        close_opened(&o);
    }
}

static void put_images(const char *folder, int n, int classes)
{
    float *x = calloc((size_t)n * 3 * H * W, sizeof *x);
    int32_t *y = calloc((size_t)n, sizeof *y);
    assert_true(x && y);
    char shape[64];
    for (int i = 0; i < n * 3 * H * W; i++)
        x[i] = (float)i;
    for (int i = 0; i < n; i++)
        y[i] = i * classes / n; /* sorted: a tail would be one class alone */
    snprintf(shape, sizeof shape, "%d, 3, %d, %d", n, H, W);
    put_npy(folder, "x.npy", "<f4", shape, x, (size_t)n * 3 * H * W * sizeof *x);
    snprintf(shape, sizeof shape, "%d,", n);
    put_npy(folder, "y.npy", "<i4", shape, y, (size_t)n * sizeof *y);
    free(x);
    free(y);
}

static void test_sets(void **state)
{
    static const struct {
        int n;
        const char *data, *rest;
        int eval, probe;
    } cases[] = {{100, "", "", 5, 5},
                 {100, "'shuffle': true", "", 5, 5},
                 {100, "", "'probe_samples': 2", 8, 2},
                 {1000, "", "", 92, 8},
                 {100, "'eval_share': 0", "", 0, 8},
                 {100, "'eval_share': 0.99", "'probe_samples': 1", 98, 1},
                 {3, "", "", 1, 1},
                 {2, "'eval_share': 0", "", 0, 1},
                 {7, "'eval_share': 0.999", "", 3, 3}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        put_images(*state, cases[c].n, 2);
        char data[64];
        snprintf(data, sizeof data, "'patch': 2%s%s", *cases[c].data ? ", " : "", cases[c].data);
        opened o = open_files("image", xy(*state, data), cases[c].rest);
        check_sets(&o, cases[c].n, cases[c].eval, cases[c].probe, image_of);
        close_opened(&o);
    }
    /* in the file's order, or a new one each epoch; who is kept back hangs on the seed */
    put_images(*state, 100, 2);
    opened plain = open_files("image", xy(*state, "'patch': 2"), "");
    opened mixed = open_files("image", xy(*state, "'patch': 2, 'shuffle': true"), "");
    opened other = open_files("image", xy(*state, "'patch': 2"), "'seed': 5");
    rs_task_batch a = new_batch(plain.task, 90), b = new_batch(mixed.task, 90),
                  c = new_batch(mixed.task, 90), d = new_batch(other.task, 90);
    fill_batch(&a, plain.task, RS_TASK_TRAIN, 0);
    fill_batch(&b, mixed.task, RS_TASK_TRAIN, 0);
    fill_batch(&c, mixed.task, RS_TASK_TRAIN, 1);
    fill_batch(&d, other.task, RS_TASK_TRAIN, 0);
    const rs_task_shape *shape = rs_task_sizes(plain.task);
    for (int64_t i = 1; i < 90; i++)
        assert_true(image_of(&a, shape, i) > image_of(&a, shape, i - 1));
    assert_false(same_batches(&a, &b, shape, 90));
    assert_false(same_batches(&b, &c, shape, 90));
    assert_false(same_batches(&a, &d, shape, 90));
    rs_task_batch_free(&a);
    rs_task_batch_free(&b);
    rs_task_batch_free(&c);
    rs_task_batch_free(&d);
    close_opened(&plain);
    close_opened(&mixed);
    close_opened(&other);
    check_keys("image", xy(*state, "'patch': 2, 'shuffle': true"), "");
}

static void test_marks(void **state)
{
    put_images(*state, 40, 4);
    opened o = open_files("image", xy(*state, "'patch': 2, 'at': 'first'"), "");
    rs_task_batch batch = new_batch(o.task, 40);
    fill_batch(&batch, o.task, RS_TASK_TRAIN, 0);
    double counts[4] = {0}, entropy = 0, most = 0;
    for (int64_t i = 0; i < batch.samples; i++)
        counts[batch.classes[6 * i]]++;
    for (int c = 0; c < 4; c++) {
        entropy -= counts[c] / 36 * log(counts[c] / 36);
        most = fmax(most, counts[c] / 36);
    }
    assert_int_equal(batch.samples, 36);
    assert_true(fabs(mark_of(o.task, "entropy of the labels") - entropy) < 1e-12);
    assert_true(fabs(mark_of(o.task, "uniform") - log(4)) < 1e-15);
    assert_true(fabs(mark_of(o.task, "commonest label") - most) < 1e-15);
    assert_non_null(strstr(rs_task_said(o.task), "4 x 6 with 3 channels, 4 classes"));
    rs_task_batch_free(&batch);
    close_opened(&o);
}

/* ---- tokens ---- */

static int by_first_id(const rs_task_batch *batch, const rs_task_shape *shape, int64_t i)
{
    return batch->tokens[i * shape->n_tok];
}

static void test_ids(void **state)
{
    enum { N = 12, T = 3 };
    int32_t x[N][T];
    int64_t y[N][T], one[N];
    for (int n = 0; n < N; n++) {
        one[n] = n % 2 ? 4 : 0; /* labels 1 to 3 have no sample */
        for (int t = 0; t < T; t++) {
            bool padded = t == 2 && n % 3 == 0;
            x[n][t] = padded ? -1 : t == 0 ? n : 20 + t;
            y[n][t] = t == 1 ? -1 : n % 5;
        }
    }
    put_npy(*state, "x.npy", "<i4", "12, 3", x, sizeof x);
    put_npy(*state, "y.npy", "<i8", "12, 3", y, sizeof y);
    opened o = open_files("tokens", xy(*state, ""), "");
    check_sets(&o, N, 1, 1, by_first_id);
    const rs_task_shape *shape = rs_task_sizes(o.task);
    assert_true(shape->vocab == 23 && shape->d_out == 5 && shape->n_tok == 3 && shape->varies);
    rs_task_batch batch = new_batch(o.task, N);
    fill_batch(&batch, o.task, RS_TASK_TRAIN, 0);
    for (int64_t i = 0; i < batch.samples; i++) {
        int n = batch.tokens[3 * i];
        assert_int_equal(batch.lengths[i], n % 3 == 0 ? 2 : 3);
        assert_int_equal(batch.tokens[3 * i + 2], x[n][2]);
        assert_int_equal(batch.classes[3 * i], n % 5);
        assert_int_equal(batch.classes[3 * i + 1], -1);
        assert_int_equal(batch.classes[3 * i + 2], n % 3 == 0 ? -1 : n % 5);
    }
    close_opened(&o);
    put_npy(*state, "y.npy", "<i8", "12,", one, sizeof one);
    static const char *const places[] = {"'at': 'first'", "", "'at': 'all'"};
    for (int p = 0; p < 3; p++) {
        o = open_files("tokens", xy(*state, places[p]), "");
        assert_int_equal(rs_task_sizes(o.task)->d_out, 5);
        assert_non_null(strstr(rs_task_said(o.task), "of the labels 0 to 4 no sample has 3"));
        fill_batch(&batch, o.task, RS_TASK_TRAIN, 0);
        for (int64_t i = 0; i < batch.samples; i++)
            for (int t = 0; t < 3; t++) {
                int last = batch.lengths[i] - 1;
                bool here = p == 0 ? t == 0 : p == 1 ? t == last : t <= last;
                int label = batch.tokens[3 * i] % 2 ? 4 : 0;
                assert_int_equal(batch.classes[3 * i + t], here ? label : -1);
                assert_int_equal(batch.counted[3 * i + t], here);
            }
        close_opened(&o);
    }
    rs_task_batch_free(&batch);
}

/* Rows of reals with every kind of target. */
static void test_rows(void **state)
{
    enum { N = 10, T = 3, D = 2 };
    double x[N][T][D], each[N][T][4], scalar[N][T], one[N], wide[N][4];
    for (int n = 0; n < N; n++) {
        one[n] = 100 + n;
        for (int t = 0; t < T; t++) {
            scalar[n][t] = n == 4 && t == 1 ? (double)NAN : 10.0 * n + t;
            for (int d = 0; d < D; d++)
                x[n][t][d] = n + 0.25 * t + 0.125 * d;
            for (int c = 0; c < 4; c++) {
                each[n][t][c] = c == 0 ? 0.25 + 0.5 * (t == 1) : 0.25 - 0.5 / 3 * (t == 1);
                wide[n][c] = n + c;
            }
        }
    }
    put_npy(*state, "x.npy", "<f8", "10, 3, 2", x, sizeof x);
    const struct {
        const char *shape;
        const void *data;
        size_t bytes;
        const char *rest;
        rs_target_kind kind;
        int d_out;
    } cases[] = {
        {"10, 3, 4", each, sizeof each, "", RS_TARGET_REALS, 4},
        {"10, 3, 4", each, sizeof each, "'loss': 'cross_entropy'", RS_TARGET_SHARES, 4},
        {"10, 3", scalar, sizeof scalar, "", RS_TARGET_REALS, 1},
        {"10,", one, sizeof one, "'loss': 'hinge'", RS_TARGET_REALS, 1},
        {"10, 4", wide, sizeof wide, "", RS_TARGET_REALS, 4},
    };
    for (int k = 0; k < 5; k++) {
        put_npy(*state, "y.npy", "<f8", cases[k].shape, cases[k].data, cases[k].bytes);
        opened o = open_files("tokens", xy(*state, ""), cases[k].rest);
        const rs_task_shape *shape = rs_task_sizes(o.task);
        assert_true(shape->target == cases[k].kind && shape->d_out == cases[k].d_out);
        assert_true(shape->d_in == 2 && shape->vocab == 0 && shape->n_tok == 3);
        rs_task_batch batch = new_batch(o.task, N);
        fill_batch(&batch, o.task, RS_TASK_TRAIN, 0);
        assert_null(batch.classes);
        double sum[4] = {0}, squares = 0, targets = 0;
        for (int64_t i = 0; i < batch.samples; i++) {
            int n = (int)batch.rows[6 * i];
            assert_memory_equal(batch.rows + 6 * i, x[n], sizeof x[n]);
            for (int t = 0; t < T; t++)
                for (int c = 0; c < cases[k].d_out; c++) {
                    double got = batch.values[(3 * i + t) * cases[k].d_out + c];
                    bool here = k < 3 ? !(k == 2 && n == 4 && t == 1) : t == 2;
                    double wanted = !here    ? 0
                                    : k < 2  ? each[n][t][c]
                                    : k == 2 ? scalar[n][t]
                                    : k == 3 ? one[n]
                                             : wide[n][c];
                    assert_true(got == wanted);
                    assert_int_equal(batch.counted[3 * i + t], here);
                    targets += here && c == 0;
                    sum[c] += here ? got : 0;
                }
        }
        for (int64_t j = 0; j < batch.samples * T * cases[k].d_out; j++) {
            double away = batch.values[j] - sum[j % cases[k].d_out] / targets;
            squares += batch.counted[j / cases[k].d_out] ? away * away : 0;
        }
        if (cases[k].kind == RS_TARGET_REALS) {
            double wanted = squares / (double)batch.samples;
            assert_true(fabs(mark_of(o.task, "best constant") - wanted) < 1e-10 * (1 + wanted));
        } else {
            double entropy = 0;
            for (int c = 0; c < 4; c++)
                entropy -= sum[c] / targets * log(sum[c] / targets);
            assert_true(fabs(mark_of(o.task, "entropy of the labels") - entropy) < 1e-12);
        }
        rs_task_batch_free(&batch);
        close_opened(&o);
    }
}

static void test_memory(void **state)
{
    put_images(*state, 20, 2);
    check_memory("image", xy(*state, "'patch': 2, 'shuffle': true"), "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_images), cmocka_unit_test(test_bytes), cmocka_unit_test(test_sets),
        cmocka_unit_test(test_marks),  cmocka_unit_test(test_ids),   cmocka_unit_test(test_rows),
        cmocka_unit_test(test_memory),
    };
    return cmocka_run_group_tests(tests, make_folder, drop_folder);
}
