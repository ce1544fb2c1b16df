/*
 * fuzz_tokenizer.c: a tokenizer.json and a text in one input, parted by the first byte 0xFF (which
 * no JSON holds). What is accepted encodes the text into ids of its vocabulary whose stretches lie
 * in the text, and decodes them; when there is no 0xFF, the text is the JSON itself.
 */
#include "base/memory.h"
#include "text/tokenizer.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const rs_tokenizer *tokenizer, const char *text, size_t length, bool special)
{
    rs_token_ids ids;
    rs_error err;
    char *back;
    if (rs_tokenizer_encode(&ids, tokenizer, text, length, special, &err) != RS_OK) return;
    for (size_t i = 0; i < ids.n; i++)
        if (ids.ids[i] < 0 || ids.ids[i] >= rs_tokenizer_vocabulary(tokenizer) ||
            ids.begin[i] > ids.end[i] || ids.end[i] > length)
            abort();
    if (rs_tokenizer_decode(&back, tokenizer, ids.ids, ids.n, special, &err) == RS_OK)
        rs_free(back);
    rs_token_ids_free(&ids);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    rs_tokenizer *tokenizer;
    rs_error err;
    const char *json = (const char *)data;
    const char *cut = size ? memchr(json, 0xFF, size) : NULL;
    size_t length = cut ? (size_t)(cut - json) : size;
    const char *text = cut ? cut + 1 : json;
    if (rs_tokenizer_parse(&tokenizer, "memory", json, length, &err) != RS_OK) return 0;
    size_t n = cut ? size - length - 1 : size;
    check(tokenizer, text, n, true);
    check(tokenizer, text, n, false);
    rs_tokenizer_close(tokenizer);
    return 0;
}
