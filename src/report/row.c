/* row.c: rows of a table that are structs, each column's cells one member (result.h, RS_CELL). */
#include "report/result.h"

#include <math.h>

/* The whole number of a member; negative: it has none. */
static int64_t whole_at(const rs_column *column, const void *at)
{
    switch (column->member) {
    case RS_MEMBER_INT64:
        return *(const int64_t *)at;
    case RS_MEMBER_INT32:
        return *(const int32_t *)at;
    case RS_MEMBER_BOOL:
        return *(const bool *)at;
    case RS_MEMBER_TRUTH:
        return *(const rs_truth *)at;
    case RS_MEMBER_NONE:
    case RS_MEMBER_TEXT:
    case RS_MEMBER_REAL:
    case RS_MEMBER_LIST:
        break;
    }
    return -1;
}

static double real_at(const void *row, size_t at)
{
    return *(const double *)(const void *)((const char *)row + at);
}

static bool is_absent(const rs_column *column, const void *row)
{
    return column->with && !isfinite(real_at(row, column->with - 1));
}

double rs_column_value(const rs_column *column, const void *row)
{
    if (is_absent(column, row)) return NAN;
    if (column->member == RS_MEMBER_REAL) return real_at(row, column->at);
    int64_t whole = whole_at(column, (const char *)row + column->at);
    return whole < 0 ? NAN : (double)whole;
}

rs_column *rs_columns_within(rs_column *out, const rs_column *columns, size_t n, size_t at)
{
    for (size_t c = 0; c < n; c++) {
        out[c] = columns[c];
        out[c].at += at;
        if (out[c].with) out[c].with += at;
    }
    return out + n;
}

void rs_columns_clear(const rs_column *columns, size_t n, void *row)
{
    for (size_t c = 0; c < n; c++) {
        void *at = (char *)row + columns[c].at;
        switch (columns[c].member) {
        case RS_MEMBER_TEXT:
            *(const char **)at = NULL;
            break;
        case RS_MEMBER_INT64:
            *(int64_t *)at = RS_NULL_INT;
            break;
        case RS_MEMBER_INT32:
            *(int32_t *)at = -1;
            break;
        case RS_MEMBER_REAL:
            *(double *)at = NAN;
            break;
        case RS_MEMBER_BOOL:
            *(bool *)at = false;
            break;
        case RS_MEMBER_TRUTH:
            *(rs_truth *)at = RS_UNKNOWN;
            break;
        case RS_MEMBER_LIST:
            *(rs_list *)at = (rs_list){0};
            break;
        case RS_MEMBER_NONE:
            break;
        }
    }
}

static rs_status append_cell(rs_table *table, size_t r, size_t c, const void *row, rs_error *err)
{
    const rs_column *column = rs_table_column(table, c);
    const void *at = (const char *)row + column->at;
    double value = rs_column_value(column, row);
    switch (column->member) {
    case RS_MEMBER_TEXT:
        return rs_table_set_text(table, r, c, *(const char *const *)at, err);
    case RS_MEMBER_REAL:
        if (column->type != RS_COLUMN_INT)
            rs_table_set_real(table, r, c, value);
        else if (!isnan(value))
            rs_table_set_int(table, r, c, (int64_t)value);
        return RS_OK;
    case RS_MEMBER_INT64:
    case RS_MEMBER_INT32:
        if (!isnan(value)) rs_table_set_int(table, r, c, whole_at(column, at));
        return RS_OK;
    case RS_MEMBER_BOOL:
    case RS_MEMBER_TRUTH:
        if (!isnan(value)) rs_table_set_bool(table, r, c, value != 0);
        return RS_OK;
    case RS_MEMBER_LIST: {
        const rs_list *list = at;
        return list->values ? rs_table_set_vector(table, r, c, list->values, list->n, err) : RS_OK;
    }
    case RS_MEMBER_NONE:
        break;
    }
    return rs_fail(err, RS_E_INTERNAL, rs_table_name(table), "please report this",
                   "column %s belongs to no member of the row", column->name);
}

rs_status rs_table_append(rs_table *table, const void *row, rs_error *err)
{
    size_t r;
    RS_TRY(rs_table_add_row(table, &r, err));
    for (size_t c = 0; c < rs_table_columns(table); c++)
        RS_TRY(append_cell(table, r, c, row, err));
    return RS_OK;
}
