/*
 * dropout.h: the masks of dropout (private to src/engine/; docs/theory/gradients.md, 10).
 *
 * Which numbers are dropped follows from (seed, step, place, layer, branch, head, row, column) alone, so that
 * a way back, a layer that is run once more and any number of threads see the same.
 */
#ifndef RS_ENGINE_DROPOUT_H
#define RS_ENGINE_DROPOUT_H

#include "engine/dropout_words.h"
#include "engine/forward.h"

/* Where numbers are dropped. */
typedef enum rs_drop_place {
    RS_DROP_EMBEDDING, /* what enters the first layer */
    RS_DROP_OUTPUT,    /* what an op gives */
    RS_DROP_SOFTMAX    /* the probabilities of attention */
} rs_drop_place;

/* The dropout of one pass. */
typedef struct rs_drop {
    bool on;
    rs_drop_philox *words;             /* of this processor */
    uint32_t key[2], below, first_row; /* words below `below` drop */
    double keep;                       /* what the others are multiplied by */
} rs_drop;

/* RS_E_BAD_OPTION for a rate that is none. wanted NULL: nothing is dropped. */
rs_status rs_drop_open(rs_drop *drop, const rs_dropout *wanted, rs_error *err);

/* A row of numbers of one place; row counts in the batch. */
typedef struct rs_drop_row {
    rs_drop_place place;
    int32_t layer, branch, head;
    int64_t row;
} rs_drop_row;

/* words: of columns first .. first + n - 1. */
void rs_drop_words(uint32_t *words, const rs_drop *drop, const rs_drop_row *row, int64_t first,
                   int64_t n);

#endif
