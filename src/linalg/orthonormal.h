/* orthonormal.h: the orthogonal factor of a matrix. */
#ifndef RS_LINALG_ORTHONORMAL_H
#define RS_LINALG_ORTHONORMAL_H

#include "base/error.h"

#include <stdint.h>

/*
 * Replaces the rows of `vectors` [m, n], n >= m, by the orthonormal ones that
 * Gram-Schmidt would give (Householder QR, signs chosen so that R has a positive diagonal). Of
 * Gaussian vectors this is the uniform (Haar) distribution: Mezzadri, Notices of the AMS 54 (2007).
 */
rs_status rs_orthonormal_rows(double *vectors, int64_t m, int64_t n, rs_error *err);

#endif
