/* trials_draw.c: arrays of random numbers of trials. */
#include "predict/trials_draw.h"

#include "base/cpu.h"

#include <string.h>

const rs_trials_draws *const *rs_trials_draw_tables(void)
{
#if defined(__x86_64__)
    static const rs_trials_draws *const three[] = {&rs_trials_draws_plain, &rs_trials_draws_avx2,
                                                   &rs_trials_draws_avx512, NULL};
    static const rs_trials_draws *const two[] = {&rs_trials_draws_plain, &rs_trials_draws_avx2,
                                                 NULL};
    rs_cpu_level level = rs_cpu_vector_level();
    if (level == RS_CPU_AVX512) return three;
    if (level == RS_CPU_AVX2) return two;
#endif
    static const rs_trials_draws *const one[] = {&rs_trials_draws_plain, NULL};
    return one;
}

static const rs_trials_draws *table_here(void)
{
    const rs_trials_draws *const *table = rs_trials_draw_tables();
    while (table[1])
        table++;
    return *table;
}

static void fill(float *out, rs_trials_chunk *chunk, const rs_trials_stream *stream, int64_t n,
                 float offset, float factor)
{
    int64_t whole = n / RS_TRIALS_CHUNK, left = n % RS_TRIALS_CHUNK;
    for (int64_t c = 0; c < whole; c++)
        chunk(out + c * RS_TRIALS_CHUNK, stream, (uint32_t)c, offset, factor);
    if (!left) return;
    float last[RS_TRIALS_CHUNK];
    chunk(last, stream, (uint32_t)whole, offset, factor);
    memcpy(out + whole * RS_TRIALS_CHUNK, last, (size_t)left * sizeof *out);
}

void rs_trials_normals(float *out, const rs_trials_stream *stream, int64_t n, double mean,
                       double deviation)
{
    fill(out, table_here()->normal, stream, n, (float)mean, (float)deviation);
}

void rs_trials_uniforms(float *out, const rs_trials_stream *stream, int64_t n, double low,
                        double high)
{
    fill(out, table_here()->uniform, stream, n, (float)low, (float)(high - low));
}
