/*
 * dong_perturbation_lemma.c: the lemma under the cubic bound of Dong, Cordonnier, Loukas 2021: what
 * a small change of the logits does to a softmax, entry by entry; where the paper's next step
 * fails for residuals with signs; and what holds instead (docs/perturbation.md derives
 * it all).
 *
 * A row of logits r is changed by e, whose range max e - min e is D: p = softmax(r) becomes
 * P = softmax(r + e). The paper's matrix D has D_i = range of row i of E on its diagonal.
 */
#include "lab/dong_proof_lines.h"
#include "lab/one_layer.h"

#include <math.h>

enum {
    DRAWS = 20000,
    QUICK_DRAWS = 4000,
    LAYERS_DRAWN = 5000,
    QUICK_LAYERS_DRAWN = 1000,
    LINES_EVERY = 5, /* layers: all lines of the proof are worked out on one of so many */
    KEYS_MAX = 12,
    BINS = 24
};
static const double paper_range = 1.256;

typedef struct findings {
    bool quick;
    int64_t draws, layers;
    /* the lemma */
    int64_t below, above;    /* draws outside of [1 - D, 1 + 2D] */
    double tightest;         /* largest (P/p - 1)/(2D) */
    double largest[BINS];    /* of P/p, by range */
    int64_t variation_above; /* draws whose total variation is above tanh(D/4) */
    double variation_tightest;
    /* the step after it */
    int64_t signed_fails, absolute_fails;
    double absolute_tightest;
    double pair_left, pair_right;       /* both sides for token 2 of the instance with two tokens */
    double hashed_excess, hashed_ratio; /* of both steps in the layer from a hash */
    rs_proof_lines lines;
} findings;

/* ---- one row of a softmax ---- */

static double log_sum_exp(const double *logits, int64_t n)
{
    double largest = logits[0], sum = 0;
    for (int64_t i = 1; i < n; i++)
        largest = fmax(largest, logits[i]);
    for (int64_t i = 0; i < n; i++)
        sum += exp(logits[i] - largest);
    return largest + log(sum);
}

static double range_of(const double *e, int64_t n)
{
    double low = e[0], high = e[0];
    for (int64_t i = 1; i < n; i++) {
        low = fmin(low, e[i]);
        high = fmax(high, e[i]);
    }
    return high - low;
}

/* A row and its change, of range at most `most`: in three of ten draws one entry alone is lifted,
 * where the lemma is tightest. */
static int64_t draw_row(double *r, double *e, double most, rs_random *random)
{
    static const double scales[] = {0.1, 1, 5, 20};
    int64_t n = rs_pick_between(random, 2, KEYS_MAX - 1);
    rs_draw_gaussian(r, n, rs_pick_value(random, scales, 4), random);
    rs_draw_gaussian(e, n, 1, random);
    double wanted = most * rs_random_uniform(random), range = range_of(e, n);
    bool single = rs_random_uniform(random) < 0.3;
    int64_t lifted = rs_pick_between(random, 0, n - 1);
    for (int64_t i = 0; i < n; i++)
        e[i] = single ? (i == lifted ? wanted : 0) : e[i] * wanted / range;
    return n;
}

static void lemma_draw(findings *f, rs_random *random)
{
    double r[KEYS_MAX], s[KEYS_MAX], e[KEYS_MAX], high = 0, low = INFINITY;
    int64_t n = draw_row(r, e, paper_range, random);
    for (int64_t i = 0; i < n; i++)
        s[i] = r[i] + e[i];
    double range = range_of(e, n), shift = log_sum_exp(r, n) - log_sum_exp(s, n);
    for (int64_t i = 0; i < n; i++) {
        double ratio = exp(e[i] + shift); /* P_i/p_i */
        high = fmax(high, ratio);
        low = fmin(low, ratio);
    }
    f->below += low < 1 - range - 1e-12;
    f->above += high > 1 + 2 * range + 1e-12;
    if (range > 1e-6) f->tightest = fmax(f->tightest, (high - 1) / (2 * range));
    int bin = (int)(range / paper_range * BINS);
    if (bin >= BINS) bin = BINS - 1;
    f->largest[bin] = fmax(f->largest[bin], high);
}

static void variation_draw(findings *f, rs_random *random)
{
    static const double scales[] = {1e-3, 0.1, 1, 5, 20};
    double r[KEYS_MAX], e[KEYS_MAX], s[KEYS_MAX], variation = 0;
    int64_t n = rs_pick_between(random, 2, KEYS_MAX - 1);
    rs_draw_gaussian(r, n, rs_pick_value(random, scales + 1, 3), random);
    rs_draw_gaussian(e, n, rs_pick_value(random, scales, 5), random);
    for (int64_t i = 0; i < n; i++)
        s[i] = r[i] + e[i];
    double from = log_sum_exp(r, n), to = log_sum_exp(s, n);
    for (int64_t i = 0; i < n; i++)
        variation += fabs(exp(s[i] - to) - exp(r[i] - from)) / 2;
    double bound = tanh(range_of(e, n) / 4);
    f->variation_above += variation > bound * (1 + 1e-9) + 1e-15;
    /* beyond a few units both are 1, whatever the law is */
    if (range_of(e, n) <= paper_range)
        f->variation_tightest = fmax(f->variation_tightest, variation / bound);
}

/* ---- the step after the lemma, in layers that the engine runs ---- */

/* The most by which an entry of P R lies above that of (I + 2D) 1 pᵀR, as the proof has it not,
 * over the largest entry of R. */
static double signed_excess(const rs_one_layer *a, const double *p)
{
    double largest = 0, excess = -INFINITY;
    for (int64_t i = 0; i < a->n * a->d; i++)
        largest = fmax(largest, fabs(a->residual[i]));
    for (int64_t i = 0; i < a->n; i++)
        for (int64_t k = 0; k < a->d; k++) {
            double left = 0, right = 0;
            for (int64_t j = 0; j < a->n; j++) {
                left += p[i * a->n + j] * a->residual[j * a->d + k];
                right += a->base[0][j] * a->residual[j * a->d + k];
            }
            excess = fmax(excess, left - (1 + 2 * a->range[0][i]) * right);
        }
    return excess / largest;
}

/* Largest |[(P - 1pᵀ) R W_V]_ik| / (2 D_i (pᵀ|R W_V|)_k): above 1 would refute the repair. */
static double absolute_step(const rs_one_layer *a, const double *p)
{
    double moved[RS_ONE_MATRIX], worst = 0;
    rs_small_product(moved, a->residual, a->values[0], a->n, a->d, a->d);
    for (int64_t i = 0; i < a->n; i++)
        for (int64_t k = 0; k < a->d; k++) {
            double left = 0, right = 0;
            for (int64_t j = 0; j < a->n; j++) {
                left += (p[i * a->n + j] - a->base[0][j]) * moved[j * a->d + k];
                right += a->base[0][j] * fabs(moved[j * a->d + k]);
            }
            /* rounding of P in the numerator, in units of what it is multiplied with */
            right = 2 * a->range[0][i] * right + 1e-14 * fmax(right, 1e-300);
            if (right > 0) worst = fmax(worst, fabs(left) / right);
        }
    return worst;
}

static rs_status layer_draw(findings *f, bool lines, rs_random *random, const rs_context *context,
                            rs_error *err)
{
    static const double sizes[] = {0.05, 0.3, 0.8};
    const rs_one_draw draw = {.n = rs_pick_between(random, 2, 8),
                              .d = rs_pick_between(random, 1, 6),
                              .heads = 1,
                              .kind = (rs_one_kind)rs_pick_between(random, 0, RS_ONE_KINDS - 1),
                              .size = rs_pick_value(random, sizes, 3),
                              .mean = 1,
                              .weights = 1,
                              .max_range = paper_range};
    rs_one_layer a;
    rs_toy_trace trace;
    rs_one_layer_draw(&a, &draw, random);
    RS_TRY(rs_one_layer_run(&trace, &a, context, err));
    const double *p = rs_toy_mixing(&trace, 0, 0, 0);
    double absolute = absolute_step(&a, p);
    f->signed_fails += signed_excess(&a, p) > 1e-10;
    f->absolute_fails += absolute > 1 + 1e-9;
    f->absolute_tightest = fmax(f->absolute_tightest, absolute);
    rs_toy_trace_free(&trace);
    return lines ? rs_proof_lines_add(&f->lines, &a, context, err) : RS_OK;
}

/* Tokens 1 and -1 of one feature, W_QK = -0.3: both sides of the step for the second token. */
static rs_status two_tokens(findings *f, const rs_context *context, rs_error *err)
{
    rs_one_layer a = {.n = 2, .d = 1, .heads = 1, .residual = {1, -1}, .qk = {{-0.3}}};
    double g[1][RS_ONE_WIDTH] = {{0}};
    rs_toy_trace trace;
    rs_one_layer_complete(&a, g);
    a.values[0][0] = 1;
    RS_TRY(rs_one_layer_run(&trace, &a, context, err));
    f->pair_left = rs_toy_state(&trace, 1, 0)[1];
    f->pair_right = (1 + 2 * a.range[0][1]) * (a.base[0][0] - a.base[0][1]);
    rs_toy_trace_free(&trace);
    return RS_OK;
}

static rs_status from_hash(findings *f, const rs_context *context, rs_error *err)
{
    rs_one_layer a;
    rs_toy_trace trace;
    rs_one_layer_hashed(&a, 1);
    RS_TRY(rs_one_layer_run(&trace, &a, context, err));
    f->hashed_excess = signed_excess(&a, rs_toy_mixing(&trace, 0, 0, 0));
    f->hashed_ratio = absolute_step(&a, rs_toy_mixing(&trace, 0, 0, 0));
    rs_toy_trace_free(&trace);
    return RS_OK;
}

/* ---- constants ---- */

/* The positive root of e^x = 1 + 2x: e^x - 1 - 2x is below 0 before it and above 0 after it. */
static double sharp_range(void)
{
    double low = 1, high = 2;
    for (int i = 0; i < 60; i++) {
        double middle = (low + high) / 2;
        if (expm1(middle) < 2 * middle)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* P/p - (1 + 2D) for the rarer of two tokens, of probability 1e-9, lifted by D. */
static double lifted(double range)
{
    double p = 1e-9, lifted_p = p * exp(range) / (1 - p + p * exp(range));
    return lifted_p / p - 1 - 2 * range;
}

/* Two tokens whose logits differ by D/2 before and -D/2 after. */
static double extremal_variation(double range)
{
    double p = 1 / (1 + exp(-range / 2));
    return fabs(2 * p - 1) / tanh(range / 4);
}

/* ---- what came out ---- */

static const rs_column point_columns[] =
    RS_LAB_POINTS(RS_LAB_X("range", "range D of the change of a row of logits",
                           "largest less smallest entry of the change"),
                  RS_LAB_Y("ratio", "largest P/p",
                           "an entry of the softmax after the change over the same before"));
static const rs_table_kind table_kind = {
    "lab", "dong_perturbation_lemma", {RS_PART(point_columns)}};
static const rs_lab_curves curves = {
    .kind = &table_kind,
    .title = "How much a probability can grow when logits change",
    .about = "Largest ratio P/p of an entry after and before a change of the logits of range D: as "
             "drawn, by range; e^D, which nothing exceeds; and 1 + 2D of the lemma, which is above "
             "e^D up to D* = 1.2564 and below it from there on.",
};

static rs_status add_curves(rs_lab_report *report, const findings *f, rs_error *err)
{
    rs_table *table = NULL;
    RS_TRY(rs_lab_curves_open(&table, report, &curves, err));
    for (int b = 0; b < BINS; b++)
        RS_TRY(rs_lab_curves_add(table, "largest drawn", (b + 1) * paper_range / BINS,
                                 f->largest[b], err));
    for (int b = 0; b <= 30; b++) {
        double range = 0.05 * b;
        RS_TRY(rs_lab_curves_publish(table, "Dong et al. 2021, lemma of the appendix: its formula",
                                     "1 + 2D (published lemma)", range, 1 + 2 * range, err));
        RS_TRY(rs_lab_curves_compute(table, "e^D (sharp)", range, exp(range), err));
    }
    return RS_OK;
}

static rs_status claim_lemma(rs_lab_report *report, const findings *f, rs_error *err)
{
    const rs_lab_claim rounded = {"largest range for which the lemma holds, D*",
                                  paper_range,
                                  1.256431208626,
                                  sharp_range(),
                                  5e-4,
                                  false,
                                  true};
    RS_TRY(rs_lab_statement(report, "perturbation lemma, changes of at most 1.256", err));
    RS_TRY(rs_lab_at_most(report, "lemma, range up to 1.256: draws with P < (1 - D) p",
                          (double)f->below, 0, err));
    RS_TRY(rs_lab_at_most(report, "lemma, range up to 1.256: draws with P > (1 + 2D) p",
                          (double)f->above, 0, err));
    RS_TRY(rs_lab_expect(report, "lemma: largest (P/p - 1)/(2D) drawn; 1 is its bound", 0.999619,
                         f->tightest, f->quick ? 0.01 : 2e-3, err));
    RS_TRY(rs_lab_compute(report, "at D = 1.256, rare token: P/p - (1 + 2D), still below 0",
                          -6.520e-4, lifted(1.256), 1e-7, err));
    RS_TRY(rs_lab_statement(report, "1.256 is the largest range of the lemma, rounded", err));
    RS_TRY(rs_lab_add_claim(report, &rounded, err));
    RS_TRY(rs_lab_compute(report, "D* less 1.256, D* the root of e^x = 1 + 2x", 4.31208626e-4,
                          sharp_range() - paper_range, 1e-12, err));
    return rs_lab_compute(report, "at D = 1.2566: P/p - (1 + 2D), above 0: the lemma fails",
                          2.554e-4, lifted(1.2566), 1e-7, err);
}

static rs_status claim_step(rs_lab_report *report, const findings *f, rs_error *err)
{
    const rs_lab_claim claims[] = {
        {"share of layers where an entry fails", 0, 0.82,
         (double)f->signed_fails / (double)f->layers, f->quick ? 0.05 : 0.03, false, false},
        {"tokens 1, -1, W_QK = -0.3: left side", 0, 0.2913, f->pair_left, 5e-5, false, false},
    };
    RS_TRY(rs_lab_statement(report, "step PR <= (I + 2D) 1 p'R of the proof, entry by entry", err));
    for (size_t i = 0; i < sizeof claims / sizeof *claims; i++)
        RS_TRY(rs_lab_add_claim(report, &claims[i], err));
    RS_TRY(rs_lab_compute(report, "two tokens: right side (I + 2D) 1 p'R for token 2", 0,
                          f->pair_right, 1e-15, err));
    RS_TRY(rs_lab_expect(report, "layer from a hash: largest PR - (I + 2D) 1 p'R, over that of R",
                         0.2559931531222, f->hashed_excess, 1e-9, err));
    RS_TRY(rs_lab_statement(report, "step PR <= (I + 2D) 1 p'R with absolute values", err));
    RS_TRY(rs_lab_at_most(report, "with absolute values: layers where the step fails",
                          (double)f->absolute_fails, 0, err));
    RS_TRY(rs_lab_at_most(report, "with absolute values: largest left side / right side",
                          f->absolute_tightest, 1, err));
    RS_TRY(rs_lab_expect(report, "layer from a hash: left side / right side, absolute values",
                         0.2364959556019, f->hashed_ratio, 1e-9, err));
    RS_TRY(rs_lab_statement(report, NULL, err));
    RS_TRY(rs_lab_at_most(report, "total variation of P, p above tanh(D/4): draws",
                          (double)f->variation_above, 0, err));
    RS_TRY(rs_lab_at_most(report, "tanh(D/4) less the largest total variation drawn, over it",
                          1 - f->variation_tightest, f->quick ? 0.02 : 0.005, err));
    return rs_lab_compute(report, "tanh(D/4): ratio of the extremal two tokens, D = 3", 1,
                          extremal_variation(3), 1e-12, err);
}

static rs_status measure_lemma(findings *f, const rs_context *context, rs_error *err)
{
    rs_random random = rs_random_new(context->seed, 0x6c656d6d61);
    rs_proof_lines_open(&f->lines);
    for (int64_t i = 0; i < f->draws; i++) {
        lemma_draw(f, &random);
        variation_draw(f, &random);
    }
    for (int64_t i = 0; i < f->layers; i++) {
        if (i % 100 == 0)
            rs_progress(context, "dong-perturbation-lemma", (uint64_t)i, (uint64_t)f->layers,
                        "layers");
        RS_TRY(layer_draw(f, i % LINES_EVERY == 0, &random, context, err));
    }
    RS_TRY(from_hash(f, context, err));
    return two_tokens(f, context, err);
}

static rs_status run_dong_perturbation_lemma(rs_lab_report *report, const rs_lab_options *options,
                                             const rs_context *context, rs_error *err)
{
    findings f = {.quick = options->quick,
                  .draws = options->quick ? QUICK_DRAWS : DRAWS,
                  .layers = options->quick ? QUICK_LAYERS_DRAWN : LAYERS_DRAWN};
    RS_TRY(measure_lemma(&f, context, err));
    RS_TRY(add_curves(report, &f, err));
    RS_TRY(claim_lemma(report, &f, err));
    RS_TRY(claim_step(report, &f, err));
    RS_TRY(rs_proof_lines_claim(report, &f.lines, context, err));
    if (!options->quick) return RS_OK;
    return rs_lab_say_quick(report, "4000 rows and 1000 layers instead of 20000 and 5000", err);
}

const rs_lab_experiment rs_lab_dong_perturbation_lemma = {
    "dong-perturbation-lemma",
    "Changed logits; a step that fails",
    "Dong et al. 2021, lemma",
    "Random rows of logits and random attention layers: the lemma on changed logits and the "
    "largest "
    "range for which it holds, the step of the proof that fails for residuals with signs, the same "
    "step with absolute values, the sharp bound on total variation, and every line of the proof "
    "in both norms. After the appendix of "
    "Dong, "
    "Cordonnier, Loukas, ICML 2021 (arXiv 2103.03404).",
    run_dong_perturbation_lemma,
    "< 1 s",
    "< 1 s",
    &table_kind,
    0};
