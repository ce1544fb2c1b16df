/*
 * heads.c: from a list of products to their measures.
 *
 * Products are taken some layers at a time, as many as their Grams have room in a cache. The
 * distinct factors of a layer (grouped keys recur) are turned into Grams in parallel, one task a
 * factor or a bundle of neighbouring columns; then every product becomes one small SVD, again in
 * parallel. BLAS runs single-threaded inside.
 */
#include "scan/heads.h"

#include "base/memory.h"
#include "linalg/spectrum.h"
#include "scan/heads_batch.h"

#include <math.h>
#include <string.h>

/* Numbers in the Grams of a batch that takes more than one layer: 32 MiB. */
static const double MOST_NUMBERS = 1 << 22;

/* ---- the factors of a batch ---- */

static size_t slot_of(rs_heads_batch *b, const rs_factor *factor, int32_t layer)
{
    for (size_t i = b->n_slots; i-- > b->layer_slots;)
        if (rs_factor_same(b->slots[i].factor, factor)) return i;
    b->slots[b->n_slots] = (rs_factor_slot){.factor = factor, .layer = layer};
    return b->n_slots++;
}

static rs_status reserve_batch(rs_heads_batch *b, size_t n_products, rs_error *err)
{
    size_t n = 2 * n_products;
    b->slots = rs_calloc(n, sizeof *b->slots);
    b->factors = rs_calloc(n, sizeof *b->factors);
    b->grams = rs_calloc(n, sizeof *b->grams);
    b->fragile = rs_calloc(n, sizeof *b->fragile);
    b->pairs = rs_calloc(n, sizeof *b->pairs);
    if (!b->slots || !b->factors || !b->grams || !b->fragile || !b->pairs)
        return rs_fail_memory(err, "head products", n * sizeof *b->slots);
    return RS_OK;
}

static void release_batch(rs_heads_batch *b, const rs_context *context)
{
    rs_free(b->slots);
    rs_free(b->factors);
    rs_free(b->grams);
    rs_free(b->fragile);
    rs_free(b->pairs);
    rs_kept_give(context->kept, b->memory);
}

static rs_status place_grams(rs_heads_batch *b, const rs_context *context, rs_error *err)
{
    size_t total = 0;
    for (size_t i = 0; i < b->n_slots; i++) {
        size_t r = (size_t)b->slots[i].factor->inner, square;
        if (!rs_size_mul(r, r, &square) || !rs_size_add(total, square, &total) || r > INT32_MAX)
            return rs_fail(err, RS_E_UNSUPPORTED, b->slots[i].factor->tensor->name, NULL,
                           "a head of width %zu is too wide", r);
        if (r > b->largest) b->largest = r;
    }
    rs_budget budget = {0};
    rs_budget_add(&budget, "Gram matrices", (double)total * sizeof *b->memory);
    RS_TRY(rs_budget_check(&budget, context->memory, "heads of a layer",
                           "say how much it may take: --memory SIZE", err));
    size_t bytes = SIZE_MAX;
    if (rs_size_mul(total, sizeof *b->memory, &bytes))
        b->memory = rs_kept_take(context->kept, bytes);
    if (!b->memory) return rs_fail_memory(err, "Gram matrices", bytes);
    double *next = b->memory;
    for (size_t i = 0; i < b->n_slots; i++) {
        rs_factor_slot *s = &b->slots[i];
        s->gram = b->grams[i] = next;
        b->factors[i] = s->factor;
        next += (size_t)s->factor->inner * (size_t)s->factor->inner;
    }
    return RS_OK;
}

/* The squares of a Gram's entries, and products of two Grams, must stay in the double range:
 * weights between 1e-70 and 1e70. Only float64 tensors can leave it. A Gram of zeros is fine when
 * the weights are zeros. */
static rs_status judge_slot(rs_factor_slot *s, rs_error *err)
{
    int64_t r = s->factor->inner;
    double largest = 0;
    for (int64_t i = 0; i < r; i++)
        largest = fmax(largest, s->gram[i * r + i]);
    s->usable = rs_gram_finite(s->gram, r) && largest <= 1e140;
    if (!s->usable || largest >= 1e-140 || s->factor->tensor->dtype != RS_F64) return RS_OK;
    rs_factor_census census;
    RS_TRY(rs_factor_examine(&census, s->factor, err));
    s->usable = census.largest == 0;
    return RS_OK;
}

/* The Grams of the slots [i, i + n), which are a bundle. */
static rs_status fill_bundle(rs_heads_batch *b, size_t i, size_t n, rs_tile *tile, rs_error *err)
{
    RS_TRY(rs_factor_grams(b->grams + i, b->fragile + i, b->factors + i, n, b->options->fold, tile,
                           err));
    for (size_t j = i; j < i + n; j++) {
        rs_factor_slot *s = &b->slots[j];
        s->fragile = b->fragile[j];
        s->step_squared = rs_factor_step_squared(s->factor);
        RS_TRY(judge_slot(s, err));
    }
    return RS_OK;
}

static rs_status fill_grams(rs_heads_batch *b, const rs_context *context, rs_error *err)
{
    size_t *starts = rs_malloc(b->n_slots + 1, sizeof *starts), n_tasks = 0;
    if (!starts) return rs_fail_memory(err, "head products", (b->n_slots + 1) * sizeof *starts);
    for (size_t i = 0; i < b->n_slots; n_tasks++) {
        starts[n_tasks] = i;
        i += rs_factor_bundle(b->factors + i, b->n_slots - i);
    }
    starts[n_tasks] = b->n_slots;
    rs_status kept = RS_OK;
    rs_error kept_error = {0};
#pragma omp parallel num_threads(context->threads)
    {
        rs_tile tile = {0};
#pragma omp for schedule(dynamic)
        for (size_t t = 0; t < n_tasks; t++) {
            if (rs_cancelled(context)) continue;
            rs_error error;
            rs_status status = fill_bundle(b, starts[t], starts[t + 1] - starts[t], &tile, &error);
            rs_keep_first(&kept, &kept_error, status, &error);
        }
        rs_free(tile.values);
    }
    rs_free(starts);
    if (kept != RS_OK && err) *err = kept_error;
    return kept;
}

static rs_status reserve_scratch(rs_scratch *s, const rs_heads_batch *b, rs_error *err)
{
    size_t square = b->largest * b->largest, work = rs_gram_work((int64_t)b->largest),
           vectors = RS_PAIRS_AT_ONCE * 3 * b->largest, room = rs_squares_room((int64_t)b->largest),
           doubles = 2 * square + work + vectors + room;
    s->q = rs_malloc(doubles, sizeof(double));
    s->members = rs_malloc(b->n_slots, sizeof *s->members);
    if (!s->q || !s->members) return rs_fail_memory(err, "head products", doubles * sizeof(double));
    s->x = s->q + square;
    s->work = s->x + square;
    s->vectors = s->work + work;
    s->squares = (rs_squares){.room = s->vectors + vectors};
    return RS_OK;
}

static rs_status measure_all(rs_heads_batch *b, const rs_context *context, rs_error *err)
{
    rs_status kept = RS_OK;
    rs_error kept_error = {0};
#pragma omp parallel num_threads(context->threads)
    {
        rs_scratch s = {0};
        rs_error error;
        rs_status ready = reserve_scratch(&s, b, &error);
        rs_keep_first(&kept, &kept_error, ready, &error);
#pragma omp for schedule(dynamic)
        for (size_t i = 0; i < b->n_pairs; i += RS_PAIRS_AT_ONCE) {
            if (ready != RS_OK || rs_cancelled(context)) continue;
            size_t left = b->n_pairs - i;
            rs_status status = rs_measure_pairs(
                b, &b->pairs[i], left < RS_PAIRS_AT_ONCE ? left : RS_PAIRS_AT_ONCE, &s, &error);
            rs_keep_first(&kept, &kept_error, status, &error);
        }
        rs_free(s.q);
        rs_free(s.members);
    }
    if (kept != RS_OK && err) *err = kept_error;
    return kept;
}

/* ---- collecting ---- */

static rs_status note_nonfinite(rs_heads *heads, const rs_factor_slot *s, rs_error *err)
{
    rs_factor_census census;
    RS_TRY(rs_factor_examine(&census, s->factor, err));
    for (size_t i = 0; i < heads->n_nonfinite; i++)
        if (heads->nonfinite[i].tensor == s->factor->tensor) {
            heads->nonfinite[i].count += census.nonfinite;
            heads->nonfinite[i].largest = fmax(heads->nonfinite[i].largest, census.largest);
            return RS_OK;
        }
    if (!RS_GROW(heads->nonfinite, heads->n_nonfinite, heads->nonfinite_capacity))
        return rs_fail_memory(err, "head products", 0);
    heads->nonfinite[heads->n_nonfinite++] = (rs_nonfinite){.tensor = s->factor->tensor,
                                                            .count = census.nonfinite,
                                                            .row = census.row,
                                                            .col = census.col,
                                                            .largest = census.largest,
                                                            .layer = s->layer};
    return RS_OK;
}

static rs_status new_head(rs_head *head, rs_heads *heads, const rs_product *product, bool stacked,
                          int64_t count, const rs_heads_options *options, uint64_t seed,
                          rs_error *err)
{
    int64_t m = rs_factor_features(&product->a, options->fold),
            n = rs_factor_features(&product->b, options->fold);
    if (stacked && product->kind == RS_PRODUCT_QK) m *= count;
    if (stacked && product->kind == RS_PRODUCT_OV) n *= count;
    int64_t r = product->a.inner, k = m < n ? m : n;
    if (r < k) k = r;
    *head = (rs_head){.product = product,
                      .stacked = stacked,
                      .rows = m,
                      .cols = n,
                      .inner = r,
                      .k = k,
                      .noise_floor = NAN,
                      .rank_above_noise = -1,
                      .gap = NAN,
                      .gap_low = NAN,
                      .gap_high = NAN,
                      .nuclear_excess = NAN};
    head->sigma = rs_arena_alloc(heads->arena, (size_t)(r + 1), sizeof *head->sigma);
    head->norms_a = rs_arena_alloc(heads->arena, 2 * (size_t)r, sizeof *head->norms_a);
    if (!head->sigma || !head->norms_a)
        return rs_fail_memory(err, "head products", (size_t)r * 3 * sizeof(double));
    head->norms_b = head->norms_a + r;
    rs_null_cache *nulls = options->nulls ? options->nulls : &heads->nulls;
    return rs_null_cache_get(&head->null, nulls, m, n, r, seed, err);
}

static bool same_layer(const rs_product *a, const rs_product *b)
{
    return a->layer == b->layer && a->stack == b->stack;
}

/* How many products from `first` on belong to the group of its key/value head. */
static size_t group_of(const rs_product *first, const rs_product *end)
{
    size_t n = 1;
    while (first + n < end && same_layer(first + n, first) && first[n].kind == first->kind &&
           first[n].attention == first->attention && first[n].kv_head == first->kv_head)
        n++;
    return n;
}

static rs_pairing pairing_of(rs_heads_batch *b, rs_head *head, size_t count)
{
    const rs_product *p = head->product;
    size_t x = slot_of(b, &p->a, p->layer), y = slot_of(b, &p->b, p->layer);
    return (rs_pairing){.head = head, .a = x, .b = y, .count = count};
}

/* The products of one layer. */
static rs_status add_pairs(rs_heads_batch *b, rs_heads *heads, const rs_product *begin,
                           const rs_product *end, uint64_t seed, rs_error *err)
{
    b->layer_slots = b->n_slots;
    for (const rs_product *p = begin; p < end; p++) {
        rs_head *head = &heads->items[heads->n];
        RS_TRY(new_head(head, heads, p, false, 1, b->options, seed, err));
        heads->n++;
        b->pairs[b->n_pairs++] = pairing_of(b, head, 1);
    }
    for (const rs_product *p = begin; p < end;) {
        size_t n = group_of(p, end);
        if (p->group_size > 1 && n == (size_t)p->group_size) {
            rs_head *head = &heads->groups[heads->n_groups];
            RS_TRY(new_head(head, heads, p, true, (int64_t)n, b->options, seed, err));
            heads->n_groups++;
            b->pairs[b->n_pairs++] = pairing_of(b, head, n);
        }
        p += n;
    }
    return RS_OK;
}

static const rs_product *layer_end(const rs_product *p, const rs_product *end)
{
    const rs_product *next = p + 1;
    while (next < end && same_layer(next, p))
        next++;
    return next;
}

/* Whole layers: [begin, end) of the products. */
static rs_status measure_batch(rs_heads *heads, const rs_model *model, const rs_product *begin,
                               const rs_product *end, const rs_heads_options *options,
                               const rs_context *context, rs_error *err)
{
    rs_heads_batch b = {.options = options};
    rs_status status = reserve_batch(&b, (size_t)(end - begin), err);
    for (const rs_product *p = begin, *next; p < end && status == RS_OK; p = next) {
        next = layer_end(p, end);
        status = add_pairs(&b, heads, p, next, context->seed, err);
    }
    if (status == RS_OK) status = place_grams(&b, context, err);
    if (status == RS_OK) status = fill_grams(&b, context, err);
    for (size_t i = 0; i < b.n_slots && status == RS_OK; i++)
        status = rs_tensor_check(model->checkpoint, b.slots[i].factor->tensor, err);
    if (status == RS_OK) status = rs_check_cancelled(context, err);
    if (status == RS_OK) status = measure_all(&b, context, err);
    for (size_t i = 0; i < b.n_slots && status == RS_OK; i++)
        if (!b.slots[i].usable) status = note_nonfinite(heads, &b.slots[i], err);
    release_batch(&b, context);
    return status;
}

static bool chosen(const rs_product *p, const rs_heads_options *options)
{
    return p->layer >= options->first_layer && p->layer <= options->last_layer;
}

/* The end of the batch that begins with the layer of `begin`: each barrier between two of them
 * leaves threads waiting, so it takes as many layers as it may hold Grams of. */
static const rs_product *batch_end(const rs_product *begin, const rs_product *end,
                                   const rs_heads_options *options, const rs_context *context)
{
    double most = MOST_NUMBERS, given = (double)context->memory.bytes / (2 * sizeof(double)), n = 0;
    if (given > 0 && given < most) most = given;
    const rs_product *p = begin;
    while (p < end && chosen(p, options)) {
        const rs_product *next = layer_end(p, end);
        for (const rs_product *q = p; q < next; q++)
            n += 2 * (double)q->a.inner * (double)q->a.inner;
        if (p > begin && n > most) break;
        p = next;
    }
    return p;
}

/* Threads for a batch: where there is so little to do, most of the time would be spent waiting for each other,
 * above all when other programs hold the cores. */
static int threads_for(const rs_product *begin, const rs_product *end, const rs_context *context)
{
    const double little = 2e7; /* operations of the Grams */
    double operations = 0;
    for (const rs_product *p = begin; p < end; p++)
        operations +=
            2 * (double)(p->a.features + p->b.features) * (double)p->a.inner * (double)p->a.inner;
    return operations < little ? 1 : context->threads;
}

static rs_status measure_layers(rs_heads *heads, const rs_model *model,
                                const rs_heads_options *options, const rs_context *context,
                                rs_error *err)
{
    const rs_product *end = model->products + model->n_products;
    uint64_t total = 0;
    for (const rs_product *p = model->products; p < end; p++)
        total += chosen(p, options);
    for (const rs_product *p = model->products, *next; p < end; p = next) {
        next = chosen(p, options) ? batch_end(p, end, options, context) : layer_end(p, end);
        if (!chosen(p, options)) continue;
        rs_progress(context, "spectra", heads->n, total, "head products");
        RS_TRY(rs_check_cancelled(context, err));
        rs_context own = *context;
        own.threads = threads_for(p, next, context);
        RS_TRY(measure_batch(heads, model, p, next, options, &own, err));
    }
    rs_progress(context, "spectra", heads->n, total, "head products");
    return rs_check_cancelled(context, err);
}

static void summarise(rs_heads *heads)
{
    for (size_t i = 0; i < heads->n; i++) {
        const rs_head *head = &heads->items[i];
        heads->n_by_factors += head->by_factors;
        if (head->sigma && head->self_check > heads->worst_check)
            heads->worst_check = head->self_check;
    }
}

rs_status rs_heads_measure(rs_heads **out, const rs_model *model, const rs_heads_options *options,
                           const rs_context *context, rs_error *err)
{
    *out = NULL;
    rs_heads *heads = rs_calloc(1, sizeof *heads);
    if (!heads) return rs_fail_memory(err, "head products", sizeof *heads);
    heads->arena = rs_arena_new();
    heads->items = rs_calloc(model->n_products, sizeof *heads->items);
    heads->groups = rs_calloc(model->n_products, sizeof *heads->groups);
    rs_status status =
        heads->arena && heads->items && heads->groups
            ? measure_layers(heads, model, options, context, err)
            : rs_fail_memory(err, "head products", model->n_products * sizeof *heads->items);
    if (status != RS_OK) {
        rs_heads_free(heads);
        return status;
    }
    summarise(heads);
    *out = heads;
    return RS_OK;
}

void rs_heads_free(rs_heads *heads)
{
    if (!heads) return;
    rs_null_cache_close(&heads->nulls);
    rs_free(heads->items);
    rs_free(heads->groups);
    rs_free(heads->nonfinite);
    rs_arena_free(heads->arena);
    rs_free(heads);
}
