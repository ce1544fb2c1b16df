/*
 * figure_spec.h: a figure as a Vega-Lite 6 specification that carries its data, so that whatever
 * knows Vega-Lite opens it as it is.
 *
 * data.values has the fields that the specification uses, numbers with seven digits (the table has
 * them all), and `row`, the row's place in the table. "usermeta": {"rankscope": ...} is for the
 * report page:
 *   table     the figure's table
 *   measures  columns of it that the reader may choose from; `field` is shown at first
 *   keys      columns that together name a row: the page sets the parameters rs_selected and rs_KEY
 *             to have the marks of that row stand out
 *   dark      the colour on a dark ground of each that stands for a curve
 *   label     characters that names at the ends of curves take
 *   notes     sentences that belong below the figure
 */
#ifndef RS_REPORT_FIGURE_SPEC_H
#define RS_REPORT_FIGURE_SPEC_H

#include "report/drawing.h"

/* Writes the specification of one figure. */
rs_status rs_figure_write(rs_buffer *out, const rs_result *result, size_t figure, rs_error *err);

/* Sentences that belong below the figure: what marks stand for, what was left out. Writes at most
 * RS_MOST_NOTES into out, texts of the drawing's arena; returns how many (a NULL one: no
 * memory). */
enum { RS_MOST_NOTES = 7 };
size_t rs_drawing_notes(const char *out[RS_MOST_NOTES], const rs_drawing *d);

/* figure_layers.c: the panel of each kind; NULL: no memory. */
json_t *rs_figure_layers(const rs_drawing *d);

#endif
