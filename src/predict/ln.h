/* ln.h: sums of positive numbers that may be far outside the doubles, by their natural logarithms.
 * -INFINITY is the logarithm of 0. */
#ifndef RS_PREDICT_LN_H
#define RS_PREDICT_LN_H

#include <math.h>

/* Beyond this a logarithm is no longer told apart: doubly exponential laws reach it within a thousand
 * layers. */
#define RS_LN_MOST 1e300

static inline double rs_ln_add(double a, double b)
{
    double high = a > b ? a : b, low = a > b ? b : a;
    return low == -INFINITY ? high : high + log1p(exp(low - high));
}

/* ln(e^a − e^b); -INFINITY where b >= a, which only rounding makes so. */
static inline double rs_ln_less(double a, double b)
{
    if (b == -INFINITY) return a;
    return b < a ? a + log(-expm1(b - a)) : -INFINITY;
}

/* A product: the logarithm of 0 stays one whatever it is multiplied by. */
static inline double rs_ln_times(double a, double b)
{
    if (a == -INFINITY || b == -INFINITY) return -INFINITY;
    return fmax(fmin(a + b, RS_LN_MOST), -RS_LN_MOST);
}

static inline double rs_ln_square(double x)
{
    return 2 * log(fabs(x));
}

#endif
