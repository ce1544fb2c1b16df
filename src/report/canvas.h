/*
 * canvas.h: what a picture is drawn on: paths, discs and text, in pixels from the top left. SVG is
 * written here (canvas_svg.c); PNG is drawn by Cairo, where there is one (canvas_png.c).
 */
#ifndef RS_REPORT_CANVAS_H
#define RS_REPORT_CANVAS_H

#include "base/error.h"
#include "base/text.h"

#include <stddef.h>

typedef struct rs_point {
    double x, y;
} rs_point;

/* How a shape is drawn. Colours are "#rrggbb"; NULL: none. */
typedef struct rs_pen {
    const char *stroke, *fill;
    double width;       /* of the stroke */
    const double *dash; /* [4] strokes and gaps, ended by 0; NULL: unbroken */
    double opacity;     /* of the filling; 0 means 1 */
} rs_pen;

typedef enum rs_anchor { RS_ANCHOR_START, RS_ANCHOR_MIDDLE, RS_ANCHOR_END } rs_anchor;

typedef struct rs_words {
    const char *text;
    rs_point at; /* on the base line */
    double size;
    const char *colour;
    rs_anchor anchor;
    bool bold, upwards; /* upwards: turned by a quarter */
} rs_words;

typedef struct rs_canvas rs_canvas;
struct rs_canvas {
    void (*path)(rs_canvas *canvas, const rs_point *points, size_t n, bool closed,
                 const rs_pen *pen);
    void (*disc)(rs_canvas *canvas, rs_point at, double radius, const rs_pen *pen);
    void (*words)(rs_canvas *canvas, const rs_words *words);
    rs_buffer *out;
    void *own; /* of Cairo */
};

/* Begins a picture of that size, `title` for readers that do not see it. */
void rs_canvas_svg(rs_canvas *canvas, rs_buffer *out, double width, double height,
                   const char *title);
void rs_canvas_svg_end(rs_canvas *canvas);
/* The same, drawn with `scale` pixels for one. RS_E_BAD_OPTION where there is no Cairo,
 * RS_E_NO_MEMORY. On success rs_canvas_png_end writes into `out` what was drawn. */
rs_status rs_canvas_png(rs_canvas *canvas, rs_buffer *out, double width, double height,
                        double scale, rs_error *err);
rs_status rs_canvas_png_end(rs_canvas *canvas, rs_error *err);
/* Whether PNG can be drawn: RS_E_BAD_OPTION says why not. */
rs_status rs_canvas_png_ready(rs_error *err);
/* The version of the Cairo that draws PNG, NULL where there is none. */
const char *rs_canvas_png_version(void);

#endif
