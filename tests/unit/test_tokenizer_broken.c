/* test_tokenizer_broken.c: tokenizers that lie are refused by name, with the place in the file;
 * texts that an expression takes too long for end in an error. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/memory.h"
#include "base/text.h"
#include "case_files.h"
#include "text/tokenizer.h"

#define BPE "\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"ab\":2},\"merges\":[\"a b\"]}"
#define WORDS                                                                                      \
    "\"model\":{\"type\":\"WordPiece\",\"unk_token\":\"[UNK]\",\"continuing_subword_prefix\":\"##" \
    "\","                                                                                          \
    "\"max_input_chars_per_word\":100,\"vocab\":{\"[UNK]\":0,\"a\":1,\"##a\":2}}"
#define UNIGRAM(vocab, rest) "\"model\":{\"type\":\"Unigram\",\"vocab\":[" vocab "]" rest "}"

static const struct broken {
    const char *json;
    rs_status status;
    const char *says; /* a part of the message */
} cases[] = {
    {"", RS_E_EMPTY_FILE, "empty"},
    {"[]", RS_E_TOKENIZER_SCHEMA, "object"},
    {"{}", RS_E_TOKENIZER_SCHEMA, "model: is missing"},
    {"{\"model\":3}", RS_E_TOKENIZER_UNKNOWN, "model"},
    {"{" BPE, RS_E_JSON_SYNTAX, "line 1"},
    {"{" BPE "}x", RS_E_JSON_SYNTAX, "follows"},
    {"{" BPE ",}", RS_E_JSON_SYNTAX, "key"},
    {"{\"a\":01}", RS_E_JSON_SYNTAX, "JSON value"},
    {"{\"a\":1.}", RS_E_JSON_SYNTAX, "point"},
    {"{\"a\":1e}", RS_E_JSON_SYNTAX, "exponent"},
    {"{\"a\":\"\\x\"}", RS_E_JSON_SYNTAX, "escape"},
    {"{\"a\":\"\\ud800\"}", RS_E_JSON_SYNTAX, "surrogate"},
    {"{\"a\":\"\n\"}", RS_E_JSON_SYNTAX, "control character"},
    {"{\"a\":\"\xff\"}", RS_E_JSON_SYNTAX, "UTF-8"},
    {"{\"a\":\"b", RS_E_JSON_SYNTAX, "does not end"},
    {"{\"a\":1,\"a\":2}", RS_E_JSON_DUPLICATE_KEY, "twice"},
    {"version https://git-lfs.github.com/spec/v1\n", RS_E_LFS_POINTER, "Git LFS"},
    {"{\"model\":{\"type\":\"WordLevel\",\"vocab\":{}}}", RS_E_TOKENIZER_UNKNOWN, "'WordLevel'"},
    {"{\"model\":{\"type\":\"BPE\",\"vocab\":{},\"merges\":[]}}", RS_E_TOKENIZER_SCHEMA, "empty"},
    {"{\"model\":{\"type\":\"BPE\",\"vocab\":[],\"merges\":[]}}", RS_E_TOKENIZER_SCHEMA,
     "model.vocab"},
    {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":-1},\"merges\":[]}}", RS_E_TOKENIZER_VOCABULARY,
     "'a'"},
    {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":1.5},\"merges\":[]}}",
     RS_E_TOKENIZER_VOCABULARY, "'a'"},
    {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":4000000000},\"merges\":[]}}",
     RS_E_TOKENIZER_VOCABULARY, "far above"},
    {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":99999999999999999999},\"merges\":[]}}",
     RS_E_TOKENIZER_VOCABULARY, "'a'"},
    {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":0},\"merges\":[]}}",
     RS_E_TOKENIZER_VOCABULARY, "id 0"},
    {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[\"a b\"]}}",
     RS_E_TOKENIZER_VOCABULARY, "merge 1"},
    {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1},\"merges\":[[\"a\",\"b\"]]}}",
     RS_E_TOKENIZER_VOCABULARY, "what they make"},
    {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[\"aa\"]}}",
     RS_E_TOKENIZER_VOCABULARY, "merges[0]"},
    {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[[\"a\"]]}}",
     RS_E_TOKENIZER_VOCABULARY, "merges[0]"},
    {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[3]}}", RS_E_TOKENIZER_VOCABULARY,
     "merges[0]"},
    {"{\"model\":{\"type\":\"BPE\",\"dropout\":0.1,\"vocab\":{\"a\":0},\"merges\":[]}}",
     RS_E_TOKENIZER_SCHEMA, "dropout"},
    {"{\"model\":{\"type\":\"WordPiece\",\"vocab\":{\"a\":0},\"continuing_subword_prefix\":\"##\"}"
     "}",
     RS_E_TOKENIZER_SCHEMA, "unk_token"},
    {"{" UNIGRAM("[\"a\",0]", ",\"unk_id\":5") "}", RS_E_TOKENIZER_SCHEMA, "unk_id"},
    {"{" UNIGRAM("[\"a\"]", "") "}", RS_E_TOKENIZER_VOCABULARY, "vocab[0]"},
    {"{" UNIGRAM("[\"a\",1e999]", "") "}", RS_E_TOKENIZER_VOCABULARY, "vocab[0]"},
    {"{" UNIGRAM("", "") "}", RS_E_TOKENIZER_SCHEMA, "empty"},
    {"{" BPE ",\"normalizer\":{\"type\":\"Upside\"}}", RS_E_TOKENIZER_UNKNOWN,
     "normalizer: normalizer 'Upside'"},
    {"{" BPE ",\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"NFC\"},{\"type\":"
     "\"X\"}]}}",
     RS_E_TOKENIZER_UNKNOWN, "normalizer.normalizers[1]"},
    {"{" BPE ",\"normalizer\":{\"type\":\"Sequence\"}}", RS_E_TOKENIZER_SCHEMA, "normalizers"},
    {"{" BPE ",\"normalizer\":{}}", RS_E_TOKENIZER_SCHEMA, "type"},
    {"{" BPE ",\"normalizer\":7}", RS_E_TOKENIZER_SCHEMA, "normalizer"},
    {"{" BPE ",\"normalizer\":{\"type\":\"Lowercase\",\"type\":\"NFC\"}}", RS_E_JSON_DUPLICATE_KEY,
     "twice"},
    {"{" BPE
     ",\"normalizer\":{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"(\"},\"content\":\"\"}}",
     RS_E_TOKENIZER_PATTERN, "does not compile"},
    {"{" BPE
     ",\"normalizer\":{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"[a[bc]]\"},\"content\":\"\"}}",
     RS_E_TOKENIZER_PATTERN, "brackets inside"},
    {"{" BPE ",\"normalizer\":{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"[\\\\w&&x]\"},"
     "\"content\":\"\"}}",
     RS_E_TOKENIZER_PATTERN, "&&"},
    {"{" BPE
     ",\"normalizer\":{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"[a\"},\"content\":\"\"}}",
     RS_E_TOKENIZER_PATTERN, "not closed"},
    {"{" BPE ",\"normalizer\":{\"type\":\"Replace\",\"pattern\":{},\"content\":\"\"}}",
     RS_E_TOKENIZER_SCHEMA, "pattern"},
    {"{" BPE ",\"normalizer\":{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"AA\"}}",
     RS_E_TOKENIZER_CHARSMAP, "base64"},
    {"{" BPE ",\"normalizer\":{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"A-==\"}}",
     RS_E_TOKENIZER_CHARSMAP, "base64"},
    {"{" BPE ",\"normalizer\":{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"AAA=\"}}",
     RS_E_TOKENIZER_CHARSMAP, "header"},
    {"{" BPE ",\"normalizer\":{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"//8AAAAA\"}}",
     RS_E_TOKENIZER_CHARSMAP, "trie"},
    {"{" BPE ",\"pre_tokenizer\":{\"type\":\"UnicodeScripts\"}}", RS_E_TOKENIZER_UNKNOWN,
     "'UnicodeScripts'"},
    {"{" BPE ",\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"String\":\"a\"},\"behavior\":"
     "\"Sideways\",\"invert\":false}}",
     RS_E_TOKENIZER_SCHEMA, "behavior"},
    {"{" BPE ",\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"ab\"}}",
     RS_E_TOKENIZER_SCHEMA, "one character"},
    {"{" BPE ",\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"_\",\"prepend_scheme\":"
     "\"last\"}}",
     RS_E_TOKENIZER_SCHEMA, "prepend_scheme"},
    {"{" BPE ",\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"_\",\"prepend_scheme\":"
     "\"first\",\"add_prefix_space\":false}}",
     RS_E_TOKENIZER_SCHEMA, "contradicts"},
    {"{" BPE ",\"post_processor\":{\"type\":\"Nothing\"}}", RS_E_TOKENIZER_UNKNOWN, "'Nothing'"},
    {"{" BPE
     ",\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[],\"special_tokens\":{}}}",
     RS_E_TOKENIZER_SCHEMA, "0 times"},
    {"{" BPE ",\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{"
     "\"id\":\"[X]\"}}],\"special_tokens\":{}}}",
     RS_E_TOKENIZER_SCHEMA, "'[X]'"},
    {"{" BPE
     ",\"post_processor\":{\"type\":\"BertProcessing\",\"sep\":[\"a\",1],\"cls\":[\"b\",-2]}}",
     RS_E_TOKENIZER_SCHEMA, "cls"},
    {"{" BPE ",\"decoder\":{\"type\":\"CTC\"}}", RS_E_TOKENIZER_UNKNOWN, "decoder 'CTC'"},
    {"{" BPE ",\"added_tokens\":[3]}", RS_E_TOKENIZER_SCHEMA, "added_tokens[0]"},
    {"{" BPE ",\"added_tokens\":[{\"id\":-4,\"content\":\"x\"}]}", RS_E_TOKENIZER_SCHEMA,
     "added_tokens[0].id"},
    {"{" BPE ",\"added_tokens\":[{\"id\":4}]}", RS_E_TOKENIZER_SCHEMA, "content"},
};

static void refused(void **state)
{
    const struct broken *broken = *state;
    rs_tokenizer *tokenizer;
    rs_error err = {0};
    rs_status status =
        rs_tokenizer_parse(&tokenizer, "t.json", broken->json, strlen(broken->json), &err);
    if (status != broken->status || !strstr(err.what, broken->says))
        fail_msg("%s: got %s, '%s'; expected %s, '%s'", broken->json, rs_status_name(status),
                 err.what, rs_status_name(broken->status), broken->says);
    assert_null(tokenizer);
    assert_int_equal(rs_status_exit_code(status), 2);
    if (strlen(broken->json)) assert_non_null(strstr(err.where, "t.json"));
}

static rs_tokenizer *parse(const char *json, size_t length)
{
    rs_tokenizer *tokenizer = NULL;
    rs_error err = {0};
    if (rs_tokenizer_parse(&tokenizer, "t.json", json, length, &err) != RS_OK)
        fail_msg("%.60s: %s", json, err.what);
    return tokenizer;
}

static void sequences_a_thousand_deep_are_refused(void **state)
{
    (void)state;
    rs_buffer text = {0};
    rs_tokenizer *tokenizer;
    rs_error err = {0};
    rs_buffer_puts(&text, "{" BPE ",\"normalizer\":");
    for (int i = 0; i < 1000; i++)
        rs_buffer_puts(&text, "{\"type\":\"Sequence\",\"normalizers\":[");
    assert_int_equal(rs_tokenizer_parse(&tokenizer, "t.json", text.data, text.length, &err),
                     RS_E_JSON_DEPTH);
    rs_buffer_free(&text);
}

/* (a*)*b backtracks for ever on a text of a's; the limits of the search end it. */
static void an_expression_that_backtracks_too_much_is_an_error(void **state)
{
    (void)state;
    static const char json[] =
        "{" BPE ",\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":"
        "\"(?:a|aa|aaa)+$|(?:a+)+b\"},\"behavior\":\"Isolated\",\"invert\":"
        "false}}";
    static const char text[] = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaac";
    rs_tokenizer *tokenizer = parse(json, sizeof json - 1);
    rs_token_ids ids;
    rs_error err = {0};
    assert_int_equal(rs_tokenizer_encode(&ids, tokenizer, text, sizeof text - 1, true, &err),
                     RS_E_TOKENIZER_LIMIT);
    assert_null(ids.ids);
    assert_non_null(strstr(err.where, "pre_tokenizer.pattern"));
    rs_tokenizer_close(tokenizer);
}

/* Each step makes ten characters of one. */
static void steps_that_fill_the_memory_are_an_error(void **state)
{
    (void)state;
    static const char *const kinds[][2] = {
        {"\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[",
         "{\"type\":\"Replace\",\"pattern\":{\"String\":\"a\"},\"content\":\"aaaaaaaaaa\"}"},
        {"\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[",
         "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":false}"},
        {"\"decoder\":{\"type\":\"Sequence\",\"decoders\":[",
         "{\"type\":\"Replace\",\"pattern\":{\"String\":\"a\"},\"content\":\"aaaaaaaaaa\"}"},
    };
    for (size_t k = 0; k < 3; k++) {
        rs_buffer json = {0};
        rs_buffer_printf(&json, "{" BPE ",%s", kinds[k][0]);
        for (int i = 0; i < 50; i++)
            rs_buffer_printf(&json, "%s%s", i ? "," : "", kinds[k][1]);
        rs_buffer_puts(&json, "]}}");
        rs_tokenizer *tokenizer = parse(json.data, json.length);
        rs_token_ids ids = {0};
        rs_error err = {0};
        char *back = NULL;
        rs_status status =
            rs_tokenizer_encode(&ids, tokenizer, k == 1 ? "\x01" : "a", 1, true, &err);
        if (k == 2) {
            assert_int_equal(status, RS_OK);
            status = rs_tokenizer_decode(&back, tokenizer, ids.ids, ids.n, false, &err);
        }
        assert_int_equal(status, RS_E_TOKENIZER_LIMIT);
        assert_null(back);
        rs_token_ids_free(&ids);
        rs_tokenizer_close(tokenizer);
        rs_buffer_free(&json);
    }
}

static void a_character_without_a_token_is_an_error(void **state)
{
    (void)state;
    static const char json[] = "{" UNIGRAM("[\"a\",-1.0]", ",\"unk_id\":null") "}";
    rs_tokenizer *tokenizer = parse(json, sizeof json - 1);
    rs_token_ids ids;
    rs_error err = {0};
    assert_int_equal(rs_tokenizer_encode(&ids, tokenizer, "aab", 3, true, &err),
                     RS_E_TOKENIZER_TEXT);
    assert_non_null(strstr(err.what, "'b'"));
    assert_int_equal(rs_tokenizer_encode(&ids, tokenizer, "aaa", 3, true, &err), RS_OK);
    assert_int_equal(ids.n, 3);
    rs_token_ids_free(&ids);
    rs_tokenizer_close(tokenizer);
}

static void a_text_over_2_gib_is_refused(void **state)
{
    (void)state;
    static const char json[] = "{" WORDS "}";
    rs_tokenizer *tokenizer = parse(json, sizeof json - 1);
    rs_token_ids ids;
    rs_error err = {0};
    assert_int_equal(rs_tokenizer_encode(&ids, tokenizer, "a", (size_t)1 << 31, true, &err),
                     RS_E_UNSUPPORTED);
    rs_tokenizer_close(tokenizer);
}

static void a_folder_without_a_tokenizer_says_so(void **state)
{
    (void)state;
    rs_tokenizer *tokenizer;
    rs_error err = {0};
    assert_int_equal(rs_tokenizer_open(&tokenizer, RS_TEST_DATA, &err), RS_E_TOKENIZER_MISSING);
    assert_int_equal(rs_tokenizer_open(&tokenizer, RS_TEST_DATA "/no such file", &err),
                     RS_E_NOT_FOUND);
}

/* ---- GGUF: every cut of a good file, and bytes changed, are refused or give a tokenizer ---- */

static void try_gguf(const char *bytes, size_t n)
{
    const char *path = "broken_tokenizer.gguf";
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, n, file), n);
    fclose(file);
    rs_tokenizer *tokenizer = NULL;
    rs_error err = {0};
    rs_status status = rs_tokenizer_open(&tokenizer, path, &err);
    if (status == RS_OK) {
        rs_token_ids ids;
        rs_tokenizer_encode(&ids, tokenizer, "the caf\xC3\xA9 <s>", 13, true, &err);
        rs_token_ids_free(&ids);
        rs_tokenizer_close(tokenizer);
    } else {
        assert_int_equal(rs_status_exit_code(status), 2);
    }
    unlink(path);
}

static void broken_gguf_files_are_refused(void **state)
{
    const char *name = *state;
    char path[512];
    size_t size;
    snprintf(path, sizeof path, "%s/tokenizer/%s.gguf", RS_TEST_DATA, name);
    char *bytes = read_whole(path, &size);
    for (size_t n = 0; n < size; n = n < 200 ? n + 1 : n + 1013)
        try_gguf(bytes, n);
    for (size_t i = 4; i < size; i = i < 200 ? i + 1 : i + 509) {
        char old = bytes[i];
        bytes[i] = (char)~old;
        try_gguf(bytes, size);
        bytes[i] = old;
    }
    free(bytes);
}

int main(void)
{
    enum { N = sizeof cases / sizeof *cases };
    struct CMUnitTest each[N];
    for (size_t i = 0; i < N; i++)
        each[i] = (struct CMUnitTest){.name = cases[i].json,
                                      .test_func = refused,
                                      .initial_state = (void *)(uintptr_t)&cases[i]};
    const struct CMUnitTest others[] = {
        cmocka_unit_test(sequences_a_thousand_deep_are_refused),
        cmocka_unit_test(an_expression_that_backtracks_too_much_is_an_error),
        cmocka_unit_test(steps_that_fill_the_memory_are_an_error),
        cmocka_unit_test(a_character_without_a_token_is_an_error),
        cmocka_unit_test(a_text_over_2_gib_is_refused),
        cmocka_unit_test(a_folder_without_a_tokenizer_says_so),
        {"broken GGUF files are refused: gguf_llama", broken_gguf_files_are_refused, NULL, NULL,
         (void *)(uintptr_t) "gguf_llama"},
        {"broken GGUF files are refused: gguf_gpt2", broken_gguf_files_are_refused, NULL, NULL,
         (void *)(uintptr_t) "gguf_gpt2"},
        {"broken GGUF files are refused: gguf_t5", broken_gguf_files_are_refused, NULL, NULL,
         (void *)(uintptr_t) "gguf_t5"},
    };
    int failed = cmocka_run_group_tests_name("refused", each, NULL, NULL);
    return failed + cmocka_run_group_tests_name("others", others, NULL, NULL);
}
