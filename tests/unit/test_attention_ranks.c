/* test_attention_ranks.c: ranks of matrices whose singular values are known, and what random logits give. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "measures/attention_ranks.h"

#include "base/random.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void assert_near(const char *what, double a, double b, double most)
{
    if (!(fabs(a - b) <= most)) fail_msg("%s is %.17g, not %.17g", what, a, b);
}

static rs_attention_ranks ranks_of(const double *a, int64_t n, bool causal, int64_t window)
{
    rs_workspace size = {0};
    rs_attention_ranks out;
    rs_matrix_ranks_space(n, &size);
    rs_workspace space = {.base = malloc(size.used)};
    assert_non_null(space.base);
    void *room = space.base;
    assert_true(rs_attention_ranks_measure(&out, a, n, causal, window, false, &space));
    free(room);
    return out;
}

/* k blocks of n/k equal rows: rank k, all singular values 1. */
static void blocks_have_their_number(void **state)
{
    (void)state;
    for (int64_t k = 1; k <= 12; k++) {
        int64_t each = 1 + k % 5, n = k * each;
        double *a = calloc((size_t)(n * n), sizeof *a);
        assert_non_null(a);
        for (int64_t i = 0; i < n; i++)
            for (int64_t j = i / each * each; j < (i / each + 1) * each; j++)
                a[i * n + j] = 1 / (double)each;
        rs_attention_ranks r = ranks_of(a, n, false, 0);
        assert_near("effective", r.whole.effective, (double)k, 1e-9 * (double)k);
        assert_near("stable", r.whole.stable, (double)k, 1e-12 * (double)k);
        assert_near("energy", r.whole.energy, ceil(0.9 * (double)k), 0);
        assert_near("numerical", r.whole.numerical, (double)k, 0);
        assert_near("sigma2", r.sigma2, k > 1, 1e-13);
        /* 1/√n times the ones is a singular pair of A: taking U away leaves k - 1 */
        assert_near("numerical of A - U", r.centred.numerical, (double)(k - 1), 0);
        if (k > 1)
            assert_near("effective of A - U", r.centred.effective, (double)(k - 1),
                        1e-9 * (double)k);
        free(a);
    }
}

/* Uniform attention: A - U is zero, or rounding, under every mask, and its numerical rank says so. */
static void uniform_attention_leaves_nothing(void **state)
{
    (void)state;
    const int64_t windows[] = {0, 1, 3, 40};
    for (int64_t n = 1; n < 30; n += 4)
        for (size_t w = 0; w < 8; w++) {
            bool causal = w % 2;
            int64_t window = windows[w / 2];
            double *a = calloc((size_t)(n * n), sizeof *a);
            assert_non_null(a);
            for (int64_t i = 0; i < n; i++) {
                rs_visible_keys k = rs_visible_keys_of(i, n, causal, window);
                for (int64_t j = k.low; j <= k.high; j++)
                    a[i * n + j] = 1 / (double)(k.high - k.low + 1) * (1 + 1e-16);
            }
            rs_attention_ranks r = ranks_of(a, n, causal, window);
            assert_near("numerical of A - U", r.centred.numerical, 0, 0);
            if (!causal && window == 0) assert_near("numerical", r.whole.numerical, 1, 0);
            if (causal) assert_near("numerical", r.whole.numerical, (double)n, 0);
            free(a);
        }
}

static void a_matrix_of_zeros_has_no_ranks(void **state)
{
    (void)state;
    double a[9] = {0};
    rs_attention_ranks r = ranks_of(a, 3, false, 0);
    assert_true(isnan(r.whole.effective) && isnan(r.whole.stable) && isnan(r.whole.energy));
    assert_near("numerical", r.whole.numerical, 0, 0);
    assert_near("of -U", r.centred.numerical, 1, 0);
}

/* Sizes near the ends of the doubles change no rank. */
static void size_does_not_matter(void **state)
{
    (void)state;
    double sigma[3], scales[] = {1e-300, 1, 1e300};
    rs_matrix_ranks first = {0};
    for (size_t s = 0; s < 3; s++) {
        sigma[0] = 4 * scales[s], sigma[1] = 3 * scales[s], sigma[2] = 1e-20 * scales[s];
        rs_matrix_ranks r = rs_matrix_ranks_of(sigma, 3, sigma[0], false);
        if (s == 0) first = r;
        assert_near("stable", r.stable, 25.0 / 16, 1e-14);
        assert_near("energy", r.energy, 2, 0);
        assert_near("numerical", r.numerical, 2, 0);
        assert_near("effective", r.effective, first.effective, 1e-14);
    }
}

/* ---- the null ---- */

static rs_attention_ranks null_of(double variance, int64_t n, bool causal, int64_t window,
                                  int draws, uint64_t seed)
{
    rs_attention_ranks out;
    void *room = malloc(rs_attention_ranks_null_room(n));
    assert_non_null(room);
    assert_true(rs_attention_ranks_null(&out, variance, n, causal, window, draws, seed, 7, room));
    free(room);
    return out;
}

/* Four draws are the mean of those that a matrix at a time, made of the same numbers, measures. */
static void the_null_is_the_mean_of_its_draws(void **state)
{
    enum { N = 17, DRAWS = 4 };
    (void)state;
    const double variance = 2.5;
    rs_attention_ranks got = null_of(variance, N, true, 5, DRAWS, 42);
    rs_random random = rs_random_new(42, 7);
    double sum = 0, rows[N * N];
    for (int t = 0; t < DRAWS; t++) {
        memset(rows, 0, sizeof rows);
        for (int i = 0; i < N; i++) {
            double total = 0;
            for (int j = i < 5 ? 0 : i - 4; j <= i; j++)
                total += rows[i * N + j] = exp(sqrt(variance) * rs_random_normal(&random));
            for (int j = 0; j < N; j++)
                rows[i * N + j] /= total;
        }
        sum += ranks_of(rows, N, true, 5).centred.effective;
    }
    assert_near("mean", got.centred.effective, sum / DRAWS, 1e-9);
}

/* No logits at all are uniform attention; without a variance there is no null. */
static void ends_of_the_variance(void **state)
{
    (void)state;
    rs_attention_ranks none = null_of((double)NAN, 5, false, 0, 4, 1);
    rs_attention_ranks flat = null_of(0, 5, false, 0, 4, 1);
    rs_attention_ranks one = null_of(3, 1, false, 0, 4, 1);
    assert_true(isnan(none.whole.effective) && isnan(none.centred.numerical));
    assert_near("flat", flat.whole.effective, 1, 1e-9);
    assert_near("flat, less U", flat.centred.numerical, 0, 0);
    assert_near("one token", one.whole.effective, 1, 0);
    rs_attention_ranks hot = null_of(1e4, 40, false, 0, 4, 1);
    assert_true(isfinite(hot.whole.effective) && hot.whole.effective < 40);
    assert_true(rs_attention_ranks_null_room(0) == SIZE_MAX);
    assert_true(rs_attention_ranks_null_room(INT64_MAX) == SIZE_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_have_their_number),
        cmocka_unit_test(uniform_attention_leaves_nothing),
        cmocka_unit_test(a_matrix_of_zeros_has_no_ranks),
        cmocka_unit_test(size_does_not_matter),
        cmocka_unit_test(the_null_is_the_mean_of_its_draws),
        cmocka_unit_test(ends_of_the_variance),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
