/*
 * kobayashi_fig1.c: figure 1 of Kobayashi, Akram, von Oswald (NeurIPS 2024, arXiv 2410.23819): weight
 * decay on two 5 by 5 factors under gradient descent, in both conventions of the loss, since the one
 * that the caption prints is not the one that its threshold belongs to (docs/theory/weight_decay.md,
 * 1 to 3).
 */
#include "lab/kobayashi_factors.h"
#include "lab/toy.h"

#include "base/memory.h"
#include "base/sort.h"

#include <math.h>
#include <stdio.h>

enum {
    N = RS_FACTORS_N,
    DRAWS = 64,
    QUICK_DRAWS = 16,
    LOSSES = 2,   /* c = 1 and c = 1/2 */
    DECAYS = 8,   /* of the panel of singular values, beside 0 */
    FITTED = 4,   /* of the panels over time */
    CRITICAL = 5, /* decays with a mode on the threshold, of either loss */
    EARLY = 300,
    PUBLISHED = 1000, /* steps of the paper's panel */
    LATE = 1500,
    WITHOUT = 5000 /* steps where there is no decay: some draws leave a saddle late */
};

static const double factor_c[LOSSES] = {1, 0.5}, rate = 0.1, slow_rate = 0.02;
static const char *const loss_names[LOSSES] = {"c = 1", "c = 1/2"};
static const double decays[DECAYS] = {0.2, 0.4, 0.6, 0.8, 1, 1.2, 1.6, 2};
static const double fitted[FITTED] = {0.1, 0.2, 0.4, 0.8};

/* What one draw shows, by loss. */
typedef struct shown {
    double published[LOSSES], late[LOSSES]; /* largest distance from the soft threshold */
    double without[LOSSES], kept[LOSSES];   /* no decay: distance from D; |Q| behind over before */
    double law[LOSSES];                     /* at the threshold: s over what 1/s says, less 1 */
    double slope[LOSSES][CRITICAL];         /* of 1/s over 4c rate */
    double half;                            /* c = 1, decay d: s/d that is farthest from 1/2 */
    double vanishes[LOSSES];                /* decay at which the largest mode would vanish */
    double pairing;                         /* (|A|^2 + |B|^2)/|A B^T|_* that is farthest from 2 */
    double identity;                        /* of the balance law, per entry */
    double imbalance[LOSSES][FITTED];       /* slope of ln|Q| over ln(1 - 2 rate decay), less 1 */
    double ratio[LOSSES][FITTED];           /* slope of ln gap over that of ln|Q| */
} shown;

static double farther(double kept, double value, double from)
{
    return isnan(kept) || fabs(value - from) > fabs(kept - from) ? value : kept;
}

/* ---- one draw ---- */

static rs_factors start_of(int loss, double decay, double step, uint64_t seed, uint64_t draw)
{
    rs_factors f = {.c = factor_c[loss], .decay = decay, .rate = step};
    rs_factors_draw(&f, seed, draw);
    return f;
}

/* Distance of the modes that lie strictly off the threshold from what it leaves of them. */
static double off_threshold(const rs_factors *f, const rs_factors_seen *seen)
{
    double worst = 0;
    for (int i = 0; i < N; i++)
        if (!rs_factors_critical(f->c, f->decay, i))
            worst = fmax(worst, fabs(seen->sigma[i] - rs_factors_soft(f->c, f->decay, i)));
    return worst;
}

/* 1/s grows by 4c rate a step. */
static void at_threshold(shown *s, int loss, const rs_factors *f, const rs_factors_seen *early,
                         const rs_factors_seen *published, int *critical)
{
    double grown = 4 * f->c * f->rate * (PUBLISHED - EARLY);
    for (int i = 0; i < N; i++) {
        if (!rs_factors_critical(f->c, f->decay, i)) continue;
        double before = 1 / early->sigma[i], after = 1 / published->sigma[i];
        s->law[loss] = farther(s->law[loss], (before + grown) / after - 1, 0);
        s->slope[loss][(*critical)++] = (after - before) / grown;
    }
}

/* The line through the largest singular value at two decays ends there. */
static double zero_of(const double at[2], const double sigma[2])
{
    return at[0] + sigma[0] * (at[1] - at[0]) / (sigma[0] - sigma[1]);
}

static rs_status see_decays(shown *s, int loss, uint64_t seed, uint64_t draw, rs_error *err)
{
    enum { FIRST = 0, SECOND = 3 }; /* decays 0.2 and 0.8: the largest mode of both losses lives */
    const double at[2] = {decays[FIRST], decays[SECOND]};
    double largest[2] = {0, 0};
    int critical = 0;
    for (int k = 0; k < DECAYS; k++) {
        rs_factors f = start_of(loss, decays[k], rate, seed, draw);
        rs_factors_seen early, published, late;
        rs_factors_run(&f, EARLY);
        RS_TRY(rs_factors_see(&early, &f, err));
        rs_factors_run(&f, PUBLISHED - EARLY);
        RS_TRY(rs_factors_see(&published, &f, err));
        rs_factors_run(&f, LATE - PUBLISHED);
        RS_TRY(rs_factors_see(&late, &f, err));
        s->published[loss] = fmax(s->published[loss], off_threshold(&f, &published));
        s->late[loss] = fmax(s->late[loss], off_threshold(&f, &late));
        at_threshold(s, loss, &f, &early, &published, &critical);
        if (k == FIRST) largest[0] = published.sigma[0];
        if (k == SECOND) largest[1] = published.sigma[0];
        if (k == FIRST) s->pairing = farther(s->pairing, late.norms / late.nuclear, 2);
        for (int i = 0; i < N && loss == 0; i++)
            if (decays[k] == rs_factors_target[i])
                s->half = farther(s->half, late.sigma[i] / rs_factors_target[i], 0.5);
    }
    s->vanishes[loss] = zero_of(at, largest);
    return RS_OK;
}

static rs_status see_without(shown *s, int loss, uint64_t seed, uint64_t draw, rs_error *err)
{
    rs_factors f = start_of(loss, 0, rate, seed, draw);
    rs_factors_seen before, after;
    RS_TRY(rs_factors_see(&before, &f, err));
    rs_factors_run(&f, PUBLISHED);
    RS_TRY(rs_factors_see(&after, &f, err));
    s->kept[loss] = after.imbalance / before.imbalance;
    rs_factors_run(&f, WITHOUT - PUBLISHED);
    RS_TRY(rs_factors_see(&after, &f, err));
    s->without[loss] = off_threshold(&f, &after);
    return RS_OK;
}

static double predicted_slope(double decay)
{
    return log(1 - 2 * slow_rate * decay);
}

static rs_status see_slopes(shown *s, int loss, uint64_t seed, uint64_t draw, rs_error *err)
{
    enum { CHECKED = 200 };
    for (int k = 0; k < FITTED; k++) {
        rs_factors f = start_of(loss, fitted[k], slow_rate, seed, draw);
        rs_factors_slopes slopes;
        RS_TRY(rs_factors_fit(&slopes, &f, err));
        s->imbalance[loss][k] = slopes.imbalance / predicted_slope(fitted[k]) - 1;
        s->ratio[loss][k] = slopes.gap / slopes.imbalance;
    }
    rs_factors f = start_of(loss, fitted[FITTED - 1], slow_rate, seed, draw);
    for (int t = 0; t < CHECKED; t++)
        s->identity = fmax(s->identity, rs_factors_step_balance(&f));
    return RS_OK;
}

static rs_status see_draw(shown *s, uint64_t seed, uint64_t draw, rs_error *err)
{
    *s = (shown){.half = NAN, .pairing = NAN, .law = {NAN, NAN}};
    for (int loss = 0; loss < LOSSES; loss++) {
        RS_TRY(see_decays(s, loss, seed, draw, err));
        RS_TRY(see_without(s, loss, seed, draw, err));
        RS_TRY(see_slopes(s, loss, seed, draw, err));
    }
    return RS_OK;
}

static rs_status see_draws(shown *all, int draws, const rs_context *context, rs_error *err)
{
    rs_status status = RS_OK;
    rs_error first = {0};
    RS_TRY(rs_check_cancelled(context, err));
#pragma omp parallel for num_threads(context->threads) schedule(dynamic)
    for (int draw = 0; draw < draws; draw++) {
        rs_error own;
        rs_status made = rs_check_cancelled(context, &own);
        if (made == RS_OK) made = see_draw(&all[draw], context->seed, (uint64_t)draw, &own);
        if (made != RS_OK) rs_keep_first(&status, &first, made, &own);
    }
    if (status != RS_OK && err) *err = first;
    return status;
}

/* ---- over draws ---- */

/* The draws, and room for a number of each. */
typedef struct draws_seen {
    const shown *all;
    int n;
    double *values; /* [n * CRITICAL] */
} draws_seen;

static double median(double *values, int n)
{
    rs_sort_doubles(values, n);
    return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

/* `at` is a member of the first draw. */
static double median_of(const draws_seen *d, const double *at)
{
    ptrdiff_t offset = (const char *)at - (const char *)d->all;
    for (int i = 0; i < d->n; i++)
        d->values[i] = *(const double *)((const char *)&d->all[i] + offset);
    return median(d->values, d->n);
}

static double farthest(const draws_seen *d, const double *at, double from)
{
    ptrdiff_t offset = (const char *)at - (const char *)d->all;
    double kept = NAN;
    for (int i = 0; i < d->n; i++)
        kept = farther(kept, *(const double *)((const char *)&d->all[i] + offset), from);
    return kept;
}

static double largest_of(const draws_seen *d, const double *at)
{
    return fabs(farthest(d, at, 0));
}

/* ---- claims ---- */

/* Over 4000 draws of tests/oracle/make_kobayashi_golden.py: medians and deviations of the slope of
 * ln gap over that of ln|Q|, and of what no decay leaves of |Q|. */
static const double ratio_expected[LOSSES][FITTED] = {{1.9606, 1.9971, 1.9847, 1.5378},
                                                      {1.9426, 1.9657, 1.6306, 1.3037}};
static const double ratio_deviation[LOSSES][FITTED] = {{0.0482, 0.0162, 0.029, 0.137},
                                                       {0.065, 0.0529, 0.1369, 0.0993}};
static const double kept_expected[LOSSES] = {0.9091, 0.9649},
                    kept_deviation[LOSSES] = {0.06, 0.0187};
enum { OTHER_DRAWS = 4000 };

/* A median of n numbers errs by 1.25 deviation/sqrt(n); four of that, the other program's too. */
static double median_tolerance(double deviation, int n)
{
    return 4 * 1.2533 * deviation * sqrt(1 / (double)n + 1.0 / OTHER_DRAWS);
}

static rs_status claim_published(rs_lab_report *report, const char *text, double published,
                                 double expected, double measured, double tolerance, rs_error *err)
{
    const rs_lab_claim claim = {text, published, expected, measured, tolerance, false, false};
    return rs_lab_add_claim(report, &claim, err);
}

static rs_status claim_modes(rs_lab_report *report, const draws_seen *d, int loss, rs_error *err)
{
    const shown *s = d->all;
    char text[160];
    snprintf(text, sizeof text, "%s: modes off the threshold, step 1000: distance, median draw",
             loss_names[loss]);
    RS_TRY(rs_lab_at_most(report, text, median_of(d, &s->published[loss]), 1e-12, err));
    snprintf(text, sizeof text, "%s: modes off the threshold, step 1500: largest distance",
             loss_names[loss]);
    RS_TRY(rs_lab_at_most(report, text, largest_of(d, &s->late[loss]), 1e-12, err));
    snprintf(text, sizeof text, "%s: mode on it, step 1000: s over 1/(1/s0 + 4c t), less 1",
             loss_names[loss]);
    RS_TRY(rs_lab_at_most(report, text, largest_of(d, &s->law[loss]), 0.05, err));
    int n = 0;
    for (int i = 0; i < d->n; i++)
        for (int k = 0; k < CRITICAL; k++)
            d->values[n++] = s[i].slope[loss][k];
    snprintf(text, sizeof text, "%s: mode on it: slope of 1/s over 4c, median", loss_names[loss]);
    RS_TRY(rs_lab_expect(report, text, 1, median(d->values, n), 0.05, err));
    snprintf(text, sizeof text, "%s: no decay, step 5000: largest distance from D",
             loss_names[loss]);
    RS_TRY(rs_lab_at_most(report, text, largest_of(d, &s->without[loss]), 1e-12, err));
    snprintf(text, sizeof text, "%s: no decay: |Q| of step 1000 over that of step 0, median",
             loss_names[loss]);
    return rs_lab_expect(report, text, kept_expected[loss], median_of(d, &s->kept[loss]),
                         median_tolerance(kept_deviation[loss], d->n), err);
}

/* The caption: a singular value vanishes once the decay reaches it. */
static rs_status claim_caption(rs_lab_report *report, const draws_seen *d, rs_error *err)
{
    const shown *s = d->all;
    RS_TRY(claim_published(report, "c = 1, as printed: decay at which the mode d = 1 vanishes", 1,
                           2, farthest(d, &s->vanishes[0], 2), 1e-9, err));
    RS_TRY(claim_published(report, "c = 1, as printed: share of a mode that a decay of d leaves", 0,
                           0.5, farthest(d, &s->half, 0.5), 1e-9, err));
    RS_TRY(claim_published(report, "c = 1/2: decay at which the mode d = 1 vanishes", 1, 1,
                           farthest(d, &s->vanishes[1], 1), 1e-9, err));
    return claim_published(report,
                           "(|A|^2 + |B|^2)/|A B'|_* at the end: the abstract pairs the two", 1, 2,
                           farthest(d, &s->pairing, 2), 1e-9, err);
}

/* What a step leaves of the part of Q that belongs to a mode below the threshold. */
static double dead_factor(int loss, double decay, double target)
{
    double keeps = 1 - slow_rate * decay, moves = 2 * factor_c[loss] * slow_rate * target;
    return keeps * keeps - moves * moves;
}

/* Modes strictly below the threshold have a law of their own, between which and the others' |Q| lies:
 * docs/theory/weight_decay.md, 2. Its relative distance from ln(1 - 2 rate decay). */
static double dead_distance(int loss, double decay)
{
    double dead = rs_factors_least_dead(factor_c[loss], decay);
    return fabs(log(dead_factor(loss, decay, dead)) / predicted_slope(decay) - 1);
}

/* The dead mode alone, all others at 0: what a step leaves of |Q| once its singular value is gone. */
static rs_status claim_dead(rs_lab_report *report, int loss, rs_error *err)
{
    enum { STEPS = 800, LAST = N * N - 1 };
    const double decay = fitted[FITTED - 1];
    rs_factors f = {.c = factor_c[loss], .decay = decay, .rate = slow_rate};
    rs_factors_seen before, after;
    char text[120];
    f.a[LAST] = 0.5;
    f.b[LAST] = 0.3;
    rs_factors_run(&f, STEPS);
    RS_TRY(rs_factors_see(&before, &f, err));
    rs_factors_run(&f, 1);
    RS_TRY(rs_factors_see(&after, &f, err));
    snprintf(text, sizeof text, "%s, decay %g, the dead mode alone: |Q| over that a step before",
             loss_names[loss], decay);
    return rs_lab_expect(report, text, dead_factor(loss, decay, rs_factors_target[N - 1]),
                         after.imbalance / before.imbalance, 1e-9, err);
}

static rs_status claim_slopes(rs_lab_report *report, const draws_seen *d, int loss, rs_error *err)
{
    const shown *s = d->all;
    char text[160];
    for (int k = 0; k < FITTED; k++) {
        bool dead = !isnan(rs_factors_least_dead(factor_c[loss], fitted[k]));
        snprintf(text, sizeof text,
                 dead ? "%s, decay %g, dead modes: slope of ln|Q|: no farther than theirs"
                      : "%s, decay %g: slope of ln|Q| over ln(1 - 2 rate decay), less 1",
                 loss_names[loss], fitted[k]);
        RS_TRY(rs_lab_at_most(report, text, largest_of(d, &s->imbalance[loss][k]),
                              dead ? dead_distance(loss, fitted[k]) : 1e-3, err));
    }
    for (int k = 0; k < FITTED; k++) {
        snprintf(text, sizeof text, "%s, decay %g: slope of ln gap over that of ln|Q|, median",
                 loss_names[loss], fitted[k]);
        RS_TRY(rs_lab_expect(report, text, ratio_expected[loss][k],
                             median_of(d, &s->ratio[loss][k]),
                             median_tolerance(ratio_deviation[loss][k], d->n), err));
    }
    return RS_OK;
}

static rs_status claim_draws(rs_lab_report *report, const draws_seen *d, rs_error *err)
{
    for (int loss = 0; loss < LOSSES; loss++)
        RS_TRY(claim_modes(report, d, loss, err));
    RS_TRY(claim_caption(report, d, err));
    RS_TRY(rs_lab_at_most(report, "Q' = (1 - 2 rate decay)Q + rate^2(dA'dA - dB'dB): per entry",
                          largest_of(d, &d->all->identity), 1e-13, err));
    for (int loss = 0; loss < LOSSES; loss++)
        RS_TRY(claim_dead(report, loss, err));
    for (int loss = 0; loss < LOSSES; loss++)
        RS_TRY(claim_slopes(report, d, loss, err));
    return RS_OK;
}

/* ---- the instance from a hash: its digits, and what is drawn ---- */

static const rs_column sigma_columns[] = RS_LAB_POINTS(
    RS_LAB_X("decay", "decay", "lambda in c|A B'-D|^2 + (lambda/2)(|A|^2 + |B|^2)"),
    RS_LAB_Y("singular_value", "singular value", "of A B' behind 1000 steps of rate 0.1"));
static const rs_table_kind table_kind = {"lab", "kobayashi_fig1", {RS_PART(sigma_columns)}};
static const rs_lab_curves sigma_curves = {
    .kind = &table_kind,
    .title = "Singular values by decay",
    .about =
        "Singular values of A B' behind 1000 steps, by decay, with the loss as the caption of "
        "figure 1 prints it (c = 1: a mode d vanishes at a decay of 2d) and with half of it (c = "
        "1/2: at d, as the caption says). A mode that is gone has no point.",
    .log_y = true,
    .y_floor = 1e-4,
};

static const rs_column balance_columns[] =
    RS_LAB_POINTS(RS_LAB_X_WHOLE("step", "step", "steps of rate 0.02 that were made"),
                  RS_LAB_Y("value", "|Q| or gap",
                           "|A'A - B'B|_F, or (|A|^2 + |B|^2)/2 - |A B'|_*: as series says"));
const rs_table_kind rs_lab_kobayashi_balance_kind = {
    "lab", "kobayashi_fig1_balance", {RS_PART(balance_columns)}};
static const rs_lab_curves balance_curves = {
    .kind = &rs_lab_kobayashi_balance_kind,
    .title = "Balance by step",
    .about = "How the factors balance (|Q|) and the loss merges with that of the nuclear norm "
             "(gap), by step and decay, c = 1. Without decay neither converges.",
    .log_y = true,
    .y_floor = 1e-13,
};

static rs_factors instance_of(int loss, double decay, double step)
{
    rs_factors f = {.c = factor_c[loss], .decay = decay, .rate = step};
    rs_factors_hash(&f);
    return f;
}

/* Modes d = 1, 0.6 and 0.2 are drawn. */
static rs_status draw_sigma(rs_lab_report *report, double sigma[LOSSES][DECAYS + 1][N],
                            rs_error *err)
{
    rs_table *table = NULL;
    RS_TRY(rs_lab_curves_open(&table, report, &sigma_curves, err));
    for (int loss = 0; loss < LOSSES; loss++)
        for (int i = 0; i < N; i += 2) {
            char series[48];
            snprintf(series, sizeof series, "%s, d = %g", loss_names[loss], rs_factors_target[i]);
            for (int k = 0; k <= DECAYS; k++)
                RS_TRY(rs_lab_curves_add(table, series, k ? decays[k - 1] : 0, sigma[loss][k][i],
                                         err));
        }
    return RS_OK;
}

static rs_status see_sigma(rs_lab_report *report, rs_error *err)
{
    double sigma[LOSSES][DECAYS + 1][N];
    rs_factors_seen seen;
    for (int loss = 0; loss < LOSSES; loss++)
        for (int k = 0; k <= DECAYS; k++) {
            rs_factors f = instance_of(loss, k ? decays[k - 1] : 0, rate);
            rs_factors_run(&f, PUBLISHED);
            RS_TRY(rs_factors_see(&seen, &f, err));
            for (int i = 0; i < N; i++)
                sigma[loss][k][i] = seen.sigma[i];
        }
    RS_TRY(draw_sigma(report, sigma, err));
    /* tests/oracle/make_kobayashi_golden.py */
    RS_TRY(rs_lab_expect(report, "from a hash, c = 1, decay 0.4, step 1000: mode d = 0.2, on it",
                         0.002456176435934, sigma[0][2][4], 1e-12, err));
    return rs_lab_expect(report, "from a hash, c = 1/2, decay 0.6, step 1000: mode d = 0.6, on it",
                         0.0048464628189135, sigma[1][3][2], 1e-12, err);
}

static rs_status draw_balance(rs_table *table, bool gap, double decay, rs_error *err)
{
    enum { STEPS = 900, EVERY = 20 };
    rs_factors f = instance_of(0, decay, slow_rate);
    char series[48];
    snprintf(series, sizeof series, "%s, decay %g", gap ? "gap" : "|Q|", decay);
    for (int t = 0; t <= STEPS; t += EVERY) {
        rs_factors_seen seen;
        RS_TRY(rs_factors_see(&seen, &f, err));
        RS_TRY(rs_lab_curves_add(table, series, t, gap ? seen.gap : seen.imbalance, err));
        rs_factors_run(&f, EVERY);
    }
    return RS_OK;
}

/* Of the instance: slopes of ln|Q| and ln gap, step by step. */
static const double instance_slopes[LOSSES][2] = {{-0.01612914861391, -0.032216070809},
                                                  {-0.016128165558253, -0.031453803571}};

static rs_status see_balance(rs_lab_report *report, rs_error *err)
{
    static const double drawn[] = {0, 0.1, 0.4, 0.8};
    rs_table *table = NULL;
    RS_TRY(rs_lab_curves_open(&table, report, &balance_curves, err));
    for (int gap = 0; gap < 2; gap++)
        for (size_t k = 0; k < sizeof drawn / sizeof *drawn; k++)
            RS_TRY(draw_balance(table, gap, drawn[k], err));
    for (int loss = 0; loss < LOSSES; loss++) {
        rs_factors f = instance_of(loss, 0.4, slow_rate);
        rs_factors_slopes slopes;
        char text[120];
        RS_TRY(rs_factors_fit(&slopes, &f, err));
        snprintf(text, sizeof text, "from a hash, %s, decay 0.4: slope of ln|Q| a step",
                 loss_names[loss]);
        RS_TRY(rs_lab_expect(report, text, instance_slopes[loss][0], slopes.imbalance, 1e-11, err));
        snprintf(text, sizeof text, "from a hash, %s, decay 0.4: slope of ln gap a step",
                 loss_names[loss]);
        RS_TRY(rs_lab_expect(report, text, instance_slopes[loss][1], slopes.gap, 2e-6, err));
    }
    return RS_OK;
}

/* ---- the whole ---- */

static rs_status run_draws(rs_lab_report *report, int draws, const rs_context *context,
                           rs_error *err)
{
    shown *all = rs_malloc((size_t)draws, sizeof *all);
    double *values = rs_malloc((size_t)draws * CRITICAL, sizeof *values);
    rs_status status = all && values ? see_draws(all, draws, context, err)
                                     : rs_fail_memory(err, "draws", (size_t)draws * sizeof *all);
    if (status == RS_OK) status = claim_draws(report, &(draws_seen){all, draws, values}, err);
    rs_free(values);
    rs_free(all);
    return status;
}

static rs_status run_kobayashi_fig1(rs_lab_report *report, const rs_lab_options *options,
                                    const rs_context *context, rs_error *err)
{
    RS_TRY(rs_check_cancelled(context, err));
    RS_TRY(see_sigma(report, err));
    RS_TRY(see_balance(report, err));
    RS_TRY(run_draws(report, options->quick ? QUICK_DRAWS : DRAWS, context, err));
    return options->quick ? rs_lab_say_quick(report, "16 draws instead of 64", err) : RS_OK;
}

const rs_lab_experiment rs_lab_kobayashi_fig1 = {
    "kobayashi-fig1",
    "Weight decay on two factors",
    "Kobayashi et al. 2024, figure 1",
    "Gradient descent on c|A B' - D|^2 + (decay/2)(|A|^2 + |B|^2), A and B 5 by 5, for c = 1, "
    "which "
    "the caption prints, and for c = 1/2, which its threshold belongs to: what is left of each "
    "singular value, and how fast the factors balance. After Kobayashi, Akram, von Oswald, NeurIPS "
    "2024 (arXiv 2410.23819).",
    run_kobayashi_fig1,
    "1 s",
    "< 1 s",
    &table_kind,
    0};
