/*
 * relevance.h: what of an output each token is responsible for, by conservative propagation
 * (docs/theory/gradients.md, 9): the relevance of tokens, sums of it at every cut, and how far the
 * output moves when tokens are put in or taken away by it.
 */
#ifndef RS_OBSERVE_RELEVANCE_H
#define RS_OBSERVE_RELEVANCE_H

#include "observe/gather_gradients.h"

/* ---- what is asked ---- */

typedef struct rs_relevance_request {
    const rs_targets *targets; /* of rs_targets_explain */
    rs_precision precision;
    bool recompute;
    int64_t batch;        /* texts of removal curves that run at once; 0: as memory allows */
    int32_t stand_in;     /* id that a token is replaced by in removal curves; -1: none are taken */
    uint64_t seed;        /* of the random order of removal curves */
    const char *phase;    /* name for the progress bar */
    uint64_t done, total; /* tokens, as in rs_pass_plan */
} rs_relevance_request;

/* ---- what was found ---- */

/* A cut in front of layer `layer` (from 0; the number of layers: behind the last). */
typedef struct rs_relevance_cut {
    double sum;       /* over tokens of <state, derivative> */
    double biases;    /* what biases above the cut absorb */
    double memory;    /* what the memory, as layers above read it, absorbs */
    double size;      /* sum of the absolute values of all terms */
    double deviation; /* |sum + biases + memory - explained| / size */
    double cosine;    /* of the profiles over tokens of the two explained rows; NaN: one row */
    double effective; /* (sum of tokens' |g|)^2 / sum of |g|^2 */
} rs_relevance_cut;

/* A sample. */
typedef struct rs_explained {
    int64_t sample;         /* of the inputs */
    int64_t row;            /* in the sample, that is explained */
    int32_t output;         /* of the head; -1: the row's length */
    double explained;       /* f */
    rs_relevance_cut *cuts; /* [layers + 1] */
} rs_explained;

/* By what tokens are ordered, and how. */
typedef enum rs_removal_method {
    RS_REMOVAL_RELEVANCE,
    RS_REMOVAL_GRADIENT_INPUT,
    RS_REMOVAL_ROLLOUT,
    RS_REMOVAL_RANDOM,
    RS_REMOVAL_METHODS
} rs_removal_method;
typedef enum rs_removal_order {
    RS_REMOVAL_INSERT, /* tokens of the largest score are put into a text of stand-ins first */
    RS_REMOVAL_REMOVE, /* tokens of the least absolute score are replaced first */
    RS_REMOVAL_ORDERS
} rs_removal_order;
enum { RS_REMOVAL_STEPS = 11 }; /* fractions 0, 0.1, ... 1 */

/* Sums over samples. */
typedef struct rs_removal_curve {
    int64_t samples; /* 0: the method is not there for this network and these inputs */
    double output[RS_REMOVAL_STEPS];   /* of the explained number */
    double distance[RS_REMOVAL_STEPS]; /* of its distance from that of the whole text */
} rs_removal_curve;

typedef struct rs_removal {
    rs_removal_curve of[RS_REMOVAL_METHODS][RS_REMOVAL_ORDERS];
} rs_removal;

typedef struct rs_relevance {
    rs_explained *samples; /* [n] those that have tokens */
    size_t n;
    rs_relevance_cut *cuts; /* what samples point to */
    double *relevance;      /* [rows of the inputs] */
    double *gradient_input; /* the same with nothing held */
    rs_removal removal;
    rs_pass_account account; /* of all passes */
} rs_relevance;

/* Explains every sample, one at a time. */
rs_status rs_relevance_run(rs_relevance **out, const rs_network *network, rs_weights *weights,
                           const rs_inputs *inputs, const rs_relevance_request *request,
                           const rs_context *context, rs_error *err);
void rs_relevance_free(rs_relevance *relevance); /* NULL is fine */

/* The deviation that rounding may give. */
double rs_relevance_tolerance(rs_precision precision);
/* Bytes beside the passes' own: samples of `longest` tokens, `rows` in all. */
double rs_relevance_bytes(const rs_network *network, int64_t longest, int64_t rows,
                          int64_t samples);
/* The texts of one sample's removal curves. */
enum { RS_REMOVAL_TEXTS = RS_REMOVAL_METHODS * RS_REMOVAL_ORDERS * RS_REMOVAL_STEPS };
const char *rs_removal_method_name(rs_removal_method method); /* "relevance" */
const char *rs_removal_order_name(rs_removal_order order);    /* "insert" */

/* ---- parts ---- */

/* What all passes of a run have in common. */
typedef struct rs_relevance_work {
    const rs_network *network;
    rs_weights *weights;
    const rs_relevance_request *request;
    const rs_context *context;
    rs_pass_account *account;
} rs_relevance_work;

/* One sample as inputs of its own, which borrow. */
typedef struct rs_one_sample {
    rs_inputs inputs;
    int64_t begin[2], memory_begin[2];
} rs_one_sample;

/* A pass over inputs, forward, and back where `gradient` is not NULL; *loss may be NULL. */
rs_status rs_relevance_pass(double *loss, const rs_relevance_work *w, const rs_inputs *inputs,
                            const rs_pass_gradient *gradient, rs_listener *listener, rs_error *err);

/* relevance_cuts.c: what a pass back from an explained row finds at each cut. */
typedef enum rs_cuts_pass {
    RS_CUTS_FIRST, /* cuts, and profiles to compare with */
    RS_CUTS_OTHER, /* of the sample's other end: cosines */
    RS_CUTS_PLAIN  /* with nothing held: `own` alone */
} rs_cuts_pass;
typedef struct rs_cut_gather {
    const rs_relevance_work *work;
    rs_listener listener;
    rs_gradient_tap tap;
    const rs_inputs *one; /* the sample */
    int64_t rows;
    double *states;          /* [layers + 1, rows, d_model] */
    double *profiles;        /* [layers + 1, rows] of the first row, then [rows] of the other */
    rs_cuts_pass hears;      /* the pass at hand */
    double *own;             /* [rows] relevance of what enters the first layer */
    rs_relevance_cut *cuts;  /* [layers + 1] */
    rs_relevance_cut so_far; /* biases and memory, and their size */
    double memory_size;
    double *numbers; /* a bias and its gradient */
    size_t room;
} rs_cut_gather;
rs_status rs_cut_gather_open(rs_cut_gather *g, const rs_relevance_work *w, int64_t longest,
                             rs_error *err);
void rs_cut_gather_close(rs_cut_gather *g);
/* Sets deviations: behind the first pass, with what it explained. */
void rs_cut_gather_finish(rs_relevance_cut *cuts, int32_t layers, double explained);

/* head_outputs.c: what is explained, without a way back. Takes row `row` of each sample's final
 * state: states [samples, d_model]. */
rs_status rs_final_rows(double *states, const rs_relevance_work *w, const rs_inputs *inputs,
                        int64_t row, rs_error *err);
/* values [n]: the output `output` of final states [n, d_model], -1: their lengths. */
rs_status rs_head_outputs(double *values, const rs_relevance_work *w, double *states, int64_t n,
                          int32_t output, rs_error *err);
/* *output: the largest one of a final state [d_model]. */
rs_status rs_head_largest(int32_t *output, const rs_relevance_work *w, double *state,
                          rs_error *err);

/* rollout.c: scores [rows] of row `row` of the product over layers of (A + I)/2, A the mean of the
 * heads' softmax, later layers standing left. *there false: some mixer is no self-attention, or the
 * sample has more than RS_ROLLOUT_TOKENS tokens. */
enum { RS_ROLLOUT_TOKENS = 512 };
int32_t rs_rollout_heads(const rs_network *network); /* the most of a layer; -1: no such score */
rs_status rs_rollout(double *scores, bool *there, const rs_relevance_work *w, const rs_inputs *one,
                     int64_t row, rs_error *err);

/* removal.c: adds one sample to the curves. scores: [RS_REMOVAL_METHODS] by token; NULL: the method
 * is not there; the random order is drawn here. */
rs_status rs_removal_add(rs_removal *removal, const rs_relevance_work *w, const rs_inputs *one,
                         const rs_explained *explained,
                         const double *const scores[RS_REMOVAL_METHODS], rs_error *err);

#endif
