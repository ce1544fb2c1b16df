/* probe_random.c: inputs drawn at random. */
#include "collapse/probe_input_parts.h"

#include "base/memory.h"
#include "base/random.h"

#include <math.h>

/* Streams of their own, away from those that weights and baselines are drawn from. */
enum { STREAM_IDS = 0x1d5, STREAM_STATES = 0x57a7e };

static rs_random stream(uint64_t seed, uint64_t kind, int64_t sample)
{
    return rs_random_new(seed, kind << 40 ^ (uint64_t)sample);
}

/* Least i with cumulative[i] > target. */
static int64_t find(const double *cumulative, int64_t n, double target)
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

rs_status rs_probe_random_ids(int32_t *ids, int64_t samples, int64_t n, int64_t vocabulary,
                              uint64_t seed, rs_error *err)
{
    double *cumulative = rs_malloc((size_t)vocabulary, sizeof *cumulative), sum = 0;
    if (!cumulative)
        return rs_fail_memory(err, "random ids", (size_t)vocabulary * sizeof *cumulative);
    for (int64_t i = 0; i < vocabulary; i++)
        cumulative[i] = sum += 1.0 / ((double)i + 2.7);
    for (int64_t s = 0; s < samples; s++) {
        rs_random random = stream(seed, STREAM_IDS, s);
        for (int64_t i = 0; i < n; i++)
            ids[s * n + i] =
                (int32_t)find(cumulative, vocabulary, sum * rs_random_uniform(&random));
    }
    rs_free(cumulative);
    return RS_OK;
}

/* One token: the direction of sqrt(rho) shared + sqrt(1 - rho) own, with squared norm norm2. */
static void draw_token(double *token, const double *shared, int64_t d, double rho, double norm2,
                       rs_random *random)
{
    double sum = 0;
    for (int64_t j = 0; j < d; j++) {
        double own = rs_random_normal(random);
        token[j] = (shared ? sqrt(rho) * shared[j] : 0) + sqrt(1 - rho) * own;
        sum += token[j] * token[j];
    }
    double scale = sum > 0 ? sqrt(norm2 / sum) : 0;
    for (int64_t j = 0; j < d; j++)
        token[j] *= scale;
}

void rs_probe_random_states(double *states, int64_t samples, int64_t n, int64_t d, double rho,
                            double norm2, uint64_t seed)
{
    for (int64_t s = 0; s < samples && n > 0; s++) {
        rs_random random = stream(seed, STREAM_STATES, s);
        double *sample = states + s * n * d, *last = sample + (n - 1) * d;
        /* The shared direction waits in the last token's place until that token is drawn. */
        for (int64_t j = 0; j < d && rho > 0; j++)
            last[j] = rs_random_normal(&random);
        for (int64_t i = 0; i < n; i++)
            draw_token(sample + i * d, rho > 0 ? last : NULL, d, rho, norm2, &random);
    }
}

void rs_probe_random_pixels(float *images, int64_t samples, int64_t size, uint64_t seed)
{
    for (int64_t s = 0; s < samples; s++) {
        rs_random random = stream(seed, STREAM_STATES, s);
        for (int64_t i = 0; i < size; i++)
            images[s * size + i] = (float)rs_random_normal(&random);
    }
}
