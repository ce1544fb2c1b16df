/* test_attention_null.c: what uniform attention measures, in closed form, against the measures of
 * the matrix itself, written out and sent through LAPACK and the loops over all pairs of rows. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "measures/attention_measures.h"
#include "measures/attention_null.h"

#include <math.h>
#include <stdlib.h>

static void assert_near(double a, double b, double most)
{
    if (!(fabs(a - b) <= most)) fail_msg("%.17g, not %.17g", a, b);
}

/* Whether query i sees key j: the mask in words, not the bounds that the closed form sums over. */
static bool sees(int64_t i, int64_t j, bool causal, int64_t window)
{
    if (causal && j > i) return false;
    return window == 0 || llabs(i - j) < window;
}

static double *uniform(int64_t n, bool causal, int64_t window)
{
    double *u = calloc((size_t)(n * n), sizeof *u);
    assert_non_null(u);
    for (int64_t i = 0; i < n; i++) {
        int64_t keys = 0;
        for (int64_t j = 0; j < n; j++)
            keys += sees(i, j, causal, window);
        for (int64_t j = 0; j < n; j++)
            u[i * n + j] = sees(i, j, causal, window) ? 1 / (double)keys : 0;
    }
    return u;
}

static void check_mask(int64_t n, bool causal, int64_t window)
{
    rs_attention_null null;
    rs_attention_measures m;
    rs_error err = {0};
    double *u = uniform(n, causal, window);
    void *workspace = malloc(rs_attention_workspace(n));
    assert_non_null(workspace);
    rs_attention_null_of(&null, n, causal, window);
    assert_int_equal(
        rs_attention_measure_f64(&m, u, u, NULL, n, n, causal, window, false, workspace, &err),
        RS_OK);
    assert_near(null.entropy, m.entropy, 1e-12);
    assert_near(null.dobrushin, m.dobrushin, 1e-12);
    assert_near(null.self_weight, m.self_weight, 1e-12);
    assert_near(null.first_token_weight, m.first_token_weight, 1e-12);
    assert_near(m.distance_to_uniform, 0, 1e-12);
    if (!isnan(null.spectral_gap)) assert_near(null.spectral_gap, m.spectral_gap, 1e-9);
    assert_int_equal(isnan(null.spectral_gap), !causal && window > 1 && window < n);
    free(workspace);
    free(u);
}

static void every_mask_and_length(void **state)
{
    (void)state;
    static const int64_t windows[] = {0, 1, 2, 3, 7, 12, 20, 40};
    for (int64_t n = 1; n <= 33; n++)
        for (size_t w = 0; w < sizeof windows / sizeof *windows; w++)
            for (int causal = 0; causal < 2; causal++)
                check_mask(n, causal, windows[w]);
}

/* A row of v independent logits of variance 1 has on average the population variance 1 − 1/v. */
static void variance_about_the_own_mean(void **state)
{
    (void)state;
    rs_attention_null null;
    rs_attention_null_of(&null, 4, true, 0); /* 1, 2, 3 and 4 keys */
    assert_near(null.logit_variance, (0 + 1. / 2 + 2. / 3 + 3. / 4) / 4, 1e-15);
    rs_attention_null_of(&null, 5, false, 0);
    assert_near(null.logit_variance, 0.8, 1e-15);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_mask_and_length),
        cmocka_unit_test(variance_about_the_own_mean),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
