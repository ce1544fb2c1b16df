/* draw_chunk_plain.c: random numbers for any processor. */
#include "model/draw_chunk.h"

#include <math.h>
#include <string.h>

#define TABLE rs_draw_chunks_plain
#include "model/draw_chunk.inc"
