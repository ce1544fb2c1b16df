/*
 * lambda_scan.h: how long the rows of a state-space mixer can be, from its weights alone
 * (docs/certificates_lambda.md, L21 to L24).
 *
 * Every number given is a bound that the caller answers for; every number returned is rounded up,
 * so that it is never too small. +∞ or NaN: nothing is known. Exponentials are Arb's (L0).
 */
#ifndef RS_PROOF_LAMBDA_SCAN_H
#define RS_PROOF_LAMBDA_SCAN_H

#include "proof/lambda.h"

/* ---- scalars (L21) ---- */

/* max_i Σ_{j≤i} Δ_j exp(−a(Δ_{j+1} + … + Δ_i)) ≤ min(nΔ, Δ/(1 − e^(−aΔ))) for every Δ_j from 0 to
 * step_most = Δ; a: rate, from below. n: tokens, at most; 0: any number of them. */
double rs_lambda_row_sum(double rate, double step_most, int64_t tokens);
/* exp(a_log), rounded down. */
double rs_lambda_rate_least(double a_log);
/* Largest step of a preactivation that is no more than `most`: log1p(e^most), then clamped to
 * [step_least, step_most]. */
double rs_lambda_step_most(double most, double step_least, double step_most);
/* Largest |x sigmoid(x)| for |x| ≤ most. */
double rs_lambda_silu_most(double most);

/* ---- one channel or head (L22) ---- */

/* What B_t, or C_t, can be at any token: |B_s| ≤ most[s], and B = gain ∘ b with ‖b‖ ≤ length. */
typedef struct rs_lambda_read {
    const double *most; /* [state] */
    const double *gain; /* [state], of any sign; NULL: 1 */
    double length;      /* +∞: not known */
} rs_lambda_read;

/* A scan's channel: M_ij = Σ_s C_i,s B_j,s exp(−a_s(Δ_{j+1} + … + Δ_i)) Δ_j + d [i = j]. */
typedef struct rs_lambda_channel {
    int64_t state;
    const double *rate; /* [state] a_s from below; or one number for all */
    bool one_rate;
    rs_lambda_read b, c;
    double step_most, skip; /* Δ and |d| */
    int64_t tokens;         /* as rs_lambda_row_sum */
} rs_lambda_channel;
/* max_i Σ_j |M_ij|, from above. */
double rs_lambda_channel_sum(const rs_lambda_channel *channel);

/* ---- rows of a branch (L23, L24) ---- */

/* What a branch's last map reads, x, and the map: o = W(f ∘ x) + b. */
typedef struct rs_lambda_rows {
    double map_norm; /* ‖W diag f‖₂ */
    double length;   /* of x */
    double bias;     /* ‖b‖ */
} rs_lambda_rows;
/* c with ‖αo‖ ≤ c√d; branch_scale: α. */
rs_lambda_number rs_lambda_gain_rows(const rs_lambda_rows *rows, int64_t d, double branch_scale);
/* The same behind a norm of `inner` numbers, all at once or in stretches: x is as long as √inner at
 * most, whatever is mixed before it (L23). rows->length is not read. */
rs_lambda_number rs_lambda_gain_normed(const rs_lambda_rows *rows, int64_t inner, int64_t d,
                                       double branch_scale);

/* Facts for theorems from a gain that holds for every input: layer->branch is not read. ‖o_i‖ ≤
 * c√d is all that is known of the branch (L25). */
rs_status rs_lambda_facts_by_gain(rs_lambda_facts *out, const rs_lambda_layer *layer, double gain,
                                  rs_error *err);

#endif
