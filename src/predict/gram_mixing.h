/*
 * gram_mixing.h: what masked attention makes of a Gram matrix, and its transpose
 * (docs/theory/mean_field.md, 6). Rows i and i' of attention see keys j and j' by the weights
 *
 *     w^{ii'}_jj' ∝ tilt_ij tilt_i'j' exp(−pull_ii' apart_jj'),   summing to 1,
 *
 * pull and apart symmetric. The exponential goes by powers of both about the middles of their ranges, and
 * a power costs as much as its sums over keys: n² under a causal mask, n³ otherwise.
 */
#ifndef RS_PREDICT_GRAM_MIXING_H
#define RS_PREDICT_GRAM_MIXING_H

#include "base/error.h"

typedef struct rs_gram_mixing rs_gram_mixing;

/* Scratch for n tokens. RS_E_NO_MEMORY. */
rs_status rs_gram_mixing_open(rs_gram_mixing **out, int64_t n, rs_error *err);
void rs_gram_mixing_close(rs_gram_mixing *mixing); /* NULL is fine */

/*
 * Who sees whom, and how much more, [n, n] row-major and [n]. All of it stays the caller's. tilt = NULL:
 * a row sees the keys up to itself, all alike, or, where there are rates, by exp(rate_i size_j):
 * then rs_gram_is_split holds of both, and apart_jj + size_j is the same for all j.
 */
typedef struct rs_gram_law {
    const double *pull, *apart, *tilt;
    const double *rate, *size;
    double *
        total; /* NULL, or [n (n + 1)/2]: what gather leaves there spares scatter half of its work */
} rs_gram_law;

/* Whether exp(rate_i size_j) goes by few powers of both. */
bool rs_gram_is_split(const double *rate, const double *size, int64_t n);

/* rest[i, i'] = Σ w^{ii'}_jj' apart_jj'. Both are false where logits vary so much that powers lose
 * their digits. */
bool rs_gram_gather(double *rest, rs_gram_mixing *mixing, const rs_gram_law *law);
/* back[j, j'] = Σ w^{ii'}_jj' given_ii', given symmetric. */
bool rs_gram_scatter(double *back, rs_gram_mixing *mixing, const rs_gram_law *law,
                     const double *given);

/* Behind rs_gram_scatter, k <= i: the weight w^{ik} of the pairs (j, j) of one key, of all keys. */
double rs_gram_shared(const rs_gram_mixing *mixing, const rs_gram_law *law, int64_t i, int64_t k);

/* Of the powers: ranges, how many terms they take (at most RS_GRAM_TERMS), 0 where the product of half
 * the ranges is beyond RS_GRAM_REACH. */
#define RS_GRAM_REACH 6.0
enum { RS_GRAM_TERMS = 64 };
typedef struct rs_gram_range {
    double low, high;
} rs_gram_range;
rs_gram_range rs_gram_range_of(const double *a, int64_t size);
double rs_gram_middle(rs_gram_range range);
int rs_gram_terms(rs_gram_range pull, rs_gram_range part);
/* Whether exp(−pull (part − its middle)) is well within the doubles. */
bool rs_gram_in_reach(double pull, rs_gram_range part);

#endif
