/*
 * certify_deviation.c: how far exact arithmetic is from a computed pass (docs/certificates.md, C9).
 *
 * Bounds are sums of products of numbers that are not negative, so that evaluating one in float64
 * loses less than SLACK (docs/certificates.md, C10, which names the exception); products of BLAS
 * and of the engine's own kernels err by at most γ_k Σ|a||b| in whatever order they add, fused or
 * not.
 */
#include "certify/certify.h"

#include <float.h>
#include <math.h>

static const double U = DBL_EPSILON / 2, SLACK = 1 + 1e-12;

/* What underflow may take from the length of a row that an operation of the pass writes. */
static const double TINY = 1e-290;

/* An elementary function of the float64 engine (libm's exp, erfc, tanh, and what activations make
 * of them) is taken to err by at most this many units of roundoff of its argument or value: ten
 * times what glibc states for the worst of them. */
static const double FUNCTION = 64;

/* A bound of which nothing is known, ∞ − ∞ and 0·∞ where lengths leave the doubles, is none: NaN
 * would pass for 0 wherever it is asked whether a deviation is more than that. */
static double known(double bound)
{
    return isnan(bound) ? (double)INFINITY : bound;
}

double rs_deviation_norm(double *least_std, const rs_norm_site *site, double deviation)
{
    double d = (double)site->dim, root = sqrt(d), own = site->least_std * (1 - 4 * U);
    /* whatever the rows are, √ε is left under the root; the 4u of `own` cover ε/√d (C10) */
    double low = fmax(own - deviation / root, sqrt(site->epsilon)) * (1 - 4 * U);
    *least_std = low > 0 ? low : 0;
    if (!(low > 0) || !(own > 1e-140)) return INFINITY;    /* squares of less underflow (C10) */
    double centre = rs_gamma(d + 2) * site->longest / own; /* of the mean, in units of the std */
    double factor = rs_gamma(d + 12) + (centre / root) * (centre / root);
    double rounding = site->largest_gain * (2 * centre + factor * root) +
                      8 * U * (site->largest_gain * root + site->bias);
    /* no two normalised rows are further apart than their lengths */
    double apart = fmin(site->largest_gain * deviation / low, 2 * site->largest_gain * root);
    return known((apart + 2 * rounding) * SLACK);
}

double rs_deviation_diameter(double diameter, int64_t d, double deviation)
{
    /* either row of the farthest pair may have moved; squares of less than 1e-150 underflow; d + 8
     * roundings where there are d + 2, for those of this line (C10) */
    return diameter * (1 - rs_gamma((double)d + 8)) - 2.000001 * deviation - 1e-150;
}

/* ---- attention ---- */

typedef struct vector {
    double longest, deviation; /* of a head's queries, keys or values */
    double rounding;           /* the share of the deviation that its own map's rounding is */
} vector;

static vector mapped(double two, double fro, double bias, const rs_op_site *site)
{
    double longest = two * site->longest + bias;
    double rounding = rs_gamma((double)site->dim + 2) * (fro * site->longest + bias) + TINY;
    return (vector){longest + rounding, two * site->deviation + rounding, rounding};
}

/* The queries or keys of a head as their map gives them. */
static vector projected(const rs_head_norms *head, bool keys, const rs_op_site *site)
{
    return keys ? mapped(head->qk.right_two, head->qk.right_fro, head->k_bias, site)
                : mapped(head->qk.left_two, head->qk.left_fro, head->q_bias, site);
}

/* All heads side by side, as one QK-norm over the whole map reads them; keys are counted once for
 * each query head that shares them. */
static vector joined(const rs_branch_norms *norms, bool keys, const rs_op_site *site)
{
    vector sum = {0};
    for (int32_t h = 0; h < norms->n_heads; h++) {
        vector x = projected(&norms->heads[h], keys, site);
        sum.longest = hypot(sum.longest, x.longest);
        sum.deviation = hypot(sum.deviation, x.deviation);
    }
    return (vector){.longest = sum.longest * SLACK, .deviation = sum.deviation * SLACK};
}

/* Behind QK-norm: its rows are not tapped, but √ε is left under its root, and no row leaves it
 * longer than max|g|√dim (+ bias). */
static vector normed(vector x, const rs_norm_op *norm, const rs_gain_norms *gain)
{
    double low, least = sqrt(norm->eps) * (1 - 4 * U);
    rs_norm_site site = {gain->largest, gain->bias, least, x.longest, norm->dim, norm->eps};
    double deviation = rs_deviation_norm(&low, &site, x.deviation);
    double longest = (gain->largest * sqrt((double)norm->dim) + gain->bias) * SLACK + deviation;
    return (vector){.longest = longest, .deviation = deviation};
}

/* What enters the products of head h: mapped, normed where there is QK-norm. */
static vector query_or_key(const rs_attention_op *op, const rs_branch_norms *norms, int32_t h,
                           bool keys, const rs_op_site *site)
{
    const rs_norm_op *norm = keys ? &op->k_norm : &op->q_norm;
    const rs_gain_norms *gain = keys ? &norms->k_norm : &norms->q_norm;
    if (norm->kind == RS_NORM_NONE) return projected(&norms->heads[h], keys, site);
    bool together = norm->dim > op->head_dim;
    return normed(together ? joined(norms, keys, site) : projected(&norms->heads[h], keys, site),
                  norm, gain);
}

/* cos and sin may be scaled (YaRN); what does not rotate keeps its length. */
static double rotation_gain(const rs_attention_op *op)
{
    if (op->rope.kind == RS_ROPE_NONE || op->rope.law != RS_ROPE_YARN) return 1;
    double factor = fabs(op->rope.attention_factor);
    return (op->rope.dims < op->head_dim ? fmax(1, factor) : factor) * SLACK;
}

/* Of the largest range over j of what A_ij may miss. */
static double logit_range(const rs_attention_op *op, const rs_head_norms *head, vector q, vector k,
                          const rs_op_site *site)
{
    double scale = fabs(op->scale / op->temperature), sizes = q.longest * k.longest;
    double product = rs_gamma((double)op->head_dim + 8) * sizes;
    double entry = q.deviation * (k.longest + k.deviation) + q.longest * k.deviation + product;
    if (rs_attention_turns(op)) entry += 2 * sizes * site->turn * (1 + site->turn / 2);
    double range = 2 * entry;
    if (rs_attention_moves_alike(op)) { /* what all keys share drops out of the softmax */
        double spread = head->qk.right_two * site->diameter + 2 * k.deviation;
        double sharper =
            q.deviation * spread + 2 * (q.longest + q.deviation) * k.deviation + 2 * product;
        range = fmin(range, sharper);
    }
    range *= scale;
    if (op->softcap != 0) range += 2 * FUNCTION * U * scale * sizes;
    double added = head->distance_most * fmax(1, 1 / fabs(op->temperature));
    if (op->distance_bias || op->temperature != 1) range += 16 * U * (scale * sizes + added);
    return range;
}

const char *rs_mixing_unbounded(const rs_attention_op *op, double turn)
{
    bool bare = (op->q_norm.kind != RS_NORM_NONE && !(op->q_norm.eps > 0)) ||
                (op->k_norm.kind != RS_NORM_NONE && !(op->k_norm.eps > 0));
    if (op->cross) return "cross-attention: it reads other tokens";
    if (op->relative.r.weight)
        return "relative positions: how far rounding moves their logits is not bounded";
    if (bare)
        return "QK-norm without epsilon: how far rounding moves the logits behind it is not "
               "bounded";
    if (op->rope.kind != RS_ROPE_NONE && !(turn <= 1))
        return "rotary positions: rounding may turn a pair by more than a radian";
    return NULL;
}

double rs_deviation_attention(double *slack, const rs_attention_op *op,
                              const rs_branch_norms *norms, const rs_op_site *site)
{
    double n = (double)site->tokens, total = 0;
    if (!site->given && rs_mixing_unbounded(op, site->turn)) return INFINITY;
    double weight =
        fabs(op->mix_identity) + fabs(op->mix_softmax) + fabs(op->mix_uniform); /* Σ_j |M_ij| */
    /* a mean over a window is a difference of sums over all keys before its ends */
    double sums = op->window > 0 ? fabs(op->mix_uniform) * rs_gamma(n + 8) * n : 0;
    for (int32_t h = 0; h < norms->n_heads; h++) {
        const rs_head_norms *head = &norms->heads[h];
        vector q = query_or_key(op, norms, h, false, site);
        vector k = query_or_key(op, norms, h, true, site);
        vector v = mapped(head->w.left_two, head->w.left_fro, head->v_bias, site);
        double scale = fabs(op->scale / op->temperature), gain = rotation_gain(op);
        q = (vector){.longest = q.longest * gain, .deviation = q.deviation * gain};
        k = (vector){.longest = k.longest * gain, .deviation = k.deviation * gain};
        double tv = 0.25 * logit_range(op, head, q, k, site);
        tv += (n + FUNCTION) * U + 4 * U * scale * q.longest * k.longest;
        tv = tv < 1 ? fmin(tv * SLACK, 1) : 1;
        if (site->given) tv = 0;
        slack[h] = 2 * fabs(op->mix_softmax) * tv * SLACK + 8 * (n + 8) * U * weight;
        total +=
            head->w.two * (fabs(op->mix_softmax) * tv * site->diameter + weight * site->deviation);
        double rounded =
            weight * (v.rounding + rs_gamma(n + 8) * v.longest) + sums * v.longest + TINY;
        double inner = (double)op->heads * (double)op->value_dim;
        total += head->w.right_two * rounded +
                 rs_gamma(inner + 4) * head->w.right_fro * weight * v.longest;
    }
    return known((total + 8 * U * norms->o_bias + TINY) * SLACK);
}

/* ---- MLP, sum ---- */

double rs_deviation_mlp(const rs_mlp_op *op, const rs_branch_norms *norms, const rs_op_site *site,
                        double lipschitz, const rs_bound_constants *c)
{
    const rs_mlp_bound *mlp = &norms->mlp;
    vector up = mapped(mlp->up_two, norms->up_fro, norms->up_bias, site);
    double slope = c->lipschitz[mlp->activation], length = up.longest, rounding;
    if (mlp->activation == RS_ACT_RELU2) {
        double most = mlp->gated ? mlp->gate_row * site->longest + mlp->gate_bias
                                 : mlp->up_row * site->longest + mlp->up_bias;
        slope = 2 * most;
    }
    if (mlp->gated) {
        vector gate = mapped(mlp->gate_two, norms->gate_fro, norms->gate_bias, site);
        double gate_most = mlp->gate_row * site->longest + mlp->gate_bias;
        gate_most = rs_activation_most(mlp->activation, gate_most);
        double up_most = mlp->up_row * site->longest + mlp->up_bias;
        rounding = gate_most * up.rounding + up_most * slope * gate.rounding +
                   FUNCTION * U * gate_most * up.longest;
        length = gate_most * up.longest;
    } else {
        if (mlp->activation == RS_ACT_RELU2) length *= slope;
        if (mlp->activation == RS_ACT_SIGMOID) length = sqrt((double)op->width);
        rounding = slope * up.rounding + FUNCTION * U * length;
    }
    double out = mlp->down_two * rounding +
                 rs_gamma((double)op->width + 4) * (norms->down_fro * length + norms->down_bias) +
                 TINY;
    return known((lipschitz * site->deviation + out) * SLACK);
}

double rs_deviation_sum(double skip, double state, double longest_state, double scale, double op,
                        double longest_op)
{
    double rounding = 4 * U * (fabs(skip) * longest_state + fabs(scale) * longest_op) + TINY;
    return known((fabs(skip) * state + fabs(scale) * op + rounding) * SLACK);
}
