/* bounds.c: the inequalities of docs/certificates.md. */
#include "proof/bounds.h"

#include "linalg/norm_bounds.h"
#include "linalg/vector.h"

#include <float.h>
#include <math.h>
#include <string.h>

const rs_bound_constants rs_bounds_exact = {
    .range_share = 0.25,
    .published_factor = 4,
    .published_range = 1.256,
    .perturbation_factor = 1,
    .norm_factor = 1,
    .centre_factor = 2,
    .lipschitz = {[RS_ACT_LINEAR] = 1,
                  [RS_ACT_RELU] = 1,
                  [RS_ACT_GELU] = 1.12890415,
                  [RS_ACT_GELU_TANH] = 1.12899307,
                  [RS_ACT_QUICK_GELU] = 1.09983933,
                  [RS_ACT_SILU] = 1.09983933,
                  [RS_ACT_TANH] = 1,
                  [RS_ACT_RELU2] = (double)INFINITY,
                  [RS_ACT_SIN] = 1,
                  [RS_ACT_SIGMOID] = 0.25},
};

/* ---- softmax ---- */

void rs_tv_bound_ball(arb_t out, const arb_t range, const rs_bound_constants *c)
{
    arb_t share;
    arb_init(share);
    rs_ball_set(share, c->range_share);
    arb_mul(share, share, range, RS_BALL_BITS);
    rs_ball_keep_upper(share);
    if (!arb_is_finite(share) || arf_cmp_d(arb_midref(share), 40) > 0)
        arb_one(out); /* tanh < 1 */
    else if (arf_cmpabs_2exp_si(arb_midref(share), -60) < 0)
        arb_set(out, share); /* tanh x ≤ x */
    else
        arb_tanh(out, share, RS_BALL_BITS);
    arb_clear(share);
}

double rs_perturbation_constant(double range, const rs_bound_constants *c)
{
    /* K(ρ) ≤ 2 (1 + 7.5e-13) there: what rs_recursion_bound is raised by covers it (C10) */
    if (range < 1e-12) return 2 * c->perturbation_factor;
    return c->perturbation_factor * (expm1(range) / range + expm1(2 * range) / (2 * range));
}

/* ---- τ ---- */

static bool empty_row(const double *row, int64_t n)
{
    for (int64_t j = 0; j < n; j++)
        if (row[j] != 0) return false;
    return true;
}

/* TV(i, i') ≤ TV(i, mean) + TV(i', mean): pairs that cannot beat the best are not looked at. */
void rs_mixing_contraction_of(rs_mixing_contraction *out, const double *m, const double *p,
                              int64_t n, int64_t keys, int64_t ld, double *distance, double *mean)
{
    if (!p) p = m;
    *out = (rs_mixing_contraction){0};
    memset(mean, 0, (size_t)keys * sizeof *mean);
    int64_t rows = 0, far = -1;
    for (int64_t i = 0; i < n; i++) {
        distance[i] = 0;
        if (empty_row(p + i * ld, keys)) {
            distance[i] = -1;
            out->empty_rows++;
            continue;
        }
        rows++;
        for (int64_t j = 0; j < keys; j++)
            mean[j] += m[i * ld + j];
    }
    if (rows < 2) return;
    for (int64_t j = 0; j < keys; j++)
        mean[j] /= (double)rows;
    double most = -1;
    for (int64_t i = 0; i < n; i++) {
        if (distance[i] < 0) continue;
        /* a little more than computed: the test below must never lose the largest pair. 1e-9 covers
         * two sums over up to 2²² keys, 1e-15 what of their terms underflows (C10). */
        distance[i] = 0.5 * rs_distance_1(m + i * ld, mean, keys) * (1 + 1e-9) + 1e-15;
        if (isnan(distance[i])) { /* a state that is not finite */
            out->tau = NAN;
            return;
        }
        if (distance[i] > most) most = distance[i], far = i;
    }
    for (int64_t k = 0; k < n; k++) { /* the farthest row first: a good bar to begin with */
        int64_t i = k == 0 ? far : k - 1 < far ? k - 1 : k;
        if (distance[i] < 0) continue;
        for (int64_t j = k == 0 ? 0 : i + 1; j < n; j++) {
            if (j == i || distance[j] < 0 || distance[i] + distance[j] <= out->tau) continue;
            double tv = 0.5 * rs_distance_1(m + i * ld, m + j * ld, keys);
            if (!(tv <= out->tau)) out->tau = tv;
        }
    }
}

/* ---- one layer, upwards ---- */

/* Upper bound of what one head's mixing leaves of a distance. */
static void head_share(arb_t out, const arb_t square, const rs_head_bound *head,
                       const rs_bound_constants *c)
{
    bool bilinear = !isnan(head->qk_norm), measured = !isnan(head->measured);
    arb_t other;
    arb_init(other);
    arb_pos_inf(out);
    if (bilinear) {
        rs_ball_set(other, head->qk_norm);
        arb_mul(other, other, square, RS_BALL_BITS);
        rs_tv_bound_ball(out, other, c);
        rs_ball_set(other, head->softmax);
        arb_mul(out, out, other, RS_BALL_BITS);
        rs_ball_set(other, head->identity);
        arb_add(out, out, other, RS_BALL_BITS);
    }
    if (measured) {
        rs_ball_set(other, head->measured);
        arb_min(out, out, other, RS_BALL_BITS);
    }
    arb_clear(other);
}

void rs_attention_bound_ball(arb_t out, const arb_t delta, const rs_head_bound *heads, int32_t n,
                             const rs_bound_constants *c)
{
    arb_t sum, share, norm, square;
    arb_init(sum);
    arb_init(share);
    arb_init(norm);
    arb_init(square);
    arb_mul(square, delta, delta, RS_BALL_BITS);
    for (int32_t h = 0; h < n; h++) {
        head_share(share, square, &heads[h], c);
        rs_ball_set(norm, heads[h].value_norm);
        arb_mul(share, share, norm, RS_BALL_BITS);
        arb_add(sum, sum, share, RS_BALL_BITS);
    }
    arb_mul(out, sum, delta, RS_BALL_BITS);
    rs_ball_keep_upper(out);
    arb_clear(square);
    arb_clear(norm);
    arb_clear(share);
    arb_clear(sum);
}

void rs_norm_bound_ball(arb_t out, const arb_t delta, double largest_gain, double least_std,
                        const rs_bound_constants *c)
{
    arb_t factor, std;
    arb_init(factor);
    arb_init(std);
    if (!(least_std > 0) || !isfinite(largest_gain)) {
        if (arb_is_zero(delta))
            arb_zero(out);
        else
            arb_pos_inf(out);
    } else {
        rs_ball_set(factor, largest_gain);
        rs_ball_set(std, c->norm_factor);
        arb_mul(factor, factor, std, RS_BALL_BITS);
        rs_ball_set(std, least_std);
        arb_div(factor, factor, std, RS_BALL_BITS);
        arb_mul(out, delta, factor, RS_BALL_BITS);
        rs_ball_keep_upper(out);
    }
    arb_clear(std);
    arb_clear(factor);
}

double rs_activation_most(rs_activation activation, double length)
{
    switch (activation) {
    case RS_ACT_RELU2:
        return length * length;
    case RS_ACT_TANH:
    case RS_ACT_SIN:
        return fmin(length, 1);
    case RS_ACT_SIGMOID:
        return 1;
    default:
        return length;
    }
}

double rs_mlp_lipschitz(const rs_mlp_bound *mlp, double longest, const rs_bound_constants *c)
{
    double slope = c->lipschitz[mlp->activation], up = 1 + 64 * DBL_EPSILON; /* of 6 (C10) */
    double inner = mlp->gated ? mlp->gate_row * longest + mlp->gate_bias
                              : mlp->up_row * longest + mlp->up_bias;
    /* relu(x)² has slope 2|x| on the tokens themselves: |a² − b²| ≤ (|a| + |b|)|a − b| */
    if (mlp->activation == RS_ACT_RELU2) slope = 2 * inner;
    if (!mlp->gated) return rs_times_up(rs_times_up(mlp->down_two, slope), mlp->up_two) * up;
    double value = rs_activation_most(mlp->activation, inner);
    double ups = mlp->up_row * longest + mlp->up_bias;
    double gated =
        rs_times_up(value, mlp->up_two) + rs_times_up(rs_times_up(slope, ups), mlp->gate_two);
    return rs_times_up(mlp->down_two, gated) * up;
}

/* ---- downwards ---- */

void rs_skip_lower_ball(arb_t lo, double skip, const arb_t factor)
{
    arb_t left;
    arb_init(left);
    rs_ball_set(left, fabs(skip));
    arb_sub(left, left, factor, RS_BALL_BITS);
    rs_ball_keep_lower(left);
    if (arb_is_positive(left)) {
        arb_mul(lo, lo, left, RS_BALL_BITS);
        rs_ball_keep_lower(lo);
    } else {
        arb_zero(lo);
    }
    arb_clear(left);
}

/* ---- published ---- */

double rs_gamma_min(double sum_ranges, double largest_range, double scale, double residual_one,
                    double residual_inf, double qk_one)
{
    double below = 2 * residual_one * residual_inf * qk_one * scale;
    if (!(below > 0)) return NAN;
    return sqrt(sum_ranges) * sqrt(largest_range) / below;
}

double rs_published_layer(double log_r, double gamma, double beta, double heads, double scale,
                          double lipschitz, const rs_bound_constants *c)
{
    return log10(c->published_factor) + log10(gamma) + log10(beta) + log10(heads) + log10(scale) +
           log10(lipschitz) + 3 * log_r;
}

double rs_published_depth(double log_r, double log_factor, int64_t layers)
{
    double power = pow(3, (double)layers);
    if (log_factor == 0) return power * log_r;
    /* Together first: the two may be infinite with opposite signs while their sum is plain. */
    return power * (log_r + 0.5 * log_factor) - 0.5 * log_factor;
}

/* ---- recursion ---- */

/* log10(a + b·10^t), a, b ≥ 0. */
static double log_sum(double a, double b, double t)
{
    if (b == 0) return log10(a);
    double second = log10(b) + t;
    if (a == 0) return second;
    double first = log10(a), most = fmax(first, second);
    return most + log10(1 + pow(10, fmin(first, second) - most));
}

double rs_recursion_bound(double log_q, const rs_recursion_step *step, const rs_bound_constants *c)
{
    double one = 0, inf = 0, q = log_q < 300 ? pow(10, log_q) : (double)INFINITY;
    for (int32_t h = 0; h < step->n_heads; h++) {
        const rs_head_sums *head = &step->heads[h];
        double range = 2 * head->qk_one * q;
        if (!isnan(head->range)) range = fmin(range, head->range);
        one += rs_perturbation_constant(range, c) * rs_times_up(head->qk_one, head->w_one);
        inf += rs_times_up(head->qk_one, head->w_inf);
    }
    if (!isfinite(one)) return INFINITY;
    double next = log_q + log_sum(step->skip, rs_times_up(step->scale, one), log_q) +
                  log_sum(step->skip, rs_times_up(step->scale, inf), log_q) + log10(step->mlp_one) +
                  log10(step->mlp_inf);
    return isfinite(next) ? next + 1e-12 * (10 + fabs(log_q) + fabs(next)) : next;
}

double rs_centre_factor(int64_t n, const rs_bound_constants *c)
{
    return c->centre_factor * (1 - 1 / (double)n);
}
