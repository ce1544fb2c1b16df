/* gram_kernels_avx512.c: loops over pairs of tokens for AVX-512; empty elsewhere. */
#include "predict/gram_kernels.h"

#include <math.h>
#include <string.h>

#if defined(__AVX512F__)
#define TABLE rs_gram_kernels_avx512
#define LEVEL "AVX-512"
#define WIDTH 8
#include "predict/gram_kernels.inc"
#else
typedef int rs_gram_kernels_no_avx512;
#endif
