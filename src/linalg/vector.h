/*
 * vector.h: sums over the entries of one or two vectors, in float64, vectorised.
 *
 * Each sum runs in sixteen interleaved partial sums that are added pairwise at the end: the error
 * bound is that of n/16 additions, and the order does not depend on the instruction set, so that
 * every processor gives the same bits. On x86-64 with AVX2 a wider copy of the same code runs.
 */
#ifndef RS_LINALG_VECTOR_H
#define RS_LINALG_VECTOR_H

#include <stdint.h>

/* Σ a_i. */
double rs_sum(const double *a, int64_t n);
/* Σ |a_i|. */
double rs_sum_absolute(const double *a, int64_t n);
/* Σ a_i b_i. */
double rs_dot(const double *a, const double *b, int64_t n);
/* Σ |a_i − b_i|. */
double rs_distance_1(const double *a, const double *b, int64_t n);
/* Σ (a_i − b_i)². */
double rs_distance_squared(const double *a, const double *b, int64_t n);

#endif
