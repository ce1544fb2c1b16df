/* optimiser_f32_avx512.c: steps of optimisers in float for AVX-512, with the bits of optimiser_f32.c: nothing is
 * fused. Empty elsewhere. */
#include "train/optimiser_parts.h"

#if defined(__AVX512F__)
#include "linalg/blas.h"

#include <math.h>

#define REAL float
#define ROOT sqrtf
#define GEMM cblas_sgemm
#define OPS rs_optimiser_f32_avx512
#include "train/optimiser_real.inc"
#endif
