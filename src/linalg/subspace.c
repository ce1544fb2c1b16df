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
    LAPACKE_dgesdd_work(LAPACK_COL_MAJOR, 'S', rows, columns, matrix, rows, sigma, right, rows,
                        left, q, &best, -1, &none);
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

/* Below this ratio σ_k/σ₁ the squared matrix has lost too much of the vectors. */
static const double LEAST_RATIO = 1e-3;

size_t rs_leading_work(int64_t ka, int64_t kb)
{
    int64_t q = ka < kb ? ka : kb, most = ka < kb ? kb : ka;
    return (size_t)(ka * kb + ka * q + q * kb + q + most * most + most);
}

/* Divides column i of [r, k] by sigma[i]. */
static void divide_columns(double *g, int64_t r, int64_t k, const double *sigma)
{
    for (int64_t i = 0; i < r; i++)
        for (int64_t j = 0; j < k; j++)
            g[i * k + j] /= sigma[j];
}

/* What leads the spectrum of a small matrix [ka, kb]: vectors as rows. */
typedef struct leaders {
    double *left, *right, *sigma; /* [k, ka], [k, kb], [k] */
} leaders;

rs_status rs_symmetric_vectors(double *values, double *matrix, int64_t n, int *info, rs_error *err)
{
    size_t size = 1 + 6 * (size_t)n + 2 * (size_t)n * (size_t)n, integers = 3 + 5 * (size_t)n;
    double *work = rs_malloc(size, sizeof *work);
    lapack_int *places = rs_malloc(integers, sizeof *places);
    rs_status status = RS_OK;
    if (work && places)
        *info =
            LAPACKE_dsyevd_work(LAPACK_COL_MAJOR, 'V', 'L', (lapack_int)n, matrix, (lapack_int)n,
                                values, work, (lapack_int)size, places, (lapack_int)integers);
    else
        status = rs_fail_memory(err, "eigenvectors", size * sizeof *work);
    rs_free(work);
    rs_free(places);
    return status;
}

/*
 * A square matrix M [n, n]: P from M Mᵀ, half the price of a decomposition with vectors, and Z = MᵀP S⁻¹.
 * An eigenvector of M Mᵀ has an error of about u σ₁²/(σ_k² − σ_{k+1}²), where a singular vector has
 * u σ₁/(σ_k − σ_{k+1}): no more than σ₁/(2σ_k) times it. *trusted: σ_k is large enough. work: n² + n.
 */
static rs_status squared(const leaders *out, bool *trusted, const double *matrix, int64_t n,
                         int64_t k, double *work, rs_error *err)
{
    double *square = work, *values = work + n * n;
    int info;
    cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasTrans, (blasint)n, (blasint)n, (blasint)n, 1,
                matrix, (blasint)n, matrix, (blasint)n, 0, square, (blasint)n);
    RS_TRY(rs_symmetric_vectors(values, square, n, &info, err));
    *trusted = info == 0 && values[n - k] > LEAST_RATIO * LEAST_RATIO * values[n - 1];
    if (!*trusted) return RS_OK;
    for (int64_t i = 0; i < k; i++) /* by columns ascending: by rows from the last */
        memcpy(out->left + i * n, square + (n - 1 - i) * n, (size_t)n * sizeof *square);
    cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, (blasint)k, (blasint)n, (blasint)n, 1,
                out->left, (blasint)n, matrix, (blasint)n, 0, out->right, (blasint)n);
    for (int64_t i = 0; i < k; i++) {
        out->sigma[i] = cblas_dnrm2((blasint)n, out->right + i * n, 1);
        cblas_dscal((blasint)n, 1 / out->sigma[i], out->right + i * n, 1);
    }
    return RS_OK;
}

/* The same of any matrix, which is overwritten. work: ka q doubles. */
static rs_status decomposed(const leaders *out, double *matrix, int64_t ka, int64_t kb, int64_t k,
                            double *work, rs_error *err)
{
    int64_t q = ka < kb ? ka : kb;
    RS_TRY(rs_singular_vectors(work, out->right, out->sigma, matrix, ka, kb, err));
    for (int64_t i = 0; i < k; i++)
        cblas_dcopy((blasint)ka, work + i, (blasint)q, out->left + i * ka, 1);
    return RS_OK;
}

rs_status rs_leading_vectors(const rs_leading *out, const double *ra, int64_t ka, const double *rb,
                             int64_t kb, int64_t r, int64_t k, double *work, rs_error *err)
{
    int64_t q = ka < kb ? ka : kb;
    double *product = work, *rest = work + ka * kb + ka * q + q * kb + q;
    const leaders found = {.left = product + ka * kb,
                           .right = product + ka * kb + ka * q,
                           .sigma = product + ka * kb + ka * q + q * kb};
    bool trusted = false;
    cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasTrans, (blasint)ka, (blasint)kb, (blasint)r, 1,
                ra, (blasint)r, rb, (blasint)r, 0, product, (blasint)kb);
    if (ka == kb) RS_TRY(squared(&found, &trusted, product, ka, k, rest, err));
    if (!trusted) RS_TRY(decomposed(&found, product, ka, kb, k, rest, err));
    cblas_dgemm(CblasRowMajor, CblasTrans, CblasTrans, (blasint)r, (blasint)k, (blasint)kb, 1, rb,
                (blasint)r, found.right, (blasint)kb, 0, out->left, (blasint)k);
    cblas_dgemm(CblasRowMajor, CblasTrans, CblasTrans, (blasint)r, (blasint)k, (blasint)ka, 1, ra,
                (blasint)r, found.left, (blasint)ka, 0, out->right, (blasint)k);
    divide_columns(out->left, r, k, found.sigma);
    divide_columns(out->right, r, k, found.sigma);
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

rs_status rs_factor_triangle(double *triangle, double *vectors, int64_t m, int64_t r, double *work,
                             rs_error *err)
{
    int64_t rows = m < r ? m : r;
    lapack_int info =
        m > INT32_MAX || r > INT32_MAX / 32
            ? -1
            : LAPACKE_dgeqrf_work(LAPACK_COL_MAJOR, (lapack_int)m, (lapack_int)r, vectors,
                                  (lapack_int)m, work, work + r, (lapack_int)(32 * r));
    if (info != 0)
        return rs_fail(err, RS_E_LAPACK, "singular vectors", NULL,
                       "dgeqrf returned %d on a factor of %lld x %lld", (int)info, (long long)m,
                       (long long)r);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < r; j++)
            triangle[i * r + j] = i <= j ? vectors[j * m + i] : 0;
    return RS_OK;
}
