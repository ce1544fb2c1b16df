/* test_result.c: the result object, and that it survives running out of memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "lab/toy.h"
#include "property.h"
#include "report/number.h"
#include "report/table.h"
#include "report_sample.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void cells_hold_what_was_put(void **state)
{
    (void)state;
    rs_result *r;
    rs_error err;
    size_t n;
    assert_int_equal(sample_result(&r, &err), RS_OK);
    const rs_table *t = rs_result_table(r, "heads");
    assert_int_equal(rs_table_rows(t), SAMPLE_TEXTS);
    assert_int_equal(rs_table_find_column(t, "alive"), 5);
    assert_int_equal(rs_table_find_column(t, "absent"), -1);
    assert_string_equal(rs_table_text(t, 1, 2), "a,b");
    assert_int_equal(rs_table_int(t, 2, 1), 2);
    assert_int_equal(rs_table_int(t, 3, 1), RS_NULL_INT);
    assert_int_equal(rs_table_int(t, 2, 5), 1);
    assert_true(isnan(rs_table_real(t, 6, 4))); /* infinity became null */
    assert_non_null(rs_table_vector(t, 2, 6, &n));
    assert_int_equal(n, 2);
    assert_null(rs_table_vector(t, 3, 6, &n));
    assert_null(rs_table_text(t, SAMPLE_TEXTS, 2));
    assert_true(isnan(rs_table_real(t, 0, 99)));
    rs_result_free(r);
}

/* A row as a struct, with every kind of member. */
typedef struct sample_row {
    const char *text;
    int64_t many;
    int32_t few;
    double real, whole;
    bool known;
    rs_truth truth, twin;
    rs_list list;
} sample_row;

static const rs_column row_columns[] = {
    {.name = "text", RS_CELL(sample_row, text)},
    {.name = "many", RS_CELL(sample_row, many)},
    {.name = "few", RS_CELL(sample_row, few)},
    {.name = "real", RS_CELL(sample_row, real)},
    {.name = "whole",
     .type = RS_COLUMN_INT,
     .member = RS_MEMBER_REAL,
     .at = offsetof(sample_row, whole)},
    {.name = "known", RS_CELL(sample_row, known)},
    {.name = "truth", RS_CELL(sample_row, truth)},
    {.name = "twin", RS_CELL(sample_row, twin), RS_WITH(sample_row, real)},
    {.name = "list", RS_CELL(sample_row, list)},
};
enum { ROW_COLUMNS = sizeof row_columns / sizeof *row_columns };

static void cells_are_members_of_a_row(void **state)
{
    (void)state;
    rs_result *r = rs_result_new("x");
    rs_error err;
    rs_table *t;
    size_t n;
    const double values[] = {3, 1};
    sample_row empty,
        full = {"a", (INT64_C(1) << 62) + 1, 7, 0.5, 9, true, true, false, {values, 2}};
    assert_int_equal(rs_result_add_table(r, "t", NULL, NULL, row_columns, ROW_COLUMNS, &t, &err),
                     RS_OK);
    rs_columns_clear(row_columns, ROW_COLUMNS, &empty);
    empty.twin = true;
    assert_int_equal(rs_table_append(t, &full, &err), RS_OK);
    assert_int_equal(rs_table_append(t, &empty, &err), RS_OK);
    full.real = (double)INFINITY;
    assert_int_equal(rs_table_append(t, &full, &err), RS_OK);

    const int64_t whole[] = {full.many, 7, 9, 1, 1, 0};
    const size_t at[] = {1, 2, 4, 5, 6, 7};
    assert_string_equal(rs_table_text(t, 0, 0), "a");
    assert_true(rs_table_real(t, 0, 3) == 0.5);
    for (size_t i = 0; i < 6; i++)
        assert_int_equal(rs_table_int(t, 0, at[i]), whole[i]);
    assert_true(rs_table_vector(t, 0, 8, &n)[1] == 1 && n == 2);
    for (size_t c = 0; c < ROW_COLUMNS; c++)
        assert_int_equal(rs_table_is_null(t, 1, c), c != 5); /* a bool is never null */
    assert_true(rs_table_is_null(t, 2, 3) && rs_table_is_null(t, 2, 7));
    assert_true(isnan(rs_column_value(&row_columns[7], &full)));
    assert_true(rs_column_value(&row_columns[2], &full) == 7);
    rs_result_free(r);
}

/* Two structs in one, the second's columns moved there. */
static void columns_move_with_their_struct(void **state)
{
    (void)state;
    struct {
        sample_row first, second;
    } both = {.first = {.real = 1}, .second = {.real = 2, .twin = true}};
    rs_column moved[ROW_COLUMNS];
    size_t second = (size_t)((char *)&both.second - (char *)&both);
    assert_ptr_equal(rs_columns_within(moved, row_columns, ROW_COLUMNS, second),
                     moved + ROW_COLUMNS);
    assert_true(rs_column_value(&moved[3], &both) == 2);
    both.first.real = NAN;
    assert_true(rs_column_value(&moved[7], &both) == 1);
    both.second.real = NAN;
    assert_true(isnan(rs_column_value(&moved[7], &both)));
}

static void findings_are_in_order(void **state)
{
    (void)state;
    rs_result *r;
    rs_error err;
    assert_int_equal(sample_result(&r, &err), RS_OK);
    for (size_t i = 1; i < rs_result_finding_count(r); i++) {
        const rs_finding *a = rs_result_finding_at(r, i - 1), *b = rs_result_finding_at(r, i);
        assert_true(a->severity >= b->severity);
        if (a->severity == b->severity && a->layer != RS_NULL_INT) assert_true(a->layer < b->layer);
    }
    rs_result_free(r);
}

/* A code's cases: severity, layer (-1: none), thing, value. */
typedef struct told {
    rs_severity severity;
    int64_t layer, thing;
    double value;
} told;

static void says_of(const char *wanted, const told *cases, size_t n)
{
    rs_error err;
    rs_result *r = rs_result_new("x");
    for (size_t i = 0; i < n; i++) {
        rs_finding f = rs_finding_of(cases[i].severity, "a_code");
        if (cases[i].layer >= 0) f.layer = cases[i].layer;
        f.thing = cases[i].thing;
        f.value = cases[i].value;
        f.threshold = 1;
        f.cases = f.layer == RS_NULL_INT ? "alarms" : "layers";
        f.message = cases[i].severity == RS_CRITICAL ? "It lasts." : "It began.";
        f.worst = "worst";
        assert_int_equal(rs_result_add_finding(r, &f, &err), RS_OK);
    }
    assert_int_equal(rs_result_seal(r, &err), RS_OK);
    assert_int_equal(rs_result_group_count(r), 1);
    assert_int_equal(rs_result_group_at(r, 0)->count, n); /* rows of table findings */
    assert_string_equal(rs_result_group_at(r, 0)->message, wanted);
    rs_result_free(r);
}

/* What is told several times of one thing is one; a warning is no note. */
static void things_are_counted_once(void **state)
{
    (void)state;
    const rs_severity W = RS_WARN, C = RS_CRITICAL, I = RS_INFO;
    says_of("2 layers; worst layer 1 (0.25)",
            (const told[]){{W, 1, 2, .5}, {W, 3, 4, .5}, {C, 1, 2, .25}, {C, 3, 4, .5}}, 4);
    says_of(
        "3 layers, 2 of them only a warning; worst layer 1 (0.5)",
        (const told[]){{W, 1, 2, .1}, {W, 3, 4, .5}, {C, 1, 2, .5}, {W, 0, 1, .5}, {W, 3, 4, .5}},
        5);
    says_of("It lasts.", (const told[]){{W, -1, 1, .5}, {C, -1, 1, .5}}, 2);
    says_of("It lasts.", (const told[]){{W, 2, 3, .5}, {C, 2, 3, .5}}, 2);
    says_of("2 alarms, 1 of them only a warning; worst: It lasts.",
            (const told[]){{W, -1, 1, .5}, {C, -1, 1, .5}, {W, -1, 2, .5}}, 3);
    says_of("4 layers, 1 of them only a warning and 2 only a note; worst layer 0 (0.5)",
            (const told[]){{C, 0, 0, .5}, {W, 0, 0, .5}, {I, 0, 0, .5}, {I, 0, 0, .5}}, 4);
    says_of("3 layers, 2 of them only a note; worst layer 0 (0.5)",
            (const told[]){{W, 0, 0, .5}, {I, 0, 0, .5}, {I, 0, 0, .5}}, 3);
}

static void mistakes_of_the_program_are_errors(void **state)
{
    (void)state;
    rs_result *r = rs_result_new("x");
    rs_error err;
    rs_table *t;
    rs_buffer out = {0};
    size_t row;
    assert_int_equal(rs_result_set_meta(r, "tables", json_null(), &err), RS_E_INTERNAL);
    assert_int_equal(rs_result_add_table(r, "t", NULL, NULL, sample_columns, 7, &t, &err), RS_OK);
    rs_table *again;
    assert_int_equal(rs_result_add_table(r, "t", NULL, NULL, sample_columns, 7, &again, &err),
                     RS_E_INTERNAL);
    assert_int_equal(rs_table_append(t, &row, &err), RS_E_INTERNAL); /* no column has a member */
    assert_int_equal(rs_table_add_row(t, &row, &err), RS_OK);
    rs_table_set_int(t, row, 3, 1); /* a real column */
    assert_int_equal(rs_write_csv(&out, t, &err), RS_E_INTERNAL);
    assert_int_equal(rs_write_json(&out, r, &err), RS_E_INTERNAL);
    rs_buffer_free(&out);
    rs_result_free(r);
}

/* Of four digits the nearest on the asked side: the next number of four digits towards the value is
 * on its other side. */
static void bounds_are_printed_outward(void **state)
{
    (void)state;
    char text[RS_NUMBER_SIZE];
    static const struct {
        double value;
        bool up;
        const char *text;
    } known[] = {{0.9900253722582558, true, "0.9901"},
                 {0.9900253722582558, false, "0.99"},
                 {16.858, true, "16.86"},
                 {16.858, false, "16.85"},
                 {9999.5, true, "1e+04"},
                 {9999.5, false, "9999"},
                 {-0.12345, true, "-0.1234"},
                 {-0.12345, false, "-0.1235"},
                 {0.25, true, "0.25"},
                 {0, true, "0"},
                 {(double)INFINITY, true, "inf"},
                 {1.00001e-300, true, "1.001e-300"}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        rs_number_outward(text, known[i].value, 4, known[i].up);
        assert_string_equal(text, known[i].text);
    }
    rs_random random = rs_random_new(5, 0);
    for (int i = 0; i < 20000; i++) {
        double g[2];
        rs_draw_gaussian(g, 2, 1, &random);
        double value = g[0] * pow(10, 40 * g[1]);
        for (int up = 0; up < 2; up++) {
            rs_number_outward(text, value, 1 + i % 9, up);
            double printed = strtod(text, NULL);
            if (up ? printed < value : printed > value) fail_msg("%.17g, %d: %s", value, up, text);
            double unit = pow(10, floor(log10(fabs(value))) - i % 9);
            if (fabs(printed - value) > 1.0000001 * unit)
                fail_msg("%.17g, %d: %s is no neighbour", value, up, text);
        }
    }
}

/* The texts are the shortest that strtod reads back, found by trying 15, 16 and 17 digits. */
static void numbers_are_the_shortest_that_read_back(void **state)
{
    (void)state;
    for (int i = property_start(200000, 1000000); property_next(&i);) {
        double value;
        char text[RS_NUMBER_SIZE], tried[40];
        uint64_t used = i < 4094 ? (uint64_t)(i / 2) << 52 | (uint64_t)(i & 1) : property_bits();
        memcpy(&value, &used, sizeof value);
        if (!isfinite(value)) continue;
        size_t length = rs_number_format(text, value);
        assert_int_equal(length, strlen(text));
        assert_true(strtod(text, NULL) == value);
        int digits = 1;
        while (snprintf(tried, sizeof tried, "%.*e", digits - 1, value) &&
               strtod(tried, NULL) != value)
            digits += digits < 14 && i >= 4094 ? 13 : 1;
        int counted = 0, zeros = 0;
        for (const char *c = text; *c && *c != 'e'; c++) {
            if (*c < '0' || *c > '9' || (counted == 0 && *c == '0')) continue;
            counted++;
            zeros = *c == '0' ? zeros + 1 : 0;
        }
        if (counted - zeros > digits) fail_msg("%s has more digits than %s", text, tried);
    }
}

static rs_status build_and_write(rs_error *err)
{
    rs_result *r = NULL;
    rs_buffer json = {0}, csv = {0}, terminal = {0}, html = {0};
    const rs_terminal how = {.width = 80, .color = true, .unicode = true, .tables = "all"};
    rs_status s = sample_result(&r, err);
    if (s == RS_OK) s = rs_result_seal(r, err);
    if (s == RS_OK) s = rs_write_json(&json, r, err);
    if (s == RS_OK) s = rs_write_csv(&csv, rs_result_table(r, "heads"), err);
    if (s == RS_OK) s = rs_write_terminal(&terminal, r, &how, err);
    if (s == RS_OK) s = rs_write_html(&html, r, err);
    rs_buffer_free(&json);
    rs_buffer_free(&csv);
    rs_buffer_free(&terminal);
    rs_buffer_free(&html);
    rs_result_free(r);
    return s;
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    rs_error err;
    int64_t before = rs_memory_requests();
    assert_int_equal(build_and_write(&err), RS_OK);
    int64_t needed = rs_memory_requests() - before;
    for (int64_t n = 1; n <= 2 * needed; n++) {
        int64_t blocks = rs_memory_blocks();
        if (n > needed)
            rs_memory_fail_once(n - needed);
        else
            rs_memory_fail_at(n);
        assert_int_equal(build_and_write(&err), RS_E_NO_MEMORY);
        rs_memory_fail_at(0);
        assert_int_equal(rs_memory_blocks(), blocks);
    }
}

/* jansson leaves a member out that it has no memory for: no writer may print such a result, though
 * the figure and the program went on. */
static void a_damaged_figure_is_not_written(void **state)
{
    (void)state;
    rs_error err;
    rs_result *r;
    assert_int_equal(sample_result(&r, &err), RS_OK);
    int64_t requests = rs_memory_requests();
    json_t *spec = json_pack("{s:s}", "mark", "point");
    assert_true(rs_memory_requests() > requests); /* jansson's are counted */
    rs_memory_fail_once(1);
    assert_int_not_equal(json_object_set_new(spec, "title", json_string("lost")), 0);
    json_decref(spec);
    const rs_plot plot = rs_figure_lines(&(rs_lines){.table = "heads"});
    assert_int_equal(rs_result_add_figure(r, "damaged", NULL, NULL, plot, &err), RS_E_NO_MEMORY);
    assert_int_equal(rs_result_complete(r, &err), RS_E_NO_MEMORY);

    rs_buffer out = {0};
    const rs_terminal how = {.width = 80};
    assert_int_equal(rs_write_json(&out, r, &err), RS_E_NO_MEMORY);
    assert_int_equal(rs_write_html(&out, r, &err), RS_E_NO_MEMORY);
    assert_int_equal(rs_write_terminal(&out, r, &how, &err), RS_E_NO_MEMORY);
    assert_int_equal(out.length, 0);
    char *text;
    assert_int_equal(rs_result_csv(&text, NULL, r, "heads", &err), RS_E_NO_MEMORY);
    assert_null(text);
    rs_result_free(r);

    /* also where nothing was added behind it */
    assert_int_equal(sample_result(&r, &err), RS_OK);
    rs_memory_fail_once(1);
    assert_null(json_string("lost"));
    assert_int_equal(rs_result_seal(r, &err), RS_E_NO_MEMORY);
    assert_int_equal(rs_result_text(&text, NULL, r, RS_FORM_JSON, &err), RS_E_NO_MEMORY);
    rs_result_free(r);
    rs_memory_fail_at(0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cells_hold_what_was_put),
        cmocka_unit_test(cells_are_members_of_a_row),
        cmocka_unit_test(columns_move_with_their_struct),
        cmocka_unit_test(findings_are_in_order),
        cmocka_unit_test(things_are_counted_once),
        cmocka_unit_test(bounds_are_printed_outward),
        cmocka_unit_test(mistakes_of_the_program_are_errors),
        cmocka_unit_test(numbers_are_the_shortest_that_read_back),
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(a_damaged_figure_is_not_written),
    };
    return cmocka_run_group_tests_name("result", tests, NULL, NULL);
}
