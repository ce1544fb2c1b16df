/* gemm_avx2.c: products for AVX2 with fused multiply-add: twelve sums in its sixteen registers; empty
 * elsewhere. */
#if defined(__AVX2__) && defined(__FMA__)
#define TABLE rs_gemm_avx2
#define LEVEL "AVX2+FMA"
#define VECTOR_BYTES 32
#define TILE_ROWS 4
#define TILE_VECTORS 3
#define DIRECT 0
#include "linalg/gemm_level.inc"
#else
typedef int rs_gemm_no_avx2;
#endif
