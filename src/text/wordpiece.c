/* wordpiece.c: the longest token that the rest of a word begins with, again and again (BERT). */
#include "text/model_parts.h"

static size_t characters(const char *text, size_t length)
{
    size_t n = 0;
    for (size_t i = 0; i < length; i++)
        n += ((unsigned char)text[i] & 0xC0) != 0x80;
    return n;
}

/*
 * The longest token at text + begin, in *bytes of it; -1 when there is none. The hashes of all
 * beginnings are made in one pass; then they are tried from the longest down.
 */
static int32_t longest(const rs_text_model *model, rs_text_model_work *work, const char *text,
                       size_t begin, size_t length, size_t *bytes)
{
    const char *prefix = begin > 0 ? model->prefix : NULL;
    size_t before = prefix ? model->prefix_length : 0;
    uint64_t hashes[RS_WORDPIECE_LONGEST + 1];
    size_t room = model->vocabulary.longest, end = length - begin;
    if (room <= before) return -1;
    if (end > room - before) end = room - before;
    uint64_t h = RS_HASH_START;
    rs_buffer *word = &work->word;
    word->length = 0;
    if (prefix) rs_buffer_append(word, prefix, before);
    rs_buffer_append(word, text + begin, end);
    if (word->failed) return -1;
    for (size_t i = 0; i < before; i++)
        h = rs_hash_byte(h, word->data[i]);
    for (size_t i = 0; i < end; i++)
        hashes[i + 1] = h = rs_hash_byte(h, text[begin + i]);
    for (size_t n = end; n > 0; n--) {
        if (begin + n < length && ((unsigned char)text[begin + n] & 0xC0) == 0x80) continue;
        int32_t id =
            rs_vocabulary_find_hashed(&model->vocabulary, word->data, before + n, hashes[n]);
        if (id < 0 || !model->vocabulary.tokens[id].plain) continue;
        *bytes = n;
        return id;
    }
    return -1;
}

static rs_status whole_unknown(rs_text_model_tokens *out, const rs_text_model *model, size_t length,
                               rs_error *err)
{
    if (model->unknown < 0)
        return rs_fail(err, RS_E_TOKENIZER_TEXT, "tokenizer", NULL,
                       "a word of %zu bytes has no tokens, and the vocabulary has no unknown token",
                       length);
    rs_text_model_tokens_add(out, model->unknown, 0, length);
    return RS_OK;
}

rs_status rs_wordpiece_encode(rs_text_model_tokens *out, const rs_text_model *model,
                              rs_text_model_work *work, const char *text, size_t length,
                              rs_error *err)
{
    size_t first = out->n;
    if ((int64_t)characters(text, length) > model->max_characters)
        return whole_unknown(out, model, length, err);
    for (size_t begin = 0, bytes = 0; begin < length; begin += bytes) {
        int32_t id = longest(model, work, text, begin, length, &bytes);
        if (work->word.failed) return rs_fail_memory(err, "a word", length);
        if (id < 0) {
            out->n = first;
            return whole_unknown(out, model, length, err);
        }
        rs_text_model_tokens_add(out, id, begin, bytes);
    }
    return RS_OK;
}
