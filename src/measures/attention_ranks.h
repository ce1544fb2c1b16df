/*
 * attention_ranks.h: how many directions a mixing matrix has: ranks of A, and of A − U, U uniform over
 * the visible keys (docs/theory/attention.md, 8). One singular value decomposition of each serves
 * every rank, and σ₁ and σ₂.
 */
#ifndef RS_MEASURES_ATTENTION_RANKS_H
#define RS_MEASURES_ATTENTION_RANKS_H

#include "base/error.h"
#include "linalg/workspace.h"

#include <stdbool.h>
#include <stdint.h>

/* The ranks of one matrix of n singular values σ₁ ≥ σ₂ ≥ ... All but `numerical` are NaN for a matrix of
 * zeros. */
typedef struct rs_matrix_ranks {
    double effective; /* exp(−Σ p ln p), p = σ/Σσ (Roy and Vetterli 2007) */
    double stable;    /* Σσ² / σ₁² */
    double energy;    /* the least k with Σ_{i ≤ k} σ_i² ≥ 0.9 Σσ² */
    double
        numerical; /* how many σ exceed n ε times a given size, ε that of the entries' precision */
} rs_matrix_ranks;
rs_matrix_ranks rs_matrix_ranks_none(void); /* NaN throughout */
/* sigma: [n], descending; size: what the entries' rounding is relative to; single: they were rounded to
 * float32. */
rs_matrix_ranks rs_matrix_ranks_of(const double *sigma, int64_t n, double size, bool single);

/* Adds what rs_matrix_ranks_measure takes from `space`. */
void rs_matrix_ranks_space(int64_t n, rs_workspace *space);
/* The ranks of a [n, n] of float64 entries, which is not changed, and its two largest singular values;
 * sigma[1] = 0 where n = 1. False where the decomposition did not converge. O(n³); serial. */
bool rs_matrix_ranks_measure(rs_matrix_ranks *out, double sigma[2], const double *a, int64_t n,
                             rs_workspace *space);

/* The keys low..high that query i sees: all, or those up to itself (causal), of these the nearest
 * `window` where that is above 0. */
typedef struct rs_visible_keys {
    int64_t low, high;
} rs_visible_keys;
rs_visible_keys rs_visible_keys_of(int64_t i, int64_t n, bool causal, int64_t window);

/* Ranks of A and of A − U. The numerical rank of A − U counts what exceeds the rounding of A, which is
 * all that a head leaves there that tells no key from another. */
typedef struct rs_attention_ranks {
    rs_matrix_ranks whole, centred;
    double sigma1, sigma2; /* of A; sigma2 = 0 where n = 1 */
} rs_attention_ranks;

/* Takes from `space` what rs_matrix_ranks_space adds. a: [n, n], finite, row-major. False where a decomposition did not converge. O(n³); serial. */
bool rs_attention_ranks_measure(rs_attention_ranks *out, const double *a, int64_t n, bool causal,
                                int64_t window, bool single, rs_workspace *space);

/* What a head without any structure would have: the mean ranks of `draws` matrices whose rows are softmaxes
 * of independent N(0, variance) logits over the visible keys, by `seed` and `stream`; NaN where the
 * variance is. room: rs_attention_ranks_null_room(n) bytes. */
size_t rs_attention_ranks_null_room(int64_t n); /* SIZE_MAX: it is no size */
bool rs_attention_ranks_null(rs_attention_ranks *out, double variance, int64_t n, bool causal,
                             int64_t window, int draws, uint64_t seed, uint64_t stream, void *room);

#endif
