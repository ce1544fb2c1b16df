/* draw_chunk.h: a chunk of random numbers, compiled once for any processor and once for AVX2: the
 * same plain arithmetic in the same order, so the same bits. Private to src/network/. */
#ifndef RS_NETWORK_DRAW_CHUNK_H
#define RS_NETWORK_DRAW_CHUNK_H

#include "base/philox.h"
#include "network/draw.h"

/* How many counters, and how many numbers, are worked on at a time. */
enum { RS_DRAW_LANES = 64, RS_DRAW_CHUNK = 4 * RS_DRAW_LANES };

/* The loops for one instruction set. */
typedef struct rs_draw_chunks {
    /* words[w][k]: word w of counter `first` + k */
    void (*words)(uint32_t words[4][RS_DRAW_LANES], const rs_draw *draw, uint64_t first);
    /* element 4k + w is made of the words of counter `first` + k */
    void (*normal)(double z[RS_DRAW_CHUNK], const rs_draw *draw, uint64_t first);
    void (*uniform)(double u[RS_DRAW_CHUNK], const rs_draw *draw, uint64_t first);
} rs_draw_chunks;

extern const rs_draw_chunks rs_draw_chunks_plain;
#if defined(__x86_64__)
extern const rs_draw_chunks rs_draw_chunks_avx2; /* for processors that have it only */
#endif

#endif
