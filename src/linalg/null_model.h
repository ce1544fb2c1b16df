/* null_model.h: what random Gaussian factors of a given shape give, so that a finding is measured
 * against chance. */
#ifndef RS_LINALG_NULL_MODEL_H
#define RS_LINALG_NULL_MODEL_H

#include "base/error.h"
#include "base/random.h"

#include <stddef.h>
#include <stdint.h>

/*
 * Means over trials for A (m×r) and B (n×r) with i.i.d. N(0, 1) entries. No m×n or m×r matrix is
 * drawn: by Bartlett's decomposition the triangular factor of a Gaussian matrix has chi-distributed
 * diagonal and normal off-diagonal entries, and the non-zero singular values of a product of
 * Gaussian matrices do not depend on the order of the three dimensions, so the spectrum is that of
 * two k×k triangles, k = min(m, n, r), with the two larger dimensions as degrees of freedom. Beyond
 * k = 512 the dimensions are scaled down together and the ranks scaled back (they are proportional
 * to k at fixed ratios).
 */
typedef struct rs_null_model {
    double nuclear_ratio; /* ‖ABᵀ‖_* / H, H = ½(‖A‖_F² + ‖B‖_F²) */
    double effective_rank, stable_rank, participation_ratio;
    double effective_rank_spread; /* standard deviation of effective_rank over the trials */
    double pseudo_rank;           /* in units of r, like rs_measures.pseudo_rank */
    double energy_rank;
    int64_t trials, k;            /* number of trials drawn, and of points of the band */
    double *band_low, *band_high; /* [k] 5 % and 95 % quantile of σ_i/σ₁; with fewer than 20 trials
                                     the least and the largest */
} rs_null_model;

/* Draws the model of a shape; the draws depend on the shape and the seed only. */
rs_status rs_null_model_new(rs_null_model *out, int64_t m, int64_t n, int64_t r, uint64_t seed,
                            rs_error *err);
void rs_null_model_free(rs_null_model *model);

/* How alike the effective ranks of two products of random factors are that share one: the correlation of those of
 * A₁Bᵀ and A₂Bᵀ, A (own×r) and B (shared×r) with i.i.d. N(0, 1) entries; 0 where they do not vary. Shapes of which
 * the least dimension is above 16 are scaled down to it: the correlation depends on the ratios alone but for
 * 1/k. From 4 products each of 1024 draws of B; its standard error is some 0.02. */
rs_status rs_null_correlation(double *out, int64_t own, int64_t shared, int64_t r, uint64_t seed,
                              rs_error *err);

/* The upper triangular factor (row-major k×k) of a Gaussian matrix with dof >= k rows. */
void rs_bartlett(double *u, int64_t k, double dof, rs_random *random);

/* Null models by shape, drawn once each. Zero-initialise; whoever holds it closes it. Models stay
 * where they are until then. */
typedef struct rs_null_cache {
    struct rs_null_entry *entries;
    size_t n, capacity;
} rs_null_cache;

/* The model of that shape and seed, drawn when it is asked for the first time. */
rs_status rs_null_cache_get(const rs_null_model **out, rs_null_cache *cache, int64_t m, int64_t n,
                            int64_t r, uint64_t seed, rs_error *err);
void rs_null_cache_close(rs_null_cache *cache);

#endif
