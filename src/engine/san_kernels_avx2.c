/* san_kernels_avx2.c: small products and exponentials for AVX2 with fused multiply-add; empty
 * elsewhere. */
#include "engine/san_kernels.h"

#include <math.h>

#if defined(__AVX2__) && defined(__FMA__)
#include <immintrin.h>

/* The larger of two; y where one is not a number. */
#define LARGER(x, y) ((four)_mm256_max_pd((__m256d)(x), (__m256d)(y)))
#define TABLE rs_san_kernels_avx2
#include "engine/san_kernels.inc"
#endif
