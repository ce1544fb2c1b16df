/* trials_draw_plain.c: random numbers of trials for any processor. */
#include "base/philox.h"
#include "predict/trials_draw.h"
#include "predict/trials_rounds.h"

#include <math.h>
#include <string.h>

enum { LANES = RS_TRIALS_LANES };

static void words_of(uint32_t c[4][LANES], const rs_trials_stream *stream, uint32_t first)
{
    uint32_t key0 = (uint32_t)stream->seed, key1 = (uint32_t)(stream->seed >> 32);
    for (int k = 0; k < LANES; k++) {
        c[0][k] = first + (uint32_t)k;
        c[1][k] = stream->trial;
        c[2][k] = stream->role;
        c[3][k] = stream->layer;
    }
    for (int round = 0; round < RS_TRIALS_ROUNDS; round++) {
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

#define TABLE rs_trials_draws_plain
#define LEVEL "plain"
#include "predict/trials_draw.inc"
