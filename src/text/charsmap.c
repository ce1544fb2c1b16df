/*
 * charsmap.c: SentencePiece's table of normalisation rules ("precompiled charsmap").
 *
 *   bytes 0..3        n, the bytes of the trie, little-endian u32
 *   4 .. 4 + n        the trie: units of 4 bytes of a double array (as the library Darts-clone
 *                     writes it): bits 0-7 label and bit 31 (a leaf's value has it set), bit 8 "has
 *                     a leaf", bits 10-30 offset, bit 9 "offset is shifted by 8"
 *   4 + n .. end      texts, each ended by a NUL; a leaf's value is the place of one
 *
 * A rule applies to a whole grapheme cluster of less than 6 bytes, else to single characters; what
 * is found is the *shortest* key that the cluster begins with, and its text replaces the whole
 * cluster. That is what the reference does, and ids depend on it.
 */
#include "base/memory.h"
#include "text/steps.h"

#include <string.h>
#include <utf8proc.h>

enum { UNIT_BYTES = 4, HEADER_BYTES = 4, LONGEST_CLUSTER = 6 };

struct rs_charsmap {
    uint32_t *units;
    size_t n_units;
    char *texts; /* ends in a NUL of its own */
    size_t texts_length;
};

/* ---- base64 ---- */

static int sextet(char c)
{
    if (c >= 'A' && c <= 'Z') return c - 'A';
    if (c >= 'a' && c <= 'z') return c - 'a' + 26;
    if (c >= '0' && c <= '9') return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

static rs_status bad(const char *where, const char *what, rs_error *err)
{
    return rs_fail(err, RS_E_TOKENIZER_CHARSMAP, where, "the file is damaged",
                   "precompiled_charsmap: %s", what);
}

rs_status rs_charsmap_parse(rs_charsmap **out, const char *base64, size_t length, const char *where,
                            rs_error *err)
{
    *out = NULL;
    if (length % 4 != 0) return bad(where, "its base64 has no whole number of groups", err);
    char *bytes = rs_malloc(length / 4 * 3 + 1, 1);
    if (!bytes) return rs_fail_memory(err, where, length);
    while (length > 0 && base64[length - 1] == '=')
        length--;
    size_t n = 0;
    uint32_t group = 0;
    for (size_t i = 0; i < length; i++) {
        int value = sextet(base64[i]);
        if (value < 0) {
            rs_free(bytes);
            return bad(where, "it is not base64", err);
        }
        group = group << 6 | (uint32_t)value;
        if (i % 4 != 0) bytes[n++] = (char)(group >> (6 - 2 * (i % 4)) & 0xFF);
    }
    rs_status status = rs_charsmap_new(out, bytes, n, where, err);
    rs_free(bytes);
    return status;
}

/* ---- the table ---- */

static uint32_t u32_at(const char *bytes)
{
    const unsigned char *b = (const unsigned char *)bytes;
    return b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}

rs_status rs_charsmap_new(rs_charsmap **out, const char *bytes, size_t length, const char *where,
                          rs_error *err)
{
    *out = NULL;
    if (length < HEADER_BYTES) return bad(where, "it is shorter than its header", err);
    size_t trie = u32_at(bytes);
    if (trie > length - HEADER_BYTES || trie % UNIT_BYTES != 0 || trie == 0)
        return bad(where, "the size of its trie is no part of it", err);
    const char *texts = bytes + HEADER_BYTES + trie;
    size_t texts_length = length - HEADER_BYTES - trie;
    if (!rs_utf8_valid(texts, texts_length)) return bad(where, "its texts are not UTF-8", err);
    rs_charsmap *map = rs_calloc(1, sizeof *map);
    if (!map) return rs_fail_memory(err, where, sizeof *map);
    map->n_units = trie / UNIT_BYTES;
    map->texts_length = texts_length;
    map->units = rs_malloc(map->n_units, sizeof *map->units);
    map->texts = rs_calloc(texts_length + 1, 1);
    if (!map->units || !map->texts) {
        rs_charsmap_free(map);
        return rs_fail_memory(err, where, length);
    }
    for (size_t i = 0; i < map->n_units; i++)
        map->units[i] = u32_at(bytes + HEADER_BYTES + i * UNIT_BYTES);
    memcpy(map->texts, texts, texts_length);
    *out = map;
    return RS_OK;
}

void rs_charsmap_free(rs_charsmap *map)
{
    if (!map) return;
    rs_free(map->units);
    rs_free(map->texts);
    rs_free(map);
}

static size_t offset_of(uint32_t unit)
{
    return (size_t)(unit >> 10) << ((unit & (1u << 9)) >> 6);
}

/* The text for the shortest key that `key` begins with; NULL when there is none. A damaged trie
 * leads out of the array, which counts as none. */
static const char *look_up(const rs_charsmap *map, const char *key, size_t length)
{
    size_t at = offset_of(map->units[0]);
    for (size_t i = 0; i < length && key[i]; i++) {
        at ^= (unsigned char)key[i];
        if (at >= map->n_units) return NULL;
        uint32_t unit = map->units[at];
        if ((unit & ((1u << 31) | 0xFF)) != (unsigned char)key[i]) return NULL;
        at ^= offset_of(unit);
        if (!(unit >> 8 & 1)) continue;
        if (at >= map->n_units) return NULL;
        size_t text = map->units[at] & ((1u << 31) - 1);
        /* A place inside a character would make the output ill-formed. */
        if (text > map->texts_length || ((unsigned char)map->texts[text] & 0xC0) == 0x80)
            return NULL;
        return map->texts + text;
    }
    return NULL;
}

static void run_cluster(rs_aligned *out, const rs_aligned *in, const rs_charsmap *map, size_t begin,
                        size_t end)
{
    const char *whole =
        end - begin < LONGEST_CLUSTER ? look_up(map, in->bytes + begin, end - begin) : NULL;
    if (whole) {
        rs_aligned_put(out, in, begin, end, whole, strlen(whole));
        return;
    }
    for (size_t i = begin, n; i < end; i += n) {
        n = rs_char_bytes(in->bytes[i]);
        const char *text = look_up(map, in->bytes + i, n);
        if (text)
            rs_aligned_put(out, in, i, i + n, text, strlen(text));
        else
            rs_aligned_copy(out, in, i, n);
    }
}

void rs_charsmap_run(rs_aligned *out, const rs_aligned *in, const rs_charsmap *map)
{
    size_t begin = 0, n;
    utf8proc_int32_t state = 0;
    uint32_t previous = 0;
    for (size_t i = 0; i < in->n; i += n) {
        uint32_t point = rs_char_at(in->bytes + i, &n);
        if (i > 0 && utf8proc_grapheme_break_stateful((utf8proc_int32_t)previous,
                                                      (utf8proc_int32_t)point, &state)) {
            run_cluster(out, in, map, begin, i);
            begin = i;
        }
        previous = point;
    }
    if (begin < in->n) run_cluster(out, in, map, begin, in->n);
}
