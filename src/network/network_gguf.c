/*
 * network_gguf.c: GGUF metadata under the names that a config.json would use, so that one builder
 * serves both (docs/formats.md, 8; key names after gguf-py 0.19).
 */
#include "network/network_build.h"

#include <math.h>
#include <string.h>

/* Which models cannot be without a key. */
typedef enum need { NOBODY, ATTENTION, ALL } need;

static const struct {
    const char *key, *field;
    need need;
} keys[] = {
    {"embedding_length", "hidden_size", ALL},
    {"block_count", "num_hidden_layers", ALL},
    {"attention.head_count", "num_attention_heads", ATTENTION},
    {"attention.head_count_kv", "num_key_value_heads", NOBODY},
    {"attention.key_length", "head_dim", NOBODY},
    {"attention.value_length", "value_dim", NOBODY},
    {"attention.causal", "is_causal", NOBODY},
    {"attention.sliding_window", "sliding_window", NOBODY},
    {"attention.sliding_window_pattern", "sliding_window_pattern", NOBODY},
    {"attention.scale", "attention_multiplier", NOBODY},
    {"feed_forward_length", "intermediate_size", ATTENTION},
    {"context_length", "max_position_embeddings", NOBODY},
    {"rope.freq_base", "rope_theta", NOBODY},
    {"rope.freq_base_swa", "rope_local_base_freq", NOBODY},
    {"rope.dimension_count", "rotary_dim", NOBODY},
    {"rope.scaling.finetuned", "rope_finetuned", NOBODY},
    {"attn_logit_softcapping", "attn_logit_softcapping", NOBODY},
    {"final_logit_softcapping", "final_logit_softcapping", NOBODY},
    {"embedding_scale", "embedding_multiplier", NOBODY},
    {"residual_scale", "residual_multiplier", NOBODY},
    {"logit_scale", "logits_scaling", NOBODY},
    {"use_parallel_residual", "use_parallel_residual", NOBODY},
    {"ssm.dt_b_c_rms", "ssm_dt_b_c_rms", NOBODY},
    {"nextn_predict_layers", "num_nextn_predict_layers", NOBODY},
    {"attention.recurrent_layers", "recurrent_layers", NOBODY},
    {"full_attention_interval", "full_attention_interval", NOBODY},
};

/* What a family's class has otherwise: widths are written as they are, gates come before norms. */
static const char *const switched_off[] = {"block_auto_adjust_ff_dim", "mamba_norm_before_gate"};

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

static bool switch_off(json_t *object)
{
    bool done = true;
    for (size_t i = 0; done && i < sizeof switched_off / sizeof *switched_off; i++)
        done = json_object_set_new(object, switched_off[i], json_false()) == 0;
    return done;
}

/* Lists have an entry for each block. */
static rs_status check_lists(const rs_builder *b, rs_error *err)
{
    static const char *const lists[] = {"attention.head_count", "attention.head_count_kv",
                                        "feed_forward_length", "attention.recurrent_layers"};
    json_int_t blocks = json_integer_value(rs_fields_key(&b->fields, "block_count"));
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        const json_t *list = rs_fields_key(&b->fields, lists[i]);
        if (!json_is_array(list) || (json_int_t)json_array_size(list) == blocks) continue;
        return rs_fail(err, RS_E_CONFIG_LAYERS, b->fields.path, RS_CONFIG_HINT,
                       "%s%s has %zu entries for %lld blocks", b->fields.prefix, lists[i],
                       json_array_size(list), (long long)blocks);
    }
    return RS_OK;
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

/* Hybrids that are no Granite (Bamba) have no attention.scale: theirs is 1/sqrt(key_length), and not
 * the 1 of Granite's class. */
static bool granite_scale(json_t *object, const rs_builder *b, const rs_forward *forward)
{
    if (!(forward->facts & RS_W_GRANITE) || !forward->ssm) return true;
    json_int_t width = json_integer_value(json_object_get(object, "hidden_size"));
    json_int_t heads = json_integer_value(json_object_get(object, "num_attention_heads"));
    json_int_t key = json_integer_value(json_object_get(object, "head_dim"));
    if (key <= 0 && heads > 0) key = width / heads;
    if (key <= 0 || rs_fields_key(&b->fields, "attention.scale")) return true;
    double scale = 1 / sqrt((double)key);
    return json_object_set_new(object, "attention_multiplier", json_real(scale)) == 0;
}

static rs_status lacks(const rs_builder *b, const char *key, rs_error *err)
{
    return rs_fail(err, RS_E_CONFIG_SCHEMA, b->fields.path, RS_CONFIG_HINT, "has no %s%s",
                   b->fields.prefix, key);
}

static const char *translated_name(rs_field field)
{
    for (const rs_field_row *row = rs_dialect_translated; row->key; row++)
        if (row->field == field) return row->key;
    return NULL;
}

/* Sizes of mixers whose kind the family's row for runs names. */
static const struct {
    rs_ssm_kind kind;
    const char *key, *field;
} named[] = {
    {RS_SSM_SHORT_CONV, "shortconv.l_cache", "conv_L_cache"},
    {RS_SSM_DELTA, "ssm.conv_kernel", "linear_conv_kernel_dim"},
    {RS_SSM_DELTA, "ssm.state_size", "linear_key_head_dim"},
    {RS_SSM_DELTA, "ssm.group_count", "linear_num_key_heads"},
    {RS_SSM_DELTA, "ssm.time_step_rank", "linear_num_value_heads"},
};

/* The width of a value head is what all of them have together over their number. */
static rs_status value_width(json_t *object, const rs_builder *b, bool *done, rs_error *err)
{
    int64_t inner, heads;
    const json_t *value = rs_fields_key(&b->fields, "ssm.inner_size");
    if (!value) return lacks(b, "ssm.inner_size", err);
    RS_TRY(rs_json_size(value, b->fields.path, "ssm.inner_size", &inner, err));
    value = rs_fields_key(&b->fields, "ssm.time_step_rank");
    RS_TRY(rs_json_size(value, b->fields.path, "ssm.time_step_rank", &heads, err));
    if (inner % heads)
        return rs_fail(err, RS_E_CONFIG_HEADS, b->fields.path, RS_CONFIG_HINT,
                       "ssm.inner_size (%lld) is no multiple of ssm.time_step_rank (%lld), the "
                       "number of value heads",
                       (long long)inner, (long long)heads);
    *done = json_object_set_new(object, "linear_value_head_dim", json_integer(inner / heads)) == 0;
    return RS_OK;
}

static rs_status named_sizes(json_t *object, const rs_builder *b, const rs_forward *forward,
                             bool *done, rs_error *err)
{
    for (size_t i = 0; *done && i < sizeof named / sizeof *named; i++) {
        if (named[i].kind != forward->ssm->kind) continue;
        const json_t *value = rs_fields_key(&b->fields, named[i].key);
        if (!value) return lacks(b, named[i].key, err);
        *done = put(object, named[i].field, value);
    }
    if (!*done || forward->ssm->kind != RS_SSM_DELTA) return RS_OK;
    return value_width(object, b, done, err);
}

/* Sizes of state-space mixers: the family's own spelling says what time_step_rank is, dt's rank or
 * the number of heads. in_proj's height tells groups that no key does. */
static rs_status mixer_sizes(json_t *object, const rs_builder *b, const rs_forward *forward,
                             bool *done, rs_error *err)
{
    if (!forward->ssm) return RS_OK;
    if (forward->ssm->kind != RS_SSM_NONE) return named_sizes(object, b, forward, done, err);
    const json_t *kernel = rs_fields_key(&b->fields, "ssm.conv_kernel");
    if (!kernel) return lacks(b, "ssm.conv_kernel", err);
    *done = *done && put(object, forward->ssm->kernel, kernel);
    for (const rs_field_row *row = b->family->dialect; row->key && *done; row++) {
        if (row->field < RS_FIELD_SSM_INNER || row->field > RS_FIELD_SSM_GROUPS) continue;
        const json_t *value = rs_fields_key(&b->fields, row->key);
        if (!value && row->field == RS_FIELD_SSM_GROUPS) continue;
        if (!value) return lacks(b, row->key, err);
        *done = put(object, translated_name(row->field), value);
    }
    return RS_OK;
}

static rs_status plain_keys(json_t *object, const rs_builder *b, const rs_forward *forward,
                            bool *done, rs_error *err)
{
    bool attention = !b->family->ssm || b->family->facts & RS_FACT_HYBRID;
    for (size_t i = 0; *done && i < sizeof keys / sizeof *keys; i++) {
        const json_t *value = rs_fields_key(&b->fields, keys[i].key);
        const char *field = keys[i].field;
        if (!value && (keys[i].need == ALL || (keys[i].need == ATTENTION && attention)))
            return lacks(b, keys[i].key, err);
        if (!value) continue;
        *done = put(object, field, value);
        /* the family reads this size under a name of its own */
        if (*done && forward->mlp_width && strcmp(field, "intermediate_size") == 0)
            *done = put(object, forward->mlp_width, value);
        if (*done && forward->max_positions && strcmp(field, "max_position_embeddings") == 0)
            *done = put(object, forward->max_positions, value);
    }
    return RS_OK;
}

rs_status rs_net_translate(json_t **out, const rs_builder *b, const rs_forward *forward,
                           rs_error *err)
{
    json_t *object = json_object();
    bool done = object != NULL;
    *out = NULL;
    rs_status status = plain_keys(object, b, forward, &done, err);
    if (status == RS_OK) status = check_lists(b, err);
    if (status == RS_OK) status = mixer_sizes(object, b, forward, &done, err);
    done = done && epsilon(object, b, forward) && query_scale(object, forward) &&
           granite_scale(object, b, forward) && scaling(object, b) && switch_off(object);
    if (status == RS_OK && !done) status = rs_fail_memory(err, "configuration", 0);
    if (status == RS_OK)
        *out = object;
    else
        json_decref(object);
    return status;
}
