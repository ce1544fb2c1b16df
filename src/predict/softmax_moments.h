/*
 * softmax_moments.h: expectations of powers of a softmax's weights over Gaussian logits, exact
 * (docs/theory/mean_field.md, 2). Nothing is sampled.
 */
#ifndef RS_PREDICT_SOFTMAX_MOMENTS_H
#define RS_PREDICT_SOFTMAX_MOMENTS_H

#include "base/error.h"

/* A = softmax of n independent N(0, c) logits. */
typedef struct rs_softmax_moments {
    double second; /* E Σ_j A_j², from 1/n (c = 0) to 1 (c = ∞) */
    double excess; /* n·second − 1, with all its digits where that is small */
    double third;  /* E Σ_j A_j³ */
    double square; /* E (Σ_j A_j²)², from third's own bounds: second² <= square <= third */
    double equal; /* the variance ĉ at which the annealed e^ĉ/(e^ĉ + n − 1) is `second`; c + O(c²)
                      where c is small, INFINITY where `second` is 1 in its digits */
} rs_softmax_moments;

/* Relative errors are below 1e-11 for n up to 1e6 and c up to 1e12. n < 1, c < 0 or NaN gives NaN; c
 * = INFINITY and n = 1 are exact. */
void rs_softmax_moments_of(rs_softmax_moments *out, double n, double c);
/* The same of causal rows: out[i] of i + 1 keys, i < n. RS_E_NO_MEMORY never: scratch is fixed. */
void rs_softmax_moments_causal(rs_softmax_moments *out, int64_t n, double c);

/*
 * E Σ_j A_j B_j of two rows whose logits of key j have correlation rho, those of different keys none:
 * a double integral. rho = 1 is `second`, rho = 0 is 1/n. NaN where |rho| > 1 or its mesh would not be
 * held (c > 36). About 1e-10 relative. RS_E_NO_MEMORY.
 */
rs_status rs_softmax_cross_moment(double *out, double n, double c, double rho, rs_error *err);

/* What the mean field takes in its place: the annealed e^x/(e^x + n − 1) at x = rho·ĉ. */
double rs_softmax_annealed(double n, double x);
/* ln(annealed at `high` − annealed at high − difference), the difference by its logarithm: nothing
 * cancels, and it may be below the doubles. */
double rs_softmax_annealed_ln_gap(double n, double high, double ln_difference);
/* The variance whose annealed moment is `second`, excess = n·second − 1. */
double rs_softmax_annealed_inverse(double n, double excess);

#endif
