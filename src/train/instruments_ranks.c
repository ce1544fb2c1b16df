/*
 * instruments_ranks.c: the rows of table ranks: Grams of all factors, then the spectra of all
 * products, several side by side (docs/theory/products.md, 6).
 *
 * Unlike scan it needs no digits of the smallest singular values, and no bracket of the gap: what
 * the Grams' Cholesky factors say is enough, unless a pivot or the trace says otherwise.
 */
#include "train/instruments_parts.h"

#include "base/memory.h"
#include "linalg/measures.h"
#include "linalg/spectrum.h"
#include "linalg/threads.h"

#include <math.h>
#include <string.h>

/* Agreement of tr(XY) with the sum of squares, relative to |X| |Y|. */
static const double CHECK = 1e-12;
/* So many features are a limit in which a factor's Gram is a multiple of the identity: the null of a
 * product with it is that of the other factor alone. */
static const int64_t MANY = (int64_t)1 << 52;

/* Factors that are read together, at most. */
enum { BUNDLE = 64 };

/* ---- opening ---- */

static size_t bundle_of(const rs_instruments *i, size_t first)
{
    const rs_factor *factors[BUNDLE];
    size_t n = i->n_factors - first < BUNDLE ? i->n_factors - first : BUNDLE;
    for (size_t k = 0; k < n; k++)
        factors[k] = &i->factors[first + k].factor;
    return rs_factor_bundle(factors, n);
}

static rs_status place_numbers(rs_instruments *i, rs_error *err)
{
    size_t total = 0;
    for (size_t f = 0; f < i->n_factors; f++) {
        const rs_factor *factor = &i->factors[f].factor;
        total += (size_t)(factor->inner * factor->inner);
        if (factor->inner > i->largest) i->largest = factor->inner;
        if (factor->inner * factor->features > i->largest_factor)
            i->largest_factor = factor->inner * factor->features;
    }
    for (size_t p = 0; p < i->n_products; p++)
        total += (size_t)i->products[p].inner;
    i->numbers = rs_calloc(total + 1, sizeof *i->numbers);
    if (!i->numbers) return rs_fail_memory(err, "Gram matrices", total * sizeof *i->numbers);
    double *next = i->numbers;
    for (size_t f = 0; f < i->n_factors; f++) {
        i->factors[f].gram = next;
        next += i->factors[f].factor.inner * i->factors[f].factor.inner;
    }
    for (size_t f = 0; f < i->n_factors; f += i->factors[f].bundle)
        i->factors[f].bundle = bundle_of(i, f);
    for (size_t p = 0; p < i->n_products; p++) {
        i->products[p].sigma = next;
        next += i->products[p].inner;
    }
    return RS_OK;
}

static int64_t features_of(const rs_instruments *i, int64_t factor)
{
    return i->factors[factor].factor.features;
}

static rs_status set_null(rs_instruments *i, rs_watched_product *p, rs_error *err)
{
    int64_t rows = features_of(i, p->a), cols = p->b < 0 ? MANY : features_of(i, p->b);
    p->k = rows < cols ? rows : cols;
    if (p->inner < p->k) p->k = p->inner;
    return rs_null_cache_get(&p->null, &i->nulls, rows, cols, p->inner, i->context->seed, err);
}

rs_status rs_instruments_ranks_open(rs_instruments *i, rs_error *err)
{
    RS_TRY(place_numbers(i, err));
    for (size_t p = 0; p < i->n_products; p++)
        RS_TRY(set_null(i, &i->products[p], err));
    i->ranks = rs_calloc(i->n_products + 1, sizeof *i->ranks);
    i->scratch = rs_calloc((size_t)i->context->threads, sizeof *i->scratch);
    if (!i->ranks || !i->scratch) return rs_fail_memory(err, "head products", 0);
    size_t work = rs_gram_work(i->largest), square = (size_t)(i->largest * i->largest);
    for (int t = 0; t < i->context->threads; t++) {
        rs_instrument_scratch *s = &i->scratch[t];
        s->work = rs_malloc(work + square, sizeof *s->work);
        s->vectors = rs_malloc(RS_PRODUCTS_AT_ONCE * (size_t)i->largest, sizeof *s->vectors);
        s->together.room = rs_malloc(rs_squares_room(i->largest), sizeof(double));
        if (!s->work || !s->vectors || !s->together.room)
            return rs_fail_memory(err, "head products", (work + square) * sizeof *s->work);
    }
    return RS_OK;
}

void rs_instruments_ranks_close(rs_instruments *i)
{
    for (int t = 0; i->scratch && t < i->context->threads; t++) {
        rs_free(i->scratch[t].tile.values);
        rs_free(i->scratch[t].work);
        rs_free(i->scratch[t].vectors);
        rs_free(i->scratch[t].together.room);
    }
    rs_free(i->scratch);
    rs_free(i->ranks);
    rs_free(i->numbers);
    rs_null_cache_close(&i->nulls);
}

/* ---- Grams ---- */

/* The Grams of at most BUNDLE factors from number `first` on that are read together. */
static rs_status fill_bundle(rs_instruments *i, size_t first, size_t n, rs_tile *tile,
                             rs_error *err)
{
    const rs_factor *factors[BUNDLE] = {NULL};
    double *grams[BUNDLE] = {NULL};
    bool fragile[BUNDLE];
    for (size_t k = 0; k < n; k++) {
        factors[k] = &i->factors[first + k].factor;
        grams[k] = i->factors[first + k].gram;
    }
    RS_TRY(rs_factor_grams(grams, fragile, factors, n, (rs_fold){0}, tile, err));
    for (size_t k = 0; k < n; k++) {
        rs_watched_factor *f = &i->factors[first + k];
        double largest = 0;
        for (int64_t j = 0; j < f->factor.inner; j++)
            largest = fmax(largest, f->gram[j * f->factor.inner + j]);
        f->fragile = fragile[k];
        f->usable = rs_gram_finite(f->gram, f->factor.inner) && largest <= 1e140;
    }
    return RS_OK;
}

rs_status rs_instruments_grams(rs_instruments *i, rs_error *err)
{
    rs_status kept = RS_OK;
    rs_error kept_error = {0};
#pragma omp parallel for schedule(dynamic) num_threads(i->context->threads)
    for (size_t f = 0; f < i->n_factors; f++) {
        rs_error error = {0};
        if (i->factors[f].bundle == 0) continue;
        rs_status status =
            fill_bundle(i, f, i->factors[f].bundle, &i->scratch[rs_thread_number()].tile, &error);
        rs_keep_first(&kept, &kept_error, status, &error);
    }
    if (kept != RS_OK && err) *err = kept_error;
    return kept;
}

/* ---- spectra ---- */

/* The other Gram of a product; of a factor alone the identity, made in `room`. */
static const double *second_gram(const rs_instruments *i, const rs_watched_product *p, double *room)
{
    if (p->b >= 0) return i->factors[p->b].gram;
    memset(room, 0, (size_t)(p->inner * p->inner) * sizeof *room);
    for (int64_t j = 0; j < p->inner; j++)
        room[j * p->inner + j] = 1;
    return room;
}

/* From the factors themselves, where their Grams lost what is small. */
static rs_status careful_spectrum(const rs_instruments *i, const rs_watched_product *p,
                                  rs_error *err)
{
    const rs_factor *a = &i->factors[p->a].factor;
    const rs_factor *b = p->b < 0 ? NULL : &i->factors[p->b].factor;
    int64_t r = p->inner, m = a->features, n = b ? b->features : r;
    double *left = rs_malloc((size_t)(m * r), sizeof *left),
           *right = rs_calloc((size_t)(n * r), sizeof *right);
    rs_status status = left && right ? rs_factor_read(left, a, (rs_fold){0}, err)
                                     : rs_fail_memory(err, a->tensor->name, 0);
    if (status == RS_OK && b) status = rs_factor_read(right, b, (rs_fold){0}, err);
    for (int64_t j = 0; status == RS_OK && !b && j < r; j++)
        right[j * r + j] = 1;
    if (status == RS_OK) status = rs_factor_spectrum(p->sigma, left, m, right, n, r, err);
    rs_free(left);
    rs_free(right);
    return status;
}

static bool is_usable(const rs_instruments *i, const rs_watched_product *p)
{
    return i->factors[p->a].usable && (p->b < 0 || i->factors[p->b].usable);
}

static bool agrees(const rs_watched_product *p)
{
    double sum = 0;
    for (int64_t j = 0; j < p->inner; j++)
        sum += p->sigma[j] * p->sigma[j];
    return fabs(sum - p->pair.trace_xy) <= CHECK * p->pair.norm_x * p->pair.norm_y;
}

/* Products [first, first + n). */
static rs_status find_spectra(rs_instruments *i, size_t first, size_t n, rs_instrument_scratch *s,
                              rs_error *err)
{
    rs_bidiagonal items[RS_PRODUCTS_AT_ONCE];
    bool trusted[RS_PRODUCTS_AT_ONCE] = {false};
    double *room = s->work + rs_gram_work(i->largest);
    for (size_t k = 0; k < n; k++) {
        rs_watched_product *p = &i->products[first + k];
        items[k] = (rs_bidiagonal){.d = p->sigma, .e = s->vectors + (int64_t)k * i->largest};
        if (!is_usable(i, p)) continue;
        const double *x = i->factors[p->a].gram, *y = second_gram(i, p, room);
        rs_gram_compare(&p->pair, x, y, p->inner);
        if (p->k < p->inner || i->factors[p->a].fragile) continue;
        items[k].n = p->inner;
        RS_TRY(rs_gram_bidiagonal(&items[k], &s->together, &trusted[k], x, y, s->work, err));
    }
    rs_squares_finish(&s->together);
    RS_TRY(rs_bidiagonal_values(items, n, s->work, err));
    for (size_t k = 0; k < n; k++) {
        rs_watched_product *p = &i->products[first + k];
        if (is_usable(i, p) && !(trusted[k] && agrees(p))) RS_TRY(careful_spectrum(i, p, err));
    }
    return RS_OK;
}

/* ---- rows ---- */

static const char *const names[] = {
    [RS_PRODUCT_QK] = "qk", [RS_PRODUCT_OV] = "ov", [RS_PRODUCT_CB] = "cb", [RS_PRODUCT_IO] = "io"};

static rs_rank_row row_without_numbers(const rs_instruments *i, const rs_watched_product *p)
{
    return (rs_rank_row){.step = i->step,
                         .layer = p->layer,
                         .head = p->head,
                         .product = names[p->kind],
                         .inner = p->inner,
                         .pseudo_rank = NAN,
                         .pseudo_rank_null = p->null->pseudo_rank,
                         .pseudo_count = NAN,
                         .effective_rank = NAN,
                         .effective_rank_null = p->null->effective_rank,
                         .stable_rank = NAN,
                         .stable_rank_null = p->null->stable_rank,
                         .q_norm = NAN,
                         .q_relative = NAN,
                         .half_norm = NAN,
                         .nuclear_norm = NAN,
                         .gap = NAN,
                         .balance_score = NAN,
                         .contraction = NAN,
                         .contraction_expected = NAN,
                         .balance_residual = NAN};
}

static void set_pair(rs_rank_row *row, const rs_watched_product *p)
{
    const rs_gram_pair *pair = &p->pair;
    row->q_norm = pair->norm_q;
    double size = sqrt(pair->norm_x * pair->norm_y);
    if (size > 0) row->q_relative = pair->norm_q / size;
    row->half_norm = pair->half_norm;
    row->gap = fmax(pair->half_norm - row->nuclear_norm, 0);
    row->balance_score = pair->balance_score;
}

static void set_row(rs_rank_row *row, const rs_instruments *i, const rs_watched_product *p)
{
    *row = row_without_numbers(i, p);
    if (!is_usable(i, p)) return;
    rs_measures measures;
    rs_measures_of(&measures, p->sigma, p->k, p->inner, 0);
    row->nuclear_norm = measures.nuclear_norm;
    row->pseudo_rank = measures.pseudo_rank;
    row->pseudo_count = measures.pseudo_rank * (double)p->inner;
    row->effective_rank = measures.effective_rank;
    row->stable_rank = measures.stable_rank;
    if (p->b >= 0) set_pair(row, p);
}

rs_status rs_instruments_ranks(rs_instruments *i, rs_error *err)
{
    rs_status kept = RS_OK;
    rs_error kept_error = {0};
    /* half of them where some thread would have nothing to do */
    size_t all = (size_t)i->context->threads * RS_PRODUCTS_AT_ONCE;
    size_t at_once = i->n_products < all ? RS_PRODUCTS_AT_ONCE / 2 : RS_PRODUCTS_AT_ONCE;
#pragma omp parallel for num_threads(i->context->threads) schedule(dynamic)
    for (size_t p = 0; p < i->n_products; p += at_once) {
        size_t left = i->n_products - p;
        size_t n = left < at_once ? left : at_once;
        rs_error error = {0};
        rs_status status = find_spectra(i, p, n, &i->scratch[rs_thread_number()], &error);
        rs_keep_first(&kept, &kept_error, status, &error);
        for (size_t k = p; k < p + n && status == RS_OK; k++)
            set_row(&i->ranks[k], i, &i->products[k]);
    }
    if (kept != RS_OK && err) *err = kept_error;
    return kept;
}

/* ---- what decay does to Q ---- */

/* What a unit of the schedule's rate takes off ln |Q|, over both factors; NaN where no law says. */
static double decay_of(const rs_instruments *i, const rs_watched_product *p)
{
    const rs_optimiser_rule *rule = &i->learner->settings->rule;
    if (p->b < 0 || rule->kind == RS_OPTIMISER_ADAM) return NAN;
    const rs_trained *items = i->learner->trained.items;
    const rs_trained *a = &items[i->factors[p->a].item], *b = &items[i->factors[p->b].item];
    double sum = (a->frozen ? 0 : a->rate * a->decay) + (b->frozen ? 0 : b->rate * b->decay);
    return rule->kind == RS_OPTIMISER_HEAVY_BALL ? sum / (1 - rule->betas[0]) : sum;
}

void rs_instruments_contract(rs_instruments *i)
{
    for (size_t k = 0; k < i->n_products; k++) {
        rs_watched_product *p = &i->products[k];
        rs_rank_row *row = &i->ranks[k];
        if (isnan(p->first_norm)) p->first_norm = row->q_norm;
        row->contraction = row->q_norm / p->first_norm;
        row->contraction_expected = exp(-i->rates * decay_of(i, p));
    }
}
