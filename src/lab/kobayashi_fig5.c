/*
 * kobayashi_fig5.c: figure 5 of Kobayashi, Akram, von Oswald (NeurIPS 2024, arXiv 2410.23819): where
 * AdamW and Adam with coupled L2 of strength decay eps end, of two weights and of their factors. The
 * paper's line, eps and decay are not at hand; the line here is w1 + 2 w2 = 2. And what gradients
 * with noise make of the strength (docs/theory/weight_decay.md, 4 to 6).
 */
#include "lab/kobayashi_line.h"
#include "lab/toy.h"

#include "base/memory.h"

#include <math.h>
#include <stdio.h>

enum {
    SETTINGS = RS_LINE_SETTINGS,
    PANELS = RS_LINE_PANELS,
    KINDS = 2,
    RUNS = SETTINGS * KINDS,
    NOISES = 6,
    WEIGHTS = 1024,
    QUICK_WEIGHTS = 128
};
static const rs_optimiser_kind kinds[KINDS] = {RS_OPTIMISER_ADAMW, RS_OPTIMISER_ADAM};
static const char *const kind_names[KINDS] = {"AdamW", "Adam + L2"}, *const panel_names[PANELS] = {
                                                                         "direct", "factored"};

/* Fixed points of the exact equations, by tests/oracle/make_kobayashi_golden.py in 40 digits. */
static const double fixed[SETTINGS][PANELS][KINDS][2] = {
    {{{0.41082736520149869, 0.78923096270849986}, {0.39800995024875622, 0.79601990049751244}},
     {{0, 0.99305823733266616}, {0, 0.99375}}},
    {{{0.39142686601924912, 0.7533650018733126}, {0.38095238095238095, 0.7619047619047619}},
     {{0, 0.93082615348500434}, {0, 0.9375}}},
    {{{0.33748274273160432, 0.57751483946738159}, {0.32, 0.64}},
     {{0, 0.51311765675244282}, {0, 0.6875}}},
    {{{0.47784867099270911, 0.64668146390350755}, {0.38095238095238095, 0.7619047619047619}},
     {{0.28566398796909657, 0.5886537132530485}, {0, 0.9375}}},
    {{{0.55003213560080166, 0.70970417060109007}, {0.39800995024875622, 0.79601990049751244}},
     {{0.48240135627220688, 0.71787593433505536}, {0, 0.99375}}},
};

/* Noise, and the strength it should make: decay (sqrt(E g^2) + eps), by the same program, with its
 * deviation over weights (two: of a line). */
static const struct {
    rs_line_noise of;
    double strength[2], deviation[2];
} noises[NOISES] = {
    {{false, 0.5, {1e-8, 0.1}}, {0.0502282128058, 0}, {0.008, 0}},
    {{false, 2, {1e-8, 0.1}}, {0.20069726862, 0}, {0.0332, 0}},
    {{false, 0.5, {1e-8, 0.5}}, {0.271890150823, 0}, {0.0097, 0}},
    {{false, 2, {1e-8, 0.5}}, {1.03173030726, 0}, {0.0584, 0}},
    {{true, 0.5, {0.1, 1}}, {0.64406849634, 0.758818726842}, {0.0215, 0.0124}},
    {{true, 2, {0.1, 1}}, {2.14426000736, 2.27163438698}, {0.150, 0.0766}},
};

typedef struct ended {
    rs_line_path path[SETTINGS][KINDS];
    rs_line_strength strength[NOISES];
    int starts, weights;
} ended;

/* ---- runs ---- */

static rs_status run_all(ended *e, const rs_context *context, rs_error *err)
{
    rs_status status = RS_OK;
    rs_error first = {0};
    RS_TRY(rs_check_cancelled(context, err));
#pragma omp parallel for num_threads(context->threads) schedule(dynamic)
    for (int i = 0; i < RUNS + NOISES; i++) {
        rs_error own;
        int run = i - NOISES;
        rs_status made = run < 0 ? rs_line_run_noise(&e->strength[i], &noises[i].of, e->weights,
                                                     (uint64_t)i, context, &own)
                                 : rs_line_run(&e->path[run / KINDS][run % KINDS],
                                               &rs_line_settings[run / KINDS], kinds[run % KINDS],
                                               e->starts, context, &own);
        if (made != RS_OK) rs_keep_first(&status, &first, made, &own);
    }
    if (status != RS_OK && err) *err = first;
    return status;
}

/* ---- claims: where they end ---- */

/* Behind the steps of the table, from the first start. */
static rs_status claim_ends(rs_lab_report *report, const ended *e, int panel, int kind,
                            rs_error *err)
{
    for (int s = 0; s < SETTINGS; s++)
        for (int i = 0; i < 2; i++) {
            char text[120];
            double expected = fixed[s][panel][kind][i];
            snprintf(text, sizeof text, "eps %g, decay %g, %s, %s: w%d, step 60000",
                     rs_line_settings[s].eps, rs_line_settings[s].decay, panel_names[panel],
                     kind_names[kind], i + 1);
            /* the caption: AdamW ends where Adam with L2 does, at the sparse point */
            bool sparse = panel == RS_LINE_FACTORED && kind == 0 && i == 0;
            const rs_lab_claim claim = {text,
                                        sparse ? 0 : (double)NAN,
                                        expected,
                                        e->path[s][kind].w[panel][RS_LINE_TABLE][0][i],
                                        expected == 0 ? 1e-9 : 1e-4,
                                        false,
                                        false};
            RS_TRY(rs_lab_add_claim(report, &claim, err));
        }
    return RS_OK;
}

/* On the way, where the ends do not yet hide how it was taken: by the same program. */
static rs_status claim_early(rs_lab_report *report, const ended *e, rs_error *err)
{
    static const double early[PANELS][KINDS] = {{0.8496622681045, 0.8994870012686},
                                                {0.7714307046808, 0.8072891995379}};
    for (int panel = 0; panel < PANELS; panel++)
        for (int kind = 0; kind < KINDS; kind++) {
            char text[120];
            snprintf(text, sizeof text, "eps %g, decay %g, %s, %s: w1, step 300",
                     rs_line_settings[0].eps, rs_line_settings[0].decay, panel_names[panel],
                     kind_names[kind]);
            RS_TRY(rs_lab_expect(report, text, early[panel][kind],
                                 e->path[0][kind].w[panel][RS_LINE_EARLY][0][0], 1e-10, err));
        }
    return RS_OK;
}

/* Roots by Newton's method from where runs end: how far those are from them, and they from the
 * digits; and what is left of the equation. */
typedef struct newton_found {
    double ends, digits, left;
} newton_found;

static void see_newton(newton_found *n, const ended *e, int panel, int kind)
{
    for (int s = 0; s < SETTINGS; s++) {
        const rs_line_equation equation = {rs_line_settings[s], kinds[kind], panel, 1};
        double theta[4], w[2];
        for (int i = 0; i < 4; i++)
            theta[i] = e->path[s][kind].theta[panel][i];
        n->left = fmax(n->left, rs_line_newton(theta, &equation));
        rs_line_weights(w, theta, panel);
        for (int i = 0; i < 2; i++) {
            n->digits = fmax(n->digits, fabs(w[i] - fixed[s][panel][kind][i]));
            for (int k = 0; k < e->starts; k++)
                n->ends = fmax(n->ends, fabs(w[i] - e->path[s][kind].w[panel][RS_LINE_LAST][k][i]));
        }
    }
}

static rs_status claim_newton(rs_lab_report *report, const ended *e, rs_error *err)
{
    for (int panel = 0; panel < PANELS; panel++)
        for (int kind = 0; kind < KINDS; kind++) {
            newton_found n = {0};
            char text[120];
            see_newton(&n, e, panel, kind);
            snprintf(text, sizeof text, "%s, %s: step 120000 to Newton's root, all starts",
                     panel_names[panel], kind_names[kind]);
            RS_TRY(rs_lab_at_most(report, text, n.ends, 1e-9, err));
            snprintf(text, sizeof text, "%s, %s: Newton's roots to 40 digits' ones",
                     panel_names[panel], kind_names[kind]);
            RS_TRY(rs_lab_at_most(report, text, n.digits, 1e-13, err));
            snprintf(text, sizeof text, "%s, %s: what Newton leaves of the equation",
                     panel_names[panel], kind_names[kind]);
            RS_TRY(rs_lab_at_most(report, text, n.left, 1e-15, err));
        }
    return RS_OK;
}

/* The fixed points of half the squared distance: how far the farthest is from the table. */
static double half_distance(void)
{
    double worst = 0;
    for (int s = 0; s < SETTINGS; s++)
        for (int kind = 0; kind < KINDS; kind++) {
            const rs_line_equation half = {rs_line_settings[s], kinds[kind], RS_LINE_DIRECT, 0.5};
            double w[2] = {fixed[s][RS_LINE_DIRECT][kind][0], fixed[s][RS_LINE_DIRECT][kind][1]};
            rs_line_newton(w, &half);
            for (int i = 0; i < 2; i++)
                worst = fmax(worst, fabs(w[i] - fixed[s][RS_LINE_DIRECT][kind][i]));
        }
    return worst;
}

/* Whether factored AdamW ends sparse just where decay sqrt(w2) < 1/2 at the sparse root. */
static rs_status claim_sparse(rs_lab_report *report, const ended *e, rs_error *err)
{
    double wrong = 0, sparse = 0;
    for (int s = 0; s < SETTINGS; s++) {
        const rs_line_equation equation = {rs_line_settings[s], RS_OPTIMISER_ADAMW,
                                           RS_LINE_FACTORED, 1};
        double theta[4] = {0, 0.9, 0, 0.9};
        rs_line_newton(theta, &equation);
        bool predicted = rs_line_settings[s].decay * theta[1] < 0.5; /* theta[1] = sqrt(w2) */
        for (int k = 0; k < e->starts; k++)
            wrong += predicted != (e->path[s][0].w[RS_LINE_FACTORED][RS_LINE_LAST][k][0] < 1e-9);
        sparse += predicted;
    }
    RS_TRY(rs_lab_at_most(report, "factored AdamW: ends that decay sqrt(w2) < 1/2 tells wrong",
                          wrong, 0, err));
    RS_TRY(rs_lab_compute(report, "settings where decay sqrt(w2) < 1/2 at the sparse root", 3,
                          sparse, 0.5, err));
    return rs_lab_compute(report, "half the squared distance: its ends, farthest from the table",
                          8.0 / 75, half_distance(), 1e-12, err);
}

/* ---- claims: noise ---- */

static rs_status claim_noise(rs_lab_report *report, const ended *e, rs_error *err)
{
    for (int k = 0; k < NOISES; k++)
        for (int i = 0; i < (noises[k].of.line ? 2 : 1); i++) {
            char text[120];
            double expected = noises[k].strength[i];
            snprintf(text, sizeof text, "noise %g, decay %g, eps %g%s: strength of L2",
                     noises[k].of.noise, noises[k].of.setting.decay, noises[k].of.setting.eps,
                     !noises[k].of.line ? ""
                     : i                ? ", line, w2"
                                        : ", line, w1");
            RS_TRY(rs_lab_expect(report, text, expected, e->strength[k].of[i],
                                 0.02 * expected + 4 * noises[k].deviation[i] / sqrt(e->weights),
                                 err));
        }
    for (int k = 0; k < 4; k += 2) {
        const rs_line_strength *low = &e->strength[k], *high = &e->strength[k + 1];
        char text[120];
        snprintf(text, sizeof text, "decay %g: noise 2 makes more strength than noise 0.5, by",
                 noises[k].of.setting.decay);
        RS_TRY(rs_lab_order(report, text, high->of[0] - low->of[0], hypot(high->error, low->error),
                            err));
    }
    return RS_OK;
}

/* ---- the figure ---- */

static const rs_column point_columns[] =
    RS_LAB_POINTS(RS_LAB_X_WHOLE("step", "step", "steps that were made"),
                  RS_LAB_Y("w1", "w1", "the weight that a sparse solution has at 0"));
static const rs_table_kind table_kind = {"lab", "kobayashi_fig5", {RS_PART(point_columns)}};
static const rs_lab_curves curves = {
    .kind = &table_kind,
    .title = "AdamW beside Adam with L2",
    .about =
        "The first weight by step, of two weights near the line w1 + 2 w2 = 2 (direct) and of "
        "their factors w = a b (factored), eps 0.1. At a decay of 0.1 AdamW ends about where "
        "Adam with L2 of strength decay eps does, at a decay of 1 it does not, and the factored "
        "one is not sparse.",
    .log_x = true,
    .log_y = true,
    .y_floor = 1e-12,
};

static rs_status draw(rs_lab_report *report, const ended *e, rs_error *err)
{
    static const int shown[2] = {0, 3}; /* decays 0.1 and 1 */
    rs_table *table = NULL;
    RS_TRY(rs_lab_curves_open(&table, report, &curves, err));
    for (int s = 0; s < 2; s++)
        for (int panel = 0; panel < PANELS; panel++)
            for (int kind = 0; kind < KINDS; kind++) {
                char series[64];
                snprintf(series, sizeof series, "%s, %s, decay %g", panel_names[panel],
                         kind_names[kind], rs_line_settings[shown[s]].decay);
                for (int k = 0; k < RS_LINE_SHOWN; k++)
                    RS_TRY(rs_lab_curves_add(table, series, rs_line_steps[k],
                                             e->path[shown[s]][kind].w[panel][k][0][0], err));
            }
    return RS_OK;
}

/* ---- the whole ---- */

static rs_status write_up(rs_lab_report *report, const ended *e, rs_error *err)
{
    RS_TRY(draw(report, e, err));
    for (int panel = 0; panel < PANELS; panel++)
        for (int kind = 0; kind < KINDS; kind++)
            RS_TRY(claim_ends(report, e, panel, kind, err));
    RS_TRY(claim_early(report, e, err));
    RS_TRY(claim_newton(report, e, err));
    RS_TRY(claim_sparse(report, e, err));
    return claim_noise(report, e, err);
}

static rs_status run_kobayashi_fig5(rs_lab_report *report, const rs_lab_options *options,
                                    const rs_context *context, rs_error *err)
{
    ended *e = rs_calloc(1, sizeof *e);
    if (!e) return rs_fail_memory(err, "an experiment", sizeof *e);
    e->starts = options->quick ? 2 : RS_LINE_MOST_STARTS;
    e->weights = options->quick ? QUICK_WEIGHTS : WEIGHTS;
    rs_status status = run_all(e, context, err);
    if (status == RS_OK) status = write_up(report, e, err);
    rs_free(e);
    if (status != RS_OK || !options->quick) return status;
    return rs_lab_say_quick(report, "2 starts instead of 8, 128 noisy weights instead of 1024",
                            err);
}

const rs_lab_experiment rs_lab_kobayashi_fig5 = {
    "kobayashi-fig5",
    "AdamW beside Adam with L2",
    "Kobayashi et al. 2024, figure 5",
    "Two weights and their squared distance from a line, direct and as products of factors, under "
    "AdamW and under Adam with coupled L2 of strength decay eps: where both end, which is one "
    "point to first order in decay |weight| alone, and the strength that noise in gradients makes. "
    "After Kobayashi, Akram, von Oswald, NeurIPS 2024 (arXiv 2410.23819).",
    run_kobayashi_fig5,
    "4 s",
    "1 s",
    &table_kind,
    0};
