/* safetensors_scan.c: strict JSON tokens (see safetensors_scan.h). */
#include "checkpoint/safetensors_scan.h"

#include "checkpoint/open.h"

#include <stdio.h>
#include <string.h>

rs_status rs_json_scan_fail(const rs_json_scan *p, rs_status status, const char *format, ...)
{
    char what[768];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    return rs_fail(p->err, status, p->path, NULL, "header, byte %zu: %s", p->at + 8, what);
}

rs_status rs_json_scan_expected(const rs_json_scan *p, const char *expected)
{
    if (p->at >= p->length)
        return rs_json_scan_fail(p, RS_E_ST_HEADER_JSON, "the header ends where %s should be",
                                 expected);
    return rs_json_scan_fail(p, RS_E_ST_HEADER_JSON, "%s expected", expected);
}

rs_status rs_json_scan_no_memory(const rs_json_scan *p)
{
    return rs_fail_memory(p->err, p->path, 0);
}

/* ---- tokens ---- */

/* The next byte that is not white space; 0 at the end (a NUL byte is no token either). */
char rs_json_scan_peek(rs_json_scan *p)
{
    while (p->at < p->length) {
        char c = p->text[p->at];
        if (c != ' ' && c != '\n' && c != '\t' && c != '\r') return c;
        p->at++;
    }
    return 0;
}

rs_status rs_json_scan_expect(rs_json_scan *p, char wanted, const char *name)
{
    if (rs_json_scan_peek(p) != wanted) return rs_json_scan_expected(p, name);
    p->at++;
    return RS_OK;
}

rs_status rs_json_scan_enter(rs_json_scan *p, char bracket, const char *name)
{
    RS_TRY(rs_json_scan_expect(p, bracket, name));
    if (++p->depth > RS_JSON_SCAN_DEPTH)
        return rs_json_scan_fail(p, RS_E_JSON_DEPTH,
                                 "more than %d objects and arrays inside each other",
                                 RS_JSON_SCAN_DEPTH);
    return RS_OK;
}

static rs_status read_hex4(rs_json_scan *p, uint32_t *unit)
{
    *unit = 0;
    for (int i = 0; i < 4; i++, p->at++) {
        char c = p->at < p->length ? p->text[p->at] : 0;
        unsigned digit;
        if (c >= '0' && c <= '9')
            digit = (unsigned)(c - '0');
        else if ((c | 0x20) >= 'a' && (c | 0x20) <= 'f')
            digit = (unsigned)((c | 0x20) - 'a') + 10;
        else
            return rs_json_scan_expected(p, "a hexadecimal digit");
        *unit = *unit << 4 | digit;
    }
    return RS_OK;
}

static void append_utf8(rs_buffer *buffer, uint32_t point)
{
    char bytes[4];
    size_t n = point < 0x80 ? 1 : point < 0x800 ? 2 : point < 0x10000 ? 3 : 4;
    static const unsigned char lead[] = {0, 0x00, 0xC0, 0xE0, 0xF0};
    for (size_t i = n - 1; i > 0; i--, point >>= 6)
        bytes[i] = (char)(0x80 | (point & 0x3F));
    bytes[0] = (char)(lead[n] | point);
    rs_buffer_append(buffer, bytes, n);
}

/* Behind "\u". */
static rs_status read_unicode_escape(rs_json_scan *p)
{
    uint32_t point, low;
    RS_TRY(read_hex4(p, &point));
    if (point >= 0xDC00 && point <= 0xDFFF) return rs_json_scan_expected(p, "a leading surrogate");
    if (point >= 0xD800 && point <= 0xDBFF) {
        if (p->length - p->at < 2 || p->text[p->at] != '\\' || p->text[p->at + 1] != 'u')
            return rs_json_scan_expected(p, "a trailing surrogate");
        p->at += 2;
        RS_TRY(read_hex4(p, &low));
        if (low < 0xDC00 || low > 0xDFFF) return rs_json_scan_expected(p, "a trailing surrogate");
        point = 0x10000 + ((point - 0xD800) << 10) + (low - 0xDC00);
    }
    append_utf8(&p->scratch, point);
    return RS_OK;
}

/* Behind a backslash. */
static rs_status read_escape(rs_json_scan *p)
{
    static const char letters[] = "\"\\/bfnrt", meanings[] = "\"\\/\b\f\n\r\t";
    char c = p->at < p->length ? p->text[p->at] : 0;
    if (c == 'u') {
        p->at++;
        return read_unicode_escape(p);
    }
    const char *found = c ? strchr(letters, c) : NULL;
    if (!found) return rs_json_scan_expected(p, "one of \\ \" / b f n r t u behind a backslash");
    p->at++;
    rs_buffer_append(&p->scratch, &meanings[found - letters], 1);
    return RS_OK;
}

/* The run of plain bytes at p->at: up to a quote, a backslash or a control byte. */
static size_t plain_run(const rs_json_scan *p)
{
    size_t i = p->at;
    while (i < p->length && p->text[i] != '"' && p->text[i] != '\\' &&
           (unsigned char)p->text[i] >= 0x20)
        i++;
    return i - p->at;
}

rs_status rs_json_scan_string(rs_json_scan *p, rs_slice *string, const char *name)
{
    RS_TRY(rs_json_scan_expect(p, '"', name));
    size_t run = plain_run(p);
    *string = (rs_slice){.data = p->text + p->at, .length = run};
    p->at += run;
    if (p->at < p->length && p->text[p->at] == '"') {
        p->at++;
        return RS_OK;
    }
    p->scratch.length = 0;
    rs_buffer_append(&p->scratch, string->data, run);
    for (;;) {
        char c = p->at < p->length ? p->text[p->at] : 0;
        if (c != '"' && c != '\\') return rs_json_scan_expected(p, "the end of the string");
        p->at++;
        if (c == '"') break;
        RS_TRY(read_escape(p));
        run = plain_run(p);
        rs_buffer_append(&p->scratch, p->text + p->at, run);
        p->at += run;
    }
    if (p->scratch.failed) return rs_json_scan_no_memory(p);
    *string = (rs_slice){p->scratch.data, p->scratch.length, true};
    return RS_OK;
}

/* An unsigned integer; anything else that is a number has its own status. */
rs_status rs_json_scan_u64(rs_json_scan *p, uint64_t *value, const char *name)
{
    char c = rs_json_scan_peek(p);
    if (c == '-') return rs_json_scan_fail(p, RS_E_JSON_INTEGER, "%s must not be negative", name);
    if (c < '0' || c > '9') return rs_json_scan_expected(p, name);
    size_t start = p->at;
    *value = 0;
    for (; p->at < p->length && p->text[p->at] >= '0' && p->text[p->at] <= '9'; p->at++) {
        uint64_t digit = (uint64_t)(p->text[p->at] - '0');
        if (__builtin_mul_overflow(*value, (uint64_t)10, value) ||
            __builtin_add_overflow(*value, digit, value))
            return rs_json_scan_fail(p, RS_E_JSON_INTEGER, "%s does not fit in 64 bits", name);
    }
    if (c == '0' && p->at - start > 1)
        return rs_json_scan_expected(p, "an integer without leading zeros");
    c = p->at < p->length ? p->text[p->at] : 0;
    if (c == '.' || c == 'e' || c == 'E')
        return rs_json_scan_fail(p, RS_E_JSON_INTEGER,
                                 "%s must be written as an integer, without '.' or 'e'", name);
    return RS_OK;
}

/* ---- members and elements ---- */

/* Steps to the next member of the object that was entered; *more is false at its end. */
rs_status rs_json_scan_member(rs_json_scan *p, bool first, bool *more, rs_slice *key)
{
    *more = rs_json_scan_peek(p) != '}';
    if (!*more) {
        p->at++, p->depth--;
        return RS_OK;
    }
    if (!first) RS_TRY(rs_json_scan_expect(p, ',', "',' or '}'"));
    RS_TRY(rs_json_scan_string(p, key, "a quoted name"));
    return RS_OK;
}

rs_status rs_json_scan_element(rs_json_scan *p, bool first, bool *more)
{
    *more = rs_json_scan_peek(p) != ']';
    if (*more) return first ? RS_OK : rs_json_scan_expect(p, ',', "',' or ']'");
    p->at++, p->depth--;
    return RS_OK;
}

bool rs_json_scan_same(const rs_slice *key, const char *name)
{
    return key->length == strlen(name) && memcmp(key->data, name, key->length) == 0;
}

rs_status rs_json_scan_unique(rs_json_scan *p, rs_strmap *seen, const rs_slice *key)
{
    const char *data = key->data;
    bool existed;
    if (key->in_scratch) data = rs_arena_strndup(p->arena, data, key->length);
    if (!data || !rs_strmap_insert(seen, data, key->length, 0, &existed))
        return rs_json_scan_no_memory(p);
    if (seen->count > RS_JSON_SCAN_KEYS)
        return rs_json_scan_fail(p, RS_E_ST_HEADER_JSON, "more than %d keys in one object",
                                 RS_JSON_SCAN_KEYS);
    if (existed)
        return rs_json_scan_fail(p, RS_E_JSON_DUPLICATE_KEY, "the key '%s' is there twice",
                                 rs_show(key->data, key->length).text);
    return RS_OK;
}

/* ---- values that are checked and ignored ---- */

static size_t skip_digits(rs_json_scan *p)
{
    size_t start = p->at;
    while (p->at < p->length && p->text[p->at] >= '0' && p->text[p->at] <= '9')
        p->at++;
    return p->at - start;
}

static rs_status skip_number(rs_json_scan *p)
{
    static const char digit[] = "a digit";
    if (p->text[p->at] == '-') p->at++;
    bool zero = p->at < p->length && p->text[p->at] == '0';
    size_t digits = skip_digits(p);
    if (digits == 0 || (zero && digits > 1))
        return rs_json_scan_expected(p, "a number without leading zeros");
    if (p->at < p->length && p->text[p->at] == '.') {
        p->at++;
        if (skip_digits(p) == 0) return rs_json_scan_expected(p, digit);
    }
    if (p->at < p->length && (p->text[p->at] == 'e' || p->text[p->at] == 'E')) {
        p->at++;
        if (p->at < p->length && (p->text[p->at] == '+' || p->text[p->at] == '-')) p->at++;
        if (skip_digits(p) == 0) return rs_json_scan_expected(p, digit);
    }
    return RS_OK;
}

bool rs_json_scan_word(rs_json_scan *p, const char *word)
{
    size_t length = strlen(word);
    if (p->length - p->at < length || memcmp(p->text + p->at, word, length) != 0) return false;
    p->at += length;
    return true;
}

static rs_status skip_object(rs_json_scan *p)
{
    rs_strmap seen = {0};
    rs_slice key;
    bool more;
    rs_status status = rs_json_scan_enter(p, '{', "'{'");
    for (bool first = true; status == RS_OK; first = false) {
        status = rs_json_scan_member(p, first, &more, &key);
        if (status != RS_OK || !more) break;
        status = rs_json_scan_unique(p, &seen, &key);
        if (status == RS_OK) status = rs_json_scan_expect(p, ':', "':'");
        if (status == RS_OK) status = rs_json_scan_value(p);
    }
    rs_strmap_free(&seen);
    return status;
}

static rs_status skip_array(rs_json_scan *p)
{
    bool more;
    RS_TRY(rs_json_scan_enter(p, '[', "'['"));
    for (bool first = true;; first = false) {
        RS_TRY(rs_json_scan_element(p, first, &more));
        if (!more) return RS_OK;
        RS_TRY(rs_json_scan_value(p));
    }
}

/* Recursion ends at RS_JSON_SCAN_DEPTH. */
rs_status rs_json_scan_value(rs_json_scan *p)
{
    rs_slice ignored;
    char c = rs_json_scan_peek(p);
    if (c == '{') return skip_object(p);
    if (c == '[') return skip_array(p);
    if (c == '"') return rs_json_scan_string(p, &ignored, "a string");
    if (c == '-' || (c >= '0' && c <= '9')) return skip_number(p);
    if (rs_json_scan_word(p, "true") || rs_json_scan_word(p, "false") ||
        rs_json_scan_word(p, "null"))
        return RS_OK;
    return rs_json_scan_expected(p, "a value");
}
