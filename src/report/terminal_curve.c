/*
 * terminal_curve.c: curves in a terminal: dots of braille between points, a letter at each point,
 * and the curve's name where it ends. Without Unicode the dots are full stops. The height is
 * logarithmic where the values reach so far that the small ones could not be told apart. An upper
 * bound that lies far above all else is drawn along the top edge, as ^, and the title says so.
 */
#include "report/number.h"
#include "report/table.h"
#include "report/terminal.h"
#include "report/unicode.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MOST_CURVES = 8, DOTS_X = 2, DOTS_Y = 4 };
#define WIDE_RANGE 50.0
/* An upper bound that is above the others' largest value by this factor tells nothing of them. */
#define FAR_ABOVE 10.0

static const char letters[MOST_CURVES + 1] = "ox+*#%@&", BEYOND = '^';

/* A curve: its points are the rows of the table that are its own. */
typedef struct line {
    const char *label; /* of the series or the column */
    int column;
    bool of_series;
    bool upper;   /* a bound from above */
    double last;  /* the value where it ends; NaN: it has no point */
    double above; /* the largest value beyond the axis; 0: none is */
    bool ends_above;
} line;

typedef struct drawing {
    const rs_term *term;
    const rs_table *table;
    const rs_curve *curve;
    line lines[MOST_CURVES];
    int n;
    int left_out; /* curves beyond the last */
    int x, series, only;
    double x_low, x_high, low, high; /* of what is drawn; low, high as scaled */
    bool logarithmic;
    double most;         /* values of upper bounds above it are beyond the axis */
    int columns, rows;   /* characters */
    unsigned char *dots; /* [rows, columns] bits of a braille character */
    char *marks;         /* [rows, columns] letters; 0: none */
} drawing;

/* ---- values ---- */

static double number_at(const rs_table *t, size_t row, int column)
{
    if (column < 0 || rs_table_is_null(t, row, (size_t)column)) return NAN;
    rs_column_type type = rs_table_column(t, (size_t)column)->type;
    if (type == RS_COLUMN_REAL) return rs_table_real(t, row, (size_t)column);
    return type == RS_COLUMN_INT ? (double)rs_table_int(t, row, (size_t)column) : NAN;
}

static const char *text_at(const rs_table *t, size_t row, int column)
{
    const char *text = rs_table_text(t, row, (size_t)column);
    return text ? text : "";
}

static bool is_row(const drawing *d, size_t row)
{
    return d->only < 0 || strcmp(text_at(d->table, row, d->only), d->curve->only_text) == 0;
}

/* The point of the curve in that row; false where it has none. */
static bool point(const drawing *d, const line *l, size_t row, double *x, double *y)
{
    if (!is_row(d, row)) return false;
    if (l->of_series && strcmp(text_at(d->table, row, d->series), l->label) != 0) return false;
    *x = number_at(d->table, row, d->x);
    if (d->curve->log_x) *x = *x > 0 ? log10(*x) : (double)NAN;
    *y = number_at(d->table, row, l->column);
    return isfinite(*x) && isfinite(*y) && !(d->logarithmic && !(*y > d->curve->floor));
}

/* ---- which curves ---- */

static void add_line(drawing *d, line l)
{
    if (d->n < MOST_CURVES)
        d->lines[d->n++] = l;
    else
        d->left_out++;
}

static void find_series(drawing *d)
{
    int column = rs_table_find_column(d->table, d->curve->y[0].column);
    for (size_t r = 0; r < rs_table_rows(d->table) && column >= 0; r++) {
        const char *text = text_at(d->table, r, d->series);
        bool known = !is_row(d, r);
        for (int i = 0; i < d->n && !known; i++)
            known = strcmp(d->lines[i].label, text) == 0;
        if (known) continue;
        if (d->n == MOST_CURVES) {
            d->left_out = 1;
            return;
        }
        add_line(d, (line){.label = text, .column = column, .of_series = true});
    }
}

static void find_columns(drawing *d)
{
    for (int i = 0; i < RS_CURVE_COLUMNS && d->curve->y[i].column; i++) {
        int column = rs_table_find_column(d->table, d->curve->y[i].column);
        if (column >= 0)
            add_line(d, (line){.label = d->curve->y[i].label,
                               .column = column,
                               .upper = d->curve->y[i].upper});
    }
}

/* ---- scales ---- */

static double scaled(const drawing *d, double y)
{
    return d->logarithmic ? log10(y) : y;
}

/* Above which value upper bounds tell nothing: far above all that is no such bound. */
static double find_most(const drawing *d)
{
    double x, y, highest = -INFINITY;
    for (int i = 0; i < d->n; i++)
        for (size_t r = 0; !d->lines[i].upper && r < rs_table_rows(d->table); r++)
            if (point(d, &d->lines[i], r, &x, &y)) highest = fmax(highest, y);
    return highest > 0 ? FAR_ABOVE * highest : (double)INFINITY;
}

static bool is_above(const drawing *d, const line *l, double y)
{
    return l->upper && y > d->most;
}

/* The range of all points; the number of them. */
static size_t find_range(drawing *d)
{
    size_t points = 0;
    double x, y;
    d->most = find_most(d);
    d->low = d->x_low = INFINITY;
    d->high = d->x_high = -INFINITY;
    for (int i = 0; i < d->n; i++)
        for (size_t r = 0; r < rs_table_rows(d->table); r++) {
            if (!point(d, &d->lines[i], r, &x, &y)) continue;
            points++;
            d->x_low = fmin(d->x_low, x);
            d->x_high = fmax(d->x_high, x);
            if (is_above(d, &d->lines[i], y)) {
                d->lines[i].above = fmax(d->lines[i].above, y);
                continue;
            }
            d->low = fmin(d->low, scaled(d, y));
            d->high = fmax(d->high, scaled(d, y));
        }
    return points;
}

/* Logarithmic where all that is drawn is positive and reaches far. */
static size_t choose_scale(drawing *d)
{
    size_t points = find_range(d);
    bool positive = points && (d->low > 0 || (d->curve->floor > 0 && d->low >= 0));
    if (!positive) return points; /* an axis of logarithms, or of what crosses 0 */
    d->logarithmic = true;
    points = find_range(d);
    if (points && d->high - d->low > log10(WIDE_RANGE)) return points;
    d->logarithmic = false;
    points = find_range(d);
    if (points && d->low > 0) d->low = 0; /* what hardly changes is to look so */
    return points;
}

/* What is beyond the axis has a row of its own above the largest value on it. */
static void leave_headroom(drawing *d)
{
    bool above = false;
    double share = (DOTS_Y + 0.5) / (d->rows * DOTS_Y - 1);
    for (int i = 0; i < d->n; i++)
        above |= d->lines[i].above > 0;
    if (above && share < 1)
        d->high += share / (1 - share) * (d->high > d->low ? d->high - d->low : 1);
}

/* ---- drawing ---- */

static int cell_x(const drawing *d, double x)
{
    double share = d->x_high > d->x_low ? (x - d->x_low) / (d->x_high - d->x_low) : 0;
    return (int)lround(share * (d->columns * DOTS_X - 1));
}

static int cell_y(const drawing *d, double y)
{
    double share = d->high > d->low ? (d->high - scaled(d, y)) / (d->high - d->low) : 0.5;
    return (int)lround(share * (d->rows * DOTS_Y - 1));
}

static void put_dot(drawing *d, int x, int y)
{
    static const unsigned char bits[DOTS_Y][DOTS_X] = {
        {0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}};
    d->dots[(y / DOTS_Y) * d->columns + x / DOTS_X] |= bits[y % DOTS_Y][x % DOTS_X];
}

static void put_segment(drawing *d, int x0, int y0, int x1, int y1)
{
    int steps = (int)fmax(fabs((double)(x1 - x0)), fabs((double)(y1 - y0)));
    for (int i = 0; i <= steps; i++) {
        double share = steps ? (double)i / steps : 0;
        put_dot(d, (int)lround(x0 + share * (x1 - x0)), (int)lround(y0 + share * (y1 - y0)));
    }
}

/* Rows of a curve are in the order of x. Letters keep apart, so that the line is seen too. */
static void draw_line(drawing *d, int i)
{
    enum { APART = 6 };
    line *l = &d->lines[i];
    int before_x = -1, before_y = 0, marked = -APART, points = 0;
    bool above = false;
    double x, y;
    l->last = NAN;
    for (size_t r = 0; r < rs_table_rows(d->table); r++) {
        if (!point(d, l, r, &x, &y)) continue;
        bool both_above = above && is_above(d, l, y);
        above = is_above(d, l, y);
        int at_x = cell_x(d, x), at_y = above ? 0 : cell_y(d, y), column = at_x / DOTS_X;
        if (before_x >= 0 && !both_above) put_segment(d, before_x, before_y, at_x, at_y);
        if (!above) put_dot(d, at_x, at_y);
        if (column - marked >= APART || column < marked) {
            char *mark = &d->marks[(at_y / DOTS_Y) * d->columns + column];
            if (!*mark || (points++ + i) % 2) /* those that meet take turns */
                *mark = above ? BEYOND : letters[i];
            marked = column;
        }
        before_x = at_x;
        before_y = at_y;
        l->last = y;
        l->ends_above = above;
    }
}

/* ---- writing ---- */

/* The curve whose name stands on each line: by where they end, from the top, each as near to its
 * end as the others leave room. */
static void place_labels(const drawing *d, int *at)
{
    int order[MOST_CURVES], row[MOST_CURVES], n = 0;
    for (int i = 0; i < d->rows; i++)
        at[i] = -1;
    for (int i = 0; i < d->n; i++) {
        if (isnan(d->lines[i].last)) continue;
        int k = n++;
        for (; k > 0 && d->lines[order[k - 1]].last < d->lines[i].last; k--)
            order[k] = order[k - 1];
        order[k] = i;
    }
    for (int k = 0; k < n; k++) {
        const line *l = &d->lines[order[k]];
        row[k] = l->ends_above ? 0 : cell_y(d, l->last) / DOTS_Y;
        if (k > 0 && row[k] <= row[k - 1]) row[k] = row[k - 1] + 1;
    }
    for (int k = n - 1, below = d->rows; k >= 0; k--) {
        if (row[k] >= below) row[k] = below - 1;
        below = row[k];
        if (row[k] >= 0) at[row[k]] = order[k];
    }
}

static void put_cell(const drawing *d, int row, int column)
{
    char mark = d->marks[row * d->columns + column];
    unsigned dots = d->dots[row * d->columns + column];
    char bytes[4];
    if (mark)
        rs_buffer_append(d->term->out, &mark, 1);
    else if (!dots)
        rs_buffer_append(d->term->out, " ", 1);
    else if (d->term->unicode)
        rs_buffer_append(d->term->out, bytes, rs_utf8_put(bytes, 0x2800u + dots));
    else
        rs_buffer_append(d->term->out, ".", 1);
}

enum { SCALE = 9 }; /* the width of the numbers at the left */

static void put_number(const drawing *d, double value, int width, bool right)
{
    char number[RS_NUMBER_SIZE];
    size_t n = rs_number_brief(number, value, 3);
    rs_term_pad(d->term, number, n, width, right);
}

static double value_of_row(const drawing *d, int row)
{
    double share = d->rows > 1 ? (double)row / (d->rows - 1) : 0;
    double value = d->high - share * (d->high - d->low);
    return d->logarithmic ? pow(10, value) : value;
}

static void put_rows(const drawing *d, const int *labels)
{
    for (int row = 0; row < d->rows && !d->term->out->failed; row++) {
        bool told = row == 0 || row == d->rows - 1 || (d->rows >= 7 && row == d->rows / 2);
        if (told)
            put_number(d, value_of_row(d, row), SCALE, true);
        else
            rs_term_spaces(d->term, SCALE);
        rs_buffer_puts(d->term->out, d->term->unicode ? " \xE2\x94\x82" : " |");
        for (int column = 0; column < d->columns; column++)
            put_cell(d, row, column);
        if (labels[row] >= 0) {
            rs_buffer clean = {0};
            rs_term_clean(d->term, &clean, d->lines[labels[row]].label);
            rs_buffer_printf(d->term->out, " %c %s",
                             d->lines[labels[row]].ends_above ? BEYOND : letters[labels[row]],
                             clean.data ? clean.data : "");
            rs_buffer_free(&clean);
        }
        rs_term_end_line(d->term);
    }
}

static void put_axis(const drawing *d)
{
    char low[RS_NUMBER_SIZE], high[RS_NUMBER_SIZE];
    rs_buffer title = {0};
    bool log_x = d->curve->log_x;
    size_t n = rs_number_brief(low, log_x ? pow(10, d->x_low) : d->x_low, 4);
    size_t m = rs_number_brief(high, log_x ? pow(10, d->x_high) : d->x_high, 4);
    rs_term_clean(d->term, &title, d->curve->x_title ? d->curve->x_title : d->curve->x);
    int words = title.data ? rs_text_width(title.data, title.length) : 0;
    int room = d->columns - (int)n - (int)m;
    rs_term_spaces(d->term, SCALE + 2);
    rs_buffer_append(d->term->out, low, n);
    if (words + 2 <= room) {
        rs_term_spaces(d->term, (room - words) / 2);
        rs_buffer_append(d->term->out, title.data ? title.data : "", title.length);
        rs_term_spaces(d->term, room - words - (room - words) / 2);
    } else {
        rs_term_spaces(d->term, room);
    }
    rs_buffer_append(d->term->out, high, m);
    rs_term_end_line(d->term);
    d->term->out->failed |= title.failed;
    rs_buffer_free(&title);
}

static void put_title(const drawing *d)
{
    rs_buffer title = {0};
    rs_buffer_printf(&title, "%s%s", d->curve->title, d->logarithmic ? " (logarithmic)" : "");
    if (d->left_out) rs_buffer_printf(&title, "; the first %d", d->n);
    for (int i = 0; i < d->n; i++) {
        char number[RS_NUMBER_SIZE];
        if (!(d->lines[i].above > 0)) continue;
        rs_number_outward(number, d->lines[i].above, 3, true);
        rs_buffer_printf(&title, "; %c %s: beyond the axis, up to %s", BEYOND, d->lines[i].label,
                         number);
    }
    rs_term_style(d->term, RS_BOLD);
    if (!title.failed) rs_term_wrap(d->term, title.data, 0, 2);
    rs_term_style(d->term, RS_PLAIN);
    d->term->out->failed |= title.failed;
    rs_buffer_free(&title);
}

static int label_width(const drawing *d)
{
    int widest = 0;
    for (int i = 0; i < d->n; i++) {
        rs_buffer clean = {0};
        rs_term_clean(d->term, &clean, d->lines[i].label);
        int width = clean.data ? rs_text_width(clean.data, clean.length) : 0;
        if (width > widest) widest = width;
        rs_buffer_free(&clean);
    }
    return widest;
}

static rs_status draw(drawing *d, rs_error *err)
{
    enum { WIDEST = 72, NARROWEST_PLOT = 8 };
    int room = d->term->width - SCALE - 2 - label_width(d) - 3;
    d->columns = room > WIDEST ? WIDEST : room;
    if (d->columns < NARROWEST_PLOT) return RS_OK;
    size_t cells = (size_t)d->rows * (size_t)d->columns;
    int *labels = rs_malloc((size_t)d->rows, sizeof *labels);
    d->dots = rs_calloc(cells, 1);
    d->marks = rs_calloc(cells, 1);
    bool fine = labels && d->dots && d->marks;
    if (fine) {
        for (int i = 0; i < d->n; i++)
            draw_line(d, i);
        place_labels(d, labels);
        put_title(d);
        put_rows(d, labels);
        put_axis(d);
    }
    rs_free(labels);
    rs_free(d->dots);
    rs_free(d->marks);
    return fine && !d->term->out->failed ? RS_OK : rs_fail_memory(err, "curves", cells);
}

rs_status rs_term_curve(const rs_term *term, const rs_result *result, const rs_curve *curve,
                        int rows, rs_error *err)
{
    const rs_table *table = rs_result_table(result, curve->table);
    if (!table) return RS_OK;
    drawing d = {.term = term, .table = table, .curve = curve, .rows = rows, .series = -1};
    d.x = rs_table_find_column(table, curve->x);
    d.only = curve->only ? rs_table_find_column(table, curve->only) : -1;
    if (curve->series) d.series = rs_table_find_column(table, curve->series);
    if (d.x < 0) return RS_OK;
    if (d.series >= 0)
        find_series(&d);
    else
        find_columns(&d);
    if (d.rows < d.n) d.rows = d.n; /* a line for each name */
    if (choose_scale(&d) < 2 || !(d.x_high > d.x_low)) return RS_OK;
    leave_headroom(&d);
    return draw(&d, err);
}
