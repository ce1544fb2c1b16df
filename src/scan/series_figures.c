/* series_figures.c: rank against step, by layer; for a long series a table of fewer points. */
#include "scan/series_parts.h"

#include "report/figures.h"

#define COUNT(list) (sizeof(list) / sizeof *(list))

enum { MOST_POINTS = 240 };

/* A row of table series_curves. */
typedef struct curve_cells {
    rs_scan_keys keys;
    const char *path;
    int64_t step, position;
    double ratio;
} curve_cells;

static const rs_column curve_columns[] = {
    {.name = "path", RS_CELL(curve_cells, path), .formula = "the checkpoint"},
    {.name = "step", RS_CELL(curve_cells, step), .formula = "the number that its name ends in"},
    {.name = "stack", RS_CELL(curve_cells, keys.stack)},
    {.name = "attention", RS_CELL(curve_cells, keys.attention)},
    {.name = "layer", RS_CELL(curve_cells, keys.layer), .formula = "from 0"},
    {.name = "product", RS_CELL(curve_cells, keys.product)},
    {.name = "position", RS_CELL(curve_cells, position), .formula = "place in the series, from 1"},
    {.name = "effective_rank_ratio",
     RS_CELL(curve_cells, ratio),
     .formula = "mean over heads of effective_rank / effective_rank_null"},
};
const rs_table_kind rs_series_curves_kind = {"scan", "series_curves", {RS_PART(curve_columns)}};

static rs_status add_points(rs_table *table, const rs_series *s, const rs_series_cell *c,
                            rs_error *err)
{
    for (size_t i = 0; i < MOST_POINTS; i++) {
        size_t at = i * (c->n - 1) / (MOST_POINTS - 1);
        if (i > 0 && at == (i - 1) * (c->n - 1) / (MOST_POINTS - 1)) continue;
        const rs_series_entry *entry = s->read[c->at[at]];
        const curve_cells row = {.keys = rs_scan_keys_of(&c->place, -1),
                                 .path = entry->path,
                                 .step = entry->step,
                                 .position = (int64_t)c->at[at] + 1,
                                 .ratio = c->ratios[at]};
        RS_TRY(rs_table_append(table, &row, err));
    }
    return RS_OK;
}

static rs_status curve_table(rs_series *s, rs_error *err)
{
    rs_table *table;
    RS_TRY(rs_result_add_table(s->result, "series_curves", "Points of the figure",
                               "Table series at no more than 240 checkpoints", curve_columns,
                               COUNT(curve_columns), &table, err));
    for (size_t i = 0; i < s->n_cells; i++)
        if (s->cells[i].n > 0) RS_TRY(add_points(table, s, &s->cells[i], err));
    return RS_OK;
}

/* A terminal draws the means of each kind of product that there is. */
static void show_curve(rs_series *s, bool steps)
{
    static const rs_curve by_step = {.table = "checkpoints",
                                     .title = "effective rank, of chance, by step",
                                     .x = "step",
                                     .x_title = "step",
                                     .y = {{.column = "qk", .label = "QK"},
                                           {.column = "ov", .label = "OV"},
                                           {.column = "cb", .label = "C-B"},
                                           {.column = "io", .label = "in-out"}}},
                          by_place = {.table = "checkpoints",
                                      .title = "effective rank, of chance, by checkpoint",
                                      .x = "position",
                                      .x_title = "place in the series",
                                      .y = {{.column = "qk", .label = "QK"},
                                            {.column = "ov", .label = "OV"},
                                            {.column = "cb", .label = "C-B"},
                                            {.column = "io", .label = "in-out"}}};
    rs_result_show_curve(s->result, steps ? &by_step : &by_place);
}

/* Every checkpoint that was read has a step of its own. */
static bool all_have_steps(const rs_series *s)
{
    bool all = s->list.steps;
    for (size_t i = 0; i < s->n_read; i++)
        all = all && s->read[i]->step >= 0;
    return all;
}

rs_status rs_series_figures(rs_series *s, rs_error *err)
{
    static const char *const facets[] = {"product", "stack", "attention"};
    static const char *const keys[] = {"path", "stack", "attention", "layer", "product"};
    bool steps = all_have_steps(s), many = s->n_read > MOST_POINTS, any = false;
    for (size_t i = 0; i < s->n_cells; i++)
        any |= s->cells[i].n > 0;
    if (!any) return RS_OK;
    if (many) RS_TRY(curve_table(s, err));
    const rs_lines lines = {.table = many ? "series_curves" : "series",
                            .x = {steps ? "step" : "position", steps ? "step" : "checkpoint"},
                            .y = {"effective_rank_ratio", "effective rank, of chance"},
                            .colour = {"layer", "layer"},
                            .facets = {facets, COUNT(facets)},
                            .keys = {keys, COUNT(keys)},
                            .x_whole = true,
                            .y_rule = 1,
                            .y_rule_label = "chance"};
    show_curve(s, steps);
    return rs_result_add_figure(
        s->result, "series", "Effective rank, checkpoint by checkpoint",
        "Mean over a layer's heads, as a part of what random weights of the "
        "same shape have: one line a layer.",
        rs_figure_lines(&lines), err);
}
