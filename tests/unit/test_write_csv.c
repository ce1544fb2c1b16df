/* test_write_csv.c: quoting, null, vectors.
 * The expected text is written out by hand from RFC 4180. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "report_sample.h"

#include <string.h>

static void the_text_is_as_the_rfc_says(void **state)
{
    (void)state;
    static const char *const expected[] = {
        "layer,head,product,effective_rank,effective_rank_null,alive,singular_values\n",
        "0,0,qk,1e-17,3,true,\n",
        "1,1,\"a,b\",0.10000000000000002,3,false,0.25\n",
        "2,2,\"say \"\"hi\"\"\",0.2,3,true,0.2;\n",
        "3,,\"two\nlines\",,,,\n",
        "4,1,\"\",0.4,3,true,\n",
        "5,2,</script><!--,,3,false,0.125\n",
        "bad \xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD end,",
        "10,1,\" padded \",1,3,true,0.07692307692307693;\n",
    };
    rs_result *r;
    rs_error err;
    rs_buffer out = {0};
    assert_int_equal(sample_result(&r, &err), RS_OK);
    assert_int_equal(rs_write_csv(&out, rs_result_table(r, "heads"), &err), RS_OK);
    const char *from = out.data;
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        const char *found = strstr(from, expected[i]);
        if (!found || (i < 7 && found != from)) fail_msg("expected %s in\n%s", expected[i], from);
        from = found + strlen(expected[i]);
    }
    assert_int_equal(*from, 0);
    rs_buffer_free(&out);
    assert_int_equal(rs_write_csv(&out, rs_result_table(r, "empty"), &err), RS_OK);
    assert_string_equal(out.data, "layer,head\n");
    rs_buffer_free(&out);
    rs_result_free(r);
}

/* What begins a formula in a spreadsheet gets an apostrophe in front, inside the quotes; numbers,
 * negative ones too, and all other text stay as they are. */
static void safe_text_begins_no_formula(void **state)
{
    (void)state;
    static const rs_column columns[] = {{.name = "text", .type = RS_COLUMN_TEXT},
                                        {.name = "real", .type = RS_COLUMN_REAL},
                                        {.name = "integer", .type = RS_COLUMN_INT},
                                        {.name = "list", .type = RS_COLUMN_VECTOR}};
    static const struct {
        const char *text, *plain, *safe;
    } cases[] = {
        {"=1+1", "=1+1", "'=1+1"},
        {"+1", "+1", "'+1"},
        {"-x", "-x", "'-x"},
        {"@SUM(A1,A2)", "\"@SUM(A1,A2)\"", "\"'@SUM(A1,A2)\""},
        {"\t=1", "\t=1", "'\t=1"},
        {"\r=1", "\"\r=1\"", "\"'\r=1\""},
        {"=say(\"a\")", "\"=say(\"\"a\"\")\"", "\"'=say(\"\"a\"\")\""},
        {"a=1", "a=1", "a=1"},
        {"'=1", "'=1", "'=1"},
        {"", "\"\"", "\"\""},
    };
    enum { N = sizeof cases / sizeof *cases };
    rs_error err;
    rs_result *r = rs_result_new("test");
    rs_table *table;
    const double list[] = {-1, 2};
    assert_int_equal(rs_result_add_table(r, "t", NULL, NULL, columns, 4, &table, &err), RS_OK);
    char plain[2000] = "text,real,integer,list\n", safe[2000];
    strcpy(safe, plain);
    for (size_t i = 0; i < N; i++) {
        size_t row;
        assert_int_equal(rs_table_add_row(table, &row, &err), RS_OK);
        assert_int_equal(rs_table_set_text(table, row, 0, cases[i].text, &err), RS_OK);
        rs_table_set_real(table, row, 1, -0.5);
        rs_table_set_int(table, row, 2, -7);
        assert_int_equal(rs_table_set_vector(table, row, 3, list, 2, &err), RS_OK);
        strcat(strcat(plain, cases[i].plain), ",-0.5,-7,-1;2\n");
        strcat(strcat(safe, cases[i].safe), ",-0.5,-7,-1;2\n");
    }
    rs_buffer out = {0};
    assert_int_equal(rs_write_csv(&out, table, &err), RS_OK);
    assert_string_equal(out.data, plain);
    out.length = 0;
    assert_int_equal(rs_write_csv_safe(&out, table, &err), RS_OK);
    assert_string_equal(out.data, safe);
    rs_buffer_free(&out);
    rs_result_free(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_text_is_as_the_rfc_says),
                                       cmocka_unit_test(safe_text_begins_no_formula)};
    return cmocka_run_group_tests_name("write_csv", tests, NULL, NULL);
}
