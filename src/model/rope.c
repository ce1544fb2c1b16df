/*
 * rope.c: the frequencies of rotary positions under every scaling law that is read.
 *
 * Pair t of c = dims turns by position * theta^(-2t/c). The laws change the frequencies f:
 *
 *   linear   f / factor (positions shrunk)
 *   dynamic  theta grown for texts longer than the trained length: NTK-aware scaling
 *   llama3   wavelengths beyond original/low_freq_factor divided by factor, those below
 *            original/high_freq_factor kept, a line between
 *   yarn     f kept above beta_fast turns over the trained length, f/factor below beta_slow turns,
 *            a ramp over the pairs between (Peng et al. 2023), and cos, sin scaled
 *   factors  GGUF's rope_freqs: each frequency divided by its entry
 */
#include "model/network.h"

#include <math.h>

static double turns_to_pair(double turns, double positions, double dims, double theta)
{
    return dims * log(positions / (turns * 2 * M_PI)) / (2 * log(theta));
}

static double clamp01(double x)
{
    return x < 0 ? 0 : x > 1 ? 1 : x;
}

static void yarn(double *inverse, const rs_rope_op *rope)
{
    double dims = rope->dims, positions = (double)rope->original_positions;
    double low = turns_to_pair(rope->beta_fast, positions, dims, rope->theta);
    double high = turns_to_pair(rope->beta_slow, positions, dims, rope->theta);
    if (rope->truncate) {
        low = floor(low);
        high = ceil(high);
    }
    low = fmax(low, 0);
    high = fmin(high, dims - 1);
    if (low == high) high += 0.001; /* as the reference avoids 0/0 */
    for (int32_t t = 0; t < rope->dims / 2; t++) {
        double ramp = clamp01((t - low) / (high - low));
        inverse[t] = inverse[t] / rope->factor * ramp + inverse[t] * (1 - ramp);
    }
}

static void llama3(double *inverse, const rs_rope_op *rope)
{
    double positions = (double)rope->original_positions;
    double longest = positions / rope->low_freq_factor;
    double shortest = positions / rope->high_freq_factor;
    for (int32_t t = 0; t < rope->dims / 2; t++) {
        double wavelength = 2 * M_PI / inverse[t];
        if (wavelength < shortest) continue;
        double kept = 0;
        if (wavelength <= longest)
            kept = (positions / wavelength - rope->low_freq_factor) /
                   (rope->high_freq_factor - rope->low_freq_factor);
        inverse[t] = (1 - kept) * inverse[t] / rope->factor + kept * inverse[t];
    }
}

int64_t rs_rope_own_length(const rs_rope_op *rope, int64_t n)
{
    return rope->law == RS_ROPE_DYNAMIC && n > rope->original_positions ? n : 0;
}

void rs_rope_frequencies(double *inverse, double *attention_factor, const rs_rope_op *rope,
                         int64_t n)
{
    double theta = rope->theta, dims = rope->dims;
    *attention_factor = rope->law == RS_ROPE_YARN ? rope->attention_factor : 1;
    if (rs_rope_own_length(rope, n) && dims > 2) {
        double longer = rope->factor * (double)n / (double)rope->original_positions;
        theta *= pow(longer - (rope->factor - 1), dims / (dims - 2));
    }
    for (int32_t t = 0; t < rope->dims / 2; t++)
        inverse[t] = pow(theta, -2.0 * t / dims);
    if (rope->law == RS_ROPE_LLAMA3) llama3(inverse, rope);
    if (rope->law == RS_ROPE_YARN) yarn(inverse, rope);
    for (int32_t t = 0; t < rope->dims / 2; t++) {
        double divisor = 1;
        if (rope->law == RS_ROPE_LINEAR) divisor = rope->factor;
        if (rope->law == RS_ROPE_FACTORS && rope->divisors)
            rs_tensor_decode_f64(&divisor, rope->divisors, t, 1);
        inverse[t] /= divisor;
    }
}
