/*
 * bounds.h: the inequalities behind `rankscope certify` as pure functions (docs/certificates.md
 * derives each; C1, C2, … are its numbers). Source: Dong, Cordonnier, Loukas (2021) as read in
 * docs/theory/collapse.md, with the corrections of docs/theory/corrections.md.
 *
 * X: n×d, rows are tokens; diameter δ = max ‖X_i − X_j‖₂; TV(p, q) = ½ Σ|p_j − q_j|.
 * Functions named _ball take and give balls (linalg/ball.h): what they return is proved. The plain
 * ones are computed in float64.
 */
#ifndef RS_PROOF_BOUNDS_H
#define RS_PROOF_BOUNDS_H

#include "linalg/activation.h"
#include "linalg/ball.h"

/* The constants of the statements, in one place so that a test can make each 5 % smaller and see an
 * inequality fail (tight ones) or an exact value differ (loose ones). */
typedef struct rs_bound_constants {
    double range_share;             /* C1: TV ≤ tanh(range/4): 1/4 */
    double published_factor;        /* P1: the 4 of 4γβ/√d */
    double published_range;         /* P1: its hypothesis on the range: 1.256 */
    double perturbation_factor;     /* C7: 1 × K(ρ) */
    double norm_factor;             /* C4: 1 × max|g|/min std */
    double centre_factor;           /* C8: 2(1 − 1/n) between the centres */
    double lipschitz[RS_ACT_COUNT]; /* C5: of the activations, rounded up; +∞: none on the line */
} rs_bound_constants;
extern const rs_bound_constants rs_bounds_exact;

/* ---- softmax (C1, C2) ---- */

/* TV(softmax(a), softmax(b)) ≤ tanh(range/4), range = max_j(a − b) − min_j(a − b) ≥ 0. Tight for
 * two entries. */
void rs_tv_bound_ball(arb_t out, const arb_t range, const rs_bound_constants *c);

/* K(ρ) = (e^ρ − 1)/ρ + (e^{2ρ} − 1)/(2ρ), K(0) = 2: Σ_i |P_ij − p_j| ≤ p_j ‖E‖₁ K(ρ). +∞ beyond the
 * range of doubles. */
double rs_perturbation_constant(double range, const rs_bound_constants *c);

/* τ = max_{i,i'} ½ Σ_j |M_ij − M_i'j| over rows i, i' < n of a mixing matrix M (n×keys, leading
 * dimension ld) of equal row sums: a Dobrushin coefficient where M is row-stochastic. Rows of the
 * softmax P (as M; NULL: M itself) that are all zero see nothing: they are left out and counted.
 * distance: n doubles, mean: keys doubles of workspace. The sums have a relative error of at most
 * γ_{keys+2}. */
typedef struct rs_mixing_contraction {
    double tau;
    int64_t empty_rows;
} rs_mixing_contraction;
void rs_mixing_contraction_of(rs_mixing_contraction *out, const double *m, const double *p,
                              int64_t n, int64_t keys, int64_t ld, double *distance, double *mean);

/* ---- one layer, upwards (C3, C4, C5, C6) ---- */

/* One head, and what bounds TV between two of its rows. */
typedef struct rs_head_bound {
    double qk_norm;    /* scale·‖W_QK‖₂; NaN: the logits are not bilinear in the tokens */
    double value_norm; /* ‖W_h‖₂ */
    double measured;   /* an upper bound of τ of this input; NaN: none */
    double identity, softmax; /* |a|, |b| of the mixing aI + bP − cC */
} rs_head_bound;
/* C3: diameter of Σ_h M_h X W_h ≤ δ Σ_h ‖W_h‖₂ min(measured τ, |a| + |b| tanh(qk δ²/4)). delta may
 * be any size. *vacuous heads (neither known) make it +∞. out may be delta. */
void rs_attention_bound_ball(arb_t out, const arb_t delta, const rs_head_bound *heads, int32_t n,
                             const rs_bound_constants *c);
/* C4: diameter after a norm ≤ max|g| δ / min_i √(var_i + ε). least_std > 0. */
void rs_norm_bound_ball(arb_t out, const arb_t delta, double largest_gain, double least_std,
                        const rs_bound_constants *c);
/* C5: the MLP's Lipschitz constant on a set of tokens of norm at most `longest` (what it reads). */
typedef struct rs_mlp_bound {
    rs_activation activation;
    bool gated;
    double up_two, gate_two, down_two; /* spectral norms */
    double up_row, gate_row;           /* longest rows */
    double up_bias, gate_bias;         /* largest |entries| */
} rs_mlp_bound;
/* The most that |φ(v)| is for |v| ≤ length: |v|; of relu² its square; of what has bounds no more. */
double rs_activation_most(rs_activation activation, double length);
double rs_mlp_lipschitz(const rs_mlp_bound *mlp, double longest, const rs_bound_constants *c);

/* ---- one layer, downwards (C6; docs/theory/corrections.md, 5) ---- */

/* lo' = lo·max(0, |skip| − factor), factor an upper bound of (diameter of the branch)/δ for every δ
 * up to hi. */
void rs_skip_lower_ball(arb_t lo, double skip, const arb_t factor);

/* ---- the published statements (P1 to P3), for reproduction ---- */

/* γ_min = √(Σ_i D_ii · max_i D_ii) √d_qk / (2 ‖R‖₁ ‖R‖∞ ‖W_QK‖₁): the least γ for which the
 * published chain holds on this input; at most √(n/2) (docs/theory/corrections.md, 10). scale
 * stands for 1/√d_qk. */
double rs_gamma_min(double sum_ranges, double largest_range, double scale, double residual_one,
                    double residual_inf, double qk_one);
/* log10 of (4 γ β H scale lipschitz^(…))-bound after one layer: factor·γ·β·H·scale·lipschitz·r³,
 * all logarithms to base 10; `log_r` may be −∞. */
double rs_published_layer(double log_r, double gamma, double beta, double heads, double scale,
                          double lipschitz, const rs_bound_constants *c);
/* log10 of (factor)^{(3^L−1)/2} r^{3^L}. ±∞ beyond the range of log10's doubles. */
double rs_published_depth(double log_r, double log_factor, int64_t layers);

/* ---- the corrected recursion of the composite norm (C7) ---- */

/* One head's norms in the two induced norms. */
typedef struct rs_head_sums {
    double qk_one;       /* scale·‖W_QK‖₁ */
    double w_one, w_inf; /* ‖W_h‖₁, ‖W_h‖∞ */
    double range;        /* measured max_i range_j E_ij; NaN: bounded by 2 qk_one q */
} rs_head_sums;
/* log10 of q' from log10 of q = ‖R‖₁‖R‖∞: q' = q (|skip| + α Λ₁κ₁q)(|skip| + α Λ∞κ∞q). mlp_one,
 * mlp_inf: factors of an MLP behind it (1: none). Rounded up: all terms are positive, so up to 4096
 * heads lose less than 1e-12 of what the logarithms are of, and each logarithm (or power below
 * 10^300) less than 1e-12 of itself; the result is raised by 1e-12 (10 + |log_q| + |result|). */
typedef struct rs_recursion_step {
    const rs_head_sums *heads;
    int32_t n_heads;
    double skip, scale;      /* |λ|, |α| */
    double mlp_one, mlp_inf; /* with the MLP's own skip added */
} rs_recursion_step;
double rs_recursion_bound(double log_q, const rs_recursion_step *step, const rs_bound_constants *c);
/* The residual about the mean is at most this times the one about any other centre (composite
 * norm; C8): 2(1 − 1/n). */
double rs_centre_factor(int64_t n, const rs_bound_constants *c);

#endif
