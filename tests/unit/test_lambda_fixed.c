/* test_lambda_fixed.c: the S-lemma of a fixed mixing matrix (docs/certificates_lambda.md, L28)
 * against 40-digit arithmetic (tests/oracle/make_lambda_scan_golden.py), closed forms and limits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/random.h"
#include "lambda_support.h"
#include "proof/lambda_fixed.h"

enum { MOST = 36 };

static double kept_of(const double *m, int64_t n, double value, double lambda, double kappa)
{
    rs_lambda_scalar_layer layer = {m, n, n, value, lambda, 0};
    rs_lambda_number found;
    OK(rs_lambda_fixed_kept(&found, &layer, kappa, &err));
    assert_true(found.valid && found.value >= 0);
    return found.value;
}

static void shares_are_rounded_down(void **state)
{
    json_error_t problem;
    json_t *golden = json_load_file(RS_TEST_DATA "/lambda/scan.json", 0, &problem), *item;
    size_t i, some = 0;
    (void)state;
    json_array_foreach(json_object_get(golden, "fixed"), i, item)
    {
        double m[MOST];
        int64_t n = json_integer_value(json_object_get(item, "n"));
        const json_t *entries = json_object_get(item, "m"), *kept = json_object_get(item, "kept");
        for (size_t k = 0; k < (size_t)(n * n); k++)
            m[k] = json_number_value(json_array_get(entries, k));
        long double truth = (long double)json_number_value(json_array_get(kept, 0)) +
                            (long double)json_number_value(json_array_get(kept, 1));
        double found = kept_of(m, n, json_number_value(json_object_get(item, "value")),
                               json_number_value(json_object_get(item, "lambda")),
                               json_number_value(json_object_get(item, "kappa")));
        if (!((long double)found <= truth && (long double)found >= truth * (1 - 1e-9L) - 1e-6L))
            fail_msg("case %zu: %.17g, truth %.17Lg", i, found, truth);
        some += found > 0.1;
    }
    assert_true(some >= 10);
    json_decref(golden);
}

/* T22: a(kappa) = (3 - kappa)/2 up to its kink, M = [[0, 0], [1, 0]] and lambda = 2. */
static void shares_have_their_closed_forms(void **state)
{
    (void)state;
    const double shift[] = {0, 0, 1, 0}, none[9] = {0}, equal[] = {1, 1, 1, 1, 1, 1, 1, 1, 1};
    for (int k = 0; k < 6; k++)
        is_near("T22", kept_of(shift, 2, 1, 2, 0.5 * k), (3 - 0.5 * k) / 2, k ? 1e-9 : 1e-7);
    for (int k = 0; k < 6; k++) { /* a mean that is added to all is no difference */
        double kappa = k ? pow(10, k - 3) : 0;
        is_near("no branch", kept_of(none, 3, 1, -2.5, kappa), 2.5, 1e-9);
        is_near("their mean", kept_of(equal, 3, 1, 1e6, kappa), 1e6, 1e-9);
        is_near("themselves", kept_of(IDENTITY, 2, -0.5, 3, kappa), 2.5, 1e-9);
    }
    is_near("scaled", kept_of(shift, 2, 0x1p300, 0x1p301, 1), 0x1p300, 1e-9);
    is_near("scaled", kept_of(shift, 2, 0x1p-300, 0x1p-299, 1), 0x1p-300, 1e-9);
    assert_true(kept_of(shift, 2, 1, 0, 1) == 0); /* x = (1, 1)/2 + small: the mean comes in */
    assert_true(kept_of(none, 3, 1, 0, 1) == 0 && kept_of(none, 1, 1, 2, 0) == 0);
    assert_true(kept_of(shift, 2, 1, 2, 1e9) == 0);
}

/* Two tokens swapped: X + O keeps nothing of X = (1, -1), and nothing is certified to stay. */
static void a_swap_is_certified_by_nothing(void **state)
{
    (void)state;
    assert_true(kept_of(SWAP, 2, 1, 1, 0) < 1e-6);
    is_near("opposed", kept_of(SWAP, 2, 1, -1, 0), 2, 1e-9);
}

/* λI + wM nearly a multiple of I: what it does to the mean is rounding, and most is proved anyway. */
static void nearly_a_multiple_of_the_identity(void **state)
{
    (void)state;
    enum { N = 8 };
    double m[N * N];
    for (int n = 2; n <= N; n += 2)
        for (double e = 1e-13; e < 1e-3; e *= 10)
            for (double kappa = 0; kappa < 200; kappa = 4 * kappa + 0.5) {
                for (int i = 0; i < n * n; i++)
                    m[i] = i % (n + 1) == 0;
                m[1] += e;
                is_near("I and a little", kept_of(m, n, 1, 2.3, kappa), 3.3,
                        1e-6 + 3 * e * (1 + kappa));
            }
    const double shift[] = {0, 0, 1, 0};
    is_near("a large skip", kept_of(shift, 2, 1, 1e6, 1), 1e6 - 1, 1e-6);
    is_near("a large skip", kept_of(shift, 2, 1, -1e9, 3), 1e9, 1e-6);
}

static void what_is_not_finite_is_refused(void **state)
{
    (void)state;
    const double broken[] = {1, 0, (double)NAN, 1};
    rs_lambda_number found;
    rs_lambda_scalar_layer layer = {broken, 2, 2, 1, 1, 0};
    assert_int_equal(rs_lambda_fixed_kept(&found, &layer, 1, &err), RS_E_INPUT_FORMAT);
    layer.mixing = IDENTITY;
    assert_int_equal(rs_lambda_fixed_kept(&found, &layer, INFINITY, &err), RS_E_INPUT_FORMAT);
    layer.lambda = NAN;
    assert_int_equal(rs_lambda_fixed_kept(&found, &layer, 1, &err), RS_E_INPUT_FORMAT);
}

/* Tokens of a layer: their mean share, and what the S-lemma says is below what they keep. */
static void tokens_keep_what_is_certified(void **state)
{
    (void)state;
    enum { N = 24, D = 5 };
    double x[N * D], o[N * D], m[N * N];
    for (int draw = 0; draw < 40; draw++) {
        rs_random random = rs_random_new((uint64_t)draw, 28);
        double common = 3 * rs_random_uniform(&random), before = 0, after = 0, mean = 0;
        for (int i = 0; i < N * D; i++)
            x[i] = rs_random_normal(&random) + common;
        for (int i = 0; i < N * N; i++)
            m[i] = i % N <= i / N ? 0.2 * rs_random_normal(&random) : 0;
        double lambda = draw % 2 ? 4 : -2;
        for (int i = 0; i < N * D; i++) {
            o[i] = 0;
            for (int j = 0; j < N; j++)
                o[i] += m[i / D * N + j] * x[j * D + i % D];
        }
        for (int j = 0; j < D; j++) {
            double a = 0, b = 0;
            for (int i = 0; i < N; i++)
                a += x[i * D + j] / N, b += (lambda * x[i * D + j] + o[i * D + j]) / N;
            for (int i = 0; i < N; i++) {
                before += pow(x[i * D + j] - a, 2);
                after += pow(lambda * x[i * D + j] + o[i * D + j] - b, 2);
            }
            mean += N * a * a;
        }
        rs_lambda_layer layer = layer_of(x, o, N, D, RS_LAMBDA_NO_NORM);
        rs_lambda_facts facts;
        double kappa;
        OK(rs_lambda_facts_of(&facts, &layer, &err));
        OK(rs_lambda_mean_share(&kappa, &layer, &facts, &err));
        assert_true(kappa >= sqrt(mean / before) * (1 - 1e-12));
        is_near("mean share", kappa, sqrt(mean / before), 1e-9);
        assert_true(kept_of(m, N, 1, lambda, kappa) <= sqrt(after / before) * (1 + 1e-12));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shares_are_rounded_down),
        cmocka_unit_test(shares_have_their_closed_forms),
        cmocka_unit_test(a_swap_is_certified_by_nothing),
        cmocka_unit_test(nearly_a_multiple_of_the_identity),
        cmocka_unit_test(what_is_not_finite_is_refused),
        cmocka_unit_test(tokens_keep_what_is_certified),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
