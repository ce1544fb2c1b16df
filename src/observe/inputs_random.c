/* inputs_random.c: inputs drawn at random. */
#include "observe/inputs_parts.h"

#include "base/memory.h"
#include "base/random.h"

/* Streams of their own, away from those that weights and baselines are drawn from. */
enum { STREAM_IDS = 0x1d5, STREAM_PIXELS = 0x57a7e };

static rs_random stream(uint64_t seed, uint64_t kind, int64_t sample)
{
    return rs_random_new(seed, kind << 40 ^ (uint64_t)sample);
}

/* Least i with cumulative[i] > target. */
static int64_t find_rank(const double *cumulative, int64_t n, double target)
{
    int64_t low = 0, high = n - 1;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (cumulative[middle] > target)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

rs_status rs_input_draw_ids(int32_t *ids, int64_t samples, int64_t n, int64_t vocabulary,
                            int64_t padding, uint64_t seed, rs_error *err)
{
    bool skips = padding >= 0 && padding < vocabulary && vocabulary > 1;
    if (skips) vocabulary--;
    double *cumulative = rs_malloc((size_t)vocabulary, sizeof *cumulative), sum = 0;
    if (!cumulative)
        return rs_fail_memory(err, "random ids", (size_t)vocabulary * sizeof *cumulative);
    for (int64_t i = 0; i < vocabulary; i++)
        cumulative[i] = sum += 1.0 / ((double)i + 2.7);
    for (int64_t s = 0; s < samples; s++) {
        rs_random random = stream(seed, STREAM_IDS, s);
        for (int64_t i = 0; i < n; i++) {
            int64_t rank = find_rank(cumulative, vocabulary, sum * rs_random_uniform(&random));
            ids[s * n + i] = (int32_t)(skips && rank >= padding ? rank + 1 : rank);
        }
    }
    rs_free(cumulative);
    return RS_OK;
}

rs_status rs_input_draw_sequence(rs_inputs *out, int64_t *begin, int32_t *ids, int64_t tokens,
                                 int64_t d_model, int64_t vocabulary, int64_t padding,
                                 uint64_t seed, rs_error *err)
{
    begin[0] = 0;
    begin[1] = tokens;
    *out = (rs_inputs){.kind = "random",
                       .samples = 1,
                       .begin = begin,
                       .ids = ids,
                       .d_model = d_model,
                       .longest = tokens,
                       .shortest = tokens};
    return rs_input_draw_ids(ids, 1, tokens, vocabulary, padding, seed, err);
}

void rs_input_draw_pixels(float *images, int64_t samples, int64_t size, uint64_t seed)
{
    for (int64_t s = 0; s < samples; s++) {
        rs_random random = stream(seed, STREAM_PIXELS, s);
        for (int64_t i = 0; i < size; i++)
            images[s * size + i] = (float)rs_random_normal(&random);
    }
}
