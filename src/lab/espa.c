/*
 * espa.c: attention that carries a chosen kernel through layers without skip or norm: U-SPA and E-SPA of
 * He, Martens, Zhang, Botev, Brock, Smith, Teh 2023 (arXiv 2302.10322; docs/theory/mean_field.md, 9),
 * beside what plain attention and value-skipinit make of the same tokens.
 */
#include "lab/signals.h"

#include "linalg/gemm.h"
#include "predict/kept_signal.h"

#include <float.h>
#include <math.h>
#include <stdio.h>

enum { N = 12, WIDTH = 32, DEPTH = 8, WAYS = 4, LONG = 64, LONG_DEPTH = 12, STREAM = 0x65737061 };
enum { USPA, ESPA, PLAIN, SKIPINIT };
static const char *const names[WAYS] = {"U-SPA", "E-SPA", "uniform causal",
                                        "0.9 I + 0.1 uniform causal"};
static const double last_rate = 0.05, last_rho = 0.8;

/* tests/oracle/lab_signals.py espa: mean off-diagonal cosine behind 8 layers */
static const double expected_cosine[WAYS] = {0.8, 0.81230676795931, 0.99988528399749,
                                             0.25005453134138};
static const double expected_reversed[2] = {-0.36568542494924, -0.34149685136169},
                    expected_columns = 0.0764073356421;

typedef struct found {
    double kernel[2];               /* largest |XXᵀ/d − Σ_l| over layers and entries */
    double least[2], reversed[2];   /* entries of A_l, and of the wrong order */
    double softmax[2];              /* largest |D softmax(B) − A| */
    double cosine[WAYS][DEPTH + 1]; /* means over pairs */
    double square_root, columns;    /* bidirectional U-SPA; the unofficial code's diagonal */
} found;

/* ---- kernels ---- */

static double rate_of(int32_t l, int32_t depth, double last)
{
    return l == 0 ? (double)INFINITY : rs_espa_rate(l, depth, last);
}

/* rho from 0 to the last in equal steps */
static double rho_of(int l)
{
    return last_rho * l / DEPTH;
}

static double kernel(int way, int l, int64_t i, int64_t j)
{
    if (i == j) return 1;
    if (way == USPA) return rho_of(l);
    return l == 0 ? 0 : exp(-rate_of(l, DEPTH, last_rate) * (double)(i > j ? i - j : j - i));
}

static void attention(double *a, int way, int l)
{
    if (way == USPA) {
        rs_uspa_attention(a, N, rho_of(l - 1), rho_of(l));
        return;
    }
    if (way == ESPA) {
        rs_espa_attention(a, N, rate_of(l - 1, DEPTH, last_rate), rate_of(l, DEPTH, last_rate));
        return;
    }
    double identity = way == SKIPINIT ? 0.9 : 0;
    for (int64_t i = 0; i < N; i++)
        for (int64_t j = 0; j < N; j++)
            a[i * N + j] = j > i ? 0 : (1 - identity) / (double)(i + 1) + identity * (i == j);
}

/* A = D softmax(B), D the row sums and B = ln(A/D) on what a causal mask shows. columns: the unofficial
 * code's ln(A_ij/D_j). Returns the largest difference. */
static double parametrised(double *out, const double *a, int64_t n, bool columns)
{
    double most = 0, sums[LONG];
    for (int64_t i = 0; i < n; i++) {
        sums[i] = 0;
        for (int64_t j = 0; j <= i; j++)
            sums[i] += a[i * n + j];
    }
    for (int64_t i = 0; i < n; i++) {
        double *row = out + i * n;
        for (int64_t j = 0; j < n; j++)
            row[j] = j > i ? (double)-INFINITY : log(a[i * n + j] / sums[columns ? j : i]);
        rs_rows_softmax(row, 1, n);
        for (int64_t j = 0; j < n; j++) {
            row[j] *= sums[i];
            most = fmax(most, fabs(row[j] - a[i * n + j]));
        }
    }
    return most;
}

static void see_entries(found *f)
{
    double a[N * N], out[N * N];
    for (int way = USPA; way <= ESPA; way++)
        for (int l = 1; l <= DEPTH; l++) {
            attention(a, way, l);
            for (int64_t i = 0; i < N; i++)
                for (int64_t j = 0; j <= i; j++)
                    f->least[way] = fmin(f->least[way], a[i * N + j]);
            f->softmax[way] = fmax(f->softmax[way], parametrised(out, a, N, false));
        }
}

/* The other way round, from .5 to .2 of U-SPA and from 0.5 to 1 of E-SPA, by A = L(to) L(from)⁻¹: the
 * inverse of the right way's matrix. */
static void see_reversed(double *least, int way)
{
    enum { FEW = 8 };
    double a[FEW * FEW], inverse[FEW * FEW] = {0};
    if (way == USPA)
        rs_uspa_attention(a, FEW, 0.2, 0.5);
    else
        rs_espa_attention(a, FEW, 1, 0.5);
    for (int64_t j = 0; j < FEW; j++)
        for (int64_t i = j; i < FEW; i++) {
            double sum = i == j;
            for (int64_t k = j; k < i; k++)
                sum -= a[i * FEW + k] * inverse[k * FEW + j];
            inverse[i * FEW + j] = sum / a[i * FEW + i];
            *least = fmin(*least, inverse[i * FEW + j]);
        }
}

/* Without a mask: Σ(to)^½ Σ(from)^−½ of U-SPA, whose eigenvectors are 1 and all else. */
static double see_square_root(double from, double to)
{
    double one = sqrt((1 + (N - 1) * to) / (1 + (N - 1) * from)),
           rest = sqrt((1 - to) / (1 - from));
    double most = 0;
    for (int64_t i = 0; i < N; i++)
        for (int64_t j = 0; j < N; j++) {
            double sum = 0; /* (A Σ(from) Aᵀ)_ij */
            for (int64_t k = 0; k < N; k++)
                for (int64_t m = 0; m < N; m++) {
                    double ik = rest * (i == k) + (one - rest) / N;
                    double jm = rest * (j == m) + (one - rest) / N;
                    sum += ik * jm * (k == m ? 1 : from);
                }
            most = fmax(most, fabs(sum - (i == j ? 1 : to)));
        }
    return most;
}

/* How far the unofficial code's product is from a kernel of diagonal 1. */
static double see_columns(void)
{
    static double a[LONG * LONG], wrong[LONG * LONG], all[LONG * LONG], copy[LONG * LONG];
    double most = 0;
    rs_identity(all, LONG);
    for (int32_t l = 1; l <= LONG_DEPTH; l++) {
        rs_espa_attention(a, LONG, rate_of(l - 1, LONG_DEPTH, 0.005),
                          rate_of(l, LONG_DEPTH, 0.005));
        parametrised(wrong, a, LONG, true);
        for (int i = 0; i < LONG * LONG; i++)
            copy[i] = all[i];
        rs_small_product(all, wrong, copy, LONG, LONG, LONG);
    }
    for (int64_t i = 0; i < LONG; i++)
        most = fmax(most, fabs(rs_sum_square(all + i * LONG, LONG) - 1));
    return most;
}

/* ---- the engine's layers: orthogonal W_V, no skip, norm or MLP ---- */

static void see_kernel(found *f, const double *x, int way, int l)
{
    for (int64_t i = 0; i < N; i++)
        for (int64_t j = 0; j < N; j++) {
            double sum = 0;
            for (int64_t k = 0; k < WIDTH; k++)
                sum += x[i * WIDTH + k] * x[j * WIDTH + k] / WIDTH;
            double lengths = rs_norm_frobenius(x + i * WIDTH, 1, WIDTH) *
                             rs_norm_frobenius(x + j * WIDTH, 1, WIDTH) / WIDTH;
            if (i != j) f->cosine[way][l] += sum / lengths / (N * (N - 1));
            if (way <= ESPA)
                f->kernel[way] = fmax(f->kernel[way], fabs(sum - kernel(way, l, i, j)));
        }
}

/* W_V = I − 2vvᵀ/‖v‖², orthogonal to the last digit, as drawn weights of single precision are not. */
static rs_status set_values(rs_toy *toy, int l, rs_random *random, rs_error *err)
{
    double v[WIDTH], w[WIDTH * WIDTH];
    rs_draw_gaussian(v, WIDTH, 1, random);
    for (int i = 0; i < WIDTH * WIDTH; i++)
        w[i] = (i % (WIDTH + 1) == 0) - 2 * v[i / WIDTH] * v[i % WIDTH] / rs_sum_square(v, WIDTH);
    return rs_toy_set(toy, rs_toy_values(toy, l), w, NULL, err);
}

static rs_status see_layers(found *f, int way, const rs_context *context, rs_error *err)
{
    double a[N * N], x[N * WIDTH] = {0};
    rs_toy toy;
    rs_toy_trace trace = {0};
    rs_random random = rs_random_new(context->seed, (uint64_t)STREAM << 32);
    json_t *arch =
        json_pack("{s:i, s:i, s:s, s:s, s:f, s:{s:s}}", "depth", DEPTH, "d_model", WIDTH, "norm",
                  "none", "mlp", "none", "skip_mixer", 0.0, "init", "wo", "none");
    RS_TRY(rs_toy_open(&toy, arch, 0, context, err));
    rs_status status = RS_OK;
    for (int l = 1; l <= DEPTH && status == RS_OK; l++) {
        attention(a, way, l);
        status = rs_toy_mix_some(&toy, l - 1, DEPTH, a, N, RS_GRAPH_GIVEN, err);
        if (status == RS_OK) status = set_values(&toy, l - 1, &random, err);
    }
    for (int64_t i = 0; i < N; i++)
        x[i * WIDTH + i] = sqrt(WIDTH);
    if (status == RS_OK) status = rs_toy_run(&trace, &toy, x, 1, N, false, err);
    for (int l = 0; l <= DEPTH && status == RS_OK; l++)
        see_kernel(f, rs_toy_state(&trace, l, 0), way, l);
    rs_toy_trace_free(&trace);
    rs_toy_close(&toy);
    return status;
}

/* ---- what came out ---- */

static const rs_column point_columns[] = RS_LAB_POINTS(
    RS_LAB_X_STATE, RS_LAB_Y("cosine", "mean cosine of tokens", "over pairs of different tokens"));
static const rs_table_kind table_kind = {"lab", "espa", {RS_PART(point_columns)}};
static const rs_lab_curves curves = {
    .kind = &table_kind,
    .title = "Kernels that attention keeps",
    .about = "Mean cosine of 12 orthogonal tokens by layer without skips, norms and MLPs: where "
             "attention is made for a kernel, uniform causal attention, and nine tenths of the "
             "identity.",
};

static rs_status claim_ways(rs_lab_report *report, const found *f, rs_error *err)
{
    char text[160];
    /* a product of WIDTH terms a layer, of numbers up to the norm N of the kernel */
    double rounding = DEPTH * WIDTH * N * DBL_EPSILON;
    for (int way = USPA; way <= ESPA; way++) {
        snprintf(text, sizeof text, "%s: XX'/d against its kernel, all layers", names[way]);
        RS_TRY(rs_lab_at_most(report, text, f->kernel[way], rounding, err));
        snprintf(text, sizeof text, "%s: how far its entries are below 0", names[way]);
        RS_TRY(rs_lab_at_most(report, text, -f->least[way], rounding, err));
        snprintf(text, sizeof text, "%s: row sums times softmax of ln against A", names[way]);
        RS_TRY(rs_lab_at_most(report, text, f->softmax[way], rounding, err));
        snprintf(text, sizeof text, "%s with kernels in reverse order: least entry", names[way]);
        RS_TRY(rs_lab_expect(report, text, expected_reversed[way], f->reversed[way], 1e-12, err));
    }
    for (int way = 0; way < WAYS; way++) {
        snprintf(text, sizeof text, "%s: mean cosine behind 8 layers", names[way]);
        RS_TRY(
            rs_lab_expect(report, text, expected_cosine[way], f->cosine[way][DEPTH], 1e-12, err));
    }
    RS_TRY(rs_lab_at_most(report, "U-SPA without a mask, square roots: against its kernel",
                          f->square_root, rounding, err));
    return rs_lab_expect(report, "E-SPA divided by sums of columns: largest |diagonal - 1|",
                         expected_columns, f->columns, 1e-10, err);
}

static rs_status write_up(rs_lab_report *report, const found *f, rs_error *err)
{
    rs_table *table = NULL;
    RS_TRY(rs_lab_curves_open(&table, report, &curves, err));
    for (int way = 0; way < WAYS; way++)
        for (int l = 0; l <= DEPTH; l++)
            RS_TRY(rs_lab_curves_add(table, names[way], l, f->cosine[way][l], err));
    for (int l = 1; l <= 4; l++) {
        static const double rates[] = {0.18977666139695767, 0.05254167706472674,
                                       0.01600572729896984, 0.005};
        char text[80];
        snprintf(text, sizeof text, "E-SPA: rate of layer %d of 4, the last 0.005", l);
        RS_TRY(rs_lab_compute(report, text, rates[l - 1], rs_espa_rate(l, 4, 0.005), 1e-14, err));
    }
    return claim_ways(report, f, err);
}

static rs_status run_espa(rs_lab_report *report, const rs_lab_options *options,
                          const rs_context *context, rs_error *err)
{
    (void)options; /* as quick as it can be */
    found f = {.square_root = see_square_root(0.2, 0.5), .columns = see_columns()};
    see_entries(&f);
    for (int way = USPA; way <= ESPA; way++)
        see_reversed(&f.reversed[way], way);
    for (int way = 0; way < WAYS; way++)
        RS_TRY(see_layers(&f, way, context, err));
    return write_up(report, &f, err);
}

const rs_lab_experiment rs_lab_espa = {
    "espa",
    "Kernels that attention keeps",
    "He et al. 2023, U-SPA and E-SPA",
    "Layers without skip, norm and MLP whose attention carries a chosen kernel of the tokens on, "
    "by "
    "the engine with orthogonal values: the kernel behind every layer, signs of entries, and what "
    "uniform causal attention does instead. He, Martens, Zhang, Botev, Brock, Smith, Teh, ICLR "
    "2023 "
    "(arXiv 2302.10322).",
    run_espa,
    "< 1 s",
    "< 1 s",
    &table_kind,
    0};
