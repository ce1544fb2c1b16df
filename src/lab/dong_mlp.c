/*
 * dong_mlp.c: MLPs and collapse (Dong, Cordonnier, Loukas 2021, corollary on MLPs and the panel
 * "BERT at initialization"; docs/theory/collapse.md, 5 and 13; corrections.md, 13).
 *
 * An MLP moves the tokens' common value to its own and multiplies differences by at most its
 * Lipschitz constant: prod |W_i| times that of the activation, in any one norm. At initialisation
 * MLPs change nothing that can be seen.
 */
#include "lab/random_bert.h"
#include "lab/toy.h"

#include "base/memory.h"
#include "observe/measure.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
    STATES = 3,
    NETWORKS = 4,
    DRAWS = 1500,
    QUICK_DRAWS = 300,
    N = 6, /* tokens, width and inner width of random MLPs */
    D = 5,
    INNER = 9,
    ACTIVATIONS = 5,
    GRID = 2401,  /* -6 to 6 */
    COMPOSITE = 4 /* relative_residual_1inf among the token measures */
};
static const double grid_step = 12.0 / (GRID - 1);

/* Largest slopes, rounded up: docs/theory/corrections.md, 13. */
static const struct {
    rs_activation activation;
    const char *name;
    double lipschitz;
} activations[ACTIVATIONS] = {
    {RS_ACT_RELU, "ReLU", 1},
    {RS_ACT_GELU, "GELU (erf)", 1.12890415},
    {RS_ACT_GELU_TANH, "GELU (tanh)", 1.12899307},
    {RS_ACT_SILU, "SiLU", 1.09983933},
    {RS_ACT_QUICK_GELU, "quick GELU", 1.09983933},
};

enum { SAN, SAN_MLP, VARIANTS };
static const char *const variant_names[VARIANTS] = {"san", "san+mlp"};

/* Mean over six networks of an independent NumPy calculation; the deviation of one network, over
 * forty of them (six are too few for it: theirs came out at half of that). */
static const double expected_mlp[STATES] = {0.585, 0.0171, 6.4e-7};
static const double deviation_mlp[STATES] = {0.022, 0.0016, 1.4e-7};

enum { COLUMNS, ROWS, SPECTRAL, WITH_SKIP, NORMS }; /* the last two of token diameters */
typedef struct mlp_findings {
    int networks;
    int64_t draws;
    double state[VARIANTS][STATES]; /* means over the networks */
    double slope[ACTIVATIONS], at[ACTIVATIONS];
    double worst[NORMS]; /* largest change over its bound */
    double tight[NORMS]; /* the same for one neuron at the steepest point of GELU */
} mlp_findings;

/* ---- BERT-base at random ---- */

static rs_status one_variant(mlp_findings *f, int variant, const rs_network *whole,
                             rs_weights *weights, const rs_inputs *inputs,
                             const rs_context *context, rs_error *err)
{
    rs_edit edit;
    rs_edit_init(&edit);
    RS_TRY(rs_edit_named(&edit, variant_names[variant], err));
    rs_measure_options options;
    rs_measure_defaults(&options);
    options.precision = RS_PRECISION_F64;
    options.spectral = options.attention = options.loss = false;
    options.phase = "dong-mlp";
    rs_network *network = NULL;
    rs_measured *measured = NULL;
    RS_TRY(rs_network_copy(&network, whole, err));
    rs_status status = rs_edit_apply(network, &edit, err);
    if (status == RS_OK)
        status = rs_measure_network(&measured, network, weights, inputs, &options, NULL, 0, context,
                                    err);
    for (int32_t l = 0; status == RS_OK && l < STATES; l++) {
        const rs_token_row *row = rs_measured_row(measured, RS_TOKEN_SITE_BLOCK_OUT, l);
        f->state[variant][l] += (row ? row->mean.relative_residual_1inf : NAN) / f->networks;
    }
    rs_measured_free(measured);
    rs_network_close(network);
    return status;
}

static rs_status both_variants(mlp_findings *f, const rs_lab_bert *bert, const rs_context *context,
                               rs_error *err)
{
    rs_weights *weights = NULL;
    RS_TRY(rs_weights_open(&weights, RS_PRECISION_F64, rs_weight_limit(context), err));
    rs_status status = RS_OK;
    for (int v = 0; status == RS_OK && v < VARIANTS; v++)
        status = one_variant(f, v, bert->network, weights, &bert->inputs, context, err);
    rs_weights_close(weights);
    return status;
}

/* Its first two layers: what lies behind them is below float32. */
static rs_status one_bert(mlp_findings *f, uint64_t seed, const rs_context *context, rs_error *err)
{
    rs_lab_bert bert;
    RS_TRY(rs_lab_bert_open(&bert, STATES - 1, seed, context, err));
    rs_status status = both_variants(f, &bert, context, err);
    rs_lab_bert_close(&bert);
    return status;
}

/* ---- a layer that is an MLP alone ---- */

/* X <- skip X + act(X up) down. */
static rs_status open_mlp(rs_toy *toy, int width, int inner, double skip, rs_activation activation,
                          const double *up, const double *down, const rs_context *context,
                          rs_error *err)
{
    json_t *arch =
        json_pack("{s:i, s:i, s:s, s:f, s:f, s:s, s:i, s:{s:s, s:s, s:s, s:s, s:s, s:s}}", "depth",
                  1, "d_model", width, "norm", "none", "branch_mixer", 0.0, "skip_mlp", skip, "mlp",
                  "relu", "mlp_width", inner, "init", "wq", "zero", "wk", "zero", "wv", "zero",
                  "wo", "none", "w1", "zero", "w2", "zero");
    RS_TRY(rs_toy_open(toy, arch, context->seed, context, err));
    rs_mlp_op *mlp = &toy->network->layers[0].branches[1].mlp;
    mlp->activation = activation;
    rs_status status = rs_toy_set(toy, &mlp->up, up, NULL, err);
    if (status == RS_OK) status = rs_toy_set(toy, &mlp->down, down, NULL, err);
    if (status != RS_OK) rs_toy_close(toy);
    return status;
}

static rs_status through_mlp(double *out, const double *x, int n, int width, int inner, double skip,
                             rs_activation activation, const double *up, const double *down,
                             const rs_context *context, rs_error *err)
{
    rs_toy toy;
    rs_toy_trace trace;
    RS_TRY(open_mlp(&toy, width, inner, skip, activation, up, down, context, err));
    rs_status status = rs_toy_run(&trace, &toy, x, 1, n, false, err);
    rs_toy_close(&toy);
    RS_TRY(status);
    memcpy(out, rs_toy_state(&trace, 1, 0), (size_t)(n * width) * sizeof *out);
    rs_toy_trace_free(&trace);
    return RS_OK;
}

/* ---- slopes of the engine's activations ---- */

/* Slope at grid point i by five points (error of fourth order); by two where there is a kink. */
static double slope_at(const double *y, int i, bool kink)
{
    if (kink) return (y[i + 1] - y[i - 1]) / (2 * grid_step);
    return (8 * (y[i + 1] - y[i - 1]) - (y[i + 2] - y[i - 2])) / (12 * grid_step);
}

/* The largest slope, by a parabola through the three largest. */
static void steepest(double *slope, double *at, const double *y, bool kink)
{
    int best = 3;
    for (int i = 3; i < GRID - 3; i++)
        if (slope_at(y, i, kink) > slope_at(y, best, kink)) best = i;
    double left = slope_at(y, best - 1, kink), right = slope_at(y, best + 1, kink);
    double middle = slope_at(y, best, kink), bend = left - 2 * middle + right;
    double shift = kink ? 0 : (left - right) / (2 * bend);
    *slope = middle - (left - right) * shift / 4;
    *at = -6 + (best + shift) * grid_step;
}

static rs_status slopes(mlp_findings *f, const rs_context *context, rs_error *err)
{
    static const double one = 1;
    double *x = rs_malloc(2 * GRID, sizeof *x), *y = x ? x + GRID : NULL;
    if (!x) return rs_fail_memory(err, "an experiment", 2 * GRID * sizeof *x);
    for (int i = 0; i < GRID; i++)
        x[i] = -6 + i * grid_step;
    rs_status status = RS_OK;
    for (int a = 0; status == RS_OK && a < ACTIVATIONS; a++) {
        status =
            through_mlp(y, x, GRID, 1, 1, 0, activations[a].activation, &one, &one, context, err);
        if (status == RS_OK)
            steepest(&f->slope[a], &f->at[a], y, activations[a].activation == RS_ACT_RELU);
    }
    rs_free(x);
    return status;
}

/* ---- the bound ---- */

/* Changes of n tokens x + r against that of a common row x (the last of X), over their bounds. */
static rs_status change_ratios(double ratio[NORMS], const double *x, int n, int width, int inner,
                               int a, const double *up, const double *down,
                               const rs_context *context, rs_error *err)
{
    double y[(N + 1) * D], r[N * D], s[N * D], lipschitz = activations[a].lipschitz;
    rs_activation activation = activations[a].activation;
    RS_TRY(through_mlp(y, x, n + 1, width, inner, 0, activation, up, down, context, err));
    for (int i = 0; i < n * width; i++) {
        r[i] = x[i] - x[n * width + i % width];
        s[i] = y[i] - y[n * width + i % width];
    }
    double columns = rs_norm_columns(up, width, inner) * rs_norm_columns(down, inner, width);
    double rows = rs_norm_rows(up, width, inner) * rs_norm_rows(down, inner, width);
    double spectral = rs_norm_spectral(up, width, inner) * rs_norm_spectral(down, inner, width);
    double before = rs_rows_diameter(x, n, width);
    ratio[COLUMNS] =
        rs_norm_columns(s, n, width) / (columns * lipschitz * rs_norm_columns(r, n, width));
    ratio[ROWS] = rs_norm_rows(s, n, width) / (rows * lipschitz * rs_norm_rows(r, n, width));
    ratio[SPECTRAL] = rs_rows_diameter(y, n, width) / (spectral * lipschitz * before);
    RS_TRY(through_mlp(y, x, n, width, inner, 1, activation, up, down, context, err));
    ratio[WITH_SKIP] = rs_rows_diameter(y, n, width) / ((1 + spectral * lipschitz) * before);
    return RS_OK;
}

static rs_status one_mlp(mlp_findings *f, rs_random *random, const rs_context *context,
                         rs_error *err)
{
    double x[(N + 1) * D], up[D * INNER], down[INNER * D], ratio[NORMS];
    int a = 1 + (int)(rs_random_uniform(random) * (ACTIVATIONS - 1));
    double size = pow(10, -2 * rs_random_uniform(random));
    rs_draw_gaussian(up, D * INNER, 1, random);
    rs_draw_gaussian(down, INNER * D, 1, random);
    rs_draw_gaussian(x + N * D, D, 1, random);
    rs_draw_gaussian(x, N * D, size, random);
    for (int i = 0; i < N * D; i++)
        x[i] += x[N * D + i % D];
    RS_TRY(change_ratios(ratio, x, N, D, INNER, a, up, down, context, err));
    for (int k = 0; k < NORMS; k++)
        f->worst[k] = fmax(f->worst[k], ratio[k]);
    return RS_OK;
}

static rs_status bounds(mlp_findings *f, const rs_context *context, rs_error *err)
{
    static const double one = 1;
    const double x[3] = {sqrt(2) - 1e-3, sqrt(2) + 1e-3, sqrt(2)};
    rs_random random = rs_random_new(context->seed, 0x6d6c70);
    for (int64_t i = 0; i < f->draws; i++)
        RS_TRY(one_mlp(f, &random, context, err));
    return change_ratios(f->tight, x, 2, 1, 1, 1, &one, &one, context, err);
}

/* ---- what came out ---- */

static const rs_column point_columns[] = RS_LAB_POINTS(
    RS_LAB_X_STATE, RS_LAB_Y("relative_residual_1inf", "relative residual, composite norm",
                             "|X - 1x|/|X| in the composite norm, mean over the random networks"));
static const rs_table_kind table_kind = {"lab", "dong_mlp", {RS_PART(point_columns)}};
static const rs_lab_curves curves = {
    .kind = &table_kind,
    .title = "BERT at initialisation, with and without MLPs",
    .about =
        "Relative residual in the composite norm of the first states of self-attention without "
        "skips (san) and with MLPs (san+mlp), means over random networks in float64, beside "
        "the published means of one network: MLPs make no difference at initialisation.",
    .log_y = true,
};

static rs_status add_curves(rs_lab_report *report, const mlp_findings *f, rs_error *err)
{
    static const char *const names[VARIANTS] = {"san, published", "san+mlp, published"};
    static const char source[] = "Dong et al. 2021, BERT at init, read from the vector figure";
    rs_table *table = NULL;
    RS_TRY(rs_lab_curves_open(&table, report, &curves, err));
    for (int v = 0; v < VARIANTS; v++)
        for (int l = 0; l < STATES; l++) {
            RS_TRY(rs_lab_curves_add(table, variant_names[v], l, f->state[v][l], err));
            RS_TRY(rs_lab_curves_publish(table, source, names[v], l, rs_lab_bert_published[v][l],
                                         err));
        }
    return RS_OK;
}

static rs_status claim_init(rs_lab_report *report, const mlp_findings *f, rs_error *err)
{
    /* four deviations of one random network, which is what was published; its ratio with and
     * without MLPs deviates by 0.065 */
    const rs_lab_claim claims[] = {
        {"san+mlp at initialisation: state 1", rs_lab_bert_published[SAN_MLP][1], expected_mlp[1],
         f->state[SAN_MLP][1], 4 * deviation_mlp[1], false, false},
        {"san+mlp at initialisation: state 2", rs_lab_bert_published[SAN_MLP][2], expected_mlp[2],
         f->state[SAN_MLP][2], 4 * deviation_mlp[2], false, false},
        {"state 1 with MLPs over without",
         rs_lab_bert_published[SAN_MLP][1] / rs_lab_bert_published[SAN][1], 1,
         f->state[SAN_MLP][1] / f->state[SAN][1], 4 * 0.065 / sqrt(f->networks), false, false},
    };
    for (size_t i = 0; i < sizeof claims / sizeof *claims; i++)
        RS_TRY(rs_lab_add_claim(report, &claims[i], err));
    return RS_OK;
}

static rs_status claim_slopes(rs_lab_report *report, const mlp_findings *f, rs_error *err)
{
    for (int a = 0; a < ACTIVATIONS; a++) {
        char text[80];
        snprintf(text, sizeof text, "largest slope of %s", activations[a].name);
        /* the constants are rounded up in their eighth decimal */
        RS_TRY(rs_lab_expect(report, text, activations[a].lipschitz, f->slope[a], 1.2e-8, err));
    }
    return rs_lab_expect(report, "where GELU (erf) is steepest: sqrt(2)", sqrt(2), f->at[1], 1e-4,
                         err);
}

static rs_status claim_bounds(rs_lab_report *report, const mlp_findings *f, rs_error *err)
{
    static const char *const norms[NORMS] = {"column norm", "row norm", "token diameter",
                                             "token diameter, skip of 1"};
    RS_TRY(rs_lab_statement(report, "an MLP multiplies bounds by at most its Lipschitz constant",
                            err));
    for (int k = 0; k < NORMS; k++) {
        char text[80];
        snprintf(text, sizeof text, "%s: largest change over its bound", norms[k]);
        RS_TRY(rs_lab_at_most(report, text, f->worst[k], 1, err));
        snprintf(text, sizeof text, "%s: one neuron of GELU at its steepest", norms[k]);
        RS_TRY(rs_lab_expect(report, text, 1, f->tight[k], 1e-5, err));
    }
    return RS_OK;
}

static rs_status measure_mlp(mlp_findings *f, const rs_context *context, rs_error *err)
{
    for (int i = 0; i < f->networks; i++) {
        rs_progress(context, "dong-mlp", (uint64_t)i, (uint64_t)f->networks, "networks");
        RS_TRY(rs_check_cancelled(context, err));
        RS_TRY(one_bert(f, context->seed + ((uint64_t)i << 32), context, err));
    }
    RS_TRY(slopes(f, context, err));
    return bounds(f, context, err);
}

static rs_status run_dong_mlp(rs_lab_report *report, const rs_lab_options *options,
                              const rs_context *context, rs_error *err)
{
    mlp_findings f = {.networks = options->quick ? 1 : NETWORKS,
                      .draws = options->quick ? QUICK_DRAWS : DRAWS};
    RS_TRY(measure_mlp(&f, context, err));
    RS_TRY(add_curves(report, &f, err));
    RS_TRY(claim_init(report, &f, err));
    RS_TRY(claim_slopes(report, &f, err));
    RS_TRY(claim_bounds(report, &f, err));
    if (!options->quick) return RS_OK;
    return rs_lab_say_quick(report, "1 network and 300 MLPs instead of 4 and 1500", err);
}

const rs_lab_experiment rs_lab_dong_mlp = {
    "dong-mlp",
    "MLPs at initialisation",
    "Dong et al. 2021, MLPs",
    "The first states of BERT-base at random with and without MLPs; the largest slopes of "
    "activations, found by maximisation; and the bound that they give on how far an MLP moves "
    "tokens apart. After Dong, Cordonnier, Loukas, ICML 2021 (arXiv 2103.03404), on MLPs.",
    run_dong_mlp,
    "10 s",
    "3 s",
    &table_kind,
    0};
