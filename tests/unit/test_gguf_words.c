/* test_gguf_words.c: each name of tokenizer.ggml.pre gives the ids that the `tokenizers` package
 * gives for its model's pipeline (tests/oracle/gguf_words.py), and names not known are refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/memory.h"
#include "case_files.h"
#include "text/tokenizer.h"

#include <jansson.h>

#define KEY "tokenizer.ggml.pre"

static json_t *load(const char *name)
{
    char path[512];
    snprintf(path, sizeof path, "%s/tokenizer/%s.json", RS_TEST_DATA, name);
    json_t *value = json_load_file(path, JSON_ALLOW_NUL, NULL);
    if (!value) fail_msg("%s cannot be read", path);
    return value;
}

static void put(FILE *file, const void *bytes, size_t n)
{
    assert_int_equal(fwrite(bytes, 1, n, file), n);
}

/* Opens the golden file with another name in it: key, type 8 (a string), its length, the name. */
static rs_status open_as(rs_tokenizer **out, const char *name, rs_error *err)
{
    char path[512];
    size_t size;
    uint64_t length = strlen(name), old;
    snprintf(path, sizeof path, "%s/tokenizer/pre_names.gguf", RS_TEST_DATA);
    char *bytes = read_whole(path, &size);
    const char *key = memmem(bytes, size, KEY, strlen(KEY));
    assert_non_null(key);
    size_t at = (size_t)(key - bytes) + strlen(KEY) + 4;
    memcpy(&old, bytes + at, sizeof old);
    snprintf(path, sizeof path, "words_%s.gguf", name);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    put(file, bytes, at);
    put(file, &length, sizeof length);
    put(file, name, (size_t)length);
    at += 8 + (size_t)old;
    put(file, bytes + at, size - at);
    assert_int_equal(fclose(file), 0);
    free(bytes);
    rs_status status = rs_tokenizer_open(out, path, err);
    unlink(path);
    return status;
}

/* FNV-1a of the ids as little-endian int32. */
static void hash_ids(char text[9], const rs_token_ids *ids)
{
    uint32_t state = 0x811C9DC5u;
    for (size_t i = 0; i < ids->n; i++)
        for (int k = 0; k < 4; k++)
            state = (state ^ ((uint32_t)ids->ids[i] >> 8 * k & 0xFF)) * 0x01000193u;
    snprintf(text, 9, "%08x", state);
}

static char *bytes_of(const char *hex, size_t *n)
{
    *n = strlen(hex) / 2;
    char *bytes = malloc(*n + 1);
    assert_non_null(bytes);
    for (size_t i = 0; i < *n; i++) {
        unsigned value;
        assert_int_equal(sscanf(hex + 2 * i, "%2x", &value), 1);
        bytes[i] = (char)value;
    }
    return bytes;
}

static void check_text(const rs_tokenizer *tokenizer, const char *name, size_t i, const char *hex,
                       const char *wanted)
{
    size_t length;
    char *text = bytes_of(hex, &length), got[9];
    rs_token_ids ids;
    rs_error err = {0};
    rs_status status = rs_tokenizer_encode(&ids, tokenizer, text, length, true, &err);
    if (strcmp(wanted, "refused") == 0) {
        if (status != RS_E_TOKENIZER_TEXT || !strstr(err.what, name))
            fail_msg("%s, text %zu: should be refused, got %s: %s", name, i, rs_status_name(status),
                     err.what);
    } else {
        if (status != RS_OK) fail_msg("%s, text %zu: %s", name, i, err.what);
        hash_ids(got, &ids);
        if (strcmp(got, wanted) != 0) fail_msg("%s, text %zu: other ids", name, i);
    }
    rs_token_ids_free(&ids);
    free(text);
}

static void check_name(const char *name, const json_t *texts, const char *wanted)
{
    rs_tokenizer *tokenizer = NULL;
    rs_error err = {0};
    if (open_as(&tokenizer, name, &err) != RS_OK) fail_msg("%s: %s", name, err.what);
    char word[16];
    int used;
    for (size_t i = 0; i < json_array_size(texts); i++, wanted += used) {
        assert_int_equal(sscanf(wanted, "%15s%n", word, &used), 1);
        check_text(tokenizer, name, i, json_string_value(json_array_get(texts, i)), word);
    }
    rs_tokenizer_close(tokenizer);
}

static void names_give_the_ids_of_their_models(void **state)
{
    (void)state;
    json_t *texts = load("texts"), *all = load("pre_names");
    json_array_extend(texts, json_object_get(all, "texts"));
    const json_t *cases = json_object_get(all, "cases");
    size_t n = 0;
    for (size_t c = 0; c < json_array_size(cases); c++) {
        const json_t *one = json_array_get(cases, c), *names = json_object_get(one, "names");
        for (size_t i = 0; i < json_array_size(names); i++, n++)
            check_name(json_string_value(json_array_get(names, i)), texts,
                       json_string_value(json_object_get(one, "ids")));
    }
    assert_true(n > 60);
    json_decref(texts);
    json_decref(all);
}

static void other_names_are_refused(void **state)
{
    (void)state;
    json_t *all = load("pre_names");
    json_t *refused = json_object_get(all, "refused");
    static const char *const more[] = {"", "gpt-2x", "gpt-", "GPT-2", "no such name"};
    for (size_t i = 0; i < sizeof more / sizeof *more; i++)
        json_array_append_new(refused, json_string(more[i]));
    assert_true(json_array_size(refused) > 10);
    for (size_t i = 0; i < json_array_size(refused); i++) {
        const char *name = json_string_value(json_array_get(refused, i));
        rs_tokenizer *tokenizer = NULL;
        rs_error err = {0};
        char says[64];
        rs_status status = open_as(&tokenizer, name, &err);
        snprintf(says, sizeof says, KEY ": '%s' is not supported", name);
        if (status != RS_E_TOKENIZER_UNKNOWN || !strstr(err.what, says))
            fail_msg("'%s': %s: %s", name, rs_status_name(status), err.what);
        assert_null(tokenizer);
    }
    json_decref(all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_give_the_ids_of_their_models),
        cmocka_unit_test(other_names_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
