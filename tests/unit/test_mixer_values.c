/* test_mixer_values.c: published values of state-space mixers and of what they are made of, through
 * the engine. T1 to T30 are the rows of a table of closed forms (docs/theory/ssm.md has the formulas);
 * each number here follows from its row by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "mixer_support.h"

#include "engine/kernels.h"
#include "measures/token_measures.h"

#include <float.h>

static void is(const char *name, double found, double expected, double tolerance)
{
    if (!(fabs(found - expected) <= tolerance))
        fail_msg("%s: %.15g, not %.15g", name, found, expected);
}

/* ---- small networks ---- */

/* n states of d numbers through one branch, to be filled in. */
static built *small_new(rs_branch_kind kind, int64_t n, int64_t d, const double *states)
{
    built *b = calloc(1, sizeof *b);
    b->dtype = RS_F64;
    b->network = (rs_network){.family = "value", .d_model = d, .layers = b->layers, .n_layers = 1};
    b->network.embedding.width = d;
    b->layers[0].n_branches = 1;
    b->layers[0].branches[0] = (rs_branch){.kind = kind, .scale = 1};
    b->begin[1] = n;
    b->states = malloc((size_t)(n * d) * sizeof *b->states);
    memcpy(b->states, states, (size_t)(n * d) * sizeof *b->states);
    b->batch = (rs_batch){.samples = 1, .begin = b->begin, .states = b->states};
    return b;
}

/* What SiLU makes y of. */
static double before_silu(double y)
{
    double x = y;
    for (int i = 0; i < 50; i++) {
        double s = 1 / (1 + exp(-x));
        x -= (x * s - y) / (s * (1 + x * (1 - s)));
    }
    return x;
}

/* A Mamba-2 mixer of one head that reads z | x | B | C | dt from the state. */
static rs_ssd_op *ssd_on(built *b, int64_t dim)
{
    rs_ssd_op *op = &b->layers[0].branches[0].ssd;
    int64_t d = b->network.d_model;
    *op = (rs_ssd_op){.heads = 1,
                      .groups = 1,
                      .head_dim = dim,
                      .state = 1,
                      .step_most = INFINITY,
                      .gate = RS_GATE_NONE,
                      .norm_groups = 1};
    op->in = pick(b, d, 0, d);
    op->conv = no_conv(b, dim + 2);
    op->a_log = generate(b, 0, 1, 0, 0);
    op->o = place(b, dim, d);
    return op;
}

/* ---- T1, T2: the measure ---- */

static rs_token_measures measure(const double *x, int64_t n, int64_t d)
{
    rs_token_options options = {
        .spectral = true, .centre = RS_CENTRE_MEAN, .epsilon = DBL_EPSILON / 2};
    rs_token_measures out;
    void *workspace = malloc(rs_token_workspace(n, d, &options));
    assert_int_equal(rs_token_measure_f64(&out, x, n, d, d, &options, workspace, NULL), RS_OK);
    free(workspace);
    return out;
}

static void t1_t2_measure(void **state)
{
    (void)state;
    static const double unit[] = {1, 0, 0, 1}, counted[] = {1, 2, 3, 4, 5, 6};
    is("T1", measure(unit, 2, 2).residual_fro, 1, 1e-10);
    rs_token_measures m = measure(counted, 3, 2);
    is("T2", m.residual_fro, 4, 1e-10);
    is("T2, relative", m.relative_residual, 0.419313934689, 1e-10);
    is("T2, relative", m.relative_residual, 4 / sqrt(91), 1e-15);
}

/* ---- T24: the scan of Mamba-2; its row sums and norm ---- */

static rs_mixing_numbers told;

static rs_status on_mixing(void *user, const rs_mixing_view *view, rs_error *err)
{
    (void)user, (void)err;
    told = view->of[0];
    return RS_OK;
}

static void tell(const built *b)
{
    rs_weights *weights;
    rs_runner *runner;
    rs_error err = {0};
    const rs_context context = {.threads = 1};
    const rs_tap tap = {.mixing = on_mixing}, *taps[] = {&tap};
    assert_int_equal(rs_weights_open(&weights, RS_PRECISION_F64, 1 << 20, &err), RS_OK);
    assert_int_equal(rs_runner_open(&runner, &b->network, weights, &context, &err), RS_OK);
    assert_int_equal(rs_runner_run(runner, &b->batch, taps, 1, &err), RS_OK);
    rs_runner_close(runner);
    rs_weights_close(weights);
}

/* A = -1, step = softplus(0) = ln 2, B = C = u = 1 over three tokens. */
static void t24_scan(void **state)
{
    (void)state;
    static const double y[] = {0.693147180560, 1.039720770840, 1.213007565980};
    double one = before_silu(1), x[15], ln2 = log(2);
    for (int i = 0; i < 15; i++)
        x[i] = i % 5 == 0 || i % 5 == 4 ? 0 : one;
    built *b = small_new(RS_BRANCH_SSD, 3, 5, x);
    rs_ssd_op *op = ssd_on(b, 1);
    heard h;
    run_engine(&h, b, RS_PRECISION_F64, 1, true);
    for (int i = 0; i < 3; i++) {
        is("T24", h.states[1][5 * i], y[i], 1e-10);
        for (int j = 0; j < 3; j++)
            is("T24, M", h.matrices[0][0][0][3 * i + j], j <= i ? ln2 * pow(0.5, i - j) : 0, 1e-15);
    }
    heard_free(&h);
    /* Correction 32: M1 is the scan of ones; |M|_F^2 by the pairs of states, D added without them. */
    double square = ln2 * ln2 * (3 + 2 * 0.25 + 0.0625), d = 0.75;
    tell(b);
    is("row sums", told.row_sum_least, y[0], 1e-10);
    is("row sums", told.row_sum_most, y[2], 1e-10);
    is("norm", told.square, square, 1e-14);
    op->d = generate(b, 0, 1, 0, d);
    tell(b);
    is("row sums with D", told.row_sum_most, y[2] + d, 1e-10);
    is("norm with D", told.square, square + 3 * d * d + 2 * d * 3 * ln2, 1e-14);
    is("norm less D", told.mixed_square, square, 1e-14);
    is("mean step", told.step, ln2, 1e-15);
    built_free(b);
}

/* Correction 32 at any B, C and steps: what a scan of ones gives is the row sums. */
static void scan_of_ones(void **state)
{
    (void)state;
    enum { N = 150 };
    double x[5 * N], least = INFINITY, most = -INFINITY, one = before_silu(1);
    for (int i = 0; i < 5 * N; i++)
        x[i] = i % 5 == 1 ? one : 3 * generated(5, (uint32_t)i);
    built *b = small_new(RS_BRANCH_SSD, N, 5, x);
    ssd_on(b, 1)->d = generate(b, 0, 1, 0, 0.3);
    heard h;
    run_engine(&h, b, RS_PRECISION_F64, 1, false);
    tell(b);
    for (int i = 0; i < N; i++) {
        least = fmin(least, h.states[1][5 * i]);
        most = fmax(most, h.states[1][5 * i]);
    }
    is("least row sum", told.row_sum_least, least, 1e-12);
    is("largest row sum", told.row_sum_most, most, 1e-12);
    heard_free(&h);
    built_free(b);
}

/* ---- T26: softplus, SiLU, sigmoid ---- */

/* A token of Mamba-2 with D = 1 and B = 0 leaves as silu(x); of the gated recurrence as
 * sigmoid(out) sigmoid(in) x. softplus(0) is T24's step. */
static void t26_activations(void **state)
{
    (void)state;
    static const double x[] = {0, 1, 0, 0, 0}, halves[] = {0, 1};
    built *b = small_new(RS_BRANCH_SSD, 1, 5, x);
    ssd_on(b, 1)->d = generate(b, 0, 1, 0, 1);
    heard h;
    run_engine(&h, b, RS_PRECISION_F64, 1, false);
    is("T26, silu(1)", h.states[1][0], 0.731058578630, 1e-10);
    heard_free(&h);
    built_free(b);
    b = small_new(RS_BRANCH_RECURRENCE, 1, 2, halves);
    rs_recurrence_op *op = &b->layers[0].branches[0].recurrence;
    op->inner = 1;
    op->in = pick(b, 2, 0, 2);
    op->conv = no_conv(b, 1);
    op->gates = generated_map(b, 0, 1, 3, 0);
    rs_tensor *bias = generate(b, 0, 3, 0, 50); /* sigmoid 1 */
    ((double *)(uintptr_t)bias->data)[2] = -2;
    op->gates.bias = bias;
    op->o = place(b, 1, 2);
    run_engine(&h, b, RS_PRECISION_F64, 1, false);
    is("T26, sigmoid(-2)", h.states[1][0], 0.119202922022, 1e-10);
    heard_free(&h);
    built_free(b);
    double soft[] = {0}, swish[] = {1};
    rs_kernels_f64_plain.softplus(soft, 1);
    is("T26, softplus(0)", soft[0], 0.693147180560, 1e-10);
    rs_kernels_f64_plain.activate(swish, NULL, 1, RS_ACT_SILU);
    is("T26, silu(1)", swish[0], 0.731058578630, 1e-10);
    size_t n_tables;
    const rs_kernels_f32 *const *tables = rs_kernels_f32_tables(&n_tables);
    for (const rs_kernels_f32 *const *table = tables; table < tables + n_tables; table++) {
        float one[] = {0}, two[] = {1};
        (*table)->softplus(one, 1);
        (*table)->activate(two, NULL, 1, RS_ACT_SILU);
        is("T26, float32", (double)one[0], 0.693147180560, 1e-7);
        is("T26, float32", (double)two[0], 0.731058578630, 1e-7);
    }
}

/* ---- T27: the convolution ---- */

static void t27_convolution(void **state)
{
    (void)state;
    static const double x[] = {1, 1, 1, 1, 1, 2, 1, 1, 3}, y[] = {1000, 2100, 3210};
    built *b = small_new(RS_BRANCH_SHORT_CONV, 3, 3, x);
    rs_short_conv_op *op = &b->layers[0].branches[0].short_conv;
    rs_tensor *kernel = generate(b, 0, 4, 0, 0);
    for (int j = 0; j < 4; j++)
        ((double *)(uintptr_t)kernel->data)[j] = pow(10, j);
    op->in = pick(b, 3, 0, 3);
    op->conv = (rs_conv_op){1, 4, kernel, NULL, {0}}; /* longer than the text */
    op->o = place(b, 1, 3);
    heard h;
    run_engine(&h, b, RS_PRECISION_F64, 1, false);
    for (int i = 0; i < 3; i++)
        is("T27", h.states[1][3 * i], y[i], 1e-10);
    heard_free(&h);
    built_free(b);
}

/* ---- T28, T29: norms ---- */

static void t28_gated_norm(void **state)
{
    (void)state;
    double x[] = {0, log(3), before_silu(1), before_silu(2), 0, 0, 0};
    built *b = small_new(RS_BRANCH_SSD, 1, 7, x);
    rs_ssd_op *op = ssd_on(b, 2);
    op->d = generate(b, 0, 1, 0, 1);
    op->gate = RS_GATE_BEFORE_NORM;
    op->norm = (rs_norm_op){RS_NORM_RMSNORM, 2, 1e-5, NULL, NULL};
    heard h;
    run_engine(&h, b, RS_PRECISION_F64, 1, false);
    is("T28", h.states[1][0], 0, 1e-10);
    is("T28", h.states[1][1], 1.414208354730, 1e-10);
    heard_free(&h);
    /* Correction 28: a norm in two stretches divides each by its own; the first is 0. */
    op->norm_groups = 2;
    run_engine(&h, b, RS_PRECISION_F64, 1, false);
    double v = 2 * log(3) * 0.75;
    is("T28, grouped", h.states[1][1], v / sqrt(v * v + 1e-5), 1e-14);
    heard_free(&h);
    built_free(b);
}

static void t29_norm(void **state)
{
    (void)state;
    double x[] = {3, 4};
    rs_kernels_f64_plain.norm(x, x, 1, 2, RS_NORM_RMSNORM, 0, NULL, NULL);
    is("T29", x[0], 3 / sqrt(12.5), 1e-10);
    is("T29", x[1], 4 / sqrt(12.5), 1e-10);
    size_t n_tables;
    const rs_kernels_f32 *const *tables = rs_kernels_f32_tables(&n_tables);
    for (const rs_kernels_f32 *const *table = tables; table < tables + n_tables; table++) {
        float y[] = {3, 4};
        (*table)->norm(y, y, 1, 2, RS_NORM_RMSNORM, 0, NULL, NULL);
        is("T29, float32", (double)y[0], 3 / sqrt(12.5), 2e-7);
        is("T29, float32", (double)y[1], 4 / sqrt(12.5), 2e-7);
    }
}

/* ---- T30: the hold of S4D ---- */

/* The entry on the diagonal of one channel with one pair, C = 1/2: (exp(step a) - 1) / a. */
static double held(double log_step, double log_decay, double frequency)
{
    static const double x[] = {1};
    built *b = small_new(RS_BRANCH_S4D, 1, 1, x);
    rs_s4d_op *op = &b->layers[0].branches[0].s4d;
    rs_tensor *c = generate(b, 0, 2, 0, 0);
    ((double *)(uintptr_t)c->data)[0] = 0.5;
    *op = (rs_s4d_op){.channels = 1, .pairs = 1, .c = c};
    op->log_step = generate(b, 0, 1, 0, log_step);
    op->log_decay = generate(b, 0, 1, 0, log_decay);
    op->frequency = generate(b, 0, 1, 0, frequency);
    op->o = pick(b, 1, 0, 1);
    op->gate = pick(b, 1, 0, 1);
    heard h;
    run_engine(&h, b, RS_PRECISION_F64, 1, true);
    double value = h.matrices[0][0][0][0];
    heard_free(&h);
    built_free(b);
    return value;
}

static void t30_hold(void **state)
{
    (void)state;
    is("T30", held(log(0.1), log(0.5), 0), 0.097541150999, 1e-10);
    /* With a = 0, a that underflows, and step a that does, the hold is the step. */
    static const double rates[] = {-INFINITY, -800, -700, -40}, steps[] = {-700, -600, -40, 0, 2};
    for (int r = 0; r < 3; r++)
        for (int s = 0; s < 5; s++)
            assert_true(held(steps[s], rates[r], 0) == exp(steps[s]));
    for (int s = 0; s < 3; s++)
        assert_true(held(steps[s], rates[3], 1e-200) == exp(steps[s]));
    /* Purely imaginary a: the real part of (exp(iy) - 1) / (i w) is sin(y) / w. */
    is("hold on the circle", held(0, -INFINITY, 2), sin(2) / 2, 1e-15);
    is("a long step", held(log(1e3), 0, 0), 1, 1e-15);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(t1_t2_measure),   cmocka_unit_test(t24_scan),
        cmocka_unit_test(scan_of_ones),    cmocka_unit_test(t26_activations),
        cmocka_unit_test(t27_convolution), cmocka_unit_test(t28_gated_norm),
        cmocka_unit_test(t29_norm),        cmocka_unit_test(t30_hold),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
