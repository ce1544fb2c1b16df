/* table.h: what result.c needs to make and free tables; readers and fillers use result.h. */
#ifndef RS_REPORT_TABLE_H
#define RS_REPORT_TABLE_H

#include "report/result.h"

/* Texts that occur again and again (layer kinds, file names) are stored once. */
typedef struct rs_strings {
    rs_arena *arena;
    rs_strmap map; /* text -> its address in the arena */
} rs_strings;

/* The stored copy; NULL when out of memory. */
const char *rs_strings_intern(rs_strings *strings, const char *text);

/* NULL when out of memory. Strings and vectors live in `strings`, which outlives the table. */
rs_table *rs_table_new(rs_strings *strings, const char *name, const char *title, const char *about,
                       const rs_column *columns, size_t n_columns);
void rs_table_free(rs_table *table);

/* A cell was set with a type, row or column that the table does not have: a mistake in the program
 * that filled it. Writers refuse such a table (RS_E_INTERNAL) rather than print a wrong one. */
rs_status rs_table_check(const rs_table *table, rs_error *err);

/* True when the cell holds no value. */
bool rs_table_is_null(const rs_table *table, size_t row, size_t column);

#endif
