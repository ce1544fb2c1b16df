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
#include "base/memory.h"

#include <math.h>

/* A row of table energy. */
typedef struct energy_cells {
    rs_scan_keys keys;
    const char *matrix, *reason;
    double energy, error, weighed_error;
    int64_t rank, parameters, saved, weighed_rank, weighed_saved;
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

/* Behind those, where a run over a text showed what the matrices read. */
static const rs_column weighed_columns[] = {
    {.name = "weighted_rank",
     RS_CELL(energy_cells, weighed_rank),
     .formula =
         "least k with that fraction of ‖XM‖_F², X the rows that M reads (--text); null: they "
         "are not known"},
    {.name = "weighted_error",
     RS_CELL(energy_cells, weighed_error),
     .formula =
         "‖XM − XM_k‖_F / ‖XM‖_F at that k, M_k = M V_kV_kᵀ with the k leading right singular "
         "vectors of XM: the least that rank k can leave"},
    {.name = "weighted_saved",
     RS_CELL(energy_cells, weighed_saved),
     .formula = "parameters_saved at weighted_rank"},
};
const rs_table_kind rs_scan_energy_kind = {
    "scan", "energy", {RS_PART(columns), RS_PART(weighed_columns)}};

/* A row of table energy_totals. */
typedef struct total_cells {
    const char *way;
    double energy, share, weighed_share;
    int64_t parameters, saved, weighed_saved;
} total_cells;

static const rs_column total_columns[] = {
    {.name = "energy", RS_CELL(total_cells, energy), .formula = "fraction of Σσ² to keep"},
    {.name = "way",
     RS_CELL(total_cells, way),
     .formula =
         "matrices: each by itself; products: each feasible one in the place of its factors; best: "
         "for each pair of factors the one of the two that saves more, of equal ones the matrices. "
         "They do not add up"},
    {.name = "parameters",
     RS_CELL(total_cells, parameters),
     .formula = "stored numbers of all matrices, each once"},
    {.name = "parameters_saved", RS_CELL(total_cells, saved), .formula = "sum over table energy"},
    {.name = "share", RS_CELL(total_cells, share), .formula = "parameters_saved / parameters"},
};
static const rs_column weighed_total_columns[] = {
    {.name = "weighted_saved",
     RS_CELL(total_cells, weighed_saved),
     .formula = "the same with the ranks of XM where X is known (--text)"},
    {.name = "weighted_share",
     RS_CELL(total_cells, weighed_share),
     .formula = "weighted_saved / parameters"},
};
const rs_table_kind rs_scan_energy_totals_kind = {
    "scan", "energy_totals", {RS_PART(total_columns), RS_PART(weighed_total_columns)}};

enum { WAY_MATRICES, WAY_PRODUCTS, WAY_BEST, WAYS };
static const char *const ways[WAYS] = {"matrices", "products", "best"};

/* [plain or weighed][way] */
typedef struct sums {
    int64_t stored, saved[2][WAYS];
} sums;

static int64_t above_zero(int64_t saved)
{
    return saved > 0 ? saved : 0;
}

/* A row whose plain and weighed cuts are these; *known: it is known whether it can be done. */
static rs_status add_row(rs_table *table, energy_cells cells, const rs_cut cuts[2], bool weighed,
                         bool known, rs_error *err)
{
    cells.rank = cuts[0].rank;
    cells.error = cuts[0].error;
    cells.saved = known ? above_zero(cuts[0].saved) : RS_NULL_INT;
    cells.weighed_rank = weighed ? cuts[1].rank : RS_NULL_INT;
    cells.weighed_error = weighed ? cuts[1].error : NAN;
    cells.weighed_saved = weighed && known ? above_zero(cuts[1].saved) : RS_NULL_INT;
    return rs_table_append(table, &cells, err);
}

static rs_status add_matrix(rs_table *table, const rs_stored_matrix *m, double energy, sums *total,
                            rs_error *err)
{
    const rs_product *p = m->product;
    const rs_cut cuts[2] = {rs_matrix_cut(m, energy, false), rs_matrix_cut(m, energy, true)};
    for (int w = 0; w < 2; w++)
        total->saved[w][WAY_MATRICES] += above_zero(cuts[w].saved);
    const energy_cells cells = {
        .keys = {.stack = p->stack, .attention = p->attention, .layer = p->layer, .head = -1},
        .matrix = m->name,
        .energy = energy,
        .parameters = m->numbers,
        .feasible = true,
        .reason = cuts[0].saved > 0
                      ? "a matrix can always be replaced by two of lower rank"
                      : "possible, but two factors of this rank hold no fewer numbers"};
    return add_row(table, cells, cuts, m->weighed != NULL, true, err);
}

static rs_status add_product(rs_table *table, const rs_replaceable *r, double energy, sums *total,
                             rs_error *err)
{
    const rs_product *p = r->head->product;
    bool known = r->feasible != RS_FEASIBLE_UNKNOWN;
    const rs_cut cuts[2] = {rs_product_cut(r, energy, false), rs_product_cut(r, energy, true)};
    for (int w = 0; w < 2; w++)
        total->saved[w][WAY_PRODUCTS] += above_zero(cuts[w].saved);
    const energy_cells cells = {.keys = rs_scan_keys_of(p, p->kv_head),
                                .energy = energy,
                                .parameters = r->numbers,
                                .feasible = known ? r->feasible == RS_FEASIBLE_YES : RS_UNKNOWN,
                                .reason = r->reason};
    return add_row(table, cells, cuts, r->weighed != NULL, known, err);
}

static rs_status add_best(const rs_stored_matrices *all, double energy, sums *total, rs_error *err)
{
    for (int w = 0; w < 2; w++) {
        rs_chosen *chosen;
        size_t n;
        RS_TRY(rs_energy_choose(&chosen, &n, all, energy, w, err));
        total->saved[w][WAY_BEST] = rs_chosen_saved(chosen, n);
        rs_free(chosen);
    }
    return RS_OK;
}

static rs_status add_totals(rs_table *table, double energy, const sums *total, rs_error *err)
{
    for (int way = 0; way < WAYS; way++) {
        const int64_t plain = total->saved[0][way], weighed = total->saved[1][way];
        double stored = total->stored > 0 ? (double)total->stored : NAN;
        const total_cells cells = {.energy = energy,
                                   .way = ways[way],
                                   .parameters = total->stored,
                                   .saved = plain,
                                   .share = (double)plain / stored,
                                   .weighed_saved = weighed,
                                   .weighed_share = (double)weighed / stored};
        RS_TRY(rs_table_append(table, &cells, err));
    }
    return RS_OK;
}

static rs_status add_energy(rs_table *table, rs_table *totals, const rs_stored_matrices *all,
                            double energy, rs_error *err)
{
    sums total = {0};
    for (size_t i = 0; i < all->n; i++) {
        total.stored += all->items[i].numbers;
        if (all->items[i].sigma) RS_TRY(add_matrix(table, &all->items[i], energy, &total, err));
    }
    for (size_t i = 0; i < all->n_products; i++)
        RS_TRY(add_product(table, &all->products[i], energy, &total, err));
    RS_TRY(add_best(all, energy, &total, err));
    return add_totals(totals, energy, &total, err);
}

/* The plain columns, and the weighed ones behind them where a run over a text showed what is read. */
static rs_status add_table(rs_table **out, rs_result *result, const rs_table_kind *kind,
                           const char *title, const char *about, bool weighed, rs_error *err)
{
    enum { MOST = 24 };
    rs_column all[MOST];
    size_t n = 0;
    for (int part = 0; part < 1 + weighed; part++)
        for (size_t i = 0; i < kind->parts[part].n && n < MOST; i++)
            all[n++] = kind->parts[part].columns[i];
    return rs_result_add_table(result, kind->name, title, about, all, n, out, err);
}

static rs_status add_tables(rs_result *result, const rs_stored_matrices *all,
                            const rs_scan_options *options, rs_error *err)
{
    rs_table *table, *totals;
    bool weighed = options->n_seen > 0;
    RS_TRY(
        add_table(&totals, result, &rs_scan_energy_totals_kind, "What factorising saves",
                  "Stored numbers of the attention (or state-space) matrices that each energy of "
                  "--energy would save, in either way",
                  weighed, err));
    RS_TRY(
        add_table(&table, result, &rs_scan_energy_kind, "Factorisation",
                  "Each stored matrix and each product: rank and parameters saved at each energy "
                  "of --energy, and whether it can be done",
                  weighed, err));
    for (size_t e = 0; e < options->n_energies; e++)
        RS_TRY(add_energy(table, totals, all, options->energies[e], err));
    return rs_scan_costs(result, all, options, err);
}

rs_status rs_scan_energy(rs_result *result, const rs_model *model, const rs_heads *heads,
                         const rs_scan_options *options, const rs_context *context, rs_error *err)
{
    if (options->n_energies == 0) return RS_OK;
    rs_stored_matrices matrices;
    rs_status status = rs_stored_matrices_measure(&matrices, model, heads, options->heads.fold,
                                                  options->seen, options->n_seen, context, err);
    if (status == RS_OK) status = add_tables(result, &matrices, options, err);
    if (status == RS_OK && options->told)
        status = options->told(options->told_user, result, &matrices, err);
    rs_stored_matrices_free(&matrices);
    return status;
}
