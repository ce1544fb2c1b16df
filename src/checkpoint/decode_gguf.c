/*
 * decode_gguf.c: the 32-element block types of GGUF to float32, and their quantisation steps; the
 * 256-element ones are in decode_gguf_k.c.
 *
 * Values are bit for bit those of the reference dequantisers (docs/formats.md, 7): each product and
 * sum below is rounded in the order written there, so this file must be compiled without
 * contraction to fused multiply-adds (-ffp-contract=off). Inner loops have fixed trip counts and no
 * branches, so that compilers turn them into vector code. A block may hold any bytes: scales that
 * are NaN or infinite give NaN or infinite values.
 *
 * Steps: rounding to codes that lie `step` apart adds an error that is close to uniform on
 * [-step/2, step/2], of variance step²/12 (Widrow and Kollár, Quantization Noise, 2008, chapter 4).
 * rs_step_* gives the mean of step² over the elements of a block; the caller divides by 12.
 */
#include "checkpoint/decode_gguf.h"

enum { HALF = 16, BLOCK = 32 };

void rs_decode_q8_0(float *restrict out, const uint8_t *restrict source, size_t n_blocks)
{
    for (size_t b = 0; b < n_blocks; b++, source += 34, out += BLOCK) {
        const float d = rs_half(source);
        const uint8_t *q = source + 2;
        for (int i = 0; i < BLOCK; i++)
            out[i] = (float)(int8_t)q[i] * d;
    }
}

void rs_decode_q4_0(float *restrict out, const uint8_t *restrict source, size_t n_blocks)
{
    for (size_t b = 0; b < n_blocks; b++, source += 18, out += BLOCK) {
        const float d = rs_half(source);
        const uint8_t *q = source + 2;
        for (int i = 0; i < HALF; i++)
            out[i] = (float)((q[i] & 15) - 8) * d;
        for (int i = 0; i < HALF; i++)
            out[HALF + i] = (float)((q[i] >> 4) - 8) * d;
    }
}

void rs_decode_q4_1(float *restrict out, const uint8_t *restrict source, size_t n_blocks)
{
    for (size_t b = 0; b < n_blocks; b++, source += 20, out += BLOCK) {
        const float d = rs_half(source), m = rs_half(source + 2);
        const uint8_t *q = source + 4;
        for (int i = 0; i < HALF; i++)
            out[i] = (float)(q[i] & 15) * d + m;
        for (int i = 0; i < HALF; i++)
            out[HALF + i] = (float)(q[i] >> 4) * d + m;
    }
}

/* Bit i as a mask: testing it needs no shift by a different amount in each lane. */
static const uint32_t bit[BLOCK] = {
    1u << 0,  1u << 1,  1u << 2,  1u << 3,  1u << 4,  1u << 5,  1u << 6,  1u << 7,
    1u << 8,  1u << 9,  1u << 10, 1u << 11, 1u << 12, 1u << 13, 1u << 14, 1u << 15,
    1u << 16, 1u << 17, 1u << 18, 1u << 19, 1u << 20, 1u << 21, 1u << 22, 1u << 23,
    1u << 24, 1u << 25, 1u << 26, 1u << 27, 1u << 28, 1u << 29, 1u << 30, 1u << 31};

void rs_decode_q5_0(float *restrict out, const uint8_t *restrict source, size_t n_blocks)
{
    for (size_t b = 0; b < n_blocks; b++, source += 22, out += BLOCK) {
        const float d = rs_half(source);
        const uint32_t high = rs_load32(source + 2);
        const uint8_t *q = source + 6;
        for (int i = 0; i < HALF; i++)
            out[i] = (float)((q[i] & 15) - (high & bit[i] ? 0 : 16)) * d;
        for (int i = 0; i < HALF; i++)
            out[HALF + i] = (float)((q[i] >> 4) - (high & bit[HALF + i] ? 0 : 16)) * d;
    }
}

void rs_decode_q5_1(float *restrict out, const uint8_t *restrict source, size_t n_blocks)
{
    for (size_t b = 0; b < n_blocks; b++, source += 24, out += BLOCK) {
        const float d = rs_half(source), m = rs_half(source + 2);
        const uint32_t high = rs_load32(source + 4);
        const uint8_t *q = source + 8;
        for (int i = 0; i < HALF; i++)
            out[i] = (float)((q[i] & 15) + (high & bit[i] ? 16 : 0)) * d + m;
        for (int i = 0; i < HALF; i++)
            out[HALF + i] = (float)((q[i] >> 4) + (high & bit[HALF + i] ? 16 : 0)) * d + m;
    }
}

const int8_t rs_iq4_codes[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                 1,    13,   25,  38,  53,  69,  89,  113};

/* A block has one scale and 16 codes, hence 16 values: computed once, then looked up. */
void rs_decode_nibbles(float *restrict out, const uint8_t *restrict q, const int8_t codes[16],
                       float scale)
{
    float values[16];
    for (int k = 0; k < 16; k++)
        values[k] = scale * (float)codes[k];
    for (int i = 0; i < HALF; i++)
        out[i] = values[q[i] & 15];
    for (int i = 0; i < HALF; i++)
        out[HALF + i] = values[q[i] >> 4];
}

void rs_decode_iq4_nl(float *restrict out, const uint8_t *restrict source, size_t n_blocks)
{
    for (size_t b = 0; b < n_blocks; b++, source += 18, out += BLOCK)
        rs_decode_nibbles(out, source + 2, rs_iq4_codes, rs_half(source));
}

/* The FP4 (E2M1) values of the OCP Microscaling formats, doubled to be whole. */
static const int8_t mxfp4_codes[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

/* 2^(e-128), of which the two smallest are subnormal. */
static float mxfp4_scale(uint8_t e)
{
    return rs_float_of_bits(e < 2 ? 0x00200000u << e : (uint32_t)(e - 1) << 23);
}

void rs_decode_mxfp4(float *restrict out, const uint8_t *restrict source, size_t n_blocks)
{
    for (size_t b = 0; b < n_blocks; b++, source += 17, out += BLOCK)
        rs_decode_nibbles(out, source + 1, mxfp4_codes, mxfp4_scale(source[0]));
}

/* ---- steps: one scale a block, so all elements have the same ---- */

static double square(double x)
{
    return x * x;
}

double rs_step_q8_0(const uint8_t *block)
{
    return square((double)rs_half(block));
}
double rs_step_q4_0(const uint8_t *block)
{
    return square((double)rs_half(block));
}
double rs_step_q4_1(const uint8_t *block)
{
    return square((double)rs_half(block));
}
double rs_step_q5_0(const uint8_t *block)
{
    return square((double)rs_half(block));
}
double rs_step_q5_1(const uint8_t *block)
{
    return square((double)rs_half(block));
}

/* Codes that are not evenly spaced: the mean over the intervals between neighbouring values of
 * their squared width. IQ4_NL: the widths 23 21 18 16 14 13 12 11 12 12 13 15 16 20 24 have squares
 * that sum to 4094. MXFP4: 1 1 1 1 2 2 4 on either side of 0 (which has two codes) sum to 56. */
const double rs_iq4_mean_square_step = 4094.0 / 15;
static const double mxfp4_mean_square_step = 56.0 / 14;

double rs_step_iq4_nl(const uint8_t *block)
{
    return square((double)rs_half(block)) * rs_iq4_mean_square_step;
}
double rs_step_mxfp4(const uint8_t *block)
{
    return square((double)mxfp4_scale(block[0])) * mxfp4_mean_square_step;
}
