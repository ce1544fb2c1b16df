/* test_kernels_scan.c: the vector kernels of Mamba's scan, of short convolutions and of small products
 * against their plain twins, whose functions are libm's in double, or sums in double. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/random.h"
#include "engine/kernels.h"

#include <math.h>
#include <string.h>

enum { STATES = 5, CHANNELS = 19, TOKENS = RS_SELECT_TOKENS, LD = 23, LD_READ = 13 };

static void for_each(void (*check)(const rs_kernels_f32 *table))
{
    size_t n;
    const rs_kernels_f32 *const *tables = rs_kernels_f32_tables(&n);
    for (size_t i = 0; i < n; i++)
        check(tables[i]);
}

static void fill(float *x, int64_t n, rs_random *random)
{
    for (int64_t i = 0; i < n; i++)
        x[i] = (float)rs_random_normal(random);
}

/* e^(step rate) of one channel with one state, which is 1 before: through y, and as it is kept. */
static float decay_of(const rs_kernels_f32 *table, float step, float rate, float *kept)
{
    const float zero = 0, one = 1;
    float y = 0, h = 1;
    table->select(&(rs_select_f32){.n = 1,
                                   .states = 1,
                                   .tokens = 1,
                                   .y = &y,
                                   .u = &zero,
                                   .step = &step,
                                   .b = &zero,
                                   .c = &one,
                                   .rate = &rate,
                                   .d = &zero,
                                   .h = &h,
                                   .decay = kept,
                                   .ld = 1,
                                   .ld_read = 1});
    return y;
}

static void check_decays(const rs_kernels_f32 *table)
{
    for (double x = -100; x <= 0; x += fabs(x) < 2 ? 0.000137 : 0.00731) {
        float kept, step = (float)-x, ours = decay_of(table, step, -1, &kept);
        double truth = exp(-(double)step);
        assert_true(ours == kept && ours == decay_of(table, step, -1, NULL));
        if (x > -87.3 && !(fabs((double)ours - truth) <= 1.3 * 0x1p-23 * truth))
            fail_msg("%s: exp(%.9g) is %.9g, not %.9g", table->level, x, (double)ours, truth);
        assert_true(x > -87.4 || ours <= 1.2e-38f);
    }
    assert_true(decay_of(table, 0, -1, NULL) == 1.0f && decay_of(table, 1, 0, NULL) == 1.0f);
    assert_true(decay_of(table, 3e38f, -1, NULL) == 0.0f);
    assert_true(decay_of(table, 1e30f, -1e30f, NULL) == 0.0f);
    assert_true(isnan(decay_of(table, NAN, -1, NULL)) && isnan(decay_of(table, 1, NAN, NULL)));
    assert_true(isnan(decay_of(table, INFINITY, 0, NULL)));
}

static void test_decays(void **state)
{
    (void)state;
    for_each(check_decays);
}

/* What a call of `select` reads, drawn, and what it writes, for three ways to do the same. */
typedef struct drawn {
    float u[TOKENS * LD], step[TOKENS * LD], rate[STATES * CHANNELS], d[CHANNELS];
    float read[TOKENS * LD_READ], y[3][TOKENS * LD], h[3][STATES * CHANNELS];
    float decay[3][TOKENS * STATES * CHANNELS];
} drawn;

static void draw(drawn *x, rs_random *random)
{
    fill(x->u, TOKENS * LD, random);
    fill(x->read, TOKENS * LD_READ, random);
    fill(x->d, CHANNELS, random);
    for (int64_t i = 0; i < TOKENS * LD; i++)
        x->step[i] = (float)(2 * rs_random_uniform(random));
    for (int64_t i = 0; i < STATES * CHANNELS; i++)
        x->rate[i] = (float)-rs_random_uniform(random);
}

/* Tokens from .. to-1. */
static void run(const rs_kernels_f32 *table, drawn *x, int way, int64_t n, int64_t from, int64_t to,
                bool keeps)
{
    table->select(&(rs_select_f32){.n = n,
                                   .states = STATES,
                                   .tokens = to - from,
                                   .y = x->y[way] + from * LD,
                                   .u = x->u + from * LD,
                                   .step = x->step + from * LD,
                                   .b = x->read + from * LD_READ,
                                   .c = x->read + from * LD_READ + STATES,
                                   .rate = x->rate,
                                   .d = x->d,
                                   .h = x->h[way],
                                   .decay = keeps ? x->decay[way] + from * STATES * n : NULL,
                                   .ld = LD,
                                   .ld_read = LD_READ});
}

static void assert_close(const float *a, const float *b, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (!(fabsf(a[i] - b[i]) <= 3e-6f * (1 + fabsf(b[i]))))
            fail_msg("number %d: %.9g, not %.9g", (int)i, (double)a[i], (double)b[i]);
}

/* All tokens at once without decays, with them, and by the plain table; then one by one. What lies
 * beside a row is left alone. */
static void check_scan(const rs_kernels_f32 *table)
{
    static drawn x;
    rs_random random = rs_random_new(8, 0);
    for (int64_t n = 1; n <= CHANNELS; n++) {
        memset(&x, 0, sizeof x);
        for (int call = 0; call < 9; call++) {
            int64_t tokens = call < 4 ? TOKENS : 1 + call % TOKENS;
            draw(&x, &random);
            run(table, &x, 0, n, 0, tokens, false);
            run(table, &x, 1, n, 0, tokens, true);
            for (int64_t t = 0; t < tokens; t++)
                run(&rs_kernels_f32_plain, &x, 2, n, t, t + 1, true);
            assert_memory_equal(x.y[0], x.y[1], sizeof x.y[0]);
            assert_memory_equal(x.h[0], x.h[1], sizeof x.h[0]);
            assert_close(x.y[0], x.y[2], TOKENS * LD);
            assert_close(x.h[0], x.h[2], STATES * n);
            assert_close(x.decay[1], x.decay[2], tokens * STATES * n);
            for (int64_t i = 0; i < TOKENS * LD; i++)
                assert_true(i % LD < n || x.y[0][i] == 0.0f);
        }
    }
}

static void test_scan(void **state)
{
    (void)state;
    for_each(check_scan);
}

static void check_convolutions(const rs_kernels_f32 *table)
{
    float in[RS_CONV_TAPS][CHANNELS + 1], weight[RS_CONV_TAPS][CHANNELS + 1], out[2][CHANNELS + 1];
    const float *inputs[RS_CONV_TAPS], *weights[RS_CONV_TAPS];
    rs_random random = rs_random_new(9, 0);
    for (int k = 0; k < RS_CONV_TAPS; k++)
        inputs[k] = in[k], weights[k] = weight[k];
    for (int64_t n = 0; n <= CHANNELS; n++)
        for (int taps = 0; taps <= RS_CONV_TAPS; taps++)
            for (int adds = 0; adds < 2; adds++) {
                fill(in[0], RS_CONV_TAPS * (CHANNELS + 1), &random);
                fill(weight[0], RS_CONV_TAPS * (CHANNELS + 1), &random);
                fill(out[0], CHANNELS + 1, &random);
                memcpy(out[1], out[0], sizeof out[0]);
                table->convolve(out[0], inputs, weights, taps, n, adds);
                rs_kernels_f32_plain.convolve(out[1], inputs, weights, taps, n, adds);
                assert_close(out[0], out[1], n);
                assert_memory_equal(out[0] + n, out[1] + n,
                                    (size_t)(CHANNELS + 1 - n) * sizeof(float));
            }
}

static void test_convolutions(void **state)
{
    (void)state;
    for_each(check_convolutions);
}

/* Entry i, j of a product, from sums in double. */
static double product_entry(const rs_product_f32 *of, const float *before, int64_t i, int64_t j)
{
    double factor = (double)of->factor[i * of->factor_step], sum = 0;
    if (factor != 0) sum = factor * (double)before[i * of->ldo + j];
    for (int64_t t = 0; t < (of->lower && i + 1 < of->k ? i + 1 : of->k); t++)
        sum += (double)of->a[i * of->a_row + t * of->a_col] * (double)of->b[t * of->ldb + j];
    return sum;
}

/* Small products of all sizes, transposed or not, whose rows have factors or one in common, or 0: what
 * was there before is then not read. Nothing is written beside them. */
static void check_products(const rs_kernels_f32 *table)
{
    enum { SIDE = 41 };
    static float a[SIDE * SIDE], b[SIDE * SIDE], before[SIDE * SIDE], out[SIDE * SIDE];
    float factors[SIDE];
    rs_random random = rs_random_new(10, 0);
    if (!table->product) return;
    for (int call = 0; call < 600; call++) {
        rs_product_f32 of = {.m = 1 + (int64_t)(rs_random_uniform(&random) * (SIDE - 1)),
                             .n = 1 + (int64_t)(rs_random_uniform(&random) * (SIDE - 1)),
                             .k = (int64_t)(rs_random_uniform(&random) * SIDE),
                             .out = out,
                             .factor = factors,
                             .factor_step = call % 2,
                             .a = a,
                             .a_row = call % 3 ? SIDE : 1,
                             .a_col = call % 3 ? 1 : SIDE,
                             .b = b,
                             .ldo = SIDE,
                             .ldb = SIDE,
                             .lower = call % 5 == 0};
        fill(a, SIDE * SIDE, &random);
        fill(b, SIDE * SIDE, &random);
        fill(factors, SIDE, &random);
        fill(before, SIDE * SIDE, &random);
        if (of.lower) { /* what lies behind row i's end is 0 in use, and may be read */
            for (int64_t i = 0; i < SIDE; i++)
                for (int64_t t = i + 1; t < SIDE; t++)
                    a[i * of.a_row + t * of.a_col] = 0;
        }
        if (call % 4 == 0) {
            memset(factors, 0, sizeof factors);
            for (int64_t i = 0; i < SIDE * SIDE; i++)
                before[i] = i / SIDE < of.m && i % SIDE < of.n ? NAN : before[i];
        }
        memcpy(out, before, sizeof out);
        table->product(&of);
        for (int64_t i = 0; i < SIDE; i++)
            for (int64_t j = 0; j < SIDE; j++) {
                float ours = out[i * SIDE + j];
                if (i >= of.m || j >= of.n) {
                    assert_true(ours == before[i * SIDE + j]);
                    continue;
                }
                double truth = product_entry(&of, before, i, j);
                if (!(fabs((double)ours - truth) <= 2e-5))
                    fail_msg("%s: entry %d, %d of %d x %d x %d is %.9g, not %.9g", table->level,
                             (int)i, (int)j, (int)of.m, (int)of.n, (int)of.k, (double)ours, truth);
            }
    }
}

static void test_products(void **state)
{
    (void)state;
    for_each(check_products);
}

/* log(1 + e^x), to a few units of the last place; x itself beyond 20, as torch has it. */
static void check_softplus(const rs_kernels_f32 *table)
{
    for (double x = -100; x < 100; x += fabs(x) < 25 ? 0.00137 : 0.31) {
        float ours[9], truth = (float)(x > 20 ? (double)(float)x : log1p(exp((double)(float)x)));
        for (int i = 0; i < 9; i++)
            ours[i] = (float)x;
        table->softplus(ours, 9);
        assert_true(ours[0] == ours[8]);
        if (x > -87.3 && !(fabsf(ours[0] - truth) <= 4 * 0x1p-23f * truth))
            fail_msg("%s: softplus(%.9g) is %.9g, not %.9g", table->level, x, (double)ours[0],
                     (double)truth);
    }
}

static void test_softplus(void **state)
{
    (void)state;
    for_each(check_softplus);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_decays),       cmocka_unit_test(test_scan),
        cmocka_unit_test(test_convolutions), cmocka_unit_test(test_products),
        cmocka_unit_test(test_softplus),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
