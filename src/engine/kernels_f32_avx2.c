/* kernels_f32_avx2.c: the vector kernels for AVX2 with fused multiply-add; empty elsewhere. */
#include "engine/kernels.h"

#include "linalg/turn_f32.h"

#include <math.h>
#include <string.h>

#if defined(__AVX2__) && defined(__FMA__)
#define TABLE rs_kernels_f32_avx2
#define LEVEL "AVX2+FMA"
#define LANES 8
#define MASKED 0
#include "engine/kernels_vector.inc"
#endif
