/* consensus_given.c: nearly equal tokens under layers whose lower triangular M is given, the same for
 * every input: drawn ones, one that alternates with another, one that stretches at first. */
#include "lab/consensus.h"

#include <math.h>

enum { MOST = 6, WIDTH = 5, RATE_LAYERS = 40, LAYERS = 400 };

/* A drawn system: rn(skip Y + w M Y). */
typedef struct drawn_system {
    int n;
    double m[MOST * MOST], skip, w, g[MOST], rate;
} drawn_system;

static double uniform(rs_random *random, double low, double high)
{
    return low + (high - low) * rs_random_uniform(random);
}

static int whole(rs_random *random, int low, int high)
{
    return low + (int)(rs_random_uniform(random) * (high - low + 1));
}

static rs_status set_values(rs_toy *toy, double w, rs_error *err)
{
    double values[WIDTH * WIDTH] = {0};
    for (int k = 0; k < WIDTH; k++)
        values[k * (WIDTH + 1)] = w;
    for (int32_t l = 0; l < toy->network->n_layers; l++)
        RS_TRY(rs_toy_set(toy, rs_toy_values(toy, l), values, NULL, err));
    return RS_OK;
}

/* ---- rates ---- */

/* The largest and the next |g|. */
static void two_largest(double out[2], const double *g, int n)
{
    out[0] = out[1] = 0;
    for (int i = 0; i < n; i++) {
        double size = fabs(g[i]);
        if (size > out[0]) {
            out[1] = out[0];
            out[0] = size;
        } else {
            out[1] = fmax(out[1], size);
        }
    }
}

/* One whose largest factor stands apart, so that 40 layers show it, and whose skip + w s_i have one
 * sign: M of any signs, skip and w too. */
static void draw_rate(drawn_system *s, rs_random *random)
{
    double sizes[2];
    do {
        s->n = whole(random, 3, MOST);
        for (int i = 0; i < s->n * s->n; i++)
            s->m[i] = i % s->n > i / s->n ? 0 : rs_random_normal(random);
        s->skip = (rs_random_uniform(random) < 0.5 ? -1 : 1) * uniform(random, 0.5, 6);
        s->w = (rs_random_uniform(random) < 0.5 ? -1 : 1) * uniform(random, 0.5, 2);
        s->rate = rs_post_norm_multipliers(s->g, s->m, s->n, s->skip, s->w);
        two_largest(sizes, s->g, s->n - 1);
    } while (rs_post_norm_signs(s->m, s->n, s->skip, s->w) < 0.2 || sizes[0] < 1.3 * sizes[1] ||
             sizes[0] < 0.7 || sizes[0] > 1.3);
}

static rs_status measure_rate(double *out, const drawn_system *s, rs_random *random,
                              const rs_context *context, rs_error *err)
{
    double y[MOST * WIDTH];
    rs_toy toy;
    rs_toy_trace trace;
    /* small all the way, and never as small as rounding */
    rs_consensus_tokens(y, s->n, WIDTH, s->rate > 1 ? 1e-10 : 1e-4, random);
    RS_TRY(rs_post_norm_open(&toy, RATE_LAYERS, WIDTH, context, err));
    rs_post_norm_skip(&toy, s->skip);
    rs_status status = rs_post_norm_give(&toy, 0, 1, s->m, s->n, err);
    if (status == RS_OK) status = set_values(&toy, s->w, err);
    if (status == RS_OK) status = rs_toy_run(&trace, &toy, y, 1, s->n, false, err);
    rs_toy_close(&toy);
    RS_TRY(status);
    double half = rs_post_norm_spread(rs_toy_state(&trace, RATE_LAYERS / 2, 0), s->n, WIDTH);
    double all = rs_post_norm_spread(rs_toy_state(&trace, RATE_LAYERS, 0), s->n, WIDTH);
    *out = pow(all / half, 2.0 / RATE_LAYERS);
    rs_toy_trace_free(&trace);
    return RS_OK;
}

static rs_status all_rates(rs_consensus_findings *f, const rs_context *context, rs_error *err)
{
    rs_random random = rs_random_new(context->seed, 0x72617465);
    for (int i = 0; i < f->rates; i++) {
        drawn_system s;
        draw_rate(&s, &random);
        f->predicted_rate[i] = s.rate;
        RS_TRY(measure_rate(&f->rate[i], &s, &random, context, err));
    }
    return RS_OK;
}

/* ---- thresholds ---- */

/* M >= 0 with rows that sum to about 1 and small diagonals: -w min (m_ii + s_i)/2 lies where skip +
 * w s_i are positive. Tokens that see themselves alone, s_i = m_ii, have the factor 1. */
static void draw_threshold(drawn_system *s, rs_random *random)
{
    double least, lowest;
    do {
        s->n = whole(random, 3, MOST);
        s->w = uniform(random, 0.5, 2);
        least = lowest = INFINITY;
        for (int i = 0; i < s->n; i++) {
            double *row = s->m + i * s->n, sum = uniform(random, 0.8, 1.2), rest = 0;
            double own = i == 0 ? sum : uniform(random, 0.05, 0.5);
            for (int j = 0; j < s->n; j++)
                rest += row[j] = j < i ? uniform(random, 0.1, 1) : 0;
            for (int j = 0; j < i; j++)
                row[j] *= (sum - own) / rest;
            row[i] = own;
            lowest = fmin(lowest, sum);
            if (i > 0) least = fmin(least, (own + sum) / 2);
        }
    } while (least > 0.9 * lowest);
    s->skip = -s->w * least;
    s->rate = s->w * lowest; /* signs hold above minus this */
}

/* What the tokens of a stack come to with a skip: 1 when they part. */
static rs_status parts(double *out, rs_toy *toy, const double *y, int n, double skip, rs_error *err)
{
    rs_toy_trace trace;
    int layers = toy->network->n_layers, d = (int)toy->network->d_model;
    rs_post_norm_skip(toy, skip);
    RS_TRY(rs_toy_run(&trace, toy, y, 1, n, false, err));
    double half = rs_post_norm_line_spread(rs_toy_state(&trace, layers / 2, 0), n, d);
    double all = rs_post_norm_line_spread(rs_toy_state(&trace, layers, 0), n, d);
    /* near the threshold the second half of the stack tells; far off it both ends are plain */
    *out = all > 1e-12 && (all > 1e-2 || all > half);
    rs_toy_trace_free(&trace);
    return RS_OK;
}

rs_status rs_consensus_find(double *threshold, rs_toy *toy, const double *y, int n, double repels,
                            double attracts, rs_error *err)
{
    for (int i = 0; i < 12; i++) {
        double middle = (repels + attracts) / 2, part = 0;
        RS_TRY(parts(&part, toy, y, n, middle, err));
        if (part > 0)
            repels = middle;
        else
            attracts = middle;
    }
    *threshold = (repels + attracts) / 2;
    return RS_OK;
}

static rs_status measure_threshold(rs_consensus_findings *f, int i, rs_toy *toy,
                                   const drawn_system *s, rs_random *random, rs_error *err)
{
    static const double positive[4] = {0, 0.5, 2, 20};
    double y[MOST * WIDTH];
    rs_consensus_tokens(y, s->n, WIDTH, 1e-7, random);
    RS_TRY(rs_post_norm_give(toy, 0, 1, s->m, s->n, err));
    RS_TRY(set_values(toy, s->w, err));
    f->predicted_threshold[i] = s->skip;
    RS_TRY(rs_consensus_find(&f->threshold[i], toy, y, s->n, -s->rate, 0, err));
    for (int k = 0; k < 4; k++) {
        double part = 0;
        RS_TRY(parts(&part, toy, y, s->n, positive[k] * s->w, err));
        f->positive += part;
    }
    return RS_OK;
}

static rs_status all_thresholds(rs_consensus_findings *f, const rs_context *context, rs_error *err)
{
    rs_random random = rs_random_new(context->seed, 0x74687265);
    for (int i = 0; i < f->thresholds; i++) {
        drawn_system s;
        rs_toy toy;
        draw_threshold(&s, &random);
        RS_TRY(rs_post_norm_open(&toy, LAYERS, WIDTH, context, err));
        rs_status status = measure_threshold(f, i, &toy, &s, &random, err);
        rs_toy_close(&toy);
        RS_TRY(status);
    }
    return RS_OK;
}

/* ---- layers that alternate, and one that stretches first ---- */

/* Rows that sum to 1, so that with skip 1 a token of diagonal m has the factor (1 + m)/2. */
static void alternate(double m[9], double second, double third)
{
    const double rows[9] = {1, 0, 0, 1 - second, second, 0, 1 - third, 0, third};
    for (int i = 0; i < 9; i++)
        m[i] = rows[i];
}

/* Factors (0.9, 0.1) and (0.1, 0.9) in turn: what four layers leave of the tokens' differences is
 * the largest product of one token's factors, not the product of the largest. */
static rs_status alternating_layers(rs_consensus_findings *f, const rs_context *context,
                                    rs_error *err)
{
    double y[3 * WIDTH], even[9], odd[9];
    rs_random random = rs_random_new(context->seed, 0x616c7465);
    rs_toy toy;
    rs_toy_trace trace;
    rs_consensus_tokens(y, 3, WIDTH, 1e-7, &random);
    alternate(even, 2 * 0.9 - 1, 2 * 0.1 - 1);
    alternate(odd, 2 * 0.1 - 1, 2 * 0.9 - 1);
    RS_TRY(rs_post_norm_open(&toy, 4, WIDTH, context, err));
    rs_post_norm_skip(&toy, 1);
    rs_status status = rs_post_norm_give(&toy, 0, 2, even, 3, err);
    if (status == RS_OK) status = rs_post_norm_give(&toy, 1, 2, odd, 3, err);
    if (status == RS_OK) status = rs_toy_run(&trace, &toy, y, 1, 3, false, err);
    rs_toy_close(&toy);
    RS_TRY(status);
    f->alternating = rs_post_norm_spread(rs_toy_state(&trace, 4, 0), 3, WIDTH) /
                     rs_post_norm_spread(rs_toy_state(&trace, 0, 0), 3, WIDTH);
    rs_toy_trace_free(&trace);
    return RS_OK;
}

static const double stretching[9] = {0, 0, 0, 0.5, 0, 0, -10, 10.1, 0.2};

/* |R Q R|, Q = (I + M)/(1 + s): the largest factor by which a layer of skip 1 multiplies mu of nearly
 * equal tokens. direction: the differences of which it is so, by iteration. */
static double stretch_of(double direction[3], const double m[9])
{
    double q[9], rqr[9], next[3];
    for (int i = 0; i < 3; i++) {
        double sum = 1 + m[3 * i] + m[3 * i + 1] + m[3 * i + 2];
        for (int j = 0; j < 3; j++)
            q[3 * i + j] = (m[3 * i + j] + (i == j)) / sum;
    }
    for (int i = 0; i < 9; i++) /* from the right: a row's mean goes */
        rqr[i] = q[i] - (q[i / 3 * 3] + q[i / 3 * 3 + 1] + q[i / 3 * 3 + 2]) / 3;
    rs_rows_centre(rqr, 3, 3);
    direction[0] = 1;
    direction[1] = direction[2] = 0;
    for (int step = 0; step < 100; step++) {
        rs_small_product(next, rqr, direction, 3, 3, 1);
        rs_small_product(direction, next, rqr, 1, 3, 3);
        double size = rs_norm_frobenius(direction, 3, 1);
        for (int i = 0; i < 3; i++)
            direction[i] /= size;
    }
    return rs_norm_spectral(rqr, 3, 3);
}

static rs_status stretching_layer(rs_consensus_findings *f, const rs_context *context,
                                  rs_error *err)
{
    double direction[3], y[3 * WIDTH];
    rs_toy toy;
    rs_toy_trace trace;
    f->at_first = stretch_of(direction, stretching);
    if (isnan(f->at_first)) return rs_fail_memory(err, "a norm of an experiment", 9);
    for (int i = 0; i < 3 * WIDTH; i++) /* along the first feature, apart along the second */
        y[i] = i % WIDTH == 0 ? sqrt(WIDTH) : i % WIDTH == 1 ? 1e-7 * direction[i / WIDTH] : 0;
    RS_TRY(rs_post_norm_open(&toy, 1, WIDTH, context, err));
    rs_post_norm_skip(&toy, 1);
    rs_status status = rs_post_norm_give(&toy, 0, 1, stretching, 3, err);
    if (status == RS_OK) status = rs_toy_run(&trace, &toy, y, 1, 3, false, err);
    rs_toy_close(&toy);
    RS_TRY(status);
    f->stretch = rs_post_norm_spread(rs_toy_state(&trace, 1, 0), 3, WIDTH) /
                 rs_post_norm_spread(rs_toy_state(&trace, 0, 0), 3, WIDTH);
    rs_toy_trace_free(&trace);
    return RS_OK;
}

rs_status rs_consensus_given(rs_consensus_findings *f, const rs_context *context, rs_error *err)
{
    RS_TRY(alternating_layers(f, context, err));
    RS_TRY(stretching_layer(f, context, err));
    RS_TRY(all_rates(f, context, err));
    return all_thresholds(f, context, err);
}
