/*
 * dong_bounds.h: what dong_bounds.c and dong_bounds_instances.c share: instances made to refute a
 * statement or to attain a constant.
 */
#ifndef RS_LAB_DONG_BOUNDS_H
#define RS_LAB_DONG_BOUNDS_H

#include "lab/toy.h"

typedef struct rs_bound_instances {
    double gamma_permutation, gamma_most; /* that the paper's proof needs, 64 tokens */
    double triangle;                      /* |A + B| / (|A| + |B|), m = 64 */
    double mean_centred; /* q of the mean-centred residual where that of the median is 1 */
    double engine_wide, engine_many; /* engine over formula, two heads and many tokens, less 1 */
} rs_bound_instances;
rs_status rs_bound_instances_measure(rs_bound_instances *out, const rs_context *context,
                                     rs_error *err);

/* Residual over the published bound with gamma = 1: two heads with m output features; one head
 * with n tokens, whose logits change by much more than 1.256. */
double rs_bound_two_heads(double m);
double rs_bound_no_range(double n);

#endif
