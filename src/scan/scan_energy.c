/*
 * scan_energy.c: tables `energy` and `energy_totals` (--energy): how far the stored matrices and
 * the head products can be factorised, what may be replaced, and what that saves.
 *
 * A matrix can always be replaced by two factors of rank k. A product can take the place of its two
 * factors only where nothing else acts between them (scan_energy_feasible.c); query heads that
 * share a key/value head are one row, since they share what is replaced. Rows of one kind hold
 * every stored number once, so that no sum of them exceeds what is stored.
 */
#include "scan/scan_energy.h"
#include "scan/scan.h"

#include <math.h>

/* A row of table energy. */
typedef struct energy_cells {
    rs_scan_keys keys;
    const char *matrix, *reason;
    double energy, error;
    int64_t rank, parameters, saved;
    rs_truth feasible;
} energy_cells;

static const rs_column columns[] = {
    {.name = "stack", RS_CELL(energy_cells, keys.stack)},
    {.name = "attention", RS_CELL(energy_cells, keys.attention)},
    {.name = "layer", RS_CELL(energy_cells, keys.layer)},
    {.name = "head",
     RS_CELL(energy_cells, keys.head),
     .formula =
         "of a product: the key/value head, whose query heads are taken together; null for a "
         "whole matrix"},
    {.name = "product",
     RS_CELL(energy_cells, keys.product),
     .formula = "qk, ov, cb, io: the product in the place of its two factors; null for a matrix"},
    {.name = "matrix",
     RS_CELL(energy_cells, matrix),
     .formula =
         "W_Q, W_K, W_V, W_O, ...: a stored matrix by itself, all heads; null for a product"},
    {.name = "energy", RS_CELL(energy_cells, energy), .formula = "fraction of Σσ² to keep"},
    {.name = "rank", RS_CELL(energy_cells, rank), .formula = "least k with that fraction"},
    {.name = "relative_error",
     RS_CELL(energy_cells, error),
     .formula = "‖M − M_k‖_F / ‖M‖_F at that k, M the matrix or the product"},
    {.name = "parameters",
     RS_CELL(energy_cells, parameters),
     .formula =
         "stored numbers that would be replaced: of the matrix, or of the product's factors"},
    {.name = "parameters_saved",
     RS_CELL(energy_cells, saved),
     .formula = "max(0, parameters − k·(rows + cols)); 0 where it is not feasible, null where that "
                "is unknown"},
    {.name = "feasible",
     RS_CELL(energy_cells, feasible),
     .formula = "can be replaced without another forward pass: a matrix always, a product where "
                "nothing else acts between its factors; null: unknown"},
    {.name = "reason", RS_CELL(energy_cells, reason), .formula = "why it is feasible or not"},
};
const rs_table_kind rs_scan_energy_kind = {"scan", "energy", {RS_PART(columns)}};

/* A row of table energy_totals. */
typedef struct total_cells {
    const char *way;
    double energy, share;
    int64_t parameters, saved;
} total_cells;

static const rs_column total_columns[] = {
    {.name = "energy", RS_CELL(total_cells, energy), .formula = "fraction of Σσ² to keep"},
    {.name = "way",
     RS_CELL(total_cells, way),
     .formula =
         "matrices: each by itself; products: each feasible one in the place of its factors. "
         "One or the other: the two do not add up"},
    {.name = "parameters",
     RS_CELL(total_cells, parameters),
     .formula = "stored numbers of all matrices, each once"},
    {.name = "parameters_saved", RS_CELL(total_cells, saved), .formula = "sum over table energy"},
    {.name = "share", RS_CELL(total_cells, share), .formula = "parameters_saved / parameters"},
};
const rs_table_kind rs_scan_energy_totals_kind = {
    "scan", "energy_totals", {RS_PART(total_columns)}};

typedef struct sums {
    int64_t stored, by_matrices, by_products;
} sums;

/* What one row is about. */
typedef struct subject {
    const double *sigma;
    int64_t k, rows, cols, numbers;
    rs_feasible feasible;
    const char *reason;
} subject;

static double error_at(const subject *s, int64_t k)
{
    double tail = 0, all = 0;
    for (int64_t i = s->k; i-- > 0;) {
        double t = s->sigma[i] / s->sigma[0];
        if (i >= k) tail += t * t;
        all += t * t;
    }
    return sqrt(tail / all);
}

static rs_status add_row(rs_table *table, rs_scan_keys keys, const char *matrix, const subject *s,
                         double energy, int64_t *saved, rs_error *err)
{
    int64_t k = rs_energy_rank(s->sigma, s->k, energy), left = s->numbers - k * (s->rows + s->cols);
    bool yes = s->feasible == RS_FEASIBLE_YES, known = s->feasible != RS_FEASIBLE_UNKNOWN;
    *saved = yes && left > 0 ? left : 0;
    const energy_cells cells = {.keys = keys,
                                .matrix = matrix,
                                .energy = energy,
                                .rank = k,
                                .error = s->k > 0 && s->sigma[0] > 0 ? error_at(s, k) : NAN,
                                .parameters = s->numbers,
                                .saved = known ? *saved : RS_NULL_INT,
                                .feasible = known ? yes : RS_UNKNOWN,
                                .reason = s->reason};
    return rs_table_append(table, &cells, err);
}

static rs_status add_matrix(rs_table *table, const rs_stored_matrix *m, double energy,
                            int64_t *saved, rs_error *err)
{
    const rs_product *p = m->product;
    int64_t k = rs_energy_rank(m->sigma, m->k, energy);
    bool pays = m->numbers > k * (m->rows + m->cols);
    subject s = {.sigma = m->sigma,
                 .k = m->k,
                 .rows = m->rows,
                 .cols = m->cols,
                 .numbers = m->numbers,
                 .feasible = RS_FEASIBLE_YES,
                 .reason = pays ? "a matrix can always be replaced by two of lower rank"
                                : "possible, but two factors of this rank hold no fewer numbers"};
    const rs_scan_keys keys = {
        .stack = p->stack, .attention = p->attention, .layer = p->layer, .head = -1};
    return add_row(table, keys, m->name, &s, energy, saved, err);
}

/* Stored numbers behind a head or a stacked group of them. */
static int64_t numbers_of(const rs_head *head, rs_fold fold)
{
    const rs_product *p = head->product;
    int64_t a = rs_factor_numbers(&p->a, fold), b = rs_factor_numbers(&p->b, fold);
    int64_t members = head->stacked ? p->group_size : 1;
    return p->kind == RS_PRODUCT_QK ? members * a + b : a + members * b;
}

static rs_status add_product(rs_table *table, const rs_model *model, const rs_head *head,
                             rs_fold fold, double energy, int64_t *saved, rs_error *err)
{
    const rs_product *p = head->product;
    subject s = {.sigma = head->sigma,
                 .k = head->k,
                 .rows = head->rows,
                 .cols = head->cols,
                 .numbers = numbers_of(head, fold)};
    s.feasible = rs_product_feasible(&s.reason, model, p, fold);
    return add_row(table, rs_scan_keys_of(p, p->kv_head), NULL, &s, energy, saved, err);
}

static rs_status add_matrices(rs_table *table, const rs_stored_matrices *matrices, double energy,
                              sums *total, rs_error *err)
{
    for (size_t i = 0; i < matrices->n; i++) {
        const rs_stored_matrix *m = &matrices->items[i];
        int64_t saved = 0;
        if (m->sigma) RS_TRY(add_matrix(table, m, energy, &saved, err));
        total->stored += m->numbers;
        total->by_matrices += saved;
    }
    return RS_OK;
}

/* Grouped queries by their stacked rows, all others head by head. */
static rs_status add_products(rs_table *table, const rs_model *model, const rs_heads *heads,
                              rs_fold fold, double energy, sums *total, rs_error *err)
{
    for (size_t i = 0, g = 0; i < heads->n;) {
        bool group = g < heads->n_groups && heads->groups[g].product == heads->items[i].product;
        const rs_head *head = group ? &heads->groups[g++] : &heads->items[i];
        int64_t saved = 0;
        if (head->sigma) RS_TRY(add_product(table, model, head, fold, energy, &saved, err));
        total->by_products += saved;
        i += group ? (size_t)head->product->group_size : 1;
    }
    return RS_OK;
}

static rs_status add_totals(rs_table *table, double energy, const sums *total, rs_error *err)
{
    total_cells ways[] = {{.way = "matrices", .saved = total->by_matrices},
                          {.way = "products", .saved = total->by_products}};
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        ways[i].energy = energy;
        ways[i].parameters = total->stored;
        ways[i].share = total->stored > 0 ? (double)ways[i].saved / (double)total->stored : NAN;
        RS_TRY(rs_table_append(table, &ways[i], err));
    }
    return RS_OK;
}

static rs_status add_tables(rs_result *result, const rs_model *model, const rs_heads *heads,
                            const rs_stored_matrices *matrices, const rs_scan_options *options,
                            rs_error *err)
{
    rs_table *table, *totals;
    RS_TRY(rs_result_add_table(
        result, "energy_totals", "What factorising saves",
        "Stored numbers of the attention (or state-space) matrices that each "
        "energy of --energy would save, in either way",
        total_columns, sizeof total_columns / sizeof *total_columns, &totals, err));
    RS_TRY(rs_result_add_table(result, "energy", "Factorisation",
                               "Each stored matrix and each product: rank and parameters saved at "
                               "each energy of --energy, and whether it can be done",
                               columns, sizeof columns / sizeof *columns, &table, err));
    for (size_t e = 0; e < options->n_energies; e++) {
        sums total = {0};
        double energy = options->energies[e];
        RS_TRY(add_matrices(table, matrices, energy, &total, err));
        RS_TRY(add_products(table, model, heads, options->heads.fold, energy, &total, err));
        RS_TRY(add_totals(totals, energy, &total, err));
    }
    return RS_OK;
}

rs_status rs_scan_energy(rs_result *result, const rs_model *model, const rs_heads *heads,
                         const rs_scan_options *options, const rs_context *context, rs_error *err)
{
    if (options->n_energies == 0) return RS_OK;
    rs_stored_matrices matrices;
    rs_status status =
        rs_stored_matrices_measure(&matrices, model, heads, options->heads.fold, context, err);
    if (status == RS_OK) status = add_tables(result, model, heads, &matrices, options, err);
    rs_stored_matrices_free(&matrices);
    return status;
}
