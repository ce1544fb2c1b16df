/* model.c: the models of tokenizer.json, and what they have in common: a cache of words. */
#include "base/memory.h"
#include "text/model_parts.h"

#include <string.h>

/* Bytes of a word and number of words that the cache keeps. */
enum { LONGEST_CACHED = 64, MOST_CACHED = 1 << 17 };

/* ---- words seen before ---- */

typedef struct cached {
    uint32_t first, n; /* stretch of tokens */
} cached;

typedef struct rs_word_cache {
    rs_strmap by_text; /* -> index into words */
    rs_arena *arena;   /* holds the texts */
    cached *words;
    size_t n, capacity;
    rs_text_model_tokens tokens;
} rs_word_cache;

static void cache_free(rs_word_cache *cache)
{
    if (!cache) return;
    rs_strmap_free(&cache->by_text);
    rs_arena_free(cache->arena);
    rs_free(cache->words);
    rs_free(cache->tokens.items);
    rs_free(cache);
}

static rs_status remember(rs_word_cache *cache, const char *text, size_t length,
                          const rs_text_model_tokens *tokens, size_t from, rs_error *err)
{
    bool existed;
    if (cache->n >= MOST_CACHED || cache->tokens.n > UINT32_MAX / 2) return RS_OK;
    char *copy = rs_arena_strndup(cache->arena, text, length);
    uint32_t first = (uint32_t)cache->tokens.n;
    for (size_t i = from; i < tokens->n; i++)
        rs_text_model_tokens_add(&cache->tokens, tokens->items[i].id, tokens->items[i].begin,
                                 tokens->items[i].bytes);
    if (!copy || cache->tokens.failed || !RS_GROW(cache->words, cache->n, cache->capacity) ||
        !rs_strmap_insert(&cache->by_text, copy, length, (int64_t)cache->n, &existed))
        return rs_fail_memory(err, "the cache of words", length);
    cache->words[cache->n++] = (cached){.first = first, .n = (uint32_t)(tokens->n - from)};
    return RS_OK;
}

/* ---- scratch memory ---- */

rs_status rs_text_model_work_new(rs_text_model_work **out, rs_error *err)
{
    rs_text_model_work *work = rs_calloc(1, sizeof *work);
    if (work) work->cache = rs_calloc(1, sizeof *work->cache);
    if (work && work->cache) work->cache->arena = rs_arena_new();
    *out = work;
    if (work && work->cache && work->cache->arena) return RS_OK;
    rs_text_model_work_free(work);
    *out = NULL;
    return rs_fail_memory(err, "encoding a text", sizeof *work);
}

void rs_text_model_work_free(rs_text_model_work *work)
{
    if (!work) return;
    rs_free(work->symbols);
    rs_free(work->heap);
    rs_free(work->paths);
    rs_buffer_free(&work->word);
    cache_free(work->cache);
    rs_free(work);
}

void rs_text_model_tokens_add(rs_text_model_tokens *tokens, int32_t id, size_t begin, size_t bytes)
{
    if (tokens->failed || !RS_GROW(tokens->items, tokens->n, tokens->capacity)) {
        tokens->failed = true;
        return;
    }
    tokens->items[tokens->n++] = (rs_text_model_token){id, (uint32_t)begin, (uint32_t)bytes};
}

/* ---- encoding ---- */

static rs_status encode_word(rs_text_model_tokens *out, const rs_text_model *model,
                             rs_text_model_work *work, const char *text, size_t length,
                             rs_error *err)
{
    size_t before = out->n;
    int64_t known = -1;
    if (length <= LONGEST_CACHED) known = rs_strmap_get(&work->cache->by_text, text, length, -1);
    if (known >= 0) {
        cached word = work->cache->words[known];
        for (size_t i = 0; i < word.n; i++) {
            const rs_text_model_token *token = &work->cache->tokens.items[word.first + i];
            rs_text_model_tokens_add(out, token->id, token->begin, token->bytes);
        }
        return RS_OK;
    }
    RS_TRY(model->encode(out, model, work, text, length, err));
    if (length > LONGEST_CACHED || out->failed) return RS_OK;
    return remember(work->cache, text, length, out, before, err);
}

/* The end of the word at `from`: before a mark that no token crosses, or the end of the text. */
static size_t word_end(const rs_text_model *model, const char *text, size_t from, size_t length)
{
    if (!model->cuts) return length;
    for (size_t i = from + 1; i + 3 <= length; i++)
        if (text[i] == '\xE2' && text[i + 1] == '\x96' && text[i + 2] == '\x81' &&
            !model->before_mark[(unsigned char)text[i - 1]])
            return i;
    return length;
}

rs_status rs_text_model_encode(rs_text_model_tokens *out, const rs_text_model *model,
                               rs_text_model_work *work, const char *text, size_t length,
                               rs_error *err)
{
    for (size_t at = 0; at < length;) {
        size_t end = word_end(model, text, at, length), before = out->n;
        RS_TRY(encode_word(out, model, work, text + at, end - at, err));
        for (size_t i = before; i < out->n; i++)
            out->items[i].begin += (uint32_t)at;
        at = end;
    }
    return out->failed ? rs_fail_memory(err, "the tokens of a text", out->n) : RS_OK;
}

/* ---- making and freeing ---- */

rs_text_model *rs_text_model_new(rs_vocabulary *vocabulary)
{
    rs_text_model *model = rs_calloc(1, sizeof *model);
    if (!model) {
        rs_vocabulary_free(vocabulary);
        return NULL;
    }
    model->vocabulary = *vocabulary;
    *vocabulary = (rs_vocabulary){0};
    model->unknown = -1;
    return model;
}

void rs_text_model_free(rs_text_model *model)
{
    if (!model) return;
    rs_vocabulary_free(&model->vocabulary);
    rs_pair_map_free(&model->merges);
    rs_trie_free(&model->trie);
    rs_free(model->prefix);
    rs_free(model->suffix);
    rs_free(model->scores);
    rs_free(model->path_scores);
    rs_free(model);
}

const rs_vocabulary *rs_text_model_vocabulary(const rs_text_model *model)
{
    return &model->vocabulary;
}

void rs_text_model_find_bytes(rs_text_model *model)
{
    for (int byte = 0; byte < 256; byte++)
        model->byte_ids[byte] = rs_vocabulary_find_byte(&model->vocabulary, (unsigned char)byte);
}

/* ---- models without a tokenizer.json ---- */

static rs_status finished(rs_text_model **out, rs_text_model *model, rs_status status)
{
    if (status != RS_OK) {
        rs_text_model_free(model);
        model = NULL;
    }
    *out = model;
    return status;
}

rs_status rs_text_model_wordpiece(rs_text_model **out, rs_vocabulary *vocabulary, int32_t unknown,
                                  rs_error *err)
{
    rs_text_model *model = *out = rs_text_model_new(vocabulary);
    if (!model) return rs_fail_memory(err, "the vocabulary", 0);
    model->encode = rs_wordpiece_encode;
    model->unknown = unknown;
    model->max_characters = 100; /* BERT's own limit */
    model->prefix = rs_strdup("##");
    model->prefix_length = 2;
    return finished(out, model, model->prefix ? RS_OK : rs_fail_memory(err, "the vocabulary", 2));
}

static rs_status add_merges(rs_text_model *model, const rs_merge_text *merges, size_t n,
                            const char *where, rs_error *err)
{
    if (!rs_pair_map_reserve(&model->merges, n)) return rs_fail_memory(err, "the merges", n);
    for (size_t i = 0; i < n; i++) {
        const char *text = merges[i].text;
        /* A token may hold blanks of its own only at its beginning. */
        const char *blank =
            merges[i].length > 1 ? memchr(text + 1, ' ', merges[i].length - 1) : NULL;
        if (!blank)
            return rs_fail(err, RS_E_TOKENIZER_VOCABULARY, where, "the file is damaged",
                           "merge %zu, '%.*s', has no blank between its sides", i + 1,
                           merges[i].length < 60 ? (int)merges[i].length : 60, text);
        size_t left = (size_t)(blank - text);
        RS_TRY(rs_bpe_add_merge(model, text, left, blank + 1, merges[i].length - left - 1, i, where,
                                err));
    }
    return RS_OK;
}

rs_status rs_text_model_bpe(rs_text_model **out, rs_vocabulary *vocabulary,
                            const rs_merge_text *merges, size_t n, bool whole_words,
                            const char *where, rs_error *err)
{
    rs_text_model *model = *out = rs_text_model_new(vocabulary);
    if (!model) return rs_fail_memory(err, "the vocabulary", 0);
    model->encode = rs_bpe_encode;
    model->whole_words = whole_words;
    rs_text_model_find_bytes(model);
    rs_status status = add_merges(model, merges, n, where, err);
    if (status == RS_OK) rs_bpe_find_cuts(model);
    return finished(out, model, status);
}

rs_status rs_text_model_scored_bpe(rs_text_model **out, rs_vocabulary *vocabulary, float *scores,
                                   int32_t unknown, rs_error *err)
{
    rs_text_model *model = *out = rs_text_model_new(vocabulary);
    if (!model) {
        rs_free(scores);
        return rs_fail_memory(err, "the vocabulary", 0);
    }
    model->encode = rs_bpe_encode;
    model->scores = scores;
    model->unknown = unknown;
    rs_text_model_find_bytes(model);
    rs_bpe_find_cuts(model);
    return RS_OK;
}

rs_status rs_text_model_unigram(rs_text_model **out, rs_vocabulary *vocabulary, double *scores,
                                int32_t unknown, bool byte_fallback, rs_error *err)
{
    rs_text_model *model = *out = rs_text_model_new(vocabulary);
    if (!model) {
        rs_free(scores);
        return rs_fail_memory(err, "the vocabulary", 0);
    }
    model->encode = rs_unigram_encode;
    model->path_scores = scores;
    model->unknown = unknown;
    model->byte_fallback = byte_fallback;
    rs_text_model_find_bytes(model);
    return finished(out, model, rs_unigram_build(model, err));
}
