/* terminal_view.c: which rows and columns of a table are shown: --where, then --sort, then --top;
 * --columns. */
#include "report/table.h"
#include "report/terminal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- reading ---- */

static rs_status read_sort(rs_shape *shape, const char *text, rs_error *err)
{
    size_t length = strcspn(text, ":");
    const char *order = text[length] ? text + length + 1 : "desc";
    shape->ascending = strcmp(order, "asc") == 0;
    if (!shape->ascending && strcmp(order, "desc") != 0)
        return rs_fail(err, RS_E_BAD_OPTION, "sort", "write COLUMN:asc or COLUMN:desc",
                       "'%.40s' is no order", order);
    if (memchr(text, ',', length))
        return rs_fail(err, RS_E_BAD_OPTION, "sort", "name one column, as in effective_rank:asc",
                       "'%.80s' names several columns", text);
    if (length == 0 || length >= sizeof shape->sort)
        return rs_fail(err, RS_E_BAD_OPTION, "sort", "write COLUMN or COLUMN:asc",
                       "'%.80s' names no column", text);
    memcpy(shape->sort, text, length);
    shape->sort[length] = 0;
    return RS_OK;
}

/* A name of a comma list; false at its end. */
static bool next_name(const char **list, char name[RS_MOST_NAME])
{
    if (!*list) return false;
    size_t length = strcspn(*list, ",");
    size_t kept = length < RS_MOST_NAME ? length : RS_MOST_NAME - 1;
    memcpy(name, *list, kept);
    name[kept] = 0;
    *list = (*list)[length] ? *list + length + 1 : NULL;
    return true;
}

rs_status rs_shape_read(rs_shape *shape, const rs_terminal *terminal, rs_error *err)
{
    *shape = (rs_shape){.columns = terminal->columns, .top = terminal->top};
    if (terminal->sort) RS_TRY(read_sort(shape, terminal->sort, err));
    return terminal->where ? rs_where_read(shape, terminal->where, err) : RS_OK;
}

/* ---- refusing ---- */

/* The first table of the result that has the column. */
static const rs_table *table_with(const rs_result *result, const char *name)
{
    for (size_t i = 0; i < rs_result_table_count(result); i++)
        if (rs_table_find_column(rs_result_table_at(result, i), name) >= 0)
            return rs_result_table_at(result, i);
    return NULL;
}

/* The column of the table nearest to the name, where it is nearer than *least. */
static void look_in(const rs_table *table, const char *name, int *least, const char **nearest,
                    const rs_table **in)
{
    for (size_t c = 0; c < rs_table_columns(table); c++) {
        const char *known = rs_table_column(table, c)->name;
        int distance = rs_edit_distance(name, known);
        if (distance < *least) *least = distance, *nearest = known, *in = table;
    }
}

/* Those that are shown are looked in first: another table has to have a nearer one. */
static rs_status unknown_column(const rs_result *result, const rs_table *const *tables, size_t n,
                                const char *option, const char *name, rs_error *err)
{
    char hint[400];
    int least = 1000;
    const char *nearest = NULL;
    const rs_table *in = NULL;
    for (size_t i = 0; i < n; i++)
        look_in(tables[i], name, &least, &nearest, &in);
    const rs_table *shown = in;
    for (size_t i = 0; least > 2 && i < rs_result_table_count(result); i++)
        look_in(rs_result_table_at(result, i), name, &least, &nearest, &in);
    if (!nearest) return rs_fail(err, RS_E_BAD_OPTION, option, NULL, "no column '%s'", name);
    if (in == shown)
        snprintf(hint, sizeof hint, "the nearest is '%.90s'; --wide shows all", nearest);
    else
        snprintf(hint, sizeof hint, "the nearest is '%.90s' of --table %.90s", nearest,
                 rs_table_name(in));
    return rs_fail(err, RS_E_BAD_OPTION, option, hint, "no column '%s'", name);
}

static rs_status check_column(const rs_result *result, const rs_table *const *tables, size_t n,
                              const char *option, const char *name, rs_error *err)
{
    char hint[RS_MOST_NAME + 64];
    for (size_t i = 0; i < n; i++)
        if (rs_table_find_column(tables[i], name) >= 0) return RS_OK;
    const rs_table *other = table_with(result, name);
    if (!other) return unknown_column(result, tables, n, option, name, err);
    snprintf(hint, sizeof hint, "--table %.90s has it", rs_table_name(other));
    return rs_fail(err, RS_E_BAD_OPTION, option, hint, "no table that is shown has column '%s'",
                   name);
}

static rs_status check_sort(const rs_shape *shape, const rs_table *const *tables, size_t n,
                            rs_error *err)
{
    for (size_t i = 0; i < n; i++) {
        int column = rs_table_find_column(tables[i], shape->sort);
        if (column >= 0 && rs_table_column(tables[i], (size_t)column)->type == RS_COLUMN_VECTOR)
            return rs_fail(err, RS_E_BAD_OPTION, "sort", "choose a column of numbers or texts",
                           "column '%s' holds lists of numbers", shape->sort);
    }
    return RS_OK;
}

rs_status rs_shape_check(const rs_shape *shape, const rs_result *result,
                         const rs_table *const *tables, size_t n, rs_error *err)
{
    char name[RS_MOST_NAME];
    for (const char *list = shape->columns; next_name(&list, name);) {
        if (!name[0])
            return rs_fail(err, RS_E_BAD_OPTION, "columns",
                           "write names with one comma between them: layer,head",
                           "'%.80s' has an empty name in it", shape->columns);
        RS_TRY(check_column(result, tables, n, "columns", name, err));
    }
    if (shape->sort[0]) {
        RS_TRY(check_column(result, tables, n, "sort", shape->sort, err));
        RS_TRY(check_sort(shape, tables, n, err));
    }
    for (size_t i = 0; i < shape->n_conditions; i++)
        RS_TRY(check_column(result, tables, n, "where", shape->conditions[i].name, err));
    return rs_where_check(shape, tables, n, err);
}

/* ---- rows ---- */

/* What a row is sorted by. */
typedef struct sorted_row {
    size_t row;
    bool null, ascending;
    double real;
    int64_t integer; /* exactly, of a column of whole numbers */
    const char *text;
} sorted_row;

/* Rows without a value last; equal ones as they stood. */
static int in_order(const void *left, const void *right)
{
    const sorted_row *a = left, *b = right;
    if (a->null != b->null) return a->null ? 1 : -1;
    int order =
        a->text && b->text ? strcmp(a->text, b->text) : (a->real > b->real) - (a->real < b->real);
    if (order == 0) order = (a->integer > b->integer) - (a->integer < b->integer);
    if (order != 0) return a->ascending ? order : -order;
    return (a->row > b->row) - (a->row < b->row);
}

static rs_status sort_rows(rs_view *view, const rs_shape *shape, rs_error *err)
{
    const rs_table *t = view->table;
    int column = rs_table_find_column(t, shape->sort);
    if (column < 0 || view->n_rows < 2) return RS_OK;
    size_t c = (size_t)column;
    rs_column_type type = rs_table_column(t, c)->type;
    sorted_row *sorted = rs_malloc(view->n_rows, sizeof *sorted);
    if (!sorted) return rs_fail_memory(err, rs_table_name(t), 0);
    for (size_t i = 0; i < view->n_rows; i++) {
        size_t r = view->rows[i];
        sorted[i] = (sorted_row){
            .row = r, .null = rs_table_is_null(t, r, c), .ascending = shape->ascending};
        if (type == RS_COLUMN_TEXT) sorted[i].text = rs_table_text(t, r, c);
        if (type == RS_COLUMN_REAL && !sorted[i].null) sorted[i].real = rs_table_real(t, r, c);
        if (type == RS_COLUMN_INT || type == RS_COLUMN_BOOL)
            sorted[i].integer = rs_table_int(t, r, c);
    }
    qsort(sorted, view->n_rows, sizeof *sorted, in_order);
    for (size_t i = 0; i < view->n_rows; i++)
        view->rows[i] = sorted[i].row;
    rs_free(sorted);
    return RS_OK;
}

static rs_status choose_rows(rs_view *view, const rs_shape *shape, rs_error *err)
{
    size_t rows = rs_table_rows(view->table);
    view->rows = rs_malloc(rows, sizeof *view->rows);
    if (!view->rows) return rs_fail_memory(err, rs_table_name(view->table), 0);
    for (size_t r = 0; r < rows; r++)
        if (!shape || rs_where_holds(shape, view->table, r)) view->rows[view->n_rows++] = r;
    if (!shape) return RS_OK;
    if (shape->sort[0]) RS_TRY(sort_rows(view, shape, err));
    if (shape->top > 0 && (uint64_t)shape->top < view->n_rows) view->n_rows = (size_t)shape->top;
    return RS_OK;
}

/* ---- columns ---- */

static rs_status choose_columns(rs_view *view, const char *list, rs_error *err)
{
    char name[RS_MOST_NAME];
    size_t most = 1;
    for (const char *p = list; *p; p++)
        most += *p == ',';
    view->columns = rs_malloc(most, sizeof *view->columns);
    if (!view->columns) return rs_fail_memory(err, rs_table_name(view->table), 0);
    while (next_name(&list, name)) {
        int column = rs_table_find_column(view->table, name);
        if (column >= 0) view->columns[view->n_columns++] = (size_t)column;
    }
    return RS_OK;
}

rs_status rs_view_make(rs_view *view, const rs_table *table, const rs_shape *shape, rs_error *err)
{
    *view = (rs_view){.table = table};
    RS_TRY(rs_table_check(table, err));
    RS_TRY(choose_rows(view, shape, err));
    return shape && shape->columns ? choose_columns(view, shape->columns, err) : RS_OK;
}

void rs_view_free(rs_view *view)
{
    rs_free(view->rows);
    rs_free(view->columns);
    *view = (rs_view){0};
}
