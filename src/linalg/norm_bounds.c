/* norm_bounds.c: spectral norms bounded from above by verified factorisations. */
#include "linalg/norm_bounds.h"

#include "base/memory.h"
#include "linalg/blas.h"
#include "linalg/krylov.h"
#include "linalg/vector.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* Unit roundoff, and the largest error of an operation that underflows. */
static const double U = DBL_EPSILON / 2, TINY = DBL_MIN * DBL_EPSILON;

/* A result of a few operations on numbers that are not negative, moved up past their roundings: up
 * to 125 of them (docs/certificates.md, C10). */
static double up(double x)
{
    return x * (1 + 64 * DBL_EPSILON);
}

double rs_gamma(double k)
{
    double ku = (k + 2) * U; /* two more: for the roundings of this very line */
    return ku < 1 ? ku / (1 - ku) : (double)INFINITY;
}

double rs_times_up(double a, double b)
{
    return a > 0 && b > 0 ? nextafter(a * b, (double)INFINITY) : a * b;
}

/* 2^exponent·x, rounded up where the result leaves the normal doubles. */
static double rescaled(double x, int exponent)
{
    double result = ldexp(x, exponent);
    return ldexp(result, -exponent) == x ? result : nextafter(result, (double)INFINITY);
}

double rs_length_bound(const double *x, int64_t n)
{
    double most = 0;
    for (int64_t i = 0; i < n; i++) {
        if (!isfinite(x[i])) return INFINITY;
        most = fmax(most, fabs(x[i]));
    }
    if (most == 0) return 0;
    int exponent;
    (void)frexp(most, &exponent);
    double sum = 0;
    for (int64_t i = 0; i < n; i++) {
        double y = ldexp(x[i], -exponent);
        sum += y * y;
    }
    /* squares that underflowed: each less than TINY beside a sum of at least 1/4; 4u cover the root
     * and the product with 1 + γ (C10) */
    return rescaled(sqrt((sum + (double)n * TINY) * (1 + rs_gamma((double)n + 2))) * (1 + 4 * U),
                    exponent);
}

void rs_plain_bounds(rs_plain_norms *out, double *column_sums, const double *a, int64_t m,
                     int64_t n)
{
    double fro = 0, grow = 1 + rs_gamma((double)m + (double)n);
    *out = (rs_plain_norms){0};
    memset(column_sums, 0, (size_t)n * sizeof *column_sums);
    for (int64_t i = 0; i < m; i++) {
        double row = 0, length = rs_length_bound(a + i * n, n);
        for (int64_t j = 0; j < n; j++) {
            row += fabs(a[i * n + j]);
            column_sums[j] += fabs(a[i * n + j]);
        }
        out->inf = fmax(out->inf, row);
        out->longest_row = fmax(out->longest_row, length);
        fro = hypot(fro, length) * (1 + 4 * U); /* hypot is within 2u (C10) */
    }
    for (int64_t j = 0; j < n; j++)
        out->one = fmax(out->one, column_sums[j]);
    out->inf *= grow;
    out->one *= grow;
    out->fro = fro;
}

/* ---- the largest eigenvalue of a positive semidefinite matrix ---- */

typedef struct room {
    double *copy, *vector;
    rs_workspace krylov;
} room;

static size_t krylov_bytes(int64_t n)
{
    rs_workspace space = {0};
    rs_krylov_space(n, &space);
    return space.used;
}

static rs_status open_room(room *r, int64_t n, rs_error *err)
{
    size_t bytes = krylov_bytes(n);
    *r = (room){.copy = rs_malloc((size_t)n * (size_t)n, sizeof(double)),
                .vector = rs_malloc((size_t)n, sizeof(double)),
                .krylov = {.base = rs_malloc(1, bytes)}};
    if (r->copy && r->vector && r->krylov.base) return RS_OK;
    return rs_fail_memory(err, "spectral norm", (size_t)n * (size_t)n * sizeof(double));
}

static void close_room(room *r)
{
    rs_free(r->copy);
    rs_free(r->vector);
    rs_free(r->krylov.base);
}

static double trace(const double *s, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += s[i * n + i];
    return sum;
}

/* Whether c I − S has a Cholesky factor; then *beyond is how far above c an eigenvalue can be. */
static bool below(double *beyond, const double *s, double c, int64_t n, double *copy)
{
    double total = 0, most = 0;
    for (int64_t i = 0; i < n * n; i++)
        copy[i] = -s[i];
    for (int64_t i = 0; i < n; i++) {
        double d = c - s[i * n + i]; /* rounds by at most U·max(c, s_ii), counted below */
        copy[i * n + i] = d;
        most = fmax(most, fmax(c, s[i * n + i]));
        total += fabs(d);
    }
    if (LAPACKE_dpotrf_work(LAPACK_COL_MAJOR, 'L', (lapack_int)n, copy, (lapack_int)n) != 0)
        return false;
    double gamma = rs_gamma((double)n + 2);
    *beyond = up(gamma / (1 - gamma) * total * (1 + gamma) + 2 * U * most +
                 4 * (double)n * (double)n * TINY);
    return true;
}

/* Certified: λ_max(S) ≤ the result, S: n×n, symmetric, as stored, and positive semidefinite up to
 * what the caller adds. */
static double top_eigenvalue(const double *s, int64_t n, room *r)
{
    /* what is tried; below() proves it or does not */
    static const double steps[] = {2e-11, 1e-9, 1e-7, 1e-5, 1e-3, 0.1};
    double all = up(trace(s, n) * (1 + rs_gamma((double)n))), beyond;
    if (!(all > 0)) return 0;
    rs_singular found = {0};
    rs_workspace space = r->krylov;
    rs_largest_singular(&found, r->vector, s, n, NULL, false, 1e-12, &space);
    for (size_t i = 0; i < sizeof steps / sizeof *steps && found.sigma > 0; i++) {
        double c = found.sigma * (1 + steps[i]);
        if (c >= all) break;
        if (below(&beyond, s, c, n, r->copy)) return fmin(all, up(c + beyond));
    }
    return all; /* the trace holds without any eigenvalue found */
}

/* ---- Grams ---- */

/* The power of two that brings the largest entry of a into [1/2, 1): 2^-exponent. False: an entry
 * is not finite. */
static bool exponent_of(int *exponent, const double *a, int64_t count)
{
    double most = 0;
    for (int64_t i = 0; i < count; i++) {
        if (!isfinite(a[i])) return false;
        most = fmax(most, fabs(a[i]));
    }
    *exponent = 0;
    if (most > 0) (void)frexp(most, exponent);
    return true;
}

static bool all_zero(const double *a, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        if (a[i] != 0) return false;
    return true;
}

static double *scaled(const double *a, int64_t count, int exponent)
{
    double *copy = rs_malloc((size_t)count, sizeof *copy);
    for (int64_t i = 0; copy && i < count; i++)
        copy[i] = ldexp(a[i], -exponent);
    return copy;
}

/* s = T Tᵀ (rows) or TᵀT of the short side, both triangles; T: m×n. Returns the side. */
static int64_t short_gram(double *s, const double *t, int64_t m, int64_t n)
{
    bool rows = m <= n;
    int64_t side = rows ? m : n;
    cblas_dsyrk(CblasRowMajor, CblasUpper, rows ? CblasNoTrans : CblasTrans, (blasint)side,
                (blasint)(rows ? n : m), 1, t, (blasint)n, 0, s, (blasint)side);
    for (int64_t i = 0; i < side; i++)
        for (int64_t j = 0; j < i; j++)
            s[i * side + j] = s[j * side + i];
    return side;
}

/* ‖T‖_F² from the trace of its Gram, rounded up; and the most that the Gram's own rounding can move
 * an eigenvalue: the error of an entry is at most γ_len |t_i|·|t_j|, in the Frobenius norm
 * γ_len ‖T‖_F². */
static double gram_error(double *fro2, const double *s, int64_t side, int64_t len)
{
    double gamma = rs_gamma((double)len);
    *fro2 = up(trace(s, side) * (1 + rs_gamma((double)side)) / (1 - gamma) +
               (double)side * (double)len * TINY);
    return up(gamma * *fro2 + (double)side * (double)len * TINY);
}

rs_status rs_spectral_bound(double *bound, const double *a, int64_t m, int64_t n, rs_error *err)
{
    int exponent;
    int64_t side = m < n ? m : n, len = m < n ? n : m;
    *bound = 0;
    if (side == 0 || all_zero(a, m * n)) return RS_OK;
    if (!exponent_of(&exponent, a, m * n)) {
        *bound = INFINITY;
        return RS_OK;
    }
    room r = {0};
    double *t = scaled(a, m * n, exponent);
    double *s = rs_malloc((size_t)side * (size_t)side, sizeof *s);
    rs_status status = t && s ? open_room(&r, side, err)
                              : rs_fail_memory(err, "spectral norm", (size_t)(m * n) * sizeof *t);
    if (status == RS_OK) {
        double fro2, error;
        (void)short_gram(s, t, m, n);
        error = gram_error(&fro2, s, side, len);
        double top = up(top_eigenvalue(s, side, &r) + error);
        *bound = rescaled(up(sqrt(fmin(top, fro2))), exponent);
    }
    close_room(&r);
    rs_free(s);
    rs_free(t);
    return status;
}

/* ---- products of thin factors ---- */

typedef struct factors {
    double *a, *b, *ga, *gb, *work, *product;
    int ea, eb;
    int64_t r, m, n;
    room room;
} factors;

static rs_status open_factors(factors *f, const double *a, const double *b, rs_error *err)
{
    size_t square = (size_t)f->r * (size_t)f->r;
    f->a = scaled(a, f->r * f->m, f->ea);
    f->b = scaled(b, f->r * f->n, f->eb);
    f->ga = rs_malloc(square, sizeof(double));
    f->gb = rs_malloc(square, sizeof(double));
    f->work = rs_malloc(square, sizeof(double));
    f->product = rs_malloc((size_t)f->m * (size_t)f->n, sizeof(double));
    if (!f->a || !f->b || !f->ga || !f->gb || !f->work || !f->product)
        return rs_fail_memory(err, "norms of a product",
                              (size_t)f->m * (size_t)f->n * sizeof(double));
    return open_room(&f->room, f->r, err);
}

static void close_factors(factors *f)
{
    close_room(&f->room);
    rs_free(f->a);
    rs_free(f->b);
    rs_free(f->ga);
    rs_free(f->gb);
    rs_free(f->work);
    rs_free(f->product);
}

/* g = T Tᵀ for T: r×len. */
static void row_gram(double *g, const double *t, int64_t r, int64_t len)
{
    cblas_dsyrk(CblasRowMajor, CblasUpper, CblasNoTrans, (blasint)r, (blasint)len, 1, t,
                (blasint)len, 0, g, (blasint)r);
    for (int64_t i = 0; i < r; i++)
        for (int64_t j = 0; j < i; j++)
            g[i * r + j] = g[j * r + i];
}

/* L (row-major lower, zeros above) with G_A ≤ L Lᵀ + loss·I as forms; false: no factor,
 * use norms. */
static bool lower_factor(double *l, double *loss, const double *g, int64_t r)
{
    memcpy(l, g, (size_t)r * (size_t)r * sizeof *l);
    /* any shift is right: G ≤ G + shift·I; this one lets the factorisation run to its end */
    double shift = 8 * rs_gamma((double)r + 2) * trace(g, r) + DBL_MIN;
    for (int64_t i = 0; i < r; i++)
        l[i * r + i] += shift; /* upwards but for one rounding each, counted in loss */
    double most = 0, total = 0;
    for (int64_t i = 0; i < r; i++)
        most = fmax(most, l[i * r + i]), total += l[i * r + i];
    /* Column-major upper is row-major lower. */
    if (LAPACKE_dpotrf_work(LAPACK_COL_MAJOR, 'U', (lapack_int)r, l, (lapack_int)r) != 0)
        return false;
    for (int64_t i = 0; i < r; i++)
        for (int64_t j = i + 1; j < r; j++)
            l[i * r + j] = 0;
    double gamma = rs_gamma((double)r + 2);
    *loss = up(gamma / (1 - gamma) * total * (1 + gamma) + 2 * U * most +
               4 * (double)r * (double)r * TINY);
    return true;
}

/* Certified ‖AᵀB‖₂² from the Grams: λ_max(Bᵀ G_A B) ≤ λ_max(Lᵀ G_B L) + loss·λ_max(G_B). */
static double product_top(factors *f, double top_a, double top_b, double error_a, double error_b)
{
    int64_t r = f->r;
    double loss, plain = up(top_a * top_b);
    double *l = f->work;
    if (!lower_factor(l, &loss, f->ga, r)) return plain;
    double total = 0; /* ‖L‖_F² */
    for (int64_t i = 0; i < r * r; i++)
        total += l[i] * l[i];
    total = up(total * (1 + rs_gamma((double)r * (double)r)));
    double gamma = rs_gamma(2 * (double)r + 2), fro_b = up(trace(f->gb, r) * (1 + gamma));
    /* S = Lᵀ (G_B L), rounded twice: the error of an entry is within γ |L|ᵀ|G_B||L|. */
    double *s = f->ga; /* the Gram itself is not needed any more */
    memcpy(s, l, (size_t)r * (size_t)r * sizeof *s);
    double *t = f->product; /* m·n ≥ r²: the factors are thin */
    cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, (blasint)r, (blasint)r, (blasint)r, 1,
                f->gb, (blasint)r, l, (blasint)r, 0, t, (blasint)r);
    cblas_dgemm(CblasRowMajor, CblasTrans, CblasNoTrans, (blasint)r, (blasint)r, (blasint)r, 1, l,
                (blasint)r, t, (blasint)r, 0, s, (blasint)r);
    for (int64_t i = 0; i < r; i++)
        for (int64_t j = 0; j < i; j++)
            s[i * r + j] = s[j * r + i] = 0.5 * (s[i * r + j] + s[j * r + i]);
    double rounding = up(2 * gamma * total * fro_b + 8 * (double)r * (double)r * TINY);
    double top = top_eigenvalue(s, r, &f->room) + rounding;
    top = up(top + (loss + error_a) * top_b + total * error_b);
    return fmin(top, plain);
}

/* Largest absolute column and row sums of the product itself. */
static void sums_of_product(rs_product_norms *out, factors *f)
{
    int64_t m = f->m, n = f->n, r = f->r;
    cblas_dgemm(CblasRowMajor, CblasTrans, CblasNoTrans, (blasint)m, (blasint)n, (blasint)r, 1,
                f->a, (blasint)m, f->b, (blasint)n, 0, f->product, (blasint)n);
    double *columns = f->b; /* r·n ≥ n numbers that are not needed any more */
    rs_plain_norms plain;
    /* Rounding of the product: |error| ≤ γ_r |A|ᵀ|B| entry by entry, so a column or row sum is off
     * by at most γ_r √m ‖A‖_F ‖B‖_F (√n for rows). */
    double off = up(rs_gamma((double)r) * out->left_fro * out->right_fro +
                    (double)m * (double)n * (double)r * TINY);
    rs_plain_bounds(&plain, columns, f->product, m, n);
    out->one = up(plain.one + off * sqrt((double)m));
    out->inf = up(plain.inf + off * sqrt((double)n));
}

rs_status rs_product_bounds(rs_product_norms *out, const double *a, const double *b, int64_t r,
                            int64_t m, int64_t n, rs_error *err)
{
    factors f = {.r = r, .m = m, .n = n};
    *out = (rs_product_norms){0};
    if (r == 0 || m == 0 || n == 0) return RS_OK;
    if (!exponent_of(&f.ea, a, r * m) || !exponent_of(&f.eb, b, r * n)) {
        *out = (rs_product_norms){INFINITY, INFINITY, INFINITY, INFINITY,
                                  INFINITY, INFINITY, INFINITY};
        return RS_OK;
    }
    rs_status status = open_factors(&f, a, b, err);
    if (status == RS_OK) {
        double fro_a, fro_b;
        row_gram(f.ga, f.a, r, m);
        row_gram(f.gb, f.b, r, n);
        double error_a = gram_error(&fro_a, f.ga, r, m), error_b = gram_error(&fro_b, f.gb, r, n);
        double top_a = fmin(fro_a, up(top_eigenvalue(f.ga, r, &f.room) + error_a));
        double top_b = fmin(fro_b, up(top_eigenvalue(f.gb, r, &f.room) + error_b));
        bool thin = r <= m && r <= n;
        double top = thin ? product_top(&f, top_a, top_b, error_a, error_b) : up(top_a * top_b);
        out->left_fro = up(sqrt(fro_a));
        out->right_fro = up(sqrt(fro_b));
        sums_of_product(out, &f);
        int both = f.ea + f.eb;
        out->two = rescaled(up(sqrt(top)), both);
        out->one = rescaled(out->one, both);
        out->inf = rescaled(out->inf, both);
        out->left_two = rescaled(up(sqrt(top_a)), f.ea);
        out->right_two = rescaled(up(sqrt(top_b)), f.eb);
        out->left_fro = rescaled(out->left_fro, f.ea);
        out->right_fro = rescaled(out->right_fro, f.eb);
        /* A zero factor gives exactly zero, not what underflow allows. */
        if (all_zero(a, r * m)) out->left_two = out->left_fro = out->two = out->one = out->inf = 0;
        if (all_zero(b, r * n))
            out->right_two = out->right_fro = out->two = out->one = out->inf = 0;
    }
    close_factors(&f);
    return status;
}
