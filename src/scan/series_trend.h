/*
 * series_trend.h: does a number fall, rise or hold from checkpoint to checkpoint? docs/series.md says
 * what the rule is and how often noise meets it.
 */
#ifndef RS_SCAN_SERIES_TREND_H
#define RS_SCAN_SERIES_TREND_H

#include "base/error.h"

#include <stddef.h>

typedef enum rs_trend_kind { RS_TREND_HOLDS, RS_TREND_FALLS, RS_TREND_RISES } rs_trend_kind;
const char *rs_trend_name(rs_trend_kind kind); /* "holds" "falls" "rises" */

/* How a series of numbers that are not negative goes. Places count from 0. */
typedef struct rs_trend {
    rs_trend_kind kind;
    size_t highest, lowest; /* places of the extremes, the last of equal ones */
    /* falls: the last place that is as high as the highest, within the noise or a tenth of the way; rises:
     * as low as the lowest; else the last place */
    size_t since;
    double fall;  /* 1 - last / highest */
    double rise;  /* last / lowest - 1; infinite or NaN where the lowest is 0 */
    double noise; /* how far the numbers go up and down of themselves */
    double swing; /* the largest way the other way: of a fall the largest climb to a later number */
    double chance; /* 3 standard deviations of the difference of the extreme and the last */
} rs_trend;

/* A fall must be so many times the noise, the largest climb, and the standard deviation of chance. */
#define RS_TREND_NOISES 4.0
#define RS_TREND_SWINGS 1.5
#define RS_TREND_SPREADS 3.0
/* From so many numbers on, noise is also read from neighbours. */
enum { RS_TREND_MANY = 12 };

/*
 * Of n > 0 numbers; spreads: the standard deviation of each by chance. It falls where
 *   1. last < (1 - share) highest,
 *   2. highest - last > RS_TREND_SPREADS standard deviations of that difference by chance,
 *   3. highest - last >= RS_TREND_SWINGS swing, and
 *   4. highest - last >= RS_TREND_NOISES noise.
 * Of a series that ends at 0 only 1 and 2 are asked: no level comes to 0 of itself.
 * Swing is the largest climb max_{i<j} (x_j - x_i): what went up by so much may have come down by as much of
 * itself, and a dip that came back is no fall. Noise is the largest way back: the deepest drop before the highest,
 * which was made good, or the highest climb behind it; of RS_TREND_MANY numbers or more it is at most the median
 * of |x_{i+1} - 2 x_i + x_{i-1}|, so that of one slow dip of the past a fall must be 1.5 times as deep, not 4.
 * Rising is the same upside down, with last > (1 + share) lowest. scratch: [n].
 */
rs_trend rs_trend_of(const double *values, const double *spreads, size_t n, double share,
                     double *scratch);

#endif
