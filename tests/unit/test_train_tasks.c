/* test_train_tasks.c: samples of each task against their definitions, closed forms and published
 * golden numbers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "train_support.h"

#include <math.h>
#include <stdlib.h>

static const double pi = 3.1415926535897932384626433832795;

/* ---- symbols ---- */

static void test_sorting(void **state)
{
    (void)state;
    rs_task_data data = task_defaults("sorting");
    assert_int_equal((data.train + 29) / 30 * 65, 2210); /* published number of steps */
    data.train = 12500;                                  /* 10^5 letters */
    rs_train_task *task = open_task("sorting", &data, 5);
    rs_task_batch batch = new_batch(task, 12500);
    fill_batch(&batch, task, RS_TASK_TRAIN, 0);
    assert_int_equal(batch.samples, 12500);
    int64_t count[8][10] = {{0}}, letters[10] = {0};
    for (int64_t i = 0; i < 12500; i++) {
        int have[10] = {0};
        for (int t = 0; t < 8; t++) {
            int32_t x = batch.tokens[8 * i + t], y = batch.classes[8 * i + t];
            assert_in_range(x, 0, 9);
            assert_in_range(y, 0, 9);
            have[x]++, have[y]--, letters[x]++;
            assert_true(t == 0 || y >= batch.classes[8 * i + t - 1]);
            count[t][y]++;
        }
        for (int v = 0; v < 10; v++)
            assert_int_equal(have[v], 0);
    }
    for (int v = 0; v < 10; v++) /* 10000 +- 95 */
        assert_in_range(letters[v], 9500, 10500);
    /* related_systems 8.1: exact best constants .569533 .309788 .245144 .230805, mirrored */
    static const double best[] = {.569533, .309788, .245144, .230805};
    double mean = 0;
    for (int t = 0; t < 8; t++) {
        int64_t most = 0;
        for (int v = 0; v < 10; v++)
            if (count[t][v] > most) most = count[t][v];
        double expected = best[t < 4 ? t : 7 - t];
        assert_true(fabs((double)most / 12500 - expected) < 0.02);
        mean += expected / 8;
    }
    assert_true(fabs(mark_of(task, "best letter for each place") - mean) < 1e-6);
    assert_true(fabs(mark_of(task, "best letter for each place") - 0.338818) < 1e-6);
    rs_task_batch_free(&batch);
    rs_task_close(task);
}

static void test_reversal(void **state)
{
    (void)state;
    rs_task_data data = task_defaults("reversal");
    rs_train_task *task = open_task("reversal", &data, 5);
    rs_task_batch batch = new_batch(task, 64);
    fill_batch(&batch, task, RS_TASK_TRAIN, 3);
    for (int64_t i = 0; i < 64; i++)
        for (int t = 0; t < 20; t++)
            assert_int_equal(batch.classes[20 * i + t], batch.tokens[20 * i + 19 - t]);
    assert_true(mark_of(task, "chance") == 0.1);
    rs_task_batch_free(&batch);
    rs_task_close(task);
}

/* The ceiling of one text, over all 2^n labels. */
static double ceiling_by_hand(const int32_t *tokens, int n)
{
    double sum = 0;
    for (unsigned labels = 0; labels < 1u << n; labels++)
        for (int t = 0; t < n; t++) {
            int same = 0, ones = 0, before = 0;
            for (int o = 0; o < n; o++) {
                if (tokens[o] != tokens[t]) continue;
                before += o < t;
                same++;
                ones += (int)(labels >> o & 1);
            }
            if (!before) sum += ones > same - ones ? ones : same - ones;
        }
    return sum / (double)(1u << n) / n;
}

static void test_memorization(void **state)
{
    (void)state;
    rs_task_data data = task_defaults("memorization");
    rs_train_task *task = open_task("memorization", &data, 9);
    rs_task_batch batch = new_batch(task, 500), again = new_batch(task, 88);
    fill_batch(&batch, task, RS_TASK_TRAIN, 0);
    int64_t words = 0, ones = 0, first = 0;
    for (int64_t i = 0; i < 500; i++) {
        assert_in_range(batch.lengths[i], 32, 64);
        for (int t = 0; t < 64; t++) {
            bool inside = t < batch.lengths[i];
            int32_t token = batch.tokens[64 * i + t], class = batch.classes[64 * i + t];
            assert_int_equal(batch.counted[64 * i + t], inside);
            if (!inside) assert_true(token == -1 && class == -1);
            if (!inside) continue;
            assert_in_range(token, 0, 1999);
            assert_in_range(class, 0, 1);
            words++, ones += class, first += token == 0;
        }
    }
    double harmonic = 0;
    for (int k = 1; k <= 2000; k++)
        harmonic += 1.0 / k;
    assert_true(fabs((double)ones / (double)words - 0.5) < 0.02);
    assert_true(fabs((double)first / (double)words - 1 / harmonic) < 0.01);
    /* labels are drawn once: the next epoch and the evaluation set show the same */
    fill_batch(&again, task, RS_TASK_EVAL, 0);
    assert_int_equal(again.samples, 88);
    assert_memory_equal(again.classes, batch.classes, 88 * 64 * sizeof(int32_t));
    double drawn = mark_of(task, "without positions, labels as drawn");
    double expected = mark_of(task, "without positions, over all labels");
    assert_true(fabs(drawn - expected) < 0.01 && expected > 0.85 && expected < 1);
    rs_task_batch_free(&again);
    rs_task_batch_free(&batch);
    rs_task_close(task);

    data = (rs_task_data){.length = 9, .shortest = 9, .symbols = 4, .train = 1, .eval = 1};
    for (uint64_t seed = 0; seed < 6; seed++) {
        task = open_task("memorization", &data, seed);
        batch = new_batch(task, 1);
        fill_batch(&batch, task, RS_TASK_TRAIN, 0);
        assert_true(fabs(mark_of(task, "without positions, over all labels") -
                         ceiling_by_hand(batch.tokens, 9)) < 1e-12);
        rs_task_batch_free(&batch);
        rs_task_close(task);
    }
}

/* ---- points ---- */

static void test_golden_hull(void **state)
{
    (void)state;
    lcg one = {1}, eight = {8};
    assert_true(lcg_next(&one) == 0.42320917087271326); /* related_systems, head */
    assert_true(lcg_next(&one) == 0.5094074428837206);
    assert_true(lcg_next(&one) == 0.6483593939634306);
    double points[12];
    for (int i = 0; i < 12; i++)
        points[i] = 10 * lcg_next(&eight);
    int32_t labels[6], order[12];
    rs_hull_labels(labels, points, 6, order);
    static const int32_t golden[] = {0, 1, 1, 1, 1, 1}; /* 8.2 */
    assert_memory_equal(labels, golden, sizeof golden);
}

static double area_of(const double *a, const double *b, const double *c)
{
    return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0]);
}

/* A point is no vertex when it lies in a triangle of three others. */
static bool in_a_triangle(const double *p, int n, int at)
{
    for (int i = 0; i < n; i++)
        for (int j = i + 1; j < n; j++)
            for (int k = j + 1; k < n; k++) {
                if (i == at || j == at || k == at) continue;
                const double *a = p + 2 * i, *b = p + 2 * j, *c = p + 2 * k, *q = p + 2 * at;
                bool u = area_of(a, b, q) > 0, v = area_of(b, c, q) > 0, w = area_of(c, a, q) > 0;
                if (u == v && v == w) return true;
            }
    return false;
}

static void test_hull(void **state)
{
    (void)state;
    static const struct {
        int64_t n;
        double published; /* related_systems 8.2, of 1500 draws: +- 0.004 */
    } cases[] = {{8, .667}, {10, .597}, {12, .534}, {14, .488}};
    for (size_t c = 0; c < 4; c++) {
        rs_task_data data = task_defaults("convex-hull");
        data.length = cases[c].n;
        data.train = 10000;
        rs_train_task *task = open_task("convex-hull", &data, 17);
        rs_task_batch batch = new_batch(task, 10000);
        fill_batch(&batch, task, RS_TASK_TRAIN, 0);
        int64_t vertices = 0, n = cases[c].n;
        double mean[2] = {0, 0}, square = 0;
        for (int64_t i = 0; i < 10000; i++) {
            for (int64_t t = 0; t < n; t++) {
                int32_t label = batch.classes[i * n + t];
                vertices += label;
                if (i < 50)
                    assert_int_equal(label, !in_a_triangle(batch.rows + 2 * i * n, (int)n, (int)t));
            }
            const double *row = batch.rows + 2 * i * n;
            mean[0] += row[0] / 10000, mean[1] += row[1] / 10000;
            square += (row[0] - 5) * (row[0] - 5) / 10000;
        }
        double share = (double)vertices / (double)(10000 * n);
        assert_true(fabs(share - cases[c].published) < 0.012);
        double mark = mark_of(task, "commoner label");
        assert_true(fabs(fmax(share, 1 - share) - mark) < 0.003);
        assert_true(fabs(mean[0] - 5) < 0.2 && fabs(mean[1] - 5) < 0.2);
        assert_true(fabs(square - (100.0 / 12 + 3.3 * 3.3)) < 1); /* the square's and the shift's */
        rs_task_batch_free(&batch);
        rs_task_close(task);
    }
    /* exact: n = 3 is always a triangle, n = 4 has E = 4 (1 - 11/144) */
    rs_task_data data = task_defaults("convex-hull");
    data.length = 4;
    rs_train_task *task = open_task("convex-hull", &data, 1);
    assert_true(fabs(mark_of(task, "commoner label") - (1 - 11.0 / 144)) < 1e-14);
    rs_task_close(task);
}

static void test_circle(void **state)
{
    (void)state;
    rs_task_data data = task_defaults("circle");
    rs_train_task *task = open_task("circle", &data, 0);
    assert_int_equal(rs_task_sizes(task)->train, 499);
    rs_task_batch batch = new_batch(task, 499);
    fill_batch(&batch, task, RS_TASK_TRAIN, 0);
    assert_true(batch.values[0] == 0.3 * cos(2 * pi / 1000)); /* 8.4 */
    assert_true(batch.values[1] == 0.3 * sin(2 * pi / 1000));
    double mean[4] = {0}, square[4] = {0}, stay = 0;
    for (int64_t i = 0; i < 499; i++)
        for (int c = 0; c < 4; c++) {
            double angle = 2 * pi * (double)(i + (c / 2) * 499) / 1000;
            double x = batch.rows[4 * i + c], y = batch.values[4 * i + c];
            assert_true(fabs(x - 0.3 * (c % 2 ? sin(angle) : cos(angle))) < 1e-15);
            if (i < 498) assert_true(y == batch.rows[4 * (i + 1) + c]);
            mean[c] += y / 499, square[c] += y * y / 499, stay += (y - x) * (y - x) / 499;
        }
    double constant = 0;
    for (int c = 0; c < 4; c++)
        constant += square[c] - mean[c] * mean[c];
    assert_true(fabs(mark_of(task, "best constant") - constant) < 1e-13);
    assert_true(fabs(mark_of(task, "the point where it is") - stay) < 1e-15);
    rs_task_batch_free(&batch);
    rs_task_close(task);
}

static void test_entrywise(void **state)
{
    (void)state;
    const double exact[] = {0.25, NAN, 1, 1 - 2 / pi, 2, 0.5 - 0.5 * exp(-2 * pi * pi)};
    for (int map = 0; map < RS_MAP_COUNT; map++) {
        rs_task_data data = task_defaults("entrywise");
        data.map = (rs_entry_map)map;
        data.length = 100;
        data.width = 10;
        rs_train_task *task = open_task("entrywise", &data, 3);
        rs_task_batch batch = new_batch(task, 100);
        fill_batch(&batch, task, RS_TASK_TRAIN, 0);
        double mean = 0, square = 0;
        for (int i = 0; i < 100000; i++) {
            assert_true(batch.values[i] == rs_entry_value(data.map, batch.rows[i]));
            mean += batch.values[i] / 1e5, square += batch.values[i] * batch.values[i] / 1e5;
        }
        double mark = mark_of(task, "best constant") / 1000;
        assert_true(fabs(square - mean * mean - mark) < 0.02 * fmax(1, mark) * 2);
        if (!isnan(exact[map])) assert_true(fabs(mark - exact[map]) < 1e-8);
        rs_task_batch_free(&batch);
        rs_task_close(task);
    }
    assert_true(fabs(rs_entry_value(RS_MAP_SIGMOID, -0.5) - 0.5) < 1e-15);
    assert_true(rs_entry_value(RS_MAP_HEAVISIDE, -1e-300) == 0);
    assert_true(rs_entry_value(RS_MAP_SIGN, -2) == -1 && rs_entry_value(RS_MAP_SIGN, 0) == 0);
}

/* ---- recall ---- */

static void test_recall(void **state)
{
    (void)state;
    rs_task_data data = task_defaults("associative-recall");
    rs_train_task *task = open_task("associative-recall", &data, 1);
    const rs_task_shape *shape = rs_task_sizes(task);
    assert_true(shape->n_tok == 18 && shape->vocab == 32 && shape->d_out == 16 && !shape->train);
    const int64_t samples = 20000;
    rs_task_batch batch = new_batch(task, samples);
    fill_batch(&batch, task, RS_TASK_TRAIN, 0);
    double first = 0;
    int64_t places[6][6] = {{0}}, keys[16] = {0}, values[16] = {0};
    for (int64_t i = 0; i < samples; i++) {
        const int32_t *x = batch.tokens + 18 * i, *y = batch.classes + 18 * i;
        unsigned context = 0, asked = 0;
        for (int p = 0; p < 6; p++) {
            assert_in_range(x[2 * p], 0, 15);
            assert_in_range(x[2 * p + 1], 16, 31);
            assert_true(y[2 * p] == -1 && y[2 * p + 1] == -1);
            context |= 1u << x[2 * p];
            keys[x[2 * p]]++, values[x[2 * p + 1] - 16]++;
        }
        for (int q = 12; q < 18; q++) {
            asked |= 1u << x[q];
            for (int p = 0; p < 6; p++)
                if (x[2 * p] == x[q]) {
                    assert_int_equal(y[q], x[2 * p + 1] - 16);
                    places[q - 12][p]++;
                }
            first += y[q] == x[1] - 16;
        }
        assert_int_equal(__builtin_popcount(context), 6); /* keys differ */
        assert_int_equal(context, asked);
    }
    for (int k = 0; k < 16; k++) { /* 7500 +- 90 */
        assert_in_range(keys[k], 7050, 7950);
        assert_in_range(values[k], 7050, 7950);
    }
    for (int q = 0; q < 6; q++)
        for (int p = 0; p < 6; p++) /* 3333 +- 53: every order is as likely */
            assert_in_range(places[q][p], 3060, 3610);
    double mark = mark_of(task, "any value of the context");
    assert_true(mark == 1.0 / 6 + (5.0 / 6) / 16);
    assert_true(fabs(first / (double)(6 * samples) - mark) < 0.003);
    assert_true(mark_of(task, "chance") == 1.0 / 16);
    rs_task_batch_free(&batch);
    rs_task_close(task);
}

static void test_mqar(void **state)
{
    (void)state;
    rs_task_data data = task_defaults("mqar");
    data.symbols = 64;
    data.train = 0;
    rs_train_task *task = open_task("mqar", &data, 4);
    const int64_t samples = 20000, pairs = 4, space = 28;
    rs_task_batch batch = new_batch(task, samples);
    fill_batch(&batch, task, RS_TASK_TRAIN, 0);
    double gaps[28] = {0}, weights = 0;
    for (int64_t i = 0; i < samples; i++) {
        const int32_t *x = batch.tokens + 64 * i, *y = batch.classes + 64 * i;
        uint64_t keys = 0, values = 0;
        int targets = 0;
        for (int p = 0; p < pairs; p++) {
            assert_in_range(x[2 * p], 1, 31);
            assert_in_range(x[2 * p + 1], 32, 63);
            keys |= 1ull << x[2 * p], values |= 1ull << x[2 * p + 1];
        }
        assert_true(__builtin_popcountll(keys) == 4 && __builtin_popcountll(values) == 4);
        for (int t = 0; t < 64; t++) {
            assert_in_range(x[t], 0, 63);
            if (y[t] < 0) continue;
            targets++;
            assert_true(t >= 8 && t % 2 == 0);
            for (int p = 0; p < pairs; p++)
                if (x[2 * p] == x[t]) assert_int_equal(y[t], x[2 * p + 1]);
            if (x[t] == x[0]) gaps[(t - 8) / 2] += 1 / (double)samples;
        }
        assert_int_equal(targets, 4);
    }
    for (int g = 0; g < space; g++)
        weights += pow(g + 1, data.power - 1);
    for (int g = 0; g < space; g++) { /* of the first key nothing is taken yet: the plain law */
        double p = pow(g + 1, data.power - 1) / weights;
        assert_true(fabs(gaps[g] - p) < 5 * sqrt(p * (1 - p) / (double)samples));
    }
    assert_true(mark_of(task, "chance") == 1.0 / 32);
    assert_true(mark_of(task, "any value of the context") == 0.25);
    rs_task_batch_free(&batch);
    rs_task_close(task);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sorting),      cmocka_unit_test(test_reversal),
        cmocka_unit_test(test_memorization), cmocka_unit_test(test_golden_hull),
        cmocka_unit_test(test_hull),         cmocka_unit_test(test_circle),
        cmocka_unit_test(test_entrywise),    cmocka_unit_test(test_recall),
        cmocka_unit_test(test_mqar),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
