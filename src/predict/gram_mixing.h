/*
 * gram_mixing.h: what masked attention makes of a Gram matrix, and its transpose
 * (docs/theory/mean_field.md, 6). Rows i and i' of attention see keys j and j' by the weights
 *
 *     w^{ii'}_jj' ∝ tilt_ij tilt_i'j' exp(−pull_ii' apart_jj'),   summing to 1,
 *
 * pull and apart symmetric. The exponential is tabulated over one of its two factors at Chebyshev
 * points, and a table costs as much as its sums over keys: n² under a causal mask, n³ otherwise.
 */
#ifndef RS_PREDICT_GRAM_MIXING_H
#define RS_PREDICT_GRAM_MIXING_H

#include "base/error.h"

typedef struct rs_gram_mixing rs_gram_mixing;

/* Scratch for n tokens. RS_E_NO_MEMORY. */
rs_status rs_gram_mixing_open(rs_gram_mixing **out, int64_t n, rs_error *err);
void rs_gram_mixing_close(rs_gram_mixing *mixing); /* NULL is fine */

/* Who sees whom, and how much more: tilt [n, n] row-major, or NULL, where a row sees the keys up to
 * itself all alike. They stay the caller's. */
typedef struct rs_gram_law {
    const double *pull, *apart, *tilt;
} rs_gram_law;

/* rest[i, i'] = Σ w^{ii'}_jj' apart_jj'. Both are false where logits vary so much that no table holds. */
bool rs_gram_gather(double *rest, rs_gram_mixing *mixing, const rs_gram_law *law);
/* back[j, j'] = Σ w^{ii'}_jj' given_ii', given symmetric. */
bool rs_gram_scatter(double *back, rs_gram_mixing *mixing, const rs_gram_law *law,
                     const double *given);

#endif
