/* spec.c: typed members and paths. */
#include "text/spec.h"

#include "base/memory.h"

#include <stdio.h>
#include <string.h>

rs_status rs_spec_fail(const rs_spec *spec, const char *key, rs_error *err, const char *format, ...)
{
    char what[512], place[240];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    snprintf(place, sizeof place, "%s%s%s", spec->path, spec->path[0] && key[0] ? "." : "", key);
    return rs_fail(err, RS_E_TOKENIZER_SCHEMA, spec->json->name,
                   "the file is damaged, or from a version of its format that is not known here",
                   "%s: %s", place, what);
}

rs_status rs_spec_unknown(const rs_spec *spec, const char *what, const char *type, rs_error *err)
{
    return rs_fail(err, RS_E_TOKENIZER_UNKNOWN, spec->json->name,
                   "tokenise the text with the model's own library and give the ids (--tokens)",
                   "%s: %s '%s' is not supported", spec->path, what, type);
}

bool rs_spec_member(rs_spec *member, const rs_spec *spec, const char *key)
{
    uint32_t value = rs_json_member(spec->json, spec->value, key);
    *member = (rs_spec){.json = spec->json, .value = value};
    snprintf(member->path, sizeof member->path, "%.100s%s%.50s", spec->path,
             spec->path[0] ? "." : "", key);
    return value != RS_JSON_ABSENT;
}

void rs_spec_element(rs_spec *element, const rs_spec *array, uint32_t value, size_t i)
{
    *element = (rs_spec){.json = array->json, .value = value};
    snprintf(element->path, sizeof element->path, "%.130s[%zu]", array->path, i);
}

static rs_status missing(const rs_spec *spec, const char *key, bool required, rs_error *err)
{
    return required ? rs_spec_fail(spec, key, err, "is missing") : RS_OK;
}

rs_status rs_spec_bool(bool *out, const rs_spec *spec, const char *key, bool required,
                       rs_error *err)
{
    uint32_t value = rs_json_member(spec->json, spec->value, key);
    if (value == RS_JSON_ABSENT) return missing(spec, key, required, err);
    rs_json_kind kind = (rs_json_kind)spec->json->nodes[value].kind;
    if (kind != RS_JSON_TRUE && kind != RS_JSON_FALSE)
        return rs_spec_fail(spec, key, err, "must be true or false");
    *out = kind == RS_JSON_TRUE;
    return RS_OK;
}

rs_status rs_spec_integer(int64_t *out, const rs_spec *spec, const char *key, bool required,
                          rs_error *err)
{
    uint32_t value = rs_json_member(spec->json, spec->value, key);
    if (value == RS_JSON_ABSENT) return missing(spec, key, required, err);
    return rs_json_integer(spec->json, value, out)
               ? RS_OK
               : rs_spec_fail(spec, key, err, "must be a whole number");
}

rs_status rs_spec_text(const char **text, size_t *length, const rs_spec *spec, const char *key,
                       bool required, rs_error *err)
{
    uint32_t value = rs_json_member(spec->json, spec->value, key);
    if (value == RS_JSON_ABSENT) return missing(spec, key, required, err);
    const rs_json_node *node = &spec->json->nodes[value];
    if (node->kind != RS_JSON_STRING) return rs_spec_fail(spec, key, err, "must be a string");
    *text = node->text;
    *length = node->length;
    return RS_OK;
}

rs_status rs_spec_copy(char **out, size_t *length, const rs_spec *spec, const char *key,
                       bool required, rs_error *err)
{
    const char *text = NULL;
    size_t n = 0;
    *out = NULL;
    *length = 0;
    RS_TRY(rs_spec_text(&text, &n, spec, key, required, err));
    if (!text) return RS_OK;
    char *copy = rs_malloc(n + 1, 1);
    if (!copy) return rs_fail_memory(err, spec->path, n);
    memcpy(copy, text, n);
    copy[n] = 0;
    *out = copy;
    *length = n;
    return RS_OK;
}

rs_status rs_spec_character(char out[4], size_t *length, const rs_spec *spec, const char *key,
                            rs_error *err)
{
    const char *text = NULL;
    size_t n = 0;
    RS_TRY(rs_spec_text(&text, &n, spec, key, true, err));
    if (n == 0 || rs_char_bytes(text[0]) != n)
        return rs_spec_fail(spec, key, err, "must be one character");
    memcpy(out, text, n);
    *length = n;
    return RS_OK;
}

rs_status rs_spec_pattern(rs_pattern **out, const rs_spec *spec, const char *key, rs_error *err)
{
    rs_spec pattern;
    const char *text = NULL;
    size_t length = 0;
    if (!rs_spec_member(&pattern, spec, key)) return rs_spec_fail(spec, key, err, "is missing");
    RS_TRY(rs_spec_text(&text, &length, &pattern, "String", false, err));
    bool regex = !text;
    if (regex) RS_TRY(rs_spec_text(&text, &length, &pattern, "Regex", false, err));
    if (!text) return rs_spec_fail(spec, key, err, "must be {\"String\": ...} or {\"Regex\": ...}");
    char where[480];
    snprintf(where, sizeof where, "%.300s: %s", spec->json->name, pattern.path);
    return rs_pattern_new(out, text, length, regex, where, err);
}

rs_status rs_spec_type(char type[64], const rs_spec *spec, rs_error *err)
{
    const char *text = NULL;
    size_t length = 0;
    if (spec->json->nodes[spec->value].kind != RS_JSON_OBJECT)
        return rs_spec_fail(spec, "", err, "must be an object");
    RS_TRY(rs_spec_text(&text, &length, spec, "type", true, err));
    snprintf(type, 64, "%.*s", length < 63 ? (int)length : 63, text);
    return RS_OK;
}

rs_status rs_spec_flatten(const rs_spec *spec, const char *list, rs_spec_visit *one, void *user,
                          rs_error *err)
{
    char type[64];
    RS_TRY(rs_spec_type(type, spec, err));
    if (strcmp(type, "Sequence") != 0) return one(user, spec, type, err);
    rs_spec array, element;
    if (!rs_spec_member(&array, spec, list) || spec->json->nodes[array.value].kind != RS_JSON_ARRAY)
        return rs_spec_fail(spec, list, err, "must be a list of steps");
    uint32_t end = rs_json_next(spec->json, array.value), at = array.value + 1;
    for (size_t i = 0; at < end; i++, at = rs_json_next(spec->json, at)) {
        rs_spec_element(&element, &array, at, i);
        RS_TRY(rs_spec_flatten(&element, list, one, user, err));
    }
    return RS_OK;
}
