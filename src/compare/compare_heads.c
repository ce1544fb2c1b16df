/* compare_heads.c: every product of the first checkpoint beside its counterpart in another. */
#include "base/memory.h"
#include "compare/compare_parts.h"

#include <math.h>
#include <string.h>

enum { AT_ONCE = 64 }; /* pairs between two looks at the clock */

static bool counterparts(const rs_product *a, const rs_product *b)
{
    return a->layer == b->layer && a->head == b->head && a->kind == b->kind &&
           rs_text_same(a->stack, b->stack) && rs_text_same(a->attention, b->attention);
}

double rs_compare_ratio(const rs_head *head)
{
    return head && head->sigma ? head->measures.effective_rank / head->null->effective_rank : NAN;
}

/* Why a product has no change; NULL: it has. */
static const char *reason_of(const rs_product_pair *pair)
{
    const rs_head *a = pair->a, *b = pair->b;
    if (!a) return "the first has no such product";
    if (!b) return "the other has no such product";
    if (!a->sigma || !b->sigma)
        return "its weights are not finite, or out of range, in one of the two";
    if (a->rows != b->rows || a->cols != b->cols)
        return "the two models differ in width: ranks are compared, directions are not";
    return NULL;
}

/* ---- who goes with whom ---- */

/* Both lists are sorted alike, so the counterpart is mostly the next one. taken: [b->n] */
static const rs_head *find(const rs_heads *b, bool *taken, size_t *next, const rs_product *product)
{
    for (size_t i = 0; i < b->n; i++) {
        size_t at = (*next + i) % b->n;
        if (taken[at] || !counterparts(product, b->items[at].product)) continue;
        taken[at] = true;
        *next = at + 1;
        return &b->items[at];
    }
    return NULL;
}

static rs_status pair_all(rs_pairs *out, const rs_heads *a, const rs_heads *b, rs_error *err)
{
    size_t next = 0, most = a->n + b->n;
    bool *taken = rs_calloc(b->n, sizeof *taken);
    *out = (rs_pairs){.items = rs_calloc(most, sizeof *out->items)};
    if (!taken || !out->items) {
        rs_free(taken);
        return rs_fail_memory(err, "pairs of products", most * sizeof *out->items);
    }
    for (size_t i = 0; i < a->n; i++) {
        rs_product_pair *pair = &out->items[out->n++];
        *pair =
            (rs_product_pair){.a = &a->items[i], .b = find(b, taken, &next, a->items[i].product)};
        out->both += pair->b != NULL;
    }
    for (size_t i = 0; i < b->n; i++)
        if (!taken[i]) out->items[out->n++] = (rs_product_pair){.b = &b->items[i]};
    for (size_t i = 0; i < out->n; i++)
        out->items[i].reason = reason_of(&out->items[i]);
    rs_free(taken);
    return RS_OK;
}

/* ---- measuring ---- */

/* A pair without a change has none of its numbers: two NULLs say so. */
static rs_status measure_pair(rs_product_pair *pair, const rs_compare_options *options,
                              rs_change_room *room, rs_error *err)
{
    bool any = pair->reason == NULL;
    return rs_change_measure(&pair->change, any ? pair->a : NULL, any ? pair->b : NULL,
                             options->scan.heads.fold, options->subspace, room, err);
}

static rs_status measure_some(rs_product_pair *pairs, size_t n, int threads,
                              const rs_compare_options *options, const rs_context *context,
                              rs_error *err)
{
    rs_status kept = RS_OK;
    rs_error kept_error = {0};
#pragma omp parallel num_threads(threads)
    {
        rs_change_room room = {0};
#pragma omp for schedule(dynamic)
        for (size_t i = 0; i < n; i++) {
            if (rs_cancelled(context)) continue;
            rs_error error;
            rs_status status = measure_pair(&pairs[i], options, &room, &error);
            rs_keep_first(&kept, &kept_error, status, &error);
        }
        rs_change_room_close(&room);
    }
    if (kept != RS_OK && err) *err = kept_error;
    return kept;
}

/* As many threads as find room. */
static rs_status threads_for(int *threads, const rs_pairs *pairs, const rs_context *context,
                             rs_error *err)
{
    double bytes = 0;
    for (size_t i = 0; i < pairs->n; i++)
        if (!pairs->items[i].reason)
            bytes = fmax(bytes, rs_change_bytes(pairs->items[i].a, pairs->items[i].b));
    rs_budget budget = {0};
    rs_budget_add(&budget, "factors of two products", bytes);
    *threads = rs_budget_threads(bytes, context->memory, context->threads);
    return rs_budget_check(&budget, context->memory, "compare",
                           "say how much it may take: --memory SIZE", err);
}

/* What random factors of both inner widths together give. */
static rs_status set_null(rs_product_pair *pair, rs_null_cache *nulls, uint64_t seed, rs_error *err)
{
    const rs_null_model *null;
    if (pair->reason) return RS_OK;
    RS_TRY(rs_null_cache_get(&null, nulls, pair->a->rows, pair->a->cols,
                             pair->a->inner + pair->b->inner, seed, err));
    pair->change.null = null->effective_rank;
    return RS_OK;
}

static rs_status measure_all(rs_pairs *out, const rs_compare_options *options, rs_null_cache *nulls,
                             const rs_context *context, rs_error *err)
{
    int threads;
    RS_TRY(threads_for(&threads, out, context, err));
    for (size_t i = 0; i < out->n; i += AT_ONCE) {
        size_t left = out->n - i;
        rs_progress(context, "changes", i, out->n, "head products");
        RS_TRY(rs_check_cancelled(context, err));
        RS_TRY(measure_some(out->items + i, left < AT_ONCE ? left : AT_ONCE, threads, options,
                            context, err));
    }
    rs_progress(context, "changes", out->n, out->n, "head products");
    RS_TRY(rs_check_cancelled(context, err));
    for (size_t i = 0; i < out->n; i++)
        RS_TRY(set_null(&out->items[i], nulls, context->seed, err));
    return RS_OK;
}

rs_status rs_pairs_measure(rs_pairs *out, const rs_heads *a, const rs_heads *b,
                           const rs_compare_options *options, rs_null_cache *nulls,
                           const rs_context *context, rs_error *err)
{
    rs_status status = pair_all(out, a, b, err);
    if (status == RS_OK) status = measure_all(out, options, nulls, context, err);
    if (status != RS_OK) rs_pairs_free(out);
    return status;
}

void rs_pairs_free(rs_pairs *pairs)
{
    rs_free(pairs->items);
    *pairs = (rs_pairs){0};
}
