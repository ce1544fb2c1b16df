/*
 * steps.h: the proof of the cubic bound of Dong, Cordonnier and Loukas (2021), line by line, in the
 * numbers of one head (docs/perturbation.md, 7): the left and the right side of each inequality as
 * published, and the right side that repairs it.
 *
 * The head reads tokens X [n, d] and writes P X W, W = W_V W_O. X = 1xᵀ + R, E = scale R W_QK Rᵀ, r =
 * scale R (W_QKᵀ x + W_K b_Q), p = softmax(r), P = softmax(1rᵀ + E); D_ii is the range of row i of E,
 * R' = (P − 1pᵀ) R W what is left of the residual against the centre that the proof tracks. The
 * biases of keys and values have no part in it.
 *
 * All of it is worked out in balls (linalg/ball.h) from X and the weights as they are stored, taken
 * as exact: exponents have no limit, and what holds is told from what rounding could have made. x is
 * the mean token rounded to doubles, as the proof allows any centre: equal tokens leave R = 0.
 *
 * Where a mask hides keys, all sums and ranges are over those that a query sees, and p is a row's
 * own: the lines that need one p for all rows have no numbers.
 */
#ifndef RS_PROOF_STEPS_H
#define RS_PROOF_STEPS_H

#include "base/context.h"

#include <stdbool.h>
#include <stdint.h>

/* A head, and what it reads. Row u of q, k and v is the weight vector of the head's unit u, of length
 * d; row u of o what its value u writes. */
typedef struct rs_steps_head {
    const double *x; /* [n, d] finite */
    int64_t n, d;
    const double *q, *k;  /* [units, d] */
    const double *q_bias; /* [units]; NULL: 0 */
    const double *v;      /* [values, d] */
    const double *o;      /* [values, out]; NULL: values are written as they are, out = values */
    int64_t units, values, out;
    double scale; /* of q·k */
    bool causal;
    int64_t window; /* keys nearer than this are seen (behind a query alone when causal); 0: all */
} rs_steps_head;

/* ---- lines ---- */

typedef enum rs_step_line {
    RS_LINE_RANGE,    /* the hypothesis on D */
    RS_LINE_LOW,      /* the lemma from below */
    RS_LINE_HIGH,     /* the lemma from above */
    RS_LINE_SIGNED,   /* the step that multiplies by R */
    RS_LINE_ABSOLUTE, /* what may be done instead */
    RS_LINE_MOVED,    /* how much probability moves */
    RS_LINE_NORMS,    /* the residual by norms of D, R and W */
    RS_LINE_LOGITS,   /* E by norms of R and W_QK */
    RS_LINE_RANGES,   /* D by norms of E */
    RS_LINE_GAMMA,    /* both norms of D at once, where the factor gamma stands */
    RS_LINE_CUBIC,    /* the bound */
    RS_LINE_MEAN,     /* the same of the residual about the mean */
    RS_LINES
} rs_step_line;

/* In what a line is taken. */
typedef enum rs_step_norm {
    RS_STEP_ENTRY, /* entry by entry: the one where it is tightest, or fails most */
    RS_STEP_ONE,   /* ‖·‖₁, largest column sum of absolute values */
    RS_STEP_INF,   /* ‖·‖∞, largest row sum */
    RS_STEP_BOTH,  /* ‖·‖₁,∞ = √(‖·‖₁‖·‖∞) */
    RS_STEP_NORMS
} rs_step_norm;

/* Of which inputs the published line is true. */
typedef enum rs_step_truth {
    RS_STEP_ALWAYS,
    RS_STEP_IF_RANGE,  /* no range of E is above 1.256 */
    RS_STEP_IF_FACTOR, /* the constant that is proved for these ranges is at most the published 4 */
    RS_STEP_SOMETIMES  /* not in general: there are inputs that break it */
} rs_step_truth;

/* What a line says in one norm; NULL where it is not taken in it. */
typedef struct rs_step_text {
    const char *published, *repaired; /* repaired: true of every input; NULL: needs none */
    rs_step_truth truth;
    bool one_row; /* it needs one p for all rows */
} rs_step_text;
typedef struct rs_step_kind {
    const char *step, *line;
    rs_step_text in[RS_STEP_NORMS];
} rs_step_kind;
extern const rs_step_kind rs_step_kinds[RS_LINES];
/* What has to hold for the line to be true, in words; NULL: nothing. */
const char *rs_step_condition(rs_step_truth truth);

/* ---- numbers ---- */

/* A number: the nearest double, NaN where no double is, and its log10 (−∞: it is 0; NaN: it is
 * negative). Both NaN: it is not known, as it, or what goes into it, leaves 10^(±3·10^14), or too few of
 * its digits are certain. */
typedef struct rs_step_number {
    double plain, log;
} rs_step_number;

/* A line in one norm. Truths are negative where the enclosures of the sides do not tell them apart. */
typedef struct rs_step_row {
    rs_step_number left, right, repaired;
    double ratio, repaired_ratio; /* left/right, NaN: right is not positive, or unknown */
    signed char holds, repaired_holds;
    signed char met;           /* whether the line's condition holds here; negative: it has none */
    int64_t at_row, at_column; /* of the entry, or the row or column that is told; −1: of all */
    bool known;                /* there are numbers of this line for this head */
} rs_step_row;

/* What is on the way. */
typedef enum rs_step_quantity {
    RS_QUANTITY_SCALE,
    RS_QUANTITY_RESIDUAL_ONE,
    RS_QUANTITY_RESIDUAL_INF,
    RS_QUANTITY_QK_ONE,
    RS_QUANTITY_QK_INF,
    RS_QUANTITY_VALUE_ONE,
    RS_QUANTITY_VALUE_INF,
    RS_QUANTITY_SHARED_RANGE, /* largest less smallest r_j */
    RS_QUANTITY_SHARED_MOST,  /* largest p_j */
    RS_QUANTITY_CHANGE_ONE,   /* ‖E‖₁ */
    RS_QUANTITY_CHANGE_INF,
    RS_QUANTITY_CHANGE_MOST, /* largest |E_ij| */
    RS_QUANTITY_RANGE_SUM,   /* ‖D1‖₁ */
    RS_QUANTITY_RANGE_MOST,  /* ‖D1‖∞ */
    RS_QUANTITY_CONSTANT,    /* K(max D_ii) */
    RS_QUANTITY_GAMMA,       /* the least γ with which the published chain holds here */
    RS_QUANTITY_LEFT_ONE,    /* ‖R'‖₁ */
    RS_QUANTITY_LEFT_INF,
    RS_QUANTITIES
} rs_step_quantity;

typedef struct rs_steps {
    rs_step_row rows[RS_LINES][RS_STEP_NORMS];
    rs_step_number quantities[RS_QUANTITIES];
} rs_steps;

/* Works them out, on one thread. Errors: RS_E_NO_MEMORY, and of a cancelled context. */
rs_status rs_steps_of(rs_steps *out, const rs_steps_head *head, const rs_context *context,
                      rs_error *err);
/* The bytes that it takes for n tokens. */
double rs_steps_bytes(const rs_steps_head *head);

#endif
