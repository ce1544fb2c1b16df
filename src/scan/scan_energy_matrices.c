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

/* The factors side by side: rows×cols, row-major. Rows that a factor lacks stay zero. */
static rs_status assemble(double *matrix, const rs_stored_matrix *m, rs_fold fold, rs_error *err)
{
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
    double *matrix = rs_calloc(numbers, sizeof *matrix);
    m->sigma = rs_malloc((size_t)m->k, sizeof *m->sigma);
    rs_status status = matrix && m->sigma ? assemble(matrix, m, fold, err)
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

static rs_status measure_some(rs_stored_matrices *all, bool large, int threads, rs_fold fold,
                              const rs_context *context, rs_error *err)
{
    rs_status kept = RS_OK;
    rs_error kept_error = {0};
#pragma omp parallel for schedule(dynamic) num_threads(threads)
    for (size_t i = 0; i < all->n; i++) {
        if ((all->items[i].k >= LARGE) != large || rs_cancelled(context)) continue;
        rs_error error;
        rs_status status = measure_stored(&all->items[i], fold, &error);
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

rs_status rs_stored_matrices_measure(rs_stored_matrices *out, const rs_model *model,
                                     const rs_heads *heads, rs_fold fold, const rs_context *context,
                                     rs_error *err)
{
    *out = (rs_stored_matrices){0};
    for (size_t i = 0; i < heads->n; i++)
        for (int side = 0; side < 2; side++)
            RS_TRY(add_stored(out, heads->items[i].product, side, fold, err));
    RS_TRY(measure_some(out, true, threads_for_large(out, context), fold, context, err));
    RS_TRY(measure_some(out, false, context->threads, fold, context, err));
    return check_files(out, model, err);
}

void rs_stored_matrices_free(rs_stored_matrices *matrices)
{
    for (size_t i = 0; i < matrices->n; i++) {
        rs_free(matrices->items[i].factors);
        rs_free(matrices->items[i].sigma);
    }
    rs_free(matrices->items);
}
