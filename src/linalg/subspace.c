/* subspace.c: singular vectors of products, and the overlap of what they span. */
#include "linalg/subspace.h"

#include "base/memory.h"
#include "linalg/blas.h"

#include <math.h>
#include <string.h>

rs_overlap_chance rs_overlap_by_chance(int64_t k, int64_t m)
{
    double dimension = (double)m, rest = (double)(m - k);
    if (k < 1 || m < k) return (rs_overlap_chance){NAN, NAN};
    if (m == k) return (rs_overlap_chance){1, 0};
    return (rs_overlap_chance){(double)k / dimension,
                               sqrt(2 / ((dimension - 1) * (dimension + 2))) * rest / dimension};
}

/* What LAPACK sees by columns is the transpose, [n, m]: its left vectors are our right ones. */
rs_status rs_singular_vectors(double *left, double *right, double *sigma, double *matrix, int64_t m,
                              int64_t n, rs_error *err)
{
    if (m > INT32_MAX || n > INT32_MAX)
        return rs_fail(err, RS_E_UNSUPPORTED, "singular vectors", NULL,
                       "a %lld x %lld matrix is larger than LAPACK's 32-bit sizes", (long long)m,
                       (long long)n);
    lapack_int rows = (lapack_int)n, columns = (lapack_int)m, q = rows < columns ? rows : columns;
    double best = 0;
    lapack_int none = 0;
    LAPACKE_dgesdd_work(LAPACK_COL_MAJOR, 'S', rows, columns, matrix, rows, sigma, right, rows, left,
                        q, &best, -1, &none);
    size_t size = best < (double)INT32_MAX ? (size_t)best : SIZE_MAX / sizeof(double);
    double *work = rs_malloc(size, sizeof *work);
    lapack_int *integers = rs_malloc(8 * (size_t)q, sizeof *integers);
    rs_status status = RS_OK;
    if (!work || !integers) {
        status = rs_fail_memory(err, "singular vectors", size * sizeof *work);
    } else {
        lapack_int info =
            LAPACKE_dgesdd_work(LAPACK_COL_MAJOR, 'S', rows, columns, matrix, rows, sigma, right,
                                rows, left, q, work, (lapack_int)size, integers);
        if (info != 0)
            status = rs_fail(err, RS_E_LAPACK, "singular vectors", NULL,
                             "dgesdd returned %d on a %d x %d matrix", (int)info, (int)columns,
                             (int)rows);
    }
    rs_free(work);
    rs_free(integers);
    return status;
}

size_t rs_leading_work(int64_t ka, int64_t kb)
{
    int64_t q = ka < kb ? ka : kb;
    return (size_t)(ka * kb + ka * q + q * kb + q);
}

/* Divides column i of [r, k] by sigma[i]. */
static void divide_columns(double *g, int64_t r, int64_t k, const double *sigma)
{
    for (int64_t i = 0; i < r; i++)
        for (int64_t j = 0; j < k; j++)
            g[i * k + j] /= sigma[j];
}

rs_status rs_leading_vectors(const rs_leading *out, const double *ra, int64_t ka, const double *rb,
                             int64_t kb, int64_t r, int64_t k, double *work, rs_error *err)
{
    int64_t q = ka < kb ? ka : kb;
    double *product = work, *left = product + ka * kb, *right = left + ka * q,
           *sigma = right + q * kb;
    cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasTrans, (blasint)ka, (blasint)kb, (blasint)r, 1, ra,
                (blasint)r, rb, (blasint)r, 0, product, (blasint)kb);
    RS_TRY(rs_singular_vectors(left, right, sigma, product, ka, kb, err));
    cblas_dgemm(CblasRowMajor, CblasTrans, CblasTrans, (blasint)r, (blasint)k, (blasint)kb, 1, rb,
                (blasint)r, right, (blasint)kb, 0, out->left, (blasint)k);
    cblas_dgemm(CblasRowMajor, CblasTrans, CblasNoTrans, (blasint)r, (blasint)k, (blasint)ka, 1, ra,
                (blasint)r, left, (blasint)q, 0, out->right, (blasint)k);
    divide_columns(out->left, r, k, sigma);
    divide_columns(out->right, r, k, sigma);
    return RS_OK;
}

double rs_overlap_of(const double *g1, const double *c, const double *g2, int64_t r1, int64_t r2,
                     int64_t k, double *work)
{
    double *turned = work, *cosines = work + r1 * k;
    cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, (blasint)r1, (blasint)k, (blasint)r2, 1,
                c, (blasint)r2, g2, (blasint)k, 0, turned, (blasint)k);
    cblas_dgemm(CblasRowMajor, CblasTrans, CblasNoTrans, (blasint)k, (blasint)k, (blasint)r1, 1, g1,
                (blasint)k, turned, (blasint)k, 0, cosines, (blasint)k);
    double sum = 0;
    for (int64_t i = 0; i < k * k; i++)
        sum += cosines[i] * cosines[i];
    return sum / (double)k;
}

/* By columns the factor is its transpose [r, m] = L Q, and L is R turned: what LAPACK leaves of L by
 * columns is R by rows. */
rs_status rs_factor_triangle(double *a, int64_t m, int64_t r, double *tau, double *work,
                             rs_error *err)
{
    lapack_int info =
        m > INT32_MAX || r > INT32_MAX / 32
            ? -1
            : LAPACKE_dgelqf_work(LAPACK_COL_MAJOR, (lapack_int)r, (lapack_int)m, a, (lapack_int)r,
                                  tau, work, (lapack_int)(32 * r));
    if (info != 0)
        return rs_fail(err, RS_E_LAPACK, "singular vectors", NULL,
                       "dgelqf returned %d on a factor of %lld x %lld", (int)info, (long long)m,
                       (long long)r);
    for (int64_t i = 0; i < m && i < r; i++)
        memset(a + i * r, 0, (size_t)i * sizeof *a);
    return RS_OK;
}
