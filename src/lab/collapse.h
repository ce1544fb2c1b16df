/*
 * collapse.h: what dong-lipschitz and dong-heads share: tokens, and how far apart a few layers
 * without skips leave them, in the residual precision.
 */
#ifndef RS_LAB_COLLAPSE_H
#define RS_LAB_COLLAPSE_H

#include "lab/signals.h"

enum {
    RS_COLLAPSE_TOKENS = 16,
    RS_COLLAPSE_WIDTH = 64,
    RS_COLLAPSE_LAYERS = 5,
    RS_COLLAPSE_DRAWS = 64,
    RS_COLLAPSE_QUICK_DRAWS = 24,
    RS_COLLAPSE_ORACLE_DRAWS = 512 /* tests/oracle/lab_collapse.py */
};

/* What the logarithm of a factor of every layer is multiplied by behind the last layer, while the
 * cubic law holds: of |R|, 1 + 3 + ... + 81; of |R|/|X| five less, by which X itself grows. */
extern const double rs_collapse_exponent, rs_collapse_relative_exponent;

/* Draws Gaussian tokens of length sqrt(width) each: x [RS_COLLAPSE_TOKENS, RS_COLLAPSE_WIDTH]. */
void rs_collapse_tokens(double *x, rs_random *random);

/* The last state's log10 |R|_F and log10 |R|_F/|X|_F, R about the mean token. */
typedef struct rs_collapse {
    double residual, relative;
} rs_collapse;
/* Draws the network of `arch`, which is taken over, from `seed` and runs it on the tokens x. */
rs_status rs_collapse_run(rs_collapse *out, json_t *arch, uint64_t seed, const double *x,
                          const rs_context *context, rs_error *err);

/* Draws what `plan` says, RS_COLLAPSE_DRAWS times or, where it should be quick, fewer, and writes it up. */
rs_status rs_collapse_experiment(rs_lab_report *report, const rs_draws_plan *plan,
                                 rs_status (*write_up)(rs_lab_report *report, const rs_draws *draws,
                                                       rs_error *err),
                                 const rs_lab_options *options, const rs_context *context,
                                 rs_error *err);

/* A mean of the oracle's, with the deviation of one of its draws. */
rs_awaited rs_collapse_awaited(double mean, double deviation);

/* The median of the draws of a cell. */
rs_status rs_collapse_median(double *out, const rs_draws *draws, int32_t cell, rs_error *err);
/* How far the medians of so many draws and of the oracle's may be apart: RS_SEEN_ERRORS standard
 * errors of numbers of this deviation (of a normal law 1.25 times the mean's). */
double rs_collapse_median_tolerance(double deviation, int32_t draws);

#endif
