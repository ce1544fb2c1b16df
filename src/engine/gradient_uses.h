/*
 * gradient_uses.h: the places of a network that read each tensor (private to src/engine/).
 *
 * A use is one place that reads a tensor: a member of a branch, of the embedding or of the head. Uses
 * of the same numbers (tied embeddings, repeated layers) have a sum, in the order in which the tensor
 * is stored.
 */
#ifndef RS_ENGINE_GRADIENT_USES_H
#define RS_ENGINE_GRADIENT_USES_H

#include "engine/gradient.h"

typedef struct rs_use {
    const void *member; /* of the network; with `part` of the parameter it says which one */
    rs_parameter parameter;
    int64_t shared; /* which sum its numbers are part of; -1: none */
    int64_t group;  /* of uses that read the same numbers, or some of them */
    /* what gradients.c has collected of it */
    void *own;           /* [out, in] pieces, or the sum over batches; NULL: nothing so far */
    int64_t exponent;    /* of own's numbers */
    bool apart, drowned; /* of all that own is the sum of (rs_gradient_view) */
    const char *why;     /* why it is 0 so far; NULL: it is not known to be */
} rs_use;

/* The sum over all uses of one tensor. */
typedef struct rs_use_sum {
    const rs_tensor *tensor;
    void *sum;        /* [numbers of the tensor]; NULL: nothing so far */
    int64_t exponent; /* of these */
} rs_use_sum;

typedef struct rs_uses {
    rs_use *all; /* [n] ordered by (member, part) */
    size_t n;
    rs_use_sum *sums; /* [n_sums] */
    size_t n_sums;
} rs_uses;

/* Lists them, and the network's own numbers that are told (RS_NUMBERS_...); *uses is to be closed
 * whatever is returned. The network must outlive it. */
rs_status rs_uses_open(rs_uses *uses, const rs_network *network, unsigned numbers, rs_error *err);
/* What was collected is gradients.c's to give back. */
void rs_uses_close(rs_uses *uses);
/* NULL: there is none. */
rs_use *rs_uses_find(const rs_uses *uses, const void *member, rs_parameter_part part);
/* Whether a use stands for its group: the first of those that cover most. */
bool rs_use_stands_for_group(const rs_uses *uses, const rs_use *at);

#endif
