/*
 * causal_half_law.c: under a causal mask attention collapses by one half a layer, never doubly
 * exponentially (docs/theory/collapse.md, 10).
 *
 * Token 1 sees itself alone and never moves. Once the others are close to it, row i of P is
 * uniform over its i keys: a lower triangular matrix with eigenvalues 1, 1/2, 1/3, ..., 1/n. The
 * second decides: with W_V = I, X_t - 1 X_1 tends to 2^-t (i - 1) c, the same for every weight of
 * the queries and keys.
 */
#include "lab/toy.h"

#include <math.h>

enum { TOKENS = 12, WIDTH = 6, LAYERS = 34, MODELS = 3 };
enum { CAUSAL, ROTATED, UNMASKED };

static const char *const model_names[MODELS] = {"causal, W_V = I", "causal, W_V orthogonal",
                                                "no mask, W_V = I"};

typedef struct half_law {
    double residual[MODELS][LAYERS + 1]; /* ||X - 1 X_1||_F; without mask of the mean */
    double profile;                      /* largest |(X_i - X_1)/(X_2 - X_1) - (i - 1)| */
} half_law;

static json_t *architecture(int model)
{
    return json_pack("{s:i, s:i, s:s, s:f, s:s, s:s, s:{s:s, s:s}}", "depth", LAYERS, "d_model",
                     WIDTH, "norm", "none", "skip_mixer", 0.0, "mlp", "none", "mask",
                     model == UNMASKED ? "none" : "causal", "init", "wv",
                     model == ROTATED ? "orthogonal" : "identity", "wo", "none");
}

static double distance(const double *x, int model)
{
    double rest[TOKENS * WIDTH];
    for (int i = 0; i < TOKENS * WIDTH; i++)
        rest[i] = x[i] - x[i % WIDTH];
    if (model == UNMASKED) rs_rows_centre(rest, TOKENS, WIDTH);
    return rs_norm_frobenius(rest, TOKENS, WIDTH);
}

/* Along the feature in which the last token is farthest from the first. */
static double profile_error(const double *x)
{
    int feature = 0;
    double worst = 0;
    for (int k = 1; k < WIDTH; k++)
        if (fabs(x[(TOKENS - 1) * WIDTH + k] - x[k]) >
            fabs(x[(TOKENS - 1) * WIDTH + feature] - x[feature]))
            feature = k;
    double step = x[WIDTH + feature] - x[feature];
    for (int i = 0; i < TOKENS; i++)
        worst = fmax(worst, fabs((x[i * WIDTH + feature] - x[feature]) / step - i));
    return worst;
}

static rs_status measure_half_law(half_law *out, int model, const rs_context *context,
                                  rs_error *err)
{
    double x[TOKENS * WIDTH];
    rs_random random = rs_random_new(context->seed, 0x63617573616c);
    rs_draw_gaussian(x, TOKENS * WIDTH, 1, &random);
    rs_toy toy;
    rs_toy_trace trace;
    RS_TRY(rs_toy_open(&toy, architecture(model), context->seed, context, err));
    rs_status status = rs_toy_run(&trace, &toy, x, 1, TOKENS, false, err);
    rs_toy_close(&toy);
    RS_TRY(status);
    for (int l = 0; l <= LAYERS; l++)
        out->residual[model][l] = distance(rs_toy_state(&trace, l, 0), model);
    if (model == CAUSAL) out->profile = profile_error(rs_toy_state(&trace, LAYERS, 0));
    rs_toy_trace_free(&trace);
    return RS_OK;
}

static const rs_column point_columns[] =
    RS_LAB_POINTS(RS_LAB_X_STATE,
                  RS_LAB_Y("residual", "residual, Frobenius norm",
                           "|X - 1 X_1|_F, X_1 the first token; without a mask of the mean token"));
static const rs_table_kind table_kind = {"lab", "causal_half_law", {RS_PART(point_columns)}};
static const rs_lab_curves curves = {
    .kind = &table_kind,
    .title = "Causal attention collapses by one half a layer",
    .about = "Distance of all tokens from the first one (without a mask: from their mean) by "
             "state, in float64. A causal mask makes the fall linear on this scale, 1/2 a layer; "
             "without it the same weights fall doubly exponentially, into rounding. The law is the "
             "straight line of slope 1/2 that ends where W_V = I does.",
    .log_y = true,
    .y_floor = 1e-17,
};

static rs_status write_up(rs_lab_report *report, const half_law *h, rs_error *err)
{
    rs_table *table = NULL;
    RS_TRY(rs_lab_curves_open(&table, report, &curves, err));
    for (int m = 0; m < MODELS; m++)
        for (int l = 0; l <= LAYERS; l++)
            RS_TRY(rs_lab_curves_add(table, model_names[m], l, h->residual[m][l], err));
    for (int l = 0; l <= LAYERS; l++)
        RS_TRY(rs_lab_curves_compute(table, "law, 1/2 a layer", l,
                                     ldexp(h->residual[CAUSAL][LAYERS], LAYERS - l), err));
    RS_TRY(rs_lab_expect(report, "causal, W_V = I: residual of state 34 over that of state 33",
                         0.500003, h->residual[CAUSAL][LAYERS] / h->residual[CAUSAL][LAYERS - 1],
                         1e-4, err));
    RS_TRY(rs_lab_expect(report, "causal, W_V orthogonal: the same ratio (law: 1/2)", 0.5,
                         h->residual[ROTATED][LAYERS] / h->residual[ROTATED][LAYERS - 1], 1e-4,
                         err));
    RS_TRY(rs_lab_at_most(report, "largest error of the profile (X_i - X_1)/(X_2 - X_1) = i - 1",
                          h->profile, 0.01, err));
    return rs_lab_at_most(report, "without the mask: residual of state 8, same weights",
                          h->residual[UNMASKED][8], 1e-14, err);
}

static rs_status run_causal_half_law(rs_lab_report *report, const rs_lab_options *options,
                                     const rs_context *context, rs_error *err)
{
    (void)options; /* as quick as it can be */
    half_law h = {0};
    for (int m = 0; m < MODELS; m++)
        RS_TRY(measure_half_law(&h, m, context, err));
    return write_up(report, &h, err);
}

const rs_lab_experiment rs_lab_causal_half_law = {
    "causal-half-law",
    "Causal attention: 1/2 a layer",
    "Karagodin et al. 2024; docs/theory/collapse.md, 10",
    "Random causal attention without skips, 34 layers: tokens approach the first one by one half a "
    "layer, token i at distance proportional to i - 1, whatever the weights; without the mask the "
    "same weights collapse doubly exponentially. The class of collapse of Karagodin, Polyanskiy, "
    "Rigollet 2024 (arXiv 2411.04990), with the exact rate.",
    run_causal_half_law,
    "< 1 s",
    "< 1 s",
    &table_kind,
    0};
