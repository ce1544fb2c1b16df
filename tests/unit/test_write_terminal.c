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
    assert_non_null(
        strstr(out.data, "X even_code: 15 cases, 5 of them only a warning and 5 only a note"));
    assert_non_null(strstr(out.data, "22.7 M parameters"));
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

/* Writes table heads of so many layers and heads, whose effective rank against chance `ratio`
 * gives. */
static void write_heads(rs_buffer *out, int layers, int heads, double (*ratio)(int layer, int head),
                        const rs_terminal *how)
{
    rs_error err;
    rs_result *r = rs_result_new("scan");
    rs_table *t;
    size_t row;
    assert_int_equal(
        rs_result_add_table(r, "heads", NULL, NULL, sample_columns, SAMPLE_COLUMNS, &t, &err),
        RS_OK);
    for (int k = 0; k < layers * heads; k++) {
        assert_int_equal(rs_table_add_row(t, &row, &err), RS_OK);
        rs_table_set_int(t, row, 0, k / heads);
        rs_table_set_int(t, row, 1, k % heads);
        assert_int_equal(rs_table_set_text(t, row, 2, "qk", &err), RS_OK);
        rs_table_set_real(t, row, 3, 10 * ratio(k / heads, k % heads));
        rs_table_set_real(t, row, 4, 10);
    }
    out->length = 0;
    assert_int_equal(rs_write_terminal(out, r, how, &err), RS_OK);
    check_text(out, how);
    rs_result_free(r);
}

static int lines_of(const rs_buffer *out)
{
    int n = 0;
    for (const char *c = out->data; *c; c++)
        n += *c == '\n';
    return n;
}

static double last_is_ill(int layer, int head)
{
    return layer == 99 && head == 499 ? 0.3 : 0.95;
}

static double one_a_layer_is_ill(int layer, int head)
{
    return layer % 4 == head ? 0.2 : 0.5 + 0.3 * (layer % 2);
}

static double two_are_ill(int layer, int head)
{
    return layer == 3 && head == 1 ? 0.1 : layer == 40 && head == 0 ? 0.6 : 1;
}

/* Ink is on what is ill; layers that have nothing to say share a line; heads that have no room of
 * their own are shown by the lowest of several. */
static void healthy_layers_share_a_line(void **state)
{
    const rs_terminal how = {.width = 80};
    rs_buffer out = {0};
    (void)state;
    write_heads(&out, 100, 500, last_is_ill, &how);
    assert_non_null(strstr(out.data, "lowest of 1 layers x 8 heads"));
    assert_non_null(strstr(out.data, "\nqk  0-98 all 0.75 or more\n      99 ......"));
    assert_non_null(strstr(out.data, ".....+\n"));
    write_heads(&out, 48, 3, two_are_ill, &how);
    assert_non_null(strstr(out.data, "\nqk   0-2 all 0.75 or more\n       3 .#.\n"
                                     "    4-39 all 0.75 or more\n      40 -..\n"
                                     "   41-47 all 0.75 or more\n"));
    rs_buffer_free(&out);
}

/* However deep the model, the picture and what stands around it fit a screen of 24 lines; no ill
 * layer is lost on the way. */
static void pictures_fit_a_screen(void **state)
{
    rs_buffer out = {0};
    (void)state;
    for (int layers = 1; layers <= 1000; layers += layers < 100 ? 1 : 97)
        for (int how = 0; how < 3; how++) {
            const rs_terminal t = {.width = how == 1 ? 120 : 80, .unicode = how == 2};
            write_heads(&out, layers, 4, one_a_layer_is_ill, &t);
            if (lines_of(&out) > 20) fail_msg("%d layers: %s", layers, out.data);
            assert_non_null(strstr(out.data, t.unicode ? "\xE2\x96\x88" : "#"));
        }
    rs_buffer_free(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_wider_than_the_terminal),
        cmocka_unit_test(tables_come_only_when_asked),
        cmocka_unit_test(healthy_layers_share_a_line),
        cmocka_unit_test(pictures_fit_a_screen),
    };
    if (!setlocale(LC_CTYPE, "C.UTF-8") && !setlocale(LC_CTYPE, "en_US.UTF-8")) return 1;
    return cmocka_run_group_tests_name("write_terminal", tests, NULL, NULL);
}
