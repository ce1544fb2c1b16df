/*
 * needs.h: what each command that runs a model will hold in memory beside the drawn weights.
 *
 * The sum is made twice: from the plan of a network whose weights are about to be drawn, and once
 * the inputs are known. Only what is certainly held at once is counted, by the sizes of the very
 * types, so that nothing is refused that would run.
 */
#ifndef RS_OBSERVE_NEEDS_H
#define RS_OBSERVE_NEEDS_H

#include "base/context.h"
#include "engine/forward.h"
#include "network/edit.h"

/* The number of samples and the rows of the longest, as far as they are known. */
typedef struct rs_run_shape {
    int64_t samples, longest;
} rs_run_shape;

/* Adds to the budget what a command will hold; `options` are the command's own. */
typedef void rs_run_need(rs_budget *budget, const rs_network *network, rs_run_shape shape,
                         const void *options, const rs_context *context);

/* ---- parts that several commands have ---- */

/* The size of a network after --depth has repeated or cut its layers. */
typedef struct rs_need_stack {
    double layers, heads, all_heads; /* layers; heads of the layer that has most, and of all */
    int64_t d;
} rs_need_stack;
rs_need_stack rs_need_stack_of(const rs_network *network, const rs_edit *edit);
/* Samples that are run at once, at most. */
int64_t rs_need_samples(const rs_network *network, rs_run_shape shape, int64_t batch,
                        rs_precision precision, const rs_context *context);
/* Adds the running state, its normed copy, what a branch gives, and queries, keys and values. */
void rs_need_pass(rs_budget *budget, const rs_network *network, double tokens,
                  rs_precision precision);
/* Adds a piece of the head's logits, and `more` rows of the vocabulary beside it. */
void rs_need_logits(rs_budget *budget, const rs_network *network, double rows, double more,
                    rs_precision precision);
/* Adds the descriptions of layers that --depth makes, in a copy for each variant. */
void rs_need_copies(rs_budget *budget, double copies, rs_need_stack s);

#endif
