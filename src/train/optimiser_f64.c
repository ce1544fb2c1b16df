/* optimiser_f64.c: steps of optimisers in double. */
#include "train/optimiser_parts.h"

#include "linalg/blas.h"

#include <math.h>

#define REAL double
#define ROOT sqrt
#define GEMM cblas_dgemm
#define OPS rs_optimiser_f64
#include "train/optimiser_real.inc"
