/* test_lp_centre.c: the smallest l1 ball against HiGHS (tests/oracle/make_lp_centre_golden.py) at
 * both accuracies, its bounds against sums of its own, and the finding of a search that stops. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "l1_ball.h"
#include "linalg/lp_kernels.h"
#include "probe/probe_parts.h"

#include <float.h>

/* The rule of the oracle's matrix(). */
static double *matrix(const char *law, int64_t n, int64_t d, uint64_t seed)
{
    double *x = entries(n * d, seed), *out = entries(n * d, seed);
    for (int64_t i = 0; i < n * d; i++) {
        int64_t row = i / d, k = i % d;
        if (strcmp(law, "far") == 0 && row % 5 == 0) out[i] *= 3;
        if (strcmp(law, "outlier") == 0 && k == 0) out[i] *= 1e4;
        if (strcmp(law, "repeated") == 0 && row >= (n + 1) / 2) out[i] = x[i - (n + 1) / 2 * d];
        if (strcmp(law, "ties") == 0) out[i] = floor(x[i] * 8);
        if (strcmp(law, "collapsed") == 0) out[i] = x[k] + 0x1p-23 * x[i];
        if (strcmp(law, "tokens") == 0) out[i] = x[row * row % 7 % n * d + k] + 0.125 * x[i];
    }
    free(x);
    return out;
}

static void agrees_with_highs(void **state)
{
    (void)state;
    json_t *cases = load_cases(RS_TEST_DATA "/measures/lp_centre.json", 49), *item;
    static const double tolerances[] = {RS_LP_TOLERANCE, 1e-6, 1e-3};
    size_t index;
    json_array_foreach(cases, index, item)
    {
        int64_t n = integer_of(item, "n"), d = integer_of(item, "d");
        double expected = expected_of(item, "radius"), x[64];
        double *points = matrix(text_of(item, "law"), n, d, (uint64_t)integer_of(item, "seed"));
        for (size_t t = 0; t < sizeof tolerances / sizeof *tolerances; t++) {
            rs_lp_centre got = ball(x, points, n, d, tolerances[t]);
            /* Rounding of entries that are subtracted, and HiGHS's own tolerance. */
            double noise = 4 * (double)d * DBL_EPSILON, slack = 2e-9 * expected + noise;
            assert_near("radius of x", radius_of(x, points, n, d), got.radius, 1e-12, noise);
            if (!(got.lower <= expected + slack && expected <= got.radius + slack))
                fail_msg("%s %d x %d: [%.17g, %.17g] does not hold %.17g", text_of(item, "law"),
                         (int)n, (int)d, got.lower, got.radius, expected);
            if (got.radius - got.lower > tolerances[t] * got.radius)
                fail_msg("%s %d x %d: gap %.3g of %.3g after %d steps", text_of(item, "law"),
                         (int)n, (int)d, (got.radius - got.lower) / got.radius, tolerances[t],
                         got.iterations);
        }
        free(points);
    }
    json_decref(cases);
}

/* A bracket that is too good for rounding stays a bracket. */
static void impossible_accuracy_is_a_bracket(void **state)
{
    (void)state;
    double x[48], *points = matrix("far", 24, 48, 5);
    rs_lp_centre got = ball(x, points, 24, 48, 0);
    assert_true(got.lower > 0 && got.lower <= got.radius);
    assert_true(got.radius - got.lower < 1e-9 * got.radius);
    assert_near("radius of x", radius_of(x, points, 24, 48), got.radius, 1e-13, 0);
    free(points);
}

static void medians_minimise(void **state)
{
    (void)state;
    enum { ROWS = 9, LD = 11 };
    double *points = entries(ROWS * LD, 3), *weights = entries(ROWS, 4);
    int64_t rows[] = {0, 2, 3, 4, 6, 7, 8};
    for (int64_t i = 0; i < ROWS; i++)
        weights[i] += 0.5;
    for (int64_t columns = 1; columns <= RS_LP_COLUMNS; columns++) {
        double median[RS_LP_COLUMNS] = {0};
        int moves = 0;
        while (!rs_lp_median_move(median, points, rows, weights, 7, LD, columns))
            assert_true(++moves <= ROWS);
        for (int64_t k = 0; k < columns; k++) {
            double at = 0, other[ROWS] = {0};
            for (int64_t j = 0; j < 7; j++) {
                at += weights[rows[j]] * fabs(points[rows[j] * LD + k] - median[k]);
                for (int64_t i = 0; i < 7; i++)
                    other[i] += weights[rows[j]] *
                                fabs(points[rows[j] * LD + k] - points[rows[i] * LD + k]);
            }
            for (int64_t i = 0; i < 7; i++)
                assert_true(at <= other[i] + 1e-14);
        }
    }
    free(points);
    free(weights);
}

static void open_bracket_is_a_finding(void **state)
{
    (void)state;
    rs_token_row rows[] = {{.layer = 0},
                           {.layer = 2, .open_centres = 2, .open_gap = 3e-4, .open_sample = 5},
                           {.layer = 3, .open_centres = 1, .open_gap = 2e-5, .open_sample = 1}};
    rs_measured measured = {.tokens = rows, .n_tokens = 3};
    rs_probed probed = {.name = "full", .measured = &measured};
    rs_result *result = rs_result_new("probe");
    rs_error err = {0};
    assert_non_null(result);
    assert_int_equal(rs_probe_centre(result, &probed, &err), RS_OK);
    assert_int_equal(rs_result_finding_count(result), 1);
    const rs_finding *f = rs_result_finding_at(result, 0);
    assert_string_equal(f->code, "lp_centre_open");
    assert_int_equal(f->layer, 1);
    assert_true(f->value == 3e-4);
    assert_non_null(strstr(f->message, "3 token matrices in 2 rows"));
    assert_non_null(strstr(f->message, "after layer 1, sample 5"));
    assert_non_null(strstr(f->message, "0.03 %"));
    rs_result_free(result);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(agrees_with_highs), cmocka_unit_test(impossible_accuracy_is_a_bracket),
        cmocka_unit_test(medians_minimise), cmocka_unit_test(open_bracket_is_a_finding)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
