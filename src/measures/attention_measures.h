/*
 * attention_measures.h: what one mixing matrix A (n×n, A_ij: how much query i takes from key j)
 * says about rank collapse. Pure functions: no allocation, no threads of their own.
 *
 * Every number is *computed* in double precision. P are the softmax probabilities that A was made
 * of (A = P unless a variant or a remedy edited it), J the uniform matrix over the visible keys:
 * J_ij = 1/|visible(i)|. Key j is visible to query i when j ≤ i (causal) and j > i − window (window
 * > 0; without causal |i − j| < window). Formulas and sources:
 * docs/theory/attention.md.
 */
#ifndef RS_MEASURES_ATTENTION_MEASURES_H
#define RS_MEASURES_ATTENTION_MEASURES_H

#include "base/error.h"

/* The measures of one matrix. */
typedef struct rs_attention_measures {
    /* −Σ_j P_ij ln P_ij in nats (0 ln 0 = 0), averaged over the rows that have any weight: in
     * [0, ln n]. */
    double entropy;
    /* The variance of row i's logits over its visible keys (finite ones, population variance),
     * averaged over the rows with at least one: s² of docs/theory/attention.md, 1, of which
     * a constant added to a row, which softmax ignores, is no part. NaN without logits. */
    double logit_variance;
    /* 1 − |λ₂|: in [0, 1] for a row-stochastic A. Of the matrix as applied: where A
     * was centred or scaled it is 1 − lambda2 all the same, and may be negative. */
    double spectral_gap;
    /* The two largest singular values of A, multiplicity counted; sigma2 = 0 when n = 1. Relative
     * error below 1e-10 for float64 entries and 1e-8 for float32 ones, or the width of a cluster
     * narrower than 1e-8. */
    double sigma1, sigma2;
    /* |λ₂|: the second largest modulus of A's eigenvalues, counted with multiplicity; 0 when n = 1.
     * Of a causal A the eigenvalues are the diagonal. Backward error 1e-11 relative for float64
     * entries, 1e-9 for float32 ones, whose rounding alone moves it by about 1e-7 times its
     * condition. */
    double lambda2;
    /* Dobrushin's coefficient ½ max_{i,i'} Σ_j |A_ij − A_i'j|: in [0, 1] for a row-stochastic A
     * (docs/theory/attention.md, 4: the largest total variation between two queries' attention). */
    double dobrushin;
    /* ‖A − J‖_F (docs/theory/attention.md, 6). */
    double distance_to_uniform;
    /* Mean of the diagonal of A, and the mean of its first column over the rows that see key 0. */
    double self_weight, first_token_weight;
    /* ‖(I − 11ᵀ/n)A‖₂² = λ_max(Aᵀ(I − 11ᵀ/n)A) may exceed 1 (docs/theory/attention.md, 5). */
    double centred_norm_squared;
    /* Ranks of A and of A − J (attention_ranks.h); NaN where they were not asked for. */
    double effective_rank, stable_rank, energy_rank, numerical_rank;
    double centred_effective_rank, centred_stable_rank, centred_energy_rank, centred_numerical_rank;
    /* False when an eigenvalue or singular value iteration, and the direct method behind it, both
     * failed: what it should have given is NaN. */
    bool converged;
} rs_attention_measures;

/* How many bytes of workspace one call needs; SIZE_MAX when they do not fit in size_t. */
size_t rs_attention_workspace(int64_t n);

/*
 * Measure one matrix. mixing: A; probabilities: P (the same pointer when nothing was edited;
 * NULL: A was made of no probabilities, and has no entropy);
 * logits: before masking and softmax, or NULL; all n×n, row-major with leading dimension ld ≥ n, n
 * ≥ 1. causal: A is lower triangular (what lies above the diagonal is not read). window: > 0 when
 * only that many keys are visible, 0 otherwise. Rows that are all zero (a fully masked query) are
 * tolerated. A NaN or infinity in A or P makes every number NaN; one in the logits only
 * logit_variance. ranks: those are measured, too. workspace: rs_attention_workspace(n) bytes, aligned
 * as malloc does; one call is single-threaded. Error: RS_E_INTERNAL for sizes that make no sense. Cost: O(n²) for most; about
 * 50 products with A for the spectra, a direct O(n³) method where those do not converge;
 * Dobrushin's coefficient O(n³) at worst, near O(n²) for most matrices; ranks: two decompositions,
 * O(n³).
 */
rs_status rs_attention_measure_f32(rs_attention_measures *out, const float *mixing,
                                   const float *probabilities, const float *logits, int64_t n,
                                   int64_t ld, bool causal, int64_t window, bool ranks,
                                   void *workspace, rs_error *err);
rs_status rs_attention_measure_f64(rs_attention_measures *out, const double *mixing,
                                   const double *probabilities, const double *logits, int64_t n,
                                   int64_t ld, bool causal, int64_t window, bool ranks,
                                   void *workspace, rs_error *err);

#endif
