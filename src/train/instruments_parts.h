/* instruments_parts.h: what the files behind instruments.h share. */
#ifndef RS_TRAIN_INSTRUMENTS_PARTS_H
#define RS_TRAIN_INSTRUMENTS_PARTS_H

#include "linalg/gram.h"
#include "linalg/null_model.h"
#include "linalg/squares.h"
#include "products/factor.h"
#include "train/instruments.h"

/* ---- what is looked at ---- */

/* A factor of head products, listed once however many products have it. */
typedef struct rs_watched_factor {
    rs_factor factor;
    int64_t item; /* of the learner's list */
    double *gram; /* [inner, inner] as weights were when they were measured */
    bool fragile, usable;
    size_t bundle; /* factors from this one on that are read together; 0: read with one before */
} rs_watched_factor;

/* A product of two of them, or (b < 0) one alone, whose partner is merged into it. */
typedef struct rs_watched_product {
    int32_t layer, head;
    rs_product_kind kind;
    int64_t a, b;
    int64_t inner, k; /* k: singular values */
    /* The loss depends on A Bᵀ alone: no bias, no norm, no rotation, no sharing between them. */
    bool alone;
    const rs_null_model *null;
    double *sigma;     /* [inner] */
    rs_gram_pair pair; /* of the last reading */
    double first_norm; /* |Q| of the first reading; NaN: there was none */
    double
        *difference; /* [inner, inner] Q, and S of the law of momentum, of a step that is checked */
    double *momentum;
} rs_watched_product;

/* The maps of queries, keys, values and what is written; NULL: the mixer has none. */
enum { RS_MAP_Q, RS_MAP_K, RS_MAP_V, RS_MAP_O, RS_MAPS };
typedef struct rs_watched_mixer {
    int32_t layer;
    const rs_dense *maps[RS_MAPS];
    int64_t items[RS_MAPS];  /* -1: it is not trained */
    double squares[RS_MAPS]; /* norms of the loss's gradients, as they were last heard */
    double numbers[RS_MAPS]; /* effective rates, as they were last found */
} rs_watched_mixer;

/* What a thread works in. */
typedef struct rs_instrument_scratch {
    rs_tile tile;
    double *work;        /* of the spectra */
    double *vectors;     /* [RS_PRODUCTS_AT_ONCE, largest] */
    rs_squares together; /* of the spectra, too */
    double *tiles;       /* [2, largest factor] of laws of balance; NULL: none is looked at */
    double *squares;     /* [2, largest, largest] likewise */
} rs_instrument_scratch;
enum { RS_PRODUCTS_AT_ONCE = 8 };

/* The probe batch and what hears its pass. */
typedef struct rs_instrument_probe {
    rs_feed feed;
    rs_runner *runner;
    int64_t samples, longest;
    int32_t *head_first;             /* [layers + 1] first row of the heads of each layer */
    double *entropy, *share, *logit; /* [heads, samples]; NaN: not told */
    double *residual, *cosine;       /* [samples] of the state that is told */
    void **workspaces;               /* [threads] of rs_token_workspace bytes */
    rs_tap tap;
} rs_instrument_probe;

struct rs_instruments {
    rs_learner *learner;
    const rs_network *network;
    const rs_context *context;
    rs_watched_factor *factors;
    size_t n_factors, factor_capacity;
    rs_watched_product *products;
    size_t n_products, product_capacity;
    rs_watched_mixer *mixers;
    size_t n_mixers, mixer_capacity;
    rs_null_cache nulls;
    double *numbers; /* the memory of all Grams and spectra */
    double *laws;    /* and of what laws of balance need; NULL: none is looked at */
    int64_t largest, largest_factor;
    rs_instrument_scratch *scratch; /* [threads] */
    rs_instrument_probe probe;
    rs_optimiser_change *changes; /* [items] */
    rs_rank_row *ranks;           /* [n_products] */
    rs_layer_row *layers;         /* [layers + 1] */
    double update_ratio;
    int64_t step;          /* of the last reading */
    bool checks, checking; /* laws of balance are looked at; at this step */
    bool heard;            /* the loss's gradients of the step that is being read */
    /* the sum of the rates of steps [first_step, summed) */
    int64_t first_step, summed; /* first_step -1: nothing was read yet */
    double rates;
};

/* instruments_products.c: lists factors, products and mixers. */
rs_status rs_instruments_list(rs_instruments *i, rs_error *err);

/* instruments_ranks.c: Grams, spectra, and the rows of table ranks. */
rs_status rs_instruments_ranks_open(rs_instruments *i, rs_error *err);
void rs_instruments_ranks_close(rs_instruments *i);
rs_status rs_instruments_grams(rs_instruments *i, rs_error *err);
rs_status rs_instruments_ranks(rs_instruments *i, rs_error *err);
/* Fills contraction and contraction_expected. */
void rs_instruments_contract(rs_instruments *i);

/* instruments_probe.c: the pass over the probe batch. */
rs_status rs_instruments_probe_open(rs_instruments *i, rs_train_task *task, rs_error *err);
void rs_instruments_probe_close(rs_instruments *i);
rs_status rs_instruments_probe(rs_instruments *i, rs_error *err);

/* instruments_gradients.c: gradients, what a step changed, effective rates, the network's numbers. */
void rs_instruments_gradients(rs_instruments *i);
void rs_instruments_updates(rs_instruments *i);

/* instruments_balance.c: the laws of balance around a step. */
double rs_instruments_balance_cost(const rs_instruments *i);
rs_status rs_instruments_balance_open(rs_instruments *i, rs_error *err);
void rs_instruments_balance_close(rs_instruments *i);
rs_status rs_instruments_balance_before(rs_instruments *i, rs_error *err);
rs_status rs_instruments_balance_after(rs_instruments *i, rs_error *err);

#endif
