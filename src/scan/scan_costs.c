/*
 * scan_costs.c: table costs (--energy): heads by what they cost, the numbers that a head's product needs
 * at an energy. Query heads that share keys and values are one row, as in table energy.
 */
#include "base/memory.h"
#include "scan/scan_energy.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A row of table costs. */
typedef struct cost_cells {
    double energy;
    int64_t place;
    rs_scan_keys keys;
    int64_t query_heads, rank, parameters, cost;
    double share, error;
} cost_cells;

static const rs_column columns[] = {
    {.name = "energy", RS_CELL(cost_cells, energy), .formula = "fraction of Σσ² to keep"},
    {.name = "product", RS_CELL(cost_cells, keys.product), .formula = "qk, ov, cb, io"},
    {.name = "place",
     RS_CELL(cost_cells, place),
     .formula = "among the products of its kind at that energy, from 1: the dearest first"},
    {.name = "stack", RS_CELL(cost_cells, keys.stack)},
    {.name = "attention", RS_CELL(cost_cells, keys.attention)},
    {.name = "layer", RS_CELL(cost_cells, keys.layer)},
    {.name = "head",
     RS_CELL(cost_cells, keys.head),
     .formula = "the key/value head, whose query heads are taken together"},
    {.name = "query_heads", RS_CELL(cost_cells, query_heads), .formula = "so many of them"},
    {.name = "rank",
     RS_CELL(cost_cells, rank),
     .formula = "least k with that fraction: of ‖XM‖_F² where --text showed X, else of ‖M‖_F²"},
    {.name = "cost",
     RS_CELL(cost_cells, cost),
     .formula = "numbers that it needs: k·(rows + cols) where it may take the place of its factors "
                "and that is less, else parameters"},
    {.name = "parameters",
     RS_CELL(cost_cells, parameters),
     .formula = "numbers that are stored for it"},
    {.name = "share", RS_CELL(cost_cells, share), .formula = "cost / parameters"},
    {.name = "error",
     RS_CELL(cost_cells, error),
     .formula = "what is left out at that k, relative: weighted_error or relative_error of table "
                "energy"},
};
const rs_table_kind rs_scan_costs_kind = {"scan", "costs", {RS_PART(columns)}};

static cost_cells cells_of(const rs_replaceable *r, double energy)
{
    const rs_product *p = r->head->product;
    const rs_cut cut = rs_product_cut(r, energy, true);
    int64_t cost = cut.saved > 0 ? r->numbers - cut.saved : r->numbers;
    return (cost_cells){.energy = energy,
                        .keys = rs_scan_keys_of(p, p->kv_head),
                        .query_heads = r->head->stacked ? p->group_size : 1,
                        .rank = cut.rank,
                        .parameters = r->numbers,
                        .cost = cost,
                        .share = (double)cost / (double)r->numbers,
                        .error =
                            isnan(cut.error) ? 0 : cut.error}; /* of nothing is left out nothing */
}

/* By kind of product, then the dearest first: by the share, the rank, the error; last by place. */
static int compare(const void *left, const void *right)
{
    const cost_cells *a = left, *b = right;
    int kind = strcmp(a->keys.product, b->keys.product);
    const double differences[] = {a->share - b->share, (double)(a->rank - b->rank),
                                  a->error - b->error, (double)(b->keys.layer - a->keys.layer),
                                  (double)(b->keys.head - a->keys.head)};
    if (kind) return kind;
    for (size_t i = 0; i < sizeof differences / sizeof *differences; i++)
        if (differences[i] < 0 || differences[i] > 0) return differences[i] < 0 ? 1 : -1;
    return 0;
}

static rs_status add_energy(rs_table *table, cost_cells *rows, const rs_stored_matrices *all,
                            double energy, rs_error *err)
{
    for (size_t i = 0; i < all->n_products; i++)
        rows[i] = cells_of(&all->products[i], energy);
    qsort(rows, all->n_products, sizeof *rows, compare);
    int64_t place = 0;
    for (size_t i = 0; i < all->n_products; i++) {
        bool other = i == 0 || rows[i].keys.product != rows[i - 1].keys.product;
        rows[i].place = place = other ? 1 : place + 1;
        RS_TRY(rs_table_append(table, &rows[i], err));
    }
    return RS_OK;
}

rs_status rs_scan_costs(rs_result *result, const rs_stored_matrices *all,
                        const rs_scan_options *options, rs_error *err)
{
    rs_table *table;
    RS_TRY(
        rs_result_add_table(result, "costs", "What heads cost",
                            "Products by the numbers that each needs at each energy of --energy, "
                            "the dearest first",
                            columns, sizeof columns / sizeof *columns, &table, err));
    cost_cells *rows = rs_malloc(all->n_products + 1, sizeof *rows);
    if (!rows) return rs_fail_memory(err, "costs", all->n_products * sizeof *rows);
    rs_status status = RS_OK;
    for (size_t e = 0; e < options->n_energies && status == RS_OK; e++)
        status = add_energy(table, rows, all, options->energies[e], err);
    rs_free(rows);
    return status;
}
