/*
 * dong_bounds.h: what the files of experiment dong-bounds share: the bounds of one layer as ratios,
 * instances that climb towards them, and instances made to refute a statement or to attain a
 * constant.
 */
#ifndef RS_LAB_DONG_BOUNDS_H
#define RS_LAB_DONG_BOUNDS_H

#include "lab/one_layer.h"

/* ---- bounds of one layer (dong_bounds_ratios.c) ---- */

/* The bounds. */
typedef enum rs_bound_kind {
    RS_BOUND_GAMMA,    /* one head: the published cubic bound with the least gamma of the input */
    RS_BOUND_PAPER,    /* one head: the same with gamma = 1 */
    RS_BOUND_REPAIRED, /* one head: sqrt(K(range)) for its 4 */
    RS_BOUND_HEADS,    /* q = |R|_1 |R|_inf with column and row norms apart */
    RS_BOUND_DIAMETER, /* the diameter theorem */
    RS_BOUND_KINDS
} rs_bound_kind;

/* K(rho) of the repaired bound (docs/theory/collapse.md, 3). */
double rs_bound_growth(double rho);
/* Runs the layer and divides what comes out by what each bound says. Bounds of one head are 0 for
 * several; so is a bound below every number. */
rs_status rs_bound_ratios(double ratio[RS_BOUND_KINDS], rs_one_layer *layer,
                          const rs_context *context, rs_error *err);
/* Finds the largest ratio that `steps` random steps uphill reach from a random layer of that shape,
 * whose logits change by 0.001 to 1.256. */
rs_status rs_bound_climb(double *best, rs_bound_kind kind, const rs_one_draw *shape, int steps,
                         rs_random *random, const rs_context *context, rs_error *err);
/* Computes the ratios of the layer of rs_one_layer_hashed. */
rs_status rs_bound_hashed(double ratio[RS_BOUND_KINDS], int32_t heads, const rs_context *context,
                          rs_error *err);

/* ---- instances (dong_bounds_instances.c) ---- */

enum { RS_BOUND_ENGINE = 256 }; /* features, and tokens, of the two that the engine runs */

/* What instances made by hand give. */
typedef struct rs_bound_instances {
    double gamma_permutation, gamma_most; /* gamma that the paper's proof needs, 64 tokens */
    double triangle;                      /* |A + B| / (|A| + |B|), m = 64 */
    double mean_centred; /* q of the mean-centred residual where that of the median is 1 */
    double engine_wide, engine_many; /* rs_bound_two_heads and rs_bound_no_range, measured */
} rs_bound_instances;
rs_status rs_bound_instances_measure(rs_bound_instances *out, const rs_context *context,
                                     rs_error *err);

/* The residual over the published bound with gamma = 1: of two heads with m output features; of one
 * head with n tokens, whose logits change by much more than 1.256. */
double rs_bound_two_heads(double m);
double rs_bound_no_range(double n);

#endif
