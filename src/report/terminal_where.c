/* terminal_where.c: the conditions of --where: "layer=12,product=qk,effective_rank<8", all of which
 * a row has to meet. */
#include "report/table.h"
#include "report/terminal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct rs_condition condition;

/* The longer ones first, as they are looked for. */
enum { AT_MOST, AT_LEAST, IS_NOT, IS, BELOW, ABOVE, RELATIONS };
static const char *const relations[RELATIONS] = {"<=", ">=", "!=", "=", "<", ">"};

/* ---- reading ---- */

static bool copy_part(char out[RS_MOST_NAME], const char *text, size_t length)
{
    if (length >= RS_MOST_NAME) return false;
    memcpy(out, text, length);
    out[length] = 0;
    return true;
}

static bool read_condition(condition *c, const char *text, size_t length)
{
    size_t name = strcspn(text, "<>=!");
    if (name == 0 || name >= length) return false;
    c->relation = 0;
    while (c->relation < RELATIONS &&
           strncmp(text + name, relations[c->relation], strlen(relations[c->relation])) != 0)
        c->relation++;
    if (c->relation == RELATIONS) return false;
    size_t value = name + strlen(relations[c->relation]);
    return value < length && copy_part(c->name, text, name) &&
           copy_part(c->value, text + value, length - value);
}

rs_status rs_where_read(rs_shape *shape, const char *text, rs_error *err)
{
    for (const char *p = text; p;) {
        size_t length = strcspn(p, ",");
        if (shape->n_conditions == RS_MOST_CONDITIONS)
            return rs_fail(err, RS_E_BAD_OPTION, "where", NULL, "more than %d conditions",
                           RS_MOST_CONDITIONS);
        if (length == 0)
            return rs_fail(err, RS_E_BAD_OPTION, "where",
                           "write conditions with one comma between them: layer=12,product=qk",
                           "'%.80s' has an empty condition in it", text);
        if (!read_condition(&shape->conditions[shape->n_conditions++], p, length))
            return rs_fail(err, RS_E_BAD_OPTION, "where",
                           "write COLUMN=VALUE, or != < > <= >=, separated by commas: "
                           "layer=12,product=qk",
                           "'%.*s' is no condition", (int)(length < 80 ? length : 80), p);
        if (shape->conditions[shape->n_conditions - 1].value[0] == '=')
            return rs_fail(err, RS_E_BAD_OPTION, "where", "write one '=', as in layer=12",
                           "'%.*s' has two signs", (int)(length < 80 ? length : 80), p);
        p = p[length] ? p + length + 1 : NULL;
    }
    return RS_OK;
}

/* ---- comparing ---- */

static bool compares(int relation, int order)
{
    switch (relation) {
    case AT_MOST:
        return order <= 0;
    case AT_LEAST:
        return order >= 0;
    case IS_NOT:
        return order != 0;
    case IS:
        return order == 0;
    case BELOW:
        return order < 0;
    default:
        return order > 0;
    }
}

static bool number_of(double *number, const condition *c)
{
    char *end;
    *number = strtod(c->value, &end);
    return end != c->value && *end == 0 && !isnan(*number);
}

static int truth_of(const char *value)
{
    static const char *const words[] = {"no", "yes", "false", "true", "0", "1"};
    for (int i = 0; i < 6; i++)
        if (strcmp(value, words[i]) == 0) return i & 1;
    return -1;
}

/* "-" is how a cell without a value is shown. */
static bool wants_null(const condition *c)
{
    return strcmp(c->value, "-") == 0 && (c->relation == IS || c->relation == IS_NOT);
}

static bool holds(const condition *c, const rs_table *t, size_t row, size_t column)
{
    bool null = rs_table_is_null(t, row, column);
    if (wants_null(c)) return null == (c->relation == IS);
    if (null) return c->relation == IS_NOT;
    double wanted = 0, is = 0;
    switch (rs_table_column(t, column)->type) {
    case RS_COLUMN_TEXT:
        return compares(c->relation, strcmp(rs_table_text(t, row, column), c->value));
    case RS_COLUMN_BOOL:
        return compares(c->relation, rs_table_int(t, row, column) != truth_of(c->value));
    case RS_COLUMN_INT:
        is = (double)rs_table_int(t, row, column);
        break;
    case RS_COLUMN_REAL:
        is = rs_table_real(t, row, column);
        break;
    case RS_COLUMN_VECTOR:
        return false;
    }
    number_of(&wanted, c);
    return compares(c->relation, (is > wanted) - (is < wanted));
}

bool rs_where_holds(const rs_shape *shape, const rs_table *table, size_t row)
{
    for (size_t i = 0; i < shape->n_conditions; i++) {
        int column = rs_table_find_column(table, shape->conditions[i].name);
        if (column >= 0 && !holds(&shape->conditions[i], table, row, (size_t)column)) return false;
    }
    return true;
}

/* ---- refusing ---- */

static rs_status refuse(const condition *c, const char *hint, const char *what, rs_error *err)
{
    return rs_fail(err, RS_E_BAD_OPTION, "where", hint, "%s%s%s: %s", c->name,
                   relations[c->relation], c->value, what);
}

static rs_status check_type(const condition *c, rs_column_type type, rs_error *err)
{
    double number;
    bool same = c->relation == IS || c->relation == IS_NOT;
    if (wants_null(c)) return RS_OK;
    if (type == RS_COLUMN_VECTOR)
        return refuse(c, "'-' alone can be asked for: a cell without a value",
                      "the column holds lists of numbers", err);
    if (!same && type == RS_COLUMN_TEXT)
        return refuse(c, "compare it by = or !=", "the column holds texts", err);
    if (type == RS_COLUMN_BOOL && (!same || truth_of(c->value) < 0))
        return refuse(c, "compare it by = or != with yes or no", "the column holds yes and no",
                      err);
    if ((type == RS_COLUMN_INT || type == RS_COLUMN_REAL) && !number_of(&number, c))
        return refuse(c, "compare it with a number, or with '-' for no value",
                      "the column holds numbers", err);
    return RS_OK;
}

/* The text of the column nearest to the one asked for, over the tables so far; *least is its
 * distance, 0 where it is there. */
static void look_for(const condition *c, const rs_table *t, size_t column, const char **nearest,
                     int *least)
{
    for (size_t r = 0; r < rs_table_rows(t) && *least > 0; r++) {
        const char *text = rs_table_text(t, r, column);
        if (!text || text == *nearest) continue;
        int distance = strcmp(text, c->value) == 0 ? 0 : rs_edit_distance(text, c->value) + 1;
        if (distance < *least) *least = distance, *nearest = text;
    }
}

static rs_status check_condition(const condition *c, const rs_table *const *tables, size_t n,
                                 rs_error *err)
{
    const char *nearest = NULL;
    int least = 1000;
    bool text = false;
    for (size_t i = 0; i < n; i++) {
        int column = rs_table_find_column(tables[i], c->name);
        if (column < 0) continue;
        rs_column_type type = rs_table_column(tables[i], (size_t)column)->type;
        RS_TRY(check_type(c, type, err));
        text = type == RS_COLUMN_TEXT;
        if (text) look_for(c, tables[i], (size_t)column, &nearest, &least);
    }
    if (!text || !nearest || least == 0 || wants_null(c)) return RS_OK;
    char hint[RS_MOST_NAME + 64];
    snprintf(hint, sizeof hint, "the nearest value is '%.90s'", nearest);
    return refuse(c, hint, "no row has that value", err);
}

rs_status rs_where_check(const rs_shape *shape, const rs_table *const *tables, size_t n,
                         rs_error *err)
{
    for (size_t i = 0; i < shape->n_conditions; i++)
        RS_TRY(check_condition(&shape->conditions[i], tables, n, err));
    return RS_OK;
}
