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

/* A column and what people call it; field NULL: not used. */
typedef struct rs_figure_field {
    const char *field, *title;
} rs_figure_field;

/* A list of column names. */
typedef struct rs_figure_names {
    const char *const *names;
    size_t n;
} rs_figure_names;

/* A figure with one cell for each row, coloured by a measure that the reader chooses; grey where
 * that is null. */
typedef struct rs_heatmap {
    const char *table;
    rs_figure_field x, y;
    const rs_figure_field *measures; /* at least one; the first is shown */
    size_t n_measures;
    rs_figure_names facets; /* columns whose combinations have a panel each; null is skipped */
    rs_figure_names keys;
    size_t n_x, n_y; /* different values on the axes, for the panels' size; 0 counts as 1 */
} rs_heatmap;
json_t *rs_figure_heatmap(const rs_heatmap *heatmap);

/* A figure with one line for each combination of keys; each row of the table is a point. */
typedef struct rs_lines {
    const char *table;
    rs_figure_field x, y;
    rs_figure_field low, high; /* band behind the lines (mean over the rows of one x) */
    rs_figure_field colour;    /* column of whole numbers, shown from dark to light */
    bool colour_is_category;   /* `colour` is a column of texts, with a colour each */
    rs_figure_names facets;
    rs_figure_names keys;
    bool log_x, log_y; /* rows without a positive value are left out */
    bool x_whole;      /* x is whole: there are no ticks between whole numbers */
    bool band_of_each; /* each line has a band of its own, in its colour */
    double y_rule;     /* height of a dashed line across; 0: there is none */
    const char *y_rule_label;
    double y_floor; /* with log_y, rows of no more than this are left out: rounding would stretch
                       the axis */
} rs_lines;
json_t *rs_figure_lines(const rs_lines *lines);

/* The singular values of many products: rs_figure_lines over columns layer, head, product, index,
 * sigma_normalised (y, logarithmic, above 1e-6) and the band null_low to null_high. `facets` may be
 * empty. */
json_t *rs_figure_spectrum_curves(const char *table, rs_figure_names facets, rs_figure_names keys);

/* A figure with one point for each row. */
typedef struct rs_scatter {
    const char *table;
    rs_figure_field x, y;
    rs_figure_field low, high; /* band of y, over x */
    rs_figure_field colour;
    bool colour_is_category;
    rs_figure_names facets;
    rs_figure_names keys;
    bool log_x, log_y;
    bool diagonal; /* the line y = x is drawn */
} rs_scatter;
json_t *rs_figure_scatter(const rs_scatter *scatter);

#endif
