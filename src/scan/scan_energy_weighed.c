/*
 * scan_energy_weighed.c: what a matrix does to the activations that it really sees: X M in the place of M,
 * X the rows that it read in a run over a text. All follows from Grams (linalg/truncation.h).
 *
 * Of W_Q, W_K and W_V the Gram of X is known, and (X M)ᵀ(X M) = Mᵀ(XᵀX)M. Of W_O that of what it
 * wrote, without its bias, is known itself. A product A Bᵀ sees what A reads, since the mixing that
 * stands between them acts on tokens alone, and of queries and keys the query's side.
 */
#include "base/memory.h"
#include "linalg/blas.h"
#include "linalg/spectrum.h"
#include "linalg/subspace.h"
#include "linalg/truncation.h"
#include "scan/scan_energy.h"

#include <string.h>

static const rs_fold as_stored = {0};

const rs_activations *rs_activations_of(const rs_activations *seen, size_t n_seen,
                                        const rs_factor *factor, bool output)
{
    for (size_t i = 0; i < n_seen; i++)
        if (seen[i].tensor == factor->tensor && seen[i].output == output &&
            seen[i].n == factor->features)
            return &seen[i];
    return NULL;
}

const rs_activations *rs_activations_by(const rs_activations *seen, size_t n_seen,
                                        const rs_product *product)
{
    return rs_activations_of(seen, n_seen, &product->a, false);
}

bool rs_writes_rows(const rs_stored_matrix *m)
{
    rs_product_kind kind = m->product->kind;
    return m->factors[0] == &m->product->b && (kind == RS_PRODUCT_OV || kind == RS_PRODUCT_IO);
}

/* The one that all factors of the matrix share. */
static const rs_activations *seen_of_all(const rs_stored_matrix *m, const rs_activations *seen,
                                         size_t n_seen)
{
    bool output = rs_writes_rows(m);
    const rs_activations *first = rs_activations_of(seen, n_seen, m->factors[0], output);
    for (size_t i = 1; i < m->n_factors && first; i++)
        if (rs_activations_of(seen, n_seen, m->factors[i], output) != first) first = NULL;
    return first;
}

/* MᵀGM. */
static void turn(double *out, double *work, const double *m, const double *gram, int64_t rows,
                 int64_t cols)
{
    blasint n = (blasint)rows, c = (blasint)cols;
    cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, n, c, n, 1, gram, n, m, c, 0, work, c);
    cblas_dgemm(CblasRowMajor, CblasTrans, CblasNoTrans, c, c, n, 1, m, c, work, c, 1, out, c);
}

rs_status rs_written_gram(double **gram, int64_t *n, const rs_stored_matrix *m,
                          const rs_activations *seen, size_t n_seen, rs_error *err)
{
    const rs_activations *x = seen_of_all(m, seen, n_seen);
    *gram = NULL;
    if (!x || x->n != m->rows) return RS_OK;
    *n = x->output ? m->rows : m->cols;
    size_t whole = (size_t)m->rows * (size_t)m->cols, square = (size_t)*n * (size_t)*n;
    double *out = rs_calloc(square, sizeof *out);
    double *matrix = x->output ? NULL : rs_malloc(2 * whole, sizeof *matrix);
    rs_status status = RS_OK;
    if (!out || (!x->output && !matrix))
        status = rs_fail_memory(err, m->name, (square + 2 * whole) * sizeof *out);
    else if (x->output)
        memcpy(out, x->gram, square * sizeof *out);
    else
        status = rs_stored_matrix_read(matrix, m, as_stored, err);
    if (status == RS_OK && matrix) turn(out, matrix + whole, matrix, x->gram, m->rows, m->cols);
    rs_free(matrix);
    if (status == RS_OK)
        *gram = out;
    else
        rs_free(out);
    return status;
}

/* ---- products ---- */

/* Members of a group whose factors are stacked on one side. */
static int64_t members(const rs_head *head, bool side_b)
{
    bool stacks_b = head->product->kind != RS_PRODUCT_QK;
    return head->stacked && stacks_b == side_b ? head->product->group_size : 1;
}

static const rs_factor *member(const rs_head *head, bool side_b, int64_t i)
{
    const rs_product *p = &head->product[i];
    return side_b ? &p->b : &p->a;
}

/* The triangle of all members of a side, one below the other; gives its rows in *rows. */
static rs_status triangle_of(double *out, int64_t *rows, const rs_head *head, bool side_b,
                             rs_error *err)
{
    int64_t n = members(head, side_b), m = member(head, side_b, 0)->features,
            r = member(head, side_b, 0)->inner, all = n * m;
    size_t numbers = (size_t)(all * r + m * r + 33 * r);
    double *vectors = rs_malloc(numbers, sizeof *vectors);
    if (!vectors) return rs_fail_memory(err, "a product", numbers * sizeof *vectors);
    double *one = vectors + all * r, *work = one + m * r;
    rs_status status = RS_OK;
    for (int64_t i = 0; i < n && status == RS_OK; i++) {
        status = rs_factor_read_vectors(one, member(head, side_b, i), as_stored, err);
        for (int64_t v = 0; v < r && status == RS_OK; v++)
            memcpy(vectors + v * all + i * m, one + v * m, (size_t)m * sizeof *one);
    }
    if (status == RS_OK) status = rs_factor_triangle(out, vectors, all, r, work, err);
    *rows = all < r ? all : r;
    rs_free(vectors);
    return status;
}

/* A root of the sum over the members of AᵀGA. */
static rs_status weighed_root(double *out, int64_t *rows, const rs_head *head,
                              const rs_activations *x, rs_error *err)
{
    int64_t m = head->product->a.features, r = head->product->a.inner;
    size_t numbers = 2 * (size_t)(m * r);
    double *factor = rs_malloc(numbers, sizeof *factor);
    if (!factor) return rs_fail_memory(err, "a product", numbers * sizeof *factor);
    memset(out, 0, (size_t)(r * r) * sizeof *out);
    rs_status status = RS_OK;
    for (int64_t i = 0; i < members(head, false) && status == RS_OK; i++) {
        status = rs_factor_read(factor, member(head, false, i), as_stored, err);
        if (status == RS_OK) turn(out, factor + m * r, factor, x->gram, m, r);
    }
    if (status == RS_OK) status = rs_gram_root(out, r, err);
    *rows = r;
    rs_free(factor);
    return status;
}

rs_status rs_product_sides(rs_sides *out, const rs_head *head, const rs_activations *x,
                           rs_error *err)
{
    int64_t r = head->product->a.inner;
    double *both = rs_malloc(2 * (size_t)(r * r), sizeof *both);
    if (!both) return rs_fail_memory(err, "a product", 2 * (size_t)(r * r) * sizeof *both);
    *out = (rs_sides){.ra = both, .rb = both + r * r, .r = r};
    rs_status status = x ? weighed_root(out->ra, &out->ka, head, x, err)
                         : triangle_of(out->ra, &out->ka, head, false, err);
    if (status == RS_OK) status = triangle_of(out->rb, &out->kb, head, true, err);
    if (status != RS_OK) rs_free(both);
    return status;
}

rs_status rs_sides_spectrum(double *sigma, int64_t k, const rs_sides *sides, rs_error *err)
{
    int64_t ka = sides->ka, kb = sides->kb, q = ka < kb ? ka : kb;
    double *product = rs_malloc((size_t)(ka * kb + q), sizeof *product);
    if (!product) return rs_fail_memory(err, "a product", (size_t)(ka * kb) * sizeof *product);
    double *values = product + ka * kb;
    cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasTrans, (blasint)ka, (blasint)kb,
                (blasint)sides->r, 1, sides->ra, (blasint)sides->r, sides->rb, (blasint)sides->r, 0,
                product, (blasint)kb);
    rs_status status = rs_matrix_spectrum(values, product, ka, kb, err);
    for (int64_t i = 0; i < k && status == RS_OK; i++)
        sigma[i] = i < q ? values[i] : 0;
    rs_free(product);
    return status;
}
