/* certify_radius.c: the steps of a branch with radii: norms, gates, activations and decays
 * (docs/certificates.md, C11). */
#include "certify/certify_radius.h"

#include "engine/dense_matrix.h"
#include "linalg/norm_bounds.h"
#include "linalg/vector.h"
#include "proof/bounds.h"

/* A sum of n terms by vector.h runs in sixteen chains of n/16 additions, which four more join, and
 * up to fifteen for what is left over; with the product and a few operations behind it (C10). */
static double gamma_of(int64_t n)
{
    return rs_gamma((n > 256 ? (double)n / 16 : 16) + 12);
}

double rs_radius_length(const double *x, int64_t n)
{
    return sqrt(rs_dot(x, x, n)) * (1 + gamma_of(n)) + 1e-150;
}

rs_status rs_radius_room(double **out, rs_arena *arena, int64_t rows, int64_t cols, rs_error *err)
{
    size_t count = 0;
    bool fits = rs_size_mul((size_t)rows, (size_t)cols, &count);
    *out = fits ? rs_arena_alloc(arena, count ? count : 1, sizeof **out) : NULL;
    return *out ? RS_OK : rs_fail_memory(err, "rounding of a mixer", count * sizeof **out);
}

/* ---- norms ---- */

rs_status rs_radius_norm_open(rs_radius_norm *out, rs_arena *arena, const rs_norm_op *op,
                              bool biased, rs_error *err)
{
    *out = (rs_radius_norm){.kind = op->kind, .eps = op->eps};
    if (op->kind == RS_NORM_NONE) return RS_OK;
    RS_TRY(rs_radius_room(&out->gain, arena, op->dim, 1, err));
    if (biased && op->bias) RS_TRY(rs_radius_room(&out->bias, arena, op->dim, 1, err));
    rs_norm_vectors(out->gain, out->bias, op);
    return RS_OK;
}

static double largest_of(const double *x, int64_t n)
{
    double most = 0;
    for (int64_t k = 0; k < n; k++)
        most = fabs(x[k]) > most ? fabs(x[k]) : most;
    return most;
}

/* Centred rows are within `off` of the exact ones. x ↦ x/√(mean x² + ε) stretches by no more than 1
 * over the smaller of both stds, and the exact one is at least the computed one less off/√n, and √ε
 * (C9). */
static void divide_by_std(double *x, double *radius, int64_t n, const rs_radius_norm *norm,
                          int64_t first, double off)
{
    const double *gain = norm->gain + first, *bias = norm->bias ? norm->bias + first : NULL;
    double gamma = gamma_of(n), std = sqrt(rs_dot(x, x, n) / (double)n + norm->eps);
    double low = std * (1 - gamma) - off / sqrt((double)n) * RS_RADIUS_GROW;
    double least = sqrt(norm->eps) * (1 - 8 * RS_RADIUS_U);
    if (!(low > least)) low = least;
    for (int64_t k = 0; k < n; k++)
        x[k] = x[k] / std * gain[k] + (bias ? bias[k] : 0);
    /* squares of less underflow (C10) */
    bool known = low > 0 && std > 1e-140 && isfinite(std);
    double size = rs_radius_length(x, n) + (bias ? rs_radius_length(bias, n) : 0);
    off = largest_of(gain, n) * off / (low * (1 - 8 * RS_RADIUS_U));
    *radius = known ? (off + gamma * size) * RS_RADIUS_GROW + RS_RADIUS_TINY : (double)INFINITY;
}

void rs_radius_normalise(double *x, double *radius, int64_t n, const rs_radius_norm *norm,
                         int64_t first)
{
    double off = *radius;
    if (norm->kind == RS_NORM_NONE) return;
    if (norm->kind == RS_NORM_LAYERNORM) {
        double mean = rs_sum(x, n) / (double)n;
        /* |mean − its exact value| ≤ γ Σ|x|/n ≤ γ‖x‖/√n in each of n entries, and the subtraction */
        off += gamma_of(n) * rs_radius_length(x, n);
        for (int64_t k = 0; k < n; k++)
            x[k] -= mean;
    }
    divide_by_std(x, radius, n, norm, first, off);
}

/* ---- functions of one number ---- */

double rs_radius_behind_silu(double silu, double radius)
{
    return rs_bounds_exact.lipschitz[RS_ACT_SILU] * radius + RS_RADIUS_FUNCTION * fabs(silu) +
           RS_RADIUS_TINY;
}

double rs_radius_softplus(double *radius, double x)
{
    /* log1p(e^x) − x at 20, where the definition goes over from one to the other */
    static const double jump = 2.0612e-9;
    double e = x > 20 ? 0 : exp(x), y = x > 20 ? x : log1p(e), r = *radius, slope = 1;
    /* the derivative σ grows by no more than e^r ≤ 1 + 2r on the way */
    if (x <= 20 && r <= 0.5) slope = e / (1 + e) * (1 + 2 * r) * (1 + RS_RADIUS_FUNCTION);
    *radius = r * (slope < 1 ? slope : 1) + RS_RADIUS_FUNCTION * y + RS_RADIUS_TINY;
    if (fabs(x - 20) <= r * RS_RADIUS_GROW) *radius += jump;
    *radius *= RS_RADIUS_GROW;
    return y;
}

double rs_radius_behind_exp(double value, double l, double radius)
{
    /* e^ρ − 1 ≤ ρ + ρ² for ρ ≤ 1 */
    if (radius <= 1)
        return value * (radius * (1 + radius) + 2 * RS_RADIUS_FUNCTION) * RS_RADIUS_GROW +
               RS_RADIUS_TINY;
    double top = l + radius;
    return exp(top > 0 ? 0 : top) * RS_RADIUS_GROW + RS_RADIUS_TINY;
}

/* ---- gates ---- */

void rs_radius_gate(double *x, double *radius, int64_t n, const rs_radius_map *map, int64_t i,
                    int64_t first)
{
    const double *z = map->x + i * map->cols + first, *share = map->share + first;
    const double *own = map->own + first;
    double most = 0, side = 0, spread = map->spread[i];
    for (int64_t k = 0; k < n; k++) {
        double gate = rs_radius_silu(z[k]);
        double off = rs_radius_behind_silu(gate, spread * share[k] + own[k]);
        double size = fabs(gate) + off, moved = x[k] * off;
        if (!(size <= most)) most = size; /* a NaN of it is one of `side`, too */
        side += moved * moved;
        x[k] *= gate;
    }
    side = sqrt(side) * (1 + rs_gamma((double)n + 8)) + 1e-150;
    *radius = (*radius * most + side + 2 * RS_RADIUS_U * rs_radius_length(x, n)) * RS_RADIUS_GROW +
              RS_RADIUS_TINY;
}
