/*
 * trials_batch.h: one trial of a plain network, for several cells at once: networks that differ in
 * depth and dials alone. Private to trials_*.c.
 *
 * Cells whose first layers are the same, dials too, have one chain of states: they are computed once,
 * of the deepest, and the others end on their way. Tokens of all chains lie side by side, so that each
 * weight is drawn, and read, once for all of them. On the way back each cell has derivatives of its own:
 * those of a few cells, a fan, lie side by side, and what only states say (shares of attention, slopes,
 * Gram matrices) is made once for the fans of a chain.
 *
 * Chains stand in descending order of depth, and so do the cells of a fan: those that a layer is part of
 * come first.
 */
#ifndef RS_PREDICT_TRIALS_BATCH_H
#define RS_PREDICT_TRIALS_BATCH_H

#include "predict/trials_kernels.h"
#include "predict/trials_plan.h"

/* Lanes that are worked on together: they stay in the nearest caches. */
enum { RS_TRIALS_BLOCK = 64 };
enum { RS_TRIALS_CHAINS = RS_TRIALS_BLOCK / RS_TRIALS_PAD, RS_TRIALS_CELLS = 128 };

typedef struct rs_trials_fan {
    int32_t first, count; /* cells */
    int32_t chain;        /* whose states they have: */
    bool shared;          /* all of them its, or the i-th those of chain + i */
    bool opens;           /* the fans in front of it have others */
} rs_trials_fan;

typedef struct rs_trials_batch {
    rs_trials_plan *plan; /* the deepest cell's, which records are placed in */
    const rs_trials_plan *cells[RS_TRIALS_CELLS];
    int32_t place[RS_TRIALS_CELLS];   /* where a cell stands among those of the request */
    int32_t chains[RS_TRIALS_CHAINS]; /* the cell that a chain's states are of */
    rs_trials_fan fans[RS_TRIALS_CELLS];
    int32_t n_cells, n_chains, n_fans;
    const rs_trials_request *request;
    const rs_context *context;
    const rs_trials_kernels *kernels;
    int64_t n, np;       /* tokens, and lanes of a cell */
    int64_t ld, ld_back; /* of states: n_chains np, of a fan's derivatives, or a little more */
    int64_t record;      /* numbers of a thread's record */
} rs_trials_batch;

/* A Gram matrix of centred tokens, what they have along their mean, and that one's square. */
typedef struct rs_trials_gram {
    double *of, *lean; /* [n, np], [np] */
    double mean_square;
    bool known;
} rs_trials_gram;

/* A thread's memory. States are [rows, ld], derivatives [rows, ld_back]. */
typedef struct rs_trials_room {
    double *memory;
    float *drawn;   /* all weights of a trial */
    double *panel;  /* those of a branch, or of one of its maps */
    double *picked; /* some of those */
    double *record; /* what the way back reads */
    double *x, *y, *h;
    double *skip, *scale; /* [lanes] */
    double *lane;         /* [np] */
    double *square;       /* [n, np]: a head's matrix where it is not the softmax alone */
    /* what a branch's states say on the way back: matrices of heads, turned, and keys about their mean
     * [heads of the fan's chains, .., np]; slopes, and a gate's outputs */
    double *mixing, *keys, *slope, *active;
    rs_trials_gram read[RS_TRIALS_CHAINS], inner[RS_TRIALS_CHAINS], given; /* for squares */
    double *fans;                              /* [n_fans, d, ld_back] */
    double *added, *heads, *back[3], *back_in; /* derivatives by what a branch gave and read */
    double *logits, *turned;                   /* [n, ld_back]; lanes behind tokens are 0 */
    double *centred, *means;                   /* [rows, np], [rows] */
    double *across, *product; /* derivatives turned, and rows of W's gradient, where it is made */
} rs_trials_room;

/* trials_gather.c: takes cells of `plans` [count] that share draws, and of which `taken` says no, with at
 * most so many chains: n_cells, place, chains and fans; 0 cells: there are none left. Sets what is of the
 * request's sizes. */
void rs_trials_gather(rs_trials_batch *batch, const rs_trials_plan *const *plans, const bool *taken,
                      int32_t count, int32_t chains);
/* As many chains as fit a block. */
int32_t rs_trials_chains_most(int64_t n);

/* Sets sizes and places records; bytes of a thread's room. RS_E_MEMORY_LIMIT: beyond what batched trials
 * may take. */
rs_status rs_trials_batch_plan(rs_trials_batch *batch, uint64_t *bytes, rs_error *err);
rs_status rs_trials_room_open(rs_trials_room *room, const rs_trials_batch *batch, rs_error *err);
void rs_trials_room_close(rs_trials_room *room);

/* numbers [n_cells]: [layers of the cell + 1, RS_TRIALS_QUANTITIES], all NaN before. */
rs_status rs_trials_batch_run(double *const *numbers, const rs_trials_batch *batch,
                              rs_trials_room *room, int32_t trial, rs_error *err);

/* ---- parts ---- */

/* Sets dials of a branch in cells of plans, np lanes each. */
void rs_trials_set_dials(double *skip, double *scale, const rs_trials_plan *plan, int32_t l,
                         int32_t b, int64_t np);
/* Keys that query i sees, and queries that see key j: first .. end - 1. */
typedef struct rs_trials_span {
    int64_t first, end;
} rs_trials_span;
rs_trials_span rs_trials_keys(const rs_trials_branch *branch, int64_t n, int64_t i);
rs_trials_span rs_trials_queries(const rs_trials_branch *branch, int64_t n, int64_t j);
/* The matrix that is applied to values, turned: out [n keys, np]; p the softmax, as it lies. */
const double *rs_trials_mixing(double *out, const rs_trials_batch *batch,
                               const rs_trials_branch *branch, const rs_trials_dial *dial,
                               const double *p);
/* Where the softmax of a chain's head begins in the record. */
double *rs_trials_softmax(const rs_trials_batch *batch, const rs_trials_room *room,
                          const rs_trials_branch *branch, int32_t chain, int64_t head);
/* The plan of a chain's states. */
static inline const rs_trials_plan *rs_trials_chain(const rs_trials_batch *batch, int32_t chain)
{
    return batch->cells[batch->chains[chain]];
}
static inline double *rs_trials_fan_of(const rs_trials_batch *batch, const rs_trials_room *room,
                                       int32_t fan)
{
    return room->fans + fan * batch->plan->d * batch->ld_back;
}
/* The loss reads what a final norm gives. */
static inline bool rs_trials_normed(const rs_trials_batch *batch)
{
    return batch->plan->final_norm.on && batch->request->after_final_norm;
}

rs_status rs_trials_forward(double *const *numbers, const rs_trials_batch *batch,
                            const rs_trials_room *room, int32_t trial, rs_error *err);
rs_status rs_trials_back(double *const *numbers, const rs_trials_batch *batch, rs_trials_room *room,
                         int32_t trial, rs_error *err);
/* A row's numbers of a state of n tokens. */
void rs_trials_put_state(double *row, const rs_trials_measured *measured, int64_t n);
/* And ratios of the gradients that it has. */
void rs_trials_put_ratios(double *row);
/* Adds to a number that may be missing (NaN). */
static inline void rs_trials_add(double *number, double value)
{
    *number = *number == *number ? *number + value : value;
}

#endif
