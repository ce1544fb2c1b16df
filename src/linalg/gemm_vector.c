/* gemm_vector.c: products for the instruction set that every processor of the architecture has
 * (SSE2, NEON). */
#define TABLE rs_gemm_vector
#define LEVEL "vector"
#define VECTOR_BYTES 16
#define TILE_ROWS 4
#define TILE_VECTORS 3
#define DIRECT 0
#include "linalg/gemm_level.inc"
