/*
 * instruments.h: what a network that learns says of its ranks: its head products by their weights,
 * its tokens on a fixed probe batch, its gradients and what a step changes (docs/train.md,
 * Instruments). Sums are float64's whatever the run's precision, and hang on no number of threads.
 *
 * A step that is logged is surrounded:
 *
 *     rs_instruments_hear_loss       behind the step's batches, which left the loss's gradients; may be
 *                                    left out where nothing is added to them
 *     rs_instruments_before_step     in front of the step
 *     rs_learner_step
 *     rs_instruments_after_step      completes what only a step shows
 *
 * A step that is not logged costs nothing.
 */
#ifndef RS_TRAIN_INSTRUMENTS_H
#define RS_TRAIN_INSTRUMENTS_H

#include "report/result.h"
#include "train/learner.h"

/* A head product; NaN: the number does not exist. A (features x inner) and B are its factors, X and Y
 * their Grams, Q = X - Y (docs/theory/products.md). Ranks of a product that is zero are NaN. */
typedef struct rs_rank_row {
    int64_t step;
    int32_t layer, head;
    const char *product; /* "qk", "ov", "cb", "io" */
    int64_t inner;
    double pseudo_rank, pseudo_rank_null; /* singular values that hold 95 % of their sum, divided by
                                             `inner`; of random weights of this shape */
    double pseudo_count;                  /* and how many these are */
    double effective_rank, effective_rank_null;
    double stable_rank, stable_rank_null;
    double q_norm, q_relative; /* |Q|_F; divided by sqrt(|X|_F |Y|_F) */
    double half_norm, nuclear_norm, gap;
    double balance_score;
    double contraction;          /* |Q| divided by that of the first reading */
    double contraction_expected; /* exp(-2 sum of rate times decay) of the steps since */
    double balance_residual;     /* by how much the step missed its law of balance, relative */
    const char *balance_law;     /* "gradient", "momentum", "update"; NULL: not looked at */
} rs_rank_row;

/* A layer; the first row is of what enters the first layer and has nothing else. */
typedef struct rs_layer_row {
    int64_t step;
    int32_t layer; /* -1: what enters */
    /* of what leaves the layer, means over the samples of the probe batch */
    double relative_residual, mean_cosine;
    /* of its attention, means over heads and samples: nats; divided by that of uniform attention;
       largest logit of all */
    double entropy, entropy_share, logit_max;
    /* squared norms of the gradients of the mixer's maps */
    double g_q, g_k, g_v, g_o;
    double ratio_q_v, ratio_k_v;   /* of two of them */
    double update_ratio;           /* norm of what the step changed, divided by that of the
                                      weights that are trained */
    double rate_q, rate_k, rate_v; /* effective learning rates */
    double mixer_skip, mixer_scale, mlp_skip, mlp_scale;
    double identity, softmax, uniform; /* of what attention applies */
} rs_layer_row;

/* All of a step. The rows are the instruments' own, until the next reading. */
typedef struct rs_instrument_reading {
    int64_t step; /* steps made before it */
    const rs_rank_row *ranks;
    size_t n_ranks;
    const rs_layer_row *layers; /* [n_layers] one more than the network has */
    size_t n_layers;
    double update_ratio; /* of all weights together */
} rs_instrument_reading;

typedef struct rs_instruments rs_instruments;

/* Draws the probe batch. The learner must outlive it; the task is needed here only. */
rs_status rs_instruments_open(rs_instruments **out, rs_learner *learner, rs_train_task *task,
                              rs_error *err);
void rs_instruments_close(rs_instruments *instruments); /* NULL is fine */

/* Whether the laws of balance are looked at: at first where that is cheap. */
void rs_instruments_check_balance(rs_instruments *instruments, bool check);

/* Takes in the gradients of the loss alone, before a penalty's join them. */
void rs_instruments_hear_loss(rs_instruments *instruments);
/* Measures all but what a step changes, which is NaN until rs_instruments_after_step. Errors: those
 * of a forward pass, RS_E_LAPACK, RS_E_NO_MEMORY. */
rs_status rs_instruments_before_step(rs_instruments *instruments, rs_error *err);
rs_status rs_instruments_after_step(rs_instruments *instruments, rs_error *err);
rs_instrument_reading rs_instruments_reading(const rs_instruments *instruments);

/* What a run that is taken up again needs: an object; NULL when out of memory. */
json_t *rs_instruments_save(const rs_instruments *instruments);
/* Errors: RS_E_CONFIG_SCHEMA where it is of another network. */
rs_status rs_instruments_load(rs_instruments *instruments, const json_t *json, const char *where,
                              rs_error *err);

/* Tables `ranks` and `layers`: the columns of both rows are their one part. */
extern const rs_table_kind rs_train_ranks_kind, rs_train_layers_kind;

#endif
