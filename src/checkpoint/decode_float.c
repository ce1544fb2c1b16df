/*
 * decode_float.c: plain and small number types to float32 or float64 (docs/formats.md, 3).
 *
 * Stored bytes are little-endian and of any alignment; loads go through memcpy, which compilers
 * turn into unaligned vector loads. The loops have no branches, so that they vectorise.
 */
#include "checkpoint/dtype.h"

#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#include <stdatomic.h>
#endif

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "checkpoints are little-endian, and so are the machines this is built for");

static inline float float_of(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline uint32_t bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline uint32_t load_u16(const uint8_t *source)
{
    uint16_t value;
    memcpy(&value, source, sizeof value);
    return value;
}

#define QUIET_NAN 0x7FC00000u

/*
 * The float32 bits of |code| in a format with `exponent` and `mantissa` bits and a bias, all
 * finite: normal numbers keep their fields, moved and re-biased; subnormal ones are code *
 * 2^(1-bias-mantissa), exact in float32.
 */
static inline uint32_t magnitude_bits(uint32_t code, unsigned mantissa, uint32_t bias)
{
    uint32_t normal = (code << (23 - mantissa)) + ((127 - bias) << 23);
    float step = float_of((128 - bias - mantissa) << 23);
    uint32_t subnormal = bits_of((float)(int32_t)code * step);
    return code < (1u << mantissa) ? subnormal : normal;
}

/* ---- 16 bits ---- */

void rs_decode_bf16(float *out, const uint8_t *source, size_t n)
{
    for (size_t i = 0; i < n; i++)
        out[i] = float_of(load_u16(source + 2 * i) << 16);
}

/* IEEE half. A NaN becomes quiet and keeps its payload, as the F16C instruction does it. */
static inline float half(uint32_t code)
{
    uint32_t magnitude = code & 0x7FFF;
    uint32_t bits = magnitude_bits(magnitude, 10, 15);
    bits = magnitude >= 0x7C00 ? 0x7F800000u | (magnitude & 0x3FF) << 13 : bits;
    bits |= magnitude > 0x7C00 ? 0x00400000u : 0;
    return float_of(bits | (code & 0x8000) << 16);
}

void rs_decode_f16_plain(float *out, const uint8_t *source, size_t n)
{
    for (size_t i = 0; i < n; i++)
        out[i] = half(load_u16(source + 2 * i));
}

#if defined(__x86_64__)
/* The AVX test covers the operating system's saving of the registers; clang 14 has no name for the
 * feature F16C, so its CPUID bit is read here. */
static bool has_f16c(void)
{
    static atomic_int known; /* 0 not asked yet, 1 no, 2 yes */
    int answer = atomic_load_explicit(&known, memory_order_relaxed);
    if (answer == 0) {
        unsigned a, b, c = 0, d;
        bool yes = __builtin_cpu_supports("avx") && __get_cpuid(1, &a, &b, &c, &d) && c & bit_F16C;
        answer = yes ? 2 : 1;
        atomic_store_explicit(&known, answer, memory_order_relaxed);
    }
    return answer == 2;
}

__attribute__((target("avx,f16c"))) static size_t decode_f16_by_8(float *out, const uint8_t *source,
                                                                  size_t n)
{
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        __m128i codes = _mm_loadu_si128((const __m128i *)(const void *)(source + 2 * i));
        _mm256_storeu_ps(out + i, _mm256_cvtph_ps(codes));
    }
    return i;
}

void rs_decode_f16(float *out, const uint8_t *source, size_t n)
{
    size_t done = has_f16c() ? decode_f16_by_8(out, source, n) : 0;
    rs_decode_f16_plain(out + done, source + 2 * done, n - done);
}
#else
void rs_decode_f16(float *out, const uint8_t *source, size_t n)
{
    rs_decode_f16_plain(out, source, n);
}
#endif

/* ---- 8 bits ---- */

/* 1-5-2, bias 15, with infinities and NaN: the high byte of a half. */
void rs_decode_f8_e5m2(float *out, const uint8_t *source, size_t n)
{
    for (size_t i = 0; i < n; i++)
        out[i] = half((uint32_t)source[i] << 8);
}

/* 1-4-3, bias 7, no infinity; NaN is 0x7F and 0xFF; largest 448. */
void rs_decode_f8_e4m3(float *out, const uint8_t *source, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t code = source[i], magnitude = code & 0x7F;
        uint32_t bits = magnitude_bits(magnitude, 3, 7);
        bits = magnitude == 0x7F ? QUIET_NAN : bits;
        out[i] = float_of(bits | (code & 0x80) << 24);
    }
}

/* The FNUZ types have neither infinities nor a negative zero: 0x80 is their only NaN. */
static inline float fnuz(uint32_t code, unsigned mantissa, uint32_t bias)
{
    uint32_t bits = magnitude_bits(code & 0x7F, mantissa, bias) | (code & 0x80) << 24;
    return float_of(code == 0x80 ? QUIET_NAN : bits);
}

void rs_decode_f8_e4m3fnuz(float *out, const uint8_t *source, size_t n)
{
    for (size_t i = 0; i < n; i++)
        out[i] = fnuz(source[i], 3, 8);
}

void rs_decode_f8_e5m2fnuz(float *out, const uint8_t *source, size_t n)
{
    for (size_t i = 0; i < n; i++)
        out[i] = fnuz(source[i], 2, 16);
}

/* A power of two, 2^(code-127); 0xFF is NaN. 2^-127 is subnormal in float32. */
void rs_decode_f8_e8m0(float *out, const uint8_t *source, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t code = source[i];
        uint32_t bits = code ? code << 23 : 0x00400000u;
        out[i] = float_of(code == 0xFF ? QUIET_NAN : bits);
    }
}

/* ---- 4 and 6 bits: all codes are finite ---- */

static inline float tiny(uint32_t code, unsigned bits, unsigned mantissa, uint32_t bias)
{
    uint32_t sign = code >> (bits - 1) & 1, magnitude = code & ((1u << (bits - 1)) - 1);
    return float_of(magnitude_bits(magnitude, mantissa, bias) | sign << 31);
}

/* E2M1, two a byte, the first in the low nibble. */
void rs_decode_f4(float *out, const uint8_t *source, size_t n_bytes_pairs)
{
    for (size_t i = 0; i < n_bytes_pairs; i++) {
        out[2 * i] = tiny(source[i] & 0x0F, 4, 1, 1);
        out[2 * i + 1] = tiny(source[i] >> 4, 4, 1, 1);
    }
}

/* Four codes in three bytes, the first in the lowest bits (the formats leave the order open; this
 * is the order of F4). */
static inline void decode_f6(float *out, const uint8_t *source, size_t n_blocks, unsigned mantissa,
                             uint32_t bias)
{
    for (size_t i = 0; i < n_blocks; i++, source += 3) {
        uint32_t word = source[0] | (uint32_t)source[1] << 8 | (uint32_t)source[2] << 16;
        for (unsigned j = 0; j < 4; j++)
            out[4 * i + j] = tiny(word >> (6 * j) & 0x3F, 6, mantissa, bias);
    }
}

void rs_decode_f6_e2m3(float *out, const uint8_t *source, size_t n_blocks)
{
    decode_f6(out, source, n_blocks, 3, 1);
}

void rs_decode_f6_e3m2(float *out, const uint8_t *source, size_t n_blocks)
{
    decode_f6(out, source, n_blocks, 2, 3);
}

/* ---- the rest: a load and a conversion ---- */

void rs_decode_bool(float *out, const uint8_t *source, size_t n)
{
    for (size_t i = 0; i < n; i++)
        out[i] = source[i] != 0 ? 1.0f : 0.0f;
}

void rs_decode_f32(float *out, const uint8_t *source, size_t n)
{
    memcpy(out, source, n * sizeof *out);
}

void rs_decode_f64(double *out, const uint8_t *source, size_t n)
{
    memcpy(out, source, n * sizeof *out);
}

#define CONVERTED(name, stored, result)                                                            \
    void rs_decode_##name(result *out, const uint8_t *source, size_t n)                            \
    {                                                                                              \
        for (size_t i = 0; i < n; i++) {                                                           \
            stored value;                                                                          \
            memcpy(&value, source + i * sizeof value, sizeof value);                               \
            out[i] = (result)value;                                                                \
        }                                                                                          \
    }

CONVERTED(f32_f64, float, double)
CONVERTED(u8, uint8_t, float)
CONVERTED(i8, int8_t, float)
CONVERTED(i16, int16_t, float)
CONVERTED(u16, uint16_t, float)
CONVERTED(i32, int32_t, double)
CONVERTED(u32, uint32_t, double)
CONVERTED(i64, int64_t, double)
CONVERTED(u64, uint64_t, double)
