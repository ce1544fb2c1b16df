/* series_trend.c: see series_trend.h. */
#include "scan/series_trend.h"

#include "scan/scan.h"

#include <math.h>

const char *rs_trend_name(rs_trend_kind kind)
{
    static const char *const names[] = {
        [RS_TREND_HOLDS] = "holds", [RS_TREND_FALLS] = "falls", [RS_TREND_RISES] = "rises"};
    return names[kind];
}

/* The place of the largest of sign · value, the last of equal ones. */
static size_t peak_of(const double *values, size_t n, double sign)
{
    size_t peak = 0;
    for (size_t i = 1; i < n; i++)
        if (sign * values[i] >= sign * values[peak]) peak = i;
    return peak;
}

/* The furthest way that sign · value goes back before the peak (down) or behind it (up). */
static double way_back(const double *values, size_t n, size_t peak, double sign)
{
    double highest = -INFINITY, lowest = INFINITY, back = 0;
    for (size_t i = 0; i <= peak; i++) {
        highest = fmax(highest, sign * values[i]);
        back = fmax(back, highest - sign * values[i]);
    }
    for (size_t i = peak; i < n; i++) {
        lowest = fmin(lowest, sign * values[i]);
        back = fmax(back, sign * values[i] - lowest);
    }
    return back;
}

/* The median of second differences: a straight line has none. n > 2 */
static double jitter(const double *values, size_t n, double *scratch)
{
    for (size_t i = 0; i + 2 < n; i++)
        scratch[i] = fabs(values[i + 2] - 2 * values[i + 1] + values[i]);
    return rs_median(scratch, n - 2);
}

/* The largest climb of sign · value from one place to a later one. */
static double climb(const double *values, size_t n, double sign)
{
    double lowest = INFINITY, most = 0;
    for (size_t i = 0; i < n; i++) {
        lowest = fmin(lowest, sign * values[i]);
        most = fmax(most, sign * values[i] - lowest);
    }
    return most;
}

/* The last place that is as far as the peak, within the noise or a tenth of the way that follows. */
static size_t last_near(const double *values, size_t n, size_t peak, double sign, double noise)
{
    double near = fmax(noise, 0.1 * sign * (values[peak] - values[n - 1]));
    size_t last = peak;
    for (size_t i = peak; i < n; i++)
        if (sign * (values[peak] - values[i]) <= near) last = i;
    return last;
}

/* Whether the series leaves its peak for good; what it rests on into *out. */
static bool leaves(rs_trend *out, const double *values, const double *spreads, size_t n,
                   size_t peak, double sign, double *scratch)
{
    double way = sign * (values[peak] - values[n - 1]);
    bool ends = values[n - 1] == 0;
    out->noise = way_back(values, n, peak, sign);
    if (n >= RS_TREND_MANY) out->noise = fmin(out->noise, jitter(values, n, scratch));
    out->swing = climb(values, n, sign);
    out->chance = RS_TREND_SPREADS * hypot(spreads[peak], spreads[n - 1]);
    out->since = last_near(values, n, peak, sign, ends ? 0 : out->noise);
    if (way <= out->chance) return false;
    return ends || (way >= RS_TREND_SWINGS * out->swing && way >= RS_TREND_NOISES * out->noise);
}

rs_trend rs_trend_of(const double *values, const double *spreads, size_t n, double share,
                     double *scratch)
{
    rs_trend t = {.highest = peak_of(values, n, 1), .lowest = peak_of(values, n, -1)};
    double last = values[n - 1];
    t.fall = 1 - last / values[t.highest];
    t.rise = last / values[t.lowest] - 1;
    rs_trend up = t, down = t;
    if (leaves(&down, values, spreads, n, t.highest, 1, scratch) && t.fall > share) {
        down.kind = RS_TREND_FALLS;
        return down;
    }
    if (leaves(&up, values, spreads, n, t.lowest, -1, scratch) && t.rise > share) {
        up.kind = RS_TREND_RISES;
        return up;
    }
    down.since = n - 1;
    return down;
}
