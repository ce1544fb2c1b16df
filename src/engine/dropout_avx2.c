/* dropout_avx2.c: Philox's words for processors with AVX2; empty elsewhere. */
#include "engine/dropout_words.h"

#if defined(__AVX2__)
#include <immintrin.h>

/* Words of four counters, each in the lower half of 64 bits; the multiplication reads only that
 * half, so that the upper one may hold anything. */
typedef struct four_counters {
    __m256i word[4];
} four_counters;

static inline four_counters start(uint32_t first, const uint32_t rest[3])
{
    __m256i i =
        _mm256_add_epi64(_mm256_set1_epi64x((long long)first), _mm256_set_epi64x(3, 2, 1, 0));
    return (four_counters){
        {i, _mm256_set1_epi64x(rest[0]), _mm256_set1_epi64x(rest[1]), _mm256_set1_epi64x(rest[2])}};
}

static inline void round_of(four_counters *c, __m256i k0, __m256i k1)
{
    __m256i p0 = _mm256_mul_epu32(c->word[0], _mm256_set1_epi64x(RS_PHILOX_FACTOR_0));
    __m256i p1 = _mm256_mul_epu32(c->word[2], _mm256_set1_epi64x(RS_PHILOX_FACTOR_1));
    c->word[0] = _mm256_xor_si256(_mm256_srli_epi64(p1, 32), _mm256_xor_si256(c->word[1], k0));
    c->word[1] = p1;
    c->word[2] = _mm256_xor_si256(_mm256_srli_epi64(p0, 32), _mm256_xor_si256(c->word[3], k1));
    c->word[3] = p0;
}

/* Counter by counter. */
static inline void store(uint32_t *words, const four_counters *c)
{
    const __m256i lower = _mm256_set1_epi64x(0xFFFFFFFF);
    __m256i a =
        _mm256_or_si256(_mm256_and_si256(c->word[0], lower), _mm256_slli_epi64(c->word[1], 32));
    __m256i b =
        _mm256_or_si256(_mm256_and_si256(c->word[2], lower), _mm256_slli_epi64(c->word[3], 32));
    __m256i even = _mm256_unpacklo_epi64(a, b), odd = _mm256_unpackhi_epi64(a, b);
    _mm256_storeu_si256((__m256i *)words, _mm256_permute2x128_si256(even, odd, 0x20));
    _mm256_storeu_si256((__m256i *)(words + 8), _mm256_permute2x128_si256(even, odd, 0x31));
}

static inline void groups_of(uint32_t *words, uint32_t first, const uint32_t rest[3],
                             const uint32_t key[2], int groups)
{
    four_counters c[RS_DROP_GROUPS];
    uint32_t k0 = key[0], k1 = key[1];
    for (int g = 0; g < groups; g++)
        c[g] = start(first + (uint32_t)(RS_DROP_LANES * g), rest);
    for (int r = 0; r < RS_PHILOX_ROUNDS; r++, k0 += RS_PHILOX_STEP_0, k1 += RS_PHILOX_STEP_1) {
        __m256i wide0 = _mm256_set1_epi64x(k0), wide1 = _mm256_set1_epi64x(k1);
        for (int g = 0; g < groups; g++)
            round_of(&c[g], wide0, wide1);
    }
    for (int g = 0; g < groups; g++)
        store(words + RS_DROP_GROUP * g, &c[g]);
}

void rs_drop_philox_avx2(uint32_t *words, uint32_t first, const uint32_t rest[3],
                         const uint32_t key[2], int groups)
{
    switch (groups) { /* so that the loops are unrolled */
    case 1:
        groups_of(words, first, rest, key, 1);
        break;
    case 2:
        groups_of(words, first, rest, key, 2);
        break;
    case 3:
        groups_of(words, first, rest, key, 3);
        break;
    default:
        groups_of(words, first, rest, key, RS_DROP_GROUPS);
    }
}
#endif
