/*
 * needs.h: what each command that runs a model will hold in memory beside the drawn weights.
 *
 * Added up twice: from the plan of a network whose weights are about to be drawn, and once the
 * inputs are known. Only what is certainly held at once is counted, by the sizes of the very types,
 * so that nothing is refused that would run.
 */
#ifndef RS_COLLAPSE_NEEDS_H
#define RS_COLLAPSE_NEEDS_H

#include "base/context.h"
#include "model/network.h"

/* Samples and the rows of the longest, as far as they are known. */
typedef struct rs_run_shape {
    int64_t samples, longest;
} rs_run_shape;

/* `options` are those of the command. */
typedef void rs_run_need(rs_budget *budget, const rs_network *network, rs_run_shape shape,
                         const void *options, const rs_context *context);
rs_run_need rs_probe_need, rs_certify_need, rs_paths_need;

#endif
