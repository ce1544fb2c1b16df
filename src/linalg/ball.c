/* ball.c: reading ends of balls as doubles, rounded outwards. */
#include "linalg/ball.h"

#include <math.h>

void rs_ball_set(arb_t ball, double x)
{
    if (isfinite(x))
        arb_set_d(ball, x);
    else
        arb_zero_pm_inf(ball);
}

static double end_of(const arb_t ball, bool upper)
{
    arf_t end;
    arf_init(end);
    if (upper)
        arb_get_ubound_arf(end, ball, RS_BALL_BITS);
    else
        arb_get_lbound_arf(end, ball, RS_BALL_BITS);
    double x = arf_get_d(end, upper ? ARF_RND_CEIL : ARF_RND_FLOOR);
    arf_clear(end);
    return x;
}

double rs_ball_upper(const arb_t ball)
{
    return end_of(ball, true);
}

double rs_ball_lower(const arb_t ball)
{
    return end_of(ball, false);
}

static double log10_of(const arb_t ball, bool upper)
{
    arb_t end, ten;
    arf_t bound;
    double x = upper ? INFINITY : -INFINITY;
    arb_init(end);
    arb_init(ten);
    arf_init(bound);
    if (upper)
        arb_get_ubound_arf(bound, ball, RS_BALL_BITS);
    else
        arb_get_lbound_arf(bound, ball, RS_BALL_BITS);
    if (arf_is_zero(bound) || arf_sgn(bound) < 0) {
        x = -INFINITY;
    } else if (arf_is_finite(bound)) {
        arb_set_arf(end, bound);
        arb_log(end, end, RS_BALL_BITS);
        arb_set_ui(ten, 10); /* arb_const_log10 would keep its digits in memory of its own */
        arb_log(ten, ten, RS_BALL_BITS);
        arb_div(end, end, ten, RS_BALL_BITS);
        x = end_of(end, upper);
    }
    arf_clear(bound);
    arb_clear(ten);
    arb_clear(end);
    return x;
}

double rs_ball_log10_upper(const arb_t ball)
{
    return log10_of(ball, true);
}

double rs_ball_log10_lower(const arb_t ball)
{
    return log10_of(ball, false);
}

void rs_ball_keep_upper(arb_t ball)
{
    if (arb_is_finite(ball))
        arb_get_ubound_arf(arb_midref(ball), ball, RS_BALL_BITS);
    else
        arb_pos_inf(ball);
    mag_zero(arb_radref(ball));
}

void rs_ball_keep_lower(arb_t ball)
{
    if (arb_is_finite(ball))
        arb_get_lbound_arf(arb_midref(ball), ball, RS_BALL_BITS);
    else
        arb_neg_inf(ball);
    mag_zero(arb_radref(ball));
}

bool rs_ball_less(const arb_t a, const arb_t b)
{
    return arb_lt(a, b) != 0;
}
