/*
 * network_gguf.c: GGUF metadata under the names that a config.json would use, so that one builder
 * serves both (docs/formats.md, 8; key names after gguf-py 0.19).
 */
#include "network/network_build.h"

#include <string.h>

static const struct {
    const char *key, *field;
    bool needed;
} keys[] = {
    {"embedding_length", "hidden_size", true},
    {"block_count", "num_hidden_layers", true},
    {"attention.head_count", "num_attention_heads", true},
    {"attention.head_count_kv", "num_key_value_heads", false},
    {"attention.key_length", "head_dim", false},
    {"attention.value_length", "value_dim", false},
    {"attention.causal", "is_causal", false},
    {"attention.sliding_window", "sliding_window", false},
    {"attention.sliding_window_pattern", "sliding_window_pattern", false},
    {"attention.scale", "attention_multiplier", false},
    {"feed_forward_length", "intermediate_size", true},
    {"context_length", "max_position_embeddings", false},
    {"rope.freq_base", "rope_theta", false},
    {"rope.freq_base_swa", "rope_local_base_freq", false},
    {"rope.dimension_count", "rotary_dim", false},
    {"attn_logit_softcapping", "attn_logit_softcapping", false},
    {"final_logit_softcapping", "final_logit_softcapping", false},
    {"embedding_scale", "embedding_multiplier", false},
    {"residual_scale", "residual_multiplier", false},
    {"logit_scale", "logits_scaling", false},
    {"use_parallel_residual", "use_parallel_residual", false},
};

static const struct {
    const char *key, *field;
} scaling_keys[] = {
    {"rope.scaling.type", "rope_type"},
    {"rope.scaling.factor", "factor"},
    {"rope.scaling.original_context_length", "original_max_position_embeddings"},
    {"rope.scaling.yarn_beta_fast", "beta_fast"},
    {"rope.scaling.yarn_beta_slow", "beta_slow"},
};

static bool put(json_t *object, const char *field, const json_t *value)
{
    return json_object_set(object, field, (json_t *)value) == 0; /* takes a reference */
}

/* The norm's epsilon has two keys here and a name of its own in each family. */
static bool epsilon(json_t *object, const rs_builder *b, const rs_forward *forward)
{
    static const char *const spelled[] = {"attention.layer_norm_rms_epsilon",
                                          "attention.layer_norm_epsilon"};
    for (size_t i = 0; i < sizeof spelled / sizeof *spelled && forward->eps; i++) {
        const json_t *value = rs_fields_key(&b->fields, spelled[i]);
        if (value) return put(object, forward->eps, value);
    }
    return true;
}

/* Scores of Gemma 2 and 3 are divided by sqrt(key_length), but for the largest of each, where it is
 * sqrt(width / heads): nothing in the file says so. */
static bool query_scale(json_t *object, const rs_forward *forward)
{
    if (!(forward->facts & RS_W_KEY_SCALE)) return true;
    json_int_t width = json_integer_value(json_object_get(object, "hidden_size"));
    json_int_t heads = json_integer_value(json_object_get(object, "num_attention_heads"));
    json_int_t layers = json_integer_value(json_object_get(object, "num_hidden_layers"));
    json_int_t key = json_integer_value(json_object_get(object, "head_dim"));
    json_int_t own = heads > 0 ? width / heads : 0;
    if (layers == forward->odd_scale_layers || key <= 0) key = own;
    if (key <= 0) return true;
    return json_object_set_new(object, "query_pre_attn_scalar", json_integer(key)) == 0;
}

static bool scaling(json_t *object, const rs_builder *b)
{
    const char *type = rs_fields_text(&b->fields, "rope.scaling.type");
    if (!type || strcmp(type, "none") == 0) return true;
    json_t *law = json_object();
    bool done = law && json_object_set_new(object, "rope_scaling", law) == 0;
    for (size_t i = 0; done && i < sizeof scaling_keys / sizeof *scaling_keys; i++) {
        const json_t *value = rs_fields_key(&b->fields, scaling_keys[i].key);
        if (value) done = put(law, scaling_keys[i].field, value);
    }
    return done;
}

rs_status rs_net_translate(json_t **out, const rs_builder *b, const rs_forward *forward,
                           rs_error *err)
{
    json_t *object = *out = json_object();
    bool done = object != NULL;
    for (size_t i = 0; done && i < sizeof keys / sizeof *keys; i++) {
        const json_t *value = rs_fields_key(&b->fields, keys[i].key);
        if (!value && keys[i].needed) {
            json_decref(object);
            *out = NULL;
            return rs_fail(err, RS_E_CONFIG_SCHEMA, b->fields.path, RS_CONFIG_HINT, "has no %s%s",
                           b->fields.prefix, keys[i].key);
        }
        if (!value) continue;
        done = put(object, keys[i].field, value);
        /* the family reads this size under a name of its own */
        if (done && forward->mlp_width && strcmp(keys[i].field, "intermediate_size") == 0)
            done = put(object, forward->mlp_width, value);
        if (done && forward->max_positions && strcmp(keys[i].field, "max_position_embeddings") == 0)
            done = put(object, forward->max_positions, value);
    }
    done =
        done && epsilon(object, b, forward) && query_scale(object, forward) && scaling(object, b);
    if (done) return RS_OK;
    json_decref(object);
    *out = NULL;
    return rs_fail_memory(err, "configuration", 0);
}
