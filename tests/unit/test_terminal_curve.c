/* test_terminal_curve.c: curves in a terminal go where their points are, have their names where they
 * end, and fit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "report/terminal.h"
#include "report/unicode.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct cells {
    const char *series, *site;
    int64_t x;
    double up, down, far, bound;
} cells;

static const rs_column columns[] = {
    {.name = "series", RS_CELL(cells, series)}, {.name = "site", RS_CELL(cells, site)},
    {.name = "x", RS_CELL(cells, x)},           {.name = "up", RS_CELL(cells, up)},
    {.name = "down", RS_CELL(cells, down)},     {.name = "far", RS_CELL(cells, far)},
    {.name = "bound", RS_CELL(cells, bound)},
};
enum { COLUMNS = sizeof columns / sizeof *columns };

static rs_error err;
static rs_buffer out;

/* Series 0 to n - 1 at 11 places: up = x + series, down = 20 - up, far = 10^-(x + series), bound = far
 * above all from the middle on. */
static rs_result *make(int n)
{
    static char names[32][16];
    rs_table *t;
    rs_result *r = rs_result_new("probe");
    assert_int_equal(rs_result_add_table(r, "points", NULL, NULL, columns, COLUMNS, &t, &err),
                     RS_OK);
    for (int s = 0; s < n; s++)
        for (int i = 0; i < 22; i++) {
            int x = i / 2;
            snprintf(names[s], sizeof names[s], "series %d", s);
            const cells row = {.series = names[s],
                               .site = i % 2 ? "elsewhere" : "here",
                               .x = x,
                               .up = i % 2 ? 1000 : x + s,
                               .down = 20 - x - s,
                               .far = pow(10, -x - s),
                               .bound = x < 5 ? x + 1 : 1.2341e30 * x};
            assert_int_equal(rs_table_append(t, &row, &err), RS_OK);
        }
    return r;
}

static const rs_curve by_series = {.table = "points",
                                   .title = "Height",
                                   .x = "x",
                                   .x_title = "place",
                                   .y = {{.column = "up"}},
                                   .series = "series",
                                   .only = "site",
                                   .only_text = "here"};

static char lines[64][1024];

/* Draws, and splits the text into lines; returns their number. */
static int draw(int n_series, const rs_curve *curve, int width, bool unicode, int rows)
{
    rs_result *r = make(n_series);
    const rs_term term = {.out = &out, .width = width, .height = 24, .unicode = unicode};
    int n = 0;
    out.length = 0;
    rs_buffer_puts(&out, "");
    assert_int_equal(rs_term_curve(&term, r, curve, rows, &err), RS_OK);
    for (const char *p = out.data; *p; n++) {
        size_t length = strcspn(p, "\n");
        snprintf(lines[n], sizeof lines[n], "%.*s", (int)length, p);
        p += length + 1;
    }
    rs_result_free(r);
    return n;
}

/* Of one line that rises by one a step, each row's part lies left of the row's above. */
static void a_rising_line_rises(void **state)
{
    (void)state;
    assert_int_equal(draw(1, &by_series, 80, false, 6), 8);
    assert_string_equal(lines[0], "Height");
    int before = 1000;
    for (int row = 1; row <= 6; row++) {
        const char *plot = strchr(lines[row], '|') + 1;
        int first = (int)strspn(plot, " ");
        assert_true(first < before);
        before = first;
    }
    assert_int_equal(before, 0); /* it begins in the corner below */
    assert_non_null(strstr(lines[1], "10 |"));
    assert_non_null(strstr(lines[1], " o series 0"));
    assert_non_null(strstr(lines[6], " 0 |o"));
    assert_non_null(strstr(lines[7], "place"));
}

/* Rows of another site (their height is 1000) are not drawn; without the condition they are. */
static void only_the_rows_that_are_meant(void **state)
{
    rs_curve all = by_series;
    (void)state;
    draw(1, &by_series, 80, false, 6);
    assert_null(strstr(out.data, "1e+03 |"));
    all.only = NULL;
    draw(1, &all, 80, false, 6);
    assert_non_null(strstr(out.data, "1e+03 |"));
}

/* Powers of ten make a straight line on a logarithmic axis, and the axis says that it is one. */
static void far_values_get_logarithms(void **state)
{
    rs_curve far = by_series;
    (void)state;
    far.y[0].column = "far";
    draw(1, &far, 80, false, 6);
    assert_string_equal(lines[0], "Height (logarithmic)");
    assert_non_null(strstr(lines[1], " 1 |o"));
    assert_non_null(strstr(lines[6], "1e-10 |"));
    int before = -1;
    for (int row = 1; row <= 6; row++) {
        int first = (int)strspn(strchr(lines[row], '|') + 1, " ");
        assert_true(first > before);
        before = first;
    }
    far.floor = 3e-5; /* what rounding has left is not drawn */
    draw(1, &far, 80, false, 6);
    assert_non_null(strstr(lines[6], "0.0001 |"));
}

/* What hardly changes looks so: a linear axis begins at 0. */
static void a_linear_axis_begins_at_nothing(void **state)
{
    const rs_curve down = {
        .table = "points",
        .title = "Depth",
        .x = "x",
        .y = {{"down", "falls", false}, {"up", "rises", false}, {"absent", "none", false}},
        .only = "site",
        .only_text = "here"};
    (void)state;
    draw(1, &down, 80, false, 7);
    assert_non_null(strstr(lines[1], "20 |o"));
    assert_non_null(strstr(lines[7], " 0 |x"));
    assert_non_null(strstr(out.data, "o falls"));
    assert_non_null(strstr(out.data, "x rises"));
    assert_null(strstr(out.data, "none"));
}

/* A bound that says nothing leaves the axis to the others: it goes along the top, marked and said. */
static void a_vacuous_bound_does_not_stretch_the_axis(void **state)
{
    rs_curve both = {.table = "points",
                     .title = "Height",
                     .x = "x",
                     .y = {{"bound", "at most", true}, {"up", "measured", false}},
                     .only = "site",
                     .only_text = "here"};
    (void)state;
    for (int rows = 4; rows <= 10; rows++) {
        draw(1, &both, 80, false, rows);
        assert_string_equal(lines[0], "Height; ^ at most: beyond the axis, up to 1.24e+31");
        assert_true(strtod(lines[1], NULL) < 20); /* the others reach 10 */
        assert_non_null(strchr(strchr(lines[1], '|'), '^'));
        assert_non_null(strstr(lines[1], " ^ at most"));
        assert_null(strchr(lines[1], 'x')); /* what is measured has its own rows */
        bool drawn = false;                 /* where it says something */
        for (int row = 2; row <= rows; row++) {
            assert_null(strchr(lines[row], '^'));
            drawn |= strchr(strchr(lines[row], '|'), 'o') != NULL;
        }
        assert_true(drawn);
    }
    both.y[0].upper = false;
    draw(1, &both, 80, false, 6);
    assert_string_equal(lines[0], "Height");
    assert_non_null(strstr(lines[1], "1.23e+31 |"));
    /* A bound near to what is measured is drawn as it is. */
    both.y[0].column = "down";
    both.y[0].upper = true;
    draw(1, &both, 80, false, 6);
    assert_string_equal(lines[0], "Height");
    assert_non_null(strstr(lines[1], "20 |o"));
}

/* Each curve's name is there once, in the order in which the curves end. */
static void every_curve_is_named(void **state)
{
    char name[16];
    (void)state;
    for (int n = 1; n <= 8; n++) {
        draw(n, &by_series, 80, false, 4);
        const char *before = out.data;
        for (int s = n - 1; s >= 0; s--) { /* the last series ends highest */
            snprintf(name, sizeof name, "series %d", s);
            const char *at = strstr(out.data, name);
            if (!at) fail_msg("%d curves: no %s\n%s", n, name, out.data);
            assert_true(at > before);
            assert_null(strstr(at + 1, name));
            before = at;
        }
    }
    draw(12, &by_series, 80, false, 4);
    assert_string_equal(lines[0], "Height; the first 8");
}

static void nothing_is_wider_than_the_terminal(void **state)
{
    (void)state;
    for (int width = 32; width <= 200; width++)
        for (int unicode = 0; unicode < 2; unicode++) {
            int n = draw(3, &by_series, width, unicode, 6);
            assert_int_equal(n, 8);
            for (int i = 0; i < n; i++) {
                if (rs_text_width(lines[i], strlen(lines[i])) > width) fail_msg("%s", lines[i]);
                for (const char *c = lines[i]; *c; c++)
                    assert_true(unicode || (unsigned char)*c < 0x80);
            }
        }
}

static void no_points_no_picture(void **state)
{
    rs_curve other = by_series;
    (void)state;
    assert_int_equal(draw(0, &by_series, 80, true, 6), 0);
    other.table = "absent";
    assert_int_equal(draw(1, &other, 80, true, 6), 0);
    other = by_series;
    other.x = "absent";
    assert_int_equal(draw(1, &other, 80, true, 6), 0);
    other = by_series;
    other.only_text = "nowhere";
    assert_int_equal(draw(1, &other, 80, true, 6), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rising_line_rises),
        cmocka_unit_test(only_the_rows_that_are_meant),
        cmocka_unit_test(far_values_get_logarithms),
        cmocka_unit_test(a_linear_axis_begins_at_nothing),
        cmocka_unit_test(a_vacuous_bound_does_not_stretch_the_axis),
        cmocka_unit_test(every_curve_is_named),
        cmocka_unit_test(nothing_is_wider_than_the_terminal),
        cmocka_unit_test(no_points_no_picture),
    };
    int failed = cmocka_run_group_tests_name("terminal_curve", tests, NULL, NULL);
    rs_buffer_free(&out);
    return failed;
}
