/*
 * aligned.h: a text on its way through a tokenizer, every byte of which knows where in the input it
 * came from; and the pieces it is cut into.
 *
 * As long as no step has changed anything, byte i came from byte base + i, and no table is kept.
 */
#ifndef RS_TEXT_ALIGNED_H
#define RS_TEXT_ALIGNED_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RS_TEXT_MAX ((size_t)UINT32_MAX / 2) /* bytes of one text: positions fit in 32 bits */

/* A text and where its bytes came from. Zero-initialise. */
typedef struct rs_aligned {
    char *bytes;     /* well-formed UTF-8 */
    uint32_t *begin; /* [n] where each byte's source begins in the input, when mapped */
    uint32_t *end;   /* [n] where it ends, when mapped */
    size_t n, capacity, map_capacity;
    uint32_t base; /* source of byte 0, when not mapped */
    bool mapped;
    size_t limit; /* bytes that it may grow to; 0: twice RS_TEXT_MAX */
    bool failed;  /* memory was out: later appends are ignored, the caller checks once */
    bool over;    /* it failed because it reached the limit */
} rs_aligned;

void rs_aligned_free(rs_aligned *text);
void rs_aligned_clear(rs_aligned *text); /* the limit stays */
/* Fails with RS_E_TOKENIZER_LIMIT or RS_E_NO_MEMORY where an append did. */
rs_status rs_aligned_check(const rs_aligned *text, rs_error *err);
/* Appends in[from, from + n) as it is. */
void rs_aligned_copy(rs_aligned *out, const rs_aligned *in, size_t from, size_t n);
/* Appends bytes that stand for in[from, to); from == to: they are inserted there. */
void rs_aligned_put(rs_aligned *out, const rs_aligned *in, size_t from, size_t to,
                    const char *bytes, size_t n);
/* Fills *out with a text of well-formed UTF-8, or one that is repaired: each maximal ill-formed
 * part becomes U+FFFD (Unicode 15, 3.9, table 3-8; what Python's errors="replace" does). */
void rs_aligned_repair(rs_aligned *out, const char *bytes, size_t n);

static inline uint32_t rs_aligned_begin(const rs_aligned *text, size_t i)
{
    return text->mapped ? text->begin[i] : text->base + (uint32_t)i;
}
static inline uint32_t rs_aligned_end(const rs_aligned *text, size_t i)
{
    return text->mapped ? text->end[i] : text->base + (uint32_t)i + 1;
}

enum { RS_NO_TOKEN = -1 }; /* the id of what is no added token */
/* A stretch of an aligned text: an added token, by its id, or text. */
typedef struct rs_piece {
    uint32_t begin, end;
    int32_t id;
} rs_piece;

/* A list of pieces. Zero-initialise. */
typedef struct rs_pieces {
    rs_piece *items;
    size_t n, capacity;
    bool failed;
} rs_pieces;

void rs_pieces_free(rs_pieces *pieces);
/* Appends a piece, unless it is an empty stretch of text. */
void rs_pieces_add(rs_pieces *pieces, size_t begin, size_t end, int32_t id);

/* The character at text[0], which is well-formed UTF-8; *n: how many bytes it takes. */
static inline uint32_t rs_char_at(const char *text, size_t *n)
{
    const unsigned char *s = (const unsigned char *)text;
    if (s[0] < 0x80) {
        *n = 1;
        return s[0];
    }
    if (s[0] < 0xE0) {
        *n = 2;
        return (s[0] & 0x1Fu) << 6 | (s[1] & 0x3Fu);
    }
    if (s[0] < 0xF0) {
        *n = 3;
        return (s[0] & 0x0Fu) << 12 | (s[1] & 0x3Fu) << 6 | (s[2] & 0x3Fu);
    }
    *n = 4;
    return (s[0] & 0x07u) << 18 | (s[1] & 0x3Fu) << 12 | (s[2] & 0x3Fu) << 6 | (s[3] & 0x3Fu);
}

/* How many bytes the character takes that a lead byte begins. */
static inline size_t rs_char_bytes(char lead)
{
    unsigned char c = (unsigned char)lead;
    return c < 0x80 ? 1 : c < 0xE0 ? 2 : c < 0xF0 ? 3 : 4;
}

/* Writes a character as UTF-8; returns how many bytes it takes. */
size_t rs_char_put(char out[4], uint32_t point);

#endif
