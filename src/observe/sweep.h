/*
 * sweep.h: how far apart the tokens stay behind every layer, at many skip strengths, in one pass
 * over the inputs.
 */
#ifndef RS_OBSERVE_SWEEP_H
#define RS_OBSERVE_SWEEP_H

#include "observe/pass.h"

/* The tokens behind one layer at one point: means over the samples, NaN where none is defined. μ is
 * ‖RX‖_F, R taking the tokens' mean away; relative residuals are μ/‖X‖_F. A logarithm is the mean of
 * the samples' logarithms; -infinity where a sample's tokens are equal. */
typedef struct rs_swept_state {
    double relative, log10_relative, mu, log10_mu;
    int64_t samples; /* that count in the means: those with tokens whose numbers are all finite */
} rs_swept_state;

/* Runs the network over all inputs at plan->points (plan->capacity is set here, from `batch`: samples
 * that run at once, 0: as memory allows). out: [points, layers + 1], state 0 enters the first layer.
 * account may be NULL. Errors: those of rs_observe_pass. */
rs_status rs_observe_sweep(rs_swept_state *out, rs_pass_account *account, const rs_pass_plan *plan,
                           int64_t batch, const rs_context *context, rs_error *err);

/* Points that run side by side, of n: as many as their activations leave memory for, at least one. */
int32_t rs_sweep_points(const rs_network *network, rs_precision precision, const rs_inputs *inputs,
                        int32_t n, const rs_context *context);

#endif
