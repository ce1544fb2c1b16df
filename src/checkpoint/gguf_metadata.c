/*
 * gguf_metadata.c: the key-value pairs of a GGUF file as a JSON object.
 *
 *   pair    key: string, type: u32, value
 *   string  length: u64, bytes
 *   array   element type: u32, count: u64, elements (packed; no arrays of arrays)
 *
 * Each pair is read once, in order; nothing is allocated before the sizes it claims were compared
 * with the bytes that are left. String arrays (a tokenizer's tokens and merges) become a
 * line that says how many there are: the tokenizer, which needs them, walks the pairs of files[0]
 * again with this cursor, to the key.
 */
#include "checkpoint/gguf.h"

#include <math.h>
#include <string.h>

#define LONGEST_STRING ((uint64_t)1 << 30)
#define LONGEST_ARRAY ((uint64_t)1 << 30)
enum { LONGEST_JSON_ARRAY = 65536, SHOWN = 80 };

/* ---- the cursor ---- */

rs_status rs_gguf_take(rs_gguf_cursor *cursor, const uint8_t **bytes, size_t n, const char *what,
                       rs_error *err)
{
    *bytes = NULL;
    if (rs_gguf_left(cursor) < n)
        return rs_fail(err, RS_E_GGUF_EOF, cursor->path, RS_GGUF_PARTIAL_HINT,
                       "ends at byte %zu, inside %s, which needs %zu bytes from byte %zu on",
                       cursor->size, what, n, cursor->at);
    *bytes = cursor->data + cursor->at;
    cursor->at += n;
    return RS_OK;
}

/* Bytes are combined by shifts, so that it is right on any machine and at any alignment. */
static uint64_t little_endian(const uint8_t *bytes, size_t n)
{
    uint64_t value = 0;
    for (size_t i = n; i-- > 0;)
        value = value << 8 | bytes[i];
    return value;
}

rs_status rs_gguf_u32(rs_gguf_cursor *cursor, uint32_t *value, const char *what, rs_error *err)
{
    const uint8_t *bytes;
    RS_TRY(rs_gguf_take(cursor, &bytes, 4, what, err));
    *value = (uint32_t)little_endian(bytes, 4);
    return RS_OK;
}

rs_status rs_gguf_u64(rs_gguf_cursor *cursor, uint64_t *value, const char *what, rs_error *err)
{
    const uint8_t *bytes;
    RS_TRY(rs_gguf_take(cursor, &bytes, 8, what, err));
    *value = little_endian(bytes, 8);
    return RS_OK;
}

rs_status rs_gguf_string(rs_gguf_cursor *cursor, const char **bytes, size_t *length,
                         const char *what, rs_error *err)
{
    uint64_t n;
    size_t begin = cursor->at;
    RS_TRY(rs_gguf_u64(cursor, &n, what, err));
    if (n > LONGEST_STRING)
        return rs_fail(err, RS_E_GGUF_STRING, cursor->path, "the file is damaged",
                       "%s at byte %zu claims %llu bytes; a string holds at most %llu", what, begin,
                       (unsigned long long)n, (unsigned long long)LONGEST_STRING);
    if (n > rs_gguf_left(cursor))
        return rs_fail(err, RS_E_GGUF_STRING, cursor->path, RS_GGUF_PARTIAL_HINT,
                       "%s at byte %zu claims %llu bytes, but only %zu are left", what, begin,
                       (unsigned long long)n, rs_gguf_left(cursor));
    *bytes = (const char *)cursor->data + cursor->at;
    *length = (size_t)n;
    cursor->at += (size_t)n;
    return RS_OK;
}

int rs_gguf_shown(const char *text, size_t length)
{
    if (length <= SHOWN) return (int)length;
    int cut = SHOWN;
    while (cut > 0 && ((unsigned char)text[cut] & 0xC0) == 0x80)
        cut--;
    return cut;
}

/* ---- values ---- */

/* JSON values that would otherwise be made over and over: an array of bytes costs 8 bytes an
 * element instead of 40, and one of NaNs no object each. They are shared by reference count. */
enum { SMALLEST = -128, LARGEST = 255 };
typedef struct values {
    json_t *integers[LARGEST - SMALLEST + 1];
    json_t *not_a_number, *infinity, *minus_infinity;
} values;

static json_t *shared(json_t **slot, json_t *fresh)
{
    if (!*slot) *slot = fresh;
    return json_incref(*slot); /* NULL stays NULL */
}

static void values_free(values *v)
{
    for (size_t i = 0; i < sizeof v->integers / sizeof *v->integers; i++)
        json_decref(v->integers[i]);
    json_decref(v->not_a_number);
    json_decref(v->infinity);
    json_decref(v->minus_infinity);
}

static json_t *integer(values *v, int64_t x)
{
    if (x < SMALLEST || x > LARGEST) return json_integer(x);
    json_t **slot = &v->integers[x - SMALLEST];
    return shared(slot, *slot ? NULL : json_integer(x));
}

static json_t *special(json_t **slot, const char *name)
{
    return shared(slot, *slot ? NULL : json_pack("{s:s}", "__float__", name));
}

static json_t *number(values *v, double x)
{
    if (isfinite(x)) return json_real(x);
    if (isnan(x)) return special(&v->not_a_number, "NaN");
    return x > 0 ? special(&v->infinity, "Infinity") : special(&v->minus_infinity, "-Infinity");
}

static json_t *from_u8(values *v, const uint8_t *p)
{
    return integer(v, p[0]);
}
static json_t *from_i8(values *v, const uint8_t *p)
{
    return integer(v, (int8_t)p[0]);
}
static json_t *from_u16(values *v, const uint8_t *p)
{
    return integer(v, (int64_t)little_endian(p, 2));
}
static json_t *from_i16(values *v, const uint8_t *p)
{
    return integer(v, (int16_t)little_endian(p, 2));
}
static json_t *from_u32(values *v, const uint8_t *p)
{
    return integer(v, (int64_t)little_endian(p, 4));
}
static json_t *from_i32(values *v, const uint8_t *p)
{
    return integer(v, (int32_t)little_endian(p, 4));
}
/* JSON integers are signed here: what does not fit is kept as the nearest double. */
static json_t *from_u64(values *v, const uint8_t *p)
{
    uint64_t x = little_endian(p, 8);
    return x > INT64_MAX ? json_real((double)x) : integer(v, (int64_t)x);
}
static json_t *from_i64(values *v, const uint8_t *p)
{
    return integer(v, (int64_t)little_endian(p, 8));
}
static json_t *from_f32(values *v, const uint8_t *p)
{
    uint32_t bits = (uint32_t)little_endian(p, 4);
    float x;
    memcpy(&x, &bits, sizeof x);
    return number(v, (double)x);
}
static json_t *from_f64(values *v, const uint8_t *p)
{
    uint64_t bits = little_endian(p, 8);
    double x;
    memcpy(&x, &bits, sizeof x);
    return number(v, x);
}
/* Any byte but 0 is true, as the reference reader has it. */
static json_t *from_bool(values *v, const uint8_t *p)
{
    (void)v;
    return json_boolean(p[0] != 0);
}

enum { U32 = 4, STRING = 8, ARRAY = 9, N_TYPES = 13 };
static const struct {
    const char *name;
    size_t size; /* in the file; a string's is that of the shortest one */
    json_t *(*make)(values *v, const uint8_t *bytes);
} types[N_TYPES] = {
    {"u8", 1, from_u8},   {"i8", 1, from_i8},   {"u16", 2, from_u16}, {"i16", 2, from_i16},
    {"u32", 4, from_u32}, {"i32", 4, from_i32}, {"f32", 4, from_f32}, {"bool", 1, from_bool},
    {"string", 8, NULL},  {"array", 12, NULL},  {"u64", 8, from_u64}, {"i64", 8, from_i64},
    {"f64", 8, from_f64},
};

/* JSON text must be UTF-8: each byte that belongs to no well-formed character becomes U+FFFD. */
static json_t *text_value(const char *bytes, size_t length)
{
    if (rs_utf8_valid(bytes, length)) return json_stringn_nocheck(bytes, length);
    rs_buffer buffer = {0};
    for (size_t i = 0; i < length;) {
        size_t n = 1, most = length - i < 4 ? length - i : 4;
        while (n <= most && !rs_utf8_valid(bytes + i, n))
            n++;
        if (n <= most) {
            rs_buffer_append(&buffer, bytes + i, n);
        } else {
            rs_buffer_puts(&buffer, "\xEF\xBF\xBD");
            n = 1;
        }
        i += n;
    }
    json_t *value = buffer.failed ? NULL : json_stringn_nocheck(buffer.data, buffer.length);
    rs_buffer_free(&buffer);
    return value;
}

/* Each function below leaves *value NULL with RS_OK when memory was out: read_pair says so. */

static rs_status read_elements(json_t **value, values *v, rs_gguf_cursor *cursor, uint32_t type,
                               size_t count, rs_error *err)
{
    const uint8_t *bytes;
    RS_TRY(rs_gguf_take(cursor, &bytes, count * types[type].size, "an array", err));
    json_t *array = json_array();
    for (size_t i = 0; array && i < count; i++) {
        if (json_array_append_new(array, types[type].make(v, bytes + i * types[type].size)) != 0) {
            json_decref(array);
            array = NULL;
        }
    }
    *value = array;
    return RS_OK;
}

static rs_status skip_elements(json_t **value, rs_gguf_cursor *cursor, uint32_t type, size_t count,
                               rs_error *err)
{
    const uint8_t *bytes;
    if (type == STRING) {
        const char *text;
        size_t length;
        for (size_t i = 0; i < count; i++)
            RS_TRY(rs_gguf_string(cursor, &text, &length, "a string of an array", err));
    } else {
        RS_TRY(rs_gguf_take(cursor, &bytes, count * types[type].size, "an array", err));
    }
    *value = json_pack("{s:[s,I]}", "__array__", types[type].name, (json_int_t)count);
    return RS_OK;
}

static rs_status read_array(json_t **value, values *v, rs_gguf_cursor *cursor, const char *pair,
                            rs_error *err)
{
    uint32_t type;
    uint64_t count;
    RS_TRY(rs_gguf_u32(cursor, &type, "an array's element type", err));
    RS_TRY(rs_gguf_u64(cursor, &count, "an array's element count", err));
    if (type == ARRAY)
        return rs_fail(err, RS_E_GGUF_ARRAY, cursor->path,
                       "write nested arrays as one flat array and its sizes",
                       "%s is an array of arrays, which no reader supports", pair);
    if (type >= N_TYPES)
        return rs_fail(err, RS_E_GGUF_VALUE_TYPE, cursor->path,
                       "the file is damaged, or newer than this program",
                       "%s is an array of elements of the unknown type %u", pair, type);
    if (count > LONGEST_ARRAY)
        return rs_fail(err, RS_E_GGUF_ARRAY, cursor->path, "the file is damaged",
                       "%s claims an array of %llu elements; at most %llu are allowed", pair,
                       (unsigned long long)count, (unsigned long long)LONGEST_ARRAY);
    if (count > rs_gguf_left(cursor) / types[type].size)
        return rs_fail(err, RS_E_GGUF_ARRAY, cursor->path, RS_GGUF_PARTIAL_HINT,
                       "%s claims %llu elements of at least %zu bytes, but only %zu bytes are left",
                       pair, (unsigned long long)count, types[type].size, rs_gguf_left(cursor));
    if (type == STRING || count > LONGEST_JSON_ARRAY)
        return skip_elements(value, cursor, type, (size_t)count, err);
    return read_elements(value, v, cursor, type, (size_t)count, err);
}

static rs_status read_value(json_t **value, values *v, rs_gguf_cursor *cursor, uint32_t type,
                            const char *pair, rs_error *err)
{
    if (type >= N_TYPES)
        return rs_fail(err, RS_E_GGUF_VALUE_TYPE, cursor->path,
                       "the file is damaged, or newer than this program",
                       "%s has the unknown value type %u", pair, type);
    if (type == ARRAY) return read_array(value, v, cursor, pair, err);
    if (type == STRING) {
        const char *text;
        size_t length;
        RS_TRY(rs_gguf_string(cursor, &text, &length, pair, err));
        *value = text_value(text, length);
        return RS_OK;
    }
    const uint8_t *bytes;
    RS_TRY(rs_gguf_take(cursor, &bytes, types[type].size, pair, err));
    *value = types[type].make(v, bytes);
    return RS_OK;
}

/* ---- pairs ---- */

static rs_status check_key(const rs_gguf_cursor *cursor, const char *key, size_t length,
                           uint64_t index, uint64_t n, rs_error *err)
{
    static const char hint[] = "the file is damaged";
    unsigned long long number = (unsigned long long)index + 1, total = (unsigned long long)n;
    if (length == 0)
        return rs_fail(err, RS_E_GGUF_KEY, cursor->path, hint,
                       "metadata key %llu of %llu, before byte %zu, is empty", number, total,
                       cursor->at);
    if (memchr(key, 0, length) || !rs_utf8_valid(key, length))
        return rs_fail(err, RS_E_GGUF_KEY, cursor->path, hint,
                       "metadata key %llu of %llu, before byte %zu, is not UTF-8 text", number,
                       total, cursor->at);
    return RS_OK;
}

/* `text` holds the key with a NUL behind it, for jansson. */
static rs_status read_pair(json_t *metadata, values *v, rs_gguf_cursor *cursor, rs_buffer *text,
                           uint64_t index, uint64_t n, rs_error *err)
{
    const char *key;
    size_t length;
    RS_TRY(rs_gguf_string(cursor, &key, &length, "a metadata key", err));
    RS_TRY(check_key(cursor, key, length, index, n, err));
    text->length = 0;
    rs_buffer_append(text, key, length);
    if (text->failed) return rs_fail_memory(err, "a GGUF metadata key", length);
    char pair[SHOWN + 64];
    snprintf(pair, sizeof pair, "the value of metadata key '%.*s'", rs_gguf_shown(key, length),
             key);
    if (json_object_get(metadata, text->data))
        return rs_fail(err, RS_E_GGUF_KEY, cursor->path, "the file is damaged",
                       "metadata key %llu of %llu, '%.*s', is there twice",
                       (unsigned long long)index + 1, (unsigned long long)n,
                       rs_gguf_shown(key, length), key);
    uint32_t type;
    RS_TRY(rs_gguf_u32(cursor, &type, pair, err));
    /* The object tells integers from the rest, but not u32 from other widths. */
    if (type != U32 && strcmp(text->data, RS_GGUF_ALIGNMENT_KEY) == 0)
        return rs_fail(err, RS_E_GGUF_ALIGNMENT, cursor->path, "the file is damaged",
                       "%s must be of type u32 (%d), but is of type %u", RS_GGUF_ALIGNMENT_KEY, U32,
                       type);
    json_t *value = NULL;
    RS_TRY(read_value(&value, v, cursor, type, pair, err));
    if (json_object_set_new_nocheck(metadata, text->data, value) != 0)
        return rs_fail_memory(err, "the GGUF metadata", 0);
    return RS_OK;
}

rs_status rs_gguf_metadata(json_t **metadata, rs_gguf_cursor *cursor, uint64_t n, rs_error *err)
{
    *metadata = NULL;
    values v = {0};
    rs_buffer text = {0};
    rs_status status = RS_OK;
    json_t *object = json_object();
    if (!object) status = rs_fail_memory(err, "the GGUF metadata", 0);
    for (uint64_t i = 0; i < n && status == RS_OK; i++)
        status = read_pair(object, &v, cursor, &text, i, n, err);
    rs_buffer_free(&text);
    values_free(&v);
    if (status != RS_OK) {
        json_decref(object);
        return status;
    }
    *metadata = object;
    return RS_OK;
}
