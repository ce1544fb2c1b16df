/* emit.c: see emit.h. */
#include "report/emit.h"

#include "report/number.h"
#include "report/unicode.h"

#include <math.h>
#include <string.h>

/* Whether the byte can stand in a JSON string, and in an HTML script, as it is. */
static bool is_plain(unsigned char c)
{
    return c >= 0x20 && c < 0x7F && c != '"' && c != '\\' && c != '<' && c != '>' && c != '&';
}

static void escape(rs_buffer *out, uint32_t point)
{
    static const char letters[][2] = {{'"', '"'},  {'\\', '\\'}, {'\b', 'b'}, {'\f', 'f'},
                                      {'\n', 'n'}, {'\r', 'r'},  {'\t', 't'}};
    for (size_t i = 0; i < sizeof letters / sizeof *letters; i++) {
        if (point == (unsigned char)letters[i][0]) {
            const char text[2] = {'\\', letters[i][1]};
            rs_buffer_append(out, text, 2);
            return;
        }
    }
    if (point < 0x80 || point == 0x2028 || point == 0x2029) {
        static const char hex[] = "0123456789abcdef";
        const char text[6] = {
            '\\',           'u', hex[point >> 12], hex[point >> 8 & 15], hex[point >> 4 & 15],
            hex[point & 15]};
        rs_buffer_append(out, text, sizeof text);
        return;
    }
    char bytes[4];
    rs_buffer_append(out, bytes, rs_utf8_put(bytes, point));
}

/* Most strings are short names: one request to the buffer. `before` and `after` are texts of at
 * most one byte. */
static bool emit_short(rs_buffer *out, const char *before, const char *text, size_t length,
                       const char *after)
{
    char quoted[48];
    size_t at = 0;
    if (length + 4 > sizeof quoted) return false;
    if (*before) quoted[at++] = *before;
    quoted[at++] = '"';
    for (size_t i = 0; i < length; i++) {
        if (!is_plain((unsigned char)text[i])) return false;
        quoted[at++] = text[i];
    }
    quoted[at++] = '"';
    if (*after) quoted[at++] = *after;
    rs_buffer_append(out, quoted, at);
    return true;
}

void rs_emit_string(rs_buffer *out, const char *text)
{
    if (!text) {
        rs_buffer_append(out, "null", 4);
        return;
    }
    size_t length = strlen(text);
    if (emit_short(out, "", text, length, "")) return;
    rs_buffer_append(out, "\"", 1);
    for (size_t i = 0; i < length;) {
        size_t run = i;
        while (run < length && is_plain((unsigned char)text[run]))
            run++;
        rs_buffer_append(out, text + i, run - i);
        i = run;
        if (i == length) break;
        uint32_t point;
        i += rs_utf8_next(text + i, length - i, &point);
        escape(out, point);
    }
    rs_buffer_append(out, "\"", 1);
}

void rs_emit_real(rs_buffer *out, double value)
{
    char text[RS_NUMBER_SIZE];
    if (isfinite(value))
        rs_buffer_append(out, text, rs_number_format(text, value));
    else
        rs_buffer_append(out, "null", 4);
}

void rs_emit_integer(rs_buffer *out, int64_t value)
{
    char text[RS_NUMBER_SIZE];
    if (value != RS_NULL_INT)
        rs_buffer_append(out, text, rs_integer_format(text, value));
    else
        rs_buffer_append(out, "null", 4);
}

void rs_emit_key(rs_buffer *out, const char *key, bool *first)
{
    const char *comma = *first ? "" : ",";
    *first = false;
    if (emit_short(out, comma, key, strlen(key), ":")) return;
    rs_buffer_puts(out, comma);
    rs_emit_string(out, key);
    rs_buffer_append(out, ":", 1);
}

static rs_status emit_value(rs_buffer *out, const json_t *value, int depth, rs_error *err);

static rs_status emit_members(rs_buffer *out, const json_t *object, int depth, rs_error *err)
{
    bool first = true;
    /* jansson's iterators take a pointer to a non-const object but do not change it. */
    json_t *members = (json_t *)(uintptr_t)object;
    rs_buffer_append(out, "{", 1);
    for (void *i = json_object_iter(members); i; i = json_object_iter_next(members, i)) {
        rs_emit_key(out, json_object_iter_key(i), &first);
        RS_TRY(emit_value(out, json_object_iter_value(i), depth, err));
    }
    rs_buffer_append(out, "}", 1);
    return RS_OK;
}

static rs_status emit_elements(rs_buffer *out, const json_t *array, int depth, rs_error *err)
{
    size_t n = json_array_size(array);
    rs_buffer_append(out, "[", 1);
    for (size_t i = 0; i < n; i++) {
        if (i) rs_buffer_append(out, ",", 1);
        RS_TRY(emit_value(out, json_array_get(array, i), depth, err));
    }
    rs_buffer_append(out, "]", 1);
    return RS_OK;
}

static rs_status emit_value(rs_buffer *out, const json_t *value, int depth, rs_error *err)
{
    enum { DEEPEST = 256 };
    if (depth > DEEPEST)
        return rs_fail(err, RS_E_INTERNAL, "result", "please report this",
                       "JSON nested deeper than %d", DEEPEST);
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        return emit_members(out, value, depth + 1, err);
    case JSON_ARRAY:
        return emit_elements(out, value, depth + 1, err);
    case JSON_STRING:
        rs_emit_string(out, json_string_value(value));
        break;
    case JSON_INTEGER: {
        char text[RS_NUMBER_SIZE];
        rs_buffer_append(out, text, rs_integer_format(text, json_integer_value(value)));
        break;
    }
    case JSON_REAL:
        rs_emit_real(out, json_real_value(value));
        break;
    case JSON_TRUE:
        rs_buffer_append(out, "true", 4);
        break;
    case JSON_FALSE:
        rs_buffer_append(out, "false", 5);
        break;
    case JSON_NULL:
        rs_buffer_append(out, "null", 4);
        break;
    }
    return RS_OK;
}

rs_status rs_emit_json(rs_buffer *out, const json_t *value, rs_error *err)
{
    return emit_value(out, value, 0, err);
}

static void emit_vector(rs_buffer *out, const double *values, size_t n)
{
    if (!values) {
        rs_buffer_append(out, "null", 4);
        return;
    }
    rs_buffer_append(out, "[", 1);
    for (size_t i = 0; i < n; i++) {
        if (i) rs_buffer_append(out, ",", 1);
        rs_emit_real(out, values[i]);
    }
    rs_buffer_append(out, "]", 1);
}

void rs_emit_cell(rs_buffer *out, const rs_table *table, size_t row, size_t column)
{
    size_t n;
    switch (rs_table_column(table, column)->type) {
    case RS_COLUMN_TEXT:
        rs_emit_string(out, rs_table_text(table, row, column));
        break;
    case RS_COLUMN_INT:
        rs_emit_integer(out, rs_table_int(table, row, column));
        break;
    case RS_COLUMN_BOOL: {
        int64_t value = rs_table_int(table, row, column);
        rs_buffer_puts(out, value == RS_NULL_INT ? "null" : value ? "true" : "false");
        break;
    }
    case RS_COLUMN_REAL:
        rs_emit_real(out, rs_table_real(table, row, column));
        break;
    case RS_COLUMN_VECTOR: {
        const double *values = rs_table_vector(table, row, column, &n);
        emit_vector(out, values, n);
        break;
    }
    }
}
