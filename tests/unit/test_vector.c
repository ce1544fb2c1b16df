/* test_vector.c: the vectorised sums and products against their plain definitions in long
 * double. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "linalg/vector.h"
#include "measure_cases.h"

static void sums_agree_with_their_definition(void **state)
{
    (void)state;
    static const int lengths[] = {0, 1, 3, 4, 15, 16, 17, 33, 64, 100, 1000};
    double *a = entries(1000, 1), *b = entries(1000, 2), *p = entries(1000, 3);
    for (int l = 0; l < 11; l++) {
        int n = lengths[l];
        long double sum = 0, absolute = 0, dot = 0, distance = 0, square = 0;
        for (int i = 0; i < n; i++) {
            long double x = (long double)a[i], y = (long double)b[i];
            sum += x;
            absolute += fabsl(x);
            dot += x * y;
            distance += fabsl(x - y);
            square += (x - y) * (x - y);
        }
        assert_near("sum", rs_sum(a, n), (double)sum, 0, 1e-13);
        assert_near("absolute", rs_sum_absolute(a, n), (double)absolute, 1e-14, 0);
        assert_near("dot", rs_dot(a, b, n), (double)dot, 0, 1e-13);
        assert_near("distance", rs_distance_1(a, b, n), (double)distance, 1e-14, 0);
        long double entropy = 0;
        for (int i = 0; i < n; i++) {
            /* Probabilities of all sizes, and zeros. */
            p[i] = i % 5 == 4 ? 0 : (a[i] + 0.5) * pow(2, -(i % 60));
            entropy -= p[i] > 0 ? (long double)p[i] * logl((long double)p[i]) : 0;
        }
        assert_near("entropy", rs_entropy(p, n), (double)entropy, 4e-16, 0);
        assert_near("square", rs_distance_squared(a, b, n), (double)square, 1e-14, 0);
        float single[1000];
        long double squares = 0;
        for (int i = 0; i < n; i++) {
            single[i] = (float)a[i];
            squares += (long double)single[i] * (long double)single[i];
        }
        assert_near("squares", rs_sum_squares(single, n), (double)squares, 1e-14, 0);
    }
    free(a);
    free(b);
    free(p);
}

/* y = A x, y = Aᵀx and y += Aᵀx for all remainders of four, with a leading dimension. */
static void products_agree_with_their_definition(void **state)
{
    (void)state;
    enum { LD = 40 };
    double *a = entries(LD * LD, 4), *x = entries(LD, 5), y[LD], z[LD];
    for (int m = 1; m <= 9; m++) {
        for (int n = 1; n <= 35; n += 3) {
            rs_multiply(y, a, x, m, n, LD);
            for (int i = 0; i < m; i++) {
                long double sum = 0;
                for (int j = 0; j < n; j++)
                    sum += (long double)a[i * LD + j] * (long double)x[j];
                assert_near("A x", y[i], (double)sum, 0, 1e-14);
            }
            rs_multiply_transposed(y, a, x, m, n, LD);
            memcpy(z, x, sizeof z);
            rs_add_transposed(z, a, x, m, n, LD);
            for (int j = 0; j < n; j++) {
                long double sum = 0;
                for (int i = 0; i < m; i++)
                    sum += (long double)a[i * LD + j] * (long double)x[i];
                assert_near("transposed", y[j], (double)sum, 0, 1e-14);
                assert_near("added", z[j], (double)(sum + (long double)x[j]), 0, 1e-14);
            }
        }
    }
    free(a);
    free(x);
}

/* The results of all functions for one length, with the copy in use. */
static void results(double *out, const double *a, const double *b, const double *p, int n)
{
    enum { ROWS = 6, LD = 160 };
    double *y = out + 7;
    float single[LD];
    for (int i = 0; i < n; i++)
        single[i] = (float)a[i];
    out[6] = rs_sum_squares(single, n);
    out[0] = rs_sum(a, n);
    out[1] = rs_sum_absolute(a, n);
    out[2] = rs_dot(a, b, n);
    out[3] = rs_distance_1(a, b, n);
    out[4] = rs_distance_squared(a, b, n);
    out[5] = rs_entropy(p, n);
    rs_multiply(y, a, b, ROWS, n, LD);
    rs_multiply_transposed(y + ROWS, a, b, ROWS, n, LD);
    double *sums = y + ROWS + n;
    for (int i = 0; i < 7 * n; i++)
        sums[i] = p[i % 900];
    rs_row_sums(sums, sums + n, sums + 2 * n, a, b, 0.7, n);
    rs_row_centres centres = {b, p, a + 300, 0.3};
    rs_row_rests(sums + 3 * n, sums + 4 * n, sums + 5 * n, sums + 6 * n, a, &centres, n);
}

/* The copy for this processor gives the same bits as the one for every processor. */
static void copies_give_the_same_bits(void **state)
{
    (void)state;
    enum { MOST = 150, ALL = 7 + 6 + 8 * MOST };
    double *a = entries(1000, 6), *b = entries(1000, 7), *p = entries(1000, 8);
    double own[ALL], plain[ALL];
    for (int i = 0; i < 1000; i++)
        p[i] = fmax(p[i], 0);
    for (int n = 1; n <= MOST; n++) {
        rs_vector_use_plain(false);
        results(own, a, b, p, n);
        rs_vector_use_plain(true);
        results(plain, a, b, p, n);
        assert_memory_equal(own, plain, (size_t)(12 + 8 * n) * sizeof *own);
    }
    rs_vector_use_plain(false);
    free(a);
    free(b);
    free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_agree_with_their_definition),
        cmocka_unit_test(products_agree_with_their_definition),
        cmocka_unit_test(copies_give_the_same_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
