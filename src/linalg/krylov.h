/*
 * krylov.h: the outermost singular value and eigenvalue of a square matrix from products with
 * vectors, where a full decomposition would cost n times as much. Single-threaded as BLAS is inside
 * a parallel region; no allocation. Every answer comes with a residual test; `converged` false
 * means that the caller has to take the direct route.
 */
#ifndef RS_LINALG_KRYLOV_H
#define RS_LINALG_KRYLOV_H

#include "linalg/workspace.h"

#include <stdbool.h>
#include <stdint.h>

/* Adds what either function takes from `space` for an n×n matrix. */
void rs_krylov_space(int64_t n, rs_workspace *space);

/*
 * Finds σ₁ of A (n×n, row-major) and its right singular vector v (n) by Golub and Kahan's Lanczos
 * bidiagonalisation with full reorthogonalisation. With `locked` (unit vector, n) the same for A
 * restricted to vectors orthogonal to it: σ₂, multiplicity counted, when locked is v₁. The relative
 * error of σ is at most about `tolerance`: the Ritz value's error is bounded by its residual and,
 * where the next Ritz value is known, by residual²/gap (Parlett, The Symmetric Eigenvalue
 * Problem, 11.7). With `vector` the residual itself has to fall below that, so that v is good too.
 */
typedef struct rs_singular {
    double sigma;
    bool converged;
    int64_t steps;
} rs_singular;
void rs_largest_singular(rs_singular *out, double *v, const double *a, int64_t n,
                         const double *locked, bool vector, double tolerance, rs_workspace *space);

/*
 * Finds the eigenvalue of largest modulus of A (n×n, row-major) by Arnoldi's method with the
 * eigenvalues of the small Hessenberg matrix from LAPACK (dhseqr): real or a complex pair. With
 * `locked` (a unit eigenvector, n) that of (I − qqᵀ)A on vectors orthogonal to it: the next one of
 * A, its multiplicity counted. x (n, or NULL): the eigenvector when the eigenvalue is real.
 * Converged when ‖Ax − λx‖ ≤ tolerance |λ| or the Krylov space is exhausted: λ is then an
 * eigenvalue of a matrix that close to A, as with a direct method. Not converged where several
 * moduli lie within a thousandth of the largest: which of them is the largest is for the direct
 * method to say.
 */
typedef struct rs_eigenvalue {
    double real, imaginary, modulus;
    bool converged;
    int64_t steps;
} rs_eigenvalue;
void rs_largest_eigenvalue(rs_eigenvalue *out, double *x, const double *a, int64_t n,
                           const double *locked, double tolerance, rs_workspace *space);

#endif
