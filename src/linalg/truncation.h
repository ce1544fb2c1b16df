/* truncation.h: matrices and products of factors cut to a lower rank, in the plain norm or in one
 * that the rows of X weigh: ‖X M − X M_k‖ (docs/theory/products.md, 10). */
#ifndef RS_LINALG_TRUNCATION_H
#define RS_LINALG_TRUNCATION_H

#include "base/error.h"

#include <stdint.h>

/*
 * Of rank k at most, M V Vᵀ leaves the least ‖X M − X M_k‖_F where the columns of V are the k leading
 * right singular vectors of X M: X M V Vᵀ is the best approximation of X M itself (Eckart and Young
 * 1936), and no M_k can do better than that. They are the leading eigenvectors of the Gram (X M)ᵀ(X M),
 * so that nothing is inverted, be XᵀX singular or not; X = I gives the plain truncation.
 */

/* Finds the k leading eigenvectors of a symmetric matrix [n, n] without negative eigenvalues, which is
 * overwritten: vectors [k, n], one a row. values (may be NULL): [n] all of them, descending. */
rs_status rs_leading_eigenvectors(double *vectors, double *values, double *gram, int64_t n,
                                  int64_t k, rs_error *err);

/* The square roots of the eigenvalues of the same, descending: singular values of X M [count of them];
 * what rounding puts below 0 is 0. gram is overwritten. */
rs_status rs_gram_singular_values(double *sigma, int64_t count, double *gram, int64_t n,
                                  rs_error *err);

/* Replaces such a matrix by a root R of it: RᵀR = gram [n, n]. */
rs_status rs_gram_root(double *gram, int64_t n, rs_error *err);

/*
 * m [rows, cols], row-major, becomes the nearest matrix of rank k (Eckart and Young 1936), left · right: left
 * [rows, k], right [k, cols]. The Gram of the shorter side gives the k vectors at a third of the price of a
 * decomposition, with at most σ₁/(2σ_k) times its error; where σ_k/σ₁ < 0.01, the decomposition does.
 */
rs_status rs_truncate(double *m, double *left, double *right, int64_t rows, int64_t cols, int64_t k,
                      rs_error *err);

/* m [rows, cols], row-major, becomes M V Vᵀ; left [rows, k] = M V. v: [k, cols], a vector a row. */
void rs_project_rows(double *m, double *left, const double *v, int64_t rows, int64_t cols,
                     int64_t k);

/*
 * A product A Bᵀ of r columns is cut by what stands to the right of B: A (B C)ᵀ has rank k and is the best
 * of that rank, with C = G (B G)ᵀB and B G the k leading right singular vectors. ra [ka, r], rb [kb, r]:
 * factors with the Grams of A (weighed or not) and of B, such as their triangles. g: [r, k]; c: [r, r].
 * σ_k must not be 0. Errors: RS_E_NO_MEMORY, RS_E_LAPACK.
 */
rs_status rs_cut_product(double *c, double *g, const double *ra, int64_t ka, const double *rb,
                         int64_t kb, int64_t r, int64_t k, rs_error *err);

#endif
