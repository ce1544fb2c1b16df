/* test_predict_trials_draw.c: random numbers of trials, samples, and what numbers are summed up to. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "predict/trials_draw.h"
#include "predict/trials_stats.h"
#include "trials_support.h"

/* ---- the same bits on every instruction set ---- */

static void test_tables(void **state)
{
    (void)state;
    const rs_trials_stream streams[] = {{0, 0, 0, 0},
                                        {UINT64_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX},
                                        {0x123456789abcdef0, 3, 68, 31}};
    for (size_t s = 0; s < 3; s++)
        for (uint32_t chunk = 0; chunk < 200; chunk += 7) {
            float first[2][RS_TRIALS_CHUNK], again[RS_TRIALS_CHUNK];
            const rs_trials_draws *const *table = rs_trials_draw_tables();
            (*table)->normal(first[0], &streams[s], chunk, 0.3f, 1.7f);
            (*table)->uniform(first[1], &streams[s], chunk, -0.5f, 1);
            for (; *table; table++) {
                (*table)->normal(again, &streams[s], chunk, 0.3f, 1.7f);
                assert_memory_equal(first[0], again, sizeof again);
                (*table)->uniform(again, &streams[s], chunk, -0.5f, 1);
                assert_memory_equal(first[1], again, sizeof again);
            }
        }
}

/* An array's end does not change what is in front of it. */
static void test_lengths(void **state)
{
    (void)state;
    const rs_trials_stream stream = {9, 8, 7, 6};
    float all[1000], some[1000];
    rs_trials_normals(all, &stream, 1000, 0, 1);
    for (int64_t n = 0; n < 1000; n += 37) {
        some[n] = 42;
        rs_trials_normals(some, &stream, n, 0, 1);
        assert_memory_equal(all, some, (size_t)n * sizeof *all);
        assert_true(some[n] == 42);
    }
}

/* ---- the law ---- */

enum { MANY = 1 << 21 };
static float *draws;

static int draw_many(void **state)
{
    const rs_trials_stream stream = {2024, 1, 2, 3};
    draws = rs_malloc(MANY, sizeof *draws);
    if (draws) rs_trials_normals(draws, &stream, MANY, 0, 1);
    (void)state;
    return draws ? 0 : 1;
}

static int free_many(void **state)
{
    (void)state;
    rs_free(draws);
    return 0;
}

/* E z^k, with variance E z^2k - (E z^k)^2 = (2k-1)!! - ...: within five standard errors. */
static void test_moments(void **state)
{
    (void)state;
    double double_factorial[17] = {1, 0, 1};
    for (int k = 4; k <= 16; k += 2)
        double_factorial[k] = double_factorial[k - 2] * (k - 1);
    for (int k = 1; k <= 8; k++) {
        double sum = 0, expected = double_factorial[k];
        for (int i = 0; i < MANY; i++)
            sum += pow((double)draws[i], k);
        double se = sqrt((double_factorial[2 * k] - expected * expected) / MANY);
        if (!(fabs(sum / MANY - expected) < 5 * se))
            fail_msg("moment %d: %g, not %g", k, sum / MANY, expected);
    }
}

/* Shares beyond bounds, of both tails. */
static void test_tails(void **state)
{
    (void)state;
    static const double bounds[] = {0.01, 0.1, 0.5, 1, 2, 3, 4, 4.5};
    float most = 0;
    for (size_t b = 0; b < sizeof bounds / sizeof *bounds; b++)
        for (int sign = -1; sign <= 1; sign += 2) {
            double count = 0, expected = 0.5 * erfc(bounds[b] / sqrt(2)) * MANY;
            for (int i = 0; i < MANY; i++)
                count += sign * (double)draws[i] > bounds[b];
            if (!(fabs(count - expected) < 5 * sqrt(expected) + 1))
                fail_msg("beyond %g: %g, not %g", sign * bounds[b], count, expected);
        }
    for (int i = 0; i < MANY; i++)
        most = fmaxf(most, fabsf(draws[i]));
    assert_true(most > 4.6f && most < 6.67f);
}

/* Of numbers and of squares, at distances inside and across chunks; of streams that differ in one
 * word. */
static void assert_apart(const float *a, const float *b, int count, const char *what)
{
    double sums[2] = {0, 0};
    for (int i = 0; i < count; i++) {
        double x = (double)a[i], y = (double)b[i];
        sums[0] += x * y;
        sums[1] += (x * x - 1) * (y * y - 1);
    }
    if (!(fabs(sums[0]) < 5 * sqrt(count)) || !(fabs(sums[1]) < 10 * sqrt(count)))
        fail_msg("%s: correlations %g and %g", what, sums[0] / count, sums[1] / count);
}

static void test_correlations(void **state)
{
    (void)state;
    static const int distances[] = {1, 2, 63, 64, 65, 128, 192, 255, 256, 257, 4096};
    for (size_t d = 0; d < sizeof distances / sizeof *distances; d++)
        assert_apart(draws, draws + distances[d], MANY - 4096, "distance");
    enum { SOME = 1 << 18 };
    float *other = rs_malloc(SOME, sizeof *other);
    const rs_trials_stream streams[] = {
        {2025, 1, 2, 3}, {2024, 2, 2, 3}, {2024, 1, 3, 3}, {2024, 1, 2, 4}};
    for (size_t s = 0; s < 4; s++) {
        rs_trials_normals(other, &streams[s], SOME, 0, 1);
        assert_apart(draws, other, SOME, "stream");
    }
    rs_free(other);
}

static void test_uniforms(void **state)
{
    (void)state;
    enum { SOME = 1 << 18 };
    const rs_trials_stream stream = {5, 4, 3, 2};
    float *u = rs_malloc(SOME, sizeof *u);
    double sum = 0, square = 0;
    rs_trials_uniforms(u, &stream, SOME, -1, 3);
    for (int i = 0; i < SOME; i++) {
        assert_true(u[i] >= -1 && u[i] <= 3);
        sum += (double)u[i];
        square += ((double)u[i] - 1) * ((double)u[i] - 1);
    }
    assert_true(fabs(sum / SOME - 1) < 5 * sqrt(16.0 / 12 / SOME));
    assert_true(fabs(square / SOME - 16.0 / 12) < 5 * sqrt((256.0 / 80 - 256.0 / 144) / SOME));
    rs_free(u);
}

/* ---- samples ---- */

static void assert_sample(int64_t n, int64_t d, double rho)
{
    enum { SAMPLES = 400 };
    const rs_theory_input input = {n, 7, rho};
    double *x = rs_malloc((size_t)(n * d), sizeof *x), products = 0, error = 0;
    for (int32_t t = 0; t < SAMPLES; t++) {
        double sum = 0, square = 0;
        OK(rs_trials_input(x, d, &input, 3, t, &err));
        for (int64_t c = 0; c < d; c++) {
            double all = 0;
            for (int64_t i = 0; i < n; i++) {
                all += x[i * d + c];
                square += x[i * d + c] * x[i * d + c];
            }
            sum += all * all;
        }
        for (int64_t i = 0; i < n && rho >= 0; i++) {
            double token = 0;
            for (int64_t c = 0; c < d; c++)
                token += x[i * d + c] * x[i * d + c];
            assert_true(fabs(token - 7) < 1e-12);
        }
        assert_true(fabs(square - 7 * (double)n) < 1e-11 * (double)n);
        double pair = n > 1 ? (sum - square) / ((double)n * ((double)n - 1)) / 7 : rho;
        if (rho < 0 || rho == 1) assert_true(fabs(pair - rho) < 1e-11);
        products += pair / SAMPLES;
        error += (pair - rho) * (pair - rho);
    }
    if (!(fabs(products - rho) <= 5 * sqrt(error) / SAMPLES + 1e-11))
        fail_msg("n %d d %d: rho %g, not %g", (int)n, (int)d, products, rho);
    rs_free(x);
}

static void test_samples(void **state)
{
    (void)state;
    assert_sample(5, 8, 0);
    assert_sample(5, 8, 0.4);
    assert_sample(16, 3, 0.9);
    assert_sample(4, 4, 1);
    assert_sample(1, 6, 0);
    assert_sample(6, 9, -0.1);
    assert_sample(6, 9, -0.2);
    assert_sample(2, 1, -1);
}

/* ---- sums ---- */

static void test_stat(void **state)
{
    (void)state;
    rs_trials_stat stat;
    double some[] = {4, NAN, 1, INFINITY, 0, 2, 8};
    rs_trials_stat_of(&stat, some, 7, false);
    assert_int_equal(stat.n, 5);
    assert_int_equal(stat.zeros, 1);
    assert_true(stat.mean == 3);
    assert_true(fabs(stat.se - sqrt((9 + 4 + 1 + 1 + 25) / 4.0 / 5)) < 1e-15);
    /* ln 1, 2, 4, 8 */
    assert_true(fabs(stat.log_mean - 1.5 * log(2)) < 1e-15);
    assert_true(fabs(stat.log_se - log(2) * sqrt(5.0 / 3 / 4)) < 1e-15);
    assert_true(stat.median == 2);
    assert_true(fabs(stat.low - 0.4) < 1e-15 && fabs(stat.high - 6.4) < 1e-14);
    assert_true(stat.ruled_by_few);
    double zeros[] = {0, 0};
    rs_trials_stat_of(&stat, zeros, 2, false);
    assert_true(stat.mean == 0 && stat.se == 0 && stat.zeros == 2 && !stat.ruled_by_few);
    assert_true(stat.log_mean == -INFINITY && isnan(stat.log_se));
    double none[] = {NAN, -INFINITY};
    rs_trials_stat_of(&stat, none, 2, false);
    assert_true(stat.n == 0 && isnan(stat.mean) && isnan(stat.median) && stat.ruled_by_few);
    double large[] = {1e308, 1.5e308, 1.7e308};
    rs_trials_stat_of(&stat, large, 3, false);
    assert_true(isfinite(stat.mean) && isfinite(stat.se) && !stat.ruled_by_few);
    assert_true(fabs(stat.mean - 1.4e308) < 1e294);
    double below[] = {-1, 1, 3};
    rs_trials_stat_of(&stat, below, 3, true);
    assert_true(stat.mean == 1 && isnan(stat.log_mean));
    double alone[] = {5};
    rs_trials_stat_of(&stat, alone, 1, false);
    assert_true(stat.mean == 5 && isnan(stat.se) && stat.ruled_by_few && stat.low == 5);
}

/* The delta method against many repetitions. */
static void test_rho(void **state)
{
    (void)state;
    enum { TIMES = 2000, N = 40 };
    const rs_trials_stream stream = {1, 1, 1, 1};
    float *z = rs_malloc(2 * TIMES * N, sizeof *z);
    rs_trials_normals(z, &stream, 2 * TIMES * N, 0, 1);
    double sum = 0, square = 0, claimed = 0;
    for (int i = 0; i < TIMES; i++) {
        double squares[N], residuals[N];
        rs_trials_row row = {0};
        for (int k = 0; k < N; k++) {
            double a = (double)z[2 * (i * N + k)], b = (double)z[2 * (i * N + k) + 1];
            squares[k] = exp(0.5 * a);
            residuals[k] = squares[k] * 0.2 * exp(0.1 * b);
        }
        rs_trials_rho(&row, squares, residuals, N, 5);
        assert_true(fabs(row.rho + row.apart - 1) < 1e-15);
        sum += row.rho;
        square += row.rho * row.rho;
        claimed += row.rho_se * row.rho_se;
    }
    rs_free(z);
    double mean = sum / TIMES, deviation = sqrt(square / TIMES - mean * mean);
    assert_true(fabs(mean - (1 - 1.25 * 0.2 * exp(0.005))) < 5 * deviation / sqrt(TIMES) + 1e-4);
    assert_true(fabs(sqrt(claimed / TIMES) / deviation - 1) < 0.1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tables),       cmocka_unit_test(test_lengths),
        cmocka_unit_test(test_moments),      cmocka_unit_test(test_tails),
        cmocka_unit_test(test_correlations), cmocka_unit_test(test_uniforms),
        cmocka_unit_test(test_samples),      cmocka_unit_test(test_stat),
        cmocka_unit_test(test_rho),
    };
    return cmocka_run_group_tests(tests, draw_many, free_many);
}
