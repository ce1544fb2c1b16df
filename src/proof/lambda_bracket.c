/* lambda_bracket.c: what μ can be on an interval of λ (lambda_arcs.h; statements L3 to L5). */
#include "proof/lambda_arcs.h"

#include <string.h>

/* Stored rows are orthonormal pairs to within their skew: lengths of their combinations exceed
 * those of the coefficients by less than this. */
static double stretched_gain(const rs_lambda_arcs *arcs)
{
    return arcs->gain * (1 + 4 * arcs->rounding);
}

typedef struct direction {
    double cosine, sine;
} direction;

static direction row_direction(const rs_lambda_arc *row, double lambda)
{
    if (row->kind != RS_LAMBDA_ROW_ARC) return (direction){0, row->kind == RS_LAMBDA_ROW_FIXED};
    double along = lambda - row->centre, across = row->height;
    double large = fmax(fabs(along), across);
    along /= large;
    across /= large;
    double reach = sqrt(along * along + across * across);
    direction found = {along / reach, across / reach};
    if (isnan(found.cosine) || isnan(found.sine)) found = (direction){0, 0};
    return found;
}

static double chord_square(direction from, const rs_lambda_arc *to)
{
    double x = from.cosine - to->cosine, y = from.sine - to->sine;
    return x * x + y * y;
}

typedef struct sweep {
    double chords; /* √Σ max chord² from the middle to the ends */
    double bends; /* √Σ (2h/reach³)², reach the least on the interval; λ in units of 2^exponent */
} sweep;

/* Each row's angle moves one way with λ and turns by at most π over the whole line, so that the
 * farthest it gets from the middle is at one of the ends. */
static sweep sweep_rows(const rs_lambda_arcs *arcs, double low, double high, int exponent)
{
    sweep all = {0};
    for (int64_t i = 0; i < arcs->n; i++) {
        const rs_lambda_arc *row = &arcs->rows[i];
        if (row->kind != RS_LAMBDA_ROW_ARC) continue;
        double chord = fmax(chord_square(row_direction(row, low), row),
                            chord_square(row_direction(row, high), row));
        /* Four units of rounding in each coordinate of either end. */
        chord = sqrt(chord) + 16 * RS_LAMBDA_ROUNDOFF;
        double reach = rs_lambda_arc_reach(row, low, high);
        double units = ldexp(reach, -exponent);
        double bend = 2 * (row->height / reach) / units / units;
        all.chords += chord * chord;
        all.bends += bend * bend;
    }
    double sums = 1 + rs_rounding(arcs->n + 16);
    all.chords = sqrt(all.chords) * sums;
    all.bends = sqrt(all.bends) * sums;
    return all;
}

/* √ of a span of squares, moved outwards by `off` and not below 0. */
static rs_span rooted(double low, double high, double off)
{
    rs_span root = {low > 0 ? rs_down(sqrt(low)) : 0, rs_up(sqrt(fmax(high, 0)))};
    root = rs_span_widen(root.low - off, root.high + off);
    root.low = fmax(root.low, 0);
    return root;
}

static bool decides(rs_span span, double target)
{
    return span.low >= target || span.high < target;
}

/* What is known at the middle of an interval. */
typedef struct centre {
    double middle, width; /* half width of the interval, rounded up; in units of 2^exponent */
    int exponent;
    rs_lambda_value square;
    double off; /* true μ and that of the stored rows differ by at most this */
} centre;

/* Where f + f'(λ − m) reaches target², and how far off that can be, by what the curvature and the
 * rounding may change. Only a guess at where to cut: nothing certified rests on it. */
static void guess_root(rs_lambda_bracket *out, const centre *at, double slope, double curved,
                       double target)
{
    double step = (target * target - at->square.value) / slope;
    double doubt = 2 * (curved + 2 * at->square.error + 4 * at->off * target) / fabs(slope);
    out->root = at->middle + ldexp(step, at->exponent);
    out->doubt = ldexp(doubt, at->exponent);
}

/* The least of slope·x + speed·x² over |x| ≤ width. The second form takes away at most half of
 * the slope, so that it loses no digits. */
static double least_of(double slope, double speed, double width)
{
    if (slope < 2 * speed * width) return -slope * slope / (4 * speed);
    return (speed * width - slope) * width;
}

/*
 * The centred rows D move from D(m) to D(m) + D'(m)x + rest, ‖rest‖ ≤ ½x² max√Σ‖y_i''‖² and ‖y''‖ ≤
 * 2h/reach³; and ‖D + D'x‖² = f + f'x + ‖D'‖²x². What all rows do together drops out of D', which
 * is what makes tokens that are nearly equal tractable.
 */
static double second_order(rs_lambda_bracket *out, const rs_lambda_arcs *arcs, const sweep *swept,
                           const centre *at, double target)
{
    double width = at->width, grown = 1 + 0x1p-40; /* of at most 20 roundings (C10) */
    double rest = 0.5 * stretched_gain(arcs) * swept->bends * width * width * grown *
                  rs_lambda_constant_factor(RS_LAMBDA_ARC_SECOND_ORDER);
    rs_lambda_motion motion = rs_lambda_arcs_motion(arcs, at->exponent);
    double slope = fabs(motion.slope) + motion.slope_error;
    double slow = fmax(motion.speed - motion.speed_error, 0);
    double fast = motion.speed + motion.speed_error;
    double rise = (slope + fast * width) * width * grown;
    if (!isfinite(rise) || !isfinite(rest)) return (double)INFINITY;
    double fall = -least_of(slope, slow, width) * grown;
    out->second = rooted(at->square.value - at->square.error - fall,
                         at->square.value + at->square.error + rise, rs_up(at->off + rest));
    guess_root(out, at, motion.slope, fast * width * width + 2 * target * rest, target);
    return rest;
}

void rs_lambda_bracket_of(rs_lambda_bracket *out, const rs_lambda_arcs *arcs, double low,
                          double high, double middle, double target)
{
    double width = rs_up(fmax(middle - low, high - middle));
    centre at = {.middle = middle, .exponent = isfinite(width) ? ilogb(width) : 0};
    at.width = ldexp(width, -at.exponent);
    at.off = arcs->gain * rs_lambda_arcs_error(arcs, low, high) * (1 + 0x1p-40) + RS_LAMBDA_LEAST;
    rs_lambda_arcs_turn(arcs, middle);
    sweep swept = sweep_rows(arcs, low, high, at.exponent);
    double chords = stretched_gain(arcs) * swept.chords * (1 + 0x1p-40) *
                    rs_lambda_constant_factor(RS_LAMBDA_ARC_FIRST_ORDER);
    *out = (rs_lambda_bracket){.second = {0, (double)INFINITY}, .root = NAN, .doubt = NAN};
    for (int quick = 1; quick >= 0; quick--) {
        at.square = rs_lambda_arcs_square(arcs, quick);
        double below = at.square.value - at.square.error, above = at.square.value + at.square.error;
        out->first = rooted(below, above, rs_up(at.off + chords));
        if (decides(out->first, target)) return;
        double rest = second_order(out, arcs, &swept, &at, target), mu = sqrt(above);
        if (decides(out->second, target)) return;
        /* The slow sum only where its digits can change the answer. */
        if (quick && at.square.error < 0.1 * mu * fmin(rest, chords)) return;
        double doubt = at.off + fmin(at.square.error / mu, sqrt(at.square.error));
        double open = fmin(out->first.high - out->first.low, out->second.high - out->second.low);
        out->rounding = open < 6 * doubt;
    }
}

rs_span rs_lambda_limit(const rs_lambda_arcs *arcs, int sign)
{
    rs_lambda_value limit = rs_lambda_value_at(arcs, sign * (double)INFINITY);
    rs_span span = rs_span_widen(limit.value - limit.error, limit.value + limit.error);
    span.low = fmax(span.low, 0);
    return span;
}

/* Chord from ±e to where the row is: 2 sin(θ/2), which only falls as λ goes outwards. */
double rs_lambda_limit_distance(const rs_lambda_arcs *arcs, double lambda, int sign)
{
    double sum = 0;
    for (int64_t i = 0; i < arcs->n; i++) {
        const rs_lambda_arc *row = &arcs->rows[i];
        if (row->kind != RS_LAMBDA_ROW_ARC) continue;
        direction at = row_direction(row, lambda);
        double cosine = sign * at.cosine;
        sum += cosine > 0 ? 2 * at.sine * at.sine / (1 + cosine) : 2 * (1 - cosine);
    }
    double chords = stretched_gain(arcs) * sqrt(sum) * (1 + rs_rounding(arcs->n + 32)) *
                    rs_lambda_constant_factor(RS_LAMBDA_HALF_LINE);
    double outward = sign * (double)INFINITY;
    double error = rs_lambda_arcs_error(arcs, fmin(lambda, outward), fmax(lambda, outward));
    return (chords + arcs->gain * error) * (1 + 0x1p-40) + RS_LAMBDA_LEAST;
}

/* The finite float64 numbers in order, as integers: bisection over all of them takes 64 steps. */
static int64_t rank_of(double x)
{
    int64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits < 0 ? INT64_MIN - bits : bits;
}

static double of_rank(int64_t rank)
{
    int64_t bits = rank < 0 ? INT64_MIN - rank : rank;
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

double rs_lambda_half_line(const rs_lambda_arcs *arcs, double target, int sign, bool above,
                           double tolerance)
{
    rs_span limit = rs_lambda_limit(arcs, sign);
    double slack = above ? rs_down(limit.low - target) : rs_down(target - limit.high);
    double outer = sign * 0x1p1000, inner = -outer;
    if (!(slack > 0) || !(rs_lambda_limit_distance(arcs, outer, sign) < slack))
        return sign * (double)INFINITY;
    if (rs_lambda_limit_distance(arcs, inner, sign) < slack) return inner;
    for (int step = 0; step < 64; step++) {
        int64_t a = rank_of(inner), b = rank_of(outer);
        double middle = of_rank(a / 2 + b / 2 + (a % 2 + b % 2) / 2);
        if (middle == inner || middle == outer ||
            fabs(outer - inner) <= tolerance * fmax(1, fabs(outer)))
            break;
        if (rs_lambda_limit_distance(arcs, middle, sign) < slack)
            outer = middle;
        else
            inner = middle;
    }
    return outer;
}

rs_lambda_half_lines rs_lambda_half_line_set(const rs_lambda_arcs *arcs, double target,
                                             double tolerance)
{
    return (rs_lambda_half_lines){rs_lambda_half_line(arcs, target, 1, true, tolerance),
                                  rs_lambda_half_line(arcs, target, -1, true, tolerance)};
}
