/*
 * compare_change.c: how far a product W = A Bᵀ moved, from its factors: no matrix of the model's width
 * squared is ever formed.
 *
 * A₁B₁ᵀ − A₂B₂ᵀ = [A₁ − A₂, A₂] [B₁, B₁ − B₂]ᵀ, of inner width 2r: differences are taken entry by
 * entry, so a small change keeps its digits. The Grams of these two stacks give the spectrum as
 * scan has it (linalg/spectrum.h), and their blocks the Grams of all four factors and A₁ᵀA₂, B₁ᵀB₂,
 * which the overlaps need (linalg/subspace.h). Factors of different inner widths are stacked as
 * [A₁, −A₂] [B₁, B₂]ᵀ. Where the stack is wider than the product, the product is the small
 * matrix (state-space in-out), and is formed.
 */
#include "base/memory.h"
#include "compare/compare_parts.h"
#include "linalg/blas.h"
#include "linalg/spectrum.h"
#include "linalg/subspace.h"

#include <float.h>
#include <math.h>
#include <string.h>

const char *rs_moved_name(rs_moved moved)
{
    static const char *const names[] = {NULL, "same", "rounding", "changed"};
    return names[moved];
}

/* ---- what rounding may do ---- */

/* How far a type's numbers stand apart: relative to them, and next to zero. Quantised ones have a step of
 * their own. */
typedef struct steps {
    rs_dtype dtype;
    double spacing, least;
} steps;
static const steps all_steps[] = {
    {RS_F32, FLT_EPSILON, FLT_TRUE_MIN}, {RS_F64, DBL_EPSILON, DBL_TRUE_MIN},
    {RS_F16, 0x1p-10, 0x1p-24},          {RS_BF16, 0x1p-7, 0x1p-133},
    {RS_F8_E4M3, 0x1p-3, 0x1p-9},        {RS_F8_E4M3FNUZ, 0x1p-3, 0x1p-10},
    {RS_F8_E5M2, 0x1p-2, 0x1p-16},       {RS_F8_E5M2FNUZ, 0x1p-2, 0x1p-17}};

static const steps *steps_of(rs_dtype dtype)
{
    for (size_t i = 0; i < sizeof all_steps / sizeof *all_steps; i++)
        if (all_steps[i].dtype == dtype) return &all_steps[i];
    return all_steps;
}

/* E‖E_A Bᵀ‖_F² for independent errors of the entries of A, uniform within half a step: their variance is
 * step²/12, or at most ((spacing · a_ij)² + least²)/12, whose sum over a unit j is by ‖a_j‖². */
static double moved_by(const rs_factor *factor, int64_t rows, const double *norms,
                       const double *other, int64_t r)
{
    const steps *of = steps_of(factor->tensor->dtype);
    double step = rs_factor_step_squared(factor), relative = of->spacing, least = of->least,
           sum = 0;
    for (int64_t j = 0; j < r; j++)
        sum += (step > 0 ? step * (double)rows
                         : relative * relative * norms[j] + least * least * (double)rows) *
               other[j];
    return sum / 12;
}

/* With what float64 itself loses on the way, here and where weights were made. */
static double rounding_squared(const rs_head *h)
{
    double own = 4 * DBL_EPSILON;
    return moved_by(&h->product->a, h->rows, h->norms_a, h->norms_b, h->inner) +
           moved_by(&h->product->b, h->cols, h->norms_b, h->norms_a, h->inner) +
           own * own * h->pair.trace_x * h->pair.trace_y;
}

/* ---- the room ---- */

/* Places in a thread's memory. m and n are the rows and columns of both products, r1 and r2 their inner
 * widths, w = r1 + r2. */
typedef struct places {
    int64_t m, n, r1, r2, w, most; /* most: the larger of r1 and r2 */
    int shift1, shift2;            /* A of a product is read times 2^-shift, B times 2^shift */
    double *stack_a, *stack_b;     /* [w, m], [w, n]: a unit is a row */
    double *factor;                /* [most, max(m, n)] */
    double *gram_a, *gram_b;       /* [w, w] */
    double *x1, *x2, *y1, *y2;     /* [r1, r1], [r2, r2] */
    double *cross_a, *cross_b;     /* [r1, r2] */
    rs_leading leading1, leading2; /* [r1, most], [r2, most] */
    double *sigma;                 /* [w + 1] */
    double *work;
} places;

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

static size_t place_all(places *p, double *memory)
{
    size_t m = (size_t)p->m, n = (size_t)p->n, r1 = (size_t)p->r1, r2 = (size_t)p->r2,
           w = (size_t)p->w, most = (size_t)p->most;
    size_t work = larger(2 * w * w, rs_leading_work(p->most, p->most));
    work = larger(work, larger(33 * most, most * most * 2));
    struct {
        double **at;
        size_t count;
    } all[] = {{&p->stack_a, m * w},
               {&p->stack_b, n * w},
               {&p->factor, larger(m, n) * most},
               {&p->gram_a, w * w},
               {&p->gram_b, w * w},
               {&p->x1, r1 * r1},
               {&p->x2, r2 * r2},
               {&p->y1, r1 * r1},
               {&p->y2, r2 * r2},
               {&p->cross_a, r1 * r2},
               {&p->cross_b, r1 * r2},
               {&p->leading1.left, r1 * most},
               {&p->leading1.right, r1 * most},
               {&p->leading2.left, r2 * most},
               {&p->leading2.right, r2 * most},
               {&p->sigma, w + 1},
               {&p->work, work}};
    size_t total = 0;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        if (memory) *all[i].at = memory + total;
        total += all[i].count;
    }
    return total;
}

/* The power of two that makes both factors about as long: W_Q c and W_K / c are as one where their
 * differences are taken. */
static int shift_of(const rs_head *h)
{
    double a = 0, b = 0;
    for (int64_t j = 0; j < h->inner; j++)
        a += h->norms_a[j], b += h->norms_b[j];
    double quarter = (log2(a) - log2(b)) / 4;
    return fabs(quarter) < 250 ? (int)floor(quarter + 0.5) : 0;
}

static places shape_of(const rs_head *a, const rs_head *b)
{
    return (places){.shift1 = shift_of(a),
                    .shift2 = shift_of(b),
                    .m = a->rows,
                    .n = a->cols,
                    .r1 = a->inner,
                    .r2 = b->inner,
                    .w = a->inner + b->inner,
                    .most = a->inner > b->inner ? a->inner : b->inner};
}

double rs_change_bytes(const rs_head *a, const rs_head *b)
{
    places p = shape_of(a, b);
    double m = (double)p.m, n = (double)p.n, q = fmin(m, n), dense = 0;
    if (p.w > p.m && p.w > p.n) dense = m * n + 2 * q * (m + n) + q + q * q;
    return ((double)place_all(&p, NULL) + dense) * sizeof(double);
}

static rs_status reserve(places *p, rs_change_room *room, rs_error *err)
{
    size_t count = place_all(p, NULL);
    if (count > room->capacity) {
        rs_free(room->values);
        room->capacity = 0;
        room->values = rs_malloc(count, sizeof *room->values);
        if (!room->values)
            return rs_fail_memory(err, "changes of products", count * sizeof *room->values);
        room->capacity = count;
    }
    place_all(p, room->values);
    return RS_OK;
}

void rs_change_room_close(rs_change_room *room)
{
    rs_free(room->values);
    *room = (rs_change_room){0};
}

/* ---- the stacks ---- */

/* out = first − second; whether there is any difference. */
static bool subtract(double *out, const double *first, const double *second, int64_t n)
{
    bool any = false;
    for (int64_t i = 0; i < n; i++) {
        out[i] = first[i] - second[i];
        any |= out[i] != 0;
    }
    return any;
}

/* What of the stacks has any numbers. */
typedef struct filled {
    bool differences; /* they are [A₁ − A₂, A₂] and [B₁, B₁ − B₂], not [A₁, −A₂] and [B₁, B₂] */
    bool a, b; /* A₁ − A₂, B₁ − B₂ are not zero */
} filled;

/* out: the factor's vectors, times 2^exponent. */
static rs_status read_shifted(double *out, const rs_factor *factor, int64_t length, rs_fold fold,
                              int exponent, rs_error *err)
{
    RS_TRY(rs_factor_read_vectors(out, factor, fold, err));
    for (int64_t i = 0; i < factor->inner * length && exponent; i++)
        out[i] = ldexp(out[i], exponent);
    return RS_OK;
}

static rs_status fill_stacks(filled *f, places *p, const rs_product *one, const rs_product *two,
                             rs_fold fold, rs_error *err)
{
    int64_t in_a = p->r1 * p->m, in_b = p->r1 * p->n; /* numbers of the first blocks */
    *f = (filled){p->r1 == p->r2, true, true};
    RS_TRY(read_shifted(p->stack_a + in_a, &two->a, p->m, fold, -p->shift2, err));
    RS_TRY(read_shifted(p->stack_b, &one->b, p->n, fold, p->shift1, err));
    if (f->differences) {
        RS_TRY(read_shifted(p->factor, &one->a, p->m, fold, -p->shift1, err));
        f->a = subtract(p->stack_a, p->factor, p->stack_a + in_a, in_a);
        RS_TRY(read_shifted(p->factor, &two->b, p->n, fold, p->shift2, err));
        f->b = subtract(p->stack_b + in_b, p->stack_b, p->factor, in_b);
        return RS_OK;
    }
    RS_TRY(read_shifted(p->stack_a, &one->a, p->m, fold, -p->shift1, err));
    RS_TRY(read_shifted(p->stack_b + in_b, &two->b, p->n, fold, p->shift2, err));
    cblas_dscal((blasint)(p->r2 * p->m), -1, p->stack_a + in_a, 1);
    return RS_OK;
}

static void gram_of(double *gram, const double *stack, int64_t length, int64_t w)
{
    memset(gram, 0, (size_t)(w * w) * sizeof *gram);
    rs_gram_add_rows(gram, stack, w, length, length);
    rs_gram_symmetrise(gram, w);
}

/* Copies the block of a Gram of the stack that begins at (row, column). */
static void block(double *out, const double *gram, int64_t w, int64_t row, int64_t column,
                  int64_t rows, int64_t columns)
{
    for (int64_t i = 0; i < rows; i++)
        memcpy(out + i * columns, gram + (row + i) * w + column, (size_t)columns * sizeof *out);
}

/* ---- the Grams of the four factors, from those of the stacks ---- */

/* Of a stack of E = F₁ − F₂ and F₂ at `base` (or, `first` being kept, of F₁ at `base` and E): the Gram of
 * the one that is not in it, and F₁ᵀF₂. r: both inner widths. */
static void other_grams(double *other, double *cross, const double *gram, int64_t w,
                        int64_t difference, int64_t base, bool first, int64_t r)
{
    double sign = first ? -1 : 1; /* F₂ = F₁ − E, F₁ = F₂ + E */
    for (int64_t i = 0; i < r; i++)
        for (int64_t j = 0; j < r; j++) {
            double own = gram[(base + i) * w + base + j],
                   between = gram[(difference + i) * w + base + j],   /* EᵀF */
                turned = gram[(base + i) * w + difference + j],       /* FᵀE */
                square = gram[(difference + i) * w + difference + j]; /* EᵀE */
            other[i * r + j] = own + sign * (between + turned) + square;
            cross[i * r + j] = first ? own - turned : own + between;
        }
}

/* The squared norms of the units, which scan took from the factor itself, tell whether the differences
 * cancelled. The Gram is of the factor times 2^exponent. */
static bool keeps_digits(const double *gram, const double *norms, int64_t r, int exponent)
{
    for (int64_t i = 0; i < r; i++) {
        double norm = ldexp(norms[i], 2 * exponent);
        if (!(fabs(gram[i * r + i] - norm) <= 1e-13 * norm)) return false;
    }
    return true;
}

static rs_status direct_gram(double *gram, places *p, const rs_factor *factor, int64_t length,
                             rs_fold fold, int exponent, rs_error *err)
{
    RS_TRY(read_shifted(p->factor, factor, length, fold, exponent, err));
    gram_of(gram, p->factor, length, factor->inner);
    return RS_OK;
}

static rs_status split_grams(places *p, const filled *f, const rs_head *a, const rs_head *b,
                             rs_fold fold, rs_error *err)
{
    int64_t w = p->w, r1 = p->r1, r2 = p->r2;
    if (!f->differences) {
        block(p->x1, p->gram_a, w, 0, 0, r1, r1);
        block(p->x2, p->gram_a, w, r1, r1, r2, r2);
        block(p->y1, p->gram_b, w, 0, 0, r1, r1);
        block(p->y2, p->gram_b, w, r1, r1, r2, r2);
        block(p->cross_a, p->gram_a, w, 0, r1, r1, r2);
        block(p->cross_b, p->gram_b, w, 0, r1, r1, r2);
        cblas_dscal((blasint)(r1 * r2), -1, p->cross_a, 1);
        return RS_OK;
    }
    block(p->x2, p->gram_a, w, r1, r1, r1, r1);
    block(p->y1, p->gram_b, w, 0, 0, r1, r1);
    other_grams(p->x1, p->cross_a, p->gram_a, w, 0, r1, false, r1);
    other_grams(p->y2, p->cross_b, p->gram_b, w, r1, 0, true, r1);
    if (!keeps_digits(p->x1, a->norms_a, r1, -p->shift1))
        RS_TRY(direct_gram(p->x1, p, &a->product->a, p->m, fold, -p->shift1, err));
    if (!keeps_digits(p->y2, b->norms_b, r1, p->shift2))
        RS_TRY(direct_gram(p->y2, p, &b->product->b, p->n, fold, p->shift2, err));
    return RS_OK;
}

/* ---- the spectrum of the change ---- */

/* The careful route wants a unit a column, and overwrites what it gets. */
static rs_status careful_spectrum(places *p, int64_t first, int64_t r, rs_error *err)
{
    int64_t m = p->m, n = p->n;
    double *a = rs_malloc((size_t)(m + n), (size_t)r * sizeof *a), *b = a ? a + m * r : NULL;
    if (!a)
        return rs_fail_memory(err, "changes of products", (size_t)(m + n) * (size_t)r * sizeof *a);
    for (int64_t j = 0; j < r; j++) {
        for (int64_t i = 0; i < m; i++)
            a[i * r + j] = p->stack_a[(first + j) * m + i];
        for (int64_t i = 0; i < n; i++)
            b[i * r + j] = p->stack_b[(first + j) * n + i];
    }
    rs_status status = rs_factor_spectrum(p->sigma, a, m, b, n, r, err);
    rs_free(a);
    return status;
}

/* Σσ² must be tr(XY) to this, relative. */
static const double CHECK = 1e-12;

/* From the Grams X and Y of the stacks: their triangles, the small product, its values (a half to a quarter
 * of the price of scan's route, whose smallest values are better: a change has no condition). *trusted:
 * the Grams carried them. */
static rs_status gram_spectrum(bool *trusted, places *p, const double *x, const double *y,
                               int64_t r, rs_error *err)
{
    size_t square = (size_t)(r * r);
    double *product = p->work, *other = p->work + square, sum = 0;
    memcpy(product, x, square * sizeof *x);
    memcpy(other, y, square * sizeof *y);
    *trusted = rs_gram_triangle(product, x, r) && rs_gram_triangle(other, y, r);
    if (!*trusted) return RS_OK;
    cblas_dtrmm(CblasRowMajor, CblasRight, CblasUpper, CblasTrans, CblasNonUnit, (blasint)r,
                (blasint)r, 1, other, (blasint)r, product, (blasint)r);
    RS_TRY(rs_matrix_spectrum(p->sigma, product, r, r, err));
    for (int64_t i = 0; i < r; i++)
        sum += p->sigma[i] * p->sigma[i];
    double trace = cblas_ddot((blasint)square, x, 1, y, 1);
    *trusted = fabs(trace - sum) <= CHECK * trace;
    return RS_OK;
}

/* Singular values of the change into p->sigma, *k of them. */
static rs_status change_spectrum(int64_t *k, places *p, const filled *f, rs_error *err)
{
    int64_t r = p->w, first = 0;
    bool trusted = false;
    if (f->differences && !(f->a && f->b)) { /* one term is left */
        r = p->r1;
        first = f->a ? 0 : p->r1;
    }
    *k = p->m < p->n ? p->m : p->n;
    if (r < *k) *k = r;
    if (r <= p->m && r <= p->n) {
        if (r < p->w) { /* x2 and y2 have served */
            block(p->x2, p->gram_a, p->w, first, first, r, r);
            block(p->y2, p->gram_b, p->w, first, first, r, r);
        }
        const double *x = r < p->w ? p->x2 : p->gram_a, *y = r < p->w ? p->y2 : p->gram_b;
        RS_TRY(gram_spectrum(&trusted, p, x, y, r, err));
    }
    return trusted ? RS_OK : careful_spectrum(p, first, r, err);
}

/* ---- the overlaps ---- */

/* A triangle of the factor whose Gram that is, in its place; *rows of it. Where the Gram cannot carry it
 * (or is wider than the factor is long), by a QR decomposition. */
static rs_status triangle(double *gram, int64_t *rows, places *p, const rs_factor *factor,
                          int64_t features, rs_fold fold, int exponent, rs_error *err)
{
    int64_t r = factor->inner;
    *rows = r;
    if (r <= features) {
        memcpy(p->work, gram, (size_t)(r * r) * sizeof *gram);
        if (rs_gram_triangle(p->work, gram, r)) {
            memcpy(gram, p->work, (size_t)(r * r) * sizeof *gram);
            return RS_OK;
        }
    }
    RS_TRY(read_shifted(p->factor, factor, features, fold, exponent, err));
    *rows = r < features ? r : features;
    return rs_factor_triangle(gram, p->factor, features, r, p->work, err);
}

static rs_status leading_of(const rs_leading *out, places *p, const rs_head *head, int shift,
                            double *x, double *y, rs_fold fold, int64_t k, rs_error *err)
{
    int64_t ka, kb;
    RS_TRY(triangle(x, &ka, p, &head->product->a, head->rows, fold, -shift, err));
    RS_TRY(triangle(y, &kb, p, &head->product->b, head->cols, fold, shift, err));
    return rs_leading_vectors(out, x, ka, y, kb, head->inner, k, p->work, err);
}

/* As many directions as were asked for, or as the first has of effective rank; no more than both have. */
static int64_t directions(const rs_head *a, const rs_head *b, int64_t asked)
{
    double rank = a->measures.effective_rank;
    int64_t k = asked > 0 ? asked : isnan(rank) ? 0 : (int64_t)ceil(rank * (1 - 1e-12));
    if (k > a->measures.numerical_rank) k = a->measures.numerical_rank;
    if (k > b->measures.numerical_rank) k = b->measures.numerical_rank;
    return k;
}

static rs_overlap_side overlap_beside_chance(double overlap, int64_t k, int64_t dimension)
{
    rs_overlap_chance chance = rs_overlap_by_chance(k, dimension);
    return (rs_overlap_side){fmin(overlap, 1), chance.mean, chance.spread};
}

static rs_status overlaps(rs_change *out, places *p, const rs_head *a, const rs_head *b,
                          rs_fold fold, rs_error *err)
{
    int64_t k = out->subspace;
    RS_TRY(leading_of(&p->leading1, p, a, p->shift1, p->x1, p->y1, fold, k, err));
    RS_TRY(leading_of(&p->leading2, p, b, p->shift2, p->x2, p->y2, fold, k, err));
    out->left = overlap_beside_chance(
        rs_overlap_of(p->leading1.left, p->cross_a, p->leading2.left, p->r1, p->r2, k, p->work), k,
        p->m);
    out->right = overlap_beside_chance(
        rs_overlap_of(p->leading1.right, p->cross_b, p->leading2.right, p->r1, p->r2, k, p->work),
        k, p->n);
    return RS_OK;
}

/* ---- a product that is smaller than its factors ---- */

/* A Bᵀ of r units of the stacks, from `first` on. */
static void multiply(double *out, const places *p, int64_t first, int64_t r)
{
    cblas_dgemm(CblasRowMajor, CblasTrans, CblasNoTrans, (blasint)p->m, (blasint)p->n, (blasint)r,
                1, p->stack_a + first * p->m, (blasint)p->m, p->stack_b + first * p->n,
                (blasint)p->n, 0, out, (blasint)p->n);
}

/* What four matrices [m, n] or [n, n] of a dense pair are: the change, both products' vectors. */
typedef struct dense {
    double *product, *left1, *right1, *left2, *right2, *sigma, *cosines;
} dense;

static double dense_overlap(double *cosines, const double *one, const double *two, bool by_rows,
                            int64_t length, int64_t q, int64_t k)
{
    if (by_rows) /* [q, length]: a vector a row */
        cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasTrans, (blasint)k, (blasint)k,
                    (blasint)length, 1, one, (blasint)length, two, (blasint)length, 0, cosines,
                    (blasint)k);
    else /* [length, q] */
        cblas_dgemm(CblasRowMajor, CblasTrans, CblasNoTrans, (blasint)k, (blasint)k,
                    (blasint)length, 1, one, (blasint)q, two, (blasint)q, 0, cosines, (blasint)k);
    double sum = 0;
    for (int64_t i = 0; i < k * k; i++)
        sum += cosines[i] * cosines[i];
    return sum / (double)k;
}

static rs_status dense_overlaps(rs_change *out, const places *p, const dense *d, rs_error *err)
{
    int64_t q = p->m < p->n ? p->m : p->n, k = out->subspace;
    multiply(d->product, p, 0, p->r1);
    RS_TRY(rs_singular_vectors(d->left1, d->right1, d->sigma, d->product, p->m, p->n, err));
    multiply(d->product, p, p->r1, p->r2); /* its sign turns vectors alone */
    RS_TRY(rs_singular_vectors(d->left2, d->right2, d->sigma, d->product, p->m, p->n, err));
    out->left = overlap_beside_chance(
        dense_overlap(d->cosines, d->left1, d->left2, false, p->m, q, k), k, p->m);
    out->right = overlap_beside_chance(
        dense_overlap(d->cosines, d->right1, d->right2, true, p->n, q, k), k, p->n);
    return RS_OK;
}

/* The stacks as [A₁, −A₂] and [B₁, B₂]. */
static void undo_differences(const places *p)
{
    double *one_a = p->stack_a, *two_a = one_a + p->r1 * p->m, *one_b = p->stack_b,
           *two_b = one_b + p->r1 * p->n;
    for (int64_t i = 0; i < p->r1 * p->m; i++) {
        one_a[i] += two_a[i];
        two_a[i] = -two_a[i];
    }
    for (int64_t i = 0; i < p->r1 * p->n; i++)
        two_b[i] = one_b[i] - two_b[i];
}

static rs_status dense_change(rs_change *out, int64_t *k, const places *p, const filled *f,
                              rs_error *err)
{
    size_t m = (size_t)p->m, n = (size_t)p->n, q = m < n ? m : n;
    size_t count = m * n + 2 * (m * q + q * n) + q + q * q;
    double *memory = rs_malloc(count, sizeof *memory);
    if (!memory) return rs_fail_memory(err, "changes of products", count * sizeof *memory);
    dense d = {.product = memory, .left1 = memory + m * n};
    d.left2 = d.left1 + m * q;
    d.right1 = d.left2 + m * q;
    d.right2 = d.right1 + q * n;
    d.sigma = d.right2 + q * n;
    d.cosines = d.sigma + q;
    *k = (int64_t)q;
    multiply(d.product, p, 0, p->w);
    rs_status status = rs_matrix_spectrum(p->sigma, d.product, p->m, p->n, err);
    if (f->differences) undo_differences(p);
    if (status == RS_OK && out->subspace > 0) status = dense_overlaps(out, p, &d, err);
    rs_free(memory);
    return status;
}

/* ---- a change ---- */

static rs_change no_change(void)
{
    const rs_overlap_side none = {NAN, NAN, NAN};
    return (rs_change){.norm = NAN,
                       .relative = NAN,
                       .floor = NAN,
                       .effective_rank = NAN,
                       .stable_rank = NAN,
                       .null = NAN,
                       .subspace = -1,
                       .left = none,
                       .right = none};
}

static void finish(rs_change *out, const rs_head *a, const rs_head *b, const double *sigma,
                   int64_t k, bool same)
{
    rs_measures measures;
    rs_measures_of(&measures, sigma, k, k, 0);
    out->norm = measures.frobenius_norm;
    out->relative = out->norm / a->measures.frobenius_norm;
    out->effective_rank = measures.effective_rank;
    out->stable_rank = measures.stable_rank;
    out->floor = sqrt(rounding_squared(a) + rounding_squared(b));
    out->moved = same                          ? RS_MOVED_SAME
                 : out->norm <= 2 * out->floor ? RS_MOVED_ROUNDING
                                               : RS_MOVED_CHANGED;
}

rs_status rs_change_measure(rs_change *out, const rs_head *a, const rs_head *b, rs_fold fold,
                            int64_t subspace, rs_change_room *room, rs_error *err)
{
    *out = no_change();
    if (!a || !b || !a->sigma || !b->sigma) return RS_OK;
    places p = shape_of(a, b);
    filled f;
    int64_t k = 0;
    RS_TRY(reserve(&p, room, err));
    RS_TRY(fill_stacks(&f, &p, a->product, b->product, fold, err));
    int64_t directions_of = directions(a, b, subspace);
    out->subspace = directions_of > 0 ? directions_of : -1;
    bool same = f.differences && !f.a && !f.b;
    if (p.w > p.m && p.w > p.n) {
        RS_TRY(dense_change(out, &k, &p, &f, err));
    } else {
        gram_of(p.gram_a, p.stack_a, p.m, p.w);
        gram_of(p.gram_b, p.stack_b, p.n, p.w);
        RS_TRY(split_grams(&p, &f, a, b, fold, err));
        if (out->subspace > 0) RS_TRY(overlaps(out, &p, a, b, fold, err));
        if (!same) RS_TRY(change_spectrum(&k, &p, &f, err));
    }
    if (same) k = 0;
    finish(out, a, b, p.sigma, k, same);
    return RS_OK;
}
