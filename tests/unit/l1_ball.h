/* l1_ball.h: the smallest l1 ball of a test's points, and the radius that its centre gives. */
#ifndef RS_TEST_L1_BALL_H
#define RS_TEST_L1_BALL_H

#include "linalg/lp_centre.h"
#include "measure_cases.h"

static inline rs_lp_centre ball(double *x, const double *points, int64_t n, int64_t d,
                                double tolerance)
{
    rs_workspace space = {0};
    rs_lp_centre out;
    rs_lp_centre_space(n, d, &space);
    void *base = malloc(space.used);
    assert_non_null(base);
    space = (rs_workspace){.base = base};
    rs_lp_centre_find(x, &out, points, n, d, tolerance, &space);
    free(base);
    return out;
}

static inline double radius_of(const double *x, const double *points, int64_t n, int64_t d)
{
    double most = 0;
    for (int64_t i = 0; i < n; i++) {
        double sum = 0;
        for (int64_t k = 0; k < d; k++)
            sum += fabs(points[i * d + k] - x[k]);
        most = fmax(most, sum);
    }
    return most;
}

#endif
