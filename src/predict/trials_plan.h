/* trials_plan.h: a plain network as batched trials read it. Private to trials_*.c. */
#ifndef RS_PREDICT_TRIALS_PLAN_H
#define RS_PREDICT_TRIALS_PLAN_H

#include "base/memory.h"
#include "predict/trials.h"
#include "predict/trials_draw.h"

typedef struct rs_trials_norm {
    bool on, centred;
    double eps, gain;
} rs_trials_norm;

/* out 0: absent. */
typedef struct rs_trials_map {
    int64_t out, in;
    rs_weight_law law;
    uint32_t role, layer; /* of its stream */
    int64_t at;           /* where its numbers are kept */
    bool draws;           /* no layer in front of this one has drawn them */
} rs_trials_map;

/* An attention has q, k, v, o; an MLP q = up, k = gate, v = down. */
enum { RS_TRIALS_MAPS = 4, RS_TRIALS_Q = 0, RS_TRIALS_K, RS_TRIALS_V, RS_TRIALS_O };
enum { RS_TRIALS_W_UP = 0, RS_TRIALS_W_GATE, RS_TRIALS_W_DOWN };

/* What cells that share draws may have of their own, of one branch. */
typedef struct rs_trials_dial {
    double skip, scale;
    double logit; /* of q·k: scale/temperature */
    double identity, softmax, uniform;
} rs_trials_dial;

typedef struct rs_trials_branch {
    bool mlp;
    rs_trials_norm before, inside, after;
    rs_trials_map maps[RS_TRIALS_MAPS];
    /* attention */
    int64_t heads, kv_heads, head_dim, value_dim;
    bool merged, causal;
    int64_t window;
    /* MLP */
    rs_activation activation;
    rs_trials_dial dial;
    /* where in a thread's record the way back finds what it needs (trials_batch.c): what the op read, what
     * norms gave and multiplied by, q k v or up gate, softmax, what heads gave */
    int64_t in, before_inverse, inside_out, inside_inverse, after_out, after_inverse;
    int64_t projected[3], probabilities, mixed;
} rs_trials_branch;

typedef struct rs_trials_layer {
    rs_trials_branch branches[RS_BRANCHES_MAX];
    int32_t n_branches;
} rs_trials_layer;

typedef struct rs_trials_plan {
    int64_t d;
    int32_t n_layers;
    rs_trials_layer *layers;
    rs_trials_norm final_norm;
    int64_t weights; /* numbers of all maps, each stored layer once */
    int64_t widest;  /* numbers of the maps of a branch, at most */
    int64_t heads;   /* of an attention, at most */
    int64_t rows;    /* of the widest state: d, inputs and outputs of any map */
} rs_trials_plan;

/* Reads it; RS_E_UNSUPPORTED where it is not plain, RS_E_NO_MEMORY. */
rs_status rs_trials_plan_open(rs_trials_plan **out, const rs_network *network, int64_t n,
                              rs_error *err);
void rs_trials_plan_close(rs_trials_plan *plan); /* NULL is fine */
/* They differ in depth and dials alone: what both have of layers is the same. */
bool rs_trials_plans_share(const rs_trials_plan *a, const rs_trials_plan *b);
/* States of the first layers of `deep`, whose plan b shares, are those of b: their dials are the same too. */
bool rs_trials_plan_begins(const rs_trials_plan *deep, const rs_trials_plan *b);
/* w [out*in]: a map's numbers in a trial. */
void rs_trials_draw_map(float *w, const rs_trials_map *map, uint64_t seed, int32_t trial);

#endif
