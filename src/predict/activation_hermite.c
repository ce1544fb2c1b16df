/*
 * activation_hermite.c: E φ(u)φ(v) as a power series of the correlation (docs/theory/mean_field.md, 3).
 *
 * With normalised Hermite polynomials h_k and b_k = E φ'(√q x) h_k(x), x a standard normal,
 *
 *     E φ'(u)φ'(v) = Σ b_k² r^k,     E φ(u)φ(v) = (E φ)² + q Σ b_k²/(k+1) r^{k+1}:
 *
 * all terms of a gap 1 − r^k are positive. Coefficients come from equal steps of x, which are exact to
 * rounding once they resolve the nearest pole of φ.
 */
#include "predict/activation_hermite.h"

#include "predict/ln.h"

#include <math.h>

enum { POINTS = 4096, QUIET = 12 };
#define REACH 13.0 /* of x: h_k(x) e^{−x²/4} is bounded, and the rest e^{−x²/4} there 4e-19 */
#define POLE_STEP                                                                                  \
    0.12 /* of √q x: nearest pole 1.5 away, so that waves of h_k up to the last are resolved */
#define NEGLIGIBLE 1e-19

static double sigmoid(double x)
{
    return x < 0 ? exp(x) / (1 + exp(x)) : 1 / (1 + exp(-x));
}

/* σ'(x) = σ(x) σ(−x): no digits lost far out. */
static double sigmoid_slope(double x)
{
    return sigmoid(x) * sigmoid(-x);
}

static double swish(double x, double rate)
{
    return x * sigmoid(rate * x);
}

static double swish_slope(double x, double rate)
{
    return sigmoid(rate * x) + rate * x * sigmoid_slope(rate * x);
}

/* x σ(2a(x + bx³)) is x(1 + tanh(a(x + bx³)))/2. */
#define GELU_A 0.79788456080286535588
#define GELU_B 0.044715

static double value_at(rs_gauss_kind kind, double x)
{
    switch (kind) {
    case RS_GAUSS_TANH:
        return tanh(x);
    case RS_GAUSS_SIGMOID:
        return sigmoid(x);
    case RS_GAUSS_GELU_TANH:
        return x * sigmoid(2 * GELU_A * (x + GELU_B * x * x * x));
    case RS_GAUSS_QUICK_GELU:
        return swish(x, 1.702);
    default:
        return swish(x, 1);
    }
}

static double slope_at(rs_gauss_kind kind, double x)
{
    switch (kind) {
    case RS_GAUSS_TANH:
        return 4 * sigmoid_slope(2 * x);
    case RS_GAUSS_SIGMOID:
        return sigmoid_slope(x);
    case RS_GAUSS_GELU_TANH: {
        double y = 2 * GELU_A * (x + GELU_B * x * x * x);
        return sigmoid(y) + x * sigmoid_slope(y) * 2 * GELU_A * (1 + 3 * GELU_B * x * x);
    }
    case RS_GAUSS_QUICK_GELU:
        return swish_slope(x, 1.702);
    default:
        return swish_slope(x, 1);
    }
}

/* Points x, φ'(√q x) e^{−x²/4} times the step, and two neighbouring h_k(x) e^{−x²/4}. */
typedef struct grid {
    int n;
    double x[POINTS], slope[POINTS], now[POINTS], before[POINTS];
} grid;

static bool make_grid(grid *g, double *mean, rs_gauss_kind kind, double q)
{
    static const double root = 0.63161877774606470; /* (2π)^{−1/4} */
    double step = fmin(0.25, POLE_STEP / sqrt(q));
    if (!(REACH / step < POINTS / 2 - 1)) return false;
    int half = (int)ceil(REACH / step);
    g->n = 2 * half + 1;
    *mean = 0;
    for (int i = 0; i < g->n; i++) {
        double x = g->x[i] = (i - half) * step, bell = root * exp(-x * x / 4);
        g->slope[i] = step * bell * slope_at(kind, sqrt(q) * x);
        g->now[i] = bell;
        g->before[i] = 0;
        /* x and −x together: 0 exactly for odd φ */
        double pair = value_at(kind, sqrt(q) * x) + value_at(kind, -sqrt(q) * x);
        *mean += step * bell * bell * pair / 2;
    }
    return true;
}

/* b_k, and h_{k+1} = (x h_k − √k h_{k−1})/√(k+1). */
static double next_coefficient(grid *g, int k)
{
    double sum = 0, scale = 1 / sqrt(k + 1.0), back = sqrt(k) * scale;
#pragma omp simd reduction(+ : sum)
    for (int i = 0; i < g->n; i++) {
        double now = g->now[i];
        sum += g->slope[i] * now;
        g->now[i] = scale * g->x[i] * now - back * g->before[i];
        g->before[i] = now;
    }
    return sum;
}

bool rs_hermite_expand(rs_hermite *out, rs_gauss_kind kind, double q)
{
    grid g;
    double total = 0;
    int quiet = 0;
    if (!make_grid(&g, &out->mean, kind, q)) return false;
    for (out->terms = 0; out->terms < RS_HERMITE_MOST; out->terms++) {
        double b = next_coefficient(&g, out->terms);
        out->power[out->terms] = b * b;
        total += b * b;
        quiet = b * b <= NEGLIGIBLE * total ? quiet + 1 : 0;
        if (quiet == QUIET) return true;
    }
    return false;
}

void rs_hermite_moments(rs_activation_moments *out, const rs_hermite *hermite, double ln_q,
                        double ln_e)
{
    double e = exp(ln_e), r = 1 - e, square = 0, gap = 0, slope = 0, slope_both = 0;
    double slope_gap = 0, power = 1, lost = 0; /* (1 − r^k)/e = 1 + r + … + r^{k−1} */
    for (int k = 0; k < hermite->terms; k++) {
        double b = hermite->power[k];
        slope += b;
        slope_both += b * power;
        slope_gap += b * lost;
        lost += power;
        square += b / (k + 1);
        gap += b / (k + 1) * lost;
        power *= r;
    }
    out->ln_square = rs_ln_add(rs_ln_square(hermite->mean), ln_q + log(square));
    out->ln_gap = ln_q + ln_e + log(gap);
    out->cosine = 1 - exp(out->ln_gap - out->ln_square);
    out->slope = slope;
    out->slope_both = slope_both;
    out->ln_slope_gap = ln_e + log(slope_gap);
}
