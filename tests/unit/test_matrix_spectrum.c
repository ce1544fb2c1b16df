/* test_matrix_spectrum.c: singular values of dense matrices against mpmath and scipy
 * (tests/oracle/make_matrix_spectrum_golden.py) and against known factorisations. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/memory.h"
#include "linalg/spectrum.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define EPS 2.220446049250313e-16

static double next_entry(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (double)(*seed >> 32) * 0x1p-32 - 0.5;
}

static double *allocate(int64_t n)
{
    double *block = malloc(((size_t)n + 1) * sizeof *block);
    assert_non_null(block);
    return block;
}

static void transpose(double *out, const double *a, int64_t m, int64_t n)
{
    for (int64_t i = 0; i < m; i++) {
        for (int64_t j = 0; j < n; j++)
            out[j * m + i] = a[i * n + j];
    }
}

/*
 * What the routes promise: values above 1e-3 of the largest to 1e-8 relative, and every value
 * either to 1e-4 relative (the Gram matrix, trusted down to 1e-5) or to a small multiple of eps
 * times the largest (the bidiagonal SVD).
 */
static void assert_spectrum(const double *got, const double *expected, int64_t k)
{
    for (int64_t i = 0; i < k; i++) {
        double error = fabs(got[i] - expected[i]);
        bool good = error <= 1e-8 * expected[i];
        if (expected[i] < 1e-3 * expected[0]) {
            good = error <= 1e-4 * expected[i] || error <= 50.0 * EPS * expected[0];
        }
        if (!good) {
            fail_msg("value %d of %d: got %.17g, expected %.17g", (int)i, (int)k, got[i],
                     expected[i]);
        }
        if (i > 0) assert_true(got[i] <= got[i - 1]);
    }
}

static void check_golden(json_t *item)
{
    json_t *array = json_object_get(item, "sigma");
    int64_t m = json_integer_value(json_object_get(item, "rows"));
    int64_t n = json_integer_value(json_object_get(item, "cols")), k = m < n ? m : n;
    uint64_t seed = (uint64_t)json_integer_value(json_object_get(item, "seed"));
    double row_step = json_number_value(json_object_get(item, "row_step"));
    double col_step = json_number_value(json_object_get(item, "col_step"));
    double mean = json_number_value(json_object_get(item, "mean"));
    assert_int_equal(json_array_size(array), k);
    double *a = allocate(m * n), *b = allocate(m * n), *got = allocate(k), *expected = allocate(k);
    for (int64_t i = 0; i < m; i++) {
        for (int64_t j = 0; j < n; j++) {
            double scale = exp2(-row_step * (double)i) * exp2(-col_step * (double)j);
            a[i * n + j] = next_entry(&seed) * scale + mean;
        }
    }
    transpose(b, a, m, n);
    for (int64_t i = 0; i < k; i++)
        expected[i] = json_number_value(json_array_get(array, (size_t)i));
    assert_int_equal(rs_matrix_spectrum(got, a, m, n, NULL), RS_OK);
    assert_spectrum(got, expected, k);
    assert_int_equal(rs_matrix_spectrum(got, b, n, m, NULL), RS_OK);
    assert_spectrum(got, expected, k);
    free(a);
    free(b);
    free(got);
    free(expected);
}

static void agrees_with_golden(void **state)
{
    (void)state;
    json_error_t problem;
    json_t *cases = json_load_file(RS_TEST_DATA "/matrix_spectrum.json", 0, &problem);
    if (!cases) fail_msg("%s", problem.text);
    assert_true(json_array_size(cases) >= 10);
    size_t index;
    json_t *item;
    json_array_foreach(cases, index, item) check_golden(item);
    json_decref(cases);
}

/* a = a (I - 2 v vᵀ/vᵀv) from the right, for a random v. */
static void reflect_right(double *a, int64_t m, int64_t n, uint64_t *seed)
{
    double *v = allocate(n), norm = 0.0;
    for (int64_t j = 0; j < n; j++) {
        v[j] = next_entry(seed);
        norm += v[j] * v[j];
    }
    for (int64_t i = 0; i < m; i++) {
        double dot = 0.0;
        for (int64_t j = 0; j < n; j++)
            dot += a[i * n + j] * v[j];
        for (int64_t j = 0; j < n; j++)
            a[i * n + j] -= 2.0 * dot / norm * v[j];
    }
    free(v);
}

/* U diag(s) Vᵀ with U and V products of reflections, s geometric down to 1/condition. */
static void check_known(int64_t m, int64_t n, double condition, double scale)
{
    int64_t k = m < n ? m : n;
    uint64_t seed = 77;
    double *a = allocate(m * n), *b = allocate(m * n), *s = allocate(k), *got = allocate(k);
    memset(a, 0, (size_t)(m * n) * sizeof *a);
    for (int64_t i = 0; i < k; i++) {
        s[i] = pow(condition, -(double)i / (double)(k > 1 ? k - 1 : 1));
        a[i * n + i] = s[i];
    }
    for (int pass = 0; pass < 3; pass++) {
        reflect_right(a, m, n, &seed);
        transpose(b, a, m, n);
        reflect_right(b, n, m, &seed);
        transpose(a, b, n, m);
    }
    for (int64_t i = 0; i < m * n; i++)
        a[i] *= scale;
    for (int64_t i = 0; i < k; i++)
        s[i] *= scale;
    assert_int_equal(rs_matrix_spectrum(got, a, m, n, NULL), RS_OK);
    assert_spectrum(got, s, k);
    free(a);
    free(b);
    free(s);
    free(got);
}

static void known_singular_values(void **state)
{
    (void)state;
    static const int64_t SHAPES[][2] = {{40, 40}, {90, 30}, {25, 120}, {2, 50}};
    static const double CONDITIONS[] = {1.0, 30.0, 1e3, 0.99e5, 1.01e5, 1e6, 1e8, 1e12};
    for (size_t i = 0; i < sizeof SHAPES / sizeof *SHAPES; i++) {
        for (size_t j = 0; j < sizeof CONDITIONS / sizeof *CONDITIONS; j++) {
            check_known(SHAPES[i][0], SHAPES[i][1], CONDITIONS[j], 1.0);
        }
    }
}

/* Entries whose squares overflow, vanish or are subnormal. */
static void extreme_scales(void **state)
{
    (void)state;
    static const double SCALES[] = {0x1p-900, 0x1p-400, 0x1p-199, 0x1p199, 0x1p400, 0x1p1000};
    for (size_t i = 0; i < sizeof SCALES / sizeof *SCALES; i++) {
        check_known(12, 20, 1e3, SCALES[i]);
        check_known(1, 20, 1.0, SCALES[i]);
    }
}

/* Zero singular values must come out below any rank threshold, which the Gram matrix alone would
 * not do. */
static void exact_rank_deficiency(void **state)
{
    (void)state;
    enum { M = 50, N = 30, RANK = 7 };
    uint64_t seed = 5;
    double left[M * RANK], right[RANK * N], a[M * N], sigma[N];
    for (int i = 0; i < M * RANK; i++)
        left[i] = rint(8.0 * next_entry(&seed));
    for (int i = 0; i < RANK * N; i++)
        right[i] = rint(8.0 * next_entry(&seed));
    for (int i = 0; i < M; i++) {
        for (int j = 0; j < N; j++) {
            a[i * N + j] = 0.0;
            for (int r = 0; r < RANK; r++)
                a[i * N + j] += left[i * RANK + r] * right[r * N + j];
        }
    }
    assert_int_equal(rs_matrix_spectrum(sigma, a, M, N, NULL), RS_OK);
    for (int i = 0; i < N; i++) {
        if (i < RANK) {
            assert_true(sigma[i] > 1e-3 * sigma[0]);
        } else {
            assert_true(sigma[i] >= 0.0 && sigma[i] < M * EPS * sigma[0]);
        }
    }
}

static void empty_zero_and_vectors(void **state)
{
    (void)state;
    double sigma[2] = {-1.0, -1.0};
    assert_int_equal(rs_matrix_spectrum(sigma, NULL, 0, 7, NULL), RS_OK);
    assert_int_equal(rs_matrix_spectrum(sigma, NULL, 7, 0, NULL), RS_OK);
    assert_true(sigma[0] == -1.0);
    double zeros[8] = {0};
    assert_int_equal(rs_matrix_spectrum(sigma, zeros, 2, 4, NULL), RS_OK);
    assert_true(sigma[0] == 0.0 && sigma[1] == 0.0);
    double vector[4] = {2.0, -4.0, 5.0, 6.0};
    assert_int_equal(rs_matrix_spectrum(sigma, vector, 1, 4, NULL), RS_OK);
    assert_true(fabs(sigma[0] - 9.0) < 1e-14);
    double column[4] = {2.0, -4.0, 5.0, 6.0};
    assert_int_equal(rs_matrix_spectrum(sigma, column, 4, 1, NULL), RS_OK);
    assert_true(fabs(sigma[0] - 9.0) < 1e-14);
}

static void refuses_what_it_cannot_do(void **state)
{
    (void)state;
    rs_error err;
    double sigma[3], a[9] = {1, 2, 3, 4, NAN, 6, 7, 8, 9};
    assert_int_equal(rs_matrix_spectrum(sigma, a, 3, 3, &err), RS_E_INTERNAL);
    a[4] = -INFINITY;
    assert_int_equal(rs_matrix_spectrum(sigma, a, 3, 3, &err), RS_E_INTERNAL);
    assert_int_equal(rs_matrix_spectrum(sigma, a, (int64_t)1 << 32, 3, &err), RS_E_UNSUPPORTED);
}

/* Both routes, the first by a well-conditioned matrix and the second by one of rank 1. */
static void survives_allocation_failure(void **state)
{
    (void)state;
    for (int low_rank = 0; low_rank < 2; low_rank++) {
        int failures = 0;
        for (int64_t at = 1;; at++) {
            double a[12], sigma[3];
            uint64_t seed = 3;
            for (int i = 0; i < 12; i++)
                a[i] = low_rank ? 1.0 : next_entry(&seed);
            rs_memory_fail_at(at);
            rs_status status = rs_matrix_spectrum(sigma, a, 3, 4, NULL);
            rs_memory_fail_at(0);
            if (status == RS_OK) break;
            assert_int_equal(status, RS_E_NO_MEMORY);
            failures++;
        }
        assert_int_equal(failures, low_rank ? 4 : 2);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(agrees_with_golden),
        cmocka_unit_test(known_singular_values),
        cmocka_unit_test(extreme_scales),
        cmocka_unit_test(exact_rank_deficiency),
        cmocka_unit_test(empty_zero_and_vectors),
        cmocka_unit_test(refuses_what_it_cannot_do),
        cmocka_unit_test(survives_allocation_failure),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
