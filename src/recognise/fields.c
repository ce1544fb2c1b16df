/* fields.c: numbers out of a configuration, each checked before anybody computes with it. */
#include "recognise/builder.h"

#include <math.h>
#include <string.h>

#define LARGEST ((int64_t)INT32_MAX)

void rs_fields_open(rs_fields *fields, const rs_checkpoint *checkpoint)
{
    /* Multimodal configurations keep the text model's fields in an object of their own. */
    static const char *const sections[] = {"text_config", "llm_config", "language_config"};
    *fields = (rs_fields){.root = checkpoint->config, .object = checkpoint->config};
    fields->path = checkpoint->config_path ? checkpoint->config_path : checkpoint->path;
    for (size_t i = 0; i < sizeof sections / sizeof *sections; i++) {
        const json_t *section = json_object_get(checkpoint->config, sections[i]);
        if (!json_is_object(section)) continue;
        fields->object = section;
        return;
    }
}

void rs_fields_enter(rs_fields *fields, const rs_family *family, unsigned slot)
{
    const rs_tower *tower = &family->towers[slot < RS_SLOT_MAP ? slot : RS_SLOT_MAIN];
    if (!tower->name) return;
    const json_t *section = json_object_get(fields->root, tower->section);
    fields->object = json_is_object(section) ? section : fields->root;
    fields->defaults = tower->defaults;
}

static const json_t *descend(const json_t *object, const char *key)
{
    for (const char *dot; object && (dot = strchr(key, '.')); key = dot + 1)
        object = json_object_getn(object, key, (size_t)(dot - key));
    return object ? json_object_get(object, key) : NULL;
}

/* The value as it stands, null included. */
static const json_t *raw(const rs_fields *fields, const char *key)
{
    if (fields->prefix) {
        char name[256];
        size_t n = strlen(fields->prefix), m = strlen(key);
        if (n + m >= sizeof name) return NULL;
        memcpy(name, fields->prefix, n);
        memcpy(name + n, key, m + 1);
        return json_object_get(fields->root, name);
    }
    const json_t *value = descend(fields->object, key);
    return value && !json_is_null(value) ? value : descend(fields->root, key);
}

const json_t *rs_fields_key(const rs_fields *fields, const char *key)
{
    const json_t *value = raw(fields, key);
    return value && !json_is_null(value) ? value : NULL;
}

const char *rs_fields_text(const rs_fields *fields, const char *key)
{
    return json_string_value(rs_fields_key(fields, key));
}

bool rs_fields_true(const rs_fields *fields, const char *key)
{
    return json_is_true(rs_fields_key(fields, key));
}

static rs_status bad_size(const char *where, const char *key, const char *what, rs_error *err)
{
    return rs_fail(err, RS_E_CONFIG_SIZE, where, "correct the configuration, or download it again",
                   "%s is %s; a whole number from 1 to %lld is needed", key, what,
                   (long long)LARGEST);
}

rs_status rs_json_size(const json_t *value, const char *where, const char *key, int64_t *size,
                       rs_error *err)
{
    char text[96];
    if (json_is_null(value)) return bad_size(where, key, "null", err);
    if (json_is_string(value)) {
        snprintf(text, sizeof text, "the text \"%.60s\"", json_string_value(value));
        return bad_size(where, key, text, err);
    }
    if (json_is_object(value) && json_object_get(value, "__float__"))
        return bad_size(where, key, "not finite", err);
    if (!json_is_number(value)) return bad_size(where, key, "not a number", err);
    double real = json_number_value(value);
    if (!isfinite(real)) return bad_size(where, key, "not finite", err);
    if (real != floor(real) || real < 1 || real > (double)LARGEST) {
        snprintf(text, sizeof text, "%.17g", real);
        return bad_size(where, key, text, err);
    }
    *size = (int64_t)real;
    return RS_OK;
}

/* One entry of a list that gives a size for each layer; zero heads are allowed there (a layer
 * without attention). */
static rs_status from_list(const rs_fields *fields, rs_field field, const char *key,
                           const json_t *list, int64_t layer, int64_t *size, rs_error *err)
{
    const json_t *entry = json_array_get(list, layer < 0 ? 0 : (size_t)layer);
    if (!entry)
        return rs_fail(err, RS_E_CONFIG_LAYERS, fields->path, NULL,
                       "%s lists %zu layers; there is no entry for layer %lld", key,
                       json_array_size(list), (long long)layer);
    bool may_be_zero = field == RS_FIELD_HEADS || field == RS_FIELD_KV_HEADS;
    if (may_be_zero && json_is_integer(entry) && json_integer_value(entry) == 0) {
        *size = 0;
        return RS_OK;
    }
    return rs_json_size(entry, fields->path, key, size, err);
}

/* The first blocks are the layers; GGUF counts those behind that guess tokens further on, too. */
rs_status rs_fields_layers(const rs_fields *fields, int64_t *layers, rs_error *err)
{
    const char *key = fields->prefix ? "nextn_predict_layers" : "num_nextn_predict_layers";
    const json_t *json = rs_fields_key(fields, key);
    int64_t ahead = 0;
    if (!json || (json_is_integer(json) && json_integer_value(json) == 0)) return RS_OK;
    RS_TRY(rs_json_size(json, fields->path, key, &ahead, err));
    if (ahead >= *layers)
        return rs_fail(err, RS_E_CONFIG_LAYERS, fields->path,
                       "correct the configuration, or download it again",
                       "%s is %lld, and there are %lld blocks in all", key, (long long)ahead,
                       (long long)*layers);
    *layers -= ahead;
    return RS_OK;
}

rs_status rs_fields_find(const rs_fields *fields, rs_field field, int64_t layer, int64_t *value,
                         bool *found, rs_error *err)
{
    *found = true;
    for (const rs_field_row *row = fields->dialect; row->key; row++) {
        if (row->field != field) continue;
        const json_t *json = rs_fields_key(fields, row->key);
        if (!json) continue;
        if (json_is_array(json) && field == RS_FIELD_LAYERS) {
            *value = (int64_t)json_array_size(json);
            return RS_OK;
        }
        if (json_is_string(json) && strcmp(row->key, "hybrid_override_pattern") == 0) {
            /* a letter for each layer */
            *value = (int64_t)json_string_length(json);
            return RS_OK;
        }
        if (json_is_array(json)) return from_list(fields, field, row->key, json, layer, value, err);
        /* Mamba's rank of dt may be left to the rule ceil(width / 16), a head's width to the
         * number of heads. */
        if ((field == RS_FIELD_SSM_RANK || field == RS_FIELD_SSM_HEAD_DIM) &&
            json_is_string(json) && strcmp(json_string_value(json), "auto") == 0)
            continue;
        RS_TRY(rs_json_size(json, fields->path, row->key, value, err));
        bool blocks = field == RS_FIELD_LAYERS && fields->prefix;
        return blocks ? rs_fields_layers(fields, value, err) : RS_OK;
    }
    for (const rs_field_default *row = fields->defaults; row && row->value; row++)
        if (row->field == field) {
            *value = row->value;
            return RS_OK;
        }
    *found = false;
    return RS_OK;
}

rs_status rs_fields_need(const rs_fields *fields, rs_field field, int64_t layer, int64_t *value,
                         rs_error *err)
{
    bool found;
    RS_TRY(rs_fields_find(fields, field, layer, value, &found, err));
    if (found) return RS_OK;
    const char *first = NULL;
    for (const rs_field_row *row = fields->dialect; row->key; row++) {
        if (row->field != field) continue;
        if (!first) first = row->key;
        if (raw(fields, row->key)) return bad_size(fields->path, row->key, "null", err);
    }
    return rs_fail(err, RS_E_CONFIG_SCHEMA, fields->path,
                   "add the field, or name the tensors yourself with --map FILE.json",
                   "has no %s%s", fields->prefix ? fields->prefix : "",
                   first ? first : "field for this size");
}

rs_status rs_fields_real(const rs_fields *fields, const char *key, double *value, bool *found,
                         rs_error *err)
{
    const json_t *json = rs_fields_key(fields, key);
    *found = json != NULL;
    if (!json) return RS_OK;
    if (!json_is_number(json) || !isfinite(json_number_value(json)))
        return rs_fail(err, RS_E_CONFIG_SIZE, fields->path, NULL, "%s is no finite number", key);
    *value = json_number_value(json);
    return RS_OK;
}

/* A number, or one of the words that stand for those that JSON lacks. */
static bool limit_of(const json_t *value, double *out)
{
    const char *word = json_is_string(value)
                           ? json_string_value(value)
                           : json_string_value(json_object_get(value, "__float__"));
    bool infinite = word && (strcmp(word, "Infinity") == 0 || strcmp(word, "inf") == 0);
    if (json_is_number(value)) *out = json_number_value(value);
    if (infinite) *out = INFINITY;
    return json_is_number(value) || infinite;
}

rs_status rs_fields_limits(const rs_fields *fields, const char *key, double *least, double *most,
                           rs_error *err)
{
    const json_t *pair = key ? rs_fields_key(fields, key) : NULL;
    *least = 0;
    *most = INFINITY;
    if (!pair || json_is_null(pair)) return RS_OK;
    if (json_array_size(pair) == 2 && limit_of(json_array_get(pair, 0), least) &&
        limit_of(json_array_get(pair, 1), most) && *least <= *most)
        return RS_OK;
    return rs_fail(err, RS_E_CONFIG_SCHEMA, fields->path,
                   "correct the configuration, or download it again",
                   "%s must be two numbers, the least and the most step", key);
}
