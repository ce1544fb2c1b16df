/* optimiser_f32.c: steps of optimisers in float. */
#include "train/optimiser_parts.h"

#include "linalg/blas.h"

#include <math.h>

#define REAL float
#define ROOT sqrtf
#define GEMM cblas_sgemm
#define OPS rs_optimiser_f32
#include "train/optimiser_real.inc"
