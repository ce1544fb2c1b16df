/* certify_exact.c: how far the exact layer is from the float64 pass, part by part of a branch
 * (docs/certificates.md, C9): what chains of layers and the table of skip strengths share. */
#include "certify/certify.h"

#include "network/op_traits.h"

#include <float.h>
#include <math.h>

double rs_exact_norm(double *low, const rs_norm_op *norm, const rs_gain_norms *gain,
                     double least_std, double longest, double deviation)
{
    *low = least_std;
    if (norm->kind == RS_NORM_NONE) return deviation;
    rs_norm_site site = {gain->largest, gain->bias, least_std, longest, norm->dim, norm->eps};
    return rs_deviation_norm(low, &site, deviation);
}

double rs_exact_attention(double *slack, const char **condition, const rs_exact_branch *at,
                          double diameter, double deviation)
{
    const rs_attention_op *op = rs_branch_plain_attention(at->branch);
    if (!op) { /* the theorem is attention's */
        if (!*condition) *condition = rs_branch_unproved(at->branch);
        return INFINITY;
    }
    const char *why = rs_mixing_unbounded(op, at->seen->turn);
    rs_op_site site = {.longest = at->seen->longest_op_in,
                       .deviation = deviation,
                       .diameter = diameter,
                       .dim = op->q.in,
                       .tokens = at->tokens,
                       .turn = at->seen->turn,
                       .given = why != NULL};
    if (why && !*condition) *condition = why;
    double off = rs_deviation_attention(slack, op, at->norms, &site);
    /* A row whose logits all left the doubles mixes nothing: it is no distribution, and lacks the
     * values' bias too. */
    return at->seen->empty_rows ? (double)INFINITY : off;
}

double rs_exact_mlp(const rs_exact_branch *at, double *lipschitz, const rs_bound_constants *c,
                    double deviation)
{
    double longest = at->seen->longest_op_in * (1 + 1e-9) + deviation; /* of 2 (C10) */
    rs_op_site site = {.longest = longest,
                       .deviation = deviation,
                       .diameter = 2 * longest,
                       .dim = at->branch->mlp.up.in,
                       .tokens = at->tokens};
    *lipschitz = rs_mlp_lipschitz(&at->norms->mlp, longest, c);
    return rs_deviation_mlp(&at->branch->mlp, at->norms, &site, *lipschitz, c);
}

double rs_exact_longest(const rs_exact_branch *at)
{
    const rs_norm_op *inside = &at->branch->inside;
    const rs_gain_norms *gain = &at->norms->inside;
    if (inside->kind == RS_NORM_NONE) return at->seen->longest_op_out;
    /* of exact rows; computed ones are longer by γ of it, for which the 4u and 8u that it is
     * multiplied by, where u is needed, have room (docs/certificates.md, C10) */
    return (gain->largest * sqrt((double)inside->dim) + gain->bias) * (1 + 64 * DBL_EPSILON);
}

double rs_exact_added(double *slack, const char **condition, const rs_exact_branch *at)
{
    const rs_certify_branch *seen = at->seen;
    double low, slope,
        off = rs_exact_norm(&low, &at->branch->before, &at->norms->before, seen->before_std,
                            seen->longest_read, 0);
    off = rs_branch_mlp(at->branch)
              ? rs_exact_mlp(at, &slope, &rs_bounds_exact, off)
              : rs_exact_attention(slack, condition, at, 2 * seen->longest_op_in, off);
    return rs_exact_norm(&low, &at->branch->inside, &at->norms->inside, seen->inside_std,
                         seen->longest_op_out, off);
}
