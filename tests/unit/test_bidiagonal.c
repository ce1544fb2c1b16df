/* test_bidiagonal.c: singular values of bidiagonal matrices, several at once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "linalg/bidiagonal.h"
#include "linalg/bidiagonalise.h"
#include "linalg/blas.h"
#include "linalg/squares.h"
#include "property.h"

#include <float.h>
#include <string.h>

enum { MOST_ROWS = 96, MOST = 9 };

typedef struct matrices {
    size_t count;
    rs_bidiagonal items[MOST];
    double d[MOST][MOST_ROWS], e[MOST][MOST_ROWS];
} matrices;

static double work[8 * (9 * MOST_ROWS + 9)]; /* rs_bidiagonal_work(MOST_ROWS) */

/* ---- instances ---- */

/* An entry of row i: of one size, graded downwards or upwards, often zero, whole. */
static double entry(rs_random *random, int kind, int64_t i)
{
    double x = rs_random_normal(random);
    switch (kind) {
    case 0:
        return x;
    case 1:
        return x * exp(-0.4 * (double)i);
    case 2:
        return x * exp(0.4 * (double)i);
    case 3:
        return x > 0.7 ? 0 : x;
    case 4:
        return 1 + (double)i;
    case 5:
        return rint(x);
    default:
        return x * 1e-145; /* near the end of the range */
    }
}

static void draw(matrices *m, rs_random *random)
{
    m->count = 1 + (size_t)(rs_random_uniform(random) * MOST);
    for (size_t k = 0; k < m->count; k++) {
        int kind = (int)(rs_random_uniform(random) * 7);
        int64_t n = (int64_t)(rs_random_uniform(random) * MOST_ROWS);
        m->items[k] = (rs_bidiagonal){.n = n, .d = m->d[k], .e = m->e[k]};
        for (int64_t i = 0; i < n; i++) {
            m->d[k][i] = entry(random, kind, i);
            m->e[k][i] = kind == 4 ? 1 : entry(random, kind, i);
        }
    }
}

static void copy(matrices *out, const matrices *m)
{
    *out = *m;
    for (size_t k = 0; k < m->count; k++) {
        out->items[k].d = out->d[k];
        out->items[k].e = out->e[k];
    }
}

/* ---- properties ---- */

/* LAPACK's dbdsqr, in units of n ε σ_i; bit for bit where its compiler fuses nothing either. */
static void gives_what_lapack_gives(void **state)
{
    (void)state;
    static matrices ours, theirs;
    rs_error err;
    for (int t = property_start(400, 17); property_next(&t);) {
        rs_random random = property_random();
        draw(&ours, &random);
        copy(&theirs, &ours);
        assert_int_equal(rs_bidiagonal_values(ours.items, ours.count, work, &err), RS_OK);
        for (size_t k = 0; k < ours.count; k++) {
            int64_t n = ours.items[k].n;
            if (n > 0)
                assert_int_equal(LAPACKE_dbdsqr_work(LAPACK_COL_MAJOR, 'U', (lapack_int)n, 0, 0, 0,
                                                     theirs.d[k], theirs.e[k], NULL, 1, NULL, 1,
                                                     NULL, 1, work),
                                 0);
#if defined(__x86_64__)
            for (int64_t i = 0; i < n; i++)
                assert_true(ours.d[k][i] == theirs.d[k][i]); /* zeros of either sign */
#endif
            for (int64_t i = 0; i < n; i++)
                property_worst(fabs(ours.d[k][i] - theirs.d[k][i]) /
                               ((double)n * DBL_EPSILON * theirs.d[k][i] + DBL_MIN));
        }
    }
    property_holds(1);
}

/* A matrix has the same eigenvalues whoever is swept beside it. */
static void company_changes_nothing(void **state)
{
    (void)state;
    static matrices together, alone;
    rs_error err;
    for (int t = property_start(100, 71); property_next(&t);) {
        rs_random random = property_random();
        draw(&together, &random);
        copy(&alone, &together);
        assert_int_equal(rs_bidiagonal_values(together.items, together.count, work, &err), RS_OK);
        for (size_t k = 0; k < alone.count; k++) {
            assert_int_equal(rs_bidiagonal_values(&alone.items[k], 1, work, &err), RS_OK);
            assert_memory_equal(together.d[k], alone.d[k],
                                (size_t)alone.items[k].n * sizeof(double));
        }
    }
}

/* An entry of a square matrix: of any; graded by rows and columns; of rank two; with zero rows and columns;
 * near the ends of what is promised; 0; already bidiagonal. */
static double square_entry(rs_random *random, int kind, int64_t i, int64_t j)
{
    double x = rs_random_normal(random);
    switch (kind) {
    case 1:
        return x * exp(-0.3 * (double)(i + j));
    case 2:
        return cos((double)(3 * i)) * sin((double)(j + 1)) + (double)(i * j % 2);
    case 3:
        return i % 3 == 1 || j % 4 == 0 ? 0 : x;
    case 4:
        return x * 1e-98;
    case 5:
        return x * 1e98;
    case 6:
        return 0;
    case 7:
        return j == i || j == i + 1 ? x : 0;
    case 8: /* columns whose squares vanish */
        return x * (j % 3 == 0 ? 1e-162 : 1);
    case 9: /* rows */
        return x * (i % 3 == 1 ? 1e-161 : 1);
    default:
        return x;
    }
}

/* Beside dgesvd of the same matrix, in units of n ε σ_1, and the norm, which reflections keep. */
static void small_squares_become_bidiagonal(void **state)
{
    (void)state;
    enum { N = 70 };
    static double matrix[N * N], again[N * N], room[N * N + 64 * N], d[N], e[N], sigma[N];
    rs_error err;
    for (int t = property_start(400, 230); property_next(&t);) {
        rs_random random = property_random();
        int kind = (int)(rs_random_uniform(&random) * 10);
        int64_t n = 1 + (int64_t)(rs_random_uniform(&random) * (t % 4 ? 12 : N - 1));
        double norm = 0, kept = 0, largest = 0;
        for (int64_t k = 0; k < n * n; k++) {
            matrix[k] = again[k] = square_entry(&random, kind, k % n, k / n);
            norm = hypot(norm, matrix[k]);
            largest = fmax(largest, fabs(matrix[k]));
        }
        rs_bidiagonalise(d, e, matrix, n, largest, room);
        for (int64_t i = 0; i < n; i++)
            kept = hypot(hypot(kept, d[i]), i + 1 < n ? e[i] : 0);
        const rs_bidiagonal item = {.n = n, .d = d, .e = e};
        assert_int_equal(rs_bidiagonal_values(&item, 1, work, &err), RS_OK);
        assert_int_equal(LAPACKE_dgesvd_work(LAPACK_COL_MAJOR, 'N', 'N', (lapack_int)n,
                                             (lapack_int)n, again, (lapack_int)n, sigma, NULL, 1,
                                             NULL, 1, room, N * N + 64 * N),
                         0);
        double unit = (double)n * DBL_EPSILON * sigma[0] + DBL_MIN;
        property_worst(fabs(kept - norm) / unit);
        for (int64_t i = 0; i < n; i++)
            property_worst(fabs(d[i] - sigma[i]) / unit);
    }
    property_holds(2);
}

/* Matrices that are collected, of one size or of several, some of which do not wait. */
enum { MOST_SQUARES = 19, N_SQUARE = 66 };
typedef struct collected {
    int64_t n[MOST_SQUARES];
    double d[MOST_SQUARES][N_SQUARE], e[MOST_SQUARES][N_SQUARE];
    double matrix[MOST_SQUARES][N_SQUARE * N_SQUARE];
} collected;

/* Their singular values, of `count` from `first` on, by vectors of so many lanes. */
static void reduce_collected(collected *c, int first, int count, int lanes)
{
    static double copy[N_SQUARE * N_SQUARE], room[8 * (N_SQUARE * (N_SQUARE + 5) + 1)];
    static double scratch[N_SQUARE * N_SQUARE + 64 * N_SQUARE + 64];
    rs_squares squares = {.room = room};
    rs_bidiagonal items[MOST_SQUARES];
    rs_error err;
    rs_squares_use(lanes);
    for (int k = first; k < first + count; k++) {
        items[k] = (rs_bidiagonal){.n = c->n[k], .d = c->d[k], .e = c->e[k]};
        memcpy(copy, c->matrix[k], (size_t)(c->n[k] * c->n[k]) * sizeof *copy);
        assert_int_equal(rs_squares_add(&squares, &items[k], copy, scratch, &err), RS_OK);
    }
    rs_squares_finish(&squares);
    rs_squares_use(-1);
    assert_int_equal(rs_bidiagonal_values(items + first, (size_t)count, work, &err), RS_OK);
}

/* Beside dgesvd, as above; a matrix's bits depend neither on its company nor on the number of lanes. */
static void squares_side_by_side(void **state)
{
    (void)state;
    static collected c, alone;
    static double again[N_SQUARE * N_SQUARE], room[N_SQUARE * N_SQUARE + 64 * N_SQUARE];
    double sigma[N_SQUARE];
    for (int t = property_start(200, 231); property_next(&t);) {
        rs_random random = property_random();
        int count = 1 + (int)(rs_random_uniform(&random) * MOST_SQUARES), first = 0;
        int64_t n = 1;
        for (int k = 0; k < count; k++) {
            int kind = (int)(rs_random_uniform(&random) * 11);
            if (k == 0 || rs_random_uniform(&random) < .1)
                n = 1 + (int64_t)(rs_random_uniform(&random) * (t % 4 ? 12 : N_SQUARE - 1));
            c.n[k] = n;
            for (int64_t i = 0; i < n * n; i++)
                c.matrix[k][i] =
                    square_entry(&random, kind, i % n, i / n) * (kind == 10 ? 1e-200 : 1);
        }
        memcpy(&alone, &c, sizeof c);
        reduce_collected(&c, 0, count, -1);
        for (int each; first < count; first += each) {
            each = 1 + (int)(rs_random_uniform(&random) * 3);
            if (each > count - first) each = count - first;
            reduce_collected(&alone, first, each, t % 2 ? 4 : -1);
        }
        for (int k = 0; k < count; k++) {
            lapack_int rows = (lapack_int)c.n[k];
            memcpy(again, c.matrix[k], (size_t)(c.n[k] * c.n[k]) * sizeof *again);
            assert_int_equal(LAPACKE_dgesvd_work(LAPACK_COL_MAJOR, 'N', 'N', rows, rows, again,
                                                 rows, sigma, NULL, 1, NULL, 1, room,
                                                 N_SQUARE * N_SQUARE + 64 * N_SQUARE),
                             0);
            assert_memory_equal(c.d[k], alone.d[k], (size_t)rows * sizeof(double));
            double unit = (double)rows * DBL_EPSILON * sigma[0] + DBL_MIN;
            for (int i = 0; i < rows; i++)
                property_worst(fabs(c.d[k][i] - sigma[i]) / unit);
        }
    }
    property_holds(2);
}

/* Ones on and above the diagonal: B Bᵀ is a second difference but for its last row, and its values
 * are 2 cos((2k − 1)π / (4n + 2)). */
static void ones(void **state)
{
    (void)state;
    static matrices m;
    rs_error err;
    const double pi = 3.14159265358979323846;
    int64_t n = MOST_ROWS;
    m.items[0] = (rs_bidiagonal){.n = n, .d = m.d[0], .e = m.e[0]};
    for (int64_t i = 0; i < n; i++)
        m.d[0][i] = m.e[0][i] = 1;
    assert_int_equal(rs_bidiagonal_values(m.items, 1, work, &err), RS_OK);
    for (int64_t k = 1; k <= n; k++) {
        double expected = 2 * sin((double)(2 * (n - k) + 1) * pi / (double)(4 * n + 2));
        assert_true(fabs(m.d[0][k - 1] - expected) < 8 * DBL_EPSILON * expected);
    }
}

int main(void)
{
    assert_int_equal(sizeof work, rs_bidiagonal_work(MOST_ROWS) * sizeof *work);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gives_what_lapack_gives),
        cmocka_unit_test(company_changes_nothing),
        cmocka_unit_test(small_squares_become_bidiagonal),
        cmocka_unit_test(squares_side_by_side),
        cmocka_unit_test(ones),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
