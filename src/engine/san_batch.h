/*
 * san_batch.h: many small random self-attention networks at once, in float64.
 *
 *   X^{l+1} = skip X^l + Σ_h softmax(X^l W_Q,h (X^l W_K,h)ᵀ / sqrt(d_h)) X^l W_V,h W_O,h
 *
 * X^0: n×d of N(0, 1); every weight N(0, variance/d), d_h = d/heads (docs/theory/collapse.md, 1
 * without biases). One network is drawn and run by one thread, layer by layer, in memory that stays
 * in its cache: no network ever exists whole. What the statistics of collapse over initialisations
 * are taken from.
 */
#ifndef RS_ENGINE_SAN_BATCH_H
#define RS_ENGINE_SAN_BATCH_H

#include "base/context.h"
#include "base/error.h"

/* How many networks, and of what size. */
typedef struct rs_san_batch {
    int64_t networks;
    int32_t layers;
    int64_t n, d; /* numbers of tokens and features */
    int32_t heads;
    double variance, skip;
} rs_san_batch;

/*
 * Draws and runs the networks. residual, norm (each [networks, layers + 1]): ‖X − 1x̄‖_F and ‖X‖_F
 * of the states. final ([networks, n, d], or NULL): the last states. Network b depends on (context
 * seed, b) alone, bit for bit, whatever the number of threads. RS_E_CONFIG_SIZE for sizes that make
 * no sense, RS_E_INTERRUPTED.
 */
rs_status rs_san_batch_run(double *residual, double *norm, double *final, const rs_san_batch *batch,
                           const rs_context *context, rs_error *err);

/* Does the same with weights given, [networks, layers, 4, d, d] (W_Q, W_K, W_V, W_O, each [in,
 * out]) and inputs [networks, n, d]. */
rs_status rs_san_batch_apply(double *residual, double *norm, double *final, const double *weights,
                             const double *inputs, const rs_san_batch *batch,
                             const rs_context *context, rs_error *err);

#endif
