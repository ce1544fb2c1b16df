/*
 * one_layer_collapse.c: two different tokens that one layer with a skip of any strength and a norm
 * makes equal, Y <- RMSNorm(skip Y + M Y W) with M = diag(1, -1): token i is proportional to u (skip I
 * + M_ii W)^-1, so that behind the sum both are multiples of u. No bound on what a layer keeps can do
 * without a condition on its input where rows of M differ and W is no multiple of I
 * (docs/theory/signal.md, 7; docs/certificates_lambda.md, L6 to L9).
 */
#include "lab/toy.h"

#include <math.h>

enum { TOKENS = 2, WIDTH = 3, STATE = TOKENS * WIDTH, STRENGTHS = 9, SHOWN = 3 };
static const double signs[TOKENS] = {1, -1};
static const double direction[WIDTH] = {0.6, 0, 0.8};
static const double weights[WIDTH * WIDTH] = {0, 1, 0, -1, 0, 0, 0, 0, 0.5};
static const double usual_eps = 1e-5; /* of architecture files */

typedef struct collapse {
    double skip[STRENGTHS];
    double before[STRENGTHS], after[STRENGTHS], rounded[STRENGTHS], same[STRENGTHS],
        bound[STRENGTHS];
} collapse;

/* Solves y (skip I + sign W) = u for this W, which turns the first two features and halves the
 * third; rows of length sqrt(3). */
static void make_token(double *y, double skip, double sign)
{
    double square = skip * skip + 1, sum = 0;
    y[0] = (skip * direction[0] + sign * -direction[1]) / square;
    y[1] = (skip * direction[1] - sign * direction[0]) / square;
    y[2] = direction[2] / (skip + sign * 0.5);
    for (int k = 0; k < WIDTH; k++)
        sum += y[k] * y[k] / WIDTH;
    for (int k = 0; k < WIDTH; k++)
        y[k] /= sqrt(sum);
}

static double spread(const double *y)
{
    double rest[STATE];
    for (int i = 0; i < STATE; i++)
        rest[i] = y[i];
    rs_rows_centre(rest, TOKENS, WIDTH);
    return rs_norm_frobenius(rest, TOKENS, WIDTH);
}

/* Theorem A: mu' >= mu - kappa sqrt(N d), kappa = 2 sin(asin(c/skip)/2), c the largest |W y_i|/sqrt(d)
 * (docs/certificates_lambda.md, L6). */
static double theorem_a(const double *y, double skip)
{
    double branch[STATE], most = 0;
    rs_small_product(branch, y, weights, TOKENS, WIDTH, WIDTH);
    for (int i = 0; i < TOKENS; i++)
        most = fmax(most, rs_norm_frobenius(branch + i * WIDTH, 1, WIDTH) / sqrt(WIDTH));
    return spread(y) - 2 * sin(asin(most / skip) / 2) * sqrt(TOKENS * WIDTH);
}

static rs_status run_layer(double *after, const double *y, double skip, double second, double eps,
                           const rs_context *context, rs_error *err)
{
    const double m[TOKENS * TOKENS] = {signs[0], 0, 0, second};
    rs_toy toy;
    rs_toy_trace trace;
    RS_TRY(rs_toy_open(&toy,
                       json_pack("{s:i, s:i, s:s, s:s, s:f, s:s, s:{s:s}}", "depth", 1, "d_model",
                                 WIDTH, "norm", "post", "norm_kind", "rmsnorm", "skip_mixer", skip,
                                 "mlp", "none", "init", "wo", "none"),
                       0, context, err));
    toy.network->layers[0].branches[0].after.eps = eps;
    rs_status status = rs_toy_mix(&toy, m, TOKENS, RS_GRAPH_GIVEN, err);
    if (status == RS_OK) status = rs_toy_set(&toy, rs_toy_values(&toy, 0), weights, NULL, err);
    if (status == RS_OK) status = rs_toy_run(&trace, &toy, y, 1, TOKENS, false, err);
    rs_toy_close(&toy);
    RS_TRY(status);
    *after = spread(rs_toy_state(&trace, 1, 0));
    rs_toy_trace_free(&trace);
    return RS_OK;
}

static rs_status measure_strength(collapse *c, int s, const rs_context *context, rs_error *err)
{
    double y[STATE], skip = c->skip[s];
    for (int i = 0; i < TOKENS; i++)
        make_token(y + i * WIDTH, skip, signs[i]);
    c->before[s] = spread(y);
    c->bound[s] = theorem_a(y, skip);
    RS_TRY(run_layer(&c->after[s], y, skip, signs[1], 0, context, err));
    RS_TRY(run_layer(&c->rounded[s], y, skip, signs[1], usual_eps, context, err));
    return run_layer(&c->same[s], y, skip, signs[0], 0, context, err);
}

/* ---- what came out ---- */

static const rs_column point_columns[] = RS_LAB_POINTS(
    RS_LAB_X("skip_strength", "skip strength", "lambda in Y <- RMSNorm(lambda Y + M Y W)"),
    RS_LAB_Y("spread", "spread of the tokens", "mu(Y) = |Y - 1x|_F, rows of length sqrt(3)"));
static const rs_table_kind table_kind = {"lab", "one_layer_collapse", {RS_PART(point_columns)}};
static const rs_lab_curves curves = {
    .kind = &table_kind,
    .title = "Different tokens that one layer makes equal",
    .about =
        "Spread of two tokens of three features before and behind one layer of M = diag(1, -1), "
        "W a quarter turn, skip and RMSNorm, by skip strength: for each strength there are "
        "tokens that become equal, but they lie closer together the stronger it is. An eps in "
        "the norm leaves a trace, since the two rows have different lengths. With M = I the "
        "same tokens stay apart.",
    .log_x = true,
    .log_y = true,
    .y_floor = 1e-17,
};

/* tests/oracle/lab_expected.py, 50 digits: skip strengths 4, 64 and 1024. */
static const struct {
    int at;
    double before, rounded, same, bound;
} expected[SHOWN] = {
    {0, 0.375877959805112, 1.26393304231543e-7, 0.355900114390474, -0.0806306852357568},
    {4, 0.0247278513695879, 2.99046480855383e-11, 0.024615915908627, -0.00294215679293918},
    {8, 0.00154580804727445, 7.30005178080882e-15, 0.00154536297853939, -0.000179424918028969},
};

static rs_status claim_strength(rs_lab_report *report, const collapse *c, int i, rs_error *err)
{
    static const char *const texts[SHOWN][4] = {
        {"skip 4: spread before", "skip 4: log10 of the spread behind a norm of eps 1e-5",
         "skip 4: spread behind the layer, M = I", "skip 4: theorem A, spread at least"},
        {"skip 64: spread before", "skip 64: log10 of the spread behind a norm of eps 1e-5",
         "skip 64: spread behind the layer, M = I", "skip 64: theorem A, spread at least"},
        {"skip 1024: spread before", "skip 1024: log10 of the spread behind a norm of eps 1e-5",
         "skip 1024: spread behind the layer, M = I", "skip 1024: theorem A, spread at least"}};
    int s = expected[i].at;
    RS_TRY(rs_lab_expect(report, texts[i][0], expected[i].before, c->before[s], 1e-13, err));
    /* the last is a few units of roundoff of entries of size 1 */
    RS_TRY(rs_lab_expect(report, texts[i][1], log10(expected[i].rounded), log10(c->rounded[s]),
                         i == 2 ? 0.1 : 1e-4, err));
    RS_TRY(rs_lab_expect(report, texts[i][2], expected[i].same, c->same[s], 1e-13, err));
    return rs_lab_compute(report, texts[i][3], expected[i].bound, c->bound[s], 1e-12, err);
}

static rs_status write_up(rs_lab_report *report, const collapse *c, rs_error *err)
{
    rs_table *table = NULL;
    double worst = 0;
    RS_TRY(rs_lab_curves_open(&table, report, &curves, err));
    for (int s = 0; s < STRENGTHS; s++)
        RS_TRY(rs_lab_curves_add(table, "before", c->skip[s], c->before[s], err));
    for (int s = 0; s < STRENGTHS; s++)
        RS_TRY(rs_lab_curves_add(table, "behind it, M = I", c->skip[s], c->same[s], err));
    for (int s = 0; s < STRENGTHS; s++)
        RS_TRY(rs_lab_curves_add(table, "behind it, eps 1e-5", c->skip[s], c->rounded[s], err));
    for (int s = 0; s < STRENGTHS; s++) {
        RS_TRY(rs_lab_curves_add(table, "behind it, eps 0", c->skip[s], c->after[s], err));
        worst = fmax(worst, c->after[s]);
    }
    for (int i = 0; i < SHOWN; i++)
        RS_TRY(claim_strength(report, c, i, err));
    return rs_lab_at_most(report, "all strengths: spread behind the layer, eps 0", worst, 2e-15,
                          err);
}

static rs_status run_one_layer_collapse(rs_lab_report *report, const rs_lab_options *options,
                                        const rs_context *context, rs_error *err)
{
    (void)options; /* as quick as it can be */
    collapse c;
    for (int s = 0; s < STRENGTHS; s++) {
        c.skip[s] = ldexp(4, s);
        RS_TRY(measure_strength(&c, s, context, err));
    }
    return write_up(report, &c, err);
}

const rs_lab_experiment rs_lab_one_layer_collapse = {
    "one-layer-collapse",
    "Total collapse in one layer, any skip",
    "Arangath Joseph et al. 2025, theorem 4.1; docs/certificates_lambda.md, L6",
    "For each skip strength two different tokens that one layer of a mixer whose rows differ makes "
    "exactly equal, although it has a skip and a norm: why theorem 4.1 of Arangath Joseph, Sieber, "
    "Zeilinger, Amo Alonso, ICLR 2025 (arXiv 2410.10609) needs its condition on the input, and "
    "what "
    "eps of the norm leaves.",
    run_one_layer_collapse,
    "< 1 s",
    "< 1 s",
    &table_kind,
    0};
