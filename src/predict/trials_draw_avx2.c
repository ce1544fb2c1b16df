/* trials_draw_avx2.c: random numbers of trials for processors with AVX2; empty elsewhere. */
#include "base/philox.h"
#include "predict/trials_draw.h"
#include "predict/trials_rounds.h"

#include <math.h>
#include <string.h>

#if defined(__AVX2__)
#include <immintrin.h>

enum { LANES = RS_TRIALS_LANES, WIDE = 4, GROUPS = 2 };

/* Words of four counters, each in the lower half of 64 bits; the multiplication reads only that
 * half, so that the upper one may hold anything. */
typedef struct four_counters {
    __m256i word[4];
} four_counters;

static inline void one_round(four_counters *c, __m256i key0, __m256i key1)
{
    __m256i p0 = _mm256_mul_epu32(c->word[0], _mm256_set1_epi64x(RS_PHILOX_FACTOR_0));
    __m256i p1 = _mm256_mul_epu32(c->word[2], _mm256_set1_epi64x(RS_PHILOX_FACTOR_1));
    c->word[0] = _mm256_xor_si256(_mm256_srli_epi64(p1, 32), _mm256_xor_si256(c->word[1], key0));
    c->word[1] = p1;
    c->word[2] = _mm256_xor_si256(_mm256_srli_epi64(p0, 32), _mm256_xor_si256(c->word[3], key1));
    c->word[3] = p0;
}

/* The lower halves of a and b, in order. */
static inline __m256i lower_halves(__m256i a, __m256i b)
{
    __m256 pairs = _mm256_shuffle_ps(_mm256_castsi256_ps(a), _mm256_castsi256_ps(b), 0x88);
    return _mm256_permute4x64_epi64(_mm256_castps_si256(pairs), 0xD8);
}

static void words_of(uint32_t c[4][LANES], const rs_trials_stream *stream, uint32_t first)
{
    const __m256i ramp = _mm256_set_epi64x(3, 2, 1, 0);
    for (int k = 0; k < LANES; k += WIDE * GROUPS) {
        uint32_t key0 = (uint32_t)stream->seed, key1 = (uint32_t)(stream->seed >> 32);
        four_counters group[GROUPS];
        for (int g = 0; g < GROUPS; g++) {
            uint32_t at = first + (uint32_t)(k + g * WIDE);
            group[g].word[0] = _mm256_add_epi64(_mm256_set1_epi64x(at), ramp);
            group[g].word[1] = _mm256_set1_epi64x(stream->trial);
            group[g].word[2] = _mm256_set1_epi64x(stream->role);
            group[g].word[3] = _mm256_set1_epi64x(stream->layer);
        }
        for (int round = 0; round < RS_TRIALS_ROUNDS; round++) {
            __m256i k0 = _mm256_set1_epi64x(key0), k1 = _mm256_set1_epi64x(key1);
            for (int g = 0; g < GROUPS; g++)
                one_round(&group[g], k0, k1);
            key0 += RS_PHILOX_STEP_0;
            key1 += RS_PHILOX_STEP_1;
        }
        for (int w = 0; w < 4; w++)
            _mm256_storeu_si256((__m256i *)&c[w][k],
                                lower_halves(group[0].word[w], group[1].word[w]));
    }
}

#define TABLE rs_trials_draws_avx2
#define LEVEL "AVX2"
#include "predict/trials_draw.inc"
#else
typedef int rs_trials_no_avx2;
#endif
