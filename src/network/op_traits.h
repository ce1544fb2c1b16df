/*
 * op_traits.h: one row for each kind of op that a branch may have: what it is, what it can be asked
 * for, and the one list of its weights.
 *
 * A question that every kind can answer is a member of the row. A question about one kind's own
 * numbers goes through rs_branch_attention or rs_branch_mlp, which give NULL for the others. What
 * is done differently for each kind is a switch over rs_branch_kind without a default, so that the
 * compiler names every place that a further kind has to answer. CONTRIBUTING.md lists what a new
 * mixer touches.
 */
#ifndef RS_NETWORK_OP_TRAITS_H
#define RS_NETWORK_OP_TRAITS_H

#include "network/network.h"

#include <stddef.h>

/* ---- lists of weights ---- */

typedef enum rs_weight_form {
    RS_WEIGHT_MAP,    /* the member is an rs_dense */
    RS_WEIGHT_NORM,   /* the member is an rs_norm_op */
    RS_WEIGHT_NUMBERS /* the member is a const rs_tensor * */
} rs_weight_form;

/* One weight: a member of the struct that the list belongs to. */
typedef struct rs_weight_row {
    const char *name;
    rs_weight_form form;
    size_t offset; /* of the member in its struct */
    rs_role role;  /* the role under which a network without a checkpoint draws it */
    /* NUMBERS: how many of the tensor's entries the op reads; NULL in rows of the other forms,
     * which say it themselves */
    int64_t (*count)(const void *owner);
} rs_weight_row;

typedef struct rs_weight_list {
    const rs_weight_row *rows;
    size_t n;
} rs_weight_list;
#define RS_WEIGHT_LIST(array)                                                                      \
    {                                                                                              \
        (array), sizeof(array) / sizeof *(array)                                                   \
    }

/* Offsets in rs_embedding_op and in rs_head_op. */
extern const rs_weight_list rs_embedding_weights, rs_head_weights;

/* The map of a row, owner being the struct that the row's list belongs to; NULL: the row has
 * another form, or this map is absent. */
const rs_dense *rs_weight_map(const rs_weight_row *row, const void *owner);
/* The map or norm of a row whether or not it has its tensors yet; NULL: the row has another
 * form. */
rs_dense *rs_weight_map_to_fill(const rs_weight_row *row, void *owner);
rs_norm_op *rs_weight_norm_to_fill(const rs_weight_row *row, void *owner);
/* The tensor of a row of plain numbers; NULL: the row has another form, or it is absent. */
const rs_tensor *rs_weight_numbers(const rs_weight_row *row, const void *owner);

/* Told each stored tensor of some weights, never NULL: a map's matrix, bias and FP8 scales, a
 * norm's gain and bias, plain numbers. One that several weights share comes once for each of them.
 * true ends the walk. */
typedef bool rs_tensor_visit(void *user, const rs_tensor *tensor);

/* These walk the lists in the order of a pass, and are true where the visitor ended the walk. */
bool rs_embedding_walk(const rs_embedding_op *embedding, rs_tensor_visit *visit, void *user);
bool rs_branch_walk(const rs_branch *branch, rs_tensor_visit *visit, void *user);
/* The same of what a pass reads: of a branch of scale 0, the norm behind the sum alone. */
bool rs_branch_walk_run(const rs_branch *branch, rs_tensor_visit *visit, void *user);
bool rs_network_walk(const rs_network *network, rs_tensor_visit *visit, void *user);

/* ---- kinds ---- */

/* How many numbers a token takes inside an op. */
typedef struct rs_op_width {
    int64_t projected; /* what the op's first maps give */
    int64_t inner;     /* what its last map, or the sum of its heads, reads */
} rs_op_width;

/* Every member is there for every kind: one that does not mix tokens says so in the answer. */
typedef struct rs_op_traits {
    const char *name;       /* as messages have it: "attention", "MLP" */
    bool mixes;             /* a token's output depends on other tokens */
    rs_weight_list weights; /* offsets in rs_branch; the norms around the op are not among them */
    /* The mixing matrices that a listener may ask for: one a head, numbered from 0. */
    int32_t (*matrices)(const rs_branch *branch);
    /* There is a matrix for each channel: too many to be measured unasked. */
    bool by_channel;
    rs_op_width (*width)(const rs_branch *branch);
    /* No token depends on a later one. */
    bool (*causal)(const rs_branch *branch);
    /* It reads the batch's memory, not only the tokens (cross-attention). */
    bool (*reads_memory)(const rs_branch *branch);
    /* What each row of its mixing matrices sums to, so that equal tokens leave as that multiple of
     * their values; NaN: rows differ, or it is not known. */
    double (*row_sum)(const rs_branch *branch);
    /* Why the rows of its mixing matrices are not distributions; NULL: they are. */
    const char *(*not_stochastic)(const rs_branch *branch);
    /* Why the logits of its mixing matrices are not a bilinear form of the tokens; NULL: they
     * are. */
    const char *(*not_bilinear)(const rs_branch *branch);
    /* Why certificates say nothing about this kind; NULL: there are theorems for it. */
    const char *unproved;
    /* Whether its sizes fit together on a state of width d. where: the layer, for messages. */
    rs_status (*check)(const rs_branch *branch, int64_t d, const char *where, rs_error *err);
} rs_op_traits;

/* The rows, each in a file of its own (op_*.c). */
extern const rs_op_traits rs_traits_attention, rs_traits_mlp, rs_traits_ssd, rs_traits_s6;

const rs_op_traits *rs_op_traits_of(rs_branch_kind kind);
static inline const rs_op_traits *rs_branch_traits(const rs_branch *branch)
{
    return rs_op_traits_of(branch->kind);
}

/* The number of its matrices that certificates read: none where there is no theorem. */
int32_t rs_branch_proved_heads(const rs_branch *branch);
/* The number of the branch's matrices that are measured unasked. */
int32_t rs_branch_heads(const rs_branch *branch);

/* Some branch reads the batch's memory. */
bool rs_network_reads_memory(const rs_network *network);

#endif
