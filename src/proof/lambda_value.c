/* lambda_value.c: where the rows are at one λ, μ there, and how far rounding may have led astray
 * (lambda_arcs.h; statements L2 and L3). */
#include "linalg/vector.h"
#include "proof/lambda_arcs.h"

void rs_lambda_arcs_turn(const rs_lambda_arcs *arcs, double lambda)
{
    for (int64_t i = 0; i < arcs->n; i++) {
        rs_lambda_arc *row = &arcs->rows[i];
        double along = lambda - row->centre, across = row->height;
        if (row->kind != RS_LAMBDA_ROW_ARC) {
            row->cosine = 0;
            row->sine = row->kind == RS_LAMBDA_ROW_FIXED;
        } else if (isinf(lambda)) {
            row->cosine = copysign(1, lambda);
            row->sine = 0;
        } else {
            double large = fmax(fabs(along), across);
            along /= large;
            across /= large;
            double reach = sqrt(along * along + across * across);
            row->cosine = along / reach;
            row->sine = across / reach;
            /* Out of range, or exactly where a row vanishes: rs_lambda_arcs_error says so. */
            if (isnan(row->cosine) || isnan(row->sine)) row->cosine = row->sine = 0;
        }
        arcs->weights[i] = row->cosine;
        arcs->weights[arcs->n + i] = row->sine;
    }
}

double rs_lambda_arc_reach(const rs_lambda_arc *row, double low, double high)
{
    double nearest = fmin(fmax(row->centre, low), high); /* the λ in [low, high] closest to c */
    double along = fabs(nearest - row->centre), across = row->height;
    double large = fmax(along, across);
    if (!(large > 0)) return 0;
    double ratio = fmin(along, across) / large;
    return large * sqrt(1 + ratio * ratio) * (1 - 8 * RS_LAMBDA_ROUNDOFF); /* of 6 (C10) */
}

/*
 * A true row and its stored twin are two directions whose vectors over ‖x‖, of length `reach`,
 * differ by at most `off`; then the directions differ by at most 2 off/reach. `off` is the rounding
 * of c, of the orthogonal part and of λ − c, and what centring over features left. |λ| ≤ |λ − c| +
 * |c|, and |λ − c| ≤ reach. 2^-1070: the four terms of `off` may underflow by 2^-1075 each; 2^-40
 * covers the sum (docs/certificates.md, C10).
 */
static double row_error(const rs_lambda_arcs *arcs, const rs_lambda_arc *row, double low,
                        double high)
{
    if (row->kind == RS_LAMBDA_ROW_UNDEFINED) return 1;
    if (row->kind == RS_LAMBDA_ROW_FIXED) return fmin(2, arcs->rounding + 2 * row->input_error);
    double reach = rs_lambda_arc_reach(row, low, high);
    double branch = fabs(row->centre) + row->height; /* ≥ ‖o‖/‖x‖ */
    double off = 4 * RS_LAMBDA_ROUNDOFF * branch + row->input_error * (fabs(row->centre) + branch) +
                 row->lost + 0x1p-1070;
    double error = arcs->rounding + 2 * row->input_error + 2 * off / reach;
    return error < 2 ? error * (1 + 0x1p-40) : 2;
}

double rs_lambda_arcs_error(const rs_lambda_arcs *arcs, double low, double high)
{
    double sum = 0;
    for (int64_t i = 0; i < arcs->n; i++) {
        double error = row_error(arcs, &arcs->rows[i], low, high);
        sum += error * error;
    }
    return sqrt(sum) * (1 + rs_rounding(arcs->n + 4));
}

/* Σ‖y_i‖² of the turned rows from their stored products; O(n). */
static double total_square(const rs_lambda_arcs *arcs)
{
    double total = 0;
    for (int64_t i = 0; i < arcs->n; i++) {
        const rs_lambda_arc *row = &arcs->rows[i];
        total += row->cosine * (row->cosine * row->ee + 2 * row->sine * row->en) +
                 row->sine * row->sine * row->nn;
    }
    return total;
}

/* Σ‖y_i − mean‖² with the mean that was computed: its own rounding δ only adds n‖δ‖². */
static double centred_square(const rs_lambda_arcs *arcs)
{
    double total = 0;
    for (int64_t i = 0; i < arcs->n; i++) {
        const double *e = arcs->directions + i * arcs->d, *n = e + arcs->n * arcs->d;
        double cosine = arcs->rows[i].cosine, sine = arcs->rows[i].sine;
        for (int64_t j = 0; j < arcs->d; j++)
            arcs->row[j] = cosine * e[j] + sine * n[j] - arcs->mean[j];
        total += rs_dot(arcs->row, arcs->row, arcs->d);
    }
    return total;
}

rs_lambda_value rs_lambda_arcs_square(const rs_lambda_arcs *arcs, bool quick)
{
    int64_t n = arcs->n, d = arcs->d, dots = rs_dot_roundings(d);
    double count = (double)n, gain_square = arcs->gain * arcs->gain;

    rs_multiply_transposed(arcs->mean, arcs->directions, arcs->weights, 2 * n, d, d);
    for (int64_t j = 0; j < d; j++)
        arcs->mean[j] /= count;
    /* Each of 2n terms of a mean is at most gain/n long: √2 n gain/n in all, and rounding. */
    double mean_error = rs_rounding(2 * n + 8) * 1.5 * arcs->gain;
    if (quick) {
        double total = total_square(arcs), mean = rs_dot(arcs->mean, arcs->mean, d);
        double error = count * gain_square * rs_rounding(n + 2 * dots + 16) * 3 +
                       count * mean_error * (2 * arcs->gain + mean_error);
        return (rs_lambda_value){fmax(total - count * mean, 0), error};
    }
    double square = centred_square(arcs);
    /* Each entry of a centred row is rounded three times, at most 3u(2 gain) a row. */
    double entries = 6 * RS_LAMBDA_ROUNDOFF * arcs->gain * sqrt(count) * 1.01;
    double error = square * rs_rounding(n + dots + 8) + count * mean_error * mean_error * 1.01 +
                   entries * (2 * sqrt(square) + entries);
    return (rs_lambda_value){square, error};
}

rs_lambda_motion rs_lambda_arcs_motion(const rs_lambda_arcs *arcs, int exponent)
{
    int64_t n = arcs->n, d = arcs->d;
    double inner = 0, speeds = 0, squares = 0, moving = 0;
    for (int64_t i = 0; i < n; i++) {
        const rs_lambda_arc *row = &arcs->rows[i];
        double cosine = row->cosine, sine = row->sine;
        /* dφ/dλ = −h/reach² = −sin²φ/h; the sign is put into the derivative of (cos, sin). */
        bool arc = row->kind == RS_LAMBDA_ROW_ARC && row->height > 0 && sine > 0;
        double speed = arc ? ldexp(sine, exponent) * sine / row->height : 0;
        arcs->slopes[i] = sine * speed;
        arcs->slopes[n + i] = -cosine * speed;
        inner += speed *
                 (cosine * sine * (row->ee - row->nn) + (sine * sine - cosine * cosine) * row->en);
        moving += speed * speed *
                  (sine * (sine * row->ee - 2 * cosine * row->en) + cosine * cosine * row->nn);
        speeds += speed;
        squares += speed * speed;
    }
    rs_multiply_transposed(arcs->mean_slope, arcs->directions, arcs->slopes, 2 * n, d, d);
    double square = arcs->gain * arcs->gain, count = (double)n;
    double rounding = rs_rounding(4 * n + 2 * rs_dot_roundings(d) + 32);
    rs_lambda_motion motion;
    motion.slope = 2 * (inner - rs_dot(arcs->mean, arcs->mean_slope, d));
    motion.slope_error = 12 * speeds * square * rounding + fabs(motion.slope) * 0x1p-50;
    motion.speed = fmax(moving - rs_dot(arcs->mean_slope, arcs->mean_slope, d) / count, 0);
    motion.speed_error = (4 * squares + 6 * speeds * speeds / count) * square * rounding;
    return motion;
}

rs_lambda_value rs_lambda_value_at(const rs_lambda_arcs *arcs, double lambda)
{
    if (isnan(lambda)) return (rs_lambda_value){NAN, (double)INFINITY};
    rs_lambda_arcs_turn(arcs, lambda);
    rs_lambda_value square = rs_lambda_arcs_square(arcs, false);
    double value = sqrt(square.value);
    /* |√a − √b| ≤ |a − b|/√a, and ≤ √|a − b|. 2^-40 covers the sum, 4u the root (C10). */
    double error = value > 0 ? fmin(square.error / value, sqrt(square.error)) : sqrt(square.error);
    error += arcs->gain * rs_lambda_arcs_error(arcs, lambda, lambda) + RS_LAMBDA_LEAST;
    return (rs_lambda_value){value, error * (1 + 0x1p-40) + value * 4 * RS_LAMBDA_ROUNDOFF};
}

rs_lambda_value rs_lambda_input_value(const rs_lambda_arcs *arcs)
{
    return arcs->input;
}
