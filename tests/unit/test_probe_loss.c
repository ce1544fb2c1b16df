/* test_probe_loss.c: −ln softmax of rows of logits against long double, over the sizes that
 * vocabularies have and where the loss is small. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "observe/gather.h"

#include <math.h>
#include <stdlib.h>

/* x_target against the rest: ln(1 + Σ_{i≠target} e^(x_i − x_target)), which loses nothing when the
 * target is nearly certain. */
static double reference(const double *x, int64_t n, int64_t target)
{
    long double most = -INFINITY, sum = 0;
    for (int64_t i = 0; i < n; i++)
        if (i != target && (long double)x[i] > most) most = (long double)x[i];
    for (int64_t i = 0; i < n; i++)
        if (i != target) sum += expl((long double)x[i] - most);
    long double rest = most + logl(sum) - (long double)x[target];
    return (double)(rest > 0 ? rest + log1pl(expl(-rest)) : log1pl(expl(rest)));
}

static void check(int64_t n, double spread, double lead)
{
    double *wide = malloc((size_t)n * sizeof *wide);
    float *single = malloc((size_t)n * sizeof *single);
    assert_true(wide && single);
    uint64_t state = 12345 + (uint64_t)n;
    for (int64_t i = 0; i < n; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        single[i] = (float)(spread * ((double)(state >> 11) * 0x1p-53 - 0.5));
    }
    int32_t targets[] = {0, (int32_t)(n / 2), (int32_t)(n - 1)};
    for (size_t t = 0; t < 3; t++) {
        float kept = single[targets[t]];
        single[targets[t]] += (float)lead;
        for (int64_t i = 0; i < n; i++)
            wide[i] = (double)single[i];
        double want = reference(wide, n, targets[t]);
        double narrow = rs_nll_f32(single, n, targets[t]);
        double full = rs_nll_f64(wide, n, targets[t]);
        /* Differences of float32 logits round to 1e-6 from 16 on: losses of e^-16. */
        if (!(fabs(narrow - want) <= 1e-6 * fmax(want, 1e-7)))
            fail_msg("f32, n %lld: %.17g, expected %.17g", (long long)n, narrow, want);
        if (!(fabs(full - want) <= 1e-12 * want))
            fail_msg("f64, n %lld: %.17g, expected %.17g", (long long)n, full, want);
        single[targets[t]] = kept;
    }
    free(wide);
    free(single);
}

static void test_against_long_double(void **state)
{
    (void)state;
    const int64_t sizes[] = {2, 7, 23, 1023, 1025, 50257, 262144};
    const double spreads[] = {1e-3, 8, 60}, leads[] = {0, 5, 14, 20};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
        for (size_t p = 0; p < 3; p++)
            for (size_t l = 0; l < 4; l++)
                if (spreads[p] + leads[l] < 70) check(sizes[s], spreads[p], leads[l]);
}

static void test_extremes(void **state)
{
    (void)state;
    float masked[] = {1, -INFINITY, 1}, broken[] = {1, NAN, 2}, one[] = {3};
    assert_true(fabs(rs_nll_f32(masked, 3, 2) - log(2)) < 1e-7);
    assert_true(isinf(rs_nll_f32(masked, 3, 1)));
    assert_true(isnan(rs_nll_f32(broken, 3, 0)));
    assert_true(rs_nll_f32(one, 1, 0) == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_long_double),
        cmocka_unit_test(test_extremes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
