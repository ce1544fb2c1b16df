/*
 * one_layer.h: one attention layer Y = sum over heads of P_h X W_h, drawn at random and run by the
 * engine, beside the quantities that theory speaks of (docs/theory/collapse.md, 1): tokens X = 1x +
 * R, E_h = R W_QK,h Rᵀ/sqrt(d), r_h = R (W_QK,hᵀ x + W_K b_Q)/sqrt(d), p_h = softmax(r_h), so that
 * P_h = softmax(1 r_hᵀ + E_h).
 */
#ifndef RS_LAB_ONE_LAYER_H
#define RS_LAB_ONE_LAYER_H

#include "lab/toy.h"

enum { RS_ONE_TOKENS = 12, RS_ONE_WIDTH = 10, RS_ONE_HEADS = 4 };
enum { RS_ONE_SQUARE = RS_ONE_WIDTH * RS_ONE_WIDTH, RS_ONE_MATRIX = RS_ONE_TOKENS * RS_ONE_WIDTH };

/* The shapes that draws come in. */
typedef enum rs_one_kind {
    RS_ONE_PLAIN,
    RS_ONE_SPARSE_TOKENS,
    RS_ONE_UNEQUAL_TOKENS,
    RS_ONE_UNEQUAL_FEATURES,
    RS_ONE_SPARSE_WEIGHTS,
    RS_ONE_KINDS
} rs_one_kind;

/* The layer and its quantities; every array is row-major. */
typedef struct rs_one_layer {
    int64_t n, d;
    int32_t heads;
    double residual[RS_ONE_MATRIX], mean[RS_ONE_WIDTH], tokens[RS_ONE_MATRIX];
    double qk[RS_ONE_HEADS][RS_ONE_SQUARE];     /* W_QK,h */
    double values[RS_ONE_HEADS][RS_ONE_SQUARE]; /* W_h */
    double base[RS_ONE_HEADS][RS_ONE_TOKENS];   /* p_h */
    double range[RS_ONE_HEADS][RS_ONE_TOKENS];  /* range of every row of E_h */
    double bias[RS_ONE_HEADS][RS_ONE_WIDTH]; /* bias of the queries, for keys that are X itself */
} rs_one_layer;

/* The size of a layer, and the laws that it is drawn by. */
typedef struct rs_one_draw {
    int64_t n, d;
    int32_t heads;
    rs_one_kind kind;
    double size;      /* composite norm of R */
    double mean;      /* standard deviation of x's entries and of the queries' bias */
    double weights;   /* standard deviation of W_QK's entries */
    double max_range; /* largest range of E, to which W_QK is scaled down; INFINITY: it is not */
} rs_one_draw;
void rs_one_layer_draw(rs_one_layer *layer, const rs_one_draw *draw, rs_random *random);

/* Makes a layer of 4 tokens, 3 features and so many heads whose every number is a hash of its
 * index, as tests/oracle/lab_expected.py has it. */
void rs_one_layer_hashed(rs_one_layer *layer, int32_t heads);

/* Draw a whole number of `low` to `high`, both included; or one of the values. */
int64_t rs_pick_between(rs_random *random, int64_t low, int64_t high);
double rs_pick_value(rs_random *random, const double *values, int n);

/* Fills base, range, tokens and bias from residual, mean, qk and g_h = W_QK,hᵀ x + W_K b_Q. */
void rs_one_layer_complete(rs_one_layer *layer, double g[][RS_ONE_WIDTH]);
/* Runs the layer: state 1 is Y, and P_h are its mixing matrices. */
rs_status rs_one_layer_run(rs_toy_trace *trace, rs_one_layer *layer, const rs_context *context,
                           rs_error *err);
/* out = Y - 1 y, y = sum_h W_hᵀ (x + Rᵀ p_h): the residual against the centre that the proofs
 * track. */
void rs_one_layer_tracked(double *out, const rs_one_layer *layer, const rs_toy_trace *trace);
double rs_one_layer_range(const rs_one_layer *layer, int32_t head); /* the largest of a head */

#endif
