/* columns.c: the tables of a result as typed arrays. */
#include "api/check.h"
#include "report/result.h"

const char *rs_result_table_name(const rs_result *result, size_t index)
{
    if (!result || index >= rs_result_table_count(result)) return NULL;
    return rs_table_name(rs_result_table_at(result, index));
}

static const rs_table *find_table(const rs_result *result, const char *name)
{
    return result && name ? rs_result_table(result, name) : NULL;
}

size_t rs_result_column_count(const rs_result *result, const char *table)
{
    const rs_table *found = find_table(result, table);
    return found ? rs_table_columns(found) : 0;
}

const char *rs_result_column_name(const rs_result *result, const char *table, size_t index)
{
    const rs_table *found = find_table(result, table);
    if (!found || index >= rs_table_columns(found)) return NULL;
    return rs_table_column(found, index)->name;
}

rs_status rs_result_column(rs_column_data *out, const rs_result *result, const char *table,
                           const char *column, rs_error *err)
{
    if (out) *out = (rs_column_data){0};
    RS_TRY(rs_check_pointer(out, "out", err));
    RS_TRY(rs_check_pointer(result, "result", err));
    RS_TRY(rs_check_pointer(table, "table", err));
    RS_TRY(rs_check_pointer(column, "column", err));
    RS_TRY(rs_result_complete(result, err));
    const rs_table *found = rs_result_table(result, table);
    if (!found) return rs_fail(err, RS_E_NOT_FOUND, table, NULL, "the result has no such table");
    int at = rs_table_find_column(found, column);
    if (at < 0)
        return rs_fail(err, RS_E_NOT_FOUND, column, NULL, "table %s has no such column", table);
    const void *cells = rs_table_cells(found, (size_t)at);
    out->type = rs_table_column(found, (size_t)at)->type;
    out->rows = rs_table_rows(found);
    switch (out->type) {
    case RS_COLUMN_TEXT:
        out->text = cells;
        break;
    case RS_COLUMN_INT:
    case RS_COLUMN_BOOL:
        out->integer = cells;
        break;
    case RS_COLUMN_REAL:
        out->real = cells;
        break;
    case RS_COLUMN_VECTOR:
        out->list = cells;
        break;
    }
    return RS_OK;
}
