/* settings_read.c: values of a task file into settings, field by field of a table. */
#include "train/settings_parts.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- refusals ---- */

rs_status rs_train_bad_value(const rs_train_reader *r, const char *field, const char *wanted,
                             const json_t *value)
{
    bool whole = !json_is_array(value) && !json_is_object(value);
    char *text = whole ? json_dumps(value, JSON_ENCODE_ANY) : NULL;
    rs_status status = rs_fail(r->err, RS_E_TASK_SCHEMA, r->settings->path, NULL,
                               "\"%s\" is %.80s; %s is needed", field,
                               text                   ? text
                               : json_is_array(value) ? "a list"
                                                      : "an object",
                               wanted);
    rs_memory_free_json(text);
    return status;
}

enum { MOST_NAMES = 64 };

static rs_status refuse_name(const rs_train_reader *r, const char *name, const char *const *known,
                             const char *inside)
{
    char hint[96], place[96] = "";
    snprintf(hint, sizeof hint, "did you mean \"%s\"?", rs_nearest_name(name, known));
    if (*inside) snprintf(place, sizeof place, " in \"%s\"", inside);
    if (strcmp(inside, "data") == 0)
        snprintf(place, sizeof place, " in \"data\" of task %.60s", r->settings->task);
    return rs_fail(r->err, RS_E_TASK_SCHEMA, r->settings->path, hint, "unknown field \"%.80s\"%s",
                   name, place);
}

static bool is_among(const char *name, const char *const *names)
{
    for (size_t i = 0; names[i]; i++)
        if (strcmp(names[i], name) == 0) return true;
    return false;
}

static rs_status find_word(int *value, const rs_train_reader *r, const char *field,
                           const json_t *json, const char *const *words)
{
    if (!json_is_string(json)) return rs_train_bad_value(r, field, "a text", json);
    const char *text = json_string_value(json);
    char hint[96], list[200] = "";
    size_t used = 0;
    for (int w = 0; words[w]; w++) {
        *value = w;
        if (strcmp(words[w], text) == 0) return RS_OK;
        if (used < sizeof list)
            used +=
                (size_t)snprintf(list + used, sizeof list - used, "%s%s", w ? ", " : "", words[w]);
    }
    snprintf(hint, sizeof hint, "did you mean \"%s\"?", rs_nearest_name(text, words));
    return rs_fail(r->err, RS_E_TASK_SCHEMA, r->settings->path, hint,
                   "\"%s\" is \"%.60s\"; there are %s", field, text, list);
}

/* ---- one value ---- */

static bool is_real(const json_t *json)
{
    return json_is_number(json) && isfinite(json_number_value(json));
}

static rs_status read_number(double *value, const rs_train_reader *r, const rs_train_field *field,
                             const json_t *json)
{
    *value = json_number_value(json);
    bool whole = field->kind == RS_FIELD_WHOLE || field->kind == RS_FIELD_WHOLES;
    bool open = field->kind == RS_FIELD_BELOW || field->kind == RS_FIELD_PAIR;
    double most = field->kind == RS_FIELD_WHOLES ? 2147483647.0 : field->most;
    bool fits = is_real(json) && *value >= field->least && (open ? *value < most : *value <= most);
    if (fits && (!whole || *value == floor(*value))) return RS_OK;
    char wanted[96];
    snprintf(wanted, sizeof wanted, "a %s from %.16g to %s%.16g", whole ? "whole number" : "number",
             field->least, open ? "below " : "", most);
    return rs_train_bad_value(r, field->name, wanted, json);
}

static rs_status copy_text(const char **out, const rs_train_reader *r, const char *text)
{
    *out = rs_arena_strdup(r->settings->arena, text);
    return *out ? RS_OK : rs_fail_memory(r->err, "a task file", strlen(text));
}

static rs_status read_text(const char **out, const rs_train_reader *r, const char *field,
                           const json_t *json)
{
    *out = NULL;
    if (json_is_null(json)) return RS_OK;
    if (!json_is_string(json)) return rs_train_bad_value(r, field, "a text", json);
    return copy_text(out, r, json_string_value(json));
}

static rs_status read_pair(double *out, const rs_train_reader *r, const rs_train_field *field,
                           const json_t *json)
{
    if (json_array_size(json) != 2)
        return rs_train_bad_value(r, field->name, "a list of two numbers", json);
    RS_TRY(read_number(&out[0], r, field, json_array_get(json, 0)));
    return read_number(&out[1], r, field, json_array_get(json, 1));
}

static rs_status read_wholes(int64_t *out, const rs_train_reader *r, const rs_train_field *field,
                             const json_t *json)
{
    size_t n = json_array_size(json);
    if (!json_is_array(json) || n > (size_t)field->most) {
        char wanted[64];
        snprintf(wanted, sizeof wanted, "a list of at most %g whole numbers", field->most);
        return rs_train_bad_value(r, field->name, wanted, json);
    }
    for (size_t i = 0; i < n; i++) {
        double value;
        RS_TRY(read_number(&value, r, field, json_array_get(json, i)));
        out[i] = (int64_t)value;
    }
    out[(size_t)field->most] = (int64_t)n;
    return RS_OK;
}

/* Memory for the members of a list in a file. */
static rs_status take_list(void **items, int64_t *n, const rs_train_reader *r, size_t count,
                           size_t size)
{
    *items = rs_arena_alloc(r->settings->arena, count ? count : 1, size);
    *n = (int64_t)count;
    return *items ? RS_OK : rs_fail_memory(r->err, "a task file", count * size);
}

static rs_status read_groups(rs_group_list *out, const rs_train_reader *r,
                             const rs_train_field *field, const json_t *json)
{
    bool object = json_is_object(json);
    RS_TRY(take_list((void **)&out->items, &out->n, r, object ? json_object_size(json) : 1,
                     sizeof *out->items));
    if (!object) {
        out->items[0].select = "default";
        return read_number(&out->items[0].value, r, field, json);
    }
    const char *name;
    json_t *value;
    rs_group_value *next = out->items;
    json_object_foreach((json_t *)(uintptr_t)json, name, value)
    {
        rs_train_field own = *field;
        RS_TRY(copy_text(&next->select, r, name));
        own.name = next->select;
        RS_TRY(read_number(&next++->value, r, &own, value));
    }
    return RS_OK;
}

static rs_status read_texts(rs_text_list *out, const rs_train_reader *r,
                            const rs_train_field *field, const json_t *json)
{
    if (!json_is_array(json)) return rs_train_bad_value(r, field->name, "a list of texts", json);
    RS_TRY(take_list((void **)&out->items, &out->n, r, json_array_size(json), sizeof *out->items));
    for (int64_t i = 0; i < out->n; i++) {
        const json_t *item = json_array_get(json, (size_t)i);
        int word = 0;
        if (field->words) RS_TRY(find_word(&word, r, field->name, item, field->words));
        if (!json_is_string(item)) return rs_train_bad_value(r, field->name, "a text", item);
        RS_TRY(copy_text(&out->items[i], r, json_string_value(item)));
    }
    return RS_OK;
}

static rs_status read_starts(rs_start_list *out, const rs_train_reader *r, const char *field,
                             const json_t *json)
{
    if (!json_is_object(json))
        return rs_train_bad_value(r, field, "an object of laws and files", json);
    RS_TRY(take_list((void **)&out->items, &out->n, r, json_object_size(json), sizeof *out->items));
    const char *name;
    json_t *value;
    rs_start *next = out->items;
    json_object_foreach((json_t *)(uintptr_t)json, name, value)
    {
        if (!json_is_string(value))
            return rs_train_bad_value(r, name, "the text of a law or a file", value);
        RS_TRY(copy_text(&next->select, r, name));
        RS_TRY(copy_text(&next++->from, r, json_string_value(value)));
    }
    return RS_OK;
}

static bool ends_with(const char *text, const char *ending)
{
    size_t n = strlen(text), m = strlen(ending);
    return n >= m && strcmp(text + n - m, ending) == 0;
}

/* An architecture, or the path of its file (.json), or of a checkpoint. */
static rs_status read_model(const rs_train_reader *r, const char *field, const json_t *json)
{
    rs_train_settings *s = r->settings;
    if (json_is_string(json)) {
        RS_TRY(copy_text(&s->model_path, r, json_string_value(json)));
        return ends_with(s->model_path, ".json")
                   ? rs_train_parse_file(&s->model, s->model_path, r->err)
                   : RS_OK;
    }
    if (!json_is_object(json))
        return rs_train_bad_value(r, field, "an architecture or the path of a model", json);
    s->model = json_deep_copy(json);
    return s->model ? RS_OK : rs_fail_memory(r->err, "a task file", 1);
}

/* ---- fields ---- */

static rs_status read_value(const rs_train_reader *r, const rs_train_field *field,
                            const json_t *json)
{
    void *at = (char *)r->settings + field->offset;
    double number = 0;
    switch (field->kind) {
    case RS_FIELD_WHOLE:
        RS_TRY(read_number(&number, r, field, json));
        *(int64_t *)at = (int64_t)number;
        return RS_OK;
    case RS_FIELD_REAL:
    case RS_FIELD_BELOW:
        return read_number(at, r, field, json);
    case RS_FIELD_LIMIT:
        *(double *)at = json_is_null(json) ? INFINITY : json_number_value(json);
        if (json_is_null(json) || (is_real(json) && *(double *)at > 0)) return RS_OK;
        return rs_train_bad_value(r, field->name, "a number above 0, or null", json);
    case RS_FIELD_FLAG:
        if (!json_is_boolean(json))
            return rs_train_bad_value(r, field->name, "true or false", json);
        *(bool *)at = json_is_true(json);
        return RS_OK;
    case RS_FIELD_WORD:
        return find_word(at, r, field->name, json, field->words);
    case RS_FIELD_TEXT:
        return read_text(at, r, field->name, json);
    case RS_FIELD_PAIR:
        return read_pair(at, r, field, json);
    case RS_FIELD_WHOLES:
        return read_wholes(at, r, field, json);
    case RS_FIELD_GROUPS:
        return read_groups(at, r, field, json);
    case RS_FIELD_TEXTS:
        return read_texts(at, r, field, json);
    case RS_FIELD_STARTS:
        return read_starts(at, r, field->name, json);
    case RS_FIELD_MODEL:
        return read_model(r, field->name, json);
    default:
        break;
    }
    if (!json_is_object(json)) return rs_train_bad_value(r, field->name, "an object", json);
    bool data = field->fields == rs_train_data_fields;
    const char *const *only = data ? rs_train_data_names(r->settings->task) : NULL;
    return rs_train_read_fields(r, json, field->fields, only, field->name);
}

rs_status rs_train_read_fields(const rs_train_reader *r, const json_t *json,
                               const rs_train_field *fields, const char *const *only,
                               const char *inside)
{
    const char *known[MOST_NAMES];
    size_t n = 0;
    for (; fields[n].name && n + 1 < MOST_NAMES; n++)
        known[n] = fields[n].name;
    known[n] = NULL;
    const char *const *names = only ? only : known, *name;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)json, name, value)
    {
        if (!is_among(name, names)) return refuse_name(r, name, names, inside);
        for (size_t f = 0; f < n; f++)
            if (strcmp(fields[f].name, name) == 0) RS_TRY(read_value(r, &fields[f], value));
    }
    return RS_OK;
}
