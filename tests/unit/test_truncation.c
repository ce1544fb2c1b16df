/* test_truncation.c: matrices and products of a lower rank, against a decomposition with vectors, and the
 * weighed optimum against searches that know nothing of singular values. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/memory.h"
#include "base/random.h"
#include "linalg/low_rank.h"
#include "linalg/subspace.h"
#include "linalg/truncation.h"

#include <math.h>
#include <string.h>

enum { T = 7, M = 5, N = 4, R = 3 };

static void fill(double *x, size_t n, rs_random *random)
{
    for (size_t i = 0; i < n; i++)
        x[i] = rs_random_normal(random);
}

/* C = A B, [m, k] by [k, n]; turned: A is [k, m]. */
static void multiply(double *c, const double *a, bool turned, const double *b, int m, int k, int n)
{
    for (int i = 0; i < m; i++)
        for (int j = 0; j < n; j++) {
            double sum = 0;
            for (int l = 0; l < k; l++)
                sum += (turned ? a[l * m + i] : a[i * k + l]) * b[l * n + j];
            c[i * n + j] = sum;
        }
}

static double distance(const double *a, const double *b, int n)
{
    double sum = 0;
    for (int i = 0; i < n; i++)
        sum += (a[i] - b[i]) * (a[i] - b[i]);
    return sqrt(sum);
}

/* ‖X M − X C‖_F. */
static double weighed(const double *x, int t, const double *m, const double *c)
{
    double difference[M * N], seen[T * N], zero[T * N] = {0};
    for (int i = 0; i < M * N; i++)
        difference[i] = m[i] - c[i];
    multiply(seen, x, false, difference, t, M, N);
    return distance(seen, zero, t * N);
}

/* The weighed truncation by the Gram of X M. */
static void cut(double *out, const double *x, int t, const double *m, int k)
{
    double written[T * N], gram[N * N], v[N * N], left[M * N];
    multiply(written, x, false, m, t, M, N);
    multiply(gram, written, true, written, N, t, N);
    assert_int_equal(rs_leading_eigenvectors(v, NULL, gram, N, k, NULL), RS_OK);
    memcpy(out, m, sizeof left);
    rs_project_rows(out, left, v, M, N, k);
}

/* With X = I it is the truncation of Eckart and Young. */
static void plain_is_the_decomposition(void **state)
{
    (void)state;
    double one[M * M] = {0}, m[M * N], ours[M * N], theirs[M * N];
    for (int i = 0; i < M; i++)
        one[i * M + i] = 1;
    for (uint64_t draw = 0; draw < 20; draw++) {
        rs_random random = rs_random_new(3, draw);
        fill(m, M * N, &random);
        for (int k = 1; k <= N; k++) {
            cut(ours, one, M, m, k);
            memcpy(theirs, m, sizeof theirs);
            assert_int_equal(rs_low_rank(theirs, M, N, k, 0, NULL), RS_OK);
            assert_true(distance(ours, theirs, M * N) <= 1e-12);
        }
    }
}

/* Tall, wide and square matrices; with graded values down to 1e-9, where a Gram would not do. */
static void truncation_is_the_nearest(void **state)
{
    (void)state;
    static const int shapes[][2] = {{9, 6}, {6, 9}, {7, 7}};
    for (uint64_t draw = 0; draw < 30; draw++)
        for (int k = 1; k <= 6; k++) {
            int rows = shapes[draw % 3][0], cols = shapes[draw % 3][1];
            double m[63], theirs[63], left[54], right[54], back[63];
            rs_random random = rs_random_new(11, draw);
            fill(m, (size_t)(rows * cols), &random);
            for (int i = 0; i < rows * cols && draw >= 15; i++)
                m[i] *= pow(10, -(double)(i / cols));
            memcpy(theirs, m, sizeof theirs);
            assert_int_equal(rs_low_rank(theirs, rows, cols, k, 0, NULL), RS_OK);
            assert_int_equal(rs_truncate(m, left, right, rows, cols, k, NULL), RS_OK);
            assert_true(distance(m, theirs, rows * cols) <= 1e-12);
            multiply(back, left, false, right, rows, k, cols);
            assert_true(distance(back, theirs, rows * cols) <= 1e-12);
        }
}

/* U V with k columns: [M, k] and [k, N] in one vector. */
static double loss_of(const double *uv, int k, const double *x, int t, const double *m)
{
    double c[M * N];
    multiply(c, uv, false, uv + M * k, M, k, N);
    return weighed(x, t, m, c);
}

/* A pattern search from one start: steps along each coordinate that shrink where none helps. */
static double search(int k, const double *x, int t, const double *m, rs_random *random)
{
    double uv[(M + N) * N], step = 1;
    int n = (M + N) * k;
    fill(uv, (size_t)n, random);
    double best = loss_of(uv, k, x, t, m);
    for (int round = 0; round < 20000 && step > 1e-9; round++) {
        double before = best;
        for (int i = 0; i < n; i++)
            for (int way = -1; way <= 1; way += 2) {
                double old = uv[i];
                uv[i] += way * step;
                double now = loss_of(uv, k, x, t, m);
                if (now < best)
                    best = now;
                else
                    uv[i] = old;
            }
        if (!(best < before * (1 - 1e-4))) step /= 2;
    }
    return best;
}

/* No matrix of rank k is nearer, and a search that begins anywhere comes as near: with rows enough, and
 * with so few that XᵀX is singular. */
static void weighed_is_the_least(void **state)
{
    (void)state;
    static const int rows[] = {T, 3, 2};
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++)
        for (int k = 1; k <= 2; k++) {
            double x[T * M], m[M * N], ours[M * N], nearest = INFINITY;
            rs_random random = rs_random_new(5, r);
            int t = rows[r];
            fill(x, (size_t)(t * M), &random);
            fill(m, M * N, &random);
            cut(ours, x, t, m, k);
            double least = weighed(x, t, m, ours);
            for (int start = 0; start < 12; start++) {
                double found = search(k, x, t, m, &random);
                assert_true(found >= least - 1e-12);
                nearest = fmin(nearest, found);
            }
            assert_true(nearest <= least + 1e-3);
            double sigma[N], written[T * N], gram[N * N], rest = 0;
            multiply(written, x, false, m, t, M, N);
            multiply(gram, written, true, written, N, t, N);
            assert_int_equal(rs_gram_singular_values(sigma, N, gram, N, NULL), RS_OK);
            for (int i = k; i < N; i++)
                rest += sigma[i] * sigma[i];
            /* a Gram carries what is left to the root of its rounding */
            assert_true(fabs(sqrt(rest) - least) <= 1e-7 * sigma[0]);
        }
}

/* A (B C)ᵀ is the best approximation of X A Bᵀ, also where X, A or B has fewer dimensions than r. */
static void product_is_cut(void **state)
{
    (void)state;
    for (uint64_t draw = 0; draw < 12; draw++)
        for (int k = 1; k <= 2; k++) {
            double x[T * M], a[M * R], b[N * R], xa[T * R], turned[R * N], whole[T * N],
                theirs[T * N], c[R * R], g[R * R], bc[N * R], ours[T * N];
            rs_random random = rs_random_new(7, draw);
            fill(x, T * M, &random);
            fill(a, M * R, &random);
            fill(b, N * R, &random);
            for (int i = 0; i < N && draw % 3 == 1; i++) /* B of rank 2 */
                b[i * R + 2] = b[i * R] - b[i * R + 1];
            for (int i = 0; i < M && draw % 3 == 2; i++) /* A of rank 2 */
                a[i * R + 1] = 2 * a[i * R];
            multiply(xa, x, false, a, T, M, R);
            for (int i = 0; i < N; i++)
                for (int j = 0; j < R; j++)
                    turned[j * N + i] = b[i * R + j];
            multiply(whole, xa, false, turned, T, R, N);
            memcpy(theirs, whole, sizeof theirs);
            assert_int_equal(rs_low_rank(theirs, T, N, k, 0, NULL), RS_OK);
            for (int by_gram = 0; by_gram < 2; by_gram++) {
                double root[R * R];
                multiply(root, xa, true, xa, R, T, R);
                assert_int_equal(rs_gram_root(root, R, NULL), RS_OK);
                assert_int_equal(
                    rs_cut_product(c, g, by_gram ? root : xa, by_gram ? R : T, b, N, R, k, NULL),
                    RS_OK);
                multiply(bc, b, false, c, N, R, R);
                for (int i = 0; i < N; i++)
                    for (int j = 0; j < R; j++)
                        turned[j * N + i] = bc[i * R + j];
                multiply(ours, xa, false, turned, T, R, N);
                assert_true(distance(ours, theirs, T * N) <= 1e-11);
            }
        }
}

/* A root gives the Gram back; what rounding puts below 0 is 0. */
static void a_root_is_one(void **state)
{
    (void)state;
    double gram[9] = {2, 1, 0, 1, 2, 0, 0, 0, 0}, root[9], back[9], sigma[4];
    memcpy(root, gram, sizeof root);
    assert_int_equal(rs_gram_root(root, 3, NULL), RS_OK);
    multiply(back, root, true, root, 3, 3, 3);
    assert_true(distance(back, gram, 9) <= 1e-14);
    gram[8] = -1e-18;
    assert_int_equal(rs_gram_singular_values(sigma, 4, gram, 3, NULL), RS_OK);
    assert_true(fabs(sigma[0] - sqrt(3)) <= 1e-14 && fabs(sigma[1] - 1) <= 1e-14);
    assert_true(sigma[2] <= 1e-8 && sigma[3] == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_is_the_decomposition),
        cmocka_unit_test(truncation_is_the_nearest),
        cmocka_unit_test(weighed_is_the_least),
        cmocka_unit_test(product_is_cut),
        cmocka_unit_test(a_root_is_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
