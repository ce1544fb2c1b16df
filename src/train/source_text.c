/* source_text.c: language models of the user's text: characters, a tokenizer's words, hidden words. */
#include "train/source.h"

#include "base/memory.h"
#include "text/tokenizer.h"

#include <math.h>
#include <string.h>

/* ---- reading ---- */

/* Refuses what is no UTF-8, by the first byte that is wrong: a model would learn the mistakes. */
static rs_status check_utf8(const rs_mapping *file, rs_error *err)
{
    const char *text = (const char *)file->data;
    if (rs_utf8_valid(text, file->size)) return RS_OK;
    size_t line = 1, at = 0, size;
    for (; at < file->size; at += size) {
        uint32_t point;
        size = rs_utf8_next(text + at, file->size - at, &point);
        if (size == 1 && point == RS_REPLACEMENT) break;
        line += point == '\n';
    }
    return rs_fail(err, RS_E_INPUT_FORMAT, file->path,
                   "convert it first: iconv -f LATIN1 -t UTF-8 (or whatever it is written in)",
                   "byte %zu, in line %zu, is not UTF-8", at, line);
}

static rs_status open_text(rs_mapping **out, rs_source *s, rs_error *err)
{
    *out = NULL;
    const char *path = s->settings.files.text;
    if (!path) return rs_source_missing(s, "text", "the path of a text file", err);
    rs_mapping *file;
    RS_TRY(rs_mapping_open(&file, path, err));
    rs_status status = RS_OK;
    if (file->size == 0)
        status = rs_fail(err, RS_E_EMPTY_FILE, path, "name a text to learn", "the file is empty");
    if (status == RS_OK) status = check_utf8(file, err);
    if (status == RS_OK) rs_source_print(s, file);
    if (status != RS_OK)
        rs_mapping_close(file);
    else
        *out = file;
    return status;
}

/* ---- characters ---- */

enum { CODE_POINTS = 0x110000 };

/* number [CODE_POINTS]: 0 where the text has no such character; then 1 + its id. */
static rs_status number_characters(rs_source *s, int32_t *number, const rs_mapping *file,
                                   rs_error *err)
{
    const char *text = (const char *)file->data;
    uint32_t point;
    for (size_t at = 0; at < file->size; s->n_ids++) {
        at += rs_utf8_next(text + at, file->size - at, &point);
        number[point] = 1;
    }
    for (uint32_t p = 0; p < CODE_POINTS; p++)
        if (number[p]) number[p] = (int32_t)++s->n_characters;
    s->characters = rs_malloc((size_t)s->n_characters, sizeof *s->characters);
    s->ids = rs_malloc((size_t)s->n_ids, sizeof *s->ids);
    if (!s->characters || !s->ids)
        return rs_fail_memory(err, file->path, (size_t)s->n_ids * sizeof *s->ids);
    for (uint32_t p = 0; p < CODE_POINTS; p++)
        if (number[p]) s->characters[number[p] - 1] = p;
    int64_t i = 0;
    for (size_t at = 0; at < file->size && i < s->n_ids; i++) {
        at += rs_utf8_next(text + at, file->size - at, &point);
        s->ids[i] = number[point] ? number[point] - 1 : 0; /* 0: the file changed; that is said */
    }
    for (; i < s->n_ids; i++)
        s->ids[i] = 0;
    return RS_OK;
}

/* ---- windows ---- */

static void put_next(rs_task_sample *out, rs_source *s, int64_t place, rs_random *random)
{
    (void)random;
    size_t bytes = (size_t)s->shape.n_tok * sizeof *s->ids;
    memcpy(out->tokens, s->ids + place, bytes);
    memcpy(out->classes, s->ids + place + 1, bytes);
}

/* BERT's rule: of the chosen tokens 8 of 10 are hidden, 1 of 10 is any token, 1 of 10 stays. */
static void hide_token(int32_t *token, const rs_source *s, rs_random *random)
{
    double u = rs_random_uniform(random);
    if (u < 0.8)
        *token = s->mask;
    else if (u < 0.9)
        *token = (int32_t)rs_draw_below(random, s->shape.vocab);
}

static void put_masked(rs_task_sample *out, rs_source *s, int64_t place, rs_random *random)
{
    int32_t *body = out->tokens + s->n_before;
    memcpy(out->tokens, s->frame, (size_t)s->n_before * sizeof *body);
    memcpy(body, s->ids + place, (size_t)s->body * sizeof *body);
    memcpy(body + s->body, s->frame + s->n_before, (size_t)s->n_after * sizeof *body);
    for (int64_t t = 0; t < s->shape.n_tok; t++)
        out->classes[t] = -1;
    rs_draw_distinct(s->scratch, s->body, s->masked, random);
    for (int64_t i = 0; i < s->masked; i++) {
        int64_t at = s->scratch[i];
        out->classes[s->n_before + at] = body[at];
        hide_token(&body[at], s, random);
    }
}

static rs_status set_next(rs_source *s, const char *what, rs_error *err)
{
    s->put = put_next;
    return rs_sets_of_series(s, 1, s->n_ids, s->shape.n_tok, s->shape.n_tok + 1, what, err);
}

rs_status rs_source_characters(rs_source *s, rs_error *err)
{
    rs_mapping *file;
    RS_TRY(open_text(&file, s, err));
    int32_t *number = rs_calloc(CODE_POINTS, sizeof *number);
    rs_status status = number ? number_characters(s, number, file, err)
                              : rs_fail_memory(err, file->path, CODE_POINTS * sizeof *number);
    rs_free(number);
    if (status == RS_OK) status = rs_mapping_verify(file, NULL, err);
    rs_mapping_close(file);
    RS_TRY(status);
    s->shape = (rs_task_shape){
        .n_tok = s->settings.length, .vocab = s->n_characters, .d_out = s->n_characters};
    rs_source_say(s, "%lld characters are different", (long long)s->n_characters);
    return set_next(s, "characters", err);
}

/* ---- a tokenizer's words ---- */

static rs_status copy_frame(rs_source *s, const rs_tokenizer *tokenizer, rs_error *err)
{
    const int32_t *before, *after;
    size_t n_before, n_after;
    rs_tokenizer_specials(tokenizer, &before, &n_before, &after, &n_after);
    s->frame = rs_malloc(n_before + n_after, sizeof *s->frame);
    if (!s->frame) return rs_fail_memory(err, "special tokens", n_before + n_after);
    if (n_before) memcpy(s->frame, before, n_before * sizeof *before);
    if (n_after) memcpy(s->frame + n_before, after, n_after * sizeof *after);
    s->n_before = (int64_t)n_before;
    s->n_after = (int64_t)n_after;
    s->body = s->settings.length - s->n_before - s->n_after;
    if (s->body >= 1) return RS_OK;
    return rs_task_refuse(s->where, err,
                          "a \"length\" of %lld leaves no room beside the tokenizer's %lld special "
                          "tokens",
                          (long long)s->settings.length, (long long)(n_before + n_after));
}

static rs_status set_masked(rs_source *s, const rs_tokenizer *tokenizer, rs_error *err)
{
    const char *path = s->settings.files.tokenizer;
    double rate = s->settings.files.mask_rate;
    if (!(rate > 0) || !(rate <= 1))
        return rs_task_refuse(s->where, err, "\"mask_rate\" is %g: nothing would be learnt", rate);
    static const char *const names[] = {"[MASK]", "<mask>"};
    s->mask = -1;
    for (size_t i = 0; i < 2 && s->mask < 0; i++)
        s->mask = rs_tokenizer_id(tokenizer, names[i]);
    if (s->mask < 0)
        return rs_fail(err, RS_E_TOKENIZER_VOCABULARY, path,
                       "train it as bpe-lm, or name the tokenizer of a masked model",
                       "there is no token [MASK] or <mask>, which hides words");
    RS_TRY(copy_frame(s, tokenizer, err));
    s->masked = (int64_t)floor(rate * (double)s->body + 0.5);
    if (s->masked < 1) s->masked = 1;
    s->scratch = rs_malloc((size_t)s->body, sizeof *s->scratch);
    if (!s->scratch) return rs_fail_memory(err, "a task", (size_t)s->body * sizeof *s->scratch);
    s->put = put_masked;
    rs_source_say(s, "%lld of a window's %lld tokens are asked for", (long long)s->masked,
                  (long long)s->body);
    return rs_sets_of_series(s, 1, s->n_ids, s->body, s->body, "tokens", err);
}

static rs_status encode_text(rs_source *s, const rs_tokenizer *tokenizer, rs_error *err)
{
    rs_mapping *file;
    RS_TRY(open_text(&file, s, err));
    size_t n = 0;
    rs_status status = rs_tokenizer_encode_long(&s->ids, &n, tokenizer, (const char *)file->data,
                                                file->size, 0, err);
    s->n_ids = (int64_t)n;
    if (status == RS_OK) status = rs_mapping_verify(file, NULL, err);
    rs_mapping_close(file);
    return status;
}

static rs_status set_tokens(rs_source *s, const rs_tokenizer *tokenizer, rs_error *err)
{
    int64_t vocabulary = rs_tokenizer_vocabulary(tokenizer);
    RS_TRY(encode_text(s, tokenizer, err));
    s->shape =
        (rs_task_shape){.n_tok = s->settings.length, .vocab = vocabulary, .d_out = vocabulary};
    return strcmp(s->settings.name, "mlm") == 0 ? set_masked(s, tokenizer, err)
                                                : set_next(s, "tokens", err);
}

rs_status rs_source_tokenised(rs_source *s, rs_error *err)
{
    const char *path = s->settings.files.tokenizer;
    if (!path)
        return rs_source_missing(s, "tokenizer", "the path of tokenizer.json or a model's folder",
                                 err);
    rs_tokenizer *tokenizer;
    RS_TRY(rs_tokenizer_open(&tokenizer, path, err));
    if (s->context) rs_tokenizer_watch(tokenizer, s->context);
    rs_status status = set_tokens(s, tokenizer, err);
    rs_tokenizer_close(tokenizer);
    return status;
}
