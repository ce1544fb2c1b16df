/* gram_points.c: Chebyshev points and Lagrange's polynomials (docs/theory/mean_field.md, 6). */
#include "predict/gram_points.h"

#include <math.h>

static const double PI = 3.14159265358979323846;
#define NEGLIGIBLE 1e-16

rs_gram_range rs_gram_range_of(const double *a, int64_t size)
{
    rs_gram_range r = {a[0], a[0]};
    for (int64_t i = 1; i < size; i++) {
        r.low = fmin(r.low, a[i]);
        r.high = fmax(r.high, a[i]);
    }
    return r;
}

double rs_gram_middle(rs_gram_range range)
{
    return (range.low + range.high) / 2;
}

rs_gram_points rs_gram_points_over(rs_gram_range x, rs_gram_range y)
{
    rs_gram_points p = {.count = 1, .half = (x.high - x.low) / 2};
    double z = p.half * (y.high - y.low) / 2, error = z;
    while (error > NEGLIGIBLE && p.count < RS_GRAM_POINTS_MOST) {
        p.count++;
        error *= z / 2 / p.count;
    }
    p.enough = error <= NEGLIGIBLE;
    for (int k = 0; k < p.count; k++)
        p.x[k] = rs_gram_middle(x) + p.half * cos(PI * (k + 0.5) / p.count);
    for (int k = 0; k < p.count; k++) {
        p.weight[k] = 1;
        for (int j = 0; j < p.count; j++) {
            /* over the half range, so that nothing leaves the doubles */
            if (j != k) p.weight[k] *= p.half / (p.x[k] - p.x[j]);
        }
    }
    return p;
}

double rs_gram_share(const rs_gram_points *p, int k, double x)
{
    double value = p->weight[k];
    for (int j = 0; j < p->count; j++) {
        if (j != k) value *= (x - p->x[j]) / p->half;
    }
    return value;
}

/* Products of the factors before each and behind it: no point is divided by. */
void rs_gram_shares(double *shares, const rs_gram_points *p, double x)
{
    double product = 1;
    for (int k = 0; k < p->count; k++) {
        shares[k] = p->weight[k] * product;
        if (p->count > 1) product *= (x - p->x[k]) / p->half;
    }
    product = 1;
    for (int k = p->count - 1; k >= 0; k--) {
        shares[k] *= product;
        if (p->count > 1) product *= (x - p->x[k]) / p->half;
    }
}
