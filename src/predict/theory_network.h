/*
 * theory_network.h: an rs_network as the numbers that theory reads (theory.h). Branches that theory
 * does not cover carry the reason.
 */
#ifndef RS_PREDICT_THEORY_NETWORK_H
#define RS_PREDICT_THEORY_NETWORK_H

#include "base/memory.h"
#include "network/network.h"
#include "predict/theory.h"

/* Who knows the weights: laws that are not drawn yet, or stored numbers (rs_theory_stored). */
typedef struct rs_theory_weights {
    /* E W² over the entries of a map, which is not absent. */
    rs_status (*map)(void *user, double *mean_square, const rs_dense *dense, rs_error *err);
    /* Whether the mean of the map's law is not 0, which theory does not cover; NULL: none has one. */
    bool (*has_mean)(void *user, const rs_dense *dense);
    /* the mean square of a norm's gains; NULL: they are 1 */
    rs_status (*gain)(void *user, double *mean_square, const rs_norm_op *norm, rs_error *err);
    void *user;
} rs_theory_weights;
/* Means over what is stored, or drawn. */
extern const rs_theory_weights rs_theory_stored;

/* What enters the first layer: n tokens of squared norm norm2 each, and of correlation rho. */
typedef struct rs_theory_input {
    int64_t n;
    double norm2, rho;
} rs_theory_input;

typedef struct rs_theory_model rs_theory_model;
rs_status rs_theory_model_open(rs_theory_model **out, const rs_network *network,
                               const rs_theory_input *input, const rs_theory_weights *weights,
                               rs_error *err);
void rs_theory_model_close(rs_theory_model *model); /* NULL is fine */
const rs_theory_network *rs_theory_model_network(const rs_theory_model *model);

#endif
