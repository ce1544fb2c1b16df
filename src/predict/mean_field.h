/*
 * mean_field.h: equally correlated tokens through one branch and back (docs/theory/mean_field.md, 4
 * and 5).
 *
 * A state of n exchangeable vectors is two non-negative numbers, of its mean and of its differences:
 * `mean` = E|x̄|²/d and `gap` = E|x_i − x_j|²/2d. Then E|x_i|²/d = mean + (1 − 1/n) gap and
 * E⟨x_i, x_j⟩/d = mean − gap/n: nothing cancels at ρ = 1, nor at ρ = −1/(n−1). Both are carried as
 * natural logarithms. Derivatives of the loss are another such pair.
 */
#ifndef RS_PREDICT_MEAN_FIELD_H
#define RS_PREDICT_MEAN_FIELD_H

#include "predict/softmax_moments.h"
#include "predict/theory.h"

typedef struct rs_pair {
    double mean, gap; /* logarithms */
} rs_pair;

double rs_pair_square(rs_pair x, double n); /* ln E|x_i|²/d */
double rs_pair_apart(rs_pair x, double n);  /* ln(1 − ρ) */
double rs_pair_rho(rs_pair x, double n);    /* ρ */
rs_pair rs_pair_times(rs_pair x, double ln_factor);
rs_pair rs_pair_add(rs_pair x, rs_pair y);

/* The logarithm of what the norm divides squares by; 0 where there is none. */
double rs_norm_divisor(const rs_theory_norm *norm, double ln_square);
rs_pair rs_pair_divided(rs_pair x, double ln_divisor);

/* Attention of one layer, as it ran. */
typedef struct rs_field_attention {
    rs_pair in;          /* what it read */
    double ln_variance;  /* of logits within a row: s²(1 − ρ) */
    double ln_deviation; /* ln s */
    rs_softmax_moments moments;
    double cross; /* E Σ_j A_ij A_i'j */
    /* of the softmax, logarithms: gap' = kept gap, mean' = mean + spread gap, of tokens that it knows
     * nothing of; and what both gain because it does, as a part of E|S_i − S_k|²/2 and of E|S_i|² */
    double ln_kept, ln_spread, ln_led;
    double kappa;  /* E⟨e_i,e_j⟩²/E|e|⁴ of centred tokens in front of it */
    rs_pair mixed; /* M X: after the matrix, before W_V */
    bool condensed,
        rough; /* by rs_field_condensed; the cross moment is the annealed one all the same */
} rs_field_attention;

/* E ΣA² is more than half way from 1/n to 1. */
bool rs_field_condensed(double second, double n);

/* kappa: of the tokens that it reads. RS_E_NO_MEMORY. */
rs_status rs_field_attend(rs_field_attention *out, const rs_theory_attention *op, rs_pair in,
                          double n, double kappa, const rs_theory_settings *settings,
                          rs_error *err);
/* What it adds: W_V and W_O behind the matrix. */
rs_pair rs_field_attended(const rs_field_attention *at, const rs_theory_attention *op);

/* An MLP as it ran. */
typedef struct rs_field_mlp {
    rs_pair out;
    double ln_own, ln_cross, ln_lost; /* factors of E|∂|² and E⟨∂_i,∂_j⟩, and their difference */
    bool cross_negative;
} rs_field_mlp;

/* false: the map has no expansion at this variance. */
bool rs_field_mlp_run(rs_field_mlp *out, rs_activation_map *map, const rs_theory_mlp *op,
                      rs_pair in, double n);

/* ---- back ---- */

typedef struct rs_field_gradients {
    double ln_query, ln_key, ln_value, ln_output;
    rs_pair in; /* of what the op read */
} rs_field_gradients;

/* out: the derivative by the op's result. */
void rs_field_attention_back(rs_field_gradients *g, const rs_field_attention *at,
                             const rs_theory_attention *op, rs_pair out, double n, double d);
rs_pair rs_field_mlp_back(const rs_field_mlp *at, rs_pair out, double n);

#endif
