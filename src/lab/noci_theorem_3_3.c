/*
 * noci_theorem_3_3.c: where tokens are equal, queries and keys have no gradient, and values do: theorem 3.3
 * of Noci, Anagnostidis, Biggio, Orvieto, Singh, Lucchi 2022 (arXiv 2206.03126); how fast it gets there,
 * and in which networks it bites: with a norm, or without skips. With skips and no norm PX stays as it
 * is, and gQ with it (docs/theory/mean_field.md, 1).
 */
#include "lab/signals.h"

#include <float.h>
#include <math.h>
#include <stdio.h>

enum { N = 8, D = 24, DEPTH = 16, KINDS = 4, DRAWS = 64, NETWORKS = 8, STREAM = 0x74686d33 };
enum { PRE, POST, NO_NORM, NO_SKIP };
static const char *const names[KINDS] = {"pre-norm", "post-norm", "no norm", "no skip, no norm"};

/* Of a kind: log10 gQ/gV of each layer, of uniform attention (W_Q = 0), no MLP; log10 gQ where there is no
 * norm; and, without skips, the largest gQ/gV behind the first layer. */
enum { RATIOS = KINDS * DEPTH, ABSOLUTE = RATIOS, LATER = RATIOS + DEPTH, CELLS };

/* tests/oracle/lab_signals.py noci-theorem-3.3: by kind, layers 1, 4 and 16; without skips layer 1 alone */
enum { SHOWN = 3 };
static const int shown[SHOWN] = {0, 3, 15};
static const rs_awaited awaited[KINDS][SHOWN] = {
    {{-0.797477, 0.014}, {-1.32477, 0.018}, {-2.92696, 0.022}},
    {{-0.960519, 0.017}, {-1.45588, 0.021}, {-7.58834, 0.05}},
    {{-0.966341, 0.017}, {-0.998122, 0.018}, {-0.956312, 0.018}},
    {{-0.987418, 0.018}},
};

static json_t *architecture(int kind, int depth, bool uniform, bool mlp)
{
    return json_pack("{s:i, s:i, s:i, s:s, s:s, s:f, s:{s:s, s:s}}", "depth", depth, "d_model", D,
                     "heads", mlp ? 2 : 1, "norm",
                     kind == PRE    ? "pre"
                     : kind == POST ? "post"
                                    : "none",
                     "mlp", mlp ? "gelu" : "none", "skip_mixer", kind == NO_SKIP ? 0.0 : 1.0,
                     "init", "wo", "none", "wq", uniform ? "zero" : "normal(0, 1/d)");
}

/* ---- exactly equal tokens, and nearly ---- */

typedef struct near_equal {
    double equal;       /* largest gQ or gK over gV of any layer and kind, equal tokens */
    double least_value; /* the least gV there */
    double slopes[2];   /* of ln|dL/dW| of queries and keys in ln|PX| */
} near_equal;

static rs_status see_equal(near_equal *out, const rs_context *context, rs_error *err)
{
    double x[N * D];
    rs_signal_layer layers[DEPTH + 1];
    rs_random random = rs_random_new(context->seed, (uint64_t)STREAM << 32 | 1U << 31);
    rs_draw_tokens(x, N, D, 1, 1, &random);
    out->least_value = INFINITY;
    for (int kind = 0; kind < KINDS; kind++) {
        rs_toy toy;
        RS_TRY(rs_toy_open(&toy, architecture(kind, DEPTH, false, kind != NO_SKIP),
                           rs_draw_seed(&random), context, err));
        rs_status status = rs_signal_pass(layers, &toy, x, N, 1, true, err);
        rs_toy_close(&toy);
        RS_TRY(status);
        for (int l = 0; l < DEPTH; l++) {
            double most = fmax(layers[l].query, layers[l].key);
            out->equal = fmax(out->equal, most / layers[l].value);
            out->least_value = fmin(out->least_value, layers[l].value);
        }
    }
    return RS_OK;
}

/* One layer on 1xᵀ + sR: from s = 1e-3 to 1e-5. */
static rs_status see_slopes(near_equal *out, const rs_context *context, rs_error *err)
{
    double common[D], rest[N * D], x[N * D], apart[2], q[2], k[2];
    rs_random random = rs_random_new(context->seed, (uint64_t)STREAM << 32 | 3U << 30);
    rs_signal_layer layers[2];
    rs_toy toy;
    rs_draw_gaussian(common, D, 1, &random);
    rs_draw_gaussian(rest, N * D, 1, &random);
    RS_TRY(rs_toy_open(&toy, architecture(NO_NORM, 1, false, false), rs_draw_seed(&random), context,
                       err));
    rs_status status = RS_OK;
    for (int end = 0; end < 2 && status == RS_OK; end++) {
        double size = end ? 1e-5 : 1e-3;
        for (int i = 0; i < N * D; i++)
            x[i] = common[i % D] + size * rest[i];
        status = rs_signal_pass(layers, &toy, x, N, 1, true, err);
        apart[end] = log(layers[0].apart) / 2;
        q[end] = log(layers[0].query) / 2;
        k[end] = log(layers[0].key) / 2;
    }
    rs_toy_close(&toy);
    out->slopes[0] = (q[0] - q[1]) / (apart[0] - apart[1]);
    out->slopes[1] = (k[0] - k[1]) / (apart[0] - apart[1]);
    return status;
}

/* ---- over depth ---- */

static rs_status see_kind(double *cells, int kind, rs_random *random, const rs_context *context,
                          rs_error *err)
{
    double x[N * D];
    rs_toy toy;
    rs_signal_layer layers[DEPTH + 1];
    RS_TRY(rs_toy_open(&toy, architecture(kind, DEPTH, true, false), rs_draw_seed(random), context,
                       err));
    rs_draw_tokens(x, N, D, 1, 0, random);
    rs_status status = rs_signal_pass(layers, &toy, x, N, rs_draw_seed(random), true, err);
    rs_toy_close(&toy);
    RS_TRY(status);
    for (int l = 0; l < DEPTH; l++) {
        if (kind == NO_SKIP && l > 0) {
            cells[LATER] = fmax(cells[LATER], layers[l].query / layers[l].value);
            continue;
        }
        cells[kind * DEPTH + l] += log10(layers[l].query / layers[l].value) / NETWORKS;
        if (kind == NO_NORM) cells[ABSOLUTE + l] += log10(layers[l].query) / NETWORKS;
    }
    return RS_OK;
}

static rs_status one_draw(double *cells, const void *of, rs_random *random,
                          const rs_context *context, rs_error *err)
{
    (void)of;
    for (int kind = 0; kind < KINDS; kind++)
        for (int t = 0; t < NETWORKS; t++)
            RS_TRY(see_kind(cells, kind, random, context, err));
    return RS_OK;
}

/* ---- what came out ---- */

static const rs_column point_columns[] =
    RS_LAB_POINTS(RS_LAB_X_WHOLE("layer", "layer", "from 1"),
                  RS_LAB_Y("ratio", "log10 of gQ/gV", "mean over networks; uniform attention"));
static const rs_table_kind table_kind = {"lab", "noci_theorem_3_3", {RS_PART(point_columns)}};
static const rs_lab_curves curves = {
    .kind = &table_kind,
    .title = "Where queries' gradients vanish",
    .about =
        "log10 of the squared gradient of queries over that of values by layer of sixteen: it "
        "falls exponentially with a norm behind the sum, by a power with one in front, at once "
        "without skips, and not at all with skips and no norm.",
};

static rs_status claim_equal(rs_lab_report *report, const near_equal *found, rs_error *err)
{
    /* logits' derivatives are differences that are 0 but for rounding, which enters squared */
    double rounding = N * D * DEPTH * DBL_EPSILON;
    RS_TRY(rs_lab_at_most(report, "equal tokens: largest gQ/gV and gK/gV, all kinds and layers",
                          found->equal, rounding * rounding, err));
    RS_TRY(rs_lab_at_most(report, "equal tokens: 1 over the least gV", 1 / found->least_value, 1,
                          err));
    /* the next order is |PX| = 1e-3 times as large at the nearer end */
    RS_TRY(rs_lab_expect(report, "towards equal tokens: slope of ln|dL/dWQ| in ln|PX|", 2,
                         found->slopes[0], 1e-2, err));
    return rs_lab_expect(report, "towards equal tokens: slope of ln|dL/dWK| in ln|PX|", 2,
                         found->slopes[1], 1e-2, err);
}

/* Slope of a kind's logarithms from layer `from` to the last, per layer. */
static rs_seen slope_of(const rs_draws *draws, int32_t first, int from)
{
    double w[DEPTH] = {0}, mean = (from + DEPTH - 1) / 2.0, square = 0;
    for (int l = from; l < DEPTH; l++)
        square += (l - mean) * (l - mean);
    for (int l = from; l < DEPTH; l++)
        w[l] = (l - mean) / square;
    return rs_draws_combined(draws, first, w, DEPTH);
}

static rs_status claim_depth(rs_lab_report *report, const rs_draws *draws, rs_error *err)
{
    char text[160];
    for (int kind = 0; kind < KINDS; kind++)
        for (int i = 0; i < (kind == NO_SKIP ? 1 : SHOWN); i++) {
            snprintf(text, sizeof text, "%s, layer %d of 16: mean log10 gQ/gV", names[kind],
                     shown[i] + 1);
            RS_TRY(rs_lab_seen(report, text, awaited[kind][i], 0,
                               rs_draws_seen(draws, kind * DEPTH + shown[i]), err));
        }
    /* e halves a block and gQ ∝ e² (docs/theory/mean_field.md, 7), to first order in e: behind 8 blocks ρ̄ is
     * 32/(7/8 + 32), so that e is below 0.031 */
    rs_seen post = slope_of(draws, POST * DEPTH, 8), pre = slope_of(draws, PRE * DEPTH, 8);
    rs_seen none = slope_of(draws, ABSOLUTE, 0);
    RS_TRY(rs_lab_seen(report, "post-norm: decades of gQ/gV a layer, layers 9 to 16",
                       (rs_awaited){-2 * log10(2), 0}, 2 * log10(2) * 0.031, post, err));
    RS_TRY(rs_lab_order(report, "pre-norm falls less than post-norm, decades a layer, by",
                        pre.mean - post.mean, hypot(pre.error, post.error), err));
    RS_TRY(rs_lab_order(report, "pre-norm falls, decades a layer, by", -pre.mean, pre.error, err));
    /* one number in every layer, in expectation (section 1) */
    RS_TRY(rs_lab_seen(report, "no norm: 1 + decades of gQ a layer", (rs_awaited){1, 0}, 0,
                       (rs_seen){1 + none.mean, none.error}, err));
    double later = 0, rounding = N * D * DBL_EPSILON;
    for (int32_t i = 0; i < draws->draws; i++)
        later = fmax(later, draws->of[(size_t)i * CELLS + LATER]);
    return rs_lab_at_most(report, "no skip: largest gQ/gV behind the first layer", later,
                          rounding * rounding, err);
}

static rs_status write_up(rs_lab_report *report, const rs_draws *draws, const near_equal *found,
                          rs_error *err)
{
    rs_table *table = NULL;
    RS_TRY(rs_lab_curves_open(&table, report, &curves, err));
    for (int kind = 0; kind < KINDS; kind++)
        for (int l = 0; l < (kind == NO_SKIP ? 1 : DEPTH); l++)
            RS_TRY(rs_lab_curves_add(table, names[kind], l + 1,
                                     rs_draws_seen(draws, kind * DEPTH + l).mean, err));
    RS_TRY(claim_equal(report, found, err));
    return claim_depth(report, draws, err);
}

static rs_status run_noci_theorem_3_3(rs_lab_report *report, const rs_lab_options *options,
                                      const rs_context *context, rs_error *err)
{
    const rs_draws_plan plan = {.draws = options->quick ? RS_DRAWS_LEAST : DRAWS,
                                .cells = CELLS,
                                .stream = (uint64_t)STREAM << 32,
                                .one = one_draw};
    near_equal found = {0};
    rs_draws draws;
    RS_TRY(see_equal(&found, context, err));
    RS_TRY(see_slopes(&found, context, err));
    RS_TRY(rs_draws_run(&draws, &plan, context, err));
    rs_status status = write_up(report, &draws, &found, err);
    rs_draws_free(&draws);
    if (status != RS_OK || !options->quick) return status;
    return rs_lab_say_quick(report, "16 draws of 8 networks instead of 64", err);
}

const rs_lab_experiment rs_lab_noci_theorem_3_3 = {
    "noci-theorem-3.3",
    "Equal tokens: where gradients vanish",
    "Noci et al. 2022, theorem 3.3",
    "Gradients of queries and keys of equal tokens, how they fall towards them, and gQ/gV by layer "
    "with a norm in front, behind, without one, and without skips. Noci, Anagnostidis, Biggio, "
    "Orvieto, Singh, Lucchi, NeurIPS 2022 (arXiv 2206.03126).",
    run_noci_theorem_3_3,
    "1 s",
    "< 1 s",
    &table_kind,
    0};
