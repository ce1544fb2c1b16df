/*
 * attention_null.h: what a head that tells no key from another measures: attention uniform over the
 * keys that its mask shows, in closed form (docs/theory/attention.md, 7).
 */
#ifndef RS_MEASURES_ATTENTION_NULL_H
#define RS_MEASURES_ATTENTION_NULL_H

#include "measures/attention_ranks.h"

#include <stdbool.h>
#include <stdint.h>

/* The measures of rs_attention_measures for the matrix U, U_ij = 1/v_i over the v_i visible keys. */
typedef struct rs_attention_null {
    double entropy; /* mean of ln v_i */
    /* 1 − |λ₂|: 1 without a mask; with a causal one the eigenvalues are 1/v_i, 1/2 the second. NaN
     * for windows that look both ways and are shorter than the text: no closed form. */
    double spectral_gap;
    double dobrushin;   /* of the two rows that share least */
    double self_weight; /* mean of 1/v_i */
    double first_token_weight;
    double logit_variance; /* mean of 1 − 1/v_i: what is left, in v_i numbers of variance 1, about
                              their own mean */
    /* Mean ranks of softmaxes of independent logits of the head's own variance: drawn, not in closed form
     * (attention_ranks.h). NaN until rs_attention_null_ranks. */
    double effective_rank, stable_rank, energy_rank, numerical_rank;
    double centred_effective_rank, centred_stable_rank, centred_energy_rank, centred_numerical_rank;
} rs_attention_null;

/* NaN throughout: a mixer that makes no distributions has no such null. */
void rs_attention_no_null(rs_attention_null *out);
/* n ≥ 1 tokens; causal and window as in rs_attention_measure_f64. */
void rs_attention_null_of(rs_attention_null *out, int64_t n, bool causal, int64_t window);
void rs_attention_null_ranks(rs_attention_null *out, const rs_attention_ranks *ranks);

#endif
