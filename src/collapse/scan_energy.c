/* scan_energy.c: table `energy` (--energy): how far each product can be factorised, and what that
 * saves. */
#include "collapse/scan.h"

#include <math.h>

static const rs_column columns[] = {
    {.name = "stack", .type = RS_COLUMN_TEXT},
    {.name = "attention", .type = RS_COLUMN_TEXT},
    {.name = "layer", .type = RS_COLUMN_INT},
    {.name = "head", .type = RS_COLUMN_INT},
    {.name = "product", .type = RS_COLUMN_TEXT},
    {.name = "energy", .type = RS_COLUMN_REAL, .formula = "fraction of Σσ² to keep"},
    {.name = "rank", .type = RS_COLUMN_INT, .formula = "least k with that fraction"},
    {.name = "relative_error",
     .type = RS_COLUMN_REAL,
     .formula = "‖ABᵀ − (ABᵀ)_k‖_F / ‖ABᵀ‖_F at that k"},
    {.name = "parameters",
     .type = RS_COLUMN_INT,
     .formula = "(rows + cols)·inner: the head's own weights in this product"},
    {.name = "parameters_saved",
     .type = RS_COLUMN_INT,
     .formula = "(rows + cols)·(inner − k): what a rank-k factorisation of the product drops; "
                "where several query heads share "
                "a key or value, that side can only be dropped for all of them"},
};

static double error_at(const rs_head *head, int64_t k)
{
    double tail = 0, all = 0;
    for (int64_t i = head->k; i-- > 0;) {
        double t = head->sigma[i] / head->sigma[0];
        if (i >= k) tail += t * t;
        all += t * t;
    }
    return sqrt(tail / all);
}

static rs_status add_row(rs_table *table, const rs_head *head, double energy, rs_error *err)
{
    const rs_product *p = head->product;
    int64_t k = rs_energy_rank(head->sigma, head->k, energy), side = head->rows + head->cols;
    size_t row;
    RS_TRY(rs_scan_add_row(table, &row, p, p->head, err));
    rs_table_set_real(table, row, 5, energy);
    rs_table_set_int(table, row, 6, k);
    if (head->k > 0 && head->sigma[0] > 0) rs_table_set_real(table, row, 7, error_at(head, k));
    rs_table_set_int(table, row, 8, side * head->inner);
    rs_table_set_int(table, row, 9, side * (head->inner - k));
    return RS_OK;
}

rs_status rs_scan_energy(rs_result *result, const rs_heads *heads, const rs_scan_options *options,
                         rs_error *err)
{
    if (options->n_energies == 0) return RS_OK;
    rs_table *table;
    RS_TRY(rs_result_add_table(result, "energy", "Factorisation",
                               "Rank and parameters saved at each energy of --energy", columns,
                               sizeof columns / sizeof *columns, &table, err));
    for (size_t i = 0; i < heads->n; i++)
        for (size_t e = 0; e < options->n_energies && heads->items[i].sigma; e++)
            RS_TRY(add_row(table, &heads->items[i], options->energies[e], err));
    return RS_OK;
}
