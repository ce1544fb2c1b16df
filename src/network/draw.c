/* draw.c: arrays of random numbers by position. */
#include "network/draw.h"

#include "base/cpu.h"
#include "network/draw_chunk.h"

static const rs_draw_chunks *chunks(void)
{
#if defined(__x86_64__)
    rs_cpu_level level = rs_cpu_vector_level();
    if (level == RS_CPU_AVX2 || level == RS_CPU_AVX512) return &rs_draw_chunks_avx2;
#endif
    return &rs_draw_chunks_plain;
}

/* offset + factor * (the drawn number), into f32 or f64, whichever is given. */
typedef struct target {
    float *f32;
    double *f64;
    double offset, factor;
    void (*chunk)(double values[RS_DRAW_CHUNK], const rs_draw *draw, uint64_t first);
} target;

static void fill_chunk(const target *to, const rs_draw *draw, int64_t n, int64_t c)
{
    double v[RS_DRAW_CHUNK];
    to->chunk(v, draw, (uint64_t)c * RS_DRAW_LANES);
    int64_t at = c * RS_DRAW_CHUNK, here = n - at < RS_DRAW_CHUNK ? n - at : RS_DRAW_CHUNK;
    if (to->f32)
        for (int64_t i = 0; i < here; i++)
            to->f32[at + i] = (float)(to->offset + to->factor * v[i]);
    else
        for (int64_t i = 0; i < here; i++)
            to->f64[at + i] = to->offset + to->factor * v[i];
}

/* A small array is not worth even a team of one thread. */
enum { WORTH_THREADS = 16 };

static void fill_target(const target *to, const rs_draw *draw, int64_t n, int threads)
{
    int64_t chunks = n / RS_DRAW_CHUNK + (n % RS_DRAW_CHUNK != 0);
    if (threads <= 1 || chunks <= WORTH_THREADS) {
        for (int64_t c = 0; c < chunks; c++)
            fill_chunk(to, draw, n, c);
        return;
    }
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t c = 0; c < chunks; c++)
        fill_chunk(to, draw, n, c);
}

void rs_draw_normal(float *out, const rs_draw *draw, int64_t n, double offset, double factor,
                    int threads)
{
    target to = {.f32 = out, .offset = offset, .factor = factor, .chunk = chunks()->normal};
    fill_target(&to, draw, n, threads);
}

void rs_draw_normal_f64(double *out, const rs_draw *draw, int64_t n, double offset, double factor,
                        int threads)
{
    target to = {.f64 = out, .offset = offset, .factor = factor, .chunk = chunks()->normal};
    fill_target(&to, draw, n, threads);
}

void rs_draw_uniform(float *out, const rs_draw *draw, int64_t n, double low, double high,
                     int threads)
{
    target to = {.f32 = out, .offset = low, .factor = high - low, .chunk = chunks()->uniform};
    fill_target(&to, draw, n, threads);
}
