/* trials_kernels_avx512.c: loops of batched trials for AVX-512; empty elsewhere. */
#include "predict/trials_kernels.h"

#include <math.h>
#include <string.h>

#if defined(__AVX512F__)
#include "predict/trials_unroll.inc"
#define TABLE rs_trials_kernels_avx512
#define LEVEL "AVX-512"
#define WIDTH 8
#define TILE_ROWS 8
#include "predict/trials_kernels.inc"
#else
typedef int rs_trials_kernels_no_avx512;
#endif
