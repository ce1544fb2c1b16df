/*
 * floor.c: which relative residuals are rounding (column at_floor), sample by sample.
 *
 * A residual of no more than RS_TOKEN_FLOOR units of roundoff is. So is what later layers make of
 * it: tokens that are equal leave a layer equal (each token's function is the same, and attention
 * gives all of them the same mixture), so a layer only carries on the differences that came in, and
 * those were rounding. It may multiply them: with skips and MLPs taken away, the layers of trained
 * encoders were seen to multiply rounding by up to 2. A state behind one at the floor therefore
 * counts as rounding until one layer alone multiplies the residual by more than RS_FLOOR_GROWTH:
 * differences can hide behind a common part that is 1e7 times as large, and those do come back at
 * once when a norm takes the common part away.
 */
#include "observe/gather.h"

#include "network/op_traits.h"

#include <math.h>

#define RS_FLOOR_GROWTH 16.0

double rs_residual_floor(rs_precision precision)
{
    /* there the residual has an exponent of its own */
    if (precision == RS_PRECISION_RESIDUAL) return NAN;
    return RS_TOKEN_FLOOR * rs_precision_roundoff(precision);
}

typedef struct mark {
    double residual; /* NaN: undefined, which is no rounding */
    bool rounding;
} mark;

static bool carried(mark from, double residual, double floor)
{
    return from.rounding && residual <= RS_FLOOR_GROWTH * fmax(from.residual, floor);
}

/* P − U maps equal tokens to zero: what is left of them is rounding whatever its relative size. */
static bool cancels(const rs_layer *layer)
{
    bool all = rs_layer_mixer(layer) != NULL;
    for (int32_t b = 0; b < layer->n_branches; b++) {
        const rs_branch *branch = &layer->branches[b];
        if (rs_layer_mixes_with(layer, b) && branch->scale != 0)
            all = all && fabs(rs_branch_traits(branch)->row_sum(branch)) < 1e-12;
    }
    return all;
}

/* Nothing but the mixer's output goes on to the end of the layer. */
static bool mixer_alone(const rs_layer *layer, const rs_branch *mixer)
{
    bool joined = layer->n_branches > 1 && layer->branches[1].joins;
    return mixer == layer->branches && mixer->skip == 0 && !joined;
}

static mark after_mixer(const rs_layer *layer, mark before, double residual, double floor)
{
    bool nothing = cancels(layer) && before.rounding && !isnan(residual);
    return (mark){residual, residual <= floor || nothing || carried(before, residual, floor)};
}

static mark after_layer(const rs_layer *layer, mark before, mark mixed, double residual,
                        double floor)
{
    const rs_branch *mixer = rs_layer_mixer(layer);
    bool alone = mixer && mixer_alone(layer, mixer) && carried(mixed, residual, floor);
    return (mark){residual, residual <= floor || alone || carried(before, residual, floor)};
}

void rs_floor_marks(bool *marks, const double *residuals, size_t stride, const rs_network *network,
                    double floor)
{
    mark state = {residuals[0], residuals[0] <= floor};
    marks[0] = state.rounding;
    for (int32_t l = 0; l < network->n_layers; l++) {
        size_t block = (2 * (size_t)l + 1) * stride, mixer = block + stride;
        mark mixed = after_mixer(&network->layers[l], state, residuals[mixer], floor);
        state = after_layer(&network->layers[l], state, mixed, residuals[block], floor);
        marks[mixer] = mixed.rounding;
        marks[block] = state.rounding;
    }
}
