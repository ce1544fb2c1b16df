/*
 * gram_turned.h: gram_mixing.h's sums where positions turn queries and keys, so that the covariance of
 * logits depends on distances as well (docs/theory/mean_field.md, 6):
 *
 *     w^{ii'}_jj' ∝ own_j own_j' exp(−pull_ii' part_jj'(δ)),  δ = (i − i') − (j − j'),
 *     part_jj'(δ) = (1 − turn_|δ|) + turn_|δ| ratio apart_jj'
 *
 * over the keys first_i … end_i − 1. One sum over keys a distance i − i' and power: n³ in all.
 */
#ifndef RS_PREDICT_GRAM_TURNED_H
#define RS_PREDICT_GRAM_TURNED_H

#include "base/error.h"

typedef struct rs_gram_turned rs_gram_turned;
rs_status rs_gram_turned_open(rs_gram_turned **out, int64_t n, rs_error *err);
void rs_gram_turned_close(rs_gram_turned *turned); /* NULL is fine */

typedef struct rs_gram_turned_law {
    const double *pull, *apart; /* [n, n], symmetric */
    double ratio;
    const double *own;          /* [n] */
    const double *turn;         /* [2n − 1], 1 at 0 */
    const int64_t *first, *end; /* [n] */
} rs_gram_turned_law;

/* rest[i, i'] = Σ w apart_jj', and back[j, j'] = Σ w given_ii', shared[i, i'] = Σ_j w_jj for i' <= i.
 * false: gram_mixing.h. */
bool rs_gram_turned_gather(double *rest, rs_gram_turned *turned, const rs_gram_turned_law *law);
bool rs_gram_turned_scatter(double *back, double *shared, rs_gram_turned *turned,
                            const rs_gram_turned_law *law, const double *given);

#endif
