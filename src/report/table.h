/* table.h: how result.c makes and frees tables; readers and fillers use result.h. */
#ifndef RS_REPORT_TABLE_H
#define RS_REPORT_TABLE_H

#include "report/result.h"

/* A store of texts that occur again and again (layer kinds, file names), each kept once. */
typedef struct rs_strings {
    rs_arena *arena;
    rs_strmap map; /* from a text to its address in the arena */
} rs_strings;

/* The stored copy of a text; NULL when out of memory. */
const char *rs_strings_intern(rs_strings *strings, const char *text);

/* Makes a table whose texts and vectors live in `strings`, which outlives it. NULL when out of
 * memory. */
rs_table *rs_table_new(rs_strings *strings, const char *name, const char *title, const char *about,
                       const rs_column *columns, size_t n_columns);
void rs_table_free(rs_table *table);

/* Fails with RS_E_INTERNAL where a cell was set with a type, row or column that the table does not
 * have, a mistake in the program that filled it: writers refuse such a table. */
rs_status rs_table_check(const rs_table *table, rs_error *err);

/* True when the cell holds no value. */
bool rs_table_is_null(const rs_table *table, size_t row, size_t column);

#endif
