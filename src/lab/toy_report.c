/* toy_report.c: claims in short, and curves with their figure. */
#include "lab/toy.h"

#include <math.h>
#include <stdio.h>

rs_status rs_lab_expect(rs_lab_report *report, const char *text, double expected, double measured,
                        double tolerance, rs_error *err)
{
    const rs_lab_claim claim = {text, NAN, expected, measured, tolerance, false, false};
    return rs_lab_add_claim(report, &claim, err);
}

rs_status rs_lab_compute(rs_lab_report *report, const char *text, double expected, double computed,
                         double tolerance, rs_error *err)
{
    const rs_lab_claim claim = {text, NAN, expected, computed, tolerance, false, true};
    return rs_lab_add_claim(report, &claim, err);
}

rs_status rs_lab_at_most(rs_lab_report *report, const char *text, double measured, double bound,
                         rs_error *err)
{
    const rs_lab_claim claim = {text, NAN, NAN, measured, bound, true, false};
    return rs_lab_add_claim(report, &claim, err);
}

rs_status rs_lab_say_quick(rs_lab_report *report, const char *what, rs_error *err)
{
    char message[240];
    snprintf(message, sizeof message, "%s: --quick ran %s", report->experiment, what);
    rs_finding finding = {.severity = RS_INFO,
                          .code = "quick",
                          .layer = RS_NULL_INT,
                          .head = RS_NULL_INT,
                          .value = NAN,
                          .threshold = NAN,
                          .message = message,
                          .hint = "leave out --quick for the experiment as it is meant"};
    return rs_result_add_finding(report->result, &finding, err);
}

/* ---- curves ---- */

/* A row of a table of curves. */
typedef struct curve_cells {
    const char *series, *origin;
    double x, y;
} curve_cells;

static rs_plot figure(const rs_lab_curves *curves)
{
    static const char *const keys[] = {"series"};
    return rs_figure_lines(&(rs_lines){.table = curves->name,
                                       .x = curves->x,
                                       .y = curves->y,
                                       .colour = {"series", "series"},
                                       .origin = "origin",
                                       .keys = {keys, 1},
                                       .x_whole = curves->x_whole,
                                       .log_x = curves->log_x,
                                       .log_y = curves->log_y,
                                       .y_rule = curves->y_rule,
                                       .y_rule_label = curves->y_rule_label,
                                       .y_floor = curves->y_floor});
}

/* Beside them a table of curves has its own x and y, which its figure names. */
static const rs_column curve_columns[] = {
    RS_COLUMN(curve_cells, series, "series", "series", NULL, "which curve of the figure", NULL),
    RS_COLUMN(curve_cells, origin, "origin", "origin", NULL,
              "measured, computed by a formula, or published", NULL),
};
const rs_table_kind rs_lab_curves_kind = {
    "lab", "every table of a figure", {RS_PART(curve_columns)}};

rs_status rs_lab_curves_open(rs_table **out, rs_lab_report *report, const rs_lab_curves *curves,
                             rs_error *err)
{
    rs_column columns[] = {
        curve_columns[0],
        RS_COLUMN(curve_cells, x, curves->x.field, curves->x.title, NULL, NULL, NULL),
        RS_COLUMN(curve_cells, y, curves->y.field, curves->y.title, NULL, NULL, "as origin says"),
        curve_columns[1],
    };
    if (curves->x_whole) columns[1].type = RS_COLUMN_INT;
    rs_result_show_curve(report->result, &(rs_curve){.table = curves->name,
                                                     .title = curves->y.title,
                                                     .x = curves->x.field,
                                                     .x_title = curves->x.title,
                                                     .y = {{curves->y.field, NULL}},
                                                     .series = "series",
                                                     .log_x = curves->log_x,
                                                     .floor = curves->y_floor});
    RS_TRY(rs_result_add_table(report->result, curves->name, curves->title, curves->about, columns,
                               sizeof columns / sizeof *columns, out, err));
    return rs_result_add_figure(report->result, curves->name, curves->title, curves->about,
                                figure(curves), err);
}

rs_status rs_lab_curves_add_from(rs_table *table, const char *origin, const char *series, double x,
                                 double y, rs_error *err)
{
    return rs_table_append(table, &(curve_cells){series, origin, x, y}, err);
}

rs_status rs_lab_curves_add(rs_table *table, const char *series, double x, double y, rs_error *err)
{
    return rs_lab_curves_add_from(table, "measured", series, x, y, err);
}
