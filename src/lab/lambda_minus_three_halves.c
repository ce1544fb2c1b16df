/*
 * lambda_minus_three_halves.c: two tokens at an angle theta under the simplified selective state-space
 * layer with norm and skip, Y <- rn(skip Y + M Y), M = [1 0; cos(theta) 1]: tan(theta) is multiplied by
 * (1 + skip)/(2 + skip) a layer, exactly (docs/theory/signal.md, 7). So -3/2 is a threshold of rank,
 * as published; between -3/2 and -1 tokens become equal up to their signs, which alternate.
 *
 * And what the sign of skip + s_i decides, s_i the row sums of M: where it differs between tokens,
 * opposite ones merge and equal ones part.
 */
#include "lab/post_norm.h"

#include <math.h>

enum { TOKENS = 2, LAYERS = 100, FIRST = -80, LAST = 60, TILTED = 5, TILTED_LAYERS = 6 };
static const double steps_of_one = 20; /* strengths are whole numbers over this: FIRST to LAST */

typedef struct turning {
    double det[LAST - FIRST + 1], last[LAST - FIRST + 1],
        before[LAST - FIRST + 1]; /* by strength */
    double law, tilted;           /* largest relative errors of the tangent's law */
    double wrong_ends, ends;      /* strengths that end otherwise than predicted, and all */
    double threshold;             /* of rank */
    double one[LAYERS + 1];       /* mu with skip strength 1 */
    double three;                 /* mu behind three layers, skip strength -3 */
    double above, below;          /* det behind all layers at -1.49 and at -1.51 */
    double odd, even, line; /* mu of the last two states at -1.25; their distance up to sign */
    double square, stays;   /* det behind one layer at -2; behind all at -1.5 */
    double merged, parted, bound; /* both signs: mu behind a layer, what theorem C would say */
} turning;

/* Tokens (1, 0) and (cos, sin) of pi/3, of length sqrt(2). */
static void start(double *y)
{
    y[0] = sqrt(2);
    y[1] = 0;
    y[2] = sqrt(2) * 0.5;
    y[3] = sqrt(2) * sqrt(0.75);
}

static double determinant(const double *y)
{
    return (y[0] * y[3] - y[1] * y[2]) / 2;
}

static double tangent(const double *y)
{
    return determinant(y) / ((y[0] * y[2] + y[1] * y[3]) / 2);
}

static double factor_of(double skip)
{
    return (1 + skip) / (2 + skip);
}

static rs_status run_skip(rs_toy_trace *trace, rs_toy *toy, double skip, rs_error *err)
{
    double y[4];
    start(y);
    rs_post_norm_skip(toy, skip);
    return rs_toy_run(trace, toy, y, 1, TOKENS, false, err);
}

/* ---- the law ---- */

static double law_error(const rs_toy_trace *trace, double skip)
{
    double worst = 0;
    for (int l = 0; l < LAYERS; l++) {
        double now = tangent(rs_toy_state(trace, l, 0));
        double next = tangent(rs_toy_state(trace, l + 1, 0));
        worst = fmax(worst, fabs(next / (factor_of(skip) * now) - 1));
    }
    return worst;
}

/* What the last two states say. */
static rs_post_norm_end end_of(const turning *t, int i)
{
    if (t->det[i] > 0.5) return RS_ENDS_REPELLED;
    return fmax(t->last[i], t->before[i]) < 0.5 ? RS_ENDS_EQUAL : RS_ENDS_UP_TO_SIGN;
}

static rs_status one_strength(turning *t, rs_toy *toy, int at, rs_error *err)
{
    static const double near_equal[4] = {1, 0, 1, 1};
    int i = at - FIRST;
    double skip = at / steps_of_one;
    rs_toy_trace trace;
    RS_TRY(run_skip(&trace, toy, skip, err));
    t->det[i] = fabs(determinant(rs_toy_state(&trace, LAYERS, 0)));
    t->last[i] = rs_post_norm_spread(rs_toy_state(&trace, LAYERS, 0), TOKENS, 2);
    t->before[i] = rs_post_norm_spread(rs_toy_state(&trace, LAYERS - 1, 0), TOKENS, 2);
    t->law = fmax(t->law, law_error(&trace, skip));
    rs_toy_trace_free(&trace);
    if (factor_of(skip) == -1) { /* the threshold itself */
        t->stays = t->det[i];
        return RS_OK;
    }
    t->ends++;
    t->wrong_ends += end_of(t, i) != rs_post_norm_predict(near_equal, TOKENS, skip, 1);
    return RS_OK;
}

static bool singular(int at)
{
    return at == -steps_of_one || at == -2 * steps_of_one;
}

static rs_status all_strengths(turning *t, rs_toy *toy, rs_error *err)
{
    for (int at = FIRST; at <= LAST; at++)
        if (!singular(at)) RS_TRY(one_strength(t, toy, at, err));
    return RS_OK;
}

/* The law where the plane of the tokens lies across five features. */
static rs_status tilted_law(turning *t, const rs_context *context, rs_error *err)
{
    static const double skips[3] = {1, -0.25, -2.75};
    double y[TOKENS * TILTED];
    rs_toy toy;
    for (uint32_t i = 0; i < TOKENS * TILTED; i++)
        y[i] = rs_lab_hash(70, i) / 2147483648.0 - 1;
    for (int i = 0; i < TOKENS; i++) {
        double size = rs_norm_frobenius(y + i * TILTED, 1, TILTED);
        for (int k = 0; k < TILTED; k++)
            y[i * TILTED + k] *= sqrt(TILTED) / size;
    }
    RS_TRY(rs_post_norm_selective(&toy, TILTED_LAYERS, TILTED, 1, context, err));
    rs_status status = RS_OK;
    for (int s = 0; s < 3 && status == RS_OK; s++) {
        rs_toy_trace trace;
        rs_post_norm_skip(&toy, skips[s]);
        status = rs_toy_run(&trace, &toy, y, 1, TOKENS, false, err);
        if (status != RS_OK) break;
        double before = NAN;
        for (int l = 0; l <= TILTED_LAYERS; l++) {
            const double *at = rs_toy_state(&trace, l, 0);
            double apart = 0, along = 0; /* |y_2 - y_1|/|y_2 + y_1| = tan(theta/2) */
            for (int k = 0; k < TILTED; k++) {
                apart += (at[TILTED + k] - at[k]) * (at[TILTED + k] - at[k]);
                along += (at[TILTED + k] + at[k]) * (at[TILTED + k] + at[k]);
            }
            double tan = 2 * sqrt(apart * along) / (along - apart);
            if (l > 0)
                t->tilted = fmax(t->tilted, fabs(fabs(tan / (factor_of(skips[s]) * before)) - 1));
            before = tan;
        }
        rs_toy_trace_free(&trace);
    }
    rs_toy_close(&toy);
    return status;
}

/* ---- single strengths ---- */

/* The strength above which the tokens' line comes together, by bisection. */
static rs_status find_threshold(turning *t, rs_toy *toy, rs_error *err)
{
    double repels = -1.9, attracts = -1.1;
    for (int i = 0; i < 42; i++) {
        double middle = (repels + attracts) / 2;
        rs_toy_trace trace;
        RS_TRY(run_skip(&trace, toy, middle, err));
        double first = fabs(tangent(rs_toy_state(&trace, 0, 0)));
        if (fabs(tangent(rs_toy_state(&trace, LAYERS, 0))) > first)
            repels = middle;
        else
            attracts = middle;
        rs_toy_trace_free(&trace);
    }
    t->threshold = attracts;
    return RS_OK;
}

static rs_status det_behind(double *out, rs_toy *toy, double skip, int layers, rs_error *err)
{
    rs_toy_trace trace;
    RS_TRY(run_skip(&trace, toy, skip, err));
    *out = fabs(determinant(rs_toy_state(&trace, layers, 0)));
    rs_toy_trace_free(&trace);
    return RS_OK;
}

static rs_status single_strengths(turning *t, rs_toy *toy, rs_error *err)
{
    rs_toy_trace trace;
    RS_TRY(run_skip(&trace, toy, 1, err));
    for (int l = 0; l <= LAYERS; l++)
        t->one[l] = rs_post_norm_spread(rs_toy_state(&trace, l, 0), TOKENS, 2);
    rs_toy_trace_free(&trace);
    RS_TRY(run_skip(&trace, toy, -3, err));
    t->three = rs_post_norm_spread(rs_toy_state(&trace, 3, 0), TOKENS, 2);
    rs_toy_trace_free(&trace);
    RS_TRY(run_skip(&trace, toy, -1.25, err));
    t->odd = rs_post_norm_spread(rs_toy_state(&trace, LAYERS - 1, 0), TOKENS, 2);
    t->even = rs_post_norm_spread(rs_toy_state(&trace, LAYERS, 0), TOKENS, 2);
    t->line = rs_post_norm_line_spread(rs_toy_state(&trace, LAYERS - 1, 0), TOKENS, 2);
    rs_toy_trace_free(&trace);
    RS_TRY(det_behind(&t->above, toy, -1.49, LAYERS, err));
    RS_TRY(det_behind(&t->below, toy, -1.51, LAYERS, err));
    RS_TRY(det_behind(&t->square, toy, -2, 1, err));
    return find_threshold(t, toy, err);
}

/* ---- both signs ---- */

static const double mixed[TOKENS * TOKENS] = {0.6, 0, 0.1, 1.1}, mixed_skip = -0.75;

/* What theorem C would leave of mu, read without its condition on signs: (1 - L/sqrt(1 - c²))/(1 + c),
 * Q = (skip I + M)/(skip + s), c = 2 max |Q_ij| off the diagonal, L = |R(Q - I)R| (docs/theory/signal.md,
 * 7). */
static double theorem_c(const double *m, double skip)
{
    double across = m[2] / (skip + m[2] + m[3]); /* Q - I = [0 0; across -across] */
    double c = 2 * fabs(across), rest[4] = {-across / 2, across / 2, across / 2, -across / 2};
    return (1 - rs_norm_spectral(rest, 2, 2) / sqrt(1 - c * c)) / (1 + c);
}

static rs_status both_signs(turning *t, const rs_context *context, rs_error *err)
{
    const double opposite[4] = {sqrt(2), 0, -sqrt(2), 0}, equal[4] = {sqrt(2), 0, sqrt(2), 0};
    rs_toy toy;
    rs_toy_trace trace;
    t->bound = theorem_c(mixed, mixed_skip);
    if (isnan(t->bound)) return rs_fail_memory(err, "a norm of an experiment", 4);
    RS_TRY(rs_post_norm_open(&toy, 1, 2, context, err));
    rs_post_norm_skip(&toy, mixed_skip);
    rs_status status = rs_post_norm_give(&toy, 0, 1, mixed, TOKENS, err);
    if (status == RS_OK) status = rs_toy_run(&trace, &toy, opposite, 1, TOKENS, false, err);
    if (status == RS_OK) {
        t->merged = rs_post_norm_spread(rs_toy_state(&trace, 1, 0), TOKENS, 2);
        rs_toy_trace_free(&trace);
        status = rs_toy_run(&trace, &toy, equal, 1, TOKENS, false, err);
    }
    rs_toy_close(&toy);
    RS_TRY(status);
    t->parted = rs_post_norm_spread(rs_toy_state(&trace, 1, 0), TOKENS, 2);
    rs_toy_trace_free(&trace);
    return RS_OK;
}

/* ---- what came out ---- */

static const rs_column point_columns[] = RS_LAB_POINTS(
    RS_LAB_X("skip_strength", "skip strength", "lambda in Y <- rn(lambda Y + M Y)"),
    RS_LAB_Y("left", "behind 100 layers", "mu of rows of length 1, or |det|: as series says"));
static const rs_table_kind table_kind = {
    "lab", "lambda_minus_three_halves", {RS_PART(point_columns)}};
static const rs_lab_curves curves = {
    .kind = &table_kind,
    .title = "Two tokens: -3/2 is a threshold of rank",
    .about = "What 100 selective state-space layers with norm and skip leave of two tokens at an "
             "angle of 60 degrees, by skip strength: |det|, the share of rank two, and mu of the "
             "last two states. Below -3/2 the tokens end at right angles, above -1 equal; between, "
             "they end on one line, on the same side and on opposite sides in turn.",
};

static rs_status claim_two_tokens(rs_lab_report *report, const turning *t, rs_error *err)
{
    const rs_lab_claim threshold = {
        "strength below which rank stays", -1.5, -1.5, t->threshold, 1e-11, false, false};
    RS_TRY(rs_lab_at_most(
        report,
        "tan(theta') = (1 + skip)/(2 + skip) tan(theta): largest relative error, 100 layers",
        t->law, 1e-12, err));
    RS_TRY(rs_lab_at_most(report, "the same of tokens across five features, 6 layers", t->tilted,
                          1e-12, err));
    RS_TRY(rs_lab_add_claim(report, &threshold, err));
    /* docs/theory/signal.md, 7: closed forms, digits of tests/oracle/lab_lambda.py */
    RS_TRY(rs_lab_expect(report, "skip 1, state 1: mu", 0.587661747344527, t->one[1], 1e-12, err));
    RS_TRY(rs_lab_expect(report, "skip 1, state 2: mu", 0.455625047936281, t->one[2], 1e-12, err));
    RS_TRY(rs_lab_expect(report, "skip 1, state 5: mu", 0.158238505041141, t->one[5], 1e-12, err));
    RS_TRY(rs_lab_expect(report, "skip -3, state 3: mu", 0.963337129423096, t->three, 1e-12, err));
    RS_TRY(rs_lab_expect(report, "skip -1.49, state 100: |det|", 0.0316907727187188, t->above,
                         1e-12, err));
    RS_TRY(rs_lab_expect(report, "skip -1.51, state 100: |det|", 0.999944153860858, t->below, 1e-12,
                         err));
    RS_TRY(rs_lab_expect(report, "skip -1.5, state 100: |det|, that of state 0", sqrt(0.75),
                         t->stays, 1e-12, err));
    return rs_lab_expect(report, "skip -2, singular: |det| behind one layer", 1, t->square, 1e-12,
                         err);
}

static rs_status claim_ends(rs_lab_report *report, const turning *t, rs_error *err)
{
    RS_TRY(rs_lab_expect(report, "skip -1.25, state 99: mu of opposite tokens", sqrt(2), t->odd,
                         1e-12, err));
    RS_TRY(
        rs_lab_expect(report, "skip -1.25, state 100: mu of equal tokens", 0, t->even, 1e-12, err));
    RS_TRY(rs_lab_at_most(report, "skip -1.25, state 99: mu with signs taken away", t->line, 1e-12,
                          err));
    RS_TRY(rs_lab_at_most(report, "strengths that end otherwise than multipliers and signs predict",
                          t->wrong_ends, 0, err));
    RS_TRY(rs_lab_expect(report, "strengths compared", LAST - FIRST - 2, t->ends, 0.5, err));
    RS_TRY(rs_lab_expect(report, "skip + s_i of both signs: mu of opposite tokens behind a layer",
                         0, t->merged, 1e-12, err));
    RS_TRY(rs_lab_expect(report, "skip + s_i of both signs: mu of equal tokens behind a layer",
                         sqrt(2), t->parted, 1e-12, err));
    return rs_lab_compute(report,
                          "the share that theorem C would promise there without its condition",
                          0.520567290568788, t->bound, 1e-12, err);
}

static rs_status add_curve(rs_table *table, const char *series, const double *y, rs_error *err)
{
    for (int at = FIRST; at <= LAST; at++)
        if (!singular(at))
            RS_TRY(rs_lab_curves_add(table, series, at / steps_of_one, y[at - FIRST], err));
    return RS_OK;
}

static rs_status write_up(rs_lab_report *report, const turning *t, rs_error *err)
{
    rs_table *table = NULL;
    RS_TRY(rs_lab_curves_open(&table, report, &curves, err));
    RS_TRY(add_curve(table, "|det|, share of rank two", t->det, err));
    RS_TRY(add_curve(table, "mu, state 100", t->last, err));
    RS_TRY(add_curve(table, "mu, state 99", t->before, err));
    RS_TRY(claim_two_tokens(report, t, err));
    return claim_ends(report, t, err);
}

static rs_status run_lambda_minus_three_halves(rs_lab_report *report, const rs_lab_options *options,
                                               const rs_context *context, rs_error *err)
{
    (void)options; /* as quick as it can be */
    turning t = {0};
    rs_toy toy;
    RS_TRY(rs_post_norm_selective(&toy, LAYERS, 2, 1, context, err));
    rs_status status = all_strengths(&t, &toy, err);
    if (status == RS_OK) status = single_strengths(&t, &toy, err);
    rs_toy_close(&toy);
    RS_TRY(status);
    RS_TRY(tilted_law(&t, context, err));
    RS_TRY(both_signs(&t, context, err));
    return write_up(report, &t, err);
}

const rs_lab_experiment rs_lab_lambda_minus_three_halves = {
    "lambda-minus-three-halves",
    "Two tokens and the threshold -3/2",
    "Arangath Joseph et al. 2025, two-token example",
    "Two tokens under the simplified selective state-space layer with norm and skip, strengths "
    "from "
    "-4 to 3: the exact law of their angle, the threshold of rank at -3/2, and the three ends of "
    "nearly equal tokens (equal, equal up to sign, repelled) that the signs of skip + row sum "
    "decide. After the proposition on two tokens of Arangath Joseph, Sieber, Zeilinger, Amo "
    "Alonso, "
    "ICLR 2025 (arXiv 2410.10609).",
    run_lambda_minus_three_halves,
    "< 1 s",
    "< 1 s",
    &table_kind,
    0};
