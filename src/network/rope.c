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
 *
 * Beside each frequency stands a bound of what float64 may have lost of it (docs/certificates.md,
 * C9): pow and log are taken to err by FUNCTION units of roundoff, every other operation by one.
 */
#include "network/network.h"

#include <float.h>
#include <math.h>

static const double U = DBL_EPSILON / 2, FUNCTION = 64;

/* A computed number, and how far from it the exact one may be. */
typedef struct known {
    double value, error;
} known;

static double clamp01(double x)
{
    return x < 0 ? 0 : x > 1 ? 1 : x;
}

/* theta^(-2t/c), theta grown first under `dynamic`. */
static known plain(const rs_rope_op *rope, int64_t n, int32_t t)
{
    double theta = rope->theta, dims = rope->dims, lost = 0; /* of theta, relatively */
    if (rs_rope_own_length(rope, n) && dims > 2) {
        double longer = rope->factor * (double)n / (double)rope->original_positions;
        double grown = longer - (rope->factor - 1), power = dims / (dims - 2);
        theta *= pow(grown, power);
        double of_grown = U * (2 * fabs(longer) + fabs(rope->factor - 1)) / fabs(grown) + U;
        lost = FUNCTION * U + power * (of_grown + U * fabs(log(fabs(grown)))) + 2 * U;
    }
    double exponent = -2.0 * t / dims, value = pow(theta, exponent);
    double relative = FUNCTION * U + U * fabs(log(value)) + fabs(exponent) * lost;
    return (known){value, relative < 0.01 ? 1.01 * relative * value : (double)INFINITY};
}

/* share of f / factor and the rest of f: both laws that blend. `off`: of the share. */
static known blend(known f, double share, double off, double factor)
{
    double value = f.value / factor * share + f.value * (1 - share);
    double slope =
        fmax(1, 1 / factor); /* either part may be the one that the share's error moves */
    double error = slope * (f.error + 6 * U * f.value) + f.value * slope * (off + 2 * U);
    return (known){value, error};
}

/* The pair that makes so many turns over the trained length, rounded to a whole one where asked and
 * kept within [least, most]; its error is infinite where rounding decides which. */
static known turns_to_pair(const rs_rope_op *rope, double turns, double (*whole)(double),
                           double least, double most)
{
    double dims = rope->dims, size = log(rope->theta);
    double x = dims * log((double)rope->original_positions / (turns * 2 * M_PI)) / (2 * size);
    double off = fabs(x) * (2 * FUNCTION + 8) * U + dims * 8 * U / fabs(size);
    if (!rope->truncate) return (known){fmin(fmax(x, least), most), off};
    double below = fmin(fmax(whole(x - off), least), most);
    bool decided = below == fmin(fmax(whole(x + off), least), most);
    return (known){fmin(fmax(whole(x), least), most), decided ? 0 : (double)INFINITY};
}

static known yarn(known f, const rs_rope_op *rope, int32_t t)
{
    double top = rope->dims - 1, infinite = (double)INFINITY;
    known first = turns_to_pair(rope, rope->beta_fast, floor, 0, infinite);
    known last = turns_to_pair(rope, rope->beta_slow, ceil, -infinite, top);
    double low = first.value, high = last.value;
    double off = first.error + last.error, width = fabs(high - low);
    bool decided = off == 0 || width > 100 * off; /* that the two differ, too */
    if (low == high) high += 0.001;               /* as the reference avoids 0/0 */
    double ramp = (t - low) / (high - low), size = fmin(fabs(ramp), 2);
    double of_ramp = decided ? 1.1 * (1 + size) * off / fabs(high - low) + 4 * U * size : infinite;
    return blend(f, clamp01(ramp), of_ramp, rope->factor);
}

static known llama3(known f, const rs_rope_op *rope)
{
    double positions = (double)rope->original_positions, wavelength = 2 * M_PI / f.value;
    double low = rope->low_freq_factor, high = rope->high_freq_factor, kept = 0;
    /* continuous in the wavelength: which side of a border it lies on changes nothing */
    double relative = f.error / f.value + 8 * U;
    double off = (4 * high * relative + 4 * U * (high + low)) / (high - low) + 4 * U;
    if (wavelength < positions / high)
        return (known){f.value,
                       f.error + f.value * fmax(1, 1 / rope->factor) *
                                     (wavelength * high > positions * (1 - off) ? off : 0)};
    if (wavelength <= positions / low) kept = (positions / wavelength - low) / (high - low);
    double value = (1 - kept) * f.value / rope->factor + kept * f.value;
    return (known){value, blend(f, 1 - kept, off, rope->factor).error};
}

int64_t rs_rope_own_length(const rs_rope_op *rope, int64_t n)
{
    return rope->law == RS_ROPE_DYNAMIC && n > rope->original_positions ? n : 0;
}

static known frequency(const rs_rope_op *rope, int64_t n, int32_t t)
{
    known f = plain(rope, n, t);
    double divisor = 1;
    if (rope->law == RS_ROPE_LLAMA3) f = llama3(f, rope);
    if (rope->law == RS_ROPE_YARN) f = yarn(f, rope, t);
    if (rope->law == RS_ROPE_LINEAR) divisor = rope->factor;
    if (rope->law == RS_ROPE_FACTORS && rope->divisors)
        rs_tensor_decode_f64(&divisor, rope->divisors, t, 1);
    f.value /= divisor;
    f.error = f.error / fabs(divisor) + (divisor == 1 ? 0 : U * fabs(f.value));
    return f;
}

void rs_rope_frequencies(double *inverse, double *attention_factor, const rs_rope_op *rope,
                         int64_t n)
{
    *attention_factor = rope->law == RS_ROPE_YARN ? rope->attention_factor : 1;
    for (int32_t t = 0; t < rope->dims / 2; t++)
        inverse[t] = frequency(rope, n, t).value;
}

double rs_rope_angle_rate(const rs_rope_op *rope, int64_t n)
{
    double most = 0;
    for (int32_t t = 0; t < rope->dims / 2; t++) {
        known f = frequency(rope, n, t);
        double rate = f.error + 2 * U * fabs(f.value);
        if (!(rate <= most)) most = isnan(rate) ? (double)INFINITY : rate;
    }
    return most;
}
