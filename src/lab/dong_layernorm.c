/*
 * dong_layernorm.c: LayerNorm and collapse (Dong, Cordonnier, Loukas 2021, paragraph on
 * LayerNorm; docs/theory/collapse.md, 6).
 *
 * The paper takes LayerNorm for a multiplication of the columns, X diag(a) + 1 bᵀ, which cannot
 * raise a rank, and concludes that it plays no role. LayerNorm divides every row by a number of its
 * own. What holds: near 1xᵀ it multiplies the residual by
 * (I - 11ᵀ/d)(I - ccᵀ/(d s²))/s, c = x - mean(x), s² = |c|²/d; and it multiplies no distance
 * between rows by more than max|gain| / least row deviation.
 */
#include "lab/toy.h"

#include "base/memory.h"
#include "linalg/spectrum.h"
#include "observe/measure.h"

#include <math.h>
#include <string.h>

enum {
    TOKENS = 6,
    WIDTH = 8,
    DRAWS = 2000,
    QUICK_DRAWS = 400,
    SIZES = 5, /* of residuals, for the figure */
    SMALL_MAX = 6
};

typedef struct ln_findings {
    int64_t draws;
    double share, law[DRAWS];       /* unexplained share, summed; errors of the local law */
    double by_size[2][SIZES];       /* errors of the law and of scaled columns, by size */
    int64_t above;                  /* draws above the bound on distances */
    double closest;                 /* largest distance over its bound */
    double attained;                /* the same of two tokens that attain it: 1 */
    double column_norm;             /* residual after standardising columns */
    double rank_before, rank_after; /* affine ranks of three tokens on a line */
    double ray;                     /* diameter after LayerNorm of three tokens on a ray */
} ln_findings;

/* A network that is one LayerNorm (without epsilon) and nothing else. gain [width] or NULL. */
static rs_status normalise_rows(double *out, const double *x, int64_t n, int64_t width,
                                const double *gain, const rs_context *context, rs_error *err)
{
    rs_toy toy;
    rs_toy_trace trace;
    json_t *arch =
        json_pack("{s:i, s:I, s:s, s:s, s:f, s:s, s:{s:s, s:s, s:s, s:s}}", "depth", 1, "d_model",
                  (json_int_t)width, "norm", "post", "norm_kind", "layernorm", "branch_mixer", 0.0,
                  "mlp", "none", "init", "wq", "zero", "wk", "zero", "wv", "zero", "wo", "none");
    RS_TRY(rs_toy_open(&toy, arch, context->seed, context, err));
    rs_norm_op *norm = &toy.network->layers[0].branches[0].after;
    norm->eps = 0;
    rs_status status = gain ? rs_toy_tensor(&norm->gain, &toy, gain, 1, width, err) : RS_OK;
    if (status == RS_OK) status = rs_toy_run(&trace, &toy, x, 1, n, false, err);
    rs_toy_close(&toy);
    RS_TRY(status);
    memcpy(out, rs_toy_state(&trace, 1, 0), (size_t)(n * width) * sizeof *out);
    rs_toy_trace_free(&trace);
    return RS_OK;
}

/* ---- columns, and the local law ---- */

/* What the best a_k X_k + b_k of every column leaves of the token variance of y. */
static double unexplained(const double *x, const double *y)
{
    double left = 0, total = 0;
    for (int k = 0; k < WIDTH; k++) {
        double mean_x = 0, mean_y = 0, xx = 0, xy = 0, yy = 0;
        for (int i = 0; i < TOKENS; i++) {
            mean_x += x[i * WIDTH + k] / TOKENS;
            mean_y += y[i * WIDTH + k] / TOKENS;
        }
        for (int i = 0; i < TOKENS; i++) {
            double a = x[i * WIDTH + k] - mean_x, b = y[i * WIDTH + k] - mean_y;
            xx += a * a;
            xy += a * b;
            yy += b * b;
        }
        left += yy - xy * xy / xx;
        total += yy;
    }
    return left / total;
}

/* Relative error of the local law for rows 0 .. TOKENS-1 of x, whose mean is row TOKENS; y: all of
 * them normalised. */
static double law_error(const double *x, const double *y)
{
    const double *mean = x + TOKENS * WIDTH, *mean_out = y + TOKENS * WIDTH;
    double c[WIDTH], centre = 0, s2 = 0, error = 0, size = 0;
    for (int k = 0; k < WIDTH; k++)
        centre += mean[k] / WIDTH;
    for (int k = 0; k < WIDTH; k++) {
        c[k] = mean[k] - centre;
        s2 += c[k] * c[k] / WIDTH;
    }
    for (int i = 0; i < TOKENS; i++) {
        double shift = 0, along = 0;
        for (int k = 0; k < WIDTH; k++) {
            shift += (x[i * WIDTH + k] - mean[k]) / WIDTH;
            along += (x[i * WIDTH + k] - mean[k]) * c[k];
        }
        for (int k = 0; k < WIDTH; k++) {
            double r = x[i * WIDTH + k] - mean[k] - shift;
            double law = (r - along * c[k] / (WIDTH * s2)) / sqrt(s2);
            double true_change = y[i * WIDTH + k] - mean_out[k];
            error += (true_change - law) * (true_change - law);
            size += true_change * true_change;
        }
    }
    return sqrt(error / size);
}

/* Tokens x + size * N(0, 1), and their mean as one more row. */
static void draw_close(double *x, double size, rs_random *random)
{
    double common[WIDTH];
    rs_draw_gaussian(common, WIDTH, 1, random);
    rs_draw_gaussian(x, TOKENS * WIDTH, size, random);
    for (int k = 0; k < WIDTH; k++) {
        double mean = 0;
        for (int i = 0; i < TOKENS; i++) {
            mean += x[i * WIDTH + k] / TOKENS;
            x[i * WIDTH + k] += common[k];
        }
        x[TOKENS * WIDTH + k] = common[k] + mean;
    }
}

static rs_status close_tokens(ln_findings *f, rs_random *random, const rs_context *context,
                              rs_error *err)
{
    double x[(TOKENS + 1) * WIDTH], y[(TOKENS + 1) * WIDTH];
    for (int64_t i = 0; i < f->draws; i++) {
        draw_close(x, 1e-3, random);
        RS_TRY(normalise_rows(y, x, TOKENS + 1, WIDTH, NULL, context, err));
        f->share += unexplained(x, y);
        f->law[i] = law_error(x, y);
    }
    for (int s = 0; s < SIZES; s++) {
        rs_random same = rs_random_new(context->seed, 0x73697a6573);
        draw_close(x, pow(10, -s), &same);
        RS_TRY(normalise_rows(y, x, TOKENS + 1, WIDTH, NULL, context, err));
        f->by_size[0][s] = law_error(x, y);
        f->by_size[1][s] = sqrt(unexplained(x, y));
    }
    double sum = 0;
    for (int k = 0; k < WIDTH; k++) {
        double mean = x[TOKENS * WIDTH + k], variance = 0;
        for (int i = 0; i < TOKENS; i++)
            variance += (x[i * WIDTH + k] - mean) * (x[i * WIDTH + k] - mean) / TOKENS;
        for (int i = 0; i < TOKENS; i++)
            sum += (x[i * WIDTH + k] - mean) * (x[i * WIDTH + k] - mean) / variance;
    }
    f->column_norm = sqrt(sum);
    return RS_OK;
}

/* ---- the bound on distances ---- */

/* Largest distance between rows after LayerNorm over its bound. */
static rs_status stretch(double *ratio, const double *x, int64_t n, int64_t d, const double *gain,
                         const rs_context *context, rs_error *err)
{
    double y[SMALL_MAX * SMALL_MAX], least = INFINITY, largest = 0;
    for (int64_t i = 0; i < n; i++) {
        double mean = 0, variance = 0;
        for (int64_t k = 0; k < d; k++)
            mean += x[i * d + k] / (double)d;
        for (int64_t k = 0; k < d; k++)
            variance += (x[i * d + k] - mean) * (x[i * d + k] - mean) / (double)d;
        least = fmin(least, sqrt(variance));
    }
    for (int64_t k = 0; k < d; k++)
        largest = fmax(largest, fabs(gain[k]));
    RS_TRY(normalise_rows(y, x, n, d, gain, context, err));
    *ratio = rs_rows_diameter(y, n, d) * least / (largest * rs_rows_diameter(x, n, d));
    return RS_OK;
}

static rs_status bounded(ln_findings *f, rs_random *random, const rs_context *context,
                         rs_error *err)
{
    static const double sizes[] = {0.03, 0.3, 1, 3};
    /* two tokens of one deviation that differ by their order alone, under one gain */
    static const double turned[2 * 3] = {1, 2, 4, 4, 1, 2}, gains[3] = {0.7, 0.7, 0.7};
    double x[SMALL_MAX * SMALL_MAX], gain[SMALL_MAX], common[SMALL_MAX];
    RS_TRY(stretch(&f->attained, turned, 2, 3, gains, context, err));
    for (int64_t t = 0; t < f->draws; t++) {
        int64_t n = 2 + (int64_t)(rs_random_uniform(random) * 5);
        int64_t d = 2 + (int64_t)(rs_random_uniform(random) * 5);
        double ratio = 0;
        rs_draw_gaussian(common, d, 3, random);
        rs_draw_gaussian(gain, d, 1, random);
        rs_draw_gaussian(x, n * d, sizes[(int)(rs_random_uniform(random) * 4)], random);
        for (int64_t i = 0; i < n * d; i++)
            x[i] += common[i % d];
        RS_TRY(stretch(&ratio, x, n, d, gain, context, err));
        f->above += ratio > 1 + 1e-9;
        f->closest = fmax(f->closest, ratio);
    }
    return RS_OK;
}

/* ---- affine rank ---- */

static rs_status affine_rank(double *rank, const double *x, rs_error *err)
{
    double centred[3 * WIDTH], sigma[3];
    memcpy(centred, x, sizeof centred);
    rs_rows_centre(centred, 3, WIDTH);
    RS_TRY(rs_matrix_spectrum(sigma, centred, 3, WIDTH, err));
    *rank = 0;
    for (int i = 0; i < 3; i++)
        *rank += sigma[i] > 1e-9 * sigma[0];
    return RS_OK;
}

static rs_status lines_and_rays(ln_findings *f, rs_random *random, const rs_context *context,
                                rs_error *err)
{
    static const double steps[3] = {0, 1, 2.5};
    double a[WIDTH], v[WIDTH], x[3 * WIDTH], y[3 * WIDTH];
    rs_draw_gaussian(a, WIDTH, 1, random);
    rs_draw_gaussian(v, WIDTH, 1, random);
    for (int i = 0; i < 3 * WIDTH; i++)
        x[i] = a[i % WIDTH] + steps[i / WIDTH] * v[i % WIDTH];
    RS_TRY(affine_rank(&f->rank_before, x, err));
    RS_TRY(normalise_rows(y, x, 3, WIDTH, NULL, context, err));
    RS_TRY(affine_rank(&f->rank_after, y, err));
    for (int i = 0; i < 3 * WIDTH; i++)
        x[i] = (1 + i / WIDTH) * a[i % WIDTH];
    RS_TRY(normalise_rows(y, x, 3, WIDTH, NULL, context, err));
    f->ray = rs_rows_diameter(y, 3, WIDTH);
    return RS_OK;
}

/* ---- what came out ---- */

static const rs_column point_columns[] = RS_LAB_POINTS(
    RS_LAB_X("size", "size of the residual's entries",
             "standard deviation of what tells tokens apart"),
    RS_LAB_Y("error", "relative error", "of the residual after LayerNorm, Frobenius norm"));
static const rs_table_kind table_kind = {"lab", "dong_layernorm", {RS_PART(point_columns)}};
static const rs_lab_curves curves = {
    .kind = &table_kind,
    .title = "LayerNorm near equal tokens is linear",
    .about = "Relative error of the local law, by how far six tokens are from each other: it "
             "shrinks in proportion, so the law is the first-order one. Columns scaled one by one, "
             "as in the paper's argument, leave a fixed share unexplained at any size.",
    .log_x = true,
    .log_y = true,
};

static rs_status write_up(rs_lab_report *report, ln_findings *f, rs_error *err)
{
    double n = (double)f->draws, share = f->share / n;
    rs_spread law = rs_spread_of(f->law, f->draws);
    rs_table *table = NULL;
    RS_TRY(rs_lab_curves_open(&table, report, &curves, err));
    for (int s = 0; s < SIZES; s++) {
        RS_TRY(rs_lab_curves_add(table, "local law", pow(10, -s), f->by_size[0][s], err));
        RS_TRY(rs_lab_curves_add(table, "columns scaled one by one", pow(10, -s), f->by_size[1][s],
                                 err));
    }
    const rs_lab_claim claims[] = {
        {"share of LayerNorm's token variance that scaled columns leave", 0, 0.1862, share,
         4 * 0.0774 / sqrt(n), false, false},
        {"affine rank after LayerNorm of three tokens on a line (paper: as before)", 1, 2,
         f->rank_after, 0, false, false},
    };
    RS_TRY(rs_lab_statement(report, "LayerNorm is a map of columns, X diag(a) + 1 b'", err));
    RS_TRY(rs_lab_add_claim(report, &claims[0], err));
    RS_TRY(rs_lab_statement(report, "LayerNorm raises no affine rank", err));
    RS_TRY(rs_lab_add_claim(report, &claims[1], err));
    RS_TRY(rs_lab_expect(report, "affine rank of those tokens before LayerNorm", 1, f->rank_before,
                         0, err));
    RS_TRY(rs_lab_statement(
        report, "LayerNorm does not undo collapse: near equal tokens it is linear", err));
    RS_TRY(rs_lab_at_most(report, "diameter after LayerNorm of three tokens on a ray", f->ray,
                          1e-14, err));
    /* deviation of log10 error 0.14: the median's is 1.25 of that over sqrt(n) */
    RS_TRY(rs_lab_expect(report, "local law: log10 of the median relative error, residual 1e-3",
                         log10(6.026e-4), log10(law.median), 5 * 1.25 * 0.14 / sqrt(n), err));
    RS_TRY(rs_lab_at_most(report, "distances above max|gain| / least deviation: draws",
                          (double)f->above, 0, err));
    RS_TRY(rs_lab_at_most(report, "largest distance after, over that bound", f->closest, 1, err));
    RS_TRY(rs_lab_expect(report, "the same for two tokens that differ by their order, one gain", 1,
                         f->attained, 1e-12, err));
    RS_TRY(rs_lab_statement(report, NULL, err));
    return rs_lab_compute(report, "residual of standardised columns, any size before: sqrt(nd)",
                          6.9282, f->column_norm, 1e-4, err);
}

static rs_status measure_layernorm(ln_findings *f, const rs_context *context, rs_error *err)
{
    rs_random random = rs_random_new(context->seed, 0x6c6e);
    RS_TRY(close_tokens(f, &random, context, err));
    RS_TRY(bounded(f, &random, context, err));
    return lines_and_rays(f, &random, context, err);
}

static rs_status run_dong_layernorm(rs_lab_report *report, const rs_lab_options *options,
                                    const rs_context *context, rs_error *err)
{
    ln_findings *f = rs_calloc(1, sizeof *f);
    if (!f) return rs_fail_memory(err, "an experiment", sizeof *f);
    f->draws = options->quick ? QUICK_DRAWS : DRAWS;
    rs_status status = measure_layernorm(f, context, err);
    if (status == RS_OK) status = write_up(report, f, err);
    rs_free(f);
    RS_TRY(status);
    return options->quick ? rs_lab_say_quick(report, "400 draws instead of 2000", err) : RS_OK;
}

const rs_lab_experiment rs_lab_dong_layernorm = {
    "dong-layernorm",
    "LayerNorm is not a column map",
    "Dong et al. 2021, LayerNorm",
    "LayerNorm of nearly equal tokens: how much of it a map of columns explains, the local law "
    "that "
    "does hold, the bound on distances, and tokens on a line and on a ray, whose affine rank it "
    "changes. After Dong, Cordonnier, Loukas, ICML 2021 (arXiv 2103.03404) and Cirrincione 2026 "
    "(arXiv 2604.23681).",
    run_dong_layernorm,
    "2 s",
    "< 1 s",
    &table_kind,
    0};
