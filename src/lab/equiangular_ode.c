/*
 * equiangular_ode.c: attention with a skip and a norm, step by small step: tokens on a sphere that
 * begin at right angles stay equiangular, and the cosine between them follows an equation in one
 * variable (Geshkovski, Letrouit, Polyanskiy, Rigollet, arXiv 2312.10794; docs/theory/collapse.md,
 * 15).
 *
 *   dg/dt = 2 e^(bg) (1 - g) ((n - 1) g + 1) / (e^b + (n - 1) e^(bg)),  g(0) = 0
 *
 * The particles are the engine's: a layer is X <- norm(X + h P X), P = softmax(b <x_i, x_j>), with
 * RMSNorm, so rows have length sqrt(d) and logits are divided by d. A layer of step h follows the
 * flow to first order in h.
 */
#include "lab/toy.h"

#include <math.h>
#include <string.h>

enum { PARTICLES = 6, WIDTH = 40, LAYERS = 250, UNITS = 6, SAMPLES_A_UNIT = 4 };
static const double beta = 2;

typedef struct flow {
    bool quick;
    int64_t steps; /* a unit of time */
    double cosine[UNITS * SAMPLES_A_UNIT + 1], ode[UNITS * SAMPLES_A_UNIT + 1];
    double spread; /* largest difference of two cosines at one time */
} flow;

/* LAYERS equal layers with identity weights, step h, applied again and again. */
static rs_status open_particles(rs_toy *toy, double step, const rs_context *context, rs_error *err)
{
    json_t *arch = json_pack("{s:i, s:i, s:s, s:s, s:f, s:s, s:{s:s, s:s, s:s, s:s}}", "depth",
                             LAYERS, "d_model", WIDTH, "norm", "post", "norm_kind", "rmsnorm",
                             "branch_mixer", step, "mlp", "none", "init", "wq", "identity", "wk",
                             "identity", "wv", "identity", "wo", "none");
    RS_TRY(rs_toy_open(toy, arch, context->seed, context, err));
    for (int32_t l = 0; l < LAYERS; l++) {
        rs_branch *branch = &toy->network->layers[l].branches[0];
        const rs_attention_op *first = rs_toy_attention(toy, 0);
        branch->attention.q = branch->attention.k = branch->attention.v = first->q;
        branch->attention.scale = beta / WIDTH;
        branch->after.eps = 0; /* rows never come near zero */
    }
    return RS_OK;
}

static void cosines(double *mean, double *spread, const double *x)
{
    double low = INFINITY, high = -INFINITY, sum = 0;
    int pairs = 0;
    for (int i = 0; i < PARTICLES; i++)
        for (int j = 0; j < i; j++, pairs++) {
            double product = 0;
            for (int k = 0; k < WIDTH; k++)
                product += x[i * WIDTH + k] * x[j * WIDTH + k] / WIDTH;
            low = fmin(low, product);
            high = fmax(high, product);
            sum += product;
        }
    *mean = sum / pairs;
    *spread = fmax(*spread, high - low);
}

static rs_status move(flow *f, rs_toy *toy, rs_error *err)
{
    double x[PARTICLES * WIDTH] = {0};
    for (int i = 0; i < PARTICLES; i++)
        x[i * WIDTH + i] = sqrt(WIDTH);
    int64_t passes = f->steps / LAYERS / SAMPLES_A_UNIT;
    for (int s = 1; s <= UNITS * SAMPLES_A_UNIT; s++) {
        for (int64_t p = 0; p < passes; p++) {
            rs_toy_trace trace;
            RS_TRY(rs_toy_run(&trace, toy, x, 1, PARTICLES, false, err));
            memcpy(x, rs_toy_state(&trace, LAYERS, 0), sizeof x);
            rs_toy_trace_free(&trace);
        }
        rs_progress(&toy->context, "equiangular-ode", (uint64_t)s, UNITS * SAMPLES_A_UNIT, "times");
        cosines(&f->cosine[s], &f->spread, x);
    }
    return RS_OK;
}

static double slope(double g)
{
    double e = exp(beta * g);
    return 2 * e * (1 - g) * ((PARTICLES - 1) * g + 1) / (exp(beta) + (PARTICLES - 1) * e);
}

/* Classical Runge-Kutta, a thousand steps a unit of time: its error is below 1e-12. */
static void solve_flow(flow *f)
{
    double g = 0, h = 1e-3;
    for (int s = 1; s <= UNITS * SAMPLES_A_UNIT; s++) {
        for (int i = 0; i < 1000 / SAMPLES_A_UNIT; i++) {
            double a = slope(g), b = slope(g + h / 2 * a), c = slope(g + h / 2 * b);
            g += h / 6 * (a + 2 * b + 2 * c + slope(g + h * c));
        }
        f->ode[s] = g;
    }
}

/* ---- what came out ---- */

static const rs_column point_columns[] = RS_LAB_POINTS(
    RS_LAB_X("time", "depth (steps times step size)", "layers times the step of each"),
    RS_LAB_Y("one_minus_cosine", "1 - cosine between tokens", "mean over all pairs"));
static const rs_table_kind table_kind = {"lab", "equiangular_ode", {RS_PART(point_columns)}};
static const rs_lab_curves curves = {
    .kind = &table_kind,
    .title = "Six tokens that begin at right angles",
    .about = "1 - cosine between tokens over depth (time), six tokens in 40 features, temperature "
             "1/2: the engine's layers of small step, and the published equation in one variable. "
             "At the end "
             "both fall by e^-2 a unit: with a skip collapse is linear on this scale.",
    .log_y = true,
};

static rs_status write_up(rs_lab_report *report, const flow *f, rs_error *err)
{
    enum { AT_3 = 3 * SAMPLES_A_UNIT, AT_END = UNITS * SAMPLES_A_UNIT };
    rs_table *table = NULL;
    RS_TRY(rs_lab_curves_open(&table, report, &curves, err));
    for (int s = 0; s <= AT_END; s++) {
        double time = (double)s / SAMPLES_A_UNIT;
        RS_TRY(rs_lab_curves_add(table, "tokens", time, 1 - f->cosine[s], err));
        RS_TRY(rs_lab_curves_publish(table, "Geshkovski et al. 2023: their equation, solved here",
                                     "equation, published", time, 1 - f->ode[s], err));
    }
    double last = 1 - f->cosine[AT_END], before = 1 - f->cosine[AT_END - SAMPLES_A_UNIT];
    double step = 1.0 / (double)f->steps;
    /* the exact recursion of the steps, and the equation: tests/oracle/lab_expected.py */
    RS_TRY(rs_lab_expect(report, "tokens: cosine at depth 3",
                         f->quick ? 0.934735883712 : 0.934977825050, f->cosine[AT_3], 1e-9, err));
    RS_TRY(rs_lab_expect(report, "tokens: cosine at depth 3, against the equation's (half a step)",
                         0.935004671, f->cosine[AT_3], 0.5 * step, err));
    RS_TRY(rs_lab_compute(report, "equation: cosine at depth 3", 0.935004671, f->ode[AT_3], 1e-8,
                          err));
    RS_TRY(rs_lab_expect(report, "tokens: rate of 1 - cosine from depth 5 to 6", 2,
                         log(before / last), 0.01, err));
    return rs_lab_at_most(report, "tokens: largest difference between cosines at one depth",
                          f->spread, 1e-12, err);
}

static rs_status run_equiangular_ode(rs_lab_report *report, const rs_lab_options *options,
                                     const rs_context *context, rs_error *err)
{
    flow f = {.quick = options->quick, .steps = options->quick ? 1000 : 10000};
    rs_toy toy;
    RS_TRY(open_particles(&toy, 1.0 / (double)f.steps, context, err));
    rs_status status = move(&f, &toy, err);
    rs_toy_close(&toy);
    RS_TRY(status);
    solve_flow(&f);
    RS_TRY(write_up(report, &f, err));
    return options->quick ? rs_lab_say_quick(report, "1000 layers a unit of depth, not 10000", err)
                          : RS_OK;
}

const rs_lab_experiment rs_lab_equiangular_ode = {
    "equiangular-ode",
    "Tokens on a sphere",
    "Geshkovski et al. 2023",
    "Six tokens on a sphere under attention with skip and norm in thousands of small steps, "
    "against "
    "the equation in one variable for the cosine between them; the late rate is 2. After "
    "Geshkovski, Letrouit, Polyanskiy, Rigollet, A mathematical perspective on Transformers (arXiv "
    "2312.10794).",
    run_equiangular_ode,
    "< 1 s",
    "< 1 s",
    &table_kind,
    0};
