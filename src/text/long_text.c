/*
 * long_text.c: ids of a text of any length. Tokenising takes some fifty bytes of memory for a byte of
 * text, so a long text goes through in pieces that overlap. What a tokenizer does at a place hangs on
 * what is near it: both sides of a joint are wrong only at their own ends. Two pieces are joined in
 * the middle of their overlap, and only where they have the same tokens over half of it; where they
 * have not, the text is tokenised whole.
 */
#include "base/memory.h"
#include "text/tokenizer.h"

#include <string.h>

enum { PIECE = 4 << 20, MOST_OVERLAP = 1 << 16, LEAST_AGREEING = 8 };

/* Ids so far, and the last piece, which is not among them yet. */
typedef struct joining {
    int32_t *ids;
    size_t n, capacity;
    rs_token_ids last;
    size_t last_begin, last_end; /* of its text */
    size_t used;                 /* of its tokens: those before belong to the piece before it */
    rs_error *err;
} joining;

static rs_status take_ids(joining *j, const int32_t *ids, size_t n)
{
    if (!j->ids || n > j->capacity - j->n) {
        size_t capacity = j->capacity ? j->capacity : 1024;
        while (capacity - j->n < n && capacity <= SIZE_MAX / 2)
            capacity *= 2;
        int32_t *grown = rs_realloc(j->ids, capacity, sizeof *grown);
        if (!grown) return rs_fail_memory(j->err, "the ids of a text", capacity * sizeof *grown);
        j->ids = grown;
        j->capacity = capacity;
    }
    if (n) memcpy(j->ids + j->n, ids, n * sizeof *ids);
    j->n += n;
    return RS_OK;
}

/* The tokens that begin in [low, high) of the whole text, by their numbers. */
static void find_between(size_t *first, size_t *end, const rs_token_ids *tokens, size_t base,
                         size_t low, size_t high)
{
    *first = 0;
    while (*first < tokens->n && base + tokens->begin[*first] < low)
        ++*first;
    *end = tokens->n;
    while (*end > *first && base + tokens->begin[*end - 1] >= high)
        --*end;
}

/* Takes what of the last piece is in front of the joint to the next, which begins at `begin`; false:
 * they do not agree. */
static rs_status join_next(bool *agree, joining *j, rs_token_ids *next, size_t begin, size_t end)
{
    const rs_token_ids *last = &j->last;
    size_t overlap = j->last_end - begin, low = begin + overlap / 4,
           high = j->last_end - overlap / 4;
    size_t a, a_end, b, b_end;
    find_between(&a, &a_end, last, j->last_begin, low, high);
    find_between(&b, &b_end, next, begin, low, high);
    size_t n = a_end - a;
    *agree = n >= LEAST_AGREEING && n == b_end - b && a >= j->used;
    for (size_t i = 0; *agree && i < n; i++)
        *agree = last->ids[a + i] == next->ids[b + i] &&
                 last->begin[a + i] + j->last_begin == next->begin[b + i] + begin &&
                 last->end[a + i] + j->last_begin == next->end[b + i] + begin;
    if (!*agree) return RS_OK;
    RS_TRY(take_ids(j, last->ids + j->used, a + n / 2 - j->used));
    rs_token_ids_free(&j->last);
    j->last = *next;
    *next = (rs_token_ids){0};
    j->used = b + n / 2;
    j->last_begin = begin;
    j->last_end = end;
    return RS_OK;
}

/* The end of a character at or before `at`. */
static size_t character_at(const char *text, size_t length, size_t at)
{
    if (at >= length) return length;
    for (size_t back = 0; back < 3 && at > 0 && ((unsigned char)text[at] & 0xC0) == 0x80; back++)
        at--;
    return at;
}

static rs_status encode_pieces(bool *agree, joining *j, const rs_tokenizer *tokenizer,
                               const char *text, size_t length, size_t piece)
{
    size_t overlap = piece / 2 < MOST_OVERLAP ? piece / 2 : MOST_OVERLAP;
    j->last_end = character_at(text, length, piece);
    RS_TRY(rs_tokenizer_encode(&j->last, tokenizer, text, j->last_end, false, j->err));
    for (*agree = true; *agree && j->last_end < length;) {
        size_t begin = character_at(text, length, j->last_end - overlap);
        size_t end = character_at(text, length, begin + piece);
        rs_token_ids next;
        RS_TRY(rs_tokenizer_encode(&next, tokenizer, text + begin, end - begin, false, j->err));
        rs_status status = join_next(agree, j, &next, begin, end);
        rs_token_ids_free(&next);
        RS_TRY(status);
    }
    return *agree ? take_ids(j, j->last.ids + j->used, j->last.n - j->used) : RS_OK;
}

rs_status rs_tokenizer_encode_long(int32_t **ids, size_t *n, const rs_tokenizer *tokenizer,
                                   const char *text, size_t length, size_t piece, rs_error *err)
{
    enum { LEAST_PIECE = 64 };
    if (piece == 0) piece = PIECE;
    if (piece < LEAST_PIECE) piece = LEAST_PIECE;
    *ids = NULL;
    *n = 0;
    joining j = {.err = err};
    bool agree = true;
    rs_status status = encode_pieces(&agree, &j, tokenizer, text, length, piece);
    rs_token_ids_free(&j.last);
    if (status == RS_OK && !agree) {
        j.n = 0;
        status = rs_tokenizer_encode(&j.last, tokenizer, text, length, false, err);
        if (status == RS_OK) status = take_ids(&j, j.last.ids, j.last.n);
        rs_token_ids_free(&j.last);
    }
    if (status != RS_OK) {
        rs_free(j.ids);
        return status;
    }
    *ids = j.ids;
    *n = j.n;
    return RS_OK;
}
