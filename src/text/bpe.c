/*
 * bpe.c: byte pair encoding: of all neighbouring symbols of a word whose union is a token, the best
 * pair is merged first, until none is left.
 *
 * Best is the lowest rank of a list of merges (GPT-2, tokenizer.json), or the highest score of the
 * union (SentencePiece, GGUF "llama"); the leftmost among equals. A linked list of symbols and a
 * heap of candidates make it O(n log n) in the length of the word.
 */
#include "base/memory.h"
#include "text/model_parts.h"

#include <stdlib.h>
#include <string.h>

#define METASPACE "\xE2\x96\x81"
enum { METASPACE_BYTES = 3 };

/* ---- building ---- */

rs_status rs_bpe_add_merge(rs_text_model *model, const char *left, size_t left_length,
                           const char *right, size_t right_length, size_t rank, const char *where,
                           rs_error *err)
{
    const rs_vocabulary *vocabulary = &model->vocabulary;
    size_t skipped = model->prefix ? model->prefix_length : 0;
    int32_t a = rs_vocabulary_find(vocabulary, left, left_length);
    int32_t b = rs_vocabulary_find(vocabulary, right, right_length), whole = -1;
    if (a >= 0 && b >= 0 && right_length >= skipped) {
        size_t n = left_length + right_length - skipped;
        char small[256], *joined = n <= sizeof small ? small : rs_malloc(n, 1);
        if (!joined) return rs_fail_memory(err, where, n);
        memcpy(joined, left, left_length);
        memcpy(joined + left_length, right + skipped, right_length - skipped);
        whole = rs_vocabulary_find(vocabulary, joined, n);
        if (joined != small) rs_free(joined);
    }
    if (whole < 0)
        return rs_fail(err, RS_E_TOKENIZER_VOCABULARY, where, "the file is damaged",
                       "merge %zu joins '%.*s' and '%.*s', but %s is no token", rank + 1,
                       left_length < 60 ? (int)left_length : 60, left,
                       right_length < 60 ? (int)right_length : 60, right,
                       a < 0   ? "the first"
                       : b < 0 ? "the second"
                               : "what they make");
    if (!rs_pair_map_set(&model->merges, (uint32_t)a, (uint32_t)b,
                         (uint64_t)rank << 32 | (uint32_t)whole))
        return rs_fail_memory(err, "the merges of the vocabulary", rank);
    return RS_OK;
}

void rs_bpe_find_cuts(rs_text_model *model)
{
    const rs_vocabulary *vocabulary = &model->vocabulary;
    model->cuts = !model->prefix && !model->suffix && !model->whole_words &&
                  rs_vocabulary_find(vocabulary, METASPACE, METASPACE_BYTES) >= 0;
    for (size_t id = 0; model->cuts && id < vocabulary->n_ids; id++) {
        const rs_token *token = &vocabulary->tokens[id];
        for (size_t i = 1; i + METASPACE_BYTES <= token->length; i++)
            if (token->text[i] == METASPACE[0] &&
                memcmp(token->text + i, METASPACE, METASPACE_BYTES) == 0)
                model->before_mark[(unsigned char)token->text[i - 1]] = true;
    }
}

/* ---- symbols ---- */

static rs_status no_memory(rs_error *err, size_t n)
{
    return rs_fail_memory(err, "a word", n);
}

static rs_status add_symbol(rs_text_model_work *work, int32_t id, size_t begin, size_t length,
                            rs_error *err)
{
    if (work->n_symbols >= INT32_MAX ||
        !RS_GROW(work->symbols, work->n_symbols, work->symbol_capacity))
        return no_memory(err, work->n_symbols * sizeof *work->symbols);
    int32_t at = (int32_t)work->n_symbols;
    work->symbols[work->n_symbols++] = (rs_symbol){.begin = (uint32_t)begin,
                                                   .length = (uint32_t)length,
                                                   .previous = at - 1,
                                                   .next = at + 1,
                                                   .id = id};
    return RS_OK;
}

/* The token of one character, with the prefix of later ones and the suffix of the last. */
static rs_status find_character(int32_t *id, const rs_text_model *model, rs_text_model_work *work,
                                const char *text, size_t length, size_t at, size_t n, rs_error *err)
{
    bool prefixed = model->prefix && at > 0, suffixed = model->suffix && at + n == length;
    if (!prefixed && !suffixed) {
        *id = rs_vocabulary_find(&model->vocabulary, text + at, n);
        return RS_OK;
    }
    rs_buffer *word = &work->word;
    word->length = 0;
    if (prefixed) rs_buffer_append(word, model->prefix, model->prefix_length);
    rs_buffer_append(word, text + at, n);
    if (suffixed) rs_buffer_append(word, model->suffix, model->suffix_length);
    if (word->failed) return no_memory(err, word->length);
    *id = rs_vocabulary_find(&model->vocabulary, word->data, word->length);
    return RS_OK;
}

static bool all_bytes(const rs_text_model *model, const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (model->byte_ids[(unsigned char)text[i]] < 0) return false;
    return true;
}

/* Unknown characters that wait to become one token, or one each. */
typedef struct waiting {
    size_t begin, length; /* length 0: none */
} waiting;

static rs_status flush(waiting *wait, const rs_text_model *model, rs_text_model_work *work,
                       rs_error *err)
{
    if (wait->length > 0) RS_TRY(add_symbol(work, model->unknown, wait->begin, wait->length, err));
    wait->length = 0;
    return RS_OK;
}

/* A character that is no token: its bytes, the unknown token, or nothing, as the reference does. */
static rs_status unknown_character(waiting *wait, const rs_text_model *model,
                                   rs_text_model_work *work, const char *text, size_t at, size_t n,
                                   rs_error *err)
{
    if (model->byte_fallback && all_bytes(model, text + at, n)) {
        for (size_t i = 0; i < n; i++)
            RS_TRY(add_symbol(work, model->byte_ids[(unsigned char)text[at + i]], at + i, 1, err));
        return RS_OK;
    }
    if (model->unknown < 0) return RS_OK;
    if (!model->fuse_unknown) RS_TRY(flush(wait, model, work, err));
    if (wait->length == 0) wait->begin = at;
    wait->length += n;
    return RS_OK;
}

static rs_status ranked_symbols(const rs_text_model *model, rs_text_model_work *work,
                                const char *text, size_t length, rs_error *err)
{
    waiting wait = {0};
    for (size_t at = 0, n; at < length; at += n) {
        int32_t id = -1;
        n = rs_char_bytes(text[at]);
        RS_TRY(find_character(&id, model, work, text, length, at, n, err));
        if (id < 0) {
            RS_TRY(unknown_character(&wait, model, work, text, at, n, err));
            continue;
        }
        RS_TRY(flush(&wait, model, work, err));
        RS_TRY(add_symbol(work, id, at, n, err));
    }
    return flush(&wait, model, work, err);
}

/* With scores a character need not be a token to be part of one. */
static rs_status scored_symbols(const rs_text_model *model, rs_text_model_work *work,
                                const char *text, size_t length, rs_error *err)
{
    for (size_t at = 0, n; at < length; at += n) {
        n = rs_char_bytes(text[at]);
        int32_t id = rs_vocabulary_find(&model->vocabulary, text + at, n);
        if (id >= 0 && !model->vocabulary.tokens[id].plain) id = -1;
        RS_TRY(add_symbol(work, id, at, n, err));
    }
    return RS_OK;
}

/* ---- merging ---- */

/* Numbers in the order of the floats, the highest first. */
static uint32_t descending(float score)
{
    uint32_t bits;
    memcpy(&bits, &score, sizeof bits);
    return bits >> 31 ? bits : ~bits & 0x7FFFFFFFu;
}

/* Can symbol `left` be merged with the next? Its candidate, if so. */
static bool candidate_at(rs_candidate *out, const rs_text_model *model,
                         const rs_text_model_work *work, const char *text, int32_t left)
{
    const rs_symbol *a = &work->symbols[left];
    if (a->next < 0) return false;
    const rs_symbol *b = &work->symbols[a->next];
    uint32_t priority;
    if (model->scores) {
        if (a->length + b->length > model->vocabulary.longest) return false;
        int32_t id = rs_vocabulary_find(&model->vocabulary, text + a->begin, a->length + b->length);
        if (id < 0 || !model->vocabulary.tokens[id].plain) return false;
        out->id = id;
        priority = descending(model->scores[id]);
    } else {
        uint64_t merge;
        if (!rs_pair_map_get(&model->merges, (uint32_t)a->id, (uint32_t)b->id, &merge))
            return false;
        out->id = (int32_t)(uint32_t)merge;
        priority = (uint32_t)(merge >> 32);
    }
    out->order = (uint64_t)priority << 32 | (uint32_t)left;
    return true;
}

static rs_status push(rs_text_model_work *work, rs_candidate candidate, rs_error *err)
{
    if (!RS_GROW(work->heap, work->n_heap, work->heap_capacity))
        return no_memory(err, work->n_heap * sizeof *work->heap);
    size_t i = work->n_heap++;
    for (; i > 0 && work->heap[(i - 1) / 2].order > candidate.order; i = (i - 1) / 2)
        work->heap[i] = work->heap[(i - 1) / 2];
    work->heap[i] = candidate;
    return RS_OK;
}

static rs_candidate pop(rs_text_model_work *work)
{
    rs_candidate top = work->heap[0], last = work->heap[--work->n_heap];
    size_t i = 0, n = work->n_heap;
    for (size_t child; (child = 2 * i + 1) < n; i = child) {
        if (child + 1 < n && work->heap[child + 1].order < work->heap[child].order) child++;
        if (work->heap[child].order >= last.order) break;
        work->heap[i] = work->heap[child];
    }
    if (n > 0) work->heap[i] = last;
    return top;
}

static rs_status push_at(const rs_text_model *model, rs_text_model_work *work, const char *text,
                         int32_t left, rs_error *err)
{
    rs_candidate candidate;
    if (left >= 0 && candidate_at(&candidate, model, work, text, left))
        return push(work, candidate, err);
    return RS_OK;
}

static void join(rs_text_model_work *work, int32_t left, int32_t id)
{
    rs_symbol *a = &work->symbols[left], *b = &work->symbols[a->next];
    a->length += b->length;
    a->id = id;
    a->next = b->next;
    b->length = 0;
    if (b->next >= 0) work->symbols[b->next].previous = left;
}

static rs_status merge_all(const rs_text_model *model, rs_text_model_work *work, const char *text,
                           rs_error *err)
{
    work->n_heap = 0;
    if (work->n_symbols == 0) return RS_OK;
    work->symbols[work->n_symbols - 1].next = -1;
    for (size_t i = 0; i + 1 < work->n_symbols; i++)
        RS_TRY(push_at(model, work, text, (int32_t)i, err));
    while (work->n_heap > 0) {
        rs_candidate top = pop(work), now;
        int32_t left = (int32_t)(uint32_t)top.order;
        /* What the candidate was made of may be gone: it counts if the pair that stands there now
         * makes the same token. */
        if (work->symbols[left].length == 0 || !candidate_at(&now, model, work, text, left) ||
            now.id != top.id)
            continue;
        join(work, left, top.id);
        RS_TRY(push_at(model, work, text, work->symbols[left].previous, err));
        RS_TRY(push_at(model, work, text, left, err));
    }
    return RS_OK;
}

/* ---- words ---- */

static void emit_tokens(rs_text_model_tokens *out, const rs_text_model *model,
                        const rs_text_model_work *work, const char *text)
{
    for (size_t i = 0; i < work->n_symbols; i++) {
        const rs_symbol *symbol = &work->symbols[i];
        if (symbol->length == 0) continue;
        if (symbol->id >= 0)
            rs_text_model_tokens_add(out, symbol->id, symbol->begin, symbol->length);
        else if (all_bytes(model, text + symbol->begin, symbol->length))
            for (size_t k = symbol->begin; k < symbol->begin + symbol->length; k++)
                rs_text_model_tokens_add(out, model->byte_ids[(unsigned char)text[k]], k, 1);
        else if (model->unknown >= 0)
            rs_text_model_tokens_add(out, model->unknown, symbol->begin, symbol->length);
    }
}

rs_status rs_bpe_encode(rs_text_model_tokens *out, const rs_text_model *model,
                        rs_text_model_work *work, const char *text, size_t length, rs_error *err)
{
    if (model->whole_words) {
        int32_t id = rs_vocabulary_find(&model->vocabulary, text, length);
        if (id >= 0) {
            rs_text_model_tokens_add(out, id, 0, length);
            return RS_OK;
        }
    }
    work->n_symbols = 0;
    RS_TRY(model->scores ? scored_symbols(model, work, text, length, err)
                         : ranked_symbols(model, work, text, length, err));
    RS_TRY(merge_all(model, work, text, err));
    emit_tokens(out, model, work, text);
    return RS_OK;
}
