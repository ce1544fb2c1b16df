/*
 * spectrum.c: σ(A Bᵀ) from two Grams, and the careful route for factors that the Grams cannot
 * carry.
 *
 * The Gram route squares the condition number of each factor, but in the *scaled* sense only: an
 * entry of X has an error of about u·‖a_i‖‖a_j‖, so what counts is how much of X_jj survives as the
 * Cholesky pivot of column j (docs/theory/products.md, 6). The spectrum of the small triangular
 * product comes from the bidiagonal SVD, whose error is absolute (u·σ₁); where the small values
 * matter, the same product goes through preconditioned one-sided Jacobi, whose error is relative to
 * the product as it was rounded. That of the Grams is rounded absolutely (u·σ₁), that of the
 * careful route unit by unit.
 */
#include "linalg/spectrum.h"

#include "base/memory.h"
#include "linalg/blas.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* A pivot below this part of its diagonal entry has lost half of its digits to cancellation. */
static const double LEAST_PIVOT = 1e-8;
/* Below this ratio σ_k/σ₁ the bidiagonal SVD's absolute error is no longer small for σ_k: Jacobi
 * instead. */
static const double LEAST_RATIO = 1e-5;
/* Agreement of tr(XY) with Σσ², relative. */
static const double CHECK = 1e-12;

static bool is_zero(const double *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (x[i] != 0.0) return false;
    return true;
}

static void clear_lower(double *x, int64_t r)
{
    for (int64_t i = 1; i < r; i++)
        memset(x + i * r, 0, (size_t)i * sizeof *x);
}

/* Row-major upper is column-major lower, which LAPACK factors as X = L Lᵀ with L = Uᵀ. */
bool rs_gram_triangle(double *x, const double *gram, int64_t r)
{
    if (LAPACKE_dpotrf_work(LAPACK_COL_MAJOR, 'L', (lapack_int)r, x, (lapack_int)r) != 0)
        return false;
    for (int64_t i = 0; i < r; i++) {
        double pivot = x[i * r + i] * x[i * r + i];
        if (!(pivot > LEAST_PIVOT * gram[i * r + i])) return false;
    }
    clear_lower(x, r);
    return true;
}

/* Singular values of a column-major rows×cols matrix (rows >= cols) to high relative accuracy,
 * descending. LAPACK's dgejsv (Drmač & Veselić 2008): a pivoted QR preconditions one-sided Jacobi.
 * matrix is overwritten. */
static rs_status jacobi(double *sigma, double *matrix, int64_t rows, int64_t cols, rs_error *err)
{
    if (rows > INT32_MAX || cols > INT32_MAX / 8)
        return rs_fail(err, RS_E_UNSUPPORTED, "singular values", NULL,
                       "a factor of %lld columns is too wide", (long long)cols);
    int64_t work_size = 2 * rows + cols > 4 * cols + 1 ? 2 * rows + cols : 4 * cols + 1;
    if (work_size < 7) work_size = 7;
    work_size += 64 * cols;
    double *work = rs_malloc((size_t)work_size, sizeof *work);
    lapack_int *integers = rs_malloc((size_t)(rows + 3 * cols + 3), sizeof *integers);
    rs_status status = RS_OK;
    if (!work || !integers) {
        status = rs_fail_memory(err, "singular values", (size_t)work_size * sizeof *work);
    } else {
        lapack_int info =
            LAPACKE_dgejsv_work(LAPACK_COL_MAJOR, 'C', 'N', 'N', 'N', 'N', 'N', (lapack_int)rows,
                                (lapack_int)cols, matrix, (lapack_int)rows, sigma, NULL, 1, NULL, 1,
                                work, (lapack_int)work_size, integers);
        double scale = work[0] / work[1];
        if (info != 0)
            status = rs_fail(err, RS_E_LAPACK, "singular values", NULL, "dgejsv gave up (info %d)",
                             (int)info);
        else
            for (int64_t i = 0; i < cols; i++)
                sigma[i] *= scale;
    }
    rs_free(work);
    rs_free(integers);
    return status;
}

size_t rs_gram_work(int64_t r)
{
    return (size_t)(3 * r * r + 80 * r + 80); /* covers r² + r + rs_eigenvalue_work(r), too */
}

/* U_X U_Yᵀ of X = U_XᵀU_X and Y = U_YᵀU_Y: with A = Q_A U_X and B = Q_B U_Y it has the singular
 * values of A Bᵀ. False where a Gram is not safely positive definite. uy: [r, r] scratch. */
static bool small_product(double *product, const double *x, const double *y, int64_t r, double *uy)
{
    size_t square = (size_t)(r * r);
    memcpy(product, x, square * sizeof *x);
    memcpy(uy, y, square * sizeof *y);
    if (!rs_gram_triangle(product, x, r) || !rs_gram_triangle(uy, y, r)) return false;
    /* upper times lower */
    cblas_dtrmm(CblasRowMajor, CblasRight, CblasUpper, CblasTrans, CblasNonUnit, (blasint)r,
                (blasint)r, 1.0, uy, (blasint)r, product, (blasint)r);
    return true;
}

rs_status rs_gram_bidiagonal(rs_bidiagonal *out, rs_squares *all, bool *trusted, const double *x,
                             const double *y, double *work, rs_error *err)
{
    int64_t r = out->n;
    double *product = work, *uy = product + r * r, *lapack = uy + r * r;
    *trusted = true;
    if (is_zero(x, r * r) || is_zero(y, r * r)) {
        memset(out->d, 0, (size_t)r * sizeof *out->d);
        out->n = 0;
        return RS_OK;
    }
    *trusted = small_product(product, x, y, r, uy);
    if (*trusted) return rs_squares_add(all, out, product, lapack, err);
    out->n = 0;
    return RS_OK;
}

rs_status rs_gram_refine(double *sigma, bool *trusted, const double *x, const double *y,
                         double trace_xy, int64_t r, double *work, rs_error *err)
{
    if (r > 0 && sigma[r - 1] < LEAST_RATIO * sigma[0]) {
        small_product(work, x, y, r, work + r * r);
        RS_TRY(jacobi(sigma, work, r, r, err));
    }
    double sum = 0;
    for (int64_t i = 0; i < r; i++)
        sum += sigma[i] * sigma[i];
    *trusted = fabs(trace_xy - sum) <= CHECK * trace_xy;
    return RS_OK;
}

size_t rs_tridiagonalise_work(int64_t r)
{
    /* With less than n·32 dsytrd falls back to its unblocked form, at half the speed. */
    return (size_t)(33 * r);
}

rs_status rs_tridiagonalise(const rs_tridiagonal *out, double *x, double *work, rs_error *err)
{
    lapack_int n = (lapack_int)out->n, info = 0;
    if (n > 0)
        info = LAPACKE_dsytrd_work(LAPACK_COL_MAJOR, 'L', n, x, n, out->d, out->e, work, work + n,
                                   32 * n);
    if (info == 0) return RS_OK;
    return rs_fail(err, RS_E_LAPACK, "eigenvalues", NULL, "dsytrd gave up (info %d)", (int)info);
}

size_t rs_eigenvalue_work(int64_t r)
{
    return (size_t)r + rs_tridiagonalise_work(r) + rs_tridiagonal_work(0);
}

rs_status rs_symmetric_eigenvalues(double *eigenvalues, double *x, int64_t r, double *work,
                                   rs_error *err)
{
    rs_tridiagonal t = {.n = r, .d = eigenvalues, .e = work};
    RS_TRY(rs_tridiagonalise(&t, x, work + r, err));
    return rs_tridiagonal_eigenvalues(&t, 1, work + r, err);
}

void rs_gap_bracket(double bracket[2], const double *eigenvalues, int64_t r, double half_norm,
                    double nuclear_norm)
{
    double nuclear_q = 0;
    for (int64_t i = 0; i < r; i++)
        nuclear_q += fabs(eigenvalues[i]);
    double sum = half_norm + nuclear_norm;
    bracket[0] = sum > 0 ? nuclear_q * nuclear_q / (4.0 * sum) : 0.0;
    bracket[1] = 0.5 * nuclear_q;
}

/* ---- the careful route ---- */

/* Divides all by the largest magnitude and returns it (0 for a zero matrix): squares can then
 * neither overflow nor vanish. */
static double scale_to_unit(double *a, int64_t n)
{
    double largest = 0;
    for (int64_t i = 0; i < n; i++)
        if (fabs(a[i]) > largest) largest = fabs(a[i]);
    if (largest == 0 || !isfinite(largest)) return largest;
    int exponent;
    frexp(largest, &exponent);
    for (int64_t i = 0; i < n; i++)
        a[i] = ldexp(a[i], -exponent);
    return ldexp(1.0, exponent);
}

/* Row-major m×r to column-major m×r. */
static void to_columns(double *out, const double *a, int64_t m, int64_t r)
{
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < r; j++)
            out[j * m + i] = a[i * r + j];
}

/* Makes the columns of A (column-major) unit vectors and moves their norms into the columns of
 * B. */
static void move_scale(double *a, int64_t m, double *b, int64_t n, int64_t r)
{
    for (int64_t j = 0; j < r; j++) {
        double norm = cblas_dnrm2((blasint)m, a + j * m, 1);
        if (norm > 0) cblas_dscal((blasint)m, 1.0 / norm, a + j * m, 1);
        cblas_dscal((blasint)n, norm, b + j * n, 1);
    }
}

/* The upper trapezoid of a column-major factorised matrix (m rows, leading k = min(m, r) kept),
 * zeros below. out: k×r. */
static void upper_part(double *out, const double *qr, int64_t m, int64_t r, int64_t k)
{
    for (int64_t j = 0; j < r; j++)
        for (int64_t i = 0; i < k; i++)
            out[j * k + i] = i <= j ? qr[j * m + i] : 0.0;
}

/*
 * A Bᵀ with A's columns unit: B = Q_B R_B Πᵀ (pivoted), A Π = Q_A R_A, so that A Bᵀ = Q_A (R_A
 * R_Bᵀ) Q_Bᵀ. R_B's rows fall off in size, hence R_A R_Bᵀ has graded columns, which one-sided
 * Jacobi resolves to high relative accuracy as long as no units are nearly parallel (test_spectrum,
 * against mpmath). a: m×r, b: n×r column-major, overwritten; work as laid
 * out by the caller.
 */
static rs_status product_svd(double *sigma, double *a, int64_t m, double *b, int64_t n, int64_t r,
                             double *work, lapack_int *pivots, rs_error *err)
{
    int64_t ka = m < r ? m : r, kb = n < r ? n : r;
    double *tau = work, *ra = tau + r, *rb = ra + ka * r, *product = rb + kb * r,
           *lapack = product + ka * kb;
    lapack_int lapack_size = (lapack_int)(66 * r + 64);
    memset(pivots, 0, (size_t)r * sizeof *pivots);
    lapack_int info = LAPACKE_dgeqp3_work(LAPACK_COL_MAJOR, (lapack_int)n, (lapack_int)r, b,
                                          (lapack_int)n, pivots, tau, lapack, lapack_size);
    upper_part(rb, b, n, r, kb);
    LAPACKE_dlapmt_work(LAPACK_COL_MAJOR, 1, (lapack_int)m, (lapack_int)r, a, (lapack_int)m,
                        pivots);
    if (info == 0)
        info = LAPACKE_dgeqrf_work(LAPACK_COL_MAJOR, (lapack_int)m, (lapack_int)r, a, (lapack_int)m,
                                   tau, lapack, lapack_size);
    if (info != 0)
        return rs_fail(err, RS_E_LAPACK, "singular values", NULL, "QR gave up (info %d)",
                       (int)info);
    upper_part(ra, a, m, r, ka);
    /* The larger side first: dgejsv wants rows >= cols. */
    if (ka >= kb) {
        cblas_dgemm(CblasColMajor, CblasNoTrans, CblasTrans, (blasint)ka, (blasint)kb, (blasint)r,
                    1.0, ra, (blasint)ka, rb, (blasint)kb, 0.0, product, (blasint)ka);
        return jacobi(sigma, product, ka, kb, err);
    }
    cblas_dgemm(CblasColMajor, CblasNoTrans, CblasTrans, (blasint)kb, (blasint)ka, (blasint)r, 1.0,
                rb, (blasint)kb, ra, (blasint)ka, 0.0, product, (blasint)kb);
    return jacobi(sigma, product, kb, ka, err);
}

rs_status rs_factor_spectrum(double *sigma, double *a, int64_t m, double *b, int64_t n, int64_t r,
                             rs_error *err)
{
    int64_t k = m < n ? m : n;
    if (r < k) k = r;
    memset(sigma, 0, (size_t)k * sizeof *sigma);
    if (k == 0) return RS_OK;
    double scale_a = scale_to_unit(a, m * r), scale_b = scale_to_unit(b, n * r);
    if (scale_a == 0 || scale_b == 0) return RS_OK;
    if (!isfinite(scale_a) || !isfinite(scale_b))
        return rs_fail(err, RS_E_INTERNAL, "singular values", NULL, "a factor is not finite");
    int64_t ka = m < r ? m : r, kb = n < r ? n : r;
    size_t work_size = (size_t)(r + ka * r + kb * r + ka * kb + 66 * r + 64);
    double *columns_a = rs_malloc((size_t)m, (size_t)r * sizeof(double));
    double *columns_b = rs_malloc((size_t)n, (size_t)r * sizeof(double));
    double *work = rs_malloc(work_size, sizeof *work);
    lapack_int *pivots = rs_malloc((size_t)r, sizeof *pivots);
    rs_status status;
    if (!columns_a || !columns_b || !work || !pivots) {
        status =
            rs_fail_memory(err, "singular values", (size_t)(m + n) * (size_t)r * sizeof(double));
    } else {
        to_columns(columns_a, a, m, r);
        to_columns(columns_b, b, n, r);
        move_scale(columns_a, m, columns_b, n, r);
        status = product_svd(sigma, columns_a, m, columns_b, n, r, work, pivots, err);
    }
    for (int64_t i = 0; i < k; i++)
        sigma[i] = sigma[i] * scale_a * scale_b;
    rs_free(columns_a);
    rs_free(columns_b);
    rs_free(work);
    rs_free(pivots);
    return status;
}
