/* terminal_entries.c: a table as the entries of a dictionary. */
#include "report/table.h"
#include "report/terminal.h"

#include <string.h>

/* "  definition: ‖X − 1x̄ᵀ‖_F / ‖X‖_F", broken behind the label. */
static void part(const rs_term *term, const char *label, const rs_buffer *value)
{
    rs_buffer line = {0};
    rs_term_spaces(term, 2);
    if (label) rs_buffer_printf(&line, "%s: ", label);
    rs_buffer_append(&line, value->data, value->length);
    if (!line.failed) rs_term_wrap(term, line.data, 2, label ? 4 : 2);
    term->out->failed |= line.failed;
    rs_buffer_free(&line);
}

static void head(const rs_term *term, const rs_table *table, size_t row)
{
    rs_buffer name = {0}, kind = {0};
    rs_term_cell(term, &name, table, row, 0);
    rs_buffer_puts(&kind, "(");
    rs_term_cell(term, &kind, table, row, 1);
    rs_buffer_puts(&kind, ")\n");
    rs_term_style(term, RS_BOLD);
    if (name.data) rs_buffer_append(term->out, name.data, name.length);
    rs_term_style(term, RS_PLAIN);
    rs_buffer_puts(term->out, " ");
    if (kind.data) rs_buffer_append(term->out, kind.data, kind.length);
    term->out->failed |= name.failed || kind.failed;
    rs_buffer_free(&name);
    rs_buffer_free(&kind);
}

static void entry(const rs_term *term, const rs_table *table, size_t row, const char *said)
{
    head(term, table, row);
    for (size_t c = 2; c < rs_table_columns(table); c++) {
        rs_buffer value = {0};
        bool text = rs_table_column(table, c)->type == RS_COLUMN_TEXT;
        if (rs_table_is_null(table, row, c)) continue;
        if (text && strstr(said, rs_table_text(table, row, c))) continue;
        rs_term_cell(term, &value, table, row, c);
        part(term, rs_table_column(table, c)->title, &value);
        term->out->failed |= value.failed;
        rs_buffer_free(&value);
    }
    rs_buffer_puts(term->out, "\n");
}

rs_status rs_term_entries(const rs_term *term, const rs_view *view, rs_error *err)
{
    for (size_t i = 0; i < view->n_rows; i++)
        entry(term, view->table, view->rows[i], i == 0 ? term->said : "");
    return term->out->failed ? rs_fail_memory(err, "entries", term->out->length) : RS_OK;
}
