/* trials_kernels_avx2.c: loops of batched trials for AVX2; empty elsewhere. */
#include "predict/trials_kernels.h"

#include <math.h>
#include <string.h>

#if defined(__AVX2__)
#include "predict/trials_unroll.inc"
#define TABLE rs_trials_kernels_avx2
#define LEVEL "AVX2"
#define WIDTH 4
#define TILE_ROWS 4
#include "predict/trials_kernels.inc"
#else
typedef int rs_trials_kernels_no_avx2;
#endif
