/* bidiagonalise.h: a small square matrix becomes bidiagonal. */
#ifndef RS_LINALG_BIDIAGONALISE_H
#define RS_LINALG_BIDIAGONALISE_H

#include <stdint.h>

/*
 * Finds an upper bidiagonal matrix with the singular values of `matrix` [n, n], which is overwritten:
 * d [n] its diagonal, e [n - 1] the entries above it. Householder reflections from both sides in turn
 * (Golub & Kahan, SIAM J. Numer. Anal. 2, 1965), as LAPACK's dgebd2; each pair of them reads the
 * matrix twice and writes it once. largest: of the entries' magnitudes, from RS_BIDIAGONALISE_LEAST to its
 * inverse; the error of the values is a few n roundings of it. work: 3 n doubles.
 */
#define RS_BIDIAGONALISE_LEAST 1e-100
void rs_bidiagonalise(double *d, double *e, double *matrix, int64_t n, double largest,
                      double *work);
/* What the squares of a vector must sum up to, where the largest entry is `largest`, to be reflected: smaller
 * sums have no digits, and what is made by them is no reflection. */
double rs_bidiagonalise_least(double largest);

#endif
