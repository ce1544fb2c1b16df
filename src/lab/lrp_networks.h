/*
 * lrp_networks.h: the networks of lrp-conservation, and what passes back from an output of theirs
 * find at each cut (observe/relevance.h).
 */
#ifndef RS_LAB_LRP_NETWORKS_H
#define RS_LAB_LRP_NETWORKS_H

#include "lab/toy.h"
#include "observe/relevance.h"

enum { RS_LRP_TOKENS = 7, RS_LRP_WIDTH = 16, RS_LRP_DEPTH = 8 };

/* A network of attention and MLP whose numbers are a hash; the output is c·x_row behind its norms. */
typedef struct rs_lrp_network {
    int layers; /* RS_LRP_DEPTH at most */
    double skip;
    bool post;   /* norms behind the sums; else in front, and one behind all */
    bool gelu;   /* else ReLU */
    bool biases; /* of values, output maps and MLPs */
} rs_lrp_network;
rs_status rs_lrp_open(rs_toy *toy, const rs_lrp_network *network, const rs_context *context,
                      rs_error *err);
/* The tokens of draw `draw`: x [RS_LRP_TOKENS, RS_LRP_WIDTH]. */
void rs_lrp_tokens(double *x, int draw);

/* An attention head y_j = sum_i p_ij x_i on 4 tokens of width 3, and a LayerNorm of 6 numbers, with
 * the numbers of a linear congruential generator; x is what they are fed. Output j of the head's
 * network is G_j·x. */
enum { RS_LRP_HEAD_TOKENS = 4, RS_LRP_HEAD_WIDTH = 3, RS_LRP_NORM_WIDTH = 6 };
rs_status rs_lrp_head(rs_toy *toy, double x[RS_LRP_HEAD_TOKENS * RS_LRP_HEAD_WIDTH],
                      const rs_context *context, rs_error *err);
rs_status rs_lrp_norm(rs_toy *toy, double x[RS_LRP_NORM_WIDTH], const rs_context *context,
                      rs_error *err);

/* What is found. */
typedef struct rs_lrp_found {
    double explained;
    rs_relevance_cut cuts[RS_LRP_DEPTH + 1];
} rs_lrp_found;
/* targets [n]: the output that is explained at each token, or -1; others: the same of a second pass,
 * whose profiles are compared with the first's; NULL: none. hold: RS_HOLD_... */
rs_status rs_lrp_explain(rs_lrp_found *out, const rs_toy *toy, const double *x, int64_t n,
                         const int32_t *targets, const int32_t *others, unsigned hold,
                         rs_error *err);

#endif
