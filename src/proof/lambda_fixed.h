/*
 * lambda_fixed.h: a mixer of one matrix M that does not depend on its tokens, whose value map is a
 * number w, with no norm: Y = λX + wMX, an LTI state-space model (docs/certificates_lambda.md, L28).
 */
#ifndef RS_PROOF_LAMBDA_FIXED_H
#define RS_PROOF_LAMBDA_FIXED_H

#include "proof/lambda.h"
#include "proof/lambda_scalar.h"

/* The largest k with μ(λX + wMX) ≥ k μ(X) for every X of n rows whose mean row m has √n‖m‖ ≤
 * κ μ(X), rounded down (certified, every input); 0: nothing is known. kappa ≥ 0, finite; the
 * layer's epsilon plays no part. Cost O(n³). Errors: RS_E_INPUT_FORMAT for what is not finite,
 * RS_E_LAPACK, RS_E_NO_MEMORY. */
rs_status rs_lambda_fixed_kept(rs_lambda_number *out, const rs_lambda_scalar_layer *layer,
                               double kappa, rs_error *err);
/* κ of the tokens of a layer, √n‖m‖/μ(X), rounded up; +∞ where they are equal. facts: of that
 * layer. Errors: RS_E_NO_MEMORY. */
rs_status rs_lambda_mean_share(double *kappa, const rs_lambda_layer *layer,
                               const rs_lambda_facts *facts, rs_error *err);

#endif
