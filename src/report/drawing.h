/*
 * drawing.h: a figure and its table's rows made into marks: panels, curves with their looks, scales,
 * ticks, labels that do not lie on each other. The Vega-Lite specification (figure_spec.h) and the
 * pictures (picture.h) are both written from this.
 */
#ifndef RS_REPORT_DRAWING_H
#define RS_REPORT_DRAWING_H

#include "report/palette.h"
#include "report/result.h"

enum { RS_MOST_TICKS = 16, RS_TICK_SIZE = 16 };

typedef struct rs_axis {
    const char *title;
    double low, high; /* what the scale spans, low < high; positive where it is logarithmic */
    bool log;
    double ticks[RS_MOST_TICKS];
    size_t n_ticks;
    const char *first, *last; /* words in place of the least tick and of the largest; or NULL */
    const double *values;     /* [n_values]: what stands at 0, 1, 2 …; NULL: the tick itself */
    size_t n_values;
} rs_axis;

/* Where a value stands on an axis: 0 at its low end, 1 at its high one. */
double rs_axis_place(const rs_axis *axis, double value);
/* The text of a tick: "0.5", "1e-7". */
void rs_axis_text(char out[RS_TICK_SIZE], const rs_axis *axis, double tick);

typedef struct rs_drawn_curve {
    const char *name;
    int look; /* of rs_looks */
    bool published, dots;
} rs_drawn_curve;

/* A row as a cell, or as the point of a curve; scatter: a point, with curve 0. */
typedef struct rs_mark {
    size_t row; /* of the table */
    size_t panel, curve;
    double x, y;
    double x2, y2;     /* where an edge ends */
    double low, high;  /* of the band at x; NaN: there is none */
    double value;      /* the cell's measure, the point's colour, the edge's width; NaN: none */
    bool marker;       /* the curve has its marker here */
    bool flagged;      /* a finding is about this cell */
    bool right, below; /* a border parts it from the cell at its right, from the one below */
    const char *label; /* the curve's name, at its end; or NULL */
    double label_y;    /* as a value of the axis */
    const char *note;  /* what the band is called; or NULL */
    bool upper;        /* of a bound from above */
} rs_mark;

/* rs_drawing_free. */
typedef struct rs_drawing {
    rs_arena *arena;
    const rs_plot *plot;
    const rs_table *table;
    const char *name, *title, *about;
    const char **panels; /* [n_panels] their words; a single panel has "" */
    size_t n_panels, panels_left_out;
    rs_drawn_curve *curves; /* [n_curves], at least one */
    size_t n_curves, curves_left_out;
    size_t points_left_out; /* of a bound from above that lie far above all else */
    const char *vacuous;    /* what that bound is called; NULL: no point is left out so */
    rs_mark *marks;         /* [n_marks], of a curve in the order of the rows */
    size_t n_marks;
    rs_axis x, y, colour;
    double width, height; /* of a panel, in pixels of a page */
    size_t columns;       /* panels side by side, on a wide page */
    size_t longest_label; /* characters */
    bool labels, legend;  /* curves are named at their ends; in a legend */
    bool bordered;        /* some cell has a border */
} rs_drawing;

/* Makes the drawing of a figure of the result. On failure there is nothing to free. */
rs_status rs_drawing_make(rs_drawing *out, const rs_result *result, size_t figure, rs_error *err);
void rs_drawing_free(rs_drawing *drawing);

/* Where the ground of a figure of lines is shaded, from the left: pairs of values of x. */
size_t rs_drawing_shades(double out[2][2], const rs_drawing *drawing);
/* Where its upright rules stand. */
size_t rs_drawing_uprights(double out[2], const rs_drawing *drawing);

/* The width of an edge, in pixels, and how opaque it is: 1 is opaque. */
double rs_edge_width(const rs_drawing *drawing, double value);
double rs_edge_opacity(const rs_drawing *drawing, double value);

/* The number in a cell of any kind of column; NaN: there is none. */
double rs_cell_number(const rs_table *table, size_t row, int column);

/* drawing_axis.c: parts of the above. */
/* Sets scales and ticks, from the marks. */
void rs_drawing_scales(rs_drawing *d);
/* Sets markers, labels and notes. RS_E_NO_MEMORY. */
rs_status rs_drawing_labels(rs_drawing *d, rs_error *err);

#endif
