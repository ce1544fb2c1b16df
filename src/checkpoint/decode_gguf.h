/* decode_gguf.h: what the two files of GGUF decoders share; nobody else needs it. */
#ifndef RS_CHECKPOINT_DECODE_GGUF_H
#define RS_CHECKPOINT_DECODE_GGUF_H

#include "checkpoint/dtype.h"

#include <string.h>

static inline float rs_float_of_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline uint32_t rs_load16(const uint8_t *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8;
}

static inline uint32_t rs_load32(const uint8_t *p)
{
    return rs_load16(p) | rs_load16(p + 2) << 16;
}

/* The IEEE binary16 number at p, exactly. Its exponent and fraction moved into a float32's fields
 * read 2^112 times too small, subnormal or not; infinities and NaNs need float32's own exponent. */
static inline float rs_half(const uint8_t *p)
{
    const uint32_t half = rs_load16(p), magnitude = half & 0x7fff;
    const float finite = rs_float_of_bits(magnitude << 13) * 0x1p112f;
    uint32_t bits;
    memcpy(&bits, &finite, sizeof bits);
    if (magnitude >= 0x7c00) bits = 0x7f800000u | magnitude << 13;
    return rs_float_of_bits(bits | (half & 0x8000) << 16);
}

/* Decodes 32 elements of one scale whose codes are looked up: value = scale * codes[nibble], the
 * low nibbles of q[0..15] first. */
void rs_decode_nibbles(float *restrict out, const uint8_t *restrict q, const int8_t codes[16],
                       float scale);

/* The 16 code values of IQ4_NL and IQ4_XS, and the mean square of the steps between them. */
extern const int8_t rs_iq4_codes[16];
extern const double rs_iq4_mean_square_step;

#endif
