/*
 * ball.h: ball arithmetic for the short scalar chains behind what is labelled certified.
 *
 * A ball is a midpoint and a radius (Arb, Johansson 2017): every operation encloses the exact
 * result for every number in its arguments, and exponents are unlimited, so that a bound of
 * 10^(-390000) or 10^(390000) neither under- nor overflows. This is the one place that names Arb's
 * headers; callers use its arb_ functions on the type below.
 *
 * Arb asks the system for memory itself, and ends the process where there is none: for numbers of
 * more than two words, for exponents beyond 62 bits, and for constants that it keeps (arb_const_*).
 * At RS_BALL_BITS none of the functions used here does; tests/memory/walk.c holds them to it.
 */
#ifndef RS_LINALG_BALL_H
#define RS_LINALG_BALL_H

#if __has_include(<flint/arb.h>)
#include <flint/arb.h>
#else
#include <arb.h>
#endif

#include <stdbool.h>

/* Bits of a midpoint: eleven more than a double has, which two words hold with room. */
enum { RS_BALL_BITS = 96 };

/* Sets the ball to exactly x; +infinity and NaN give a ball that holds every number. */
void rs_ball_set(arb_t ball, double x);
/* The least double that is certainly not below (the greatest not above) any number of the ball;
 * +-infinity beyond the range; upper: 0 for a ball of negative numbers is left negative. */
double rs_ball_upper(const arb_t ball);
double rs_ball_lower(const arb_t ball);
/* log10 of the same, correct to about 1e-15 relative and rounded outwards; -infinity at 0. The ball
 * must not hold negative numbers only. */
double rs_ball_log10_upper(const arb_t ball);
double rs_ball_log10_lower(const arb_t ball);
/* out = the ball's largest (smallest) number, exact: chains of bounds keep one end only. */
void rs_ball_keep_upper(arb_t ball);
void rs_ball_keep_lower(arb_t ball);
/* Whether every number of a is less than every number of b. */
bool rs_ball_less(const arb_t a, const arb_t b);

#endif
