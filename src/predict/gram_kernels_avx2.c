/* gram_kernels_avx2.c: loops over pairs of tokens for AVX2; empty elsewhere. */
#include "predict/gram_kernels.h"

#include <math.h>
#include <string.h>

#if defined(__AVX2__)
#define TABLE rs_gram_kernels_avx2
#define LEVEL "AVX2"
#define WIDTH 4
#include "predict/gram_kernels.inc"
#else
typedef int rs_gram_kernels_no_avx2;
#endif
