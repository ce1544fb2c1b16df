/*
 * noci_lemma_3_2.c: E‖∂S/∂X‖² of one attention under the assumption that it is uniform: the bound of lemma
 * 3.2 of Noci, Anagnostidis, Biggio, Orvieto, Singh, Lucchi 2022 (arXiv 2206.03126) is broken by tokens
 * with a large common part, and what it is exactly. Its last step takes ‖X‖²‖PX‖²/n² for ‖XᵀPX‖²/n
 * (K(I⊗Y)K = Y⊗I) and writes d_k d_v for d_v² (docs/lab.md).
 */
#include "lab/signals.h"

#include <math.h>
#include <stdio.h>

enum { N = 4, D = 8, COMMONS = 4, DRAWS = 64, TRIES = 60, STREAM = 0x6c656d33, TAG = 3200 };
static const double commons[COMMONS] = {0, 1, 10, 100}; /* length of the common part */

/* By common part: under the assumption, and of the softmax as it is, by the engine. */
enum { ASSUMED, TRUE_SOFTMAX, KINDS, CELLS = COMMONS * KINDS };

/* tests/oracle/lab_signals.py noci-lemma-3.2: both, by autograd */
static const rs_awaited awaited[COMMONS][KINDS] = {
    {{31.2211, 0.26}, {30.1943, 0.19}},
    {{33.4376, 0.28}, {31.881, 0.2}},
    {{146.634, 1.9}, {65.3273, 1.1}},
    {{10035.1, 1.5e+02}, {406.513, 34}},
};
/* and, of the same tokens, what the lemma prints */
static const double published[COMMONS] = {114.4099342453, 114.4099342453, 114.4099342453,
                                          114.4099342453};

/* ---- tokens and laws ---- */

/* A common vector and own parts of variance 1, from a hash. */
static void tokens(double *x, double common)
{
    double length = 0, shared[D];
    for (uint32_t k = 0; k < D; k++) {
        shared[k] = rs_lab_hash(TAG, k) / 2147483648.0 - 1;
        length += shared[k] * shared[k];
    }
    for (uint32_t i = 0; i < N * D; i++)
        x[i] = common * shared[i % D] / sqrt(length) +
               sqrt(3) * (rs_lab_hash(TAG + 1, i) / 2147483648.0 - 1);
}

/* weights of variance 1/D: σ_q²σ_k²σ_v² = 1/D³ */
static rs_status laws(double *bound, double *exact, double common, rs_error *err)
{
    double x[N * D], cross, d2 = D * D, three = 1.0 / (D * d2);
    tokens(x, common);
    RS_TRY(rs_cross_square(&cross, x, N, D, err));
    *bound = 8 * three * d2 / N * cross + 2 * d2 / D;
    *exact =
        d2 / D +
        three * d2 * (cross / N + rs_sum_square(x, N * D) * rs_apart_square(x, N, D) / (N * N));
    return RS_OK;
}

/* ---- under the assumption ---- */

/* ∂S_i/∂x_m = (W_V + δ_im B XᵀPX W_V + (x_i B)ᵀ (x_m − x̄) W_V)/n, B = W_Q W_Kᵀ/√d_k. */
static double assumed(const double *x, rs_random *random)
{
    double q[D * D], k[D * D], v[D * D], b[D * D], apart[N * D], cv[N * D], xb[N * D], c[D * D],
        bc[D * D], own[D * D], sum = 0;
    rs_draw_gaussian(q, D * D, 1 / sqrt(D), random);
    rs_draw_gaussian(k, D * D, 1 / sqrt(D), random);
    rs_draw_gaussian(v, D * D, 1 / sqrt(D), random);
    for (int i = 0; i < D; i++)
        for (int j = 0; j < D; j++) {
            b[i * D + j] = c[i * D + j] = 0;
            for (int l = 0; l < D; l++)
                b[i * D + j] += q[i * D + l] * k[j * D + l] / sqrt(D);
        }
    for (int i = 0; i < N * D; i++)
        apart[i] = x[i];
    rs_rows_centre(apart, N, D);
    for (int i = 0; i < D; i++)
        for (int j = 0; j < D; j++)
            for (int t = 0; t < N; t++)
                c[i * D + j] += apart[t * D + i] * apart[t * D + j];
    rs_small_product(bc, b, c, D, D, D);
    rs_small_product(own, bc, v, D, D, D);
    rs_small_product(cv, apart, v, N, D, D);
    rs_small_product(xb, x, b, N, D, D);
    for (int i = 0; i < N; i++)
        for (int m = 0; m < N; m++)
            for (int e = 0; e < D * D; e++) {
                double entry = v[e] + (i == m ? own[e] : 0) + xb[i * D + e / D] * cv[m * D + e % D];
                sum += entry * entry / (N * N);
            }
    return sum;
}

/* ---- as it is ---- */

static rs_status as_it_is(double *out, const double *x, rs_random *random,
                          const rs_context *context, rs_error *err)
{
    rs_toy toy;
    rs_signal_layer layers[2];
    json_t *arch = json_pack("{s:i, s:i, s:s, s:s, s:f, s:{s:s}}", "depth", 1, "d_model", D, "norm",
                             "none", "mlp", "none", "skip_mixer", 0.0, "init", "wo", "none");
    RS_TRY(rs_toy_open(&toy, arch, rs_draw_seed(random), context, err));
    rs_status status = rs_signal_pass(layers, &toy, x, N, rs_draw_seed(random), true, err);
    rs_toy_close(&toy);
    *out = layers[0].state;
    return status;
}

static rs_status one_draw(double *cells, const void *of, rs_random *random,
                          const rs_context *context, rs_error *err)
{
    (void)of;
    for (int c = 0; c < COMMONS; c++) {
        double x[N * D], once;
        tokens(x, commons[c]);
        for (int t = 0; t < TRIES; t++) {
            cells[c * KINDS + ASSUMED] += assumed(x, random) / TRIES;
            RS_TRY(as_it_is(&once, x, random, context, err));
            cells[c * KINDS + TRUE_SOFTMAX] += once / TRIES;
        }
    }
    return RS_OK;
}

/* ---- what came out ---- */

static const rs_column point_columns[] = RS_LAB_POINTS(
    RS_LAB_X("common", "length of the common part", "of tokens whose own parts have variance 1"),
    RS_LAB_Y("derivative", "E |dS/dX|^2", "as series says"));
static const rs_table_kind table_kind = {"lab", "noci_lemma_3_2", {RS_PART(point_columns)}};
static const rs_lab_curves curves = {
    .kind = &table_kind,
    .title = "The derivative of attention by its input",
    .about = "E ‖∂S/∂X‖² of four tokens of width 8 by the length of their common part: under "
             "uniform attention, as it is, exactly, and the published upper bound, which is below.",
    .log_y = true,
};

static rs_status draw(rs_lab_report *report, const rs_draws *draws, rs_error *err)
{
    static const char *const names[KINDS] = {"uniform attention", "softmax as it is"};
    rs_table *table = NULL;
    RS_TRY(rs_lab_curves_open(&table, report, &curves, err));
    for (int k = 0; k < KINDS; k++)
        for (int c = 0; c < COMMONS; c++)
            RS_TRY(rs_lab_curves_add(table, names[k], commons[c],
                                     rs_draws_seen(draws, c * KINDS + k).mean, err));
    for (int law = 0; law < 2; law++)
        for (int c = 0; c < COMMONS; c++) {
            double number[2];
            RS_TRY(laws(&number[0], &number[1], commons[c], err));
            RS_TRY(rs_lab_curves_compute(table, law ? "exact" : "bound of the lemma", commons[c],
                                         number[law], err));
        }
    return RS_OK;
}

static rs_status claim_common(rs_lab_report *report, const rs_draws *draws, int c, rs_error *err)
{
    char text[160], at[60];
    double bound, exact;
    rs_seen seen = rs_draws_seen(draws, c * KINDS + ASSUMED);
    RS_TRY(laws(&bound, &exact, commons[c], err));
    snprintf(at, sizeof at, "common part %g", commons[c]);
    snprintf(text, sizeof text, "%s: the lemma's bound", at);
    RS_TRY(rs_lab_compute(report, text, published[c], bound, 1e-9 * published[c], err));
    bool broken = exact > bound;
    snprintf(text, sizeof text, "%s: E|dS/dX|^2, exact%s", at,
             broken ? " (published: an upper bound)" : "");
    const rs_lab_claim claim = {text,      broken ? bound : (double)NAN, exact,
                                seen.mean, RS_SEEN_ERRORS * seen.error,  false,
                                false};
    RS_TRY(rs_lab_add_claim(report, &claim, err));
    if (!broken) {
        snprintf(text, sizeof text, "%s: the bound less E|dS/dX|^2", at);
        RS_TRY(rs_lab_order(report, text, bound - seen.mean, seen.error, err));
    }
    snprintf(text, sizeof text, "%s: E|dS/dX|^2, uniform attention, against autograd", at);
    RS_TRY(rs_lab_seen(report, text, awaited[c][ASSUMED], 0, seen, err));
    seen = rs_draws_seen(draws, c * KINDS + TRUE_SOFTMAX);
    if (c < COMMONS - 1) {
        snprintf(text, sizeof text, "%s: E|dS/dX|^2, softmax as it is, against autograd", at);
        return rs_lab_seen(report, text, awaited[c][TRUE_SOFTMAX], 0, seen, err);
    }
    /* a few draws rule this mean: only that it is above the bound can be said */
    snprintf(text, sizeof text, "%s: E|dS/dX|^2, softmax as it is, less the bound", at);
    return rs_lab_order(report, text, seen.mean - bound, seen.error, err);
}

static rs_status run_noci_lemma_3_2(rs_lab_report *report, const rs_lab_options *options,
                                    const rs_context *context, rs_error *err)
{
    const rs_draws_plan plan = {.draws = options->quick ? RS_DRAWS_LEAST : DRAWS,
                                .cells = CELLS,
                                .stream = (uint64_t)STREAM << 32,
                                .one = one_draw};
    rs_draws draws;
    RS_TRY(rs_draws_run(&draws, &plan, context, err));
    rs_status status = draw(report, &draws, err);
    for (int c = 0; c < COMMONS && status == RS_OK; c++)
        status = claim_common(report, &draws, c, err);
    rs_draws_free(&draws);
    if (status != RS_OK || !options->quick) return status;
    return rs_lab_say_quick(report, "16 draws of 60 layers instead of 64", err);
}

const rs_lab_experiment rs_lab_noci_lemma_3_2 = {
    "noci-lemma-3.2",
    "A bound of a derivative that is broken",
    "Noci et al. 2022, lemma 3.2, dS/dX",
    "E ‖∂S/∂X‖² of one attention on four tokens with a common part: exactly, under the lemma's "
    "assumption, as the softmax has it, and the lemma's upper bound. Noci, Anagnostidis, Biggio, "
    "Orvieto, Singh, Lucchi, NeurIPS 2022 (arXiv 2206.03126).",
    run_noci_lemma_3_2,
    "1 s",
    "< 1 s",
    &table_kind,
    0};
