/* test_write_json.c: the JSON text, read back by jansson. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "report_sample.h"

#include <string.h>

static json_t *written(rs_buffer *out)
{
    rs_result *r;
    rs_error err;
    assert_int_equal(sample_result(&r, &err), RS_OK);
    assert_int_equal(rs_write_json(out, r, &err), RS_OK);
    rs_result_free(r);
    json_error_t where;
    json_t *root = json_loadb(out->data, out->length, JSON_REJECT_DUPLICATES, &where);
    if (!root) fail_msg("%s at %d", where.text, where.position);
    return root;
}

static void members_are_in_the_order_of_the_contract(void **state)
{
    (void)state;
    static const char *const order[] = {"rankscope", "command", "args",    "model",   "extra",
                                        "tables",    "figures", "verdict", "findings"};
    rs_buffer out = {0};
    json_t *root = written(&out);
    size_t n = 0;
    for (void *i = json_object_iter(root); i; i = json_object_iter_next(root, i))
        assert_string_equal(json_object_iter_key(i), order[n++]);
    assert_int_equal(n, 9);
    json_decref(root);
    rs_buffer_free(&out);
}

static void rows_are_what_was_put(void **state)
{
    (void)state;
    rs_buffer out = {0};
    json_t *root = written(&out), *rows = json_object_get(json_object_get(root, "tables"), "heads");
    assert_int_equal(json_array_size(rows), SAMPLE_TEXTS);
    for (size_t i = 0; i < SAMPLE_TEXTS; i++) {
        const json_t *row = json_array_get(rows, i);
        assert_int_equal(json_integer_value(json_object_get(row, "layer")), i);
        if (i != 7)
            assert_string_equal(json_string_value(json_object_get(row, "product")),
                                sample_texts[i]);
        const json_t *rank = json_object_get(row, "effective_rank");
        if (i == 3 || i == 5)
            assert_true(json_is_null(rank));
        else
            assert_true(json_number_value(rank) == 0.1 * (double)i + 1e-17);
        const json_t *values = json_object_get(row, "singular_values");
        if (i == 3)
            assert_true(json_is_null(values));
        else
            assert_int_equal(json_array_size(values), i % 4);
        if (i % 4 == 2) assert_true(json_is_null(json_array_get(values, 1)));
    }
    assert_string_equal(json_string_value(json_object_get(json_array_get(rows, 7), "product")),
                        "bad \xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD end");
    assert_true(json_is_true(json_object_get(json_array_get(rows, 0), "alive")));
    json_decref(root);
    rs_buffer_free(&out);
}

static void findings_have_their_members(void **state)
{
    (void)state;
    rs_buffer out = {0};
    json_t *root = written(&out), *findings = json_object_get(root, "findings");
    assert_int_equal(json_array_size(findings), 2); /* one a code */
    const json_t *first = json_array_get(findings, 0), *last = json_array_get(findings, 1);
    assert_string_equal(json_string_value(json_object_get(first, "severity")), "critical");
    assert_string_equal(json_string_value(json_object_get(first, "table")), "heads");
    assert_string_equal(json_string_value(json_object_get(first, "code")), "even_code");
    assert_int_equal(json_integer_value(json_object_get(first, "count")), 15);
    assert_true(json_is_null(json_object_get(first, "threshold")));
    assert_string_equal(json_string_value(json_object_get(last, "code")), "odd_code");
    const json_t *cases = json_object_get(json_object_get(root, "tables"), "findings");
    assert_int_equal(json_array_size(cases), 30);
    const json_t *mildest = json_array_get(cases, 29);
    assert_true(json_is_null(json_object_get(mildest, "layer")));
    assert_true(json_is_null(json_object_get(mildest, "product")));
    const json_t *verdict = json_object_get(root, "verdict");
    assert_string_equal(json_string_value(json_object_get(verdict, "code")), "sample");
    assert_true(json_is_null(json_object_get(verdict, "threshold")));
    const json_t *map = json_object_get(json_object_get(root, "figures"), "map");
    const json_t *rows = json_object_get(json_object_get(map, "data"), "values");
    const json_t *table = json_object_get(json_object_get(root, "tables"), "heads");
    /* It carries its data: every row but the one without a layer, which has no place. */
    assert_int_equal(json_array_size(rows), json_array_size(table) - 1);
    const char *const taken[] = {"layer", "head", "product", "effective_rank"};
    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++)
        assert_non_null(json_object_get(json_array_get(rows, 1), taken[i]));
    assert_null(json_object_get(json_array_get(rows, 1), "alive")); /* and no more than it draws */
    json_decref(root);
    rs_buffer_free(&out);
}

static void the_text_may_stand_in_a_script(void **state)
{
    (void)state;
    rs_buffer out = {0};
    json_decref(written(&out));
    assert_null(strstr(out.data, "</"));
    assert_null(strstr(out.data, "<!--"));
    assert_null(strstr(out.data, "\xE2\x80\xA8"));
    rs_buffer_free(&out);
}

static void html_holds_the_json(void **state)
{
    (void)state;
    rs_result *r;
    rs_error err;
    rs_buffer json = {0}, html = {0};
    assert_int_equal(sample_result(&r, &err), RS_OK);
    assert_int_equal(rs_write_json(&json, r, &err), RS_OK);
    assert_int_equal(rs_write_html(&html, r, &err), RS_OK);
    assert_non_null(strstr(html.data, json.data));
    assert_non_null(strstr(html.data, "\"formula\":\"exp(H)\""));
    assert_non_null(strstr(html.data, "<title>rankscope scan</title>"));
    assert_null(strstr(html.data, "<!--rankscope-"));
    /* Nothing is loaded: no source, no linked style, no import. */
    assert_null(strstr(html.data, "<link"));
    assert_null(strstr(html.data, "src=\"http"));
    rs_buffer_free(&json);
    rs_buffer_free(&html);
    rs_result_free(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(members_are_in_the_order_of_the_contract),
        cmocka_unit_test(rows_are_what_was_put),
        cmocka_unit_test(findings_have_their_members),
        cmocka_unit_test(the_text_may_stand_in_a_script),
        cmocka_unit_test(html_holds_the_json),
    };
    return cmocka_run_group_tests_name("write_json", tests, NULL, NULL);
}
