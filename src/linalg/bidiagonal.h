/* bidiagonal.h: singular values of bidiagonal matrices, several at once. */
#ifndef RS_LINALG_BIDIAGONAL_H
#define RS_LINALG_BIDIAGONAL_H

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

/* An upper bidiagonal matrix of n rows. */
typedef struct rs_bidiagonal {
    int64_t n;
    double *d; /* [n] the diagonal; then the singular values, descending */
    double *e; /* [n - 1] the entries above it; may be overwritten */
} rs_bidiagonal;

/*
 * Finds the singular values of `count` matrices to high relative accuracy by differential quotient
 * differences with shifts (dqds: Fernando & Parlett, Numer. Math. 67, 1994; shifts by Parlett &
 * Marques, LAPACK Working Note 155): the arithmetic of LAPACK's dbdsqr without vectors, operation
 * by operation. A step waits for the division of the step before it, so four matrices, or eight
 * where there are more, are transformed side by side. What is rare (a matrix that splits, must be
 * flipped or is close to an end of the double range) goes to dbdsqr itself. RS_E_LAPACK where that
 * gives up. work:
 * rs_bidiagonal_work(largest n) doubles.
 */
rs_status rs_bidiagonal_values(const rs_bidiagonal *items, size_t count, double *work,
                               rs_error *err);
size_t rs_bidiagonal_work(int64_t n);

#endif
