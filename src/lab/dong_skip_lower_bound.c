/*
 * dong_skip_lower_bound.c: what a skip connection does and does not guarantee (Dong, Cordonnier,
 * Loukas 2021; docs/theory/collapse.md, 7).
 *
 * The paper: there are weights for which the residual never shrinks. True (W_V = 0). Its argument,
 * that a contribution orthogonal to the residual cannot shrink it, holds for the Frobenius norm
 * and fails for the composite one that the paper measures by. And no skip prevents collapse for
 * every weight: one layer can end it exactly.
 */
#include "lab/toy.h"

#include <math.h>
#include <string.h>

enum { DEPTH = 64, TOKENS = 8, WIDTH = 6, FALL = 6, CLIMB = 28, INTERVAL = 12 };

typedef struct skip_findings {
    double unchanged;                         /* largest |residual_l / residual_0 - 1|, W_V = 0 */
    double inner, frobenius[2], composite[2]; /* of the orthogonal contribution */
    double fall[FALL + 1];                    /* diameters with skip strength 0.01 */
    double climb[CLIMB + 2], last;            /* diameters of the pair; the last climbing weight */
    double inside;                            /* layers of the interval recursion that were left */
    double over, under; /* distances of pairs over the upper and the lower end of the interval */
} skip_findings;

static json_t *architecture(int depth, int width, double skip, const char *values)
{
    return json_pack("{s:i, s:i, s:s, s:f, s:s, s:{s:s, s:s}}", "depth", depth, "d_model", width,
                     "norm", "none", "skip_mixer", skip, "mlp", "none", "init", "wv", values, "wo",
                     "none");
}

static void set_scaled_identity(double *a, int d, double scale)
{
    for (int i = 0; i < d * d; i++)
        a[i] = i % (d + 1) == 0 ? scale : 0;
}

/* ---- W_V = 0: equality for ever ---- */

static rs_status silent_values(skip_findings *f, const rs_context *context, rs_error *err)
{
    double x[TOKENS * WIDTH];
    rs_random random = rs_random_new(context->seed, 0x736b6970);
    rs_draw_gaussian(x, TOKENS * WIDTH, 1, &random);
    rs_toy toy;
    rs_toy_trace trace;
    RS_TRY(rs_toy_open(&toy, architecture(DEPTH, WIDTH, 1, "zero"), context->seed, context, err));
    rs_status status = rs_toy_run(&trace, &toy, x, 1, TOKENS, false, err);
    rs_toy_close(&toy);
    RS_TRY(status);
    rs_rows_centre(x, TOKENS, WIDTH);
    double start = rs_norm_composite(x, TOKENS, WIDTH);
    for (int l = 1; l <= DEPTH; l++) {
        double *y = rs_toy_state(&trace, l, 0);
        rs_rows_centre(y, TOKENS, WIDTH);
        f->unchanged = fmax(f->unchanged, fabs(rs_norm_composite(y, TOKENS, WIDTH) / start - 1));
    }
    rs_toy_trace_free(&trace);
    return RS_OK;
}

/* ---- the orthogonal contribution ---- */

/* Tokens u and -u, u = (2, 1). With W_QK = 0.2 sqrt(2) I, PX = tanh(1) (u, -u); values that take u
 * to v/tanh(1), v = 0.2 (-1, 2), make the contribution (v, -v), orthogonal to (u, -u). */
static rs_status orthogonal(skip_findings *f, const rs_context *context, rs_error *err)
{
    static const double x[4] = {2, 1, -2, -1}, v[2] = {-0.2, 0.4};
    double qk[4], one[4], w[4];
    set_scaled_identity(qk, 2, 0.2 * sqrt(2));
    set_scaled_identity(one, 2, 1);
    for (int i = 0; i < 2; i++)
        for (int k = 0; k < 2; k++)
            w[i * 2 + k] = x[i] * v[k] / (5 * tanh(1));
    rs_toy toy;
    rs_toy_trace trace;
    RS_TRY(rs_toy_open(&toy, architecture(1, 2, 1, "zero"), context->seed, context, err));
    rs_attention_op *op = rs_toy_attention(&toy, 0);
    rs_status status = rs_toy_set(&toy, &op->q, qk, NULL, err);
    if (status == RS_OK) status = rs_toy_set(&toy, &op->k, one, NULL, err);
    if (status == RS_OK) status = rs_toy_set(&toy, &op->v, w, NULL, err);
    if (status == RS_OK) status = rs_toy_run(&trace, &toy, x, 1, 2, false, err);
    rs_toy_close(&toy);
    RS_TRY(status);
    const double *y = rs_toy_state(&trace, 1, 0);
    f->inner = 0;
    for (int i = 0; i < 4; i++)
        f->inner += x[i] * (y[i] - x[i]);
    const double *before = rs_toy_state(&trace, 0, 0);
    f->frobenius[0] = rs_norm_frobenius(before, 2, 2);
    f->frobenius[1] = rs_norm_frobenius(y, 2, 2);
    f->composite[0] = rs_norm_composite(before, 2, 2);
    f->composite[1] = rs_norm_composite(y, 2, 2);
    rs_toy_trace_free(&trace);
    return RS_OK;
}

/* ---- strength 0.01: two decades a layer ---- */

static rs_status weak_skip(skip_findings *f, const rs_context *context, rs_error *err)
{
    double x[TOKENS * WIDTH];
    rs_random random = rs_random_new(context->seed, 0x7765616b);
    rs_draw_gaussian(x, TOKENS * WIDTH, 0.02, &random);
    rs_rows_centre(x, TOKENS, WIDTH);
    rs_toy toy;
    rs_toy_trace trace;
    RS_TRY(rs_toy_open(&toy, architecture(FALL, WIDTH, 0.01, "normal(0, 1/fan_in)"), context->seed,
                       context, err));
    rs_status status = rs_toy_run(&trace, &toy, x, 1, TOKENS, false, err);
    rs_toy_close(&toy);
    RS_TRY(status);
    for (int l = 0; l <= FALL; l++)
        f->fall[l] = rs_rows_diameter(rs_toy_state(&trace, l, 0), TOKENS, WIDTH);
    rs_toy_trace_free(&trace);
    return RS_OK;
}

/* ---- the interval that holds ---- */

/* With k = |W_QK|_2/sqrt(d) and w = |W_V|_2 a layer of skip 1 moves the diameter by at most
 * w tanh(k s²/4) s either way, s any upper bound of it (docs/theory/corrections.md, 5). */
static void next_interval(double *low, double *high, double k, double w)
{
    double change = w * tanh(k * *high * *high / 4);
    *low *= fmax(0, 1 - change);
    *high *= 1 + change;
}

/* ---- a layer that ends it ---- */

/* Tokens +-0.05 of one feature, W_QK = 4: a layer of value weight w multiplies their distance s by
 * 1 + w tanh(s²). 27 layers of w = 2 and a smaller one bring s² to atanh(1/2); there w = -2 makes
 * it 0. (To 1e-10 and not to 1e-16: each layer triples the rounding of the tokens' mean.) */
static rs_status pair(skip_findings *f, const rs_context *context, rs_error *err)
{
    static const double x[2] = {0.05, -0.05}, four = 4, one = 1;
    double target = sqrt(atanh(0.5)), apart = 0.1;
    for (int l = 0; l < CLIMB - 1; l++)
        apart *= 1 + 2 * tanh(apart * apart);
    f->last = (target / apart - 1) / tanh(apart * apart);
    rs_toy toy;
    rs_toy_trace trace;
    RS_TRY(rs_toy_open(&toy, architecture(CLIMB + 1, 1, 1, "zero"), context->seed, context, err));
    rs_status status = RS_OK;
    for (int32_t l = 0; status == RS_OK && l <= CLIMB; l++) {
        double w = l < CLIMB - 1 ? 2 : l < CLIMB ? f->last : -2;
        rs_attention_op *op = rs_toy_attention(&toy, l);
        status = rs_toy_set(&toy, &op->q, &four, NULL, err);
        if (status == RS_OK) status = rs_toy_set(&toy, &op->k, &one, NULL, err);
        if (status == RS_OK) status = rs_toy_set(&toy, &op->v, &w, NULL, err);
    }
    if (status == RS_OK) status = rs_toy_run(&trace, &toy, x, 1, 2, false, err);
    rs_toy_close(&toy);
    RS_TRY(status);
    for (int l = 0; l <= CLIMB + 1; l++)
        f->climb[l] = rs_rows_diameter(rs_toy_state(&trace, l, 0), 2, 1);
    double low = f->climb[0], high = f->climb[0];
    for (int l = 0; l < CLIMB; l++)
        next_interval(&low, &high, 4, l < CLIMB - 1 ? 2 : f->last);
    f->over = f->climb[CLIMB] / high;
    rs_toy_trace_free(&trace);
    return RS_OK;
}

/* A layer of weight -1/2 brings tokens +-0.35 to the lower end. */
static rs_status falling_pair(skip_findings *f, const rs_context *context, rs_error *err)
{
    static const double x[2] = {0.35, -0.35}, four = 4, one = 1, half = -0.5;
    double low = 0.7, high = 0.7;
    rs_toy toy;
    rs_toy_trace trace;
    RS_TRY(rs_toy_open(&toy, architecture(1, 1, 1, "zero"), context->seed, context, err));
    rs_attention_op *op = rs_toy_attention(&toy, 0);
    rs_status status = rs_toy_set(&toy, &op->q, &four, NULL, err);
    if (status == RS_OK) status = rs_toy_set(&toy, &op->k, &one, NULL, err);
    if (status == RS_OK) status = rs_toy_set(&toy, &op->v, &half, NULL, err);
    if (status == RS_OK) status = rs_toy_run(&trace, &toy, x, 1, 2, false, err);
    rs_toy_close(&toy);
    RS_TRY(status);
    next_interval(&low, &high, four, fabs(half));
    f->under = rs_rows_diameter(rs_toy_state(&trace, 1, 0), 2, 1) / low;
    rs_toy_trace_free(&trace);
    return RS_OK;
}

static rs_status interval(skip_findings *f, const rs_context *context, rs_error *err)
{
    double x[TOKENS * WIDTH], q[WIDTH * WIDTH], one[WIDTH * WIDTH], v[WIDTH * WIDTH];
    double low[INTERVAL + 1], high[INTERVAL + 1];
    rs_random random = rs_random_new(context->seed, 0x696e7476);
    rs_draw_gaussian(x, TOKENS * WIDTH, 0.3, &random);
    set_scaled_identity(one, WIDTH, 1);
    low[0] = high[0] = rs_rows_diameter(x, TOKENS, WIDTH);
    rs_toy toy;
    rs_toy_trace trace;
    RS_TRY(
        rs_toy_open(&toy, architecture(INTERVAL, WIDTH, 1, "zero"), context->seed, context, err));
    rs_status status = RS_OK;
    for (int32_t l = 0; status == RS_OK && l < INTERVAL; l++) {
        rs_attention_op *op = rs_toy_attention(&toy, l);
        rs_draw_gaussian(q, WIDTH * WIDTH, 0.5, &random);
        rs_draw_gaussian(v, WIDTH * WIDTH, 0.2, &random);
        double k = rs_norm_spectral(q, WIDTH, WIDTH) / sqrt(WIDTH);
        low[l + 1] = low[l];
        high[l + 1] = high[l];
        next_interval(&low[l + 1], &high[l + 1], k, rs_norm_spectral(v, WIDTH, WIDTH));
        status = rs_toy_set(&toy, &op->q, q, NULL, err);
        if (status == RS_OK) status = rs_toy_set(&toy, &op->k, one, NULL, err);
        if (status == RS_OK) status = rs_toy_set(&toy, &op->v, v, NULL, err);
    }
    if (status == RS_OK) status = rs_toy_run(&trace, &toy, x, 1, TOKENS, false, err);
    rs_toy_close(&toy);
    RS_TRY(status);
    for (int l = 0; l <= INTERVAL; l++) {
        double s = rs_rows_diameter(rs_toy_state(&trace, l, 0), TOKENS, WIDTH);
        f->inside += s < low[l] * (1 - 1e-12) || s > high[l] * (1 + 1e-12);
    }
    rs_toy_trace_free(&trace);
    return RS_OK;
}

/* ---- what came out ---- */

static const rs_column point_columns[] =
    RS_LAB_POINTS(RS_LAB_X_STATE, RS_LAB_Y("diameter", "largest distance between tokens",
                                           "Euclidean, over all pairs"));
static const rs_table_kind table_kind = {"lab", "dong_skip_lower_bound", {RS_PART(point_columns)}};
static const rs_lab_curves curves = {
    .kind = &table_kind,
    .title = "Skips that keep tokens apart, and skips that do not",
    .about = "Token diameter by state: two tokens with skip strength 1 whose 29th layer makes them "
             "equal; random layers with skip strength 0.01, which lose two decades each.",
    .log_y = true,
    .y_floor = 1e-14,
};

static rs_status claim(rs_lab_report *report, const skip_findings *f, rs_error *err)
{
    const rs_lab_claim composite = {
        "orthogonal contribution: composite norm after (argument: not below before)",
        f->composite[0],
        3.3941,
        f->composite[1],
        1e-4,
        false,
        false};
    RS_TRY(rs_lab_statement(report, "skip: weights exist for which the residual stays", err));
    RS_TRY(rs_lab_at_most(report, "W_V = 0, 64 layers: largest relative change of the residual",
                          f->unchanged, 1e-14, err));
    RS_TRY(rs_lab_statement(
        report, "skip: an orthogonal contribution shrinks no residual, Frobenius norm", err));
    RS_TRY(rs_lab_expect(report, "orthogonal contribution: inner product with the residual", 0,
                         f->inner, 1e-14, err));
    RS_TRY(rs_lab_expect(report, "orthogonal contribution: Frobenius norm before", 3.1623,
                         f->frobenius[0], 1e-4, err));
    RS_TRY(rs_lab_expect(report, "orthogonal contribution: Frobenius norm after", 3.2249,
                         f->frobenius[1], 1e-4, err));
    RS_TRY(rs_lab_statement(
        report, "skip: an orthogonal contribution shrinks no residual, composite norm", err));
    RS_TRY(rs_lab_expect(report, "orthogonal contribution: composite norm before", 3.4641,
                         f->composite[0], 1e-4, err));
    RS_TRY(rs_lab_add_claim(report, &composite, err));
    RS_TRY(rs_lab_statement(report, NULL, err));
    RS_TRY(
        rs_lab_compute(report, "two tokens: weight of the 28th layer", 0.254, f->last, 1e-3, err));
    RS_TRY(rs_lab_expect(report, "two tokens: distance after 28 layers", 0.741, f->climb[CLIMB],
                         1e-3, err));
    const rs_lab_claim zero = {"two tokens: distance after the 29th (notes: never zero)",
                               NAN,
                               0,
                               f->climb[CLIMB + 1],
                               1e-9,
                               false,
                               false};
    RS_TRY(rs_lab_add_claim(report, &zero, err));
    RS_TRY(rs_lab_expect(report, "two tokens: distance after 28 layers over the interval's end", 1,
                         f->over, 1e-9, err));
    RS_TRY(rs_lab_expect(report, "two tokens, a layer of weight -1/2: distance over the lower end",
                         1, f->under, 1e-12, err));
    RS_TRY(rs_lab_at_most(report, "interval recursion: states outside of it, 12 random layers",
                          f->inside, 0, err));
    return rs_lab_expect(report, "skip strength 0.01: decades that layer 5 takes", 2,
                         log10(f->fall[4] / f->fall[5]), 1e-3, err);
}

static rs_status write_up(rs_lab_report *report, const skip_findings *f, rs_error *err)
{
    rs_table *table = NULL;
    RS_TRY(rs_lab_curves_open(&table, report, &curves, err));
    for (int l = 0; l <= CLIMB + 1; l++)
        RS_TRY(rs_lab_curves_add(table, "two tokens, skip 1", l, f->climb[l], err));
    for (int l = 0; l <= FALL; l++)
        RS_TRY(rs_lab_curves_add(table, "random, skip 0.01", l, f->fall[l], err));
    return claim(report, f, err);
}

static rs_status run_dong_skip_lower_bound(rs_lab_report *report, const rs_lab_options *options,
                                           const rs_context *context, rs_error *err)
{
    (void)options; /* as quick as it can be */
    skip_findings f = {0};
    RS_TRY(silent_values(&f, context, err));
    RS_TRY(orthogonal(&f, context, err));
    RS_TRY(weak_skip(&f, context, err));
    RS_TRY(pair(&f, context, err));
    RS_TRY(falling_pair(&f, context, err));
    RS_TRY(interval(&f, context, err));
    return write_up(report, &f, err);
}

const rs_lab_experiment rs_lab_dong_skip_lower_bound = {
    "dong-skip-lower-bound",
    "What a skip guarantees",
    "Dong et al. 2021, skip connections",
    "Layers with skips: weights for which the residual never shrinks; a contribution orthogonal to "
    "the residual that shrinks its composite norm; two tokens that a layer makes equal in spite of "
    "the skip; the interval that does hold; a weak skip. After Dong, Cordonnier, Loukas, ICML 2021 "
    "(arXiv 2103.03404), on skip connections.",
    run_dong_skip_lower_bound,
    "< 1 s",
    "< 1 s",
    &table_kind,
    0};
