/* activation_curve.c: moments of an activation by Chebyshev's polynomials. */
#include "predict/activation_curve.h"

#include "predict/gram_kernels.h"

#include <math.h>

enum { FIRST = 16 };     /* nodes, doubled until the last terms are nothing */
#define NEGLIGIBLE 3e-15 /* beside the largest term */

#define NARROW 1e-3

static const double PI = 3.14159265358979323846;

void rs_activation_curve_at(double *gap, double *both, const rs_activation_map *map, double root)
{
    rs_activation_moments m;
    /* the ratio does not change below */
    double ln_e = 2 * log(fmax(root, 1e-100));
    rs_activation_map_moments(&m, map, fmin(ln_e, log(2)));
    *gap = exp(m.ln_gap - m.ln_square - ln_e);
    *both = m.slope_both;
}

static bool is_done(const double *c, int nodes)
{
    double largest = 0, last = 0;
    for (int k = 0; k < nodes; k++)
        largest = fmax(largest, fabs(c[k]));
    for (int k = nodes - nodes / 8; k < nodes; k++)
        last = fmax(last, fabs(c[k]));
    return last <= NEGLIGIBLE * largest;
}

static bool fit(rs_activation_curve *out, const rs_activation_map *map, double low, double high,
                int nodes)
{
    for (int k = 0; k < nodes; k++)
        out->gap[k] = out->both[k] = 0;
    for (int j = 0; j < nodes; j++) {
        double x = cos(PI * (j + 0.5) / nodes), before = x, now = 1, gap, both;
        rs_activation_curve_at(&gap, &both, map, (high + low) / 2 + (high - low) / 2 * x);
        for (int k = 0; k < nodes; k++) {
            double share = now * (k ? 2.0 : 1.0) / nodes, then = 2 * x * now - before;
            out->gap[k] += share * gap;
            out->both[k] += share * both;
            before = now;
            now = then;
        }
    }
    return is_done(out->gap, nodes) && is_done(out->both, nodes);
}

/* How many terms are more than nothing. */
static int length_of(const rs_activation_curve *c, int nodes)
{
    double gap = 0, both = 0;
    for (int k = 0; k < nodes; k++) {
        gap = fmax(gap, fabs(c->gap[k]));
        both = fmax(both, fabs(c->both[k]));
    }
    while (nodes > 1 && fabs(c->gap[nodes - 1]) <= NEGLIGIBLE / 8 * gap &&
           fabs(c->both[nodes - 1]) <= NEGLIGIBLE / 8 * both)
        nodes--;
    return nodes;
}

bool rs_activation_curve_fit(rs_activation_curve *out, const rs_activation_map *map, double low,
                             double high)
{
    bool has = false;
    int nodes = FIRST;
    /* so wide that rounding of a root is nothing beside it */
    if (high - low < NARROW) {
        low = fmax(low - NARROW / 2, 0);
        high = fmin(low + 2 * NARROW, sqrt(2));
    }
    for (; nodes <= RS_CURVE_MOST; nodes *= 2) {
        has = fit(out, map, low, high, nodes);
        if (has) break;
    }
    if (!has) return false;
    out->terms = length_of(out, nodes);
    out->slope = 2 / (high - low);
    out->shift = -(high + low) / (high - low);
    return true;
}

void rs_activation_curve_gaps(double *out, const rs_activation_curve *curve, const double *root,
                              int64_t count)
{
    rs_gram_kernels_here()->series(out, root, count, curve->gap, curve->terms, curve->slope,
                                   curve->shift);
}

void rs_activation_curve_slopes(double *out, const rs_activation_curve *curve, const double *root,
                                int64_t count)
{
    rs_gram_kernels_here()->series(out, root, count, curve->both, curve->terms, curve->slope,
                                   curve->shift);
}
