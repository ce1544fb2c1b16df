/*
 * consensus_threshold.c: what becomes of nearly equal tokens under Y <- rn(skip Y + w M Y), M lower
 * triangular with row sums s_i: what tells token i from the first is multiplied by g_i = (skip +
 * w m_ii)/(skip + w s_i) a layer, to first order (docs/theory/signal.md, 7). So collapse attracts
 * where all |g_i| < 1, over layers the largest of the tokens' products counts, and the signs of skip +
 * w s_i say whether tokens end equal or equal up to sign.
 */
#include "lab/consensus.h"

#include <math.h>
#include <stdio.h>

enum { SELECTIVE_TOKENS = 5, MOST = 6, WIDTH = 6, LAYERS = 400, KINDS = RS_ENDS_REPELLED + 1 };
const double rs_consensus_decays[RS_CONSENSUS_DECAYS] = {0.5, 0.9, 1};
const int rs_consensus_lengths[RS_CONSENSUS_LENGTHS] = {4, 16};

void rs_consensus_tokens(double *y, int n, int d, double size, rs_random *random)
{
    enum { WIDEST = 16 };
    double common[WIDEST];
    rs_draw_gaussian(common, d, 1, random);
    for (int i = 0; i < n; i++) {
        double *row = y + i * d;
        for (int k = 0; k < d; k++)
            row[k] = common[k] + size * rs_random_normal(random);
        double length = rs_norm_frobenius(row, 1, d);
        for (int k = 0; k < d; k++)
            row[k] *= sqrt(d) / length;
    }
}

/* ---- selective systems: M_ij = decay^(i - j) cos(y_i, y_j) ---- */

/* M of equal tokens. */
static void equal_matrix(double *m, int n, double decay)
{
    for (int i = 0; i < n * n; i++)
        m[i] = i % n > i / n ? 0 : pow(decay, i / n - i % n);
}

static rs_status selective_threshold(double *out, double decay, rs_random *random,
                                     const rs_context *context, rs_error *err)
{
    double y[SELECTIVE_TOKENS * WIDTH];
    rs_toy toy;
    rs_consensus_tokens(y, SELECTIVE_TOKENS, WIDTH, 1e-7, random);
    RS_TRY(rs_post_norm_selective(&toy, LAYERS, WIDTH, decay, context, err));
    rs_status status =
        rs_consensus_find(out, &toy, y, SELECTIVE_TOKENS, -1 - 0.9 * decay, -1.02, err);
    rs_toy_close(&toy);
    return status;
}

/* A drawn selective system. */
typedef struct selective {
    int n;
    double decay, skip;
    rs_post_norm_end predicted;
} selective;

/* One whose factors are far enough from 1 for 400 layers to tell, and which ends as wanted. */
static void draw_selective(selective *s, rs_post_norm_end wanted, rs_random *random)
{
    double m[MOST * MOST], g[MOST], rate;
    do {
        s->n = 2 + (int)(rs_random_uniform(random) * (MOST - 1));
        s->decay = 0.2 + 0.8 * rs_random_uniform(random);
        s->skip = -2.2 + 2.4 * rs_random_uniform(random); /* about the thresholds */
        equal_matrix(m, s->n, s->decay);
        rate = rs_post_norm_multipliers(g, m, s->n, s->skip, 1);
        s->predicted = rs_post_norm_predict(m, s->n, s->skip, 1);
    } while (s->predicted != wanted || fabs(rate - 1) < 0.03 ||
             fabs(rs_post_norm_signs(m, s->n, s->skip, 1)) < 0.05);
}

static rs_status measure_end(rs_post_norm_end *out, const selective *s, rs_random *random,
                             const rs_context *context, rs_error *err)
{
    double y[MOST * WIDTH];
    rs_toy toy;
    rs_toy_trace trace;
    rs_consensus_tokens(y, s->n, WIDTH, 1e-4, random);
    RS_TRY(rs_post_norm_selective(&toy, LAYERS, WIDTH, s->decay, context, err));
    rs_post_norm_skip(&toy, s->skip);
    rs_status status = rs_toy_run(&trace, &toy, y, 1, s->n, false, err);
    rs_toy_close(&toy);
    RS_TRY(status);
    double *last = rs_toy_state(&trace, LAYERS, 0), *before = rs_toy_state(&trace, LAYERS - 1, 0);
    double apart =
        fmax(rs_post_norm_spread(last, s->n, WIDTH), rs_post_norm_spread(before, s->n, WIDTH));
    *out = rs_post_norm_line_spread(last, s->n, WIDTH) > 1e-3 ? RS_ENDS_REPELLED
           : apart < 1e-3                                     ? RS_ENDS_EQUAL
                                                              : RS_ENDS_UP_TO_SIGN;
    rs_toy_trace_free(&trace);
    return RS_OK;
}

static rs_status selective_systems(rs_consensus_findings *f, const rs_context *context,
                                   rs_error *err)
{
    rs_random random = rs_random_new(context->seed, 0x73656c65);
    for (int i = 0; i < RS_CONSENSUS_DECAYS; i++)
        RS_TRY(
            selective_threshold(&f->selective[i], rs_consensus_decays[i], &random, context, err));
    for (int i = 0; i < KINDS * f->drawn_ends; i++) {
        selective s;
        rs_post_norm_end end;
        draw_selective(&s, (rs_post_norm_end)(i % KINDS), &random);
        RS_TRY(measure_end(&end, &s, &random, context, err));
        f->ends[end]++;
        f->wrong_ends += end != s.predicted;
    }
    return RS_OK;
}

/* ---- causal attention, W = I: 1/i for m_ii, 1 for s_i ---- */

static rs_status attention_threshold(double *out, int n, rs_random *random,
                                     const rs_context *context, rs_error *err)
{
    enum { LONGEST = 16 };
    double y[LONGEST * WIDTH];
    rs_toy toy;
    rs_consensus_tokens(y, n, WIDTH, 1e-7, random);
    RS_TRY(rs_post_norm_attention(&toy, LAYERS, WIDTH, context, err));
    rs_status status = rs_consensus_find(out, &toy, y, n, -0.95, 0, err);
    rs_toy_close(&toy);
    return status;
}

static rs_status attention_thresholds(rs_consensus_findings *f, const rs_context *context,
                                      rs_error *err)
{
    rs_random random = rs_random_new(context->seed, 0x61747465);
    for (int i = 0; i < RS_CONSENSUS_LENGTHS; i++)
        RS_TRY(
            attention_threshold(&f->attention[i], rs_consensus_lengths[i], &random, context, err));
    return RS_OK;
}

/* ---- what came out ---- */

static const rs_column point_columns[] =
    RS_LAB_POINTS(RS_LAB_X("predicted", "predicted",
                           "max |(lambda + w m_ii)/(lambda + w s_i)|; or w min (m_ii + s_i)/2"),
                  RS_LAB_Y("measured", "measured",
                           "growth a layer of nearly equal tokens; or minus the threshold"));
static const rs_table_kind table_kind = {"lab", "consensus_threshold", {RS_PART(point_columns)}};
static const rs_lab_curves curves = {
    .kind = &table_kind,
    .title = "What multipliers predict of nearly equal tokens",
    .about =
        "Drawn lower triangular mixing matrices under a norm and a skip: growth a layer of the "
        "tokens' differences, and the skip strength below which they grow, against what the "
        "diagonals and row sums alone predict.",
};

static double worst_error(const double *measured, const double *predicted, int n)
{
    double worst = 0;
    for (int i = 0; i < n; i++)
        worst = fmax(worst, fabs(measured[i] / predicted[i] - 1));
    return worst;
}

static rs_status claim_given(rs_lab_report *report, const rs_consensus_findings *f, rs_error *err)
{
    char text[120];
    snprintf(text, sizeof text,
             "%d drawn M: largest relative error of the rate that multipliers predict", f->rates);
    RS_TRY(
        rs_lab_at_most(report, text, worst_error(f->rate, f->predicted_rate, f->rates), 0.02, err));
    snprintf(text, sizeof text, "%d drawn M >= 0: largest relative error of the threshold",
             f->thresholds);
    RS_TRY(rs_lab_at_most(
        report, text, worst_error(f->threshold, f->predicted_threshold, f->thresholds), 0.02, err));
    RS_TRY(rs_lab_at_most(report, "these M, skips of 0, w/2, 2w and 20w: runs that repel",
                          f->positive, 0, err));
    /* 0.9 · 0.1 twice, where the largest factors would make 0.9^4 */
    RS_TRY(rs_lab_expect(report, "factors (.9, .1) and (.1, .9) in turn: left by four layers",
                         0.0081, f->alternating, 1e-8, err));
    /* tests/oracle/lab_lambda.py */
    RS_TRY(rs_lab_compute(report, "factors .667 and .923: largest stretch of one layer",
                          9.18974190272137, f->at_first, 1e-12, err));
    return rs_lab_expect(report, "factors .667 and .923: stretch of these tokens", 9.18974190272137,
                         f->stretch, 1e-5, err);
}

static rs_status claim_others(rs_lab_report *report, const rs_consensus_findings *f, rs_error *err)
{
    char text[120];
    for (int i = 0; i < RS_CONSENSUS_DECAYS; i++) {
        double decay = rs_consensus_decays[i];
        snprintf(text, sizeof text, "selective M, decay %g: threshold, -(1 + decay/2)", decay);
        RS_TRY(rs_lab_expect(report, text, -(1 + decay / 2), f->selective[i], 5e-3, err));
    }
    snprintf(text, sizeof text,
             "%d selective systems: ends other than predicted by factors and signs",
             KINDS * f->drawn_ends);
    RS_TRY(rs_lab_at_most(report, text, f->wrong_ends, 0, err));
    RS_TRY(rs_lab_expect(report, "of these: equal up to sign", f->drawn_ends,
                         f->ends[RS_ENDS_UP_TO_SIGN], 0.5, err));
    for (int i = 0; i < RS_CONSENSUS_LENGTHS; i++) {
        int n = rs_consensus_lengths[i];
        snprintf(text, sizeof text, "causal attention, W = I, %d tokens: threshold, -(1 + 1/n)/2",
                 n);
        RS_TRY(rs_lab_expect(report, text, -(1 + 1.0 / n) / 2, f->attention[i], 0.01, err));
    }
    return RS_OK;
}

static rs_status write_up(rs_lab_report *report, const rs_consensus_findings *f, rs_error *err)
{
    rs_table *table = NULL;
    RS_TRY(rs_lab_curves_open(&table, report, &curves, err));
    for (int i = 0; i < f->rates; i++)
        RS_TRY(rs_lab_curves_add(table, "growth a layer, M of any signs", f->predicted_rate[i],
                                 f->rate[i], err));
    for (int i = 0; i < f->thresholds; i++)
        RS_TRY(rs_lab_curves_add(table, "minus the threshold, M >= 0", -f->predicted_threshold[i],
                                 -f->threshold[i], err));
    RS_TRY(claim_given(report, f, err));
    return claim_others(report, f, err);
}

static rs_status run_consensus_threshold(rs_lab_report *report, const rs_lab_options *options,
                                         const rs_context *context, rs_error *err)
{
    rs_consensus_findings f = {.rates = options->quick ? 12 : RS_CONSENSUS_RATES,
                               .thresholds = options->quick ? 6 : RS_CONSENSUS_THRESHOLDS,
                               .drawn_ends = options->quick ? 6 : 40};
    RS_TRY(rs_consensus_given(&f, context, err));
    RS_TRY(selective_systems(&f, context, err));
    RS_TRY(attention_thresholds(&f, context, err));
    RS_TRY(write_up(report, &f, err));
    return options->quick ? rs_lab_say_quick(report, "36 drawn systems instead of 220", err)
                          : RS_OK;
}

const rs_lab_experiment rs_lab_consensus_threshold = {
    "consensus-threshold",
    "When equal tokens attract",
    "Arangath Joseph et al. 2025, skip strengths; docs/theory/signal.md, 7",
    "Drawn mixing matrices under a norm and a skip: the multipliers (skip + w m_ii)/(skip + w s_i) "
    "predict how fast nearly equal tokens come together or part, the threshold between the two, "
    "and "
    "with the signs of skip + w s_i whether they end equal, equal up to sign, or apart; no skip >= "
    "0 "
    "repels where M >= 0. The criterion behind the examples of Arangath Joseph, Sieber, Zeilinger, "
    "Amo Alonso, ICLR 2025 (arXiv 2410.10609).",
    run_consensus_threshold,
    "2 s",
    "< 1 s",
    &table_kind,
    0};
