/*
 * rope_planes.c: weight decay under rotary positions. The score of two tokens at offset o is
 * xᵀ W_Qᵀ R_o W_K y, R_o turning pairs of rows (planes) by o theta_j: the loss sees planes, not
 * W_Qᵀ W_K. What balances is |q_j|² against |k_j|² in each plane, and decay adds sum_j |q_j||k_j|:
 * docs/theory/weight_decay.md, 8. A = W_Qᵀ, B = W_Kᵀ, columns are head units.
 */
#include "lab/kobayashi_pairs.h"
#include "lab/toy.h"

#include <math.h>

enum { D = 6, R = 4, PLANES = R / 2, OFFSETS = 4, DRAWS = 24, QUICK_DRAWS = 3 };
enum { MOST_STEPS = 400000, TIMES = 16, STEPS_BETWEEN = 500, FIRST_STEPS = 4000 };
static const double angles[PLANES] = {1, 0.37};
static const rs_pair_decay decay = {.mean = 0.25};
static const double rate = 0.01, least = 1e-13, end = 4;

enum { LAW, FULL_LAW, STATIONARY, PLANE, FULL, MEETS, ABOVE_NUCLEAR, WRONG, NUMBERS };
static const rs_pair_claim claims[NUMBERS] = {
    [LAW] = {"flow: n_j(t) = |q_j|^2 - |k_j|^2 off exp(-2 decay t) n_j(0)", NAN, 1e-9},
    [FULL_LAW] = {"flow: W_Q W_Q' - W_K W_K' off that law, relative", NAN, NAN},
    [STATIONARY] = {"norm of the gradient where descent ends", NAN, 1e-12},
    [PLANE] = {"there: imbalance of the planes, | |q_j|^2 - |k_j|^2 |", NAN, 1e-10},
    [FULL] = {"there: imbalance |W_Q W_Q' - W_K W_K'| is above 0, by", NAN, NAN},
    [MEETS] = {"there: sum_j |q_j||k_j| over H", 1, 1e-12},
    [ABOVE_NUCLEAR] = {"there: H is above the nuclear norm of W_Q'W_K, by", NAN, NAN},
    [WRONG] = {"rows paired the other way: sum_j |q_j||k_j| misses H, mean, by", NAN, NAN},
};

/* ---- planes and the loss ---- */

/* Which rows turn together: (2j, 2j + 1), or (j, j + R/2). */
typedef enum layout { INTERLEAVED, HALF_SPLIT } layout;

static void plane(int64_t rows[2], int64_t j, int64_t r, layout of)
{
    rows[0] = of == INTERLEAVED ? 2 * j : j;
    rows[1] = of == INTERLEAVED ? 2 * j + 1 : j + r / 2;
}

/* Targets of the products at each offset. */
typedef struct rotary {
    layout of;
    rs_matrix_loss loss[OFFSETS];
} rotary;

/* b [D, R] turned by offset: row i becomes R_offset times it; inverse: R_-offset. */
static void turn(double *b, const rotary *rope, int offset, bool inverse)
{
    for (int64_t j = 0; j < PLANES; j++) {
        int64_t at[2];
        plane(at, j, R, rope->of);
        double angle = (inverse ? -offset : offset) * angles[j], c = cos(angle), s = sin(angle);
        for (int64_t i = 0; i < D; i++) {
            double *x = &b[i * R + at[0]], *y = &b[i * R + at[1]], was = *x;
            *x = c * was - s * *y;
            *y = s * was + c * *y;
        }
    }
}

/* The sum over offsets of the losses of A (B R_oᵀ)ᵀ. */
static double run_rotary(double *by_a, double *by_b, const rs_factor_pair *p, const void *user)
{
    const rotary *rope = user;
    double value = 0;
    for (int o = 0; o < OFFSETS; o++) {
        const rs_pair_loss of = rs_pair_loss_of(&rope->loss[o]);
        rs_factor_pair turned = *p;
        double by_turned[RS_PAIR_B] = {0};
        turn(turned.b, rope, o, false);
        value += of.run(by_a, by_a ? by_turned : NULL, &turned, of.user);
        if (!by_a) continue;
        turn(by_turned, rope, o, true);
        for (int i = 0; i < D * R; i++)
            by_b[i] += by_turned[i];
    }
    return value;
}

static double plane_square(const double *w, int64_t d, int64_t r, int64_t j, layout of)
{
    int64_t at[2];
    double sum = 0;
    plane(at, j, r, of);
    for (int64_t i = 0; i < d; i++)
        sum += pow(w[i * r + at[0]], 2) + pow(w[i * r + at[1]], 2);
    return sum;
}

static double plane_imbalance(const rs_factor_pair *p, int64_t j, layout of)
{
    return plane_square(p->a, p->m, p->r, j, of) - plane_square(p->b, p->n, p->r, j, of);
}

/* sum_j |q_j||k_j|. */
static double plane_sum(const rs_factor_pair *p, layout of)
{
    double sum = 0;
    for (int64_t j = 0; j < p->r / 2; j++)
        sum += sqrt(plane_square(p->a, p->m, p->r, j, of) * plane_square(p->b, p->n, p->r, j, of));
    return sum;
}

/* ---- draws ---- */

static void draw_start(rs_factor_pair *p, rotary *rope, layout of, rs_random *random)
{
    *p = (rs_factor_pair){.m = D, .n = D, .r = R};
    rope->of = of;
    for (int o = 0; o < OFFSETS; o++) {
        rope->loss[o] = (rs_matrix_loss){.kind = RS_MATRIX_SQUARE, .m = D, .n = D};
        rs_draw_gaussian(rope->loss[o].d, D * D, 1, random);
    }
    rs_pair_draw(p, 0.5, random);
}

static double planes_off_law(const rs_factor_pair *p, const rs_factor_pair *start, layout of,
                             double t)
{
    double off = 0, size = 0, factor = exp(-2 * rs_pair_decay_until(&decay, t));
    for (int64_t j = 0; j < PLANES; j++) {
        double first = factor * plane_imbalance(start, j, of);
        off += pow(plane_imbalance(p, j, of) - first, 2);
        size += first * first;
    }
    return sqrt(off / size);
}

static double full_off_law(const rs_factor_pair *p, const rs_factor_pair *start, double t)
{
    double q[RS_PAIR_GRAM], first[RS_PAIR_GRAM], off = 0,
                                                 factor = exp(-2 * rs_pair_decay_until(&decay, t));
    rs_pair_balance(q, p);
    rs_pair_balance(first, start);
    for (int i = 0; i < R * R; i++)
        off += pow(q[i] - factor * first[i], 2);
    return sqrt(off) / (factor * rs_norm_frobenius(first, R, R));
}

static rs_status see_end(double *numbers, const rs_factor_pair *p, layout of, rs_error *err)
{
    rs_pair_seen seen;
    RS_TRY(rs_pair_see(&seen, p, err));
    const double half = seen.grams.half_norm, meets = plane_sum(p, of) / half;
    for (int64_t j = 0; j < PLANES; j++)
        rs_keep_worst(&numbers[PLANE], fabs(plane_imbalance(p, j, of)));
    if (fabs(meets - 1) >= fabs(numbers[MEETS] - 1)) numbers[MEETS] = meets;
    numbers[FULL] = fmin(numbers[FULL], seen.grams.norm_q);
    numbers[ABOVE_NUCLEAR] = fmin(numbers[ABOVE_NUCLEAR], half - seen.nuclear);
    numbers[WRONG] += (half - plane_sum(p, of == INTERLEAVED ? HALF_SPLIT : INTERLEAVED)) / 2;
    return RS_OK;
}

static rs_status see_draw(double *numbers, rs_random *random, rs_error *err)
{
    numbers[FULL_LAW] = numbers[FULL] = numbers[ABOVE_NUCLEAR] = INFINITY;
    numbers[MEETS] = 1;
    for (int k = 0; k < 2; k++) {
        const layout of = k ? HALF_SPLIT : INTERLEAVED;
        rs_factor_pair start, p;
        rotary rope;
        draw_start(&start, &rope, of, random);
        const rs_pair_loss loss = {run_rotary, &rope};
        p = start;
        for (int i = 1; i <= TIMES; i++) {
            rs_pair_flow(&p, &loss, &decay, end * (i - 1) / TIMES, end * i / TIMES,
                         i == 1 ? FIRST_STEPS : STEPS_BETWEEN);
            rs_keep_worst(&numbers[LAW], planes_off_law(&p, &start, of, end * i / TIMES));
        }
        numbers[FULL_LAW] = fmin(numbers[FULL_LAW], full_off_law(&p, &start, end));
        rs_keep_worst(&numbers[STATIONARY],
                      rs_pair_descend(&p, &loss, decay.mean, rate, least, MOST_STEPS));
        RS_TRY(see_end(numbers, &p, of, err));
    }
    return RS_OK;
}

/* ---- whole numbers ---- */

/* Four rows on three features; by 40 digits (tests/oracle/lab_weight_decay.py). */
static rs_status claim_instance(rs_lab_report *report, rs_error *err)
{
    const rs_factor_pair p = {.m = 3,
                              .n = 3,
                              .r = 4,
                              .a = {1, 0, 2, 1, 2, 1, 0, 1, 0, 1, 1, 1},
                              .b = {1, 0, 1, 0, 0, 2, 1, 0, 1, 1, 0, 3}};
    rs_pair_seen seen;
    RS_TRY(rs_pair_see(&seen, &p, err));
    RS_TRY(rs_lab_expect(report, "whole numbers: nuclear norm of W_Q'W_K", 12.49942514461478,
                         seen.nuclear, 1e-13, err));
    RS_TRY(rs_lab_expect(report, "whole numbers: sum of planes, interleaved rows",
                         16.380831519646858, plane_sum(&p, INTERLEAVED), 1e-13, err));
    RS_TRY(rs_lab_expect(report, "whole numbers: sum of planes, half-split rows",
                         14.691155585677514, plane_sum(&p, HALF_SPLIT), 1e-13, err));
    return rs_lab_expect(report, "whole numbers: H", 16.5, seen.grams.half_norm, 1e-13, err);
}

/* ---- the figure ---- */

static const rs_column point_columns[] =
    RS_LAB_POINTS(RS_LAB_X("time", "time", "of the flow"),
                  RS_LAB_Y("imbalance", "imbalance",
                           "| |q_j|^2 - |k_j|^2 | of a plane, or |W_Q W_Q' - W_K W_K'|"));
static const rs_table_kind table_kind = {"lab", "rope_planes", {RS_PART(point_columns)}};
static const rs_lab_curves curves = {
    .kind = &table_kind,
    .title = "Balance under rotary positions",
    .about = "How far queries and keys are from balance under decay 0.25 with rotary positions: "
             "each plane's norms balance as exp(-2 decay t), the Grams do not.",
    .log_y = true,
};

static rs_status draw_figure(rs_lab_report *report, const rs_context *context, rs_error *err)
{
    enum { LONGER = 6, SERIES = PLANES + 2 };
    static const char *const series[SERIES] = {"Grams", "plane 0", "plane 1", "plane 0, law"};
    rs_table *table = NULL;
    RS_TRY(rs_lab_curves_open(&table, report, &curves, err));
    for (int k = 0; k < SERIES; k++) {
        rs_random random = rs_random_new(context->seed, 0x726f7065u);
        rotary rope;
        rs_factor_pair p;
        draw_start(&p, &rope, HALF_SPLIT, &random);
        const rs_pair_loss loss = {run_rotary, &rope};
        const double first = fabs(plane_imbalance(&p, 0, HALF_SPLIT));
        for (int i = 0; i <= TIMES; i++) {
            double t = LONGER * end * i / TIMES, step = LONGER * end / TIMES, q[RS_PAIR_GRAM];
            rs_pair_balance(q, &p);
            if (k == SERIES - 1)
                RS_TRY(rs_lab_curves_compute(
                    table, series[k], t, first * exp(-2 * rs_pair_decay_until(&decay, t)), err));
            else
                RS_TRY(rs_lab_curves_add(table, series[k], t,
                                         k == 0 ? rs_norm_frobenius(q, R, R)
                                                : fabs(plane_imbalance(&p, k - 1, HALF_SPLIT)),
                                         err));
            rs_pair_flow(&p, &loss, &decay, t, t + step, LONGER * STEPS_BETWEEN / 2);
        }
    }
    return RS_OK;
}

static rs_status run_rope_planes(rs_lab_report *report, const rs_lab_options *options,
                                 const rs_context *context, rs_error *err)
{
    int draws = rs_pair_draws(options, DRAWS, QUICK_DRAWS);
    RS_TRY(draw_figure(report, context, err));
    RS_TRY(rs_pair_claims(report, claims, NUMBERS, draws, see_draw, context, err));
    RS_TRY(claim_instance(report, err));
    return rs_pair_say_draws(report, options, draws, DRAWS, err);
}

const rs_lab_experiment rs_lab_rope_planes = {
    "rope-planes",
    "Weight decay under rotary positions",
    "after Kobayashi et al. 2024, section 3",
    "Queries and keys with rotary positions under decay, both orders of rows: the norms of each "
    "frequency plane balance at the law's rate and decay adds the sum of their products; the Grams "
    "do not balance, and the nuclear norm of W_Q'W_K is below. Ours, after Kobayashi, Akram, von "
    "Oswald, NeurIPS 2024.",
    run_rope_planes,
    "8 s",
    "2 s",
    &table_kind,
    0};
