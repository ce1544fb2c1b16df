/* lambda_moments.h: ‖RX‖², ⟨RX, RO⟩ and ‖RO‖² of one layer, enclosed. */
#ifndef RS_PROOF_LAMBDA_MOMENTS_H
#define RS_PROOF_LAMBDA_MOMENTS_H

#include "proof/lambda_span.h"

/* The three, as alpha, beta and gamma. */
typedef struct rs_lambda_moments {
    rs_span alpha, beta, gamma; /* for X and O scaled by 2^-scale_x and 2^-scale_o */
    double alpha_middle, beta_middle, gamma_middle;
    int scale_x, scale_o; /* binary exponents taken out, so that no square leaves the range */
    bool equal;           /* all rows of X are the same, bit for bit */
} rs_lambda_moments;

/* Computes them. scratch: [4d]. */
void rs_lambda_measure_moments(rs_lambda_moments *out, const rs_lambda_layer *layer,
                               double *scratch);

#endif
