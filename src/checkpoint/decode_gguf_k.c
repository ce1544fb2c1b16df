/*
 * decode_gguf_k.c: the 256-element block types of GGUF ("K-quants" and IQ4_XS) to float32, and
 * their quantisation steps. What decode_gguf.c says about rounding, loops and steps holds here.
 *
 * A block is cut into sub-blocks of 16 or 32 elements, each with an integer scale of its own that
 * multiplies the block's d; where there are minima, value = (d*scale)*code - dmin*min.
 */
#include "checkpoint/decode_gguf.h"

enum { BLOCK = 256 };

/* ---- sub-block scales ---- */

/* Q4_K, Q5_K: eight scales and eight minima of six bits in twelve bytes. The first four of each
 * fill the low six bits of s[0..7]; the others have their low nibbles in s[8..11] and their two
 * high bits on top of s[0..7]. */
static void scales_q4_k(uint8_t scale[8], uint8_t minimum[8], const uint8_t *s)
{
    for (int k = 0; k < 4; k++) {
        scale[k] = s[k] & 63;
        minimum[k] = s[k + 4] & 63;
        scale[k + 4] = (uint8_t)((s[k + 8] & 15) | (s[k] >> 6) << 4);
        minimum[k + 4] = (uint8_t)((s[k + 8] >> 4) | (s[k + 4] >> 6) << 4);
    }
}

/* Q3_K: sixteen scales of six bits, biased by 32: low nibbles in s[0..7] (scales 0 to 7 low, 8 to
 * 15 high), the two high bits of four scales in each of s[8..11]. */
static void scales_q3_k(int8_t scale[16], const uint8_t *s)
{
    for (int k = 0; k < 16; k++) {
        int low = k < 8 ? s[k] & 15 : s[k - 8] >> 4;
        int high = (s[8 + k % 4] >> 2 * (k / 4)) & 3;
        scale[k] = (int8_t)((low | high << 4) - 32);
    }
}

/* IQ4_XS: eight scales of six bits, biased by 32: two high bits each in `high`, nibbles in low. */
static void scales_iq4_xs(int8_t scale[8], uint32_t high, const uint8_t *low)
{
    for (int k = 0; k < 8; k++)
        scale[k] = (int8_t)((((low[k / 2] >> 4 * (k % 2)) & 15) | ((high >> 2 * k) & 3) << 4) - 32);
}

/* ---- values ---- */

/* 16 scales[16] | 64 qs | 2 d | 2 dmin */
void rs_decode_q2_k(float *restrict out, const uint8_t *restrict source, size_t n_blocks)
{
    for (size_t b = 0; b < n_blocks; b++, source += 84, out += BLOCK) {
        const float d = rs_half(source + 80), dmin = rs_half(source + 82);
        for (int k = 0; k < 16; k++) { /* k = 8n + 2j + s */
            const float scale = d * (float)(source[k] & 15),
                        minimum = dmin * (float)(source[k] >> 4);
            const uint8_t *q = source + 16 + 32 * (k / 8) + 16 * (k % 2);
            const int shift = 2 * (k / 2 % 4);
            for (int l = 0; l < 16; l++)
                out[16 * k + l] = scale * (float)((q[l] >> shift) & 3) - minimum;
        }
    }
}

/* 32 hmask | 64 qs | 12 scales | 2 d */
void rs_decode_q3_k(float *restrict out, const uint8_t *restrict source, size_t n_blocks)
{
    for (size_t b = 0; b < n_blocks; b++, source += 110, out += BLOCK) {
        const float d = rs_half(source + 108);
        int8_t scale[16];
        scales_q3_k(scale, source + 96);
        for (int k = 0; k < 16; k++) {
            const float step = d * (float)scale[k];
            const uint8_t *q = source + 32 + 32 * (k / 8) + 16 * (k % 2);
            const uint8_t *high = source + 16 * (k % 2);
            const int shift = 2 * (k / 2 % 4), high_shift = k / 2;
            for (int l = 0; l < 16; l++) {
                /* a high bit of 0 means 4 less */
                int code = ((q[l] >> shift) & 3) + (((high[l] >> high_shift) & 1) << 2) - 4;
                out[16 * k + l] = step * (float)code;
            }
        }
    }
}

/* 2 d | 2 dmin | 12 scales | 128 qs */
void rs_decode_q4_k(float *restrict out, const uint8_t *restrict source, size_t n_blocks)
{
    for (size_t b = 0; b < n_blocks; b++, source += 144, out += BLOCK) {
        const float d = rs_half(source), dmin = rs_half(source + 2);
        uint8_t scale[8], minimum[8];
        scales_q4_k(scale, minimum, source + 4);
        for (int p = 0; p < 4; p++) {
            const uint8_t *q = source + 16 + 32 * p;
            float *low = out + 64 * p, *high = low + 32;
            const float d0 = d * (float)scale[2 * p], m0 = dmin * (float)minimum[2 * p];
            const float d1 = d * (float)scale[2 * p + 1], m1 = dmin * (float)minimum[2 * p + 1];
            for (int l = 0; l < 32; l++)
                low[l] = d0 * (float)(q[l] & 15) - m0;
            for (int l = 0; l < 32; l++)
                high[l] = d1 * (float)(q[l] >> 4) - m1;
        }
    }
}

/* 2 d | 2 dmin | 12 scales | 32 qh | 128 qs */
void rs_decode_q5_k(float *restrict out, const uint8_t *restrict source, size_t n_blocks)
{
    for (size_t b = 0; b < n_blocks; b++, source += 176, out += BLOCK) {
        const float d = rs_half(source), dmin = rs_half(source + 2);
        const uint8_t *top = source + 16;
        uint8_t scale[8], minimum[8];
        scales_q4_k(scale, minimum, source + 4);
        for (int p = 0; p < 4; p++) {
            const uint8_t *q = source + 48 + 32 * p;
            float *low = out + 64 * p, *high = low + 32;
            const float d0 = d * (float)scale[2 * p], m0 = dmin * (float)minimum[2 * p];
            const float d1 = d * (float)scale[2 * p + 1], m1 = dmin * (float)minimum[2 * p + 1];
            for (int l = 0; l < 32; l++)
                low[l] = d0 * (float)((q[l] & 15) | ((top[l] >> 2 * p) & 1) << 4) - m0;
            for (int l = 0; l < 32; l++)
                high[l] = d1 * (float)((q[l] >> 4) | ((top[l] >> (2 * p + 1)) & 1) << 4) - m1;
        }
    }
}

/* 128 ql | 64 qh | 16 int8 scales | 2 d */
void rs_decode_q6_k(float *restrict out, const uint8_t *restrict source, size_t n_blocks)
{
    for (size_t b = 0; b < n_blocks; b++, source += 210, out += BLOCK) {
        const float d = rs_half(source + 208);
        for (int k = 0; k < 16; k++) { /* k = 8n + 2g + l/16 */
            const int n = k / 8, g = k / 2 % 4, half = 16 * (k % 2);
            const float step = d * (float)(int8_t)source[192 + k];
            const uint8_t *low = source + 64 * n + 32 * (g % 2) + half;
            const uint8_t *high = source + 128 + 32 * n + half;
            const int low_shift = 4 * (g / 2), high_shift = 2 * g;
            for (int l = 0; l < 16; l++) {
                int code = ((low[l] >> low_shift) & 15) | ((high[l] >> high_shift) & 3) << 4;
                out[16 * k + l] = step * (float)(code - 32);
            }
        }
    }
}

/* 2 d | 2 scales_h | 4 scales_l | 128 qs */
void rs_decode_iq4_xs(float *restrict out, const uint8_t *restrict source, size_t n_blocks)
{
    for (size_t b = 0; b < n_blocks; b++, source += 136, out += BLOCK) {
        const float d = rs_half(source);
        int8_t scale[8];
        scales_iq4_xs(scale, rs_load16(source + 2), source + 4);
        for (int k = 0; k < 8; k++)
            rs_decode_nibbles(out + 32 * k, source + 8 + 16 * k, rs_iq4_codes, d * (float)scale[k]);
    }
}

/* ---- steps: (d*scale)², averaged over the sub-blocks, which are of equal size ---- */

static double mean_square(float d, double sum_of_squares, int n)
{
    return (double)d * (double)d * sum_of_squares / n;
}

double rs_step_q2_k(const uint8_t *block)
{
    int sum = 0;
    for (int k = 0; k < 16; k++)
        sum += (block[k] & 15) * (block[k] & 15);
    return mean_square(rs_half(block + 80), sum, 16);
}

double rs_step_q3_k(const uint8_t *block)
{
    int8_t scale[16];
    int sum = 0;
    scales_q3_k(scale, block + 96);
    for (int k = 0; k < 16; k++)
        sum += scale[k] * scale[k];
    return mean_square(rs_half(block + 108), sum, 16);
}

double rs_step_q4_k(const uint8_t *block)
{
    uint8_t scale[8], minimum[8];
    int sum = 0;
    scales_q4_k(scale, minimum, block + 4);
    for (int k = 0; k < 8; k++)
        sum += scale[k] * scale[k];
    return mean_square(rs_half(block), sum, 8);
}

/* Scales lie where those of Q4_K do; the fifth bit of a code leaves the spacing as it is. */
double rs_step_q5_k(const uint8_t *block)
{
    return rs_step_q4_k(block);
}

double rs_step_q6_k(const uint8_t *block)
{
    int sum = 0;
    for (int k = 0; k < 16; k++)
        sum += (int8_t)block[192 + k] * (int8_t)block[192 + k];
    return mean_square(rs_half(block + 208), sum, 16);
}

double rs_step_iq4_xs(const uint8_t *block)
{
    int8_t scale[8];
    int sum = 0;
    scales_iq4_xs(scale, rs_load16(block + 2), block + 4);
    for (int k = 0; k < 8; k++)
        sum += scale[k] * scale[k];
    return mean_square(rs_half(block), sum, 8) * rs_iq4_mean_square_step;
}
