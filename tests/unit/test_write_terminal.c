/* test_write_terminal.c: nothing is wider than the terminal, nothing reaches it that it would act
 * on. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "report_sample.h"

#include <locale.h>
#include <stdio.h>
#include <string.h>
#include <wchar.h>

/* Columns as the C library counts them (not by our own table); an escape sequence takes none. */
static int columns_of(const char *line, size_t length)
{
    int width = 0;
    mbstate_t shift = {0};
    for (size_t i = 0; i < length;) {
        if (line[i] == '\x1b') {
            while (line[i] != 'm')
                i++;
            i++;
            continue;
        }
        wchar_t c;
        size_t n = mbrtowc(&c, line + i, length - i, &shift);
        if (n == (size_t)-1 || n == (size_t)-2 || n == 0) fail_msg("not UTF-8: %s", line);
        int w = wcwidth(c);
        if (w < 0) fail_msg("not printable: U+%04x", (unsigned)c);
        width += w;
        i += n;
    }
    return width;
}

/* Whether the line without its indent is one word: nothing that could be broken. */
static bool is_one_word(const char *line, size_t length)
{
    while (length && *line == ' ')
        line++, length--;
    return memchr(line, ' ', length) == NULL;
}

static void check_text(const rs_buffer *out, const rs_terminal *t)
{
    for (const char *line = out->data; *line;) {
        size_t n = strcspn(line, "\n");
        int width = columns_of(line, n);
        if (width > t->width && !is_one_word(line, n))
            fail_msg("%d columns of %d: %.*s", width, t->width, (int)n, line);
        line += n + 1;
    }
    for (const unsigned char *c = (const unsigned char *)out->data; *c; c++) {
        if (!t->unicode) assert_true(*c < 0x80);
        if (!t->color) assert_true(*c != 0x1b);
        assert_true(*c >= 0x20 || *c == '\n' || *c == 0x1b);
    }
    assert_null(strstr(out->data, "\x1b[31mred")); /* the sequence inside a text of the sample */
}

/* Tables of random columns, with texts of all kinds. */
static rs_result *random_result(uint32_t seed)
{
    static char names[24][64];
    rs_column columns[24];
    rs_error err;
    rs_table *t;
    rs_result *r = rs_result_new("scan");
    size_t n = 1 + seed % 23, row;
    static const char *const keys[] = {"stack", "attention", "layer", "head", "product"};
    for (size_t c = 0; c < n; c++) {
        seed = seed * 1664525u + 1013904223u;
        snprintf(names[c], sizeof names[c], "%.*s_%zu", (int)(seed >> 20) % 32,
                 "a_column_with_a_very_long_name_of_it", c);
        columns[c] = (rs_column){.name = c < 5 && n > 5 ? keys[c] : names[c],
                                 .type = (rs_column_type)((seed >> 16) % 5)};
    }
    assert_int_equal(rs_result_add_table(r, "random", NULL, NULL, columns, n, &t, &err), RS_OK);
    for (int k = 0; k < 8; k++) {
        assert_int_equal(rs_table_add_row(t, &row, &err), RS_OK);
        for (size_t c = 0; c < n; c++) {
            seed = seed * 1664525u + 1013904223u;
            double x[3] = {(double)seed * 1e-5, 1e-300, -(double)seed};
            if (columns[c].type == RS_COLUMN_TEXT)
                assert_int_equal(
                    rs_table_set_text(t, row, c, sample_texts[(seed >> 8) % SAMPLE_TEXTS], &err),
                    RS_OK);
            if (columns[c].type == RS_COLUMN_INT)
                rs_table_set_int(t, row, c, (int64_t)seed << (seed % 30));
            if (columns[c].type == RS_COLUMN_REAL) rs_table_set_real(t, row, c, x[seed >> 8 & 1]);
            if (columns[c].type == RS_COLUMN_VECTOR)
                assert_int_equal(rs_table_set_vector(t, row, c, x, seed >> 9 & 3 ? 3 : 0, &err),
                                 RS_OK);
        }
    }
    return r;
}

static void nothing_is_wider_than_the_terminal(void **state)
{
    (void)state;
    rs_error err;
    rs_result *r;
    rs_buffer out = {0};
    assert_int_equal(sample_result(&r, &err), RS_OK);
    for (int width = 40; width <= 200; width++) {
        for (int how = 0; how < 4; how++) {
            const rs_terminal t = {
                .width = width, .color = how & 1, .unicode = how & 2, .tables = "all"};
            rs_result *other = random_result((uint32_t)(width * 4 + how));
            out.length = 0;
            assert_int_equal(rs_write_terminal(&out, r, &t, &err), RS_OK);
            check_text(&out, &t);
            out.length = 0;
            assert_int_equal(rs_write_terminal(&out, other, &t, &err), RS_OK);
            check_text(&out, &t);
            rs_result_free(other);
        }
    }
    rs_buffer_free(&out);
    rs_result_free(r);
}

static void tables_come_only_when_asked(void **state)
{
    (void)state;
    rs_error err;
    rs_result *r;
    rs_buffer out = {0};
    rs_terminal t = {.width = 100};
    assert_int_equal(sample_result(&r, &err), RS_OK);
    assert_int_equal(rs_write_terminal(&out, r, &t, &err), RS_OK);
    assert_null(strstr(out.data, "singular_values"));
    assert_ptr_equal(strstr(out.data, "! Something happened.\n  -> look at it\n"), out.data);
    assert_non_null(strstr(out.data, "2 critical findings\n"));
    assert_non_null(strstr(out.data, "X even_code: 15 cases, 10 of them only a note"));
    assert_non_null(strstr(out.data, "22.7 million parameters"));
    out.length = 0;
    t.tables = "empty,heads";
    assert_int_equal(rs_write_terminal(&out, r, &t, &err), RS_OK);
    assert_non_null(strstr(out.data, "singular_values"));
    t.tables = "head";
    assert_int_equal(rs_write_terminal(&out, r, &t, &err), RS_E_BAD_OPTION);
    assert_string_equal(err.what, "no table 'head'; nearest is 'heads'");
    rs_buffer_free(&out);
    rs_result_free(r);
}

/* A model of 100 layers and 500 heads is shown in bands, by the lowest of each. */
static void large_models_are_shown_in_bands(void **state)
{
    (void)state;
    rs_error err;
    rs_result *r = rs_result_new("scan");
    rs_table *t;
    rs_buffer out = {0};
    size_t row;
    assert_int_equal(
        rs_result_add_table(r, "heads", NULL, NULL, sample_columns, SAMPLE_COLUMNS, &t, &err),
        RS_OK);
    for (int k = 0; k < 100 * 500; k++) {
        assert_int_equal(rs_table_add_row(t, &row, &err), RS_OK);
        rs_table_set_int(t, row, 0, k / 500);
        rs_table_set_int(t, row, 1, k % 500);
        assert_int_equal(rs_table_set_text(t, row, 2, "qk", &err), RS_OK);
        rs_table_set_real(t, row, 3, k / 500 == 99 && k % 500 == 499 ? 3 : 9.5);
        rs_table_set_real(t, row, 4, 10);
    }
    const rs_terminal how = {.width = 80};
    assert_int_equal(rs_write_terminal(&out, r, &how, &err), RS_OK);
    check_text(&out, &how);
    assert_non_null(strstr(out.data, "lowest of 3 layers x 7"));
    assert_non_null(strstr(out.data, "93\n")); /* the last cell of the last line, and only there */
    assert_null(strstr(strstr(out.data, "93\n") + 1, "93\n"));
    rs_buffer_free(&out);
    rs_result_free(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_wider_than_the_terminal),
        cmocka_unit_test(tables_come_only_when_asked),
        cmocka_unit_test(large_models_are_shown_in_bands),
    };
    if (!setlocale(LC_CTYPE, "C.UTF-8") && !setlocale(LC_CTYPE, "en_US.UTF-8")) return 1;
    return cmocka_run_group_tests_name("write_terminal", tests, NULL, NULL);
}
