/* tokenizer.c: opening a tokenizer, and a text's way through it. */
#include "base/mapping.h"
#include "base/memory.h"
#include "text/steps.h"

#include <string.h>
#include <sys/stat.h>

/* ---- opening ---- */

static rs_tokenizer *new_tokenizer(const char *name)
{
    rs_tokenizer *tokenizer = rs_calloc(1, sizeof *tokenizer);
    if (tokenizer) tokenizer->name = rs_strdup(name);
    if (tokenizer && tokenizer->name) return tokenizer;
    rs_tokenizer_close(tokenizer);
    return NULL;
}

void rs_tokenizer_close(rs_tokenizer *tokenizer)
{
    if (!tokenizer) return;
    rs_normal_steps_free(&tokenizer->normal);
    rs_split_steps_free(&tokenizer->split);
    rs_text_model_free(tokenizer->model);
    rs_added_tokens_free(&tokenizer->added);
    rs_frame_free(&tokenizer->frame);
    rs_decode_steps_free(&tokenizer->decode);
    rs_free(tokenizer->name);
    rs_free(tokenizer);
}

void rs_tokenizer_watch(rs_tokenizer *tokenizer, const rs_context *context)
{
    if (tokenizer) tokenizer->cancel = context->cancel;
}

static rs_status read_json(rs_tokenizer *t, const rs_json_index *json, rs_error *err)
{
    rs_spec top = {.json = json}, part;
    if (json->nodes[0].kind != RS_JSON_OBJECT)
        return rs_spec_fail(&top, "(top)", err, "must be an object");
    if (!rs_spec_member(&part, &top, "model"))
        return rs_spec_fail(&top, "model", err, "is missing: this is no tokenizer.json");
    RS_TRY(rs_text_model_read(&t->model, &part, err));
    if (rs_spec_member(&part, &top, "normalizer"))
        RS_TRY(rs_normal_steps_read(&t->normal, &part, err));
    if (rs_spec_member(&part, &top, "pre_tokenizer"))
        RS_TRY(rs_split_steps_read(&t->split, &part, err));
    if (rs_spec_member(&part, &top, "post_processor")) RS_TRY(rs_frame_read(&t->frame, &part, err));
    t->decodes = rs_spec_member(&part, &top, "decoder");
    if (t->decodes) RS_TRY(rs_decode_steps_read(&t->decode, &part, err));
    if (rs_spec_member(&part, &top, "added_tokens"))
        RS_TRY(rs_added_tokens_read(&t->added, &part, rs_text_model_vocabulary(t->model), err));
    return rs_added_tokens_finish(&t->added, &t->normal, err);
}

rs_status rs_tokenizer_parse(rs_tokenizer **out, const char *name, const char *json, size_t length,
                             rs_error *err)
{
    *out = NULL;
    rs_tokenizer *tokenizer = new_tokenizer(name);
    if (!tokenizer) return rs_fail_memory(err, name, sizeof *tokenizer);
    rs_json_index index;
    rs_status status = rs_json_index_build(&index, tokenizer->name, json, length, err);
    if (status == RS_OK) {
        status = read_json(tokenizer, &index, err);
        rs_json_index_free(&index);
    }
    if (status != RS_OK) {
        rs_tokenizer_close(tokenizer);
        return status;
    }
    *out = tokenizer;
    return RS_OK;
}

static rs_status parse_gguf(rs_tokenizer **out, const rs_mapping *mapping, rs_error *err)
{
    rs_tokenizer *tokenizer = new_tokenizer(mapping->path);
    if (!tokenizer) return rs_fail_memory(err, mapping->path, sizeof *tokenizer);
    rs_status status =
        rs_tokenizer_read_gguf(tokenizer, mapping->path, mapping->data, mapping->size, err);
    if (status == RS_OK)
        status = rs_added_tokens_finish(&tokenizer->added, &tokenizer->normal, err);
    if (status != RS_OK) {
        rs_tokenizer_close(tokenizer);
        return status;
    }
    *out = tokenizer;
    return RS_OK;
}

static rs_status open_file(rs_tokenizer **out, const char *path, rs_error *err)
{
    rs_mapping *mapping;
    RS_TRY(rs_mapping_open(&mapping, path, err));
    bool gguf = mapping->size >= 4 && memcmp(mapping->data, "GGUF", 4) == 0;
    rs_status status =
        gguf ? parse_gguf(out, mapping, err)
             : rs_tokenizer_parse(out, path, (const char *)mapping->data, mapping->size, err);
    /* A file cut short while it was read explains any other failure. */
    rs_status cut = rs_mapping_verify(mapping, NULL, err);
    rs_mapping_close(mapping);
    if (cut == RS_OK) return status;
    rs_tokenizer_close(*out);
    *out = NULL;
    return cut;
}

rs_status rs_tokenizer_open(rs_tokenizer **out, const char *path, rs_error *err)
{
    struct stat info;
    *out = NULL;
    if (stat(path, &info) != 0 || !S_ISDIR(info.st_mode)) return open_file(out, path, err);
    rs_buffer file = {0};
    rs_buffer_printf(&file, "%s/tokenizer.json", path);
    rs_status status;
    if (file.failed)
        status = rs_fail_memory(err, path, 0);
    else if (stat(file.data, &info) != 0)
        status = rs_fail(err, RS_E_TOKENIZER_MISSING, path,
                         "fetch the model's tokenizer.json, or name a .gguf file",
                         "has no tokenizer.json");
    else
        status = open_file(out, file.data, err);
    rs_buffer_free(&file);
    return status;
}

/* ---- encoding ---- */

typedef struct encoding {
    const rs_tokenizer *tokenizer;
    rs_context watch; /* for its flag alone */
    rs_text_work work;
    rs_text_model_work *model;
    rs_text_model_tokens tokens;
    rs_aligned source, text, part;
    rs_pieces raw, normal, pieces;
    rs_token_ids *out;
    size_t capacity;
    rs_error *err;
} encoding;

void rs_token_ids_free(rs_token_ids *ids)
{
    rs_free(ids->ids);
    rs_free(ids->begin);
    rs_free(ids->end);
    *ids = (rs_token_ids){0};
}

static rs_status grow(encoding *e)
{
    size_t capacity = e->capacity ? e->capacity * 2 : 64;
    rs_token_ids *out = e->out;
    int32_t *ids = rs_realloc(out->ids, capacity, sizeof *ids);
    if (ids) out->ids = ids;
    size_t *begin = ids ? rs_realloc(out->begin, capacity, sizeof *begin) : NULL;
    if (begin) out->begin = begin;
    size_t *end = begin ? rs_realloc(out->end, capacity, sizeof *end) : NULL;
    if (!end) return rs_fail_memory(e->err, "the tokens of a text", capacity);
    out->end = end;
    e->capacity = capacity;
    return RS_OK;
}

static rs_status add_token(encoding *e, int32_t id, size_t begin, size_t end)
{
    rs_token_ids *out = e->out;
    if (out->n == e->capacity) RS_TRY(grow(e));
    out->ids[out->n] = id;
    out->begin[out->n] = begin;
    out->end[out->n] = end > begin ? end : begin;
    out->n++;
    return RS_OK;
}

static rs_status add_added(encoding *e, const rs_aligned *text, const rs_piece *piece)
{
    size_t begin = rs_aligned_begin(text, piece->begin);
    size_t end = piece->end > piece->begin ? rs_aligned_end(text, piece->end - 1) : begin;
    return add_token(e, piece->id, begin, end);
}

/* One piece through the model. */
static rs_status encode_piece(encoding *e, const rs_aligned *text, const rs_piece *piece)
{
    e->tokens.n = 0;
    RS_TRY(rs_check_cancelled(&e->watch, e->err));
    RS_TRY(rs_text_model_encode(&e->tokens, e->tokenizer->model, e->model,
                                text->bytes + piece->begin, piece->end - piece->begin, e->err));
    for (size_t i = 0; i < e->tokens.n; i++) {
        const rs_text_model_token *token = &e->tokens.items[i];
        size_t first = piece->begin + token->begin;
        RS_TRY(add_token(e, token->id, rs_aligned_begin(text, first),
                         rs_aligned_end(text, first + token->bytes - 1)));
    }
    return RS_OK;
}

/* A normalised text without added tokens: pre-tokenise, then each piece. */
static rs_status encode_part(encoding *e, rs_aligned *text)
{
    e->pieces.n = 0;
    rs_pieces_add(&e->pieces, 0, text->n, RS_NO_TOKEN);
    if (e->pieces.failed) return rs_fail_memory(e->err, "splitting a text", text->n);
    RS_TRY(rs_split_steps_run(text, &e->pieces, &e->tokenizer->split, &e->work, e->err));
    for (size_t i = 0; i < e->pieces.n; i++)
        RS_TRY(encode_piece(e, text, &e->pieces.items[i]));
    return RS_OK;
}

/* The longest text that one character of Unicode decomposes into is 11 times as long; steps that
 * make more than MOST_GROWTH times the text of it are out to fill the memory. */
enum { MOST_GROWTH = 64, FREE_GROWTH = 65536 };

static size_t growth_limit(size_t length)
{
    return length < RS_TEXT_MAX / MOST_GROWTH ? length * MOST_GROWTH + FREE_GROWTH
                                              : RS_TEXT_MAX * 2;
}

static void limit_growth(encoding *e, size_t length)
{
    e->text.limit = e->part.limit = e->work.spare.limit = growth_limit(length);
}

/* A stretch of the source without raw added tokens. */
static rs_status encode_stretch(encoding *e, size_t begin, size_t end)
{
    rs_aligned *text = &e->text;
    limit_growth(e, end - begin);
    rs_aligned_clear(text);
    rs_aligned_copy(text, &e->source, begin, end - begin);
    RS_TRY(rs_aligned_check(text, e->err));
    RS_TRY(rs_normal_steps_run(text, &e->tokenizer->normal, &e->work, e->err));
    e->normal.n = 0;
    RS_TRY(rs_added_tokens_cut(&e->normal, &e->tokenizer->added, true, text->bytes, 0, text->n,
                               e->err));
    if (e->normal.n == 1 && e->normal.items[0].id == RS_NO_TOKEN) return encode_part(e, text);
    for (size_t i = 0; i < e->normal.n; i++) {
        rs_piece piece = e->normal.items[i];
        if (piece.id != RS_NO_TOKEN) {
            RS_TRY(add_added(e, text, &piece));
            continue;
        }
        rs_aligned_clear(&e->part);
        rs_aligned_copy(&e->part, text, piece.begin, piece.end - piece.begin);
        RS_TRY(rs_aligned_check(&e->part, e->err));
        RS_TRY(encode_part(e, &e->part));
    }
    return RS_OK;
}

static rs_status encode_all(encoding *e, const char *text, size_t length, bool special)
{
    const rs_tokenizer *t = e->tokenizer;
    RS_TRY(rs_text_model_work_new(&e->model, e->err));
    rs_searcher_begin(&e->work.searcher, length, t->cancel);
    rs_aligned_repair(&e->source, text, length);
    RS_TRY(rs_aligned_check(&e->source, e->err));
    RS_TRY(rs_added_tokens_cut(&e->raw, &t->added, false, e->source.bytes, 0, e->source.n, e->err));
    for (size_t i = 0; special && i < t->frame.before.n; i++)
        RS_TRY(add_token(e, t->frame.before.items[i], 0, 0));
    for (size_t i = 0; i < e->raw.n; i++) {
        const rs_piece *piece = &e->raw.items[i];
        if (piece->id != RS_NO_TOKEN)
            RS_TRY(add_added(e, &e->source, piece));
        else
            RS_TRY(encode_stretch(e, piece->begin, piece->end));
    }
    for (size_t i = 0; special && i < t->frame.after.n; i++)
        RS_TRY(add_token(e, t->frame.after.items[i], length, length));
    return RS_OK;
}

rs_status rs_tokenizer_encode(rs_token_ids *out, const rs_tokenizer *tokenizer, const char *text,
                              size_t length, bool special, rs_error *err)
{
    *out = (rs_token_ids){0};
    if (length > RS_TEXT_MAX)
        return rs_fail(err, RS_E_UNSUPPORTED, "text", "cut it into parts",
                       "has %zu bytes; at most %zu are tokenised at once", length, RS_TEXT_MAX);
    encoding e = {
        .tokenizer = tokenizer, .out = out, .watch = {.cancel = tokenizer->cancel}, .err = err};
    rs_status status = encode_all(&e, text, length, special);
    rs_text_work_free(&e.work);
    rs_text_model_work_free(e.model);
    rs_free(e.tokens.items);
    rs_aligned_free(&e.source);
    rs_aligned_free(&e.text);
    rs_aligned_free(&e.part);
    rs_pieces_free(&e.raw);
    rs_pieces_free(&e.normal);
    rs_pieces_free(&e.pieces);
    if (status != RS_OK) rs_token_ids_free(out);
    return status;
}

/* ---- asking ---- */

void rs_tokenizer_specials(const rs_tokenizer *tokenizer, const int32_t **before, size_t *n_before,
                           const int32_t **after, size_t *n_after)
{
    *before = tokenizer->frame.before.items;
    *n_before = tokenizer->frame.before.n;
    *after = tokenizer->frame.after.items;
    *n_after = tokenizer->frame.after.n;
}

static int64_t largest_of(const rs_ids *ids, int64_t largest)
{
    for (size_t i = 0; i < ids->n; i++)
        if (ids->items[i] > largest) largest = ids->items[i];
    return largest;
}

int64_t rs_tokenizer_vocabulary(const rs_tokenizer *tokenizer)
{
    int64_t largest = (int64_t)rs_text_model_vocabulary(tokenizer->model)->n_ids - 1;
    for (size_t i = 0; i < tokenizer->added.n; i++)
        if (tokenizer->added.items[i].id > largest) largest = tokenizer->added.items[i].id;
    largest = largest_of(&tokenizer->frame.before, largest);
    return largest_of(&tokenizer->frame.after, largest) + 1;
}

const char *rs_tokenizer_token(const rs_tokenizer *tokenizer, int32_t id)
{
    const rs_added_token *added = rs_added_tokens_by_id(&tokenizer->added, id);
    if (added) return added->text;
    const rs_vocabulary *vocabulary = rs_text_model_vocabulary(tokenizer->model);
    return id >= 0 && (size_t)id < vocabulary->n_ids ? vocabulary->tokens[id].text : NULL;
}

int32_t rs_tokenizer_id(const rs_tokenizer *tokenizer, const char *token)
{
    size_t length = strlen(token);
    const rs_added_token *added = rs_added_tokens_by_text(&tokenizer->added, token, length);
    return added ? added->id
                 : rs_vocabulary_find(rs_text_model_vocabulary(tokenizer->model), token, length);
}

/* ---- decoding ---- */

static void append_token(rs_decoded *texts, const rs_tokenizer *tokenizer, int32_t id,
                         bool skip_special)
{
    const rs_added_token *added = rs_added_tokens_by_id(&tokenizer->added, id);
    const rs_vocabulary *vocabulary = rs_text_model_vocabulary(tokenizer->model);
    if (added && added->special && skip_special) return;
    if (added && added->normal)
        rs_buffer_append(&texts->bytes, added->normal, added->normal_length);
    else if (added)
        rs_buffer_append(&texts->bytes, added->text, added->length);
    else if (id >= 0 && (size_t)id < vocabulary->n_ids && vocabulary->tokens[id].text)
        rs_buffer_append(&texts->bytes, vocabulary->tokens[id].text, vocabulary->tokens[id].length);
    else
        return;
    rs_decoded_end(texts);
}

/* Without a decoder the tokens stand side by side. */
static rs_status join(rs_decoded *texts, rs_error *err)
{
    rs_buffer joined = {0};
    for (size_t i = 0, begin = 0; i < texts->n; begin = texts->ends[i++]) {
        if (i > 0) rs_buffer_puts(&joined, " ");
        if (texts->ends[i] > begin)
            rs_buffer_append(&joined, texts->bytes.data + begin, texts->ends[i] - begin);
    }
    bool failed = joined.failed;
    rs_buffer_free(&texts->bytes);
    texts->bytes = joined;
    return failed ? rs_fail_memory(err, "decoding", 0) : RS_OK;
}

rs_status rs_tokenizer_decode(char **text, const rs_tokenizer *tokenizer, const int32_t *ids,
                              size_t n, bool skip_special, rs_error *err)
{
    rs_decoded texts = {0};
    rs_text_work work = {0};
    *text = NULL;
    for (size_t i = 0; i < n; i++)
        append_token(&texts, tokenizer, ids[i], skip_special);
    rs_status status = RS_OK;
    texts.limit = growth_limit(texts.bytes.length);
    rs_searcher_begin(&work.searcher, texts.bytes.length, tokenizer->cancel);
    if (texts.failed || texts.bytes.failed)
        status = rs_fail_memory(err, "decoding", n);
    else if (tokenizer->decodes)
        status = rs_decode_steps_run(&texts, &tokenizer->decode, &work, err);
    else
        status = join(&texts, err);
    rs_text_work_free(&work);
    if (status == RS_OK) {
        rs_buffer_append(&texts.bytes, "", 0); /* at least the NUL */
        if (texts.bytes.failed) status = rs_fail_memory(err, "decoding", n);
    }
    if (status == RS_OK) {
        *text = texts.bytes.data;
        texts.bytes = (rs_buffer){0};
    }
    rs_decoded_free(&texts);
    return status;
}
