/* tridiagonal.h: eigenvalues of symmetric tridiagonal matrices, several at once. */
#ifndef RS_LINALG_TRIDIAGONAL_H
#define RS_LINALG_TRIDIAGONAL_H

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

/* A symmetric tridiagonal matrix of n rows. */
typedef struct rs_tridiagonal {
    int64_t n;
    double *d; /* [n] the diagonal; then the eigenvalues, ascending */
    double *e; /* [n - 1] the entries beside it; may be overwritten */
} rs_tridiagonal;

/*
 * Finds the eigenvalues of `count` matrices by the square-root-free QL iteration of Pal, Walker and
 * Kahan (Parlett, The Symmetric Eigenvalue Problem, 1998, 8.14 and 8.15), the arithmetic of
 * LAPACK's dsterf operation by operation. A step of a sweep waits for two divisions of the step
 * before it, so four matrices are swept side by side. A matrix whose squares could leave the double
 * range goes to dsterf itself, which rescales. RS_E_LAPACK where that gives up. work:
 * rs_tridiagonal_work(largest n) doubles.
 */
rs_status rs_tridiagonal_eigenvalues(const rs_tridiagonal *items, size_t count, double *work,
                                     rs_error *err);
size_t rs_tridiagonal_work(int64_t n);

#endif
