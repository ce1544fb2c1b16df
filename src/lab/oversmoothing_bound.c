/*
 * oversmoothing_bound.c: how much a post-norm block may leave of what tells tokens apart, and how much it
 * does: Shi, Gao, Xu, Liang, Li, Kong, Lee, Kwok 2022 (arXiv 2202.08625), d_M(H) = ‖H − 1h̄ᵀ‖_F, with
 * the findings of docs/theory/signal.md, 6.
 */
#include "lab/signals.h"

#include "base/memory.h"
#include "linalg/gemm.h"
#include "proof/lambda.h"

#include <float.h>
#include <math.h>
#include <stdio.h>

enum { N = 16, D = 64, HEADS = 4, HEAD = D / HEADS, HIDDEN = 4 * D, LAYERS = 6, LAWS = 2 };
enum { DRAWS = 48, STREAM = 0x73686931, LEMMAS = 5, TRIES = 200 };
static const double deviations[LAWS] = {0.02, 0.125}; /* of weights */

/* By law and layer; then the largest of ratios over bounds in the lemmas. */
enum { RATIO, TIGHT, PRINTED, KINDS, BLOCKS = LAWS * LAYERS * KINDS, CELLS = BLOCKS + LEMMAS };
static const char *const kinds[KINDS] = {"d_M behind the block over before",
                                         "the bound, each norm its own", "the bound as printed"};

/* tests/oracle/lab_signals.py oversmoothing-bound: by law, of layers 1 and 6 */
static const rs_awaited awaited[LAWS][2 * KINDS] = {
    {{1.00043, 0.0024},
     {1.47714, 0.0075},
     {1.5274, 0.0078},
     {0.99966, 7.8e-05},
     {1.23624, 0.00056},
     {1.2771, 0.00081}},
    {{0.867385, 0.0033},
     {37.239, 0.42},
     {72.5374, 1.1},
     {0.712599, 0.0087},
     {6.33779, 0.14},
     {8.85849, 0.29}},
};

/* ---- a block ---- */

typedef struct block {
    double h[N * D], z[N * D], y[N * D], q[N * D], k[N * D], v[N * D], a[N * N], up[D * HIDDEN],
        down[HIDDEN * D], hidden[N * HIDDEN], w[4][D * HEAD], product[D * D];
    double mixing[HEADS], head_norm[HEADS], least[2];
} block;

static double apart(const double *h)
{
    return sqrt(rs_apart_square(h, N, D));
}

/* Rows to mean 0 and variance 1; returns the least deviation. */
static double normalise(double *h, int64_t n, int64_t d)
{
    double least = INFINITY;
    for (int64_t i = 0; i < n; i++) {
        double mean = 0, square = 0, *row = h + i * d;
        for (int64_t k = 0; k < d; k++)
            mean += row[k] / (double)d;
        for (int64_t k = 0; k < d; k++)
            square += (row[k] - mean) * (row[k] - mean) / (double)d;
        for (int64_t k = 0; k < d; k++)
            row[k] = (row[k] - mean) / sqrt(square);
        least = fmin(least, sqrt(square));
    }
    return least;
}

static void multiply(double *c, const double *a, const double *b, int64_t m, int64_t k, int64_t n,
                     double beta)
{
    rs_gemm_f64(RS_AS_IS, RS_AS_IS, m, n, k, 1, a, k, b, n, beta, c, n);
}

/* ‖PA‖₂ = √λ of the paper */
static double centred_norm(const double *a, int64_t n)
{
    double copy[N * N];
    for (int64_t i = 0; i < n * n; i++)
        copy[i] = a[i];
    rs_rows_centre(copy, n, n);
    return rs_norm_spectral(copy, n, n);
}

/* z += A_h H W_V W_O of one head, weights of w: Q, K, V [D, HEAD] and O [HEAD, D] */
static void add_head(block *b, int head)
{
    multiply(b->q, b->h, b->w[0], N, D, HEAD, 0);
    multiply(b->k, b->h, b->w[1], N, D, HEAD, 0);
    multiply(b->v, b->h, b->w[2], N, D, HEAD, 0);
    rs_gemm_f64(RS_AS_IS, RS_TURNED, N, N, HEAD, 1 / sqrt(HEAD), b->q, HEAD, b->k, HEAD, 0, b->a,
                N);
    rs_rows_softmax(b->a, N, N);
    multiply(b->q, b->a, b->v, N, N, HEAD, 0);
    multiply(b->z, b->q, b->w[3], N, HEAD, D, 1);
    multiply(b->product, b->w[2], b->w[3], D, HEAD, D, 0);
    b->mixing[head] = centred_norm(b->a, N);
    b->head_norm[head] = rs_norm_spectral(b->product, D, D);
}

/* h becomes what the block makes of it. */
static void run_block(block *b, double deviation, rs_random *random)
{
    for (int i = 0; i < N * D; i++)
        b->z[i] = b->h[i];
    for (int head = 0; head < HEADS; head++) {
        for (int i = 0; i < 4; i++)
            rs_draw_gaussian(b->w[i], D * HEAD, deviation, random);
        add_head(b, head);
    }
    b->least[0] = normalise(b->z, N, D);
    rs_draw_gaussian(b->up, D * HIDDEN, deviation, random);
    rs_draw_gaussian(b->down, HIDDEN * D, deviation, random);
    multiply(b->hidden, b->z, b->up, N, D, HIDDEN, 0);
    for (int i = 0; i < N * HIDDEN; i++)
        b->hidden[i] = fmax(b->hidden[i], 0);
    multiply(b->z, b->hidden, b->down, N, HIDDEN, D, 1);
    b->least[1] = normalise(b->z, N, D);
    for (int i = 0; i < N * D; i++)
        b->h[i] = b->z[i];
}

/* By the program's own bound, and as printed: (1 + s²)(1 + √λ h s)/(σ₁σ₂), s the largest norm of all. */
static void bounds(double *cells, const block *b)
{
    double s1 = rs_norm_spectral(b->up, D, HIDDEN), s2 = rs_norm_spectral(b->down, HIDDEN, D);
    double s = fmax(s1, s2), root = 0;
    for (int head = 0; head < HEADS; head++) {
        s = fmax(s, b->head_norm[head]);
        root = fmax(root, b->mixing[head]);
    }
    const rs_lambda_block given = {.post_norm = true,
                                   .row_stochastic = true,
                                   .relu = true,
                                   .activation_lipschitz = 1,
                                   .mixing_norm = b->mixing,
                                   .head_norm = b->head_norm,
                                   .heads = HEADS,
                                   .up_norm = s1,
                                   .down_norm = s2,
                                   .gain1 = 1,
                                   .gain2 = 1,
                                   .unit_gains = true,
                                   .std1 = b->least[0],
                                   .std2 = b->least[1],
                                   .skip_mixer = 1,
                                   .skip_mlp = 1,
                                   .scale_mixer = 1,
                                   .scale_mlp = 1};
    cells[TIGHT] = rs_lambda_over_smoothing_published(&given).value;
    cells[PRINTED] = (1 + s * s) * (1 + root * HEADS * s) / (b->least[0] * b->least[1]);
}

/* ---- lemmas: d_M behind a map over its bound ---- */

static void see_lemmas(double *worst, block *b, rs_random *random)
{
    double logits = 6 * rs_random_uniform(random), scale = 0.01 + 3 * rs_random_uniform(random);
    double common = 5 * rs_random_uniform(random);
    rs_draw_gaussian(b->k, D, common, random);
    for (int i = 0; i < N * D; i++)
        b->h[i] = b->k[i % D] + scale * rs_random_normal(random);
    double before = apart(b->h);
    rs_draw_gaussian(b->product, D * D, 1, random);
    multiply(b->y, b->h, b->product, N, D, D, 0);
    worst[0] = fmax(worst[0], apart(b->y) / (rs_norm_spectral(b->product, D, D) * before));
    for (int i = 0; i < N * D; i++)
        b->y[i] = fmax(b->h[i], 0);
    worst[1] = fmax(worst[1], apart(b->y) / before);
    rs_draw_gaussian(b->a, N * N, logits, random);
    rs_rows_softmax(b->a, N, N);
    multiply(b->y, b->a, b->h, N, N, D, 0);
    worst[2] = fmax(worst[2], apart(b->y) / (centred_norm(b->a, N) * before));
    for (int i = 0; i < N * D; i++)
        b->y[i] = b->h[i];
    double least = normalise(b->y, N, D);
    worst[3] = fmax(worst[3], apart(b->y) / (before / least));
    rs_draw_gaussian(b->z, N * D, 1, random);
    double other = apart(b->z);
    for (int i = 0; i < N * D; i++)
        b->y[i] = 2 * b->h[i] + 3 * b->z[i];
    worst[4] = fmax(worst[4], apart(b->y) / (2 * before + 3 * other));
}

static rs_status one_draw(double *cells, const void *of, rs_random *random,
                          const rs_context *context, rs_error *err)
{
    (void)of;
    (void)context;
    block *b = rs_calloc(1, sizeof *b);
    if (!b) return rs_fail_memory(err, "a block", sizeof *b);
    for (int law = 0; law < LAWS; law++) {
        rs_draw_gaussian(b->h, N * D, 1, random);
        for (int l = 0; l < LAYERS; l++) {
            double *at = cells + (law * LAYERS + l) * KINDS, before = apart(b->h);
            run_block(b, deviations[law], random);
            at[RATIO] = apart(b->h) / before;
            bounds(at, b);
        }
    }
    for (int i = 0; i < TRIES / RS_DRAWS_LEAST; i++)
        see_lemmas(cells + BLOCKS, b, random);
    rs_free(b);
    return RS_OK;
}

/* ---- what came out ---- */

static const rs_column point_columns[] = RS_LAB_POINTS(
    RS_LAB_X_WHOLE("layer", "layer", "from 1"),
    RS_LAB_Y("factor", "d_M behind over before", "measured, or the bound, as series says"));
static const rs_table_kind table_kind = {"lab", "oversmoothing_bound", {RS_PART(point_columns)}};
static const rs_lab_curves curves = {
    .kind = &table_kind,
    .title = "The over-smoothing bound",
    .about =
        "By how much a post-norm block of random weights (deviation 0.125) changes d_M, and the "
        "bound of it: a bound above 1 proves no collapse, and it always is.",
    .log_y = true,
};

/* Of a cell: the largest over draws. */
static double largest(const rs_draws *draws, int32_t cell)
{
    double most = 0;
    for (int32_t i = 0; i < draws->draws; i++)
        most = fmax(most, draws->of[(size_t)i * CELLS + (size_t)cell]);
    return most;
}

/* The largest of one cell over another in all blocks, and the least of the bound. */
static void over_blocks(double out[3], const rs_draws *draws)
{
    out[0] = out[1] = 0;
    out[2] = INFINITY;
    for (int32_t i = 0; i < draws->draws; i++)
        for (int b = 0; b < BLOCKS; b += KINDS) {
            const double *at = draws->of + (size_t)i * CELLS + (size_t)b;
            out[0] = fmax(out[0], at[RATIO] / at[TIGHT]);
            out[1] = fmax(out[1], at[TIGHT] / at[PRINTED]);
            out[2] = fmin(out[2], at[TIGHT]);
        }
}

static rs_status claim_lemmas(rs_lab_report *report, const rs_draws *draws, rs_error *err)
{
    static const char *const lemmas[LEMMAS] = {
        "HW: d_M over |W|_2 d_M, largest", "ReLU: d_M over d_M, largest",
        "AH: d_M over sqrt(lambda) d_M, largest", "LayerNorm: d_M over d_M/sigma, largest",
        "2H + 3B: d_M over the sum, largest"};
    const double rounding = 1 + N * D * DBL_EPSILON;
    for (int i = 0; i < LEMMAS; i++)
        RS_TRY(rs_lab_at_most(report, lemmas[i], largest(draws, BLOCKS + i), rounding, err));
    double out[3];
    over_blocks(out, draws);
    RS_TRY(rs_lab_at_most(report, "blocks: d_M over the bound, largest", out[0], rounding, err));
    RS_TRY(rs_lab_at_most(report, "blocks: the bound over the printed one, largest", out[1],
                          rounding, err));
    /* norms of gain 1: the MLP's factor (1 + s₁s₂)/σ₂ is never below 1 */
    return rs_lab_at_most(report, "blocks: 1 over the bound, largest", 1 / out[2], 1, err);
}

static rs_status claim_instances(rs_lab_report *report, rs_error *err)
{
    /* half the tokens read one token, half another: λ = n/2 */
    double expanding[16] = {1, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0};
    double root = centred_norm(expanding, 4), uniform = 0;
    RS_TRY(rs_lab_compute(report, "rows e1, e1, e2, e2: lambda", 2, root * root, 1e-12, err));
    /* 1'Aᵀ(I − 11')A1/4 of A = 11'/4, as the paper's e is printed */
    for (int i = 0; i < 16; i++)
        uniform += ((i % 5 == 0) - 1) / 4.0;
    RS_TRY(rs_lab_compute(report, "e of length 2, uniform A: least eigenvalue", -3, uniform, 1e-12,
                          err));
    /* equality: one value direction, two tokens of one mean */
    double a[4] = {0.9, 0.1, 0.1, 0.9};
    return rs_lab_compute(report, "A = (.9 .1; .1 .9): sqrt(lambda) is what it leaves", 0.8,
                          centred_norm(a, 2), 1e-12, err);
}

static rs_status write_up(rs_lab_report *report, const rs_draws *draws, rs_error *err)
{
    rs_table *table = NULL;
    char text[160];
    RS_TRY(rs_lab_curves_open(&table, report, &curves, err));
    for (int k = 0; k < KINDS; k++)
        for (int l = 0; l < LAYERS; l++)
            RS_TRY(rs_lab_curves_add(table, kinds[k], l + 1,
                                     rs_draws_seen(draws, (LAYERS + l) * KINDS + k).mean, err));
    for (int law = 0; law < LAWS; law++)
        for (int end = 0; end < 2; end++)
            for (int k = 0; k < KINDS; k++) {
                int cell = (law * LAYERS + end * (LAYERS - 1)) * KINDS + k;
                snprintf(text, sizeof text, "weights of deviation %g, layer %d: %s",
                         deviations[law], end ? LAYERS : 1, kinds[k]);
                RS_TRY(rs_lab_seen(report, text, awaited[law][end * KINDS + k], 0,
                                   rs_draws_seen(draws, cell), err));
            }
    RS_TRY(claim_lemmas(report, draws, err));
    return claim_instances(report, err);
}

static rs_status run_oversmoothing_bound(rs_lab_report *report, const rs_lab_options *options,
                                         const rs_context *context, rs_error *err)
{
    const rs_draws_plan plan = {.draws = options->quick ? RS_DRAWS_LEAST : DRAWS,
                                .cells = CELLS,
                                .stream = (uint64_t)STREAM << 32,
                                .one = one_draw};
    rs_draws draws;
    RS_TRY(rs_draws_run(&draws, &plan, context, err));
    rs_status status = write_up(report, &draws, err);
    rs_draws_free(&draws);
    if (status != RS_OK || !options->quick) return status;
    return rs_lab_say_quick(report, "16 draws instead of 48", err);
}

const rs_lab_experiment rs_lab_oversmoothing_bound = {
    "oversmoothing-bound",
    "The over-smoothing bound of a block",
    "Shi et al. 2022, over-smoothing in BERT",
    "How much of the distance from equal tokens a post-norm block of random weights leaves, the "
    "bound of it as printed and with each norm in its own place, and its lemmas one by one. Shi, "
    "Gao, Xu, Liang, Li, Kong, Lee, Kwok, ICLR 2022 (arXiv 2202.08625).",
    run_oversmoothing_bound,
    "1 s",
    "< 1 s",
    &table_kind,
    0};
