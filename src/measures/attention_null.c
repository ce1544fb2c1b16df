/* attention_null.c: uniform attention over the visible keys, in closed form. */
#include "measures/attention_null.h"

#include <math.h>

/* |λ₂| of U. Without a mask U has rank one; a triangular U has its diagonal for eigenvalues. */
static double second_eigenvalue(int64_t n, bool causal, int64_t window)
{
    if (n == 1) return 0;
    if (window == 1) return 1; /* the identity */
    if (causal) return 0.5;
    return window > 0 && window < n ? (double)NAN : 0.0;
}

/*
 * ½ Σ|U_i − U_i'| is 1 less the overlap Σ min, and the first and the last row overlap least. Causal:
 * the last row reaches the first key, with weight 1/n, unless the window has passed it. Window both
 * ways: each sees `window` keys, of which 2·window − n are the same.
 */
static double largest_distance(int64_t n, bool causal, int64_t window)
{
    bool cut = window > 0 && window < n;
    if (causal) return cut ? 1 : 1 - 1 / (double)n;
    if (!cut) return 0;
    return 2 * window > n ? (double)(n - window) / (double)window : 1;
}

void rs_attention_no_null(rs_attention_null *out)
{
    *out = (rs_attention_null){.entropy = NAN,
                               .spectral_gap = NAN,
                               .dobrushin = NAN,
                               .self_weight = NAN,
                               .first_token_weight = NAN,
                               .logit_variance = NAN};
    const rs_attention_ranks none = {.whole = rs_matrix_ranks_none(),
                                     .centred = rs_matrix_ranks_none()};
    rs_attention_null_ranks(out, &none);
}

void rs_attention_null_ranks(rs_attention_null *out, const rs_attention_ranks *ranks)
{
    out->effective_rank = ranks->whole.effective;
    out->stable_rank = ranks->whole.stable;
    out->energy_rank = ranks->whole.energy;
    out->numerical_rank = ranks->whole.numerical;
    out->centred_effective_rank = ranks->centred.effective;
    out->centred_stable_rank = ranks->centred.stable;
    out->centred_energy_rank = ranks->centred.energy;
    out->centred_numerical_rank = ranks->centred.numerical;
}

void rs_attention_null_of(rs_attention_null *out, int64_t n, bool causal, int64_t window)
{
    double logarithms = 0, weights = 0, first = 0;
    int64_t see_first = 0;
    for (int64_t i = 0; i < n; i++) {
        int64_t low = window > 0 && i - window + 1 > 0 ? i - window + 1 : 0;
        int64_t high = causal ? i : window > 0 && i + window - 1 < n - 1 ? i + window - 1 : n - 1;
        double keys = (double)(high - low + 1);
        logarithms += log(keys);
        weights += 1 / keys;
        if (low > 0) continue;
        first += 1 / keys;
        see_first++;
    }
    rs_attention_no_null(out);
    out->entropy = logarithms / (double)n;
    out->spectral_gap = 1 - second_eigenvalue(n, causal, window);
    out->dobrushin = largest_distance(n, causal, window);
    out->self_weight = weights / (double)n;
    out->first_token_weight = first / (double)see_first;
    out->logit_variance = 1 - weights / (double)n;
}
