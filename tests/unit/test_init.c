/* test_init.c: laws of random weights against their moments. Tolerances are five standard errors of
 * the statistic under the law (the draw is fixed by its seed: a test that passes stays passing). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/memory.h"
#include "network/draw.h"
#include "network/init.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const float *numbers(const rs_tensor *tensor)
{
    return (const float *)(const void *)tensor->data;
}

static rs_init *open_init(const char *law, uint64_t seed)
{
    rs_init *init = NULL;
    rs_error err;
    rs_status status = rs_init_open(&init, law, seed, &err);
    if (status != RS_OK) fail_msg("%s: %s", err.where, err.what);
    return init;
}

static const rs_tensor *draw(rs_init *init, rs_role role, int32_t layer, int64_t rows, int64_t cols,
                             bool out_is_row)
{
    const rs_tensor *tensor = NULL;
    int64_t shape[] = {rows, cols};
    rs_error err;
    rs_status status =
        rs_init_tensor(&tensor, init, role, false, layer, 2, shape, out_is_row, &err);
    if (status != RS_OK) fail_msg("%s: %s", err.where, err.what);
    assert_int_equal(tensor->count, rows * cols);
    assert_int_equal(tensor->bytes, (uint64_t)(rows * cols) * 4);
    assert_int_equal(tensor->dtype, RS_F32);
    return tensor;
}

/* Mean, variance, skewness and fourth moment of a normal sample, and its Kolmogorov distance. */
static int ascending(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

static void assert_normal(const float *x, int64_t n, double mean, double variance)
{
    double m[5] = {0}, s = sqrt(variance), count = (double)n;
    for (int64_t i = 0; i < n; i++) {
        double z = ((double)x[i] - mean) / s, power = 1;
        for (int k = 1; k <= 4; k++)
            m[k] += (power *= z) / count;
    }
    double bound = 5 / sqrt(count);
    assert_true(fabs(m[1]) < bound);
    assert_true(fabs(m[2] - 1) < bound * sqrt(2));
    assert_true(fabs(m[3]) < bound * sqrt(15));
    assert_true(fabs(m[4] - 3) < bound * sqrt(96));
    float *sorted = malloc((size_t)n * sizeof *sorted);
    memcpy(sorted, x, (size_t)n * sizeof *sorted);
    qsort(sorted, (size_t)n, sizeof *sorted, ascending);
    double distance = 0;
    for (int64_t i = 0; i < n; i++) {
        double below = 0.5 * erfc(-(((double)sorted[i] - mean) / s) / sqrt(2));
        distance = fmax(distance, fabs(below - ((double)i + 0.5) / count));
    }
    free(sorted);
    assert_true(distance < 2.3 / sqrt(count)); /* P = 5e-5 under the law */
}

static void normal_laws_have_their_moments(void **state)
{
    (void)state;
    rs_init *init = open_init("normal(0, 1/fan_in)", 7);
    const rs_tensor *q = draw(init, RS_ROLE_Q, 0, 300, 700, true);
    assert_normal(numbers(q), q->count, 0, 1 / 700.0);
    const rs_tensor *k = draw(init, RS_ROLE_K, 0, 300, 700, false);
    assert_normal(numbers(k), k->count, 0, 1 / 300.0);
    /* XLNet stores [width, heads, head_dim]: fan_in is the width. */
    const int64_t apart[] = {256, 16, 24};
    const rs_tensor *v = NULL;
    rs_error err;
    assert_int_equal(rs_init_tensor(&v, init, RS_ROLE_V, false, 0, 3, apart, false, &err), RS_OK);
    assert_normal(numbers(v), v->count, 0, 1 / 256.0);
    rs_init_close(init);
    init = open_init("xavier", 7);
    q = draw(init, RS_ROLE_Q, 0, 300, 700, true);
    assert_normal(numbers(q), q->count, 0, 2 / 1000.0);
    /* embeddings keep the default */
    rs_init_set_default(init, 0.02, 0.005, 64, 12);
    const rs_tensor *e = draw(init, RS_ROLE_EMBED_TOKEN, -1, 1000, 64, true);
    assert_normal(numbers(e), e->count, 0, 0.0004);
    rs_init_close(init);
    init = open_init(NULL, 7);
    rs_init_set_default(init, 0.02, 0.005, 64, 12);
    q = draw(init, RS_ROLE_Q, 3, 200, 200, true);
    assert_normal(numbers(q), q->count, 0, 0.0004);
    const rs_tensor *o = draw(init, RS_ROLE_O, 3, 200, 200, true);
    assert_normal(numbers(o), o->count, 0, 0.000025);
    const rs_tensor *down = draw(init, RS_ROLE_MLP_DOWN, 3, 200, 200, false);
    assert_normal(numbers(down), down->count, 0, 0.000025);
    rs_init_close(init);
}

static void role_laws(void **state)
{
    (void)state;
    rs_init *init = open_init("default", 3);
    rs_error err;
    rs_init_set_default(init, 0.02, 0.02, 16, 4);
    assert_int_equal(rs_init_set_role(init, RS_ROLE_Q, "normal(1, 4*d/L^2)", "wq", &err), RS_OK);
    assert_int_equal(rs_init_set_role(init, RS_ROLE_K, "uniform(-1, 1/fan_out)", "wk", &err),
                     RS_OK);
    assert_int_equal(rs_init_set_role(init, RS_ROLE_V, "zero", "wv", &err), RS_OK);
    assert_int_equal(rs_init_set_role(init, RS_ROLE_O, "identity", "wo", &err), RS_OK);
    const rs_tensor *q = draw(init, RS_ROLE_Q, 0, 200, 200, true);
    assert_normal(numbers(q), q->count, 1, 4);
    const rs_tensor *k = draw(init, RS_ROLE_K, 0, 200, 500, true);
    double sum = 0, square = 0, low = -1, high = 1 / 200.0, n = (double)k->count;
    for (int64_t i = 0; i < k->count; i++) {
        double x = (double)numbers(k)[i];
        assert_true(x > low - 1e-7 && x < high + 1e-7);
        sum += x / n;
        square += x * x / n;
    }
    double width = high - low, middle = 0.5 * (high + low);
    assert_true(fabs(sum - middle) < 5 * width / sqrt(12 * n));
    /* variance of the sample variance of a uniform: width^4/180 */
    assert_true(fabs(square - sum * sum - width * width / 12) < 5 * width * width / sqrt(180 * n));
    const rs_tensor *v = draw(init, RS_ROLE_V, 0, 20, 30, true);
    for (int64_t i = 0; i < v->count; i++)
        assert_true(numbers(v)[i] == 0);
    const rs_tensor *o = draw(init, RS_ROLE_O, 0, 20, 30, true);
    for (int64_t i = 0; i < o->count; i++)
        assert_true(numbers(o)[i] == (i / 30 == i % 30 ? 1.0F : 0.0F));
    rs_init_close(init);
}

static void orthogonal_is_orthonormal_and_uniform(void **state)
{
    (void)state;
    static const int64_t shapes[][2] = {{40, 40}, {30, 70}, {70, 30}, {1, 9}, {9, 1}, {1, 1}};
    for (size_t t = 0; t < sizeof shapes / sizeof *shapes; t++) {
        rs_init *init = open_init("orthogonal", 11 + t);
        int64_t rows = shapes[t][0], cols = shapes[t][1];
        const float *w = numbers(draw(init, RS_ROLE_Q, 0, rows, cols, true));
        bool by_row = rows <= cols;
        int64_t m = by_row ? rows : cols, n = by_row ? cols : rows;
        for (int64_t a = 0; a < m; a++)
            for (int64_t b = 0; b <= a; b++) {
                double dot = 0;
                for (int64_t i = 0; i < n; i++)
                    dot += (double)(by_row ? w[a * cols + i] : w[i * cols + a]) *
                           (double)(by_row ? w[b * cols + i] : w[i * cols + b]);
                /* entries are rounded to float32: |error| <= 2 u |row||row| in the worst case */
                assert_true(fabs(dot - (a == b)) < 2 * 0x1p-24 * 1.01);
            }
        rs_init_close(init);
    }
    /* Haar: E trace = 0, E trace² = 1 for n > 1; without the sign fix R's diagonal decides and the
     * mean of the diagonal is far from 0 (LAPACK's reflections make it negative). */
    double trace = 0, trace2 = 0, corner4 = 0;
    enum { TRIALS = 2000, N = 4 };
    for (int t = 0; t < TRIALS; t++) {
        rs_init *init = open_init("orthogonal", 1000 + (uint64_t)t);
        const float *w = numbers(draw(init, RS_ROLE_Q, 0, N, N, true));
        double sum = 0;
        for (int i = 0; i < N; i++)
            sum += (double)w[i * N + i];
        trace += sum / TRIALS;
        trace2 += sum * sum / TRIALS;
        corner4 += pow((double)w[0], 4) / TRIALS;
        rs_init_close(init);
    }
    assert_true(fabs(trace) < 5 / sqrt(TRIALS));
    assert_true(fabs(trace2 - 1) < 5 * sqrt(2.0 / TRIALS)); /* E trace⁴ = 3 for n >= 4 */
    /* a unit vector's entry: E x⁴ = 3/(n(n+2)) = 1/8; its variance is 105/1920 - 1/64 = 0.039 */
    assert_true(fabs(corner4 - 0.125) < 5 * sqrt(0.0391 / TRIALS));
}

static void threads_order_and_company_do_not_matter(void **state)
{
    (void)state;
    rs_init *one = open_init("default", 5), *two = open_init("default", 5);
    rs_init_set_threads(one, 1);
    rs_init_set_threads(two, 7);
    const rs_tensor *a = draw(one, RS_ROLE_Q, 0, 333, 401, true);
    const rs_tensor *b = draw(one, RS_ROLE_K, 1, 50, 60, true);
    draw(two, RS_ROLE_V, 9, 10, 10, true);
    const rs_tensor *b2 = draw(two, RS_ROLE_K, 1, 50, 60, true);
    const rs_tensor *a2 = draw(two, RS_ROLE_Q, 0, 333, 401, true);
    assert_memory_equal(a->data, a2->data, a->bytes);
    assert_memory_equal(b->data, b2->data, b->bytes);
    /* a shorter tensor is the beginning of a longer one */
    rs_init *three = open_init("default", 5);
    const rs_tensor *begin = draw(three, RS_ROLE_Q, 0, 3, 401, true);
    assert_memory_equal(a->data, begin->data, begin->bytes);
    rs_init_close(one);
    rs_init_close(two);
    rs_init_close(three);
}

/* Different seeds, roles, layers and a second asking: uncorrelated within 5/sqrt(n). */
static void streams_are_independent(void **state)
{
    (void)state;
    rs_init *init = open_init("normal(0, 1)", 5), *other = open_init("normal(0, 1)", 6);
    const rs_tensor *t[] = {
        draw(init, RS_ROLE_Q, 0, 200, 200, true), draw(init, RS_ROLE_K, 0, 200, 200, true),
        draw(init, RS_ROLE_Q, 1, 200, 200, true), draw(init, RS_ROLE_Q, 0, 200, 200, true),
        draw(other, RS_ROLE_Q, 0, 200, 200, true)};
    for (int a = 0; a < 5; a++)
        for (int b = 0; b < a; b++) {
            double dot = 0;
            for (int64_t i = 0; i < 40000; i++)
                dot += (double)numbers(t[a])[i] * (double)numbers(t[b])[i];
            assert_true(fabs(dot) / 40000 < 5 / 200.0);
        }
    assert_string_equal(t[0]->name, "layer 0 q");
    assert_string_equal(t[3]->name, "layer 0 q (2)");
    rs_init_close(init);
    rs_init_close(other);
    /* neighbours within a stream: lags 1 to 8, the words of two counters */
    float *x = malloc(100000 * sizeof *x);
    rs_draw stream = {1, {2, 3}};
    rs_draw_normal(x, &stream, 100000, 0, 1, 2);
    for (int lag = 1; lag <= 8; lag++) {
        double dot = 0;
        for (int i = lag; i < 100000; i++)
            dot += (double)x[i] * (double)x[i - lag];
        assert_true(fabs(dot) / 1e5 < 5 / sqrt(1e5));
    }
    assert_normal(x, 100000, 0, 1);
    free(x);
}

static void biases_and_gains(void **state)
{
    (void)state;
    static const struct {
        rs_role role;
        bool bias;
        float value;
    } rows[] = {
        {RS_ROLE_Q, true, 0},
        {RS_ROLE_Q_BIAS, false, 0},
        {RS_ROLE_NORM_MIXER, false, 1},
        {RS_ROLE_NORM_MIXER, true, 0},
        {RS_ROLE_NORM_FINAL_BIAS, false, 0},
        {RS_ROLE_Q_NORM, false, 1},
        {RS_ROLE_LAYER_SCALE, false, 1},
        {RS_ROLE_MLP_DOWN_BIAS, false, 0},
    };
    static const char *const laws[] = {"default", "normal(3, 1)", "orthogonal", "xavier"};
    for (size_t l = 0; l < 4; l++) {
        rs_init *init = open_init(laws[l], 1);
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
            const rs_tensor *tensor;
            int64_t shape[] = {77};
            rs_error err;
            assert_int_equal(
                rs_init_tensor(&tensor, init, rows[i].role, rows[i].bias, 0, 1, shape, true, &err),
                RS_OK);
            for (int j = 0; j < 77; j++)
                assert_true(numbers(tensor)[j] == rows[i].value);
        }
        rs_init_close(init);
    }
}

static void laws_refused_by_name(void **state)
{
    (void)state;
    static const struct {
        const char *law, *what, *hint;
        rs_status status;
    } general[] = {
        {"gaussian",
         "\"gaussian\" is not a law of weights; there are default, xavier, normal, "
         "orthogonal",
         "did you mean", RS_E_BAD_OPTION},
        {"xavir", "\"xavir\"", "did you mean \"xavier\"?", RS_E_BAD_OPTION},
        {"uniform(0, 1)", "\"uniform\" is not", "did you mean", RS_E_BAD_OPTION},
        {"normal", "takes 2 arguments", "normal(MEAN, VARIANCE)", RS_E_BAD_OPTION},
        {"normal(0)", "takes 2 arguments", "normal(MEAN, VARIANCE)", RS_E_BAD_OPTION},
        {"normal(0, 1, 2)", "more than two arguments", "", RS_E_BAD_OPTION},
        {"normal(0, 1", "takes 2 arguments", "", RS_E_BAD_OPTION},
        {"normal(0, 1) x", "takes 2 arguments", "", RS_E_BAD_OPTION},
        {"xavier(2)", "takes 0 arguments", "", RS_E_BAD_OPTION},
        {"xavier now", "takes 0 arguments", "", RS_E_BAD_OPTION},
        {"", "\"\" is not a law", "", RS_E_BAD_OPTION},
        {"normal(0, 1/fan)", "does not know \"fan\"", "", RS_E_EXPRESSION},
        {"normal(0, (1)", "takes 2 arguments", "", RS_E_BAD_OPTION},
        {"normal(0,)", "an early end", "", RS_E_EXPRESSION},
    };
    for (size_t i = 0; i < sizeof general / sizeof *general; i++) {
        rs_init *init = NULL;
        rs_error err;
        assert_int_equal(rs_init_open(&init, general[i].law, 0, &err), general[i].status);
        assert_null(init);
        if (!strstr(err.what, general[i].what) || !strstr(err.hint, general[i].hint))
            fail_msg("%s: %s; %s", general[i].law, err.what, err.hint);
        assert_string_equal(err.where, "--init");
    }
    rs_init *init = open_init(NULL, 0);
    rs_error err;
    assert_int_equal(rs_init_set_role(init, RS_ROLE_Q, "orthagonal", "init.wq", &err),
                     RS_E_BAD_OPTION);
    assert_string_equal(err.hint, "did you mean \"orthogonal\"?");
    assert_string_equal(err.where, "init.wq");
    /* sizes decide whether a formula has a value */
    assert_int_equal(rs_init_set_role(init, RS_ROLE_Q, "normal(0, 1/(fan_in-8))", "init.wq", &err),
                     RS_OK);
    const rs_tensor *tensor;
    int64_t shape[] = {8, 8};
    assert_int_equal(rs_init_tensor(&tensor, init, RS_ROLE_Q, false, 0, 2, shape, true, &err),
                     RS_E_EXPRESSION);
    assert_int_equal(rs_init_set_role(init, RS_ROLE_K, "normal(0, 8-d)", "init.wk", &err), RS_OK);
    rs_init_set_default(init, 1, 1, 9, 1);
    assert_int_equal(rs_init_tensor(&tensor, init, RS_ROLE_K, false, 0, 2, shape, true, &err),
                     RS_E_EXPRESSION);
    assert_non_null(strstr(err.what, "must not be negative"));
    assert_int_equal(rs_init_set_role(init, RS_ROLE_V, "uniform(1, 0)", "init.wv", &err), RS_OK);
    assert_int_equal(rs_init_tensor(&tensor, init, RS_ROLE_V, false, 0, 2, shape, true, &err),
                     RS_E_EXPRESSION);
    rs_init_close(init);
}

static void sizes_are_checked_before_memory_is_asked_for(void **state)
{
    (void)state;
    rs_init *init = open_init(NULL, 0);
    rs_error err;
    const rs_tensor *tensor;
    int64_t overflow[] = {INT64_MAX, 4}, huge[] = {1 << 30, 1 << 20}, zero[] = {0, 4},
            negative[] = {-1, 4};
    assert_int_equal(rs_init_tensor(&tensor, init, RS_ROLE_Q, false, 0, 2, overflow, true, &err),
                     RS_E_CONFIG_SIZE);
    assert_int_equal(rs_init_tensor(&tensor, init, RS_ROLE_Q, false, 0, 2, zero, true, &err),
                     RS_E_CONFIG_SIZE);
    assert_int_equal(rs_init_tensor(&tensor, init, RS_ROLE_Q, false, 0, 2, negative, true, &err),
                     RS_E_CONFIG_SIZE);
    assert_int_equal(rs_init_tensor(&tensor, init, RS_ROLE_Q, false, 0, 2, huge, true, &err),
                     RS_E_MEMORY_LIMIT);
    assert_non_null(strstr(err.what, "4194304.0 GiB"));
    assert_null(tensor);
    rs_init_close(init);
}

/* A plan counts and draws nothing; what is drawn afterwards is what would have been without it. */
static void a_plan_comes_before_the_draw(void **state)
{
    (void)state;
    rs_init *init = open_init(NULL, 3), *plain = open_init(NULL, 3);
    rs_error err;
    rs_init_plan(init);
    const rs_tensor *planned = draw(init, RS_ROLE_Q, 0, 50, 60, true);
    assert_null(planned->data);
    assert_int_equal(rs_init_start(init, NULL, &err), RS_OK);
    const rs_tensor *drawn = draw(init, RS_ROLE_Q, 0, 50, 60, true);
    const rs_tensor *same = draw(plain, RS_ROLE_Q, 0, 50, 60, true);
    assert_string_equal(drawn->name, "layer 0 q");
    assert_memory_equal(drawn->data, same->data, same->bytes);
    rs_init_plan(init);
    for (int32_t l = 0; l < 1000; l++)
        draw(init, RS_ROLE_Q, l, 1 << 20, 1 << 12, true);
    assert_int_equal(rs_init_start(init, NULL, &err), RS_E_MEMORY_LIMIT);
    assert_non_null(strstr(err.what, "the weights need 16000.0 GiB"));
    rs_init_close(init);
    rs_init_close(plain);
}

static rs_status walk_once(void)
{
    rs_init *init = NULL;
    rs_error err;
    RS_TRY(rs_init_open(&init, "normal(0, 1/fan_in)", 1, &err));
    const rs_tensor *tensor;
    int64_t shape[] = {30, 20};
    rs_status status = rs_init_set_role(init, RS_ROLE_Q, "orthogonal", "wq", &err);
    for (int32_t l = 0; status == RS_OK && l < 40; l++)
        status = rs_init_tensor(&tensor, init, RS_ROLE_K, false, l, 2, shape, true, &err);
    rs_init_close(init);
    if (status != RS_OK) return status;
    RS_TRY(rs_init_open(&init, "orthogonal", 1, &err));
    status = rs_init_tensor(&tensor, init, RS_ROLE_K, false, 0, 2, shape, true, &err);
    rs_init_close(init);
    return status;
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    int64_t before = rs_memory_requests();
    assert_int_equal(walk_once(), RS_OK);
    int64_t n = rs_memory_requests() - before;
    assert_true(n > 40);
    for (int64_t i = 1; i <= n; i++) {
        rs_memory_fail_at(i);
        rs_status status = walk_once();
        rs_memory_fail_at(0);
        assert_int_equal(status, RS_E_NO_MEMORY);
    }
}

/* The law of a tensor, planned or drawn, has the mean square of what is drawn from it. */
static void laws_tell_the_mean_square_of_what_they_draw(void **state)
{
    (void)state;
    enum { ROWS = 96, COLS = 160 };
    static const struct {
        const char *law;
        double square, slack; /* slack: standard deviation of the mean square, relative */
    } cases[] = {
        {"normal(0, 1/fan_in)", 1.0 / COLS, 1.4142},
        {"normal(0.5, 0.01)", 0.26, 0.5},
        {"uniform(-1, 2)", 1, 1.1},
        {"orthogonal", 1.0 / COLS, 0},
        {"identity", 1.0 / COLS, 0},
        {"zero", 0, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (int planned = 0; planned < 2; planned++) {
            rs_init *init = open_init(NULL, 5);
            rs_error err;
            assert_int_equal(rs_init_set_role(init, RS_ROLE_Q, cases[i].law, "wq", &err), RS_OK);
            if (planned) rs_init_plan(init);
            const rs_tensor *tensor = draw(init, RS_ROLE_Q, 0, ROWS, COLS, true);
            double square = rs_weight_law_square(rs_init_law(tensor), COLS, ROWS), sum = 0;
            assert_true(fabs(square - cases[i].square) <= 1e-15);
            for (int64_t j = 0; !planned && j < ROWS * COLS; j++)
                sum += (double)numbers(tensor)[j] * (double)numbers(tensor)[j];
            double slack = 5 * cases[i].slack / sqrt(ROWS * COLS) + 1e-6;
            if (!planned) assert_true(fabs(sum / (ROWS * COLS) - square) <= slack * square);
            rs_init_close(init);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(normal_laws_have_their_moments),
        cmocka_unit_test(role_laws),
        cmocka_unit_test(orthogonal_is_orthonormal_and_uniform),
        cmocka_unit_test(threads_order_and_company_do_not_matter),
        cmocka_unit_test(streams_are_independent),
        cmocka_unit_test(biases_and_gains),
        cmocka_unit_test(laws_refused_by_name),
        cmocka_unit_test(sizes_are_checked_before_memory_is_asked_for),
        cmocka_unit_test(a_plan_comes_before_the_draw),
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(laws_tell_the_mean_square_of_what_they_draw),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
