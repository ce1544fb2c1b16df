/*
 * heads_measure.c: one product, from two Grams to every column of table `heads`.
 *
 * The Grams give the spectrum by Cholesky; where they cannot carry it, the factors are read whole
 * and treated with care. Everything else follows from the spectrum and the Grams.
 */
#include "base/memory.h"
#include "linalg/blas.h"
#include "linalg/spectrum.h"
#include "scan/heads_batch.h"

#include <math.h>
#include <string.h>

/* ‖E‖₂ of first-order rounding noise: A = A₀ + E_A with independent entries of variance step²/12,
 * so E_A Bᵀ has norm about s_A (√m ‖B‖₂ + ‖B‖_F) (Chevet), and likewise for B. */
static void noise(rs_head *head, const rs_factor_slot *a, const rs_factor_slot *b,
                  const double *spectral)
{
    head->noise_floor = NAN;
    head->rank_above_noise = -1;
    if (a->step_squared == 0 && b->step_squared == 0) return;
    double sa = sqrt(a->step_squared / 12.0), sb = sqrt(b->step_squared / 12.0);
    head->noise_floor = sa * (sqrt((double)head->rows) * spectral[1] + sqrt(head->pair.trace_y)) +
                        sb * (sqrt((double)head->cols) * spectral[0] + sqrt(head->pair.trace_x));
    head->rank_above_noise = 0;
    for (int64_t i = 0; i < head->k; i++)
        head->rank_above_noise += head->sigma[i] > head->noise_floor;
}

/* ‖A‖₂ and ‖B‖₂ from the Grams. */
static rs_status spectral_norms(double out[2], const double *x, const double *y, int64_t r,
                                double *work, rs_error *err)
{
    const double *grams[2] = {x, y};
    double *eigenvalues = work + r * r;
    for (int i = 0; i < 2; i++) {
        memcpy(work, grams[i], (size_t)(r * r) * sizeof *work);
        RS_TRY(rs_symmetric_eigenvalues(eigenvalues, work, r, eigenvalues + r, err));
        out[i] = sqrt(fmax(eigenvalues[r - 1], 0));
    }
    return RS_OK;
}

/* The factor of `count` products stacked below each other (one when they share it): rows×r,
 * row-major. */
static rs_status read_stack(double **out, int64_t rows, const rs_product *products, size_t count,
                            bool side_a, rs_fold fold, rs_error *err)
{
    const rs_factor *first = side_a ? &products->a : &products->b;
    double *next = *out = rs_malloc((size_t)rows, (size_t)first->inner * sizeof **out);
    if (!*out)
        return rs_fail_memory(err, first->tensor->name,
                              (size_t)rows * (size_t)first->inner * sizeof **out);
    for (size_t g = 0; g < count; g++) {
        const rs_factor *factor = side_a ? &products[g].a : &products[g].b;
        RS_TRY(rs_factor_read(next, factor, fold, err));
        next += rs_factor_features(factor, fold) * factor->inner;
    }
    return RS_OK;
}

/* A wide inner dimension (state-space in and out projections): the product itself is the small
 * matrix. */
static rs_status dense_spectrum(rs_head *head, const double *a, const double *b, rs_error *err)
{
    int64_t m = head->rows, n = head->cols, r = head->inner;
    double *product = rs_malloc((size_t)m, (size_t)n * sizeof *product);
    if (!product)
        return rs_fail_memory(err, head->product->a.tensor->name,
                              (size_t)m * (size_t)n * sizeof *product);
    cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasTrans, (blasint)m, (blasint)n, (blasint)r, 1.0, a,
                (blasint)r, b, (blasint)r, 0.0, product, (blasint)n);
    rs_status status = rs_matrix_spectrum(head->sigma, product, m, n, err);
    rs_free(product);
    return status;
}

/* The spectrum from the factors themselves, read in full. */
static rs_status careful_spectrum(rs_head *head, const rs_pairing *p, rs_fold fold, rs_error *err)
{
    bool stack_a = p->count > 1 && head->product->kind == RS_PRODUCT_QK;
    bool stack_b = p->count > 1 && head->product->kind == RS_PRODUCT_OV;
    double *a = NULL, *b = NULL;
    rs_status status =
        read_stack(&a, head->rows, head->product, stack_a ? p->count : 1, true, fold, err);
    if (status == RS_OK)
        status =
            read_stack(&b, head->cols, head->product, stack_b ? p->count : 1, false, fold, err);
    bool wide = head->inner > head->rows || head->inner > head->cols;
    if (status == RS_OK && wide && head->k >= 256)
        status = dense_spectrum(head, a, b, err);
    else if (status == RS_OK)
        status = rs_factor_spectrum(head->sigma, a, head->rows, b, head->cols, head->inner, err);
    rs_free(a);
    rs_free(b);
    return status;
}

static double tolerance_of(const rs_head *head, const rs_heads_options *options)
{
    if (!isnan(options->tolerance)) return options->tolerance;
    double ea = rs_dtype_epsilon(head->product->a.tensor->dtype),
           eb = rs_dtype_epsilon(head->product->b.tensor->dtype);
    return (double)(head->rows > head->cols ? head->rows : head->cols) * (ea > eb ? ea : eb);
}

/* All columns that follow from the spectrum and the Grams but the gap. */
static void finish_head(rs_head *head, const rs_heads_options *options)
{
    rs_measures_of(&head->measures, head->sigma, head->k, head->inner, tolerance_of(head, options));
    double sum = 0;
    for (int64_t i = 0; i < head->k; i++)
        sum += head->sigma[i] * head->sigma[i];
    head->self_check = fabs(head->pair.trace_xy - sum) / (head->pair.norm_x * head->pair.norm_y);
}

/* eigenvalues: those of X − Y. */
static void finish_gap(rs_head *head, const double *eigenvalues)
{
    double half = head->pair.half_norm, nuclear = head->measures.nuclear_norm, bracket[2];
    rs_gap_bracket(bracket, eigenvalues, head->inner, half, nuclear);
    head->gap_low = bracket[0];
    head->gap_high = bracket[1];
    /* H − F cancels near balance; the bracket is exact there, so rounding is not allowed to leave
     * it. */
    head->gap = half - nuclear;
    if (head->gap < head->gap_low && head->gap_low - head->gap < 1e-12 * half)
        head->gap = head->gap_low;
    if (head->gap > head->gap_high && head->gap - head->gap_high < 1e-12 * half)
        head->gap = head->gap_high;
    head->nuclear_excess = head->gap / half;
}

/* X (or Y) of a stacked row is the sum over its query heads. */
static void sum_grams(double *out, const rs_heads_batch *b, const size_t *slots, size_t n,
                      int64_t r)
{
    memcpy(out, b->slots[slots[0]].gram, (size_t)(r * r) * sizeof *out);
    for (size_t g = 1; g < n; g++)
        cblas_daxpy((blasint)(r * r), 1.0, b->slots[slots[g]].gram, 1, out, 1);
}

/* The Grams of a pairing; for a stack the side with one slot a query head is summed into
 * scratch. */
static void grams_of(const double **x, const double **y, const rs_heads_batch *b,
                     const rs_pairing *p, rs_scratch *s)
{
    *x = b->slots[p->a].gram;
    *y = b->slots[p->b].gram;
    if (p->count <= 1) return;
    bool queries_in_a = p->head->product->kind == RS_PRODUCT_QK;
    for (size_t g = 0; g < p->count; g++) {
        const rs_factor *factor = queries_in_a ? &p->head->product[g].a : &p->head->product[g].b;
        s->members[g] = b->n_slots;
        for (size_t i = 0; i < b->n_slots; i++)
            if (rs_factor_same(b->slots[i].factor, factor)) s->members[g] = i;
    }
    sum_grams(s->x, b, s->members, p->count, p->head->inner);
    if (queries_in_a)
        *x = s->x;
    else
        *y = s->x;
}

/* grams_of has filled s->members. */
static bool all_usable(const rs_heads_batch *b, const rs_pairing *p, const rs_scratch *s)
{
    bool usable = b->slots[p->a].usable && b->slots[p->b].usable;
    for (size_t g = 0; g < p->count && p->count > 1; g++)
        usable = usable && b->slots[s->members[g]].usable;
    return usable;
}

static void keep_norms(rs_head *head, const double *x, const double *y)
{
    for (int64_t i = 0; i < head->inner; i++) {
        head->norms_a[i] = x[i * head->inner + i];
        head->norms_b[i] = y[i * head->inner + i];
    }
}

/* A product between two steps. */
typedef struct unfinished {
    rs_bidiagonal product;     /* of the Grams' Cholesky factors; n = 0 where there is none */
    rs_tridiagonal difference; /* X − Y; n = 0 where the weights are not usable */
    bool rounded;              /* the weights are, by steps that are known */
    double spectral[2];        /* then: norms of both factors */
    bool trusted;              /* the Grams carry the spectrum */
} unfinished;

/* What needs the Grams alone. */
static rs_status reduce(unfinished *u, const rs_heads_batch *b, const rs_pairing *p, rs_scratch *s,
                        rs_error *err)
{
    rs_head *head = p->head;
    const rs_factor_slot *a = &b->slots[p->a], *c = &b->slots[p->b];
    int64_t r = head->inner;
    const double *x, *y;
    grams_of(&x, &y, b, p, s);
    if (!all_usable(b, p, s)) {
        head->sigma = NULL;
        return RS_OK;
    }
    rs_gram_compare(&head->pair, x, y, r);
    keep_norms(head, x, y);
    if (r <= head->rows && r <= head->cols && !a->fragile && !c->fragile) {
        u->product.n = r;
        RS_TRY(rs_gram_bidiagonal(&u->product, &s->squares, &u->trusted, x, y, s->work, err));
    }
    /* Folding rescales the steps entry by entry, which the estimate does not follow. */
    u->rounded =
        !head->stacked && !b->options->fold.norms && (a->step_squared > 0 || c->step_squared > 0);
    if (u->rounded) RS_TRY(spectral_norms(u->spectral, x, y, r, s->work, err));
    for (int64_t i = 0; i < r * r; i++)
        s->q[i] = x[i] - y[i];
    u->difference.n = r;
    return rs_tridiagonalise(&u->difference, s->q, s->work, err);
}

/* What needs the singular values, too. */
static rs_status measure(unfinished *u, const rs_heads_batch *b, const rs_pairing *p, rs_scratch *s,
                         rs_error *err)
{
    rs_head *head = p->head;
    if (!head->sigma) return RS_OK;
    if (u->trusted) {
        const double *x, *y;
        grams_of(&x, &y, b, p, s);
        RS_TRY(rs_gram_refine(head->sigma, &u->trusted, x, y, head->pair.trace_xy, head->inner,
                              s->work, err));
    }
    if (!u->trusted) {
        head->by_factors = true;
        RS_TRY(careful_spectrum(head, p, b->options->fold, err));
    }
    if (u->rounded) noise(head, &b->slots[p->a], &b->slots[p->b], u->spectral);
    finish_head(head, b->options);
    return RS_OK;
}

rs_status rs_measure_pairs(const rs_heads_batch *b, const rs_pairing *pairs, size_t n,
                           rs_scratch *s, rs_error *err)
{
    unfinished all[RS_PAIRS_AT_ONCE];
    rs_bidiagonal products[RS_PAIRS_AT_ONCE] = {{0}};
    rs_tridiagonal differences[RS_PAIRS_AT_ONCE] = {{0}};
    for (size_t i = 0; i < n; i++) {
        double *memory = s->vectors + i * 3 * b->largest;
        all[i] = (unfinished){
            .product = {.d = pairs[i].head->sigma, .e = memory},
            .difference = {.d = memory + b->largest, .e = memory + 2 * b->largest},
        };
        RS_TRY(reduce(&all[i], b, &pairs[i], s, err));
        products[i] = all[i].product;
        differences[i] = all[i].difference;
    }
    rs_squares_finish(&s->squares);
    RS_TRY(rs_bidiagonal_values(products, n, s->work, err));
    for (size_t i = 0; i < n; i++)
        RS_TRY(measure(&all[i], b, &pairs[i], s, err));
    RS_TRY(rs_tridiagonal_eigenvalues(differences, n, s->work, err));
    for (size_t i = 0; i < n; i++)
        if (pairs[i].head->sigma) finish_gap(pairs[i].head, differences[i].d);
    return RS_OK;
}
