/* test_predict_moments.c: moments of a softmax against sums with 25 digits
 * (tests/oracle/make_predict_golden.py), identities and ends. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "predict/softmax_moments.h"
#include "predict_support.h"

static void one_row_has_exact_moments(void **state)
{
    (void)state;
    json_t *golden = load_golden("moments.json");
    size_t i;
    json_t *item;
    json_array_foreach(json_object_get(golden, "rows"), i, item)
    {
        rs_softmax_moments m;
        rs_softmax_moments_of(&m, expected_of(item, "n"), expected_of(item, "c"));
        is_near("second", m.second, expected_of(item, "second"), 1e-12);
        is_near("excess", m.excess, expected_of(item, "excess"), 1e-12);
        is_near("third", m.third, expected_of(item, "third"), 1e-12);
        is_near("square", m.square, expected_of(item, "square"), 1e-12);
        is_near("equal", m.equal, expected_of(item, "equal"), 1e-12);
    }
    json_decref(golden);
}

/* The values that docs/theory/mean_field.md's derivation was first checked with. */
static void known_values_come_out(void **state)
{
    (void)state;
    static const double rows[][5] = {{1, 16, .13245221721987, .828601565413, .029492280032},
                                     {2.7, 64, .10526229993477, 2.003059453346, .028236016388},
                                     {4, 256, .07266572803257, 2.994819306212, .018780438601},
                                     {9, 1024, .13494586777347, 5.072576398938, .056305058029}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        rs_softmax_moments m;
        rs_softmax_moments_of(&m, rows[i][1], rows[i][0]);
        is_near("second", m.second, rows[i][2], 1e-12);
        is_near("equal", m.equal, rows[i][3], 1e-11);
        is_near("third", m.third, rows[i][4], 5e-11); /* as many digits as are printed */
    }
}

/* The ways to sum meet where one takes over from another: E ΣA² grows with c, without a step. */
static void ways_to_sum_meet(void **state)
{
    (void)state;
    static const double at[] = {0.09, 100, 10000};
    for (int k = 0; k < 3; k++) {
        for (double n = 2; n <= 1e6; n *= 30) {
            rs_softmax_moments m[4];
            for (int i = 0; i < 4; i++)
                rs_softmax_moments_of(&m[i], n, at[k] * (1 + (i - 1.5) * 2e-3));
            /* the third difference over the step */
            double bend = m[3].second - 3 * m[2].second + 3 * m[1].second - m[0].second;
            assert_true(m[3].second > m[0].second);
            assert_near("bend", bend / m[1].second, 0, 0, 2e-8);
        }
    }
}

static void causal_rows_are_rows_of_their_length(void **state)
{
    (void)state;
    enum { N = 40 };
    static const double cs[] = {0, 1e-9, 0.05, 1, 30, 400, INFINITY};
    for (size_t k = 0; k < sizeof cs / sizeof *cs; k++) {
        rs_softmax_moments rows[N], one;
        rs_softmax_moments_causal(rows, N, cs[k]);
        for (int i = 0; i < N; i++) {
            rs_softmax_moments_of(&one, i + 1, cs[k]);
            is_near("second", rows[i].second, one.second, 1e-12);
            is_near("third", rows[i].third, one.third, 1e-12);
            is_near("square", rows[i].square, one.square, 1e-12);
        }
    }
    rs_softmax_moments_causal(NULL, 0, 1);
}

static void ends_are_exact(void **state)
{
    (void)state;
    rs_softmax_moments m;
    rs_softmax_moments_of(&m, 7, 0);
    is_near("c = 0", m.second, 1.0 / 7, 1e-15);
    is_near("c = 0", m.third, 1.0 / 49, 1e-15);
    is_near("c = 0", m.square, 1.0 / 49, 1e-15);
    assert_true(m.excess == 0 && m.equal == 0);
    rs_softmax_moments_of(&m, 7, INFINITY);
    assert_true(m.second == 1 && m.third == 1 && isinf(m.equal));
    rs_softmax_moments_of(&m, 1, 3);
    assert_true(m.second == 1 && m.third == 1 && m.equal == 0);
    static const double wrong[][2] = {{0, 1}, {4, -1}, {NAN, 1}, {4, NAN}};
    for (int i = 0; i < 4; i++) {
        rs_softmax_moments_of(&m, wrong[i][0], wrong[i][1]);
        assert_true(isnan(m.second) && isnan(m.third) && isnan(m.excess) && isnan(m.equal));
    }
    /* s = 1e6: 1 − E ΣA² of two keys is E of 2σ(x)σ(−x) = 2/(√(4π c)) beyond 1/c */
    rs_softmax_moments_of(&m, 2, 1e12);
    assert_near("s = 1e6", (1 - m.second) * 1e6, 1 / sqrt(3.14159265358979323846), 3e-9, 0);
    rs_softmax_moments_of(&m, 1e6, 1e12);
    assert_true(m.second < 1 && m.second > 0.9999 && m.third < m.second && m.square < m.third);
}

static void two_rows_have_exact_moments(void **state)
{
    (void)state;
    json_t *golden = load_golden("moments.json");
    size_t i;
    json_t *item;
    json_array_foreach(json_object_get(golden, "cross"), i, item)
    {
        double value;
        OK(rs_softmax_cross_moment(&value, expected_of(item, "n"), expected_of(item, "c"),
                                   expected_of(item, "rho"), &err));
        is_near("cross", value, expected_of(item, "value"), 1e-10);
    }
    json_decref(golden);
}

/* Equal rows are one row; opposite rows of two keys are each other's; independent ones share 1/n. */
static void two_rows_have_known_ends(void **state)
{
    (void)state;
    double value;
    rs_softmax_moments m;
    for (double c = 0.01; c < 40; c *= 6) {
        rs_softmax_moments_of(&m, 20, c);
        OK(rs_softmax_cross_moment(&value, 20, c, 1, &err));
        is_near("equal rows", value, m.second, 1e-10);
        OK(rs_softmax_cross_moment(&value, 20, c, 0, &err));
        is_near("independent rows", value, 0.05, 1e-15);
        rs_softmax_moments_of(&m, 2, c);
        OK(rs_softmax_cross_moment(&value, 2, c, -1, &err));
        is_near("opposite rows", value, 1 - m.second, 1e-9);
    }
    OK(rs_softmax_cross_moment(&value, 1, 3, 0.5, &err));
    assert_true(value == 1);
    static const double wrong[][3] = {{4, 50, 0.5}, {4, -1, 0.5}, {4, 1, 1.5}, {0, 1, 0}};
    for (int i = 0; i < 4; i++) {
        OK(rs_softmax_cross_moment(&value, wrong[i][0], wrong[i][1], wrong[i][2], &err));
        assert_true(isnan(value));
    }
}

static void annealed_form_inverts(void **state)
{
    (void)state;
    for (double n = 2; n < 1e6; n *= 7) {
        for (double x = 1e-8; x < 20; x *= 9) {
            double gap = exp(rs_softmax_annealed_ln_gap(n, x, log(x)));
            is_near("gap from 0", gap, rs_softmax_annealed(n, x) - 1 / n, 1e-6);
            is_near("inverse", rs_softmax_annealed_inverse(n, n * gap), x, 1e-12);
        }
    }
    /* a difference below the doubles: its logarithm plus that of the slope at 0, (n − 1)/n² */
    is_near("slope", rs_softmax_annealed_ln_gap(16, 0, -5000), -5000 + log(15.0 / 256), 1e-15);
    assert_true(rs_softmax_annealed_inverse(1, 0) == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_row_has_exact_moments),
        cmocka_unit_test(known_values_come_out),
        cmocka_unit_test(ways_to_sum_meet),
        cmocka_unit_test(causal_rows_are_rows_of_their_length),
        cmocka_unit_test(ends_are_exact),
        cmocka_unit_test(two_rows_have_exact_moments),
        cmocka_unit_test(two_rows_have_known_ends),
        cmocka_unit_test(annealed_form_inverts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
