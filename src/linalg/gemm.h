/*
 * gemm.h: products of matrices by our own kernels: C = alpha A B + beta C, all row-major, on the thread
 * that calls.
 *
 * An entry of C is the sum over its k terms in their order, in stretches of GEMM_DEPTH, whatever m, n, the
 * leading dimensions and the neighbours are: a product that is cut into blocks of rows and columns has the
 * same bits however it is cut, and so on any number of threads. That, and operands that are not in
 * the cache, is what it is for (docs/design.md, 7); BLAS stays behind everything else.
 */
#ifndef RS_LINALG_GEMM_H
#define RS_LINALG_GEMM_H

#include <stdbool.h>
#include <stdint.h>

/* How an operand lies: as it is multiplied, or turned (transposed). */
typedef enum rs_gemm_side { RS_AS_IS, RS_TURNED } rs_gemm_side;

/* c: [m, n] with ldc; a: [m, k] with lda, [k, m] where turned; b: [k, n] with ldb, [n, k] where turned.
 * beta = 0: c is not read. Any of m, n, k may be 0. c overlaps neither. Never fails. */
void rs_gemm_f32(rs_gemm_side turn_a, rs_gemm_side turn_b, int64_t m, int64_t n, int64_t k,
                 float alpha, const float *a, int64_t lda, const float *b, int64_t ldb, float beta,
                 float *c, int64_t ldc);
void rs_gemm_f64(rs_gemm_side turn_a, rs_gemm_side turn_b, int64_t m, int64_t n, int64_t k,
                 double alpha, const double *a, int64_t lda, const double *b, int64_t ldb,
                 double beta, double *c, int64_t ldc);

/* x [r, r] += T T^T, or T^T T where `turned`, of which entries above the diagonal and on it are what is asked
 * for: those below may be anything. t: [r, k], [k, r] where turned, with ld. */
void rs_gemm_gram_f64(bool turned, int64_t r, int64_t k, const double *t, int64_t ld, double *x);

/* What is done with each block of C as soon as it is whole, by the thread that multiplied it: `columns`
 * columns from j on of `rows` rows from i on, at c (numbers of the product's kind) with ldc. j is
 * a multiple of RS_GEMM_GRAIN. It multiplies nothing by these functions. */
enum { RS_GEMM_GRAIN = 96 };
typedef struct rs_gemm_whole {
    void *c;
    int64_t ldc, i, rows, j, columns;
} rs_gemm_whole;
typedef void rs_gemm_after(void *user, const rs_gemm_whole *block);

/* Who multiplies: at most so many threads, in a parallel region of their own; inside one, the thread that
 * calls. after: NULL, or called with `user`. */
typedef struct rs_gemm_team {
    int threads;
    rs_gemm_after *after;
    void *user;
} rs_gemm_team;

/* The same products by a team, with the same bits. B is copied once, for all threads. c = NULL, with beta
 * = 0: C is not kept, `after` alone sees it. */
void rs_gemm_team_f32(const rs_gemm_team *team, rs_gemm_side turn_a, rs_gemm_side turn_b, int64_t m,
                      int64_t n, int64_t k, float alpha, const float *a, int64_t lda,
                      const float *b, int64_t ldb, float beta, float *c, int64_t ldc);
void rs_gemm_team_f64(const rs_gemm_team *team, rs_gemm_side turn_a, rs_gemm_side turn_b, int64_t m,
                      int64_t n, int64_t k, double alpha, const double *a, int64_t lda,
                      const double *b, int64_t ldb, double beta, double *c, int64_t ldc);

/* Bytes that a thread multiplying may hold for its copies of parts of A and B, and that a team may hold for
 * the copy of B that it shares; they are kept for the next product until the process ends. */
enum { RS_GEMM_ROOM = 4 << 20, RS_GEMM_TEAM_ROOM = 8 << 20 };

#endif
