/* terminal.h: the parts of the terminal writer: safe text, wrapping, what of a table is shown and how,
 * heat strips. */
#ifndef RS_REPORT_TERMINAL_H
#define RS_REPORT_TERMINAL_H

#include "report/result.h"

/* A terminal that text is written for. */
typedef struct rs_term {
    rs_buffer *out;
    int width;  /* columns of the widest line */
    int height; /* lines of a screen */
    int room;   /* lines that all down to the last table may take unasked; 0: as many as it needs */
    bool color, unicode;
    bool wide, verbose; /* as in rs_terminal */
    const char *said;   /* the verdict, which stands above: entries do not say it again */
} rs_term;

/* How text stands out. */
typedef enum rs_style { RS_PLAIN, RS_BOLD, RS_DIM, RS_RED, RS_YELLOW, RS_BLUE } rs_style;

/* Switches a style on (RS_PLAIN: off); writes nothing without colour. */
void rs_term_style(const rs_term *term, rs_style style);
/* Appends the text so that a terminal cannot act on it: control characters, bidirectional
 * overrides and bytes that are not UTF-8 are replaced; without Unicode only ASCII is left. */
void rs_term_clean(const rs_term *term, rs_buffer *clean, const char *text);
/* Writes text broken into lines at its blanks: begins at `column` of the present line, goes on at
 * `indent`, ends with a newline. A word is never broken: one that is longer than a line stands out
 * of it, so that it can be searched and copied. */
void rs_term_wrap(const rs_term *term, const char *text, int column, int indent);
void rs_term_spaces(const rs_term *term, int n);
/* Writes cleaned text of `length` bytes, filled up with blanks to `width` columns. */
void rs_term_pad(const rs_term *term, const char *clean, size_t length, int width, bool right);
/* How many bytes of cleaned text stand on a line of `width` columns: whole words, at least one;
 * *next (may be NULL) is where the next line begins. */
size_t rs_term_line(const char *clean, size_t length, int width, size_t *next);
/* Ends a line without blanks at its end. */
void rs_term_end_line(const rs_term *term);

/* ---- what of a table is shown (terminal_view.c) ---- */

/* The rows of a table that are shown, in their order, and the columns that were asked for. */
typedef struct rs_view {
    const rs_table *table;
    size_t *rows, n_rows, n_left; /* [n_rows] shown, then n_left that have no room */
    size_t *columns, n_columns;   /* 0: whoever writes it chooses */
    size_t most_lines;            /* of a text of an entry; 0: all */
} rs_view;

enum { RS_MOST_CONDITIONS = 16, RS_MOST_NAME = 96 };

/* What --columns, --sort, --top and --where ask of tables; texts are borrowed from rs_terminal. */
typedef struct rs_shape {
    const char *columns;
    char sort[RS_MOST_NAME];
    bool ascending;
    int64_t top; /* 0: all */
    struct rs_condition {
        char name[RS_MOST_NAME], value[RS_MOST_NAME];
        int relation;
    } conditions[RS_MOST_CONDITIONS];
    size_t n_conditions;
} rs_shape;

/* Reads what the terminal asks. RS_E_BAD_OPTION names the option. */
rs_status rs_shape_read(rs_shape *shape, const rs_terminal *terminal, rs_error *err);
/* Refuses (RS_E_BAD_OPTION, with the nearest name) a column that none of the n tables has, a
 * comparison that its type has not, and a text that stands in none of its rows. */
rs_status rs_shape_check(const rs_shape *shape, const rs_result *result,
                         const rs_table *const *tables, size_t n, rs_error *err);
/* The view of one table; shape NULL: all of it. rs_view_free. */
rs_status rs_view_make(rs_view *view, const rs_table *table, const rs_shape *shape, rs_error *err);
void rs_view_free(rs_view *view);
/* terminal_where.c: the text of --where, and whether a row is what it says; a column that the table
 * has not says nothing. */
rs_status rs_where_read(rs_shape *shape, const char *text, rs_error *err);
rs_status rs_where_check(const rs_shape *shape, const rs_table *const *tables, size_t n,
                         rs_error *err);
bool rs_where_holds(const rs_shape *shape, const rs_table *table, size_t row);

/* ---- how it is shown ---- */

/* Appends a cell as people read it: cleaned, numbers with 4 significant digits (bounds rounded as
 * their column says). */
void rs_term_cell(const rs_term *term, rs_buffer *text, const rs_table *table, size_t row,
                  size_t column);
/* Writes a view as a table; where it is too wide, without its last columns (which are named), or as
 * a block a row. No line is one that another line's cells belong to. */
rs_status rs_term_table(const rs_term *term, const rs_view *view, rs_error *err);
/* terminal_claims.c: whether a table holds claims with verdicts, which are written as such: a mark, the
 * claim, measured against expected. */
bool rs_term_is_claims(const rs_table *table);
rs_status rs_term_claims(const rs_term *term, const rs_view *view, rs_error *err);
/* Moves the last n claims that hold behind all others of the view, where what has no room stands. */
void rs_term_claims_defer(rs_view *view, size_t n);
/* Writes a view's rows as the entries of a dictionary (rs_table_as_entries). */
rs_status rs_term_entries(const rs_term *term, const rs_view *view, rs_error *err);
/* Writes the curves, `rows` lines high beside their title and axis; nothing where there are no two
 * points. */
rs_status rs_term_curve(const rs_term *term, const rs_result *result, const rs_curve *curve,
                        int rows, rs_error *err);
/* Writes one strip of characters for each kind of product of table `heads`; nothing when the table
 * has no such columns. */
rs_status rs_term_strips(const rs_term *term, const rs_table *heads, rs_error *err);

#endif
