/*
 * lambda_fixed.c: the S-lemma for a fixed mixing matrix (statement L28).
 *
 * With T = λI + wM, R = I − J and J = 11ᵀ/n, the share a is kept by every x with ‖Jx‖ ≤ κ‖Rx‖ where
 * some τ ≥ 0 makes (RT)ᵀ(RT) + τJ − (a² + τκ²)R positive semidefinite; for one column that is
 * necessary as well. Along 1/√n and a basis of what is orthogonal to it, with (RT)ᵀ(RT) made of the
 * blocks c, b and A, the largest a² of a τ is λ_min(A − bbᵀ/(τ + c)) − τκ². The best τ is looked for
 * in computed numbers; then a Cholesky factor proves the matrix to be positive for a² a little less.
 */
#include "proof/lambda_fixed.h"

#include "base/memory.h"
#include "linalg/blas.h"
#include "linalg/norm_bounds.h"
#include "proof/lambda_span.h"

#include <float.h>
#include <inttypes.h>
#include <stddef.h>

static const double U = DBL_EPSILON / 2, TINY = DBL_MIN * DBL_EPSILON;

/* The problem, T scaled by a power of two to entries below 1. */
typedef struct fixed {
    int64_t n;
    double kappa;
    double *gram;   /* [n, n] (RT)ᵀ(RT) as computed */
    double *room;   /* [n, n] */
    double *poles;  /* [n−1] eigenvalues of A, ascending */
    double *weight; /* [n−1] squares of b along its eigenvectors */
    double *vector; /* [n] */
    double corner;  /* c */
    double trace;
    double off;   /* the computed Gram matrix is so far from the exact one (Frobenius) */
    int exponent; /* T is 2^exponent times what is here */
} fixed;

/* ---- the Gram matrix ---- */

/* T into `room`. False: it is 0, or leaves the doubles. */
static bool set_matrix(fixed *f, const rs_lambda_scalar_layer *layer)
{
    int64_t n = f->n;
    double largest = 0;
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n; j++) {
            double t = layer->value * layer->mixing[i * layer->ld + j];
            largest = fmax(largest, fabs(t) + (i == j ? fabs(layer->lambda) : 0));
            f->room[i * n + j] = i == j ? t + layer->lambda : t;
        }
    if (!(largest > 1e-280) || !(largest < 1e280)) return false;
    (void)frexp(largest, &f->exponent);
    for (int64_t i = 0; i < n * n; i++)
        f->room[i] = ldexp(f->room[i], -f->exponent);
    return true;
}

/* Takes from each column of T its mean. Entries of T are off by 3u, as none of their parts is larger
 * than 1; a mean by γ of one. */
static void centre(fixed *f)
{
    int64_t n = f->n;
    for (int64_t j = 0; j < n; j++) {
        double mean = 0;
        for (int64_t i = 0; i < n; i++)
            mean += f->room[i * n + j] / (double)n;
        for (int64_t i = 0; i < n; i++)
            f->room[i * n + j] -= mean;
    }
}

static void set_gram(fixed *f)
{
    int64_t n = f->n;
    blasint m = (blasint)n;
    centre(f);
    cblas_dgemm(CblasRowMajor, CblasTrans, CblasNoTrans, m, m, m, 1, f->room, m, f->room, m, 0,
                f->gram, m);
    f->trace = 0;
    for (int64_t i = 0; i < n; i++) {
        f->trace += f->gram[i * n + i];
        for (int64_t j = 0; j < i; j++) /* one of two numbers that are alike but for rounding */
            f->gram[j * n + i] = f->gram[i * n + j];
    }
    /* ‖RT‖_F² is the trace but for rounding; each of n² entries is off by 3u + γ_{n+4} + u */
    double root = sqrt(f->trace) * (1 + rs_gamma((double)n + 8));
    double entries = (double)n * (8 * U + rs_gamma((double)n + 4)) * (1 + 1e-12);
    f->off = (2 * root * entries + entries * entries + rs_gamma((double)n + 2) * root * root) *
                 (1 + 1e-12) +
             (double)n * (double)n * 2 * TINY;
}

/* ---- the best multiplier, in computed numbers ---- */

/* room: HGH with the reflection H = I − vvᵀ that takes 1/√n to the first coordinate. */
static void reflect(fixed *f)
{
    int64_t n = f->n;
    double root = sqrt((double)n), length = sqrt(1 + 1 / root), *v = f->vector, *g = f->room;
    for (int64_t i = 0; i < n; i++)
        v[i] = (1 / root + (i == 0)) / length;
    for (int64_t i = 0; i < n * n; i++)
        g[i] = f->gram[i];
    for (int turn = 0; turn < 2; turn++)
        for (int64_t i = 0; i < n; i++) {
            double *row = g + (turn ? i * n : i), along = 0;
            int64_t step = turn ? 1 : n;
            for (int64_t j = 0; j < n; j++)
                along += row[j * step] * v[j];
            for (int64_t j = 0; j < n; j++)
                row[j * step] -= along * v[j];
        }
}

/* c, the eigenvalues of A and what b is along its eigenvectors. */
static rs_status diagonalise(fixed *f, rs_error *err)
{
    int64_t n = f->n, m = n - 1;
    reflect(f);
    f->corner = fmax(f->room[0], 0);
    for (int64_t i = 0; i < m; i++)
        f->vector[i] = f->room[i + 1];
    double *a = f->room + n + 1;
    if (LAPACKE_dsyev(LAPACK_COL_MAJOR, 'V', 'U', (lapack_int)m, a, (lapack_int)n, f->poles) != 0)
        return rs_fail(err, RS_E_LAPACK, "S-lemma", NULL,
                       "eigenvalues of a matrix of %" PRId64 " tokens were not found", n);
    for (int64_t k = 0; k < m; k++) {
        double along = 0;
        for (int64_t i = 0; i < m; i++)
            along += a[k * n + i] * f->vector[i];
        f->weight[k] = along * along;
    }
    return RS_OK;
}

/* λ_min(A − bbᵀ/(τ + c)): the root of 1 = Σ b_k²/((τ + c)(λ_k − x)) below all poles. */
static double least_eigenvalue(const fixed *f, double tau)
{
    double scale = tau + f->corner, total = 0;
    for (int64_t k = 0; k < f->n - 1; k++)
        total += f->weight[k];
    if (total == 0) return f->poles[0];
    if (!(scale > 0)) return -(double)INFINITY; /* c is rounding, where b is not */
    double high = f->poles[0], low = high - total / scale;
    for (int i = 0; i < 100; i++) {
        double middle = low + (high - low) / 2, sum = 0;
        if (!(middle > low && middle < high)) break;
        for (int64_t k = 0; k < f->n - 1; k++)
            sum += f->weight[k] / (f->poles[k] - middle);
        if (sum > scale)
            high = middle;
        else
            low = middle;
    }
    return low;
}

/* What has to be taken from a² for a factor of F to prove it: F as computed is so far from F, and
 * one with a factor has no eigenvalue below −γ/(1 − γ) of its trace. */
static double slack_of(const fixed *f, double tau, double beta)
{
    double n = (double)f->n, gamma = rs_gamma(n + 2), size = fabs(tau) + fabs(beta);
    double total = f->trace + size * (n + 1);
    double off = f->off + 8 * U * (f->trace + size * (sqrt(n) + 1)) +
                 gamma / (1 - gamma) * total * (1 + gamma);
    return (off + 4 * n * n * TINY) * (1 + 1e-12) * (1 + f->kappa * f->kappa);
}

static double square_of(const fixed *f, double tau)
{
    double square = least_eigenvalue(f, tau) - tau * f->kappa * f->kappa;
    return square - slack_of(f, tau, square + tau * f->kappa * f->kappa);
}

/* The τ of the largest a²: 0, or by golden section over its logarithm. */
static double best_multiplier(const fixed *f)
{
    static const double golden = 0.6180339887498949;
    double low = log(f->trace * 1e-18), high = log(f->trace * 1e12);
    double a = high - golden * (high - low), b = low + golden * (high - low);
    double at_a = square_of(f, exp(a)), at_b = square_of(f, exp(b));
    for (int i = 0; i < 90; i++) {
        bool left = at_a > at_b;
        if (left)
            high = b, b = a, at_b = at_a;
        else
            low = a, a = b, at_a = at_b;
        if (left)
            a = high - golden * (high - low), at_a = square_of(f, exp(a));
        else
            b = low + golden * (high - low), at_b = square_of(f, exp(b));
    }
    double tau = exp(low + (high - low) / 2);
    return square_of(f, tau) > square_of(f, 0) ? tau : 0;
}

/* ---- the proof ---- */

/* Whether F with this a² has a Cholesky factor. */
static bool has_factor(const fixed *f, double tau, double beta)
{
    int64_t n = f->n;
    double common = (tau + beta) / (double)n;
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n; j++)
            f->room[i * n + j] = f->gram[i * n + j] + common - (i == j ? beta : 0);
    return LAPACKE_dpotrf_work(LAPACK_COL_MAJOR, 'L', (lapack_int)n, f->room, (lapack_int)n) == 0;
}

/* a² from below; 0: nothing was proved. Along 1/√n F is c + τ, which is rounding where T is nearly a
 * multiple of I: τ grows with what is taken from a². */
static double proved_square(const fixed *f)
{
    static const double less[] = {1e-15, 1e-14, 1e-13, 1e-12, 1e-11, 1e-9, 1e-7, 1e-5, 1e-3, 1e-1};
    double best = best_multiplier(f), most = 0; /* what was proved so far */
    for (size_t i = 0; i < sizeof less / sizeof *less; i++) {
        double tau = best + less[i] * f->trace;
        double beta = least_eigenvalue(f, tau) - less[i] * f->trace;
        if (!isfinite(beta) || !has_factor(f, tau, beta)) continue;
        /* beta is what was proved: its own rounding is undone on the way back; 8u of three */
        double left = beta * (1 - 8 * U) - rs_up(rs_up(tau * f->kappa) * f->kappa);
        double proved = left - slack_of(f, tau, beta) - 8 * U * fabs(left);
        if (proved < most) break;
        most = proved;
    }
    return most;
}

/* ---- the whole ---- */

static rs_status open_fixed(fixed *f, rs_error *err)
{
    size_t n = (size_t)f->n, square;
    if (f->n < 1 || !rs_size_mul(n, n, &square))
        return rs_fail(err, RS_E_INTERNAL, "S-lemma", NULL, "a matrix of %" PRId64 " tokens", f->n);
    f->gram = rs_malloc(square, sizeof *f->gram);
    f->room = rs_malloc(square, sizeof *f->room);
    f->poles = rs_malloc(3 * n, sizeof *f->poles);
    if (!f->gram || !f->room || !f->poles)
        return rs_fail_memory(err, "S-lemma", 2 * square * sizeof *f->gram);
    f->weight = f->poles + n;
    f->vector = f->weight + n;
    return RS_OK;
}

static rs_status kept_by(double *kept, fixed *f, const rs_lambda_scalar_layer *layer, rs_error *err)
{
    *kept = 0;
    RS_TRY(open_fixed(f, err));
    if (f->n < 2 || !set_matrix(f, layer)) return RS_OK;
    set_gram(f);
    if (!(f->trace > 0)) return RS_OK;
    RS_TRY(diagonalise(f, err));
    double root = sqrt(proved_square(f)) * (1 - 4 * U);
    *kept = fmax(0, rs_down(ldexp(root, f->exponent)));
    return RS_OK;
}

rs_status rs_lambda_fixed_kept(rs_lambda_number *out, const rs_lambda_scalar_layer *layer,
                               double kappa, rs_error *err)
{
    fixed f = {.n = layer->n, .kappa = kappa};
    double kept = 0;
    RS_TRY(rs_lambda_check_scalar(layer, err));
    if (!(kappa >= 0) || !isfinite(kappa))
        return rs_fail(err, RS_E_INPUT_FORMAT, "tokens", NULL, "a mean share of %g", kappa);
    rs_status status = kept_by(&kept, &f, layer, err);
    rs_free(f.gram);
    rs_free(f.room);
    rs_free(f.poles);
    RS_TRY(status);
    kept *= rs_lambda_constant_factor(RS_LAMBDA_FIXED_MIXING);
    *out = (rs_lambda_number){kept, true, NULL};
    return RS_OK;
}

/* A computed mean row is off by γ of ‖X‖_F/√n. */
rs_status rs_lambda_mean_share(double *kappa, const rs_lambda_layer *layer,
                               const rs_lambda_facts *facts, rs_error *err)
{
    int64_t n = layer->n, d = layer->d;
    double *mean = rs_malloc((size_t)d, sizeof *mean), all = 0;
    if (!mean) return rs_fail_memory(err, "the mean of the tokens", (size_t)d * sizeof *mean);
    for (int64_t j = 0; j < d; j++) {
        mean[j] = 0;
        for (int64_t i = 0; i < n; i++)
            mean[j] += layer->input[i * layer->input_ld + j] / (double)n;
    }
    for (int64_t i = 0; i < n; i++)
        all = hypot(all, rs_length_bound(layer->input + i * layer->input_ld, d)) * (1 + 8 * U);
    double root = sqrt((double)n) * (1 + 2 * U);
    double length = root * rs_length_bound(mean, d) + rs_gamma((double)n + 4) * all;
    double spread = rs_down(rs_down(facts->diversity * sqrt((double)n * (double)d) * (1 - 2 * U)));
    rs_free(mean);
    *kappa = spread > 0 ? length * (1 + 16 * U) / spread * (1 + 4 * U) + 1e-290 : (double)INFINITY;
    if (isnan(*kappa)) *kappa = INFINITY;
    return RS_OK;
}
