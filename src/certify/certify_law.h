/*
 * certify_law.h: the leading-order law of one layer (docs/theory/collapse.md, 9 and 10), part by
 * part; pure functions.
 *
 * About the mean token the logits are r_j + E_ij with E of second order in the residual R, so that
 * with p = softmax(r) the mixer turns R into Σ_h Δ_h R W_h, Δ_ij = p_j (E_ij − Σ_k p_k E_ik): a
 * cubic law. Under a causal mask the rows' own base distributions differ and the law is linear: Σ_h
 * P_h R W_h, P_ij = softmax over j ≤ i of r. Norms and MLPs behind it are linearised about their
 * mean token. Nothing here is certified.
 */
#ifndef RS_CERTIFY_CERTIFY_LAW_H
#define RS_CERTIFY_CERTIFY_LAW_H

#include "engine/forward.h"

/* Why the law says nothing about this layer; NULL: it does. */
const char *rs_law_fails(const rs_layer *layer);
/* Whether this attention follows the linear law. */
bool rs_law_causal(const rs_attention_op *op);

/* mean: [d], of x [rows, d]. */
void rs_law_mean(double *mean, const double *x, int64_t rows, int64_t d);
/* out: [rows, d], x less its mean; mean: workspace of d. */
void rs_law_centre(double *out, double *mean, const double *x, int64_t rows, int64_t d);
/* Takes residual rows r [rows, dim] about a mean token x through the norm (14.4); gain: [dim]. */
void rs_law_through_norm(double *r, int64_t rows, const double *x, const double *gain,
                         const rs_norm_op *norm);
/* delta: [n, n], what multiplies the residual; mean: [n] mean logits; p: workspace of n. */
void rs_law_cubic_rows(double *delta, const rs_attention_view *view, const double *mean, double *p);
void rs_law_causal_rows(double *delta, int64_t n, const double *mean);
/* An MLP's activation, and its derivative. */
double rs_law_activation(double x, rs_activation a);
double rs_law_slope(double x, rs_activation a);

#endif
