/* beside.c: see beside.h. */
#include "report/beside.h"

#include "base/memory.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* What is put together. */
typedef struct beside {
    rs_result *result;
    rs_result **parts; /* [n] */
    const char *const *paths;
    size_t n;
} beside;

static const char PATH[] = "path";
enum { MOST_SHOWN = 8 }; /* rows of the summary in a terminal that was not asked for it */

/* ---- tables ---- */

static const rs_column path_column = {
    .name = PATH, .type = RS_COLUMN_TEXT, .formula = "the model, as it was given"};

static bool has_column(const rs_column *columns, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(columns[i].name, name) == 0) return true;
    return false;
}

/* `path`, then all columns that a table of that name has in any part. */
static rs_status columns_of(rs_column **out, size_t *n, const beside *b, const char *name,
                            rs_error *err)
{
    size_t most = 1;
    for (size_t p = 0; p < b->n; p++) {
        const rs_table *table = rs_result_table(b->parts[p], name);
        if (table) most += rs_table_columns(table);
    }
    rs_column *columns = rs_malloc(most, sizeof *columns);
    if (!columns) return rs_fail_memory(err, name, most * sizeof *columns);
    columns[0] = path_column;
    *n = 1;
    for (size_t p = 0; p < b->n; p++) {
        const rs_table *table = rs_result_table(b->parts[p], name);
        for (size_t c = 0; table && c < rs_table_columns(table); c++) {
            rs_column column = *rs_table_column(table, c);
            column.member = RS_MEMBER_NONE; /* rows come cell by cell */
            if (!has_column(columns, *n, column.name)) columns[(*n)++] = column;
        }
    }
    *out = columns;
    return RS_OK;
}

static rs_status copy_cell(rs_table *out, size_t row, size_t column, const rs_table *from,
                           size_t from_row, size_t from_column, rs_error *err)
{
    size_t n;
    const double *values;
    switch (rs_table_column(from, from_column)->type) {
    case RS_COLUMN_TEXT:
        return rs_table_set_text(out, row, column, rs_table_text(from, from_row, from_column), err);
    case RS_COLUMN_INT:
        rs_table_set_int(out, row, column, rs_table_int(from, from_row, from_column));
        return RS_OK;
    case RS_COLUMN_BOOL:
        if (rs_table_int(from, from_row, from_column) != RS_NULL_INT)
            rs_table_set_bool(out, row, column, rs_table_int(from, from_row, from_column) != 0);
        return RS_OK;
    case RS_COLUMN_REAL:
        rs_table_set_real(out, row, column, rs_table_real(from, from_row, from_column));
        return RS_OK;
    case RS_COLUMN_VECTOR:
        values = rs_table_vector(from, from_row, from_column, &n);
        return values ? rs_table_set_vector(out, row, column, values, n, err) : RS_OK;
    }
    return RS_OK;
}

static rs_status copy_rows(rs_table *out, const rs_table *from, const char *path, rs_error *err)
{
    for (size_t r = 0; r < rs_table_rows(from); r++) {
        size_t row;
        RS_TRY(rs_table_add_row(out, &row, err));
        RS_TRY(rs_table_set_text(out, row, 0, path, err));
        for (size_t c = 0; c < rs_table_columns(from); c++) {
            int at = rs_table_find_column(out, rs_table_column(from, c)->name);
            if (at > 0) RS_TRY(copy_cell(out, row, (size_t)at, from, r, c, err));
        }
    }
    return RS_OK;
}

static rs_status join_table(beside *b, const rs_table *first, rs_error *err)
{
    rs_column *columns = NULL;
    size_t n = 0;
    rs_table *out;
    const char *name = rs_table_name(first), *shown = rs_table_first(first);
    RS_TRY(columns_of(&columns, &n, b, name, err));
    rs_status status = rs_result_add_table(b->result, name, rs_table_title(first),
                                           rs_table_about(first), columns, n, &out, err);
    rs_free(columns);
    RS_TRY(status);
    if (shown) shown = rs_arena_printf(rs_result_arena(b->result), "path,%s", shown);
    if (rs_table_first(first) && !shown) return rs_fail_memory(err, name, 0);
    rs_table_show_first(out, shown);
    rs_table_show_few(out, strcmp(name, "summary") == 0 ? MOST_SHOWN : rs_table_few(first));
    if (rs_table_is_lead(first)) rs_table_lead(out);
    for (size_t p = 0; p < b->n; p++) {
        const rs_table *table = rs_result_table(b->parts[p], name);
        if (table) RS_TRY(copy_rows(out, table, b->paths[p], err));
    }
    return RS_OK;
}

static rs_status join_tables(beside *b, rs_error *err)
{
    for (size_t p = 0; p < b->n; p++)
        for (size_t t = 0; t < rs_result_table_count(b->parts[p]); t++) {
            const rs_table *table = rs_result_table_at(b->parts[p], t);
            if (!rs_result_table(b->result, rs_table_name(table)))
                RS_TRY(join_table(b, table, err));
        }
    return RS_OK;
}

/* ---- table models ---- */

/* A row of it. */
typedef struct model_cells {
    const char *path, *family, *dtype, *said, *severity, *answer;
    int64_t layers, d_model, heads, parameters;
    double value;
} model_cells;

const rs_column rs_beside_columns[RS_BESIDE_COLUMNS] = {
    {.name = PATH, RS_CELL(model_cells, path), .formula = "the model, as it was given"},
    {.name = "family", RS_CELL(model_cells, family)},
    {.name = "dtype", RS_CELL(model_cells, dtype), .formula = "type of most stored numbers"},
    {.name = "layers", RS_CELL(model_cells, layers)},
    {.name = "d_model", RS_CELL(model_cells, d_model)},
    {.name = "heads", RS_CELL(model_cells, heads)},
    {.name = "parameters", RS_CELL(model_cells, parameters)},
    {.name = "severity", RS_CELL(model_cells, severity), .formula = "of its verdict"},
    {.name = "verdict",
     RS_CELL(model_cells, said),
     .formula = "code of what is said of it by itself"},
    {.name = "value", RS_CELL(model_cells, value), .formula = "number of its verdict"},
    {.name = "answer", RS_CELL(model_cells, answer), .formula = "its verdict"},
};

static int64_t whole(const json_t *model, const char *key)
{
    const json_t *value = json_object_get(model, key);
    return json_is_integer(value) ? (int64_t)json_integer_value(value) : RS_NULL_INT;
}

static rs_status list_models(beside *b, rs_error *err)
{
    rs_table *table;
    RS_TRY(rs_result_add_table(b->result, "models", "Models",
                               "What stands side by side, and what is "
                               "said of each by itself",
                               rs_beside_columns, RS_BESIDE_COLUMNS, &table, err));
    rs_table_show_first(table, "path,family,layers,parameters,severity,verdict,value");
    for (size_t p = 0; p < b->n; p++) {
        const rs_verdict *v = rs_result_verdict(b->parts[p]);
        const json_t *model = json_object_get(rs_result_meta(b->parts[p]), "model");
        if (!v)
            return rs_fail(err, RS_E_INTERNAL, b->paths[p], "please report this",
                           "there is no verdict");
        const model_cells row = {.path = b->paths[p],
                                 .family = json_string_value(json_object_get(model, "family")),
                                 .dtype = json_string_value(json_object_get(model, "dtype")),
                                 .layers = whole(model, "layers"),
                                 .d_model = whole(model, "d_model"),
                                 .heads = whole(model, "heads"),
                                 .parameters = whole(model, "parameters"),
                                 .said = v->code,
                                 .severity = rs_severity_name((rs_severity)v->severity),
                                 .value = v->value,
                                 .answer = v->answer};
        RS_TRY(rs_table_append(table, &row, err));
    }
    return RS_OK;
}

/* Meta `models`: a model for each path; `runs`: what else is said of each. */
static rs_status set_meta(beside *b, rs_error *err)
{
    json_t *models = json_array(), *runs = json_array();
    for (size_t p = 0; p < b->n; p++) {
        json_t *rest = json_copy((json_t *)rs_result_meta(b->parts[p]));
        json_t *model = json_object(), *said = json_object_get(rest, "model");
        json_object_set_new(model, "path", json_string(b->paths[p]));
        if (json_is_object(said)) json_object_update(model, said);
        json_object_del(rest, "model");
        json_object_set_new(rest, "path", json_string(b->paths[p]));
        json_array_append_new(models, model);
        json_array_append_new(runs, rest);
    }
    rs_status status = rs_result_set_meta(b->result, "models", models, err);
    if (status == RS_OK) return rs_result_set_meta(b->result, "runs", runs, err);
    json_decref(runs);
    return status;
}

/* ---- figures ---- */

/* The names with `path` in front. */
static rs_status with_path(rs_figure_names *names, rs_arena *arena, rs_error *err)
{
    const char **more = rs_arena_alloc(arena, names->n + 1, sizeof *more);
    if (!more) return rs_fail_memory(err, "figures", (names->n + 1) * sizeof *more);
    more[0] = PATH;
    for (size_t i = 0; i < names->n; i++)
        more[i + 1] = names->names[i];
    *names = (rs_figure_names){more, names->n + 1};
    return RS_OK;
}

/* Whether the column of texts says the same in all rows. */
static bool says_one_thing(const rs_table *table, const char *column)
{
    int c = table ? rs_table_find_column(table, column) : -1;
    if (c < 0 || rs_table_column(table, (size_t)c)->type != RS_COLUMN_TEXT) return false;
    for (size_t r = 1; r < rs_table_rows(table); r++) {
        const char *a = rs_table_text(table, 0, (size_t)c), *b = rs_table_text(table, r, (size_t)c);
        if (!a || !b || strcmp(a, b) != 0) return false;
    }
    return true;
}

/* Lines that nothing else tells apart are told apart by model; else each model has its panels. */
static bool overlay(rs_lines *lines, const rs_result *result)
{
    bool free = !lines->colour.field ||
                says_one_thing(rs_result_table(result, lines->table), lines->colour.field);
    if (!free || lines->more[0].field) return false;
    lines->colour = (rs_figure_field){PATH, "model"};
    return true;
}

static rs_status spread(rs_plot *plot, const rs_result *result, rs_arena *arena, rs_error *err)
{
    if (plot->kind == RS_PLOT_LINES) {
        if (!overlay(&plot->of.lines, result))
            RS_TRY(with_path(&plot->of.lines.facets, arena, err));
        return with_path(&plot->of.lines.keys, arena, err);
    }
    if (plot->kind == RS_PLOT_HEATMAP) {
        RS_TRY(with_path(&plot->of.heatmap.facets, arena, err));
        return with_path(&plot->of.heatmap.keys, arena, err);
    }
    RS_TRY(with_path(&plot->of.scatter.facets, arena, err));
    return with_path(&plot->of.scatter.keys, arena, err);
}

static int find_figure(const rs_result *result, const char *name)
{
    for (size_t i = 0; i < rs_result_figure_count(result); i++)
        if (strcmp(rs_result_figure_name(result, i), name) == 0) return (int)i;
    return -1;
}

/* A panel is as large as the largest model's. */
static void widen(rs_heatmap *map, const beside *b, const char *name)
{
    for (size_t p = 0; p < b->n; p++) {
        int at = find_figure(b->parts[p], name);
        const rs_plot *plot = at < 0 ? NULL : rs_result_figure_plot(b->parts[p], (size_t)at);
        if (!plot || plot->kind != RS_PLOT_HEATMAP) continue;
        if (plot->of.heatmap.n_x > map->n_x) map->n_x = plot->of.heatmap.n_x;
        if (plot->of.heatmap.n_y > map->n_y) map->n_y = plot->of.heatmap.n_y;
    }
}

static rs_status join_figures(beside *b, rs_error *err)
{
    rs_arena *arena = rs_result_arena(b->result);
    for (size_t p = 0; p < b->n; p++)
        for (size_t i = 0; i < rs_result_figure_count(b->parts[p]); i++) {
            const char *name = rs_result_figure_name(b->parts[p], i);
            rs_plot plot = *rs_result_figure_plot(b->parts[p], i);
            if (plot.kind == RS_PLOT_EDGES || find_figure(b->result, name) >= 0) continue;
            RS_TRY(spread(&plot, b->result, arena, err));
            if (plot.kind == RS_PLOT_HEATMAP) widen(&plot.of.heatmap, b, name);
            RS_TRY(rs_result_add_figure(b->result, name, rs_result_figure_title(b->parts[p], i),
                                        rs_result_figure_about(b->parts[p], i), plot, err));
        }
    return RS_OK;
}

/* The terminal draws one curve a model, where each has one: models and lines at once are too much. */
static void join_curve(beside *b)
{
    const rs_curve *first = rs_result_curve(b->parts[0]);
    if (!first || first->y[1].column) return;
    rs_curve curve = *first;
    if (curve.series && !says_one_thing(rs_result_table(b->result, curve.table), curve.series))
        return;
    curve.series = PATH;
    rs_result_show_curve(b->result, &curve);
}

/* ---- findings and the verdict ---- */

static rs_status join_findings(beside *b, rs_error *err)
{
    enum { APART = 1 << 24 }; /* one thing of two models is two things */
    for (size_t p = 0; p < b->n; p++)
        for (size_t i = 0; i < rs_result_finding_count(b->parts[p]); i++) {
            rs_finding f = *rs_result_finding_at(b->parts[p], i);
            rs_buffer text = {0};
            rs_buffer_printf(&text, "%s: %s", b->paths[p], f.message);
            f.message = text.data;
            f.of = 0; /* how many there are is each model's own */
            if (f.thing) f.thing += (int64_t)p * APART;
            rs_status status = text.failed ? rs_fail_memory(err, "findings", 0)
                                           : rs_result_add_finding(b->result, &f, err);
            rs_buffer_free(&text);
            RS_TRY(status);
        }
    return RS_OK;
}

static rs_status set_verdict(beside *b, rs_error *err)
{
    size_t worst = 0, grave = 0;
    for (size_t p = 1; p < b->n; p++)
        if (rs_result_verdict(b->parts[p])->severity > rs_result_verdict(b->parts[worst])->severity)
            worst = p;
    rs_verdict v = *rs_result_verdict(b->parts[worst]);
    for (size_t p = 0; p < b->n; p++)
        grave += rs_result_verdict(b->parts[p])->severity == v.severity;
    rs_buffer text = {0};
    if (grave < b->n)
        rs_buffer_printf(&text, "Of %zu models %s stands worst: %s", b->n, b->paths[worst],
                         v.answer);
    else
        rs_buffer_printf(&text, "%zu models; the first, %s: %s", b->n, b->paths[worst], v.answer);
    v.answer = text.data;
    v.next = "--table models has the verdict of each";
    rs_status status =
        text.failed ? rs_fail_memory(err, "verdict", 0) : rs_result_set_verdict(b->result, &v, err);
    rs_buffer_free(&text);
    return status;
}

/* ---- all of it ---- */

static rs_status join(beside *b, rs_error *err)
{
    RS_TRY(list_models(b, err));
    RS_TRY(join_tables(b, err));
    RS_TRY(set_meta(b, err));
    RS_TRY(join_findings(b, err));
    RS_TRY(set_verdict(b, err));
    RS_TRY(join_figures(b, err));
    join_curve(b);
    rs_result_show(b->result, rs_result_shown(b->parts[0]));
    rs_result_show_more(b->result, "models");
    return RS_OK;
}

rs_status rs_results_beside(rs_result *result, rs_result **parts, const char *const *paths,
                            size_t n, rs_error *err)
{
    beside b = {result, parts, paths, n};
    rs_status status = join(&b, err);
    for (size_t p = 0; p < n; p++) {
        rs_status kept = rs_result_adopt(result, parts[p], status == RS_OK ? err : NULL);
        parts[p] = NULL;
        if (status == RS_OK) status = kept;
    }
    return status;
}
