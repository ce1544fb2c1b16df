/* test_subspace.c: leading singular subspaces and their overlaps: against matrices whose vectors are
 * known, a decomposition with vectors, and a thousand random draws. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/memory.h"
#include "base/random.h"
#include "linalg/gram.h"
#include "linalg/orthonormal.h"
#include "linalg/spectrum.h"
#include "linalg/subspace.h"

#include <math.h>
#include <string.h>

enum { M = 24, N = 18, R = 6, DRAWS = 1000 };

static void fill(double *x, size_t n, rs_random *random)
{
    for (size_t i = 0; i < n; i++)
        x[i] = rs_random_normal(random);
}

/* Overlap of the row spaces of two sets of k orthonormal rows of length m. */
static double overlap_of_rows(const double *u, const double *v, int64_t k, int64_t m)
{
    double sum = 0;
    for (int64_t i = 0; i < k; i++)
        for (int64_t j = 0; j < k; j++) {
            double cosine = 0;
            for (int64_t c = 0; c < m; c++)
                cosine += u[i * m + c] * v[j * m + c];
            sum += cosine * cosine;
        }
    return sum / (double)k;
}

/* Mean and spread over Haar draws, against the closed form: within five standard errors. */
static void chance_is_its_closed_form(void **state)
{
    static const int64_t sizes[][2] = {{1, 8}, {3, 8}, {4, 24}, {20, 24}, {23, 24}};
    (void)state;
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        int64_t k = sizes[s][0], m = sizes[s][1];
        rs_random random = rs_random_new(17, s);
        rs_overlap_chance chance = rs_overlap_by_chance(k, m);
        double sum = 0, squares = 0, fourth = 0;
        for (int draw = 0; draw < DRAWS; draw++) {
            double u[M * M], v[M * M];
            fill(u, (size_t)(k * m), &random);
            fill(v, (size_t)(k * m), &random);
            assert_int_equal(rs_orthonormal_rows(u, k, m, NULL), RS_OK);
            assert_int_equal(rs_orthonormal_rows(v, k, m, NULL), RS_OK);
            double away = overlap_of_rows(u, v, k, m) - chance.mean;
            sum += away;
            squares += away * away;
            fourth += away * away * away * away;
        }
        double variance = squares / DRAWS,
               error = sqrt((fourth / DRAWS - variance * variance) / DRAWS);
        assert_true(fabs(sum / DRAWS) < 5 * chance.spread / sqrt(DRAWS));
        assert_true(fabs(variance - chance.spread * chance.spread) < 5 * error);
    }
}

static void chance_has_ends(void **state)
{
    (void)state;
    rs_overlap_chance all = rs_overlap_by_chance(5, 5);
    assert_true(all.mean == 1 && all.spread == 0);
    assert_true(isnan(rs_overlap_by_chance(0, 5).mean) && isnan(rs_overlap_by_chance(6, 5).spread));
    rs_overlap_chance line = rs_overlap_by_chance(1, 10); /* cos² ~ Beta(1/2, 9/2) */
    assert_true(fabs(line.mean - 0.1) < 1e-15);
    assert_true(fabs(line.spread - sqrt(2.0 * 9 / (100.0 * 12))) < 1e-15);
}

/* A decomposition puts its matrix together again. */
static void vectors_put_it_together(void **state)
{
    static const int64_t sizes[][2] = {{M, N}, {N, M}, {1, 5}, {7, 7}};
    (void)state;
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        int64_t m = sizes[s][0], n = sizes[s][1], q = m < n ? m : n;
        rs_random random = rs_random_new(3, s);
        double a[M * N], copy[M * N], left[M * N], right[M * N], sigma[N];
        fill(a, (size_t)(m * n), &random);
        memcpy(copy, a, sizeof a);
        assert_int_equal(rs_singular_vectors(left, right, sigma, copy, m, n, NULL), RS_OK);
        for (int64_t i = 0; i < m; i++)
            for (int64_t j = 0; j < n; j++) {
                double sum = 0;
                for (int64_t l = 0; l < q; l++)
                    sum += left[i * q + l] * sigma[l] * right[l * n + j];
                assert_true(fabs(sum - a[i * n + j]) < 1e-13);
            }
    }
}

/* A product, its whole decomposition, and the same by triangles. a: [M, R], b: [N, R]. */
typedef struct product {
    double a[M * R], b[N * R], whole[M * N], left[M * N], right[N * N], sigma[N];
    double x[R * R], y[R * R], g[R * R], h[R * R];
} product;

static void gram(double *out, const double *a, int64_t m)
{
    memset(out, 0, R * R * sizeof *out);
    rs_gram_add_cols(out, a, m, R, R);
    rs_gram_symmetrise(out, R);
}

static void make(product *p, uint64_t seed, int64_t k, double last)
{
    rs_random random = rs_random_new(seed, 0);
    double ra[R * R], rb[R * R], work[2000];
    fill(p->a, M * R, &random);
    fill(p->b, N * R, &random);
    for (int64_t i = 0; i < M; i++) /* a graded product: its last direction is weak */
        p->a[i * R + R - 1] *= last;
    for (int64_t i = 0; i < M; i++)
        for (int64_t j = 0; j < N; j++) {
            p->whole[i * N + j] = 0;
            for (int64_t l = 0; l < R; l++)
                p->whole[i * N + j] += p->a[i * R + l] * p->b[j * R + l];
        }
    assert_int_equal(rs_singular_vectors(p->left, p->right, p->sigma, p->whole, M, N, NULL), RS_OK);
    gram(p->x, p->a, M);
    gram(p->y, p->b, N);
    memcpy(ra, p->x, sizeof ra);
    memcpy(rb, p->y, sizeof rb);
    assert_true(rs_gram_triangle(ra, p->x, R) && rs_gram_triangle(rb, p->y, R));
    assert_true(rs_leading_work(R, R) <= sizeof work / sizeof *work);
    const rs_leading out = {p->g, p->h};
    assert_int_equal(rs_leading_vectors(&out, ra, R, rb, R, R, k, work, NULL), RS_OK);
}

static void cross(double *out, const double *a, const double *b, int64_t m)
{
    for (int64_t i = 0; i < R; i++)
        for (int64_t j = 0; j < R; j++) {
            out[i * R + j] = 0;
            for (int64_t l = 0; l < m; l++)
                out[i * R + j] += a[l * R + i] * b[l * R + j];
        }
}

/* The overlap of the k leading columns of two [m, N]. */
static double overlap_of_columns(const double *u, const double *v, int64_t k, int64_t m)
{
    double sum = 0;
    for (int64_t i = 0; i < k; i++)
        for (int64_t j = 0; j < k; j++) {
            double cosine = 0;
            for (int64_t c = 0; c < m; c++)
                cosine += u[c * N + i] * v[c * N + j];
            sum += cosine * cosine;
        }
    return sum / (double)k;
}

static void overlaps_by_triangles(void **state)
{
    static const double lasts[] = {1, 1e-3,
                                   1e-6}; /* of the last, M Mᵀ has lost the weakest vector */
    static product p, q;
    (void)state;
    for (size_t l = 0; l < sizeof lasts / sizeof *lasts; l++)
        for (int64_t k = 1; k <= R; k++) {
            double c[R * R], d[R * R], work[2 * R * R];
            make(&p, 5, k, lasts[l]);
            make(&q, 6, k, lasts[l]);
            cross(c, p.a, q.a, M);
            cross(d, p.b, q.b, N);
            double left = rs_overlap_of(p.g, c, q.g, R, R, k, work),
                   right = rs_overlap_of(p.h, d, q.h, R, R, k, work);
            assert_true(fabs(left - overlap_of_columns(p.left, q.left, k, M)) < 1e-9);
            assert_true(fabs(right - overlap_of_rows(p.right, q.right, k, N)) < 1e-9);
            assert_true(fabs(rs_overlap_of(p.g, p.x, p.g, R, R, k, work) - 1) < 1e-9);
        }
}

/* R of a QR decomposition: RᵀR is the Gram; of a factor wider than long, too. */
static void triangles_have_the_gram(void **state)
{
    static const int64_t sizes[][2] = {{M, R}, {R, R}, {4, R}};
    (void)state;
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        int64_t m = sizes[s][0], r = sizes[s][1], rows = m < r ? m : r;
        rs_random random = rs_random_new(9, s);
        double vectors[M * R], copy[M * R], triangle[R * R], work[33 * R];
        fill(vectors, (size_t)(m * r), &random);
        memcpy(copy, vectors, sizeof copy);
        assert_int_equal(rs_factor_triangle(triangle, copy, m, r, work, NULL), RS_OK);
        for (int64_t i = 0; i < r; i++)
            for (int64_t j = 0; j < r; j++) {
                double want = 0, got = 0;
                for (int64_t c = 0; c < m; c++)
                    want += vectors[i * m + c] * vectors[j * m + c];
                for (int64_t c = 0; c < rows; c++)
                    got += triangle[c * r + i] * triangle[c * r + j];
                assert_true(fabs(want - got) < 1e-12);
            }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chance_is_its_closed_form), cmocka_unit_test(chance_has_ends),
        cmocka_unit_test(vectors_put_it_together), cmocka_unit_test(overlaps_by_triangles),
        cmocka_unit_test(triangles_have_the_gram)};
    return cmocka_run_group_tests_name("subspace", tests, NULL, NULL);
}
