/*
 * figures.h: builders of figures: Vega-Lite 6 specifications over a table of the result.
 *
 * Nothing here knows what is measured: tables, fields and words are arguments. A specification has
 * {"data": {"name": TABLE}}, so it can be opened wherever Vega-Lite is, given the table's rows. On
 * top of Vega-Lite, "usermeta": {"rankscope": ...} tells the report page
 *   measures  fields the reader may choose from; the page swaps `field` for the chosen one
 *   field     the measure shown at first
 *   keys      columns that together name a row of the table: the page sets the parameters
 *             rs_selected and rs_KEY to have the marks of that row stand out.
 *
 * All strings are copied. The builders return NULL when memory is out; rs_result_add_figure
 * reports that.
 */
#ifndef RS_REPORT_FIGURES_H
#define RS_REPORT_FIGURES_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

/* A column and what people call it. A field of NULL means: not used. */
typedef struct rs_figure_field {
    const char *field, *title;
} rs_figure_field;

/* Column names, n of them. */
typedef struct rs_figure_names {
    const char *const *names;
    size_t n;
} rs_figure_names;

/* One cell a row, coloured by a measure that the reader chooses; grey where it is null. */
typedef struct rs_heatmap {
    const char *table;
    rs_figure_field x, y;
    const rs_figure_field *measures; /* at least one; the first is shown */
    size_t n_measures;
    rs_figure_names facets; /* one panel for each combination of these columns; null is skipped */
    rs_figure_names keys;
    size_t n_x, n_y; /* different values on the axes, for the size of the panels; 0 = 1 */
} rs_heatmap;
json_t *rs_figure_heatmap(const rs_heatmap *heatmap);

/* One line for each combination of keys, in a table with one row a point. */
typedef struct rs_lines {
    const char *table;
    rs_figure_field x, y;
    rs_figure_field low, high; /* shaded band behind the lines (mean over the rows of one x) */
    rs_figure_field colour;    /* whole numbers: a scale from dark to light */
    bool colour_is_category;   /* texts: one colour each */
    rs_figure_names facets;
    rs_figure_names keys;
    bool log_x, log_y; /* rows without a positive value are left out */
    bool x_whole;      /* x counts: no ticks between whole numbers */
    bool band_of_each; /* a band of its own for each line, in the line's colour */
    double y_rule;     /* a dashed line across at this height; 0: none */
    const char *y_rule_label;
    double y_floor; /* with log_y: rows of no more than this are left out (rounding noise would
                       stretch the axis) */
} rs_lines;
json_t *rs_figure_lines(const rs_lines *lines);

/* Singular values of many products: rs_figure_lines over columns layer, head, product, index,
 * sigma_normalised (y, logarithmic, above 1e-6) and the band null_low to null_high. `facets` may be
 * empty. */
json_t *rs_figure_spectrum_curves(const char *table, rs_figure_names facets, rs_figure_names keys);

/* One point a row. */
typedef struct rs_scatter {
    const char *table;
    rs_figure_field x, y;
    rs_figure_field low, high; /* band of y over x */
    rs_figure_field colour;
    bool colour_is_category;
    rs_figure_names facets;
    rs_figure_names keys;
    bool log_x, log_y;
    bool diagonal; /* the line y = x */
} rs_scatter;
json_t *rs_figure_scatter(const rs_scatter *scatter);

#endif
