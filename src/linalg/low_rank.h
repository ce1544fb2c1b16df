/* low_rank.h: the best approximation of a matrix by one of lower rank. */
#ifndef RS_LINALG_LOW_RANK_H
#define RS_LINALG_LOW_RANK_H

#include "base/error.h"

#include <stdint.h>

/*
 * a [m, n], row-major, becomes its best approximation in the Frobenius norm (Eckart and Young 1936) of
 * rank at most `rank` where that is above 0, and of the least rank whose singular values have
 * `energy` of Σσ² where that is. A matrix whose rank is that already stays as it is, but for the
 * rounding of a decomposition; one of fewer rows or columns exactly. Serial. Errors: RS_E_NOMEM,
 * RS_E_LAPACK.
 */
rs_status rs_low_rank(double *a, int64_t m, int64_t n, int64_t rank, double energy, rs_error *err);

#endif
