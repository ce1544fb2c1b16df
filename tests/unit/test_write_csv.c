/* test_write_csv.c: quoting, null, vectors. The expected text is written out by hand from RFC 4180.
 */
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

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_text_is_as_the_rfc_says)};
    return cmocka_run_group_tests_name("write_csv", tests, NULL, NULL);
}
