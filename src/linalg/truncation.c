/* truncation.c: see truncation.h. */
#include "linalg/truncation.h"

#include "base/memory.h"
#include "linalg/blas.h"
#include "linalg/spectrum.h"
#include "linalg/subspace.h"

#include <math.h>
#include <string.h>

static rs_status check_size(int64_t n, rs_error *err)
{
    if (n <= 1 << 14) return RS_OK; /* LAPACK counts 2n² numbers of work in 32 bits */
    return rs_fail(err, RS_E_UNSUPPORTED, "eigenvectors", NULL,
                   "a matrix of %lld rows is larger than LAPACK's 32-bit sizes", (long long)n);
}

rs_status rs_leading_eigenvectors(double *vectors, double *values, double *gram, int64_t n,
                                  int64_t k, rs_error *err)
{
    RS_TRY(check_size(n, err));
    double *ascending = rs_malloc((size_t)n, sizeof *ascending);
    if (!ascending) return rs_fail_memory(err, "eigenvectors", (size_t)n * sizeof *ascending);
    int info = 0;
    rs_status status = rs_symmetric_vectors(ascending, gram, n, &info, err);
    if (status == RS_OK && info != 0)
        status = rs_fail(err, RS_E_LAPACK, "eigenvectors", NULL,
                         "dsyevd returned %d on a matrix of %lld rows", info, (long long)n);
    for (int64_t i = 0; i < k && status == RS_OK; i++) /* by columns ascending: by rows the last */
        memcpy(vectors + i * n, gram + (n - 1 - i) * n, (size_t)n * sizeof *gram);
    for (int64_t i = 0; i < n && values && status == RS_OK; i++)
        values[i] = ascending[n - 1 - i];
    rs_free(ascending);
    return status;
}

rs_status rs_gram_singular_values(double *sigma, int64_t count, double *gram, int64_t n,
                                  rs_error *err)
{
    RS_TRY(check_size(n, err));
    size_t size = rs_eigenvalue_work(n);
    double *values = rs_malloc((size_t)n + size, sizeof *values);
    if (!values) return rs_fail_memory(err, "eigenvalues", ((size_t)n + size) * sizeof *values);
    rs_status status = rs_symmetric_eigenvalues(values, gram, n, values + n, err);
    for (int64_t i = 0; i < count && status == RS_OK; i++)
        sigma[i] = i < n && values[n - 1 - i] > 0 ? sqrt(values[n - 1 - i]) : 0;
    rs_free(values);
    return status;
}

rs_status rs_gram_root(double *gram, int64_t n, rs_error *err)
{
    double *values = rs_malloc((size_t)n * (size_t)n + (size_t)n, sizeof *values);
    if (!values) return rs_fail_memory(err, "a root of a Gram", (size_t)(n * n) * sizeof *values);
    double *vectors = values + n;
    rs_status status = rs_leading_eigenvectors(vectors, values, gram, n, n, err);
    for (int64_t i = 0; i < n && status == RS_OK; i++) {
        double root = values[i] > 0 ? sqrt(values[i]) : 0;
        for (int64_t j = 0; j < n; j++)
            gram[i * n + j] = root * vectors[i * n + j];
    }
    rs_free(values);
    return status;
}

/* Below this ratio σ_k/σ₁ a Gram has lost too much of the vectors. */
static const double LEAST_RATIO = 1e-2;

/* The k leading vectors of the shorter side of m, [k, min(rows, cols)], a vector a row, by its Gram. */
static rs_status short_vectors(double *vectors, bool *trusted, const double *m, int64_t rows,
                               int64_t cols, int64_t k, rs_error *err)
{
    bool wide = rows < cols;
    int64_t n = wide ? rows : cols, inner = wide ? cols : rows;
    size_t numbers = (size_t)n * (size_t)n + (size_t)n;
    double *gram = rs_malloc(numbers, sizeof *gram);
    if (!gram) return rs_fail_memory(err, "singular vectors", numbers * sizeof *gram);
    double *values = gram + n * n;
    /* the upper triangle by rows is the lower one by columns, which is read */
    cblas_dsyrk(CblasRowMajor, CblasUpper, wide ? CblasNoTrans : CblasTrans, (blasint)n,
                (blasint)inner, 1, m, (blasint)cols, 0, gram, (blasint)n);
    rs_status status = rs_leading_eigenvectors(vectors, values, gram, n, k, err);
    *trusted = status == RS_OK && values[k - 1] > LEAST_RATIO * LEAST_RATIO * values[0];
    rs_free(gram);
    return status;
}

/* The k leading right singular vectors [k, cols] of m by its decomposition; m is left as it is. */
static rs_status right_vectors(double *v, const double *m, int64_t rows, int64_t cols, int64_t k,
                               rs_error *err)
{
    int64_t q = rows < cols ? rows : cols;
    size_t numbers = (size_t)(rows * cols + rows * q + q * cols + q);
    double *copy = rs_malloc(numbers, sizeof *copy);
    if (!copy) return rs_fail_memory(err, "singular vectors", numbers * sizeof *copy);
    double *left = copy + rows * cols, *right = left + rows * q, *sigma = right + q * cols;
    memcpy(copy, m, (size_t)(rows * cols) * sizeof *copy);
    rs_status status = rs_singular_vectors(left, right, sigma, copy, rows, cols, err);
    if (status == RS_OK) memcpy(v, right, (size_t)(k * cols) * sizeof *v);
    rs_free(copy);
    return status;
}

/* m becomes U Uᵀ M. vectors: [k, rows], a vector a row. */
static void project_columns(double *m, double *left, double *right, const double *vectors,
                            int64_t rows, int64_t cols, int64_t k)
{
    blasint r = (blasint)rows, c = (blasint)cols, inner = (blasint)k;
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < k; j++)
            left[i * k + j] = vectors[j * rows + i];
    cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, inner, c, r, 1, vectors, r, m, c, 0,
                right, c);
    cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, r, c, inner, 1, left, inner, right, c, 0,
                m, c);
}

rs_status rs_truncate(double *m, double *left, double *right, int64_t rows, int64_t cols, int64_t k,
                      rs_error *err)
{
    bool wide = rows < cols, trusted = false;
    int64_t n = wide ? rows : cols;
    double *vectors = rs_malloc((size_t)(k * n), sizeof *vectors);
    if (!vectors) return rs_fail_memory(err, "singular vectors", (size_t)(k * n) * sizeof *vectors);
    rs_status status = short_vectors(vectors, &trusted, m, rows, cols, k, err);
    if (status == RS_OK && !trusted) status = right_vectors(right, m, rows, cols, k, err);
    if (status == RS_OK && trusted && !wide)
        memcpy(right, vectors, (size_t)(k * n) * sizeof *right);
    if (status == RS_OK && trusted && wide)
        project_columns(m, left, right, vectors, rows, cols, k);
    else if (status == RS_OK)
        rs_project_rows(m, left, right, rows, cols, k);
    rs_free(vectors);
    return status;
}

void rs_project_rows(double *m, double *left, const double *v, int64_t rows, int64_t cols,
                     int64_t k)
{
    blasint r = (blasint)rows, c = (blasint)cols, inner = (blasint)k;
    cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasTrans, r, inner, c, 1, m, c, v, c, 0, left,
                inner);
    cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, r, c, inner, 1, left, inner, v, c, 0, m,
                c);
}

rs_status rs_cut_product(double *c, double *g, const double *ra, int64_t ka, const double *rb,
                         int64_t kb, int64_t r, int64_t k, rs_error *err)
{
    size_t leading = rs_leading_work(ka, kb), numbers = leading + (size_t)(r * k + kb * k + r * k);
    double *work = rs_malloc(numbers, sizeof *work);
    if (!work) return rs_fail_memory(err, "a product of low rank", numbers * sizeof *work);
    double *left = work + leading, *vectors = left + r * k, *onto = vectors + kb * k;
    const rs_leading found = {.left = left, .right = g};
    rs_status status = rs_leading_vectors(&found, ra, ka, rb, kb, r, k, work, err);
    if (status == RS_OK) {
        blasint n = (blasint)r, rank = (blasint)k, rows = (blasint)kb;
        cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, rows, rank, n, 1, rb, n, g, rank, 0,
                    vectors, rank);
        cblas_dgemm(CblasRowMajor, CblasTrans, CblasNoTrans, rank, n, rows, 1, vectors, rank, rb, n,
                    0, onto, n);
        cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, n, n, rank, 1, g, rank, onto, n, 0,
                    c, n);
    }
    rs_free(work);
    return status;
}
