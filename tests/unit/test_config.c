/* test_config.c: the text of config.json. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/memory.h"
#include "case_files.h"
#include "checkpoint/checkpoint.h"

/* Each golden case; an accepted one has the value that Python's json gives it. */
static void config_case(void **state)
{
    const case_file *test = *state;
    size_t size;
    char *text = read_whole(test->path, &size);
    json_t *config;
    rs_error err = {0};
    rs_status status = rs_config_parse(&config, "config.json", text, size, &err);
    free(text);
    assert_case(test, status, &err);
    if (status != RS_OK) {
        assert_null(config);
        return;
    }
    char path[512];
    snprintf(path, sizeof path, "%s/config/%.63s.expected.json", RS_TEST_DATA, test->name);
    json_t *expected = json_load_file(path, 0, NULL);
    assert_non_null(expected);
    assert_true(json_equal(config, expected));
    json_decref(expected);
    json_decref(config);
}

static void expect_at(const char *text, const char *line_and_column)
{
    json_t *config;
    rs_error err = {0};
    assert_int_not_equal(rs_config_parse(&config, "config.json", text, strlen(text), &err), RS_OK);
    if (!strstr(err.what, line_and_column))
        fail_msg("'%s' does not name %s", err.what, line_and_column);
}

/* The words that are rewritten must not shift what a message points at. */
static void messages_name_line_and_column(void **state)
{
    (void)state;
    expect_at("{\"a\": 1,\n \"b\": x}", "line 2, column 8");
    expect_at("{\"a\": NaN,\n \"b\": x}", "line 2, column 8");
    expect_at("{\"c\": [NaN, -Infinity, Infinity], \"b\": x}", "line 1, column 41");
    expect_at("{\"c\":\n[1, [[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[",
              "line 2, column 67");
}

/* Refused by its length before more than the first bytes are looked at. */
static void a_text_of_over_100_mb_is_refused(void **state)
{
    (void)state;
    static const char start[64] = "{}";
    json_t *config;
    rs_error err = {0};
    assert_int_equal(rs_config_parse(&config, "config.json", start, 100000001, &err),
                     RS_E_UNSUPPORTED);
    assert_null(config);
    assert_non_null(strstr(err.what, "100000001 bytes"));
}

static void survives_lack_of_memory(void **state)
{
    (void)state;
    static const char text[] = "{\"a\": NaN}";
    json_t *config;
    rs_error err = {0};
    rs_status status;
    int64_t n = 0;
    do {
        rs_memory_fail_at(++n);
        status = rs_config_parse(&config, "config.json", text, sizeof text - 1, &err);
        rs_memory_fail_at(0);
        assert_true(status == RS_OK || status == RS_E_NO_MEMORY);
    } while (status != RS_OK);
    assert_true(n > 1);
    json_decref(config);
}

/* ---- long tokens: jansson does not see that one could not grow, aborts, or reads past its end ---- */

static int64_t system_calls,
    refused_call; /* of malloc by jansson; that one and the next get NULL */

static void *refusing(size_t bytes)
{
    int64_t behind = ++system_calls - refused_call;
    return refused_call && (behind == 0 || behind == 1) ? NULL : malloc(bytes);
}

static void refuse_by_system(int64_t n)
{
    refused_call = n ? system_calls + n : 0;
}

typedef void refuser(int64_t n);

static void refuse_each(refuser *refuse, const char *text, size_t length)
{
    rs_status status;
    int64_t n = 0, blocks = rs_memory_blocks();
    do {
        json_t *config;
        rs_error err = {0};
        refuse(++n);
        status = rs_config_parse(&config, "config.json", text, length, &err);
        refuse(0);
        assert_true(status == RS_OK || status == RS_E_NO_MEMORY);
        assert_true((config != NULL) == (status == RS_OK));
        json_decref(config);
        assert_int_equal(rs_memory_blocks(), blocks);
    } while (status != RS_OK);
    assert_true(n > 8); /* as many as there are to refuse, and one */
}

/* Escapes stand on all places where the text of a token grows. A short one ends in the piece of
 * text that the parser has already, a long one does not. */
static void long_tokens_survive_lack_of_memory(void **state)
{
    (void)state;
    char escapes[3 * 250 + 1], text[2500];
    for (size_t i = 0; i < sizeof escapes - 1; i++)
        escapes[i] = "\\nq"[i % 3];
    escapes[sizeof escapes - 1] = 0;
    for (int most = 18; most < 800; most += most / 2 / 3 * 3) {
        int length = snprintf(text, sizeof text,
                              "{\"x%.*s\": [1%0300de-290, \"%.*s\\u00e9\"], \"%.99s\": 7}", most,
                              escapes, 0, most, escapes, escapes);
        refuse_each(rs_memory_fail_at, text, (size_t)length);
        refuse_each(rs_memory_fail_once, text, (size_t)length);
        refuse_each(refuse_by_system, text, (size_t)length);
    }
}

int main(void)
{
    static case_file cases[100];
    static struct CMUnitTest tests[104];
    json_set_alloc_funcs(refusing, free); /* before anything is parsed */
    size_t n = add_case_tests(tests, cases, read_cases(cases, 100, "config"), config_case);
    if (n < 30) return 1;
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(messages_name_line_and_column);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(a_text_of_over_100_mb_is_refused);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(survives_lack_of_memory);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(long_tokens_survive_lack_of_memory);
    return _cmocka_run_group_tests("config", tests, n, NULL, NULL);
}
