/* test_tokenizer.c: ids, offsets and decoded texts against the `tokenizers` package and
 * SentencePiece (tests/oracle/make_tokenizer_golden.py), and what is asked of an open tokenizer. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/memory.h"
#include "base/text.h"
#include "case_files.h"
#include "text/tokenizer.h"

#include <jansson.h>

static const char *const names[] = {
    "bert",        "bert_cased", "gpt2",       "roberta",    "llama2",      "llama2_first",
    "llama3",      "qwen2",      "gemma",      "albert",     "xlm_roberta", "t5",
    "clip",        "splits",     "words",      "digits",     "gguf_bert",   "gguf_gpt2",
    "gguf_llama3", "gguf_qwen2", "gguf_llama", "gguf_gemma", "gguf_t5"};
enum { N_NAMES = sizeof names / sizeof *names };

static json_t *load(const char *name, const char *suffix)
{
    char path[512];
    snprintf(path, sizeof path, "%s/tokenizer/%s%s", RS_TEST_DATA, name, suffix);
    json_t *value = json_load_file(path, JSON_ALLOW_NUL, NULL);
    if (!value) fail_msg("%s cannot be read", path);
    return value;
}

static rs_tokenizer *open_golden(const char *name)
{
    char path[512];
    rs_tokenizer *tokenizer = NULL;
    rs_error err = {0};
    snprintf(path, sizeof path, "%s/tokenizer/%s.%s", RS_TEST_DATA, name,
             strncmp(name, "gguf_", 5) == 0 ? "gguf" : "json");
    if (rs_tokenizer_open(&tokenizer, path, &err) != RS_OK)
        fail_msg("%s: %s: %s", name, err.where, err.what);
    return tokenizer;
}

/* Bytes from hexadecimal; freed by the caller. */
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

/* Each token's stretch lies in the text, and they do not go back. */
static void check_offsets(const rs_token_ids *ids, size_t length)
{
    for (size_t i = 0; i < ids->n; i++) {
        assert_true(ids->begin[i] <= ids->end[i]);
        assert_true(ids->end[i] <= length);
    }
}

static void check_ids(const char *name, size_t text, const rs_token_ids *ids,
                      const json_t *expected)
{
    size_t n = json_array_size(expected);
    for (size_t i = 0; i < n && i < ids->n; i++)
        if (ids->ids[i] != json_integer_value(json_array_get(expected, i)))
            fail_msg("%s, text %zu: token %zu is %d, not %d", name, text, i, ids->ids[i],
                     (int)json_integer_value(json_array_get(expected, i)));
    if (ids->n != n) fail_msg("%s, text %zu: %zu tokens, not %zu", name, text, ids->n, n);
}

static void ids_equal_the_reference(void **state)
{
    const char *name = *state;
    rs_tokenizer *tokenizer = open_golden(name);
    json_t *texts = load("texts", ".json"), *expected = load(name, ".ids.json");
    const json_t *all = json_object_get(expected, "ids");
    assert_int_equal(json_array_size(texts), json_array_size(all));
    for (size_t i = 0; i < json_array_size(texts); i++) {
        if (json_is_null(json_array_get(all, i))) continue;
        size_t length;
        char *text = bytes_of(json_string_value(json_array_get(texts, i)), &length);
        rs_token_ids ids;
        rs_error err = {0};
        if (rs_tokenizer_encode(&ids, tokenizer, text, length, true, &err) != RS_OK)
            fail_msg("%s, text %zu: %s", name, i, err.what);
        check_ids(name, i, &ids, json_array_get(all, i));
        check_offsets(&ids, length);
        rs_token_ids_free(&ids);
        free(text);
    }
    json_decref(texts);
    json_decref(expected);
    rs_tokenizer_close(tokenizer);
}

static void decoded_texts_equal_the_reference(void **state)
{
    const char *name = *state;
    rs_tokenizer *tokenizer = open_golden(name);
    json_t *texts = load("texts", ".json"), *expected = load(name, ".ids.json");
    const json_t *decoded = json_object_get(expected, "decoded");
    for (size_t i = 0; i < json_array_size(decoded); i++) {
        size_t length;
        char *text = bytes_of(json_string_value(json_array_get(texts, i)), &length), *back;
        rs_token_ids ids;
        rs_error err = {0};
        assert_int_equal(rs_tokenizer_encode(&ids, tokenizer, text, length, false, &err), RS_OK);
        assert_int_equal(rs_tokenizer_decode(&back, tokenizer, ids.ids, ids.n, false, &err), RS_OK);
        const char *wanted = json_string_value(json_array_get(decoded, i));
        if (strcmp(back, wanted) != 0)
            fail_msg("%s, text %zu: decoded to '%s', not '%s'", name, i, back, wanted);
        rs_free(back);
        rs_token_ids_free(&ids);
        free(text);
    }
    json_decref(texts);
    json_decref(expected);
    rs_tokenizer_close(tokenizer);
}

/* ---- offsets ---- */

static void expect_stretches(const char *name, const char *text, size_t length,
                             const size_t (*wanted)[2], size_t n)
{
    rs_tokenizer *tokenizer = open_golden(name);
    rs_token_ids ids;
    rs_error err = {0};
    assert_int_equal(rs_tokenizer_encode(&ids, tokenizer, text, length, true, &err), RS_OK);
    assert_int_equal(ids.n, n);
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(ids.begin[i], wanted[i][0]);
        assert_int_equal(ids.end[i], wanted[i][1]);
    }
    rs_token_ids_free(&ids);
    rs_tokenizer_close(tokenizer);
}

static void offsets_point_into_the_text(void **state)
{
    (void)state;
    /* [CLS] the e(combining acute) [SEP] the [SEP]; the accent belongs to its letter's bytes */
    static const size_t bert[][2] = {{0, 0}, {2, 5}, {6, 7}, {10, 15}, {15, 18}, {18, 18}};
    expect_stretches("bert", "  The e\xCC\x81 [SEP]the", 18, bert, 6);
    /* U+FFFD stands for one broken byte: all its tokens have that byte. */
    rs_tokenizer *tokenizer = open_golden("gpt2");
    rs_token_ids ids;
    rs_error err = {0};
    assert_int_equal(rs_tokenizer_encode(&ids, tokenizer, "a\xFF b", 4, true, &err), RS_OK);
    assert_true(ids.n >= 3);
    for (size_t i = 1; i + 1 < ids.n; i++) {
        assert_int_equal(ids.begin[i], 1);
        assert_int_equal(ids.end[i], 2);
    }
    assert_int_equal(ids.begin[ids.n - 1], 2);
    assert_int_equal(ids.end[ids.n - 1], 4);
    rs_token_ids_free(&ids);
    rs_tokenizer_close(tokenizer);
}

/* ---- asking ---- */

static void tokens_and_ids_are_found(void **state)
{
    (void)state;
    rs_tokenizer *tokenizer = open_golden("bert");
    const int32_t *before, *after;
    size_t n_before, n_after;
    rs_tokenizer_specials(tokenizer, &before, &n_before, &after, &n_after);
    assert_int_equal(n_before, 1);
    assert_int_equal(n_after, 1);
    assert_int_equal(before[0], 2);
    assert_int_equal(after[0], 3);
    assert_string_equal(rs_tokenizer_token(tokenizer, 2), "[CLS]");
    assert_int_equal(rs_tokenizer_id(tokenizer, "[SEP]"), 3);
    assert_int_equal(rs_tokenizer_id(tokenizer, "no such token"), -1);
    int64_t n = rs_tokenizer_vocabulary(tokenizer);
    assert_true(n > 100);
    assert_non_null(rs_tokenizer_token(tokenizer, (int32_t)n - 1));
    assert_null(rs_tokenizer_token(tokenizer, (int32_t)n));
    assert_null(rs_tokenizer_token(tokenizer, -1));
    rs_tokenizer_close(tokenizer);
}

static void special_tokens_are_left_out_on_request(void **state)
{
    (void)state;
    rs_tokenizer *tokenizer = open_golden("bert");
    rs_error err;
    char *text;
    int32_t ids[] = {2, rs_tokenizer_id(tokenizer, "the"), 3, 1 << 30, -5};
    assert_int_equal(rs_tokenizer_decode(&text, tokenizer, ids, 5, true, &err), RS_OK);
    assert_string_equal(text, "the");
    rs_free(text);
    assert_int_equal(rs_tokenizer_decode(&text, tokenizer, ids, 5, false, &err), RS_OK);
    assert_string_equal(text, "[CLS] the [SEP]");
    rs_free(text);
    assert_int_equal(rs_tokenizer_decode(&text, tokenizer, ids, 0, false, &err), RS_OK);
    assert_string_equal(text, "");
    rs_free(text);
    rs_tokenizer_close(tokenizer);
}

/* ---- long texts: linear time and memory, no recursion ---- */

static void long_words_are_encoded(void **state)
{
    enum { N = 1000000 };
    const char *name = *state;
    rs_tokenizer *tokenizer = open_golden(name);
    char *text = malloc(N);
    assert_non_null(text);
    static const char *const fills[] = {"a",   " ", "1", "\n", "th", "\xCC\x81", "\xF0\x9F\x98\x80",
                                        "\xFF"};
    for (size_t f = 0; f < sizeof fills / sizeof *fills; f++) {
        size_t unit = strlen(fills[f]);
        for (size_t i = 0; i < N; i++)
            text[i] = fills[f][i % unit];
        rs_token_ids ids;
        rs_error err = {0};
        rs_status status = rs_tokenizer_encode(&ids, tokenizer, text, N / unit * unit, true, &err);
        if (status != RS_OK) fail_msg("%s, fill %zu: %s", name, f, err.what);
        rs_token_ids_free(&ids);
    }
    free(text);
    rs_tokenizer_close(tokenizer);
}

/* All texts of the golden list and a page of prose, several times over. */
static char *make_long(size_t *length)
{
    enum { MOST = 1 << 18 };
    char *out = malloc(MOST), path[512];
    assert_non_null(out);
    snprintf(path, sizeof path, "%s/tokenizer/real_text.txt", RS_TEST_DATA);
    size_t page_size, n;
    char *page = read_whole(path, &page_size);
    json_t *texts = load("texts", ".json");
    *length = 0;
    for (int round = 0; round < 3; round++) {
        for (size_t i = 0; i < json_array_size(texts); i++) {
            char *text = bytes_of(json_string_value(json_array_get(texts, i)), &n);
            bool fits = rs_utf8_valid(text, n) && n < 4000 && *length + n < MOST - page_size;
            if (fits) memcpy(out + *length, text, n);
            if (fits) *length += n;
            free(text);
        }
        if (*length + page_size >= MOST) break;
        memcpy(out + *length, page, page_size);
        *length += page_size;
    }
    json_decref(texts);
    free(page);
    return out;
}

/* In pieces or whole: the same ids, for every tokenizer. */
static void long_texts_in_pieces(void **state)
{
    (void)state;
    static const size_t pieces[] = {64, 300, 1000, 4097, 30000};
    size_t length;
    char *text = make_long(&length);
    assert_true(length > 40000);
    for (size_t i = 0; i < N_NAMES; i++) {
        rs_tokenizer *tokenizer = open_golden(names[i]);
        for (size_t p = 0; p < sizeof pieces / sizeof *pieces; p++) {
            rs_token_ids whole;
            rs_error err = {0};
            int32_t *ids = NULL;
            size_t n = 0;
            rs_status status = rs_tokenizer_encode(&whole, tokenizer, text, length, false, &err);
            rs_status also =
                rs_tokenizer_encode_long(&ids, &n, tokenizer, text, length, pieces[p], &err);
            assert_int_equal(also, status); /* some know not every character */
            assert_int_equal(n, whole.n);
            if (n && memcmp(ids, whole.ids, n * sizeof *ids) != 0)
                fail_msg("%s, pieces of %zu: other ids", names[i], pieces[p]);
            rs_free(ids);
            rs_token_ids_free(&whole);
        }
        rs_tokenizer_close(tokenizer);
    }
    free(text);
}

/* Two words: one of many pieces, which no two of them agree about, and nothing at all. */
static void long_words_are_taken_whole(void **state)
{
    (void)state;
    rs_tokenizer *tokenizer = open_golden("gpt2");
    static const char *const fills[] = {"a", "th", "\xCC\x81", ""};
    for (size_t f = 0; f < sizeof fills / sizeof *fills; f++) {
        char text[6001];
        size_t unit = strlen(fills[f]), length = unit ? 6000 : 0, n;
        for (size_t i = 0; i < length; i++)
            text[i] = fills[f][i % unit];
        rs_token_ids whole;
        rs_error err = {0};
        int32_t *ids;
        assert_int_equal(rs_tokenizer_encode(&whole, tokenizer, text, length, false, &err), RS_OK);
        assert_int_equal(rs_tokenizer_encode_long(&ids, &n, tokenizer, text, length, 101, &err),
                         RS_OK);
        assert_int_equal(n, whole.n);
        assert_non_null(ids);
        for (size_t i = 0; i < n; i++)
            assert_int_equal(ids[i], whole.ids[i]);
        rs_free(ids);
        rs_token_ids_free(&whole);
    }
    rs_tokenizer_close(tokenizer);
}

/* ---- lack of memory ---- */

static void long_texts_survive_it(void **state)
{
    (void)state;
    rs_tokenizer *tokenizer = open_golden("gpt2");
    size_t length;
    char *text = make_long(&length);
    rs_status status;
    int64_t n = 0, blocks = rs_memory_blocks();
    do {
        int32_t *ids = NULL;
        size_t count;
        rs_error err = {0};
        rs_memory_fail_at(n += n / 50 + 1);
        status = rs_tokenizer_encode_long(&ids, &count, tokenizer, text, 6000, 1000, &err);
        rs_memory_fail_at(0);
        if (status != RS_OK) assert_int_equal(status, RS_E_NO_MEMORY);
        rs_free(ids);
        assert_int_equal(rs_memory_blocks(), blocks);
    } while (status != RS_OK);
    assert_true(n > 20);
    free(text);
    rs_tokenizer_close(tokenizer);
}

static void survives_lack_of_memory(void **state)
{
    const char *name = *state;
    static const char text[] =
        "The caf\xC3\xA9 isn't [SEP] <s> \xE4\xBD\xA0\xE5\xA5\xBD \xFF e\xCC\x81\n\n12";
    char path[512];
    snprintf(path, sizeof path, "%s/tokenizer/%s.%s", RS_TEST_DATA, name,
             strncmp(name, "gguf_", 5) == 0 ? "gguf" : "json");
    rs_status status;
    int64_t n = 0;
    do {
        rs_tokenizer *tokenizer = NULL;
        rs_token_ids ids = {0};
        char *back = NULL;
        rs_error err = {0};
        rs_memory_fail_at(++n);
        status = rs_tokenizer_open(&tokenizer, path, &err);
        if (status == RS_OK)
            status = rs_tokenizer_encode(&ids, tokenizer, text, sizeof text - 1, true, &err);
        if (status == RS_OK)
            status = rs_tokenizer_decode(&back, tokenizer, ids.ids, ids.n, false, &err);
        rs_memory_fail_at(0);
        if (status != RS_OK) assert_int_equal(status, RS_E_NO_MEMORY);
        rs_free(back);
        rs_token_ids_free(&ids);
        rs_tokenizer_close(tokenizer);
    } while (status != RS_OK);
    assert_true(n > 20);
}

#define EACH(function, name)                                                                       \
    {                                                                                              \
#function ": " name, function, NULL, NULL, (void *)(uintptr_t)name                         \
    }

int main(void)
{
    struct CMUnitTest golden[2 * N_NAMES];
    static char titles[2 * N_NAMES][96];
    for (size_t i = 0; i < N_NAMES; i++) {
        snprintf(titles[2 * i], 96, "ids equal the reference: %s", names[i]);
        snprintf(titles[2 * i + 1], 96, "decoded texts equal the reference: %s", names[i]);
        golden[2 * i] = (struct CMUnitTest){.name = titles[2 * i],
                                            .test_func = ids_equal_the_reference,
                                            .initial_state = (void *)(uintptr_t)names[i]};
        golden[2 * i + 1] = golden[2 * i];
        golden[2 * i + 1].name = titles[2 * i + 1];
        golden[2 * i + 1].test_func = decoded_texts_equal_the_reference;
    }
    const struct CMUnitTest others[] = {
        cmocka_unit_test(offsets_point_into_the_text),
        cmocka_unit_test(tokens_and_ids_are_found),
        cmocka_unit_test(special_tokens_are_left_out_on_request),
        EACH(long_words_are_encoded, "bert"),
        EACH(long_words_are_encoded, "gpt2"),
        EACH(long_words_are_encoded, "llama2"),
        EACH(long_words_are_encoded, "llama3"),
        EACH(long_words_are_encoded, "qwen2"),
        EACH(long_words_are_encoded, "albert"),
        EACH(long_words_are_encoded, "gguf_llama"),
        cmocka_unit_test(long_texts_in_pieces),
        cmocka_unit_test(long_words_are_taken_whole),
        cmocka_unit_test(long_texts_survive_it),
        EACH(survives_lack_of_memory, "bert"),
        EACH(survives_lack_of_memory, "clip"),
        EACH(survives_lack_of_memory, "llama2"),
        EACH(survives_lack_of_memory, "llama3"),
        EACH(survives_lack_of_memory, "albert"),
        EACH(survives_lack_of_memory, "gguf_llama"),
        EACH(survives_lack_of_memory, "gguf_qwen2"),
        EACH(survives_lack_of_memory, "gguf_bert"),
        EACH(survives_lack_of_memory, "gguf_t5"),
    };
    int failed = cmocka_run_group_tests_name("golden", golden, NULL, NULL);
    return failed + cmocka_run_group_tests_name("others", others, NULL, NULL);
}
