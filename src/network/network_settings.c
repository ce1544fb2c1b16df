/* network_settings.c: values out of a configuration, with the reference's defaults where it is
 * silent. */
#include "network/network_build.h"

#include "base/memory.h"

#include <math.h>
#include <string.h>

static json_t *value_of(const rs_setting *setting)
{
    if (setting->text && strcmp(setting->text, "true") == 0) return json_true();
    if (setting->text && strcmp(setting->text, "false") == 0) return json_false();
    if (setting->text) return json_string(setting->text);
    if (setting->number == floor(setting->number) && fabs(setting->number) < 1e15)
        return json_integer((json_int_t)setting->number);
    return json_real(setting->number);
}

/* Whether the configuration names the size of a setting in another spelling of the dialect. */
static bool other_spelling(const rs_fields *fields, const json_t *object, const char *key)
{
    rs_field field = RS_FIELD_COUNT;
    for (const rs_field_row *row = fields->dialect; row->key; row++)
        if (strcmp(row->key, key) == 0) field = row->field;
    if (field == RS_FIELD_COUNT) return false;
    for (const rs_field_row *row = fields->dialect; row->key; row++)
        if (row->field == field && json_object_get(object, row->key)) return true;
    return false;
}

/* A flag that is neither true nor false would be read as false, and a wrong model be run. */
static rs_status check_flag(const rs_fields *fields, const char *key, rs_error *err)
{
    const json_t *value = rs_fields_key(fields, key);
    if (!value || json_is_boolean(value)) return RS_OK;
    return rs_fail(err, RS_E_CONFIG_SCHEMA, fields->path, RS_CONFIG_HINT,
                   "%s is neither true nor false", key);
}

static rs_status check_flags(const rs_forward *forward, const rs_fields *fields, rs_error *err)
{
    static const char *const others[] = {"tie_word_embeddings",
                                         "is_decoder",
                                         "add_cross_attention",
                                         "use_sliding_window",
                                         "use_bidirectional_attention",
                                         "scale_attn_by_inverse_layer_idx",
                                         "scale_attn_weights",
                                         "qkv_bias",
                                         "use_parallel_residual",
                                         "bi_data",
                                         "same_length",
                                         "alibi",
                                         "new_decoder_architecture",
                                         "sinusoidal_pos_embds",
                                         "attention_bias",
                                         "mlp_bias",
                                         "rope_finetuned",
                                         "ssm_dt_b_c_rms"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        RS_TRY(check_flag(fields, others[i], err));
    for (const rs_setting *row = forward->settings; row && row->key; row++)
        if (row->text && (strcmp(row->text, "true") == 0 || strcmp(row->text, "false") == 0))
            RS_TRY(check_flag(fields, row->key, err));
    return RS_OK;
}

/* Gives fields under older names those of today. */
static bool rename_fields(json_t *settings, const rs_old_name *rows)
{
    for (const rs_old_name *row = rows; row && row->key; row++) {
        json_t *value = json_object_get(settings, row->old);
        if (value && json_object_set(settings, row->key, value) != 0) return false;
    }
    return true;
}

/* A copy of `config` (an object inside the configuration's file) that also has what it leaves
 * out. */
rs_status rs_net_settings(json_t **out, const rs_forward *forward, const rs_fields *fields,
                          const json_t *config, rs_error *err)
{
    int64_t failures = rs_memory_failures();
    *out = json_copy((json_t *)config);     /* jansson's copy does not change its source */
    if (rs_memory_failures() != failures) { /* the copy lacks what it had no memory for */
        json_decref(*out);
        *out = NULL;
        return rs_fail_memory(err, "configuration", 0);
    }
    bool renamed = rename_fields(*out, forward->old_names);
    rs_fields under_new_names = *fields;
    under_new_names.object = *out;
    rs_status status = renamed ? check_flags(forward, &under_new_names, err)
                               : rs_fail_memory(err, "configuration", 0);
    if (status != RS_OK) {
        json_decref(*out);
        *out = NULL;
        return status;
    }
    for (const rs_setting *row = forward->settings; row && row->key; row++) {
        if (json_object_get(*out, row->key) || other_spelling(fields, *out, row->key)) continue;
        if (fields->object != fields->root && json_object_get(fields->root, row->key)) continue;
        if (json_object_set_new(*out, row->key, value_of(row)) == 0) continue;
        json_decref(*out);
        *out = NULL;
        return rs_fail_memory(err, "configuration", 0);
    }
    return RS_OK;
}

bool rs_net_flag(const rs_net_builder *nb, const char *field)
{
    return field && (!*field || rs_fields_true(&nb->b->fields, field));
}

rs_status rs_net_size(rs_net_builder *nb, const char *field, int32_t layer, int64_t *value,
                      bool *found)
{
    const rs_fields *fields = &nb->b->fields;
    const json_t *json = field ? rs_fields_key(fields, field) : NULL;
    if (json_is_array(json) && layer >= 0) {
        json = json_array_get(json, (size_t)layer);
        if (!json)
            return rs_fail(nb->err, RS_E_CONFIG_LAYERS, fields->path, RS_CONFIG_HINT,
                           "%s has no entry for layer %d", field, (int)layer);
    }
    *found = json != NULL;
    return json ? rs_json_size(json, fields->path, field, value, nb->err) : RS_OK;
}

rs_status rs_net_real(rs_net_builder *nb, const char *field, double *value)
{
    bool found;
    return rs_fields_real(&nb->b->fields, field, value, &found, nb->err);
}

rs_status rs_net_activation(rs_net_builder *nb, const char *field, rs_activation *activation)
{
    const rs_fields *fields = &nb->b->fields;
    const char *name = rs_fields_text(fields, field);
    if (!name)
        return rs_fail(nb->err, RS_E_CONFIG_SCHEMA, fields->path, RS_CONFIG_HINT,
                       "%s, the name of the activation, is no text", field);
    if (rs_activation_find(activation, name)) return RS_OK;
    return rs_fail(nb->err, RS_E_UNSUPPORTED, fields->path, RS_NOT_RUN_HINT,
                   "%s names the activation \"%.60s\", which is not known here", field, name);
}
