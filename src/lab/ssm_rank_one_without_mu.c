/*
 * ssm_rank_one_without_mu.c: a linear time-invariant state-space layer, Y <- M Y with M_ij = 0.7^(i-j)
 * for j <= i, again and again: without a norm its tokens become multiples of one vector whose lengths
 * grow by powers of the layer, so that mu/||Y|| tends to sqrt(1 - 1/N) while the rank falls to one;
 * with a norm in every layer they become equal, by 1/(1 + 0.7) a layer (docs/theory/ssm.md, 1;
 * docs/theory/tokens.md, 4).
 *
 * M = (I - 0.7 S)^-1, S the shift, is one Jordan block: M^K has binomials for entries, from which the
 * expected numbers come.
 */
#include "lab/toy.h"

#include "base/memory.h"
#include "measures/token_measures.h"

#include <math.h>
#include <string.h>

enum { TOKENS = 4, WIDTH = 3, STATE = TOKENS * WIDTH, LAYERS = 200, WAYS = 2 };
enum { FREE, NORMED };
static const double decay = 0.7;

typedef struct lines {
    /* mu/||Y||, mu of unit rows over sqrt(N), and the rank-1 residual, as probe's table tokens has
     * them */
    double relative[WAYS][LAYERS + 1], units[WAYS][LAYERS + 1], rank1[WAYS][LAYERS + 1];
} lines;

static rs_status measure_state(lines *out, int way, int32_t layer, const double *y, rs_error *err)
{
    const rs_token_options options = {.spectral = true, .epsilon = 0x1p-53};
    rs_token_measures measures;
    void *workspace = rs_malloc(rs_token_workspace(TOKENS, WIDTH, &options), 1);
    if (!workspace) return rs_fail_memory(err, "an experiment", 1);
    rs_status status =
        rs_token_measure_f64(&measures, y, TOKENS, WIDTH, WIDTH, &options, workspace, err);
    rs_free(workspace);
    out->relative[way][layer] = measures.relative_residual;
    out->units[way][layer] = measures.row_normalised_mu;
    out->rank1[way][layer] = measures.rank1_residual;
    return status;
}

static rs_status run_layers(lines *out, int way, const rs_context *context, rs_error *err)
{
    double m[TOKENS * TOKENS], y[STATE];
    rs_toy toy;
    rs_toy_trace trace;
    for (int i = 0; i < TOKENS * TOKENS; i++)
        m[i] = i % TOKENS > i / TOKENS ? 0 : pow(decay, i / TOKENS - i % TOKENS);
    for (uint32_t i = 0; i < STATE; i++)
        y[i] = fabs(rs_lab_hash(62, i) / 2147483648.0 - 1) + 0.1;
    RS_TRY(rs_toy_open(&toy,
                       json_pack("{s:i, s:i, s:s, s:s, s:f, s:s, s:{s:s, s:s}}", "depth", LAYERS,
                                 "d_model", WIDTH, "norm", way == NORMED ? "post" : "none",
                                 "norm_kind", "rmsnorm", "skip_mixer", 0.0, "mlp", "none", "init",
                                 "wv", "identity", "wo", "none"),
                       0, context, err));
    for (int32_t l = 0; l < LAYERS; l++)
        toy.network->layers[l].branches[0].after.eps = 0; /* rows never come near zero */
    rs_status status = rs_toy_mix(&toy, m, TOKENS, RS_GRAPH_GIVEN, err);
    if (status == RS_OK) status = rs_toy_run(&trace, &toy, y, 1, TOKENS, false, err);
    rs_toy_close(&toy);
    RS_TRY(status);
    for (int32_t l = 0; l <= LAYERS && status == RS_OK; l++)
        status = measure_state(out, way, l, rs_toy_state(&trace, l, 0), err);
    rs_toy_trace_free(&trace);
    return status;
}

/* ---- what came out ---- */

static const rs_column point_columns[] = RS_LAB_POINTS(
    RS_LAB_X_STATE, RS_LAB_Y("left", "share that is left",
                             "mu/|Y|; mu of rows of length 1 over sqrt(N); rank-1 residual "
                             "sqrt(sigma_2^2 + ...)/|sigma|: as series says"));
static const rs_table_kind table_kind = {
    "lab", "ssm_rank_one_without_mu", {RS_PART(point_columns)}};
static const rs_lab_curves curves = {
    .kind = &table_kind,
    .title = "Rank one without a small residual",
    .about = "Three numbers of four tokens by state, under 200 equal layers of a linear "
             "time-invariant mixer without norm: rank one and the common direction come, as 1/K, "
             "and mu/|Y| does not see them, because tokens have different lengths. With a norm in "
             "every layer the tokens become equal exponentially, into rounding.",
    .log_x = true,
    .log_y = true,
    .y_floor = 1e-17,
};

static rs_status claim_numbers(rs_lab_report *report, const lines *s, rs_error *err)
{
    /* 60 digits of M^K: tests/oracle/lab_expected.py */
    static const struct {
        const char *relative, *units, *rank1;
        int state;
        double expected[3];
    } rows[] = {
        {"no norm, state 10: mu/|Y|",
         "no norm, state 10: mu of unit rows over sqrt(N)",
         "no norm, state 10: rank-1 residual",
         10,
         {0.745382807596786, 0.0133337925955987, 0.00294588784265605}},
        {"no norm, state 50: mu/|Y|",
         "no norm, state 50: mu of unit rows over sqrt(N)",
         "no norm, state 50: rank-1 residual",
         50,
         {0.841188591070817, 0.00455241024619087, 0.000280990765566991}},
        {"no norm, state 200: mu/|Y|",
         "no norm, state 200: mu of unit rows over sqrt(N)",
         "no norm, state 200: rank-1 residual",
         200,
         {0.85982978484328, 0.00128027933397836, 2.33288706428123e-5}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int l = rows[i].state;
        const double *e = rows[i].expected;
        RS_TRY(rs_lab_expect(report, rows[i].relative, e[0], s->relative[FREE][l], 1e-12, err));
        RS_TRY(rs_lab_expect(report, rows[i].units, e[1], s->units[FREE][l], 1e-12, err));
        RS_TRY(rs_lab_expect(report, rows[i].rank1, e[2], s->rank1[FREE][l], 1e-12, err));
    }
    return RS_OK;
}

static rs_status write_up(rs_lab_report *report, const lines *s, rs_error *err)
{
    rs_table *table = NULL;
    RS_TRY(rs_lab_curves_open(&table, report, &curves, err));
    for (int l = 1; l <= LAYERS; l++)
        RS_TRY(rs_lab_curves_add(table, "no norm: mu/|Y|", l, s->relative[FREE][l], err));
    for (int l = 1; l <= LAYERS; l++)
        RS_TRY(rs_lab_curves_add(table, "no norm: mu of unit rows", l, s->units[FREE][l], err));
    for (int l = 1; l <= LAYERS; l++)
        RS_TRY(rs_lab_curves_add(table, "no norm: rank-1 residual", l, s->rank1[FREE][l], err));
    for (int l = 1; l <= LAYERS; l++)
        RS_TRY(rs_lab_curves_add(table, "norm in every layer: mu/|Y|", l, s->relative[NORMED][l],
                                 err));
    RS_TRY(claim_numbers(report, s, err));
    RS_TRY(rs_lab_expect(report, "no norm, state 200: mu/|Y| against its limit sqrt(1 - 1/N)",
                         sqrt(1 - 1.0 / TOKENS), s->relative[FREE][LAYERS], 0.01, err));
    RS_TRY(rs_lab_expect(report, "norm in every layer: fall of mu/|Y| in layer 50, 1/(1 + 0.7)",
                         1 / (1 + decay), s->relative[NORMED][50] / s->relative[NORMED][49], 1e-3,
                         err));
    return rs_lab_at_most(report, "norm in every layer: mu/|Y| of state 200",
                          s->relative[NORMED][LAYERS], 1e-15, err);
}

static rs_status run_ssm_rank_one(rs_lab_report *report, const rs_lab_options *options,
                                  const rs_context *context, rs_error *err)
{
    (void)options; /* as quick as it can be */
    lines *s = rs_calloc(1, sizeof *s);
    if (!s) return rs_fail_memory(err, "an experiment", sizeof *s);
    rs_status status = RS_OK;
    for (int way = 0; way < WAYS && status == RS_OK; way++)
        status = run_layers(s, way, context, err);
    if (status == RS_OK) status = write_up(report, s, err);
    rs_free(s);
    return status;
}

const rs_lab_experiment rs_lab_ssm_rank_one_without_mu = {
    "ssm-rank-one-without-mu",
    "Rank one, and mu/|Y| does not see it",
    "Arangath Joseph et al. 2025, LTI layers; docs/theory/tokens.md, 4",
    "200 equal layers of a linear time-invariant state-space mixer on four tokens. Without a norm "
    "they end in one direction with different lengths: mu/|Y| tends to sqrt(3)/2 while the rank-1 "
    "residual falls below 1e-4; with a norm in every layer they end equal. A tool that reports "
    "mu/|Y| alone says that nothing collapses. After the theorems on LTI layers of Arangath "
    "Joseph, "
    "Sieber, Zeilinger, Amo Alonso, ICLR 2025 (arXiv 2410.10609).",
    run_ssm_rank_one,
    "< 1 s",
    "< 1 s",
    &table_kind,
    0};
