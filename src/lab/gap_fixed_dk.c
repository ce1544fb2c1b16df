/*
 * gap_fixed_dk.c: the second singular value of key-query attention: as 1/√T where heads grow with the
 * tokens, but at a fixed head width hardly at all. The law of independent entries (Nait Saada, Naderi,
 * Tanner 2025) does not hold of logits whose rank is d_k (docs/theory/mean_field.md, 8).
 */
#include "lab/signals.h"

#include "base/memory.h"
#include "linalg/gemm.h"
#include "linalg/spectrum.h"
#include "predict/gap_laws.h"

#include <math.h>
#include <stdio.h>

enum { SIZES = 3, WIDTHS = 3, LAWS = 2, DRAWS = 48, STREAM = 0x67617032 };
static const int64_t sizes[SIZES] = {64, 128, 256};
static const int64_t widths[WIDTHS] = {0, 64, 16}; /* 0: T */
static const char *const width_names[WIDTHS] = {"d_k = T", "d_k = 64", "d_k = 16"};
static const double variances[LAWS] = {0.01, 0.25}; /* of logits */

/* Of a size: s₂ over its law, and ln s₂, by variance and width; then the rank with the gap removed. */
enum { PAIRS = LAWS * WIDTHS, LOGS = PAIRS, REMOVED = 2 * PAIRS, CELLS };

/* tests/oracle/lab_signals.py gap-fixed-dk: by size, of all but ln s₂ */
static const rs_awaited awaited[SIZES][PAIRS + 1] = {
    {{0.938901, 0.0045},
     {0.93768, 0.004},
     {0.915217, 0.0053},
     {0.974473, 0.0048},
     {0.980456, 0.0049},
     {0.947984, 0.0067},
     {1.33721, 0.024}},
    {{0.964324, 0.0029},
     {0.957763, 0.0034},
     {0.944156, 0.0042},
     {0.998746, 0.0031},
     {0.987425, 0.0033},
     {0.960314, 0.0047},
     {1.18662, 0.015}},
    {{0.98093, 0.002},
     {0.969449, 0.0022},
     {0.956692, 0.0034},
     {1.01398, 0.0019},
     {0.986628, 0.0024},
     {0.967433, 0.003},
     {1.09242, 0.0092}},
};
/* and the slope of ln s₂ in ln T from the least to the largest, by variance and width */
static const rs_awaited slopes[1][PAIRS] = {
    {{-0.467731, 0.0038},
     {-0.256364, 0.0038},
     {-0.149145, 0.0047},
     {-0.470584, 0.0038},
     {-0.275653, 0.0039},
     {-0.165808, 0.0053}},
};

/* a [n, n] = softmax(G₁G₂ᵀ √(v/k)), G [n, k] of N(0, 1). */
static void draw_attention(double *a, double *g, int64_t n, int64_t k, double v, rs_random *random)
{
    rs_draw_gaussian(g, 2 * n * k, 1, random);
    rs_gemm_f64(RS_AS_IS, RS_TURNED, n, n, k, sqrt(v / (double)k), g, k, g + n * k, k, 0, a, n);
    rs_rows_softmax(a, n, n);
}

/* Layer 1 of an isometry with weights of variance 1/d, T = d: three Gaussian factors are left. */
static rs_status see_removed(double *cell, double *a, double *g, int64_t n, rs_random *random,
                             rs_error *err)
{
    double ranks[2], tokens = (double)n;
    draw_attention(a, g, n, n, 1 / (tokens * tokens), random);
    rs_subtract_uniform(a, n);
    rs_draw_gaussian(g, n * n, 1, random);
    rs_gemm_f64(RS_AS_IS, RS_AS_IS, n, n, n, 1, a, n, g, n, 0, g + n * n, n);
    RS_TRY(rs_stable_ranks(ranks, g + n * n, n, n, err));
    *cell = ranks[1] / (tokens * rs_gap_fixed_rank_gram(3));
    return RS_OK;
}

static rs_status one_size(double *cells, double *room, int64_t n, rs_random *random, rs_error *err)
{
    double *a = room, *s = a + n * n, *g = s + n;
    for (int v = 0; v < LAWS; v++)
        for (int w = 0; w < WIDTHS; w++) {
            int64_t k = widths[w] ? widths[w] : n;
            draw_attention(a, g, n, k, variances[v], random);
            RS_TRY(rs_matrix_spectrum(s, a, n, n, err));
            cells[v * WIDTHS + w] = s[1] / rs_gap_second_keys(variances[v], (double)n, (double)k);
            cells[LOGS + v * WIDTHS + w] = log(s[1]);
        }
    return see_removed(&cells[REMOVED], a, g, n, random, err);
}

static rs_status one_draw(double *cells, const void *of, rs_random *random,
                          const rs_context *context, rs_error *err)
{
    (void)of;
    (void)context;
    int64_t most = sizes[SIZES - 1];
    size_t count = (size_t)(3 * most * most + most);
    double *room = rs_malloc(count, sizeof *room);
    rs_status status = room ? RS_OK : rs_fail_memory(err, "matrices", count * sizeof *room);
    for (int s = 0; s < SIZES && status == RS_OK; s++)
        status = one_size(cells + s * CELLS, room, sizes[s], random, err);
    rs_free(room);
    return status;
}

/* ---- what came out ---- */

static const rs_column point_columns[] = RS_LAB_POINTS(
    RS_LAB_X_WHOLE("tokens", "tokens", "T"),
    RS_LAB_Y("s2", "second singular value", "s₂ of attention, logits' variance 0.25"));
static const rs_table_kind table_kind = {"lab", "gap_fixed_dk", {RS_PART(point_columns)}};
static const rs_lab_curves curves = {
    .kind = &table_kind,
    .title = "The gap at a fixed head width",
    .about = "The second singular value of random key-query attention by the number of tokens, "
             "for heads as wide as there are tokens, of 64 and of 16, beside its law, and the law "
             "of independent entries, 2 sigma/sqrt T.",
    .log_x = true,
    .log_y = true,
};

static rs_status draw(rs_lab_report *report, const rs_draws *draws, rs_error *err)
{
    rs_table *table = NULL;
    char series[64];
    const int v = LAWS - 1;
    RS_TRY(rs_lab_curves_open(&table, report, &curves, err));
    for (int w = 0; w < WIDTHS; w++)
        for (int computed = 0; computed < 2; computed++)
            for (int s = 0; s < SIZES; s++) {
                double n = (double)sizes[s], k = widths[w] ? (double)widths[w] : n;
                double law = rs_gap_second_keys(variances[v], n, k);
                double ratio = rs_draws_seen(draws, s * CELLS + v * WIDTHS + w).mean;
                snprintf(series, sizeof series, computed ? "%s: law" : "%s", width_names[w]);
                RS_TRY((computed ? rs_lab_curves_compute : rs_lab_curves_add)(
                    table, series, n, computed ? law : law * ratio, err));
            }
    for (int s = 0; s < SIZES; s++)
        RS_TRY(rs_lab_curves_compute(table, "independent entries: law", (double)sizes[s],
                                     rs_gap_second(rs_gap_sigma2(variances[v]), (double)sizes[s]),
                                     err));
    return RS_OK;
}

/* Published: O(1/√T). */
static rs_status claim_slopes(rs_lab_report *report, const rs_draws *draws, rs_error *err)
{
    double w[(SIZES - 1) * CELLS + 1] = {0}, decades = log((double)sizes[SIZES - 1] / 64.0);
    char text[160];
    w[0] = -1 / decades;
    w[(SIZES - 1) * CELLS] = 1 / decades;
    for (int i = 0; i < PAIRS; i++) {
        rs_seen seen = rs_draws_combined(draws, LOGS + i, w, (SIZES - 1) * CELLS + 1);
        snprintf(text, sizeof text, "%s, logits' variance %g: slope of ln s2 in ln T",
                 width_names[i % WIDTHS], variances[i / WIDTHS]);
        /* with d_k = T the law is met as T grows, and nothing was published of this size */
        double published = widths[i % WIDTHS] ? -0.5 : (double)NAN;
        RS_TRY(rs_lab_seen_published(report, text, published, slopes[0][i], seen, err));
    }
    /* what the law of independent entries is short of, d_k = 16 */
    double n = (double)sizes[SIZES - 1];
    double shorter =
        rs_gap_second_keys(variances[1], n, 16) / rs_gap_second(rs_gap_sigma2(variances[1]), n);
    return rs_lab_compute(report, "T = 256, d_k = 16: law of keys over that of independent entries",
                          2.56671793, shorter, 1e-6, err);
}

static rs_status write_up(rs_lab_report *report, const rs_draws *draws, rs_error *err)
{
    char text[160];
    RS_TRY(draw(report, draws, err));
    for (int s = 0; s < SIZES; s += 2) {
        for (int i = 0; i < PAIRS; i++) {
            snprintf(text, sizeof text, "T = %d, %s, logits' variance %g: s2 over its law",
                     (int)sizes[s], width_names[i % WIDTHS], variances[i / WIDTHS]);
            RS_TRY(rs_lab_seen(report, text, awaited[s][i], 0, rs_draws_seen(draws, s * CELLS + i),
                               err));
        }
        snprintf(text, sizeof text, "T = %d, d_k = T, gap removed: stable rank of XX' over its law",
                 (int)sizes[s]);
        RS_TRY(rs_lab_seen(report, text, awaited[s][PAIRS], 0,
                           rs_draws_seen(draws, s * CELLS + REMOVED), err));
    }
    return claim_slopes(report, draws, err);
}

static rs_status run_gap_fixed_dk(rs_lab_report *report, const rs_lab_options *options,
                                  const rs_context *context, rs_error *err)
{
    const rs_draws_plan plan = {.draws = options->quick ? RS_DRAWS_LEAST : DRAWS,
                                .cells = SIZES * CELLS,
                                .stream = (uint64_t)STREAM << 32,
                                .one = one_draw};
    rs_draws draws;
    RS_TRY(rs_draws_run(&draws, &plan, context, err));
    rs_status status = write_up(report, &draws, err);
    rs_draws_free(&draws);
    if (status != RS_OK || !options->quick) return status;
    return rs_lab_say_quick(report, "16 draws instead of 48", err);
}

const rs_lab_experiment rs_lab_gap_fixed_dk = {
    "gap-fixed-dk",
    "The spectral gap at a fixed head width",
    "Nait Saada et al. 2025, O(1/sqrt T)",
    "The second singular value of attention whose logits are products of random queries and keys, "
    "by the number of tokens, for heads that grow with it and for heads of 64 and 16, over its "
    "law. "
    "Nait Saada, Naderi, Tanner, ICML 2025 (arXiv 2410.07799).",
    run_gap_fixed_dk,
    "2 s",
    "1 s",
    &table_kind,
    0};
