/*
 * dong_bounds_instances.c: instances for dong_bounds.c (docs/theory/collapse.md, 3 and
 * 4; corrections.md, 10 and 12).
 *
 * Those that need ten thousand tokens or a hundred million features are so symmetric that their
 * residual is a formula; the smallest of them also runs through the engine.
 */
#include "lab/dong_bounds.h"

#include "base/memory.h"

#include <math.h>
#include <string.h>

enum {
    GAMMA_TOKENS = 64,
    WIDE = RS_BOUND_ENGINE, /* features of the two-head instance that the engine runs */
    MANY = RS_BOUND_ENGINE  /* tokens of the one-head instance */
};

/* ---- gamma ---- */

/* The gamma that the paper's proof needs: sqrt(sum of row ranges * largest) over 2 |R|_1 |R|_inf
 * |W_QK|_1/sqrt(d). Here R = I and one head with scale 1: E = W_QK. */
static double gamma_of_matrix(const double *e, int64_t n)
{
    double sum = 0, largest = 0;
    for (int64_t i = 0; i < n; i++) {
        double low = INFINITY, high = -INFINITY;
        for (int64_t j = 0; j < n; j++) {
            low = fmin(low, e[i * n + j]);
            high = fmax(high, e[i * n + j]);
        }
        sum += high - low;
        largest = fmax(largest, high - low);
    }
    return sqrt(sum * largest) / (2 * rs_norm_columns(e, n, n));
}

static rs_status gammas(rs_bound_instances *out, rs_error *err)
{
    enum { N = GAMMA_TOKENS };
    double *e = rs_calloc(N * N, sizeof *e);
    if (!e) return rs_fail_memory(err, "an experiment", N * N * sizeof *e);
    for (int i = 0; i < N; i++)
        e[i * N + (i + 1) % N] = 1;
    out->gamma_permutation = gamma_of_matrix(e, N);
    /* row 1 = e1 - e2, row i = e_(i+1), last row 0 (docs/theory/corrections.md, 10) */
    memset(e, 0, N * N * sizeof *e);
    e[0] = 1;
    e[1] = -1;
    for (int i = 1; i + 1 < N; i++)
        e[i * N + i + 1] = 1;
    out->gamma_most = gamma_of_matrix(e, N);
    /* a row of ones, and a row and a column */
    memset(e, 0, N * N * sizeof *e);
    for (int i = 0; i < N; i++)
        e[i] = 1;
    double parts = 2 * rs_norm_composite(e, N, N);
    for (int i = 0; i < N; i++)
        e[i * N] += 1;
    out->triangle = rs_norm_composite(e, N, N) / parts;
    rs_free(e);
    return RS_OK;
}

/* ---- instances that refute ---- */

/* Two tokens +-eps of one feature, W_QK = 1, values 1_m/sqrt(m) and e_1, both of composite norm 1:
 * the residual over the bound with H = 2, gamma = 1. */
double rs_bound_two_heads(double m)
{
    double eps = 1e-3, change = tanh(eps * eps), root = sqrt(m);
    double rows = eps * change * (1 + root), columns = 2 * eps * change * (1 + 1 / root);
    double before = sqrt(2) * eps;
    return sqrt(rows * columns) / (4 * 2 * before * before * before);
}

static rs_status wide_weights(rs_toy *toy, double *w, rs_error *err)
{
    rs_attention_op *op = rs_toy_attention(toy, 0);
    op->scale = 1;
    /* both heads read feature 1 alone */
    memset(w, 0, 2 * WIDE * WIDE * sizeof *w);
    w[0] = w[op->head_dim] = 1;
    RS_TRY(rs_toy_set(toy, &op->q, w, NULL, err));
    RS_TRY(rs_toy_set(toy, &op->k, w, NULL, err));
    memset(w, 0, 2 * WIDE * WIDE * sizeof *w);
    for (int j = 0; j < WIDE; j++)
        w[j] = 1 / sqrt(WIDE);
    w[WIDE] = 1;
    return rs_toy_set(toy, &op->v, w, NULL, err);
}

static rs_status run_wide(rs_bound_instances *out, double *w, const rs_context *context,
                          rs_error *err)
{
    double x[2 * WIDE] = {0};
    x[0] = 1e-3;
    x[WIDE] = -1e-3;
    rs_toy toy;
    rs_toy_trace trace;
    json_t *arch =
        json_pack("{s:i, s:i, s:i, s:i, s:s, s:f, s:s, s:{s:s, s:s, s:s, s:s}}", "depth", 1,
                  "d_model", WIDE, "heads", 2, "d_head", 8, "norm", "none", "skip_mixer", 0.0,
                  "mlp", "none", "init", "wq", "zero", "wk", "zero", "wv", "zero", "wo", "none");
    RS_TRY(rs_toy_open(&toy, arch, context->seed, context, err));
    rs_status status = wide_weights(&toy, w, err);
    if (status == RS_OK) status = rs_toy_run(&trace, &toy, x, 1, 2, false, err);
    rs_toy_close(&toy);
    RS_TRY(status);
    double before = sqrt(2) * 1e-3;
    double after = rs_norm_composite(rs_toy_state(&trace, 1, 0), 2, WIDE);
    out->engine_wide = after / (8 * before * before * before);
    rs_toy_trace_free(&trace);
    return RS_OK;
}

/* R = I, half of the n rows lift a token of their own by M = ln 6(n - 1), token 1 has weight 1/2:
 * a lower bound of the residual over the bound with gamma = 1, 4M. */
double rs_bound_no_range(double n)
{
    double lift = log(6 * (n - 1)), first = 0.5, other = 0.5 / (n - 1);
    double z = 1 + expm1(lift) * other;
    double first_lifted = first / z, other_lifted = other / z, own = other * exp(lift) / z;
    double column = n / 2 * fabs(first - first_lifted);
    double apart =
        fabs(first - first_lifted) + (n - 2) * fabs(other - other_lifted) + fabs(own - other);
    return sqrt(column * apart / 2) / (4 * lift);
}

/* The same instance in the engine, of MANY tokens, each a feature of its own; what the formula
 * bounds, read from the output: column 1 against its median, and rows of both types. */
static rs_status run_many(rs_bound_instances *out, double *w, const rs_context *context,
                          rs_error *err)
{
    enum { N = MANY };
    double *one = w, *qk = w + N * N, bias[N] = {log(N - 1)}, lift = log(6 * (N - 1));
    for (int i = 0; i < N; i++) {
        one[i * N + i] = 1;
        qk[i * N + i] = i >= N / 2 ? lift : 0;
    }
    rs_toy toy;
    rs_toy_trace trace;
    json_t *arch = json_pack("{s:i, s:i, s:s, s:f, s:s, s:{s:s, s:s, s:s, s:s}}", "depth", 1,
                             "d_model", N, "norm", "none", "skip_mixer", 0.0, "mlp", "none", "init",
                             "wq", "zero", "wk", "identity", "wv", "identity", "wo", "none");
    RS_TRY(rs_toy_open(&toy, arch, context->seed, context, err));
    rs_attention_op *op = rs_toy_attention(&toy, 0);
    op->scale = 1;
    rs_status status = rs_toy_set(&toy, &op->q, qk, bias, err);
    if (status == RS_OK) status = rs_toy_run(&trace, &toy, one, 1, N, false, err);
    rs_toy_close(&toy);
    RS_TRY(status);
    const double *y = rs_toy_state(&trace, 1, 0), *plain = y + N, *lifted = y + (N - 1) * N;
    double column = 0, apart = 0;
    for (int i = 0; i < N; i++) {
        column += fabs(y[i * N] - plain[0]); /* half the rows have this value: a median */
        apart += fabs(plain[i] - lifted[i]);
    }
    out->engine_many = sqrt(column * apart / 2) / (4 * lift);
    rs_toy_trace_free(&trace);
    return RS_OK;
}

static rs_status engine_checks(rs_bound_instances *out, const rs_context *context, rs_error *err)
{
    double *w = rs_calloc(2 * WIDE * WIDE, sizeof *w);
    if (!w) return rs_fail_memory(err, "an experiment", 2 * WIDE * WIDE * sizeof *w);
    rs_status status = run_many(out, w, context, err);
    if (status == RS_OK) status = run_wide(out, w, context, err);
    rs_free(w);
    return status;
}

/* X = (1, 0, 0, 0), W_V = 0, skip 1: q of the mean-centred residual, where the median's is 1. */
static rs_status mean_against_median(double *q, const rs_context *context, rs_error *err)
{
    static const double x[4] = {1, 0, 0, 0};
    rs_toy toy;
    rs_toy_trace trace;
    json_t *arch = json_pack("{s:i, s:i, s:s, s:s, s:{s:s, s:s}}", "depth", 1, "d_model", 1, "norm",
                             "none", "mlp", "none", "init", "wv", "zero", "wo", "none");
    RS_TRY(rs_toy_open(&toy, arch, context->seed, context, err));
    rs_status status = rs_toy_run(&trace, &toy, x, 1, 4, false, err);
    rs_toy_close(&toy);
    RS_TRY(status);
    double *y = rs_toy_state(&trace, 1, 0);
    rs_rows_centre(y, 4, 1);
    *q = rs_norm_columns(y, 4, 1) * rs_norm_rows(y, 4, 1);
    rs_toy_trace_free(&trace);
    return RS_OK;
}

rs_status rs_bound_instances_measure(rs_bound_instances *out, const rs_context *context,
                                     rs_error *err)
{
    RS_TRY(gammas(out, err));
    RS_TRY(mean_against_median(&out->mean_centred, context, err));
    return engine_checks(out, context, err);
}
