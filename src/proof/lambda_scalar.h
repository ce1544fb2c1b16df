/*
 * lambda_scalar.h: mixers of one matrix M, of any sign, whose value map is a number w: Y' = rn(λY +
 * wMY) (docs/certificates_lambda.md, L26 and L27).
 */
#ifndef RS_PROOF_LAMBDA_SCALAR_H
#define RS_PROOF_LAMBDA_SCALAR_H

#include "proof/lambda.h"

/* One layer. */
typedef struct rs_lambda_scalar_layer {
    const double *mixing; /* M: [n, n], leading dimension ld */
    int64_t n, ld;
    double value, lambda; /* w and λ */
    double epsilon;       /* of the norm, under its root beside the mean of squares; ≥ 0 */
} rs_lambda_scalar_layer;

/* Checks sizes, and that the numbers are finite (RS_E_INPUT_FORMAT names the place). */
rs_status rs_lambda_check_scalar(const rs_lambda_scalar_layer *layer, rs_error *err);

/* ---- theorem C (L26) ---- */

/* What theorem C makes of a layer. Row i of λY + wMY is D_i = λ + w s_i times row i of QY, s_i the
 * sum of row i of M and Q1 = 1. */
typedef struct rs_lambda_theorem_c {
    rs_lambda_number kept; /* certified: μ(Y') ≥ kept·μ(Y); it may be negative, and says nothing */
    double stretch;        /* c_Q = max_i Σ_j |(Q − I)_ij|, rounded up */
    double lipschitz;      /* L_Q = ‖R(Q − I)R‖₂, from above */
    double least, most;   /* of |D_i|, outwards */
    int64_t singular_row; /* the first whose D_i may be 0; −1: none */
} rs_lambda_theorem_c;
/* facts: of Y, with the norm of the sum. Hypotheses: post-norm, gain 1, bias 0, no row that is 0
 * (what rows miss of norm √d is counted, and ε), D_i all above 0 or all below, c_Q < 1. Errors:
 * RS_E_INPUT_FORMAT for what is not finite, RS_E_NO_MEMORY. */
rs_status rs_lambda_theorem_c_of(rs_lambda_theorem_c *out, const rs_lambda_scalar_layer *layer,
                                 const rs_lambda_facts *facts, rs_error *err);

/* ---- where equal tokens go (L27; predicted, local) ---- */

typedef enum rs_lambda_outcome {
    RS_LAMBDA_UNDECIDED,
    RS_LAMBDA_EQUAL,            /* tokens that are nearly equal become equal */
    RS_LAMBDA_EQUAL_UP_TO_SIGN, /* they become ±one vector: rank one, and μ stays */
    RS_LAMBDA_REPELLED          /* differences grow */
} rs_lambda_outcome;
const char *rs_lambda_outcome_name(rs_lambda_outcome outcome); /* "equal", "up to sign", … */

typedef struct rs_lambda_sign_rule {
    rs_lambda_outcome outcome;
    double rate; /* max_{i ≥ 2} Π_k |λ + w m_ii|/|D_i| over the layers k */
    int64_t row; /* that has it, from 0 */
    int64_t singular_layer, singular_row; /* where D_i may be 0; −1: nowhere */
    const char *failed_hypothesis;        /* NULL: none */
} rs_lambda_sign_rule;
/* Rows on their way through layers, first to last. */
typedef struct rs_lambda_sign_walk {
    int64_t n, layers;         /* tokens; layers so far */
    double *log_rate;          /* [n] */
    signed char *signs, *next; /* [n] each */
    bool mixed;                /* signs differed behind some layer */
    rs_lambda_sign_rule rule;  /* of the layers so far */
} rs_lambda_sign_walk;
/* Begins, with the caller's buffers: [n], and twice [n] in one. */
void rs_lambda_sign_begin(rs_lambda_sign_walk *walk, int64_t n, double *log_rate,
                          signed char *signs);
/* One more layer. turns: M_ij changes its sign with token i and with token j (linear attention
 * without features: M_ij = y_i·y_j …), and is given for equal tokens; else M is fixed. Hypotheses:
 * every M lower triangular, n ≥ 2, no D_i that may be 0, all finite; once one fails the walk stays
 * there. */
void rs_lambda_sign_step(rs_lambda_sign_walk *walk, const rs_lambda_scalar_layer *layer,
                         bool turns);
/* The whole walk through layers [count] of one n. Errors: RS_E_NO_MEMORY. */
rs_status rs_lambda_sign_rule_of(rs_lambda_sign_rule *out, const rs_lambda_scalar_layer *layers,
                                 int64_t count, bool turns, rs_error *err);

#endif
