/* terminal_fields.h: the columns of a view as fields of lines: how wide, and worth showing or not. */
#ifndef RS_REPORT_TERMINAL_FIELDS_H
#define RS_REPORT_TERMINAL_FIELDS_H

#include "report/terminal.h"

enum { RS_NAME_LINES = 4, RS_FIELD_GAP = 2 };

/* A column of a view. */
typedef struct rs_term_field {
    size_t column;
    const char *name;
    int cells;  /* the widest cell */
    int word;   /* the longest word of a cell: narrower it cannot be */
    int width;  /* as it is shown, its name included */
    bool right; /* numbers */
    bool prose; /* texts with blanks: they may be broken there */
    bool empty; /* no row has a value */
    bool same;  /* all rows show the same */
    struct {
        const char *at;
        int length;
    } lines[RS_NAME_LINES]; /* of the name */
    int n_lines;
} rs_term_field;

/* Measures a column of the view; the name is not laid out yet. */
void rs_term_field_measure(rs_term_field *field, const rs_term *term, const rs_view *view,
                           size_t column);
/* Lays out the names of n fields, whole or broken behind underscores; gives their width with the
 * gaps. */
int rs_fields_name(rs_term_field *fields, size_t n, bool broken);
int rs_fields_width(const rs_term_field *fields, size_t n);
/* Narrows texts with blanks until all fits into `limit`; false where it cannot. */
bool rs_fields_narrow(rs_term_field *fields, size_t n, int limit);

/* Writes the names, and the rows, a cell of several words on several lines. */
void rs_fields_header(const rs_term *term, const rs_term_field *fields, size_t n, int indent);
rs_status rs_fields_rows(const rs_term *term, const rs_view *view, const rs_term_field *fields,
                         size_t n, rs_error *err);
/* Writes a block a row: "name  value" lines. */
rs_status rs_fields_records(const rs_term *term, const rs_view *view, const rs_term_field *fields,
                            size_t n, rs_error *err);
/* Writes a row as a line of its short cells and, below, its texts. */
rs_status rs_fields_entries(const rs_term *term, const rs_view *view, const rs_term_field *fields,
                            size_t n, rs_error *err);

#endif
