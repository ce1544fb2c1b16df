/* san_kernels.h: the inner loops of san_batch.c, compiled once for any processor and once for AVX2
 * with fused multiply-add. Private to src/engine/. */
#ifndef RS_ENGINE_SAN_KERNELS_H
#define RS_ENGINE_SAN_KERNELS_H

#include <stddef.h>
#include <stdint.h>

/* How many columns are worked on at a time; a matrix of tokens has one token a column and a
 * multiple of so many. */
enum { RS_SAN_COLUMNS = 8 };

/* The inner loops for one instruction set. */
typedef struct rs_san_kernels {
    /* c [d, wide] = keep c + wᵀ x; w [d, d], x [d, wide]. keep = 0 reads nothing of c. */
    void (*multiply)(double *c, const double *w, const double *x, int64_t d, int64_t wide,
                     double keep);
    /* One head of width entries, RS_SAN_COLUMNS tokens looking at n: mixed = v softmax(keysᵀ q /
     * sqrt(width)), the softmax of each column; mixed and q are at the tokens' first columns of
     * matrices [width, wide] as keys and v. q is scaled in place; logits [n, RS_SAN_COLUMNS] is
     * workspace. */
    void (*attend)(double *mixed, double *q, const double *keys, const double *v, double *logits,
                   int64_t n, int64_t wide, int64_t width);
    /* Each column of x [n, RS_SAN_COLUMNS] = 2^(x − its largest entry); inverse
     * [RS_SAN_COLUMNS]: 1 / the columns' sums */
    void (*exponentiate)(double *x, double *inverse, int64_t n);
    /* ‖X − 1x̄‖_F and ‖X‖_F of the first n columns of x [d, wide] */
    void (*measure)(double *residual, double *norm, const double *x, int64_t d, int64_t n,
                    int64_t wide);
} rs_san_kernels;

extern const rs_san_kernels rs_san_kernels_plain;
#if defined(__x86_64__)
extern const rs_san_kernels rs_san_kernels_avx2; /* for processors that have it only */
#endif

#endif
