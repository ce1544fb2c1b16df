/* series_spread.c: how much a layer's mean ratio differs between random models. */
#include "scan/series_parts.h"

#include "base/memory.h"

#include <math.h>

static rs_status correlation_of(double *out, rs_series *s, const rs_head *head, rs_error *err)
{
    bool qk =
        head->product->kind == RS_PRODUCT_QK; /* which share B, the keys; OV share A, the values */
    const rs_series_alike of = {.own = qk ? head->rows : head->cols,
                                .shared = qk ? head->cols : head->rows,
                                .inner = head->inner};
    for (size_t i = 0; i < s->n_alike; i++) {
        const rs_series_alike *a = &s->alike[i];
        *out = a->correlation;
        if (a->own == of.own && a->shared == of.shared && a->inner == of.inner) return RS_OK;
    }
    if (!RS_GROW(s->alike, s->n_alike, s->alike_capacity))
        return rs_fail_memory(err, "series", s->n_alike * sizeof of);
    RS_TRY(rs_null_correlation(out, of.own, of.shared, of.inner, s->seed, err));
    s->alike[s->n_alike] = of;
    s->alike[s->n_alike++].correlation = *out;
    return RS_OK;
}

static bool share(const rs_head *a, const rs_head *b)
{
    bool grouped = a->product->kind == RS_PRODUCT_QK || a->product->kind == RS_PRODUCT_OV;
    return grouped && a->product->kv_head == b->product->kv_head;
}

/* Of a sum of numbers with standard deviations s_i and correlation ρ: Σ s_i² + ρ ((Σ s_i)² − Σ s_i²). */
rs_status rs_series_spread(double *out, rs_series *s, const rs_head *heads, const bool *count,
                           size_t n, rs_error *err)
{
    double variance = 0, counted = 0;
    for (size_t first = 0, end; first < n; first = end) {
        double sum = 0, squares = 0, group = 0, rho = 0;
        for (end = first; end < n && (end == first || share(&heads[first], &heads[end])); end++) {
            if (!count[end]) continue;
            const rs_null_model *null = heads[end].null;
            double one = null->effective_rank_spread / null->effective_rank;
            sum += one;
            squares += one * one;
            group++;
        }
        if (group > 1) RS_TRY(correlation_of(&rho, s, &heads[first], err));
        variance += squares + rho * (sum * sum - squares);
        counted += group;
    }
    *out = counted > 0 ? sqrt(variance) / counted : NAN;
    return RS_OK;
}
