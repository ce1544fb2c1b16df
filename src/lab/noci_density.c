/*
 * noci_density.c: the density of ‖X‖² over networks at initialisation (Noci et al. 2022, appendix), with
 * branches as they are and over √L. Equal tokens stay equal, whatever attention is, so that without MLPs
 * ln‖X^L‖² is a sum of L independent draws of ln|e + αg/√d|², g of N(0, I), |e| = 1: its moments are those of
 * one of them times L, and ‖X‖² is nearly lognormal (docs/theory/mean_field.md, 1).
 */
#include "lab/noci_density.h"

#include "lab/signals.h"

#include <math.h>
#include <stdio.h>

enum {
    D = 32,
    DEPTH = 16,
    QUARTER = DEPTH / 4,
    TOKENS = 4,
    DRAWS = 400,
    QUICK_DRAWS = 100,
    STREAM = 0x6e646e73
};
enum { PLAIN, SCALED, SCALES };

/* By scale: ln of the growth of ‖X‖² behind a quarter of the layers and behind all; of independent tokens,
 * a softmax and linear MLPs, behind all. Then what is claimed of these. */
enum { EARLY, LATE, MIXED, GROWTHS };
enum { EARLY_SQUARE, LATE_SQUARE, BELOW, CLAIMED };
enum { CLAIMS = SCALES * GROWTHS, CELLS = CLAIMS + SCALES * CLAIMED };
static const char *const scale_names[SCALES] = {"scale 1", "scale 1/sqrt L"};

/* Mean and variance of ln|e + αg/√d|² (tests/oracle/lab_signals.py noci-density): |·|² d/α² is chi-squared
 * of d + 2K degrees, K of Poisson's law of mean d/2α². */
static const double one_mean[SCALES] = {0.669358143221, 0.0570439739701};
static const double one_variance[SCALES] = {0.0485165312716, 0.00718656985389};

static double scale_of(int scale)
{
    return scale == PLAIN ? 1 : 1 / sqrt(DEPTH);
}

/* ---- networks ---- */

/* ln‖X‖² behind QUARTER and behind all layers, less that in front of them. */
static rs_status grow(double out[2], json_t *arch, double rho, rs_random *random,
                      const rs_context *context, rs_error *err)
{
    double x[TOKENS * D];
    rs_toy toy;
    rs_toy_trace trace;
    RS_TRY(rs_toy_open(&toy, arch, rs_draw_seed(random), context, err));
    rs_draw_tokens(x, TOKENS, D, 1, rho, random);
    rs_status status = rs_toy_run(&trace, &toy, x, 1, TOKENS, false, err);
    rs_toy_close(&toy);
    RS_TRY(status);
    double start = rs_sum_square(x, TOKENS * D);
    out[0] = log(rs_sum_square(rs_toy_state(&trace, QUARTER, 0), TOKENS * D) / start);
    out[1] = log(rs_sum_square(rs_toy_state(&trace, DEPTH, 0), TOKENS * D) / start);
    rs_toy_trace_free(&trace);
    return RS_OK;
}

static json_t *network(int scale, const char *mlp)
{
    double alpha = scale_of(scale);
    return json_pack("{s:i, s:i, s:s, s:s, s:i, s:f, s:f, s:{s:s}}", "depth", DEPTH, "d_model", D,
                     "norm", "none", "mlp", mlp, "mlp_width", D, "branch_mixer", alpha,
                     "branch_mlp", alpha, "init", "wo", "none");
}

static rs_status one_draw(double *cells, const void *of, rs_random *random,
                          const rs_context *context, rs_error *err)
{
    (void)of;
    for (int scale = 0; scale < SCALES; scale++) {
        double *growth = cells + scale * GROWTHS, *claimed = cells + CLAIMS + scale * CLAIMED;
        double mixed[2], alpha = scale_of(scale), mean = one_mean[scale];
        RS_TRY(grow(growth, network(scale, "none"), 1, random, context, err));
        RS_TRY(grow(mixed, network(scale, "linear"), 0, random, context, err));
        growth[MIXED] = mixed[1];
        double early = growth[EARLY] - QUARTER * mean, late = growth[LATE] - DEPTH * mean;
        claimed[EARLY_SQUARE] = early * early;
        claimed[LATE_SQUARE] = late * late;
        claimed[BELOW] = growth[LATE] < DEPTH * log1p(alpha * alpha);
    }
    return RS_OK;
}

/* ---- the figure ---- */

static const rs_column point_columns[] =
    RS_LAB_POINTS(RS_LAB_X("log10_size", "log10 of ‖X‖² over its geometric mean",
                           "of one network, over networks"),
                  RS_LAB_Y("density", "density", "share of networks a decade"));
const rs_table_kind rs_lab_noci_density_kind = {
    "lab", "noci_fig1_density", {RS_PART(point_columns)}};
static const rs_lab_curves curves = {
    .kind = &rs_lab_noci_density_kind,
    .title = "‖X‖² over networks",
    .about = "Density of log10 of ‖X‖²: equal tokens through attention alone, behind 4 and 16 "
             "layers, beside the normal law of the variance that it has; independent tokens, "
             "attention and linear MLPs. Branches as they are and over √L.",
};

/* Half a figure's bins, in all decades; their width. */
enum { BINS = 12 };
static const double bin = 0.1;

/* middle: ln of the geometric mean. */
static rs_status draw_density(rs_table *table, const rs_draws *draws, int cell, const char *name,
                              double middle, rs_error *err)
{
    for (int b = -BINS; b <= BINS; b++) {
        double count = 0;
        for (int32_t i = 0; i < draws->draws; i++) {
            double at = draws->of[(int64_t)i * draws->cells + cell] - middle;
            count += lround(at / log(10) / bin) == b;
        }
        RS_TRY(rs_lab_curves_add(table, name, b * bin, count / draws->draws / bin, err));
    }
    return RS_OK;
}

static rs_status draw_law(rs_table *table, const char *of, double variance, rs_error *err)
{
    char name[96];
    double deviation = sqrt(variance) / log(10);
    snprintf(name, sizeof name, "%s: lognormal", of);
    for (int b = -BINS; b <= BINS; b++) {
        double z = b * bin / deviation;
        double density = exp(-z * z / 2) / deviation / sqrt(2 * acos(-1));
        RS_TRY(rs_lab_curves_compute(table, name, b * bin, density, err));
    }
    return RS_OK;
}

/* Over √L a quarter of the layers is narrower than a bin. */
static rs_status draw(rs_lab_report *report, const rs_draws *draws, rs_error *err)
{
    rs_table *table = NULL;
    char name[64];
    RS_TRY(rs_lab_curves_open(&table, report, &curves, err));
    for (int scale = 0; scale < SCALES; scale++) {
        int first = scale * GROWTHS;
        for (int late = scale; late < 2; late++) {
            int layers = late ? DEPTH : QUARTER;
            snprintf(name, sizeof name, "equal tokens, %s, %d layers", scale_names[scale], layers);
            RS_TRY(draw_density(table, draws, first + (late ? LATE : EARLY), name,
                                layers * one_mean[scale], err));
            RS_TRY(draw_law(table, name, layers * one_variance[scale], err));
        }
        snprintf(name, sizeof name, "independent tokens, %s, %d layers", scale_names[scale], DEPTH);
        RS_TRY(draw_density(table, draws, first + MIXED, name,
                            rs_draws_seen(draws, first + MIXED).mean, err));
    }
    return RS_OK;
}

/* ---- claims ---- */

static rs_status claim_scale(rs_lab_report *report, const rs_draws *draws, int scale, rs_error *err)
{
    char text[160];
    int first = CLAIMS + scale * CLAIMED;
    const char *name = scale_names[scale];
    snprintf(text, sizeof text, "equal tokens, %s: mean of ln|X|^2 behind 16 layers", name);
    RS_TRY(rs_lab_seen(report, text, (rs_awaited){DEPTH * one_mean[scale], 0}, 0,
                       rs_draws_seen(draws, scale * GROWTHS + LATE), err));
    for (int late = 0; late < 2; late++) {
        int layers = late ? DEPTH : QUARTER;
        snprintf(text, sizeof text, "equal tokens, %s: variance of ln|X|^2 behind %d layers", name,
                 layers);
        RS_TRY(rs_lab_seen(report, text, (rs_awaited){layers * one_variance[scale], 0}, 0,
                           rs_draws_seen(draws, first + (late ? LATE_SQUARE : EARLY_SQUARE)), err));
    }
    const double grows[CLAIMED] = {-1, 1, 0};
    rs_seen growth = rs_draws_combined(draws, first, grows, CLAIMED);
    snprintf(text, sizeof text, "equal tokens, %s: variance grows with depth, by", name);
    RS_TRY(rs_lab_order(report, text, growth.mean, growth.error, err));
    /* of a lognormal law of that variance 0.67 are; over sqrt L 0.57, too near a half for so few draws */
    if (scale == SCALED) return RS_OK;
    rs_seen below = rs_draws_seen(draws, first + BELOW);
    return rs_lab_order(report, "equal tokens, scale 1: networks below the mean, beyond half",
                        below.mean - 0.5, below.error, err);
}

/* Deviations over networks, and their standard errors as those of a normal law. */
static rs_status claim_independent(rs_lab_report *report, const rs_draws *draws, rs_error *err)
{
    double deviation[SCALES], error[SCALES];
    for (int scale = 0; scale < SCALES; scale++) {
        deviation[scale] = rs_draws_seen(draws, scale * GROWTHS + MIXED).error * sqrt(draws->draws);
        error[scale] = deviation[scale] / sqrt(2 * (draws->draws - 1.0));
    }
    return rs_lab_order(report, "independent tokens: 1/sqrt L narrows ln|X|^2, deviation less by",
                        deviation[PLAIN] - deviation[SCALED], hypot(error[PLAIN], error[SCALED]),
                        err);
}

rs_status rs_noci_density(rs_lab_report *report, const rs_lab_options *options,
                          const rs_context *context, rs_error *err)
{
    const rs_draws_plan plan = {.draws = options->quick ? QUICK_DRAWS : DRAWS,
                                .cells = CELLS,
                                .stream = (uint64_t)STREAM << 32,
                                .one = one_draw};
    rs_draws draws;
    RS_TRY(rs_draws_run(&draws, &plan, context, err));
    rs_status status = draw(report, &draws, err);
    for (int scale = 0; scale < SCALES && status == RS_OK; scale++)
        status = claim_scale(report, &draws, scale, err);
    if (status == RS_OK) status = claim_independent(report, &draws, err);
    rs_draws_free(&draws);
    return status;
}
