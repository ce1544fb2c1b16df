/*
 * token_measures.h: what one token matrix X (n×d, rows are tokens) says about rank collapse. Pure
 * functions: one matrix in, its measures out, no allocation, no threads of their own.
 *
 * Every number is *computed* in double precision from the stored entries. The sums that vanish when
 * tokens become equal (residuals, one_minus_cosine, diameter, rank1_residual) are taken over
 * differences, so they keep their digits down to the last bit of the input instead of stopping at
 * the square root of the rounding unit.
 *
 * The residual measures subtract a centre, rs_centre (docs/theory/tokens.md, 1): the paper's theorem
 * speaks of the minimiser of its own norm, its experiments subtract the mean.
 *
 * Notation: x the centre (a row vector), R = X − 1x (RS_CENTRE_GRAPH: X − ux, u a vector of the
 * tokens), x̄ the column mean, u_i = X_i/‖X_i‖ over the m
 * non-zero rows, σ the singular values of X (not centred) in descending order, k = min(n, d).
 */
#ifndef RS_MEASURES_TOKEN_MEASURES_H
#define RS_MEASURES_TOKEN_MEASURES_H

#include "base/error.h"

/* The measures of one matrix. NaN where undefined: a zero matrix has no ratio, n = 1 no cosine. */
typedef struct rs_token_measures {
    /* ‖X‖_F ≥ 0. */
    double norm_fro;
    /* ‖R‖_F ≥ 0; with the mean this is μ(X) (docs/theory/tokens.md, 3). Zero when n = 1. */
    double residual_fro;
    /* ‖R‖_F/‖X‖_F; in [0, 1] for the mean (docs/theory/tokens.md, 3). Invariant
     * under scaling of X and rotation of the features. */
    double relative_residual;
    /* The composite norm ‖R‖_{1,∞} = sqrt(‖R‖₁ ‖R‖∞), ‖·‖₁ the largest absolute column sum, ‖·‖∞
     * the largest absolute row sum (docs/theory/tokens.md, 2, with the square root). */
    double residual_1inf;
    /* ‖R‖_{1,∞}/‖X‖_{1,∞}; may exceed 1 (at most 2(1−1/n) for the mean). */
    double relative_residual_1inf;
    /* μ(rn(X))/√n, rn scales every row to length 1, zero rows stay zero: in [0, 1]
     * (docs/theory/tokens.md, 4). Invariant under any scaling of single rows. NaN for X = 0. */
    double row_normalised_mu;
    /* sqrt(Σ_{i≥2} σ_i²)/‖σ‖: in [0, 1), 0 exactly when X has rank one (docs/theory/tokens.md,
     * 4). */
    double rank1_residual;
    /* Mean of u_i·u_j over pairs i ≠ j of non-zero rows: (‖Σu‖² − m)/(m(m−1)), in [−1/(m−1), 1]
     * (docs/theory/tokens.md, 4). NaN for m < 2. */
    double mean_cosine;
    /* ‖U − ū‖_F²/(m − 1): the same number as 1 − mean_cosine without its cancellation. */
    double one_minus_cosine;
    /* max_{i,j} ‖X_i − X_j‖₂ (docs/theory/tokens.md, 5). */
    double diameter;
    /* exp(−Σ p_i ln p_i), p = σ/Σσ (Roy and Vetterli 2007): in [1, k]. */
    double effective_rank;
    /* Σσ²/σ₁² = ‖X‖_F²/‖X‖₂²: in [1, k]. */
    double stable_rank;
    /* Σσ⁴/σ₁⁴: the stable rank of XXᵀ (docs/theory/tokens.md, 6). At most stable_rank. */
    double stable_rank_gram;
    /* How many σ exceed max(n, d)·ε·σ₁, ε = 2·options.epsilon (FLT_EPSILON or DBL_EPSILON). */
    double numerical_rank;
    /* relative_residual is no more than `floor`: the tokens may be equal, the pass cannot tell. */
    bool at_floor;
    /* RS_TOKEN_FLOOR·options.epsilon, relative to ‖X‖_F. */
    double floor;
    /* The row of the first NaN or infinity, −1: none. With one, all numbers above are NaN. */
    int64_t first_nonfinite;
    /* RS_CENTRE_LP: (radius − lower bound)/radius of the ball that was found; else 0. At most
     * max(RS_TOKEN_LP_LEAST, RS_TOKEN_LP_GAP·options.epsilon) unless the solver stopped early: the
     * centre is then that of a ball larger than the smallest by no more than this. */
    double centre_gap;
    /* ‖X‖_{1,∞}, and Σσ when the spectrum was asked for; no table has them. */
    double norm_1inf, nuclear_norm;
    /* Logarithms in the residual precision; NaN in others, where `equal`, and where `beyond`. */
    double log10_norm_fro, log10_residual_fro, log10_relative_residual, log10_residual_1inf,
        log10_relative_residual_1inf, log10_one_minus_cosine, log10_diameter;
    bool equal;  /* the residual is exactly zero */
    bool beyond; /* the residual's exponent is below what is counted */
} rs_token_measures;

/* The gap that the LP centre may have in units of roundoff (5e-4 for float32 states), but no less
 * than RS_TOKEN_LP_LEAST. The least radius has one centre only by accident, and ‖R‖_{1,∞} differs
 * from one of them to the next by far more than this. */
#define RS_TOKEN_LP_GAP 8389.0
#define RS_TOKEN_LP_LEAST 1e-6

/* What to measure, and how. */
typedef struct rs_token_options {
    /* rank1_residual and the four ranks are computed, too; else they are NaN. */
    bool spectral;
    rs_centre centre;
    /* The unit roundoff of the precision that made X: FLT_EPSILON/2 or DBL_EPSILON/2. */
    double epsilon;
    /* numerical_rank counts singular values above this; 0: above what is described there. */
    double threshold;
    /* [n] u of RS_CENTRE_GRAPH, not zero: token i is compared with u_i c, c = Xᵀu/‖u‖². */
    const double *right;
    /* diameter, alone in its price of n² d, stays NaN. */
    bool no_diameter;
} rs_token_options;

/*
 * The floor of relative_residual in units of roundoff u. Rows that are equal in exact arithmetic
 * leave a forward pass in precision u with relative differences of a few u: every entry was rounded
 * when it was stored, and the row's softmax and norm were rounded once or twice more. Chains of 3
 * to 6 layers without skips settle between 1.8u and 6.0u in the Frobenius norm (measured here in
 * float32 and float64, with and without MLPs); the published float32 chains at 1.0e-7 to 3.5e-7,
 * 1.7u to 5.9u, in the composite norm; the last honest value on the published way down is 7.0e-7 =
 * 11.7u (docs/theory/collapse.md, 13), 18u in the Frobenius norm. Eight lies between them. The
 * plateau of 1.9e-15 = 17u printed for float64 is not the chain's: it is the rounding of the mean
 * of 128 tokens summed naively (1.8u is left when it is summed as here, with the same factor in
 * either precision).
 */
#define RS_TOKEN_FLOOR 8.0

/* How many bytes of workspace one call needs; SIZE_MAX when they do not fit in size_t. */
size_t rs_token_workspace(int64_t n, int64_t d, const rs_token_options *options);

/*
 * Measure X: n×d, row-major with leading dimension ld ≥ d, n ≥ 1, d ≥ 1. One call is
 * single-threaded and uses only `workspace` (of rs_token_workspace bytes, aligned as malloc does):
 * callers run samples in parallel. Errors: RS_E_INTERNAL for sizes that make no sense, RS_E_LAPACK.
 */
rs_status rs_token_measure_f32(rs_token_measures *out, const float *x, int64_t n, int64_t d,
                               int64_t ld, const rs_token_options *options, void *workspace,
                               rs_error *err);
rs_status rs_token_measure_f64(rs_token_measures *out, const double *x, int64_t n, int64_t d,
                               int64_t ld, const rs_token_options *options, void *workspace,
                               rs_error *err);

/* Sets every measure to NaN or false, and the floor. */
void rs_token_measures_clear(rs_token_measures *out, double floor);

/* A sample of the residual precision: X = 2^scale (1 baseᵀ + 2^exponent residual)
 * (engine/residual.h). */
typedef struct rs_token_residual {
    const double *base, *residual; /* [d], [n, d] */
    int64_t exponent, scale;
    double rounding;     /* share of the residual that may be rounding */
    const double *plain; /* [n, d] X as plain numbers; not read where scale is not 0 */
    int64_t n, d;
} rs_token_residual;

/* token_residual.c: measures such a sample, what vanishes with the residual from base and residual,
 * with its logarithm. The floor is the sample's own: at_floor is whether `rounding` says that the
 * residual is no more than RS_TOKEN_FLOOR times what rounding would leave; a residual of 0 is `equal`
 * only where it is not. */
size_t rs_token_residual_workspace(int64_t n, int64_t d, const rs_token_options *options);
rs_status rs_token_measure_residual(rs_token_measures *out, const rs_token_residual *x,
                                    const rs_token_options *options, void *workspace,
                                    rs_error *err);

#endif
