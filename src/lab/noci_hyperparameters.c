/*
 * noci_hyperparameters.c: squared gradients of queries and values of one attention by tokens, width, head
 * width, size and correlation of tokens: lemma 3.2 and its corollary of Noci, Anagnostidis, Biggio,
 * Orvieto, Singh, Lucchi 2022 (arXiv 2206.03126; docs/theory/mean_field.md, 1) against the engine's.
 *
 * W_Q = 0 makes attention uniform exactly, and leaves the law of gQ as it is.
 */
#include "lab/signals.h"

#include "base/memory.h"
#include "predict/closed_forms.h"

#include <math.h>
#include <stdio.h>

enum { SETTINGS = 13, DRAWS = 64, TRIES = 24, TOKENS = 4000, STREAM = 0x68797065, MOST = 16 * 32 };
typedef struct setting {
    int n, d, head;
    double variance, rho;
    bool softmax; /* W_Q is drawn, too */
} setting;
enum { BASE, FEW, SMALL, LARGE, NONE, HALF, NEARLY, TINY, UNIT, WIDE };
static const setting settings[SETTINGS] = {
    [BASE] = {8, 16, 16, 1, 0.25, false},
    [FEW] = {4, 16, 16, 1, 0.25, false},
    [SMALL] = {8, 16, 16, 0.25, 0.25, false},
    [LARGE] = {8, 16, 16, 4, 0.25, false},
    [NONE] = {8, 16, 16, 1, 0, false},
    [HALF] = {8, 16, 16, 1, 0.5, false},
    [NEARLY] = {8, 16, 16, 1, 0.9, false},
    [TINY] = {2, 4, 4, 1, 0, false},         /* of the lemma alone, on many tokens */
    [UNIT] = {6, 12, 12, 1.0 / 12, 0, true}, /* tokens of length 1 */
    [WIDE] = {6, 12, 12, 1, 0, true},        /* of length √d: logits of variance 1 */
    {16, 16, 16, 1, 0.25, false},
    {8, 32, 32, 1, 0.25, false},
    {8, 16, 4, 1, 0.25, false},
};

/* Of a setting: gQ and gV over their laws. */
enum { QUERY, VALUE, KINDS };

/* tests/oracle/lab_signals.py noci-hyperparameters: the two with a softmax */
static const rs_awaited awaited[2][KINDS] = {
    {{1.00983, 0.013}, {1.01108, 0.0075}},
    {{0.871493, 0.012}, {1.96066, 0.014}},
};

static double law_of(const setting *s, int kind)
{
    return kind == QUERY ? rs_noci_gaussian_query_exact(s->d, s->n, s->variance, s->rho)
                         : rs_noci_gaussian_value(s->d, s->n, s->variance, s->rho);
}

static rs_status add_pass(double *cells, const setting *s, rs_random *random,
                          const rs_context *context, rs_error *err)
{
    double x[MOST];
    rs_toy toy;
    rs_signal_layer layers[2];
    json_t *arch =
        json_pack("{s:i, s:i, s:i, s:s, s:s, s:f, s:{s:s, s:s, s:s}}", "depth", 1, "d_model", s->d,
                  "d_head", s->head, "norm", "none", "mlp", "none", "skip_mixer", 0.0, "init", "wo",
                  "none", "wk", "normal(0, 1/d)", "wq", s->softmax ? "normal(0, 1/d)" : "zero");
    RS_TRY(rs_toy_open(&toy, arch, rs_draw_seed(random), context, err));
    rs_draw_tokens(x, s->n, s->d, s->variance, s->rho, random);
    rs_status status = rs_signal_pass(layers, &toy, x, s->n, rs_draw_seed(random), true, err);
    rs_toy_close(&toy);
    cells[QUERY] += layers[0].query / law_of(s, QUERY) / TRIES;
    cells[VALUE] += layers[0].value / law_of(s, VALUE) / TRIES;
    return status;
}

/* The lemma on given tokens over the corollary, which is about their law: many tokens, no network. */
static rs_status add_tokens(double *cells, const setting *s, rs_random *random, rs_error *err)
{
    double x[MOST], cross, mean, sum;
    for (int t = 0; t < TOKENS; t++) {
        rs_draw_tokens(x, s->n, s->d, s->variance, s->rho, random);
        RS_TRY(rs_cross_square(&cross, x, s->n, s->d, err));
        double f = rs_sum_square(x, (int64_t)s->n * s->d);
        sum = s->n * (f - rs_apart_square(x, s->n, s->d));
        mean = rs_noci_local_query(s->d, s->n, f, cross, 1.0 / s->d, 1.0 / s->d);
        cells[QUERY] += mean / law_of(s, QUERY) / TOKENS;
        cells[VALUE] += rs_noci_local_value(s->d, s->n, sum) / law_of(s, VALUE) / TOKENS;
    }
    return RS_OK;
}

static rs_status one_draw(double *cells, const void *of, rs_random *random,
                          const rs_context *context, rs_error *err)
{
    (void)of;
    for (int s = 0; s < SETTINGS; s++)
        for (int t = 0; t < TRIES && s != TINY; t++)
            RS_TRY(add_pass(cells + s * KINDS, &settings[s], random, context, err));
    return add_tokens(cells + TINY * KINDS, &settings[TINY], random, err);
}

/* ---- what came out ---- */

static const rs_column point_columns[] =
    RS_LAB_POINTS(RS_LAB_X("rho", "correlation of tokens", "ρ of Gaussian tokens of variance 1"),
                  RS_LAB_Y("gradient", "squared gradient", "E ‖∂L/∂W‖² of 8 tokens of width 16"));
static const rs_table_kind table_kind = {"lab", "noci_hyperparameters", {RS_PART(point_columns)}};
static const rs_lab_curves curves = {
    .kind = &table_kind,
    .title = "Gradients of queries and values by correlation",
    .about = "Squared gradients of one attention by the correlation of its tokens, queries falling "
             "and values rising: the engine's beside the law.",
    .log_y = true,
};

static const char *const kind_names[KINDS] = {"gQ", "gV"};

static rs_status draw(rs_lab_report *report, const rs_draws *draws, rs_error *err)
{
    static const int shown[] = {NONE, BASE, HALF, NEARLY};
    char series[32];
    rs_table *table = NULL;
    RS_TRY(rs_lab_curves_open(&table, report, &curves, err));
    for (int k = 0; k < KINDS; k++) {
        for (size_t i = 0; i < sizeof shown / sizeof *shown; i++) {
            const setting *s = &settings[shown[i]];
            double ratio = rs_draws_seen(draws, shown[i] * KINDS + k).mean;
            RS_TRY(rs_lab_curves_add(table, kind_names[k], s->rho, ratio * law_of(s, k), err));
        }
        snprintf(series, sizeof series, "%s: law", kind_names[k]);
        for (int i = 0; i <= 19; i++) {
            setting at = settings[NONE];
            at.rho = 0.05 * i;
            RS_TRY(rs_lab_curves_compute(table, series, at.rho, law_of(&at, k), err));
        }
    }
    return RS_OK;
}

static rs_status claim_laws(rs_lab_report *report, const rs_draws *draws, rs_error *err)
{
    char text[160];
    for (int i = 0; i < SETTINGS; i++) {
        const setting *s = &settings[i];
        for (int k = 0; k < KINDS; k++) {
            rs_awaited one = s->softmax ? awaited[i - UNIT][k] : (rs_awaited){1, 0};
            snprintf(text, sizeof text, "n %d, d %d, d_k %d, size %.3g, rho %g%s: %s over its law",
                     s->n, s->d, s->head, s->variance, s->rho, s->softmax ? ", softmax" : "",
                     kind_names[k]);
            RS_TRY(rs_lab_seen(report, text, one, 0, rs_draws_seen(draws, i * KINDS + k), err));
        }
    }
    /* the corollary takes ‖X‖² and ‖XᵀPX‖² for uncorrelated */
    const setting *tiny = &settings[TINY];
    double printed = rs_noci_gaussian_query(tiny->d, tiny->n, tiny->variance, tiny->rho);
    double more = law_of(tiny, QUERY) / printed;
    rs_seen seen = rs_draws_seen(draws, TINY * KINDS + QUERY);
    return rs_lab_seen_published(report, "n 2, d 4: gQ over the law as printed", 1,
                                 (rs_awaited){1.5, 0},
                                 (rs_seen){seen.mean * more, seen.error * more}, err);
}

/* ln of the measured gradient of a setting, and its error. */
static rs_seen ln_of(const rs_draws *draws, int i, int kind)
{
    rs_seen seen = rs_draws_seen(draws, i * KINDS + kind);
    return (rs_seen){log(seen.mean * law_of(&settings[i], kind)), seen.error / seen.mean};
}

static rs_status claim_slopes(rs_lab_report *report, const rs_draws *draws, rs_error *err)
{
    char text[160];
    double decades = log(settings[LARGE].variance / settings[SMALL].variance);
    for (int k = 0; k < KINDS; k++) {
        rs_seen small = ln_of(draws, SMALL, k), large = ln_of(draws, LARGE, k);
        rs_seen slope = {(large.mean - small.mean) / decades,
                         hypot(large.error, small.error) / decades};
        snprintf(text, sizeof text, "slope of ln %s in ln of the tokens' size", kind_names[k]);
        RS_TRY(rs_lab_seen_published(report, text, k == QUERY ? 3 : 1,
                                     (rs_awaited){k == QUERY ? 3 : 1, 0}, slope, err));
        static const int order[] = {NONE, BASE, HALF, NEARLY};
        for (int i = 0; i < 3; i++) {
            rs_seen low = ln_of(draws, order[i], k), high = ln_of(draws, order[i + 1], k);
            double sign = k == QUERY ? -1 : 1;
            snprintf(text, sizeof text, "ln %s %s from rho %g to %g, by", kind_names[k],
                     k == QUERY ? "falls" : "rises", settings[order[i]].rho,
                     settings[order[i + 1]].rho);
            RS_TRY(rs_lab_order(report, text, sign * (high.mean - low.mean),
                                hypot(high.error, low.error), err));
        }
    }
    return RS_OK;
}

static rs_status run_noci_hyperparameters(rs_lab_report *report, const rs_lab_options *options,
                                          const rs_context *context, rs_error *err)
{
    const rs_draws_plan plan = {.draws = options->quick ? RS_DRAWS_LEAST : DRAWS,
                                .cells = SETTINGS * KINDS,
                                .stream = (uint64_t)STREAM << 32,
                                .one = one_draw};
    rs_draws draws;
    RS_TRY(rs_draws_run(&draws, &plan, context, err));
    rs_status status = draw(report, &draws, err);
    if (status == RS_OK) status = claim_laws(report, &draws, err);
    if (status == RS_OK) status = claim_slopes(report, &draws, err);
    rs_draws_free(&draws);
    if (status != RS_OK || !options->quick) return status;
    return rs_lab_say_quick(report, "16 draws of 24 networks instead of 64", err);
}

const rs_lab_experiment rs_lab_noci_hyperparameters = {
    "noci-hyperparameters",
    "Gradients of queries and values, by size",
    "Noci et al. 2022, lemma 3.2 and appendix",
    "Squared gradients of queries and values of one attention on Gaussian tokens by their number, "
    "width, head width, size and correlation, over the closed forms. Noci, Anagnostidis, Biggio, "
    "Orvieto, Singh, Lucchi, NeurIPS 2022 (arXiv 2206.03126).",
    run_noci_hyperparameters,
    "2 s",
    "< 1 s",
    &table_kind,
    0};
