/* settings_write.c: settings as a task file, and what differs between two of them. */
#include "train/settings_parts.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Whole numbers are written without a point. */
static json_t *write_real(double value)
{
    if (isinf(value)) return json_null();
    return value == floor(value) && fabs(value) < 1e15 ? json_integer((json_int_t)value)
                                                       : json_real(value);
}

static json_t *write_text(const char *text)
{
    return text ? json_string(text) : json_null();
}

static json_t *write_wholes(const int64_t *list, size_t most)
{
    json_t *out = json_array();
    for (int64_t i = 0; i < list[most]; i++)
        json_array_append_new(out, json_integer(list[i]));
    return out;
}

static json_t *write_groups(const rs_group_list *list)
{
    json_t *out = json_object();
    for (int64_t i = 0; i < list->n; i++)
        json_object_set_new(out, list->items[i].select, write_real(list->items[i].value));
    return out;
}

static json_t *write_texts(const rs_text_list *list)
{
    json_t *out = json_array();
    for (int64_t i = 0; i < list->n; i++)
        json_array_append_new(out, json_string(list->items[i]));
    return out;
}

static json_t *write_starts(const rs_start_list *list)
{
    json_t *out = json_object();
    for (int64_t i = 0; i < list->n; i++)
        json_object_set_new(out, list->items[i].select, json_string(list->items[i].from));
    return out;
}

static json_t *write_fields(const rs_train_settings *s, const rs_train_field *fields,
                            const char *const *only);

static json_t *write_value(const rs_train_settings *s, const rs_train_field *field)
{
    const void *at = (const char *)s + field->offset;
    switch (field->kind) {
    case RS_FIELD_WHOLE:
        return json_integer(*(const int64_t *)at);
    case RS_FIELD_REAL:
    case RS_FIELD_BELOW:
    case RS_FIELD_LIMIT:
        return write_real(*(const double *)at);
    case RS_FIELD_FLAG:
        return json_boolean(*(const bool *)at);
    case RS_FIELD_WORD:
        return json_string(field->words[*(const int *)at]);
    case RS_FIELD_TEXT:
        return write_text(*(const char *const *)at);
    case RS_FIELD_PAIR:
        return json_pack("[ff]", ((const double *)at)[0], ((const double *)at)[1]);
    case RS_FIELD_WHOLES:
        return write_wholes(at, (size_t)field->most);
    case RS_FIELD_GROUPS:
        return write_groups(at);
    case RS_FIELD_TEXTS:
        return write_texts(at);
    case RS_FIELD_STARTS:
        return write_starts(at);
    case RS_FIELD_MODEL:
        return s->model ? json_deep_copy(s->model) : write_text(s->model_path);
    default:
        return write_fields(s, field->fields,
                            field->fields == rs_train_data_fields ? rs_train_data_names(s->task)
                                                                  : NULL);
    }
}

static json_t *write_fields(const rs_train_settings *s, const rs_train_field *fields,
                            const char *const *only)
{
    json_t *out = json_object();
    for (const rs_train_field *field = fields; field->name; field++) {
        bool has = !only;
        for (size_t i = 0; only && only[i] && !has; i++)
            has = strcmp(only[i], field->name) == 0;
        if (has) json_object_set_new(out, field->name, write_value(s, field));
    }
    return out;
}

json_t *rs_train_settings_write(const rs_train_settings *settings)
{
    int64_t failures = rs_memory_failures();
    json_t *out = write_fields(settings, rs_train_fields, NULL);
    if (rs_memory_failures() == failures) return out;
    json_decref(out);
    return NULL;
}

/* ---- differences ---- */

static void append_value(rs_buffer *out, const json_t *value)
{
    if (json_is_real(value)) { /* the shorter text where it is the same number */
        char digits[32];
        snprintf(digits, sizeof digits, "%.15g", json_real_value(value));
        bool same = strtod(digits, NULL) == json_real_value(value);
        rs_buffer_printf(out, same ? "%.15g" : "%.17g", json_real_value(value));
        return;
    }
    char *text = value ? json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT) : NULL;
    rs_buffer_puts(out, text ? text : "absent");
    rs_memory_free_json(text);
}

static void append_difference(rs_buffer *out, const char *inside, const char *name,
                              const json_t *old, const json_t *now)
{
    char path[512];
    snprintf(path, sizeof path, "%.300s%s%.200s", inside, *inside ? "." : "", name);
    if (json_is_object(old) && json_is_object(now)) {
        const char *member;
        json_t *value;
        json_object_foreach((json_t *)(uintptr_t)old, member, value)
            append_difference(out, path, member, value, json_object_get(now, member));
        json_object_foreach((json_t *)(uintptr_t)now, member,
                            value) if (!json_object_get(old, member))
            append_difference(out, path, member, NULL, value);
        return;
    }
    if (json_equal(old, now)) return;
    rs_buffer_printf(out, "%s%s: ", out->length ? ", " : "", path);
    append_value(out, old);
    rs_buffer_puts(out, ", now ");
    append_value(out, now);
}

void rs_train_settings_differ(rs_buffer *out, const json_t *old, const json_t *now)
{
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)old, name, value)
        append_difference(out, "", name, value, json_object_get(now, name));
    json_object_foreach((json_t *)(uintptr_t)now, name, value) if (!json_object_get(old, name))
        append_difference(out, "", name, NULL, value);
}
