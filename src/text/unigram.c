/*
 * unigram.c: the split of a text into tokens whose scores (log probabilities) have the largest sum,
 * by Viterbi's algorithm; a character that is no token costs 10 more than the rarest token
 * (Kudo 2018, arXiv:1804.10959, and the program SentencePiece).
 */
#include "base/memory.h"
#include "text/model_parts.h"

#define UNKNOWN_PENALTY 10.0

rs_status rs_unigram_build(rs_text_model *model, rs_error *err)
{
    const rs_vocabulary *vocabulary = &model->vocabulary;
    double least = 1e300;
    for (size_t id = 0; id < vocabulary->n_ids; id++) {
        const rs_token *token = &vocabulary->tokens[id];
        if (!token->text) continue;
        if (token->plain && token->length > 0 &&
            !rs_trie_add(&model->trie, token->text, token->length, (int32_t)id, true))
            return rs_fail_memory(err, "the vocabulary", vocabulary->n_ids);
        if (token->plain && model->path_scores[id] < least) least = model->path_scores[id];
    }
    model->unknown_score = least - UNKNOWN_PENALTY;
    return RS_OK;
}

static rs_status reserve_ends(rs_text_model_work *work, size_t n, rs_error *err)
{
    if (n <= work->path_capacity) return RS_OK;
    size_t capacity = work->path_capacity * 2 > n ? work->path_capacity * 2 : n;
    rs_path_end *paths = rs_realloc(work->paths, capacity, sizeof *paths);
    if (!paths) return rs_fail_memory(err, "the best path through a text", n * sizeof *paths);
    work->paths = paths;
    work->path_capacity = capacity;
    return RS_OK;
}

/* A token of `id` from begin to end: keep it when the path it ends is the best one so far. */
static void offer(rs_path_end *paths, size_t begin, size_t end, double score, int32_t id)
{
    double total = paths[begin].score + score;
    if (paths[end].begin != RS_NO_PATH && !(total > paths[end].score)) return;
    paths[end] = (rs_path_end){.score = total, .begin = (uint32_t)begin, .id = id};
}

static rs_status find_paths(rs_path_end *paths, const rs_text_model *model, const char *text,
                            size_t length, rs_error *err)
{
    for (size_t i = 0; i <= length; i++)
        paths[i] = (rs_path_end){.begin = RS_NO_PATH};
    for (size_t at = 0, n; at < length; at += n) {
        bool single = false;
        uint32_t node = 0;
        n = rs_char_bytes(text[at]);
        for (size_t i = at; i < length && model->trie.n; i++) {
            node = rs_trie_step(&model->trie, node, text[i]);
            if (!node) break;
            int32_t id = model->trie.values[node];
            if (id == RS_TRIE_NONE) continue;
            offer(paths, at, i + 1, model->path_scores[id], id);
            single = single || i + 1 - at == n;
        }
        if (single) continue;
        if (model->unknown < 0)
            return rs_fail(err, RS_E_TOKENIZER_TEXT, "tokenizer", NULL,
                           "the character '%.*s' has no token, and there is no unknown token",
                           (int)n, text + at);
        offer(paths, at, at + n, model->unknown_score, model->unknown);
    }
    return RS_OK;
}

/* Turns the path around: next[begin] = end, kept in paths[].begin. */
static void turn(rs_path_end *paths, size_t length)
{
    uint32_t end = (uint32_t)length;
    int32_t id = paths[length].id;
    uint32_t begin = paths[length].begin;
    while (end > 0) {
        rs_path_end before = paths[begin];
        paths[begin].id = id;
        paths[begin].begin = end;
        end = begin;
        id = before.id;
        begin = before.begin;
    }
}

/* A stretch that is no token: its bytes, or the unknown token. */
static void emit_unknown(rs_text_model_tokens *out, const rs_text_model *model, const char *text,
                         size_t begin, size_t n)
{
    int32_t whole = rs_vocabulary_find(&model->vocabulary, text + begin, n);
    bool bytes = model->byte_fallback && whole < 0;
    for (size_t i = 0; bytes && i < n; i++)
        bytes = model->byte_ids[(unsigned char)text[begin + i]] >= 0;
    if (!bytes) {
        bool known = whole >= 0 && model->vocabulary.tokens[whole].plain;
        rs_text_model_tokens_add(out, known ? whole : model->unknown, begin, n);
        return;
    }
    for (size_t i = 0; i < n; i++)
        rs_text_model_tokens_add(out, model->byte_ids[(unsigned char)text[begin + i]], begin + i,
                                 1);
}

rs_status rs_unigram_encode(rs_text_model_tokens *out, const rs_text_model *model,
                            rs_text_model_work *work, const char *text, size_t length,
                            rs_error *err)
{
    if (length == 0) return RS_OK;
    RS_TRY(reserve_ends(work, length + 1, err));
    rs_path_end *paths = work->paths;
    RS_TRY(find_paths(paths, model, text, length, err));
    turn(paths, length);
    for (size_t at = 0; at < length;) {
        size_t end = paths[at].begin;
        int32_t id = paths[at].id;
        if (id != model->unknown) {
            rs_text_model_tokens_add(out, id, at, end - at);
            at = end;
            continue;
        }
        while (end < length && paths[end].id == model->unknown) /* unknowns in a row are one */
            end = paths[end].begin;
        emit_unknown(out, model, text, at, end - at);
        at = end;
    }
    return RS_OK;
}
