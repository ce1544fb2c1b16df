/* draw_chunk_avx2.c: random numbers for processors with AVX2; empty elsewhere. */
#include "model/draw_chunk.h"

#include <math.h>
#include <string.h>

#if defined(__AVX2__)
#define TABLE rs_draw_chunks_avx2
#include "model/draw_chunk.inc"
#endif
