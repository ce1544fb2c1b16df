/* terminal_entries.c: a table as the entries of a dictionary. */
#include "report/table.h"
#include "report/terminal.h"

#include <string.h>

enum { INDENT = 2, INNER = 4 };

/* Whether the text, from INDENT on, takes no more lines than that. */
static bool is_within(const rs_term *term, const char *text, size_t most)
{
    rs_buffer out = {0};
    rs_term aside = *term;
    size_t lines = 0;
    aside.out = &out;
    rs_term_wrap(&aside, text, INDENT, INDENT);
    for (size_t i = 0; i < out.length; i++)
        lines += out.data[i] == '\n';
    term->out->failed |= out.failed;
    rs_buffer_free(&out);
    return lines <= most;
}

static size_t count_items(const char *list)
{
    size_t n = 1;
    for (; (list = strstr(list, ", ")); list += 2)
        n++;
    return n;
}

/* Shortens a list of names to what fits on so many lines: "stack, attention and 443 more". */
static void shorten(const rs_term *term, rs_buffer *list, size_t most)
{
    rs_buffer begun = {0}, fitting = {0};
    size_t all = count_items(list->data), n = 0;
    if (is_within(term, list->data, most)) return;
    for (const char *at = list->data; (at = strstr(at, ", ")); at += 2) {
        begun.length = 0;
        rs_buffer_append(&begun, list->data, (size_t)(at - list->data));
        rs_buffer_printf(&begun, " and %zu more", all - ++n);
        if (begun.failed || !is_within(term, begun.data, most)) break;
        fitting.length = 0;
        rs_buffer_puts(&fitting, begun.data);
    }
    list->failed |= begun.failed || fitting.failed;
    if (fitting.length && !list->failed) {
        list->length = 0;
        rs_buffer_puts(list, fitting.data);
    }
    rs_buffer_free(&begun);
    rs_buffer_free(&fitting);
}

/* "  definition: ‖X − 1x̄ᵀ‖_F / ‖X‖_F", broken behind the label. */
static void part(const rs_term *term, const char *label, const rs_buffer *value)
{
    rs_buffer line = {0};
    rs_term_spaces(term, INDENT);
    if (label) rs_buffer_printf(&line, "%s: ", label);
    rs_buffer_append(&line, value->data, value->length);
    if (!line.failed) rs_term_wrap(term, line.data, INDENT, label ? INNER : INDENT);
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

static void entry(const rs_term *term, const rs_view *view, size_t row, const char *said)
{
    const rs_table *table = view->table;
    head(term, table, row);
    for (size_t c = 2; c < rs_table_columns(table); c++) {
        rs_buffer value = {0};
        bool text = rs_table_column(table, c)->type == RS_COLUMN_TEXT;
        if (rs_table_is_null(table, row, c)) continue;
        if (text && strstr(said, rs_table_text(table, row, c))) continue;
        rs_term_cell(term, &value, table, row, c);
        if (view->most_lines && text && !value.failed) shorten(term, &value, view->most_lines);
        part(term, rs_table_column(table, c)->title, &value);
        term->out->failed |= value.failed;
        rs_buffer_free(&value);
    }
    rs_buffer_puts(term->out, "\n");
}

rs_status rs_term_entries(const rs_term *term, const rs_view *view, rs_error *err)
{
    for (size_t i = 0; i < view->n_rows; i++)
        entry(term, view, view->rows[i], i == 0 ? term->said : "");
    return term->out->failed ? rs_fail_memory(err, "entries", term->out->length) : RS_OK;
}
