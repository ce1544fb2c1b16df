/* series_cells.c: the products of each layer, from checkpoint to checkpoint. */
#include "scan/series_parts.h"

#include "base/memory.h"

#include <math.h>
#include <string.h>

/* rs_same_cell of products of two models. */
static bool same_place(const rs_product *a, const rs_product *b)
{
    return a->layer == b->layer && a->kind == b->kind && rs_text_same(a->stack, b->stack) &&
           rs_text_same(a->attention, b->attention);
}

static const char *keep(rs_series *s, const char *text)
{
    return text ? rs_arena_strndup(rs_result_arena(s->result), text, strlen(text)) : NULL;
}

/* Checkpoints are alike, so the cell is mostly the next one. */
static rs_status cell_of(rs_series_cell **out, rs_series *s, const rs_head *head, rs_error *err)
{
    const rs_product *p = head->product;
    for (size_t i = 0; i < s->n_cells; i++) {
        size_t at = (s->next + i) % s->n_cells;
        if (!same_place(&s->cells[at].place, p)) continue;
        s->next = at + 1;
        *out = &s->cells[at];
        return RS_OK;
    }
    if (!RS_GROW(s->cells, s->n_cells, s->capacity))
        return rs_fail_memory(err, "series", s->n_cells * sizeof **out);
    *out = &s->cells[s->n_cells++];
    **out = (rs_series_cell){.place = {.stack = keep(s, p->stack),
                                       .attention = keep(s, p->attention),
                                       .layer = p->layer,
                                       .kind = p->kind},
                             .lacks = s->n_read ? 0 : SIZE_MAX,
                             .other = SIZE_MAX,
                             .rows = head->rows,
                             .cols = head->cols,
                             .inner = head->inner};
    s->next = s->n_cells;
    return RS_OK;
}

static rs_status remember_heads(rs_series_cell *c, size_t n, rs_error *err)
{
    if (n <= c->n_ranked) return RS_OK;
    bool *ranked = rs_realloc(c->ranked, n, sizeof *ranked);
    if (ranked) c->ranked = ranked;
    bool *count = rs_realloc(c->count, n, sizeof *count);
    if (count) c->count = count;
    if (!ranked || !count) return rs_fail_memory(err, "series", n * sizeof *ranked);
    memset(ranked + c->n_ranked, 0, (n - c->n_ranked) * sizeof *ranked);
    c->n_ranked = n;
    return RS_OK;
}

/* Whether the head counts, and with which ratio. One that never had a rank (LoRA begins with zeros) does not. */
static bool counts(double *ratio, rs_series_cell *c, const rs_head *heads, size_t i)
{
    double rank = heads[i].measures.effective_rank;
    if (!heads[i].sigma) return false;
    if (isnan(rank)) {
        *ratio = 0;
        return c->ranked[i];
    }
    c->ranked[i] = true;
    *ratio = rank / heads[i].null->effective_rank;
    return true;
}

/* Needs c->n_ranked >= n. */
static rs_status ratio_of(rs_series_ratio *out, rs_series *s, rs_series_cell *c,
                          const rs_head *heads, size_t n, rs_error *err)
{
    double sum = 0, ratio;
    *out = (rs_series_ratio){.lowest = INFINITY};
    for (size_t i = 0; i < n; i++) {
        c->count[i] = counts(&ratio, c, heads, i);
        if (!c->count[i]) continue;
        out->heads++;
        out->dead += ratio == 0;
        out->lowest = fmin(out->lowest, ratio);
        sum += ratio;
    }
    out->mean = out->heads ? sum / (double)out->heads : NAN;
    return rs_series_spread(&out->spread, s, heads, c->count, n, err);
}

static bool grow(rs_series_cell *c)
{
    size_t capacity = c->capacity ? 2 * c->capacity : 16;
    if (c->n < c->capacity) return true;
    size_t *at = rs_realloc(c->at, capacity, sizeof *at);
    if (at) c->at = at;
    double *ratios = rs_realloc(c->ratios, capacity, sizeof *ratios);
    if (ratios) c->ratios = ratios;
    double *spreads = rs_realloc(c->spreads, capacity, sizeof *spreads);
    if (spreads) c->spreads = spreads;
    if (!at || !ratios || !spreads) return false;
    c->capacity = capacity;
    return true;
}

static void note_shape(rs_series_cell *c, const rs_head *heads, size_t n, size_t place)
{
    bool same = c->rows == heads->rows && c->cols == heads->cols && c->inner == heads->inner &&
                c->heads == (int64_t)n;
    if (!same && c->other == SIZE_MAX) c->other = place;
}

static void add_to_kind(rs_series_read *read, rs_product_kind kind, const rs_series_ratio *ratio)
{
    if (ratio->heads == 0) return;
    read->kinds[kind].sum += ratio->mean * (double)ratio->heads;
    read->kinds[kind].heads += (double)ratio->heads;
    read->lowest = fmin(read->lowest, ratio->lowest);
}

static rs_status note_cell(rs_series *s, rs_series_read *read, const rs_head *heads, size_t n,
                           rs_error *err)
{
    rs_series_cell *c = NULL;
    RS_TRY(cell_of(&c, s, heads, err));
    RS_TRY(remember_heads(c, n, err));
    if (c->had == 0) c->heads = (int64_t)n;
    note_shape(c, heads, n, s->n_read);
    c->had++;
    rs_series_ratio ratio;
    RS_TRY(ratio_of(&ratio, s, c, heads, n, err));
    add_to_kind(read, heads->product->kind, &ratio);
    RS_TRY(rs_series_row(s, read->entry, heads, n, &ratio, err));
    if (isnan(ratio.mean)) return RS_OK;
    if (!grow(c)) return rs_fail_memory(err, "series", c->n * sizeof(double));
    c->last = ratio;
    c->at[c->n] = s->n_read;
    c->ratios[c->n] = ratio.mean;
    c->spreads[c->n++] = isnan(ratio.spread) ? 0 : ratio.spread;
    return RS_OK;
}

rs_status rs_series_note(rs_series *s, rs_series_read *read, rs_error *err)
{
    const rs_heads *heads = read->heads;
    read->lowest = INFINITY;
    for (size_t i = 0, n; i < heads->n; i += n) {
        n = 1;
        while (i + n < heads->n &&
               rs_same_cell(heads->items[i].product, heads->items[i + n].product))
            n++;
        RS_TRY(note_cell(s, read, &heads->items[i], n, err));
    }
    for (size_t c = 0; c < s->n_cells; c++)
        if (s->cells[c].lacks == SIZE_MAX && s->cells[c].had < s->n_read + 1)
            s->cells[c].lacks = s->n_read;
    return RS_OK;
}

bool rs_series_is_current(const rs_series *s, const rs_series_cell *c)
{
    return c->n > 0 && c->at[c->n - 1] + 1 == s->n_read;
}

/* Only a product that the last checkpoint still has falls or rises. */
rs_status rs_series_judge(rs_series *s, rs_error *err)
{
    double *scratch = rs_malloc(s->n_read, sizeof *scratch);
    if (!scratch) return rs_fail_memory(err, "series", s->n_read * sizeof *scratch);
    for (size_t i = 0; i < s->n_cells; i++) {
        rs_series_cell *c = &s->cells[i];
        if (c->n == 0) continue;
        c->trend = rs_trend_of(c->ratios, c->spreads, c->n,
                               s->request->options.thresholds.rank_falls, scratch);
        if (rs_series_is_current(s, c)) continue;
        c->trend.kind = RS_TREND_HOLDS;
        c->trend.fall = NAN; /* it has no last value */
    }
    rs_free(scratch);
    return RS_OK;
}

void rs_series_cells_free(rs_series *s)
{
    for (size_t i = 0; i < s->n_cells; i++) {
        rs_free(s->cells[i].at);
        rs_free(s->cells[i].ratios);
        rs_free(s->cells[i].spreads);
        rs_free(s->cells[i].ranked);
        rs_free(s->cells[i].count);
    }
    rs_free(s->alike);
    rs_free(s->cells);
}

const rs_series_cell *rs_series_fell_most(const rs_series *s, size_t *n)
{
    const rs_series_cell *most = NULL;
    size_t count = 0;
    for (size_t i = 0; i < s->n_cells; i++) {
        const rs_series_cell *c = &s->cells[i];
        if (c->n == 0 || c->trend.kind != RS_TREND_FALLS) continue;
        count++;
        if (!most || c->trend.fall > most->trend.fall) most = c;
    }
    if (n) *n = count;
    return most;
}
