/*
 * test_norm_bounds.c: certified norms against matrices whose norms are known: products of
 * reflections around a given diagonal, small matrices raised to a high power, and exact sums. A
 * bound must never be below the truth, and by little above it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/memory.h"
#include "linalg/norm_bounds.h"
#include "property.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

typedef long double real;

/* x ← (I − 2vvᵀ/|v|²)x for every column (row) of a [m, n]. */
static void reflect(real *a, int m, int n, bool rows, rs_random *random)
{
    int length = rows ? m : n, other = rows ? n : m;
    real v[96], square = 0;
    for (int i = 0; i < length; i++)
        v[i] = rs_random_normal(random), square += v[i] * v[i];
    for (int j = 0; j < other; j++) {
        real dot = 0;
        for (int i = 0; i < length; i++)
            dot += v[i] * (rows ? a[i * n + j] : a[j * n + i]);
        for (int i = 0; i < length; i++)
            *(rows ? &a[i * n + j] : &a[j * n + i]) -= 2 * v[i] * dot / square;
    }
}

/* A [m, n] with singular values s[0] ≥ ... in double, each entry rounded: its norm is known to
 * about m·n·u·s[0]. */
static void with_norms(double *out, int m, int n, const double *s, rs_random *random)
{
    real *a = calloc((size_t)(m * n), sizeof *a);
    for (int i = 0; i < m && i < n; i++)
        a[i * n + i] = s[i];
    for (int k = 0; k < 6; k++)
        reflect(a, m, n, true, random), reflect(a, m, n, false, random);
    for (int i = 0; i < m * n; i++)
        out[i] = (double)a[i];
    free(a);
}

static void spectral(void **state)
{
    (void)state;
    rs_error err;
    double a[80 * 80], s[80], worst = 0;
    for (int t = property_start(300, 3000000); property_next(&t);) {
        rs_random random = property_random();
        int m = 1 + (int)(rs_random_uniform(&random) * 79);
        int n = 1 + (int)(rs_random_uniform(&random) * 79), k = m < n ? m : n;
        double size = pow(10, 40 * (rs_random_uniform(&random) - 0.5)), bound;
        double decay = t % 3 ? rs_random_uniform(&random) : 1 - 1e-9; /* nearly all alike too */
        for (int i = 0; i < k; i++)
            s[i] = size * pow(decay, i);
        with_norms(a, m, n, s, &random);
        assert_int_equal(rs_spectral_bound(&bound, a, m, n, &err), RS_OK);
        /* the entries were rounded: the truth is within u·√(mn) of s[0] */
        if (!(bound >= s[0] * (1 - 1e-14))) fail_msg("%g is below %g", bound, s[0]);
        worst = property_worst(bound / s[0] - 1);
    }
    print_message("  spectral bounds are at most %.2g above\n", worst);
    property_holds(1e-8);
}

/* Where the norm is exactly known, by how little it may not fall short. */
static void exact_cases(void **state)
{
    (void)state;
    rs_error err;
    double bound, one[] = {3}, diagonal[] = {2, 0, 0, -5}, ones[6 * 4], zero[12] = {0};
    assert_int_equal(rs_spectral_bound(&bound, one, 1, 1, &err), RS_OK);
    assert_true(bound >= 3 && bound < 3 * (1 + 1e-9));
    assert_int_equal(rs_spectral_bound(&bound, diagonal, 2, 2, &err), RS_OK);
    assert_true(bound >= 5 && bound < 5 * (1 + 1e-9));
    for (int i = 0; i < 24; i++)
        ones[i] = 1;
    assert_int_equal(rs_spectral_bound(&bound, ones, 6, 4, &err), RS_OK);
    assert_true(bound * bound >= 24 * (1 - 4e-16) && bound < sqrt(24) * (1 + 1e-9));
    assert_int_equal(rs_spectral_bound(&bound, zero, 3, 4, &err), RS_OK);
    assert_true(bound == 0);
    assert_int_equal(rs_spectral_bound(&bound, zero, 0, 4, &err), RS_OK);
    assert_true(bound == 0);
    zero[5] = NAN;
    assert_int_equal(rs_spectral_bound(&bound, zero, 3, 4, &err), RS_OK);
    assert_true(isinf(bound));
    double small[] = {3e-300, 4e-300}, large[] = {3e300, 4e300}, tiny[] = {5e-324, 0};
    assert_int_equal(rs_spectral_bound(&bound, small, 1, 2, &err), RS_OK);
    assert_true(bound >= 5e-300 && bound < 5e-300 * (1 + 1e-9));
    assert_int_equal(rs_spectral_bound(&bound, large, 2, 1, &err), RS_OK);
    assert_true(bound >= 5e300 && bound < 5e300 * (1 + 1e-9));
    assert_int_equal(rs_spectral_bound(&bound, tiny, 2, 1, &err), RS_OK);
    assert_true(bound >= 5e-324 && bound < 1e-322);
    assert_true(rs_length_bound(small, 2) >= 5e-300 && rs_length_bound(large, 2) < 5.1e300);
    assert_true(rs_gamma(1e17) == INFINITY && rs_gamma(10) > 10 * 0x1p-53);
    /* rows (3, -4), (6, 8), (1, 0): longest 10, column sums 10 and 12, row sums at most 14 */
    double plain[] = {3, -4, 6, 8, 1, 0}, sums[2];
    rs_plain_norms norms;
    rs_plain_bounds(&norms, sums, plain, 3, 2);
    assert_true(norms.longest_row >= 10 && norms.longest_row < 10 * (1 + 1e-12));
    assert_true(norms.one >= 12 && norms.one < 12 * (1 + 1e-12));
    assert_true(norms.inf >= 14 && norms.inf < 14 * (1 + 1e-12));
    assert_true(norms.fro >= sqrt(126) && norms.fro < sqrt(126) * (1 + 1e-12));
}

/* ‖Mv‖/‖v‖ by a long power iteration: from below, in long double. */
static real from_below(const double *m, int rows, int cols, rs_random *random)
{
    real v[96], w[96], ratio = 0;
    for (int j = 0; j < cols; j++)
        v[j] = rs_random_normal(random);
    for (int t = 0; t < 400; t++) {
        real square = 0, before = 0;
        for (int j = 0; j < cols; j++)
            before += v[j] * v[j];
        for (int i = 0; i < rows; i++) {
            w[i] = 0;
            for (int j = 0; j < cols; j++)
                w[i] += m[i * cols + j] * v[j];
            square += w[i] * w[i];
        }
        if (!(before > 0) || !(square > 0)) return 0;
        ratio = sqrtl(square / before);
        for (int j = 0; j < cols; j++) {
            v[j] = 0;
            for (int i = 0; i < rows; i++)
                v[j] += m[i * cols + j] * w[i];
            v[j] /= square;
        }
    }
    return ratio;
}

/* M = AᵀB against its entries in long double. */
static void products(void **state)
{
    (void)state;
    rs_error err;
    double worst = 0;
    for (int t = property_start(200, 4000000); property_next(&t);) {
        rs_random random = property_random();
        int r = 1 + (int)(rs_random_uniform(&random) * 12);
        int m = 1 + (int)(rs_random_uniform(&random) * 30);
        int n = 1 + (int)(rs_random_uniform(&random) * 30);
        double a[12 * 30], b[12 * 30], product[30 * 30];
        double size = pow(10, 20 * (rs_random_uniform(&random) - 0.5));
        for (int i = 0; i < r * m; i++)
            a[i] = size * rs_random_normal(&random) * (t % 4 == 1 && i / m > 0 ? 1e-9 : 1);
        for (int i = 0; i < r * n; i++)
            b[i] = rs_random_normal(&random) * (t % 5 == 1 && i / n > 0 ? 0 : 1);
        real one = 0, inf = 0, rows[30] = {0}, columns[30] = {0};
        for (int i = 0; i < m; i++)
            for (int j = 0; j < n; j++) {
                real sum = 0;
                for (int k = 0; k < r; k++)
                    sum += (real)a[k * m + i] * b[k * n + j];
                product[i * n + j] = (double)sum;
                rows[i] += fabsl(sum);
                columns[j] += fabsl(sum);
                inf = fmaxl(inf, rows[i]);
                one = fmaxl(one, columns[j]);
            }
        rs_product_norms got;
        assert_int_equal(rs_product_bounds(&got, a, b, r, m, n, &err), RS_OK);
        real two = from_below(product, m, n, &random);
        assert_true(got.two >= two * (1 - 1e-14L));
        assert_true(got.one >= one && got.one <= one * (1 + 1e-11L));
        assert_true(got.inf >= inf && got.inf <= inf * (1 + 1e-11L));
        assert_true(got.left_two >= from_below(a, r, m, &random) * (1 - 1e-14L));
        assert_true(got.right_two >= from_below(b, r, n, &random) * (1 - 1e-14L));
        assert_true(got.left_fro >= got.left_two * (1 - 1e-9));
        if (two > 0 && r <= m && r <= n) worst = property_worst((double)(got.two / two - 1));
    }
    print_message("  products are at most %.2g above\n", worst);
    property_holds(1e-4); /* what the iteration from below has not reached */
    double bad[4] = {1, INFINITY, 0, 1}, plain[4] = {1, 1, 1, 1};
    rs_product_norms got;
    assert_int_equal(rs_product_bounds(&got, bad, plain, 2, 2, 2, &err), RS_OK);
    assert_true(isinf(got.two) && isinf(got.one));
}

/* Norms below the doubles are no zeros: an upper bound is at least the least of them. */
static void tiny(void **state)
{
    (void)state;
    rs_error err;
    rs_product_norms got;
    double a[] = {1e-200, 2e-200, 3e-200, -1e-200}, zero[4] = {0};
    assert_int_equal(rs_product_bounds(&got, a, a, 2, 2, 2, &err), RS_OK);
    assert_true(got.two > 0 && got.one > 0 && got.inf > 0);
    assert_int_equal(rs_product_bounds(&got, a, zero, 2, 2, 2, &err), RS_OK);
    assert_true(got.two == 0 && got.one == 0 && got.inf == 0);
    /* √2 times the least double lies between it and the next */
    double least[] = {5e-324, 5e-324}, bound;
    assert_int_equal(rs_spectral_bound(&bound, least, 1, 2, &err), RS_OK);
    assert_true(bound > 5e-324);
    assert_true(rs_length_bound(least, 2) > 5e-324);
    assert_true(rs_times_up(1e-200, 1e-200) > 0 && rs_times_up(0, 1e-200) == 0);
    assert_true(rs_times_up(0.1, 0.1) > 0.1 * 0.1);
}

static void memory(void **state)
{
    (void)state;
    rs_random random = rs_random_new(5, 0);
    rs_error err;
    rs_product_norms got;
    double a[40], bound;
    for (int i = 0; i < 40; i++)
        a[i] = rs_random_normal(&random);
    for (int64_t n = 1;; n++) {
        rs_memory_fail_at(n);
        rs_status first = rs_spectral_bound(&bound, a, 8, 5, &err);
        rs_status second = rs_product_bounds(&got, a, a, 2, 20, 20, &err);
        rs_memory_fail_at(0);
        if (first == RS_OK && second == RS_OK) break;
        assert_true(first == RS_OK || first == RS_E_NO_MEMORY);
        assert_true(second == RS_OK || second == RS_E_NO_MEMORY);
        assert_true(n < 100);
    }
}

/* docs/certificates.md, C10: (1 − u)^(r + 1) (1 + f) ≥ 1 for each factor and its count. */
static void rounding_factors_cover_what_they_claim(void **state)
{
    (void)state;
    static const struct {
        double factor; /* as the code has it */
        double roundings;
    } rows[] = {{1 + 4 * 0x1p-53, 2}, {1 + 4 * DBL_EPSILON, 6},  {1 + 0x1p-50, 6},
                {1 + 1e-15, 8},       {1 + 8 * DBL_EPSILON, 14}, {1 + 64 * DBL_EPSILON, 125},
                {1 + 0x1p-40, 8109},  {1 + 1e-12, 8916},         {1 + 1e-9, 8.9e6},
                {1 + 0x1p-20, 8.5e9}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        real lost = (rows[i].roundings + 1) * log1pl(-0x1p-53L);
        real won = log1pl((real)rows[i].factor - 1);
        if (!(won + lost >= 0))
            fail_msg("1 + %g: %g roundings", rows[i].factor - 1, rows[i].roundings);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rounding_factors_cover_what_they_claim),
        cmocka_unit_test(spectral),
        cmocka_unit_test(exact_cases),
        cmocka_unit_test(products),
        cmocka_unit_test(tiny),
        cmocka_unit_test(memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
