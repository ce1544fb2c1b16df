/* certify_mlp.c: how far MLPs move tokens apart: the most that was met on a sample's tokens, and the
 * most that is proved of rows as long as those (docs/certificates.md, C5). */
#include "certify/certify_gather.h"
#include "certify/certify_parts.h"

#include "linalg/vector.h"
#include "network/op_traits.h"

#include <float.h>
#include <math.h>

/* Rows closer than this share of the longest are left out: what the float64 pass rounds is of the
 * order of 1e-13 of a row, which would be no small part of their distance. */
static const double NEAR = 1e-6;

double rs_certify_mlp_stretch(const double *in, const double *out, int64_t n, int64_t d,
                              int64_t d_out, double longest)
{
    double least = NEAR * longest * NEAR * longest, most = NAN;
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < i; j++) {
            double before = rs_distance_squared(in + i * d, in + j * d, d);
            if (!(before > least) || !isfinite(before)) continue;
            double after = rs_distance_squared(out + i * d_out, out + j * d_out, d_out);
            most = fmax(most, after / before);
        }
    return sqrt(most);
}

/* What the rounding of activations' arguments, of the size of their biases and of their products, may
 * give the ratio of two rows that are no closer than NEAR: behind the first map a difference is
 * stretched by lipschitz over that map's norm at most. */
static double stretch_rounded(const rs_mlp_bound *bound, int64_t width, double longest,
                              double lipschitz)
{
    double least = bound->gated ? fmin(bound->up_two, bound->gate_two) : bound->up_two;
    double arguments = sqrt((double)width) * fmax(bound->up_bias, bound->gate_bias) +
                       fmax(bound->up_two, bound->gate_two) * longest;
    return least > 0 ? DBL_EPSILON * arguments * (lipschitz / least) / (NEAR * longest) : 0;
}

rs_certify_slope rs_certify_slope_of(const rs_certify_pass *pass, const rs_weight_norms *norms,
                                     int64_t s, int32_t l)
{
    const rs_layer *layer = &pass->network->layers[l];
    rs_certify_slope slope = {NAN, NAN};
    bool drowned = false;
    for (int32_t b = 0; b < layer->n_branches; b++) {
        if (layer->branches[b].scale == 0 || !rs_branch_mlp(&layer->branches[b])) continue;
        const rs_certify_branch *seen = rs_pass_branch(pass, s, l, b);
        const rs_mlp_bound *bound = &norms->layers[l].branches[b].mlp;
        double longest = seen->longest_op_in,
               most = rs_mlp_lipschitz(bound, longest, &rs_bounds_exact);
        int64_t width = layer->branches[b].mlp.up.out;
        slope.lipschitz = fmax(slope.lipschitz, most);
        slope.stretch = fmax(slope.stretch, seen->mlp_stretch);
        drowned |= stretch_rounded(bound, width, longest, most) > 1e-3 * seen->mlp_stretch;
    }
    if (!isfinite(slope.lipschitz)) slope.lipschitz = NAN;
    if (drowned) slope.stretch = NAN;
    return slope;
}
