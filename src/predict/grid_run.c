/* grid_run.c: the cells of a grid, by theory and drawn. */
#include "predict/grid_table.h"

#include "base/memory.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* Cells that are drawn together (rs_trials_run_cells); trials of a cell unless the user says how many. */
enum { TOGETHER = 128, CELL_TRIALS = 16, MOST_CELLS = 100000 };
static const double most_operations = 1e14;

typedef struct cell {
    int64_t at[RS_GRID_AXES];
    rs_predict_variant *asked; /* by theory; its design's .network NULL: it makes no architecture */
    rs_forecast measured;
    bool drawn;
} cell;

/* All that cells are made of. */
typedef struct work {
    const rs_grid *grid;
    const rs_predict_run *run;
    rs_result *result;
    int32_t trials;
    int64_t n, inner; /* cells, and those of one value of the first field */
    /* room for the cells that are run next to each other */
    cell cells[TOGETHER];
    rs_predict_variant asked[TOGETHER];
} work;

/* ---- order ----
 *
 * Networks that differ in depth alone share their states, so that the cells of all depths are run next to
 * each other, whichever field the table has first. */

static bool by_columns(const work *w)
{
    return w->grid->n_axes == 2 && strcmp(w->grid->axes[0].field, "depth") == 0;
}

/* Where the i-th cell that is run stands in the table. */
static int64_t row_of(const work *w, int64_t i)
{
    int64_t outer = w->n / w->inner;
    return by_columns(w) ? i % outer * w->inner + i / outer : i;
}

/* Cells of one stretch: whole lines of them, where they fit. */
static int64_t stretch_of(const work *w)
{
    int64_t line = by_columns(w) ? w->n / w->inner : w->inner;
    return line > TOGETHER ? TOGETHER : TOGETHER / line * line;
}

/* ---- theory ---- */

/* Writes the architecture of cells[at], which stands at `row` of the table. */
static rs_status write_cell(work *w, int64_t at, int64_t row, rs_error *err)
{
    rs_predict_field fields[RS_GRID_AXES];
    cell *c = &w->cells[at];
    *c = (cell){.at = {row / w->inner, row % w->inner}, .asked = &w->asked[at]};
    *c->asked = (rs_predict_variant){0};
    for (int a = 0; a < w->grid->n_axes; a++)
        fields[a] = (rs_predict_field){w->grid->axes[a].field, w->grid->axes[a].values[c->at[a]]};
    c->asked->json = rs_predict_edit(w->run, fields, (size_t)w->grid->n_axes, err);
    return c->asked->json ? RS_OK : err->status;
}

static void close_cells(work *w, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        rs_predict_variant_close(w->cells[i].asked);
        rs_forecast_free(&w->cells[i].measured);
    }
}

/* ---- drawing ---- */

static bool same_input(const cell *a, const cell *b)
{
    return a->asked->design.input.n == b->asked->design.input.n &&
           a->asked->design.input.rho == b->asked->design.input.rho &&
           a->asked->design.input.norm2 == b->asked->design.input.norm2 &&
           a->asked->design.network->d_model == b->asked->design.network->d_model;
}

static rs_status take(cell *c, rs_trials *trials, const rs_predict_run *run, rs_error *err)
{
    RS_TRY(rs_design_leave_below(trials, &c->asked->design, err));
    RS_TRY(rs_forecast_trials(&c->measured, trials, &run->settings, err));
    c->drawn = true;
    return RS_OK;
}

/* Whether kernels run it beside others: what they keep of larger networks does not fit the caches, and
 * in the end not the memory. */
static bool is_small(const cell *c)
{
    const double most = 2e9; /* operations of a trial */
    return rs_trials_cost(c->asked->design.network, c->asked->design.input.n) <= most &&
           !rs_trials_not_batched(c->asked->design.network, c->asked->design.input.n);
}

/* Cells of one input that kernels run side by side. */
static rs_status draw_together(cell **cells, int32_t n, const rs_predict_run *run, int32_t trials,
                               rs_error *err)
{
    const rs_network *networks[TOGETHER];
    rs_trials *out[TOGETHER] = {NULL};
    for (int32_t i = 0; i < n; i++)
        networks[i] = cells[i]->asked->design.network;
    const rs_trials_request request = {.input = cells[0]->asked->design.input,
                                       .trials = trials,
                                       .after_final_norm = run->options->after_final_norm,
                                       .ends = true, /* all that the table has */
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
    RS_TRY(rs_design_trials(&out, &c->asked->design, trials, run->options->after_final_norm,
                            run->context, err));
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
        if (!first->asked->design.network || first->drawn) continue;
        if (!is_small(first)) {
            RS_TRY(draw_alone(first, run, trials, err));
            continue;
        }
        for (int64_t j = i; j < n; j++) {
            cell *c = &cells[j];
            if (c->asked->design.network && !c->drawn && is_small(c) && same_input(first, c))
                group[count++] = c;
        }
        RS_TRY(draw_together(group, count, run, trials, err));
    }
    return RS_OK;
}

/* ---- all ---- */

/* Operations of a cell, its trials and its theory; 0: it makes no architecture. */
static rs_status cost_of(double *out, work *w, int64_t i, rs_error *err)
{
    rs_error why;
    rs_design *d = &w->asked[0].design;
    RS_TRY(write_cell(w, 0, i, err));
    json_t *json = w->asked[0].json;
    w->asked[0].json = NULL;
    rs_status status = rs_design_of(d, w->run->design, json, &why);
    *out = 0;
    if (status == RS_OK)
        *out = w->trials * rs_trials_cost(d->network, d->input.n) +
               rs_theory_need_of(rs_theory_model_network(d->theory)).operations;
    close_cells(w, 1);
    if (status != RS_E_NO_MEMORY && status != RS_E_INTERRUPTED) return RS_OK;
    *err = why;
    return status;
}

/* By the corners: what a trial takes rises or falls with a field, and the largest corner need not make
 * an architecture. */
static rs_status check_cost(work *w, rs_error *err)
{
    const int64_t corners[] = {w->n - 1, w->inner - 1, w->n - w->inner, 0};
    double most = 0, one = 0;
    for (int k = 0; k < 4 && w->n <= MOST_CELLS; k++) {
        RS_TRY(cost_of(&one, w, corners[k], err));
        most = fmax(most, one);
    }
    double all = (double)w->n * most;
    if (w->n > MOST_CELLS)
        return rs_fail(err, RS_E_BAD_OPTION, "grid",
                       "give each field a number of values (LOW:HIGH:N)",
                       "%" PRId64 " cells of %d trials are too many; at most %d cells are run",
                       w->n, (int)w->trials, MOST_CELLS);
    if (all <= most_operations) return RS_OK;
    return rs_fail(err, RS_E_BAD_OPTION, "grid",
                   "give each field a number of values (LOW:HIGH:N), or fewer --trials",
                   "%" PRId64 " cells of %d trials would take up to %.2g operations; at most %.0g "
                   "are run",
                   w->n, (int)w->trials, all, most_operations);
}

static rs_status fill_row(rs_grid_row *row, const cell *c, const work *w, rs_error *err)
{
    rs_grid_row_clear(row, w->grid, c->at);
    if (c->drawn) rs_grid_row_drawn(row, &c->measured);
    if (c->asked->made) {
        rs_grid_row_theory(row, &c->asked->forecast);
        return RS_OK;
    }
    row->why = rs_arena_strdup(rs_result_arena(w->result), c->asked->why.what);
    return row->why ? RS_OK : rs_fail_memory(err, "a grid", 1);
}

/* The cells from `first` on, as they are run; rows: of the table. */
static rs_status run_stretch(work *w, rs_grid_row *rows, int64_t first, int64_t count,
                             rs_error *err)
{
    int64_t written = 0;
    rs_status status = rs_check_cancelled(w->run->context, err);
    for (; written < count && status == RS_OK; written++)
        status = write_cell(w, written, row_of(w, first + written), err);
    if (status == RS_OK) status = rs_predict_try_all(w->asked, (size_t)count, w->run, err);
    if (status == RS_OK && w->trials > 0)
        status = draw_cells(w->cells, count, w->run, w->trials, err);
    for (int64_t i = 0; i < count && status == RS_OK; i++)
        status = fill_row(&rows[row_of(w, first + i)], &w->cells[i], w, err);
    close_cells(w, written);
    return status;
}

static rs_status run_grid(work *w, rs_error *err)
{
    rs_grid_row *rows = rs_calloc((size_t)w->n, sizeof *rows);
    if (!rows) return rs_fail_memory(err, "a grid", (size_t)w->n * sizeof *rows);
    rs_status status = RS_OK;
    int64_t stretch = stretch_of(w);
    for (int64_t first = 0; first < w->n && status == RS_OK; first += stretch) {
        int64_t count = w->n - first < stretch ? w->n - first : stretch;
        status = run_stretch(w, rows, first, count, err);
        rs_progress(w->run->context, "grid", (uint64_t)(first + count), (uint64_t)w->n, "cells");
    }
    if (status == RS_OK) status = rs_grid_add(w->result, w->grid, rows, w->n, w->trials > 0, err);
    rs_free(rows);
    return status;
}

/* Calls `what` with a grid laid out. */
static rs_status with_work(rs_result *result, const rs_predict_run *run, const rs_grid *grid,
                           rs_status (*what)(work *w, rs_error *err), rs_error *err)
{
    int64_t wanted = run->options->trials;
    work *w = rs_calloc(1, sizeof *w);
    if (!w) return rs_fail_memory(err, "a grid", sizeof *w);
    w->grid = grid;
    w->run = run;
    w->result = result;
    w->trials = wanted < 0 ? CELL_TRIALS : (int32_t)wanted;
    w->inner = grid->n_axes == 2 ? grid->axes[1].n : 1;
    w->n = grid->axes[0].n * w->inner;
    rs_status status = what(w, err);
    rs_free(w);
    return status;
}

static rs_status check_fields(const rs_grid *grid, rs_error *err)
{
    for (int a = 0; a < grid->n_axes; a++) {
        const char *field = grid->axes[a].field;
        char nearest[80], hint[120];
        if (rs_arch_has_field(nearest, sizeof nearest, field)) continue;
        snprintf(hint, sizeof hint, "did you mean \"%s\"?", nearest);
        return rs_fail(err, RS_E_BAD_OPTION, "grid", hint,
                       "\"%.64s\" is no field of an architecture file", field);
    }
    return RS_OK;
}

rs_status rs_predict_grid_check(const rs_predict_run *run, const char *text, rs_error *err)
{
    rs_grid grid;
    if (!rs_predict_can_change(run))
        return rs_fail(err, RS_E_UNSUPPORTED, "grid", "give an architecture file or --preset NAME",
                       "%s", rs_predict_fixed_because(run));
    RS_TRY(rs_grid_parse(&grid, text, err));
    rs_status status = check_fields(&grid, err);
    if (status == RS_OK) status = with_work(NULL, run, &grid, check_cost, err);
    rs_grid_free(&grid);
    return status;
}

rs_status rs_predict_grid(rs_result *result, const rs_predict_run *run, const char *text,
                          rs_error *err)
{
    rs_grid grid;
    RS_TRY(rs_grid_parse(&grid, text, err));
    rs_status status = with_work(result, run, &grid, run_grid, err);
    rs_grid_free(&grid);
    return status;
}
