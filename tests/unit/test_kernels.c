/* test_kernels.c: the vector kernels against their plain twins, whose functions are libm's in
 * double: every length from 0 on, every activation over its whole range. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/random.h"
#include "engine/kernels.h"

#include <math.h>
#include <string.h>

enum { MOST = 67 };

/* Calls check(table) for each table that this processor can run. */
static void for_each(void (*check)(const rs_kernels_f32 *table))
{
    size_t n;
    const rs_kernels_f32 *const *tables = rs_kernels_f32_tables(&n);
    for (size_t i = 0; i < n; i++)
        check(tables[i]);
}

static void fill(float *x, int64_t n, rs_random *random, double std)
{
    for (int64_t i = 0; i < n; i++)
        x[i] = (float)(std * rs_random_normal(random));
}

/* |a - b| at most `ulps` units of the last place of b, or of `floor`. */
static void assert_near(float a, float b, double ulps, double floor, const char *what, double at)
{
    if (isnan(a) && isnan(b)) return;
    if (a == b) return;
    double size = fmax(fabs((double)b), floor), unit = size * 0x1p-23;
    if (!(fabs((double)a - (double)b) <= ulps * unit))
        print_message("%s at %.9g: %.9g, not %.9g\n", what, at, (double)a, (double)b);
    assert_true(fabs((double)a - (double)b) <= ulps * unit);
}

/* ---- activations ---- */

static void check_activations(const rs_kernels_f32 *table)
{
    for (int a = 0; a < RS_ACT_COUNT; a++)
        for (double x = -120; x < 120; x += fabs(x) < 20 ? 0.00137 : 0.31) {
            float ours[3] = {(float)x, (float)x, (float)x}, plain[3];
            memcpy(plain, ours, sizeof ours);
            table->activate(ours, NULL, 3, (rs_activation)a);
            rs_kernels_f32_plain.activate(plain, NULL, 3, (rs_activation)a);
            /* where the argument u of e^u is itself rounded, e^u shows that u times; the plain
             * twin's 1 + tanh ends at 1e-16 */
            double u = a == RS_ACT_GELU_TANH    ? 1.596 * x + 0.0714 * x * x * x
                       : a == RS_ACT_QUICK_GELU ? 1.702 * x
                                                : 0;
            assert_near(ours[0], plain[0], 4 + 2 * fabs(u), a == RS_ACT_GELU_TANH ? 1e-10 : 1e-28,
                        table->level, x);
            assert_true(ours[0] == ours[2] || isnan(ours[0]));
        }
}

static void test_activations(void **state)
{
    (void)state;
    for_each(check_activations);
}

/* The slope's twin against a difference of libm's activation, and the table against the twin; what
 * the two parts of a slope cancel counts from 1. */
static void check_slopes(const rs_kernels_f32 *table)
{
    for (int a = 0; a < RS_ACT_COUNT; a++)
        for (double x = -120; x < 120; x += fabs(x) < 20 ? 0.00137 : 0.31)
            for (int ratio = 0; ratio < 2; ratio++) {
                float at[3] = {(float)x, (float)x, (float)x}, ours[3] = {1, 1, 1}, plain = 1;
                double u = a == RS_ACT_GELU_TANH    ? 1.596 * x + 0.0714 * x * x * x
                           : a == RS_ACT_QUICK_GELU ? 1.702 * x
                                                    : x;
                table->slope(ours, at, 3, (rs_activation)a, ratio);
                rs_kernels_f32_plain.slope(&plain, at, 1, (rs_activation)a, ratio);
                assert_near(ours[0], plain, 6 + 2 * fmin(fabs(u), 20), 1, "slope", x);
                assert_true(ours[0] == ours[2]);
            }
}

/* Both at once against one after the other, over whole vectors and what is left of one. */
static void check_slope_values(const rs_kernels_f32 *table)
{
    enum { N = 37 };
    for (int a = 0; a < RS_ACT_COUNT; a++)
        for (int64_t n = 1; n <= N; n++)
            for (int ratio = 0; ratio < 2; ratio++) {
                float d[N], x[N], by[N], at[N];
                for (int64_t i = 0; i < n; i++) {
                    d[i] = by[i] = (float)(1 + i) / 8;
                    x[i] = at[i] = (float)(i * n % 23 - 11) * 0.61f;
                }
                table->slope(by, at, n, (rs_activation)a, ratio);
                table->activate(at, NULL, n, (rs_activation)a);
                table->slope_value(d, x, n, (rs_activation)a, ratio);
                for (int64_t i = 0; i < n; i++) {
                    assert_near(d[i], by[i], 4, 1, "slope beside the value", (double)i);
                    assert_near(x[i], at[i], 4, 1, "value beside the slope", (double)i);
                }
            }
}

/* First of the largest, and sums by weights, of rows with ties, zeros and what is infinite behind them. */
static void check_weighing(const rs_kernels_f32 *table)
{
    enum { N = 70 };
    for (int64_t n = 1; n <= N; n++)
        for (int k = 0; k < 8; k++) {
            float p[N], d[N];
            double seen, plain_seen;
            for (int64_t i = 0; i < n; i++) {
                p[i] = (float)(i * (k + 3) % 13 - (k == 7 ? 20 : 5)) / 16;
                if (p[i] < 0 && k < 6) p[i] = 0;
                d[i] = p[i] == 0 ? INFINITY : (float)((i + n) % 7) - 2.5f;
            }
            int64_t at = table->first_largest(p, n);
            double sum = table->weigh(p, d, n, 0.37, &seen);
            assert_int_equal(at, rs_kernels_f32_plain.first_largest(p, n));
            double plain = rs_kernels_f32_plain.weigh(p, d, n, 0.37, &plain_seen);
            assert_true(fabs(sum - plain) < 1e-12 && fabs(seen - plain_seen) < 1e-12);
        }
}

static void test_weighing(void **state)
{
    const float p[] = {0.25f, 0, 0.5f, 0.5f}, d[] = {1, INFINITY, 3, -1};
    double seen, sum = rs_kernels_f32_plain.weigh(p, d, 4, 2, &seen);
    (void)state;
    size_t tables;
    const rs_kernels_f32 *const *table = rs_kernels_f32_tables(&tables);
    float odd[20];
    for (int k = 0; k < 20; k++)
        odd[k] = k == 18 ? NAN : k == 17 ? 3 : -1;
    for (size_t t = 0; t < tables; t++) {
        odd[0] = -1;
        assert_int_equal(table[t]->first_largest(odd, 20), 17);
        odd[0] = NAN;
        assert_int_equal(table[t]->first_largest(odd, 20), 0);
    }
    assert_int_equal(rs_kernels_f32_plain.first_largest(p, 4), 2);
    assert_true(sum == -0.25 + 0.5 - 1.5 && seen == 1.25);
    for_each(check_weighing);
}

static void test_slopes(void **state)
{
    (void)state;
    const rs_kernels_f64 *plain = &rs_kernels_f64_plain;
    for (int a = 0; a < RS_ACT_COUNT; a++)
        for (double x = -8.0123; x < 8; x += 0.01) {
            double step = 1e-5, up = x + step, down = x - step, slope = 1, ratio = 1, value = x;
            plain->activate(&up, NULL, 1, (rs_activation)a);
            plain->activate(&down, NULL, 1, (rs_activation)a);
            plain->activate(&value, NULL, 1, (rs_activation)a);
            plain->slope(&slope, &x, 1, (rs_activation)a, false);
            plain->slope(&ratio, &x, 1, (rs_activation)a, true);
            assert_true(fabs(slope - (up - down) / (2 * step)) < 1e-8);
            /* of what φ(0) leaves, which the sigmoid would cancel */
            if (a == RS_ACT_SIGMOID) value = -expm1(-x) / (2 * (1 + exp(-x)));
            assert_true(fabs(ratio - value / x) < 1e-14 * (1 + fabs(ratio)));
        }
    for_each(check_slopes);
    for_each(check_slope_values);
}

static void check_special(const rs_kernels_f32 *table)
{
    const float inputs[] = {NAN,    INFINITY, -INFINITY, 0.0f, -0.0f,      1e30f,
                            -1e30f, 1e-40f,   4095.9f,   5e4f, 3.1415927f, 402.1239f};
    for (int a = 0; a < RS_ACT_COUNT; a++)
        for (size_t i = 0; i < sizeof inputs / sizeof *inputs; i++) {
            float ours = inputs[i], plain = inputs[i];
            if (isinf(inputs[i]) && inputs[i] < 0) continue; /* -inf * 0: either is right */
            table->activate(&ours, NULL, 1, (rs_activation)a);
            rs_kernels_f32_plain.activate(&plain, NULL, 1, (rs_activation)a);
            assert_near(ours, plain, 2, 1e-38, table->level, (double)inputs[i]);
        }
}

static void test_special(void **state)
{
    (void)state;
    for_each(check_special);
}

/* ---- rows of every length ---- */

static void check_rows(const rs_kernels_f32 *table)
{
    rs_random random = rs_random_new(3, 3);
    for (int64_t n = 0; n <= MOST; n++) {
        float x[MOST + 1], y[MOST + 1], g[MOST + 1], b[MOST + 1], a[MOST + 1], c[MOST + 1];
        fill(x, MOST + 1, &random, 1);
        fill(y, MOST + 1, &random, 1);
        fill(g, MOST + 1, &random, 1);
        fill(b, MOST + 1, &random, 1);
        for (int act = 0; act < RS_ACT_COUNT; act++) {
            memcpy(a, x, sizeof a), memcpy(c, x, sizeof c);
            table->gate(a, b, g, y, n, (rs_activation)act);
            rs_kernels_f32_plain.gate(c, b, g, y, n, (rs_activation)act);
            for (int64_t i = 0; i <= MOST; i++)
                assert_near(a[i], c[i], 6, 1e-2, "gate", (double)g[i]);
        }
        memcpy(a, x, sizeof a), memcpy(c, x, sizeof c);
        table->combine(a, y, n, 0.7, -1.3);
        rs_kernels_f32_plain.combine(c, y, n, 0.7, -1.3);
        for (int64_t i = 0; i <= MOST; i++)
            assert_near(a[i], c[i], 3, 1, "combine", (double)x[i]);
        table->cap(a, n, 2.5);
        rs_kernels_f32_plain.cap(c, n, 2.5);
        table->scale(a, n, 1.5);
        rs_kernels_f32_plain.scale(c, n, 1.5);
        for (int64_t i = 0; i <= MOST; i++)
            assert_near(a[i], c[i], 6, 1, "cap", (double)x[i]);
        for (rs_rope_kind kind = RS_ROPE_HALF_SPLIT; kind <= RS_ROPE_SPREAD; kind++) {
            int64_t pairs = kind == RS_ROPE_SPREAD ? n / 4 : n / 2;
            memcpy(a, x, sizeof a), memcpy(c, x, sizeof c);
            table->rotate(a, y, g, pairs, rs_rope_pairs(kind, 2 * pairs));
            rs_kernels_f32_plain.rotate(c, y, g, pairs, rs_rope_pairs(kind, 2 * pairs));
            for (int64_t i = 0; i <= MOST; i++)
                assert_near(a[i], c[i], 20, 1, "rotate", (double)x[i]);
        }
    }
}

static void test_rows(void **state)
{
    (void)state;
    for_each(check_rows);
}

/* A mean a thousand times the spread must not cost the digits of the result. */
static void check_norm(const rs_kernels_f32 *table)
{
    rs_random random = rs_random_new(4, 4);
    for (int64_t n = 1; n <= MOST; n++)
        for (int kind = RS_NORM_LAYERNORM; kind <= RS_NORM_RMSNORM_PLUS_ONE; kind++)
            for (int with = 0; with < 4; with++) {
                float x[MOST], gain[MOST], bias[MOST], a[MOST], c[MOST];
                fill(x, n, &random, 1);
                fill(gain, n, &random, 1);
                fill(bias, n, &random, 1);
                for (int64_t i = 0; i < n && with & 2; i++)
                    x[i] += 1000;
                table->norm(a, x, 1, n, (rs_norm_kind)kind, 1e-5, with & 1 ? gain : NULL,
                            with & 1 ? bias : NULL);
                rs_kernels_f32_plain.norm(c, x, 1, n, (rs_norm_kind)kind, 1e-5,
                                          with & 1 ? gain : NULL, with & 1 ? bias : NULL);
                for (int64_t i = 0; i < n; i++)
                    assert_near(a[i], c[i], 24, 1, "norm", (double)x[i]);
            }
}

static void test_norm(void **state)
{
    (void)state;
    for_each(check_norm);
}

/* All that norm_back gives of a row, held against its twin. */
static void check_norm_back(const rs_kernels_f32 *table)
{
    rs_random random = rs_random_new(14, 4);
    for (int64_t n = 1; n <= MOST; n++)
        for (int kind = RS_NORM_LAYERNORM; kind <= RS_NORM_RMSNORM_PLUS_ONE; kind++)
            for (int with = 0; with < 8; with++) {
                float x[MOST], gain[MOST], dy[2][MOST], gains[2][MOST], biases[2][MOST];
                const rs_kernels_f32 *tables[] = {table, &rs_kernels_f32_plain};
                if (n < 2 && with & 2) continue; /* what is left of one entry is rounding */
                fill(x, n, &random, 1);
                fill(gain, n, &random, 1);
                fill(dy[0], n, &random, 1);
                fill(gains[0], n, &random, 1);
                fill(biases[0], n, &random, 1);
                for (int64_t i = 0; i < n && with & 2; i++)
                    x[i] *= 1e25f;
                memcpy(dy[1], dy[0], sizeof dy[0]);
                memcpy(gains[1], gains[0], sizeof gains[0]);
                memcpy(biases[1], biases[0], sizeof biases[0]);
                for (int t = 0; t < 2; t++)
                    tables[t]->norm_back(dy[t], x, dy[t], 1, n, (rs_norm_kind)kind, 1e-2,
                                         with & 1 ? gain : NULL, gains[t], biases[t],
                                         (with & 4) != 0, NULL);
                for (int64_t i = 0; i < n; i++) {
                    assert_near(dy[0][i], dy[1][i], 200, with & 2 ? 1e-25 : 1, "norm_back",
                                (double)i);
                    assert_near(gains[0][i], gains[1][i], 50, 1, "gain", (double)i);
                    assert_near(biases[0][i], biases[1][i], 2, 1, "bias", (double)i);
                }
            }
}

static void test_norm_back(void **state)
{
    (void)state;
    for_each(check_norm_back);
}

/* Rows together have the bits of each alone, of which one may be huge, and those that a norm has by what
 * was kept of them; and so has what gains and biases gain of them in their order. */
static void check_norm_rows(const rs_kernels_f32 *table)
{
    enum { ROWS = 11 };
    rs_random random = rs_random_new(24, 4);
    for (int64_t n = 1; n <= MOST; n += n < 9 ? 1 : 7)
        for (int kind = RS_NORM_LAYERNORM; kind <= RS_NORM_RMSNORM_PLUS_ONE; kind++)
            for (int64_t rows = 0; rows <= ROWS; rows++)
                for (int64_t huge = -1; huge < rows; huge += 3) {
                    float x[ROWS * MOST], d[2][ROWS * MOST], y[2][ROWS * MOST], gain[MOST];
                    float sums[3][2][MOST] = {{{0}}}, again[2][ROWS * MOST], by[ROWS * MOST];
                    float kept[ROWS * RS_NORM_KEPT + 1];
                    rs_norm_kind of = (rs_norm_kind)kind;
                    fill(x, rows * n, &random, 1);
                    fill(gain, n, &random, 1);
                    fill(d[0], rows * n, &random, 1);
                    for (int64_t i = 0; i < n && huge >= 0; i++)
                        x[huge * n + i] *= 1e25f;
                    memcpy(d[1], d[0], (size_t)(rows * n) * sizeof **d);
                    memcpy(by, d[0], (size_t)(rows * n) * sizeof *by);
                    table->norm(y[0], x, rows, n, of, 1e-5, gain, gain);
                    table->norm_back(d[0], x, d[0], rows, n, of, 1e-5, gain, sums[0][0], sums[0][1],
                                     false, NULL);
                    for (int64_t r = 0; r < rows; r++) {
                        table->norm(y[1] + r * n, x + r * n, 1, n, of, 1e-5, gain, gain);
                        table->norm_back(d[1] + r * n, x + r * n, d[1] + r * n, 1, n, of, 1e-5,
                                         gain, sums[1][0], sums[1][1], false, NULL);
                    }
                    table->norm_of(again[0], x, rows, n, of, 1e-5, NULL, NULL, kept, false);
                    table->norm_of(again[0], x, rows, n, of, 1e-5, gain, gain, kept, true);
                    table->norm_back(again[1], x, by, rows, n, of, 1e-5, gain, sums[2][0],
                                     sums[2][1], false, kept);
                    if (rows == 0) continue;
                    assert_memory_equal(y[0], again[0], (size_t)(rows * n) * sizeof **y);
                    assert_memory_equal(d[0], again[1], (size_t)(rows * n) * sizeof **d);
                    assert_memory_equal(y[0], y[1], (size_t)(rows * n) * sizeof **y);
                    assert_memory_equal(d[0], d[1], (size_t)(rows * n) * sizeof **d);
                    for (int k = 0; k < 4; k++)
                        assert_memory_equal(sums[0][k % 2], sums[1 + k / 2][k % 2],
                                            (size_t)n * sizeof(float));
                }
}

static void test_norm_rows(void **state)
{
    (void)state;
    for_each(check_norm_rows);
}

/* In one piece and in two, with rows that begin far below. */
static void check_softmax(const rs_kernels_f32 *table)
{
    rs_random random = rs_random_new(5, 5);
    for (int64_t n = 1; n <= MOST; n++)
        for (int64_t cut = 0; cut <= n; cut += 1 + n / 5) {
            float x[MOST], a[MOST], c[MOST];
            fill(x, n, &random, 20);
            memcpy(a, x, sizeof a), memcpy(c, x, sizeof c);
            double largest = -(double)INFINITY, sum = 0, m = -(double)INFINITY, s = 0;
            rs_kernels_f32_plain.softmax(c, n, &largest, &sum);
            table->softmax(a, cut, &m, &s);
            double factor = table->softmax(a + cut, n - cut, &m, &s);
            assert_true(m == largest);
            assert_true(fabs(s - sum) <= 1e-6 * sum);
            for (int64_t i = 0; i < n; i++)
                assert_near(i < cut ? (float)((double)a[i] * factor) : a[i], c[i], 40, 1e-3,
                            "softmax", (double)x[i]);
        }
}

/* The row once more, from its largest and its sum; of a row that sees nothing 0. */
static void check_probabilities(const rs_kernels_f32 *table)
{
    rs_random random = rs_random_new(6, 5);
    for (int64_t n = 1; n <= MOST; n++) {
        float x[MOST], a[MOST], c[MOST];
        double largest = -(double)INFINITY, sum = 0, total = 0;
        fill(x, n, &random, 20);
        if (n > 2) x[n / 2] = -INFINITY;
        memcpy(a, x, sizeof a), memcpy(c, x, sizeof c);
        table->softmax(c, n, &largest, &sum);
        table->probabilities(a, n, largest, 1 / sum);
        for (int64_t i = 0; i < n; i++) {
            assert_near(a[i], (float)((double)c[i] / sum), 2, 1e-30, "probabilities", (double)x[i]);
            total += (double)a[i];
        }
        assert_true(fabs(total - 1) < 1e-5);
        for (int64_t i = 0; i < n; i++)
            a[i] = -INFINITY;
        table->probabilities(a, n, -(double)INFINITY, 1);
        for (int64_t i = 0; i < n; i++)
            assert_true(a[i] == 0);
    }
}

static void test_softmax(void **state)
{
    (void)state;
    for_each(check_softmax);
    for_each(check_probabilities);
}

/* Few rows times weights, against sums in double; nothing is written beside the result. */
static void check_products(const rs_kernels_f32 *table)
{
    enum { M = 5, LD = 150 };
    static float in[M * LD], w[LD * LD], ours[M * LD], plain[M * LD];
    rs_random random = rs_random_new(6, 6);
    fill(in, M * LD, &random, 1);
    fill(w, LD * LD, &random, 1);
    for (int64_t m = 0; m <= M; m++)
        for (int64_t n = 0; n < LD; n += n < 12 ? 1 : 17)
            for (int64_t k = 1; k < LD; k += k < 20 ? 1 : 43)
                for (int columns = 0; columns < 2; columns++) {
                    memset(ours, 0, sizeof ours), memset(plain, 0, sizeof plain);
                    (columns ? table->columns : table->dots)(ours, LD, in, LD, m, w, LD, n, k);
                    (columns ? rs_kernels_f32_plain.columns
                             : rs_kernels_f32_plain.dots)(plain, LD, in, LD, m, w, LD, n, k);
                    for (int64_t i = 0; i < M * LD; i++)
                        assert_near(ours[i], plain[i], 8, sqrt((double)k), "product", (double)n);
                }
}

static void test_products(void **state)
{
    (void)state;
    for_each(check_products);
}

/* The mixing matrices of some tokens, with channels that fill no vector, by as many tokens as come. */
static void check_pairs(const rs_kernels_f32 *table)
{
    enum { STATES = 5, CHANNELS = 19, PAIRS = STATES * (STATES + 1) / 2, CALLS = 7 };
    enum { TOKENS = RS_PAIR_TOKENS };
    static float p[2][PAIRS * CHANNELS], z[2][STATES * CHANNELS], sums[2][5][CHANNELS];
    static float work[RS_PAIR_WORK * STATES], decay[TOKENS * STATES * CHANNELS];
    float step[TOKENS * CHANNELS], b[TOKENS * STATES], c[TOKENS * STATES], d[CHANNELS];
    const rs_kernels_f32 *tables[] = {table, &rs_kernels_f32_plain};
    rs_random random = rs_random_new(5, 0);
    for (int64_t n = 1; n <= CHANNELS; n++) {
        memset(p, 0, sizeof p);
        memset(z, 0, sizeof z);
        memset(sums, 0, sizeof sums);
        for (int64_t i = 0; i < n; i++) {
            d[i] = (float)rs_random_normal(&random);
            for (int k = 0; k < 2; k++)
                sums[k][3][i] = INFINITY, sums[k][4][i] = -INFINITY;
        }
        for (int call = 0; call < CALLS; call++) {
            for (int64_t i = 0; i < TOKENS * STATES * n; i++)
                decay[i] = (float)exp(-5 * pow(rs_random_uniform(&random), 2));
            for (int64_t i = 0; i < TOKENS * n; i++)
                step[i] = (float)rs_random_uniform(&random);
            for (int64_t i = 0; i < TOKENS * STATES; i++) {
                b[i] = (float)rs_random_normal(&random);
                c[i] = (float)rs_random_normal(&random);
            }
            for (int k = 0; k < 2; k++)
                tables[k]->pair(&(rs_pairs_f32){.n = n,
                                                .states = STATES,
                                                .tokens = call < 2 ? TOKENS : 1 + call % TOKENS,
                                                .decay = decay,
                                                .step = step,
                                                .b = b,
                                                .c = c,
                                                .d = d,
                                                .ld_step = n,
                                                .ld = STATES,
                                                .p = p[k],
                                                .z = z[k],
                                                .square = sums[k][0],
                                                .mixed = sums[k][1],
                                                .steps = sums[k][2],
                                                .least = sums[k][3],
                                                .most = sums[k][4],
                                                .work = work});
            for (int which = 0; which < 5; which++)
                for (int64_t i = 0; i < n; i++)
                    assert_true(fabsf(sums[0][which][i] - sums[1][which][i]) <=
                                2e-6f * (10 + fabsf(sums[1][which][i])));
            for (int64_t i = 0; i < PAIRS * n; i++)
                assert_true(fabsf(p[0][i] - p[1][i]) <= 1e-5f);
            for (int64_t i = 0; i < STATES * n; i++)
                assert_true(fabsf(z[0][i] - z[1][i]) <= 1e-5f);
        }
    }
}

static void test_pairs(void **state)
{
    (void)state;
    for_each(check_pairs);
}

/* States of S4D over some tokens: doubles in both tables, so that they differ by the last bits. */
static void check_turns(const rs_kernels_f32 *table)
{
    enum { PAIRS = 3, NUMBERS = 2 * PAIRS * RS_TURN_MOST };
    double h[2][NUMBERS], decay[NUMBERS], weight[NUMBERS];
    float u[RS_TURN_MOST], d[RS_TURN_MOST], y[2][RS_TURN_MOST];
    const rs_kernels_f32 *tables[] = {table, &rs_kernels_f32_plain};
    rs_random random = rs_random_new(6, 0);
    for (int64_t n = 1; n <= RS_TURN_MOST; n++) {
        memset(h, 0, sizeof h);
        for (int64_t i = 0; i < 2 * PAIRS * n; i++) {
            decay[i] = rs_random_uniform(&random) - 0.5;
            weight[i] = rs_random_normal(&random);
        }
        for (int token = 0; token < 7; token++) {
            for (int64_t i = 0; i < n; i++) {
                u[i] = (float)rs_random_normal(&random);
                d[i] = (float)rs_random_normal(&random);
            }
            for (int k = 0; k < 2; k++)
                tables[k]->turn(y[k], u, d, h[k], decay, weight, n, PAIRS);
            for (int64_t i = 0; i < n; i++)
                assert_true(fabsf(y[0][i] - y[1][i]) <= 1e-6f * (1 + fabsf(y[1][i])));
            for (int64_t i = 0; i < 2 * PAIRS * n; i++)
                assert_true(fabs(h[0][i] - h[1][i]) <= 1e-14 * (1 + fabs(h[1][i])));
        }
    }
}

static void test_turns(void **state)
{
    (void)state;
    for_each(check_turns);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_activations), cmocka_unit_test(test_special),
        cmocka_unit_test(test_rows),        cmocka_unit_test(test_norm),
        cmocka_unit_test(test_norm_back),   cmocka_unit_test(test_norm_rows),
        cmocka_unit_test(test_slopes),      cmocka_unit_test(test_weighing),
        cmocka_unit_test(test_softmax),     cmocka_unit_test(test_products),
        cmocka_unit_test(test_pairs),       cmocka_unit_test(test_turns),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
