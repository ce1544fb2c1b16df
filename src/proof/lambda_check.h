/* lambda_check.h: checks of the arguments of lambda.h's functions, and scaling. */
#ifndef RS_PROOF_LAMBDA_CHECK_H
#define RS_PROOF_LAMBDA_CHECK_H

#include "proof/lambda.h"

/* Checks sizes, and that X, O, gain, bias and epsilon are finite (RS_E_INPUT_FORMAT names the
 * place). */
rs_status rs_lambda_check_layer(const rs_lambda_layer *layer, rs_error *err);
/* Fails with RS_E_INTERNAL unless 0 <= kept < limit. */
rs_status rs_lambda_check_kept(double kept, double limit, rs_error *err);
/* The binary exponent e of Σ|entry| to within the last place, 0 for a zero matrix: matrix·2^−e has
 * entries of at most about 1 and one of at least 1/(2nd). Clamped to ±1000 so that 2^±e are both in
 * range. */
int rs_lambda_exponent(const double *matrix, int64_t n, int64_t d, int64_t ld);

#endif
