/* spectrum.h: singular values of products of thin factors and of whole matrices
 * (docs/theory/products.md, 6). */
#ifndef RS_LINALG_SPECTRUM_H
#define RS_LINALG_SPECTRUM_H

#include "base/context.h"
#include "base/error.h"
#include "linalg/bidiagonal.h"
#include "linalg/squares.h"
#include "linalg/tridiagonal.h"

#include <stdint.h>

/*
 * Singular values of A Bᵀ from the two Grams X = AᵀA and Y = BᵀB (r×r, row-major, both triangles
 * filled), by Cholesky X = L_X L_Xᵀ, Y = L_Y L_Yᵀ and σ(L_Xᵀ L_Y) (docs/theory/products.md, 6,
 * route ii-b), in three steps, so that several products can share the second:
 *
 *     rs_gram_bidiagonal      adds L_Xᵀ L_Y to matrices that are reduced together
 *                             (linalg/squares.h; rs_squares_finish behind the last of them), to *out,
 *                             where the caller has put n = r and memory for r numbers in d and in e;
 *                             n = 0 where d has the values already
 *     rs_bidiagonal_values    turns d into the r values, descending
 *     rs_gram_refine          finds them again where small ones need more digits, and checks them
 *
 * trace_xy: tr(XY), the sum of the products of their entries. work: rs_gram_work(r) doubles. X and
 * Y are not changed. *trusted is false when a pivot (first step: then the others have nothing to
 * do) or tr(XY) = Σσ² (last step) says that the Grams lost the small values: the caller then uses
 * rs_factor_spectrum on the factors themselves.
 */
rs_status rs_gram_bidiagonal(rs_bidiagonal *out, rs_squares *all, bool *trusted, const double *x,
                             const double *y, double *work, rs_error *err);
rs_status rs_gram_refine(double *sigma, bool *trusted, const double *x, const double *y,
                         double trace_xy, int64_t r, double *work, rs_error *err);
size_t rs_gram_work(int64_t r);

/* Replaces x, a copy of the Gram X (r×r), by the upper triangle U of X = UᵀU, zeros below; false
 * where X is not safely positive definite: a pivot has lost half of its digits. */
bool rs_gram_triangle(double *x, const double *gram, int64_t r);

/* Finds all r eigenvalues, ascending, of a symmetric r×r matrix (overwritten). work:
 * rs_eigenvalue_work(r) doubles. */
size_t rs_eigenvalue_work(int64_t r);
rs_status rs_symmetric_eigenvalues(double *eigenvalues, double *x, int64_t r, double *work,
                                   rs_error *err);
/* The first half of it, for callers with several matrices: fills out->d and out->e, where the caller
 * has put memory, so that they have the eigenvalues of x (out->n squared, overwritten). work:
 * rs_tridiagonalise_work(r) doubles. */
rs_status rs_tridiagonalise(const rs_tridiagonal *out, double *x, double *work, rs_error *err);
size_t rs_tridiagonalise_work(int64_t r);

/*
 * The two-sided bracket of gap = H − F (docs/theory/products.md, 2), where F is the nuclear norm of
 * ABᵀ and H half the factors' squared norms: with N the nuclear norm of Q = X − Y, the sum of its r
 * eigenvalues' magnitudes, bracket[0] = N² / (4(H + F)) and bracket[1] = N/2. Exact inequalities,
 * evaluated in float64 (computed, not certified).
 */
void rs_gap_bracket(double bracket[2], const double *eigenvalues, int64_t r, double half_norm,
                    double nuclear_norm);

/* Finds the singular values of A Bᵀ with care: a (m×r) and b (n×r), row-major, both overwritten.
 * Pivoted QR of b, QR of a and one-sided Jacobi (dgejsv): every singular value to a relative error
 * of about u·κ, κ the larger condition of a and b with columns of length one. So column grading
 * costs nothing, nearly parallel columns cost what they must. sigma: min(m, n, r) values,
 * descending. */
rs_status rs_factor_spectrum(double *sigma, double *a, int64_t m, double *b, int64_t n, int64_t r,
                             rs_error *err);

/* Finds all min(m, n) singular values of one dense matrix (row-major, overwritten), descending,
 * from the Gram of the short side; where σ_k/σ_1 is too small for the Gram to carry, by the
 * bidiagonal SVD. */
rs_status rs_matrix_spectrum(double *sigma, double *matrix, int64_t m, int64_t n, rs_error *err);

#endif
