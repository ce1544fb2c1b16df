/* roles.c: what is known of each role, one row each. */
#include "recognise/builder.h"

#define NORM_REASON "norm weight: only --fold-norms uses those that stand before a projection"
#define BIAS_REASON "bias: only --with-bias uses those of q, k and v"
#define MLP_REASON "MLP weight: not part of a head product"
#define EMBED_REASON "embedding: not part of a head product"
#define CROSS_REASON "attention to another model's output: products are formed of self-attention"
#define HEAD_REASON "output layer: not part of a head product"
#define SSM_REASON "state-space parameter outside the cb and io products"

#define DELTA_REASON "weight of a gated delta rule: not part of a head product"

static const struct {
    const char *name;
    const char *reason;
    bool buffer;  /* its elements are no parameters */
    rs_role bias; /* role of the module's bias when that has a name of its own */
} table[RS_ROLE_COUNT] = {
    [RS_ROLE_UNKNOWN] = {"unknown", "name not recognised", false, 0},
    [RS_ROLE_Q] = {"q", "its layer forms no product", false, RS_ROLE_Q_BIAS},
    [RS_ROLE_K] = {"k", "its layer forms no product", false, RS_ROLE_K_BIAS},
    [RS_ROLE_V] = {"v", "its layer forms no product", false, RS_ROLE_V_BIAS},
    [RS_ROLE_O] = {"o", "its layer forms no product", false, RS_ROLE_O_BIAS},
    [RS_ROLE_QKV] = {"qkv", "its layer forms no product", false, RS_ROLE_QKV_BIAS},
    [RS_ROLE_KV] = {"kv", "its layer forms no product", false, 0},
    [RS_ROLE_Q_GATE] = {"q_gate", "gate of an attention: not part of a head product", false, 0},
    [RS_ROLE_R] = {"r", "its layer forms no product", false, 0},
    [RS_ROLE_CROSS_Q] = {"cross_q", CROSS_REASON, false, 0},
    [RS_ROLE_CROSS_K] = {"cross_k", CROSS_REASON, false, 0},
    [RS_ROLE_CROSS_V] = {"cross_v", CROSS_REASON, false, 0},
    [RS_ROLE_CROSS_KV] = {"cross_kv", CROSS_REASON, false, 0},
    [RS_ROLE_CROSS_O] = {"cross_o", CROSS_REASON, false, 0},
    [RS_ROLE_Q_BIAS] = {"q_bias", BIAS_REASON, false, 0},
    [RS_ROLE_K_BIAS] = {"k_bias", BIAS_REASON, false, 0},
    [RS_ROLE_V_BIAS] = {"v_bias", BIAS_REASON, false, 0},
    [RS_ROLE_O_BIAS] = {"o_bias", "output bias: the same for every head", false, 0},
    [RS_ROLE_QKV_BIAS] = {"qkv_bias", BIAS_REASON, false, 0},
    [RS_ROLE_CONTENT_BIAS] = {"content_bias", BIAS_REASON, false, 0},
    [RS_ROLE_POSITION_BIAS] = {"position_bias", BIAS_REASON, false, 0},
    [RS_ROLE_SEGMENT_BIAS] = {"segment_bias", "segment term: no weight product", false, 0},
    [RS_ROLE_SEGMENT_EMBED] = {"segment_embed", "segment term: no weight product", false, 0},
    [RS_ROLE_Q_NORM] = {"q_norm", "QK-norm gain: only --fold-norms uses it", false, 0},
    [RS_ROLE_K_NORM] = {"k_norm", "QK-norm gain: only --fold-norms uses it", false, 0},
    [RS_ROLE_NORM_MIXER] = {"norm_mixer", NORM_REASON, false, RS_ROLE_NORM_MIXER_BIAS},
    [RS_ROLE_NORM_MIXER_BIAS] = {"norm_mixer_bias", NORM_REASON, false, 0},
    [RS_ROLE_NORM_MIXER_OUT] = {"norm_mixer_out", NORM_REASON, false, RS_ROLE_NORM_MIXER_OUT_BIAS},
    [RS_ROLE_NORM_MIXER_OUT_BIAS] = {"norm_mixer_out_bias", NORM_REASON, false, 0},
    [RS_ROLE_NORM_MLP] = {"norm_mlp", NORM_REASON, false, RS_ROLE_NORM_MLP_BIAS},
    [RS_ROLE_NORM_MLP_BIAS] = {"norm_mlp_bias", NORM_REASON, false, 0},
    [RS_ROLE_NORM_MLP_OUT] = {"norm_mlp_out", NORM_REASON, false, RS_ROLE_NORM_MLP_OUT_BIAS},
    [RS_ROLE_NORM_MLP_OUT_BIAS] = {"norm_mlp_out_bias", NORM_REASON, false, 0},
    [RS_ROLE_NORM_CROSS] = {"norm_cross", NORM_REASON, false, RS_ROLE_NORM_CROSS_BIAS},
    [RS_ROLE_NORM_CROSS_BIAS] = {"norm_cross_bias", NORM_REASON, false, 0},
    [RS_ROLE_NORM_FINAL] = {"norm_final", NORM_REASON, false, RS_ROLE_NORM_FINAL_BIAS},
    [RS_ROLE_NORM_FINAL_BIAS] = {"norm_final_bias", NORM_REASON, false, 0},
    [RS_ROLE_NORM_EMBED] = {"norm_embed", NORM_REASON, false, RS_ROLE_NORM_EMBED_BIAS},
    [RS_ROLE_NORM_EMBED_BIAS] = {"norm_embed_bias", NORM_REASON, false, 0},
    [RS_ROLE_NORM_HEAD] = {"norm_head", HEAD_REASON, false, 0},
    [RS_ROLE_MLP_UP] = {"mlp_up", MLP_REASON, false, RS_ROLE_MLP_UP_BIAS},
    [RS_ROLE_MLP_GATE] = {"mlp_gate", MLP_REASON, false, RS_ROLE_MLP_GATE_BIAS},
    [RS_ROLE_MLP_GATE_UP] = {"mlp_gate_up", MLP_REASON, false, RS_ROLE_MLP_GATE_BIAS},
    [RS_ROLE_MLP_DOWN] = {"mlp_down", MLP_REASON, false, RS_ROLE_MLP_DOWN_BIAS},
    [RS_ROLE_MLP_UP_BIAS] = {"mlp_up_bias", MLP_REASON, false, 0},
    [RS_ROLE_MLP_GATE_BIAS] = {"mlp_gate_bias", MLP_REASON, false, 0},
    [RS_ROLE_MLP_DOWN_BIAS] = {"mlp_down_bias", MLP_REASON, false, 0},
    [RS_ROLE_MOE_ROUTER] = {"moe_router",
                            "router of a mixture of experts: not part of a head product", false, 0},
    [RS_ROLE_MOE_EXPERT] = {"moe_expert", "expert's MLP weight: not part of a head product", false,
                            0},
    [RS_ROLE_EMBED_TOKEN] = {"embed_token", EMBED_REASON, false, 0},
    [RS_ROLE_EMBED_POSITION] = {"embed_position", EMBED_REASON, false, 0},
    [RS_ROLE_EMBED_TYPE] = {"embed_type", EMBED_REASON, false, 0},
    [RS_ROLE_EMBED_PROJECTION] = {"embed_projection", EMBED_REASON, false, 0},
    [RS_ROLE_EMBED_PATCH] = {"embed_patch", EMBED_REASON, false, 0},
    [RS_ROLE_EMBED_CLASS] = {"embed_class", EMBED_REASON, false, 0},
    [RS_ROLE_EMBED_OTHER] = {"embed_other", EMBED_REASON, false, 0},
    [RS_ROLE_LM_HEAD] = {"lm_head", HEAD_REASON, false, 0},
    [RS_ROLE_HEAD_TRANSFORM] = {"head_transform", HEAD_REASON, false, 0},
    [RS_ROLE_HEAD_BIAS] = {"head_bias", HEAD_REASON, false, 0},
    [RS_ROLE_HEAD_FUSION] = {"head_fusion",
                             "read-out of all layers' states: not part of a head "
                             "product",
                             false, 0},
    [RS_ROLE_HEAD_OTHER] = {"head_other", "task head: not part of a head product", false, 0},
    [RS_ROLE_SSM_IN] = {"ssm_in", "its layer forms no product", false, 0},
    [RS_ROLE_SSM_CONV] = {"ssm_conv", SSM_REASON, false, RS_ROLE_SSM_CONV_BIAS},
    [RS_ROLE_SSM_CONV_BIAS] = {"ssm_conv_bias", SSM_REASON, false, 0},
    [RS_ROLE_SSM_X] = {"ssm_x", "its layer forms no product", false, 0},
    [RS_ROLE_SSM_DT] = {"ssm_dt", SSM_REASON, false, RS_ROLE_SSM_DT_BIAS},
    [RS_ROLE_SSM_DT_BIAS] = {"ssm_dt_bias", SSM_REASON, false, 0},
    [RS_ROLE_SSM_A] = {"ssm_a", SSM_REASON, false, 0},
    [RS_ROLE_SSM_D] = {"ssm_d", SSM_REASON, false, 0},
    [RS_ROLE_SSM_NORM] = {"ssm_norm", "gated norm before out_proj: only --fold-norms uses it",
                          false, 0},
    [RS_ROLE_SSM_DT_NORM] = {"ssm_dt_norm", SSM_REASON, false, 0},
    [RS_ROLE_SSM_B_NORM] = {"ssm_b_norm", SSM_REASON, false, 0},
    [RS_ROLE_SSM_C_NORM] = {"ssm_c_norm", SSM_REASON, false, 0},
    [RS_ROLE_SSM_OUT] = {"ssm_out", "its layer forms no product", false, 0},
    [RS_ROLE_DELTA_Q] = {"delta_q", DELTA_REASON, false, 0},
    [RS_ROLE_DELTA_K] = {"delta_k", DELTA_REASON, false, 0},
    [RS_ROLE_DELTA_V] = {"delta_v", DELTA_REASON, false, 0},
    [RS_ROLE_DELTA_Z] = {"delta_z", DELTA_REASON, false, 0},
    [RS_ROLE_DELTA_B] = {"delta_b", DELTA_REASON, false, 0},
    [RS_ROLE_DELTA_A] = {"delta_a", DELTA_REASON, false, 0},
    [RS_ROLE_DELTA_QKV] = {"delta_qkv", DELTA_REASON, false, 0},
    [RS_ROLE_DELTA_QKVZ] = {"delta_qkvz", DELTA_REASON, false, 0},
    [RS_ROLE_DELTA_BA] = {"delta_ba", DELTA_REASON, false, 0},
    [RS_ROLE_DELTA_CONV_K] = {"delta_conv_k", DELTA_REASON, false, 0},
    [RS_ROLE_DELTA_CONV_V] = {"delta_conv_v", DELTA_REASON, false, 0},
    [RS_ROLE_LAYER_SCALE] = {"layer_scale", "scale of a branch: not part of a head product", false,
                             0},
    [RS_ROLE_ROPE_TABLE] = {"rope_table", "table of rotary frequencies, no weight", true, 0},
    [RS_ROLE_ROPE_DIVISORS] = {"rope_divisors", "divisors of rotary frequencies, no weight", true,
                               0},
    [RS_ROLE_BUFFER] = {"buffer", "buffer, no weight", true, 0},
    [RS_ROLE_QUANT_SCALE] = {"quant_scale", "scale of a quantised weight", true, 0},
    [RS_ROLE_OTHER] = {"other", "known, but not part of a head product", false, 0},
};

const char *rs_role_name(rs_role role)
{
    return table[(unsigned)role < RS_ROLE_COUNT ? role : RS_ROLE_UNKNOWN].name;
}

const char *rs_role_reason(rs_role role)
{
    return table[role].reason;
}

bool rs_role_counts(rs_role role)
{
    return !table[role].buffer;
}

rs_role rs_role_bias(rs_role role)
{
    return table[role].bias ? table[role].bias : role;
}

/* A type whose numbers are weights by themselves. 8-bit floats are not: they are codes whose scale
 * lies in another tensor (docs/formats.md, 3). */
bool rs_dtype_is_weight(rs_dtype dtype)
{
    return dtype == RS_F16 || dtype == RS_BF16 || dtype == RS_F32 || dtype == RS_F64 ||
           (dtype > RS_U64 && rs_dtype_decodable(dtype));
}
