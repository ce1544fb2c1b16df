/*
 * tokenizer_gguf.c: a tokenizer from the keys tokenizer.ggml.* of a GGUF file.
 *
 *   .model   llama   BPE of SentencePiece: merges by score      .tokens      the texts, by id
 *            gpt2    byte-level BPE: merges by rank             .scores      f32, by id
 *            bert    WordPiece, words begin with U+2581         .token_type  1 normal 2 unknown
 *            t5      Unigram                                                 3 control 4 user's
 *   .pre     how gpt2 cuts a text into words                                 5 unused 6 byte
 *   .merges  "left right", by rank                              .precompiled_charsmap (t5)
 *
 * The pipelines around the models are those of the models' own tokenizer.json.
 */
#include "base/memory.h"
#include "checkpoint/gguf.h"
#include "text/steps.h"

#include <string.h>

#define PREFIX "tokenizer.ggml."
#define METASPACE "\xE2\x96\x81"

/* Types of values. */
enum { U8, I8, U16, I16, U32, I32, F32, BOOL, STRING, ARRAY, U64, I64, F64, N_TYPES };
static const uint8_t type_bytes[N_TYPES] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};

/* Kinds of tokens. */
enum { NORMAL = 1, UNKNOWN, CONTROL, USER, UNUSED, BYTE };

/* ---- finding the keys ---- */

typedef struct value {
    bool present;
    uint32_t type; /* of the value, or of an array's elements */
    bool array;
    uint64_t n; /* elements */
    size_t at;  /* where the value or the first element lies */
} value;

typedef struct keys {
    value model, pre, tokens, scores, token_type, merges, precompiled_charsmap;
    value bos_token_id, eos_token_id, unknown_token_id, seperator_token_id, cls_token_id;
    value add_bos_token, add_eos_token, add_sep_token, add_space_prefix, remove_extra_whitespaces;
} keys;

static const struct {
    const char *name;
    size_t offset;
} known[] = {
#define KEY(name)                                                                                  \
    {                                                                                              \
#name, offsetof(keys, name)                                                                \
    }
    KEY(model),
    KEY(pre),
    KEY(tokens),
    KEY(scores),
    KEY(token_type),
    KEY(merges),
    KEY(precompiled_charsmap),
    KEY(bos_token_id),
    KEY(eos_token_id),
    KEY(unknown_token_id),
    KEY(seperator_token_id),
    KEY(cls_token_id),
    KEY(add_bos_token),
    KEY(add_eos_token),
    KEY(add_sep_token),
    KEY(add_space_prefix),
    KEY(remove_extra_whitespaces),
#undef KEY
};

typedef struct reader {
    rs_gguf_cursor cursor;
    keys keys;
    rs_error *err;
} reader;

static rs_status skip_elements(reader *r, uint32_t type, uint64_t n)
{
    const uint8_t *bytes;
    const char *text;
    size_t length;
    if (type >= N_TYPES || type == ARRAY)
        return rs_fail(r->err, RS_E_GGUF_VALUE_TYPE, r->cursor.path, "the file is damaged",
                       "a metadata value is of type %u, which is not known", type);
    if (type == STRING) {
        for (uint64_t i = 0; i < n; i++)
            RS_TRY(rs_gguf_string(&r->cursor, &text, &length, "a metadata string", r->err));
        return RS_OK;
    }
    if (n > rs_gguf_left(&r->cursor) / type_bytes[type])
        return rs_fail(r->err, RS_E_GGUF_ARRAY, r->cursor.path, RS_GGUF_PARTIAL_HINT,
                       "a metadata array claims %llu elements, but only %zu bytes follow",
                       (unsigned long long)n, rs_gguf_left(&r->cursor));
    return rs_gguf_take(&r->cursor, &bytes, (size_t)n * type_bytes[type], "a metadata value",
                        r->err);
}

static value *key_for(reader *r, const char *name, size_t length)
{
    size_t prefix = sizeof PREFIX - 1;
    if (length <= prefix || memcmp(name, PREFIX, prefix) != 0) return NULL;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strlen(known[i].name) == length - prefix &&
            memcmp(known[i].name, name + prefix, length - prefix) == 0)
            return (value *)(void *)((char *)&r->keys + known[i].offset);
    return NULL;
}

static rs_status read_pair(reader *r)
{
    const char *name;
    size_t length;
    value found = {.present = true, .n = 1};
    RS_TRY(rs_gguf_string(&r->cursor, &name, &length, "a metadata key", r->err));
    RS_TRY(rs_gguf_u32(&r->cursor, &found.type, "a metadata value", r->err));
    if (found.type == ARRAY) {
        found.array = true;
        RS_TRY(rs_gguf_u32(&r->cursor, &found.type, "a metadata array", r->err));
        RS_TRY(rs_gguf_u64(&r->cursor, &found.n, "a metadata array", r->err));
    }
    found.at = r->cursor.at;
    value *wanted = key_for(r, name, length);
    if (wanted) *wanted = found;
    return skip_elements(r, found.type, found.n);
}

static rs_status read_keys(reader *r)
{
    uint32_t version;
    uint64_t tensors, pairs;
    r->cursor.at = 4;
    RS_TRY(rs_gguf_u32(&r->cursor, &version, "the version", r->err));
    if (version != 2 && version != 3)
        return rs_fail(r->err, RS_E_GGUF_VERSION, r->cursor.path, "convert the model again",
                       "has GGUF version %u; versions 2 and 3 are supported", version);
    RS_TRY(rs_gguf_u64(&r->cursor, &tensors, "the number of tensors", r->err));
    RS_TRY(rs_gguf_u64(&r->cursor, &pairs, "the number of metadata keys", r->err));
    for (uint64_t i = 0; i < pairs; i++)
        RS_TRY(read_pair(r));
    return RS_OK;
}

/* ---- values ---- */

static rs_status schema(reader *r, const char *key, const char *what)
{
    return rs_fail(r->err, RS_E_TOKENIZER_SCHEMA, r->cursor.path,
                   "the file is damaged, or its converter is not known here", PREFIX "%s: %s", key,
                   what);
}

static uint64_t little_endian(const uint8_t *bytes, size_t n)
{
    uint64_t number = 0;
    for (size_t i = n; i-- > 0;)
        number = number << 8 | bytes[i];
    return number;
}

/* A scalar of any integer type or bool; `fallback` when the key is absent or something else. */
static int64_t scalar(const reader *r, const value *v, int64_t fallback)
{
    if (!v->present || v->array || v->type == F32 || v->type >= STRING) return fallback;
    uint64_t number = little_endian(r->cursor.data + v->at, type_bytes[v->type]);
    return (int64_t)number;
}

static float f32_at(const reader *r, const value *v, size_t i)
{
    uint32_t bits = (uint32_t)little_endian(r->cursor.data + v->at + 4 * i, 4);
    float number;
    memcpy(&number, &bits, sizeof number);
    return number;
}

static bool is_array(const value *v, uint32_t type, uint64_t n)
{
    return v->present && v->array && v->type == type && (n == 0 || v->n == n);
}

/* The kind of token i: normal when the file does not say. */
static int64_t kind_of(const reader *r, size_t i)
{
    const value *v = &r->keys.token_type;
    if (!is_array(v, I32, r->keys.tokens.n)) return NORMAL;
    return (int64_t)little_endian(r->cursor.data + v->at + 4 * i, 4);
}

static bool text_is(const reader *r, const value *v, const char *text)
{
    rs_gguf_cursor cursor = r->cursor;
    const char *found;
    size_t length;
    cursor.at = v->at;
    return v->present && !v->array && v->type == STRING &&
           rs_gguf_string(&cursor, &found, &length, "a string", NULL) == RS_OK &&
           length == strlen(text) && memcmp(found, text, length) == 0;
}

/* ---- the vocabulary ---- */

typedef rs_status add_token(reader *r, rs_vocabulary *vocabulary, const char *text, size_t length,
                            int32_t id);

static rs_status add_plain(reader *r, rs_vocabulary *vocabulary, const char *text, size_t length,
                           int32_t id)
{
    return rs_vocabulary_put(vocabulary, text, length, id, r->cursor.path, r->err);
}

/* "phantom space": a token that begins a word has U+2581 before it; others get BERT's "##". */
static rs_status add_wordpiece(reader *r, rs_vocabulary *vocabulary, const char *text,
                               size_t length, int32_t id)
{
    if (kind_of(r, (size_t)id) != NORMAL) return add_plain(r, vocabulary, text, length, id);
    if (length >= 3 && memcmp(text, METASPACE, 3) == 0)
        return add_plain(r, vocabulary, text + 3, length - 3, id);
    rs_buffer spelled = {0};
    rs_buffer_puts(&spelled, "##");
    rs_buffer_append(&spelled, text, length);
    rs_status status = spelled.failed ? rs_fail_memory(r->err, "the vocabulary", length)
                                      : add_plain(r, vocabulary, spelled.data, spelled.length, id);
    rs_buffer_free(&spelled);
    return status;
}

static rs_status read_vocabulary(reader *r, rs_vocabulary *vocabulary, add_token *add)
{
    const value *tokens = &r->keys.tokens;
    if (!is_array(tokens, STRING, 0) || tokens->n == 0 || tokens->n > INT32_MAX / 4)
        return schema(r, "tokens", "must be a list of strings");
    size_t n = (size_t)tokens->n;
    RS_TRY(rs_vocabulary_init(vocabulary, n, n, r->err));
    rs_gguf_cursor cursor = r->cursor;
    cursor.at = tokens->at;
    for (size_t i = 0; i < n; i++) {
        const char *text;
        size_t length;
        RS_TRY(rs_gguf_string(&cursor, &text, &length, "a token", r->err));
        if (!rs_utf8_valid(text, length)) text = "", length = 0; /* no text can hold it */
        RS_TRY(add(r, vocabulary, text, length, (int32_t)i));
        int64_t kind = kind_of(r, i);
        vocabulary->tokens[i].plain = kind == NORMAL || kind == USER || kind == UNUSED;
    }
    return RS_OK;
}

/* Control tokens, the unknown token and the user's are looked for in the text. */
static rs_status add_special_tokens(reader *r, rs_tokenizer *t)
{
    const rs_vocabulary *vocabulary = rs_text_model_vocabulary(t->model);
    for (size_t i = 0; i < vocabulary->n_ids; i++) {
        const rs_token *token = &vocabulary->tokens[i];
        int64_t kind = kind_of(r, i);
        bool special = kind == CONTROL || kind == UNKNOWN;
        rs_added_token added = {.id = (int32_t)i, .special = special};
        if ((special || kind == USER) && token->length > 0)
            RS_TRY(rs_added_tokens_add(&t->added, &added, token->text, token->length, r->err));
    }
    return RS_OK;
}

/* The id of a key, or that of a token, or -1. */
static int32_t special_id(const reader *r, const rs_tokenizer *t, const value *v, const char *text)
{
    const rs_vocabulary *vocabulary = rs_text_model_vocabulary(t->model);
    int64_t id = scalar(r, v, -1);
    if (id >= 0 && id < (int64_t)vocabulary->n_ids) return (int32_t)id;
    return text ? rs_vocabulary_find(vocabulary, text, strlen(text)) : -1;
}

static rs_status frame_ids(reader *r, rs_tokenizer *t, bool first, int32_t bos, bool last,
                           int32_t eos)
{
    if (first && bos >= 0) RS_TRY(rs_ids_add(&t->frame.before, bos, r->err));
    if (last && eos >= 0) RS_TRY(rs_ids_add(&t->frame.after, eos, r->err));
    return RS_OK;
}

/* ---- llama ---- */

static rs_status read_llama(reader *r, rs_tokenizer *t)
{
    rs_vocabulary vocabulary = {0};
    const value *scores = &r->keys.scores;
    if (!is_array(scores, F32, r->keys.tokens.n))
        return schema(r, "scores", "must be one float32 a token");
    rs_status status = read_vocabulary(r, &vocabulary, add_plain);
    float *by_id = status == RS_OK ? rs_malloc(vocabulary.n_ids, sizeof *by_id) : NULL;
    if (!by_id) {
        rs_vocabulary_free(&vocabulary);
        return status != RS_OK ? status : rs_fail_memory(r->err, "the scores", scores->n);
    }
    for (size_t i = 0; i < vocabulary.n_ids; i++)
        by_id[i] = f32_at(r, scores, i);
    int64_t unknown = scalar(r, &r->keys.unknown_token_id, -1);
    if (unknown >= (int64_t)vocabulary.n_ids) unknown = -1;
    RS_TRY(rs_text_model_scored_bpe(&t->model, &vocabulary, by_id, (int32_t)unknown, r->err));
    bool prefix = scalar(r, &r->keys.add_space_prefix, 1) != 0;
    if (prefix) RS_TRY(rs_normal_steps_prepend(&t->normal, METASPACE, r->err));
    RS_TRY(rs_normal_steps_replace(&t->normal, " ", METASPACE, r->err));
    RS_TRY(rs_decode_steps_sentencepiece(&t->decode, prefix, r->err));
    return frame_ids(r, t, scalar(r, &r->keys.add_bos_token, 1) != 0,
                     special_id(r, t, &r->keys.bos_token_id, "<s>"),
                     scalar(r, &r->keys.add_eos_token, 0) != 0,
                     special_id(r, t, &r->keys.eos_token_id, "</s>"));
}

/* ---- gpt2 ---- */

/* Files of before the key .pre was there are GPT-2's. */
static rs_status find_words(reader *r, const rs_gguf_words **found)
{
    const value *pre = &r->keys.pre;
    const char *text = pre->present ? "(no string)" : "gpt-2";
    size_t length = strlen(text);
    rs_gguf_cursor cursor = r->cursor;
    cursor.at = pre->at;
    if (pre->present && !pre->array && pre->type == STRING)
        RS_TRY(rs_gguf_string(&cursor, &text, &length, PREFIX "pre", r->err));
    *found = rs_gguf_words_find(text, length);
    if (*found) return RS_OK;
    return rs_fail(r->err, RS_E_TOKENIZER_UNKNOWN, r->cursor.path,
                   "tokenise with the model's own library and give the ids (--tokens), or use its "
                   "tokenizer.json",
                   PREFIX "pre: '%.*s' is not supported", rs_gguf_shown(text, length), text);
}

static rs_status read_merge_texts(reader *r, rs_merge_text **out)
{
    const value *merges = &r->keys.merges;
    if (!is_array(merges, STRING, 0)) return schema(r, "merges", "must be a list of strings");
    rs_merge_text *texts = rs_malloc((size_t)merges->n, sizeof *texts);
    if (!texts) return rs_fail_memory(r->err, "the merges", merges->n);
    rs_gguf_cursor cursor = r->cursor;
    cursor.at = merges->at;
    for (size_t i = 0; i < merges->n; i++) {
        rs_status status =
            rs_gguf_string(&cursor, &texts[i].text, &texts[i].length, "a merge", r->err);
        if (status != RS_OK) {
            rs_free(texts);
            return status;
        }
    }
    *out = texts;
    return RS_OK;
}

static rs_status read_gpt2(reader *r, rs_tokenizer *t)
{
    const rs_gguf_words *words;
    rs_vocabulary vocabulary = {0};
    rs_merge_text *merges = NULL;
    RS_TRY(find_words(r, &words));
    rs_status status = read_vocabulary(r, &vocabulary, add_plain);
    if (status == RS_OK) status = read_merge_texts(r, &merges);
    if (status == RS_OK)
        status = rs_text_model_bpe(&t->model, &vocabulary, merges, (size_t)r->keys.merges.n,
                                   words->whole_words, r->cursor.path, r->err);
    else
        rs_vocabulary_free(&vocabulary);
    rs_free(merges);
    RS_TRY(status);
    RS_TRY(rs_gguf_words_add(t, words, r->cursor.path, r->err));
    RS_TRY(rs_decode_steps_bytes(&t->decode, r->err));
    return frame_ids(r, t, scalar(r, &r->keys.add_bos_token, words->begins) != 0,
                     special_id(r, t, &r->keys.bos_token_id, NULL),
                     scalar(r, &r->keys.add_eos_token, 0) != 0,
                     special_id(r, t, &r->keys.eos_token_id, NULL));
}

/* ---- bert ---- */

static rs_status read_bert(reader *r, rs_tokenizer *t)
{
    rs_vocabulary vocabulary = {0};
    rs_status status = read_vocabulary(r, &vocabulary, add_wordpiece);
    if (status != RS_OK) {
        rs_vocabulary_free(&vocabulary);
        return status;
    }
    int64_t unknown = scalar(r, &r->keys.unknown_token_id, -1);
    if (unknown < 0 || unknown >= (int64_t)vocabulary.n_ids)
        unknown = rs_vocabulary_find(&vocabulary, "[UNK]", 5);
    RS_TRY(rs_text_model_wordpiece(&t->model, &vocabulary, (int32_t)unknown, r->err));
    RS_TRY(rs_normal_steps_bert(&t->normal, r->err));
    RS_TRY(rs_split_steps_bert(&t->split, r->err));
    RS_TRY(rs_decode_steps_wordpiece(&t->decode, r->err));
    const value *begin =
        r->keys.cls_token_id.present ? &r->keys.cls_token_id : &r->keys.bos_token_id;
    return frame_ids(r, t, scalar(r, &r->keys.add_bos_token, 1) != 0,
                     special_id(r, t, begin, "[CLS]"), scalar(r, &r->keys.add_sep_token, 1) != 0,
                     special_id(r, t, &r->keys.seperator_token_id, "[SEP]"));
}

/* ---- t5 ---- */

static rs_status read_charsmap(reader *r, rs_tokenizer *t)
{
    const value *map = &r->keys.precompiled_charsmap;
    rs_charsmap *charsmap;
    if (!map->present || map->n == 0) return RS_OK;
    if (!map->array || (map->type != I8 && map->type != U8))
        return schema(r, "precompiled_charsmap", "must be a list of bytes");
    RS_TRY(rs_charsmap_new(&charsmap, (const char *)r->cursor.data + map->at, (size_t)map->n,
                           r->cursor.path, r->err));
    return rs_normal_steps_charsmap(&t->normal, charsmap, r->err);
}

static rs_status read_t5(reader *r, rs_tokenizer *t)
{
    rs_vocabulary vocabulary = {0};
    const value *scores = &r->keys.scores;
    if (!is_array(scores, F32, r->keys.tokens.n))
        return schema(r, "scores", "must be one float32 a token");
    rs_status status = read_vocabulary(r, &vocabulary, add_plain);
    double *by_id = status == RS_OK ? rs_malloc(vocabulary.n_ids, sizeof *by_id) : NULL;
    if (!by_id) {
        rs_vocabulary_free(&vocabulary);
        return status != RS_OK ? status : rs_fail_memory(r->err, "the scores", scores->n);
    }
    for (size_t i = 0; i < vocabulary.n_ids; i++)
        by_id[i] = (double)f32_at(r, scores, i);
    int64_t unknown = scalar(r, &r->keys.unknown_token_id, -1);
    if (unknown >= (int64_t)vocabulary.n_ids) unknown = -1;
    bool bytes = rs_vocabulary_find(&vocabulary, "<0x00>", 6) >= 0;
    RS_TRY(rs_text_model_unigram(&t->model, &vocabulary, by_id, (int32_t)unknown, bytes, r->err));
    RS_TRY(read_charsmap(r, t));
    if (scalar(r, &r->keys.remove_extra_whitespaces, 1) != 0)
        RS_TRY(rs_split_steps_spaces(&t->split, r->err));
    bool prefix = scalar(r, &r->keys.add_space_prefix, 1) != 0;
    RS_TRY(
        rs_split_steps_metaspace(&t->split, prefix ? RS_PREPEND_ALWAYS : RS_PREPEND_NEVER, r->err));
    RS_TRY(rs_decode_steps_sentencepiece(&t->decode, prefix, r->err));
    return frame_ids(r, t, scalar(r, &r->keys.add_bos_token, 0) != 0,
                     special_id(r, t, &r->keys.bos_token_id, NULL),
                     scalar(r, &r->keys.add_eos_token, 1) != 0,
                     special_id(r, t, &r->keys.eos_token_id, "</s>"));
}

/* ---- any ---- */

static const struct {
    const char *model;
    rs_status (*read)(reader *r, rs_tokenizer *t);
} models[] = {{"llama", read_llama}, {"gpt2", read_gpt2}, {"bert", read_bert}, {"t5", read_t5}};

rs_status rs_tokenizer_read_gguf(rs_tokenizer *tokenizer, const char *path, const uint8_t *data,
                                 size_t size, rs_error *err)
{
    reader r = {.cursor = {.data = data, .size = size, .path = path}, .err = err};
    RS_TRY(read_keys(&r));
    if (!r.keys.model.present)
        return rs_fail(err, RS_E_TOKENIZER_MISSING, path, "give ids instead (--tokens)",
                       "has no tokenizer: the key " PREFIX "model is missing");
    tokenizer->decodes = true;
    for (size_t i = 0; i < sizeof models / sizeof *models; i++)
        if (text_is(&r, &r.keys.model, models[i].model)) {
            RS_TRY(models[i].read(&r, tokenizer));
            return add_special_tokens(&r, tokenizer);
        }
    return rs_fail(err, RS_E_TOKENIZER_UNKNOWN, path, "give ids instead (--tokens)",
                   PREFIX "model is none of llama, gpt2, bert, t5");
}
