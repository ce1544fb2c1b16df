/*
 * terminal_table.c: a table for people.
 *
 * The key columns (which row is this? the first column always tells) stand first in every block;
 * the others follow in as many blocks as the width asks for. A key that is the same in all rows is
 * said once above the table. Where not all fits, column names are broken at their underscores.
 */
#include "report/number.h"
#include "report/table.h"
#include "report/terminal.h"
#include "report/unicode.h"

#include <string.h>

enum { NAME_LINES = 4, NAME_SIZE = 64, GAP = 2 };

typedef struct layout {
    size_t column;
    int cells;  /* the widest cell */
    int width;  /* of the column, its name included */
    bool right; /* numbers */
    char name[NAME_LINES][NAME_SIZE];
    int lines; /* of the name */
} layout;

static const char *const key_names[] = {"stack", "attention", "variant", "sample", "layer",
                                        "head",  "product",   "site",    "tensor"};

static bool is_key(const char *name)
{
    for (size_t i = 0; i < sizeof key_names / sizeof *key_names; i++)
        if (strcmp(name, key_names[i]) == 0) return true;
    return false;
}

static void put_brief(rs_buffer *text, double value)
{
    char number[RS_NUMBER_SIZE];
    rs_buffer_append(text, number, rs_number_brief(number, value, 4));
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
        put_brief(text, rs_table_real(table, row, column));
        break;
    case RS_COLUMN_VECTOR: {
        const double *values = rs_table_vector(table, row, column, &n);
        if (n) put_brief(text, values[0]);
        if (n > 1) {
            rs_buffer_puts(text, "..");
            put_brief(text, values[n - 1]);
        }
        rs_buffer_printf(text, " (%zu)", n);
        break;
    }
    }
}

/* Empty, and terminated even when nothing follows. */
static void clear(rs_buffer *text)
{
    text->length = 0;
    rs_buffer_append(text, "", 0);
}

static int cells_width(const rs_term *term, const rs_table *table, size_t column, rs_buffer *text)
{
    int widest = 1;
    for (size_t r = 0; r < rs_table_rows(table); r++) {
        clear(text);
        rs_term_cell(term, text, table, r, column);
        int width = text->failed ? 0 : rs_text_width(text->data, text->length);
        if (width > widest) widest = width;
    }
    return widest;
}

/* Column names are identifiers of the program; a longer one than NAME_SIZE is cut. */
static void name_whole(layout *l, const char *name)
{
    size_t n = strnlen(name, NAME_SIZE - 1);
    memcpy(l->name[0], name, n);
    l->name[0][n] = 0;
    l->lines = 1;
    l->width = (int)n > l->cells ? (int)n : l->cells;
}

/* Breaks "effective_rank_null" behind underscores into lines no wider than needed. */
static void name_broken(layout *l, const char *name)
{
    int widest = l->cells;
    for (const char *p = name; *p;) {
        size_t n = strcspn(p, "_");
        n += p[n] == '_';
        if ((int)n > widest) widest = (int)n;
        p += n;
    }
    if (widest > NAME_SIZE - 1) widest = NAME_SIZE - 1;
    l->lines = 0;
    l->width = l->cells;
    for (const char *p = name; *p && l->lines < NAME_LINES;) {
        size_t line = 0;
        while (p[line]) {
            size_t n = strcspn(p + line, "_");
            n += p[line + n] == '_';
            if (line && (int)(line + n) > widest && l->lines < NAME_LINES - 1) break;
            line += n;
        }
        size_t kept = line < NAME_SIZE ? line : NAME_SIZE - 1;
        memcpy(l->name[l->lines], p, kept);
        l->name[l->lines++][kept] = 0;
        if ((int)kept > l->width) l->width = (int)kept;
        p += line;
    }
}

/* True when every row has the same value there (and there are several rows). */
static bool is_constant(const rs_term *term, const rs_table *table, size_t column, rs_buffer *one,
                        rs_buffer *other)
{
    if (rs_table_rows(table) < 2 || rs_table_column(table, column)->type != RS_COLUMN_TEXT)
        return false;
    clear(one);
    rs_term_cell(term, one, table, 0, column);
    for (size_t r = 1; r < rs_table_rows(table); r++) {
        clear(other);
        rs_term_cell(term, other, table, r, column);
        if (one->failed || other->failed || strcmp(one->data, other->data) != 0) return false;
    }
    return true;
}

static int total_width(const layout *layouts, size_t n)
{
    int total = 0;
    for (size_t i = 0; i < n; i++)
        total += layouts[i].width + (i ? GAP : 0);
    return total;
}

/* Takes columns from the widest until the sum fits. */
static void shrink(layout *layouts, size_t n, int limit)
{
    while (n && total_width(layouts, n) > limit) {
        size_t widest = 0;
        for (size_t i = 1; i < n; i++)
            if (layouts[i].width > layouts[widest].width) widest = i;
        if (layouts[widest].width <= 1) return;
        layouts[widest].width--;
    }
}

typedef struct block {
    const rs_term *term;
    const rs_table *table;
    const layout *keys, *values;
    size_t n_keys, n_values;
    rs_buffer *text;
} block;

static const layout *field_of(const block *b, size_t i)
{
    return i < b->n_keys ? &b->keys[i] : &b->values[i - b->n_keys];
}

/* Ends a line without blanks at its end. */
static void end_line(rs_buffer *out)
{
    while (out->length && out->data[out->length - 1] == ' ')
        out->length--;
    rs_buffer_append(out, "\n", 1);
}

static void print_names(const block *b)
{
    int lines = 1;
    size_t n = b->n_keys + b->n_values;
    for (size_t i = 0; i < n; i++)
        if (field_of(b, i)->lines > lines) lines = field_of(b, i)->lines;
    for (int line = 0; line < lines; line++) {
        rs_term_style(b->term, RS_BOLD);
        for (size_t i = 0; i < n; i++) {
            const layout *l = field_of(b, i);
            int own = line - (lines - l->lines); /* names stand on the last line */
            rs_term_spaces(b->term, i ? GAP : 0);
            rs_term_field(b->term, own >= 0 ? l->name[own] : "", l->width, l->right);
        }
        rs_term_style(b->term, RS_PLAIN);
        end_line(b->term->out);
    }
}

static void print_block(const block *b)
{
    print_names(b);
    for (size_t r = 0; r < rs_table_rows(b->table); r++) {
        for (size_t i = 0; i < b->n_keys + b->n_values; i++) {
            const layout *l = field_of(b, i);
            clear(b->text);
            rs_term_cell(b->term, b->text, b->table, r, l->column);
            if (b->text->failed) {
                b->term->out->failed = true;
                return;
            }
            rs_term_spaces(b->term, i ? GAP : 0);
            rs_term_field(b->term, b->text->data, l->width, l->right);
        }
        end_line(b->term->out);
    }
}

/* Chooses layouts: keys first, then values; constant keys are printed here and left out. */
static void lay_out(const rs_term *term, const rs_table *table, layout *layouts, size_t *n_keys,
                    size_t *n_values, rs_buffer scratch[2])
{
    size_t columns = rs_table_columns(table), n = 0;
    bool leading = true;
    *n_keys = 0;
    for (size_t c = 0; c < columns; c++) {
        const rs_column *column = rs_table_column(table, c);
        leading = leading && (c == 0 || is_key(column->name));
        if (leading && is_constant(term, table, c, &scratch[0], &scratch[1])) {
            rs_buffer fact = {0};
            rs_buffer_printf(&fact, "%s: %s in every row", column->name, scratch[0].data);
            if (!fact.failed) rs_term_wrap(term, fact.data, 0, 2);
            term->out->failed |= fact.failed;
            rs_buffer_free(&fact);
            continue;
        }
        layout *l = &layouts[n++];
        *l = (layout){.column = c, .right = column->type != RS_COLUMN_TEXT};
        l->cells = cells_width(term, table, c, &scratch[0]);
        *n_keys += leading;
    }
    *n_values = n - *n_keys;
    bool fits = false;
    for (int broken = 0; broken < 2 && !fits; broken++) {
        for (size_t i = 0; i < n; i++) {
            const char *name = rs_table_column(table, layouts[i].column)->name;
            if (broken)
                name_broken(&layouts[i], name);
            else
                name_whole(&layouts[i], name);
        }
        fits = total_width(layouts, n) <= term->width;
    }
}

rs_status rs_term_table(const rs_term *term, const rs_table *table, rs_error *err)
{
    RS_TRY(rs_table_check(table, err));
    rs_buffer scratch[2] = {{0}, {0}};
    layout *layouts = rs_malloc(rs_table_columns(table), sizeof *layouts);
    if (!layouts) return rs_fail_memory(err, rs_table_name(table), 0);
    size_t n_keys, n_values;
    lay_out(term, table, layouts, &n_keys, &n_values, scratch);
    layout *values = layouts + n_keys;
    if (n_values) shrink(layouts, n_keys, term->width * 2 / 3);
    shrink(layouts, n_keys, term->width);
    int keys = total_width(layouts, n_keys) + (n_keys ? GAP : 0);
    for (size_t i = 0; i < n_values; i++)
        if (values[i].width > term->width - keys) values[i].width = term->width - keys;
    size_t begin = 0;
    do {
        size_t end = begin;
        int used = keys - GAP;
        while (end < n_values && (end == begin || used + GAP + values[end].width <= term->width))
            used += GAP + values[end++].width;
        block b = {.term = term,
                   .table = table,
                   .keys = layouts,
                   .values = values + begin,
                   .n_keys = n_keys,
                   .n_values = end - begin,
                   .text = &scratch[0]};
        if (begin) rs_buffer_puts(term->out, "\n");
        print_block(&b);
        begin = end;
    } while (begin < n_values && !term->out->failed);
    bool failed = scratch[0].failed || scratch[1].failed || term->out->failed;
    rs_free(layouts);
    rs_buffer_free(&scratch[0]);
    rs_buffer_free(&scratch[1]);
    return failed ? rs_fail_memory(err, rs_table_name(table), 0) : RS_OK;
}
