/*
 * relative_position_linear_rate.c: logits that depend on positions make collapse linear
 * (docs/theory/collapse.md, 8 and 10).
 *
 * Near collapse the part of the logits that depends on the tokens' differences vanishes, and what
 * is left is a matrix B that depends on positions alone: a bias by distance, or with rotary
 * positions x W_Q Rot(i - j) W_Kᵀ x of the common token x. Then P = softmax(B) in every layer, and
 * with W_V = I the residual falls by |lambda_2(softmax(B))| a layer.
 */
#include "lab/toy.h"

#include "base/memory.h"
#include "measures/attention_measures.h"

#include <math.h>

enum { TOKENS = 16, WIDTH = 8, LAYERS = 40, KINDS = 4 };
enum { FALLING, LEARNED, ROTARY, NONE };
static const char *const kind_names[KINDS] = {"bias -0.3 |i - j|", "random bias by distance",
                                              "rotary positions", "no positions"};
static const char *const kind_positions[KINDS] = {"relative", "relative", "rope", "none"};

/* The published means of XLNet-base with random weights, self-attention alone, relative and in the
 * composite norm (docs/theory/collapse.md, 13). From state 4 on they are float32 rounding. */
enum { XLNET_STATES = 13 };
static const double xlnet[XLNET_STATES] = {.9996,  1.496e-3, 5.453e-5, 2.6e-6, 2.5e-7,
                                           2.2e-7, 2.2e-7,   2.2e-7,   2.2e-7, 2.2e-7,
                                           2.2e-7, 2.2e-7,   2.2e-7};

typedef struct rates {
    double residual[KINDS][LAYERS + 1];
    double rate[KINDS];    /* measured, a layer, over the last of them */
    double lambda2[KINDS]; /* of the last layer's P */
} rates;

static json_t *architecture(int kind)
{
    return json_pack("{s:i, s:i, s:i, s:s, s:f, s:s, s:s, s:{s:s, s:s}}", "depth", LAYERS,
                     "d_model", WIDTH, "seq_len", TOKENS, "norm", "none", "skip_mixer", 0.0, "mlp",
                     "none", "positions", kind_positions[kind], "init", "wv", "identity", "wo",
                     "none");
}

/* One bias and one pair of W_Q, W_K for all layers: the law is about powers of one matrix. */
static rs_status share_layers(rs_toy *toy, int kind, rs_random *random, rs_error *err)
{
    enum { DISTANCES = 2 * TOKENS - 1 };
    double bias[DISTANCES];
    for (int i = 0; i < DISTANCES; i++)
        bias[i] = kind == FALLING ? -0.3 * abs(i - (TOKENS - 1)) : rs_random_normal(random);
    const rs_attention_op *first = rs_toy_attention(toy, 0);
    const rs_tensor *tensor = NULL;
    if (kind == FALLING || kind == LEARNED)
        RS_TRY(rs_toy_tensor(&tensor, toy, bias, 1, DISTANCES, err));
    for (int32_t l = 0; l < LAYERS; l++) {
        rs_attention_op *op = rs_toy_attention(toy, l);
        op->q = first->q;
        op->k = first->k;
        op->distance_bias = tensor;
    }
    return RS_OK;
}

static rs_status second_eigenvalue(double *lambda2, const double *p, rs_error *err)
{
    rs_attention_measures measures;
    void *workspace = rs_malloc(rs_attention_workspace(TOKENS), 1);
    if (!workspace) return rs_fail_memory(err, "the eigenvalues of attention", 1);
    rs_status status = rs_attention_measure_f64(&measures, p, p, NULL, TOKENS, TOKENS, false, 0,
                                                false, workspace, err);
    rs_free(workspace);
    *lambda2 = measures.lambda2;
    return status;
}

/* The fall a layer from state `from` to the last state above rounding. A complex lambda_2 makes
 * single ratios oscillate: hence the mean over many. */
static double rate_from(const double *residual, int from)
{
    int to = from;
    while (to < LAYERS && residual[to + 1] > 1e-12)
        to++;
    return to > from ? exp(log(residual[to] / residual[from]) / (to - from)) : NAN;
}

static rs_status measure_rates(rates *out, int kind, const rs_context *context, rs_error *err)
{
    double tokens[TOKENS * WIDTH], mean[WIDTH];
    rs_random random = rs_random_new(context->seed, 0x706f736974 + (uint64_t)kind);
    rs_draw_gaussian(mean, WIDTH, 1, &random);
    rs_draw_gaussian(tokens, TOKENS * WIDTH, 0.1, &random);
    for (int i = 0; i < TOKENS * WIDTH; i++)
        tokens[i] += mean[i % WIDTH];
    rs_toy toy;
    rs_toy_trace trace;
    RS_TRY(rs_toy_open(&toy, architecture(kind), context->seed, context, err));
    rs_status status = share_layers(&toy, kind, &random, err);
    if (status == RS_OK) status = rs_toy_run(&trace, &toy, tokens, 1, TOKENS, true, err);
    rs_toy_close(&toy);
    RS_TRY(status);
    for (int l = 0; l <= LAYERS; l++) {
        double *x = rs_toy_state(&trace, l, 0);
        rs_rows_centre(x, TOKENS, WIDTH);
        out->residual[kind][l] = rs_norm_frobenius(x, TOKENS, WIDTH);
    }
    out->rate[kind] = rate_from(out->residual[kind], kind == FALLING ? LAYERS - 1 : 4);
    status = second_eigenvalue(&out->lambda2[kind], rs_toy_mixing(&trace, LAYERS - 1, 0, 0), err);
    rs_toy_trace_free(&trace);
    return status;
}

static const rs_column point_columns[] = RS_LAB_POINTS(
    RS_LAB_X_STATE,
    RS_LAB_Y(
        "residual", "residual, Frobenius norm",
        "|X - 1x|_F, x the mean token; of the published curve |X - 1x|/|X| in the composite norm"));
static const rs_table_kind table_kind = {
    "lab", "relative_position_linear_rate", {RS_PART(point_columns)}};
static const rs_lab_curves curves = {
    .kind = &table_kind,
    .title = "Positions in the logits make collapse linear",
    .about = "Residual by state, in float64, W_V = I: a bias by distance or rotary positions leave "
             "a fall by |lambda_2| a layer (the law is the line of that slope that ends where the "
             "bias does); without positions it is doubly exponential, into rounding. Published: "
             "XLNet-base at random, another network and the relative residual, which falls by 27 "
             "and 21 a layer until float32 rounds, from state 4 on.",
    .log_y = true,
    .y_floor = 1e-17,
};

/* The law and the published curve stand behind the curves that they are about. */
static rs_status add_curves(rs_lab_report *report, const rates *r, rs_error *err)
{
    static const char source[] =
        "Dong et al. 2021, XLNet at init, SAN, read from the vector figure";
    double end = r->residual[FALLING][LAYERS];
    rs_table *table = NULL;
    RS_TRY(rs_lab_curves_open(&table, report, &curves, err));
    for (int k = 0; k < KINDS; k++) {
        for (int l = 0; l <= LAYERS; l++)
            RS_TRY(rs_lab_curves_add(table, kind_names[k], l, r->residual[k][l], err));
        for (int l = 0; k == FALLING && l <= LAYERS; l++)
            RS_TRY(rs_lab_curves_compute(table, "law, |lambda_2| a layer", l,
                                         end * pow(r->lambda2[FALLING], l - LAYERS), err));
        for (int l = 0; k == LEARNED && l < XLNET_STATES; l++)
            RS_TRY(rs_lab_curves_publish(table, source, "XLNet at random, published (relative)", l,
                                         xlnet[l], err));
    }
    return RS_OK;
}

static rs_status write_up(rs_lab_report *report, const rates *r, rs_error *err)
{
    RS_TRY(add_curves(report, r, err));
    RS_TRY(rs_lab_expect(report, "bias -0.3 |i - j|: |lambda_2(softmax(B))|", 0.693279,
                         r->lambda2[FALLING], 1e-6, err));
    RS_TRY(rs_lab_expect(report, "bias -0.3 |i - j|: residual of state 40 over that of state 39",
                         0.693279, r->rate[FALLING], 2e-6, err));
    RS_TRY(rs_lab_expect(report, "random bias by distance: rate over its |lambda_2|", 1,
                         r->rate[LEARNED] / r->lambda2[LEARNED], 0.08, err));
    RS_TRY(rs_lab_expect(report, "rotary positions: rate over the |lambda_2| at consensus", 1,
                         r->rate[ROTARY] / r->lambda2[ROTARY], 0.08, err));
    return rs_lab_at_most(report, "no positions: residual of state 8", r->residual[NONE][8], 1e-14,
                          err);
}

static rs_status run_relative_position_linear_rate(rs_lab_report *report,
                                                   const rs_lab_options *options,
                                                   const rs_context *context, rs_error *err)
{
    (void)options; /* as quick as it can be */
    rates r = {0};
    for (int k = 0; k < KINDS; k++)
        RS_TRY(measure_rates(&r, k, context, err));
    return write_up(report, &r, err);
}

const rs_lab_experiment rs_lab_relative_position_linear_rate = {
    "relative-position-linear-rate",
    "Positions: |lambda_2| a layer",
    "Dong et al. 2021, XLNet; docs/theory/collapse.md, 10",
    "Random attention without skips, 40 layers, with a bias that falls with distance, a random "
    "bias "
    "by distance, rotary positions, and none: where logits depend on positions the residual falls "
    "by |lambda_2| of the attention matrix that is left at consensus. Why XLNet at initialization "
    "falls by a factor a layer in the figure of Dong, Cordonnier, Loukas, ICML 2021 (arXiv "
    "2103.03404).",
    run_relative_position_linear_rate,
    "< 1 s",
    "< 1 s",
    &table_kind,
    0};
