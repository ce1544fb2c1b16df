/*
 * lambda_span.h: numbers known to lie between two float64 numbers, and what + − × ÷ √ make of them.
 *
 * IEEE 754 rounds each of these operations to the nearest float64, so that one step outwards with
 * nextafter() encloses the exact result. Where an end leaves the range of float64 it becomes an
 * infinity, and a NaN widens to all of the line: a span never claims more than is true.
 */
#ifndef RS_PROOF_LAMBDA_SPAN_H
#define RS_PROOF_LAMBDA_SPAN_H

#include "proof/lambda.h"

#include <math.h>

/* The unit roundoff of float64. */
#define RS_LAMBDA_ROUNDOFF 0x1p-53

/* All numbers from low to high. */
typedef struct rs_span {
    double low, high;
} rs_span;

static inline double rs_up(double x)
{
    return nextafter(x, (double)INFINITY);
}

static inline double rs_down(double x)
{
    return nextafter(x, -(double)INFINITY);
}

static inline rs_span rs_span_of(double x)
{
    return (rs_span){x, x};
}

/* The span one step outwards of both ends; NaN becomes the whole line. */
static inline rs_span rs_span_widen(double low, double high)
{
    if (isnan(low) || isnan(high)) return (rs_span){-(double)INFINITY, (double)INFINITY};
    return (rs_span){rs_down(low), rs_up(high)};
}

/* The span of what x is with a relative error of at most `relative` and an absolute one of at most
 * `absolute`. */
static inline rs_span rs_span_about(double x, double relative, double absolute)
{
    /* 2^-40 covers the three roundings of the spread (docs/certificates.md, C10) */
    double spread = fabs(x) * relative * (1 + 0x1p-40) + absolute * (1 + 0x1p-40);
    return rs_span_widen(x - spread, x + spread);
}

static inline rs_span rs_span_add(rs_span a, rs_span b)
{
    return rs_span_widen(a.low + b.low, a.high + b.high);
}

static inline rs_span rs_span_sub(rs_span a, rs_span b)
{
    return rs_span_widen(a.low - b.high, a.high - b.low);
}

static inline rs_span rs_span_mul(rs_span a, rs_span b)
{
    double p = a.low * b.low, q = a.low * b.high, r = a.high * b.low, s = a.high * b.high;
    if (isnan(p) || isnan(q) || isnan(r) || isnan(s)) return rs_span_widen(NAN, NAN);
    return rs_span_widen(fmin(fmin(p, q), fmin(r, s)), fmax(fmax(p, q), fmax(r, s)));
}

static inline rs_span rs_span_div(rs_span a, rs_span b)
{
    if (!(b.low > 0) && !(b.high < 0)) return rs_span_widen(NAN, NAN);
    double p = a.low / b.low, q = a.low / b.high, r = a.high / b.low, s = a.high / b.high;
    if (isnan(p) || isnan(q) || isnan(r) || isnan(s)) return rs_span_widen(NAN, NAN);
    return rs_span_widen(fmin(fmin(p, q), fmin(r, s)), fmax(fmax(p, q), fmax(r, s)));
}

/* The square root of that part of `a` that is not negative. */
static inline rs_span rs_span_sqrt(rs_span a)
{
    rs_span root = rs_span_widen(sqrt(fmax(a.low, 0)), sqrt(fmax(a.high, 0)));
    root.low = fmax(root.low, 0);
    return root;
}

static inline rs_span rs_span_square(rs_span a)
{
    double low = fabs(a.low), high = fabs(a.high);
    double least = a.low <= 0 && a.high >= 0 ? 0 : fmin(low, high), most = fmax(low, high);
    rs_span square = rs_span_widen(least * least, most * most);
    square.low = fmax(square.low, 0);
    return square;
}

/* a^k, a ≥ 0, by squaring. */
static inline rs_span rs_span_power(rs_span a, int64_t k)
{
    rs_span power = rs_span_of(1);
    for (; k > 0; k >>= 1) {
        if (k & 1) power = rs_span_mul(power, a);
        if (k > 1) a = rs_span_square(a);
    }
    return power;
}

/* A bound on the relative error that k roundings in a row leave: γ_k = ku/(1 − ku), which for ku <
 * 0.01 is less than 1.011 ku. */
static inline double rs_rounding(int64_t k)
{
    double first_order = (double)k * RS_LAMBDA_ROUNDOFF;
    return first_order < 0.01 ? first_order * 1.02 : (double)INFINITY;
}

/* How many roundings one summand of rs_dot and its kin (linalg/vector.h) goes through: sixteen
 * partial sums, then pairwise; up to fifteen are left over at the end. */
static inline int64_t rs_dot_roundings(int64_t n)
{
    return n < 24 ? n + 2 : n / 16 + 24;
}

/* The factor that a test put on a constant; 1 outside of tests. */
double rs_lambda_constant_factor(rs_lambda_constant which);
static inline rs_span rs_span_constant(rs_span value, rs_lambda_constant which)
{
    double factor = rs_lambda_constant_factor(which);
    return factor == 1 ? value : (rs_span){value.low * factor, value.high * factor};
}

#endif
