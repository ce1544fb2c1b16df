/* grid_run.c: the cells of a grid, by theory and drawn. */
#include "predict/grid.h"

#include "base/memory.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* Cells that are drawn together; trials of a cell unless the user says how many. */
enum { TOGETHER = 64, CELL_TRIALS = 16, MOST_CELLS = 100000 };
static const double most_operations = 1e14;

typedef struct cell {
    int64_t at[RS_GRID_AXES];
    rs_design design; /* .network NULL: it makes no architecture */
    rs_forecast theory, measured;
    bool drawn;
    char why[160];
} cell;

typedef struct grid_row {
    double values[RS_GRID_AXES];
    int64_t places[RS_GRID_AXES];
    const char *verdict, *verdict_theory;
    double apart, apart_theory, growth, growth_theory;
    double first, last, first_theory, last_theory;
    const char *why;
} grid_row;

#define GRID(...) RS_COLUMN(grid_row, __VA_ARGS__)
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
    GRID(why, "why", NULL, NULL, "why a cell has no numbers", NULL),
    {.name = "place",
     RS_CELL(grid_row, places[0]),
     .formula = "of the first field's value, from 0"},
    {.name = "place_2", RS_CELL(grid_row, places[1]), .formula = "of the second field's value"},
};
const rs_table_kind rs_predict_grid_kind = {"predict", "grid", {RS_PART(grid_columns)}};
enum { GRID_COLUMNS = sizeof grid_columns / sizeof *grid_columns };

/* ---- one cell ---- */

static rs_status open_cell(cell *c, const rs_grid *grid, const rs_predict_run *run, rs_error *err)
{
    rs_predict_field fields[RS_GRID_AXES];
    rs_error why;
    bool made;
    for (int a = 0; a < grid->n_axes; a++)
        fields[a] = (rs_predict_field){grid->axes[a].field, grid->axes[a].values[c->at[a]]};
    json_t *json = rs_predict_edit(run, fields, (size_t)grid->n_axes, err);
    if (!json) return err->status;
    RS_TRY(rs_predict_try(&c->design, &c->theory, &made, &why, run, json, err));
    if (!made) snprintf(c->why, sizeof c->why, "%.150s", why.what);
    return RS_OK;
}

static void close_cell(cell *c)
{
    rs_forecast_free(&c->theory);
    rs_forecast_free(&c->measured);
    rs_design_close(&c->design);
}

/* ---- drawing ---- */

static bool same_input(const cell *a, const cell *b)
{
    return a->design.input.n == b->design.input.n && a->design.input.rho == b->design.input.rho &&
           a->design.input.norm2 == b->design.input.norm2 &&
           a->design.network->d_model == b->design.network->d_model;
}

static rs_status take(cell *c, const rs_trials *trials, const rs_predict_run *run, rs_error *err)
{
    RS_TRY(rs_forecast_trials(&c->measured, trials, &run->settings, err));
    c->drawn = true;
    return RS_OK;
}

/* Whether kernels run it beside others: what they keep of larger networks does not fit the caches, and
 * in the end not the memory. */
static bool is_small(const cell *c)
{
    const double most = 2e9; /* operations of a trial */
    return rs_trials_cost(c->design.network, c->design.input.n) <= most &&
           !rs_trials_not_batched(c->design.network, c->design.input.n);
}

/* Cells of one input that kernels run side by side. */
static rs_status draw_together(cell **cells, int32_t n, const rs_predict_run *run, int32_t trials,
                               rs_error *err)
{
    const rs_network *networks[TOGETHER];
    rs_trials *out[TOGETHER] = {NULL};
    for (int32_t i = 0; i < n; i++)
        networks[i] = cells[i]->design.network;
    const rs_trials_request request = {.input = cells[0]->design.input,
                                       .trials = trials,
                                       .after_final_norm = run->options->after_final_norm,
                                       .laws = true};
    RS_TRY(rs_trials_run_cells(out, networks, n, &request, run->context, err));
    rs_status status = RS_OK;
    for (int32_t i = 0; i < n; i++) {
        if (status == RS_OK) status = take(cells[i], out[i], run, err);
        rs_trials_free(out[i]);
    }
    return status;
}

static rs_status draw_alone(cell *c, const rs_predict_run *run, int32_t trials, rs_error *err)
{
    rs_trials *out;
    RS_TRY(rs_design_trials(&out, &c->design, trials, run->options->after_final_norm, run->context,
                            err));
    rs_status status = take(c, out, run, err);
    rs_trials_free(out);
    return status;
}

static rs_status draw_cells(cell *cells, int64_t n, const rs_predict_run *run, int32_t trials,
                            rs_error *err)
{
    for (int64_t i = 0; i < n; i++) {
        cell *first = &cells[i], *group[TOGETHER];
        int32_t count = 0;
        if (!first->design.network || first->drawn) continue;
        if (!is_small(first)) {
            RS_TRY(draw_alone(first, run, trials, err));
            continue;
        }
        for (int64_t j = i; j < n; j++) {
            cell *c = &cells[j];
            if (c->design.network && !c->drawn && is_small(c) && same_input(first, c))
                group[count++] = c;
        }
        RS_TRY(draw_together(group, count, run, trials, err));
    }
    return RS_OK;
}

/* ---- the table ---- */

static rs_status add_row(rs_table *table, const rs_column *columns, size_t n, const cell *c,
                         const rs_grid *grid, rs_error *err)
{
    grid_row row;
    rs_columns_clear(columns, n, &row);
    for (int a = 0; a < RS_GRID_AXES; a++) {
        row.values[a] = a < grid->n_axes ? grid->axes[a].values[c->at[a]] : NAN;
        row.places[a] = a < grid->n_axes ? c->at[a] : -1;
    }
    row.why = c->why[0] ? c->why : NULL;
    const rs_forecast *t = &c->theory, *m = &c->measured;
    if (c->design.network) {
        row.verdict_theory = rs_predict_verdict_code(t->found.verdict);
        row.apart_theory = t->rows[t->n_layers].apart;
        row.growth_theory = rs_forecast_growth(t);
        row.first_theory = rs_from_decades(rs_forecast_ratio(t, 0));
        row.last_theory =
            rs_from_decades(rs_forecast_ratio(t, t->n_layers > 0 ? t->n_layers - 1 : 0));
    }
    if (c->drawn) {
        row.verdict = rs_predict_verdict_code(m->found.verdict);
        row.apart = m->rows[m->n_layers].apart;
        row.growth = rs_forecast_growth(m);
        row.first = rs_from_decades(rs_forecast_ratio(m, 0));
        row.last = rs_from_decades(rs_forecast_ratio(m, m->n_layers > 0 ? m->n_layers - 1 : 0));
    }
    return rs_table_append(table, &row, err);
}

static rs_status add_table(rs_table **out, rs_column columns[RS_GRID_AXES + GRID_COLUMNS],
                           size_t *n, rs_result *result, const rs_grid *grid, rs_error *err)
{
    *n = 0;
    for (int a = 0; a < grid->n_axes; a++) {
        const char *name = rs_arena_strdup(rs_result_arena(result), grid->axes[a].field);
        if (!name) return rs_fail_memory(err, "a grid", 1);
        columns[(*n)++] = (rs_column){.name = name,
                                      .type = RS_COLUMN_REAL,
                                      .member = RS_MEMBER_REAL,
                                      .at = offsetof(grid_row, values) + (size_t)a * sizeof(double),
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

/* ---- all ---- */

static int64_t cells_of(const rs_grid *grid)
{
    return grid->axes[0].n * (grid->n_axes == 2 ? grid->axes[1].n : 1);
}

static void place_cell(cell *c, const rs_grid *grid, int64_t i)
{
    int64_t inner = grid->n_axes == 2 ? grid->axes[1].n : 1;
    *c = (cell){.at = {i / inner, i % inner}};
}

/* Operations of a cell's trial; 0: it makes no architecture. */
static rs_status cost_of(double *out, const rs_grid *grid, const rs_predict_run *run, int64_t i,
                         rs_error *err)
{
    cell c;
    place_cell(&c, grid, i);
    RS_TRY(open_cell(&c, grid, run, err));
    *out = c.design.network ? rs_trials_cost(c.design.network, c.design.input.n) : 0;
    close_cell(&c);
    return RS_OK;
}

/* By the corners: what a trial takes rises or falls with a field, and the largest corner need not make an
 * architecture. */
static rs_status check_cost(const rs_grid *grid, const rs_predict_run *run, int32_t trials,
                            rs_error *err)
{
    int64_t n = cells_of(grid), inner = grid->n_axes == 2 ? grid->axes[1].n : 1;
    const int64_t corners[] = {n - 1, inner - 1, n - inner, 0};
    double most = 0, one = 0;
    for (int k = 0; k < 4 && trials > 0; k++) {
        RS_TRY(cost_of(&one, grid, run, corners[k], err));
        most = fmax(most, one);
    }
    double all = (double)n * (double)trials * most;
    if (n <= MOST_CELLS && all <= most_operations) return RS_OK;
    return rs_fail(err, RS_E_BAD_OPTION, "grid",
                   "give each field a number of values (LOW:HIGH:N), or fewer --trials",
                   "%" PRId64 " cells of %d trials would take up to %.2g operations; at most %d "
                   "cells and %.0g operations are run",
                   n, (int)trials, all, MOST_CELLS, most_operations);
}

static int32_t trials_of(const rs_predict_run *run)
{
    int64_t wanted = run->options->trials;
    return wanted < 0 ? CELL_TRIALS : (int32_t)wanted;
}

rs_status rs_predict_grid_check(const rs_predict_run *run, const char *text, rs_error *err)
{
    rs_grid grid;
    if (!rs_predict_can_change(run))
        return rs_fail(err, RS_E_UNSUPPORTED, "grid", "give an architecture file or --preset NAME",
                       "%s", rs_predict_fixed_because(run));
    RS_TRY(rs_grid_parse(&grid, text, err));
    rs_status status = check_cost(&grid, run, trials_of(run), err);
    rs_grid_free(&grid);
    return status;
}

static rs_status run_stretch(cell *cells, int64_t count, rs_table *table, const rs_column *columns,
                             size_t n_columns, const rs_grid *grid, const rs_predict_run *run,
                             int32_t trials, rs_error *err)
{
    rs_status status = RS_OK;
    for (int64_t i = 0; i < count && status == RS_OK; i++)
        status = open_cell(&cells[i], grid, run, err);
    if (status == RS_OK && trials > 0) status = draw_cells(cells, count, run, trials, err);
    for (int64_t i = 0; i < count; i++) {
        if (status == RS_OK) status = add_row(table, columns, n_columns, &cells[i], grid, err);
        close_cell(&cells[i]);
    }
    return status;
}

static rs_status run_grid(rs_result *result, const rs_grid *grid, const rs_predict_run *run,
                          int32_t trials, rs_error *err)
{
    rs_column columns[RS_GRID_AXES + GRID_COLUMNS];
    rs_table *table;
    size_t n_columns;
    int64_t n = cells_of(grid);
    RS_TRY(add_table(&table, columns, &n_columns, result, grid, err));
    cell *cells = rs_calloc(TOGETHER, sizeof *cells);
    if (!cells) return rs_fail_memory(err, "a grid", TOGETHER * sizeof *cells);
    rs_status status = RS_OK;
    for (int64_t first = 0; first < n && status == RS_OK; first += TOGETHER) {
        int64_t count = n - first < TOGETHER ? n - first : TOGETHER;
        for (int64_t i = 0; i < count; i++)
            place_cell(&cells[i], grid, first + i);
        status = rs_check_cancelled(run->context, err);
        if (status == RS_OK)
            status = run_stretch(cells, count, table, columns, n_columns, grid, run, trials, err);
        rs_progress(run->context, "grid", (uint64_t)(first + count), (uint64_t)n, "cells");
    }
    rs_free(cells);
    return status == RS_OK ? add_figure(result, grid, trials > 0, err) : status;
}

rs_status rs_predict_grid(rs_result *result, const rs_predict_run *run, const char *text,
                          rs_error *err)
{
    rs_grid grid;
    RS_TRY(rs_grid_parse(&grid, text, err));
    rs_status status = run_grid(result, &grid, run, trials_of(run), err);
    rs_grid_free(&grid);
    return status;
}
