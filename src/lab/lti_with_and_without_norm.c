/*
 * lti_with_and_without_norm.c: linear time-invariant state-space layers, Y <- M Y with M lower
 * triangular and Toeplitz, normed behind every layer or behind the last alone. M is one Jordan block,
 * m_0 (I + r S + ...), S the shift: row i of M^K Y is led by y_1 with (i - 1)/(K r) of y_2 behind it,
 * so that mu of unit rows falls as
 *
 *     |y_2 - (y_2·y_1) y_1/|y_1|²|/(r |y_1|) · sqrt(N (N² - 1)/12) / K,
 *
 * while with a norm in every layer it falls exponentially, by max |m_0/s_i| a layer, s_i the row sums
 * (docs/theory/ssm.md, 12; docs/theory/signal.md, 7).
 */
#include "lab/post_norm.h"

#include "base/memory.h"

#include <math.h>

enum { TOKENS = 4, WIDTH = 3, STATE = TOKENS * WIDTH, LAYERS = 2000, SHOWN = 4, POINTS = 64 };
enum { DRAWS = 40, QUICK_DRAWS = 3, POLES = 3, RATE_FROM = 12, RATE_TO = 24 };
static const double decay = 0.7;
static const int shown[SHOWN] = {10, 50, 200, 2000};

typedef struct lti_findings {
    int draws;
    double end[LAYERS + 1], every[LAYERS + 1]; /* mu of unit rows by layer, the one decay */
    double last_norm;    /* largest relative difference: engine's norm behind layer 10, 50, 200 */
    double limit, slope; /* of K mu at the end; of log mu against log K over the second half */
    double law, rate;    /* drawn systems: largest relative errors of K mu and of the rate */
} lti_findings;

/* ---- stacks ---- */

static void toeplitz(double *m, const double *kernel)
{
    for (int i = 0; i < TOKENS * TOKENS; i++)
        m[i] = i % TOKENS > i / TOKENS ? 0 : kernel[i / TOKENS - i % TOKENS];
}

/* Runs `layers` layers from y. norms: behind every layer; behind the last; behind none. */
typedef enum lti_norms { EVERY, LAST, NONE } lti_norms;
static rs_status run_layers(rs_toy_trace *trace, const double *kernel, int layers, lti_norms norms,
                            const double *y, const rs_context *context, rs_error *err)
{
    double m[TOKENS * TOKENS];
    rs_toy toy;
    toeplitz(m, kernel);
    RS_TRY(rs_post_norm_open(&toy, layers, WIDTH, context, err));
    rs_post_norm_skip(&toy, 0);
    for (int32_t l = 0; l < layers; l++)
        if (norms == NONE || (norms == LAST && l + 1 < layers))
            toy.network->layers[l].branches[0].after.kind = RS_NORM_NONE;
    rs_status status = rs_post_norm_give(&toy, 0, 1, m, TOKENS, err);
    if (status == RS_OK) status = rs_toy_run(trace, &toy, y, 1, TOKENS, false, err);
    rs_toy_close(&toy);
    return status;
}

static double spread_at(const rs_toy_trace *trace, int layer)
{
    return rs_post_norm_spread(rs_toy_state(trace, layer, 0), TOKENS, WIDTH);
}

/* What K mu tends to; kernel r/m_0 of the block above. */
static double limit_of(const double *y, const double *kernel)
{
    double along = 0, square = 0, rest = 0;
    for (int k = 0; k < WIDTH; k++) {
        along += y[k] * y[WIDTH + k];
        square += y[k] * y[k];
    }
    for (int k = 0; k < WIDTH; k++) {
        double across = y[WIDTH + k] - along / square * y[k];
        rest += across * across;
    }
    return sqrt(rest / square) * kernel[0] / kernel[1] *
           sqrt(TOKENS * (TOKENS * TOKENS - 1) / 12.0);
}

static void hashed_tokens(double *y)
{
    for (uint32_t i = 0; i < STATE; i++)
        y[i] = fabs(rs_lab_hash(62, i) / 2147483648.0 - 1) + 0.1;
}

/* ---- one decay ---- */

static rs_status one_decay(lti_findings *f, const rs_context *context, rs_error *err)
{
    const double kernel[TOKENS] = {1, decay, decay * decay, decay * decay * decay};
    double y[STATE];
    rs_toy_trace trace;
    hashed_tokens(y);
    RS_TRY(run_layers(&trace, kernel, LAYERS, NONE, y, context, err));
    for (int l = 0; l <= LAYERS; l++)
        f->end[l] = spread_at(&trace, l);
    rs_toy_trace_free(&trace);
    RS_TRY(run_layers(&trace, kernel, LAYERS, EVERY, y, context, err));
    for (int l = 0; l <= LAYERS; l++)
        f->every[l] = spread_at(&trace, l);
    rs_toy_trace_free(&trace);
    for (int i = 0; i < SHOWN - 1; i++) {
        RS_TRY(run_layers(&trace, kernel, shown[i], LAST, y, context, err));
        double *last = rs_toy_state(&trace, shown[i], 0);
        rs_rows_centre(last, TOKENS, WIDTH);
        double mu = rs_norm_frobenius(last, TOKENS, WIDTH) / sqrt(WIDTH);
        f->last_norm = fmax(f->last_norm, fabs(mu / f->end[shown[i]] - 1));
        rs_toy_trace_free(&trace);
    }
    f->limit = LAYERS * f->end[LAYERS] / limit_of(y, kernel);
    f->slope = log2(f->end[LAYERS] / f->end[LAYERS / 2]);
    return RS_OK;
}

/* ---- drawn systems of three real poles ---- */

/* The largest |m_0/s_i|, and by how much it exceeds the next. */
static double rate_of(double *gap, const double *kernel)
{
    double m[TOKENS * TOKENS], g[TOKENS], next = 0;
    toeplitz(m, kernel);
    double rate = rs_post_norm_multipliers(g, m, TOKENS, 0, 1);
    for (int i = 0; i + 1 < TOKENS; i++)
        if (fabs(g[i]) < rate) next = fmax(next, fabs(g[i]));
    *gap = rate / next;
    return rs_post_norm_signs(m, TOKENS, 0, 1) < 0 ? NAN : rate;
}

/* m_l = sum_s C_s B_s A_s^l over m_0, entries of any sign but m_1 > 0.5, where equal tokens attract at
 * a rate that stands apart. */
static void draw_kernel(double *kernel, double *rate, rs_random *random)
{
    double gap;
    do {
        for (int l = 0; l < TOKENS; l++)
            kernel[l] = 0;
        for (int s = 0; s < POLES; s++) {
            double pole = exp(-0.05 - 0.95 * rs_random_uniform(random));
            double weight = rs_random_normal(random) * rs_random_normal(random);
            for (int l = 0; l < TOKENS; l++)
                kernel[l] += weight * pow(pole, l);
        }
        for (int l = TOKENS - 1; l >= 0; l--)
            kernel[l] /= kernel[0];
        *rate = rate_of(&gap, kernel);
    } while (!(kernel[1] > 0.5) || !(*rate > 0.35 && *rate < 0.75) || !(gap > 1.5));
}

static rs_status drawn_systems(lti_findings *f, const rs_context *context, rs_error *err)
{
    rs_random random = rs_random_new(context->seed, 0x6c7469);
    for (int i = 0; i < f->draws; i++) {
        double y[STATE], kernel[TOKENS], rate;
        rs_toy_trace trace;
        draw_kernel(kernel, &rate, &random);
        for (int k = 0; k < STATE; k++)
            y[k] = fabs(rs_random_normal(&random)) + 0.1;
        RS_TRY(run_layers(&trace, kernel, LAYERS, NONE, y, context, err));
        f->law = fmax(f->law, fabs(LAYERS * spread_at(&trace, LAYERS) / limit_of(y, kernel) - 1));
        rs_toy_trace_free(&trace);
        RS_TRY(run_layers(&trace, kernel, RATE_TO, EVERY, y, context, err));
        double fall = spread_at(&trace, RATE_TO) / spread_at(&trace, RATE_FROM);
        f->rate = fmax(f->rate, fabs(pow(fall, 1.0 / (RATE_TO - RATE_FROM)) / rate - 1));
        rs_toy_trace_free(&trace);
    }
    return RS_OK;
}

/* ---- what came out ---- */

static const rs_column point_columns[] =
    RS_LAB_POINTS(RS_LAB_X_STATE, RS_LAB_Y("spread", "spread of the tokens",
                                           "mu(rn(Y)), rows of length 1; series says the norms"));
static const rs_table_kind table_kind = {
    "lab", "lti_with_and_without_norm", {RS_PART(point_columns)}};
static const rs_lab_curves curves = {
    .kind = &table_kind,
    .title = "A norm in every layer makes collapse exponential",
    .about =
        "Spread of four tokens, brought to length 1, by layers of a linear time-invariant mixer: "
        "with a norm behind every layer it falls by 1/1.7 a layer, into rounding; with one behind "
        "the last alone, as 1/K.",
    .log_x = true,
    .log_y = true,
    .y_floor = 1e-17,
};

static rs_status claim(rs_lab_report *report, const lti_findings *f, rs_error *err)
{
    /* tests/oracle/lab_lambda.py, 60 digits */
    static const char *const texts[SHOWN] = {"norm at the end, 10 layers: mu of unit rows",
                                             "norm at the end, 50 layers: mu of unit rows",
                                             "norm at the end, 200 layers: mu of unit rows",
                                             "norm at the end, 2000 layers: mu of unit rows"};
    static const double expected[SHOWN] = {0.0266675851911973, 0.00910482049238174,
                                           0.00256055866795673, 0.000265283250771701};
    for (int i = 0; i < SHOWN; i++)
        RS_TRY(rs_lab_expect(report, texts[i], expected[i], f->end[shown[i]], 1e-11, err));
    RS_TRY(rs_lab_at_most(report, "the engine's norm behind layer 10, 50, 200 alone: difference",
                          f->last_norm, 1e-9, err));
    RS_TRY(rs_lab_expect(report, "norm at the end: K mu over its limit, K = 2000", 1, f->limit,
                         5e-3, err));
    RS_TRY(rs_lab_expect(report, "norm at the end: slope of log mu over log K", -1, f->slope, 1e-2,
                         err));
    RS_TRY(rs_lab_expect(report, "norm in every layer, 10 layers: mu of unit rows",
                         0.00235478429617119, f->every[10], 1e-13, err));
    RS_TRY(rs_lab_expect(report, "norm in every layer: fall in layer 40, 1/(1 + 0.7)",
                         1 / (1 + decay), f->every[40] / f->every[39], 1e-3, err));
    RS_TRY(rs_lab_at_most(report, "norm in every layer, 200 layers: mu of unit rows", f->every[200],
                          1e-15, err));
    RS_TRY(rs_lab_at_most(report,
                          "drawn systems: largest relative error of K mu = its limit, K = 2000",
                          f->law, 0.02, err));
    return rs_lab_at_most(report, "drawn systems: largest relative error of the rate max |m_0/s_i|",
                          f->rate, 0.02, err);
}

static rs_status write_up(rs_lab_report *report, const lti_findings *f, rs_error *err)
{
    rs_table *table = NULL;
    RS_TRY(rs_lab_curves_open(&table, report, &curves, err));
    for (int i = 0, last = 0; i < POINTS; i++) {
        int l = (int)lround(pow(LAYERS, (double)i / (POINTS - 1)));
        if (l == last) continue;
        last = l;
        RS_TRY(rs_lab_curves_add(table, "norm at the end", l, f->end[l], err));
    }
    for (int l = 1; l <= 100; l++)
        RS_TRY(rs_lab_curves_add(table, "norm in every layer", l, f->every[l], err));
    return claim(report, f, err);
}

static rs_status measure(lti_findings *f, const rs_context *context, rs_error *err)
{
    RS_TRY(one_decay(f, context, err));
    return drawn_systems(f, context, err);
}

static rs_status run_lti_with_and_without_norm(rs_lab_report *report, const rs_lab_options *options,
                                               const rs_context *context, rs_error *err)
{
    lti_findings *f = rs_calloc(1, sizeof *f);
    if (!f) return rs_fail_memory(err, "an experiment", sizeof *f);
    f->draws = options->quick ? QUICK_DRAWS : DRAWS;
    rs_status status = measure(f, context, err);
    if (status == RS_OK) status = write_up(report, f, err);
    rs_free(f);
    RS_TRY(status);
    return options->quick ? rs_lab_say_quick(report, "3 drawn systems instead of 40", err) : RS_OK;
}

const rs_lab_experiment rs_lab_lti_with_and_without_norm = {
    "lti-with-and-without-norm",
    "LTI layers: 1/K or exponential",
    "Arangath Joseph et al. 2025, LTI layers; docs/theory/ssm.md, 12",
    "Linear time-invariant state-space layers on four tokens, normed behind every layer or behind "
    "the "
    "last alone: exponential collapse in the first case, at the rate that row sums predict; in the "
    "second as 1/K, with the constant that the tokens and the kernel give. After the theorems on "
    "LTI "
    "layers of Arangath Joseph, Sieber, Zeilinger, Amo Alonso, ICLR 2025 (arXiv 2410.10609).",
    run_lti_with_and_without_norm,
    "1 s",
    "< 1 s",
    &table_kind,
    0};
