/*
 * residual_act.c: act(y + d) - act(y) without subtracting what is nearly equal.
 *
 * With t(u, v) = sinh(v - u) / (cosh u cosh v) = tanh v - tanh u, and S the logistic function:
 *
 *   tanh         t(y, y + d)
 *   x S(a x)     d S(a (y+d)) + y/2 t(a y/2, a (y+d)/2)
 *   x S(2 u(x))  the same with u(x) = k (x + c x³), whose difference is k d (1 + c (3y² + 3yd +
 * d²)) x Φ(x)       d Φ(y+d) + y (Φ(y+d) - Φ(y)), the difference by its series about the middle m,
 *                d φ(m) Σ He_2k(m) (d/2)^2k / (2k+1)!, for short d, and by erfc for others
 *   S(x)         t(y/2, (y + d)/2)/2
 *   sin x        2 cos(y + d/2) sin(d/2)
 *   max(x, 0)    entry by entry, exact
 *
 * Where 2^e dy is below the last bit of everything, act'(y) dy is left.
 */
#include "engine/residual.h"

#include <math.h>

/* Below 2^-LEADING the square of a difference is lost beside it. */
enum { LEADING = 60 };

static const double gelu_k = 0.79788456080286535588, gelu_c = 0.044715; /* sqrt(2/π) */
static const double inverse_root_2pi = 0.39894228040143267794;

static double logistic(double x)
{
    return 1 / (1 + exp(-x));
}

/* 1/cosh x */
static double sech(double x)
{
    double e = exp(-fabs(x));
    return 2 * e / (1 + e * e);
}

/* tanh(u + v) - tanh(u) */
static double tanh_step(double u, double v)
{
    return fabs(v) < 1 ? sinh(v) * sech(u) * sech(u + v) : tanh(u + v) - tanh(u);
}

static double phi(double x)
{
    return inverse_root_2pi * exp(-0.5 * x * x);
}

static double normal(double x)
{
    return 0.5 * erfc(-x * M_SQRT1_2);
}

/* Φ(y + d) - Φ(y) */
static double normal_step(double y, double d)
{
    double m = y + 0.5 * d, h = 0.5 * d;
    if (fabs(d) >= 0.0625)
        return m > 0 ? 0.5 * (erfc(y * M_SQRT1_2) - erfc((y + d) * M_SQRT1_2))
                     : normal(y + d) - normal(y);
    double s = m * m, t = h * h;
    double he2 = s - 1, he4 = (s - 6) * s + 3, he6 = ((s - 15) * s + 45) * s - 15,
           he8 = (((s - 28) * s + 210) * s - 420) * s + 105;
    double sum = 1 + t * (he2 / 6 + t * (he4 / 120 + t * (he6 / 5040 + t * (he8 / 362880))));
    return d * phi(m) * sum;
}

typedef struct function {
    double (*value)(double x);
    double (*slope)(double x);
    /* act(y + d) - act(y) */
    double (*step)(double y, double d);
} function;

static double linear_value(double x)
{
    return x;
}

static double linear_slope(double x)
{
    (void)x;
    return 1;
}

static double linear_step(double y, double d)
{
    (void)y;
    return d;
}

static double relu_value(double x)
{
    return x > 0 || x != x ? x : 0;
}

static double relu_slope(double x)
{
    return x > 0;
}

/* A NaN fails the comparison and stays. */
static double relu_step(double y, double d)
{
    double end = y + d;
    return y > 0 ? (d < -y ? -y : d) : (end < 0 ? 0 : end);
}

static double relu2_value(double x)
{
    return x > 0 || x != x ? x * x : 0;
}

static double relu2_slope(double x)
{
    return x > 0 ? 2 * x : 0;
}

static double relu2_step(double y, double d)
{
    if (y > 0 && y + d > 0) return d * (2 * y + d);
    return relu2_value(y + d) - relu2_value(y);
}

static double tanh_slope(double x)
{
    double s = sech(x);
    return s * s;
}

/* x S(a x) */
static double swish_value(double x, double a)
{
    return x * logistic(a * x);
}

static double swish_slope(double x, double a)
{
    double s = sech(0.5 * a * x);
    return logistic(a * x) + 0.25 * a * x * s * s;
}

static double swish_step(double y, double d, double a)
{
    return d * logistic(a * (y + d)) + 0.5 * y * tanh_step(0.5 * a * y, 0.5 * a * d);
}

static double silu_value(double x)
{
    return swish_value(x, 1);
}

static double silu_slope(double x)
{
    return swish_slope(x, 1);
}

static double silu_step(double y, double d)
{
    return swish_step(y, d, 1);
}

static double quick_value(double x)
{
    return swish_value(x, 1.702);
}

static double quick_slope(double x)
{
    return swish_slope(x, 1.702);
}

static double quick_step(double y, double d)
{
    return swish_step(y, d, 1.702);
}

static double gelu_tanh_value(double x)
{
    return x * logistic(2 * gelu_k * (x + gelu_c * x * x * x));
}

static double gelu_tanh_slope(double x)
{
    double u = gelu_k * (x + gelu_c * x * x * x), s = sech(u);
    return logistic(2 * u) + 0.5 * x * s * s * gelu_k * (1 + 3 * gelu_c * x * x);
}

static double gelu_tanh_step(double y, double d)
{
    double u = gelu_k * (y + gelu_c * y * y * y);
    double step = gelu_k * d * (1 + gelu_c * (3 * y * (y + d) + d * d));
    return d * logistic(2 * (u + step)) + 0.5 * y * tanh_step(u, step);
}

static double gelu_value(double x)
{
    return x * normal(x);
}

static double gelu_slope(double x)
{
    return normal(x) + x * phi(x);
}

static double gelu_step(double y, double d)
{
    return d * normal(y + d) + y * normal_step(y, d);
}

static double tanh_value(double x)
{
    return tanh(x);
}

static double sigmoid_slope(double x)
{
    double s = sech(0.5 * x);
    return 0.25 * s * s;
}

static double sigmoid_step(double y, double d)
{
    return 0.5 * tanh_step(0.5 * y, 0.5 * d);
}

static double sin_value(double x)
{
    return sin(x);
}

static double sin_slope(double x)
{
    return cos(x);
}

static double sin_step(double y, double d)
{
    return 2 * cos(y + 0.5 * d) * sin(0.5 * d);
}

static const function functions[RS_ACT_COUNT] = {
    [RS_ACT_LINEAR] = {linear_value, linear_slope, linear_step},
    [RS_ACT_RELU] = {relu_value, relu_slope, relu_step},
    [RS_ACT_GELU] = {gelu_value, gelu_slope, gelu_step},
    [RS_ACT_GELU_TANH] = {gelu_tanh_value, gelu_tanh_slope, gelu_tanh_step},
    [RS_ACT_QUICK_GELU] = {quick_value, quick_slope, quick_step},
    [RS_ACT_SILU] = {silu_value, silu_slope, silu_step},
    [RS_ACT_TANH] = {tanh_value, tanh_slope, tanh_step},
    [RS_ACT_RELU2] = {relu2_value, relu2_slope, relu2_step},
    [RS_ACT_SIN] = {sin_value, sin_slope, sin_step},
    [RS_ACT_SIGMOID] = {logistic, sigmoid_slope, sigmoid_step},
};

void rs_act_values(double *value, double *slope, const double *y, int64_t n,
                   rs_activation activation)
{
    for (int64_t k = 0; k < n; k++) {
        value[k] = functions[activation].value(y[k]);
        slope[k] = functions[activation].slope(y[k]);
    }
}

/* t = y 2^-e is infinite where 2^e dy is nothing beside y: only the sign of y matters then. */
static void relu_row(double *out, const double *dy, const double *y, int64_t n, int64_t e)
{
    double inverse = rs_power_of_two(-e);
    for (int64_t k = 0; k < n; k++) {
        double t = y[k] == 0 ? 0 : y[k] * inverse, end = t + dy[k];
        out[k] = y[k] > 0 ? (dy[k] < -t ? -t : dy[k]) : (end < 0 ? 0 : end);
    }
}

/* max(0, y)² has no slope at its corner to speak of, and |y| may be as small as 2^e |dy|: in units of
 * 2^e, b² - a² = (b - a)(b + a), a and b being max(0, t) before and behind the step. */
static void relu2_row(double *out, const double *dy, const double *y, int64_t n, int64_t e)
{
    double power = rs_power_of_two(e), inverse = rs_power_of_two(-e);
    for (int64_t k = 0; k < n; k++) {
        double t = y[k] == 0 ? 0 : y[k] * inverse, step = dy[k];
        double a = t > 0 ? t : 0, b = t + step > 0 ? t + step : 0;
        if (t <= 0 || t + step <= 0) step = b - a;
        if (isnan(t) || isnan(step))
            out[k] = t + dy[k];
        else if (fabs(t) >= ldexp(1, LEADING))
            out[k] = dy[k] * relu2_slope(y[k]);
        else
            out[k] = power * step * (b + a);
    }
}

static double largest_of(const double *a, int64_t n)
{
    double most = 0;
    for (int64_t k = 0; k < n; k++)
        most = fabs(a[k]) > most ? fabs(a[k]) : most;
    return most;
}

void rs_act_difference(double *difference, const double *dy, const rs_act_base *base, int64_t n,
                       int64_t e, rs_activation activation)
{
    double power = rs_power_of_two(e), inverse = rs_power_of_two(-e);
    bool leading = power * largest_of(dy, n) < ldexp(1, -LEADING);
    if (activation == RS_ACT_RELU) {
        relu_row(difference, dy, base->y, n, e);
    } else if (activation == RS_ACT_RELU2) {
        relu2_row(difference, dy, base->y, n, e);
    } else if (leading) {
        /* at a corner the slope is that of its side */
        for (int64_t k = 0; k < n; k++)
            difference[k] = dy[k] * base->slope[k];
    } else {
        double (*step)(double, double) = functions[activation].step;
        for (int64_t k = 0; k < n; k++)
            difference[k] = step(base->y[k], power * dy[k]) * inverse;
    }
}
