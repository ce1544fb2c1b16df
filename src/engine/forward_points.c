/*
 * forward_points.c: points of a sweep side by side in one pass (forward.h, rs_points).
 *
 * To the ops a point's samples are samples like any other: weights are decoded once for all points,
 * and products have more rows. Only the sum with the skip knows points, and repeats the states where
 * they first part.
 */
#include "engine/ops.h"

#include "base/memory.h"

#include <string.h>

static int64_t all_branches(const rs_network *network)
{
    int64_t n = 0;
    for (int32_t l = 0; l < network->n_layers; l++)
        n += network->layers[l].n_branches;
    return n;
}

rs_status rs_points_check(const rs_runner *run, const rs_batch *batch, rs_error *err)
{
    if (run->ops->precision == RS_PRECISION_RESIDUAL)
        return rs_fail(err, RS_E_UNSUPPORTED, "--precision", "take --precision f64",
                       "several points of a sweep in one pass are not for the residual precision");
    if (batch->memory)
        return rs_fail(err, RS_E_UNSUPPORTED, "points", "run the points one by one",
                       "several points of a sweep in one pass read no other model's states");
    if (batch->points->n < 1 || all_branches(run->network) == 0 ||
        (int64_t)batch->points->n * batch->samples > INT32_MAX)
        return rs_fail(err, RS_E_INTERNAL, "points", NULL, "%d points of %d samples",
                       batch->points->n, batch->samples);
    return RS_OK;
}

/* Repeats the rows of a state for each point, unless that is done; `wide` is the spare one. */
static rs_status spread_state(rs_runner *run, rs_state *state, const rs_batch *batch, rs_error *err)
{
    int32_t points = batch->points->n;
    int64_t rows = batch->begin[batch->samples];
    if (!state->store.data || state->rows != rows || points == 1) return RS_OK;
    RS_TRY(rs_run_state(run, &run->wide, points * rows, state->cols, err));
    size_t bytes = (size_t)(rows * state->cols) * run->ops->size;
    for (int32_t p = 0; p < points; p++)
        memcpy((char *)run->wide.store.data + (size_t)p * bytes, state->store.data, bytes);
    rs_state spare = *state;
    *state = run->wide;
    run->wide = spare;
    return RS_OK;
}

/* From here on the batch holds every point's samples. */
static rs_status spread_batch(rs_runner *run, rs_error *err)
{
    const rs_batch *batch = run->batch;
    int32_t points = batch->points->n, samples = batch->samples;
    int64_t rows = batch->begin[samples], *begin;
    RS_TRY(rs_run_grow(run, &run->spread_begin, (size_t)points * (size_t)samples + 1, sizeof *begin,
                       "samples", err));
    begin = run->spread_begin.data;
    for (int32_t p = 0; p < points; p++)
        for (int32_t s = 0; s <= samples; s++)
            begin[(int64_t)p * samples + s] = p * rows + batch->begin[s];
    run->spread = (rs_batch){.samples = points * samples, .begin = begin, .points = batch->points};
    RS_TRY(spread_state(run, &run->x, batch, err));
    RS_TRY(spread_state(run, &run->joined, batch, err));
    RS_TRY(spread_state(run, &run->mixed, batch, err));
    RS_TRY(spread_state(run, &run->branch_out, batch, err));
    run->rows = points * rows;
    run->batch = &run->spread;
    return RS_OK;
}

/* The rows of one point, in place. */
static rs_state part_of(const rs_runner *run, const rs_state *state, int32_t point, int32_t points)
{
    int64_t rows = state->rows / points;
    size_t bytes = (size_t)(rows * state->cols) * run->ops->size;
    return (rs_state){
        .store = {.data = (char *)state->store.data + (size_t)point * bytes, .bytes = bytes},
        .rows = rows,
        .cols = state->cols};
}

rs_status rs_run_combine(rs_runner *run, rs_state *out, const rs_branch *branch, unsigned steps,
                         rs_error *err)
{
    const rs_points *points = run->batch->points;
    if (!points) return run->ops->combine(run, &run->x, out, branch, steps, err);
    if (run->batch != &run->spread) RS_TRY(spread_batch(run, err));
    const double *skip = points->skip + (run->passed + run->branch) * points->n;
    for (int32_t p = 0; p < points->n; p++) {
        rs_branch at = *branch;
        rs_state x = part_of(run, &run->x, p, points->n), added;
        if (out) added = part_of(run, out, p, points->n);
        at.skip = skip[p];
        RS_TRY(run->ops->combine(run, &x, out ? &added : NULL, &at, steps, err));
    }
    return RS_OK;
}
