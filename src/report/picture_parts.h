/* picture_parts.h: what the files of a picture share. */
#ifndef RS_REPORT_PICTURE_PARTS_H
#define RS_REPORT_PICTURE_PARTS_H

#include "report/canvas.h"
#include "report/drawing.h"

enum { RS_SMALL_WORDS = 11, RS_WORDS = 12, RS_TITLE_WORDS = 15 };
#define RS_COLOUR_TEXT "#22272e"
#define RS_COLOUR_GRID "#e6e9ed"
#define RS_COLOUR_FRAME "#98a2ad"

/* A rectangle from its top left. */
typedef struct rs_box {
    double x, y, width, height;
} rs_box;

/* Where everything of a picture stands. */
typedef struct rs_layout {
    const rs_drawing *d;
    double width, height;
    double panel_width, panel_height;
    double left, top;      /* of the first panel */
    double step_x, step_y; /* from panel to panel */
    size_t columns, rows;
} rs_layout;

rs_box rs_panel_box(const rs_layout *l, size_t panel);
rs_point rs_on_panel(const rs_drawing *d, rs_box box, double x, double y);

/* picture_marks.c: what a panel shows. RS_E_NO_MEMORY. */
rs_status rs_picture_marks(rs_canvas *c, const rs_drawing *d, size_t panel, rs_box box,
                           rs_error *err);
/* The marker of a curve. */
void rs_picture_marker(rs_canvas *c, const rs_drawn_curve *curve, rs_point at, double size);
/* The pen of a curve's line. */
rs_pen rs_picture_pen(const rs_drawn_curve *curve);

#endif
