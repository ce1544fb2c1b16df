/*
 * matrix_spectrum.c: all singular values of one dense matrix.
 *
 * Route. The Gram matrix of the short side (dsyrk) and its eigenvalues (dsyev) cost a half to a
 * quarter of a bidiagonal SVD, but squaring loses small values: an eigenvalue carries an absolute
 * error of a few eps λ₁, so a singular value σ_i a relative one of about eps (σ₁/σ_i)² (Golub & Van
 * Loan, Matrix Computations, 8.6). The Gram route is kept while σ_k > 1e-5 σ₁, where every value is
 * good to 1e-5 and those above 1e-3 σ₁ to 1e-9; below that no count of zero singular values could
 * be believed, and the bidiagonal SVD (dgesdd, after a QR factorisation when the matrix is tall)
 * gives the absolute error eps σ₁.
 *
 * Seconds, one thread of a Zen 3 core, Gram route / dgesdd (two-stage dsyevd was slower than dsyev
 * on all):  384x384 0.009 / 0.016, 1536x384 0.015 / 0.045, 1024x1024 0.12 / 0.26,
 * 4096x1024 0.19 / 0.59, 30522x384 0.12 / 0.51.
 */
#include "linalg/spectrum.h"

#include "base/memory.h"

#include <cblas.h>
#include <lapacke.h>
#include <math.h>
#include <string.h>

#define GRAM_LIMIT 1e-5 /* least σ_k/σ₁ of the Gram route */
/* Entries whose largest lies outside 2^±SAFE_EXPONENT are rescaled, so that squares do not overflow
 * or vanish. */
enum { SAFE_EXPONENT = 200 };

/* The matrix as LAPACK sees it: the row-major m×n matrix is the column-major n×m one. */
typedef struct view {
    double *a;
    lapack_int rows, cols, k; /* k = min(rows, cols) */
} view;

static rs_status lapack_failed(rs_error *err, const char *routine, lapack_int info, const view *w)
{
    return rs_fail(err, RS_E_LAPACK, routine, NULL, "returned %d on a %d x %d matrix", (int)info,
                   (int)w->cols, (int)w->rows);
}

static rs_status no_memory(rs_error *err, const char *what, size_t n)
{
    size_t bytes;
    if (!rs_size_mul(n, sizeof(double), &bytes)) bytes = SIZE_MAX;
    return rs_fail_memory(err, what, bytes);
}

/* Brings the largest entry near 1 when its square would leave the range; *exponent undoes it. */
static rs_status rescale(double *a, size_t count, int *exponent, bool *zero, rs_error *err)
{
    double largest = 0.0;
    bool finite = true;
    for (size_t i = 0; i < count; i++) {
        double magnitude = fabs(a[i]);
        finite &= magnitude <= __DBL_MAX__; /* false for NaN too */
        largest = magnitude > largest ? magnitude : largest;
    }
    if (!finite) {
        return rs_fail(err, RS_E_INTERNAL, "singular values", NULL,
                       "the matrix holds NaN or infinite entries");
    }
    *zero = largest == 0.0;
    if (*zero) return RS_OK;
    int magnitude = ilogb(largest);
    if (magnitude > -SAFE_EXPONENT && magnitude < SAFE_EXPONENT) return RS_OK;
    *exponent = magnitude;
    for (size_t i = 0; i < count; i++)
        a[i] = ldexp(a[i], -magnitude);
    return RS_OK;
}

/* Eigenvalues (ascending, in lambda) of the k×k Gram matrix, which is overwritten. */
static rs_status gram_eigenvalues(double *lambda, double *gram, const view *w, rs_error *err)
{
    double best = 0.0;
    lapack_int info =
        LAPACKE_dsyev_work(LAPACK_COL_MAJOR, 'N', 'L', w->k, gram, w->k, lambda, &best, -1);
    if (info != 0) return lapack_failed(err, "dsyev", info, w);
    if (!(best < (double)INT32_MAX)) return no_memory(err, "workspace of dsyev", (size_t)best);
    double *work = rs_malloc((size_t)best, sizeof *work);
    if (!work) return no_memory(err, "workspace of dsyev", (size_t)best);
    info = LAPACKE_dsyev_work(LAPACK_COL_MAJOR, 'N', 'L', w->k, gram, w->k, lambda, work,
                              (lapack_int)best);
    rs_free(work);
    return info == 0 ? RS_OK : lapack_failed(err, "dsyev", info, w);
}

/* sigma through the Gram matrix; *trusted says whether the values may be used. */
static rs_status gram_route(double *sigma, bool *trusted, const view *w, rs_error *err)
{
    size_t k = (size_t)w->k;
    double *gram = rs_malloc(k, k * sizeof *gram);
    if (!gram) return no_memory(err, "Gram matrix of a weight matrix", k * k);
    bool wide = w->rows <= w->cols;
    cblas_dsyrk(CblasColMajor, CblasLower, wide ? CblasNoTrans : CblasTrans, w->k,
                wide ? w->cols : w->rows, 1.0, w->a, w->rows, 0.0, gram, w->k);
    rs_status status = gram_eigenvalues(sigma, gram, w, err);
    rs_free(gram);
    RS_TRY(status);

    *trusted = sigma[0] > GRAM_LIMIT * GRAM_LIMIT * sigma[k - 1];
    for (size_t i = 0, j = k - 1; *trusted && i <= j; i++, j--) {
        double small = sigma[i], large = sigma[j];
        sigma[i] = sqrt(large);
        sigma[j] = sqrt(small);
        if (j == 0) break;
    }
    return RS_OK;
}

/* sigma through the bidiagonal SVD; the matrix is overwritten. */
static rs_status bidiagonal_route(double *sigma, const view *w, rs_error *err)
{
    double best = 0.0, unused = 0.0;
    lapack_int none = 0;
    lapack_int info = LAPACKE_dgesdd_work(LAPACK_COL_MAJOR, 'N', w->rows, w->cols, w->a, w->rows,
                                          sigma, &unused, 1, &unused, 1, &best, -1, &none);
    if (info != 0) return lapack_failed(err, "dgesdd", info, w);
    if (!(best < (double)INT32_MAX)) return no_memory(err, "workspace of dgesdd", (size_t)best);
    double *work = rs_malloc((size_t)best, sizeof *work);
    lapack_int *integers = rs_malloc((size_t)w->k, 8 * sizeof *integers);
    if (work && integers) {
        info = LAPACKE_dgesdd_work(LAPACK_COL_MAJOR, 'N', w->rows, w->cols, w->a, w->rows, sigma,
                                   &unused, 1, &unused, 1, work, (lapack_int)best, integers);
    }
    bool memory = work && integers;
    rs_free(integers);
    rs_free(work);
    if (!memory) return no_memory(err, "workspace of dgesdd", (size_t)best);
    return info == 0 ? RS_OK : lapack_failed(err, "dgesdd", info, w);
}

rs_status rs_matrix_spectrum(double *sigma, double *matrix, int64_t m, int64_t n, rs_error *err)
{
    if (m <= 0 || n <= 0) return RS_OK;
    if (m > INT32_MAX || n > INT32_MAX) {
        return rs_fail(err, RS_E_UNSUPPORTED, "singular values", NULL,
                       "a %lld x %lld matrix is larger than LAPACK's 32-bit sizes", (long long)m,
                       (long long)n);
    }
    view w = {matrix, (lapack_int)n, (lapack_int)m, (lapack_int)(m < n ? m : n)};
    int exponent = 0;
    bool zero = false, trusted = false;
    RS_TRY(rescale(matrix, (size_t)m * (size_t)n, &exponent, &zero, err));
    if (zero) {
        memset(sigma, 0, (size_t)w.k * sizeof *sigma);
        return RS_OK;
    }
    if (w.k == 1) {
        sigma[0] = cblas_dnrm2(w.rows > w.cols ? w.rows : w.cols, matrix, 1);
    } else {
        RS_TRY(gram_route(sigma, &trusted, &w, err));
        if (!trusted) RS_TRY(bidiagonal_route(sigma, &w, err));
    }
    for (lapack_int i = 0; exponent != 0 && i < w.k; i++)
        sigma[i] = ldexp(sigma[i], exponent);
    return RS_OK;
}
