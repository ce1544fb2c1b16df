/*
 * test_palette.c: curves can be told apart, without colour and by readers with deuteranopia.
 *
 * CIEDE2000 is written here anew after Sharma, Wu, Dalal (Color Research and Application 30, 2005),
 * and held against pairs of their table; deuteranopia is simulated after Machado, Oliveira,
 * Fernandes (IEEE TVCG 15, 2009), severity 1.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "report/drawing.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define RADIANS (3.14159265358979323846 / 180)

typedef struct lab {
    double l, a, b;
} lab;

/* ---- colours ---- */

static double linear(unsigned byte)
{
    double c = byte / 255.0;
    return c <= 0.04045 ? c / 12.92 : pow((c + 0.055) / 1.055, 2.4);
}

static void linear_of(double rgb[3], const char *text)
{
    unsigned byte[3];
    assert_int_equal(sscanf(text, "#%2x%2x%2x", &byte[0], &byte[1], &byte[2]), 3);
    for (int i = 0; i < 3; i++)
        rgb[i] = linear(byte[i]);
}

static double root(double t)
{
    return t > 216.0 / 24389 ? cbrt(t) : (24389.0 / 27 * t + 16) / 116;
}

static lab lab_of(const double rgb[3])
{
    double x = 0.4124564 * rgb[0] + 0.3575761 * rgb[1] + 0.1804375 * rgb[2];
    double y = 0.2126729 * rgb[0] + 0.7151522 * rgb[1] + 0.0721750 * rgb[2];
    double z = 0.0193339 * rgb[0] + 0.1191920 * rgb[1] + 0.9503041 * rgb[2];
    double fx = root(x / 0.95047), fy = root(y), fz = root(z / 1.08883);
    return (lab){116 * fy - 16, 500 * (fx - fy), 200 * (fy - fz)};
}

static void simulate(double out[3], const double rgb[3])
{
    static const double m[3][3] = {{0.367322, 0.860646, -0.227968},
                                   {0.280085, 0.672501, 0.047413},
                                   {-0.011820, 0.042940, 0.968881}};
    for (int i = 0; i < 3; i++)
        out[i] = fmin(fmax(m[i][0] * rgb[0] + m[i][1] * rgb[1] + m[i][2] * rgb[2], 0), 1);
}

static double hue(double a, double b)
{
    double h = atan2(b, a) / RADIANS;
    return a == 0 && b == 0 ? 0 : h < 0 ? h + 360 : h;
}

static double mean_hue(double h1, double h2, double product)
{
    if (product == 0) return h1 + h2;
    if (fabs(h1 - h2) <= 180) return (h1 + h2) / 2;
    return h1 + h2 < 360 ? (h1 + h2 + 360) / 2 : (h1 + h2 - 360) / 2;
}

static double difference(lab p, lab q)
{
    double c = (hypot(p.a, p.b) + hypot(q.a, q.b)) / 2;
    double g = 0.5 * (1 - sqrt(pow(c, 7) / (pow(c, 7) + pow(25, 7))));
    double a1 = p.a * (1 + g), a2 = q.a * (1 + g), c1 = hypot(a1, p.b), c2 = hypot(a2, q.b);
    double h1 = hue(a1, p.b), h2 = hue(a2, q.b), dh = h2 - h1;
    if (c1 * c2 == 0) dh = 0;
    if (dh > 180) dh -= 360;
    if (dh < -180) dh += 360;
    double dl = q.l - p.l, dc = c2 - c1, dhh = 2 * sqrt(c1 * c2) * sin(dh / 2 * RADIANS);
    double l = (p.l + q.l) / 2, cm = (c1 + c2) / 2, h = mean_hue(h1, h2, c1 * c2);
    double t = 1 - 0.17 * cos((h - 30) * RADIANS) + 0.24 * cos(2 * h * RADIANS) +
               0.32 * cos((3 * h + 6) * RADIANS) - 0.20 * cos((4 * h - 63) * RADIANS);
    double theta = 30 * exp(-pow((h - 275) / 25, 2));
    double rc = 2 * sqrt(pow(cm, 7) / (pow(cm, 7) + pow(25, 7)));
    double sl = 1 + 0.015 * pow(l - 50, 2) / sqrt(20 + pow(l - 50, 2));
    double sc = 1 + 0.045 * cm, sh = 1 + 0.015 * cm * t, rt = -sin(2 * theta * RADIANS) * rc;
    return sqrt(pow(dl / sl, 2) + pow(dc / sc, 2) + pow(dhh / sh, 2) + rt * dc / sc * dhh / sh);
}

static void the_formula_is_the_published_one(void **state)
{
    (void)state;
    static const struct {
        lab p, q;
        double de;
    } pairs[] = {
        {{50, 2.6772, -79.7751}, {50, 0, -82.7485}, 2.0425},
        {{50, 3.1571, -77.2803}, {50, 0, -82.7485}, 2.8615},
        {{50, 0, 0}, {50, -1, 2}, 2.3669},
        {{50, 2.49, -0.001}, {50, -2.49, 0.0009}, 7.1792},
        {{50, 2.49, -0.001}, {50, -2.49, 0.0011}, 7.2195},
        {{50, 2.5, 0}, {73, 25, -18}, 27.1492},
        {{50, 2.5, 0}, {56, -27, -3}, 31.9030},
        {{60.2574, -34.0099, 36.2677}, {60.4626, -34.1751, 39.4387}, 1.2644},
        {{22.7233, 20.0904, -46.694}, {23.0331, 14.973, -42.5619}, 2.0373},
        {{90.8027, -2.0831, 1.441}, {91.1528, -1.6435, 0.0447}, 1.4441},
        {{2.0776, 0.0795, -1.135}, {0.9033, -0.0636, -0.5514}, 0.9082},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        assert_true(fabs(difference(pairs[i].p, pairs[i].q) - pairs[i].de) < 5e-5);
}

/* ---- looks ---- */

static double seen(const char *one, const char *other)
{
    double a[3], b[3], sa[3], sb[3];
    linear_of(a, one);
    linear_of(b, other);
    simulate(sa, a);
    simulate(sb, b);
    return difference(lab_of(sa), lab_of(sb));
}

static double contrast(const char *one, const char *other)
{
    double a[3], b[3];
    linear_of(a, one);
    linear_of(b, other);
    double x = 0.2126 * a[0] + 0.7152 * a[1] + 0.0722 * a[2] + 0.05;
    double y = 0.2126 * b[0] + 0.7152 * b[1] + 0.0722 * b[2] + 0.05;
    return fmax(x, y) / fmin(x, y);
}

static bool same_dash(const double *a, const double *b)
{
    return memcmp(a, b, RS_DASHES * sizeof *a) == 0;
}

static void any_two_looks_differ(void **state)
{
    (void)state;
    for (int i = 0; i < RS_LOOKS; i++) {
        assert_true(contrast(rs_looks[i].light, "#ffffff") >= 3);
        assert_true(contrast(rs_looks[i].dark, RS_COLOUR_GROUND_DARK) >= 3);
        assert_false(same_dash(rs_looks[i].dash, rs_published_dash));
        for (int k = 0; k < i; k++) {
            assert_true(seen(rs_looks[i].light, rs_looks[k].light) >= 10);
            assert_true(seen(rs_looks[i].dark, rs_looks[k].dark) >= 10);
            assert_true(rs_looks[i].marker != rs_looks[k].marker ||
                        !same_dash(rs_looks[i].dash, rs_looks[k].dash));
        }
    }
}

/* ---- drawings ---- */

typedef struct cells {
    const char *series, *origin;
    int32_t x;
    double y;
} cells;

/* A figure of lines over rows of cells; what is drawn of it. */
static rs_result *draw_rows(rs_drawing *d, const cells *rows, size_t n)
{
    static const rs_column columns[] = {
        RS_COLUMN(cells, series, "series", NULL, NULL, NULL, NULL),
        RS_COLUMN(cells, origin, "origin", NULL, NULL, NULL, NULL),
        RS_COLUMN(cells, x, "x", NULL, NULL, NULL, NULL),
        RS_COLUMN(cells, y, "y", NULL, NULL, NULL, NULL),
    };
    rs_error err;
    rs_table *t;
    rs_result *r = rs_result_new("scan");
    assert_non_null(r);
    assert_int_equal(rs_result_add_table(r, "t", "t", "", columns, 4, &t, &err), RS_OK);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(rs_table_append(t, &rows[i], &err), RS_OK);
    const rs_lines lines = {.table = "t",
                            .x = {"x", NULL},
                            .y = {"y", NULL},
                            .colour = {"series", NULL},
                            .origin = "origin"};
    assert_int_equal(rs_result_add_figure(r, "f", "f", "", rs_figure_lines(&lines), &err), RS_OK);
    assert_int_equal(rs_drawing_make(d, r, 0, &err), RS_OK);
    return r;
}

/* Names that are less than `near` of the width apart do not lie on each other. */
static void check_names(const rs_drawing *d, double near)
{
    for (size_t i = 0; i < d->n_marks; i++)
        for (size_t k = 0; k < i; k++) {
            const rs_mark *a = &d->marks[i], *b = &d->marks[k];
            if (!a->label || !b->label) continue;
            double aside = rs_axis_place(&d->x, a->x) - rs_axis_place(&d->x, b->x);
            double up = rs_axis_place(&d->y, a->label_y) - rs_axis_place(&d->y, b->label_y);
            assert_true(fabs(aside) > near || fabs(up) * d->height > 12.9);
        }
}

/* As many curves as `n`, every third one published; their drawing keeps at most twelve. */
static void check_curves(int n)
{
    enum { MOST = 40, POINTS = 3 };
    char names[MOST][16];
    cells rows[MOST * POINTS];
    rs_drawing d;
    for (int i = 0; i < n; i++) {
        snprintf(names[i], sizeof names[i], "curve %d", i);
        for (int x = 0; x < POINTS; x++)
            rows[i * POINTS + x] =
                (cells){names[i], i % 3 == 2 ? "published" : "measured", x, 1.0 + i + x};
    }
    rs_result *r = draw_rows(&d, rows, (size_t)n * POINTS);
    assert_int_equal(d.n_curves, n < RS_LOOKS ? n : RS_LOOKS);
    assert_int_equal(d.n_curves + d.curves_left_out, n);
    for (size_t i = 0; i < d.n_curves; i++)
        for (size_t k = 0; k < i; k++)
            assert_int_not_equal(d.curves[i].look, d.curves[k].look);
    check_names(&d, 2);
    rs_drawing_free(&d);
    rs_result_free(r);
}

/* A long curve, and points of their own near each other: alarms of runs that are alike. */
static void names_inside_are_apart(void **state)
{
    static const char *const names[] = {"a", "b", "c", "d", "e", "f", "g"};
    cells rows[] = {{"long", "measured", 0, 1},    {"long", "measured", 100, 9},
                    {names[0], "measured", 10, 5}, {names[1], "measured", 12, 5.01},
                    {names[2], "measured", 14, 5}, {names[3], "measured", 60, 1},
                    {names[4], "measured", 61, 1}, {names[5], "measured", 62, 9},
                    {names[6], "measured", 63, 9}};
    rs_drawing d;
    (void)state;
    rs_result *r = draw_rows(&d, rows, sizeof rows / sizeof *rows);
    check_names(&d, 0.25);
    rs_drawing_free(&d);
    rs_result_free(r);
}

static void curves_of_a_figure_have_looks_of_their_own(void **state)
{
    (void)state;
    for (int n = 1; n <= 40; n++)
        check_curves(n);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_formula_is_the_published_one),
        cmocka_unit_test(any_two_looks_differ),
        cmocka_unit_test(curves_of_a_figure_have_looks_of_their_own),
        cmocka_unit_test(names_inside_are_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
