/*
 * post_norm.h: stacks of Y <- rn(skip Y + M Y W), rn brings rows to length sqrt(d) (RMSNorm without
 * eps and gain): the recursion of Arangath Joseph, Sieber, Zeilinger, Amo Alonso 2025 (arXiv
 * 2410.10609), with several kinds of M; and what becomes of tokens that are nearly equal
 * (docs/theory/signal.md, 7).
 */
#ifndef RS_LAB_POST_NORM_H
#define RS_LAB_POST_NORM_H

#include "lab/toy.h"

/* Opens a stack of the simplified selective state-space layer: M_ij = decay^(i-j) cos(y_i, y_j), j <=
 * i, W = I. */
rs_status rs_post_norm_selective(rs_toy *toy, int depth, int width, double decay,
                                 const rs_context *context, rs_error *err);
/* Opens a stack whose matrices rs_post_norm_give will give, W = I until rs_toy_values is set. */
rs_status rs_post_norm_open(rs_toy *toy, int depth, int width, const rs_context *context,
                            rs_error *err);
/* Gives layers first, first + step, ... the matrix m [n, n]. */
rs_status rs_post_norm_give(rs_toy *toy, int32_t first, int32_t step, const double *m, int64_t n,
                            rs_error *err);
/* Opens a stack of causal attention of one head, random W_Q and W_K, W = I. */
rs_status rs_post_norm_attention(rs_toy *toy, int depth, int width, const rs_context *context,
                                 rs_error *err);
/* Takes eps out of the norm behind every sum, as the stacks above have it. */
void rs_post_norm_exact(rs_toy *toy);
/* Gives every layer this skip strength. */
void rs_post_norm_skip(rs_toy *toy, double skip);

/* mu of rows of length 1 along those of y [n, d]. */
double rs_post_norm_spread(const double *y, int64_t n, int64_t d);
/* The same with each row turned to the side of the first. */
double rs_post_norm_line_spread(const double *y, int64_t n, int64_t d);

/* The factors g_i = (skip + w m_ii)/(skip + w s_i), i >= 1, s_i the sum of row i of a lower triangular
 * m: by which a layer multiplies what tells token i from token 0 where all tokens are nearly equal.
 * out [n - 1]; the largest |g_i| comes back. */
double rs_post_norm_multipliers(double *out, const double *m, int64_t n, double skip, double w);
/* The smallest |skip + w s_i|, below 0 where they have both signs. */
double rs_post_norm_signs(const double *m, int64_t n, double skip, double w);

/* What becomes of nearly equal tokens. */
typedef enum rs_post_norm_end {
    RS_ENDS_EQUAL,
    RS_ENDS_UP_TO_SIGN, /* of rank one, and opposite */
    RS_ENDS_REPELLED
} rs_post_norm_end;
/* Which is predicted where m turns its signs with the tokens, as a selective layer's does. */
rs_post_norm_end rs_post_norm_predict(const double *m, int64_t n, double skip, double w);

#endif
