/* trials_draw_avx512.c: random numbers of trials for processors with AVX-512; empty elsewhere. */
#include "base/philox.h"
#include "predict/trials_draw.h"
#include "predict/trials_rounds.h"

#include <math.h>
#include <string.h>

#if defined(__AVX512F__)
#include <immintrin.h>

enum { LANES = RS_TRIALS_LANES, WIDE = 8, GROUPS = 4 };

/* Words of eight counters, each in the lower half of 64 bits; the multiplication reads only that
 * half, so that the upper one may hold anything. */
typedef struct eight_counters {
    __m512i word[4];
} eight_counters;

static inline void one_round(eight_counters *c, __m512i key0, __m512i key1)
{
    __m512i p0 = _mm512_mul_epu32(c->word[0], _mm512_set1_epi64(RS_PHILOX_FACTOR_0));
    __m512i p1 = _mm512_mul_epu32(c->word[2], _mm512_set1_epi64(RS_PHILOX_FACTOR_1));
    enum { XOR_OF_THREE = 0x96 };
    c->word[0] =
        _mm512_ternarylogic_epi64(_mm512_srli_epi64(p1, 32), c->word[1], key0, XOR_OF_THREE);
    c->word[1] = p1;
    c->word[2] =
        _mm512_ternarylogic_epi64(_mm512_srli_epi64(p0, 32), c->word[3], key1, XOR_OF_THREE);
    c->word[3] = p0;
}

static void words_of(uint32_t c[4][LANES], const rs_trials_stream *stream, uint32_t first)
{
    const __m512i ramp = _mm512_set_epi64(7, 6, 5, 4, 3, 2, 1, 0);
    for (int k = 0; k < LANES; k += WIDE * GROUPS) {
        uint32_t key0 = (uint32_t)stream->seed, key1 = (uint32_t)(stream->seed >> 32);
        eight_counters group[GROUPS];
        for (int g = 0; g < GROUPS; g++) {
            uint32_t at = first + (uint32_t)(k + g * WIDE);
            group[g].word[0] = _mm512_add_epi64(_mm512_set1_epi64(at), ramp);
            group[g].word[1] = _mm512_set1_epi64(stream->trial);
            group[g].word[2] = _mm512_set1_epi64(stream->role);
            group[g].word[3] = _mm512_set1_epi64(stream->layer);
        }
        for (int round = 0; round < RS_TRIALS_ROUNDS; round++) {
            __m512i k0 = _mm512_set1_epi64(key0), k1 = _mm512_set1_epi64(key1);
            for (int g = 0; g < GROUPS; g++)
                one_round(&group[g], k0, k1);
            key0 += RS_PHILOX_STEP_0;
            key1 += RS_PHILOX_STEP_1;
        }
        for (int g = 0; g < GROUPS; g++)
            for (int w = 0; w < 4; w++)
                _mm256_storeu_si256((__m256i *)&c[w][k + g * WIDE],
                                    _mm512_cvtepi64_epi32(group[g].word[w]));
    }
}

#define TABLE rs_trials_draws_avx512
#define LEVEL "AVX-512"
#include "predict/trials_draw.inc"
#else
typedef int rs_trials_no_avx512;
#endif
