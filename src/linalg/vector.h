/*
 * vector.h: sums over the entries of one or two vectors and products of a matrix with a vector, in
 * float64, vectorised.
 *
 * Each sum runs in sixteen interleaved partial sums that are added pairwise at the end: the error
 * bound is that of n/16 additions, and the order does not depend on the instruction set, so that
 * every processor gives the same bits. On x86-64 with AVX2 a wider copy of the same code runs.
 */
#ifndef RS_LINALG_VECTOR_H
#define RS_LINALG_VECTOR_H

#include <stdbool.h>
#include <stdint.h>

/* Σ a_i. */
double rs_sum(const double *a, int64_t n);
/* Σ |a_i|. */
double rs_sum_absolute(const double *a, int64_t n);
/* Σ a_i b_i. */
double rs_dot(const double *a, const double *b, int64_t n);
/* Σ a_i² of floats. */
double rs_sum_squares(const float *a, int64_t n);
/* Floats as doubles. */
void rs_widen(double *out, const float *a, int64_t n);
/* Σ |a_i − b_i|. */
double rs_distance_1(const double *a, const double *b, int64_t n);
/* Σ (a_i − b_i)². */
double rs_distance_squared(const double *a, const double *b, int64_t n);
/* −Σ a_i ln a_i over the positive a_i, each logarithm to about 2e-16 (absolute where it is small):
 * the entropy in nats of probabilities. */
double rs_entropy(const double *a, int64_t n);

/* y = A x, y = Aᵀx and y += Aᵀx for A: m×n, row-major with leading dimension ld. For the matrices
 * here, which fit a cache, as fast as dgemv, and never more than one thread. */
void rs_multiply(double *y, const double *a, const double *x, int64_t m, int64_t n, int64_t ld);
void rs_multiply_transposed(double *y, const double *a, const double *x, int64_t m, int64_t n,
                            int64_t ld);
void rs_add_transposed(double *y, const double *a, const double *x, int64_t m, int64_t n,
                       int64_t ld);

/* Read one row x of a matrix, once for three sums over its rows and once more for what its columns'
 * centres leave; arrays of n that do not overlap.
 *   rs_row_sums:   absolute += |x|, offset += x − first, scaled += factor·x
 *   rs_row_rests:  rest = (x − first) − offset, absolute += |rest|,
 *                  spread = factor·x − scaled, left += spread */
typedef struct rs_row_centres {
    const double *first, *offset, *scaled;
    double factor;
} rs_row_centres;
void rs_row_sums(double *absolute, double *offset, double *scaled, const double *row,
                 const double *first, double factor, int64_t n);
void rs_row_rests(double *rest, double *absolute, double *spread, double *left, const double *row,
                  const rs_row_centres *centres, int64_t n);

/* Test hook: uses the copy for every processor from now on, or again the one for this processor. */
void rs_vector_use_plain(bool plain);

#endif
