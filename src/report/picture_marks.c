/* picture_marks.c: cells, curves, points and bands of one panel: see picture_parts.h. */
#include "report/picture_parts.h"

#include <math.h>
#include <stdlib.h>

rs_point rs_on_panel(const rs_drawing *d, rs_box box, double x, double y)
{
    return (rs_point){box.x + box.width * rs_axis_place(&d->x, x),
                      box.y + box.height * (1 - rs_axis_place(&d->y, y))};
}

/* ---- cells ---- */

/* The whole numbers that an axis of cells has. */
static double cells_on(const rs_axis *axis)
{
    return floor(axis->high + 1e-9) - ceil(axis->low - 1e-9) + 1;
}

/* The first row of a heat map is at the top. */
static rs_box cell_box(const rs_drawing *d, rs_box box, double x, double y)
{
    double width = box.width / cells_on(&d->x), height = box.height / cells_on(&d->y);
    return (rs_box){box.x + width * (x - ceil(d->x.low - 1e-9)),
                    box.y + height * (y - ceil(d->y.low - 1e-9)), width, height};
}

static void rectangle(rs_canvas *c, rs_box b, const rs_pen *pen)
{
    const rs_point corners[] = {
        {b.x, b.y}, {b.x + b.width, b.y}, {b.x + b.width, b.y + b.height}, {b.x, b.y + b.height}};
    c->path(c, corners, 4, true, pen);
}

static void cell_marks(rs_canvas *c, const rs_drawing *d, size_t panel, rs_box box)
{
    for (size_t i = 0; i < d->n_marks; i++) {
        const rs_mark *m = &d->marks[i];
        char colour[8] = RS_COLOUR_NONE;
        if (m->panel != panel) continue;
        if (!isnan(m->value)) rs_ramp(colour, rs_axis_place(&d->colour, m->value));
        /* a stroke of its own colour closes the hairlines between cells */
        const rs_pen pen = {.fill = colour, .stroke = colour, .width = 0.4};
        rs_box cell = cell_box(d, box, m->x, m->y);
        rectangle(c, cell, &pen);
        if (!m->flagged) continue;
        const rs_pen dot = {.fill = "#ffffff", .stroke = "#000000", .width = 1.2};
        c->disc(c, (rs_point){cell.x + cell.width / 2, cell.y + cell.height / 2},
                fmin(2.8, fmin(cell.width, cell.height) / 3), &dot);
    }
}

static void cell_borders(rs_canvas *c, const rs_drawing *d, size_t panel, rs_box box)
{
    const rs_pen pen = {.stroke = RS_COLOUR_HIGHLIGHT, .width = 2};
    for (size_t i = 0; i < d->n_marks && d->bordered; i++) {
        const rs_mark *m = &d->marks[i];
        if (m->panel != panel) continue;
        rs_box b = cell_box(d, box, m->x, m->y);
        const rs_point corner = {b.x + b.width, b.y + b.height};
        const rs_point right[] = {{corner.x, b.y}, corner}, below[] = {{b.x, corner.y}, corner};
        if (m->right) c->path(c, right, 2, false, &pen);
        if (m->below) c->path(c, below, 2, false, &pen);
    }
}

/* ---- curves ---- */

rs_pen rs_picture_pen(const rs_drawn_curve *curve)
{
    const rs_look *look = &rs_looks[curve->look];
    return (rs_pen){.stroke = look->light,
                    .width = 2,
                    .dash = curve->published ? rs_published_dash : look->dash};
}

/* Corners of markers, for a radius of 1. */
static const struct {
    size_t n;
    rs_point at[12];
} shapes[] = {
    [RS_MARKER_SQUARE] = {4, {{-.89, -.89}, {.89, -.89}, {.89, .89}, {-.89, .89}}},
    [RS_MARKER_TRIANGLE] = {3, {{0, -1.2}, {1.1, .8}, {-1.1, .8}}},
    [RS_MARKER_DIAMOND] = {4, {{0, -1.3}, {1, 0}, {0, 1.3}, {-1, 0}}},
    [RS_MARKER_CROSS] = {12,
                         {{-.4, -1.1},
                          {.4, -1.1},
                          {.4, -.4},
                          {1.1, -.4},
                          {1.1, .4},
                          {.4, .4},
                          {.4, 1.1},
                          {-.4, 1.1},
                          {-.4, .4},
                          {-1.1, .4},
                          {-1.1, -.4},
                          {-.4, -.4}}},
    [RS_MARKER_DOWN] = {3, {{0, 1.2}, {1.1, -.8}, {-1.1, -.8}}},
};

void rs_picture_marker(rs_canvas *c, const rs_drawn_curve *curve, rs_point at, double size)
{
    const rs_look *look = &rs_looks[curve->look];
    const rs_pen pen = {
        .fill = curve->published ? "#ffffff" : look->light, .stroke = look->light, .width = 1.2};
    rs_point corners[12];
    if (look->marker == RS_MARKER_CIRCLE) {
        c->disc(c, at, size, &pen);
        return;
    }
    for (size_t i = 0; i < shapes[look->marker].n; i++)
        corners[i] = (rs_point){at.x + size * shapes[look->marker].at[i].x,
                                at.y + size * shapes[look->marker].at[i].y};
    c->path(c, corners, shapes[look->marker].n, true, &pen);
}

/* The points of a curve in a panel, from left to right as Vega orders them. */
static size_t points_of(rs_point *out, const rs_drawing *d, size_t panel, size_t curve, rs_box box,
                        bool band)
{
    size_t n = 0, up;
    for (size_t i = 0; i < d->n_marks; i++) {
        const rs_mark *m = &d->marks[i];
        if (m->panel != panel || m->curve != curve) continue;
        if (band && (isnan(m->low) || isnan(m->high))) continue;
        double y = band ? m->high : m->y;
        out[n++] = rs_on_panel(d, box, m->x, y);
    }
    up = n;
    for (size_t i = d->n_marks; band && i-- > 0;) {
        const rs_mark *m = &d->marks[i];
        if (m->panel != panel || m->curve != curve) continue;
        if (isnan(m->low) || isnan(m->high)) continue;
        out[n++] = rs_on_panel(d, box, m->x, fmax(m->low, d->y.low));
    }
    return band && up < 2 ? 0 : n;
}

static void put_small(rs_canvas *c, const char *text, rs_point at, rs_anchor anchor, bool upwards)
{
    c->words(c, &(rs_words){text, at, RS_SMALL_WORDS, RS_COLOUR_RULE, anchor, false, upwards});
}

/* What the axis of x has on the ground: stretches and upright lines, each named where it is furthest
 * to the right, at the foot, as curves of what is kept run along the top. */
static void ground(rs_canvas *c, const rs_drawing *d, rs_box box)
{
    static const double dash[RS_DASHES] = {2, 2};
    const rs_lines *l = &d->plot->of.lines;
    double shades[2][2], uprights[2], foot = box.y + box.height;
    size_t n = rs_drawing_shades(shades, d);
    for (size_t i = 0; i < n; i++) {
        double low = rs_on_panel(d, box, shades[i][0], d->y.low).x;
        double high = rs_on_panel(d, box, shades[i][1], d->y.low).x;
        rectangle(c, (rs_box){low, box.y, high - low, box.height},
                  &(rs_pen){.fill = RS_COLOUR_CHANCE, .opacity = 0.22});
        if (i + 1 == n)
            put_small(c, l->x_shade_label, (rs_point){high - 4, foot - 6}, RS_ANCHOR_END, false);
    }
    n = rs_drawing_uprights(uprights, d);
    for (size_t i = 0; i < n; i++) {
        double x = rs_on_panel(d, box, uprights[i], d->y.low).x;
        const rs_point ends[] = {{x, box.y}, {x, box.y + box.height}};
        c->path(c, ends, 2, false, &(rs_pen){.stroke = RS_COLOUR_RULE, .width = 1.2, .dash = dash});
        if (i + 1 == n)
            put_small(c, l->x_rule_label, (rs_point){x - 4, foot - 22}, RS_ANCHOR_START, true);
    }
}

static void rule(rs_canvas *c, const rs_drawing *d, rs_box box)
{
    static const double dash[RS_DASHES] = {2, 2};
    const rs_lines *l = &d->plot->of.lines;
    ground(c, d, box);
    if (!(l->y_rule > 0)) return;
    double y = rs_on_panel(d, box, d->x.low, l->y_rule).y;
    const rs_point ends[] = {{box.x, y}, {box.x + box.width, y}};
    c->path(c, ends, 2, false, &(rs_pen){.stroke = RS_COLOUR_RULE, .width = 1.2, .dash = dash});
    put_small(c, l->y_rule_label, (rs_point){box.x + 4, y - 4}, RS_ANCHOR_START, false);
}

static void names(rs_canvas *c, const rs_drawing *d, size_t panel, rs_box box)
{
    for (size_t i = 0; i < d->n_marks; i++) {
        const rs_mark *m = &d->marks[i];
        if (m->panel != panel) continue;
        if (m->note) {
            rs_point at = rs_on_panel(d, box, m->x, m->high);
            rs_anchor anchor = d->plot->kind == RS_PLOT_SCATTER ? RS_ANCHOR_END : RS_ANCHOR_START;
            c->words(c, &(rs_words){m->note,
                                    {at.x + 2, at.y - 5},
                                    RS_SMALL_WORDS,
                                    RS_COLOUR_RULE,
                                    anchor,
                                    false,
                                    false});
        }
        if (!m->label) continue;
        rs_point at = rs_on_panel(d, box, m->x, m->label_y);
        c->words(c, &(rs_words){m->label,
                                {at.x + 9, at.y + 4},
                                RS_SMALL_WORDS,
                                rs_looks[d->curves[m->curve].look].light,
                                RS_ANCHOR_START,
                                false,
                                false});
    }
}

static void line_marks(rs_canvas *c, const rs_drawing *d, size_t panel, rs_box box, rs_point *room)
{
    bool chance = d->plot->of.lines.band_label != NULL;
    for (size_t k = 0; k < d->n_curves; k++) {
        size_t n = points_of(room, d, panel, k, box, true);
        const rs_pen pen = {.fill = chance ? RS_COLOUR_CHANCE : rs_looks[d->curves[k].look].light,
                            .opacity = chance ? 0.38 : 0.14};
        if (n) c->path(c, room, n, true, &pen);
    }
    rule(c, d, box);
    for (size_t k = 0; k < d->n_curves; k++) {
        size_t n = points_of(room, d, panel, k, box, false);
        const rs_pen pen = rs_picture_pen(&d->curves[k]);
        if (n > 1 && !d->curves[k].dots) c->path(c, room, n, false, &pen);
        for (size_t i = 0; i < d->n_marks; i++) {
            const rs_mark *m = &d->marks[i];
            if (m->panel != panel || m->curve != k || !m->marker) continue;
            rs_picture_marker(c, &d->curves[k], rs_on_panel(d, box, m->x, m->y),
                              d->legend ? 2.3 : 3.4);
        }
    }
}

/* ---- points ---- */

static int by_x(const void *a, const void *b)
{
    double x = ((const rs_point *)a)->x, y = ((const rs_point *)b)->x;
    return (x > y) - (x < y);
}

/* The band of points, which come in any order. */
static void point_band(rs_canvas *c, const rs_drawing *d, size_t panel, rs_box box, rs_point *room)
{
    size_t n = points_of(room, d, panel, 0, box, true) / 2;
    if (n < 2) return;
    qsort(room, n, sizeof *room, by_x);
    qsort(room + n, n, sizeof *room, by_x);
    for (size_t i = 0; i < n / 2; i++) {
        rs_point swap = room[n + i];
        room[n + i] = room[2 * n - 1 - i];
        room[2 * n - 1 - i] = swap;
    }
    c->path(c, room, 2 * n, true, &(rs_pen){.fill = RS_COLOUR_CHANCE, .opacity = 0.38});
}

static void point_marks(rs_canvas *c, const rs_drawing *d, size_t panel, rs_box box, rs_point *room)
{
    static const double dash[RS_DASHES] = {5, 4};
    const rs_scatter *s = &d->plot->of.scatter;
    if (s->low.field) point_band(c, d, panel, box, room);
    if (s->diagonal) {
        double low = fmax(d->x.low, d->y.low), high = fmin(d->x.high, d->y.high);
        const rs_point ends[] = {rs_on_panel(d, box, low, low), rs_on_panel(d, box, high, high)};
        c->path(c, ends, 2, false, &(rs_pen){.stroke = RS_COLOUR_RULE, .width = 1.4, .dash = dash});
    }
    for (size_t i = 0; i < d->n_marks; i++) {
        const rs_mark *m = &d->marks[i];
        char colour[8] = RS_COLOUR_NONE;
        if (m->panel != panel) continue;
        if (!isnan(m->value)) rs_ramp(colour, 0.05 + 0.8 * rs_axis_place(&d->colour, m->value));
        c->disc(c, rs_on_panel(d, box, m->x, m->y), 2.6, &(rs_pen){.fill = colour, .opacity = 0.8});
    }
}

/* ---- edges ---- */

static void edge_marks(rs_canvas *c, const rs_drawing *d, rs_box box)
{
    const rs_edges *e = &d->plot->of.edges;
    for (int32_t x = 0; x < e->n_x; x++)
        for (int32_t y = -1; y < e->n_y; y++)
            c->disc(c, rs_on_panel(d, box, x, y), 1.6, &(rs_pen){.fill = RS_COLOUR_CHANCE});
    for (size_t i = 0; i < d->n_marks; i++) {
        const rs_mark *m = &d->marks[i];
        const rs_point ends[] = {rs_on_panel(d, box, m->x, m->y),
                                 rs_on_panel(d, box, m->x2, m->y2)};
        c->path(c, ends, 2, false,
                &(rs_pen){.stroke = rs_looks[d->curves[m->curve].look].light,
                          .width = rs_edge_width(d, m->value)});
    }
}

rs_status rs_picture_marks(rs_canvas *c, const rs_drawing *d, size_t panel, rs_box box,
                           rs_error *err)
{
    if (d->plot->kind == RS_PLOT_HEATMAP) {
        cell_marks(c, d, panel, box);
        cell_borders(c, d, panel, box);
        return RS_OK;
    }
    if (d->plot->kind == RS_PLOT_EDGES) {
        edge_marks(c, d, box);
        return RS_OK;
    }
    rs_point *room = rs_malloc(2 * d->n_marks + 1, sizeof *room);
    if (!room) return rs_fail_memory(err, d->name, 0);
    if (d->plot->kind == RS_PLOT_LINES)
        line_marks(c, d, panel, box, room);
    else
        point_marks(c, d, panel, box, room);
    names(c, d, panel, box);
    rs_free(room);
    return RS_OK;
}
