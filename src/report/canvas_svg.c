/* canvas_svg.c: a picture as SVG: text stays text, in the reader's own font. */
#include "report/canvas.h"

#include <math.h>
#include <string.h>

/* Hundredths of a pixel; the same bytes in every locale. */
static void put(rs_buffer *out, double value)
{
    long long n = isfinite(value) ? llround(fmin(fmax(value, -1e6), 1e6) * 100) : 0;
    long long whole = n / 100, rest = n % 100;
    if (n < 0) rs_buffer_puts(out, "-");
    whole = whole < 0 ? -whole : whole;
    rest = rest < 0 ? -rest : rest;
    if (rest == 0)
        rs_buffer_printf(out, "%lld", whole);
    else if (rest % 10 == 0)
        rs_buffer_printf(out, "%lld.%lld", whole, rest / 10);
    else
        rs_buffer_printf(out, "%lld.%02lld", whole, rest);
}

static void put_member(rs_buffer *out, const char *name, double value)
{
    rs_buffer_printf(out, " %s=\"", name);
    put(out, value);
    rs_buffer_puts(out, "\"");
}

static void put_escaped(rs_buffer *out, const char *text)
{
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        if (c == '<' || c == '>' || c == '&' || c == '"')
            rs_buffer_printf(out, "&#%d;", c);
        else if (c >= 0x20)
            rs_buffer_append(out, text, 1);
    }
}

static void put_pen(rs_buffer *out, const rs_pen *pen)
{
    rs_buffer_printf(out, " fill=\"%s\"", pen->fill ? pen->fill : "none");
    if (pen->fill && pen->opacity > 0) put_member(out, "fill-opacity", pen->opacity);
    if (pen->stroke) {
        rs_buffer_printf(out, " stroke=\"%s\"", pen->stroke);
        put_member(out, "stroke-width", pen->width);
        if (pen->dash && pen->dash[0] > 0) {
            rs_buffer_puts(out, " stroke-dasharray=\"");
            for (int i = 0; i < 4 && pen->dash[i] > 0; i++) {
                rs_buffer_puts(out, i ? " " : "");
                put(out, pen->dash[i]);
            }
            rs_buffer_puts(out, "\"");
        }
    }
    rs_buffer_puts(out, "/>\n");
}

static void path(rs_canvas *canvas, const rs_point *points, size_t n, bool closed,
                 const rs_pen *pen)
{
    rs_buffer *out = canvas->out;
    rs_buffer_puts(out, "<path d=\"");
    for (size_t i = 0; i < n; i++) {
        rs_buffer_puts(out, i ? "L" : "M");
        put(out, points[i].x);
        rs_buffer_puts(out, " ");
        put(out, points[i].y);
    }
    rs_buffer_puts(out, closed ? "Z\"" : "\"");
    put_pen(out, pen);
}

static void disc(rs_canvas *canvas, rs_point at, double radius, const rs_pen *pen)
{
    rs_buffer_puts(canvas->out, "<circle");
    put_member(canvas->out, "cx", at.x);
    put_member(canvas->out, "cy", at.y);
    put_member(canvas->out, "r", radius);
    put_pen(canvas->out, pen);
}

static void words(rs_canvas *canvas, const rs_words *w)
{
    static const char *const anchors[] = {"start", "middle", "end"};
    rs_buffer *out = canvas->out;
    rs_buffer_puts(out, "<text");
    if (w->upwards) {
        rs_buffer_puts(out, " transform=\"translate(");
        put(out, w->at.x);
        rs_buffer_puts(out, " ");
        put(out, w->at.y);
        rs_buffer_puts(out, ") rotate(-90)\"");
    } else {
        put_member(out, "x", w->at.x);
        put_member(out, "y", w->at.y);
    }
    put_member(out, "font-size", w->size);
    rs_buffer_printf(out, " fill=\"%s\" text-anchor=\"%s\"%s>", w->colour, anchors[w->anchor],
                     w->bold ? " font-weight=\"bold\"" : "");
    put_escaped(out, w->text);
    rs_buffer_puts(out, "</text>\n");
}

void rs_canvas_svg(rs_canvas *canvas, rs_buffer *out, double width, double height,
                   const char *title)
{
    *canvas = (rs_canvas){.path = path, .disc = disc, .words = words, .out = out};
    rs_buffer_puts(out, "<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\"");
    put_member(out, "width", width);
    put_member(out, "height", height);
    rs_buffer_puts(out, " viewBox=\"0 0 ");
    put(out, width);
    rs_buffer_puts(out, " ");
    put(out, height);
    rs_buffer_puts(out, "\" font-family=\"sans-serif\">\n<title>");
    put_escaped(out, title);
    rs_buffer_puts(out, "</title>\n");
}

void rs_canvas_svg_end(rs_canvas *canvas)
{
    rs_buffer_puts(canvas->out, "</svg>\n");
}
