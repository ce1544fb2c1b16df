/* network_build.h: the builder that turns a family's tables and weights into an rs_network. Private
 * to network_*.c. */
#ifndef RS_NETWORK_NETWORK_BUILD_H
#define RS_NETWORK_NETWORK_BUILD_H

#include "network/network.h"
#include "recognise/builder.h"

enum { RS_NET_SHOWN = 20 }; /* names that a message lists, at most */

/* What to do about a configuration that lies, and about a model that is described but not run. */
#define RS_CONFIG_HINT "correct the configuration, or download it again"
#define RS_NOT_RUN_HINT "its weights can still be analysed: rankscope scan PATH"

/* A network in the making. Its weights are the tensors that were recognised, or drawn. */
typedef struct rs_net_builder {
    rs_builder *b;
    const rs_forward *forward;
    rs_network *network;
    rs_init *init; /* NULL: the checkpoint's tensors */
    bool gguf;
    rs_error *err;
    int64_t d_model, mlp_width;
    int32_t depth;  /* number of layers that are applied */
    int32_t stored; /* number of layers that are stored */
    double eps;
    rs_activation activation;
    bool unread_steps; /* limits of steps that the family's modules do not read */
    bool unstated_steps,
        unstated_place; /* what GGUF does not store: the least step, and whether the
                                            gate of a state-space mixer comes before its norm */
    rs_buffer missing;
    size_t n_missing;
} rs_net_builder;

/* network_settings.c: values of the configuration, or the reference's own where it is silent. */
rs_status rs_net_settings(json_t **out, const rs_forward *forward, const rs_fields *fields,
                          const json_t *config, rs_error *err);
bool rs_net_flag(const rs_net_builder *nb, const char *field); /* NULL: no; RS_ALWAYS: yes */
rs_status rs_net_size(rs_net_builder *nb, const char *field, int32_t layer, int64_t *value,
                      bool *found);
/* *value stays as it is where the field is absent. */
rs_status rs_net_real(rs_net_builder *nb, const char *field, double *value);
rs_status rs_net_activation(rs_net_builder *nb, const char *field, rs_activation *activation);

/* network_gguf.c: writes GGUF metadata as the configuration that transformers would have. */
rs_status rs_net_translate(json_t **out, const rs_builder *b, const rs_forward *forward,
                           rs_error *err);

/* network_weights.c: finds or draws weights; layer -1 is outside the layers. Absent tensors are
 * collected, and rs_net_missing reports all at once. */
const rs_module_pattern *rs_net_pattern(const rs_net_builder *nb, rs_role role);
bool rs_net_has(const rs_net_builder *nb, rs_role role, int32_t layer);
/* NULL: there is none, or tensors are drawn. */
const rs_tensor *rs_net_stored_tensor(const rs_net_builder *nb, rs_role role, rs_part part,
                                      int32_t layer);
/* The gain of a norm that a GGUF file stores, whatever its family has; NULL: none. */
const rs_tensor *rs_net_stored_gain(const rs_net_builder *nb, rs_role role, int32_t layer);
typedef enum rs_net_bias { RS_BIAS_NO, RS_BIAS_YES, RS_BIAS_IF_THERE } rs_net_bias;
rs_net_bias rs_net_bias_of(const rs_net_builder *nb, const char *field);
/* Describes a map from `in` to `out` units and a norm as the family has them; then finds or draws
 * their tensors. heads: how many the units of one of XLNet's maps are of. */
rs_dense rs_net_map(const rs_net_builder *nb, rs_role role, int64_t in, int64_t out);
rs_status rs_net_fill_map(rs_net_builder *nb, rs_role role, int32_t layer, int64_t heads,
                          rs_net_bias bias, rs_dense *map);
rs_norm_op rs_net_norm_of(const rs_net_builder *nb, int64_t dim);
rs_status rs_net_fill_norm(rs_net_builder *nb, rs_role role, int32_t layer, rs_norm_op *norm);
/* Do both at once. */
rs_status rs_net_dense(rs_net_builder *nb, rs_role role, int32_t layer, int64_t in, int64_t out,
                       rs_net_bias bias, rs_dense *dense);
rs_status rs_net_norm(rs_net_builder *nb, rs_role role, int32_t layer, int64_t dim,
                      rs_norm_op *norm);
/* Finds or draws any tensor by its full shape. */
rs_status rs_net_tensor(rs_net_builder *nb, rs_role role, rs_part part, int32_t layer,
                        uint32_t rank, const int64_t *shape, const rs_tensor **out);
rs_status rs_net_missing(rs_net_builder *nb);

/* network_rope.c */
rs_status rs_net_rope(rs_net_builder *nb, const rs_attention *at, bool sliding, rs_rope_op *rope);

/* network_tensors.c: counts what is stored or drawn, and notes tensors that no operation uses. */
rs_status rs_net_account(rs_net_builder *nb);

/* network_ssm.c: a state-space mixer before it has its weights, and those that its list of weights
 * does not describe. */
enum { RS_NET_STRETCHES = 5 };
rs_status rs_net_describe_ssd(rs_net_builder *nb, int32_t stored, rs_ssd_op *op);
/* How many outputs of its first map are z, x, B, C and dt. */
int32_t rs_net_ssd_stretches(int64_t units[RS_NET_STRETCHES], const rs_ssd_op *op);
rs_status rs_net_describe_s6(rs_net_builder *nb, int32_t stored, rs_s6_op *op);
rs_status rs_net_s6_numbers(rs_net_builder *nb, int32_t stored, rs_s6_op *op);
rs_status rs_net_ssd_numbers(rs_net_builder *nb, int32_t stored, rs_ssd_op *op);

/* network_multipliers.c: by what the configuration multiplies that map of a branch. */
rs_status rs_net_multiply(rs_net_builder *nb, rs_role role, const rs_branch *branch, rs_dense *map);

/* network_parts.c: what that layer has, a sum of rs_layer_parts' values; refuses experts. */
rs_status rs_net_parts(rs_net_builder *nb, int32_t stored, int *parts);
rs_status rs_net_conv_numbers(rs_net_builder *nb, int32_t stored, rs_conv_op *conv);

/* network_delta.c: the same of gated delta rules and short convolutions. */
rs_status rs_net_describe_delta(rs_net_builder *nb, int32_t stored, rs_delta_op *op);
/* Takes the maps that the checkpoint keeps in one tensor. */
rs_status rs_net_take_delta(rs_net_builder *nb, int32_t stored, rs_delta_op *op);
rs_status rs_net_delta_numbers(rs_net_builder *nb, int32_t stored, rs_delta_op *op);
rs_status rs_net_describe_short_conv(rs_net_builder *nb, int32_t stored, rs_short_conv_op *op);

/* network_layer.c, network_ends.c, network_pooling.c */
/* The stored layer whose weights the applied layer of that number runs. */
int32_t rs_net_stored(const rs_net_builder *nb, int32_t applied);
rs_status rs_net_layer(rs_net_builder *nb, int32_t applied, int32_t stored, rs_layer *layer);
rs_status rs_net_embedding(rs_net_builder *nb);
rs_status rs_net_head(rs_net_builder *nb);
rs_status rs_net_pooling(rs_net_builder *nb);

#endif
