/* picture.c: frames, axes and legends around what panels show: see picture.h. */
#include "report/picture.h"

#include "report/figure_spec.h"
#include "report/number.h"
#include "report/picture_parts.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- where everything stands ---- */

/* About how wide a text is: no font is asked, so that every machine has the same picture. */
static double width_of(const char *text, double size)
{
    size_t n = 0;
    for (; *text; text++)
        n += (*text & 0xC0) != 0x80;
    return 0.57 * size * (double)n;
}

static bool has_ramp(const rs_drawing *d)
{
    return d->plot->kind == RS_PLOT_HEATMAP ||
           (d->plot->kind == RS_PLOT_SCATTER && d->plot->of.scatter.colour.field);
}

static double label_room(const rs_drawing *d)
{
    double widest = 0;
    for (size_t i = 0; i < d->n_curves && d->labels; i++)
        widest = fmax(widest, width_of(d->curves[i].name, RS_SMALL_WORDS));
    return widest > 0 ? widest + 14 : 0;
}

enum { AXIS_LEFT = 70, AXIS_BOTTOM = 44, HEADER = 22, MARGIN = 16 };

static rs_layout layout(const rs_drawing *d)
{
    const char *notes[RS_MOST_NOTES];
    size_t panels = d->n_panels ? d->n_panels : 1, n_notes = rs_drawing_notes(notes, d);
    bool small = d->width < 200 && d->plot->kind == RS_PLOT_LINES;
    bool side = has_ramp(d) || d->plot->kind == RS_PLOT_EDGES;
    double room = label_room(d), ramp = side ? fmax(width_of(d->colour.title, 11), 60) : 0;
    rs_layout l = {.d = d, .columns = d->columns ? d->columns : 1};
    l.rows = (panels + l.columns - 1) / l.columns;
    l.panel_width = d->plot->kind == RS_PLOT_LINES && panels <= 1 ? 520 : d->width;
    if (d->plot->kind == RS_PLOT_LINES && !small && panels > 1) l.panel_width = 340;
    l.panel_height = d->height;
    l.left = AXIS_LEFT;
    l.top = 44 + (d->legend ? 22 : 0) + (d->n_panels > 1 ? HEADER : 0);
    l.step_x = l.panel_width + room + (small ? 14 : 26);
    l.step_y = l.panel_height + (d->n_panels > 1 ? HEADER : 0) + (small ? 12 : 20);
    double right = l.left + (double)(l.columns - 1) * l.step_x + l.panel_width + room;
    l.width =
        fmax(right + (ramp > 0 ? ramp + 24 : 0), width_of(d->title, RS_TITLE_WORDS) + MARGIN) +
        MARGIN;
    for (size_t i = 0; i < n_notes; i++)
        if (notes[i]) l.width = fmax(l.width, width_of(notes[i], RS_SMALL_WORDS) + 2 * MARGIN);
    l.height = l.top + (double)(l.rows - 1) * l.step_y + l.panel_height + AXIS_BOTTOM +
               16 * (double)n_notes + MARGIN;
    l.width = ceil(l.width);
    l.height = ceil(l.height);
    return l;
}

rs_box rs_panel_box(const rs_layout *l, size_t panel)
{
    return (rs_box){l->left + l->step_x * (double)(panel % l->columns),
                    l->top + l->step_y * (double)(panel / l->columns), l->panel_width,
                    l->panel_height};
}

/* ---- axes ---- */

static void line(rs_canvas *c, double x0, double y0, double x1, double y1, const char *colour)
{
    const rs_point ends[] = {{x0, y0}, {x1, y1}};
    c->path(c, ends, 2, false, &(rs_pen){.stroke = colour, .width = 1});
}

static void put(rs_canvas *c, const char *text, double x, double y, double size, rs_anchor anchor)
{
    c->words(c, &(rs_words){text, {x, y}, size, RS_COLOUR_TEXT, anchor, false, false});
}

/* Where a tick stands along an axis: at cells, in their middle. */
static double tick_place(const rs_drawing *d, const rs_axis *axis, double tick)
{
    if (d->plot->kind != RS_PLOT_HEATMAP) return rs_axis_place(axis, tick);
    double first = ceil(axis->low - 1e-9), n = floor(axis->high + 1e-9) - first + 1;
    double place = (tick - first + 0.5) / n;
    return axis == &d->y ? 1 - place : place;
}

static void ground(rs_canvas *c, const rs_drawing *d, rs_box b)
{
    const rs_point corners[] = {
        {b.x, b.y}, {b.x + b.width, b.y}, {b.x + b.width, b.y + b.height}, {b.x, b.y + b.height}};
    if (d->plot->kind != RS_PLOT_HEATMAP) {
        for (size_t i = 0; i < d->x.n_ticks; i++) {
            double x = b.x + b.width * tick_place(d, &d->x, d->x.ticks[i]);
            line(c, x, b.y, x, b.y + b.height, RS_COLOUR_GRID);
        }
        for (size_t i = 0; i < d->y.n_ticks; i++) {
            double y = b.y + b.height * (1 - tick_place(d, &d->y, d->y.ticks[i]));
            line(c, b.x, y, b.x + b.width, y, RS_COLOUR_GRID);
        }
    }
    c->path(c, corners, 4, true, &(rs_pen){.stroke = RS_COLOUR_FRAME, .width = 1});
}

static void x_axis(rs_canvas *c, const rs_drawing *d, rs_box b)
{
    char text[RS_TICK_SIZE];
    double below = b.y + b.height;
    for (size_t i = 0; i < d->x.n_ticks; i++) {
        double x = b.x + b.width * tick_place(d, &d->x, d->x.ticks[i]);
        line(c, x, below, x, below + 4, RS_COLOUR_FRAME);
        rs_axis_text(text, &d->x, d->x.ticks[i]);
        put(c, text, x, below + 16, RS_SMALL_WORDS, RS_ANCHOR_MIDDLE);
    }
    put(c, d->x.title, b.x + b.width / 2, below + 34, RS_WORDS, RS_ANCHOR_MIDDLE);
}

static void y_axis(rs_canvas *c, const rs_drawing *d, rs_box b)
{
    char text[RS_TICK_SIZE];
    for (size_t i = 0; i < d->y.n_ticks; i++) {
        double y = b.y + b.height * (1 - tick_place(d, &d->y, d->y.ticks[i]));
        line(c, b.x - 4, y, b.x, y, RS_COLOUR_FRAME);
        rs_axis_text(text, &d->y, d->y.ticks[i]);
        put(c, text, b.x - 7, y + 4, RS_SMALL_WORDS, RS_ANCHOR_END);
    }
    double size = RS_WORDS, wide = width_of(d->y.title, size);
    if (wide > b.height + 40) size = fmax(8, size * (b.height + 40) / wide);
    c->words(c, &(rs_words){d->y.title,
                            {b.x - 52, b.y + b.height / 2},
                            size,
                            RS_COLOUR_TEXT,
                            RS_ANCHOR_MIDDLE,
                            false,
                            true});
}

/* ---- legends ---- */

static void curve_legend(rs_canvas *c, const rs_layout *l)
{
    double x = l->left;
    for (size_t i = 0; i < l->d->n_curves; i++) {
        const rs_drawn_curve *curve = &l->d->curves[i];
        const rs_point ends[] = {{x, 42}, {x + 30, 42}};
        rs_pen pen = rs_picture_pen(curve);
        bool edges = l->d->plot->kind == RS_PLOT_EDGES;
        if (edges) pen.dash = NULL;
        c->path(c, ends, 2, false, &pen);
        if (!edges) rs_picture_marker(c, curve, (rs_point){x + 15, 42}, 3);
        put(c, curve->name, x + 36, 46, RS_SMALL_WORDS, RS_ANCHOR_START);
        x += 36 + width_of(curve->name, RS_SMALL_WORDS) + 18;
    }
}

static void ramp_legend(rs_canvas *c, const rs_layout *l)
{
    enum { STEPS = 60, WIDE = 13 };
    const rs_drawing *d = l->d;
    bool cells = d->plot->kind == RS_PLOT_HEATMAP;
    char colour[8], text[RS_TICK_SIZE];
    double height = fmin(l->panel_height, 180), y = l->top + 8;
    double x = l->left + (double)(l->columns - 1) * l->step_x + l->panel_width + 20;
    put(c, d->colour.title, x, l->top - 4, RS_SMALL_WORDS, RS_ANCHOR_START);
    for (int i = 0; i < STEPS; i++) {
        double t = (i + 0.5) / STEPS, at = y + height * (1 - (i + 1.0) / STEPS);
        rs_ramp(colour, cells ? t : 0.05 + 0.8 * t);
        const rs_point corners[] = {
            {x, at}, {x + WIDE, at}, {x + WIDE, at + height / STEPS}, {x, at + height / STEPS}};
        c->path(c, corners, 4, true, &(rs_pen){.fill = colour, .stroke = colour, .width = 0.4});
    }
    for (size_t i = 0; i < d->colour.n_ticks; i++) {
        rs_axis_text(text, &d->colour, d->colour.ticks[i]);
        put(c, text, x + WIDE + 5,
            y + height * (1 - rs_axis_place(&d->colour, d->colour.ticks[i])) + 4, RS_SMALL_WORDS,
            RS_ANCHOR_START);
    }
}

/* Edges of some widths, and what each stands for: the column has logarithms to base 10. */
static void width_legend(rs_canvas *c, const rs_layout *l)
{
    const rs_drawing *d = l->d;
    double x = l->left + l->panel_width + 20, y = l->top + 14;
    put(c, d->colour.title, x, l->top - 4, RS_SMALL_WORDS, RS_ANCHOR_START);
    for (size_t i = 0; i < d->colour.n_ticks; i++, y += 18) {
        double tick = d->colour.ticks[i];
        char text[RS_NUMBER_SIZE];
        const rs_point ends[] = {{x, y}, {x + 26, y}};
        c->path(c, ends, 2, false,
                &(rs_pen){.stroke = RS_COLOUR_TEXT, .width = rs_edge_width(d, tick)});
        if (d->colour.high - d->colour.low >= 2 && fabs(tick) > 3)
            snprintf(text, sizeof text, "1e%.0f", tick);
        else
            rs_number_brief(text, pow(10, tick), 2);
        put(c, text, x + 33, y + 4, RS_SMALL_WORDS, RS_ANCHOR_START);
    }
}

/* ---- the whole ---- */

static rs_status panels(rs_canvas *c, const rs_layout *l, rs_error *err)
{
    const rs_drawing *d = l->d;
    for (size_t p = 0; p < d->n_panels; p++) {
        rs_box box = rs_panel_box(l, p);
        if (d->n_panels > 1)
            c->words(c, &(rs_words){d->panels[p],
                                    {box.x + box.width / 2, box.y - 7},
                                    RS_WORDS,
                                    RS_COLOUR_TEXT,
                                    RS_ANCHOR_MIDDLE,
                                    true,
                                    false});
        ground(c, d, box);
        RS_TRY(rs_picture_marks(c, d, p, box, err));
        if (p % l->columns == 0) y_axis(c, d, box);
        if (p + l->columns >= d->n_panels) x_axis(c, d, box);
    }
    return RS_OK;
}

static rs_status draw(rs_canvas *c, const rs_layout *l, rs_error *err)
{
    const char *notes[RS_MOST_NOTES];
    const rs_point corners[] = {{0, 0}, {l->width, 0}, {l->width, l->height}, {0, l->height}};
    size_t n = rs_drawing_notes(notes, l->d);
    c->path(c, corners, 4, true, &(rs_pen){.fill = "#ffffff"});
    c->words(c, &(rs_words){l->d->title,
                            {MARGIN, 24},
                            RS_TITLE_WORDS,
                            RS_COLOUR_TEXT,
                            RS_ANCHOR_START,
                            true,
                            false});
    if (l->d->legend) curve_legend(c, l);
    if (has_ramp(l->d) && l->d->n_marks) ramp_legend(c, l);
    if (l->d->plot->kind == RS_PLOT_EDGES && l->d->n_marks) width_legend(c, l);
    RS_TRY(panels(c, l, err));
    for (size_t i = 0; i < n; i++) {
        if (!notes[i]) return rs_fail_memory(err, l->d->name, 0);
        put(c, notes[i], MARGIN, l->height - MARGIN - 16 * (double)(n - 1 - i), RS_SMALL_WORDS,
            RS_ANCHOR_START);
    }
    return RS_OK;
}

rs_status rs_write_svg(rs_buffer *out, const rs_result *result, size_t figure, rs_error *err)
{
    rs_drawing d;
    rs_canvas canvas;
    RS_TRY(rs_drawing_make(&d, result, figure, err));
    rs_layout l = layout(&d);
    rs_canvas_svg(&canvas, out, l.width, l.height, d.title);
    rs_status status = draw(&canvas, &l, err);
    rs_canvas_svg_end(&canvas);
    rs_drawing_free(&d);
    return status;
}

rs_status rs_write_png(rs_buffer *out, const rs_result *result, size_t figure, rs_error *err)
{
    rs_drawing d;
    rs_canvas canvas;
    RS_TRY(rs_drawing_make(&d, result, figure, err));
    rs_layout l = layout(&d);
    rs_status status = rs_canvas_png(&canvas, out, l.width, l.height, 2, err);
    if (status == RS_OK) {
        status = draw(&canvas, &l, err);
        rs_error own;
        rs_status ended = rs_canvas_png_end(&canvas, status == RS_OK ? err : &own);
        if (status == RS_OK) status = ended;
    }
    rs_drawing_free(&d);
    return status;
}
