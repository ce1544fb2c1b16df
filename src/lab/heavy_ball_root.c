/*
 * heavy_ball_root.c: how fast factors balance under momentum. With m <- beta m + gradient,
 * theta <- theta - rate m, and S = sum over both orders of the factors' inner products with their momenta,
 *
 *     S' = beta S - 2 beta rate_before K + 2 decay Q,    Q' = Q - rate S' + rate^2 K',
 *
 * K = m_A'm_A - m_B'm_B, exactly, also when rate and decay change; once gradients vanish Q follows the roots of
 * z^2 - (1 + beta - 2 rate decay) z + beta (docs/theory/weight_decay.md, 9).
 */
#include "lab/kobayashi_pairs.h"
#include "lab/toy.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { M = 7, N = 6, R = 4, DRAWS = 24, QUICK_DRAWS = 8, MOST_STEPS = 20000, CHECKED = 1500 };
static const double decay = 0.3, momentum = 0.9;

/* Two rates: real roots, and complex ones, 2 rate decay > (1 - sqrt beta)^2. */
enum { REAL, RINGING, RATES };
static const double rates[RATES] = {0.002, 0.02};

enum { EXACT, ROOT, FIRST_ORDER, TRACE, MODULUS, NUMBERS };
static const rs_pair_claim claims[NUMBERS] = {
    [EXACT] = {"recursion of Q, rate and decay changing: error of an entry", NAN, 1e-12},
    [ROOT] = {"rate .002: |Q| a step later over |Q|, late", 0.9862830584415121, 1e-7},
    [FIRST_ORDER] = {"first order 1 - 2 rate decay/(1 - beta) is above it, by", NAN, NAN},
    [TRACE] = {"rate .02, roots are complex: 2 Re z of Q's late steps", 1.888, 1e-6},
    [MODULUS] = {"rate .02: |z| of Q's late steps", 0.94868329805051381, 1e-6},
};

/* A run: factors, momenta, and the recursion's own Q. */
typedef struct ball {
    rs_factor_pair at, momenta;
    const rs_pair_loss *loss;
    double s[RS_PAIR_GRAM], k[RS_PAIR_GRAM], rate_before;
} ball;

static void start_ball(ball *b, const rs_pair_loss *loss, rs_random *random)
{
    *b = (ball){.at = {.m = M, .n = N, .r = R}, .momenta = {.m = M, .n = N, .r = R}, .loss = loss};
    rs_pair_draw(&b->at, 0.7, random);
}

static void roll(ball *b, double rate, double with_decay)
{
    double by_a[RS_PAIR_A], by_b[RS_PAIR_B];
    rs_pair_gradient(by_a, by_b, &b->at, b->loss, with_decay);
    for (int i = 0; i < M * R; i++) {
        b->momenta.a[i] = momentum * b->momenta.a[i] + by_a[i];
        b->at.a[i] -= rate * b->momenta.a[i];
    }
    for (int i = 0; i < N * R; i++) {
        b->momenta.b[i] = momentum * b->momenta.b[i] + by_b[i];
        b->at.b[i] -= rate * b->momenta.b[i];
    }
}

/* A step, and by how much an entry of Q misses the recursion. */
static double roll_checked(ball *b, double rate, double with_decay)
{
    double q[RS_PAIR_GRAM], after[RS_PAIR_GRAM], worst = 0;
    rs_pair_balance(q, &b->at);
    for (int i = 0; i < R * R; i++)
        b->s[i] =
            momentum * b->s[i] - 2 * momentum * b->rate_before * b->k[i] + 2 * with_decay * q[i];
    roll(b, rate, with_decay);
    rs_pair_balance(b->k, &b->momenta);
    rs_pair_balance(after, &b->at);
    for (int i = 0; i < R * R; i++)
        worst = fmax(worst, fabs(after[i] - (q[i] - rate * b->s[i] + rate * rate * b->k[i])));
    b->rate_before = rate;
    return worst;
}

/* ---- the root ---- */

/* Least squares over entries and steps for Q'' = trace Q' - product Q, while Q is small and above
 * rounding. */
typedef struct fit {
    double xx, xy, yy, xz, yz; /* sums over x = Q', y = -Q, z = Q'' */
} fit;

static void add_steps(fit *f, const double *q, const double *next, const double *last, double size)
{
    for (int i = 0; i < R * R; i++) {
        double x = next[i] / size, y = -q[i] / size, z = last[i] / size;
        f->xx += x * x, f->xy += x * y, f->yy += y * y, f->xz += x * z, f->yz += y * z;
    }
}

static void solve(double out[2], const fit *f)
{
    double det = f->xx * f->yy - f->xy * f->xy;
    out[0] = (f->xz * f->yy - f->yz * f->xy) / det;
    out[1] = (f->yz * f->xx - f->xz * f->xy) / det;
}

/* |Q| between these shares of the start's is fitted. */
static const double early = 1e-5, late = 1e-8;

/* ratio: what a step leaves of |Q| on average; roots: 2 Re z and z z* of the fitted recursion. */
static void see_late(double *ratio, double roots[2], ball *b, double rate)
{
    double q[3][RS_PAIR_GRAM], first = 0, entered = 0, left = 0;
    int steps = 0;
    fit f = {0};
    rs_pair_balance(q[0], &b->at);
    first = rs_norm_frobenius(q[0], R, R);
    roll(b, rate, decay);
    rs_pair_balance(q[1], &b->at);
    for (int t = 0; t < MOST_STEPS; t++) {
        roll(b, rate, decay);
        rs_pair_balance(q[2], &b->at);
        double size = rs_norm_frobenius(q[0], R, R);
        if (size < late * first) break;
        if (size < early * first) {
            add_steps(&f, q[0], q[1], q[2], size);
            if (entered == 0) entered = size, steps = t;
            left = size;
            *ratio = t > steps ? pow(left / entered, 1.0 / (t - steps)) : (double)NAN;
        }
        memmove(q[0], q[1], 2 * sizeof q[0]);
    }
    solve(roots, &f);
}

static void draw_loss(rs_matrix_loss *loss, rs_random *random)
{
    *loss = (rs_matrix_loss){.kind = RS_MATRIX_SQUARE, .m = M, .n = N};
    rs_draw_gaussian(loss->d, M * N, 1, random);
}

static rs_status see_draw(double *numbers, rs_random *random, rs_error *err)
{
    (void)err;
    rs_matrix_loss loss;
    double ratio = NAN, roots[2];
    ball b;
    draw_loss(&loss, random);
    const rs_pair_loss of = rs_pair_loss_of(&loss);
    start_ball(&b, &of, random);
    for (int t = 0; t < CHECKED; t++)
        rs_keep_worst(&numbers[EXACT], roll_checked(&b, rates[REAL] * (1 + 0.5 * sin(t / 50.0)),
                                                    decay * (1 + 0.5 * cos(t / 70.0))));
    start_ball(&b, &of, random);
    see_late(&ratio, roots, &b, rates[REAL]);
    numbers[ROOT] = ratio;
    numbers[FIRST_ORDER] = 1 - 2 * rates[REAL] * decay / (1 - momentum) - ratio;
    start_ball(&b, &of, random);
    see_late(&ratio, roots, &b, rates[RINGING]);
    numbers[TRACE] = roots[0];
    numbers[MODULUS] = sqrt(roots[1]);
    return RS_OK;
}

/* ---- the figure ---- */

static const rs_column point_columns[] =
    RS_LAB_POINTS(RS_LAB_X_WHOLE("step", "step", "steps of the heavy ball"),
                  RS_LAB_Y("imbalance", "imbalance", "|A'A - B'B| over that of step 0"));
static const rs_table_kind table_kind = {"lab", "heavy_ball_root", {RS_PART(point_columns)}};
static const rs_lab_curves curves = {
    .kind = &table_kind,
    .title = "Balance under momentum",
    .about =
        "The imbalance of two factors by step under the heavy ball, momentum 0.9, decay 0.3: at "
        "rate 0.002 along the slow root, at 0.02, where roots are complex, ringing under "
        "sqrt(0.9)^t, which no larger rate makes faster.",
    .log_y = true,
    .y_floor = 1e-13,
};

static rs_status draw_figure(rs_lab_report *report, const rs_context *context, rs_error *err)
{
    enum { SHOWN = 1200, EVERY = 10 };
    rs_table *table = NULL;
    RS_TRY(rs_lab_curves_open(&table, report, &curves, err));
    for (int k = 0; k < 2 * RATES; k++) {
        rs_random random = rs_random_new(context->seed, 0x62616c6cu);
        rs_matrix_loss loss;
        ball b;
        double q[RS_PAIR_GRAM], root = k / 2 == REAL ? claims[ROOT].expected : sqrt(momentum);
        char series[40];
        draw_loss(&loss, &random);
        const rs_pair_loss of = rs_pair_loss_of(&loss);
        start_ball(&b, &of, &random);
        rs_pair_balance(q, &b.at);
        const double first = rs_norm_frobenius(q, R, R);
        snprintf(series, sizeof series, k % 2 ? "rate %g, root" : "rate %g", rates[k / 2]);
        for (int t = 0; t <= SHOWN; t++) {
            rs_pair_balance(q, &b.at);
            double size = rs_norm_frobenius(q, R, R) / first;
            if (t % EVERY == 0 && k % 2 == 0)
                RS_TRY(rs_lab_curves_add(table, series, t, size, err));
            if (t % EVERY == 0 && k % 2 == 1)
                RS_TRY(rs_lab_curves_compute(table, series, t, pow(root, t), err));
            roll(&b, rates[k / 2], decay);
        }
    }
    return RS_OK;
}

static rs_status run_heavy_ball_root(rs_lab_report *report, const rs_lab_options *options,
                                     const rs_context *context, rs_error *err)
{
    int draws = rs_pair_draws(options, DRAWS, QUICK_DRAWS);
    RS_TRY(draw_figure(report, context, err));
    RS_TRY(rs_pair_claims(report, claims, NUMBERS, draws, see_draw, context, err));
    return rs_pair_say_draws(report, options, draws, DRAWS, err);
}

const rs_lab_experiment rs_lab_heavy_ball_root = {
    "heavy-ball-root",
    "How fast factors balance under momentum",
    "after Kobayashi et al. 2024, section 3",
    "Two factors under decay and the heavy ball: the exact recursion of A'A - B'B with rates that "
    "change, the slow root of its linear part that late steps follow, and complex roots, which "
    "ring. "
    "Ours, after Kobayashi, Akram, von Oswald, NeurIPS 2024.",
    run_heavy_ball_root,
    "1 s",
    "< 1 s",
    &table_kind,
    0};
