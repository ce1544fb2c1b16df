/*
 * shaped_sde.c: the covariance of tokens under shaped attention in the limit of depth and width together:
 * Noci, Li, Li, He, Hofmann, Maddison, Roy 2023 (arXiv 2306.17759; docs/theory/mean_field.md, 10).
 * Increments of one layer against drift and noise, and networks against solutions.
 */
#include "lab/signals.h"

#include "base/memory.h"
#include "base/sort.h"
#include "linalg/gemm.h"
#include "predict/shaped.h"

#include <math.h>
#include <stdio.h>

enum { M = 4, WIDTH = 128, TRIES = 400, DRAWS = 64, STREAM = 0x73686170 };
enum { FEW = 2, NARROW = 64, DEPTH = 32, NETWORKS = 400, QUICK_NETWORKS = 250 };
enum { PATHS = 2000, STEPS = 200 };
static const double gamma2 = 0.5, tau0 = 1;
static const double start[M * M] = {1, .6, .2, .2, .6, 1, .2, .2, .2, .2, 1.5, .2, .2, .2, .2, 1};
static const double pair_start[FEW * FEW] = {1, .2, .2, 1};

/* Entries whose drift and noise are claimed. */
enum { ENTRIES = 4, NOISES = 3, CELLS = ENTRIES + NOISES };
static const int entries[ENTRIES][2] = {{0, 0}, {0, 1}, {2, 2}, {2, 3}};
static const int noises[NOISES][4] = {{0, 0, 0, 0}, {0, 1, 0, 1}, {0, 0, 1, 1}};

/* tests/oracle/lab_signals.py shaped-sde: drifts of layers of width 128 over the limit's */
static const rs_awaited awaited[1][ENTRIES] = {
    {{0.995607, 0.0041}, {1.0014, 0.0076}, {0.998449, 0.0046}, {0.988322, 0.0076}},
};
/* and of networks of width 64 and 32 layers: means of ln V00 and of the correlation, the median of V00 over
 * the limit's, and the share of paths of four tokens that explode by time 1/2 */
enum { SIZE, CORRELATION, SIZE_MEDIAN, EXPLODED, ENDS, PRODUCT = EXPLODED };
static const rs_awaited ends[1][ENDS] = {
    {{-0.343292, 0.0054}, {0.199294, 0.0029}, {0.969583, 0.0088}, {0.023725, 0.00076}},
};

/* ---- one layer ---- */

/* l [M, M]: the lower triangular root of start. */
static void root_of(double *l)
{
    for (int i = 0; i < M; i++)
        for (int j = 0; j < M; j++) {
            double sum = start[i * M + j];
            l[i * M + j] = 0;
            if (j > i) continue;
            for (int k = 0; k < j; k++)
                sum -= l[i * M + k] * l[j * M + k];
            l[i * M + j] = i == j ? sqrt(sum) : sum / l[j * M + j];
        }
}

/* λ²V + γ²AVAᵀ − V with A = I + softmax(±Y/τ) − 11ᵀ/M, added up over both signs: the mean over W_V. */
static void add_mean(double *sum, const double *logits, double sign)
{
    double a[M * M], half[M * M];
    for (int i = 0; i < M * M; i++)
        a[i] = sign * logits[i];
    rs_rows_softmax(a, M, M);
    for (int i = 0; i < M * M; i++)
        a[i] += (i % (M + 1) == 0) - 1.0 / M;
    rs_small_product(half, a, start, M, M, M);
    for (int i = 0; i < M; i++)
        for (int j = 0; j < M; j++) {
            double mixed = 0;
            for (int k = 0; k < M; k++)
                mixed += half[i * M + k] * a[j * M + k];
            sum[i * M + j] += gamma2 * (mixed - start[i * M + j]) / 2;
        }
}

/* Y/τ = X W_Q W_Kᵀ Xᵀ/(n τ): X W = √n L G with G [M, n] of N(0, 1). */
static void see_drift(double *cells, const double *l, double *g, const double *drift,
                      rs_random *random)
{
    double sum[M * M] = {0}, gram[M * M], half[M * M], logits[M * M];
    for (int t = 0; t < TRIES; t++) {
        rs_draw_gaussian(g, (int64_t)2 * M * WIDTH, 1, random);
        rs_gemm_f64(RS_AS_IS, RS_TURNED, M, M, WIDTH, 1 / (tau0 * WIDTH), g, WIDTH, g + M * WIDTH,
                    WIDTH, 0, gram, M);
        rs_small_product(half, l, gram, M, M, M);
        rs_gemm_f64(RS_AS_IS, RS_TURNED, M, M, M, 1, half, M, l, M, 0, logits, M);
        add_mean(sum, logits, 1);
        add_mean(sum, logits, -1);
    }
    for (int e = 0; e < ENTRIES; e++) {
        int at = entries[e][0] * M + entries[e][1];
        cells[e] = WIDTH * sum[at] / TRIES / drift[at];
    }
}

/* Products of V' − V at A = I, times the width, over the law: exact at any width. */
static void see_noise(double *cells, const double *l, double *g, const rs_shaped *shaped,
                      rs_random *random)
{
    double k[M * M], half[M * M], v[M * M], lambda = sqrt(1 - gamma2);
    for (int t = 0; t < TRIES; t++) {
        rs_draw_gaussian(g, (int64_t)M * WIDTH, 1, random);
        rs_gemm_f64(RS_AS_IS, RS_TURNED, M, M, WIDTH, gamma2 / WIDTH, g, WIDTH, g, WIDTH, 0, k, M);
        for (int i = 0; i < M; i++)
            for (int j = 0; j < M; j++)
                k[i * M + j] +=
                    lambda * sqrt(gamma2 / WIDTH) * (g[i * WIDTH + j] + g[j * WIDTH + i]) -
                    gamma2 * (i == j);
        rs_small_product(half, l, k, M, M, M);
        rs_gemm_f64(RS_AS_IS, RS_TURNED, M, M, M, 1, half, M, l, M, 0, v, M);
        for (int e = 0; e < NOISES; e++) {
            const int *n = noises[e];
            cells[ENTRIES + e] += WIDTH * v[n[0] * M + n[1]] * v[n[2] * M + n[3]] / TRIES /
                                  rs_shaped_noise(shaped, start, n[0], n[1], n[2], n[3]);
        }
    }
}

static rs_status one_layer(double *cells, const void *of, rs_random *random,
                           const rs_context *context, rs_error *err)
{
    const rs_shaped *shaped = of;
    double l[M * M], drift[M * M];
    (void)context;
    double *g = rs_malloc((size_t)2 * M * WIDTH, sizeof *g);
    if (!g) return rs_fail_memory(err, "weights", (size_t)2 * M * WIDTH * sizeof *g);
    root_of(l);
    rs_shaped_drift(drift, shaped, start);
    see_drift(cells, l, g, drift, random);
    see_noise(cells, l, g, shaped, random);
    rs_free(g);
    return RS_OK;
}

/* ---- networks of the engine: depth/width = 1/2 ---- */

static rs_status one_network(double *cells, const void *of, rs_random *random,
                             const rs_context *context, rs_error *err)
{
    (void)of;
    rs_toy toy;
    rs_toy_trace trace = {0};
    double x[FEW * NARROW] = {0}, v[3] = {0};
    /* logits are X W_Q W_KᵀXᵀ/(τ0 n) for weights of variance 1/n, divided by √n here */
    json_t *arch = json_pack("{s:i, s:i, s:s, s:s, s:s, s:f, s:f, s:f, s:{s:s}}", "depth", DEPTH,
                             "d_model", NARROW, "norm", "none", "mlp", "none", "attention",
                             "shaped", "skip_mixer", sqrt(1 - gamma2), "branch_mixer", sqrt(gamma2),
                             "temperature", tau0 * sqrt(NARROW), "init", "wo", "none");
    RS_TRY(rs_toy_open(&toy, arch, rs_draw_seed(random), context, err));
    x[0] = sqrt(NARROW);
    x[NARROW] = 0.2 * sqrt(NARROW);
    x[NARROW + 1] = sqrt(1 - 0.2 * 0.2) * sqrt(NARROW);
    rs_status status = rs_toy_run(&trace, &toy, x, 1, FEW, false, err);
    if (status == RS_OK) {
        const double *end = rs_toy_state(&trace, DEPTH, 0);
        for (int k = 0; k < NARROW; k++) {
            v[0] += end[k] * end[k] / NARROW;
            v[1] += end[k] * end[NARROW + k] / NARROW;
            v[2] += end[NARROW + k] * end[NARROW + k] / NARROW;
        }
        cells[SIZE] = log(v[0]);
        cells[CORRELATION] = v[1] / sqrt(v[0] * v[2]);
        cells[SIZE_MEDIAN] = v[0];
        cells[PRODUCT] = v[1];
    }
    rs_toy_trace_free(&trace);
    rs_toy_close(&toy);
    return status;
}

/* ---- what came out ---- */

static const rs_column point_columns[] = RS_LAB_POINTS(
    RS_LAB_X("time", "depth over width", "t = layer/width"),
    RS_LAB_Y("covariance", "median covariance", "⟨x_i, x_j⟩/width of two tokens, as series says"));
static const rs_table_kind table_kind = {"lab", "shaped_sde", {RS_PART(point_columns)}};
static const rs_lab_curves curves = {
    .kind = &table_kind,
    .title = "Shaped attention, deep and wide",
    .about = "Medians of the covariance of two tokens by depth over width: solutions of the "
             "stochastic equation, and at 1/2 random networks of width 64.",
};

/* The median, and half the width of the interval of order statistics that holds the law's median but for
 * RS_SEEN_ERRORS deviations of a binomial, over as many errors. */
static rs_seen median_of(const rs_draws *draws, int32_t cell, double *sorted)
{
    int64_t n = draws->draws, reach = (int64_t)(RS_SEEN_ERRORS * sqrt((double)n) / 2);
    for (int64_t i = 0; i < n; i++)
        sorted[i] = draws->of[i * draws->cells + cell];
    rs_sort_doubles(sorted, n);
    return (rs_seen){sorted[n / 2],
                     (sorted[n / 2 + reach] - sorted[n / 2 - reach]) / (2 * RS_SEEN_ERRORS)};
}

static rs_status claim_layer(rs_lab_report *report, const rs_draws *draws, rs_error *err)
{
    char text[160];
    for (int e = 0; e < ENTRIES; e++) {
        snprintf(text, sizeof text, "width 128: mean increment of V%d%d over the drift",
                 entries[e][0], entries[e][1]);
        RS_TRY(rs_lab_seen(report, text, awaited[0][e], 0, rs_draws_seen(draws, e), err));
    }
    for (int e = 0; e < NOISES; e++) {
        const int *n = noises[e];
        snprintf(text, sizeof text, "covariance of dV%d%d and dV%d%d over the law", n[0], n[1],
                 n[2], n[3]);
        RS_TRY(rs_lab_seen(report, text, (rs_awaited){1, 0}, 0, rs_draws_seen(draws, ENTRIES + e),
                           err));
    }
    return RS_OK;
}

/* Shaped ReLU by its own map of correlations, at width 10⁶. */
static rs_status claim_relu(rs_lab_report *report, rs_error *err)
{
    double root = 1e3, plus = 1, minus = 1 - 1 / root, rho = 0.2, angle = acos(rho);
    double sine = sqrt(1 - rho * rho), pi = acos(-1);
    double same = (sine + rho * (pi - angle)) / (2 * pi), other = (sine - rho * angle) / (2 * pi);
    double squares = plus * plus + minus * minus;
    double moved = (squares * same - 2 * plus * minus * other) / (squares / 2) - rho;
    return rs_lab_expect(report, "shaped ReLU, width 10^6: width times the step of the correlation",
                         rs_shaped_relu_drift(0, -1, rho), moved * root * root,
                         /* 1 + O(1/√width): (s₊² + s₋²)/2 is 1 − 1/√width */ 2e-3, err);
}

static rs_status claim_networks(rs_lab_report *report, const rs_draws *draws, double size,
                                double *sorted, rs_error *err)
{
    static const char *const names[EXPLODED] = {"width 64, 32 layers: mean of ln V00",
                                                "the same: mean correlation of two tokens",
                                                "the same: median of V00 over the equation's"};
    for (int i = 0; i < EXPLODED; i++) {
        rs_seen seen = rs_draws_seen(draws, i);
        if (i == SIZE_MEDIAN) {
            seen = median_of(draws, i, sorted);
            seen = (rs_seen){seen.mean / size, seen.error / size};
        }
        RS_TRY(rs_lab_seen(report, names[i], ends[0][i], 0, seen, err));
    }
    return RS_OK;
}

static rs_status claim_exploded(rs_lab_report *report, const rs_context *context, rs_error *err)
{
    const rs_shaped shaped = {.m = M, .gamma2 = gamma2, .tau0 = tau0};
    const rs_shaped_run run = {.time = 0.5, .steps = STEPS, .paths = PATHS, .seed = context->seed};
    double median[M * M];
    int32_t exploded = 0;
    RS_TRY(rs_shaped_paths(median, &exploded, &shaped, start, &run, err));
    double share = (double)exploded / PATHS;
    return rs_lab_seen(report, "four tokens: share of paths that explode by time 1/2",
                       ends[0][EXPLODED], 0, (rs_seen){share, sqrt(share * (1 - share) / PATHS)},
                       err);
}

/* Leaves the medians at time 1/2 in `median`. */
static rs_status draw(rs_lab_report *report, double *median, const rs_context *context,
                      const rs_seen end[2], rs_error *err)
{
    const rs_shaped shaped = {.m = FEW, .gamma2 = gamma2, .tau0 = tau0};
    static const char *const series[2] = {"V00", "V01"};
    rs_table *table = NULL;
    RS_TRY(rs_lab_curves_open(&table, report, &curves, err));
    double at[5][2];
    for (int i = 0; i < 5; i++) {
        const rs_shaped_run run = {
            .time = 0.1 * (i + 1), .steps = 40 * (i + 1), .paths = PATHS, .seed = context->seed};
        int32_t exploded;
        RS_TRY(rs_shaped_paths(median, &exploded, &shaped, pair_start, &run, err));
        at[i][0] = median[0];
        at[i][1] = median[1];
    }
    for (int entry = 0; entry < 2; entry++) {
        for (int i = 0; i < 5; i++)
            RS_TRY(rs_lab_curves_compute(table, series[entry], 0.1 * (i + 1), at[i][entry], err));
        RS_TRY(rs_lab_curves_add(table, entry ? "V01, networks" : "V00, networks", 0.5,
                                 end[entry].mean, err));
    }
    return RS_OK;
}

static rs_status write_up(rs_lab_report *report, const rs_draws *layer, const rs_draws *networks,
                          const rs_context *context, rs_error *err)
{
    double median[FEW * FEW], *sorted = rs_malloc((size_t)networks->draws, sizeof *sorted);
    if (!sorted) return rs_fail_memory(err, "medians", (size_t)networks->draws * sizeof *sorted);
    const rs_seen end[2] = {median_of(networks, SIZE_MEDIAN, sorted),
                            median_of(networks, PRODUCT, sorted)};
    rs_status status = draw(report, median, context, end, err);
    if (status == RS_OK) status = claim_layer(report, layer, err);
    if (status == RS_OK) status = claim_relu(report, err);
    if (status == RS_OK) status = claim_networks(report, networks, median[0], sorted, err);
    if (status == RS_OK) status = claim_exploded(report, context, err);
    rs_free(sorted);
    return status;
}

static rs_status run_shaped_sde(rs_lab_report *report, const rs_lab_options *options,
                                const rs_context *context, rs_error *err)
{
    const rs_shaped shaped = {.m = M, .gamma2 = gamma2, .tau0 = tau0};
    const rs_draws_plan layer = {.draws = options->quick ? RS_DRAWS_LEAST : DRAWS,
                                 .cells = CELLS,
                                 .stream = (uint64_t)STREAM << 32,
                                 .one = one_layer,
                                 .of = &shaped};
    const rs_draws_plan network = {.draws = options->quick ? QUICK_NETWORKS : NETWORKS,
                                   .cells = ENDS,
                                   .stream = (uint64_t)(STREAM + 1) << 32,
                                   .one = one_network};
    rs_draws layers, networks;
    RS_TRY(rs_draws_run(&layers, &layer, context, err));
    rs_status status = rs_draws_run(&networks, &network, context, err);
    if (status == RS_OK) {
        status = write_up(report, &layers, &networks, context, err);
        rs_draws_free(&networks);
    }
    rs_draws_free(&layers);
    if (status != RS_OK || !options->quick) return status;
    return rs_lab_say_quick(report, "250 networks instead of 400, 16 draws of layers instead of 64",
                            err);
}

const rs_lab_experiment rs_lab_shaped_sde = {
    "shaped-sde",
    "Shaped attention, deep and wide",
    "Noci et al. 2023, the covariance SDE",
    "Drift and noise of the tokens' covariance in one layer of shaped attention, random networks "
    "half as deep as wide against solutions of the stochastic equation, and how many of its paths "
    "explode. Noci, Li, Li, He, Hofmann, Maddison, Roy, NeurIPS 2023 (arXiv 2306.17759).",
    run_shaped_sde,
    "2 s",
    "1 s",
    &table_kind,
    0};
