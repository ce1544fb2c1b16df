/* kept_signal.c: closed forms of U-SPA's and E-SPA's attention (docs/theory/mean_field.md, 9). */
#include "predict/kept_signal.h"

#include <math.h>

/* Entry (i, j), from 0, of the Cholesky factor of (1 − r)I + r11ᵀ. */
static double uniform_factor(int64_t i, int64_t j, double r)
{
    double k = (double)j;
    if (j == 0) return i == 0 ? 1 : r;
    double below = 1 + (k - 1) * r, here = 1 + k * r;
    if (i == j) return sqrt((1 - r) * here / below);
    return i > j ? r * sqrt(1 - r) / sqrt(here * below) : 0;
}

bool rs_uspa_attention(double *a, int64_t tokens, double from, double to)
{
    if (!(from >= 0 && from < 1 && to >= 0 && to < 1)) return false;
    /* A L(from) = L(to), row by row from the right */
    for (int64_t i = 0; i < tokens; i++) {
        for (int64_t j = tokens - 1; j >= 0; j--) {
            double rest = j <= i ? uniform_factor(i, j, to) : 0;
            for (int64_t k = j + 1; k <= i; k++)
                rest -= a[i * tokens + k] * uniform_factor(k, j, from);
            a[i * tokens + j] = j <= i ? rest / uniform_factor(j, j, from) : 0;
        }
    }
    return true;
}

bool rs_espa_attention(double *a, int64_t tokens, double from, double to)
{
    if (!(to > 0 && to <= from)) return false;
    double after = exp(-to), before = exp(-from);
    double kept = sqrt(expm1(-2 * to) / (isinf(from) ? -1 : expm1(-2 * from)));
    double moved = after - before;
    for (int64_t i = 0; i < tokens; i++) {
        for (int64_t j = 0; j < tokens; j++) {
            double value = 0, steps = (double)(i - j - 1);
            if (i == j)
                value = i == 0 ? 1 : kept;
            else if (i > j)
                value = j > 0 ? kept * pow(after, steps) * moved
                              : pow(after, steps) * (after - kept * before);
            a[i * tokens + j] = value;
        }
    }
    return true;
}

double rs_espa_rate(int32_t layer, int32_t layers, double last)
{
    /* −½ ln(1 − a^{2l/L}), a² = 1 − e^{−2γ_L} */
    double power = exp((double)layer / layers * log(-expm1(-2 * last)));
    return layer == layers ? last : -log1p(-power) / 2;
}
