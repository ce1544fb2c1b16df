/* aligned.c: texts that remember their source, and UTF-8 repair. */
#include "text/aligned.h"

#include "base/memory.h"

#include <string.h>

void rs_aligned_free(rs_aligned *text)
{
    rs_free(text->bytes);
    rs_free(text->begin);
    rs_free(text->end);
    *text = (rs_aligned){0};
}

void rs_aligned_clear(rs_aligned *text)
{
    text->n = 0;
    text->base = 0;
    text->mapped = text->failed = text->over = false;
}

rs_status rs_aligned_check(const rs_aligned *text, rs_error *err)
{
    if (!text->failed) return RS_OK;
    if (!text->over) return rs_fail_memory(err, "a text on its way to tokens", text->n);
    return rs_fail(err, RS_E_TOKENIZER_LIMIT, "tokenizer",
                   "its steps replace characters by ever longer texts",
                   "a text grows beyond %zu bytes on its way to tokens", text->limit);
}

static bool reserve_map(rs_aligned *text)
{
    if (text->map_capacity >= text->capacity) return true;
    uint32_t *begin = rs_realloc(text->begin, text->capacity, sizeof *begin);
    if (begin) text->begin = begin;
    uint32_t *end = begin ? rs_realloc(text->end, text->capacity, sizeof *end) : NULL;
    if (end) text->end = end;
    if (!end) {
        text->failed = true;
        return false;
    }
    text->map_capacity = text->capacity;
    return true;
}

static bool reserve_text(rs_aligned *text, size_t more)
{
    if (text->failed) return false;
    size_t limit = text->limit ? text->limit : RS_TEXT_MAX * 2; /* so that positions fit */
    if (text->n > limit || more > limit - text->n) {
        text->failed = text->over = true;
        return false;
    }
    size_t need = text->n + more;
    if (need > text->capacity) {
        size_t capacity = text->capacity < 128 ? 256 : text->capacity * 2;
        if (capacity < need) capacity = need;
        char *bytes = rs_realloc(text->bytes, capacity, 1);
        if (!bytes) {
            text->failed = true;
            return false;
        }
        text->bytes = bytes;
        text->capacity = capacity;
    }
    return !text->mapped || reserve_map(text);
}

/* From "byte i came from base + i" to a table that says so. */
static bool make_map(rs_aligned *text)
{
    if (text->mapped) return true;
    if (!reserve_map(text)) return false;
    for (size_t i = 0; i < text->n; i++) {
        text->begin[i] = text->base + (uint32_t)i;
        text->end[i] = text->base + (uint32_t)i + 1;
    }
    text->mapped = true;
    return true;
}

/* Would a byte whose source is `source` continue the plain run? */
static bool continues(rs_aligned *out, const rs_aligned *in, size_t from)
{
    if (out->mapped || in->mapped) return false;
    if (out->n == 0) out->base = in->base + (uint32_t)from;
    return in->base + from == out->base + out->n;
}

void rs_aligned_copy(rs_aligned *out, const rs_aligned *in, size_t from, size_t n)
{
    if (n == 0 || !reserve_text(out, n)) return;
    memcpy(out->bytes + out->n, in->bytes + from, n);
    if (!continues(out, in, from)) {
        if (!make_map(out)) return;
        for (size_t i = 0; i < n; i++) {
            out->begin[out->n + i] = rs_aligned_begin(in, from + i);
            out->end[out->n + i] = rs_aligned_end(in, from + i);
        }
    }
    out->n += n;
}

void rs_aligned_put(rs_aligned *out, const rs_aligned *in, size_t from, size_t to,
                    const char *bytes, size_t n)
{
    if (n == 0 || !reserve_text(out, n)) return;
    memcpy(out->bytes + out->n, bytes, n);
    if (n != 1 || to != from + 1 || !continues(out, in, from)) {
        if (!make_map(out)) return;
        uint32_t begin, end;
        if (from < to) {
            begin = rs_aligned_begin(in, from);
            end = rs_aligned_end(in, to - 1);
        } else {
            begin = from < in->n ? rs_aligned_begin(in, from)
                                 : (in->n ? rs_aligned_end(in, in->n - 1) : in->base);
            end = begin;
        }
        for (size_t i = 0; i < n; i++) {
            out->begin[out->n + i] = begin;
            out->end[out->n + i] = end;
        }
    }
    out->n += n;
}

/* ---- UTF-8 ---- */

size_t rs_char_put(char out[4], uint32_t point)
{
    if (point < 0x80) {
        out[0] = (char)point;
        return 1;
    }
    size_t n = point < 0x800 ? 2 : point < 0x10000 ? 3 : 4;
    static const unsigned char lead[] = {0, 0, 0xC0, 0xE0, 0xF0};
    for (size_t i = n; i-- > 1; point >>= 6)
        out[i] = (char)(0x80 | (point & 0x3F));
    out[0] = (char)(lead[n] | point);
    return n;
}

/*
 * The length of the well-formed character at s[0..n), or, negated, of the maximal ill-formed part:
 * the longest prefix that some character begins with, at least one byte. The second byte's range
 * depends on the first (no overlong forms, no surrogates, nothing above U+10FFFF).
 */
static int well_formed(const unsigned char *s, size_t n)
{
    if (s[0] < 0x80) return 1;
    if (s[0] < 0xC2 || s[0] > 0xF4) return -1;
    int more = s[0] < 0xE0 ? 1 : s[0] < 0xF0 ? 2 : 3;
    unsigned char least = s[0] == 0xE0 ? 0xA0 : s[0] == 0xF0 ? 0x90 : 0x80;
    unsigned char most = s[0] == 0xED ? 0x9F : s[0] == 0xF4 ? 0x8F : 0xBF;
    for (int i = 1; i <= more; i++) {
        if ((size_t)i >= n || s[i] < least || s[i] > most) return -i;
        least = 0x80;
        most = 0xBF;
    }
    return more + 1;
}

void rs_aligned_repair(rs_aligned *out, const char *bytes, size_t n)
{
    const rs_aligned view = {.bytes = (char *)(uintptr_t)bytes, .n = n}; /* is only read */
    size_t plain = 0, i = 0;
    rs_aligned_clear(out);
    while (i < n) {
        int length = well_formed((const unsigned char *)bytes + i, n - i);
        if (length > 0) {
            i += (size_t)length;
            continue;
        }
        rs_aligned_copy(out, &view, plain, i - plain);
        rs_aligned_put(out, &view, i, i + (size_t)-length, "\xEF\xBF\xBD", 3);
        i += (size_t)-length;
        plain = i;
    }
    rs_aligned_copy(out, &view, plain, n - plain);
}

/* ---- pieces ---- */

void rs_pieces_free(rs_pieces *pieces)
{
    rs_free(pieces->items);
    *pieces = (rs_pieces){0};
}

void rs_pieces_add(rs_pieces *pieces, size_t begin, size_t end, int32_t id)
{
    if (pieces->failed || (begin == end && id == RS_NO_TOKEN)) return;
    if (!RS_GROW(pieces->items, pieces->n, pieces->capacity)) {
        pieces->failed = true;
        return;
    }
    pieces->items[pieces->n++] = (rs_piece){(uint32_t)begin, (uint32_t)end, id};
}
