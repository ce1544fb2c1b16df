/*
 * dong_doubly_exponential.c: pure attention loses rank doubly exponentially with depth, followed
 * far below what any floating-point number holds (Dong, Cordonnier, Loukas 2021;
 * docs/theory/collapse.md, 13 and 14).
 *
 * The residual precision carries tokens as 1x + 2^e M, so the residual keeps its digits and its
 * exponent is a 64-bit integer. Two networks: five tokens, one head with biases, 34 layers, whose
 * weights are a hash of their index, so that a program in another language has the same ones; and
 * BERT-base at random, whose published curve stops at the rounding of float32.
 */
#include "lab/random_bert.h"
#include "lab/toy.h"

#include "base/memory.h"
#include "observe/measure.h"

#include <math.h>
#include <stdio.h>

enum {
    TOKENS = 5,
    WIDTH = 4,
    LAYERS = 34,
    BERT_LAYERS = 12,
    NETWORKS = 2,
    CHECKED = 6,
    BERT_CHECKED = 4
};

/* log10 max|R|, by tests/oracle/lab_expected.py in 80 digits. */
static const struct {
    int layer;
    double expected;
} deep_expected[CHECKED] = {
    {1, -0.89275261491732577709}, {4, -29.068115268011463962},  {8, -2355.0575461154563505},
    {16, -15453593.22577649294},  {33, -1995679567249527.1499}, {34, -5987038701748582.3053},
};
/* log10 of the relative residual, mean of six networks of an independent program in scaled
 * arithmetic, and the deviation of one (docs/theory/collapse.md, 13; at 4 and 8 in proportion to
 * that at 12).
 */
static const struct {
    int layer;
    double published, expected, deviation;
} bert_expected[BERT_CHECKED] = {
    {2, -6.155, -6.169, 0.1},  /* log10 7.0e-7 */
    {4, -6.721, -59.27, 0.94}, /* the published plateau, 1.9e-7, from state 3 on */
    {8, -6.699, -4836, 77},
    {12, -6.721, -391800, 6200},
};

typedef struct deep {
    int networks;
    double log10[LAYERS + 1];                           /* of max|R| */
    double plain[LAYERS + 1];                           /* the same network in float64 */
    double composite[LAYERS + 1], diameter[LAYERS + 1]; /* log10 of R's norm and of the tokens' */
    /* log10 of the published bound of depth L (one head, gamma = 1) and of the diameter theorem,
     * both from state `from` on, where the published one holds and begins to fall */
    double bound[LAYERS + 1], certificate[LAYERS + 1];
    int from;
    double bert[BERT_LAYERS + 1];
} deep;

/* ---- five tokens ---- */

/* scale (h/2^31 - 1), h a hash of tag and index: exact doubles. */
static void generate(double *out, uint32_t tag, uint32_t count, double scale)
{
    for (uint32_t k = 0; k < count; k++)
        out[k] = scale * (rs_lab_hash(tag, k) / 2147483648.0 - 1);
}

static rs_status set_weights(rs_toy *toy, rs_error *err)
{
    for (int32_t l = 0; l < LAYERS; l++) {
        double w[WIDTH * WIDTH], b[WIDTH];
        uint32_t tag = 100 + 10 * (uint32_t)l;
        rs_attention_op *op = rs_toy_attention(toy, l);
        generate(w, tag, WIDTH * WIDTH, 2);
        generate(b, tag + 3, WIDTH, 0.5);
        RS_TRY(rs_toy_set(toy, &op->q, w, b, err));
        generate(w, tag + 1, WIDTH * WIDTH, 2);
        RS_TRY(rs_toy_set(toy, &op->k, w, NULL, err));
        generate(w, tag + 2, WIDTH * WIDTH, 1);
        generate(b, tag + 4, WIDTH, 0.5);
        RS_TRY(rs_toy_set(toy, &op->v, w, b, err));
    }
    return RS_OK;
}

static double largest_entry(const double *a, int64_t count)
{
    double largest = 0;
    for (int64_t i = 0; i < count; i++)
        largest = fmax(largest, fabs(a[i]));
    return largest;
}

/* Per layer, over sqrt(d) where W_QK = W_Q W_K' stands: |W_QK|_1, |W_V|_{1,inf}, and the spectral
 * norms of W_QK and W_V. */
static void constants(double *qk_columns, double *value_composite, double spectral[2], int layer)
{
    double q[WIDTH * WIDTH], k[WIDTH * WIDTH], v[WIDTH * WIDTH], turned[WIDTH * WIDTH];
    double qk[WIDTH * WIDTH];
    uint32_t tag = 100 + 10 * (uint32_t)layer;
    generate(q, tag, WIDTH * WIDTH, 2);
    generate(k, tag + 1, WIDTH * WIDTH, 2);
    generate(v, tag + 2, WIDTH * WIDTH, 1);
    for (int i = 0; i < WIDTH * WIDTH; i++)
        turned[i] = k[i % WIDTH * WIDTH + i / WIDTH];
    rs_small_product(qk, q, turned, WIDTH, WIDTH, WIDTH);
    *qk_columns = rs_norm_columns(qk, WIDTH, WIDTH) / sqrt(WIDTH);
    *value_composite = rs_norm_composite(v, WIDTH, WIDTH);
    spectral[0] = rs_norm_spectral(qk, WIDTH, WIDTH) / sqrt(WIDTH);
    spectral[1] = rs_norm_spectral(v, WIDTH, WIDTH);
}

/* Both bounds in logarithms (docs/theory/collapse.md, 4 and 8): r' <= 4 |W_QK|_1 |W_V| r^3/sqrt(d),
 * and s' <= |W_V|_2 tanh(|W_QK|_2 s^2/(4 sqrt(d))) s, for tiny s its leading term. The published
 * one is for the best centre: it starts from the mean-centred residual, which is no smaller. */
static void find_bounds(deep *d)
{
    double columns, composite, spectral[2];
    d->from = LAYERS;
    for (int l = LAYERS - 1; l >= 0; l--) {
        constants(&columns, &composite, spectral, l);
        /* sufficient for changes of at most 1.256, and for a bound that falls */
        double q = pow(10, 2 * d->composite[l]);
        if (2 * columns * q > 1.256 || 4 * columns * composite * q > 1) break;
        d->from = l;
    }
    for (int l = 0; l <= d->from; l++) {
        d->bound[l] = d->composite[l];
        d->certificate[l] = d->diameter[l];
    }
    for (int l = d->from; l < LAYERS; l++) {
        constants(&columns, &composite, spectral, l);
        d->bound[l + 1] = 3 * d->bound[l] + log10(4 * columns * composite);
        double log_s = d->certificate[l], quarter = spectral[0] / 4;
        double factor =
            log_s < -100 ? log10(quarter) + 2 * log_s : log10(tanh(quarter * pow(10, 2 * log_s)));
        d->certificate[l + 1] = log_s + factor + log10(spectral[1]);
    }
}

/* States behind `from` that lie above a bound by more than `allowance`. */
static int above(const double *measured, const double *bound, int from, double allowance)
{
    int count = 0;
    for (int l = from + 1; l <= LAYERS; l++)
        count += measured[l] > bound[l] + log10(allowance) + 1e-15 * fabs(bound[l]);
    return count;
}

static rs_status run_deep(deep *d, double out[LAYERS + 1], rs_precision precision,
                          const rs_context *context, rs_error *err)
{
    double base[WIDTH], x[TOKENS * WIDTH];
    generate(base, 1, WIDTH, 1);
    generate(x, 2, TOKENS * WIDTH, 0.5);
    for (int i = 0; i < TOKENS * WIDTH; i++)
        x[i] += base[i % WIDTH];
    rs_toy toy;
    rs_toy_trace trace;
    json_t *arch = json_pack("{s:i, s:i, s:s, s:f, s:s, s:{s:s, s:s, s:s, s:s}}", "depth", LAYERS,
                             "d_model", WIDTH, "norm", "none", "skip_mixer", 0.0, "mlp", "none",
                             "init", "wq", "zero", "wk", "zero", "wv", "zero", "wo", "none");
    RS_TRY(rs_toy_open(&toy, arch, context->seed, context, err));
    rs_status status = rs_toy_precision(&toy, precision, err);
    if (status == RS_OK) status = set_weights(&toy, err);
    if (status == RS_OK) status = rs_toy_run(&trace, &toy, x, 1, TOKENS, false, err);
    rs_toy_close(&toy);
    RS_TRY(status);
    for (int32_t l = 0; l <= LAYERS; l++) {
        double *r = rs_toy_state(&trace, l, 0), exponent = 0;
        if (trace.exponents)
            exponent = (double)trace.exponents[l];
        else
            rs_rows_centre(r, TOKENS, WIDTH);
        out[l] = log10(largest_entry(r, TOKENS * WIDTH)) + exponent * log10(2);
        if (!trace.exponents) continue;
        d->composite[l] = log10(rs_norm_composite(r, TOKENS, WIDTH)) + exponent * log10(2);
        d->diameter[l] = log10(rs_rows_diameter(r, TOKENS, WIDTH)) + exponent * log10(2);
    }
    rs_toy_trace_free(&trace);
    return RS_OK;
}

/* ---- BERT-base ---- */

static rs_status measure_bert(deep *out, const rs_lab_bert *bert, const rs_context *context,
                              rs_error *err)
{
    rs_measure_options options;
    rs_measure_defaults(&options);
    options.precision = RS_PRECISION_RESIDUAL;
    options.spectral = options.attention = options.loss = false;
    options.phase = "dong-doubly-exponential";
    rs_edit edit;
    rs_edit_init(&edit);
    RS_TRY(rs_edit_named(&edit, "san", err));
    rs_network *network = NULL;
    rs_weights *weights = NULL;
    rs_measured *measured = NULL;
    RS_TRY(rs_network_copy(&network, bert->network, err));
    rs_status status = rs_edit_apply(network, &edit, err);
    if (status == RS_OK)
        status = rs_weights_open(&weights, RS_PRECISION_RESIDUAL, rs_weight_limit(context), err);
    if (status == RS_OK)
        status = rs_measure_network(&measured, network, weights, &bert->inputs, &options, NULL, 0,
                                    context, err);
    for (int32_t l = 0; status == RS_OK && l <= BERT_LAYERS; l++) {
        const rs_token_row *row = rs_measured_row(measured, RS_TOKEN_SITE_BLOCK_OUT, l);
        out->bert[l] += (row ? row->mean.log10_relative_residual_1inf : NAN) / out->networks;
    }
    rs_measured_free(measured);
    rs_weights_close(weights);
    rs_network_close(network);
    return status;
}

static rs_status one_bert(deep *out, uint64_t seed, const rs_context *context, rs_error *err)
{
    rs_lab_bert bert;
    RS_TRY(rs_lab_bert_open(&bert, BERT_LAYERS, seed, context, err));
    rs_status status = measure_bert(out, &bert, context, err);
    rs_lab_bert_close(&bert);
    return status;
}

/* ---- what came out ---- */

static const rs_column point_columns[] = RS_LAB_POINTS(
    RS_LAB_X_STATE,
    RS_LAB_Y("minus_log10_residual", "-log10 of the residual",
             "of the largest entry of the residual; of bounds and of BERT as the series says"));
static const rs_table_kind table_kind = {
    "lab", "dong_doubly_exponential", {RS_PART(point_columns)}};
static const rs_lab_curves curves = {
    .kind = &table_kind,
    .title = "How far the residual falls: its number of decimal zeros",
    .about =
        "-log10 of the residual by state, on a logarithmic axis: a straight line is a doubly "
        "exponential fall, threefold more zeros a layer. Five tokens through 34 layers (largest "
        "entry), the same in float64, where rounding ends it, what two theorems say of them from "
        "the state on where their hypotheses hold, and BERT-base at random without "
        "skips and MLPs (relative, composite norm).",
    .log_y = true,
};

static rs_status add_bounds(rs_table *table, const deep *d, rs_error *err)
{
    static const char source[] =
        "Dong et al. 2021, theorem 2.2, gamma = 1: layer by layer, with the norms of each";
    for (int l = d->from; l <= LAYERS; l++)
        RS_TRY(rs_lab_curves_publish(table, source, "published bound", l, -d->bound[l], err));
    for (int l = d->from; l <= LAYERS; l++)
        RS_TRY(rs_lab_curves_compute(table, "diameter theorem", l, -d->certificate[l], err));
    return RS_OK;
}

static rs_status add_curves(rs_lab_report *report, const deep *d, rs_error *err)
{
    static const char source[] = "Dong et al. 2021, BERT at init, SAN, read from the vector figure";
    rs_table *table = NULL;
    RS_TRY(rs_lab_curves_open(&table, report, &curves, err));
    for (int l = 0; l <= LAYERS; l++)
        RS_TRY(rs_lab_curves_add(table, "five tokens", l, -d->log10[l], err));
    RS_TRY(add_bounds(table, d, err));
    for (int l = 0; l <= LAYERS; l++)
        RS_TRY(rs_lab_curves_add(table, "five tokens, float64", l, -d->plain[l], err));
    for (int l = 0; l <= BERT_LAYERS; l++)
        RS_TRY(rs_lab_curves_add(table, "BERT-base at random", l, -d->bert[l], err));
    for (int l = 0; l <= BERT_LAYERS; l++)
        RS_TRY(rs_lab_curves_publish(table, source, "BERT-base, published (float32)", l,
                                     -log10(rs_lab_bert_published[0][l]), err));
    return RS_OK;
}

/* Up to layer 16 within what the conditioning leaves of M's digits (3^L units; 1e-8 at most), and
 * of the logarithm itself two units in its last place everywhere. */
static rs_status claim_deep(rs_lab_report *report, const deep *d, rs_error *err)
{
    for (int i = 0; i < CHECKED; i++) {
        char text[100];
        double expected = deep_expected[i].expected;
        snprintf(text, sizeof text, "five tokens: log10 of the residual, state %d",
                 deep_expected[i].layer);
        RS_TRY(rs_lab_expect(report, text, expected, d->log10[deep_expected[i].layer],
                             fmax(1e-12, 5e-16 * fabs(expected)), err));
    }
    RS_TRY(rs_lab_expect(report, "five tokens: ratio of the last two logarithms (cubic: 3)", 3,
                         d->log10[LAYERS] / d->log10[LAYERS - 1], 1e-12, err));
    return rs_lab_at_most(report, "five tokens, float64: residual of the last state is rounding",
                          pow(10, d->plain[LAYERS]), 1e-15, err);
}

static rs_status claim_bounds(rs_lab_report *report, const deep *d, rs_error *err)
{
    /* of the mean-centred residual over that of the best centre (docs/theory/corrections.md, 12) */
    double cap = 2 * (1 - 1.0 / TOKENS);
    RS_TRY(rs_lab_statement(
        report, "one head, depth L, changes of at most 1.256 in every layer, gamma = 1", err));
    RS_TRY(rs_lab_expect(report, "one head: log10 of state 3 over the published bound from state 2",
                         -2.3477575023057, d->composite[3] - d->bound[3] - log10(cap), 1e-10, err));
    RS_TRY(rs_lab_at_most(report, "one head, depth L: states above the published bound, gamma = 1",
                          above(d->composite, d->bound, d->from, cap), 0, err));
    RS_TRY(rs_lab_statement(report, NULL, err));
    RS_TRY(rs_lab_expect(report,
                         "one head: log10 of state 3 over the diameter theorem from state 2",
                         -0.51921621977218, d->diameter[3] - d->certificate[3], 1e-10, err));
    RS_TRY(rs_lab_at_most(report, "one head, depth L: states above the diameter theorem",
                          above(d->diameter, d->certificate, d->from, 1), 0, err));
    return rs_lab_expect(report, "state from which on both are followed", 2, d->from, 0, err);
}

static rs_status claim_bert(rs_lab_report *report, const deep *d, rs_error *err)
{
    for (int i = 0; i < BERT_CHECKED; i++) {
        char text[100];
        snprintf(text, sizeof text, "BERT-base: log10 of the relative residual, state %d",
                 bert_expected[i].layer);
        double tolerance = 4 * bert_expected[i].deviation * sqrt(1.0 / d->networks + 1.0 / 6);
        const rs_lab_claim claim = {text,
                                    bert_expected[i].published,
                                    bert_expected[i].expected,
                                    d->bert[bert_expected[i].layer],
                                    tolerance,
                                    false,
                                    false};
        RS_TRY(rs_lab_add_claim(report, &claim, err));
    }
    return RS_OK;
}

static rs_status measure_depths(deep *d, const rs_context *context, rs_error *err)
{
    RS_TRY(run_deep(d, d->log10, RS_PRECISION_RESIDUAL, context, err));
    RS_TRY(run_deep(d, d->plain, RS_PRECISION_F64, context, err));
    find_bounds(d);
    for (int i = 0; i < d->networks; i++) {
        rs_progress(context, "dong-doubly-exponential", (uint64_t)i, (uint64_t)d->networks,
                    "networks");
        RS_TRY(rs_check_cancelled(context, err));
        RS_TRY(one_bert(d, context->seed + ((uint64_t)i << 32), context, err));
    }
    return RS_OK;
}

static rs_status run_dong_doubly_exponential(rs_lab_report *report, const rs_lab_options *options,
                                             const rs_context *context, rs_error *err)
{
    deep d = {.networks = options->quick ? 1 : NETWORKS};
    RS_TRY(measure_depths(&d, context, err));
    RS_TRY(add_curves(report, &d, err));
    RS_TRY(claim_deep(report, &d, err));
    RS_TRY(claim_bounds(report, &d, err));
    RS_TRY(claim_bert(report, &d, err));
    return options->quick ? rs_lab_say_quick(report, "1 random BERT instead of 2", err) : RS_OK;
}

const rs_lab_experiment rs_lab_dong_doubly_exponential = {
    "dong-doubly-exponential",
    "Below every float, to depth 34",
    "Dong et al. 2021, main result",
    "Attention without skips in the residual precision: five tokens through 34 layers, to a "
    "residual of 10^-(6e15), and BERT-base at random, whose published curve ends in the rounding "
    "of "
    "float32. After Dong, Cordonnier, Loukas, ICML 2021 (arXiv 2103.03404).",
    run_dong_doubly_exponential,
    "20 s",
    "8 s",
    &table_kind,
    0};
