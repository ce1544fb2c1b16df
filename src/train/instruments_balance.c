/*
 * instruments_balance.c: the laws by which a step moves Q = AᵀA − BᵀB, held against the step that was
 * made (docs/train.md, Instruments).
 *
 * With η the rate, λ the decay, G the gradients of the loss behind clipping, A' and Q' behind the
 * step:
 *
 *   gradient   Q' = (1 − ηλ)² Q + η² (G_AᵀG_A − G_BᵀG_B)
 *   momentum   Q' = Q − η S' + η² K',  S' = β S + 2λ Q,  K' = m_A'ᵀm_A' − m_B'ᵀm_B',
 *              S = Aᵀm_A + m_AᵀA − Bᵀm_B − m_BᵀB of the momenta in front of the step
 *   update     (A' + ηU_A)ᵀ(A' + ηU_A) − (B' + ηU_B)ᵀ(B' + ηU_B) = κ_A² X − κ_B² Y,
 *              κ = 1 − ηλ, or 1 where decay is part of the gradient; U from the optimiser's state
 *
 * The first two say more: that AᵀG_A and BᵀG_B are transposes of each other, as they are where the
 * loss depends on ABᵀ alone, and the two factors have one rate and one decay. The last holds for any
 * gradients; it is Q' = κ² Q − ηκ (C + Cᵀ) + η² (U_AᵀU_A − U_BᵀU_B), C = AᵀU_A − U_BᵀB, with what is
 * known behind the step.
 */
#include "train/instruments_parts.h"

#include "base/memory.h"
#include "linalg/blas.h"
#include "linalg/threads.h"
#include "linalg/vector.h"

#include <math.h>
#include <string.h>

/* Which arrays of an item are multiplied. */
typedef enum array {
    WEIGHT,
    GRADIENT, /* behind clipping */
    FIRST,    /* the optimiser's first state */
    UNDONE    /* A' + ηU */
} array;

typedef enum law { LAW_NONE, LAW_GRADIENT, LAW_MOMENTUM, LAW_UPDATE } law;

static const char *const names[] = {NULL, "gradient", "momentum", "update"};

static const rs_trained *item_of(const rs_instruments *i, int64_t factor)
{
    return &i->learner->trained.items[i->factors[factor].item];
}

static law law_of(const rs_instruments *i, const rs_watched_product *p)
{
    if (p->b < 0) return LAW_NONE;
    const rs_trained *a = item_of(i, p->a), *b = item_of(i, p->b);
    bool alike = !a->frozen && !b->frozen && a->rate == b->rate && a->decay == b->decay;
    bool each = !isinf(i->learner->settings->clip_each);
    rs_optimiser_kind kind = i->learner->settings->rule.kind;
    if (!p->alone || !alike || each) return LAW_UPDATE;
    if (kind == RS_OPTIMISER_SGD) return LAW_GRADIENT;
    return kind == RS_OPTIMISER_HEAVY_BALL ? LAW_MOMENTUM : LAW_UPDATE;
}

/* ---- opening ---- */

double rs_instruments_balance_cost(const rs_instruments *i)
{
    double sum = 0;
    for (size_t f = 0; f < i->n_factors; f++) {
        const rs_factor *factor = &i->factors[f].factor;
        sum += (double)factor->features * (double)factor->inner * (double)factor->inner;
    }
    return sum;
}

rs_status rs_instruments_balance_open(rs_instruments *i, rs_error *err)
{
    if (i->laws) return RS_OK;
    size_t total = 1, each = 2 * (size_t)i->largest_factor;
    for (size_t p = 0; p < i->n_products; p++)
        total += 2 * (size_t)(i->products[p].inner * i->products[p].inner);
    i->laws = rs_malloc(total, sizeof *i->laws);
    if (!i->laws) return rs_fail_memory(err, "laws of balance", total * sizeof *i->laws);
    double *next = i->laws;
    for (size_t p = 0; p < i->n_products; p++) {
        int64_t square = i->products[p].inner * i->products[p].inner;
        i->products[p].difference = next;
        i->products[p].momentum = next + square;
        next += 2 * square;
    }
    for (int t = 0; t < i->context->threads; t++) {
        i->scratch[t].tiles = rs_malloc(each + 1, sizeof *i->laws);
        i->scratch[t].squares =
            rs_malloc(2 * (size_t)(i->largest * i->largest) + 1, sizeof *i->laws);
        if (!i->scratch[t].tiles || !i->scratch[t].squares)
            return rs_fail_memory(err, "laws of balance", each * sizeof *i->laws);
    }
    return RS_OK;
}

void rs_instruments_balance_close(rs_instruments *i)
{
    for (int t = 0; i->scratch && t < i->context->threads; t++) {
        rs_free(i->scratch[t].tiles);
        rs_free(i->scratch[t].squares);
    }
    rs_free(i->laws);
}

/* ---- numbers of a factor ---- */

static void decode(double *out, const rs_trained_list *list, const void *numbers, int64_t first,
                   int64_t n)
{
    if (list->size == sizeof(float))
        rs_widen(out, (const float *)numbers + first, n);
    else
        memcpy(out, (const double *)numbers + first, (size_t)n * sizeof *out);
}

/* An item's arrays, and what turns the optimiser's state into U. */
typedef struct source {
    const rs_trained_list *list;
    const rs_trained *item;
    const rs_optimiser *optimiser;
    int64_t of; /* the item's number there */
    const void *first, *second;
    double scale, rate, mean, root, eps;
} source;

static source source_of(const rs_instruments *i, int64_t item)
{
    const rs_learner *l = i->learner;
    const rs_optimiser_rule *rule = &l->settings->rule;
    double t = (double)*rs_optimiser_steps(l->optimiser);
    return (source){.list = &l->trained,
                    .item = &l->trained.items[item],
                    .optimiser = l->optimiser,
                    .of = item,
                    .first = rs_optimiser_state(l->optimiser, item, 0),
                    .second = rs_optimiser_state(l->optimiser, item, 1),
                    .scale = i->changes[item].scale,
                    .rate = i->changes[item].rate,
                    .mean = 1 - pow(rule->betas[0], t),
                    .root = sqrt(1 - pow(rule->betas[1], t)),
                    .eps = rule->eps};
}

/* out += rate U, of at most UNDO numbers. */
enum { UNDO = 256 };
static void undo_step(double *out, const source *s, int64_t first, int64_t n)
{
    double u[UNDO];
    if (s->second) {
        /* (m / mean) / (sqrt(v) / root + eps), with one division a number */
        rs_optimiser_add_direction(out, s->optimiser, s->of, first, n, s->rate * s->root / s->mean,
                                   s->eps * s->root);
        return;
    }
    decode(u, s->list, s->first ? s->first : s->item->gradient, first, n);
    double factor = s->rate * (s->first ? 1 : s->scale);
    for (int64_t k = 0; k < n; k++)
        out[k] += factor * u[k];
}

/* Stretch [first, first + n) of an array. */
static void read_stretch(double *out, const source *s, array which, int64_t first, int64_t n)
{
    const void *from = which == GRADIENT ? s->item->gradient
                       : which == FIRST  ? s->first
                                         : s->item->weight;
    decode(out, s->list, from, first, n);
    for (int64_t k = 0; k < n && which == GRADIENT; k++)
        out[k] *= s->scale;
    for (int64_t k = 0; k < n && which == UNDONE && !s->item->frozen; k += UNDO)
        undo_step(out + k, s, first + k, n - k < UNDO ? n - k : UNDO);
}

/* The factor's part of that array: [inner, features] where its vectors are rows, [features, inner]
 * where they are columns. */
static void read_part(double *out, const rs_instruments *i, const rs_watched_factor *f, array which)
{
    const rs_factor *of = &f->factor;
    const source s = source_of(i, f->item);
    if (of->vector_is_row) {
        read_stretch(out, &s, which, of->first * of->cols, of->inner * of->cols);
        return;
    }
    for (int64_t row = 0; row < of->rows; row++)
        read_stretch(out + row * of->inner, &s, which, row * of->cols + of->first, of->inner);
}

/* out = FᵀF of an array of the factor, both triangles. */
static void square_of(double *out, const rs_instruments *i, const rs_watched_factor *f, array which,
                      rs_instrument_scratch *s)
{
    int64_t r = f->factor.inner, n = f->factor.features;
    read_part(s->tiles, i, f, which);
    memset(out, 0, (size_t)(r * r) * sizeof *out);
    if (f->factor.vector_is_row)
        rs_gram_add_rows(out, s->tiles, r, n, n);
    else
        rs_gram_add_cols(out, s->tiles, n, r, r);
    rs_gram_symmetrise(out, r);
}

/* out = WᵀM + MᵀW of the weights and their momenta. */
static void cross_of(double *out, const rs_instruments *i, const rs_watched_factor *f,
                     rs_instrument_scratch *s)
{
    int64_t r = f->factor.inner, n = f->factor.features;
    double *other = s->tiles + i->largest_factor;
    bool rows = f->factor.vector_is_row;
    read_part(s->tiles, i, f, WEIGHT);
    read_part(other, i, f, FIRST);
    memset(out, 0, (size_t)(r * r) * sizeof *out);
    if (r > 0 && n > 0)
        cblas_dsyr2k(CblasRowMajor, CblasUpper, rows ? CblasNoTrans : CblasTrans, (blasint)r,
                     (blasint)n, 1, s->tiles, (blasint)(rows ? n : r), other,
                     (blasint)(rows ? n : r), 0, out, (blasint)r);
    rs_gram_symmetrise(out, r);
}

/* ---- around a step ---- */

/* How far is kept of A, or of B, of (1 - rate decay): what decoupled decay leaves. */
static double kept_of(const rs_instruments *i, int64_t factor)
{
    const rs_trained *of = item_of(i, factor);
    rs_optimiser_kind kind = i->learner->settings->rule.kind;
    bool apart = kind == RS_OPTIMISER_SGD || kind == RS_OPTIMISER_ADAMW;
    if (of->frozen || !apart) return 1;
    return 1 - i->changes[i->factors[factor].item].rate * of->decay;
}

static void difference_of(double *out, const double *x, const double *y, int64_t n)
{
    for (int64_t k = 0; k < n; k++)
        out[k] = x[k] - y[k];
}

static void look_before(rs_instruments *i, rs_watched_product *p, rs_instrument_scratch *s)
{
    const rs_watched_factor *a = &i->factors[p->a], *b = &i->factors[p->b];
    int64_t n = p->inner * p->inner;
    difference_of(p->difference, a->gram, b->gram, n);
    if (law_of(i, p) != LAW_MOMENTUM) return;
    cross_of(s->squares, i, a, s);
    cross_of(s->squares + n, i, b, s);
    difference_of(p->momentum, s->squares, s->squares + n, n);
}

rs_status rs_instruments_balance_before(rs_instruments *i, rs_error *err)
{
    RS_TRY(rs_instruments_balance_open(i, err));
#pragma omp parallel for num_threads(i->context->threads) schedule(dynamic)
    for (size_t p = 0; p < i->n_products; p++)
        if (i->products[p].b >= 0) look_before(i, &i->products[p], &i->scratch[rs_thread_number()]);
    return RS_OK;
}

/* x - y of an array of both factors. */
static const double *balance_of(const rs_instruments *i, const rs_watched_product *p, array which,
                                rs_instrument_scratch *s)
{
    int64_t n = p->inner * p->inner;
    square_of(s->squares, i, &i->factors[p->a], which, s);
    square_of(s->squares + n, i, &i->factors[p->b], which, s);
    difference_of(s->squares, s->squares, s->squares + n, n);
    return s->squares;
}

/* |what the law leaves unexplained|, by adding up terms in the place of Q. */
static double residual_of(const rs_instruments *i, const rs_watched_product *p, law which,
                          rs_instrument_scratch *s)
{
    int64_t n = p->inner * p->inner;
    const rs_trained *of = item_of(i, p->a);
    const double *x = i->factors[p->a].gram, *y = i->factors[p->b].gram, *term;
    double rate = i->changes[i->factors[p->a].item].rate,
           beta = i->learner->settings->rule.betas[0];
    double keep = kept_of(i, p->a), other = kept_of(i, p->b), *q = p->difference;
    for (int64_t k = 0; k < n; k++) {
        if (which == LAW_GRADIENT) q[k] *= keep * keep;
        if (which == LAW_MOMENTUM) q[k] -= rate * (beta * p->momentum[k] + 2 * of->decay * q[k]);
        if (which == LAW_UPDATE) q[k] = keep * keep * x[k] - other * other * y[k];
    }
    if (which != LAW_UPDATE) {
        term = balance_of(i, p, which == LAW_GRADIENT ? GRADIENT : FIRST, s);
        for (int64_t k = 0; k < n; k++)
            q[k] += rate * rate * term[k];
    }
    term = balance_of(i, p, which == LAW_UPDATE ? UNDONE : WEIGHT, s);
    return sqrt(rs_distance_squared(term, q, n));
}

rs_status rs_instruments_balance_after(rs_instruments *i, rs_error *err)
{
    (void)err;
#pragma omp parallel for num_threads(i->context->threads) schedule(dynamic)
    for (size_t k = 0; k < i->n_products; k++) {
        const rs_watched_product *p = &i->products[k];
        law which = law_of(i, p);
        if (which == LAW_NONE) continue;
        double size = p->pair.norm_x + p->pair.norm_y;
        double residual = residual_of(i, p, which, &i->scratch[rs_thread_number()]);
        i->ranks[k].balance_law = names[which];
        i->ranks[k].balance_residual = size > 0 ? residual / size : NAN;
    }
    return RS_OK;
}
