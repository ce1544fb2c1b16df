/*
 * trials_batch.h: one trial of a plain network, for several cells at once: networks that differ in
 * depth and dials alone, whose tokens lie side by side so that each weight is drawn, and read, once
 * for all of them. Private to trials_*.c.
 *
 * Cells stand in descending order of depth: those that a layer is part of come first.
 */
#ifndef RS_PREDICT_TRIALS_BATCH_H
#define RS_PREDICT_TRIALS_BATCH_H

#include "predict/trials_kernels.h"
#include "predict/trials_plan.h"

typedef struct rs_trials_batch {
    rs_trials_plan *plan;               /* the deepest cell's, which records are placed in */
    const rs_trials_plan *const *cells; /* [n_cells] */
    int32_t n_cells;
    const rs_trials_request *request;
    const rs_trials_kernels *kernels;
    uint64_t seed;
    int64_t n, np;  /* tokens, and lanes of a cell */
    int64_t ld;     /* n_cells np, or a little more */
    int64_t record; /* numbers of a thread's record */
} rs_trials_batch;

/* A thread's memory. Arrays of states are [rows, ld]. */
typedef struct rs_trials_room {
    double *memory;
    float *drawn;   /* all weights of a trial */
    double *panel;  /* one of them */
    double *record; /* what the way back reads */
    double *x, *y, *h;
    double *back[3], *back_in; /* derivatives by q k v or up gate, and by what the op read */
    double *skip, *scale;      /* [ld] */
    double *lane[4];           /* [np] */
    double *square[3];         /* [n, np] of one head */
    double *turned[2];         /* [n, np], lanes behind n are 0 */
    /* squares of gradients: Gram matrices, centred tokens, their means */
    double *gram[2], *centred, *means, *lean[2];
    double mean_square[2];
    double *across, *product; /* derivatives turned, and rows of W's gradient, where it is made */
} rs_trials_room;

/* Sets sizes and places records; bytes of a thread's room. RS_E_MEMORY_LIMIT: beyond what batched trials
 * may take. */
rs_status rs_trials_batch_plan(rs_trials_batch *batch, uint64_t *bytes, rs_error *err);
rs_status rs_trials_room_open(rs_trials_room *room, const rs_trials_batch *batch, rs_error *err);
void rs_trials_room_close(rs_trials_room *room);

/* numbers [n_cells]: [layers of the cell + 1, RS_TRIALS_QUANTITIES], all NaN before. */
rs_status rs_trials_batch_run(double *const *numbers, const rs_trials_batch *batch,
                              rs_trials_room *room, int32_t trial, rs_error *err);

/* ---- parts ---- */

/* Cells whose depth is above l. */
int32_t rs_trials_active(const rs_trials_batch *batch, int32_t layer);
/* The dials of a branch in a cell. */
static inline const rs_trials_dial *rs_trials_dial_of(const rs_trials_batch *batch, int32_t cell,
                                                      int32_t l, int32_t b)
{
    return &batch->cells[cell]->layers[l].branches[b].dial;
}
/* room->skip and room->scale of a branch, for `cells` cells. */
void rs_trials_set_dials(const rs_trials_batch *batch, const rs_trials_room *room, int32_t l,
                         int32_t b, int32_t cells);
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
/* Where the softmax of a cell's head begins in the record. */
double *rs_trials_softmax(const rs_trials_batch *batch, const rs_trials_room *room,
                          const rs_trials_branch *branch, int32_t cell, int64_t head);
static inline rs_trials_block rs_trials_block_of(double *x, int64_t rows,
                                                 const rs_trials_batch *batch, int64_t lanes)
{
    return (rs_trials_block){x, rows, batch->ld, lanes};
}

void rs_trials_forward(double *const *numbers, const rs_trials_batch *batch,
                       const rs_trials_room *room, int32_t trial);
void rs_trials_back(double *const *numbers, const rs_trials_batch *batch, rs_trials_room *room,
                    int32_t trial);
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
