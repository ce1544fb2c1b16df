/* collapse.c: tokens, and how far apart a few layers without skips leave them. */
#include "lab/collapse.h"

#include "base/memory.h"
#include "observe/measure.h"

#include <math.h>
#include <stdio.h>

const double rs_collapse_exponent = 121, rs_collapse_relative_exponent = 116;

void rs_collapse_tokens(double *x, rs_random *random)
{
    const int64_t d = RS_COLLAPSE_WIDTH;
    rs_draw_gaussian(x, RS_COLLAPSE_TOKENS * d, 1, random);
    for (int64_t i = 0; i < RS_COLLAPSE_TOKENS; i++) {
        double length = rs_norm_frobenius(x + i * d, 1, d);
        for (int64_t k = 0; k < d; k++)
            x[i * d + k] *= sqrt((double)d) / length;
    }
}

static rs_collapse last_state(const rs_toy_trace *trace)
{
    double *r = rs_toy_state(trace, trace->layers, 0);
    rs_rows_centre(r, trace->n, trace->d);
    double log_residual = log10(rs_norm_frobenius(r, trace->n, trace->d)) +
                          (double)trace->exponents[trace->layers] * log10(2);
    return (rs_collapse){log_residual, log_residual - log10(trace->norms[trace->layers])};
}

rs_status rs_collapse_run(rs_collapse *out, json_t *arch, uint64_t seed, const double *x,
                          const rs_context *context, rs_error *err)
{
    rs_toy toy;
    rs_toy_trace trace;
    RS_TRY(rs_toy_open(&toy, arch, seed, context, err));
    rs_status status = rs_toy_precision(&toy, RS_PRECISION_RESIDUAL, err);
    if (status == RS_OK) status = rs_toy_run(&trace, &toy, x, 1, RS_COLLAPSE_TOKENS, false, err);
    rs_toy_close(&toy);
    RS_TRY(status);
    *out = last_state(&trace);
    rs_toy_trace_free(&trace);
    return RS_OK;
}

rs_awaited rs_collapse_awaited(double mean, double deviation)
{
    return (rs_awaited){mean, deviation / sqrt(RS_COLLAPSE_ORACLE_DRAWS)};
}

rs_status rs_collapse_median(double *out, const rs_draws *draws, int32_t cell, rs_error *err)
{
    double *values = rs_malloc((size_t)draws->draws, sizeof *values);
    if (!values) return rs_fail_memory(err, "draws", (size_t)draws->draws * sizeof *values);
    for (int32_t i = 0; i < draws->draws; i++)
        values[i] = draws->of[i * draws->cells + cell];
    *out = rs_spread_of(values, draws->draws).median;
    rs_free(values);
    return RS_OK;
}

double rs_collapse_median_tolerance(double deviation, int32_t draws)
{
    return RS_SEEN_ERRORS * 1.25 * deviation *
           sqrt(1.0 / draws + 1.0 / (double)RS_COLLAPSE_ORACLE_DRAWS);
}

rs_status rs_collapse_experiment(rs_lab_report *report, const rs_draws_plan *plan,
                                 rs_status (*write_up)(rs_lab_report *report, const rs_draws *draws,
                                                       rs_error *err),
                                 const rs_lab_options *options, const rs_context *context,
                                 rs_error *err)
{
    rs_draws draws;
    rs_draws_plan sized = *plan;
    char what[64];
    sized.draws = options->quick ? RS_COLLAPSE_QUICK_DRAWS : RS_COLLAPSE_DRAWS;
    RS_TRY(rs_draws_run(&draws, &sized, context, err));
    rs_status status = write_up(report, &draws, err);
    rs_draws_free(&draws);
    RS_TRY(status);
    snprintf(what, sizeof what, "%d networks instead of %d", RS_COLLAPSE_QUICK_DRAWS,
             RS_COLLAPSE_DRAWS);
    return options->quick ? rs_lab_say_quick(report, what, err) : RS_OK;
}
