/*
 * norm_bounds.h: upper bounds of matrix norms that no rounding can make too small (certified).
 *
 * Power iteration and Lanczos approach a spectral norm from below, so they prove nothing
 * (docs/theory/corrections.md, 7). Here an estimate is only a guess: with S = AᵀA (its own rounding
 * bounded by γ_m ‖A‖_F², whatever the order in which BLAS adds) a Cholesky factorisation of c I − S
 * that runs to its end proves that no eigenvalue of S exceeds c by more than γ_{n+1}/(1 − γ_{n+1})
 * times the trace of c I − S (Higham, Accuracy and Stability of Numerical Algorithms, 10.3; Rump
 * 2006). Two matrix products' worth of work, and at most about 1e-9 above the truth. Guarantees
 * assume IEEE 754 arithmetic in products and sums of any order, fused or not; no fast
 * (Strassen-like) product.
 */
#ifndef RS_LINALG_NORM_BOUNDS_H
#define RS_LINALG_NORM_BOUNDS_H

#include "base/error.h"

#include <stdint.h>

/* k u / (1 − k u), rounded up: the error of k roundings in a row; +infinity from k u ≥ 1 on. */
double rs_gamma(double k);

/* Certified: ‖A‖₂ ≤ *bound. A: m×n, row-major. +infinity when an entry is not finite. Errors:
 * RS_E_NO_MEMORY. */
rs_status rs_spectral_bound(double *bound, const double *a, int64_t m, int64_t n, rs_error *err);

/* Certified upper bounds of the norms of M = AᵀB (m×n) from its thin factors A: r×m and B: r×n,
 * both row-major: a head's W_QK = W_QW_Kᵀ or W_h = W_VW_O where rows are the head's units. */
typedef struct rs_product_norms {
    double two;      /* ‖M‖₂ */
    double one;      /* largest absolute column sum */
    double inf;      /* largest absolute row sum */
    double left_two; /* ‖A‖₂ */
    double right_two;
    double left_fro; /* ‖A‖_F */
    double right_fro;
} rs_product_norms;
rs_status rs_product_bounds(rs_product_norms *out, const double *a, const double *b, int64_t r,
                            int64_t m, int64_t n, rs_error *err);

/* a·b of two bounds that are not negative, rounded up: below the doubles it is the least of them,
 * and 0 only where a or b is. */
double rs_times_up(double a, double b);

/* Certified: ‖x‖₂ ≤ the result (x: n). */
double rs_length_bound(const double *x, int64_t n);

/* Certified upper bounds of norms of A (m×n): max_i ‖A_i‖₂ over rows, ‖A‖₁ (largest column sum),
 * ‖A‖_∞ (largest row sum) and ‖A‖_F. column_sums: n doubles of workspace. */
typedef struct rs_plain_norms {
    double longest_row, one, inf, fro;
} rs_plain_norms;
void rs_plain_bounds(rs_plain_norms *out, double *column_sums, const double *a, int64_t m,
                     int64_t n);

#endif
