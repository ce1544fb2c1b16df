/*
 * names.h: the stored tensors of a network, each once and by name, in a fixed order: what a trainer
 * changes, what a saved network (saved.h) has in its file, and what a regular expression of a task
 * selects by.
 *
 *     embed.tokens.weight                 final_norm.gain, .bias
 *     layers.0.mixer.q.weight, .bias      head.weight, .bias
 *     layers.0.mixer.norm_before.gain     layers.0.mixer.a_log
 *     layers.0.mixer.conv.weight          layers.0.mlp.up.weight
 *     fusion.weight
 *
 * A layer's number is that of its weights: shared layers have those of the first. Names follow the
 * lists of weights (op_traits.h), in small letters and with _ for blanks.
 */
#ifndef RS_NETWORK_NAMES_H
#define RS_NETWORK_NAMES_H

#include "network/network.h"

typedef struct rs_named_tensor {
    const char *name;
    const rs_tensor *tensor;
    rs_role role;          /* of the weight that it belongs to, which its bias shares; UNKNOWN:
                              norms around an op, and the final one */
    int32_t layer, branch; /* where it is used first; -1: outside of the layers */
    bool gain;             /* of a norm */
    bool bias;             /* what a map, a convolution or a norm adds */
} rs_named_tensor;

typedef struct rs_names {
    rs_named_tensor *rows; /* [n] in the order of a pass */
    size_t n, capacity;
    const rs_named_tensor **by_tensor; /* [n] for rs_names_find */
    rs_arena *arena;
} rs_names;

/* Lists the tensors of a network, which must outlive the list; fixed ones (rs_tensor.fixed) are left
 * out. Errors: RS_E_NO_MEMORY. */
rs_status rs_names_open(rs_names **out, const rs_network *network, rs_error *err);
void rs_names_close(rs_names *names); /* NULL is fine */
/* The row of a tensor, such as that of an rs_parameter; NULL: it is none of them. */
const rs_named_tensor *rs_names_find(const rs_names *names, const rs_tensor *tensor);

/* Puts tensors of the checkpoint in the places of those that have the same names. Errors:
 * RS_E_TENSOR_MISSING, RS_E_TENSOR_SHAPE, RS_E_TENSOR_DTYPE, and RS_E_TENSOR_NAME where the
 * checkpoint has one that the network has not. */
rs_status rs_names_bind(rs_network *network, const rs_checkpoint *checkpoint, rs_error *err);

#endif
