/* draw_chunk_plain.c: random numbers for any processor. */
#include "network/draw_chunk.h"

#include <math.h>
#include <string.h>

enum { LANES = RS_DRAW_LANES, CHUNK = RS_DRAW_CHUNK };

static void words_of(uint32_t c[4][LANES], const rs_draw *draw, uint64_t first)
{
    uint32_t key0 = (uint32_t)draw->seed, key1 = (uint32_t)(draw->seed >> 32);
    for (int k = 0; k < LANES; k++) {
        uint64_t i = first + (uint64_t)k;
        c[0][k] = (uint32_t)i;
        c[1][k] = (uint32_t)(i >> 32);
        c[2][k] = draw->stream[0];
        c[3][k] = draw->stream[1];
    }
    for (int round = 0; round < RS_PHILOX_ROUNDS; round++) {
        for (int k = 0; k < LANES; k++) {
            uint64_t p0 = (uint64_t)RS_PHILOX_FACTOR_0 * c[0][k],
                     p1 = (uint64_t)RS_PHILOX_FACTOR_1 * c[2][k];
            c[0][k] = (uint32_t)(p1 >> 32) ^ c[1][k] ^ key0;
            c[1][k] = (uint32_t)p1;
            c[2][k] = (uint32_t)(p0 >> 32) ^ c[3][k] ^ key1;
            c[3][k] = (uint32_t)p0;
        }
        key0 += RS_PHILOX_STEP_0;
        key1 += RS_PHILOX_STEP_1;
    }
}

#define TABLE rs_draw_chunks_plain
#include "network/draw_chunk.inc"
