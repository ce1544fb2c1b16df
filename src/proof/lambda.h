/*
 * lambda.h: which skip strengths λ keep the tokens of one layer apart (docs/certificates_lambda.md
 * derives every statement; L1, L2, … below are its numbers).
 *
 * A layer is Y = norm(λX + O): X the n×d state that the skip multiplies, O what the branch gave for
 * that state (its scale, biases and inner norm included). R = I − 11ᵀ/n centres over tokens and
 * μ(Y) = ‖RY‖_F. `kept` is always the fraction of μ that has to be left after ONE layer; the rate a
 * of the published equation 7 is that of μ², a = kept².
 *
 * Every number labelled certified is proved for the float64 numbers X, O, gain and epsilon that are
 * handed in: only + − × ÷ √ are used (IEEE 754: each within half a unit of the last place), and
 * bounds on all roundings are carried along, always: there is no faster, unsafe variant. What
 * cannot be decided within those bounds is `unknown`. A smallest |λ| is rounded up, a bound from
 * below is rounded down.
 *
 * Pure functions: no threads, no state but the test hook at the end. Sizes n ≥ 1, d ≥ 1. A NaN or
 * infinity in X, O, gain or epsilon: RS_E_INPUT_FORMAT that names row and column.
 */
#ifndef RS_PROOF_LAMBDA_H
#define RS_PROOF_LAMBDA_H

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

/* ---- what is given ---- */

/* The kinds of norms. */
typedef enum rs_lambda_norm_kind {
    RS_LAMBDA_NO_NORM,
    RS_LAMBDA_LAYERNORM, /* centres each row over its features first */
    RS_LAMBDA_RMSNORM
} rs_lambda_norm_kind;

/* The norm of the sum (post-norm), or the one that reads the sum next (pre-norm models). */
typedef struct rs_lambda_norm {
    rs_lambda_norm_kind kind;
    const double *gain; /* [d]; NULL: ones */
    const double *bias; /* [d]; NULL: zeros. μ does not see it; hypotheses of theorems do */
    double epsilon;     /* under the square root, beside the mean of squares; ≥ 0 */
} rs_lambda_norm;

/* One layer on one input. */
typedef struct rs_lambda_layer {
    const double *input;  /* X: [n, d], leading dimension input_ld */
    const double *branch; /* O: [n, d], leading dimension branch_ld */
    int64_t n, d;         /* real tokens only: no padding */
    int64_t input_ld, branch_ld;
    rs_lambda_norm norm;
    /* O is known to this much: each true row is within it (2-norm) of the given one (L20); 0: it is
     * what is given. rs_lambda_quadratic_set leaves it to its `kept`. */
    double branch_error;
} rs_lambda_layer;

/* A number that hangs on hypotheses. The value is given wherever it can be computed, NaN elsewhere;
 * valid: every hypothesis holds here, so the value proves what it says. */
typedef struct rs_lambda_number {
    double value;
    bool valid;
    const char *failed_hypothesis; /* NULL when valid; else static text, the first that fails */
} rs_lambda_number;

/* ---- 1. without norm: the exact set of λ (L1) ---- */

typedef struct rs_lambda_quadratic {
    /* ‖RX‖², ⟨RX, RO⟩, ‖RO‖²: ‖R(λX + O)‖² = αλ² + 2βλ + γ (computed). */
    double alpha, beta, gamma;
    /* Certified: every λ ≤ low and every λ ≥ high keeps kept·μ(X). NaN both: every λ does. */
    double low, high;
    /* Certified: every λ in [fails_low, fails_high] falls short. NaN both: none is known to. */
    double fails_low, fails_high;
    double smallest; /* the λ of smallest |λ| that certainly keeps it (0 when λ = 0 does) */
    double worst;    /* λ* = −β/α, where ‖R(λX + O)‖ is least; NaN when α = 0 */
    double worst_kept; /* ‖R(λ*X + O)‖/‖RX‖ there = √(γ − β²/α)/√α; NaN when α = 0 */
    double opposition; /* β/√(αγ) in [−1, 1]: −1, the branch only undoes; NaN when αγ = 0 */
    bool trivial;      /* α = 0: the tokens are equal already, every λ meets it (L1) */
    double margin;     /* half of the widest of the two gaps between certain yes and certain no */
} rs_lambda_quadratic;

/* kept ≥ 0, finite. The norm of the layer plays no part. Cost O(nd). */
rs_status rs_lambda_quadratic_set(rs_lambda_quadratic *out, const rs_lambda_layer *layer,
                                  double kept, rs_error *err);

/* ---- 2. with LayerNorm or RMSNorm (L2 to L5; docs/theory/corrections.md, 1 and 2) ---- */

/* The rows of one layer, prepared: each row of norm(λX + O) runs along an arc of a great circle.
 * Reuse one object for many layers (memory is kept). One thread at a time. */
typedef struct rs_lambda_arcs rs_lambda_arcs;
rs_status rs_lambda_arcs_open(rs_lambda_arcs **out, rs_error *err);
void rs_lambda_arcs_close(rs_lambda_arcs *arcs); /* NULL is fine */
/* Takes in a layer; its arrays are not needed afterwards. norm.kind must not be NO_NORM
 * (RS_E_UNSUPPORTED). Cost O(nd), about three passes over X and O. */
rs_status rs_lambda_arcs_set(rs_lambda_arcs *arcs, const rs_lambda_layer *layer, rs_error *err);

/* A number and how far it may be from the truth. */
typedef struct rs_lambda_value {
    double value; /* computed */
    double error; /* certified: |value − truth| ≤ error; infinite when nothing is known */
} rs_lambda_value;

/* μ(norm(λX + O))/√d, d the width: of rows of norm at most 1 (times gain). λ = ±∞ gives the limit,
 * μ(norm(±X))/√d with epsilon = 0. A row of λX + O that is zero while epsilon is 0 has no norm: it
 * counts as zero ± its largest size, which `error` includes. O(nd). */
rs_lambda_value rs_lambda_value_at(const rs_lambda_arcs *arcs, double lambda);
/* μ(X)/√d of the layer's input, what `kept` refers to: X as it came, not normed and not centred
 * over features (post-norm models: X left the norm of the branch before). */
rs_lambda_value rs_lambda_input_value(const rs_lambda_arcs *arcs);

/* Half lines (L3): certified that every λ ≥ positive and every λ ≤ negative has
 * value_at(λ) ≥ target (a value as above, e.g. kept·rs_lambda_input_value). +∞ or −∞: none known.
 * positive may be negative and negative positive. Both are within tolerance·max(1, |·|) of the
 * smallest that this bound can give. O(n) for each of about 60 steps. */
typedef struct rs_lambda_half_lines {
    double positive, negative;
} rs_lambda_half_lines;
rs_lambda_half_lines rs_lambda_half_line_set(const rs_lambda_arcs *arcs, double target,
                                             double tolerance);

/* Whether a λ keeps what is asked for. */
typedef enum rs_lambda_answer { RS_LAMBDA_NO, RS_LAMBDA_YES, RS_LAMBDA_UNKNOWN } rs_lambda_answer;
/* A stretch of λ with one answer. */
typedef struct rs_lambda_interval {
    double low, high;        /* closed; neighbours share their end */
    rs_lambda_answer answer; /* certified for every λ in it: value ≥ target (YES), < target (NO) */
} rs_lambda_interval;

/* All of a range of λ, answered. */
typedef struct rs_lambda_set {
    rs_lambda_interval *intervals; /* [n], ascending, no two neighbours with the same answer */
    size_t n, capacity;
    int64_t evaluations; /* how often the value was computed, O(nd) each */
    bool complete;       /* false: the limit on evaluations was reached, what was left is UNKNOWN */
    /* Certified: the λ of smallest |λ| in a YES interval; NaN: none. */
    double smallest;
    /* Certified: every λ ≥ all_above (or ≤ all_below) in [low, high] is YES; NaN: the end is
     * not. */
    double all_above, all_below;
} rs_lambda_set;

/* The certified partition of [low, high] (−∞ and +∞ allowed: the half lines close it) into YES, NO
 * and UNKNOWN intervals of λ (L4, L5). An UNKNOWN interval is no wider than tolerance·max(1, |λ|)
 * unless rounding, or the limit on evaluations, prevents it. out must be zeroed or used before (its
 * memory is kept); free with rs_lambda_set_free. max_evaluations ≤ 0: 1024. Errors: RS_E_NO_MEMORY,
 * RS_E_INTERNAL for low > high, NaN or a tolerance that is not positive. */
typedef struct rs_lambda_search {
    double target, low, high, tolerance;
    int64_t max_evaluations;
    double refuted; /* NO means below this, where target is itself known to rounding only (at most
                       0: nothing is refuted); NaN: target */
} rs_lambda_search;
rs_status rs_lambda_set_find(rs_lambda_set *out, const rs_lambda_arcs *arcs,
                             const rs_lambda_search *search, rs_error *err);
void rs_lambda_set_free(rs_lambda_set *set);

/* ---- 3. theorems: the smallest |λ| demanded for `kept` in each of `layers` layers ---- */

/* What the theorems need to know of a layer, measured by rs_lambda_facts_of. */
typedef struct rs_lambda_facts {
    int64_t n, d;
    double diversity;        /* ν = μ(X)/√(nd), rounded down; at most 1 for rows of norm √d */
    double diversity_most;   /* the same, rounded up */
    double branch_diversity; /* μ(O)/√(nd), rounded up */
    double row_gain;         /* c = max_i ‖o_i‖/√d of this O, rounded up */
    double row_ratio; /* max_i √(‖o_i‖² + dε)/‖x_i‖ (features centred first under LayerNorm,
                       * L7), rounded up; +∞ with a zero row of X */
    double smallest_row;   /* min_i ‖x_i‖, rounded down (features centred under LayerNorm) */
    double largest_branch; /* max_i ‖o_i‖, rounded up (features centred under LayerNorm) */
    double unit_diversity; /* μ(rn(X)diag g)/√n, rounded down; rn: unit rows (centred under LN) */
    double largest_gain;   /* max |g|; 1 without gain */
    double unit_off; /* max_i ‖x_i − √d rn(x_i)‖/√d, rounded up: how far rows are from what the
                      * published theorems ask for (centred over features under LayerNorm) */
    /* Hypotheses, decided on the numbers given. unit_rows: unit_off is at most 1e-9; a theorem then
     * counts it as a part of the branch, λ·unit_off√d a row. */
    bool normed, unit_gain, zero_bias, zero_epsilon, unit_rows;
} rs_lambda_facts;
rs_status rs_lambda_facts_of(rs_lambda_facts *out, const rs_lambda_layer *layer, rs_error *err);

/* What is asked for, and bounds that hold in all the layers it is asked for in. */
typedef struct rs_lambda_wish {
    double kept;    /* in (0, 1): fraction of μ left after one layer */
    int64_t layers; /* K ≥ 1: kept^K is left after K */
    /* c: bound on ‖o_i‖/√d in all those layers: facts->row_gain (this input, layers = 1), or a
     * weights-only gain (section 4; every input). */
    double row_gain;
    /* L with μ(O) ≤ L μ(X) in all those layers: rs_lambda_attention_lipschitz, or
     * branch_diversity/diversity (this input, layers = 1). */
    double lipschitz;
    /* S·C_M of the published theorem: rs_lambda_published_constant. */
    double published;
} rs_lambda_wish;

/* Theorem A (L6): ν after K layers ≥ kept^K ν when |λ| ≥ c/(2s√(1 − s²)), s = (1 − kept^K)ν/(2K).
 * Hypotheses: post-norm, gain 1, bias 0, ε = 0, rows of norm √d. */
rs_lambda_number rs_lambda_theorem_a(const rs_lambda_facts *facts, const rs_lambda_wish *wish);
/* Theorem A for one layer with any gain, bias and epsilon (L7): every |λ| ≥ value has
 * μ(norm(λX + O)) ≥ kept·μ(X). Uses facts->row_ratio. Hypotheses: a norm, no zero row, and that the
 * norm by itself leaves more than that, √d·μ(rn(X)diag g) > kept·μ(X): no λ can leave more of
 * it. */
rs_lambda_number rs_lambda_theorem_a_layer(const rs_lambda_facts *facts, double kept);
/* Theorem B (L8): (1 − L/√(λ² − c²))/(1 + c/|λ|) ≥ kept. No condition on diversity. Hypotheses as
 * theorem A. */
rs_lambda_number rs_lambda_theorem_b(const rs_lambda_facts *facts, const rs_lambda_wish *wish);
/* Theorem D (L9), pre-norm h ← λh + F(norm(h)), rows of F at most row_gain·√d, any depth: ν∞ ≥
 * kept^K ν. Uses facts of X = h; any gain, bias, epsilon of the inner norm. Hypotheses: no norm on
 * the sum, no zero row. */
rs_lambda_number rs_lambda_theorem_d(const rs_lambda_facts *facts, const rs_lambda_wish *wish);
/* Theorem D's drift: certified ν₀ − ν_k ≤ value for every k at this λ; +∞ and invalid where
 * (|λ| − 1)q ≤ B. published: with √2 as usually printed, else the sharper 1/cos(½
 * asin(B/(|λ|q))). */
rs_lambda_number rs_lambda_theorem_d_drift(const rs_lambda_facts *facts, double row_gain,
                                           double lambda, bool published);
/* Equation 7 as published (arXiv 2410.10609): |λ| > S C_M (a + √a)/(1 − a). Never enough alone. */
rs_lambda_number rs_lambda_published_eq7(const rs_lambda_facts *facts, const rs_lambda_wish *wish);
/* Equation 7 and the condition on the input μ² ≥ b, both (L10). */
rs_lambda_number rs_lambda_published_both(const rs_lambda_facts *facts, const rs_lambda_wish *wish);
/* b of the published condition: a^(−K)·2|λ| n d S C_M/(λ² − a(S C_M + |λ|)²); NaN when eq. 7 fails;
 * +∞ on overflow. */
double rs_lambda_published_b(const rs_lambda_facts *facts, const rs_lambda_wish *wish,
                             double lambda);

/* ---- 4. weights-only row gains c: ‖o_i‖ ≤ c√d for every input (L12 to L14) */

/* Norms are upper bounds that the caller answers for; γ is the gain and β the bias of the norm that
 * the branch reads through, folded into the weights: W diag γ. */
typedef struct rs_lambda_attention_weights {
    const double *head_norm; /* [heads] ‖W_O^h W_V^h diag γ‖₂; NULL: not known */
    int64_t heads, kv_heads;
    double stacked_norm; /* ‖[W_O^h W_V^h diag γ]_h‖₂ of the stacked products; NaN: not known */
    double value_norm, output_norm; /* ‖W_V diag γ‖₂ (all kv heads), ‖W_O‖₂; NaN: not known */
    /* ‖Σ_h W_O^h(W_V^h β + b_V^h) + b_O‖₂: one vector, since rows of P sum to 1. */
    double bias_norm;
} rs_lambda_attention_weights;
/* min over what is known of Σ_h σ_h, √heads·stacked_norm and √heads·value_norm·output_norm (L12),
 * plus bias_norm/√d. Any scores, any mask that leaves each row a key. branch_scale: |α|. */
rs_lambda_number rs_lambda_gain_attention(const rs_lambda_attention_weights *weights, int64_t d,
                                          double branch_scale);

/* What is known of the weights of an MLP. */
typedef struct rs_lambda_mlp_weights {
    bool gated;
    double down_norm;     /* ‖W_d‖₂ */
    double up_norm;       /* ‖W_u diag γ‖₂ */
    double gate_row_norm; /* gated: max_k ‖(W_g diag γ)_k‖₂ */
    /* Biases through the norm's β: ‖W_u β + b_u‖₂; gated: max_k |(W_g β + b_g)_k|; ‖b_d‖₂. */
    double up_bias_norm, gate_bias_max, down_bias_norm;
    bool bounded_by_identity; /* |φ(x)| ≤ |x| (ReLU, GELU, SiLU); else no gain is known */
} rs_lambda_mlp_weights;
rs_lambda_number rs_lambda_gain_mlp(const rs_lambda_mlp_weights *weights, int64_t d,
                                    double branch_scale);

/* S of the published theorem with grouped queries (L14): min(√(heads/kv_heads)·‖W_O‖‖W_V‖, Σ_h
 * σ_h). */
double rs_lambda_value_gain(const rs_lambda_attention_weights *weights);
/* sup over row-stochastic P (n×n) of ‖RPR‖₂ (L15): √(n/2) for even n, √((n² − 1)/(2n))
 * for odd n. Rounded up. */
double rs_lambda_mixing_bound(int64_t n);
/* L of theorem B for attention: Σ_h ‖RP_hR‖₂ ‖W_h‖₂ (L16). mixing_norm: [heads] upper bounds of
 * ‖RP_hR‖₂ of this input, or NULL: any P. NaN when head norms are not known. */
double rs_lambda_attention_lipschitz(const rs_lambda_attention_weights *weights, int64_t n,
                                     const double *mixing_norm, double branch_scale);
/* S·C_M of the published theorem for attention: √n·S. */
double rs_lambda_published_constant(const rs_lambda_attention_weights *weights, int64_t n,
                                    double branch_scale);

/* ---- 5. consensus: is collapse attracting at this λ (predicted, local; L17) ---- */

/* max |λ + w_k p_i|/|λ + w_1| over the eigenvalues p_i of P but one 1, and w_k of W but w_1 (L17):
 * below 1, collapse onto the direction of w_1 attracts. Hypotheses: post-norm without gain and
 * bias, one head, w_1 real. */
typedef struct rs_lambda_consensus {
    const double *mixing_real, *mixing_imaginary; /* [n] eigenvalues of P; imaginary NULL: real */
    int64_t n;
    const double *value_matrix; /* W: [d, d], what a row vector is multiplied by; leading d */
    int64_t d;
    double lambda;
    int64_t heads;
    rs_lambda_norm norm;
} rs_lambda_consensus;
/* value: the multiplier (a prediction, never certified). Errors: RS_E_LAPACK, RS_E_NO_MEMORY,
 * RS_E_INPUT_FORMAT for what is not finite. */
rs_status rs_lambda_consensus_multiplier(rs_lambda_number *out, const rs_lambda_consensus *given,
                                         rs_error *err);

/* ---- 6. over-smoothing factor v of a post-norm block (L18; docs/theory/corrections.md, 6) */

typedef struct rs_lambda_block {
    bool post_norm, row_stochastic; /* both branches post-norm; P1 = 1 */
    bool relu;                      /* the published form asks for it */
    double activation_lipschitz;    /* L_φ: 1 for ReLU; NaN: not known */
    const double *mixing_norm;      /* [heads] √λ_h = ‖RP_h‖₂, upper bounds */
    const double *head_norm;        /* [heads] ‖W_V,hW_O,h‖₂, upper bounds */
    int64_t heads;
    double up_norm, down_norm;     /* s_1, s_2 */
    double gain1, gain2;           /* max |g| of the two norms */
    bool unit_gains;               /* both gains are 1 */
    double std1, std2;             /* min_i √(var_i + ε) entering each norm, rounded down */
    double skip_mixer, skip_mlp;   /* λ of the two skips */
    double scale_mixer, scale_mlp; /* α of the two branches */
} rs_lambda_block;
/* v with gains, Lipschitz constant, skips and scales as they are: μ(block(X)) ≤ v μ(X), certified
 * for this input. */
rs_lambda_number rs_lambda_over_smoothing(const rs_lambda_block *block);
/* The published v (tight form): ReLU, gains 1, skips 1 and scales 1 are its hypotheses. */
rs_lambda_number rs_lambda_over_smoothing_published(const rs_lambda_block *block);

/* ---- 7. fixed P and W, any input direction, no norm after the sum (L19; 4.3) ---- */

/* μ(λX + Σ P_h X W_h) ≥ value·μ(X) for every X: |λ| − Σ ‖RP_hR‖‖W_h‖, rounded down (may be < 0).
 * mixing_norm NULL: for every row-stochastic P. */
double rs_lambda_kept_any_input(const rs_lambda_attention_weights *weights, int64_t n,
                                const double *mixing_norm, double branch_scale, double lambda);
/* The smallest |λ| with that value ≥ kept, rounded up. */
double rs_lambda_demand_any_input(const rs_lambda_attention_weights *weights, int64_t n,
                                  const double *mixing_norm, double branch_scale, double kept);

/* ---- test hook ---- */

/* The constants of the statements above, so that a test can scale one by a few per cent and see a
 * violation. `factor` 1 restores it. Not for programs; not thread safe. */
#define RS_LAMBDA_CONSTANTS(X)                                                                     \
    X(QUADRATIC)                                                                                   \
    X(ARC_FIRST_ORDER)                                                                             \
    X(ARC_SECOND_ORDER)                                                                            \
    X(HALF_LINE)                                                                                   \
    X(THEOREM_A)                                                                                   \
    X(THEOREM_A_LAYER)                                                                             \
    X(THEOREM_B_LIPSCHITZ)                                                                         \
    X(THEOREM_B_STRETCH)                                                                           \
    X(THEOREM_D)                                                                                   \
    X(DEPTH)                                                                                       \
    X(GAIN_ATTENTION)                                                                              \
    X(GAIN_MLP)                                                                                    \
    X(GAIN_GATED)                                                                                  \
    X(ROW_SUM)                                                                                     \
    X(CHANNEL_SUM)                                                                                 \
    X(GAIN_ROWS)                                                                                   \
    X(GAIN_NORMED)                                                                                 \
    X(THEOREM_C_LIPSCHITZ)                                                                         \
    X(THEOREM_C_STRETCH)                                                                           \
    X(FIXED_MIXING)                                                                                \
    X(VALUE_GAIN)                                                                                  \
    X(MIXING_BOUND)                                                                                \
    X(OVER_SMOOTHING)                                                                              \
    X(ANY_INPUT)                                                                                   \
    X(PUBLISHED)
typedef enum rs_lambda_constant {
#define RS_LAMBDA_CONSTANT_ENUM(name) RS_LAMBDA_##name,
    RS_LAMBDA_CONSTANTS(RS_LAMBDA_CONSTANT_ENUM)
#undef RS_LAMBDA_CONSTANT_ENUM
        RS_LAMBDA_CONSTANT_COUNT
} rs_lambda_constant;
void rs_lambda_scale_constant(rs_lambda_constant which, double factor);

#endif
