/* terminal.h: the parts of the terminal writer: safe text, wrapping, tables, heat strips. */
#ifndef RS_REPORT_TERMINAL_H
#define RS_REPORT_TERMINAL_H

#include "report/result.h"

/* A terminal that text is written for. */
typedef struct rs_term {
    rs_buffer *out;
    int width; /* columns of the widest line */
    bool color, unicode;
} rs_term;

/* How text stands out. */
typedef enum rs_style { RS_PLAIN, RS_BOLD, RS_DIM, RS_RED, RS_YELLOW, RS_BLUE } rs_style;

/* Switches a style on (RS_PLAIN: off); writes nothing without colour. */
void rs_term_style(const rs_term *term, rs_style style);
/* Appends the text so that a terminal cannot act on it: control characters, bidirectional
 * overrides and bytes that are not UTF-8 are replaced; without Unicode only ASCII is left. */
void rs_term_clean(const rs_term *term, rs_buffer *clean, const char *text);
/* Writes text broken into lines: begins at `column` of the present line, goes on at `indent`, ends
 * with a newline. Words longer than a line are cut. */
void rs_term_wrap(const rs_term *term, const char *text, int column, int indent);
void rs_term_spaces(const rs_term *term, int n);
/* Writes cleaned text in exactly `width` columns: padded, or shortened in the middle. */
void rs_term_field(const rs_term *term, const char *clean, int width, bool right);

/* Appends a cell as people read it: cleaned, numbers with 4 significant digits. */
void rs_term_cell(const rs_term *term, rs_buffer *text, const rs_table *table, size_t row,
                  size_t column);
/* Writes a whole table, folded into blocks that repeat its key columns. */
rs_status rs_term_table(const rs_term *term, const rs_table *table, rs_error *err);
/* Writes a table's rows as the entries of a dictionary (rs_table_as_entries). `said` stands above
 * them: what it holds is not said again. */
rs_status rs_term_entries(const rs_term *term, const rs_table *table, const char *said,
                          rs_error *err);
/* Writes one strip of characters for each kind of product of table `heads`; nothing when the table
 * has no such columns. */
rs_status rs_term_strips(const rs_term *term, const rs_table *heads, rs_error *err);

#endif
