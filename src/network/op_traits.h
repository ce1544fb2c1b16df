/*
 * op_traits.h: one row for each kind of op that a branch may have: what it is, what it can be asked
 * for, and the one list of its weights.
 *
 * A question that every kind can answer is a member of the row. A question about one kind's own
 * numbers goes through rs_branch_attention or rs_branch_mlp, which give NULL for the others.
 * CONTRIBUTING.md lists what a new mixer touches.
 */
#ifndef RS_NETWORK_OP_TRAITS_H
#define RS_NETWORK_OP_TRAITS_H

#include "network/network.h"

#include <stddef.h>

/* ---- lists of weights ---- */

typedef enum rs_weight_form {
    RS_WEIGHT_MAP,    /* the member is an rs_dense */
    RS_WEIGHT_NORM,   /* the member is an rs_norm_op */
    RS_WEIGHT_CONV,   /* the member is an rs_conv_op */
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

/* Offsets in rs_embedding_op, in rs_read_out_op and in rs_head_op. */
extern const rs_weight_list rs_embedding_weights, rs_read_out_weights, rs_head_weights;

/* The map of a row, owner being the struct that the row's list belongs to; NULL: the row has
 * another form, or this map is absent. */
const rs_dense *rs_weight_map(const rs_weight_row *row, const void *owner);
/* The map, norm or convolution of a row whether or not it has its tensors yet; NULL: the row has
 * another form. */
rs_dense *rs_weight_map_to_fill(const rs_weight_row *row, void *owner);
rs_norm_op *rs_weight_norm_to_fill(const rs_weight_row *row, void *owner);
rs_conv_op *rs_weight_conv_to_fill(const rs_weight_row *row, void *owner);
/* The tensor of a row of plain numbers; NULL: the row has another form, or it is absent. */
const rs_tensor *rs_weight_numbers(const rs_weight_row *row, const void *owner);

/* Told each stored tensor of some weights, never NULL: a map's matrix, bias and FP8 scales, a
 * norm's gain and bias, a convolution's weight and bias, plain numbers. One that several weights share comes once for each of them.
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

/* Every member is there for every kind, but where it says what NULL means: one that does not mix
 * tokens says so in the answer. */
typedef struct rs_op_traits {
    const char *name;       /* as messages have it: "attention", "MLP" */
    const char *word;       /* as ARCH.json and tables have it: "linear_attention" */
    bool mixes;             /* a token's output depends on other tokens */
    rs_weight_list weights; /* offsets in rs_branch; the norms around the op are not among them */
    /* The mixing matrices that a listener may ask for: one a head, numbered from 0. */
    int32_t (*matrices)(const rs_branch *branch);
    /* Into how many equal stretches, one a head, the map of a role falls: RS_ROLE_Q, _K and _V by
     * outputs, RS_ROLE_O by inputs; 0: the map is absent, or of no head. NULL: no map of this kind
     * does. */
    int32_t (*parts)(const rs_branch *branch, rs_role role);
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
    /* The degree k of an op that is homogeneous: tokens a > 0 times as large give a^k times as much,
     * for every a; 0: it is not. NULL: no op of this kind is. */
    int32_t (*degree)(const rs_branch *branch);
    /* Why the rows of its mixing matrices are not distributions; NULL: they are. */
    const char *(*not_stochastic)(const rs_branch *branch);
    /* Why the logits of its mixing matrices are not a bilinear form of the tokens; NULL: they
     * are. */
    const char *(*not_bilinear)(const rs_branch *branch);
    /* Take the gate of the branch away, and the norms inside its op; false: it has none. NULL: no
     * branch of this kind has. */
    bool (*drop_gate)(rs_branch *branch);
    bool (*drop_inner_norms)(rs_branch *branch);
    /* The one number of tokens that a sample may have; NULL: any. */
    int64_t (*tokens)(const rs_branch *branch);
    /* Why certificates say nothing about this kind; NULL: there are theorems for it. */
    const char *unproved;
    /* Whether its sizes fit together on a state of width d. where: the layer, for messages. */
    rs_status (*check)(const rs_branch *branch, int64_t d, const char *where, rs_error *err);
} rs_op_traits;

/* The rows, each in a file of its own (op_*.c). */
extern const rs_op_traits rs_traits_attention;
extern const rs_op_traits rs_traits_mlp;
extern const rs_op_traits rs_traits_ssd;
extern const rs_op_traits rs_traits_s6;
extern const rs_op_traits rs_traits_linear;
extern const rs_op_traits rs_traits_s4d;
extern const rs_op_traits rs_traits_recurrence;
extern const rs_op_traits rs_traits_delta;
extern const rs_op_traits rs_traits_short_conv;
extern const rs_op_traits rs_traits_graph;

const rs_op_traits *rs_op_traits_of(rs_branch_kind kind);
static inline const rs_op_traits *rs_branch_traits(const rs_branch *branch)
{
    return rs_op_traits_of(branch->kind);
}

/* The op's degree, 0 where it has none. */
int32_t rs_branch_degree(const rs_branch *branch);
/* The number of its matrices that certificates read: none where its kind has no theorem. */
int32_t rs_branch_proved_heads(const rs_branch *branch);
/* The number of the branch's matrices that are measured unasked. */
int32_t rs_branch_heads(const rs_branch *branch);

/* Why certificates say nothing about the branch: of its kind, or of multipliers of its maps; NULL:
 * they do. */
const char *rs_branch_unproved(const rs_branch *branch);
/* The same of all that mixes a layer's tokens. */
const char *rs_layer_unproved(const rs_layer *layer);

/* Some branch reads the batch's memory. */
bool rs_network_reads_memory(const rs_network *network);

#endif
