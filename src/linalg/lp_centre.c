/*
 * lp_centre.c: the centre of the smallest ℓ1 ball: scaling, the quick method, and the slow one for
 * what that one leaves open. The bounds of either hold for the other, and the best centre is kept.
 */
#include "linalg/lp_centre.h"

#include "linalg/lp_parts.h"
#include "linalg/vector.h"

#include <math.h>
#include <string.h>

static void take_ball(rs_lp_ball *ball, int64_t n, int64_t d, rs_workspace *space)
{
    *ball = (rs_lp_ball){.n = n, .d = d};
    ball->points = rs_workspace_take(space, (size_t)n, (size_t)d * sizeof(double));
    ball->best = rs_workspace_doubles(space, d);
}

void rs_lp_centre_space(int64_t n, int64_t d, rs_workspace *space)
{
    rs_lp_ball ball;
    take_ball(&ball, n, d, space);
    rs_workspace quick = *space;
    rs_lp_smooth_space(n, d, &quick);
    rs_lp_interior_space(n, d, space);
    if (quick.used > space->used) *space = quick;
}

bool rs_lp_closed(const rs_lp_ball *ball)
{
    const rs_lp_centre *found = &ball->found;
    return found->radius - found->lower <= ball->tolerance * found->radius;
}

double rs_lp_offer_centre(rs_lp_ball *ball, const double *x, double *distances)
{
    double radius = 0;
    for (int64_t i = 0; i < ball->n; i++) {
        double distance = rs_distance_1(ball->points + i * ball->d, x, ball->d);
        if (distances) distances[i] = distance;
        /* A NaN must not pass for a small ball. */
        radius = distance <= radius ? radius : distance;
    }
    if (radius < ball->found.radius) {
        ball->found.radius = radius;
        memcpy(ball->best, x, (size_t)ball->d * sizeof *x);
    }
    return radius;
}

void rs_lp_offer_lower(rs_lp_ball *ball, double value)
{
    if (value <= ball->found.radius && value > ball->found.lower) ball->found.lower = value;
}

/* points = (X − mean)/(mean magnitude of that); returns the factor, and the mean in x. */
static double scale_points(rs_lp_ball *ball, double *mean, const double *points)
{
    int64_t n = ball->n, d = ball->d;
    double top = 0;
    for (int64_t k = 0; k < d; k++)
        mean[k] = 0;
    for (int64_t i = 0; i < n; i++)
        for (int64_t k = 0; k < d; k++)
            mean[k] += points[i * d + k] - points[k];
    for (int64_t k = 0; k < d; k++)
        mean[k] = points[k] + mean[k] / (double)n;
    for (int64_t i = 0; i < n; i++)
        for (int64_t k = 0; k < d; k++)
            ball->points[i * d + k] = points[i * d + k] - mean[k];
    for (int64_t i = 0; i < n; i++)
        top = fmax(top, rs_sum_absolute(ball->points + i * d, d));
    double scale = top / (double)d;
    for (int64_t i = 0; scale > 0 && i < n * d; i++)
        ball->points[i] /= scale;
    return scale;
}

void rs_lp_centre_find(double *x, rs_lp_centre *result, const double *points, int64_t n, int64_t d,
                       double tolerance, rs_workspace *space)
{
    rs_lp_ball ball;
    take_ball(&ball, n, d, space);
    *result = (rs_lp_centre){0};
    double scale = scale_points(&ball, x, points);
    if (!(scale > 0)) return;
    ball.tolerance = tolerance;
    ball.found.radius = INFINITY;
    memset(ball.best, 0, (size_t)d * sizeof *x);
    rs_lp_smooth(&ball, *space);
    if (!rs_lp_closed(&ball)) rs_lp_interior(&ball, *space);
    for (int64_t k = 0; k < d; k++)
        x[k] += scale * ball.best[k];
    *result = ball.found;
    result->radius *= scale;
    result->lower *= scale;
}
