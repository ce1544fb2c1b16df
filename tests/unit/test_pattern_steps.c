/* test_pattern_steps.c: the searches in one text share one count of steps, which stops expressions
 * that backtrack and grows in proportion to the text for those that do not; and a flag stops
 * them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/memory.h"
#include "case_files.h"
#include "text/pattern.h"
#include "text/tokenizer.h"

#define GPT2 "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"

/* n bytes of unit over and over; freed by the caller. */
static char *repeated(const char *unit, size_t n)
{
    char *text = malloc(n + 1);
    assert_non_null(text);
    for (size_t i = 0, length = strlen(unit); i < n; i++)
        text[i] = unit[i % length];
    text[n] = 0;
    return text;
}

/* What a cut of the text says; the steps it took in *steps. */
static rs_status cut(const char *regex, const char *text, size_t pieces,
                     const volatile sig_atomic_t *cancel, uint64_t *steps, uint64_t *most,
                     rs_error *err)
{
    rs_pattern *pattern;
    rs_searcher searcher = {0};
    rs_text_spans spans = {0};
    size_t n = strlen(text);
    assert_int_equal(rs_pattern_new(&pattern, regex, strlen(regex), true, "here", err), RS_OK);
    rs_searcher_begin(&searcher, n, cancel);
    rs_status status = RS_OK;
    for (size_t i = 0; i < pieces && status == RS_OK; i++)
        status = rs_pattern_cut(&spans, pattern, &searcher, text, n * i / pieces,
                                n * (i + 1) / pieces, err);
    *steps = searcher.steps;
    *most = searcher.most;
    rs_searcher_free(&searcher);
    rs_free(spans.items);
    rs_pattern_free(pattern);
    return status;
}

/* Each kind of work that PCRE2's own limits see in part or not at all. */
static void backtracking_ends_at_the_texts_limit(void **state)
{
    (void)state;
    static const struct {
        const char *regex, *unit, *tail;
        size_t n, pieces;
    } cases[] = {
        {"(?:a|aa|aaa)+$|(?:a+)+b", "aaaaaaaaaaaaaaaaaaaaaac", "b", 100000, 1},
        {"(?:a|aa|aaa)+$|(?:a+)+b", "aaaaaaaaaaaaaaaaaaaaaac", "b", 230000, 10000},
        {"a[^b]*c", "a", "bc", 400000, 1},
        {"(?=a+b)a|b", "a", "cb", 400000, 1},
        {"[ab]{60000}c", "a", "c", 400000, 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        rs_error err = {0};
        uint64_t steps, most;
        char *text = repeated(cases[i].unit, cases[i].n + 2);
        strcpy(text + cases[i].n, cases[i].tail);
        rs_status status = cut(cases[i].regex, text, cases[i].pieces, NULL, &steps, &most, &err);
        if (status != RS_E_TOKENIZER_LIMIT) fail_msg("%s: %s", cases[i].regex, err.what);
        assert_non_null(strstr(err.what, cases[i].regex));
        assert_string_equal(err.where, "here");
        assert_true(steps > most);
        assert_true(steps - most < cases[i].n + 8192); /* one step more, whatever it passed */
        free(text);
    }
}

static void ordinary_words_take_steps_in_proportion(void **state)
{
    (void)state;
    static const char *const units[] = {
        "the caf\xC3\xA9 isn't 12 ", "a", " ", "1", "\n", "?!", "\xE4\xBD\xA0"};
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        uint64_t steps[2], most;
        rs_error err = {0};
        for (size_t k = 0; k < 2; k++) {
            char *text = repeated(units[i], strlen(units[i]) * (2000 + 2000 * k));
            assert_int_equal(cut(GPT2, text, 1, NULL, &steps[k], &most, &err), RS_OK);
            assert_true(steps[k] < 60 * strlen(text));
            free(text);
        }
        if (steps[1] > steps[0] * 21 / 10 + 100)
            fail_msg("'%s': %llu steps, then %llu", units[i], (unsigned long long)steps[0],
                     (unsigned long long)steps[1]);
    }
}

static void a_flag_stops_a_search(void **state)
{
    (void)state;
    volatile sig_atomic_t flag = 1;
    uint64_t steps, most;
    rs_error err = {0};
    assert_int_equal(cut(GPT2, "some words", 1, &flag, &steps, &most, &err), RS_E_INTERRUPTED);
    assert_true(steps <= 2);
    flag = 0;
    assert_int_equal(cut(GPT2, "some words", 1, &flag, &steps, &most, &err), RS_OK);
}

#define MODEL                                                                                      \
    "\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"ab\":2},\"merges\":[\"a b\"]}"
#define REPLACE "{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"(?:a+)+b\"},\"content\":\"a\"}"
#define LONG_AS "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaacb"

static rs_tokenizer *parse(const char *json)
{
    rs_tokenizer *tokenizer = NULL;
    rs_error err = {0};
    if (rs_tokenizer_parse(&tokenizer, "t.json", json, strlen(json), &err) != RS_OK)
        fail_msg("%s: %s", json, err.what);
    return tokenizer;
}

static void opening_and_decoding_are_counted_too(void **state)
{
    (void)state;
    rs_tokenizer *tokenizer;
    rs_error err = {0};
    static const char opened[] =
        "{" MODEL ",\"normalizer\":" REPLACE ",\"added_tokens\":[{\"id\":3,\"content\":\"" LONG_AS
        "\",\"normalized\":true,\"special\":false,\"single_word\":false,\"lstrip\":false,"
        "\"rstrip\":false}]}";
    assert_int_equal(rs_tokenizer_parse(&tokenizer, "t.json", opened, strlen(opened), &err),
                     RS_E_TOKENIZER_LIMIT);
    assert_non_null(strstr(err.what, "(?:a+)+b"));

    static const char decoded[] = "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"" LONG_AS
                                  "\":0},\"merges\":[]},\"decoder\":" REPLACE "}";
    static const int32_t ids[] = {0};
    char *text;
    tokenizer = parse(decoded);
    assert_int_equal(rs_tokenizer_decode(&text, tokenizer, ids, 1, false, &err),
                     RS_E_TOKENIZER_LIMIT);
    assert_null(text);
    rs_tokenizer_close(tokenizer);
}

static void a_watched_tokenizer_stops(void **state)
{
    (void)state;
    volatile sig_atomic_t flag = 1;
    const rs_context context = {.threads = 1, .cancel = &flag};
    rs_tokenizer *tokenizer = parse("{" MODEL "}");
    rs_token_ids ids;
    rs_error err = {0};
    rs_tokenizer_watch(tokenizer, &context);
    assert_int_equal(rs_tokenizer_encode(&ids, tokenizer, "ab", 2, true, &err), RS_E_INTERRUPTED);
    assert_null(ids.ids);
    flag = 0;
    assert_int_equal(rs_tokenizer_encode(&ids, tokenizer, "ab", 2, true, &err), RS_OK);
    rs_token_ids_free(&ids);
    rs_tokenizer_close(tokenizer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(backtracking_ends_at_the_texts_limit),
        cmocka_unit_test(ordinary_words_take_steps_in_proportion),
        cmocka_unit_test(a_flag_stops_a_search),
        cmocka_unit_test(opening_and_decoding_are_counted_too),
        cmocka_unit_test(a_watched_tokenizer_stops),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
