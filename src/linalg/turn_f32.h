/*
 * turn_f32.h: rows of floats that become columns, as many at a time as a vector of the instruction set that the
 * including file is compiled for has numbers.
 *
 * A vector takes four numbers of each fourth row, so that what is left to do stays within quarters of
 * 16 bytes, where interleaving costs least.
 */
#ifndef RS_LINALG_TURN_F32_H
#define RS_LINALG_TURN_F32_H

#include <stdint.h>
#include <string.h>

#if defined(__AVX512F__)
#include <immintrin.h>
#endif

typedef float rs_turn_four __attribute__((vector_size(16)));

static inline rs_turn_four rs_turn_load(const float *x)
{
    rs_turn_four v;
    memcpy(&v, x, sizeof v);
    return v;
}

#if defined(__AVX512F__)
enum { RS_TURN_ROWS = 16 };
typedef float rs_turn_lanes __attribute__((vector_size(64)));
#define RS_TURN_PAIRS(a, b, at)                                                                    \
    __builtin_shufflevector(a, b, at, 16 + at, at + 1, 17 + at, at + 4, 20 + at, at + 5, 21 + at,  \
                            at + 8, 24 + at, at + 9, 25 + at, at + 12, 28 + at, at + 13, 29 + at)
#define RS_TURN_HALVES(a, b, at)                                                                   \
    __builtin_shufflevector(a, b, at, at + 1, at + 16, at + 17, at + 4, at + 5, at + 20, at + 21,  \
                            at + 8, at + 9, at + 24, at + 25, at + 12, at + 13, at + 28, at + 29)

static inline rs_turn_lanes rs_turn_gather(const float *x, int64_t step)
{
    __m512 v = _mm512_castps128_ps512(_mm_loadu_ps(x));
    v = _mm512_insertf32x4(v, _mm_loadu_ps(x + 4 * step), 1);
    v = _mm512_insertf32x4(v, _mm_loadu_ps(x + 8 * step), 2);
    return (rs_turn_lanes)_mm512_insertf32x4(v, _mm_loadu_ps(x + 12 * step), 3);
}
#elif defined(__AVX2__)
enum { RS_TURN_ROWS = 8 };
typedef float rs_turn_lanes __attribute__((vector_size(32)));
#define RS_TURN_PAIRS(a, b, at)                                                                    \
    __builtin_shufflevector(a, b, at, at + 8, at + 1, at + 9, at + 4, at + 12, at + 5, at + 13)
#define RS_TURN_HALVES(a, b, at)                                                                   \
    __builtin_shufflevector(a, b, at, at + 1, at + 8, at + 9, at + 4, at + 5, at + 12, at + 13)

static inline rs_turn_lanes rs_turn_gather(const float *x, int64_t step)
{
    return __builtin_shufflevector(rs_turn_load(x), rs_turn_load(x + 4 * step), 0, 1, 2, 3, 4, 5, 6,
                                   7);
}
#else
enum { RS_TURN_ROWS = 4 };
typedef rs_turn_four rs_turn_lanes;
#define RS_TURN_PAIRS(a, b, at) __builtin_shufflevector(a, b, at, at + 4, at + 1, at + 5)
#define RS_TURN_HALVES(a, b, at) __builtin_shufflevector(a, b, at, at + 1, at + 4, at + 5)

static inline rs_turn_lanes rs_turn_gather(const float *x, int64_t step)
{
    (void)step;
    return rs_turn_load(x);
}
#endif

static inline void rs_turn_store(float *out, rs_turn_lanes v)
{
    memcpy(out, &v, sizeof v);
}

/* out[p*ldo + r] = x[r*step + p]: r < RS_TURN_ROWS, p < k, a multiple of 4. */
__attribute__((always_inline)) static inline void
rs_turn_rows(float *out, int64_t ldo, const float *x, int64_t step, int64_t k)
{
    for (int64_t p = 0; p < k; p += 4, out += 4 * ldo, x += 4) {
        rs_turn_lanes a = rs_turn_gather(x, step), b = rs_turn_gather(x + step, step);
        rs_turn_lanes c = rs_turn_gather(x + 2 * step, step);
        rs_turn_lanes d = rs_turn_gather(x + 3 * step, step);
        rs_turn_lanes ab = RS_TURN_PAIRS(a, b, 0), cd = RS_TURN_PAIRS(c, d, 0);
        rs_turn_lanes ab_high = RS_TURN_PAIRS(a, b, 2), cd_high = RS_TURN_PAIRS(c, d, 2);
        rs_turn_store(out, RS_TURN_HALVES(ab, cd, 0));
        rs_turn_store(out + ldo, RS_TURN_HALVES(ab, cd, 2));
        rs_turn_store(out + 2 * ldo, RS_TURN_HALVES(ab_high, cd_high, 0));
        rs_turn_store(out + 3 * ldo, RS_TURN_HALVES(ab_high, cd_high, 2));
    }
}

#endif
