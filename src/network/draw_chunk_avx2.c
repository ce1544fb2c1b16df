/* draw_chunk_avx2.c: random numbers for processors with AVX2; empty elsewhere. */
#include "network/draw_chunk.h"

#include <math.h>
#include <string.h>

#if defined(__AVX2__)
#include <immintrin.h>

enum { LANES = RS_DRAW_LANES, CHUNK = RS_DRAW_CHUNK, WIDE = 4, GROUP = 2 * WIDE };

/* Words of four counters, each in the lower half of 64 bits; the multiplication reads only that
 * half, so that the upper one may hold anything. */
typedef struct four_counters {
    __m256i word[4];
} four_counters;

static inline void philox(four_counters *c, const rs_draw *draw)
{
    const __m256i factor0 = _mm256_set1_epi64x(RS_PHILOX_FACTOR_0);
    const __m256i factor1 = _mm256_set1_epi64x(RS_PHILOX_FACTOR_1);
    uint32_t key0 = (uint32_t)draw->seed, key1 = (uint32_t)(draw->seed >> 32);
    for (int round = 0; round < RS_PHILOX_ROUNDS; round++) {
        __m256i p0 = _mm256_mul_epu32(c->word[0], factor0);
        __m256i p1 = _mm256_mul_epu32(c->word[2], factor1);
        __m256i k0 = _mm256_set1_epi64x(key0), k1 = _mm256_set1_epi64x(key1);
        c->word[0] = _mm256_xor_si256(_mm256_srli_epi64(p1, 32), _mm256_xor_si256(c->word[1], k0));
        c->word[1] = p1;
        c->word[2] = _mm256_xor_si256(_mm256_srli_epi64(p0, 32), _mm256_xor_si256(c->word[3], k1));
        c->word[3] = p0;
        key0 += RS_PHILOX_STEP_0;
        key1 += RS_PHILOX_STEP_1;
    }
}

static inline four_counters counters(const rs_draw *draw, uint64_t first)
{
    __m256i i =
        _mm256_add_epi64(_mm256_set1_epi64x((long long)first), _mm256_set_epi64x(3, 2, 1, 0));
    return (four_counters){{i, _mm256_srli_epi64(i, 32), _mm256_set1_epi64x(draw->stream[0]),
                            _mm256_set1_epi64x(draw->stream[1])}};
}

/* The lower halves of a and b, in order. */
static inline __m256i lower_halves(__m256i a, __m256i b)
{
    __m256 pairs = _mm256_shuffle_ps(_mm256_castsi256_ps(a), _mm256_castsi256_ps(b), 0x88);
    return _mm256_permute4x64_epi64(_mm256_castps_si256(pairs), 0xD8);
}

static void words_of(uint32_t c[4][LANES], const rs_draw *draw, uint64_t first)
{
    for (int k = 0; k < LANES; k += GROUP) {
        four_counters a = counters(draw, first + (uint64_t)k);
        four_counters b = counters(draw, first + (uint64_t)k + WIDE);
        philox(&a, draw);
        philox(&b, draw);
        for (int w = 0; w < 4; w++)
            _mm256_storeu_si256((__m256i *)&c[w][k], lower_halves(a.word[w], b.word[w]));
    }
}

#define TABLE rs_draw_chunks_avx2
#include "network/draw_chunk.inc"
#endif
