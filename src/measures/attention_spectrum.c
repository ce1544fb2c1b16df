/*
 * attention_spectrum.c: which spectrum comes by which route.
 *
 *  - σ₁, and σ₂ as the largest singular value on the complement of v₁, by Lanczos
 *    bidiagonalisation; ‖(I − 11ᵀ/n)A‖₂ likewise. When that does not converge: dgesdd.
 *  - Eigenvalues. A triangular matrix shows them on its diagonal. When all rows of A have the same
 *    sum s (s = 1: row-stochastic), 1 is an eigenvector, and the eigenvalues of C = (I − 11ᵀ/n)A
 *    are those of A with one s replaced by 0 (Wielandt's deflation;
 *    docs/theory/attention.md, 2): |λ₂| of a row-stochastic A is the spectral radius of C, whatever
 *    the multiplicities. Otherwise the two largest moduli of A, one after the other. By Arnoldi's
 *    method; when that does not converge: balancing, Hessenberg form and QR iteration of A.
 */
#include "measures/attention_spectrum.h"

#include "linalg/blas.h"
#include "linalg/krylov.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* How far the row sums of a softmax may be from one another in each precision: a sum of thousands
 * of rounded probabilities. */
#define SUMS_F32 1e-5
#define SUMS_F64 1e-12
/* Relative residual that ends an iteration: well below the rounding of float32 entries (6e-8 each,
 * of which a singular value or eigenvalue averages many). */
#define ACCURACY_F32 1e-9
#define ACCURACY_F64 1e-11

/* Below this size the direct route costs no more. */
enum { SMALL = 12 };
/* Keeps the factor that scales tiny matrices finite. */
enum { LARGEST_SCALE = 1000 };

typedef struct spectrum {
    const double *a, *sums;
    int64_t n;
    double *scratch; /* [n, n] (I − 11ᵀ/n)A, or what LAPACK destroys */
    double *vector;  /* [n] */
    double *values;  /* [2n] */
    double *work;
    lapack_int *integers;
    lapack_int work_size;
    double tolerance, accuracy;
    int exponent; /* of what centre_to_scratch left */
    rs_workspace rest;
} spectrum;

static lapack_int work_size(int64_t n)
{
    double svd = 0, hessenberg = 0, iteration = 0, unused = 0;
    lapack_int none = 0, m = (lapack_int)n;
    LAPACKE_dgesdd_work(LAPACK_COL_MAJOR, 'N', m, m, &unused, m, &unused, &unused, 1, &unused, 1,
                        &svd, -1, &none);
    LAPACKE_dgehrd_work(LAPACK_COL_MAJOR, m, 1, m, &unused, m, &unused, &hessenberg, -1);
    LAPACKE_dhseqr_work(LAPACK_COL_MAJOR, 'E', 'N', m, 1, m, &unused, m, &unused, &unused, &unused,
                        1, &iteration, -1);
    double most = fmax(svd, fmax(hessenberg, iteration));
    return most >= 1 && most < (double)INT32_MAX ? (lapack_int)most : -1;
}

static void take_spectrum(spectrum *s, int64_t n, rs_workspace *space)
{
    s->n = n;
    s->work_size = work_size(n);
    s->scratch = rs_workspace_take(space, (size_t)n, (size_t)n * sizeof *s->scratch);
    s->vector = rs_workspace_doubles(space, n);
    s->values = rs_workspace_doubles(space, 4 * n);
    s->integers = rs_workspace_take(space, (size_t)n, 8 * sizeof *s->integers);
    s->work = rs_workspace_take(space, s->work_size < 0 ? SIZE_MAX : (size_t)s->work_size,
                                sizeof *s->work);
}

void rs_attention_spectrum_space(int64_t n, rs_workspace *space)
{
    spectrum s;
    take_spectrum(&s, n, space);
    rs_krylov_space(n, space);
}

static void copy_to_scratch(spectrum *s)
{
    memcpy(s->scratch, s->a, (size_t)s->n * (size_t)s->n * sizeof *s->scratch);
}

/* to −= from, n entries. */
static void subtract(double *restrict to, const double *restrict from, int64_t n)
{
    for (int64_t j = 0; j < n; j++)
        to[j] -= from[j];
}

/*
 * scratch = 2^−e (I − 11ᵀ/n)A with its largest entry near 1; returns e. The mean is taken of the
 * differences from the first row, which are exact where rows are nearly equal (token_matrix.h).
 */
static int centre_to_scratch(spectrum *s)
{
    int64_t n = s->n;
    double *mean = s->values, top = 0;
    memset(mean, 0, (size_t)n * sizeof *mean);
    copy_to_scratch(s);
    for (int64_t i = 0; i < n; i++) {
        double *row = s->scratch + i * n;
        subtract(row, s->a, n);
        for (int64_t j = 0; j < n; j++)
            mean[j] += row[j];
    }
    for (int64_t j = 0; j < n; j++)
        mean[j] /= (double)n;
    for (int64_t i = 0; i < n; i++)
        subtract(s->scratch + i * n, mean, n);
    for (int64_t i = 0; i < n * n; i++)
        top = fabs(s->scratch[i]) > top ? fabs(s->scratch[i]) : top;
    if (!(top > 0)) return 0;
    int exponent = ilogb(top) < -LARGEST_SCALE ? -LARGEST_SCALE : ilogb(top);
    double factor = ldexp(1, -exponent);
    for (int64_t i = 0; i < n * n; i++)
        s->scratch[i] *= factor;
    return exponent;
}

/* The two largest singular values of the scratch matrix, which is destroyed. */
static bool direct_singular(double two[2], spectrum *s)
{
    lapack_int n = (lapack_int)s->n;
    double unused = 0;
    if (LAPACKE_dgesdd_work(LAPACK_COL_MAJOR, 'N', n, n, s->scratch, n, s->values, &unused, 1,
                            &unused, 1, s->work, s->work_size, s->integers) != 0)
        return false;
    two[0] = s->values[0];
    two[1] = n > 1 ? s->values[1] : 0;
    return true;
}

static bool two_singular(double two[2], spectrum *s)
{
    if (s->n > SMALL) {
        rs_singular first, second = {0};
        rs_workspace space = s->rest;
        rs_largest_singular(&first, s->vector, s->a, s->n, NULL, true, s->accuracy, &space);
        space = s->rest;
        if (first.converged)
            rs_largest_singular(&second, NULL, s->a, s->n, s->vector, false, s->accuracy, &space);
        two[0] = first.sigma;
        two[1] = second.sigma;
        if (first.converged && second.converged) return true;
    }
    copy_to_scratch(s);
    return direct_singular(two, s);
}

/* ‖(I − 11ᵀ/n)A‖₂²; leaves the matrix in scratch and its exponent in s. */
static bool centred_norm(double *squared, spectrum *s)
{
    rs_singular first;
    rs_workspace space = s->rest;
    double two[2];
    s->exponent = centre_to_scratch(s);
    rs_largest_singular(&first, NULL, s->scratch, s->n, NULL, false, s->accuracy, &space);
    two[0] = first.sigma;
    if (!first.converged) {
        if (!direct_singular(two, s)) return false;
        (void)centre_to_scratch(s);
    }
    two[0] = ldexp(two[0], s->exponent);
    *squared = two[0] * two[0];
    return true;
}

/* Whether all rows have the same sum. */
static bool same_sums(const spectrum *s)
{
    double low = s->sums[0], high = low;
    for (int64_t i = 1; i < s->n; i++) {
        low = fmin(low, s->sums[i]);
        high = fmax(high, s->sums[i]);
    }
    return high - low <= s->tolerance * fmax(1, fmax(fabs(low), fabs(high)));
}

/* The second largest magnitude of count values, counted with multiplicity. */
static double second_of(const double *real, const double *imaginary, int64_t count)
{
    double first = 0, second = 0;
    for (int64_t i = 0; i < count; i++) {
        double modulus = imaginary ? hypot(real[i], imaginary[i]) : fabs(real[i]);
        if (modulus > first) {
            second = first;
            first = modulus;
        } else if (modulus > second) {
            second = modulus;
        }
    }
    return second;
}

static bool triangular(const spectrum *s)
{
    int64_t n = s->n;
    bool lower = true, upper = true;
    for (int64_t i = 0; i < n && (lower || upper); i++) {
        const double *row = s->a + i * n;
        for (int64_t j = 0; j < i; j++)
            upper &= row[j] == 0;
        for (int64_t j = i + 1; j < n; j++)
            lower &= row[j] == 0;
    }
    return lower || upper;
}

/* |λ₂| by the route without short cuts. The eigenvalues of Aᵀ, which is what LAPACK sees, are those
 * of A. */
static bool direct_eigenvalues(double *second, spectrum *s)
{
    lapack_int n = (lapack_int)s->n, low = 1, high = n;
    double *real = s->values, *imaginary = real + n, *scale = imaginary + n, *tau = scale + n;
    double unused = 0;
    copy_to_scratch(s);
    if (LAPACKE_dgebal_work(LAPACK_COL_MAJOR, 'B', n, s->scratch, n, &low, &high, scale) != 0 ||
        LAPACKE_dgehrd_work(LAPACK_COL_MAJOR, n, low, high, s->scratch, n, tau, s->work,
                            s->work_size) != 0 ||
        LAPACKE_dhseqr_work(LAPACK_COL_MAJOR, 'E', 'N', n, low, high, s->scratch, n, real,
                            imaginary, &unused, 1, s->work, s->work_size) != 0)
        return false;
    *second = second_of(real, imaginary, n);
    return true;
}

/* The two largest moduli of `matrix`; the second only when `both`. */
static bool two_moduli(double two[2], spectrum *s, const double *matrix, bool both)
{
    rs_eigenvalue first, second = {0};
    rs_workspace space = s->rest;
    rs_largest_eigenvalue(&first, both ? s->vector : NULL, matrix, s->n, NULL, s->accuracy, &space);
    two[0] = two[1] = first.modulus;
    if (!first.converged || !both || first.imaginary != 0) return first.converged;
    space = s->rest;
    rs_largest_eigenvalue(&second, NULL, matrix, s->n, s->vector, s->accuracy, &space);
    two[1] = second.modulus;
    return second.converged;
}

/* |λ₂| of a matrix with constant row sums, from its centred form in scratch. */
static bool deflated(double *second, spectrum *s)
{
    double two[2], sum = ldexp(fabs(s->sums[0]), -s->exponent);
    if (!two_moduli(two, s, s->scratch, false)) return false;
    if (two[0] > sum) {
        if (!two_moduli(two, s, s->scratch, true)) return false;
        two[0] = fmax(two[1], sum);
    }
    *second = ldexp(two[0], s->exponent);
    return true;
}

static bool second_modulus(double *second, spectrum *s)
{
    int64_t n = s->n;
    if (triangular(s)) {
        for (int64_t i = 0; i < n; i++)
            s->values[i] = s->a[i * n + i];
        *second = second_of(s->values, NULL, n);
        return true;
    }
    if (n > SMALL) {
        double two[2];
        if (same_sums(s)) {
            if (deflated(second, s)) return true;
        } else if (two_moduli(two, s, s->a, true)) {
            *second = two[1];
            return true;
        }
    }
    return direct_eigenvalues(second, s);
}

void rs_attention_spectrum(rs_attention_measures *out, const double *a, int64_t n,
                           const double *sums, bool single, rs_workspace *space)
{
    spectrum s = {.a = a, .sums = sums};
    s.tolerance = single ? SUMS_F32 : SUMS_F64;
    s.accuracy = single ? ACCURACY_F32 : ACCURACY_F64;
    double two[2], squared, second;
    take_spectrum(&s, n, space);
    s.rest = *space;
    if (isnan(out->sigma1) && two_singular(two, &s)) {
        out->sigma1 = two[0];
        out->sigma2 = two[1];
    }
    if (isnan(out->sigma1)) out->converged = false;
    if (centred_norm(&squared, &s))
        out->centred_norm_squared = squared;
    else
        out->converged = false;
    if (second_modulus(&second, &s)) {
        out->lambda2 = second;
        out->spectral_gap = 1 - second;
        /* an eigenvalue 1 that came out a rounding above it */
        if (out->spectral_gap < 0 && out->spectral_gap > -1e-12) out->spectral_gap = 0;
    } else {
        out->converged = false;
    }
}
