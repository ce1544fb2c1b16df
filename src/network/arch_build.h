/* arch_build.h: an architecture on its way to a network: what arch.c and arch_mixers.c share. */
#ifndef RS_NETWORK_ARCH_BUILD_H
#define RS_NETWORK_ARCH_BUILD_H

#include "network/arch.h"

/* A network in the making. */
typedef struct rs_arch_build {
    const rs_arch *arch;
    rs_init *init;
    rs_network *network;
    int32_t layer;              /* -1: outside of layers */
    const rs_tensor *alibi;     /* the biases that all layers share, or NULL */
    const rs_tensor **identity; /* [2] what stands for absent W_V and W_O, of the shape last asked
                                   for; NULL: none yet */
    rs_error *err;
} rs_arch_build;

/* A map whose matrix is still to be drawn. */
rs_dense rs_arch_map(int64_t out, int64_t in);
/* A norm of `dim` numbers: gains 1 and biases 0 are what an absent gain and bias mean. */
rs_norm_op rs_arch_norm_of(rs_norm_kind kind, int64_t dim);
/* A norm over states, with what the file has stored of it: a gain of 1 and a bias of 0. */
rs_status rs_arch_state_norm(rs_norm_op *out, const rs_arch_build *b, rs_role role);
/* The same of a LayerNorm with both, whatever the file says of others. */
rs_status rs_arch_full_norm(rs_norm_op *out, const rs_arch_build *b, rs_role role);
/* Gives a map a bias of zeros; always, or where the file says that maps have some. */
rs_status rs_arch_zero_bias(rs_dense *map, const rs_arch_build *b, rs_role role);
rs_status rs_arch_bias(rs_dense *map, const rs_arch_build *b, rs_role role);
/* A tensor of the network's own, [rows, cols] float32 that are not drawn; *numbers is to be filled. */
rs_status rs_arch_fixed(const rs_tensor **out, float **numbers, const rs_arch_build *b,
                        const char *name, int64_t rows, int64_t cols);
/* Draws a tensor of `rows` x `cols` numbers by the law of its role, and counts its parameters. */
rs_status rs_arch_matrix(const rs_tensor **out, const rs_arch_build *b, rs_role role, int64_t rows,
                         int64_t cols);
/* arch_identity.c: whether the file says that the maps of a role are absent, and such a map: an identity
 * of no file (rs_tensor.fixed), which is neither stored, counted nor trained. RS_E_ARCH_SCHEMA where
 * its sizes are not those of the tokens. */
bool rs_arch_is_absent(const rs_arch *arch, rs_role role);
rs_status rs_arch_identity(rs_dense *map, const rs_arch_build *b, rs_role role);
/* Draws the maps and convolutions that a branch was given, in the order of its list of weights. */
rs_status rs_arch_draw(rs_branch *branch, const rs_arch_build *b);

/* One word of "mixer", and what fills a branch, whose kind is not set yet, with such a mixer of the
 * layer `b->layer` and draws its weights. */
typedef struct rs_arch_mixer_row {
    const char *name;
    rs_status (*add)(rs_branch *branch, const rs_arch_build *b);
} rs_arch_mixer_row;
extern const rs_arch_mixer_row rs_arch_mixers[RS_ARCH_MIXERS];

/* arch_graph.c: reads the field "graph", and checks what else the file says against it; the entry of
 * mixers with a given matrix. */
rs_status rs_arch_read_graph(rs_arch *arch, const json_t *json, rs_error *err);
void rs_arch_graph_close(rs_arch *arch);
rs_status rs_arch_add_graph(rs_branch *branch, const rs_arch_build *b);
/* arch.c: attention's entry of that table. */
rs_status rs_arch_attention(rs_branch *branch, const rs_arch_build *b);
/* arch_ends.c: the embedding, the final norm and the head, behind the layers. */
rs_status rs_arch_ends(rs_arch_build *b);

#endif
