/* certify_attention.c: what certificates need of a head: how far its mixing contracts, the ranges
 * of its logits, its second eigenvalue. */
#include "certify/certify_gather.h"

#include "linalg/krylov.h"
#include "linalg/vector.h"
#include "network/op_traits.h"

#include <float.h>
#include <math.h>
#include <string.h>

static const double U = DBL_EPSILON / 2;

/* |λ₂| of a mixing matrix: its eigenvectors but 1 (row sums are 1). Causal: the second largest
 * entry of the diagonal, whose first is 1. */
static double second_eigenvalue(const rs_attention_view *view, double *work)
{
    const double *m = view->mixing;
    int64_t n = view->n;
    double second = 0;
    if (view->causal) {
        for (int64_t i = 1; i < n; i++)
            second = fmax(second, fabs(m[i * view->ld + i]));
        return second;
    }
    if (view->ld != n || n < 2) return NAN;
    rs_workspace space = {.base = (unsigned char *)work};
    double *ones = rs_workspace_doubles(&space, n);
    for (int64_t i = 0; i < n; i++)
        ones[i] = 1 / sqrt((double)n);
    rs_eigenvalue found = {0};
    rs_largest_eigenvalue(&found, NULL, m, n, ones, 1e-8, &space);
    return found.converged ? found.modulus : NAN;
}

static size_t eigen_bytes(int64_t n)
{
    rs_workspace space = {0};
    (void)rs_workspace_doubles(&space, n);
    rs_krylov_space(n, &space);
    return space.used;
}

/* Whether a linear law may apply: no skip around the mixer, and logits that do not depend on the
 * tokens alone. */
static bool wants_second(const rs_branch *branch)
{
    const rs_attention_op *op = rs_branch_plain_attention(branch);
    return op && branch->skip == 0 && !op->cross &&
           (op->causal || op->window > 0 || op->rope.kind != RS_ROPE_NONE ||
            op->relative.r.weight || op->distance_bias);
}

void rs_certify_mean_logits(double *mean, const rs_attention_view *view)
{
    int64_t n = view->n, keys = view->keys;
    memset(mean, 0, (size_t)keys * sizeof *mean);
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < keys; j++)
            mean[j] += ((const double *)view->logits)[i * view->ld + j];
    for (int64_t j = 0; j < keys; j++)
        mean[j] /= (double)n;
}

static double largest_logit(const rs_attention_view *view)
{
    double largest = 0;
    for (int64_t i = 0; i < view->n; i++)
        for (int64_t j = 0; j < view->keys; j++)
            largest = fmax(largest, fabs(((const double *)view->logits)[i * view->ld + j]));
    return largest;
}

/* Ranges of E_ij = A_ij − mean_i A_ij − what row i shares: about the mean token, E = R W_QK Rᵀ.
 * mean: workspace of the keys, as many as queries. */
static void ranges(rs_certify_head *head, double *mean, const rs_attention_view *view)
{
    int64_t n = view->n;
    rs_certify_mean_logits(mean, view);
    head->range = head->sum_ranges = 0;
    /* of two entries less their means */
    head->range_error = 4 * rs_gamma((double)n + 8) * largest_logit(view);
    for (int64_t i = 0; i < n; i++) {
        const double *row = (const double *)view->logits + i * view->ld;
        double low = row[0] - mean[0], high = low;
        for (int64_t j = 1; j < n; j++) {
            double e = row[j] - mean[j];
            low = e < low ? e : low;
            high = e > high ? e : high;
        }
        head->sum_ranges += high - low;
        head->range = fmax(head->range, high - low);
    }
}

/* ‖RP‖_F rounded up, R = I − 11ᵀ/n: no less than the spectral norm. mean: workspace of the keys. */
static double centred_norm(const rs_attention_view *view, double *mean)
{
    double total = 0;
    memset(mean, 0, (size_t)view->keys * sizeof *mean);
    for (int64_t i = 0; i < view->n; i++)
        for (int64_t j = 0; j < view->keys; j++)
            mean[j] += ((const double *)view->mixing)[i * view->ld + j] / (double)view->n;
    for (int64_t i = 0; i < view->n; i++)
        total += rs_distance_squared((const double *)view->mixing + i * view->ld, mean, view->keys);
    /* the mean errs by (n + 2) u of numbers of at most 1; about any centre the sum is no less, so
     * that the last term is room for the roundings here and in what is added to it (C10) */
    return sqrt(total * (1 + rs_gamma((double)(view->n + view->keys)))) * (1 + 4 * U) +
           rs_gamma((double)view->n) * sqrt((double)view->keys);
}

static double frobenius(const rs_attention_view *view)
{
    double total = 0;
    for (int64_t i = 0; i < view->n; i++) {
        const double *row = (const double *)view->mixing + i * view->ld;
        total += rs_dot(row, row, view->keys);
    }
    return sqrt(total);
}

/* Whether the logits are a bilinear form of the tokens but for which of them the mask shows. */
static bool bilinear_unmasked(const rs_branch *branch)
{
    rs_branch bare = *branch;
    if (!rs_branch_plain_attention(branch)) return false;
    bare.attention.causal = false;
    bare.attention.window = 0;
    return !rs_branch_traits(&bare)->not_bilinear(&bare);
}

/* Three rows of keys, and what the eigenvalues need behind them. */
size_t rs_certify_head_bytes(int64_t n)
{
    return 3 * (size_t)n * sizeof(double) + 64 + eigen_bytes(n);
}

void rs_certify_head_of(rs_certify_head *out, int64_t *empty_rows, const rs_branch *branch,
                        const rs_attention_view *view, double *room)
{
    int64_t most = view->n > view->keys ? view->n : view->keys;
    double *distance = room, *mean = distance + most, *row = mean + most, *work = row + most;
    rs_mixing_contraction found;
    rs_mixing_contraction_of(&found, view->mixing, view->probabilities, view->n, view->keys,
                             view->ld, distance, mean);
    *empty_rows = found.empty_rows;
    *out = (rs_certify_head){.tau = found.tau,
                             .range = NAN,
                             .sum_ranges = NAN,
                             .second = NAN,
                             .centred = centred_norm(view, mean),
                             .frobenius = frobenius(view)};
    if (view->n > 0 && view->n == view->keys && view->logits && bilinear_unmasked(branch))
        ranges(out, row, view);
    if (wants_second(branch))
        out->second = second_eigenvalue(view, (double *)(((uintptr_t)work + 63) & ~(uintptr_t)63));
}
