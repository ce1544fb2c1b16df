/*
 * gram_state.h: tokens of different size and correlation, by what their Gram matrix is made of
 * (docs/theory/mean_field.md, 6).
 *
 * Token i has E|x_i|²/d = e^ln_square square_i, and two of them E|x_i − x_j|²/2d = e^ln_gap gap_ij:
 * differences are carried for themselves, so that 1 − ρ has its digits down to about 1e-30 (norms of
 * tokens, which differ as well, are known to rounding of 1).
 */
#ifndef RS_PREDICT_GRAM_STATE_H
#define RS_PREDICT_GRAM_STATE_H

#include "predict/theory.h"

typedef struct rs_gram_state {
    int64_t n;
    double ln_square, ln_gap;
    double *square; /* [n], largest 1 */
    double *gap;    /* [n, n], symmetric, largest 1e-6 to 1, diagonal 0 */
    double *root;   /* [n]: scratch */
} rs_gram_state;

rs_status rs_gram_state_open(rs_gram_state *out, int64_t n, rs_error *err);
void rs_gram_state_close(rs_gram_state *state);
void rs_gram_state_copy(rs_gram_state *to, const rs_gram_state *from);

/* Tokens of one squared norm e^ln_square and of correlation rho. */
void rs_gram_state_start(rs_gram_state *state, double ln_square, double rho);
/* state = e^ln_kept state + e^ln_added added. */
void rs_gram_state_add(rs_gram_state *state, double ln_kept, const rs_gram_state *added,
                       double ln_added);
/* Through a norm; factor [n]: what it multiplied squares by, over e^*ln_factor. */
void rs_gram_state_norm(rs_gram_state *state, double *factor, double *ln_factor,
                        const rs_theory_norm *norm);
/* Makes the largest square 1, and gaps as large as they may be. */
void rs_gram_state_scale(rs_gram_state *state);

/* ln Σ square, ln Σ_ij K_ij and ln(1 − ρ), ρ = (Σ_ij K/Σ square − 1)/(n − 1), per width. */
typedef struct rs_gram_sums {
    double ln_squares, ln_all, ln_apart;
} rs_gram_sums;
void rs_gram_state_sums(rs_gram_sums *out, const rs_gram_state *state);
/* The unit of gaps over that of squares, and with it E⟨x_i, x_j⟩/d over e^ln_square. */
double rs_gram_state_ratio(const rs_gram_state *state);
static inline double rs_gram_state_product(const rs_gram_state *state, double ratio, int64_t i,
                                           int64_t j)
{
    return (state->square[i] + state->square[j]) / 2 - ratio * state->gap[i * state->n + j];
}
/* The largest square over the least. */
double rs_gram_state_unequal(const rs_gram_state *state);

#endif
