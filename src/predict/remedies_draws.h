/* remedies_draws.h: an architecture and changes of it, drawn from the same random numbers. Private to
 * remedies_*.c. */
#ifndef RS_PREDICT_REMEDIES_DRAWS_H
#define RS_PREDICT_REMEDIES_DRAWS_H

#include "predict/remedies.h"

typedef struct rs_remedy_draws {
    const rs_predict_run *run;
    int32_t trials;
    rs_twin_size size; /* of what is drawn */
    rs_design twin;    /* of the architecture as it is; .network NULL: it is drawn itself */
    /* The architecture as it is, by the way in which it was drawn: through the engine, in batches. */
    rs_trials *base[2];
    rs_forecast before[2];
    int first; /* the way that was drawn first; -1: none yet */
} rs_remedy_draws;

/* How `networks` of them are drawn beside the one as it is; asked: the user named them, and each may take
 * as long as one of the three that are run unasked. */
rs_status rs_remedy_draws_open(rs_remedy_draws *out, const rs_predict_run *run, int32_t networks,
                               bool asked, rs_error *err);
void rs_remedy_draws_close(rs_remedy_draws *draws);
/* Fills before, drawn and errors of one, whose file makes `edited`. Errors of trials. */
rs_status rs_remedy_draw(rs_remedied *remedied, rs_remedy_draws *draws, const rs_design *edited,
                         rs_error *err);
/* The architecture as it is; what has not been drawn is left unknown. */
void rs_remedy_draws_now(rs_remedies *out, const rs_remedy_draws *draws);

#endif
