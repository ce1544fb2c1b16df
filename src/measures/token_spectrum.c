/*
 * token_spectrum.c: the measures that need the singular values of X.
 *
 * Route. Eigenvalues of the Gram matrix of the short side, in float64: an eigenvalue carries an
 * absolute error of a few k·eps·λ₁. Two things need more than that and get it.
 *
 *  - The rank-1 residual of a nearly collapsed X. When the eigenvalues below the first sum to less
 *    than DEFLATE λ₁, the first singular pair is taken out of the matrix itself, E = X − (Xv)vᵀ,
 *    twice, so that only the rounding of X's entries is left (1e-16 relative); ‖E‖_F is the
 *    residual and the Gram matrix of E gives σ₂, … with errors relative to σ₂.
 *  - The small singular values, in the effective rank and beside the threshold of the numerical
 *    rank. Each σ_i is known to min(√err, err/σ_i), err = 2k·eps·λ₁: when that could move the
 *    effective rank by more than 1e-7 relative (float32 data; 1e-9 for float64 data), or put a
 *    value on the other side of the threshold, all of them come from the bidiagonal SVD of X
 *    (dgesdd), whose absolute error is a few eps·σ₁.
 */
#include "linalg/blas.h"
#include "linalg/vector.h"
#include "measures/token_matrix.h"

#include <float.h>
#include <math.h>
#include <string.h>

#define DEFLATE 1e-4
/* Power iterations for the first singular vector of a matrix with λ₂ ≤ DEFLATE λ₁: each gains four
 * digits. */
enum { POWER_STEPS = 6 };

typedef struct spectrum {
    const rs_token_matrix *x;
    int64_t k;      /* min(n, d) */
    double *matrix; /* [n, d] X, then what is left of it */
    double *gram;   /* [k, k] */
    double *sigma;  /* [k] ascending eigenvalues, then descending singular values */
    double *u, *v;  /* [n], [d] */
    double *work;
    lapack_int *integers;
    lapack_int work_size;
    double error; /* bound on the error of an eigenvalue of `gram` */
    double tail;  /* Σ_{i≥2} σ_i² */
} spectrum;

/* Largest of LAPACK's answers to "how much workspace", or −1 when it does not fit. */
static lapack_int work_size(int64_t n, int64_t d, int64_t k)
{
    double eigen = 0, svd = 0, unused = 0;
    lapack_int none = 0, kk = (lapack_int)k;
    LAPACKE_dsyev_work(LAPACK_COL_MAJOR, 'N', 'L', kk, &unused, kk, &unused, &eigen, -1);
    LAPACKE_dgesdd_work(LAPACK_COL_MAJOR, 'N', (lapack_int)d, (lapack_int)n, &unused, (lapack_int)d,
                        &unused, &unused, 1, &unused, 1, &svd, -1, &none);
    double most = fmax(eigen, svd);
    return most >= 1 && most < (double)INT32_MAX ? (lapack_int)most : -1;
}

static void take_spectrum(spectrum *s, int64_t n, int64_t d, rs_workspace *space)
{
    int64_t k = n < d ? n : d;
    s->k = k;
    s->work_size = work_size(n, d, k);
    s->matrix = rs_workspace_take(space, (size_t)n, (size_t)d * sizeof *s->matrix);
    s->gram = rs_workspace_take(space, (size_t)k, (size_t)k * sizeof *s->gram);
    s->sigma = rs_workspace_doubles(space, k);
    s->u = rs_workspace_doubles(space, n);
    s->v = rs_workspace_doubles(space, d);
    s->integers = rs_workspace_take(space, (size_t)k, 8 * sizeof *s->integers);
    s->work = rs_workspace_take(space, s->work_size < 0 ? SIZE_MAX : (size_t)s->work_size,
                                sizeof *s->work);
}

void rs_token_spectrum_space(int64_t n, int64_t d, rs_workspace *space)
{
    spectrum s;
    take_spectrum(&s, n, d, space);
}

static rs_status lapack_failed(rs_error *err, const char *routine, lapack_int info,
                               const spectrum *s)
{
    return rs_fail(err, RS_E_LAPACK, routine, NULL, "returned %d on a token matrix of %lld x %lld",
                   (int)info, (long long)s->x->n, (long long)s->x->d);
}

static void load_rows(spectrum *s)
{
    for (int64_t i = 0; i < s->x->n; i++)
        rs_token_matrix_row(s->matrix + i * s->x->d, s->x, i);
}

/* Ascending eigenvalues of the Gram matrix of the short side of `matrix`, in sigma. */
static rs_status gram_eigenvalues(spectrum *s, rs_error *err)
{
    blasint n = (blasint)s->x->n, d = (blasint)s->x->d, k = (blasint)s->k;
    bool wide = n <= d;
    cblas_dsyrk(CblasRowMajor, CblasUpper, wide ? CblasNoTrans : CblasTrans, k, wide ? d : n, 1,
                s->matrix, d, 0, s->gram, k);
    /* Row-major upper is column-major lower. */
    lapack_int info = LAPACKE_dsyev_work(LAPACK_COL_MAJOR, 'N', 'L', k, s->gram, k, s->sigma,
                                         s->work, s->work_size);
    if (info != 0) return lapack_failed(err, "dsyev", info, s);
    s->error = 2 * (double)k * DBL_EPSILON * s->sigma[k - 1];
    return RS_OK;
}

static double normalise_vector(double *a, int64_t n)
{
    double norm = sqrt(rs_dot(a, a, n));
    for (int64_t i = 0; norm > 0 && i < n; i++)
        a[i] /= norm;
    return norm;
}

static void multiply(double *u, const spectrum *s, const double *v)
{
    for (int64_t i = 0; i < s->x->n; i++)
        u[i] = rs_dot(s->matrix + i * s->x->d, v, s->x->d);
}

static void multiply_transposed(double *v, const spectrum *s, const double *u)
{
    int64_t d = s->x->d;
    memset(v, 0, (size_t)d * sizeof *v);
    for (int64_t i = 0; i < s->x->n; i++) {
        const double *row = s->matrix + i * d;
        for (int64_t k = 0; k < d; k++)
            v[k] += u[i] * row[k];
    }
}

/* matrix −= (matrix v) vᵀ. */
static void take_out(spectrum *s)
{
    int64_t d = s->x->d;
    for (int64_t i = 0; i < s->x->n; i++) {
        double *row = s->matrix + i * d;
        double weight = rs_dot(row, s->v, d);
        for (int64_t k = 0; k < d; k++)
            row[k] -= weight * s->v[k];
    }
}

/* v: the first right singular vector, by power iteration from the longest row, which cannot be
 * orthogonal to it when the rest is small. Then matrix = E and the tail's eigenvalues. */
static rs_status deflate(spectrum *s, rs_error *err)
{
    int64_t d = s->x->d, longest = 0;
    double top = -1;
    for (int64_t i = 0; i < s->x->n; i++) {
        const double *row = s->matrix + i * d;
        double square = rs_dot(row, row, d);
        if (square > top) longest = i;
        top = square > top ? square : top;
    }
    memcpy(s->v, s->matrix + longest * d, (size_t)d * sizeof *s->v);
    normalise_vector(s->v, d);
    for (int step = 0; step < POWER_STEPS; step++) {
        multiply(s->u, s, s->v);
        normalise_vector(s->u, s->x->n);
        multiply_transposed(s->v, s, s->u);
        normalise_vector(s->v, d);
    }
    /* The second time removes what the rounding of the first projection and of v left. */
    take_out(s);
    take_out(s);
    double first = s->sigma[s->k - 1];
    RS_TRY(gram_eigenvalues(s, err));
    /* E has one singular value less: the smallest of its k is no more than rounding. */
    memmove(s->sigma, s->sigma + 1, (size_t)(s->k - 1) * sizeof *s->sigma);
    s->sigma[s->k - 1] = first;
    s->tail = rs_dot(s->matrix, s->matrix, s->x->n * d);
    return RS_OK;
}

/* sigma: descending singular values from ascending eigenvalues. */
static void take_roots(double *sigma, int64_t k)
{
    for (int64_t i = 0, j = k - 1; i <= j; i++, j--) {
        double small = fmax(sigma[i], 0), large = fmax(sigma[j], 0);
        sigma[i] = sqrt(large);
        sigma[j] = sqrt(small);
    }
}

static double total_of(const spectrum *s)
{
    return rs_sum(s->sigma, s->k);
}

/* Whether the Gram route's errors could be seen in the ranks. */
static bool trusted(const spectrum *s, double epsilon, double threshold)
{
    double tolerance = epsilon > 1e-10 ? 1e-7 : 1e-9;
    double total = total_of(s), shift = 0;
    for (int64_t i = 0; i < s->k; i++) {
        double sigma = s->sigma[i], error = fmin(sqrt(s->error), s->error / (2 * sigma));
        /* d(−p ln p) is about |ln p| dp; a value that is nothing but error counts with its
         * error. */
        double p = fmax(sigma, error) / total;
        shift += error / total * (1 - log(p));
        if (fabs(sigma * sigma - threshold * threshold) <= s->error) return false;
    }
    return shift <= tolerance;
}

/* All singular values of X, descending, by the bidiagonal SVD. */
static rs_status direct_route(spectrum *s, rs_error *err)
{
    lapack_int n = (lapack_int)s->x->n, d = (lapack_int)s->x->d;
    double unused = 0;
    load_rows(s);
    lapack_int info =
        LAPACKE_dgesdd_work(LAPACK_COL_MAJOR, 'N', d, n, s->matrix, d, s->sigma, &unused, 1,
                            &unused, 1, s->work, s->work_size, s->integers);
    return info == 0 ? RS_OK : lapack_failed(err, "dgesdd", info, s);
}

static void ranks(rs_token_measures *out, const spectrum *s, double threshold)
{
    double first = s->sigma[0], total = total_of(s), fourth = 0, entropy = 0, count = 0;
    for (int64_t i = 0; i < s->k; i++) {
        double t = s->sigma[i] / first, p = s->sigma[i] / total;
        if (i > 0) fourth += t * t * t * t;
        if (p > 0) entropy -= p * log(p);
        count += s->sigma[i] > threshold;
    }
    double tail = s->tail / (first * first);
    out->rank1_residual = sqrt(tail / (1 + tail));
    out->stable_rank = 1 + tail;
    out->stable_rank_gram = 1 + fourth;
    out->effective_rank = exp(entropy);
    out->numerical_rank = count;
    out->nuclear_norm = total / s->x->scale;
}

/* What a singular value must exceed to count. */
static double threshold_of(const spectrum *s, const rs_token_options *options)
{
    double sides = (double)(s->x->n > s->x->d ? s->x->n : s->x->d);
    if (options->threshold > 0) return options->threshold * s->x->scale;
    return sides * 2 * options->epsilon * s->sigma[0];
}

rs_status rs_token_spectrum(rs_token_measures *out, const rs_token_matrix *x,
                            const rs_token_options *options, rs_workspace *space, rs_error *err)
{
    spectrum s = {.x = x};
    take_spectrum(&s, x->n, x->d, space);
    load_rows(&s);
    RS_TRY(gram_eigenvalues(&s, err));
    for (int64_t i = 0; i + 1 < s.k; i++)
        s.tail += fmax(s.sigma[i], 0);
    if (s.k > 1 && s.tail < DEFLATE * s.sigma[s.k - 1]) RS_TRY(deflate(&s, err));
    take_roots(s.sigma, s.k);
    double threshold = threshold_of(&s, options);
    if (!trusted(&s, options->epsilon, threshold)) {
        RS_TRY(direct_route(&s, err));
        threshold = threshold_of(&s, options);
    }
    ranks(out, &s, threshold);
    return RS_OK;
}
