/* test_predict_argmax.c: the law of the largest logit against its double integral, and condensed attention,
 * which must not drift with the logits' size. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "predict/argmax_law.h"
#include "predict/mean_field.h"
#include "predict_support.h"

#define PI 3.14159265358979323846
enum { POINTS = 181, SHARED = 121 };

/* The density and the distribution of (x, y) at points x, y, summed over the part z that they share. */
static double density[POINTS][SHARED], below[POINTS][SHARED];

static void fill(double r, double low, double step)
{
    double own = sqrt(1 - r);
    for (int i = 0; i < POINTS; i++) {
        for (int k = 0; k < SHARED; k++) {
            double z = -6 + 0.1 * k, x = (low + i * step - sqrt(r) * z) / own;
            double weight = sqrt(0.1 * exp(-z * z / 2) / sqrt(2 * PI));
            density[i][k] = weight * exp(-x * x / 2) / sqrt(2 * PI) / own;
            below[i][k] = weight * erfc(-x / sqrt(2)) / 2;
        }
    }
}

/* n ∫∫ φ₂ Φ₂^(n−1). */
static double by_integral(double n, double r)
{
    const double low = -6, step = 12.0 / (POINTS - 1);
    double sum = 0;
    fill(r, low, step);
    for (int i = 0; i < POINTS; i++) {
        for (int j = 0; j < POINTS; j++) {
            double d = 0, b = 0;
            for (int k = 0; k < SHARED; k++) {
                d += density[i][k] * density[j][k];
                b += below[i][k] * below[j][k];
            }
            sum += d * pow(b, n - 1);
        }
    }
    return n * sum * step * step;
}

static double by_law(double n, double r)
{
    const rs_argmax_law law = rs_argmax_law_of(n);
    return rs_softmax_annealed(n, rs_argmax_exponent(&law, acos(r)));
}

static void the_law_is_the_integral(void **state)
{
    (void)state;
    static const double sizes[] = {3, 4, 16, 64, 1024}, correlations[] = {0.05, 0.2, 0.5, 0.8, 0.9};
    for (int i = 0; i < 5; i++) {
        for (int k = 0; k < 5; k++) {
            double exact = by_integral(sizes[i], correlations[k]);
            double got = by_law(sizes[i], correlations[k]);
            if (!(fabs(got - exact) < 0.03))
                fail_msg("n %g, r %g: %g, not %g", sizes[i], correlations[k], got, exact);
        }
    }
}

/* Of two keys the law is an arc sine's, of any number 1/n where nothing is common. */
static void ends_are_exact(void **state)
{
    (void)state;
    for (double r = -0.9; r < 1; r += 0.1)
        is_near("two keys", by_law(2, r), 0.5 + asin(r) / PI, 1e-6);
    for (double n = 2; n < 1e6; n *= 7)
        is_near("nothing in common", by_law(n, 0), 1 / n, 1e-6);
    for (double n = 2; n < 1e6; n *= 7) {
        const rs_argmax_law law = rs_argmax_law_of(n);
        for (double xi = 0.1; xi < 600; xi *= 3)
            is_near("inverse", rs_argmax_exponent(&law, rs_argmax_angle(&law, xi)), xi, 1e-9);
    }
}

static void small_losses_keep_their_digits(void **state)
{
    (void)state;
    const rs_argmax_law law = rs_argmax_law_of(16);
    double lost, before;
    rs_argmax_moved(&before, &law, 5, log(1e-8));
    for (double ln = log(1e-9); ln > -600; ln -= 50) {
        rs_argmax_moved(&lost, &law, 5, ln);
        is_near("in proportion", lost - before, ln - log(1e-8), 1e-5);
    }
    rs_argmax_moved(&lost, &law, 5, -INFINITY);
    assert_true(lost == -INFINITY);
}

/* As the logits grow, what two rows have in common tends to the probability of one key. */
static void condensed_rows_do_not_drift(void **state)
{
    (void)state;
    static const double sizes[] = {4, 64};
    for (int i = 0; i < 2; i++) {
        double n = sizes[i], last = 0;
        for (double s = 1e3; s < 1e9; s *= 100) {
            const rs_theory_attention op = {
                .queries = 1, .keys = 1, .values = 1, .output = 1, .logit = s * s, .softmax = 1};
            rs_field_attention at;
            rs_pair in = {log((1 + (n - 1) * 0.2) / n), log(0.8)};
            OK(rs_field_attend(&at, &op, in, n, 0, &(rs_theory_settings){.rough = true}, &err));
            assert_true(at.condensed && at.rough);
            if (last > 0 && !(fabs(at.cross - last) < 0.004))
                fail_msg("n %g, s %g: %g, was %g", n, s, at.cross, last);
            last = at.cross;
        }
        assert_true(fabs(last - by_integral(n, 0.2)) < 0.03);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_law_is_the_integral),
        cmocka_unit_test(ends_are_exact),
        cmocka_unit_test(small_losses_keep_their_digits),
        cmocka_unit_test(condensed_rows_do_not_drift),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
