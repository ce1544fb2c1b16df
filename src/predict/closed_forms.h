/*
 * closed_forms.h: tokens and gradients under uniform attention, linear MLPs, no norm and skips of 1,
 * exact in expectation (Noci et al. 2022; docs/theory/mean_field.md, 1).
 */
#ifndef RS_PREDICT_CLOSED_FORMS_H
#define RS_PREDICT_CLOSED_FORMS_H

#include <stdint.h>

/* F = ‖X‖_F², C = ‖1ᵀX‖² of n tokens, and squares of the branches' scales. */
typedef struct rs_noci {
    double n, f0, c0, mixer, mlp;
} rs_noci;

/* ln E C and ln E F behind `layers` layers, and ρ = (E C/E F − 1)/(n − 1). */
double rs_noci_ln_c(const rs_noci *noci, double layers);
double rs_noci_ln_f(const rs_noci *noci, double layers);
double rs_noci_rho(const rs_noci *noci, double layers);
/* ρ as layers → ∞ with mixer = rate/layers. */
double rs_noci_rho_limit(const rs_noci *noci, double rate);
/* The least number of layers with ρ >= target from rho0 on; -1: never. mixer > 0. */
int64_t rs_noci_depth_to(const rs_noci *noci, double target);

/* E ‖∂S/∂W_V‖² and E ‖∂S/∂W_Q‖² of one attention on given tokens: sum_square = ‖1ᵀX‖², cross_square =
 * ‖XᵀPX‖_F², P = I − 11ᵀ/n. keys, values: variances of W_K, W_V. W_K's is W_Q's with queries' variance. */
double rs_noci_local_value(double d, double n, double sum_square);
double rs_noci_local_query(double d, double n, double f, double cross_square, double keys,
                           double values);

/* The same of Gaussian tokens of entries' variance `variance` and correlation rho, weights of variance
 * 1/d: as published, and the exact third moment. */
double rs_noci_gaussian_value(double d, double n, double variance, double rho);
double rs_noci_gaussian_query(double d, double n, double variance, double rho);
double rs_noci_gaussian_query_exact(double d, double n, double variance, double rho);
/* √(gV/gQ) of these: by what logits are multiplied so that gQ = gV, while gQ ∝ τ² (logits of deviation
 * well below 1 only). */
double rs_noci_temperature(double d, double n, double variance, double rho);

/* Of a network with loss ⟨G, X^L⟩, in any layer: ln E ‖∂L/∂W_V‖², mean_square = ‖x̄‖² of the input; and,
 * attention alone, ln E ‖∂L/∂W_Q‖². */
double rs_noci_network_ln_value(const rs_noci *noci, double d, double mean_square, double layers);
double rs_noci_network_ln_query(const rs_noci *noci, double d, double cross_square, double keys,
                                double values, double layers);

#endif
