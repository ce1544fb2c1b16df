/*
 * gather_gradients.h: the listener that takes norms of gradients: a row for each parameter, and for
 * each head of queries, keys, values and output maps (docs/theory/gradients.md, 7).
 */
#ifndef RS_OBSERVE_GATHER_GRADIENTS_H
#define RS_OBSERVE_GATHER_GRADIENTS_H

#include "observe/pass.h"
#include "observe/targets.h"

/* What to take. */
typedef struct rs_gradient_request {
    const rs_targets *targets;
    bool recompute;
    unsigned hold; /* RS_HOLD_... */
} rs_gradient_request;

enum { RS_PARAMETER_NAME = 64 };

/* A gradient, of one parameter or of one head's part of it. */
typedef struct rs_gradient_row {
    char parameter[RS_PARAMETER_NAME]; /* "mixer.q.weight" */
    int32_t layer, branch;             /* from 0; -1: outside of the layers, or a sum over places */
    int32_t head;                      /* of keys and values: key head; -1: the whole parameter */
    rs_role role;
    rs_parameter_part part;
    rs_gradient_use use;
    int32_t uses;  /* places that use the same numbers, or some of them */
    int64_t count; /* numbers */
    /* square 4^exponent is the sum of squares of the gradient; NaN, infinite: it is not finite */
    double square;
    int64_t exponent;        /* 0 but in the residual precision */
    double norm, log10_norm; /* here and below a number may leave the doubles, its logarithm not */
    double rms, log10_rms;
    double weight;   /* norm of the parameter itself, as decoded */
    double relative; /* norm / weight; NaN: the weight is 0 */
    double log10_relative;
    double floor; /* a norm that rounding alone may give; NaN: none is formed */
    double log10_floor;
    rs_truth at_floor;
    bool apart, drowned;  /* as the way back says of it (rs_gradient_view) */
    const char *why;      /* norm 0: why, where the way back says so; or NULL */
    int32_t group, place; /* where in the order of the network it stands */
} rs_gradient_row;

/* Squared norms of a layer's mixer over that of its values. */
typedef struct rs_gradient_ratio {
    int32_t layer;
    double q_v, k_v;
    double log10_q_v, log10_k_v;
    double log10_q, log10_k, log10_v; /* of the squared norms; -infinity: 0 */
    bool q_floor, k_floor;            /* they are rounding */
} rs_gradient_ratio;

/* What a pass found. */
typedef struct rs_graded {
    rs_gradient_row *rows; /* [n] in the order of the network, sums over places last */
    size_t n;
    rs_gradient_ratio *ratios; /* [n_ratios] by layer */
    size_t n_ratios;
    double loss;
    const rs_gradient_row *first_bad; /* first on the way back that is not finite; or NULL */
} rs_graded;

/* *square 4^*exponent += a row's sum of squares; both are 0 at first. */
void rs_gradient_add(double *square, int64_t *exponent, const rs_gradient_row *row);

typedef struct rs_gradient_gather rs_gradient_gather;
/* Opens a listener to a pass with the way back; network and context must outlive it. */
rs_status rs_gradient_gather_open(rs_gradient_gather **out, const rs_network *network,
                                  rs_precision precision, const rs_context *context, rs_error *err);
void rs_gradient_gather_close(rs_gradient_gather *gather); /* NULL is fine */
rs_listener *rs_gradient_gather_listener(rs_gradient_gather *gather);
const rs_gradient_tap *rs_gradient_gather_tap(const rs_gradient_gather *gather);
/* Hands over what was found, behind the pass. */
rs_status rs_gradient_gather_take(rs_graded **out, rs_gradient_gather *gather, double loss,
                                  rs_error *err);
void rs_graded_free(rs_graded *graded); /* NULL is fine */

/* Bytes that the rows take. */
double rs_gradient_rows_bytes(const rs_network *network);

/* ---- parts ---- */

/* gradient_names.c: name, group and place of a row. */
void rs_gradient_name(rs_gradient_row *row, const rs_network *network, const rs_parameter *p);

/* gradient_weights.c: outputs first .. first + n - 1 of a parameter, [n, in], as they are decoded, in
 * front of what a configuration multiplies them by. */
rs_status rs_parameter_read(double *out, const rs_network *network, const rs_parameter *p,
                            int64_t first, int64_t n);
/* Sums of squares of a parameter's own numbers over stretches, as
 * rs_gradient_squares has them of its gradient. */
rs_status rs_parameter_squares(double *squares, const rs_network *network, const rs_parameter *p,
                               int64_t parts, bool by_input, const rs_context *context,
                               rs_error *err);

/* gradient_floor.c: what rounding may give the gradients of queries and keys. */
typedef struct rs_floor_rows rs_floor_rows;
rs_status rs_floor_rows_open(rs_floor_rows **out, const rs_network *network, rs_error *err);
void rs_floor_rows_close(rs_floor_rows *floor);
/* Hears what the op of a branch reads: a few rows are kept, and how much of what tells tokens apart
 * may be rounding. */
rs_status rs_floor_hear(rs_floor_rows *floor, int32_t layer, int32_t branch,
                        const rs_state_view *view, rs_error *err);
/* Fills `floor` and `at_floor` of rows [n]. */
rs_status rs_floor_set(rs_gradient_row *rows, size_t n, const rs_floor_rows *floor,
                       rs_precision precision, rs_error *err);

#endif
