/*
 * lambda_depth.h: how far apart the tokens are behind a whole stack of branches, whatever the
 * branches do within their bounds (docs/certificates_lambda.md, L29).
 *
 * A stack is X ← λ_k X + O_k for k = 1 … K, no norm behind a sum, every row of O_k no longer than
 * c_k√d. What is measured is relative μ = ‖RX‖_F/‖X‖_F, R = I − 11ᵀ/n: the sine of the angle
 * between X and the matrices whose rows are equal.
 */
#ifndef RS_PROOF_LAMBDA_DEPTH_H
#define RS_PROOF_LAMBDA_DEPTH_H

#include "proof/lambda.h"

/* What enters a stack: all that L29 needs of its tokens. */
typedef struct rs_lambda_entering {
    double relative; /* ‖RX‖_F/‖X‖_F, rounded down; 0 where tokens may be equal */
    double size;     /* ‖X‖_F/√(nd), rounded down */
} rs_lambda_entering;
/* Measures X: [n, d], leading dimension ld. A NaN or infinity: RS_E_INPUT_FORMAT. */
rs_status rs_lambda_entering_of(rs_lambda_entering *out, const double *x, int64_t n, int64_t d,
                                int64_t ld, rs_error *err);

/* The branches of a stack in order. */
typedef struct rs_lambda_stack {
    const double *gain; /* [branches] c_k from above, the branch's scale in it */
    const double *skip; /* [branches] λ_k */
    int64_t branches;
} rs_lambda_stack;
/* reach[k], k = 0 … branches: Σ_{j≤k} c_j/(|λ_1| … |λ_j|), rounded up: what the first k branches can
 * have moved the tokens by, in units of √(nd) and of the tokens that entered. */
void rs_lambda_depth_reach(double *reach, const rs_lambda_stack *stack);

/* What is left behind branches of that reach. */
typedef struct rs_lambda_left {
    double relative; /* certified: relative μ is at least this; 0 where all of it may be gone */
    double kept;     /* the same over the relative μ that entered; NaN where that may be 0 */
} rs_lambda_left;
rs_lambda_left rs_lambda_depth_left(double reach, const rs_lambda_entering *entering);

/* What is asked of a half line. */
typedef struct rs_lambda_depth_wish {
    const bool *swept;                  /* [branches] */
    const rs_lambda_entering *entering; /* [samples] */
    int64_t samples;
    double kept; /* in (0, 1) */
} rs_lambda_depth_wish;
/* The smallest size x such that with λ_k = ±x at every swept branch, and with any larger size, all
 * samples whose tokens differ keep that fraction of their relative μ behind the last branch. +∞: no
 * x is known to; or no sample's tokens differ. */
double rs_lambda_depth_demand(const rs_lambda_stack *stack, const rs_lambda_depth_wish *wish);

#endif
