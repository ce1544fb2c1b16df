/* trials_engine.h: trials through the engine. Private to trials_*.c. */
#ifndef RS_PREDICT_TRIALS_ENGINE_H
#define RS_PREDICT_TRIALS_ENGINE_H

#include "predict/trials.h"

/* All trials of one network; numbers [trials, layers + 1, quantities], all NaN before. The networks
 * that are opened have `layers` layers. */
rs_status rs_trials_engine_run(double *numbers, int32_t layers, const rs_network *network,
                               const rs_trials_request *request, const rs_context *context,
                               rs_error *err);

#endif
