/*
 * softmax_moment.c: E ΣA² and E ΣA³ of a softmax's weights over Gaussian logits: the exact integral, draws,
 * and the annealed e^c/(e^c + n − 1), which puts means in place of numerator and denominator
 * (docs/theory/mean_field.md, 2). What that does to tokens behind eight layers.
 */
#include "lab/signals.h"

#include "base/memory.h"
#include "predict/activation_maps.h"
#include "predict/softmax_moments.h"
#include "predict/theory_network.h"

#include <math.h>
#include <stdio.h>

enum { PAIRS = 6, DRAWS = 64, ROWS = 128, STREAM = 0x736f6674 };
static const struct {
    double c;
    int n;
} pairs[PAIRS] = {{1, 16}, {2.7, 64}, {4, 256}, {9, 1024}, {3.4657359, 1024}, {6.9314718, 1024}};
/* Two rows whose logits of one key have this correlation, at the second pair. */
static const double between = 0.5;

/* Of a pair: ΣA² and ΣA³ over the exact moments, and ΣA² alone; then Σ_j A_j B_j over its own. */
enum { SECOND, THIRD, KINDS, CROSS = PAIRS * KINDS, RHO, CELLS };

/* tests/oracle/lab_signals.py softmax-moment: of each pair E ΣA², E ΣA³ and ĉ by another quadrature,
 * and the annealed moment over the exact one. */
static const struct {
    double second, third, equal, annealed;
} exact[PAIRS] = {
    {0.1324522172199, 0.02949228003185, 0.8286015654134, 1.158280230532},
    {0.1052622999348, 0.02823601638829, 2.003059453346, 1.815088475727},
    {0.07266572803259, 0.01878043860062, 2.994819306212, 2.426889158602},
    {0.1349458677735, 0.05630505802852, 5.072576398938, 6.579702966397},
    {0.02078849408675, 0.002671758880077, 3.078146768689, 1.459064487576},
    {0.08755920366064, 0.02956211480387, 4.586686741152, 5.713211605162},
};
static const double exact_cross = 0.04333204332; /* E Σ_j A_j B_j */

/* A pre-norm network with logits three times as wide as usual. */
enum { TOKENS = 64, WIDTH = 64, DEPTH = 8, NETWORKS = 16 };
static const double rho_annealed = 0.330521799281; /* behind it by the annealed recursion */
static const rs_awaited rho_awaited[1][1] = {
    {{0.514764, 0.0035}},
};

/* What draws are divided by. */
typedef struct laws {
    rs_softmax_moments of[PAIRS];
    double cross;
} laws;

/* ---- draws ---- */

static void add_rows(double *cells, double *a, int pair, const rs_softmax_moments *m,
                     rs_random *random)
{
    int n = pairs[pair].n;
    for (int r = 0; r < ROWS; r++) {
        rs_draw_gaussian(a, n, sqrt(pairs[pair].c), random);
        rs_rows_softmax(a, 1, n);
        double second = 0, third = 0;
        for (int j = 0; j < n; j++) {
            second += a[j] * a[j];
            third += a[j] * a[j] * a[j];
        }
        cells[pair * KINDS + SECOND] += second / m->second / ROWS;
        cells[pair * KINDS + THIRD] += third / m->third / ROWS;
    }
}

static void add_cross(double *cell, double *a, double law, rs_random *random)
{
    int n = pairs[1].n;
    double s = sqrt(pairs[1].c), *b = a + n;
    for (int r = 0; r < ROWS; r++) {
        for (int j = 0; j < n; j++) {
            double common = rs_random_normal(random);
            a[j] = s * common;
            b[j] = s * (between * common + sqrt(1 - between * between) * rs_random_normal(random));
        }
        rs_rows_softmax(a, 2, n);
        for (int j = 0; j < n; j++)
            *cell += a[j] * b[j] / law / ROWS;
    }
}

static json_t *architecture(void)
{
    return json_pack("{s:i, s:i, s:i, s:s, s:s, s:f, s:{s:s}}", "depth", DEPTH, "d_model", WIDTH,
                     "heads", 1, "norm", "pre", "mlp", "relu", "temperature", 1.0 / 3, "init", "wo",
                     "none");
}

static rs_status add_network(double *cell, rs_random *random, const rs_context *context,
                             rs_error *err)
{
    rs_toy toy;
    rs_signal_layer layers[DEPTH + 1];
    double x[TOKENS * WIDTH];
    RS_TRY(rs_toy_open(&toy, architecture(), rs_draw_seed(random), context, err));
    rs_draw_tokens(x, TOKENS, WIDTH, 1, 0, random);
    rs_status status = rs_signal_pass(layers, &toy, x, TOKENS, 0, true, err);
    rs_toy_close(&toy);
    if (status == RS_OK) *cell = rs_signal_rho(&layers[DEPTH], TOKENS);
    return status;
}

static rs_status one_draw(double *cells, const void *of, rs_random *random,
                          const rs_context *context, rs_error *err)
{
    const laws *exactly = of;
    double a[1024];
    for (int i = 0; i < PAIRS; i++)
        add_rows(cells, a, i, &exactly->of[i], random);
    add_cross(&cells[CROSS], a, exactly->cross, random);
    return add_network(&cells[RHO], random, context, err);
}

/* ---- by theory ---- */

static rs_status theory_rho(double *rho, const rs_context *context, rs_error *err)
{
    rs_toy toy;
    rs_theory_model *model = NULL;
    rs_theory_row rows[DEPTH + 1];
    const rs_theory_input input = {.n = TOKENS, .norm2 = WIDTH, .rho = 0};
    const rs_theory_settings settings = {.rough = true};
    RS_TRY(rs_toy_open(&toy, architecture(), 0, context, err));
    rs_status status = rs_theory_model_open(&model, toy.network, &input, &rs_theory_stored, err);
    if (status == RS_OK)
        status = rs_theory_run(rows, rs_theory_model_network(model), &settings, err);
    if (status == RS_OK) *rho = rows[DEPTH].rho;
    rs_theory_model_close(model);
    rs_toy_close(&toy);
    return status;
}

/* The same recursion with annealed moments: S = ρ + eφ(s²e), p = ρ + eφ(s²ρe) of tokens of norm 1. */
static double annealed_rho(void)
{
    double q = 1, p = 0, s2 = 9;
    for (int l = 0; l < DEPTH; l++) {
        double rho = p / q, e = 1 - rho;
        q += rho + e * rs_softmax_annealed(TOKENS, s2 * e);
        p += rho + e * rs_softmax_annealed(TOKENS, s2 * rho * e);
        double gap = 1 - p / q;
        q += 1;
        p += 1 - gap * rs_relu_gap_ratio(gap);
    }
    return p / q;
}

/* ---- what came out ---- */

static const rs_column point_columns[] =
    RS_LAB_POINTS(RS_LAB_X("variance", "variance of logits", "c of independent N(0, c) logits"),
                  RS_LAB_Y("second", "E sum of A^2",
                           "of 1024 keys; its inverse is the number of "
                           "effective keys"));
static const rs_table_kind table_kind = {"lab", "softmax_moment", {RS_PART(point_columns)}};
static const rs_lab_curves curves = {
    .kind = &table_kind,
    .title = "How uniform attention is",
    .about = "E ΣA² of a softmax over 1024 independent Gaussian logits by their variance: exact, "
             "annealed, and drawn. The annealed form leaves at about half of ln n = 6.9, far below "
             "the landmark 2 ln n.",
    .log_x = true,
    .log_y = true,
};

static rs_status draw(rs_lab_report *report, const rs_draws *draws, rs_error *err)
{
    rs_table *table = NULL;
    RS_TRY(rs_lab_curves_open(&table, report, &curves, err));
    for (int annealed = 0; annealed < 2; annealed++)
        for (double c = 0.25; c <= 32; c *= sqrt(2)) {
            rs_softmax_moments m;
            rs_softmax_moments_of(&m, 1024, c);
            RS_TRY(rs_lab_curves_compute(table, annealed ? "annealed" : "exact", c,
                                         annealed ? rs_softmax_annealed(1024, c) : m.second, err));
        }
    static const int drawn[] = {4, 5, 3};
    for (size_t i = 0; i < sizeof drawn / sizeof *drawn; i++) {
        rs_softmax_moments m;
        rs_softmax_moments_of(&m, 1024, pairs[drawn[i]].c);
        RS_TRY(rs_lab_curves_add(table, "drawn", pairs[drawn[i]].c,
                                 m.second * rs_draws_seen(draws, drawn[i] * KINDS).mean, err));
    }
    return RS_OK;
}

static rs_status claim_moments(rs_lab_report *report, const rs_draws *draws, const laws *exactly,
                               rs_error *err)
{
    char text[160], at[60];
    for (int i = 0; i < PAIRS; i++) {
        snprintf(at, sizeof at, "c = %.4g, n = %d", pairs[i].c, pairs[i].n);
        const struct {
            const char *name;
            double expected, computed;
        } numbers[] = {
            {"E sum A^2", exact[i].second, exactly->of[i].second},
            {"E sum A^3", exact[i].third, exactly->of[i].third},
            {"variance at which the annealed form is right", exact[i].equal, exactly->of[i].equal},
            {"annealed over exact", exact[i].annealed,
             rs_softmax_annealed(pairs[i].n, pairs[i].c) / exactly->of[i].second}};
        for (size_t k = 0; k < sizeof numbers / sizeof *numbers; k++) {
            snprintf(text, sizeof text, "%s: %s", at, numbers[k].name);
            RS_TRY(rs_lab_compute(report, text, numbers[k].expected, numbers[k].computed,
                                  1e-9 * numbers[k].expected, err));
        }
        snprintf(text, sizeof text, "%s: sum A^2 drawn over exact", at);
        RS_TRY(rs_lab_seen(report, text, (rs_awaited){1, 0}, 0,
                           rs_draws_seen(draws, i * KINDS + SECOND), err));
        snprintf(text, sizeof text, "%s: sum A^3 drawn over exact", at);
        RS_TRY(rs_lab_seen(report, text, (rs_awaited){1, 0}, 0,
                           rs_draws_seen(draws, i * KINDS + THIRD), err));
    }
    RS_TRY(rs_lab_compute(report, "c = 2.7, n = 64, logits correlated 1/2: E sum A B", exact_cross,
                          exactly->cross, 1e-6 * exact_cross, err));
    return rs_lab_seen(report, "the same drawn over exact", (rs_awaited){1, 0}, 0,
                       rs_draws_seen(draws, CROSS), err);
}

static rs_status claim_networks(rs_lab_report *report, const rs_draws *draws,
                                const rs_context *context, rs_error *err)
{
    double rho, annealed = annealed_rho();
    rs_seen seen = rs_draws_seen(draws, RHO);
    RS_TRY(theory_rho(&rho, context, err));
    RS_TRY(rs_lab_seen(report, "pre-norm, logits times 3, 8 layers: correlation of tokens",
                       rho_awaited[0][0], 0, seen, err));
    /* the recursion carries ratios of expectations, right to .03 + 1.5/d (docs/theory/mean_field.md, 4) */
    RS_TRY(rs_lab_seen(report, "the same against the recursion with exact moments",
                       (rs_awaited){rho, 0}, 0.03 + 1.5 / WIDTH, seen, err));
    RS_TRY(rs_lab_compute(report, "the recursion with annealed moments", rho_annealed, annealed,
                          1e-9, err));
    return rs_lab_order(report, "measured less the annealed recursion", seen.mean - annealed,
                        seen.error, err);
}

static rs_status run_softmax_moment(rs_lab_report *report, const rs_lab_options *options,
                                    const rs_context *context, rs_error *err)
{
    laws exactly;
    for (int i = 0; i < PAIRS; i++)
        rs_softmax_moments_of(&exactly.of[i], pairs[i].n, pairs[i].c);
    RS_TRY(rs_softmax_cross_moment(&exactly.cross, pairs[1].n, pairs[1].c, between, err));
    const rs_draws_plan plan = {.draws = options->quick ? RS_DRAWS_LEAST : DRAWS,
                                .cells = CELLS,
                                .stream = (uint64_t)STREAM << 32,
                                .one = one_draw,
                                .of = &exactly};
    rs_draws draws;
    RS_TRY(rs_draws_run(&draws, &plan, context, err));
    rs_status status = draw(report, &draws, err);
    if (status == RS_OK) status = claim_moments(report, &draws, &exactly, err);
    if (status == RS_OK) status = claim_networks(report, &draws, context, err);
    rs_draws_free(&draws);
    if (status != RS_OK || !options->quick) return status;
    return rs_lab_say_quick(report, "16 draws instead of 64", err);
}

const rs_lab_experiment rs_lab_softmax_moment = {
    "softmax-moment",
    "Softmax over Gaussian logits: exact, annealed",
    "Noci et al. 2022, beyond uniform attention",
    "E ΣA² and E ΣA³ of a softmax over independent Gaussian logits by an exact integral, by draws "
    "and annealed, and the correlation of tokens that both give behind eight pre-norm layers with "
    "wide logits.",
    run_softmax_moment,
    "1 s",
    "< 1 s",
    &table_kind,
    0};
