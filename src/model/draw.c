/* draw.c: arrays of random numbers by position. */
#include "model/draw.h"

#include <Random123/philox.h>
#include <math.h>
#include <string.h>

enum { LANES = 64, CHUNK = 4 * LANES }; /* counters and numbers worked on at a time */

/* words[w][k]: word w of counter `first` + k. */
static void philox_words(uint32_t words[4][LANES], const rs_draw *draw, uint64_t first)
{
    philox4x32_key_t key = {{(uint32_t)draw->seed, (uint32_t)(draw->seed >> 32)}};
    for (uint64_t k = 0; k < LANES; k++) {
        uint64_t i = first + k;
        philox4x32_ctr_t counter = {
            {(uint32_t)i, (uint32_t)(i >> 32), draw->stream[0], draw->stream[1]}};
        philox4x32_ctr_t drawn = philox4x32(counter, key);
        for (int w = 0; w < 4; w++)
            words[w][k] = drawn.v[w];
    }
}

/* ln of (word + 1/2) / 2^32: mantissa m in [sqrt(1/2), sqrt(2)), then 2 atanh((m-1)/(m+1)) as a
 * series; its first term left out is below 5e-11. */
static inline double log_uniform(uint32_t word)
{
    double u = ((double)word + 0.5) * 0x1p-32;
    uint64_t bits;
    memcpy(&bits, &u, sizeof bits);
    /* adding the distance from sqrt(1/2) to 1 in bits moves the border of the exponent there */
    uint64_t shifted = bits + (0x3FF0000000000000u - 0x3FE6A09E667F3BCDu);
    uint64_t exponent_bits = shifted & 0xFFF0000000000000u;
    double exponent = (double)(int32_t)(exponent_bits >> 52) - 1023.0;
    uint64_t mantissa_bits = bits - exponent_bits + 0x3FF0000000000000u;
    double m;
    memcpy(&m, &mantissa_bits, sizeof m);
    double s = (m - 1.0) / (m + 1.0), q = s * s;
    double series = 1.0 + q * (1.0 / 3 + q * (1.0 / 5 + q * (1.0 / 7 + q * (1.0 / 9 + q / 11.0))));
    return exponent * 0.69314718055994530942 + 2.0 * s * series;
}

/* Cosine and sine of a uniform angle: two bits choose the quarter, thirty the place within ±pi/4.
 * Taylor terms left out are below 1e-11. */
static inline void uniform_direction(double *cosine, double *sine, uint32_t word)
{
    double x = ((double)(word & 0x3FFFFFFFu) + 0.5) * 0x1p-30 - 0.5;
    x *= 1.57079632679489661923;
    double q = x * x;
    double s = x * (1.0 + q * (-1.0 / 6 + q * (1.0 / 120 + q * (-1.0 / 5040 + q / 362880.0))));
    s -= x * (q * q * q * q * q) / 39916800.0;
    double c = 1.0 + q * (-0.5 + q * (1.0 / 24 + q * (-1.0 / 720 + q * (1.0 / 40320))));
    c += (q * q * q * q * q) * (-1.0 / 3628800 + q / 479001600.0);
    double swap = (double)(word >> 30 & 1), keep = 1.0 - swap;
    double sign = 1.0 - 2.0 * (double)(word >> 31);
    *cosine = sign * (keep * c - swap * s);
    *sine = sign * (keep * s + swap * c);
}

static void normal_chunk(double z[CHUNK], const rs_draw *draw, uint64_t first)
{
    uint32_t words[4][LANES];
    philox_words(words, draw, first);
    for (int pair = 0; pair < 2; pair++)
        for (int k = 0; k < LANES; k++) {
            double radius = sqrt(-2.0 * log_uniform(words[2 * pair][k])), c, s;
            uniform_direction(&c, &s, words[2 * pair + 1][k]);
            z[4 * k + 2 * pair] = radius * c;
            z[4 * k + 2 * pair + 1] = radius * s;
        }
}

static void uniform_chunk(double u[CHUNK], const rs_draw *draw, uint64_t first)
{
    uint32_t words[4][LANES];
    philox_words(words, draw, first);
    for (int i = 0; i < CHUNK; i++)
        u[i] = ((double)words[i % 4][i / 4] + 0.5) * 0x1p-32;
}

/* offset + factor * (the drawn number), into f32 or f64, whichever is given. */
typedef struct target {
    float *f32;
    double *f64;
    double offset, factor;
    void (*chunk)(double values[CHUNK], const rs_draw *draw, uint64_t first);
} target;

static void fill(const target *to, const rs_draw *draw, int64_t n, int threads)
{
    int64_t chunks = n / CHUNK + (n % CHUNK != 0);
#pragma omp parallel for schedule(static) num_threads(threads) if (chunks > 16)
    for (int64_t c = 0; c < chunks; c++) {
        double v[CHUNK];
        to->chunk(v, draw, (uint64_t)c * LANES);
        int64_t at = c * CHUNK, here = n - at < CHUNK ? n - at : CHUNK;
        if (to->f32)
            for (int64_t i = 0; i < here; i++)
                to->f32[at + i] = (float)(to->offset + to->factor * v[i]);
        else
            for (int64_t i = 0; i < here; i++)
                to->f64[at + i] = to->offset + to->factor * v[i];
    }
}

void rs_draw_normal(float *out, const rs_draw *draw, int64_t n, double offset, double factor,
                    int threads)
{
    target to = {.f32 = out, .offset = offset, .factor = factor, .chunk = normal_chunk};
    fill(&to, draw, n, threads);
}

void rs_draw_normal_f64(double *out, const rs_draw *draw, int64_t n, double offset, double factor,
                        int threads)
{
    target to = {.f64 = out, .offset = offset, .factor = factor, .chunk = normal_chunk};
    fill(&to, draw, n, threads);
}

void rs_draw_uniform(float *out, const rs_draw *draw, int64_t n, double low, double high,
                     int threads)
{
    target to = {.f32 = out, .offset = low, .factor = high - low, .chunk = uniform_chunk};
    fill(&to, draw, n, threads);
}
