/*
 * gap_width_collapse.c: the stable rank of XXᵀ tends to 1 as tokens become many, at fixed depth, and
 * does not where 11ᵀ/T is taken away: Nait Saada, Naderi, Tanner 2025 (arXiv 2410.07799;
 * docs/theory/mean_field.md, 8).
 *
 * Rows of attention are softmaxes of independent logits, weights have variance 1, X₀X₀ᵀ = I and T =
 * d. W is Gaussian, so that X₀ = I stands for any isometry.
 */
#include "lab/signals.h"

#include "base/memory.h"
#include "linalg/gemm.h"
#include "measures/attention_measures.h"
#include "predict/gap_laws.h"

#include <math.h>
#include <stdio.h>

enum { SIZES = 4, QUICK_SIZES = 3, DRAWS = 96, QUICK_DRAWS = 48, STREAM = 0x67617031 };
static const int64_t sizes[SIZES] = {32, 64, 128, 256};
/* the published code's: logits of variance ln 2, so that entries' relative variance is 1 */
static const double logit_variance = 0.69314718055994531;

/* Each over its law. */
enum {
    FIRST,
    SECOND,
    EIGENVALUE,
    OWN,
    RANK,
    GRAM,
    GRAM_2,
    FIXED,
    FIXED_GRAM,
    FIXED_2,
    BACK,
    KINDS
};
static const char *const names[KINDS] = {
    "s1^2 of A less 1, over sigma^2/T",
    "s2 of A over 2 sigma/sqrt T",
    "second eigenvalue of A over sigma/sqrt T",
    "stable rank of A over 1 + sigma^2",
    "stable rank of X, layer 1, over 1 + sigma^2",
    "stable rank of XX', layer 1, less 1, over 3 sigma^4/T",
    "the same, layer 2, over 5 sigma^8/T^3",
    "gap removed: stable rank of X, layer 1, over its law",
    "gap removed: stable rank of XX', layer 1, over its law",
    "gap removed: stable rank of XX', layer 2, over its law",
    "|dX/dW1|^2 of two layers over T^2",
};

/* tests/oracle/lab_signals.py gap-width-collapse */
static const rs_awaited awaited[SIZES][KINDS] = {
    {{0.900702, 0.024},
     {0.958375, 0.0095},
     {0.992825, 0.012},
     {0.899789, 0.0035},
     {0.890244, 0.01},
     {0.756948, 0.041},
     {0.753281, 0.078},
     {1.10772, 0.013},
     {1.33737, 0.023},
     {1.79994, 0.035},
     {1.05719, 0.0043}},
    {{0.944467, 0.017},
     {1.03149, 0.01},
     {1.03456, 0.016},
     {0.944657, 0.0023},
     {0.938454, 0.0075},
     {0.873162, 0.035},
     {0.915128, 0.096},
     {1.0144, 0.01},
     {1.11407, 0.017},
     {1.37478, 0.024},
     {1.02844, 0.002}},
    {{0.976191, 0.011},
     {1.06905, 0.011},
     {1.03343, 0.0069},
     {0.970902, 0.0015},
     {0.967858, 0.0058},
     {0.946462, 0.024},
     {0.905661, 0.035},
     {0.984619, 0.0071},
     {1.01949, 0.012},
     {1.16323, 0.018},
     {1.01538, 0.00092}},
    {{0.977373, 0.0082},
     {1.07707, 0.0086},
     {1.02929, 0.0023},
     {0.985239, 0.00085},
     {0.983792, 0.004},
     {0.976062, 0.017},
     {0.970215, 0.022},
     {0.963456, 0.0068},
     {0.962235, 0.012},
     {1.07533, 0.012},
     {1.00787, 0.00051}},
};

typedef struct room {
    int64_t n;
    double *a, *x, *y, *w;
    void *work;
} room;

static rs_status see_attention(double *cells, const room *r, rs_error *err)
{
    double sigma2 = rs_gap_sigma2(logit_variance), n = (double)r->n;
    rs_attention_measures m;
    RS_TRY(
        rs_attention_measure_f64(&m, r->a, NULL, NULL, r->n, r->n, false, 0, false, r->work, err));
    double law = rs_gap_first(sigma2, n);
    cells[FIRST] = (m.sigma1 * m.sigma1 - 1) / (law * law - 1);
    cells[SECOND] = m.sigma2 / rs_gap_second(sigma2, n);
    cells[EIGENVALUE] = m.lambda2 / rs_gap_eigenvalue(sigma2, n);
    cells[OWN] =
        rs_sum_square(r->a, r->n * r->n) / (m.sigma1 * m.sigma1) / rs_gap_stable_rank(sigma2);
    return RS_OK;
}

/* x <- A x W of new A and W. */
static void pass(room *r, double *x, bool fixed, bool given, rs_random *random)
{
    int64_t n = r->n;
    if (!given) rs_draw_markov(r->a, n, logit_variance, random);
    if (fixed) rs_subtract_uniform(r->a, n);
    rs_draw_gaussian(r->w, n * n, 1, random);
    rs_gemm_f64(RS_AS_IS, RS_AS_IS, n, n, n, 1, r->a, n, x, n, 0, r->y, n);
    rs_gemm_f64(RS_AS_IS, RS_AS_IS, n, n, n, 1, r->y, n, r->w, n, 0, x, n);
}

static rs_status see_layers(double *cells, room *r, bool fixed, rs_random *random, rs_error *err)
{
    double sigma2 = rs_gap_sigma2(logit_variance), n = (double)r->n, ranks[2];
    rs_identity(r->x, r->n);
    for (int l = 1; l <= 2; l++) {
        pass(r, r->x, fixed, l == 1 && !fixed, random);
        RS_TRY(rs_stable_ranks(ranks, r->x, r->n, r->n, err));
        double gram = rs_gap_stable_rank_gram(sigma2, n, 1, l);
        if (!fixed) cells[l == 1 ? GRAM : GRAM_2] = (ranks[1] - 1) / (gram - 1);
        if (!fixed && l == 1) cells[RANK] = ranks[0] / rs_gap_stable_rank(sigma2);
        if (fixed && l == 1) cells[FIXED] = ranks[0] / (n * rs_gap_fixed_rank(2));
        if (fixed)
            cells[l == 1 ? FIXED_GRAM : FIXED_2] = ranks[1] / (n * rs_gap_fixed_rank_gram(2 * l));
    }
    return RS_OK;
}

/* ‖∂vec X₂/∂vec W₁‖² = ‖A₂A₁X₀‖² ‖W₂‖² */
static double see_back(room *r, rs_random *random)
{
    int64_t n = r->n;
    rs_draw_markov(r->a, n, logit_variance, random);
    rs_draw_markov(r->x, n, logit_variance, random);
    rs_gemm_f64(RS_AS_IS, RS_AS_IS, n, n, n, 1, r->a, n, r->x, n, 0, r->y, n);
    rs_draw_gaussian(r->w, n * n, 1, random);
    double law = exp(rs_gap_ln_gradient(rs_gap_sigma2(logit_variance), (double)n, 2));
    return rs_sum_square(r->y, n * n) * rs_sum_square(r->w, n * n) / law;
}

static rs_status one_size(double *cells, int64_t n, rs_random *random, rs_error *err)
{
    size_t count = (size_t)(n * n);
    double *numbers = rs_malloc(4 * count, sizeof *numbers);
    room r = {n,
              numbers,
              numbers + count,
              numbers + 2 * count,
              numbers + 3 * count,
              rs_malloc(rs_attention_workspace(n), 1)};
    rs_status status = numbers && r.work ? RS_OK : rs_fail_memory(err, "matrices", 4 * count);
    if (status == RS_OK) {
        rs_draw_markov(r.a, n, logit_variance, random);
        status = see_attention(cells, &r, err);
    }
    if (status == RS_OK) status = see_layers(cells, &r, false, random, err);
    if (status == RS_OK) status = see_layers(cells, &r, true, random, err);
    if (status == RS_OK) cells[BACK] = see_back(&r, random);
    rs_free(numbers);
    rs_free(r.work);
    return status;
}

static rs_status one_draw(double *cells, const void *of, rs_random *random,
                          const rs_context *context, rs_error *err)
{
    const int *n_sizes = of;
    (void)context;
    for (int s = 0; s < *n_sizes; s++)
        RS_TRY(one_size(cells + s * KINDS, sizes[s], random, err));
    return RS_OK;
}

/* ---- what came out ---- */

static const rs_column point_columns[] =
    RS_LAB_POINTS(RS_LAB_X_WHOLE("tokens", "tokens", "T, which is the width, too"),
                  RS_LAB_Y("stable_rank", "stable rank less 1",
                           "of X: ΣS²/s₁² − 1; of XXᵀ: Σs⁴/s₁⁴ − 1; as series says"));
static const rs_table_kind table_kind = {"lab", "gap_width_collapse", {RS_PART(point_columns)}};
static const rs_lab_curves curves = {
    .kind = &table_kind,
    .title = "Rank collapse in width",
    .about = "Stable rank less 1 by the number of tokens: that of XXᵀ behind one layer of random "
             "attention tends to 0, that of X to sigma^2 = 1, and with 11ᵀ/T taken away both grow "
             "with T. Means over draws beside the laws.",
    .log_x = true,
    .log_y = true,
};

static rs_status draw(rs_lab_report *report, const rs_draws *draws, int n_sizes, rs_error *err)
{
    static const struct {
        const char *measured, *law;
        int kind;
    } shown[] = {{"XX', layer 1", "XX', layer 1: law", GRAM},
                 {"X, layer 1", "X, layer 1: law", RANK},
                 {"XX', gap removed", "XX', gap removed: law", FIXED_GRAM}};
    double sigma2 = rs_gap_sigma2(logit_variance);
    rs_table *table = NULL;
    RS_TRY(rs_lab_curves_open(&table, report, &curves, err));
    for (size_t i = 0; i < sizeof shown / sizeof *shown; i++)
        for (int computed = 0; computed < 2; computed++)
            for (int s = 0; s < n_sizes; s++) {
                double n = (double)sizes[s];
                double ratio = computed ? 1 : rs_draws_seen(draws, s * KINDS + shown[i].kind).mean;
                double y = shown[i].kind == GRAM
                               ? ratio * (rs_gap_stable_rank_gram(sigma2, n, 1, 1) - 1)
                           : shown[i].kind == RANK ? ratio * rs_gap_stable_rank(sigma2) - 1
                                                   : ratio * n * rs_gap_fixed_rank_gram(2) - 1;
                RS_TRY((computed ? rs_lab_curves_compute : rs_lab_curves_add)(
                    table, computed ? shown[i].law : shown[i].measured, n, y, err));
            }
    return RS_OK;
}

/* Whether a cell times `law(T)` grows from the first size to the last: sign +1, or falls. */
static rs_status claim_trends(rs_lab_report *report, const rs_draws *draws, int n_sizes,
                              rs_error *err)
{
    int last = (n_sizes - 1) * KINDS;
    double first_n = (double)sizes[0], n = (double)sizes[n_sizes - 1];
    rs_seen small = rs_draws_seen(draws, GRAM), large = rs_draws_seen(draws, last + GRAM);
    RS_TRY(rs_lab_order(report, "stable rank of XX' falls with T: T = 32 less the largest",
                        small.mean / first_n - large.mean / n,
                        hypot(small.error / first_n, large.error / n), err));
    small = rs_draws_seen(draws, FIXED_GRAM);
    large = rs_draws_seen(draws, last + FIXED_GRAM);
    RS_TRY(rs_lab_order(report, "gap removed: it grows with T: the largest less T = 32",
                        n * large.mean - first_n * small.mean,
                        hypot(n * large.error, first_n * small.error), err));
    /* the published line T^(L−1) is met from above: the slope in T is L */
    small = rs_draws_seen(draws, BACK);
    large = rs_draws_seen(draws, last + BACK);
    double decades = log(n / first_n), slope = 2 + log(large.mean / small.mean) / decades;
    double error = hypot(small.error / small.mean, large.error / large.mean) / decades;
    RS_TRY(rs_lab_seen(report, "two layers: slope of ln |dX/dW1|^2 in ln T", (rs_awaited){2, 0},
                       /* 1 + O(1/T) at both ends */ 2 / first_n / decades, (rs_seen){slope, error},
                       err));
    return rs_lab_order(report, "two layers: that slope less the published line's, 1", slope - 1,
                        error, err);
}

static rs_status write_up(rs_lab_report *report, const rs_draws *draws, int n_sizes, rs_error *err)
{
    char text[160];
    RS_TRY(draw(report, draws, n_sizes, err));
    for (int s = 1; s < n_sizes; s += 2) /* two sizes tell a constant from a power */
        for (int k = 0; k < KINDS; k++) {
            snprintf(text, sizeof text, "T = %d: %s", (int)sizes[s], names[k]);
            RS_TRY(rs_lab_seen(report, text, awaited[s][k], 0, rs_draws_seen(draws, s * KINDS + k),
                               err));
        }
    RS_TRY(claim_trends(report, draws, n_sizes, err));
    double tokens = 64, harmonic = 0;
    for (int i = 1; i <= (int)tokens; i++)
        harmonic += 1 / (double)i;
    return rs_lab_compute(report,
                          "uniform causal attention, T = 64: |A|_F^2 is 1 + 1/2 + ... + 1/T",
                          harmonic, rs_gap_causal_square((int)tokens), 1e-13, err);
}

static rs_status run_gap_width_collapse(rs_lab_report *report, const rs_lab_options *options,
                                        const rs_context *context, rs_error *err)
{
    const int n_sizes = options->quick ? QUICK_SIZES : SIZES;
    const rs_draws_plan plan = {.draws = options->quick ? QUICK_DRAWS : DRAWS,
                                .cells = n_sizes * KINDS,
                                .stream = (uint64_t)STREAM << 32,
                                .one = one_draw,
                                .of = &n_sizes};
    rs_draws draws;
    RS_TRY(rs_draws_run(&draws, &plan, context, err));
    rs_status status = write_up(report, &draws, n_sizes, err);
    rs_draws_free(&draws);
    if (status != RS_OK || !options->quick) return status;
    return rs_lab_say_quick(report, "48 draws instead of 96, up to 128 tokens instead of 256", err);
}

const rs_lab_experiment rs_lab_gap_width_collapse = {
    "gap-width-collapse",
    "Rank collapse in width",
    "Nait Saada et al. 2025, rank collapse in width",
    "Layers of attention whose rows are softmaxes of independent logits, tokens and width growing "
    "together: singular values and eigenvalues of the matrices, stable ranks of X and of XXᵀ, and "
    "gradients, over their laws, with and without 11ᵀ/T. Nait Saada, Naderi, Tanner, ICML 2025 "
    "(arXiv 2410.07799).",
    run_gap_width_collapse,
    "4 s",
    "< 1 s",
    &table_kind,
    0};
