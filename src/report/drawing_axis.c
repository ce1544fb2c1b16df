/* drawing_axis.c: scales, ticks, and where names stand: see drawing.h. */
#include "report/drawing.h"

#include "report/number.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

double rs_axis_place(const rs_axis *axis, double value)
{
    if (axis->log) return log(fmax(value, axis->low) / axis->low) / log(axis->high / axis->low);
    return (value - axis->low) / (axis->high - axis->low);
}

/* The value that stands at a place. */
static double value_at(const rs_axis *axis, double place)
{
    return axis->log ? axis->low * pow(axis->high / axis->low, place)
                     : axis->low + place * (axis->high - axis->low);
}

void rs_axis_text(char out[RS_TICK_SIZE], const rs_axis *axis, double tick)
{
    char digits[RS_NUMBER_SIZE];
    const char *word = axis->first && tick == axis->ticks[0]                  ? axis->first
                       : axis->last && tick == axis->ticks[axis->n_ticks - 1] ? axis->last
                                                                              : NULL;
    if (word) {
        snprintf(out, RS_TICK_SIZE, "%s", word);
        return;
    }
    if (axis->values && tick >= 0 && tick < (double)axis->n_values) {
        rs_number_brief(digits, axis->values[(size_t)tick], 4);
        snprintf(out, RS_TICK_SIZE, "%.*s", RS_TICK_SIZE - 1, digits);
        return;
    }
    double power = axis->log ? floor(log10(tick) + 1e-9) : 0, mantissa = tick / pow(10, power);
    bool plain =
        !axis->log || (tick >= 1e-3 && tick < 1e5) || fabs(mantissa - round(mantissa)) > 1e-6;
    if (plain)
        rs_number_brief(digits, fabs(tick) < 1e-12 * (axis->high - axis->low) ? 0 : tick, 6);
    else
        snprintf(digits, sizeof digits, "%.0fe%d", mantissa, (int)power);
    snprintf(out, RS_TICK_SIZE, "%.*s", RS_TICK_SIZE - 1, digits);
}

/* ---- ticks ---- */

static void add_tick(rs_axis *axis, double tick)
{
    double slack = axis->log ? 0 : 1e-9 * (axis->high - axis->low);
    if (tick < axis->low - slack || tick > axis->high + slack) return;
    if (axis->n_ticks < RS_MOST_TICKS) axis->ticks[axis->n_ticks++] = tick;
}

/* 1, 2 or 5 times a power of ten. */
static double nice_step(double least)
{
    double power = pow(10, floor(log10(least))), rest = least / power;
    return power * (rest <= 1.0001 ? 1 : rest <= 2.0001 ? 2 : rest <= 5.0001 ? 5 : 10);
}

static void linear_ticks(rs_axis *axis, double wanted, bool whole)
{
    double step = nice_step((axis->high - axis->low) / wanted);
    if (whole) step = fmax(step, 1);
    double first = ceil(axis->low / step - 1e-9);
    for (int i = 0; i < RS_MOST_TICKS; i++)
        add_tick(axis, (first + i) * step);
}

static void log_ticks(rs_axis *axis, double wanted)
{
    static const double within[] = {1, 2, 5};
    int first = (int)floor(log10(axis->low)), last = (int)ceil(log10(axis->high));
    if (log10(axis->high / axis->low) < 2) {
        for (int e = first; e <= last; e++)
            for (size_t i = 0; i < 3; i++)
                add_tick(axis, within[i] * pow(10, e));
        if (axis->n_ticks > 2) return;
        axis->n_ticks = 0;
        linear_ticks(axis, wanted, false);
        return;
    }
    int step = (int)nice_step(ceil(fmax((last - first) / wanted, 1)));
    first = (int)floor((double)first / step) * step;
    for (int e = first; e <= last; e += step)
        add_tick(axis, pow(10, e));
}

/* ---- scales ---- */

static void include(rs_axis *axis, double value)
{
    if (!isfinite(value) || (axis->log && !(value > 0))) return;
    axis->low = fmin(axis->low, value);
    axis->high = fmax(axis->high, value);
}

/* Room around what was included; an axis without any is 0 to 1 (1 to 10). */
static void widen(rs_axis *axis, double share)
{
    if (!(axis->low <= axis->high)) axis->low = axis->log ? 1 : 0, axis->high = axis->log ? 10 : 1;
    if (axis->log) {
        double decades = log10(axis->high / axis->low), by = fmax(share * decades, 0.1);
        axis->low = axis->low / pow(10, by), axis->high = axis->high * pow(10, by);
        if (!(axis->low > 0)) axis->low = 1e-300;
        return;
    }
    double by = share * (axis->high - axis->low);
    /* what the digits of ticks cannot tell apart is one value */
    bool flat = axis->high - axis->low <= 1e-5 * fmax(fabs(axis->low), fabs(axis->high));
    if (flat) by = axis->low == 0 ? 0.5 : 0.05 * fabs(axis->low);
    axis->low -= by;
    axis->high += by;
}

static void axes_of(rs_drawing *d, bool log_x, bool log_y, double floor)
{
    d->x = (rs_axis){.low = INFINITY, .high = -INFINITY, .log = log_x};
    d->y = (rs_axis){.low = INFINITY, .high = -INFINITY, .log = log_y};
    for (size_t i = 0; i < d->n_marks; i++) {
        const rs_mark *m = &d->marks[i];
        include(&d->x, m->x);
        include(&d->y, m->y);
        if (!log_y || m->low > floor) include(&d->y, m->low);
        include(&d->y, m->high);
    }
}

static void line_scales(rs_drawing *d)
{
    const rs_lines *l = &d->plot->of.lines;
    axes_of(d, l->log_x, l->log_y, l->y_floor);
    if (l->y_rule > 0) include(&d->y, l->y_rule);
    widen(&d->x, d->legend ? 0 : 0.015);
    widen(&d->y, 0.04);
    d->x.title = l->x.title ? l->x.title : l->x.field;
    d->y.title = l->y.title ? l->y.title : l->y.field;
    double wanted = d->width < 200 ? 4 : d->width < 500 ? 6 : 10;
    if (l->log_x)
        log_ticks(&d->x, wanted);
    else
        linear_ticks(&d->x, wanted, l->x_whole);
    wanted = d->height < 200 ? 3 : 6;
    if (l->log_y)
        log_ticks(&d->y, wanted);
    else
        linear_ticks(&d->y, wanted, false);
}

size_t rs_drawing_shades(double out[2][2], const rs_drawing *d)
{
    const rs_lines *l = &d->plot->of.lines;
    size_t n = 0;
    if (!(l->x_shade > 0)) return 0;
    if (-l->x_shade > d->x.low && !d->x.log)
        out[n][0] = d->x.low, out[n++][1] = fmin(-l->x_shade, d->x.high);
    if (l->x_shade < d->x.high) out[n][0] = fmax(l->x_shade, d->x.low), out[n++][1] = d->x.high;
    return n;
}

size_t rs_drawing_uprights(double out[2], const rs_drawing *d)
{
    const double both[] = {-d->plot->of.lines.x_rule, d->plot->of.lines.x_rule};
    size_t n = 0;
    for (size_t i = 0; i < 2 && both[1] > 0; i++)
        if (both[i] >= d->x.low && both[i] <= d->x.high) out[n++] = both[i];
    return n;
}

/* The range of the marks' values. */
static void colour_scale(rs_drawing *d, const char *title, bool with_zero)
{
    d->colour = (rs_axis){.low = INFINITY, .high = -INFINITY, .title = title};
    for (size_t i = 0; i < d->n_marks; i++)
        include(&d->colour, d->marks[i].value);
    if (with_zero) include(&d->colour, 0);
    if (!(d->colour.low < d->colour.high)) widen(&d->colour, 0);
    linear_ticks(&d->colour, 5, !with_zero);
}

static void scatter_scales(rs_drawing *d)
{
    const rs_scatter *s = &d->plot->of.scatter;
    axes_of(d, s->log_x, s->log_y, 0);
    widen(&d->x, 0.02);
    widen(&d->y, 0.02);
    d->x.title = s->x.title ? s->x.title : s->x.field;
    d->y.title = s->y.title ? s->y.title : s->y.field;
    if (s->log_x)
        log_ticks(&d->x, 6);
    else
        linear_ticks(&d->x, 6, false);
    if (s->log_y)
        log_ticks(&d->y, 6);
    else
        linear_ticks(&d->y, 6, false);
    colour_scale(d, s->colour.title ? s->colour.title : s->colour.field, false);
}

/* The scale of cells includes 0: stretched over the data's own range, heads that hardly differ
 * would look worlds apart. */
static void cell_scales(rs_drawing *d)
{
    const rs_heatmap *h = &d->plot->of.heatmap;
    axes_of(d, false, false, 0);
    widen(&d->x, 0);
    widen(&d->y, 0);
    d->x.title = h->x.title ? h->x.title : h->x.field;
    d->y.title = h->y.title ? h->y.title : h->y.field;
    d->x.values = h->x_values, d->x.n_values = h->n_x;
    d->y.values = h->y_values, d->y.n_values = h->n_y;
    linear_ticks(&d->x, fmax(d->width / 40, 2), true);
    linear_ticks(&d->y, fmax(d->height / 30, 2), true);
    colour_scale(d, h->measures[0].title ? h->measures[0].title : h->measures[0].field, true);
}

/* Whole places from 0 on, few enough to be read, between one before them and one behind. */
static void lattice_axis(rs_axis *axis, int32_t n, const char *first, const char *last)
{
    int32_t most = RS_MOST_TICKS - 2, step = (int32_t)nice_step(ceil((double)n / most));
    axis->low = -1.5, axis->high = n - 1 + (last ? 1.5 : 0.5);
    axis->first = first, axis->last = last;
    add_tick(axis, -1);
    for (int32_t i = 0; i < n; i += step)
        add_tick(axis, i);
    if (last) add_tick(axis, n);
}

/* The decades that widths are told apart by. */
static void width_scale(rs_drawing *d, const char *title)
{
    d->colour = (rs_axis){.low = INFINITY, .high = -INFINITY, .title = title};
    for (size_t i = 0; i < d->n_marks; i++)
        include(&d->colour, d->marks[i].value);
    if (!(d->colour.low <= d->colour.high)) d->colour.low = 0, d->colour.high = 1;
    d->colour.low = fmax(d->colour.low, d->colour.high - RS_EDGE_DECADES);
    d->colour.low = fmin(d->colour.low, d->colour.high - 0.5);
    linear_ticks(&d->colour, 4, d->colour.high - d->colour.low >= 2);
}

/* Where the value lies between the least width and the largest: 0 to 1. */
static double strength_of(const rs_drawing *d, double value)
{
    return fmin(fmax(rs_axis_place(&d->colour, value), 0), 1);
}

double rs_edge_width(const rs_drawing *d, double value)
{
    return RS_EDGE_LEAST +
           strength_of(d, value) * (rs_edges_most(&d->plot->of.edges) - RS_EDGE_LEAST);
}

double rs_edge_opacity(const rs_drawing *d, double value)
{
    const double least = 0.2, most = 0.85;
    return least + strength_of(d, value) * (most - least);
}

static void edge_scales(rs_drawing *d)
{
    const rs_edges *e = &d->plot->of.edges;
    d->x = (rs_axis){.title = e->x.title ? e->x.title : e->x.field};
    d->y = (rs_axis){.title = e->y.title ? e->y.title : e->y.field};
    lattice_axis(&d->x, e->n_x, e->x_first, e->x_last);
    lattice_axis(&d->y, e->n_y, e->y_first, NULL);
    width_scale(d, e->width.title ? e->width.title : e->width.field);
}

void rs_drawing_scales(rs_drawing *d)
{
    if (d->plot->kind == RS_PLOT_LINES)
        line_scales(d);
    else if (d->plot->kind == RS_PLOT_EDGES)
        edge_scales(d);
    else if (d->plot->kind == RS_PLOT_SCATTER)
        scatter_scales(d);
    else
        cell_scales(d);
}

/* ---- markers and names ---- */

/* The points of one curve in one panel. */
typedef struct stretch {
    size_t n, seen;
    rs_mark *last; /* the one furthest to the right */
} stretch;

/* Markers at every point of short curves; long ones have some, not where other curves have. */
static void put_markers(rs_drawing *d, stretch *all)
{
    size_t most = d->legend ? 4 : 13;
    for (size_t i = 0; i < d->n_marks; i++) {
        rs_mark *m = &d->marks[i];
        stretch *s = &all[m->panel * d->n_curves + m->curve];
        size_t every = (s->n + most - 1) / most, shift = every * m->curve / d->n_curves;
        m->marker = d->curves[m->curve].dots || s->seen++ % every == shift;
    }
}

static int by_height(const void *a, const void *b)
{
    double x = (*(rs_mark *const *)a)->label_y, y = (*(rs_mark *const *)b)->label_y;
    return (x > y) - (x < y);
}

/* Pushes names apart that would lie on each other; label_y is a place meanwhile. */
static void spread_labels(rs_mark **list, size_t n, double gap)
{
    qsort(list, n, sizeof *list, by_height);
    for (size_t i = 1; i < n; i++)
        list[i]->label_y = fmax(list[i]->label_y, list[i - 1]->label_y + gap);
    double most = 1;
    for (size_t i = n; i-- > 0;) {
        list[i]->label_y = fmin(list[i]->label_y, most);
        most = list[i]->label_y - gap;
    }
}

static int by_x(const void *a, const void *b)
{
    double x = (*(rs_mark *const *)a)->x, y = (*(rs_mark *const *)b)->x;
    return (x > y) - (x < y);
}

/* Names of curves that end inside, list [n], share a height only where others end far from them. */
static void spread_inside(const rs_drawing *d, rs_mark **list, size_t n, double gap)
{
    const double near = 0.25; /* of the width */
    qsort(list, n, sizeof *list, by_x);
    for (size_t from = 0, to; from < n; from = to) {
        for (to = from + 1; to < n; to++)
            if (rs_axis_place(&d->x, list[to]->x) > rs_axis_place(&d->x, list[to - 1]->x) + near)
                break;
        spread_labels(list + from, to - from, gap);
    }
}

/* list: room for all curves. */
static void name_panel(rs_drawing *d, const stretch *ends, rs_mark **list)
{
    size_t n = 0, inside = d->n_curves; /* names at the right edge; the first of those inside */
    double gap = 13 / d->height;
    for (size_t c = 0; c < d->n_curves; c++) {
        rs_mark *last = ends[c].last;
        if (!last) continue;
        last->label = d->curves[c].name;
        last->label_y = rs_axis_place(&d->y, last->y);
        if (rs_axis_place(&d->x, last->x) > 0.8)
            list[n++] = last;
        else
            list[--inside] = last;
        size_t length = strlen(last->label);
        if (length > d->longest_label) d->longest_label = length;
    }
    spread_labels(list, n, gap);
    spread_inside(d, list + inside, d->n_curves - inside, gap);
    for (size_t c = 0; c < d->n_curves; c++)
        if (ends[c].last) ends[c].last->label_y = value_at(&d->y, ends[c].last->label_y);
}

/* What the band of points is called, at its right end in the first panel. */
static void put_note_right(rs_drawing *d, const char *words)
{
    rs_mark *right = NULL;
    for (size_t i = 0; i < d->n_marks; i++) {
        rs_mark *m = &d->marks[i];
        if (m->panel == 0 && !isnan(m->high) && (!right || m->x > right->x)) right = m;
    }
    if (right) right->note = words;
}

/* What the band of curves is called, once, in the first panel. */
static void put_note(rs_drawing *d, const char *words)
{
    size_t n = 0, seen = 0;
    for (size_t i = 0; i < d->n_marks; i++)
        n += d->marks[i].panel == 0 && d->marks[i].curve == 0 && !isnan(d->marks[i].high);
    for (size_t i = 0; i < d->n_marks && words; i++) {
        rs_mark *m = &d->marks[i];
        if (m->panel != 0 || m->curve != 0 || isnan(m->high)) continue;
        if (seen++ == n / (d->legend ? 8 : 4)) m->note = words;
    }
}

rs_status rs_drawing_labels(rs_drawing *d, rs_error *err)
{
    if (d->plot->kind == RS_PLOT_SCATTER) put_note_right(d, d->plot->of.scatter.band_label);
    if (d->plot->kind != RS_PLOT_LINES || d->n_marks == 0) return RS_OK;
    stretch *all = rs_calloc(d->n_panels * d->n_curves, sizeof *all);
    rs_mark **list = rs_malloc(d->n_curves, sizeof(rs_mark *));
    if (all && list) {
        for (size_t i = 0; i < d->n_marks; i++) {
            stretch *s = &all[d->marks[i].panel * d->n_curves + d->marks[i].curve];
            s->n++;
            if (!s->last || d->marks[i].x >= s->last->x) s->last = &d->marks[i];
        }
        put_markers(d, all);
        for (size_t p = 0; p < d->n_panels && d->labels; p++)
            name_panel(d, all + p * d->n_curves, list);
        put_note(d, d->plot->of.lines.band_label);
    }
    bool made = all && list;
    rs_free(all);
    rs_free(list);
    return made ? RS_OK : rs_fail_memory(err, d->name, 0);
}
