/* trials_back.h: where batched trials are on their way back. Private to trials_back.c and
 * trials_squares.c. */
#ifndef RS_PREDICT_TRIALS_BACK_H
#define RS_PREDICT_TRIALS_BACK_H

#include "predict/trials_batch.h"

typedef struct rs_trials_walk {
    const rs_trials_batch *batch;
    rs_trials_room *room;
    const rs_trials_kernels *kernels;
    double *const *numbers;
    int32_t layer;
    const double *maps[RS_TRIALS_MAPS]; /* of a branch, in doubles */
    /* of an MLP's maps what belongs to hidden units that are on for a token of the fan's chain */
    const double *up, *down;
    int64_t width;
    /* the fan that is worked on: its derivatives by states, and the cells that this layer is part of */
    const rs_trials_fan *fan;
    double *x;
    int32_t cells;
    int64_t lanes;
} rs_trials_walk;

/* Chains whose states the fan's cells have, and the one of a cell, counted from the fan's. */
static inline int32_t rs_trials_states(const rs_trials_walk *w)
{
    return w->fan->shared ? 1 : w->cells;
}
static inline int32_t rs_trials_state(const rs_trials_walk *w, int32_t cell)
{
    return w->fan->shared ? 0 : cell;
}
/* Their lanes of an array of states. */
static inline double *rs_trials_lanes(const rs_trials_walk *w, double *states)
{
    return states + w->fan->chain * w->batch->np;
}
/* The plan of a cell of the fan, and one of its numbers. */
static inline const rs_trials_plan *rs_trials_plan_of(const rs_trials_walk *w, int32_t cell)
{
    return w->batch->cells[w->fan->first + cell];
}
static inline double *rs_trials_number_of(const rs_trials_walk *w, int32_t cell,
                                          rs_trials_quantity quantity)
{
    return w->numbers[w->fan->first + cell] + (int64_t)w->layer * RS_TRIALS_QUANTITIES + quantity;
}

/* trials_squares.c: derivatives by weights. `grams`: of states, one a chain, which is filled where it is
 * not yet; none is after rs_trials_forget. Adds the squares of gradients of `count` maps that read `states`,
 * by derivatives d of what they gave. */
void rs_trials_forget(rs_trials_gram *grams);
void rs_trials_squares(const rs_trials_walk *w, int count, const rs_trials_map *const *maps,
                       const rs_trials_quantity *quantities, rs_trials_gram *grams, double *states,
                       double *const *d);

#endif
