/* scan_energy_best.c: ranks for an energy, and which way of replacing two factors saves more. */
#include "base/memory.h"
#include "scan/scan_energy.h"

#include <math.h>

static double error_at(const double *sigma, int64_t n, int64_t k)
{
    double tail = 0, all = 0;
    if (n == 0 || !(sigma[0] > 0)) return NAN;
    for (int64_t i = n; i-- > 0;) {
        double t = sigma[i] / sigma[0];
        if (i >= k) tail += t * t;
        all += t * t;
    }
    return sqrt(tail / all);
}

rs_cut rs_cut_of(const double *sigma, int64_t k, double energy, int64_t rows, int64_t cols,
                 int64_t numbers)
{
    int64_t rank = rs_energy_rank(sigma, k, energy);
    return (rs_cut){
        .rank = rank, .saved = numbers - rank * (rows + cols), .error = error_at(sigma, k, rank)};
}

rs_cut rs_matrix_cut(const rs_stored_matrix *m, double energy, bool weighed)
{
    return rs_cut_of(weighed && m->weighed ? m->weighed : m->sigma, m->k, energy, m->rows, m->cols,
                     m->numbers);
}

rs_cut rs_product_cut(const rs_replaceable *r, double energy, bool weighed)
{
    const rs_head *head = r->head;
    rs_cut cut = rs_cut_of(weighed && r->weighed ? r->weighed : head->sigma, head->k, energy,
                           head->rows, head->cols, r->numbers);
    if (r->feasible != RS_FEASIBLE_YES) cut.saved = 0;
    return cut;
}

/* Choices as they grow. */
typedef struct choosing {
    rs_chosen *items;
    size_t n, capacity;
    double energy;
    bool weighed;
} choosing;

static rs_status add(choosing *c, rs_chosen chosen, rs_cut cut, rs_error *err)
{
    if (cut.saved <= 0) return RS_OK; /* rank 0: a zero matrix, which needs no number */
    if (!RS_GROW(c->items, c->n, c->capacity))
        return rs_fail_memory(err, "what is cut", c->n * sizeof *c->items);
    chosen.rank = cut.rank;
    chosen.saved = cut.saved;
    c->items[c->n++] = chosen;
    return RS_OK;
}

static rs_status add_matrices(choosing *c, const rs_stored_matrices *all, const rs_product *cell,
                              rs_error *err)
{
    for (size_t i = 0; i < all->n; i++) {
        const rs_stored_matrix *m = &all->items[i];
        if (!m->sigma || !rs_same_cell(m->product, cell)) continue;
        const rs_chosen chosen = {.matrix = m, .weighed = c->weighed && m->weighed};
        RS_TRY(add(c, chosen, rs_matrix_cut(m, c->energy, c->weighed), err));
    }
    return RS_OK;
}

static rs_status add_products(choosing *c, const rs_stored_matrices *all, const rs_product *cell,
                              rs_error *err)
{
    for (size_t i = 0; i < all->n_products; i++) {
        const rs_replaceable *r = &all->products[i];
        if (!rs_same_cell(r->head->product, cell)) continue;
        const rs_chosen chosen = {.product = r, .weighed = c->weighed && r->weighed};
        RS_TRY(add(c, chosen, rs_product_cut(r, c->energy, c->weighed), err));
    }
    return RS_OK;
}

int64_t rs_chosen_saved(const rs_chosen *chosen, size_t n)
{
    int64_t saved = 0;
    for (size_t i = 0; i < n; i++)
        saved += chosen[i].saved;
    return saved;
}

/* The better of the two for one pair of factors. */
static rs_status choose_cell(choosing *c, const rs_stored_matrices *all, const rs_product *cell,
                             rs_error *err)
{
    size_t first = c->n;
    RS_TRY(add_matrices(c, all, cell, err));
    size_t second = c->n;
    int64_t by_matrices = rs_chosen_saved(c->items + first, second - first);
    RS_TRY(add_products(c, all, cell, err));
    if (rs_chosen_saved(c->items + second, c->n - second) <= by_matrices) {
        c->n = second;
        return RS_OK;
    }
    for (size_t i = second; i < c->n; i++)
        c->items[first + i - second] = c->items[i];
    c->n -= second - first;
    return RS_OK;
}

static bool is_first_of_cell(const rs_stored_matrices *all, size_t i)
{
    for (size_t j = i; j-- > 0 && all->items[j].product->layer == all->items[i].product->layer;)
        if (rs_same_cell(all->items[j].product, all->items[i].product)) return false;
    return true;
}

rs_status rs_energy_choose(rs_chosen **out, size_t *n, const rs_stored_matrices *all, double energy,
                           bool weighed, rs_error *err)
{
    choosing c = {.energy = energy, .weighed = weighed};
    rs_status status = RS_OK;
    for (size_t i = 0; i < all->n && status == RS_OK; i++)
        if (is_first_of_cell(all, i)) status = choose_cell(&c, all, all->items[i].product, err);
    *out = status == RS_OK ? c.items : NULL;
    *n = status == RS_OK ? c.n : 0;
    if (status != RS_OK) rs_free(c.items);
    return status;
}
