/* test_expression.c: formulas against values worked out by hand, and what is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "network/init.h"

#include <float.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static const char *const names[] = {"fan_in", "fan_out", "d", "L", "l", NULL};
static const double values[] = {64, 256, 64, 12, 3};

static rs_status evaluate(double *value, const char *text, rs_error *err)
{
    return rs_expression(value, text, names, values, "formula", err);
}

static void values_by_hand(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        double value;
    } rows[] = {
        {"0", 0},
        {"1", 1},
        {" 2.5 ", 2.5},
        {".5", 0.5},
        {"5.", 5},
        {"007", 7},
        {"00.25", 0.25},
        {"1e-3", 1e-3},
        {"2E+2", 200},
        {"1.5e1", 15},
        {"1/sqrt(L)", 0.28867513459481287},
        {"1/fan_in", 0.015625},
        {"0.02^2", 0.0004},
        {"2/(fan_in+fan_out)", 0.00625},
        {"1 + 2 * 3", 7},
        {"(1 + 2) * 3", 9},
        {"2^3^2", 512},
        {"-2^2", -4},
        {"(-2)^2", 4},
        {"2^-1", 0.5},
        {"--3", 3},
        {"+4-+1", 3},
        {"10-4-3", 3},
        {"100/10/5", 2},
        {"2*-3", -6},
        {"1-l/L", 0.75},
        {"sqrt (d)", 8},
        {"sqrt(sqrt(fan_out))", 4},
        {"1e400/1", NAN},
        {"123456789012345678901234567890", 123456789012345678901234567890.0},
        {"1e-999", 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        double value;
        rs_error err;
        rs_status status = evaluate(&value, rows[i].text, &err);
        if (isnan(rows[i].value)) {
            assert_int_equal(status, RS_E_EXPRESSION);
            continue;
        }
        if (status != RS_OK) fail_msg("\"%s\": %s", rows[i].text, err.what);
        /* one rounding for each of at most four operations */
        if (!(fabs(value - rows[i].value) <= 4 * DBL_EPSILON * fabs(rows[i].value)))
            fail_msg("\"%s\" = %.17g, not %.17g", rows[i].text, value, rows[i].value);
    }
}

static void refused_with_the_place(void **state)
{
    (void)state;
    static const struct {
        const char *text, *part;
    } rows[] = {
        {"", "an early end at character 1"},
        {"  ", "an early end at character 3"},
        {"1/0", "a division by zero"},
        {"0/0", "a division by zero"},
        {"1/(L-12)", "a division by zero"},
        {"sqrt(-1)", "square root of a negative"},
        {"(-8)^(1/3)", "a power that is not a finite number"},
        {"0^-1", "a power that is not a finite number"},
        {"10^400", "a power that is not a finite number"},
        {"1e308*10", "a product that is too large"},
        {"1e308+1e308", "a sum that is too large"},
        {"1e308/1e-10", "a quotient that is too large"},
        {"nan", "does not know \"nan\""},
        {"inf", "does not know \"inf\""},
        {"0x10", "an unexpected character at character 2"},
        {"1 2", "an unexpected character at character 3"},
        {"1)", "an unexpected character at character 2"},
        {"(1", "a missing )"},
        {"sqrt 4", "sqrt without ("},
        {"sqrt(4", "a missing )"},
        {"*2", "an unexpected character at character 1"},
        {"2**3", "an unexpected character at character 3"},
        {"1,2", "an unexpected character at character 2"},
        {".", "a lone point"},
        {"1..2", "unexpected character"},
        {"depth", "does not know \"depth\" in \"depth\"; known are fan_in, fan_out, d, L, l, sqrt"},
        {"1e", "an unexpected character at character 2"},
        {"\xff", "an unexpected character"},
        {"system(1)", "does not know \"system\""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        double value = 1;
        rs_error err;
        assert_int_equal(evaluate(&value, rows[i].text, &err), RS_E_EXPRESSION);
        if (!strstr(err.what, rows[i].part)) fail_msg("\"%s\": %s", rows[i].text, err.what);
        assert_string_equal(err.where, "formula");
    }
}

static void depth_and_length_are_bounded(void **state)
{
    (void)state;
    char text[300];
    double value;
    rs_error err;
    for (int depth = 60; depth <= 100; depth += 40) {
        memset(text, '(', (size_t)depth);
        text[depth] = '1';
        memset(text + depth + 1, ')', (size_t)depth);
        text[2 * depth + 1] = 0;
        assert_int_equal(evaluate(&value, text, &err), depth < 64 ? RS_OK : RS_E_EXPRESSION);
    }
    memset(text, '-', 100);
    strcpy(text + 100, "1");
    assert_int_equal(evaluate(&value, text, &err), RS_E_EXPRESSION);
    assert_non_null(strstr(err.what, "nesting"));
    memset(text, '1', 256);
    text[256] = 0;
    assert_int_equal(evaluate(&value, text, &err), RS_OK);
    memset(text, '1', 257);
    text[257] = 0;
    assert_int_equal(evaluate(&value, text, &err), RS_E_EXPRESSION);
    assert_non_null(strstr(err.what, "257 characters"));
}

static void spelling_alone_can_be_checked(void **state)
{
    (void)state;
    double value;
    rs_error err;
    assert_int_equal(rs_expression(&value, "1/(fan_in-1)", names, NULL, "f", &err), RS_OK);
    assert_int_equal(rs_expression(&value, "1/(fan-1)", names, NULL, "f", &err), RS_E_EXPRESSION);
    assert_int_equal(rs_expression(&value, "2*3", NULL, values, "f", &err), RS_OK);
    assert_true(value == 6);
    static const char *const one[] = {"x", NULL};
    double bad = NAN;
    assert_int_equal(rs_expression(&value, "x*0", one, &bad, "f", &err), RS_E_EXPRESSION);
}

/* A program that embeds the library may run under a locale with a comma. */
static void the_locale_does_not_matter(void **state)
{
    (void)state;
    const char *set = NULL;
    static const char *const locales[] = {"de_DE.UTF-8", "fr_FR.UTF-8", "de_DE"};
    for (int i = 0; i < 3 && !set; i++)
        set = setlocale(LC_NUMERIC, locales[i]);
    double value;
    rs_error err;
    assert_int_equal(evaluate(&value, "0.25", &err), RS_OK);
    assert_true(value == 0.25);
    setlocale(LC_NUMERIC, "C");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_by_hand),
        cmocka_unit_test(refused_with_the_place),
        cmocka_unit_test(depth_and_length_are_bounded),
        cmocka_unit_test(spelling_alone_can_be_checked),
        cmocka_unit_test(the_locale_does_not_matter),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
