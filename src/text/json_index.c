/* json_index.c: one pass over the text, with a stack of open objects and arrays. */
#include "text/json_index.h"

#include "base/memory.h"
#include "base/text.h"
#include "text/aligned.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_DEPTH = 100, FEW_MEMBERS = 64, LONGEST_NUMBER = 64 };
#define MAX_TEXT ((size_t)512 * 1024 * 1024)

typedef struct open_value {
    uint32_t node;
    bool object;
} open_value;

typedef struct parser {
    rs_json_index *index;
    const char *text;
    size_t length, at;
    size_t unescaped; /* bytes used of index->unescaped */
    open_value stack[MAX_DEPTH];
    size_t depth;
    rs_error *err;
} parser;

static rs_status fail_at(parser *p, rs_status status, size_t position, const char *what)
{
    size_t line = 1, column = 1;
    for (size_t i = 0; i < position && i < p->length; i++) {
        column++;
        if (p->text[i] == '\n') line++, column = 1;
    }
    return rs_fail(p->err, status, p->index->name, "correct the file, or download it again",
                   "line %zu, column %zu: %s", line, column, what);
}

static rs_status syntax(parser *p, const char *what)
{
    return fail_at(p, RS_E_JSON_SYNTAX, p->at, what);
}

static rs_status add_node(parser *p, rs_json_kind kind, const char *text, size_t length)
{
    rs_json_index *index = p->index;
    if (!RS_GROW(index->nodes, index->n, index->capacity))
        return rs_fail_memory(p->err, p->index->name, index->n * sizeof *index->nodes);
    index->nodes[index->n++] = (rs_json_node){.text = text,
                                              .length = (uint32_t)length,
                                              .kind = (unsigned)kind & 7u,
                                              .next = (uint32_t)index->n & 0x1FFFFFFFu};
    return RS_OK;
}

static void skip_blanks(parser *p)
{
    while (p->at < p->length && (p->text[p->at] == ' ' || p->text[p->at] == '\n' ||
                                 p->text[p->at] == '\t' || p->text[p->at] == '\r'))
        p->at++;
}

/* ---- strings ---- */

static bool hex4(const parser *p, size_t at, uint32_t *value)
{
    *value = 0;
    if (p->length - at < 4) return false;
    for (size_t i = at; i < at + 4; i++) {
        char c = p->text[i];
        uint32_t digit;
        if (c >= '0' && c <= '9')
            digit = (uint32_t)(c - '0');
        else if (c >= 'a' && c <= 'f')
            digit = (uint32_t)(c - 'a') + 10;
        else if (c >= 'A' && c <= 'F')
            digit = (uint32_t)(c - 'A') + 10;
        else
            return false;
        *value = *value << 4 | digit;
    }
    return true;
}

/* \uXXXX, two of them for what lies above U+FFFF; p->at stands behind the u. */
static rs_status read_unicode_escape(parser *p, char *out, size_t *n)
{
    uint32_t point, low;
    if (!hex4(p, p->at, &point)) return syntax(p, "\\u needs four hexadecimal digits");
    p->at += 4;
    if (point >= 0xD800 && point < 0xE000) {
        if (point >= 0xDC00 || p->length - p->at < 6 || p->text[p->at] != '\\' ||
            p->text[p->at + 1] != 'u' || !hex4(p, p->at + 2, &low) || low < 0xDC00 || low > 0xDFFF)
            return syntax(p, "half of a surrogate pair stands alone");
        p->at += 6;
        point = 0x10000 + ((point - 0xD800) << 10) + (low - 0xDC00);
    }
    *n += rs_char_put(out + *n, point);
    return RS_OK;
}

/* The rest of a string from its first escape on; what came before is at `from`. */
static rs_status read_escaped(parser *p, size_t from, const char **text, size_t *length)
{
    static const char plain[] = "\"\\/bfnrt", meant[] = "\"\\/\b\f\n\r\t";
    rs_json_index *index = p->index;
    if (!index->unescaped) index->unescaped = rs_malloc(p->length, 1); /* no string grows */
    if (!index->unescaped) return rs_fail_memory(p->err, index->name, p->length);
    char *out = index->unescaped + p->unescaped;
    size_t n = p->at - from;
    memcpy(out, p->text + from, n);
    while (p->at < p->length && p->text[p->at] != '"') {
        unsigned char c = (unsigned char)p->text[p->at++];
        if (c < 0x20) return syntax(p, "a control character stands bare in a string");
        if (c != '\\') {
            out[n++] = (char)c;
            continue;
        }
        if (p->at == p->length) break;
        char escape = p->text[p->at++];
        const char *known = escape ? strchr(plain, escape) : NULL;
        if (known)
            out[n++] = meant[known - plain];
        else if (escape == 'u')
            RS_TRY(read_unicode_escape(p, out, &n));
        else
            return syntax(p, "no such escape in a string");
    }
    if (p->at == p->length) return syntax(p, "a string does not end");
    p->at++;
    p->unescaped += n;
    *text = out;
    *length = n;
    return RS_OK;
}

/* A string; p->at stands on its opening quote. */
static rs_status read_string(parser *p)
{
    size_t from = ++p->at, length = 0;
    const char *text = p->text + from;
    while (p->at < p->length && p->text[p->at] != '"' && p->text[p->at] != '\\' &&
           (unsigned char)p->text[p->at] >= 0x20)
        p->at++;
    if (p->at == p->length) return syntax(p, "a string does not end");
    if (p->text[p->at] == '"')
        length = p->at++ - from;
    else
        RS_TRY(read_escaped(p, from, &text, &length));
    return add_node(p, RS_JSON_STRING, text, length);
}

/* ---- numbers and words ---- */

static size_t digits(const parser *p, size_t at)
{
    size_t n = 0;
    while (at + n < p->length && p->text[at + n] >= '0' && p->text[at + n] <= '9')
        n++;
    return n;
}

static rs_status read_number(parser *p)
{
    size_t from = p->at, at = from, n;
    if (p->text[at] == '-') at++;
    n = digits(p, at);
    if (n == 0 || (n > 1 && p->text[at] == '0')) return syntax(p, "is no JSON value");
    at += n;
    if (at < p->length && p->text[at] == '.') {
        n = digits(p, at + 1);
        if (n == 0) return syntax(p, "a number ends in its point");
        at += n + 1;
    }
    if (at < p->length && (p->text[at] == 'e' || p->text[at] == 'E')) {
        at++;
        if (at < p->length && (p->text[at] == '+' || p->text[at] == '-')) at++;
        n = digits(p, at);
        if (n == 0) return syntax(p, "a number has an empty exponent");
        at += n;
    }
    p->at = at;
    return add_node(p, RS_JSON_NUMBER, p->text + from, at - from);
}

static rs_status read_word(parser *p)
{
    static const struct {
        const char *word;
        size_t length;
        rs_json_kind kind;
    } words[] = {{"null", 4, RS_JSON_NULL}, {"true", 4, RS_JSON_TRUE}, {"false", 5, RS_JSON_FALSE}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (p->length - p->at >= words[i].length &&
            memcmp(p->text + p->at, words[i].word, words[i].length) == 0) {
            p->at += words[i].length;
            return add_node(p, words[i].kind, words[i].word, words[i].length);
        }
    return read_number(p);
}

/* ---- structure ---- */

static rs_status check_keys(parser *p, const rs_json_node *object, uint32_t first)
{
    const rs_json_node *nodes = p->index->nodes;
    if (object->length > FEW_MEMBERS) return RS_OK;
    uint32_t keys[FEW_MEMBERS], n = 0;
    for (uint32_t key = first; n < object->length; key = nodes[key + 1].next) {
        for (uint32_t i = 0; i < n; i++)
            if (nodes[keys[i]].length == nodes[key].length &&
                memcmp(nodes[keys[i]].text, nodes[key].text, nodes[key].length) == 0)
                return fail_at(p, RS_E_JSON_DUPLICATE_KEY, p->at, "an object has a key twice");
        keys[n++] = key;
    }
    return RS_OK;
}

static rs_status close_value(parser *p)
{
    open_value *top = &p->stack[--p->depth];
    rs_json_node *node = &p->index->nodes[top->node];
    node->next = (uint32_t)p->index->n & 0x1FFFFFFFu;
    p->at++;
    return top->object ? check_keys(p, node, top->node + 1) : RS_OK;
}

static rs_status open_one(parser *p)
{
    bool object = p->text[p->at] == '{';
    if (p->depth == MAX_DEPTH)
        return fail_at(p, RS_E_JSON_DEPTH, p->at,
                       "more than 100 objects and arrays inside each other");
    p->stack[p->depth++] = (open_value){.node = (uint32_t)p->index->n, .object = object};
    p->at++;
    return add_node(p, object ? RS_JSON_OBJECT : RS_JSON_ARRAY, "", 0);
}

/* The comma between members, or the closing bracket; and the key before a member's value. True in
 * *value when a value must follow. */
static rs_status between(parser *p, bool *value)
{
    open_value *top = &p->stack[p->depth - 1];
    char close = top->object ? '}' : ']';
    *value = false;
    skip_blanks(p);
    if (p->at == p->length) return syntax(p, "the text ends inside an object or array");
    if (p->text[p->at] == close) return close_value(p);
    uint32_t *count = &p->index->nodes[top->node].length;
    if (*count > 0) {
        if (p->text[p->at] != ',') return syntax(p, "a comma or a closing bracket must stand here");
        p->at++;
        skip_blanks(p);
    }
    ++*count;
    if (top->object) {
        if (p->at == p->length || p->text[p->at] != '"')
            return syntax(p, "a key in quotes must stand here");
        RS_TRY(read_string(p));
        skip_blanks(p);
        if (p->at == p->length || p->text[p->at] != ':')
            return syntax(p, "a colon must follow the key");
        p->at++;
    }
    *value = true;
    return RS_OK;
}

static rs_status read_value(parser *p)
{
    skip_blanks(p);
    if (p->at == p->length) return syntax(p, "the text ends where a value must stand");
    switch (p->text[p->at]) {
    case '{':
    case '[':
        return open_one(p);
    case '"':
        return read_string(p);
    default:
        return read_word(p);
    }
}

static rs_status read_all(parser *p)
{
    RS_TRY(read_value(p));
    while (p->depth > 0) {
        bool value;
        RS_TRY(between(p, &value));
        if (value) RS_TRY(read_value(p));
    }
    skip_blanks(p);
    return p->at == p->length ? RS_OK : syntax(p, "something follows the JSON value");
}

rs_status rs_json_index_build(rs_json_index *index, const char *name, const char *text,
                              size_t length, rs_error *err)
{
    static const char pointer[] = "version https://git-lfs";
    *index = (rs_json_index){.name = name};
    if (length == 0)
        return rs_fail(err, RS_E_EMPTY_FILE, name, "fetch the file again", "is empty (0 bytes)");
    if (length >= sizeof pointer - 1 && memcmp(text, pointer, sizeof pointer - 1) == 0)
        return rs_fail(err, RS_E_LFS_POINTER, name,
                       "run `git lfs pull` in the repository, or download the file itself",
                       "is a Git LFS pointer (a few lines of text), not the data it stands for");
    if (length > MAX_TEXT)
        return rs_fail(err, RS_E_UNSUPPORTED, name, NULL,
                       "has %zu bytes; a tokenizer of more than %zu is not read", length, MAX_TEXT);
    if (!rs_utf8_valid(text, length))
        return rs_fail(err, RS_E_JSON_SYNTAX, name, "fetch the file again", "is not UTF-8 text");
    parser p = {.index = index, .text = text, .length = length, .err = err};
    rs_status status = read_all(&p);
    if (status != RS_OK) rs_json_index_free(index);
    return status;
}

void rs_json_index_free(rs_json_index *index)
{
    rs_free(index->nodes);
    rs_free(index->unescaped);
    *index = (rs_json_index){0};
}

/* ---- reading ---- */

bool rs_json_is(const rs_json_index *index, uint32_t value, const char *text)
{
    const rs_json_node *node = &index->nodes[value];
    size_t length = strlen(text);
    return node->kind == RS_JSON_STRING && node->length == length &&
           memcmp(node->text, text, length) == 0;
}

uint32_t rs_json_member(const rs_json_index *index, uint32_t object, const char *key)
{
    const rs_json_node *node = &index->nodes[object];
    if (node->kind != RS_JSON_OBJECT) return RS_JSON_ABSENT;
    for (uint32_t at = object + 1; at < node->next; at = rs_json_next(index, at + 1))
        if (rs_json_is(index, at, key))
            return index->nodes[at + 1].kind == RS_JSON_NULL ? RS_JSON_ABSENT : at + 1;
    return RS_JSON_ABSENT;
}

bool rs_json_integer(const rs_json_index *index, uint32_t value, int64_t *out)
{
    const rs_json_node *node = &index->nodes[value];
    if (node->kind != RS_JSON_NUMBER) return false;
    bool negative = node->text[0] == '-';
    *out = 0;
    for (size_t i = negative; i < node->length; i++) {
        char c = node->text[i];
        if (c < '0' || c > '9' || __builtin_mul_overflow(*out, (int64_t)10, out) ||
            __builtin_add_overflow(*out, (int64_t)(c - '0'), out))
            return false;
    }
    if (negative) *out = -*out;
    return true;
}

/* 10^n for n in [0, 308], correctly rounded: the compiler's own constants up to 10^22 are exact,
 * and strtod rounds the others. */
static double power_of_ten(int64_t n)
{
    static const double exact[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                   1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                   1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    if (n < (int64_t)(sizeof exact / sizeof *exact)) return exact[n];
    char text[8];
    snprintf(text, sizeof text, "1e%d", (int)n);
    return strtod(text, NULL);
}

/*
 * Not the nearest double, but the one that the reference reads (Rust's serde_json without its
 * feature float_roundtrip): as many digits as fit in 64 bits, converted, and one multiplication or
 * division by a power of ten. The last bit decides between splits of equal probability.
 */
static double from_parts(uint64_t digits, int64_t exponent)
{
    double number = (double)digits;
    for (; exponent < -308 && number != 0; exponent += 308)
        number /= 1e308;
    if (number == 0 || exponent < -308) return 0;
    if (exponent > 308) return HUGE_VAL;
    double power = power_of_ten(exponent < 0 ? -exponent : exponent);
    return exponent < 0 ? number / power : number * power;
}

bool rs_json_real(const rs_json_index *index, uint32_t value, double *out)
{
    const rs_json_node *node = &index->nodes[value];
    if (node->kind != RS_JSON_NUMBER || node->length >= LONGEST_NUMBER) return false;
    uint64_t number = 0;
    int64_t exponent = 0;
    bool fraction = false, full = false;
    size_t i = node->text[0] == '-';
    for (; i < node->length && node->text[i] != 'e' && node->text[i] != 'E'; i++) {
        uint64_t digit = (uint64_t)(node->text[i] - '0');
        if (node->text[i] == '.') {
            fraction = true;
            continue;
        }
        full = full || number > (UINT64_MAX - digit) / 10;
        if (!full) number = number * 10 + digit;
        exponent += full ? !fraction : -(int64_t)fraction;
    }
    if (i < node->length) {
        int64_t power = 0;
        bool negative = node->text[i + 1] == '-';
        for (i += negative || node->text[i + 1] == '+' ? 2 : 1; i < node->length; i++)
            if (power < 100000) power = power * 10 + (node->text[i] - '0');
        exponent += negative ? -power : power;
    }
    *out = from_parts(number, exponent);
    if (node->text[0] == '-') *out = -*out;
    return *out <= 1e300 && *out >= -1e300;
}
