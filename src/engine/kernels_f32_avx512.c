/* kernels_f32_avx512.c: the vector kernels for AVX-512, sixteen numbers at a time; empty elsewhere. */
#include "engine/kernels.h"

#include "linalg/turn_f32.h"

#include <math.h>
#include <string.h>

#if defined(__AVX512F__)
#include <immintrin.h>

#define TABLE rs_kernels_f32_avx512
#define LEVEL "AVX-512"
#define LANES 16
#define MASKED 1
#include "engine/kernels_vector.inc"
#endif
