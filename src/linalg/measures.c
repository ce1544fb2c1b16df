/* measures.c: rank measures of one spectrum. */
#include "linalg/measures.h"

#include <math.h>

/* Threshold ranks jump; a tie within rounding counts as reached (docs/contract.md). */
static const double TIE = 1.0 - 1e-12;

int64_t rs_energy_rank(const double *sigma, int64_t k, double fraction)
{
    double total = 0, sum = 0;
    for (int64_t i = 0; i < k; i++)
        total += sigma[i] * sigma[i];
    if (!(total > 0)) return 0;
    for (int64_t i = 0; i < k; i++) {
        sum += sigma[i] * sigma[i];
        if (sum >= fraction * total * TIE) return i + 1;
    }
    return k;
}

static int64_t mass_rank(const double *sigma, int64_t k, double fraction, double total)
{
    double sum = 0;
    for (int64_t i = 0; i < k; i++) {
        sum += sigma[i];
        if (sum >= fraction * total * TIE) return i + 1;
    }
    return k;
}

void rs_measures_of(rs_measures *out, const double *sigma, int64_t k, int64_t inner,
                    double tolerance)
{
    double first = k > 0 ? sigma[0] : 0.0;
    *out = (rs_measures){.spectral_norm = first,
                         .stable_rank = NAN,
                         .effective_rank = NAN,
                         .participation_ratio = NAN,
                         .pseudo_rank = NAN,
                         .condition = NAN};
    if (!(first > 0)) return;
    /* Relative values: squares and fourth powers of tiny or huge norms stay in range. */
    double mass = 0, energy = 0, fourth = 0;
    for (int64_t i = 0; i < k; i++) {
        double t = sigma[i] / first, t2 = t * t;
        mass += t;
        energy += t2;
        fourth += t2 * t2;
        out->numerical_rank += t > tolerance;
    }
    double entropy = 0;
    for (int64_t i = 0; i < k; i++) {
        double p = sigma[i] / first / mass;
        if (p > 0) entropy -= p * log(p);
    }
    out->frobenius_norm = first * sqrt(energy);
    out->nuclear_norm = first * mass;
    out->stable_rank = energy;
    out->effective_rank = exp(entropy);
    out->participation_ratio = energy * energy / fourth;
    out->energy_rank = rs_energy_rank(sigma, k, 0.95);
    out->pseudo_rank = (double)mass_rank(sigma, k, 0.95, out->nuclear_norm) / (double)inner;
    if (sigma[k - 1] / first > tolerance) out->condition = first / sigma[k - 1];
}
