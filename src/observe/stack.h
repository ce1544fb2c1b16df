/*
 * stack.h: what a proof about a whole stack of branches is told (proof/lambda_depth.h): how much each
 * branch adds at most, and the tokens that enter. Who knows the bounds of weights hands them in as a
 * function, so that a command may use what another one knows.
 */
#ifndef RS_OBSERVE_STACK_H
#define RS_OBSERVE_STACK_H

#include "observe/pass.h"
#include "proof/lambda_depth.h"

/* What the weights say of a network's branches, whatever they read. */
typedef struct rs_stack_bounds {
    double *gains; /* [branches of all layers, in order; the caller's] ‖o_i‖ ≤ c√d for each row
                           that a branch adds, its scale in it, on inputs of no more tokens */
    const char
        *failed; /* the hypothesis without which the stack has no such bounds; NULL: it has */
    /* Of the published equation 7, over all mixers: S, what value maps stretch by; C_M from the
     * weights (√n of softmax attention) times its S. NaN: not known. */
    double stretch, published;
} rs_stack_bounds;
/* Fills `out`; inputs tell how many tokens there are at most. */
typedef rs_status rs_stack_bounds_of(rs_stack_bounds *out, const rs_network *network,
                                     const rs_inputs *inputs, const rs_context *context,
                                     rs_error *err);
/* The number of branches of all layers. */
int64_t rs_stack_branches(const rs_network *network);

/* Measures the tokens that enter the first layer, in a pass of the embedding alone. out: [samples];
 * those without tokens, or with some that are not finite, have relative NaN. */
rs_status rs_observe_entering(rs_lambda_entering *out, const rs_pass_plan *plan, int64_t batch,
                              const rs_context *context, rs_error *err);

/* The most decades by which skips alone make the state grow on its way: λ of each branch, in order,
 * stands at skips[k * step]. A norm of the sum begins anew. */
double rs_stack_decades(const rs_network *network, const double *skips, int64_t step);

#endif
