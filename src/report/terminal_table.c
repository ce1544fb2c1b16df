/*
 * terminal_table.c: a table for people: which columns, and in which form.
 *
 * Unasked, columns that tell nothing (no value, or the same in every row) are left out. What then
 * does not fit is shown by its first columns (rs_table_show_first), or, where even that is too
 * wide, as one block a row of few rows, or without its last columns; a line says which are not
 * there. Columns that were asked for by name are all shown. No line is continued by another one
 * further down: whoever reads a row has it before them.
 */
#include "report/table.h"
#include "report/terminal_fields.h"
#include "report/unicode.h"

#include <stdio.h>
#include <string.h>

enum {
    FEW_LINES = 14, /* blocks that take so many in all read better than a row without its end */
    ALIKE_ROWS = 3, /* numbers that are the same in so many rows tell nothing */
    FEWEST_FIELDS = 2
};

/* What is to be shown of a view. */
typedef struct plan {
    rs_term_field *fields; /* [n] shown, then those that are not */
    size_t n;
    rs_term_field *left; /* [n_left] not shown for want of room */
    size_t n_left;
    rs_term_field *idle; /* [n_idle] that tell nothing */
    size_t n_idle;
} plan;

/* ---- which columns ---- */

static bool tells_nothing(const rs_term_field *f, const rs_view *view)
{
    rs_column_type type = rs_table_column(view->table, f->column)->type;
    bool words = type == RS_COLUMN_TEXT || type == RS_COLUMN_BOOL;
    size_t rows = rs_table_rows(view->table);
    if (rows == 0) return false;
    return f->empty || (f->same && rows >= (words ? 2 : ALIKE_ROWS));
}

static void move_field(rs_term_field *from, size_t *n_from, size_t at, rs_term_field *to,
                       size_t *n_to)
{
    to[(*n_to)++] = from[at];
    memmove(from + at, from + at + 1, (*n_from - at - 1) * sizeof *from);
    --*n_from;
}

static void leave_out_idle(plan *p, const rs_view *view)
{
    for (size_t i = 0; i < p->n;)
        if (p->n > 1 && tells_nothing(&p->fields[i], view))
            move_field(p->fields, &p->n, i, p->idle, &p->n_idle);
        else
            i++;
}

/* Puts the columns that the table names first into that order, and takes the others away. */
static void keep_first(plan *p, const char *first)
{
    size_t kept = 0;
    for (const char *name = first; *name;) {
        size_t length = strcspn(name, ",");
        for (size_t i = kept; i < p->n; i++)
            if (strlen(p->fields[i].name) == length &&
                memcmp(p->fields[i].name, name, length) == 0) {
                rs_term_field found = p->fields[i];
                memmove(&p->fields[kept + 1], &p->fields[kept], (i - kept) * sizeof found);
                p->fields[kept++] = found;
                break;
            }
        name += length + (name[length] == ',');
    }
    while (kept > 0 && p->n > kept)
        move_field(p->fields, &p->n, kept, p->left, &p->n_left);
}

/* ---- does it fit ---- */

static bool fits_unbroken(const rs_term *term, plan *p)
{
    return rs_fields_name(p->fields, p->n, false) <= term->width ||
           rs_fields_name(p->fields, p->n, true) <= term->width;
}

static bool fits(const rs_term *term, plan *p)
{
    return fits_unbroken(term, p) || rs_fields_narrow(p->fields, p->n, term->width);
}

static bool drop_last(const rs_term *term, plan *p)
{
    while (!fits(term, p)) {
        if (p->n <= FEWEST_FIELDS) return false;
        move_field(p->fields, &p->n, p->n - 1, p->left, &p->n_left);
    }
    return true;
}

/* Several texts that are long: a line for the rest and one for them reads better than columns of a
 * few words. */
static bool has_entries(const rs_term *term, plan *p)
{
    size_t texts = 0;
    int width = 0;
    rs_fields_name(p->fields, p->n, true);
    for (size_t i = 0; i < p->n; i++) {
        texts += p->fields[i].prose;
        if (!p->fields[i].prose) width += p->fields[i].width + RS_FIELD_GAP;
    }
    return texts >= 2 && texts < p->n && width <= term->width;
}

/* ---- forms ---- */

static rs_status as_lines(const rs_term *term, const rs_view *view, const plan *p, rs_error *err)
{
    rs_fields_header(term, p->fields, p->n, 0);
    return rs_fields_rows(term, view, p->fields, p->n, err);
}

static rs_status choose_form(const rs_term *term, const rs_view *view, plan *p, rs_error *err)
{
    bool asked = view->n_columns > 0;
    if (term->wide) {
        rs_fields_name(p->fields, p->n, false);
        return as_lines(term, view, p, err);
    }
    if (!asked) leave_out_idle(p, view);
    const char *first = asked ? NULL : rs_table_first(view->table);
    /* a line a row of the first columns, before all columns with texts of many lines */
    if (first ? fits_unbroken(term, p) : fits(term, p)) return as_lines(term, view, p, err);
    if (first) {
        keep_first(p, first);
        if (fits(term, p)) return as_lines(term, view, p, err);
    }
    if (has_entries(term, p)) return rs_fields_entries(term, view, p->fields, p->n, err);
    bool few = view->n_rows == 1 || view->n_rows * (p->n + 1) <= FEW_LINES;
    if (few) return rs_fields_records(term, view, p->fields, p->n, err);
    if (asked) {
        rs_fields_name(p->fields, p->n, true);
        return as_lines(term, view, p, err);
    }
    if (drop_last(term, p)) return as_lines(term, view, p, err);
    return rs_fields_records(term, view, p->fields, p->n, err);
}

/* ---- what is not there ---- */

/* A line that names as many of the fields as it has room for. */
static void name_fields(const rs_term *term, const char *what, const rs_term_field *fields,
                        size_t n, const char *behind)
{
    rs_buffer line = {0};
    size_t i = 0;
    char more[32] = "";
    rs_buffer_printf(&line, "%s: ", what);
    for (; i < n && !line.failed; i++) {
        if (i + 1 < n) snprintf(more, sizeof more, " and %zu more", n - i - 1);
        size_t width = line.length + 2 + strlen(fields[i].name) + (i + 1 < n ? strlen(more) : 0) +
                       strlen(behind);
        if (i > 0 && width > (size_t)term->width && !term->verbose) break;
        rs_buffer_printf(&line, "%s%s", i ? ", " : "", fields[i].name);
    }
    if (i < n) rs_buffer_printf(&line, " and %zu more", n - i);
    rs_buffer_puts(&line, behind);
    rs_term_style(term, RS_DIM);
    if (!line.failed) rs_term_wrap(term, line.data, 0, 2);
    rs_term_style(term, RS_PLAIN);
    term->out->failed |= line.failed;
    rs_buffer_free(&line);
}

static void say_what_is_missing(const rs_term *term, const plan *p)
{
    if (p->n_left)
        name_fields(term, "not shown", p->left, p->n_left, ": --columns, --wide or --csv");
    if (p->n_idle && term->verbose)
        name_fields(term, "empty or the same in every row", p->idle, p->n_idle, "");
}

rs_status rs_term_table(const rs_term *term, const rs_view *view, rs_error *err)
{
    size_t n = view->n_columns ? view->n_columns : rs_table_columns(view->table);
    rs_term_field *all = rs_malloc(3 * n, sizeof *all);
    if (!all) return rs_fail_memory(err, rs_table_name(view->table), 0);
    plan p = {.fields = all, .n = n, .left = all + n, .idle = all + 2 * n};
    for (size_t i = 0; i < n; i++)
        rs_term_field_measure(&all[i], term, view, view->n_columns ? view->columns[i] : i);
    rs_status status = choose_form(term, view, &p, err);
    if (status == RS_OK) say_what_is_missing(term, &p);
    if (status == RS_OK && term->out->failed)
        status = rs_fail_memory(err, rs_table_name(view->table), 0);
    rs_free(all);
    return status;
}
