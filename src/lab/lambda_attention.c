/*
 * lambda_attention.c: the skip strength lambda of causal attention with post-norm,
 * Y <- RMSNorm(lambda Y + P Y W): a stand-in with random weights for the figures of Arangath
 * Joseph, Sieber, Zeilinger, Amo Alonso 2025 (arXiv 2410.10609), rows "attention" of
 * lambda_skip_ssm.md 5.3, and the local criterion of its 3.4.
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
    DRAWS = 8,
    QUICK_DRAWS = 2,
    FEW = 8 /* features, and tokens, of the local criterion */
};
enum { IDENTITY, PSD, GAUSSIAN };
static const char *const kind_names[KINDS] = {"W = I", "W psd", "W gaussian"};
static const double skips[SKIPS] = {-20, -5, -2, -1, -0.5, 0, 0.5, 1, 2, 5, 20};

/* Mean and standard deviation over 16 draws of tests/oracle/lab_expected.py. */
enum { ORACLE_DRAWS = 16 };
static const double expected[KINDS][SKIPS][2] = {
    {{.99842, .00022},
     {.99925, .00016},
     {.99897, .00055},
     {.99844, .00129},
     {.03881, .00077},
     {0, 0},
     {0, 0},
     {0, 0},
     {.00019, .00005},
     {.02444, .00325},
     {.20598, .02410}},
    {{.99849, .00022},
     {.99884, .00017},
     {.99215, .00233},
     {.10925, .06979},
     {0, 0},
     {0, 0},
     {0, 0},
     {0, 0},
     {.00003, .00002},
     {.01691, .00479},
     {.19638, .02386}},
    {{.87774, .01685},
     {.54165, .08089},
     {.02791, .01633},
     {.00001, .00001},
     {0, 0},
     {0, 0},
     {0, 0},
     {.00001, 0},
     {.02942, .01747},
     {.57188, .06064},
     {.87807, .01878}},
};

typedef struct left {
    int32_t draws;
    double sum[KINDS][SKIPS]; /* of ||Y - mean||/||Y|| after the last layer */
    double multiplier[2];     /* measured near consensus, lambda = -5 and 5 */
    double threshold[2];      /* of FEW tokens and of SIZE */
    double tokens[SIZE * SIZE], a[SIZE * SIZE], w[SIZE * SIZE]; /* of the draw under way */
} left;

/* ---- stacks of 64 layers ---- */

static rs_status square_weights(rs_toy *toy, left *out, rs_random *random, rs_error *err)
{
    double *a = out->a, *w = out->w;
    for (int32_t l = 0; l < SIZE; l++) {
        rs_draw_gaussian(a, SIZE * SIZE, 1 / sqrt(SIZE), random);
        for (int i = 0; i < SIZE; i++)
            for (int j = 0; j <= i; j++) {
                double sum = 0;
                for (int k = 0; k < SIZE; k++)
                    sum += a[i * SIZE + k] * a[j * SIZE + k];
                w[i * SIZE + j] = w[j * SIZE + i] = sum;
            }
        RS_TRY(rs_toy_set(toy, &rs_toy_attention(toy, l)->v, w, NULL, err));
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

static rs_status one_skip(double *relative, rs_toy *toy, double skip, const double *x,
                          rs_error *err)
{
    rs_toy_trace trace;
    for (int32_t l = 0; l < SIZE; l++)
        toy->network->layers[l].branches[0].skip = skip;
    RS_TRY(rs_toy_run(&trace, toy, x, 1, SIZE, false, err));
    double *y = rs_toy_state(&trace, SIZE, 0), norm = rs_norm_frobenius(y, SIZE, SIZE);
    rs_rows_centre(y, SIZE, SIZE);
    *relative = rs_norm_frobenius(y, SIZE, SIZE) / norm;
    rs_toy_trace_free(&trace);
    return RS_OK;
}

static void draw_tokens(double *x, rs_random *random)
{
    double common[SIZE];
    rs_draw_gaussian(common, SIZE, 0.5, random);
    rs_draw_gaussian(x, SIZE * SIZE, 1, random);
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
    double *x = out->tokens;
    rs_toy toy;
    uint64_t seed = context->seed + ((uint64_t)(draw + 1) << 32);
    rs_random random = rs_random_new(seed, 0x6c616d62646100 + (uint64_t)kind);
    draw_tokens(x, &random);
    RS_TRY(open_stack(&toy, kind, SIZE, SIZE, seed + (uint64_t)kind, context, err));
    rs_status status = kind == PSD ? square_weights(&toy, out, &random, err) : RS_OK;
    for (int s = 0; status == RS_OK && s < SKIPS; s++) {
        double relative = NAN;
        status = one_skip(&relative, &toy, skips[s], x, err);
        out->sum[kind][s] += relative;
    }
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

static const rs_lab_curves curves = {
    .name = "lambda_attention",
    .title = "What skip strength keeps causal attention apart",
    .about = "Residual over norm after 64 layers of causal attention with post-norm, random "
             "weights, 64 tokens of width 64, by skip strength: strong skips of either sign keep "
             "tokens apart; a negative one does with much less, because it cancels the common mean "
             "that a positive one adds again.",
    .x = {"skip_strength", "skip strength"},
    .y = {"relative_residual", "residual over norm after 64 layers"},
};

static rs_status claim_table(rs_lab_report *report, const left *l, rs_error *err)
{
    for (int k = 0; k < KINDS; k++)
        for (int s = 0; s < SKIPS; s++) {
            const double *e = expected[k][s];
            /* means of few draws, and some skewed: four standard deviations of their difference */
            double tolerance = fmax(1e-3, 4 * e[1] * sqrt(1.0 / l->draws + 1.0 / ORACLE_DRAWS));
            char text[120];
            snprintf(text, sizeof text, "%s, skip strength %g: residual over norm", kind_names[k],
                     skips[s]);
            RS_TRY(rs_lab_expect(report, text, e[0], l->sum[k][s] / l->draws, tolerance, err));
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
            RS_TRY(rs_lab_curves_add(table, &curves, kind_names[k], skips[s],
                                     l->sum[k][s] / l->draws, err));
    RS_TRY(claim_table(report, l, err));
    return claim_criterion(report, l, err);
}

static rs_status measure(left *l, const rs_context *context, rs_error *err)
{
    for (int k = 0; k < KINDS; k++)
        for (int32_t i = 0; i < l->draws; i++) {
            rs_progress(context, "lambda-attention", (uint64_t)(k * l->draws + i),
                        (uint64_t)(KINDS * l->draws), "networks");
            RS_TRY(one_draw(l, k, i, context, err));
        }
    return local_criterion(l, context, err);
}

static rs_status run(rs_lab_report *report, const rs_lab_options *options,
                     const rs_context *context, rs_error *err)
{
    left *l = rs_calloc(1, sizeof *l);
    if (!l) return rs_fail_memory(err, "an experiment", sizeof *l);
    l->draws = options->quick ? QUICK_DRAWS : DRAWS;
    rs_status status = measure(l, context, err);
    if (status == RS_OK) status = write_up(report, l, err);
    rs_free(l);
    RS_TRY(status);
    return options->quick ? rs_lab_say_quick(report, "2 draws of weights instead of 8", err)
                          : RS_OK;
}

const rs_lab_experiment rs_lab_lambda_attention = {
    "lambda-attention", "Skip strength of attention", "Arangath Joseph et al. 2025",
    "64 layers of causal attention with post-norm, random weights, skip strengths from -20 to 20, "
    "for three kinds of value matrices; and the local criterion that says which strengths repel "
    "from tokens that are all alike. A stand-in for the figures of Arangath Joseph, Sieber, "
    "Zeilinger, Amo Alonso, ICLR 2025 (arXiv 2410.10609).",
    run};
