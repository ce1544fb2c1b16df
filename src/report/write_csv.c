/* write_csv.c: one table as CSV (quoting of RFC 4180, lines ended by a newline). */
#include "report/number.h"
#include "report/table.h"
#include "report/unicode.h"

#include <math.h>
#include <string.h>

/* Spreadsheets take a cell that begins so for a formula, quoted or not. */
static bool begins_a_formula(const char *text)
{
    return text[0] && strchr("=+-@\t\r", text[0]);
}

/* Text as it is when it has no separator, quote or line end; otherwise quoted. An empty text is
 * quoted too: an empty field means null. Bytes that are not UTF-8 become U+FFFD. */
static void put_text(rs_buffer *out, const char *text, bool safe)
{
    size_t length = strlen(text);
    bool quote =
        length == 0 || strpbrk(text, ",\"\r\n") || text[0] == ' ' || text[length - 1] == ' ';
    if (quote) rs_buffer_append(out, "\"", 1);
    if (safe && begins_a_formula(text)) rs_buffer_append(out, "'", 1);
    for (size_t i = 0; i < length;) {
        uint32_t point;
        size_t size = rs_utf8_next(text + i, length - i, &point);
        char bytes[4];
        if (point == '"') rs_buffer_append(out, "\"", 1);
        rs_buffer_append(out, bytes, rs_utf8_put(bytes, point));
        i += size;
    }
    if (quote) rs_buffer_append(out, "\"", 1);
}

static void put_real(rs_buffer *out, double value)
{
    char text[RS_NUMBER_SIZE];
    if (isfinite(value)) rs_buffer_append(out, text, rs_number_format(text, value));
}

static void put_cell(rs_buffer *out, const rs_table *table, size_t row, size_t column, bool safe)
{
    char text[RS_NUMBER_SIZE];
    size_t n;
    switch (rs_table_column(table, column)->type) {
    case RS_COLUMN_TEXT:
        put_text(out, rs_table_text(table, row, column), safe);
        break;
    case RS_COLUMN_INT:
        rs_buffer_append(out, text, rs_integer_format(text, rs_table_int(table, row, column)));
        break;
    case RS_COLUMN_BOOL:
        rs_buffer_puts(out, rs_table_int(table, row, column) ? "true" : "false");
        break;
    case RS_COLUMN_REAL:
        put_real(out, rs_table_real(table, row, column));
        break;
    case RS_COLUMN_VECTOR: {
        const double *values = rs_table_vector(table, row, column, &n);
        for (size_t i = 0; i < n; i++) {
            if (i) rs_buffer_append(out, ";", 1);
            put_real(out, values[i]);
        }
        break;
    }
    }
}

static rs_status write_csv(rs_buffer *out, const rs_table *table, bool safe, rs_error *err)
{
    int64_t failures = rs_memory_failures();
    RS_TRY(rs_table_check(table, err));
    size_t rows = rs_table_rows(table), columns = rs_table_columns(table);
    for (size_t c = 0; c < columns; c++) {
        if (c) rs_buffer_append(out, ",", 1);
        put_text(out, rs_table_column(table, c)->name, safe);
    }
    rs_buffer_append(out, "\n", 1);
    for (size_t r = 0; r < rows; r++) {
        for (size_t c = 0; c < columns; c++) {
            if (c) rs_buffer_append(out, ",", 1);
            if (!rs_table_is_null(table, r, c)) put_cell(out, table, r, c, safe);
        }
        rs_buffer_append(out, "\n", 1);
    }
    if (out->failed) return rs_fail_memory(err, rs_table_name(table), out->length);
    return rs_memory_check(failures, rs_table_name(table), err);
}

rs_status rs_write_csv(rs_buffer *out, const rs_table *table, rs_error *err)
{
    return write_csv(out, table, false, err);
}

rs_status rs_write_csv_safe(rs_buffer *out, const rs_table *table, rs_error *err)
{
    return write_csv(out, table, true, err);
}
