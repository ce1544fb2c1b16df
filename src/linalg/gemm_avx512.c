/* gemm_avx512.c: products for AVX-512: 24 sums in its 32 registers; empty elsewhere. */
#if defined(__AVX512F__)
#include "linalg/gemm_sums_avx512.h"

#define TABLE rs_gemm_avx512
#define LEVEL "AVX-512"
#define VECTOR_BYTES 64
#define TILE_ROWS 12
#define TILE_VECTORS 2
#define DIRECT 1
#include "linalg/gemm_level.inc"
#else
typedef int rs_gemm_no_avx512;
#endif
