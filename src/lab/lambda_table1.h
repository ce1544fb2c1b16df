/*
 * lambda_table1.h: the networks of lambda-table1-small and what their queries, keys and values (of
 * state-space layers C, B, x and the step) learn from at the start, by skip strength.
 */
#ifndef RS_LAB_LAMBDA_TABLE1_H
#define RS_LAB_LAMBDA_TABLE1_H

#include "lab/training.h"

enum { RS_TABLE1_MIXERS = 4, RS_TABLE1_LAYERS = 2 };

/* A mixer of the table, and how its network learns to recall. */
typedef struct rs_table1_mixer {
    const char *name;
    const char *model; /* fields of the network, JSON with ' for " */
    const char *data;  /* of task mqar: hard enough that strength 1 does not reach all of it */
    int steps;
} rs_table1_mixer;
extern const rs_table1_mixer rs_table1_mixers[RS_TABLE1_MIXERS];
/* What their training shares: batch and schedule, and an optimiser's fields (", ..."). */
extern const char rs_table1_training[], rs_table1_optimiser[];

/* Squared norms of gradients of a layer's maps. */
typedef enum rs_table1_part {
    RS_TABLE1_Q,    /* queries; C */
    RS_TABLE1_K,    /* keys; B */
    RS_TABLE1_V,    /* values; what the states are fed */
    RS_TABLE1_STEP, /* the step; NaN of attention */
    RS_TABLE1_PARTS
} rs_table1_part;
typedef struct rs_table1_gradients {
    double squared[RS_TABLE1_LAYERS][RS_TABLE1_PARTS];
} rs_table1_gradients;

/* Of a network that has not learnt yet, on one batch. */
rs_status rs_table1_look(rs_table1_gradients *out, const rs_table1_mixer *mixer, double strength,
                         uint64_t seed, const rs_context *context, rs_error *err);

#endif
