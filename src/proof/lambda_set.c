/* lambda_set.c: the certified partition of a range of λ (lambda.h 2). */
#include "base/memory.h"
#include "proof/lambda_arcs.h"

#include <string.h>

void rs_lambda_set_free(rs_lambda_set *set)
{
    rs_free(set->intervals);
    *set = (rs_lambda_set){0};
}

/* Appends to the right end; joins with a neighbour of the same answer. */
static rs_status append_interval(rs_lambda_set *set, double low, double high,
                                 rs_lambda_answer answer, rs_error *err)
{
    if (set->n && set->intervals[set->n - 1].answer == answer) {
        set->intervals[set->n - 1].high = high;
        return RS_OK;
    }
    if (!RS_GROW(set->intervals, set->n, set->capacity))
        return rs_fail_memory(err, "the intervals of a skip certificate",
                              (set->n + 1) * sizeof *set->intervals);
    set->intervals[set->n++] = (rs_lambda_interval){low, high, answer};
    return RS_OK;
}

/* Where to cut: in the middle, or, far from 0, at the geometric mean. */
static double middle_of(double low, double high)
{
    if (low < 0 && high > 0)
        return high > -0.25 * low && high < -4 * low ? 0 : low + (high / 2 - low / 2);
    double small = fmin(fabs(low), fabs(high)), large = fmax(fabs(low), fabs(high));
    if (small < 0.0625 && large > 0.25) return copysign(0.25 * fmin(large, 1), low + high);
    if (large > 4 * small && small > 0) return copysign(sqrt(small) * sqrt(large), low);
    return low + (high / 2 - low / 2);
}

static double refuted(const rs_lambda_search *search)
{
    return isnan(search->refuted) ? search->target : search->refuted;
}

static rs_lambda_answer answer_for(const rs_lambda_bracket *bracket, const rs_lambda_search *search)
{
    if (fmax(bracket->first.low, bracket->second.low) >= search->target) return RS_LAMBDA_YES;
    if (fmin(bracket->first.high, bracket->second.high) < refuted(search)) return RS_LAMBDA_NO;
    return RS_LAMBDA_UNKNOWN;
}

/* Puts the ends of the parts of [low, end] on the stack of right ends: the middle, or, where the
 * value crosses the target almost straight, both sides of the crossing. */
static int cut(double *right, int waiting, const rs_lambda_bracket *bracket, double low,
               double middle, double tolerance)
{
    double end = right[waiting - 1], root = bracket->root;
    double doubt = fmax(bracket->doubt, 0.3 * tolerance * fmax(1, fabs(root)));
    double left = root - doubt, beyond = root + doubt;
    bool straight = doubt < 0.125 * (end - low) && beyond > low && left < end;
    if (!straight) {
        right[waiting++] = middle;
        return waiting;
    }
    if (beyond < end) right[waiting++] = beyond;
    if (left > low && left < right[waiting - 1]) right[waiting++] = left;
    return waiting;
}

enum { DEEPEST = 2200 }; /* cuts in a row: 1100 over the exponents and 53 over the digits suffice */

/* Depth first, the left part first, so that intervals are appended in order. `right` holds the
 * right ends that wait. */
static rs_status bisect(rs_lambda_set *set, const rs_lambda_arcs *arcs,
                        const rs_lambda_search *search, double low, double high, rs_error *err)
{
    double right[DEEPEST];
    int waiting = 0;
    int64_t most = search->max_evaluations > 0 ? search->max_evaluations : 1024;
    /* A target that rounding can reach by itself is decided where μ is large, or nowhere. */
    bool below_rounding = search->target < 8 * arcs->gain * arcs->rounding * sqrt((double)arcs->n);
    if (below_rounding && most > 64) most = 64;

    right[waiting++] = high;
    while (waiting) {
        double end = right[waiting - 1], middle = middle_of(low, end);
        rs_lambda_answer answer = RS_LAMBDA_UNKNOWN;
        bool divisible = low < middle && middle < end && waiting + 2 < DEEPEST;
        rs_lambda_bracket bracket = {.rounding = false};
        if (set->evaluations < most) {
            rs_lambda_bracket_of(&bracket, arcs, low, end, middle, search->target);
            answer = answer_for(&bracket, search);
            set->evaluations++;
        } else {
            set->complete = below_rounding;
            divisible = false;
        }
        bool narrow = end - low <= search->tolerance * fmax(1, fmax(fabs(low), fabs(end)));
        if (answer == RS_LAMBDA_UNKNOWN && divisible && !narrow && !bracket.rounding) {
            waiting = cut(right, waiting, &bracket, low, middle, search->tolerance);
            continue;
        }
        RS_TRY(append_interval(set, low, end, answer, err));
        low = end;
        waiting--;
    }
    return RS_OK;
}

/* The half line beyond which the answer is known, and that answer; where the limit itself is too
 * close to the target, a λ far beyond all scales of this layer. */
static double far_end(rs_lambda_answer *answer, const rs_lambda_arcs *arcs,
                      const rs_lambda_search *search, int sign)
{
    double above = rs_lambda_half_line(arcs, search->target, sign, true, search->tolerance);
    double below = rs_lambda_half_line(arcs, refuted(search), sign, false, search->tolerance);
    double scale = 1;
    *answer = isfinite(above) ? RS_LAMBDA_YES : isfinite(below) ? RS_LAMBDA_NO : RS_LAMBDA_UNKNOWN;
    if (isfinite(above)) return above;
    if (isfinite(below)) return below;
    for (int64_t i = 0; i < arcs->n; i++) {
        double size = fabs(arcs->rows[i].centre) + arcs->rows[i].height;
        if (isfinite(size)) scale = fmax(scale, size);
    }
    return sign * fmin(scale, 0x1p900) * 0x1p40;
}

static rs_status fill_set(rs_lambda_set *set, const rs_lambda_arcs *arcs,
                          const rs_lambda_search *search, rs_error *err)
{
    double low = search->low, high = search->high;
    rs_lambda_answer left = RS_LAMBDA_UNKNOWN, right = RS_LAMBDA_UNKNOWN;

    if (!(search->target > 0)) return append_interval(set, low, high, RS_LAMBDA_YES, err);
    if (isinf(search->low)) low = far_end(&left, arcs, search, -1);
    if (isinf(search->high)) high = far_end(&right, arcs, search, 1);
    if (isinf(search->low) && low >= search->high)
        return append_interval(set, search->low, search->high, left, err);
    if (isinf(search->high) && high <= search->low)
        return append_interval(set, search->low, search->high, right, err);
    low = fmin(low, high); /* two half lines that overlap */
    if (isinf(search->low)) RS_TRY(append_interval(set, search->low, low, left, err));
    if (low < high || !set->n) RS_TRY(bisect(set, arcs, search, low, high, err));
    if (isinf(search->high)) RS_TRY(append_interval(set, high, search->high, right, err));
    return RS_OK;
}

static void summarise(rs_lambda_set *set)
{
    set->smallest = set->all_above = set->all_below = NAN;
    for (size_t i = 0; i < set->n; i++) {
        const rs_lambda_interval *interval = &set->intervals[i];
        if (interval->answer != RS_LAMBDA_YES) continue;
        double nearest = fmin(fmax(0, interval->low), interval->high);
        if (isnan(set->smallest) || fabs(nearest) < fabs(set->smallest)) set->smallest = nearest;
    }
    if (set->n && set->intervals[set->n - 1].answer == RS_LAMBDA_YES)
        set->all_above = set->intervals[set->n - 1].low;
    if (set->n && set->intervals[0].answer == RS_LAMBDA_YES)
        set->all_below = set->intervals[0].high;
}

rs_status rs_lambda_set_find(rs_lambda_set *out, const rs_lambda_arcs *arcs,
                             const rs_lambda_search *search, rs_error *err)
{
    out->n = 0;
    out->evaluations = 0;
    out->complete = true;
    if (!(search->low <= search->high) || isnan(search->target) || !(search->tolerance > 0) ||
        search->low == (double)INFINITY || search->high == -(double)INFINITY || !arcs->n)
        return rs_fail(err, RS_E_INTERNAL, "skip certificate", NULL,
                       "search of [%g, %g] for %g with tolerance %g", search->low, search->high,
                       search->target, search->tolerance);
    RS_TRY(fill_set(out, arcs, search, err));
    summarise(out);
    return RS_OK;
}
