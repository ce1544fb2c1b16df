/* grid_table.c: a grid's table and figure. */
#include "predict/grid_table.h"

#include <math.h>
#include <string.h>

#define GRID(...) RS_COLUMN(rs_grid_row, __VA_ARGS__)
static const rs_column grid_columns[] = {
    GRID(verdict, "verdict", NULL, NULL, "of networks that were drawn", NULL),
    GRID(verdict_theory, "verdict_theory", NULL, NULL, "by theory", "predicted"),
    GRID(apart, "log10_one_minus_rho", "log (1 − ρ)", "decades", "behind the last layer", NULL),
    GRID(apart_theory, "log10_one_minus_rho_theory", "log (1 − ρ), theory", "decades",
         "behind the last layer", "predicted"),
    GRID(growth, "log10_growth", "growth", "decades", "log₁₀ ‖X^L‖²/‖X⁰‖²", NULL),
    GRID(growth_theory, "log10_growth_theory", "growth, theory", "decades", "log₁₀ ‖X^L‖²/‖X⁰‖²",
         "predicted"),
    GRID(first, "ratio_gQ_gV_first", "gQ/gV, first layer", NULL, "of layer 0", NULL),
    GRID(last, "ratio_gQ_gV_last", "gQ/gV, last layer", NULL, "of the last layer", NULL),
    GRID(first_theory, "ratio_gQ_gV_first_theory", "gQ/gV, first layer, theory", NULL, "of layer 0",
         "predicted"),
    GRID(last_theory, "ratio_gQ_gV_last_theory", "gQ/gV, last layer, theory", NULL,
         "of the last layer", "predicted"),
    GRID(at_floor, "at_floor", NULL, NULL,
         "rounding of float64 hides 1 − ρ of networks that were drawn", NULL),
    GRID(why, "why", NULL, NULL, "why a cell has no numbers", NULL),
    {.name = "place",
     RS_CELL(rs_grid_row, places[0]),
     .formula = "of the first field's value, from 0"},
    {.name = "place_2", RS_CELL(rs_grid_row, places[1]), .formula = "of the second field's value"},
};
const rs_table_kind rs_predict_grid_kind = {"predict", "grid", {RS_PART(grid_columns)}};
enum { GRID_COLUMNS = sizeof grid_columns / sizeof *grid_columns };

/* ---- rows ---- */

void rs_grid_row_clear(rs_grid_row *row, const rs_grid *grid, const int64_t at[RS_GRID_AXES])
{
    rs_columns_clear(grid_columns, GRID_COLUMNS, row);
    for (int a = 0; a < RS_GRID_AXES; a++) {
        row->values[a] = a < grid->n_axes ? grid->axes[a].values[at[a]] : NAN;
        row->places[a] = a < grid->n_axes ? at[a] : -1;
    }
}

static double ratio_of(const rs_forecast *f, int32_t layer)
{
    return rs_from_decades(rs_forecast_ratio(f, layer > 0 ? layer : 0));
}

void rs_grid_row_theory(rs_grid_row *row, const rs_forecast *theory)
{
    row->verdict_theory = rs_predict_verdict_code(theory->found.verdict);
    row->apart_theory = theory->rows[theory->n_layers].apart;
    row->growth_theory = rs_forecast_growth(theory);
    row->first_theory = ratio_of(theory, 0);
    row->last_theory = ratio_of(theory, theory->n_layers - 1);
}

void rs_grid_row_drawn(rs_grid_row *row, const rs_forecast *measured)
{
    row->verdict = rs_predict_verdict_code(measured->found.verdict);
    row->at_floor = measured->lost_from > 0;
    row->apart = measured->rows[measured->n_layers].apart;
    row->growth = rs_forecast_growth(measured);
    row->first = ratio_of(measured, 0);
    row->last = ratio_of(measured, measured->n_layers - 1);
}

/* ---- the table ---- */

static rs_status add_table(rs_table **out, rs_column columns[RS_GRID_AXES + GRID_COLUMNS],
                           size_t *n, rs_result *result, const rs_grid *grid, rs_error *err)
{
    *n = 0;
    for (int a = 0; a < grid->n_axes; a++) {
        const char *name = rs_arena_strdup(rs_result_arena(result), grid->axes[a].field);
        if (!name) return rs_fail_memory(err, "a grid", 1);
        columns[(*n)++] =
            (rs_column){.name = name,
                        .type = RS_COLUMN_REAL,
                        .member = RS_MEMBER_REAL,
                        .at = offsetof(rs_grid_row, values) + (size_t)a * sizeof(double),
                        .formula = "field of the architecture"};
    }
    for (size_t i = 0; i < GRID_COLUMNS; i++)
        columns[(*n)++] = grid_columns[i];
    RS_TRY(rs_result_add_table(result, "grid", "Grid",
                               "One row a cell; theory, and networks drawn with the same random "
                               "numbers in every cell.",
                               columns, *n, out, err));
    rs_table_show_few(*out, 40);
    return RS_OK;
}

/* ---- the figure ---- */

/* As long as the result. */
static rs_status keep_values(const double **out, rs_result *result, const rs_grid_axis *axis,
                             rs_error *err)
{
    size_t n = (size_t)axis->n;
    double *values = rs_arena_alloc(rs_result_arena(result), n, sizeof *values);
    if (!values) return rs_fail_memory(err, "a grid", n * sizeof *values);
    memcpy(values, axis->values, n * sizeof *values);
    *out = values;
    return RS_OK;
}

static rs_status add_figure(rs_result *result, const rs_grid *grid, bool drawn, rs_error *err)
{
    static const rs_figure_field measures[] = {
        {"log10_one_minus_rho", "log10 (1 − ρ)"},
        {"log10_one_minus_rho_theory", "log10 (1 − ρ), theory"},
        {"log10_growth", "growth of ‖X‖², decades"},
        {"log10_growth_theory", "growth of ‖X‖², decades, theory"}};
    static const char *const places[] = {"place", "place_2"};
    const char *first = rs_arena_strdup(rs_result_arena(result), grid->axes[0].field);
    if (!first) return rs_fail_memory(err, "a grid", 1);
    if (grid->n_axes == 2) {
        const double *values[RS_GRID_AXES];
        const char *second = rs_arena_strdup(rs_result_arena(result), grid->axes[1].field);
        if (!second) return rs_fail_memory(err, "a grid", 1);
        for (int a = 0; a < RS_GRID_AXES; a++)
            RS_TRY(keep_values(&values[a], result, &grid->axes[a], err));
        const rs_heatmap map = {.table = "grid",
                                .x = {"place", first},
                                .y = {"place_2", second},
                                .x_values = values[0],
                                .y_values = values[1],
                                .measures = drawn ? measures : measures + 1,
                                .n_measures = drawn ? 4 : 1,
                                .keys = {places, 2},
                                .n_x = (size_t)grid->axes[0].n,
                                .n_y = (size_t)grid->axes[1].n,
                                .border = "verdict_theory",
                                .border_label =
                                    "A line parts cells of which theory's verdicts differ."};
        return rs_result_add_figure(result, "grid", "Phase diagram", NULL, rs_figure_heatmap(&map),
                                    err);
    }
    rs_lines lines = {.table = "grid",
                      .x = {first, first},
                      .y = {"log10_one_minus_rho_theory", "log10 (1 − ρ)"},
                      .keys = {places, 1}};
    if (drawn) {
        lines.first = "theory";
        lines.more[0] = (rs_figure_curve){.field = "log10_one_minus_rho", .title = "drawn"};
    }
    return rs_result_add_figure(result, "grid", "1 − ρ over the grid", NULL,
                                rs_figure_lines(&lines), err);
}

/* ---- both ---- */

rs_status rs_grid_add(rs_result *result, const rs_grid *grid, const rs_grid_row *rows, int64_t n,
                      bool drawn, rs_error *err)
{
    rs_column columns[RS_GRID_AXES + GRID_COLUMNS];
    rs_table *table;
    size_t n_columns;
    RS_TRY(add_table(&table, columns, &n_columns, result, grid, err));
    for (int64_t i = 0; i < n; i++)
        RS_TRY(rs_table_append(table, &rows[i], err));
    return add_figure(result, grid, drawn, err);
}
