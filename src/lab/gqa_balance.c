/*
 * gqa_balance.c: weight decay where query heads share a key (grouped queries). The loss sees the products
 * W_Q,hᵀ W_K of a group, so A stacks the W_Q,hᵀ and B = W_Kᵀ: what balances is sum_h W_Q,h W_Q,hᵀ against
 * W_K W_Kᵀ, no head by itself, and what decay adds is the nuclear norm of the stack, not the sum of the
 * heads' (docs/theory/weight_decay.md, 7).
 */
#include "lab/kobayashi_pairs.h"
#include "lab/toy.h"

#include <math.h>

enum { HEADS = 3, D = 6, R = 3, M = HEADS * D, DRAWS = 24, QUICK_DRAWS = 4, MOST_STEPS = 400000 };
static const rs_pair_decay decay = {.mean = 0.25};
static const double rate = 0.02, least = 1e-13, end = 6;
/* Gradients are steepest at first. */
enum { TIMES = 24, STEPS_BETWEEN = 400, FIRST_STEPS = 4000 };

enum { LAW, STATIONARY, GROUP, HEAD, NUCLEAR, THRESHOLD, SUM, HEAD_LAW, NUMBERS };
static const rs_pair_claim claims[NUMBERS] = {
    [LAW] = {"flow: the group's Q(t) off exp(-2 decay t) Q(0), relative", NAN, 1e-9},
    [STATIONARY] = {"norm of the gradient where descent ends", NAN, 1e-12},
    [GROUP] = {"there: imbalance of the group, |sum_h Q_h Q_h' - K K'|", NAN, 1e-10},
    [HEAD] = {"there: least imbalance of a head by itself, |Q_h Q_h' - K K'|", NAN, NAN},
    [NUCLEAR] = {"there: (|Q|^2 + |K|^2)/2 over the stack's nuclear norm", 1, 1e-12},
    [THRESHOLD] = {"square: that over the targets' soft-thresholded one", 1, 1e-11},
    [SUM] = {"there: the heads' nuclear norms add up to more than H, by", NAN, NAN},
    [HEAD_LAW] = {"flow: a head's own Q(t) off the law, relative, the least", NAN, NAN},
};

/* The pair of one head: rows of the stack beside the shared key. */
static rs_factor_pair head_of(const rs_factor_pair *p, int head)
{
    rs_factor_pair own = {.m = D, .n = D, .r = R};
    for (int i = 0; i < D * R; i++) {
        own.a[i] = p->a[head * D * R + i];
        own.b[i] = p->b[i];
    }
    return own;
}

static double distance(const double *q, const double *from, double factor)
{
    double sum = 0;
    for (int i = 0; i < R * R; i++)
        sum += pow(q[i] - factor * from[i], 2);
    return sqrt(sum);
}

/* Of a pair at time t: how far Q is from the law of its start, of its size. */
static double off_law(const rs_factor_pair *p, const rs_factor_pair *start, double t)
{
    double q[RS_PAIR_GRAM], first[RS_PAIR_GRAM], factor = exp(-2 * rs_pair_decay_until(&decay, t));
    rs_pair_balance(q, p);
    rs_pair_balance(first, start);
    return distance(q, first, factor) / (factor * rs_norm_frobenius(first, R, R));
}

static double imbalance(const rs_factor_pair *p)
{
    double q[RS_PAIR_GRAM];
    rs_pair_balance(q, p);
    return rs_norm_frobenius(q, R, R);
}

/* The least of the heads' distances from the law. */
static double heads_off_law(const rs_factor_pair *p, const rs_factor_pair *start, double t)
{
    double nearest = INFINITY;
    for (int h = 0; h < HEADS; h++) {
        const rs_factor_pair own = head_of(p, h), first = head_of(start, h);
        nearest = fmin(nearest, off_law(&own, &first, t));
    }
    return nearest;
}

static rs_status see_end(double *numbers, const rs_factor_pair *p, rs_error *err)
{
    rs_pair_seen seen;
    double sum = 0, head = INFINITY;
    RS_TRY(rs_pair_see(&seen, p, err));
    for (int h = 0; h < HEADS; h++) {
        const rs_factor_pair own = head_of(p, h);
        rs_pair_seen of;
        RS_TRY(rs_pair_see(&of, &own, err));
        sum += of.nuclear;
        head = fmin(head, of.grams.norm_q);
    }
    rs_keep_worst(&numbers[GROUP], seen.grams.norm_q);
    numbers[HEAD] = fmin(numbers[HEAD], head);
    numbers[SUM] = fmin(numbers[SUM], sum - seen.grams.half_norm);
    double ratio = seen.grams.half_norm / seen.nuclear;
    if (fabs(ratio - 1) >= fabs(numbers[NUCLEAR] - 1)) numbers[NUCLEAR] = ratio;
    return RS_OK;
}

/* Of the square loss the end is known: the stacked targets' R largest singular values less the decay. */
static rs_status see_threshold(double *number, const rs_factor_pair *p, const rs_matrix_loss *loss,
                               rs_error *err)
{
    double u[M * D], s[D], vt[D * D], sum = 0;
    rs_pair_seen seen;
    RS_TRY(rs_small_svd(u, s, vt, loss->d, M, D, err));
    for (int k = 0; k < R; k++)
        sum += fmax(s[k] - decay.mean, 0);
    RS_TRY(rs_pair_see(&seen, p, err));
    *number = seen.grams.half_norm / sum;
    return RS_OK;
}

static void draw_start(rs_factor_pair *p, rs_matrix_loss *loss, rs_matrix_loss_kind kind,
                       rs_random *random)
{
    *loss = (rs_matrix_loss){.kind = kind, .m = M, .n = D};
    *p = (rs_factor_pair){.m = M, .n = D, .r = R};
    rs_draw_gaussian(loss->d, M * D, 1, random);
    rs_pair_draw(p, 0.7, random);
}

static rs_status see_loss(double *numbers, rs_matrix_loss_kind kind, rs_random *random,
                          rs_error *err)
{
    rs_matrix_loss loss;
    rs_factor_pair start, p;
    draw_start(&start, &loss, kind, random);
    const rs_pair_loss of = rs_pair_loss_of(&loss);
    p = start;
    for (int i = 1; i <= TIMES; i++) {
        rs_pair_flow(&p, &of, &decay, end * (i - 1) / TIMES, end * i / TIMES,
                     i == 1 ? FIRST_STEPS : STEPS_BETWEEN);
        rs_keep_worst(&numbers[LAW], off_law(&p, &start, end * i / TIMES));
    }
    numbers[HEAD_LAW] = fmin(numbers[HEAD_LAW], heads_off_law(&p, &start, end));
    rs_keep_worst(&numbers[STATIONARY],
                  rs_pair_descend(&p, &of, decay.mean, rate, least, MOST_STEPS));
    RS_TRY(see_end(numbers, &p, err));
    return kind == RS_MATRIX_SQUARE ? see_threshold(&numbers[THRESHOLD], &p, &loss, err) : RS_OK;
}

static rs_status see_draw(double *numbers, rs_random *random, rs_error *err)
{
    numbers[HEAD] = numbers[SUM] = numbers[HEAD_LAW] = INFINITY;
    numbers[NUCLEAR] = 1;
    RS_TRY(see_loss(numbers, RS_MATRIX_SQUARE, random, err));
    return see_loss(numbers, RS_MATRIX_WAVY, random, err);
}

/* ---- whole numbers ---- */

/* Two heads of width 2 on three features; nuclear norms by 40 digits (tests/oracle/lab_weight_decay.py). */
static rs_status claim_instance(rs_lab_report *report, rs_error *err)
{
    /* rows of A: W_Q,1ᵀ above W_Q,2ᵀ */
    const rs_factor_pair stack = {
        .m = 6, .n = 3, .r = 2, .a = {1, 0, 2, 1, 0, 1, 2, 1, 0, 1, 1, 0}, .b = {1, 0, 0, 2, 1, 1}};
    rs_factor_pair first = stack;
    first.m = 3;
    rs_pair_seen of_stack, of_head;
    RS_TRY(rs_pair_see(&of_stack, &stack, err));
    RS_TRY(rs_pair_see(&of_head, &first, err));
    RS_TRY(rs_lab_expect(report, "whole numbers: nuclear norm of two stacked heads",
                         8.797378979752898, of_stack.nuclear, 1e-13, err));
    RS_TRY(rs_lab_expect(report, "whole numbers: of the first head by itself", 6.2206863332512645,
                         of_head.nuclear, 1e-13, err));
    return rs_lab_expect(report, "whole numbers: H of the group", 10.5, of_stack.grams.half_norm,
                         1e-13, err);
}

/* ---- the figure ---- */

static const rs_column point_columns[] =
    RS_LAB_POINTS(RS_LAB_X("time", "time", "of the flow"),
                  RS_LAB_Y("imbalance", "imbalance",
                           "|A'A - B'B|: of the group, A stacked over heads, or of a head"));
static const rs_table_kind table_kind = {"lab", "gqa_balance", {RS_PART(point_columns)}};
static const rs_lab_curves curves = {
    .kind = &table_kind,
    .title = "Balance where query heads share a key",
    .about = "How far queries and keys are from balance under decay 0.25, three query heads on one "
             "key head: all heads together go as exp(-2 decay t), no head does.",
    .log_y = true,
};

static rs_status draw_figure(rs_lab_report *report, const rs_context *context, rs_error *err)
{
    enum { LONGER = 4 };
    static const char *const series[HEADS + 2] = {"head 0", "head 1", "head 2", "group",
                                                  "group, law"};
    rs_table *table = NULL;
    RS_TRY(rs_lab_curves_open(&table, report, &curves, err));
    for (int k = 0; k < HEADS + 2; k++) {
        rs_random random = rs_random_new(context->seed, 0x677161u);
        rs_matrix_loss loss;
        rs_factor_pair p;
        draw_start(&p, &loss, RS_MATRIX_WAVY, &random);
        const rs_pair_loss of = rs_pair_loss_of(&loss);
        double first = imbalance(&p);
        for (int i = 0; i <= TIMES; i++) {
            double t = LONGER * end * i / TIMES, step = LONGER * end / TIMES;
            const rs_factor_pair own = k < HEADS ? head_of(&p, k) : p;
            if (k <= HEADS)
                RS_TRY(rs_lab_curves_add(table, series[k], t, imbalance(&own), err));
            else
                RS_TRY(rs_lab_curves_compute(
                    table, series[k], t, first * exp(-2 * rs_pair_decay_until(&decay, t)), err));
            rs_pair_flow(&p, &of, &decay, t, t + step, LONGER * STEPS_BETWEEN);
        }
    }
    return RS_OK;
}

static rs_status run_gqa_balance(rs_lab_report *report, const rs_lab_options *options,
                                 const rs_context *context, rs_error *err)
{
    int draws = rs_pair_draws(options, DRAWS, QUICK_DRAWS);
    RS_TRY(draw_figure(report, context, err));
    RS_TRY(rs_pair_claims(report, claims, NUMBERS, draws, see_draw, context, err));
    RS_TRY(claim_instance(report, err));
    return rs_pair_say_draws(report, options, draws, DRAWS, err);
}

const rs_lab_experiment rs_lab_gqa_balance = {
    "gqa-balance",
    "Weight decay under grouped queries",
    "after Kobayashi et al. 2024, section 3",
    "Three query heads on one key head under decay: the group's Grams balance at the law's rate "
    "and "
    "its stack has the nuclear norm that decay adds; no head balances by itself, and the heads' "
    "nuclear norms add up to another number. Ours, after Kobayashi, Akram, von Oswald, NeurIPS "
    "2024.",
    run_gqa_balance,
    "6 s",
    "2 s",
    &table_kind,
    0};
