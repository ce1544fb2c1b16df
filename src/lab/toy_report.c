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
    rs_finding finding = rs_finding_of(RS_INFO, "quick");
    finding.message = message;
    finding.hint = "leave out --quick for the experiment as it is meant";
    return rs_result_add_finding(report->result, &finding, err);
}

/* ---- curves ---- */

enum { SERIES, X, Y, COLUMNS = 5 };

static const rs_column *columns_of(const rs_lab_curves *curves)
{
    return curves->kind->parts[0].columns;
}

static rs_figure_field field_of(const rs_column *column)
{
    return (rs_figure_field){column->name, column->title};
}

static rs_plot figure(const rs_lab_curves *curves)
{
    static const char *const keys[] = {"series"};
    const rs_column *columns = columns_of(curves);
    return rs_figure_lines(&(rs_lines){.table = curves->kind->name,
                                       .x = field_of(&columns[X]),
                                       .y = field_of(&columns[Y]),
                                       .colour = field_of(&columns[SERIES]),
                                       .origin = "origin",
                                       .keys = {keys, 1},
                                       .x_whole = columns[X].type == RS_COLUMN_INT,
                                       .log_x = curves->log_x,
                                       .log_y = curves->log_y,
                                       .y_floor = curves->y_floor});
}

rs_status rs_lab_curves_open(rs_table **out, rs_lab_report *report, const rs_lab_curves *curves,
                             rs_error *err)
{
    const char *name = curves->kind->name;
    const rs_column *columns = columns_of(curves);
    rs_result_show_curve(report->result, &(rs_curve){.table = name,
                                                     .title = columns[Y].title,
                                                     .x = columns[X].name,
                                                     .x_title = columns[X].title,
                                                     .y = {{.column = columns[Y].name}},
                                                     .series = "series",
                                                     .log_x = curves->log_x,
                                                     .floor = curves->y_floor});
    RS_TRY(rs_result_add_table(report->result, name, curves->title, curves->about, columns, COLUMNS,
                               out, err));
    return rs_result_add_figure(report->result, name, curves->title, curves->about, figure(curves),
                                err);
}

rs_status rs_lab_curves_add(rs_table *table, const char *series, double x, double y, rs_error *err)
{
    return rs_table_append(table, &(rs_lab_point){series, x, y, "measured", NULL}, err);
}

rs_status rs_lab_curves_compute(rs_table *table, const char *series, double x, double y,
                                rs_error *err)
{
    return rs_table_append(table, &(rs_lab_point){series, x, y, "computed", NULL}, err);
}

rs_status rs_lab_curves_publish(rs_table *table, const char *source, const char *series, double x,
                                double y, rs_error *err)
{
    return rs_table_append(table, &(rs_lab_point){series, x, y, "published", source}, err);
}
