/*
 * paths_lesions.h: what a network loses without one of its parts; private to paths*.c.
 *
 * A lesion leaves heads out (W_O,h = 0, biases stay) or makes a branch give 0. Its pass starts at
 * its lowest layer from the state that entered that layer in the whole pass: the layers below are
 * not run again.
 */
#ifndef RS_PATHS_PATHS_LESIONS_H
#define RS_PATHS_PATHS_LESIONS_H

#include "paths/paths_parts.h"

/* A head that can be left out: of the mixer of its layer. */
typedef struct rs_lesion_head {
    int32_t layer, branch, head;
} rs_lesion_head;

typedef enum rs_lesion_kind {
    RS_LESION_NONE, /* the network as it is */
    RS_LESION_HEAD,
    RS_LESION_MIXER, /* a branch that mixes tokens gives 0 */
    RS_LESION_MLP,   /* an MLP gives 0 */
    RS_LESION_HEADS  /* several heads at once, drawn */
} rs_lesion_kind;

/* A lesion, and what came of it over the samples. */
typedef struct rs_lesion {
    rs_lesion_kind kind;
    int32_t layer, branch;              /* MIXER, MLP, HEAD: where; else -1 */
    int32_t draw;                       /* HEADS: from 0; else -1 */
    size_t n;                           /* heads that are left out */
    const size_t *heads;                /* [n] places in the list of heads; of HEADS ascending */
    double nll, residual, state_error;  /* sums */
    int64_t scored, samples, residuals; /* tokens with a target; samples that ran, and those of them
                                           whose last state is not zero */
    bool finite;
} rs_lesion;

typedef struct rs_lesions {
    rs_arena *arena;
    rs_lesion_head *heads; /* [n_heads] those that can be left out, by layer */
    size_t n_heads;
    rs_lesion *items; /* [n] the first is NONE */
    size_t n;
    int64_t layers_run, single_layers_run;     /* layers that ran, in all and for single lesions */
    int64_t layers_whole, single_layers_whole; /* those of passes that begin at the bottom */
} rs_lesions;

/* Lists the lesions of a network: none; each head, mixer and MLP; sets of 2, 4, 8 ... heads, 8 draws
 * each by the seed, and all heads at once. */
rs_status rs_lesions_list(rs_lesions **out, const rs_network *network, uint64_t seed,
                          rs_error *err);
void rs_lesions_close(rs_lesions *lesions); /* NULL is fine */
/* Runs all of them on one sample. */
rs_status rs_lesions_sample(rs_paths_run *run, const rs_batch *batch, rs_error *err);
/* Writes table lesions and its findings (paths_lesions_words.c). */
rs_status rs_lesions_tell(const rs_paths_run *run, rs_error *err);

#endif
