/* laws.h: how 1 − ρ falls with depth, by architecture (docs/theory/mean_field.md, 7). */
#ifndef RS_PREDICT_LAWS_H
#define RS_PREDICT_LAWS_H

#include "predict/activation_maps.h"
#include "predict/theory.h"

/* What a block's branches add, at unit variance: scales squared times gains. */
typedef struct rs_block_gains {
    double mixer;       /* α₁² u, u = W_V's and W_O's */
    double mlp;         /* α₂² y, y = E|MLP(x)|²/|x|² */
    double persistence; /* χ = v₁v₂ E φ'²/y: what 1 − ρ is multiplied by in the MLP, small */
} rs_block_gains;

/* Of an MLP at unit variance. RS_E_NO_MEMORY; NaN where the map has no expansion there. */
rs_status rs_mlp_gains(double *gain, double *persistence, const rs_theory_mlp *mlp, rs_error *err);

/* Decades by which 1 − ρ falls in a post-norm block, and the exponent of its power law in depth of
 * pre-norm blocks; both for small 1 − ρ. */
double rs_law_post_norm_decades(const rs_block_gains *gains);
double rs_law_pre_norm_exponent(const rs_block_gains *gains);

/* 1 − ρ behind one softmax attention without skip: annealed, and its law s²e³(n−1)/n² for small e. */
double rs_law_attention_step(double e, double deviation, double n);
double rs_law_attention_small(double e, double deviation, double n);

/* ρ behind depth L → ∞ with squared scales mixer/L and mlp/L, ReLU MLPs (mlp = 0: none), uniform
 * attention, no norm: dρ/dt = mixer ρ̄(1 − ρ) + mlp(κ(ρ) − ρ), ρ̄ = (1 + (n−1)ρ)/n, t from 0 to 1. */
double rs_law_scaled_limit(double rho0, double n, double mixer, double mlp);

/* The landmark √(2 ln n): the logits' deviation at which attention condenses as n → ∞ (at finite n the
 * crossover is smooth: report effective keys), and the limit of E ΣA² there, 1 − landmark/s above it. */
double rs_law_condensation(double n);
double rs_law_condensed_part(double deviation, double n);
/* The variance at which E ΣA² of n keys is `second`, in (1/n, 1). NaN for others. */
double rs_law_variance_of(double second, double n);

#endif
