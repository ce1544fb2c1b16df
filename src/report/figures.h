/*
 * figures.h: what a figure of a result is: a heat map, lines or a scatter over one of its tables.
 *
 * A figure is this description and nothing more: which columns, which axes, what is left out.
 * drawing.h makes marks of it and of the table's rows, and from those come the Vega-Lite
 * specification (figure_spec.h) and the pictures (picture.h): scales, labels and colours agree
 * because they are decided once.
 *
 * Nothing here knows what is measured. Strings and lists are borrowed: literals.
 */
#ifndef RS_REPORT_FIGURES_H
#define RS_REPORT_FIGURES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A column and what people call it; field NULL: not used. */
typedef struct rs_figure_field {
    const char *field, *title;
} rs_figure_field;

/* A list of column names. */
typedef struct rs_figure_names {
    const char *const *names;
    size_t n;
} rs_figure_names;

/* A figure with one cell for each row, coloured by a measure that the reader of the page chooses;
 * grey where that is null. Cells that findings name are marked. */
typedef struct rs_heatmap {
    const char *table;
    rs_figure_field x, y;            /* columns of whole numbers */
    const rs_figure_field *measures; /* at least one; the first is shown */
    size_t n_measures;
    const double *x_values, *y_values; /* [n_x], [n_y]: what the axes say instead; or NULL */
    rs_figure_names facets; /* columns whose combinations have a panel each; null is skipped */
    rs_figure_names keys;   /* columns that together name a row */
    size_t n_x, n_y;        /* different values on the axes, for the panels' size; 0 counts as 1 */
    const char *border;     /* column of texts: a line is drawn between neighbours that differ */
    const char *border_label; /* the note about it: what the line parts */
} rs_heatmap;

enum { RS_MOST_CURVES = 3 };

/* One more curve over the rows of the first one's. */
typedef struct rs_figure_curve {
    const char *field, *title; /* field NULL: there is none */
    bool published;
    const char *unless; /* column: where it is true the curve has no point; or NULL */
    bool upper; /* a bound from above: a point that lies far above all other curves says nothing,
                   and is left out */
    bool dots;  /* a bound from below that holds of each point alone: a marker each, no line, and no
                  point at 0, where it says nothing */
} rs_figure_curve;

/* A figure with one line for each value of `colour` in each panel; each row is a point. */
typedef struct rs_lines {
    const char *table;
    rs_figure_field x, y;
    rs_figure_field low, high; /* columns that bound a band */
    const char *band_label;    /* the band is chance, grey, and called so; NULL: the line's own */
    rs_figure_field colour;    /* column that tells one line from another: texts or numbers */
    const char *first;         /* what the line of `y` is called beside those of `more` */
    rs_figure_curve more[RS_MOST_CURVES]; /* other columns, drawn as lines too */
    const char *origin; /* column of texts: where it is "published", so is the line; or NULL */
    rs_figure_names facets;
    rs_figure_names keys;
    bool log_x, log_y; /* rows without a positive value are left out */
    bool x_whole;      /* x is whole: there are no ticks between whole numbers */
    bool small;        /* many small panels */
    double y_rule;     /* height of a line across; 0: there is none */
    const char *y_rule_label;
    double x_rule; /* lines upright at x = ±this, where the axis has it; 0: there is none */
    const char *x_rule_label;
    double x_shade; /* the ground where |x| is at least this is shaded; 0: nothing is */
    const char *x_shade_label;
    double y_floor; /* with log_y, rows of no more than this are left out: rounding would stretch
                       the axis */
} rs_lines;

/* A figure with one point for each row. */
typedef struct rs_scatter {
    const char *table;
    rs_figure_field x, y;
    rs_figure_field low, high; /* band of y, over x */
    const char *band_label;
    rs_figure_field colour; /* column of numbers, from dark to light */
    rs_figure_names facets;
    rs_figure_names keys;
    bool log_x, log_y;
    bool diagonal; /* the line y = x is drawn */
} rs_scatter;

/* A figure of ways through a lattice of whole places: each row is an edge from (x, y) to (x2, y2),
 * where null stands for -1. Rows that come first lie below. */
typedef struct rs_edges {
    const char *table;
    rs_figure_field x, y, x2, y2;
    rs_figure_field width;  /* column of log10 numbers, by which the width of an edge goes; rows
                             * without one are left out */
    rs_figure_field colour; /* column of texts */
    int32_t n_x, n_y;       /* places 0 … n_x-1 by 0 … n_y-1, and row -1 beside every x */
    const char *x_first, *x_last, *y_first; /* what stands at x = -1 and n_x, and at y = -1 */
    rs_figure_names keys;
} rs_edges;
/* The widest span of `width`, in decades: what is below has the least width. */
#define RS_EDGE_DECADES 6.0
/* Pixels of the least width, and of the largest, which is less where many rows share the height. */
#define RS_EDGE_LEAST 0.3
double rs_edges_most(const rs_edges *edges);

typedef enum rs_plot_kind {
    RS_PLOT_HEATMAP,
    RS_PLOT_LINES,
    RS_PLOT_SCATTER,
    RS_PLOT_EDGES
} rs_plot_kind;

/* Any of the four. */
typedef struct rs_plot {
    rs_plot_kind kind;
    union {
        rs_heatmap heatmap;
        rs_lines lines;
        rs_scatter scatter;
        rs_edges edges;
    } of;
} rs_plot;

rs_plot rs_figure_heatmap(const rs_heatmap *heatmap);
rs_plot rs_figure_lines(const rs_lines *lines);
rs_plot rs_figure_scatter(const rs_scatter *scatter);
rs_plot rs_figure_edges(const rs_edges *edges);

/* The singular values of many products: lines over columns index, sigma_normalised (logarithmic,
 * above 1e-6) and the band null_low to null_high. `facets` may be empty. */
rs_plot rs_figure_spectrum_curves(const char *table, rs_figure_names facets, rs_figure_names keys,
                                  rs_figure_field colour);

/* What all kinds have. */
const char *rs_plot_table(const rs_plot *plot);
rs_figure_names rs_plot_facets(const rs_plot *plot);
rs_figure_names rs_plot_keys(const rs_plot *plot);

#endif
