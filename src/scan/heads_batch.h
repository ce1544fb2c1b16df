/* heads_batch.h: the products of some layers on their way to measures: distinct factors, their Grams,
 * and who pairs with whom. Shared by heads.c, which collects, and heads_measure.c, which
 * measures. */
#ifndef RS_SCAN_HEADS_BATCH_H
#define RS_SCAN_HEADS_BATCH_H

#include "linalg/squares.h"
#include "scan/heads.h"

/* A factor of the layers at hand; products of one layer that share it share its slot. */
typedef struct rs_factor_slot {
    const rs_factor *factor;
    int32_t layer;
    double *gram;         /* inner×inner */
    bool fragile, usable; /* usable: its numbers are finite and their squares stay in range */
    double step_squared;
} rs_factor_slot;

/* A product as a pair of slots; for a stacked row `count` products share one of them and the other
 * side is summed. */
typedef struct rs_pairing {
    rs_head *head;
    size_t a, b;  /* numbers of the slots */
    size_t count; /* products stacked, from head->product on; 1 for a plain row */
} rs_pairing;

/* The products of one layer or more. */
typedef struct rs_heads_batch {
    const rs_heads_options *options;
    rs_factor_slot *slots;
    const rs_factor **factors; /* the same factors, for bundling */
    double **grams;
    bool *fragile;
    size_t n_slots;
    size_t layer_slots; /* the first slot of the layer that is being added */
    double *memory;     /* holds all Grams */
    rs_pairing *pairs;
    size_t n_pairs;
    size_t largest; /* largest `inner` of the factors */
} rs_heads_batch;

/* What one thread needs to measure products. */
typedef struct rs_scratch {
    double *q, *x, *work;
    double *vectors; /* [RS_PAIRS_AT_ONCE, 3 largest] */
    rs_squares squares;
    size_t *members; /* numbers of a stack's slots */
} rs_scratch;

/* heads_measure.c: fills pairing->head of n ≤ RS_PAIRS_AT_ONCE pairings from the Grams of their
 * slots. */
enum { RS_PAIRS_AT_ONCE = 8 };
rs_status rs_measure_pairs(const rs_heads_batch *batch, const rs_pairing *pairings, size_t n,
                           rs_scratch *scratch, rs_error *err);

#endif
