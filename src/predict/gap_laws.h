/*
 * gap_laws.h: random attention matrices in the limit of many tokens: spectral gap, stable ranks and
 * gradients with and without it (Nait Saada, Naderi and Tanner 2025; docs/theory/mean_field.md, 8).
 *
 * T tokens; rows are softmaxes of independent N(0, v) logits, sigma2 = e^v − 1. The fix takes 11ᵀ/T
 * away. X₀X₀ᵀ = I, weights of variance 1.
 */
#ifndef RS_PREDICT_GAP_LAWS_H
#define RS_PREDICT_GAP_LAWS_H

double rs_gap_sigma2(double logit_variance);
/* The largest singular value, the second one, and |λ₂|. */
double rs_gap_first(double sigma2, double tokens);
double rs_gap_second(double sigma2, double tokens);
double rs_gap_eigenvalue(double sigma2, double tokens);
/* The second singular value where logits are products of queries and keys of width d_k, small v: it does
 * not vanish with T at fixed d_k. */
double rs_gap_second_keys(double logit_variance, double tokens, double d_k);

/* ‖X_l‖_F²/‖X_l‖₂² of layer 1, and Σs⁴/s₁⁴ of layer l, gamma = T/d (1 for l >= 2). */
double rs_gap_stable_rank(double sigma2);
double rs_gap_stable_rank_gram(double sigma2, double tokens, double gamma, int layer);
/* The same with the gap taken away, over T; T = d; factors: 2l, and 3 at layer 1 of key-query logits. */
double rs_gap_fixed_rank(int factors);
double rs_gap_fixed_rank_gram(int factors);
/* ‖∂ vec X_L/∂ vec W_1‖_F², T = d: ln of it. */
double rs_gap_ln_gradient(double sigma2, double tokens, int layers);
double rs_gap_fixed_ln_gradient(double sigma2, double tokens, int layers);

/* Uniform causal attention: ‖A‖_F² = 1 + 1/2 + … + 1/T. */
double rs_gap_causal_square(int tokens);

#endif
