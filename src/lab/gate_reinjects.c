/*
 * gate_reinjects.c: a gate behind mixed values that have collapsed. Where M V = 1 c, all rows alike,
 * mu((M V) * G) = |R G diag(c)|: the gate puts in exactly its own spread, G = silu(X W_z)
 * (docs/theory/ssm.md, 12). Equal tokens have equal gates, so that without positions no gate leaves
 * them.
 *
 * The mixer: normalised linear attention whose queries are 0, so that every row of M is the same and
 * depends on the keys alone.
 */
#include "lab/post_norm.h"

#include <math.h>

enum {
    TOKENS = 6,
    WIDTH = 5,
    STATE = TOKENS * WIDTH,
    MATRIX = WIDTH * WIDTH,
    LAYERS = 8,
    DRAWS = 400,
    QUICK_DRAWS = 50,
    SCALES = 13
};
enum {
    TAG_TOKENS = 80,
    TAG_KEYS = 81,
    TAG_VALUES = 82,
    TAG_GATE = 83
}; /* of a layer: + 10 layer */

typedef struct reinjected {
    int draws;
    double hashed, hashed_off; /* mu behind the layer from a hash, with its gate and without */
    double deep, deep_off;     /* mu/|Y| behind LAYERS layers of these, norm behind each */
    double scale[SCALES], one[SCALES], eight[SCALES]; /* mu/|Y| by the size of W_z */
    double formula;                /* largest relative error of |R G diag(c)|, drawn layers */
    double collapsed;              /* largest mu/|Y| of their mixed values */
    double equal, equal_selective; /* mu behind layers on equal tokens */
    double one_row; /* equal tokens, rows of M that differ: error of one gate for all */
} reinjected;

static double silu(double x)
{
    return x / (1 + exp(-x));
}

static void generate(double *out, uint32_t tag, uint32_t count, double scale)
{
    for (uint32_t i = 0; i < count; i++)
        out[i] = scale * (rs_lab_hash(tag, i) / 2147483648.0 - 1);
}

/* ---- layers ---- */

static json_t *uniform_rows(int depth, const char *norm, const char *gate)
{
    return json_pack("{s:i, s:i, s:i, s:s, s:s, s:b, s:s, s:s, s:s, s:f, s:s, s:{s:s, s:s}}",
                     "depth", depth, "d_model", WIDTH, "heads", 1, "mixer", "linear_attention",
                     "feature_map", "elu", "normalised", 1, "gate", gate, "norm", norm, "norm_kind",
                     "rmsnorm", "skip_mixer", 0.0, "mlp", "none", "init", "wq", "zero", "wo",
                     "none");
}

/* M_ij = 0.8^(i - j) y_i·y_j, j <= i: rows of different sums. */
static json_t *selective_rows(int depth, const char *norm, const char *gate)
{
    return json_pack(
        "{s:i, s:i, s:i, s:s, s:s, s:f, s:s, s:s, s:s, s:s, s:f, s:s, s:{s:s, s:s, s:s}}", "depth",
        depth, "d_model", WIDTH, "heads", 1, "mixer", "linear_attention", "mask", "causal", "decay",
        0.8, "value_map", "identity", "gate", gate, "norm", norm, "norm_kind", "rmsnorm",
        "skip_mixer", 0.0, "mlp", "none", "init", "wq", "identity", "wk", "identity", "wo", "none");
}

/* Opens a stack and runs it on x. weights: of each layer W_k, W_v, W_z, one behind the other; W_k and
 * W_v NULL are left as they were drawn, W_z too where there is no gate. */
static rs_status run_stack(double *last, json_t *arch, const double *weights, bool selective,
                           const double *x, const rs_context *context, rs_error *err)
{
    rs_toy toy;
    rs_toy_trace trace;
    RS_TRY(rs_toy_open(&toy, arch, context->seed, context, err));
    rs_post_norm_exact(&toy);
    rs_status status = RS_OK;
    for (int32_t l = 0; l < toy.network->n_layers && status == RS_OK; l++) {
        rs_linear_op *op = &toy.network->layers[l].branches[0].linear;
        const double *of = weights + (ptrdiff_t)l * 3 * MATRIX;
        if (!selective) status = rs_toy_set(&toy, &op->k, of, NULL, err);
        if (status == RS_OK && !selective)
            status = rs_toy_set(&toy, &op->v, of + MATRIX, NULL, err);
        if (status == RS_OK && op->gate.weight)
            status = rs_toy_set(&toy, &op->gate, of + 2 * (ptrdiff_t)MATRIX, NULL, err);
    }
    int32_t depth = toy.network->n_layers;
    if (status == RS_OK) status = rs_toy_run(&trace, &toy, x, 1, TOKENS, false, err);
    rs_toy_close(&toy);
    RS_TRY(status);
    for (int i = 0; i < STATE; i++)
        last[i] = rs_toy_state(&trace, depth, 0)[i];
    rs_toy_trace_free(&trace);
    return RS_OK;
}

static double spread(const double *y)
{
    double rest[STATE];
    for (int i = 0; i < STATE; i++)
        rest[i] = y[i];
    rs_rows_centre(rest, TOKENS, WIDTH);
    return rs_norm_frobenius(rest, TOKENS, WIDTH);
}

static double relative(const double *y)
{
    return spread(y) / rs_norm_frobenius(y, TOKENS, WIDTH);
}

/* ---- the layer from a hash, and a stack of such ---- */

static void hashed_weights(double *weights, double gate_scale)
{
    for (uint32_t l = 0; l < LAYERS; l++) {
        double *of = weights + (size_t)l * 3 * MATRIX;
        generate(of, TAG_KEYS + 10 * l, MATRIX, 1);
        generate(of + MATRIX, TAG_VALUES + 10 * l, MATRIX, 1);
        generate(of + 2 * (ptrdiff_t)MATRIX, TAG_GATE + 10 * l, MATRIX, 2 * gate_scale);
    }
}

static rs_status hashed_layers(reinjected *r, const rs_context *context, rs_error *err)
{
    double x[STATE], y[STATE], weights[LAYERS * 3 * MATRIX];
    generate(x, TAG_TOKENS, STATE, 1);
    hashed_weights(weights, 1);
    RS_TRY(run_stack(y, uniform_rows(1, "none", "after"), weights, false, x, context, err));
    r->hashed = spread(y);
    RS_TRY(run_stack(y, uniform_rows(1, "none", "none"), weights, false, x, context, err));
    r->hashed_off = spread(y);
    RS_TRY(run_stack(y, uniform_rows(LAYERS, "post", "after"), weights, false, x, context, err));
    r->deep = relative(y);
    RS_TRY(run_stack(y, uniform_rows(LAYERS, "post", "none"), weights, false, x, context, err));
    r->deep_off = relative(y);
    for (int s = 0; s < SCALES; s++) {
        r->scale[s] = ldexp(1, s - SCALES / 2);
        hashed_weights(weights, r->scale[s]);
        RS_TRY(run_stack(y, uniform_rows(1, "none", "after"), weights, false, x, context, err));
        r->one[s] = relative(y);
        RS_TRY(
            run_stack(y, uniform_rows(LAYERS, "post", "after"), weights, false, x, context, err));
        r->eight[s] = relative(y);
    }
    return RS_OK;
}

/* ---- drawn layers ---- */

/* G diag(c), G = silu(X W_z). */
static void gated(double *out, const double *x, const double *gate, const double *c)
{
    rs_small_product(out, x, gate, TOKENS, WIDTH, WIDTH);
    for (int i = 0; i < STATE; i++)
        out[i] = silu(out[i]) * c[i % WIDTH];
}

static rs_status drawn_layers(reinjected *r, const rs_context *context, rs_error *err)
{
    double x[STATE], y[STATE], mixed[STATE], expected[STATE], weights[3 * MATRIX];
    rs_random random = rs_random_new(context->seed, 0x67617465);
    for (int i = 0; i < r->draws; i++) {
        rs_draw_gaussian(x, STATE, 1, &random);
        rs_draw_gaussian(weights, 3 * MATRIX, 0.7, &random);
        RS_TRY(run_stack(mixed, uniform_rows(1, "none", "none"), weights, false, x, context, err));
        RS_TRY(run_stack(y, uniform_rows(1, "none", "after"), weights, false, x, context, err));
        gated(expected, x, weights + 2 * (ptrdiff_t)MATRIX, mixed);
        r->collapsed = fmax(r->collapsed, relative(mixed));
        r->formula = fmax(r->formula, fabs(spread(y) / spread(expected) - 1));
    }
    return RS_OK;
}

/* ---- equal tokens ---- */

static rs_status equal_tokens(reinjected *r, const rs_context *context, rs_error *err)
{
    double x[STATE], y[STATE], mixed[STATE], expected[STATE], weights[LAYERS * 3 * MATRIX];
    const double one[WIDTH] = {1, 1, 1, 1, 1};
    hashed_weights(weights, 1);
    generate(x, TAG_TOKENS, WIDTH, 1);
    for (int i = WIDTH; i < STATE; i++)
        x[i] = x[i % WIDTH];
    RS_TRY(run_stack(y, uniform_rows(LAYERS, "post", "after"), weights, false, x, context, err));
    r->equal = relative(y);
    RS_TRY(run_stack(y, selective_rows(LAYERS, "post", "after"), weights, true, x, context, err));
    r->equal_selective = relative(y);
    RS_TRY(run_stack(mixed, selective_rows(1, "none", "none"), weights, true, x, context, err));
    RS_TRY(run_stack(y, selective_rows(1, "none", "after"), weights, true, x, context, err));
    gated(expected, x, weights + 2 * (ptrdiff_t)MATRIX, one);
    for (int i = 0; i < STATE; i++) {
        double should = mixed[i] * expected[i % WIDTH]; /* the gate of the first token */
        r->one_row = fmax(r->one_row, fabs(y[i] - should) / rs_norm_frobenius(y, TOKENS, WIDTH));
    }
    return RS_OK;
}

/* ---- what came out ---- */

static const rs_column point_columns[] =
    RS_LAB_POINTS(RS_LAB_X("gate_scale", "size of the gate's map", "s in G = silu(s X W_z)"),
                  RS_LAB_Y("relative_residual", "residual over norm",
                           "|Y - 1y|_F/|Y|_F, y the mean token, behind the layers"));
static const rs_table_kind table_kind = {"lab", "gate_reinjects", {RS_PART(point_columns)}};
static const rs_lab_curves curves = {
    .kind = &table_kind,
    .title = "What a gate gives back to collapsed tokens",
    .about = "Residual over norm behind layers whose mixed values are the same for every token, by "
             "the size of the gate's map: all of it is the gate's. Without a gate nothing is left "
             "behind one layer.",
    .log_x = true,
};

static rs_status claim(rs_lab_report *report, const reinjected *r, rs_error *err)
{
    RS_TRY(rs_lab_at_most(report,
                          "no gate: largest residual over norm of mixed values, drawn layers",
                          r->collapsed, 1e-15, err));
    RS_TRY(rs_lab_at_most(report,
                          "gate: largest relative error of mu = |R G diag(c)|, drawn layers",
                          r->formula, 1e-13, err));
    /* tests/oracle/lab_lambda.py, 40 digits */
    RS_TRY(rs_lab_expect(report, "layer from a hash: mu behind the gate", 0.766942986781776,
                         r->hashed, 1e-13, err));
    RS_TRY(rs_lab_at_most(report, "layer from a hash: mu without it", r->hashed_off, 1e-15, err));
    RS_TRY(rs_lab_expect(report, "8 layers with norms: residual over norm", 0.00380169804415763,
                         r->deep, 1e-11, err));
    RS_TRY(rs_lab_at_most(report, "8 layers with norms: residual over norm without gates",
                          r->deep_off, 1e-15, err));
    RS_TRY(rs_lab_at_most(report, "equal tokens, 8 gated layers: residual over norm", r->equal,
                          1e-15, err));
    RS_TRY(rs_lab_at_most(report,
                          "equal tokens, 8 gated selective layers with norms: residual over norm",
                          r->equal_selective, 1e-14, err));
    return rs_lab_at_most(report, "equal tokens, rows of different sums: error of one gate for all",
                          r->one_row, 1e-14, err);
}

static rs_status write_up(rs_lab_report *report, const reinjected *r, rs_error *err)
{
    rs_table *table = NULL;
    RS_TRY(rs_lab_curves_open(&table, report, &curves, err));
    for (int s = 0; s < SCALES; s++)
        RS_TRY(rs_lab_curves_add(table, "one layer", r->scale[s], r->one[s], err));
    for (int s = 0; s < SCALES; s++)
        RS_TRY(rs_lab_curves_add(table, "8 layers with norms", r->scale[s], r->eight[s], err));
    return claim(report, r, err);
}

static rs_status run_gate_reinjects(rs_lab_report *report, const rs_lab_options *options,
                                    const rs_context *context, rs_error *err)
{
    reinjected r = {.draws = options->quick ? QUICK_DRAWS : DRAWS};
    RS_TRY(hashed_layers(&r, context, err));
    RS_TRY(drawn_layers(&r, context, err));
    RS_TRY(equal_tokens(&r, context, err));
    RS_TRY(write_up(report, &r, err));
    return options->quick ? rs_lab_say_quick(report, "50 drawn layers instead of 400", err) : RS_OK;
}

const rs_lab_experiment rs_lab_gate_reinjects = {
    "gate-reinjects",
    "What a gate gives back",
    "Arangath Joseph et al. 2025, gating; docs/theory/ssm.md, 12",
    "Mixers whose mixed values are the same for every token, with and without a gate: behind the "
    "gate "
    "mu is exactly that of the gate times those values, and without it nothing is left. Equal "
    "tokens "
    "have equal gates and stay equal. What is exact about the ablation of gates of Arangath "
    "Joseph, "
    "Sieber, Zeilinger, Amo Alonso, ICLR 2025 (arXiv 2410.10609), whose trained model needs its "
    "own "
    "weights.",
    run_gate_reinjects,
    "< 1 s",
    "< 1 s",
    &table_kind,
    0};
