/* optimiser_f32_avx2.c: steps of optimisers in float for AVX2, with the bits of optimiser_f32.c: nothing is
 * fused. Empty elsewhere. */
#include "train/optimiser_parts.h"

#if defined(__AVX2__)
#include "linalg/blas.h"

#include <math.h>

#define REAL float
#define ROOT sqrtf
#define GEMM cblas_sgemm
#define OPS rs_optimiser_f32_avx2
#include "train/optimiser_real.inc"
#endif
