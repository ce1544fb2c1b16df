/*
 * trials.h: Monte Carlo of a network at initialisation: weights and a sample are drawn, run forward
 * and back, and what each layer shows is summed up over trials (docs/theory/mean_field.md).
 *
 * A trial's sample has n tokens (rs_trials_input). Its loss is <G, X^L>, G of N(0, 1), of the last
 * states, in front of the final norm or behind it. Trials run through the engine (any network), or
 * batched by kernels of their own (small plain ones: rs_trials_batched says which). All draws follow
 * from (seed, trial, weight's role, layer) alone; results have the same bits for any number of
 * threads.
 */
#ifndef RS_PREDICT_TRIALS_H
#define RS_PREDICT_TRIALS_H

#include "base/context.h"
#include "predict/theory_network.h"

/* What is taken of each trial and layer l: of the state X in front of it (l = L: the last one, in front
 * of the final norm), of its attention, and of the derivatives of the loss by its weights. */
typedef enum rs_trials_quantity {
    RS_TRIALS_SQUARE,   /* ‖X‖_F² */
    RS_TRIALS_SUM,      /* ‖1ᵀX‖² */
    RS_TRIALS_RESIDUAL, /* ‖X − 1x̄ᵀ‖_F², x̄ the mean token, subtracted first */
    RS_TRIALS_RELATIVE, /* ‖X − 1x̄ᵀ‖_F/‖X‖_F */
    RS_TRIALS_APART, /* n ‖X − 1x̄ᵀ‖²/((n − 1) ‖X‖²): 1 − ρ of this sample; n > 1 */
    RS_TRIALS_COSINE,       /* mean cosine of pairs of tokens; n > 1, no token 0 */
    RS_TRIALS_COSINE_APART, /* 1 less it, exact however small */
    /* Σ_j A_ij² of the softmax (of the whole matrix where it has none), mean over heads and rows i; with
     * a mask of the last row alone */
    RS_TRIALS_CONCENTRATION,
    RS_TRIALS_LOGIT, /* variance of logits over the keys that a row sees; mean over the same rows */
    RS_TRIALS_QUERY, /* ‖∂L/∂W‖_F² of W_Q */
    RS_TRIALS_KEY,
    RS_TRIALS_VALUE,
    RS_TRIALS_OUTPUT, /* W_O */
    RS_TRIALS_UP,     /* of the MLP */
    RS_TRIALS_GATE,
    RS_TRIALS_DOWN,
    RS_TRIALS_QUERY_VALUE, /* gQ/gV of the trial */
    RS_TRIALS_KEY_VALUE,
    RS_TRIALS_STATE, /* ‖∂L/∂X‖_F² */
    RS_TRIALS_QUANTITIES
} rs_trials_quantity;

/* A quantity over trials. A number that no double holds is not counted; where there is none at all, all
 * but `n` are NaN. */
typedef struct rs_trials_stat {
    int32_t n;     /* trials that have a finite number */
    int32_t zeros; /* of these, exactly 0 */
    double mean, se;
    /* mean of natural logarithms over those that are positive, and its standard error; -INFINITY, NaN:
     * all are 0. Of quantities that are never negative, not of COSINE (NaN) */
    double log_mean, log_se;
    double low, median, high; /* quantiles .1 .5 .9, interpolated between order statistics */
    bool ruled_by_few;        /* se > 0.3 |mean|, or n < 2: no comparison may use the mean */
} rs_trials_stat;

typedef struct rs_trials_row {
    rs_trials_stat of[RS_TRIALS_QUANTITIES];
    /* (E ‖1ᵀX‖²/E ‖X‖² − 1)/(n − 1), 1 less it without cancellation, and their standard error, by the
     * delta method over pairs; NaN for one token */
    double rho, apart, rho_se;
    bool rho_ruled_by_few;
    /* trials of which 1 − ρ here is rounding (docs/theory/mean_field.md, 13): where there is one, all
     * that follows from 1 − ρ is NaN, as if nobody had measured it, and 1 − ρ is `most` at most */
    int32_t lost;
    double most;
} rs_trials_row;

typedef struct rs_trials {
    int32_t trials, n_layers;
    int64_t width; /* of the networks */
    bool batched;
    rs_trials_row *rows; /* [n_layers + 1] */
    double *numbers;     /* [trials, n_layers + 1, RS_TRIALS_QUANTITIES]; NaN: there is none */
    /* trials whose ‖X‖² left the doubles, and the first layer (0 .. L) in front of which one did; -1.
     * From there on nothing is counted of such a trial, on the way back nothing at all */
    int32_t left_forward, left_layer;
    bool left_below; /* one of them became too small, not too large (rs_trials_leave_below) */
    /* others whose derivatives did, and the last layer at which one did; -1 */
    int32_t left_back, left_back_layer;
} rs_trials;
void rs_trials_free(rs_trials *trials); /* NULL is fine */
/* A trial's number of a quantity. */
double rs_trials_number(const rs_trials *trials, int32_t trial, int32_t layer,
                        rs_trials_quantity quantity);

/* ---- running ---- */

/* Opens a trial's network, drawn under `seed`, for the engine; *drawn is what owns it, for `close`.
 * Called from several threads at once. */
typedef struct rs_trials_opener {
    rs_status (*open)(void *user, const rs_network **network, void **drawn, int32_t trial,
                      uint64_t seed, rs_error *err);
    void (*close)(void *user, void *drawn);
    void *user;
} rs_trials_opener;

typedef enum rs_trials_way {
    RS_TRIALS_EITHER, /* batched where that is possible */
    RS_TRIALS_BATCHED,
    RS_TRIALS_ENGINE
} rs_trials_way;

typedef struct rs_trials_request {
    rs_theory_input input;
    int32_t trials; /* at least 1 */
    bool after_final_norm;
    bool
        ends; /* of derivatives by weights those by W_Q and W_V of the first and last layer are enough: where
                  trials are batched, no others are taken (NaN) */
    bool
        laws; /* every tensor of the network is an rs_init's (which may have planned it alone): where
                  not, trials are not batched */
    rs_trials_way way;
    rs_trials_opener opener; /* .open NULL: batched only */
} rs_trials_request;

/* Trials of one network, whose weights are not read: sizes and laws are. context: seed, threads, cancel
 * (RS_E_INTERRUPTED), progress. RS_E_BAD_OPTION: trials, n, norm2 or rho that nothing has;
 * RS_E_UNSUPPORTED: it cannot be batched, and must be; RS_E_MEMORY_LIMIT, RS_E_NO_MEMORY; what the
 * engine and `open` give. */
rs_status rs_trials_run(rs_trials **out, const rs_network *network,
                        const rs_trials_request *request, const rs_context *context, rs_error *err);

/* The same for many networks, out [count]: each has the bits that it has alone. Those that differ in
 * depth, skips, residual scales, temperature and shape of attention's matrix alone share draws and
 * products, and those that differ in depth alone their states: up to 128 of them. Numbers of all trials
 * are kept: give a large grid in stretches of so many cells, depths of the same network first. On failure
 * all of out is NULL. */
rs_status rs_trials_run_cells(rs_trials **out, const rs_network *const *networks, int32_t count,
                              const rs_trials_request *request, const rs_context *context,
                              rs_error *err);

/* Why trials of this network are not batched; NULL: they are. */
const char *rs_trials_not_batched(const rs_network *network, int64_t n);

/* ---- how many ---- */

/* Floating-point operations of one trial: two a multiply-add of all maps of the layers and of
 * attention, forward and back; draws and what a mixer other than attention does are not among them. */
double rs_trials_cost(const rs_network *network, int64_t n);
/* As many as 3e11 operations hold, 4 to 100. */
int32_t rs_trials_default(const rs_network *network, int64_t n);

/* ---- of trials that there are ---- */

/* A state of a trial whose ‖X‖² no double holds, though it is not `exactly_zero` [n_layers + 1]: from
 * there on the trial has no numbers. RS_E_NO_MEMORY. */
rs_status rs_trials_leave_below(rs_trials *trials, const bool *exactly_zero, int64_t tokens,
                                rs_error *err);
/* Whether the first trial with a state of so small a ‖X‖² has it; -1: none, else the layer. */
int32_t rs_trials_vanishing(const rs_trials *trials);

/* The first `count` trials, at most as many as there are, as if they alone had been run. RS_E_NO_MEMORY. */
rs_status rs_trials_first(rs_trials **out, const rs_trials *trials, int32_t count, int64_t tokens,
                          rs_error *err);
/* Squares, sums and residuals of row l >= 1 are those of the states 1 .. l side by side (Shi et al. 2022,
 * concat), and ρ with them; cosines are NaN, all else is as it was. RS_E_NO_MEMORY. */
rs_status rs_trials_fused(rs_trials **out, const rs_trials *trials, int64_t tokens, rs_error *err);

/* By how much one trial moves log10 of a quantity's level (rs_trials_level) to first order; its mean over
 * trials is 0. NaN: it has no finite number. */
double rs_trials_pull(const rs_trials *trials, int32_t trial, int32_t layer,
                      rs_trials_quantity quantity);
/* The same of log10(1 − ρ). */
double rs_trials_pull_apart(const rs_trials *trials, int32_t trial, int32_t layer);

/* ---- a trial's draws ---- */

/* states [n, d]: n tokens of one sample, each of squared norm norm2, as rs_arch_input says (below 0 it is
 * that). RS_E_NO_MEMORY. */
rs_status rs_trials_input(double *states, int64_t d, const rs_theory_input *input, uint64_t seed,
                          int32_t trial, rs_error *err);
/* The seed of a trial's network in the engine, and of its loss. */
uint64_t rs_trials_seed(uint64_t seed, int32_t trial);
/* w [out, in]: a map's numbers in a trial that is batched. name: "q" "k" "v" "o" "up" "gate" "down".
 * RS_E_UNSUPPORTED: the network is not batched, or has no such map. */
rs_status rs_trials_weight(double *w, const rs_network *network, int32_t layer, int32_t branch,
                           const char *name, uint64_t seed, int32_t trial, rs_error *err);

#endif
