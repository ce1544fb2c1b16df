/*
 * lambda_attention.c: the skip strength lambda of causal attention with post-norm,
 * Y <- RMSNorm(lambda Y + P Y W): a stand-in with random weights for the figures of Arangath
 * Joseph, Sieber, Zeilinger, Amo Alonso 2025 (arXiv 2410.10609), and the local
 * criterion of docs/theory/signal.md, 7.
 *
 * The criterion: near tokens that are all alike, causal P is uniform over the visible keys, and
 * with W = I what tells token i from the first is multiplied by (lambda + 1/i)/(lambda + 1) a
 * layer. All lambda >= 0 make that smaller than 1; collapse repels for lambda below -(1 + 1/n)/2.
 */
#include "lab/toy.h"

#include "base/memory.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
    SIZE = 64, /* tokens, features and layers */
    SKIPS = 11,
    KINDS = 3,
    DRAWS = 16,
    QUICK_DRAWS = 3,
    FEW = 8 /* features, and tokens, of the local criterion */
};
enum { IDENTITY, PSD, GAUSSIAN };
static const double common_share = 0.5; /* deviation of what all tokens share */
static const char *const kind_names[KINDS] = {"W = I", "W psd", "W gaussian"};
static const double skips[SKIPS] = {-20, -5, -2, -1, -0.5, 0, 0.5, 1, 2, 5, 20};

/* tests/oracle/lab_lambda_attention.py: log10 of the residual over the norm, mean and standard
 * deviation over 256 draws. */
enum { ORACLE_DRAWS = 256 };
static const double expected[KINDS][SKIPS][2] = {{{-0.000688, 0.000130},
                                                  {-0.000355, 0.000076},
                                                  {-0.000363, 0.000151},
                                                  {-0.000840, 0.000654},
                                                  {-1.413592, 0.006973},
                                                  {-18.027121, 0.419324},
                                                  {-9.881404, 0.192380},
                                                  {-6.583341, 0.148492},
                                                  {-3.741782, 0.109295},
                                                  {-1.584765, 0.063839},
                                                  {-0.693766, 0.039152}},
                                                 {{-0.000722, 0.000129},
                                                  {-0.000480, 0.000096},
                                                  {-0.003577, 0.000938},
                                                  {-1.034294, 0.288445},
                                                  {-21.152129, 0.705424},
                                                  {-18.517134, 0.819489},
                                                  {-12.052214, 0.503739},
                                                  {-8.229100, 0.402583},
                                                  {-4.575046, 0.281896},
                                                  {-1.781340, 0.142881},
                                                  {-0.705304, 0.051478}},
                                                 {{-0.059285, 0.011271},
                                                  {-0.277794, 0.066127},
                                                  {-1.642292, 0.231255},
                                                  {-5.268382, 0.337396},
                                                  {-11.437212, 0.408727},
                                                  {-18.159105, 0.555109},
                                                  {-11.493494, 0.445333},
                                                  {-5.240967, 0.328317},
                                                  {-1.635349, 0.227928},
                                                  {-0.272559, 0.065550},
                                                  {-0.059116, 0.010614}}};
/* The same for one network whose numbers are a hash of their index. */
static const double expected_hashed[KINDS][SKIPS] = {
    {-0.000692951, -0.000331568, -0.000370602, -0.000410851, -1.400004316, -18.221493938,
     -10.090401272, -6.768685879, -3.863213924, -1.641099002, -0.689096682},
    {-0.000692624, -0.000372310, -0.003766554, -0.990901885, -20.699057615, -19.093485166,
     -12.739957130, -8.567859446, -4.964437147, -1.744255641, -0.724844708},
    {-0.058825025, -0.305706760, -1.467806230, -5.152350453, -11.781799226, -18.436332592,
     -11.165480222, -5.141857250, -1.667248593, -0.266971436, -0.057076800}};

typedef struct left {
    int32_t draws;
    double sum[KINDS][SKIPS];    /* of log10(||Y - mean||/||Y||) after the last layer */
    double hashed[KINDS][SKIPS]; /* the same of the network from a hash */
    double multiplier[2];        /* measured near consensus, lambda = -5 and 5 */
    double threshold[2];         /* of FEW tokens and of SIZE */
    double tokens[SIZE * SIZE], a[SIZE * SIZE], w[SIZE * SIZE]; /* of the draw under way */
} left;

/* ---- stacks of 64 layers ---- */

/* W = A Aᵀ */
static void square(double *w, const double *a)
{
    for (int i = 0; i < SIZE; i++)
        for (int j = 0; j <= i; j++) {
            double sum = 0;
            for (int k = 0; k < SIZE; k++)
                sum += a[i * SIZE + k] * a[j * SIZE + k];
            w[i * SIZE + j] = w[j * SIZE + i] = sum;
        }
}

static rs_status square_weights(rs_toy *toy, left *out, rs_random *random, rs_error *err)
{
    for (int32_t l = 0; l < SIZE; l++) {
        rs_draw_gaussian(out->a, SIZE * SIZE, 1 / sqrt(SIZE), random);
        square(out->w, out->a);
        RS_TRY(rs_toy_set(toy, &rs_toy_attention(toy, l)->v, out->w, NULL, err));
    }
    return RS_OK;
}

/* count numbers of N(0, scale²), a hash of tag and index: Box and Muller's first. */
static void hashed_normal(double *out, uint32_t tag, uint32_t count, double scale)
{
    for (uint32_t k = 0; k < count; k++) {
        double radius = (rs_lab_hash(tag, 2 * k) + 0.5) / 4294967296.0;
        double angle = (rs_lab_hash(tag, 2 * k + 1) + 0.5) / 4294967296.0;
        out[k] = scale * sqrt(-2 * log(radius)) * cos(2 * acos(-1) * angle);
    }
}

static rs_status hashed_weights(rs_toy *toy, left *out, int kind, rs_error *err)
{
    double *a = out->a;
    for (int32_t l = 0; l < SIZE; l++) {
        rs_attention_op *op = rs_toy_attention(toy, l);
        uint32_t tag = 100 + 10 * (uint32_t)l;
        hashed_normal(a, tag, SIZE * SIZE, 1 / sqrt(SIZE));
        RS_TRY(rs_toy_set(toy, &op->q, a, NULL, err));
        hashed_normal(a, tag + 1, SIZE * SIZE, 1 / sqrt(SIZE));
        RS_TRY(rs_toy_set(toy, &op->k, a, NULL, err));
        hashed_normal(a, tag + 2, SIZE * SIZE, 1 / sqrt(SIZE));
        if (kind == PSD) square(out->w, a);
        if (kind != IDENTITY) RS_TRY(rs_toy_set(toy, &op->v, kind == PSD ? out->w : a, NULL, err));
    }
    return RS_OK;
}

static rs_status open_stack(rs_toy *toy, int kind, int32_t depth, int32_t size, uint64_t seed,
                            const rs_context *context, rs_error *err)
{
    json_t *arch = json_pack("{s:i, s:i, s:s, s:s, s:s, s:s, s:{s:s, s:s}}", "depth", (int)depth,
                             "d_model", (int)size, "norm", "post", "norm_kind", "rmsnorm", "mask",
                             "causal", "mlp", "none", "init", "wv",
                             kind == IDENTITY ? "identity" : "normal(0, 1/fan_in)", "wo", "none");
    RS_TRY(rs_toy_open(toy, arch, seed, context, err));
    for (int32_t l = 0; l < depth; l++)
        toy->network->layers[l].branches[0].after.eps = 1e-12;
    return RS_OK;
}

/* In the residual precision: most of these lie far below the rounding of the states. */
static rs_status one_skip(double *log10_relative, rs_toy *toy, double skip, const double *x,
                          rs_error *err)
{
    rs_toy_trace trace;
    for (int32_t l = 0; l < SIZE; l++)
        toy->network->layers[l].branches[0].skip = skip;
    RS_TRY(rs_toy_run(&trace, toy, x, 1, SIZE, false, err));
    double rest = rs_norm_frobenius(rs_toy_state(&trace, SIZE, 0), SIZE, SIZE);
    *log10_relative = log10(rest / trace.norms[SIZE]) + (double)trace.exponents[SIZE] * log10(2);
    rs_toy_trace_free(&trace);
    return RS_OK;
}

static rs_status all_skips(double sum[SKIPS], rs_toy *toy, const double *x, rs_error *err)
{
    for (int s = 0; s < SKIPS; s++) {
        double log10_relative = NAN;
        RS_TRY(one_skip(&log10_relative, toy, skips[s], x, err));
        sum[s] += log10_relative;
    }
    return RS_OK;
}

/* What all tokens share, and rows brought to length sqrt(SIZE). */
static void finish_tokens(double *x, const double *common)
{
    for (int i = 0; i < SIZE; i++) {
        double sum = 0;
        for (int k = 0; k < SIZE; k++) {
            x[i * SIZE + k] += common[k];
            sum += x[i * SIZE + k] * x[i * SIZE + k] / SIZE;
        }
        for (int k = 0; k < SIZE; k++)
            x[i * SIZE + k] /= sqrt(sum);
    }
}

/* One network and one set of tokens for all strengths: every mean is over independent draws. */
static rs_status one_draw(left *out, int kind, int32_t draw, const rs_context *context,
                          rs_error *err)
{
    double *x = out->tokens, common[SIZE];
    rs_toy toy;
    uint64_t seed = context->seed + ((uint64_t)(draw + 1) << 32);
    rs_random random = rs_random_new(seed, 0x6c616d62646100 + (uint64_t)kind);
    rs_draw_gaussian(common, SIZE, common_share, &random);
    rs_draw_gaussian(x, SIZE * SIZE, 1, &random);
    finish_tokens(x, common);
    RS_TRY(open_stack(&toy, kind, SIZE, SIZE, seed + (uint64_t)kind, context, err));
    rs_status status = rs_toy_precision(&toy, RS_PRECISION_RESIDUAL, err);
    if (status == RS_OK && kind == PSD) status = square_weights(&toy, out, &random, err);
    if (status == RS_OK) status = all_skips(out->sum[kind], &toy, x, err);
    rs_toy_close(&toy);
    return status;
}

/* The network from a hash, whatever --seed is. */
static rs_status hashed_draw(left *out, int kind, const rs_context *context, rs_error *err)
{
    double *x = out->tokens, common[SIZE];
    rs_toy toy;
    hashed_normal(common, 1, SIZE, common_share);
    hashed_normal(x, 2, SIZE * SIZE, 1);
    finish_tokens(x, common);
    RS_TRY(open_stack(&toy, kind, SIZE, SIZE, 0, context, err));
    rs_status status = rs_toy_precision(&toy, RS_PRECISION_RESIDUAL, err);
    if (status == RS_OK) status = hashed_weights(&toy, out, kind, err);
    if (status == RS_OK) status = all_skips(out->hashed[kind], &toy, x, err);
    rs_toy_close(&toy);
    return status;
}

/* ---- the local criterion ---- */

/* Growth a layer of what tells tokens apart, near tokens that are alike, after `layers` layers
 * between which it is scaled back to 1e-5. */
static rs_status growth(double *out, rs_toy *toy, int tokens, double skip, int layers,
                        rs_error *err)
{
    static const double small = 1e-5;
    double x[SIZE * FEW], common[FEW], before = small;
    rs_random random = rs_random_new(1, 0x67726f777468);
    rs_draw_gaussian(common, FEW, 1, &random);
    for (int i = 0; i < tokens * FEW; i++)
        x[i] = common[i % FEW] + (i < FEW ? 0 : small * rs_random_normal(&random));
    toy->network->layers[0].branches[0].skip = skip;
    for (int l = 0; l < layers; l++) {
        rs_toy_trace trace;
        RS_TRY(rs_toy_run(&trace, toy, x, 1, tokens, false, err));
        memcpy(x, rs_toy_state(&trace, 1, 0), (size_t)(tokens * FEW) * sizeof *x);
        rs_toy_trace_free(&trace);
        for (int i = FEW; i < tokens * FEW; i++)
            x[i] -= x[i % FEW];
        double after = rs_norm_frobenius(x + FEW, tokens - 1, FEW);
        *out = after / before;
        before = small;
        for (int i = FEW; i < tokens * FEW; i++)
            x[i] = x[i % FEW] + x[i] * small / after;
    }
    return RS_OK;
}

/* The strength at which that growth is 1, by bisection. */
static rs_status find_threshold(double *out, rs_toy *toy, int tokens, int layers, int halvings,
                                rs_error *err)
{
    double repels = -0.58, attracts = -0.48;
    for (int i = 0; i < halvings; i++) {
        double middle = (repels + attracts) / 2, factor = NAN;
        RS_TRY(growth(&factor, toy, tokens, middle, layers, err));
        if (factor > 1)
            repels = middle;
        else
            attracts = middle;
    }
    *out = attracts;
    return RS_OK;
}

static rs_status local_criterion(left *out, const rs_context *context, rs_error *err)
{
    rs_toy toy;
    RS_TRY(open_stack(&toy, IDENTITY, 1, FEW, context->seed, context, err));
    rs_status status = growth(&out->multiplier[0], &toy, FEW, -5, 3000, err);
    if (status == RS_OK) status = growth(&out->multiplier[1], &toy, FEW, 5, 500, err);
    if (status == RS_OK) status = find_threshold(&out->threshold[0], &toy, FEW, 400, 14, err);
    if (status == RS_OK) status = find_threshold(&out->threshold[1], &toy, SIZE, 5000, 7, err);
    rs_toy_close(&toy);
    return status;
}

/* ---- what came out ---- */

static const rs_column point_columns[] = RS_LAB_POINTS(
    RS_LAB_X("skip_strength", "skip strength", "lambda in Y <- RMSNorm(lambda Y + P Y W)"),
    RS_LAB_Y("relative_residual", "residual over norm after 64 layers",
             "|X - 1x|_F/|X|_F, x the mean token; geometric mean over draws"));
static const rs_table_kind table_kind = {"lab", "lambda_attention", {RS_PART(point_columns)}};
static const rs_lab_curves curves = {
    .kind = &table_kind,
    .title = "What skip strength keeps causal attention apart",
    .about = "Residual over norm after 64 layers of causal attention with post-norm, random "
             "weights, 64 tokens of width 64, by skip strength (geometric means over draws, "
             "residual arithmetic): strong skips of either sign keep tokens apart; a negative one "
             "does with much less, because it cancels the common mean that a positive one adds "
             "again.",
    .log_y = true,
};

static rs_status claim_table(rs_lab_report *report, const left *l, rs_error *err)
{
    char text[120];
    for (int k = 0; k < KINDS; k++) {
        double worst = 0;
        for (int s = 0; s < SKIPS; s++) {
            const double *e = expected[k][s];
            /* means of few draws: four standard deviations of their difference */
            double tolerance = 4 * e[1] * sqrt(1.0 / l->draws + 1.0 / ORACLE_DRAWS);
            snprintf(text, sizeof text, "%s, skip strength %g: mean log10 of residual over norm",
                     kind_names[k], skips[s]);
            RS_TRY(rs_lab_expect(report, text, e[0], l->sum[k][s] / l->draws, tolerance, err));
            worst = fmax(worst, fabs(l->hashed[k][s] - expected_hashed[k][s]));
        }
        snprintf(text, sizeof text,
                 "%s, weights from a hash: largest error of log10 over the %d strengths",
                 kind_names[k], (int)SKIPS);
        RS_TRY(rs_lab_at_most(report, text, worst, 1e-8, err));
    }
    return RS_OK;
}

static rs_status claim_criterion(rs_lab_report *report, const left *l, rs_error *err)
{
    RS_TRY(rs_lab_expect(report, "8 tokens alike, skip -5: growth a layer, |-5 + 1/8|/4", 1.21875,
                         l->multiplier[0], 1e-3, err));
    RS_TRY(rs_lab_expect(report, "8 tokens alike, skip 5: growth a layer, (5 + 1/2)/6", 5.5 / 6,
                         l->multiplier[1], 1e-3, err));
    RS_TRY(rs_lab_expect(report, "8 tokens: strength below which likeness repels, -(1 + 1/8)/2",
                         -0.5625, l->threshold[0], 1e-3, err));
    /* eigenvalues 1/64 and 1/63 are so close that thousands of layers hardly part them */
    return rs_lab_expect(report, "64 tokens: strength below which likeness repels, -(1 + 1/64)/2",
                         -0.5078125, l->threshold[1], 4e-3, err);
}

static rs_status write_up(rs_lab_report *report, const left *l, rs_error *err)
{
    rs_table *table = NULL;
    RS_TRY(rs_lab_curves_open(&table, report, &curves, err));
    for (int k = 0; k < KINDS; k++)
        for (int s = 0; s < SKIPS; s++)
            RS_TRY(rs_lab_curves_add(table, kind_names[k], skips[s],
                                     pow(10, l->sum[k][s] / l->draws), err));
    RS_TRY(claim_table(report, l, err));
    return claim_criterion(report, l, err);
}

static rs_status measure_left(left *l, const rs_context *context, rs_error *err)
{
    for (int k = 0; k < KINDS; k++) {
        RS_TRY(hashed_draw(l, k, context, err));
        for (int32_t i = 0; i < l->draws; i++) {
            rs_progress(context, "lambda-attention", (uint64_t)(k * l->draws + i),
                        (uint64_t)(KINDS * l->draws), "networks");
            RS_TRY(one_draw(l, k, i, context, err));
        }
    }
    return local_criterion(l, context, err);
}

static rs_status run_lambda_attention(rs_lab_report *report, const rs_lab_options *options,
                                      const rs_context *context, rs_error *err)
{
    left *l = rs_calloc(1, sizeof *l);
    if (!l) return rs_fail_memory(err, "an experiment", sizeof *l);
    l->draws = options->quick ? QUICK_DRAWS : DRAWS;
    rs_status status = measure_left(l, context, err);
    if (status == RS_OK) status = write_up(report, l, err);
    rs_free(l);
    RS_TRY(status);
    return options->quick ? rs_lab_say_quick(report, "3 draws of weights instead of 16", err)
                          : RS_OK;
}

const rs_lab_experiment rs_lab_lambda_attention = {
    "lambda-attention",
    "Skip strength of attention",
    "Arangath Joseph et al. 2025",
    "64 layers of causal attention with post-norm, random weights, skip strengths from -20 to 20, "
    "for three kinds of value matrices; and the local criterion that says which strengths repel "
    "from tokens that are all alike. A stand-in for the figures of Arangath Joseph, Sieber, "
    "Zeilinger, Amo Alonso, ICLR 2025 (arXiv 2410.10609).",
    run_lambda_attention,
    "6 s",
    "2 s",
    &table_kind,
    0};
