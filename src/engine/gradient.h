/*
 * gradient.h: derivatives of a loss by every parameter that a pass reads (docs/theory/gradients.md).
 *
 * A pass runs forward and keeps a tape (tape.h), then back; each parameter's gradient is told to
 * listeners as soon as it is complete. Norms of gradients are one listener, a trainer is another.
 * A weight that is stored as bf16, FP8 or quantised has the gradient by its decoded numbers, in
 * front of what the configuration multiplies them by.
 */
#ifndef RS_ENGINE_GRADIENT_H
#define RS_ENGINE_GRADIENT_H

#include "engine/forward.h"

/* ---- what is differentiated ---- */

typedef enum rs_loss_kind {
    RS_LOSS_TARGETS, /* sum over rows that have a target of -ln softmax(logits)_target */
    RS_LOSS_RANDOM,  /* <G, X>, G of N(0, 1) */
    RS_LOSS_SQUARE,  /* |X|^2 / 2 */
    RS_LOSS_OUTPUT,  /* sum over rows that have a target of the head's output there */
    RS_LOSS_LENGTH,  /* sum over rows that have a target, whichever, of |X_row| */
    /* Of the C numbers z that the head gives a row, over rows that have a target: */
    RS_LOSS_SHARES,  /* -sum_j p_j ln softmax(z)_j, p the row's values */
    RS_LOSS_SQUARED, /* sum_j (z_j - y_j)^2, y the row's values */
    RS_LOSS_HINGE    /* sum over j other than the target t of max(0, 1 + z_j - z_t) / C (PyTorch's
                        MultiMarginLoss); of one output max(0, 1 - z) for target 1, max(0, 1 + z) for 0 */
} rs_loss_kind;

/* What a loss of the head tells beside its value. */
typedef struct rs_loss_told {
    int64_t targets; /* rows that have one */
    /* of these, rows whose largest output is the target: the first of equal ones, of one output z the
     * sign (class 1: z > 0); SHARES: the largest share; SQUARED: none */
    int64_t right;
} rs_loss_told;

/* The loss of one batch, times `weight`. */
typedef struct rs_loss {
    rs_loss_kind kind;
    double weight; /* such as 1 / number of targets of all batches */
    /* TARGETS, OUTPUT, LENGTH, HINGE: [rows] an output of the head; -1: none */
    const int32_t *targets;
    const double *values; /* SHARES, SQUARED: [rows, outputs of the head] */
    const uint8_t
        *counted; /* SHARES, SQUARED: [rows] 0: the row has no target; NULL: each has one */
    /* TARGETS, SHARES: label smoothing s, from 0 to below 1: the loss of shares (1 - s) p + s/C */
    double smoothing;
    rs_loss_told *told; /* which is added to; or NULL */
    /* Of those with an X: it is the last layer's output in front of the final norm, not behind it */
    bool at_state;
    uint64_t seed; /* RANDOM: entry (i, c) of G depends on the seed, first_row + i and c alone */
    int64_t first_row; /* of the batch among the rows of all batches */
} rs_loss;

/* What is taken for a constant on the way back (bits). */
enum {
    RS_HOLD_ATTENTION = 1,  /* the matrices of attention, and of graphs that have a softmax */
    RS_HOLD_NORM = 2,       /* what norms multiply by: 1/sqrt(variance + eps) */
    RS_HOLD_ACTIVATION = 4, /* phi(a)/a of an activation phi, and of a head's soft cap; of a
                               sigmoid, which is not 0 at 0, refused (RS_E_UNSUPPORTED) */
    RS_HOLD_GATE = 8,       /* the factor that a gate gives */
    /* the matrices of all other mixers: steps, decays, strengths, and what plays queries and keys */
    RS_HOLD_MIXING = 16,
    /* all of them: an op is linear in its input then, and a gradient times its input is conserved
       (docs/theory/gradients.md, 9) */
    RS_HOLD_ALL = 31
};

/* ---- what is told ---- */

/* Which tensor of a weight (op_traits.h) a parameter is. */
typedef enum rs_parameter_part {
    RS_OF_WEIGHT, /* of a map or a convolution; plain numbers */
    RS_OF_BIAS,
    RS_OF_GAIN,   /* of a norm */
    RS_OF_MORE_1, /* a convolution's weights of further channels */
    RS_OF_MORE_2,
    /* the network's own numbers: */
    RS_OF_SKIP,     /* the skip strength of a branch */
    RS_OF_SCALE,    /* its residual scale */
    RS_OF_IDENTITY, /* what an attention applies to its values: identity I + softmax P - uniform C */
    RS_OF_SOFTMAX,
    RS_OF_UNIFORM
} rs_parameter_part;

/* Whether it is the network's own number, which no tensor holds. */
static inline bool rs_part_is_number(rs_parameter_part part)
{
    return part >= RS_OF_SKIP;
}

/* Rows of a map's outputs in memory: output u is vector v(u) = first + u / run * stride + u % run, a
 * row of the matrix at `data` where out_is_row, else a column. */
typedef struct rs_gradient_place {
    void *data;
    int64_t ld;
    bool out_is_row;
    int64_t first, run, stride;
    bool fresh; /* has no numbers yet: a product (OUTER) is written there, not added */
} rs_gradient_place;

/* A parameter at one of the places that use it. */
typedef struct rs_parameter {
    int32_t layer, branch; /* from 0; -1: outside of the layers */
    const char *name;      /* of its weight ("q", "tokens"), or where its norm stands ("before",
                              "inside", "after", "final"), or "branch" */
    rs_parameter_part part;
    rs_role role; /* UNKNOWN for norms around an op, and for numbers that are not stored */
    const rs_tensor *tensor; /* NULL: the network's own number */
    const rs_dense *map;     /* whose weight or bias it is; or NULL */
    int64_t out, in; /* a map's: [out, in] in the order of its outputs; else [out], in = 1 */
    rs_gradient_place place; /* of its numbers in the tensor as it is stored; data NULL */
    int32_t uses;            /* places of the network that read these numbers, or some of them */
    bool overlaps;           /* there are several */
} rs_parameter;

/* The network's own number that a parameter is; NULL: it is a tensor's. */
const double *rs_parameter_number(const rs_network *network, const rs_parameter *parameter);

typedef enum rs_gradient_use {
    RS_USE_ALONE, /* complete: no other place uses the same numbers */
    RS_USE_ONE,   /* the share of one of several places */
    RS_USE_SUM    /* complete: the sum over all places, of the numbers that this one uses */
} rs_gradient_use;

typedef enum rs_gradient_form {
    RS_GRADIENT_ZERO,  /* it is 0 throughout, for the reason `why` */
    RS_GRADIENT_DENSE, /* numbers */
    RS_GRADIENT_OUTER, /* d^T x, not multiplied out */
    RS_GRADIENT_ROWS   /* rows that are not 0 */
} rs_gradient_form;

typedef struct rs_gradients rs_gradients;

/* A gradient, [out, in] of its parameter: its numbers times 2^exponent. Valid during the call only. */
typedef struct rs_gradient_view {
    const rs_parameter *parameter;
    rs_gradient_use use;
    rs_precision precision; /* of all numbers: float (F32) or double */
    int64_t out, in;
    int64_t exponent; /* 0 but in the residual precision */
    /* RESIDUAL: of queries and keys, found from what tells tokens apart, which nothing is subtracted
     * from: it has no floor (docs/theory/gradients.md, 8) */
    bool apart;
    bool drowned; /* RESIDUAL: all of it may be rounding, for what reached it may be */
    rs_gradient_form form;
    const char *why;         /* ZERO */
    rs_gradient_place dense; /* DENSE */
    const void *x, *d;       /* OUTER: [m, in] with ldx, [m, out] with ldd; ROWS: d is [m, in] */
    int64_t m, ldx, ldd;
    const int64_t *rows; /* ROWS: [m] outputs, ascending; others are 0 */
    rs_gradients *of;
} rs_gradient_view;

/* Sums of squares of the gradient's numbers over equal stretches of its outputs (parts of them), or
 * of its inputs where by_input: squares [parts], which are to be multiplied by 4^exponent. */
rs_status rs_gradient_squares(double *squares, const rs_gradient_view *view, int64_t parts,
                              bool by_input, rs_error *err);
/* out = the gradient's numbers, to be multiplied by 2^exponent, row by row in the order of outputs:
 * [out, in] float or double. */
rs_status rs_gradient_write(void *out, const rs_gradient_view *view, rs_error *err);

/* tensor, [numbers of the stored tensor] += the gradient, at the place of its parameter; 0 or
 * infinite where no double is. */
rs_status rs_gradient_store(void *tensor, const rs_gradient_view *view);

/* A listener. Any function may be NULL. */
typedef struct rs_gradient_tap {
    void *user;
    /* Each parameter once, in no promised order. */
    rs_status (*parameter)(void *user, const rs_gradient_view *view, rs_error *err);
    /* The derivative by the state behind layer l (0: what enters the first), of every batch; from the
     * last to 0. RESIDUAL: base is 0 and residual is the derivative's numbers, whose mean is not 0. */
    rs_status (*state)(void *user, int32_t layer, const rs_state_view *view, rs_error *err);
    /* The derivative by the batch's memory, [rows of memory, width] double: in front of each
     * state but the last, what the layers behind it gave; in front of state 0 it is complete. */
    rs_status (*memory)(void *user, const double *gradient, int64_t rows, int64_t width,
                        rs_error *err);
} rs_gradient_tap;

/* ---- running ---- */

/* Which of the network's own numbers are told (bits): 0 is skips and residual scales. */
enum {
    RS_NUMBERS_NO_SKIPS = 1,
    RS_NUMBERS_NO_SCALES = 2,
    RS_NUMBERS_SHAPED = 4 /* the three numbers of every attention as well; not of RESIDUAL */
};

typedef struct rs_gradient_plan {
    bool recompute; /* keep one state a layer and one layer's tape, and run each layer once more */
    unsigned hold;  /* RS_HOLD_... */
    bool several; /* batches follow each other: parameters are told by rs_gradients_finish alone */
    bool apart;   /* places that share a tensor are told one by one, and never added up */
    unsigned numbers; /* RS_NUMBERS_... */
} rs_gradient_plan;

/* Opens what collects the gradients of a network; network, taps and context must outlive it. Refuses
 * a mixer that has no way back, and RS_NUMBERS_SHAPED in the residual precision (RS_E_UNSUPPORTED). */
rs_status rs_gradients_open(rs_gradients **out, const rs_network *network, rs_precision precision,
                            const rs_gradient_plan *plan, const rs_gradient_tap *const *taps,
                            size_t n_taps, const rs_context *context, rs_error *err);
/* Forgets what was collected and told, for a batch of its own; memory stays. */
void rs_gradients_again(rs_gradients *gradients);
void rs_gradients_close(rs_gradients *gradients);

/* Runs a batch forward, while the taps listen as in rs_runner_run, and back. *loss gains what the
 * batch's loss is, and may be NULL. Refuses points. */
rs_status rs_runner_gradient(double *loss, rs_runner *runner, const rs_batch *batch,
                             const rs_loss *wanted, rs_gradients *gradients,
                             const rs_tap *const *taps, size_t n_taps, rs_error *err);
/* The loss alone, of a kind that the head gives: runs the batch forward and keeps nothing for a way
 * back. *loss gains it. */
rs_status rs_runner_loss(double *loss, rs_runner *runner, const rs_batch *batch,
                         const rs_loss *wanted, const rs_tap *const *taps, size_t n_taps,
                         rs_error *err);
/* Tells what is not told yet: behind the last batch. */
rs_status rs_gradients_finish(rs_gradients *gradients, rs_error *err);

/* Whether each row of the derivative by an attention's logits sums to 0 as nearly as rounding of that
 * row allows, in texts of that many keys: it is taken from that of one key (docs/theory/gradients.md,
 * 4). */
bool rs_softmax_is_centred(const rs_attention_op *op, int64_t keys);

/* Bytes that a tape of `rows` rows will take, and that a runner's tape takes. */
uint64_t rs_tape_bytes(const rs_network *network, rs_precision precision,
                       const rs_gradient_plan *plan, int64_t rows);
uint64_t rs_runner_tape(const rs_runner *runner);

#endif
