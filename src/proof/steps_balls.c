/* steps_balls.c: arithmetic on balls that the proof's lines need, whatever the size of numbers. */
#include "proof/steps_parts.h"

#include <math.h>

arb_ptr rs_step_take(rs_step_balls *b, int64_t count)
{
    arb_ptr taken = b->all + b->used;
    b->used += count;
    return taken;
}

void rs_step_add_size(arb_t out, const arb_t a)
{
    if (arf_sgn(arb_midref(a)) < 0)
        arb_sub(out, out, a, RS_BALL_BITS);
    else
        arb_add(out, out, a, RS_BALL_BITS);
}

void rs_step_raise(arb_t out, const arb_t a)
{
    arb_max(out, out, a, RS_BALL_BITS);
}

/* Compares the largest number of a with the smallest of b: below, at or above 0. Arb's own
 * comparisons are exact, and ask for memory to be. */
static int compare(const arb_t a, const arb_t b)
{
    arf_t upper, lower;
    arf_init(upper);
    arf_init(lower);
    arb_get_ubound_arf(upper, a, RS_BALL_BITS);
    arb_get_lbound_arf(lower, b, RS_BALL_BITS);
    int found = arf_cmp(upper, lower);
    arf_clear(lower);
    arf_clear(upper);
    return found;
}

/* ---- functions ---- */

enum { MOST_EXPONENT = 50, EASY_EXPONENT = 9 };

/* Beyond 2^EASY_EXPONENT Arb's own would keep a logarithm of 2 in memory of its own: the root of
 * e^x is taken so often that it does not, and squared again, for a bit of precision each. */
static void exp_by_squares(arb_t out, const arb_t x)
{
    int halves = 0;
    arb_set(out, x);
    for (; arf_cmpabs_2exp_si(arb_midref(out), EASY_EXPONENT) > 0; halves++)
        arb_mul_2exp_si(out, out, -1);
    arb_exp(out, out, RS_BALL_BITS);
    for (; halves > 0; halves--)
        arb_mul(out, out, out, RS_BALL_BITS);
}

void rs_step_exp(arb_t out, const arb_t x)
{
    bool large = arf_cmpabs_2exp_si(arb_midref(x), MOST_EXPONENT) > 0;
    bool wide = mag_cmp_2exp_si(arb_radref(x), EASY_EXPONENT) > 0;
    arb_t below;
    if (arb_is_finite(x) && !large && !wide) {
        exp_by_squares(out, x);
        return;
    }
    arb_init(below);
    arb_one(below);
    arb_mul_2exp_si(below, below, MOST_EXPONENT);
    arb_neg(below, below);
    bool vanishes = arb_is_finite(x) && compare(x, below) < 0;
    if (vanishes) {
        arb_zero(out);
        mag_set_ui_2exp_si(arb_radref(out), 1, -((slong)1 << MOST_EXPONENT));
    } else
        arb_zero_pm_inf(out);
    arb_clear(below);
}

/* e^x − 1 = x Σ x^k/(k + 1)! for |x| ≤ ¼: behind 24 terms 2^−130 is left. Arb's own works in more bits,
 * which ask for memory. */
static void series(arb_t out, const arb_t x)
{
    enum { TERMS = 24, LEFT = -130 };
    arb_t at, sum;
    arb_init(at);
    arb_init(sum);
    arb_set(at, x);
    arb_one(sum);
    for (int k = TERMS; k > 1; k--) {
        arb_mul(sum, sum, at, RS_BALL_BITS);
        arb_div_ui(sum, sum, (ulong)k, RS_BALL_BITS);
        arb_add_ui(sum, sum, 1, RS_BALL_BITS);
    }
    arb_add_error_2exp_si(sum, LEFT);
    arb_mul(out, at, sum, RS_BALL_BITS);
    arb_clear(sum);
    arb_clear(at);
}

void rs_step_expm1(arb_t out, const arb_t x)
{
    if (arb_is_finite(x) && arf_cmpabs_2exp_si(arb_midref(x), -2) <= 0 &&
        mag_cmp_2exp_si(arb_radref(x), -10) < 0) {
        series(out, x);
        return;
    }
    rs_step_exp(out, x);
    arb_sub_ui(out, out, 1, RS_BALL_BITS);
}

void rs_step_tanh(arb_t out, const arb_t x)
{
    arb_t grown;
    arb_init(grown);
    arb_mul_2exp_si(grown, x, 1);
    rs_step_expm1(grown, grown);
    if (arb_is_finite(grown)) {
        arb_add_ui(out, grown, 2, RS_BALL_BITS);
        arb_div(out, grown, out, RS_BALL_BITS);
    } else
        arb_one(out);
    arb_clear(grown);
}

/* (e^x − 1)/x, which grows with x: where x cannot be told from 0, of the largest that it may be. */
static void slope(arb_t out, const arb_t x)
{
    arb_t at;
    arb_init(at);
    arb_set(at, x);
    if (!arb_is_zero(at) && arb_contains_zero(at)) rs_ball_keep_upper(at);
    if (arb_is_zero(at))
        arb_one(out);
    else {
        rs_step_expm1(out, at);
        arb_div(out, out, at, RS_BALL_BITS);
    }
    arb_clear(at);
}

void rs_step_constant(arb_t out, const arb_t range)
{
    arb_t twice;
    arb_init(twice);
    arb_mul_2exp_si(twice, range, 1);
    slope(twice, twice);
    slope(out, range);
    arb_add(out, out, twice, RS_BALL_BITS);
    arb_clear(twice);
}

void rs_step_both(arb_t out, const arb_t a, const arb_t b)
{
    arb_mul(out, a, b, RS_BALL_BITS);
    arb_nonnegative_part(out, out);
    arb_sqrt(out, out, RS_BALL_BITS);
}

void rs_step_dot(arb_t out, arb_srcptr a, int64_t step_a, arb_srcptr b, int64_t step_b, int64_t n)
{
    arb_dot(out, NULL, 0, a, (slong)step_a, b, (slong)step_b, (slong)n, RS_BALL_BITS);
}

void rs_step_norms(const rs_step_sizes *out, arb_ptr sums, arb_srcptr a, int64_t rows, int64_t cols)
{
    arb_t row, size;
    arb_init(row);
    arb_init(size);
    for (int64_t k = 0; k < cols; k++)
        arb_zero(sums + k);
    for (int64_t i = 0; i < rows; i++) {
        arb_zero(row);
        for (int64_t k = 0; k < cols; k++) {
            arb_abs(size, a + i * cols + k);
            arb_add(row, row, size, RS_BALL_BITS);
            arb_add(sums + k, sums + k, size, RS_BALL_BITS);
            if (out->most) rs_step_raise(out->most, size);
        }
        if (out->inf) rs_step_raise(out->inf, row);
    }
    for (int64_t k = 0; out->one && k < cols; k++)
        rs_step_raise(out->one, sums + k);
    arb_clear(size);
    arb_clear(row);
}

/* ---- reading ---- */

static double log_of(const arb_t ball)
{
    arb_t middle;
    arb_init(middle);
    arb_set_arf(middle, arb_midref(ball));
    double log_value = rs_ball_log10_upper(middle);
    arb_clear(middle);
    return log_value;
}

enum { LEAST_ACCURACY = 40 }; /* bits of a number that are right */

rs_step_number rs_step_number_of(const arb_t ball, bool cancels)
{
    rs_step_number unknown = {NAN, NAN}, number = {NAN, NAN};
    if (!arb_is_finite(ball)) return unknown;
    if (arb_is_zero(ball)) return (rs_step_number){0, -INFINITY};
    if (!cancels && arb_rel_accuracy_bits(ball) < LEAST_ACCURACY) return unknown;
    double value = arf_get_d(arb_midref(ball), ARF_RND_NEAR);
    if (isfinite(value) && (fabs(value) >= 0x1p-1022 || (cancels && value == 0)))
        number.plain = value;
    if (arf_sgn(arb_midref(ball)) > 0) number.log = log_of(ball);
    return number;
}

signed char rs_step_at_most(const arb_t a, const arb_t b)
{
    if (!arb_is_finite(a) || !arb_is_finite(b)) return -1;
    if (compare(a, b) <= 0) return 1;
    return compare(b, a) < 0 ? 0 : -1;
}

static double ratio_of(const arb_t left, const arb_t right)
{
    arb_t ratio;
    double value = NAN;
    if (!arb_is_positive(right) || !arb_is_finite(left)) return NAN;
    arb_init(ratio);
    arb_div(ratio, left, right, RS_BALL_BITS);
    if (arb_is_zero(left))
        value = 0;
    else if (arb_rel_accuracy_bits(ratio) >= LEAST_ACCURACY)
        value = arf_get_d(arb_midref(ratio), ARF_RND_NEAR);
    arb_clear(ratio);
    return value;
}

void rs_step_row_settle(rs_step_row *row)
{
    if (row->holds == 1 && row->ratio > 1) row->ratio = 1;
    if (row->holds == 0 && row->ratio < 1) row->ratio = 1;
    if (row->repaired_holds == 1 && row->repaired_ratio > 1) row->repaired_ratio = 1;
}

void rs_step_row_set(rs_step_row *row, const arb_t left, const arb_t right, const arb_t repaired,
                     bool cancels)
{
    row->known = true;
    row->left = rs_step_number_of(left, cancels);
    row->right = rs_step_number_of(right, cancels);
    row->holds = rs_step_at_most(left, right);
    row->ratio = ratio_of(left, right);
    row->repaired = (rs_step_number){NAN, NAN};
    row->repaired_holds = -1;
    row->repaired_ratio = NAN;
    if (repaired) {
        row->repaired = rs_step_number_of(repaired, cancels);
        row->repaired_holds = rs_step_at_most(left, repaired);
        row->repaired_ratio = ratio_of(left, repaired);
    }
    rs_step_row_settle(row);
}
