/* table.c: tables of typed columns, each column one array. */
#include "report/table.h"

#include <math.h>
#include <string.h>

typedef union cells {
    void *any;
    const char **text;
    int64_t *integer; /* also booleans */
    double *real;
    rs_list *vectors;
} cells;

struct rs_table {
    rs_strings *strings;
    const char *name, *title, *about, *first;
    rs_column *columns;
    cells *cells;
    size_t n_columns, n_rows, capacity;
    size_t few;   /* see rs_table_show_few */
    bool lead;    /* see rs_table_lead */
    bool entries; /* see rs_table_as_entries */
    bool misused; /* see rs_table_check */
    size_t misused_column;
};

void rs_table_as_entries(rs_table *table)
{
    table->entries = true;
}

bool rs_table_is_entries(const rs_table *table)
{
    return table->entries;
}

static const size_t cell_size[] = {
    [RS_COLUMN_TEXT] = sizeof(const char *), [RS_COLUMN_INT] = sizeof(int64_t),
    [RS_COLUMN_REAL] = sizeof(double),       [RS_COLUMN_BOOL] = sizeof(int64_t),
    [RS_COLUMN_VECTOR] = sizeof(rs_list),
};

const char *rs_strings_intern(rs_strings *strings, const char *text)
{
    size_t length = strlen(text);
    const char *known = (const char *)(intptr_t)rs_strmap_get(&strings->map, text, length, 0);
    if (known) return known;
    bool existed;
    char *copy = rs_arena_strndup(strings->arena, text, length);
    if (!copy || !rs_strmap_insert(&strings->map, copy, length, (intptr_t)copy, &existed))
        return NULL;
    return copy;
}

rs_table *rs_table_new(rs_strings *strings, const char *name, const char *title, const char *about,
                       const rs_column *columns, size_t n_columns)
{
    rs_table *table = rs_calloc(1, sizeof *table);
    if (!table) return NULL;
    table->strings = strings;
    table->name = rs_strings_intern(strings, name);
    table->title = rs_strings_intern(strings, title ? title : name);
    table->about = rs_strings_intern(strings, about ? about : "");
    table->columns = rs_malloc(n_columns, sizeof *columns);
    table->cells = rs_calloc(n_columns, sizeof *table->cells);
    if (!table->name || !table->title || !table->about || !table->columns || !table->cells) {
        rs_table_free(table);
        return NULL;
    }
    if (n_columns) memcpy(table->columns, columns, n_columns * sizeof *columns);
    table->n_columns = n_columns;
    return table;
}

void rs_table_free(rs_table *table)
{
    if (!table) return;
    for (size_t c = 0; c < table->n_columns; c++)
        rs_free(table->cells[c].any);
    rs_free(table->cells);
    rs_free(table->columns);
    rs_free(table);
}

rs_status rs_table_check(const rs_table *table, rs_error *err)
{
    if (!table->misused) return RS_OK;
    return rs_fail(err, RS_E_INTERNAL, table->name, "please report this",
                   "column %zu of %zu was set with another type or outside of the table",
                   table->misused_column, table->n_columns);
}

/* ---- filling ---- */

static bool grow(rs_table *table)
{
    size_t capacity = 16;
    if (table->capacity && !rs_size_mul(table->capacity, 2, &capacity)) return false;
    for (size_t c = 0; c < table->n_columns; c++) {
        void *grown = rs_realloc(table->cells[c].any, capacity, cell_size[table->columns[c].type]);
        if (!grown) return false; /* columns grown so far are merely longer than needed */
        table->cells[c].any = grown;
    }
    table->capacity = capacity;
    return true;
}

rs_status rs_table_add_row(rs_table *table, size_t *row, rs_error *err)
{
    if (table->n_rows == table->capacity && !grow(table))
        return rs_fail_memory(err, table->name, 0);
    size_t r = table->n_rows++;
    for (size_t c = 0; c < table->n_columns; c++) {
        switch (table->columns[c].type) {
        case RS_COLUMN_TEXT:
            table->cells[c].text[r] = NULL;
            break;
        case RS_COLUMN_INT:
        case RS_COLUMN_BOOL:
            table->cells[c].integer[r] = RS_NULL_INT;
            break;
        case RS_COLUMN_REAL:
            table->cells[c].real[r] = NAN;
            break;
        case RS_COLUMN_VECTOR:
            table->cells[c].vectors[r] = (rs_list){0};
            break;
        }
    }
    *row = r;
    return RS_OK;
}

/* Whether a cell of this type may be set there; remembers when not. */
static bool may_set(rs_table *table, size_t row, size_t column, rs_column_type type)
{
    if (row < table->n_rows && column < table->n_columns && table->columns[column].type == type)
        return true;
    table->misused = true;
    table->misused_column = column;
    return false;
}

rs_status rs_table_set_text(rs_table *table, size_t row, size_t column, const char *text,
                            rs_error *err)
{
    if (!may_set(table, row, column, RS_COLUMN_TEXT)) return rs_table_check(table, err);
    const char *copy = text ? rs_strings_intern(table->strings, text) : NULL;
    if (text && !copy) return rs_fail_memory(err, table->name, strlen(text));
    table->cells[column].text[row] = copy;
    return RS_OK;
}

void rs_table_set_int(rs_table *table, size_t row, size_t column, int64_t value)
{
    if (may_set(table, row, column, RS_COLUMN_INT)) table->cells[column].integer[row] = value;
}

void rs_table_set_bool(rs_table *table, size_t row, size_t column, bool value)
{
    if (may_set(table, row, column, RS_COLUMN_BOOL)) table->cells[column].integer[row] = value;
}

void rs_table_set_real(rs_table *table, size_t row, size_t column, double value)
{
    if (may_set(table, row, column, RS_COLUMN_REAL))
        table->cells[column].real[row] = isfinite(value) ? value : NAN;
}

rs_status rs_table_set_vector(rs_table *table, size_t row, size_t column, const double *values,
                              size_t n, rs_error *err)
{
    if (!may_set(table, row, column, RS_COLUMN_VECTOR)) return rs_table_check(table, err);
    double *copy = rs_arena_alloc(table->strings->arena, n, sizeof *copy);
    if (!copy) return rs_fail_memory(err, table->name, n * sizeof *copy);
    if (n) memcpy(copy, values, n * sizeof *copy);
    table->cells[column].vectors[row] = (rs_list){copy, n};
    return RS_OK;
}

/* ---- reading ---- */

const char *rs_table_name(const rs_table *table)
{
    return table->name;
}

const char *rs_table_title(const rs_table *table)
{
    return table->title;
}

const char *rs_table_about(const rs_table *table)
{
    return table->about;
}

const char *rs_table_first(const rs_table *table)
{
    return table->first;
}

void rs_table_show_first(rs_table *table, const char *columns)
{
    table->first = columns;
}

size_t rs_table_few(const rs_table *table)
{
    return table->few;
}

void rs_table_show_few(rs_table *table, size_t most)
{
    table->few = most;
}

void rs_table_lead(rs_table *table)
{
    table->lead = true;
}

bool rs_table_is_lead(const rs_table *table)
{
    return table->lead;
}

size_t rs_table_rows(const rs_table *table)
{
    return table->n_rows;
}

size_t rs_table_columns(const rs_table *table)
{
    return table->n_columns;
}

const rs_column *rs_table_column(const rs_table *table, size_t column)
{
    return column < table->n_columns ? &table->columns[column] : NULL;
}

int rs_table_find_column(const rs_table *table, const char *name)
{
    for (size_t c = 0; c < table->n_columns; c++)
        if (strcmp(table->columns[c].name, name) == 0) return (int)c;
    return -1;
}

static bool has(const rs_table *table, size_t row, size_t column, rs_column_type type)
{
    return row < table->n_rows && column < table->n_columns && table->columns[column].type == type;
}

const char *rs_table_text(const rs_table *table, size_t row, size_t column)
{
    return has(table, row, column, RS_COLUMN_TEXT) ? table->cells[column].text[row] : NULL;
}

int64_t rs_table_int(const rs_table *table, size_t row, size_t column)
{
    if (has(table, row, column, RS_COLUMN_INT) || has(table, row, column, RS_COLUMN_BOOL))
        return table->cells[column].integer[row];
    return RS_NULL_INT;
}

const void *rs_table_cells(const rs_table *table, size_t column)
{
    return column < table->n_columns ? table->cells[column].any : NULL;
}

double rs_table_real(const rs_table *table, size_t row, size_t column)
{
    return has(table, row, column, RS_COLUMN_REAL) ? table->cells[column].real[row] : NAN;
}

const double *rs_table_vector(const rs_table *table, size_t row, size_t column, size_t *n)
{
    *n = 0;
    if (!has(table, row, column, RS_COLUMN_VECTOR)) return NULL;
    *n = table->cells[column].vectors[row].n;
    return table->cells[column].vectors[row].values;
}

bool rs_table_is_null(const rs_table *table, size_t row, size_t column)
{
    size_t n;
    switch (table->columns[column].type) {
    case RS_COLUMN_TEXT:
        return !rs_table_text(table, row, column);
    case RS_COLUMN_INT:
    case RS_COLUMN_BOOL:
        return rs_table_int(table, row, column) == RS_NULL_INT;
    case RS_COLUMN_REAL:
        return isnan(rs_table_real(table, row, column));
    case RS_COLUMN_VECTOR:
        return !rs_table_vector(table, row, column, &n);
    }
    return true;
}
