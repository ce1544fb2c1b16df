/* subspace.h: the leading singular subspaces of a product of factors, how far two subspaces agree,
 * and how far random ones do. */
#ifndef RS_LINALG_SUBSPACE_H
#define RS_LINALG_SUBSPACE_H

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * The overlap of two k-dimensional subspaces of R^m with orthonormal bases U₁ and U₂ is
 * ‖U₁ᵀU₂‖_F² / k: the mean squared cosine of their principal angles, 1 for equal subspaces and 0
 * for orthogonal ones. Of two that are drawn independently, one of them uniformly (Haar), it has
 * mean k/m and variance 2 (m − k)² / (m² (m − 1)(m + 2)): the trace of a product of two projections
 * of ranks k and l has mean kl/m and variance 2 kl(m − k)(m − l) / (m² (m − 1)(m + 2))
 * (docs/theory/products.md, 9).
 */
typedef struct rs_overlap_chance {
    double mean, spread; /* spread: the standard deviation; 0 where m = k */
} rs_overlap_chance;
rs_overlap_chance rs_overlap_by_chance(int64_t k, int64_t m);

/*
 * Finds the k leading left and right singular vectors of a matrix [m, n], row-major, overwritten;
 * q = min(m, n) ≥ k. left: [m, q], a vector a column; right: [q, n], a vector a row; sigma: [q],
 * descending. All q are computed. Errors: RS_E_NO_MEMORY, RS_E_LAPACK.
 */
rs_status rs_singular_vectors(double *left, double *right, double *sigma, double *matrix, int64_t m,
                              int64_t n, rs_error *err);

/* Replaces a symmetric matrix [n, n] by its eigenvectors, a vector a row, by their values [n] ascending.
 * *info: what LAPACK's dsyevd returned; 0 where it converged. */
rs_status rs_symmetric_vectors(double *values, double *matrix, int64_t n, int *info, rs_error *err);

/* The leading singular vectors of A Bᵀ as combinations of its factors' columns: U = A · left and
 * V = B · right, both [r, k], row-major. */
typedef struct rs_leading {
    double *left, *right;
} rs_leading;

/*
 * Finds them from triangles: A = Q_A R_A, B = Q_B R_B with ra [ka, r] and rb [kb, r], row-major. The
 * small matrix R_A R_Bᵀ = P S Zᵀ has the singular values of A Bᵀ, and U = A Bᵀ V S⁻¹ = A (R_Bᵀ Z S⁻¹)
 * needs no inverse of a triangle. σ_k must not be 0. work: rs_leading_work(ka, kb) doubles.
 */
rs_status rs_leading_vectors(const rs_leading *out, const double *ra, int64_t ka, const double *rb,
                             int64_t kb, int64_t r, int64_t k, double *work, rs_error *err);
size_t rs_leading_work(int64_t ka, int64_t kb);

/* ‖G₁ᵀ C G₂‖_F² / k for bases A₁G₁ and A₂G₂ and C = A₁ᵀA₂: g1 [r1, k], c [r1, r2], g2 [r2, k]. work:
 * r1 k + k² doubles. */
double rs_overlap_of(const double *g1, const double *c, const double *g2, int64_t r1, int64_t r2,
                     int64_t k, double *work);

/* Finds the triangle R [min(m, r), r] of the QR decomposition of a factor whose r columns, of length m, are
 * the rows of `vectors` [r, m], which is overwritten. work: 33 r doubles. */
rs_status rs_factor_triangle(double *triangle, double *vectors, int64_t m, int64_t r, double *work,
                             rs_error *err);

#endif
