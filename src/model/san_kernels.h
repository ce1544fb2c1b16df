/* san_kernels.h: the inner loops of san_batch.c, compiled once for any processor and once for AVX2
 * with fused multiply-add. Private to src/model/. */
#ifndef RS_MODEL_SAN_KERNELS_H
#define RS_MODEL_SAN_KERNELS_H

#include <stdbool.h>
#include <stdint.h>

typedef struct rs_san_kernels {
    /* c [m, n] = (add ? c : 0) + a [m, k] b [k, n] */
    void (*multiply)(double *c, int64_t ldc, const double *a, int64_t lda, const double *b,
                     int64_t ldb, int64_t m, int64_t n, int64_t k, bool add);
    /* Each row of x [m, n] = exp(scale (x − its largest entry)); sums [m]: of the rows */
    void (*exponentiate)(double *x, double *sums, int64_t m, int64_t n, double scale);
    /* ‖X − 1x̄‖_F and ‖X‖_F of x [n, d]; mean [d] is workspace */
    void (*measure)(double *residual, double *norm, double *mean, const double *x, int64_t n,
                    int64_t d);
} rs_san_kernels;

extern const rs_san_kernels rs_san_kernels_plain;
#if defined(__x86_64__)
extern const rs_san_kernels rs_san_kernels_avx2; /* for processors that have it only */
#endif

#endif
