/*
 * scan_energy_matrices.c: the stored matrices behind the head products, one by one, with their
 * spectra.
 *
 * Heads lie in a matrix as the layout has them (apart, fused, interleaved): their factors are put
 * side by side, so that W_Q is the matrix of all query heads wherever it is stored. Matrices are
 * spread over threads; from LARGE on only as many are measured at a time as find room.
 */
#include "base/memory.h"
#include "linalg/spectrum.h"
#include "linalg/threads.h"
#include "linalg/truncation.h"
#include "products/factor.h"
#include "scan/scan_energy.h"

#include <math.h>
#include <string.h>

enum { LARGE = 4608 };

/* ---- gathering ---- */

static const char *name_of(const rs_product *p, bool side_b)
{
    static const char *const names[][2] = {[RS_PRODUCT_QK] = {"W_Q", "W_K"},
                                           [RS_PRODUCT_OV] = {"W_V", "W_O"},
                                           [RS_PRODUCT_CB] = {"W_C", "W_B"},
                                           [RS_PRODUCT_IO] = {"W_in", "W_out"}};
    bool positional = p->attention && strcmp(p->attention, "positional") == 0;
    return side_b && positional ? "W_R" : names[p->kind][side_b];
}

bool rs_factor_stored_alike(const rs_factor *a, const rs_factor *b)
{
    return a->tensor == b->tensor && a->first == b->first && a->inner == b->inner &&
           a->vector_is_row == b->vector_is_row;
}

int64_t rs_factor_numbers(const rs_factor *factor, rs_fold fold)
{
    return (factor->features + (fold.biases && factor->bias)) * factor->inner;
}

static bool has(const rs_stored_matrix *m, const rs_factor *factor)
{
    for (size_t i = m->n_factors; i-- > 0;)
        if (rs_factor_stored_alike(m->factors[i], factor)) return true;
    return false;
}

static bool same_layer(const rs_product *a, const rs_product *b)
{
    return a->layer == b->layer && a->stack == b->stack;
}

/* Where a factor belongs among the matrices of its layer; *known: it is there already. */
static rs_stored_matrix *find_stored(rs_stored_matrices *all, const rs_product *p, const char *name,
                                     const rs_factor *factor, bool *known)
{
    rs_stored_matrix *found = NULL;
    *known = false;
    for (size_t i = all->n; i-- > 0 && same_layer(all->items[i].product, p);) {
        rs_stored_matrix *m = &all->items[i];
        *known = *known || has(m, factor);
        if (m->product->attention == p->attention && strcmp(m->name, name) == 0) found = m;
    }
    return found;
}

static rs_status add_stored(rs_stored_matrices *all, const rs_product *p, bool side_b, rs_fold fold,
                            rs_error *err)
{
    const rs_factor *factor = side_b ? &p->b : &p->a;
    bool known;
    rs_stored_matrix *m = find_stored(all, p, name_of(p, side_b), factor, &known);
    if (known) return RS_OK;
    if (!m) {
        if (!RS_GROW(all->items, all->n, all->capacity))
            return rs_fail_memory(err, "matrices", sizeof *m);
        m = &all->items[all->n++];
        *m = (rs_stored_matrix){.product = p, .name = name_of(p, side_b)};
    }
    if (!RS_GROW(m->factors, m->n_factors, m->capacity))
        return rs_fail_memory(err, "matrices", sizeof *m->factors);
    m->factors[m->n_factors++] = factor;
    int64_t features = rs_factor_features(factor, fold);
    if (features > m->rows) m->rows = features;
    m->cols += factor->inner;
    m->k = m->rows < m->cols ? m->rows : m->cols;
    m->numbers += rs_factor_numbers(factor, fold);
    return RS_OK;
}

/* ---- spectra ---- */

rs_status rs_stored_matrix_read(double *matrix, const rs_stored_matrix *m, rs_fold fold,
                                rs_error *err)
{
    memset(matrix, 0, (size_t)m->rows * (size_t)m->cols * sizeof *matrix);
    int64_t widest = 0, at = 0;
    for (size_t i = 0; i < m->n_factors; i++)
        if (m->factors[i]->inner > widest) widest = m->factors[i]->inner;
    double *part = rs_malloc((size_t)m->rows, (size_t)widest * sizeof *part);
    rs_status status = part ? RS_OK
                            : rs_fail_memory(err, m->factors[0]->tensor->name,
                                             (size_t)(m->rows * widest) * sizeof *part);
    for (size_t i = 0; i < m->n_factors && status == RS_OK; i++) {
        const rs_factor *factor = m->factors[i];
        size_t width = (size_t)factor->inner;
        status = rs_factor_read(part, factor, fold, err);
        int64_t features = rs_factor_features(factor, fold);
        for (int64_t r = 0; r < features && status == RS_OK; r++)
            memcpy(matrix + r * m->cols + at, part + (size_t)r * width, width * sizeof *part);
        at += factor->inner;
    }
    rs_free(part);
    return status;
}

static bool all_finite(const double *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!isfinite(x[i])) return false;
    return true;
}

static rs_status measure_stored(rs_stored_matrix *m, rs_fold fold, rs_error *err)
{
    size_t numbers = (size_t)m->rows * (size_t)m->cols;
    double *matrix = rs_malloc(numbers, sizeof *matrix);
    m->sigma = rs_malloc((size_t)m->k, sizeof *m->sigma);
    rs_status status = matrix && m->sigma ? rs_stored_matrix_read(matrix, m, fold, err)
                                          : rs_fail_memory(err, m->factors[0]->tensor->name,
                                                           numbers * sizeof *matrix);
    if (status == RS_OK && all_finite(matrix, numbers)) {
        status = rs_matrix_spectrum(m->sigma, matrix, m->rows, m->cols, err);
    } else {
        rs_free(m->sigma);
        m->sigma = NULL;
    }
    rs_free(matrix);
    return status;
}

/* Threads that may measure large matrices at the same time, each with the matrix and its Gram. */
static int threads_for_large(const rs_stored_matrices *all, const rs_context *context)
{
    double most = 0;
    for (size_t i = 0; i < all->n; i++) {
        const rs_stored_matrix *m = &all->items[i];
        double k = (double)m->k, numbers = (double)m->rows * (double)m->cols;
        if (m->k >= LARGE) most = fmax(most, sizeof(double) * (numbers + k * k));
    }
    return rs_budget_threads(most, context->memory, context->threads);
}

/* What all threads measure. */
typedef struct measuring {
    rs_stored_matrices *all;
    rs_fold fold;
    const rs_activations *seen;
    size_t n_seen;
} measuring;

/* σ of X W, where X is known and the matrix is finite. */
static rs_status weigh_stored(rs_stored_matrix *m, const measuring *w, rs_error *err)
{
    double *gram;
    int64_t n;
    if (!m->sigma || w->n_seen == 0) return RS_OK;
    RS_TRY(rs_written_gram(&gram, &n, m, w->seen, w->n_seen, err));
    if (!gram) return RS_OK;
    m->weighed = rs_malloc((size_t)m->k, sizeof *m->weighed);
    rs_status status = m->weighed ? rs_gram_singular_values(m->weighed, m->k, gram, n, err)
                                  : rs_fail_memory(err, m->name, (size_t)m->k * sizeof *m->weighed);
    rs_free(gram);
    return status;
}

static rs_status measure_some(const measuring *w, bool large, int threads,
                              const rs_context *context, rs_error *err)
{
    rs_stored_matrices *all = w->all;
    rs_status kept = RS_OK;
    rs_error kept_error = {0};
#pragma omp parallel for schedule(dynamic) num_threads(threads)
    for (size_t i = 0; i < all->n; i++) {
        if ((all->items[i].k >= LARGE) != large || rs_cancelled(context)) continue;
        rs_error error;
        rs_status status = measure_stored(&all->items[i], w->fold, &error);
        if (status == RS_OK) status = weigh_stored(&all->items[i], w, &error);
        rs_keep_first(&kept, &kept_error, status, &error);
        if (rs_thread_number() == 0) rs_progress(context, "stored matrices", i, all->n, "matrices");
    }
    if (kept != RS_OK && err) *err = kept_error;
    return kept == RS_OK ? rs_check_cancelled(context, err) : kept;
}

/* The files still have the pages that were read. */
static rs_status check_files(const rs_stored_matrices *all, const rs_model *model, rs_error *err)
{
    for (size_t i = 0; i < all->n; i++)
        for (size_t f = 0; f < all->items[i].n_factors; f++)
            RS_TRY(rs_tensor_check(model->checkpoint, all->items[i].factors[f]->tensor, err));
    return RS_OK;
}

/* ---- products ---- */

/* Stored numbers behind a head or a stacked group of them. */
static int64_t numbers_of(const rs_head *head, rs_fold fold)
{
    const rs_product *p = head->product;
    int64_t a = rs_factor_numbers(&p->a, fold), b = rs_factor_numbers(&p->b, fold);
    int64_t members = head->stacked ? p->group_size : 1;
    return p->kind == RS_PRODUCT_QK ? members * a + b : a + members * b;
}

static rs_status weigh_product(rs_replaceable *r, const measuring *w, rs_error *err)
{
    rs_sides sides;
    const rs_activations *x = rs_activations_by(w->seen, w->n_seen, r->head->product);
    if (!x) return RS_OK;
    RS_TRY(rs_product_sides(&sides, r->head, x, err));
    int64_t k = r->head->k;
    r->weighed = rs_calloc((size_t)k, sizeof *r->weighed);
    rs_status status = r->weighed ? rs_sides_spectrum(r->weighed, k, &sides, err)
                                  : rs_fail_memory(err, "a product", (size_t)k * sizeof(double));
    rs_free(sides.ra);
    return status;
}

static rs_status weigh_products(const measuring *w, const rs_context *context, rs_error *err)
{
    rs_status kept = RS_OK;
    rs_error kept_error = {0};
    size_t n = w->n_seen ? w->all->n_products : 0;
#pragma omp parallel for schedule(dynamic) num_threads(context->threads)
    for (size_t i = 0; i < n; i++) {
        if (rs_cancelled(context)) continue;
        rs_error error;
        rs_status status = weigh_product(&w->all->products[i], w, &error);
        rs_keep_first(&kept, &kept_error, status, &error);
    }
    if (kept != RS_OK && err) *err = kept_error;
    return kept == RS_OK ? rs_check_cancelled(context, err) : kept;
}

/* Grouped queries by their stacked rows, all others head by head. */
static rs_status list_products(rs_stored_matrices *out, const rs_model *model,
                               const rs_heads *heads, rs_fold fold, rs_error *err)
{
    out->products = rs_calloc(heads->n + 1, sizeof *out->products);
    if (!out->products) return rs_fail_memory(err, "products", heads->n * sizeof *out->products);
    for (size_t i = 0, g = 0; i < heads->n;) {
        bool group = g < heads->n_groups && heads->groups[g].product == heads->items[i].product;
        const rs_head *head = group ? &heads->groups[g++] : &heads->items[i];
        i += group ? (size_t)head->product->group_size : 1;
        if (!head->sigma) continue;
        rs_replaceable *r = &out->products[out->n_products++];
        *r = (rs_replaceable){.head = head, .numbers = numbers_of(head, fold)};
        r->feasible = rs_product_feasible(&r->reason, model, head->product, fold);
    }
    return RS_OK;
}

rs_status rs_stored_matrices_measure(rs_stored_matrices *out, const rs_model *model,
                                     const rs_heads *heads, rs_fold fold,
                                     const rs_activations *seen, size_t n_seen,
                                     const rs_context *context, rs_error *err)
{
    const measuring w = {.all = out, .fold = fold, .seen = seen, .n_seen = n_seen};
    *out = (rs_stored_matrices){.checkpoint = model->checkpoint};
    for (size_t i = 0; i < heads->n; i++)
        for (int side = 0; side < 2; side++)
            RS_TRY(add_stored(out, heads->items[i].product, side, fold, err));
    RS_TRY(list_products(out, model, heads, fold, err));
    RS_TRY(measure_some(&w, true, threads_for_large(out, context), context, err));
    RS_TRY(measure_some(&w, false, context->threads, context, err));
    RS_TRY(weigh_products(&w, context, err));
    return check_files(out, model, err);
}

void rs_stored_matrices_free(rs_stored_matrices *matrices)
{
    for (size_t i = 0; i < matrices->n; i++) {
        rs_free(matrices->items[i].factors);
        rs_free(matrices->items[i].sigma);
        rs_free(matrices->items[i].weighed);
    }
    for (size_t i = 0; i < matrices->n_products; i++)
        rs_free(matrices->products[i].weighed);
    rs_free(matrices->items);
    rs_free(matrices->products);
}
