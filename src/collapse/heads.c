/*
 * heads.c: from a list of products to their measures.
 *
 * Products are taken a layer at a time. The distinct factors of a layer (grouped keys recur) are
 * turned into Grams in parallel, one task a factor or a bundle of neighbouring columns; then every
 * product becomes one small SVD, again in parallel. BLAS runs single-threaded inside.
 */
#include "collapse/heads.h"

#include "base/memory.h"
#include "linalg/blas.h"
#include "linalg/spectrum.h"

#include <math.h>
#include <omp.h>
#include <string.h>

struct rs_null_entry {
    int64_t m, n, r;
    rs_null_model *model; /* in the arena; its bands are freed by rs_heads_free */
};

/* One distinct factor of the layer at hand. */
typedef struct slot {
    const rs_factor *factor;
    double *gram; /* inner×inner */
    bool fragile, finite;
    double step_squared;
} slot;

/* A product as a pair of slots; for a stacked row `count` products share one of them and the other
 * side is summed. */
typedef struct pairing {
    rs_head *head;
    size_t a, b;  /* slots */
    size_t count; /* products stacked, from head->product on; 1 for a plain row */
} pairing;

typedef struct batch {
    const rs_heads_options *options;
    slot *slots;
    const rs_factor **factors; /* the same factors, for bundling */
    double **grams;
    bool *fragile;
    size_t n_slots, slots_capacity;
    double *memory; /* all Grams */
    pairing *pairs;
    size_t n_pairs;
    size_t largest; /* largest inner */
} batch;

/* ---- random baselines by shape ---- */

static rs_status null_for(const rs_null_model **out, rs_heads *heads, int64_t m, int64_t n,
                          int64_t r, uint64_t seed, rs_error *err)
{
    for (size_t i = 0; i < heads->n_nulls; i++) {
        const struct rs_null_entry *entry = &heads->nulls[i];
        if (entry->m == m && entry->n == n && entry->r == r) {
            *out = entry->model;
            return RS_OK;
        }
    }
    if (!RS_GROW(heads->nulls, heads->n_nulls, heads->nulls_capacity))
        return rs_fail_memory(err, "null model", 0);
    rs_null_model *model = rs_arena_alloc(heads->arena, 1, sizeof *model);
    if (!model) return rs_fail_memory(err, "null model", sizeof *model);
    RS_TRY(rs_null_model_new(model, m, n, r, seed, err));
    heads->nulls[heads->n_nulls++] = (struct rs_null_entry){m, n, r, model};
    *out = model;
    return RS_OK;
}

/* ---- the factors of a batch ---- */

static size_t slot_of(batch *b, const rs_factor *factor)
{
    for (size_t i = b->n_slots; i-- > 0;)
        if (rs_factor_same(b->slots[i].factor, factor)) return i;
    b->slots[b->n_slots] = (slot){.factor = factor};
    return b->n_slots++;
}

static rs_status reserve(batch *b, size_t n_products, rs_error *err)
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

static void release(batch *b)
{
    rs_free(b->slots);
    rs_free(b->factors);
    rs_free(b->grams);
    rs_free(b->fragile);
    rs_free(b->pairs);
    rs_free(b->memory);
}

static rs_status place_grams(batch *b, rs_error *err)
{
    size_t total = 0;
    for (size_t i = 0; i < b->n_slots; i++) {
        size_t r = (size_t)b->slots[i].factor->inner, square;
        if (!rs_size_mul(r, r, &square) || !rs_size_add(total, square, &total) || r > INT32_MAX)
            return rs_fail(err, RS_E_UNSUPPORTED, b->slots[i].factor->tensor->name, NULL,
                           "a head of width %zu is too wide", r);
        if (r > b->largest) b->largest = r;
    }
    b->memory = rs_malloc(total, sizeof *b->memory);
    if (!b->memory) return rs_fail_memory(err, "Gram matrices", total * sizeof *b->memory);
    double *next = b->memory;
    for (size_t i = 0; i < b->n_slots; i++) {
        slot *s = &b->slots[i];
        s->gram = b->grams[i] = next;
        b->factors[i] = s->factor;
        next += (size_t)s->factor->inner * (size_t)s->factor->inner;
    }
    return RS_OK;
}

static bool finite_diagonal(const double *x, int64_t r)
{
    double sum = 0;
    for (int64_t i = 0; i < r; i++)
        sum += x[i * r + i] - x[i * r + i]; /* NaN when an entry is NaN or infinite */
    return sum == 0;
}

/* Keeps the first failure of a parallel loop. */
static void keep_first(rs_status *kept, rs_error *kept_error, rs_status status,
                       const rs_error *error)
{
#pragma omp critical(rs_heads_failure)
    if (*kept == RS_OK && status != RS_OK) {
        *kept = status;
        *kept_error = *error;
    }
}

static rs_status fill_grams(batch *b, const rs_context *context, rs_error *err)
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
#pragma omp parallel for schedule(dynamic) num_threads(context->threads)
    for (size_t t = 0; t < n_tasks; t++) {
        if (rs_cancelled(context)) continue;
        size_t i = starts[t], n = starts[t + 1] - i;
        rs_error error;
        rs_status status = rs_factor_grams(b->grams + i, b->fragile + i, b->factors + i, n,
                                           b->options->fold, &error);
        if (status != RS_OK) keep_first(&kept, &kept_error, status, &error);
        for (size_t j = i; j < i + n; j++) {
            slot *s = &b->slots[j];
            s->fragile = b->fragile[j];
            s->finite = finite_diagonal(s->gram, s->factor->inner);
            s->step_squared = rs_factor_step_squared(s->factor);
        }
    }
    rs_free(starts);
    if (kept != RS_OK && err) *err = kept_error;
    return kept;
}

/* ---- one product ---- */

/* ‖E‖₂ of first-order rounding noise: A = A₀ + E_A with independent entries of variance step²/12,
 * so E_A Bᵀ has norm about s_A (√m ‖B‖₂ + ‖B‖_F) (Chevet), and likewise for B. */
static void noise(rs_head *head, const slot *a, const slot *b, const double *spectral)
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
static rs_status careful_spectrum(rs_head *head, const pairing *p, rs_fold fold, rs_error *err)
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

/* All columns that follow from the spectrum and the Grams. q: r×r scratch. */
static rs_status finish(rs_head *head, const double *x, const double *y,
                        const rs_heads_options *options, double *q, double *work, rs_error *err)
{
    int64_t r = head->inner;
    rs_measures_of(&head->measures, head->sigma, head->k, r, tolerance_of(head, options));
    const rs_gram_pair *pair = &head->pair;
    double sum = 0, bracket[2];
    for (int64_t i = 0; i < head->k; i++)
        sum += head->sigma[i] * head->sigma[i];
    head->self_check = fabs(pair->trace_xy - sum) / (pair->norm_x * pair->norm_y);
    for (int64_t i = 0; i < r * r; i++)
        q[i] = x[i] - y[i];
    double half = pair->half_norm, nuclear = head->measures.nuclear_norm;
    RS_TRY(rs_gap_bracket(bracket, q, r, half, nuclear, work, err));
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
    return RS_OK;
}

/* X (or Y) of a stacked row is the sum over its query heads. */
static void sum_grams(double *out, const batch *b, const size_t *slots, size_t n, int64_t r)
{
    memcpy(out, b->slots[slots[0]].gram, (size_t)(r * r) * sizeof *out);
    for (size_t g = 1; g < n; g++)
        cblas_daxpy((blasint)(r * r), 1.0, b->slots[slots[g]].gram, 1, out, 1);
}

typedef struct scratch {
    double *q, *x, *y, *work;
    size_t *members; /* slots of a stack */
} scratch;

/* The Grams of a pairing; for a stack the side with one slot a query head is summed into scratch.
 */
static void grams_of(const double **x, const double **y, const batch *b, const pairing *p,
                     scratch *s)
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

static bool all_finite(const double *x, const double *y, int64_t r)
{
    return finite_diagonal(x, r) && finite_diagonal(y, r);
}

static void keep_norms(rs_head *head, const double *x, const double *y)
{
    for (int64_t i = 0; i < head->inner; i++) {
        head->norms_a[i] = x[i * head->inner + i];
        head->norms_b[i] = y[i * head->inner + i];
    }
}

static rs_status measure_pair(const batch *b, const pairing *p, scratch *s, rs_error *err)
{
    rs_head *head = p->head;
    const slot *a = &b->slots[p->a], *c = &b->slots[p->b];
    int64_t r = head->inner;
    const double *x, *y;
    grams_of(&x, &y, b, p, s);
    if (!all_finite(x, y, r)) {
        head->sigma = NULL;
        return RS_OK;
    }
    rs_gram_compare(&head->pair, x, y, r);
    keep_norms(head, x, y);
    bool trusted = false, fits = r <= head->rows && r <= head->cols;
    if (fits && !a->fragile && !c->fragile)
        RS_TRY(rs_gram_spectrum(head->sigma, &trusted, x, y, r, s->work, err));
    if (!trusted) {
        head->by_factors = true;
        RS_TRY(careful_spectrum(head, p, b->options->fold, err));
    }
    if (!head->stacked && (a->step_squared > 0 || c->step_squared > 0)) {
        double spectral[2];
        RS_TRY(spectral_norms(spectral, x, y, r, s->work, err));
        noise(head, a, c, spectral);
    }
    return finish(head, x, y, b->options, s->q, s->work, err);
}

static rs_status measure_all(batch *b, const rs_context *context, rs_error *err)
{
    rs_status kept = RS_OK;
    rs_error kept_error = {0};
    size_t square = b->largest * b->largest;
#pragma omp parallel num_threads(context->threads)
    {
        scratch s = {0};
        size_t work = rs_gram_work((int64_t)b->largest);
        s.q = rs_malloc(2 * square + work, sizeof(double));
        s.members = rs_malloc(b->n_slots, sizeof *s.members);
        bool ready = s.q && s.members;
        if (ready) {
            s.x = s.q + square;
            s.work = s.x + square;
        } else {
            rs_error error;
            rs_status status =
                rs_fail_memory(&error, "head products", (2 * square + work) * sizeof(double));
            keep_first(&kept, &kept_error, status, &error);
        }
#pragma omp for schedule(dynamic)
        for (size_t i = 0; i < b->n_pairs; i++) {
            if (!ready || rs_cancelled(context)) continue;
            rs_error error;
            rs_status status = measure_pair(b, &b->pairs[i], &s, &error);
            if (status != RS_OK) keep_first(&kept, &kept_error, status, &error);
        }
        rs_free(s.q);
        rs_free(s.members);
    }
    if (kept != RS_OK && err) *err = kept_error;
    return kept;
}

/* ---- collecting ---- */

static rs_status note_nonfinite(rs_heads *heads, const slot *s, int32_t layer, rs_error *err)
{
    int64_t count, row = 0, col = 0;
    RS_TRY(rs_factor_count_nonfinite(&count, &row, &col, s->factor, err));
    if (count == 0) return RS_OK;
    for (size_t i = 0; i < heads->n_nonfinite; i++)
        if (heads->nonfinite[i].tensor == s->factor->tensor) {
            heads->nonfinite[i].count += count;
            return RS_OK;
        }
    if (!RS_GROW(heads->nonfinite, heads->n_nonfinite, heads->nonfinite_capacity))
        return rs_fail_memory(err, "head products", 0);
    heads->nonfinite[heads->n_nonfinite++] = (rs_nonfinite){
        .tensor = s->factor->tensor, .count = count, .row = row, .col = col, .layer = layer};
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
    return null_for(&head->null, heads, m, n, r, seed, err);
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

static rs_status add_pairs(batch *b, rs_heads *heads, const rs_product *begin,
                           const rs_product *end, uint64_t seed, rs_error *err)
{
    for (const rs_product *p = begin; p < end; p++) {
        rs_head *head = &heads->items[heads->n];
        RS_TRY(new_head(head, heads, p, false, 1, b->options, seed, err));
        heads->n++;
        b->pairs[b->n_pairs++] =
            (pairing){.head = head, .a = slot_of(b, &p->a), .b = slot_of(b, &p->b), .count = 1};
    }
    for (const rs_product *p = begin; p < end;) {
        size_t n = group_of(p, end);
        if (p->group_size > 1 && n == (size_t)p->group_size) {
            rs_head *head = &heads->groups[heads->n_groups];
            RS_TRY(new_head(head, heads, p, true, (int64_t)n, b->options, seed, err));
            heads->n_groups++;
            b->pairs[b->n_pairs++] =
                (pairing){.head = head, .a = slot_of(b, &p->a), .b = slot_of(b, &p->b), .count = n};
        }
        p += n;
    }
    return RS_OK;
}

/* One layer: [begin, end) of the products. */
static rs_status measure_layer(rs_heads *heads, const rs_model *model, const rs_product *begin,
                               const rs_product *end, const rs_heads_options *options,
                               const rs_context *context, rs_error *err)
{
    batch b = {.options = options};
    rs_status status = reserve(&b, (size_t)(end - begin), err);
    if (status == RS_OK) status = add_pairs(&b, heads, begin, end, context->seed, err);
    if (status == RS_OK) status = place_grams(&b, err);
    if (status == RS_OK) status = fill_grams(&b, context, err);
    for (size_t i = 0; i < b.n_slots && status == RS_OK; i++)
        status = rs_tensor_check(model->checkpoint, b.slots[i].factor->tensor, err);
    if (status == RS_OK) status = rs_check_cancelled(context, err);
    if (status == RS_OK) status = measure_all(&b, context, err);
    for (size_t i = 0; i < b.n_slots && status == RS_OK; i++)
        if (!b.slots[i].finite) status = note_nonfinite(heads, &b.slots[i], begin->layer, err);
    release(&b);
    return status;
}

static bool chosen(const rs_product *p, const rs_heads_options *options)
{
    return p->layer >= options->first_layer && p->layer <= options->last_layer;
}

static rs_status measure_layers(rs_heads *heads, const rs_model *model,
                                const rs_heads_options *options, const rs_context *context,
                                rs_error *err)
{
    const rs_product *end = model->products + model->n_products;
    uint64_t total = 0;
    for (const rs_product *p = model->products; p < end; p++)
        total += chosen(p, options);
    for (const rs_product *p = model->products; p < end;) {
        const rs_product *next = p + 1;
        while (next < end && same_layer(next, p))
            next++;
        if (chosen(p, options)) {
            RS_TRY(measure_layer(heads, model, p, next, options, context, err));
            RS_TRY(rs_check_cancelled(context, err));
            rs_progress(context, "spectra", heads->n, total, "head products");
        }
        p = next;
    }
    return RS_OK;
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
    rs_blas_set_threads(1); /* our own loops take the threads; BLAS would fork for every small
                               product between them */
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
    for (size_t i = 0; i < heads->n_nulls; i++)
        rs_null_model_free(heads->nulls[i].model);
    rs_free(heads->nulls);
    rs_free(heads->items);
    rs_free(heads->groups);
    rs_free(heads->nonfinite);
    rs_arena_free(heads->arena);
    rs_free(heads);
}
