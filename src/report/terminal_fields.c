/* terminal_fields.c: the columns of a view as fields: their widths, and the lines that they make. */
#include "report/terminal_fields.h"
#include "report/number.h"
#include "report/table.h"
#include "report/unicode.h"

#include <string.h>

/* No text is broken into a column narrower than this. */
enum { NARROW_TEXT = 20 };

/* ---- cells ---- */

/* A bound is rounded away from what it bounds, as a cell is a claim too. */
static void put_brief(rs_buffer *text, double value, rs_bound bound)
{
    enum { DIGITS = 4 };
    char number[RS_NUMBER_SIZE];
    size_t n = bound == RS_BOUND_NONE
                   ? rs_number_brief(number, value, DIGITS)
                   : rs_number_outward(number, value, DIGITS, bound == RS_BOUND_UPPER);
    rs_buffer_append(text, number, n);
}

void rs_term_cell(const rs_term *term, rs_buffer *text, const rs_table *table, size_t row,
                  size_t column)
{
    char number[RS_NUMBER_SIZE];
    size_t n;
    if (rs_table_is_null(table, row, column)) {
        rs_buffer_puts(text, "-");
        return;
    }
    rs_bound bound = rs_table_column(table, column)->bound;
    switch (rs_table_column(table, column)->type) {
    case RS_COLUMN_TEXT:
        rs_term_clean(term, text, rs_table_text(table, row, column));
        break;
    case RS_COLUMN_INT:
        rs_buffer_append(text, number, rs_integer_format(number, rs_table_int(table, row, column)));
        break;
    case RS_COLUMN_BOOL:
        rs_buffer_puts(text, rs_table_int(table, row, column) ? "yes" : "no");
        break;
    case RS_COLUMN_REAL:
        put_brief(text, rs_table_real(table, row, column), bound);
        break;
    case RS_COLUMN_VECTOR: {
        const double *values = rs_table_vector(table, row, column, &n);
        if (n) put_brief(text, values[0], bound);
        if (n > 1) {
            rs_buffer_puts(text, "..");
            put_brief(text, values[n - 1], bound);
        }
        rs_buffer_printf(text, " (%zu)", n);
        break;
    }
    }
}

/* The cell alone, terminated even when it is empty. */
static void cell_text(const rs_term *term, rs_buffer *text, const rs_view *view, size_t row,
                      size_t column)
{
    text->length = 0;
    rs_buffer_append(text, "", 0);
    rs_term_cell(term, text, view->table, view->rows[row], column);
    term->out->failed |= text->failed;
}

/* ---- measuring ---- */

static int longest_word(const char *text)
{
    int longest = 0;
    while (*text) {
        size_t n = strcspn(text, " ");
        int width = rs_text_width(text, n);
        if (width > longest) longest = width;
        text += n;
        text += *text == ' ';
    }
    return longest;
}

/* Of all rows, shown or not: one that is the same in the few that are shown still tells which they
 * are. */
static void compare_rows(rs_term_field *field, const rs_term *term, const rs_table *table,
                         rs_buffer *first, rs_buffer *other)
{
    field->empty = field->same = true;
    for (size_t r = 0; r < rs_table_rows(table) && (field->empty || field->same); r++) {
        rs_buffer *text = r ? other : first;
        field->empty = field->empty && rs_table_is_null(table, r, field->column);
        if (!field->same) continue;
        text->length = 0;
        rs_buffer_puts(text, "");
        rs_term_cell(term, text, table, r, field->column);
        term->out->failed |= text->failed;
        if (text->failed) return;
        field->same = r == 0 || strcmp(first->data, other->data) == 0;
    }
}

void rs_term_field_measure(rs_term_field *field, const rs_term *term, const rs_view *view,
                           size_t column)
{
    rs_buffer text = {0}, first = {0};
    const rs_column *c = rs_table_column(view->table, column);
    bool texts = c->type == RS_COLUMN_TEXT;
    *field =
        (rs_term_field){.column = column, .name = c->name, .cells = 1, .word = 1, .right = !texts};
    compare_rows(field, term, view->table, &first, &text);
    for (size_t r = 0; r < view->n_rows && !term->out->failed; r++) {
        cell_text(term, &text, view, r, column);
        if (text.failed) break;
        int width = rs_text_width(text.data, text.length);
        int word = texts ? longest_word(text.data) : width;
        if (width > field->cells) field->cells = width;
        if (word > field->word) field->word = word;
        field->prose |= texts && word < width && width > NARROW_TEXT;
    }
    rs_buffer_free(&text);
    rs_buffer_free(&first);
}

/* ---- names ---- */

static void add_line(rs_term_field *f, const char *at, size_t length)
{
    f->lines[f->n_lines].at = at;
    f->lines[f->n_lines++].length = (int)length;
    if ((int)length > f->width) f->width = (int)length;
}

/* "effective_" of "effective_rank_null". */
static size_t name_part(const char *name)
{
    size_t n = strcspn(name, "_");
    return n + (name[n] == '_');
}

/* Breaks "effective_rank_null" behind underscores into lines no wider than needed. */
static void break_name(rs_term_field *f)
{
    int widest = f->cells;
    for (const char *p = f->name; *p; p += name_part(p))
        if ((int)name_part(p) > widest) widest = (int)name_part(p);
    for (const char *p = f->name; *p;) {
        size_t line = 0;
        while (p[line]) {
            size_t n = name_part(p + line);
            if (line && (int)(line + n) > widest && f->n_lines < RS_NAME_LINES - 1) break;
            line += n;
        }
        add_line(f, p, line);
        p += line;
    }
}

int rs_fields_name(rs_term_field *fields, size_t n, bool broken)
{
    for (size_t i = 0; i < n; i++) {
        rs_term_field *f = &fields[i];
        f->n_lines = 0;
        f->width = f->cells;
        if (broken)
            break_name(f);
        else
            add_line(f, f->name, strlen(f->name));
    }
    return rs_fields_width(fields, n);
}

int rs_fields_width(const rs_term_field *fields, size_t n)
{
    int total = 0;
    for (size_t i = 0; i < n; i++)
        total += fields[i].width + (i ? RS_FIELD_GAP : 0);
    return total;
}

static int least_width(const rs_term_field *f)
{
    int least = f->word > NARROW_TEXT ? f->word : NARROW_TEXT;
    for (int i = 0; i < f->n_lines; i++)
        if (f->lines[i].length > least) least = f->lines[i].length;
    return least;
}

bool rs_fields_narrow(rs_term_field *fields, size_t n, int limit)
{
    while (rs_fields_width(fields, n) > limit) {
        rs_term_field *widest = NULL;
        for (size_t i = 0; i < n; i++)
            if (fields[i].prose && fields[i].width > least_width(&fields[i]) &&
                (!widest || fields[i].width > widest->width))
                widest = &fields[i];
        if (!widest) return false;
        widest->width--;
    }
    return true;
}

/* ---- lines ---- */

void rs_fields_header(const rs_term *term, const rs_term_field *fields, size_t n, int indent)
{
    int lines = 1;
    for (size_t i = 0; i < n; i++)
        if (fields[i].n_lines > lines) lines = fields[i].n_lines;
    for (int line = 0; line < lines; line++) {
        rs_term_style(term, RS_BOLD);
        rs_term_spaces(term, indent);
        for (size_t i = 0; i < n; i++) {
            const rs_term_field *f = &fields[i];
            int own = line - (lines - f->n_lines); /* names stand on the last line */
            rs_term_spaces(term, i ? RS_FIELD_GAP : 0);
            rs_term_pad(term, own >= 0 ? f->lines[own].at : "",
                        own >= 0 ? (size_t)f->lines[own].length : 0, f->width, f->right);
        }
        rs_term_style(term, RS_PLAIN);
        rs_term_end_line(term);
    }
}

/* A row, on as many lines as its longest text takes. */
static void write_row(const rs_term *term, const rs_term_field *fields, size_t n,
                      const rs_buffer *cells, size_t *at)
{
    bool more = true;
    memset(at, 0, n * sizeof *at);
    while (more && !term->out->failed) {
        more = false;
        for (size_t i = 0; i < n; i++) {
            const char *rest = cells[i].data + at[i];
            size_t left = cells[i].length - at[i], next = left, length = left;
            if (fields[i].prose) length = rs_term_line(rest, left, fields[i].width, &next);
            rs_term_spaces(term, i ? RS_FIELD_GAP : 0);
            rs_term_pad(term, rest, length, fields[i].width, fields[i].right);
            at[i] += next;
            more |= at[i] < cells[i].length;
        }
        rs_term_end_line(term);
    }
}

rs_status rs_fields_rows(const rs_term *term, const rs_view *view, const rs_term_field *fields,
                         size_t n, rs_error *err)
{
    rs_buffer *cells = rs_calloc(n, sizeof *cells);
    size_t *at = rs_calloc(n, sizeof *at);
    for (size_t r = 0; cells && at && r < view->n_rows && !term->out->failed; r++) {
        for (size_t i = 0; i < n; i++)
            cell_text(term, &cells[i], view, r, fields[i].column);
        if (!term->out->failed) write_row(term, fields, n, cells, at);
    }
    bool failed = !cells || !at || term->out->failed;
    for (size_t i = 0; cells && i < n; i++)
        rs_buffer_free(&cells[i]);
    rs_free(cells);
    rs_free(at);
    return failed ? rs_fail_memory(err, rs_table_name(view->table), 0) : RS_OK;
}

rs_status rs_fields_records(const rs_term *term, const rs_view *view, const rs_term_field *fields,
                            size_t n, rs_error *err)
{
    rs_buffer text = {0};
    int names = 0;
    for (size_t i = 0; i < n; i++)
        if ((int)strlen(fields[i].name) > names) names = (int)strlen(fields[i].name);
    for (size_t r = 0; r < view->n_rows && !term->out->failed; r++) {
        if (r) rs_buffer_puts(term->out, "\n");
        for (size_t i = 0; i < n && !term->out->failed; i++) {
            cell_text(term, &text, view, r, fields[i].column);
            rs_term_style(term, RS_BOLD);
            rs_term_pad(term, fields[i].name, strlen(fields[i].name), names + RS_FIELD_GAP, false);
            rs_term_style(term, RS_PLAIN);
            if (!text.failed)
                rs_term_wrap(term, text.data, names + RS_FIELD_GAP, names + RS_FIELD_GAP);
        }
    }
    rs_buffer_free(&text);
    return term->out->failed ? rs_fail_memory(err, rs_table_name(view->table), 0) : RS_OK;
}

/* ---- entries ---- */

/* The texts of a row, or (row beyond the last) their names, one after the other. */
static void write_texts(const rs_term *term, const rs_view *view, size_t row,
                        const rs_term_field *fields, size_t n, rs_buffer *scratch)
{
    enum { INDENT = 4 };
    rs_buffer text = {0};
    for (size_t i = 0; i < n; i++) {
        if (!fields[i].prose) continue;
        if (row < view->n_rows) cell_text(term, scratch, view, row, fields[i].column);
        if (text.length) rs_buffer_puts(&text, "; ");
        rs_buffer_puts(&text, row < view->n_rows ? scratch->data : fields[i].name);
    }
    rs_term_spaces(term, INDENT);
    if (!text.failed) rs_term_wrap(term, text.data ? text.data : "", INDENT, INDENT);
    term->out->failed |= text.failed;
    rs_buffer_free(&text);
}

rs_status rs_fields_entries(const rs_term *term, const rs_view *view, const rs_term_field *fields,
                            size_t n, rs_error *err)
{
    rs_buffer text = {0};
    rs_term_field *line = rs_malloc(n, sizeof *line);
    if (!line) return rs_fail_memory(err, rs_table_name(view->table), 0);
    size_t short_ones = 0;
    for (size_t i = 0; i < n; i++)
        if (!fields[i].prose) line[short_ones++] = fields[i];
    rs_fields_header(term, line, short_ones, 0);
    rs_term_style(term, RS_BOLD);
    write_texts(term, view, view->n_rows, fields, n, &text);
    rs_term_style(term, RS_PLAIN);
    rs_status status = RS_OK;
    for (size_t r = 0; r < view->n_rows && status == RS_OK; r++) {
        rs_view one = {.table = view->table, .rows = &view->rows[r], .n_rows = 1};
        status = rs_fields_rows(term, &one, line, short_ones, err);
        write_texts(term, view, r, fields, n, &text);
    }
    if (status == RS_OK && term->out->failed)
        status = rs_fail_memory(err, rs_table_name(view->table), 0);
    rs_buffer_free(&text);
    rs_free(line);
    return status;
}
