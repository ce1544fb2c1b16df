/* peak.h: how fast this machine multiplies and adds: the physical limit that matrix multiplication
 * is held against. */
#ifndef RS_LINALG_PEAK_H
#define RS_LINALG_PEAK_H

#include "base/error.h"

#include <stdint.h>

/* Measured rates in GFLOP/s (1e9 floating-point operations a second), best of a few short runs. */
double rs_peak_fma_f32(int threads);
double rs_peak_fma_f64(int threads);
/* What repeated runs of one product gave: the best rate, and how far below it the worst was, as a
 * share of it (0: they agree). */
typedef struct rs_gemm_rate {
    double gflops, spread;
} rs_gemm_rate;
/* The rate of C = A B, n×n, on `threads` threads. */
rs_status rs_rate_sgemm(rs_gemm_rate *rate, int n, int threads, rs_error *err);
rs_status rs_rate_dgemm(rs_gemm_rate *rate, int n, int threads, rs_error *err);
/* The rate of float32 C [m, n] = A [m, k] Bᵀ, B [n, k]: a layer of m tokens. */
rs_status rs_rate_gemm_shape(rs_gemm_rate *rate, int64_t m, int64_t n, int64_t k, int threads,
                             rs_error *err);

#endif
