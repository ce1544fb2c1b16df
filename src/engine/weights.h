/*
 * weights.h: weights of a description as plain numbers of one precision (private to src/engine/).
 */
#ifndef RS_ENGINE_WEIGHTS_H
#define RS_ENGINE_WEIGHTS_H

#include "engine/forward.h"

/* A dense map ready for multiplication: output unit u is row (or column) v(u) = first + u / run *
 * stride + u % run of the row-major matrix at data. */
typedef struct rs_dense_map {
    const void *data;
    int64_t ld;
    bool out_is_row;
    int64_t in, out, first, run, stride;
    const void *bias; /* [out], in order of u; or NULL */
} rs_dense_map;

rs_precision rs_weights_precision(const rs_weights *weights);
/* How often the weights were said to have changed. */
uint64_t rs_weights_changes(const rs_weights *weights);

/* Finds the map's numbers. Those that are beyond the limit are decoded into scratch number `slot`
 * (below RS_WEIGHT_SLOTS) and valid until that slot is used again. Called by one thread at a time;
 * decoded by those of the context, until it is cancelled. */
enum { RS_WEIGHT_SLOTS = 4 };
rs_status rs_weights_map(rs_dense_map *map, rs_weights *weights, const rs_dense *dense, int slot,
                         const rs_context *context, rs_error *err);

/* From the first to the second of these, maps that are beyond the limit are kept as well: those of a
 * layer that is run again and then back, which are decoded once for both. */
void rs_weights_hold(rs_weights *weights);
void rs_weights_release(rs_weights *weights);

/* Finds the first `count` entries of a vector (a gain, a bias), which are always kept; *out is NULL
 * for tensor NULL. */
rs_status rs_weights_vector(const void **out, rs_weights *weights, const rs_tensor *tensor,
                            int64_t count, rs_error *err);

#endif
