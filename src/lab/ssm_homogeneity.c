/*
 * ssm_homogeneity.c: the simplified selective state-space layer Y <- M(Y) Y, M_ij = 0.9^(i-j) y_i·y_j
 * for j <= i, without norm and skip, is homogeneous of degree 3: s Y gives s^3 of what Y gives, so that
 * behind k layers the size has the factor s^(3^k). Its norm, and mu with it, falls or grows doubly
 * exponentially by the scale of the input alone, while no share of it changes (docs/theory/ssm.md, 1;
 * docs/theory/tokens.md, 4).
 */
#include "lab/toy.h"

#include "base/memory.h"
#include "measures/token_measures.h"

#include <math.h>

enum { TOKENS = 6, WIDTH = 4, STATE = TOKENS * WIDTH, LAYERS = 4, SCALES = 2 };
static const double scales[SCALES] = {1, 10};
static const double decay = 0.9;

typedef struct states {
    double log10_norm[SCALES][LAYERS + 1], log10_spread[SCALES][LAYERS + 1];
    double shares[SCALES][LAYERS + 1]
                 [3]; /* mu/||Y||, mu of unit rows over sqrt(N), rank-1 residual */
} states;

static rs_status measure_state(states *out, int scale, int32_t layer, const double *y,
                               rs_error *err)
{
    const rs_token_options options = {.spectral = true, .epsilon = 0x1p-53};
    rs_token_measures measures;
    void *workspace = rs_malloc(rs_token_workspace(TOKENS, WIDTH, &options), 1);
    if (!workspace) return rs_fail_memory(err, "an experiment", 1);
    rs_status status =
        rs_token_measure_f64(&measures, y, TOKENS, WIDTH, WIDTH, &options, workspace, err);
    rs_free(workspace);
    out->log10_norm[scale][layer] = log10(measures.norm_fro);
    out->log10_spread[scale][layer] = log10(measures.residual_fro);
    out->shares[scale][layer][0] = measures.relative_residual;
    out->shares[scale][layer][1] = measures.row_normalised_mu;
    out->shares[scale][layer][2] = measures.rank1_residual;
    return status;
}

/* Linear attention with identity maps and a decay is this layer (docs/theory/ssm.md, 5). */
static json_t *layers_of_degree_three(void)
{
    return json_pack("{s:i, s:i, s:i, s:s, s:s, s:f, s:s, s:s, s:f, s:s, s:{s:s, s:s, s:s}}",
                     "depth", LAYERS, "d_model", WIDTH, "heads", 1, "mixer", "linear_attention",
                     "mask", "causal", "decay", decay, "value_map", "identity", "norm", "none",
                     "skip_mixer", 0.0, "mlp", "none", "init", "wq", "identity", "wk", "identity",
                     "wo", "none");
}

static rs_status run_layers(states *out, int scale, const rs_context *context, rs_error *err)
{
    double y[STATE];
    rs_toy toy;
    rs_toy_trace trace;
    for (uint32_t i = 0; i < STATE; i++)
        y[i] = scales[scale] * (rs_lab_hash(63, i) / 2147483648.0 - 1) / 5;
    RS_TRY(rs_toy_open(&toy, layers_of_degree_three(), 0, context, err));
    rs_status status = rs_toy_run(&trace, &toy, y, 1, TOKENS, false, err);
    rs_toy_close(&toy);
    RS_TRY(status);
    for (int32_t l = 0; l <= LAYERS && status == RS_OK; l++)
        status = measure_state(out, scale, l, rs_toy_state(&trace, l, 0), err);
    rs_toy_trace_free(&trace);
    return status;
}

/* ---- what came out ---- */

static const rs_column point_columns[] =
    RS_LAB_POINTS(RS_LAB_X_STATE, RS_LAB_Y("size", "size, or share of it",
                                           "mu(Y) = |Y - 1x|_F, and mu/|Y|_F: as series says"));
static const rs_table_kind table_kind = {"lab", "ssm_homogeneity", {RS_PART(point_columns)}};
static const rs_lab_curves curves = {
    .kind = &table_kind,
    .title = "Doubly exponential by the scale of the input",
    .about = "mu of six tokens by state under Y <- M(Y) Y, M quadratic in Y, no norm, for the same "
             "tokens at two scales: it falls or grows as s^(3^k), since the layer is of degree 3; "
             "mu/|Y| is the same for both and stays near 1.",
    .log_y = true,
};

/* Digits of tests/oracle/lab_expected.py, scale 1. */
static const double expected[LAYERS + 1][4] = {
    {-0.233615675799917, 0.99178072439276, 0.991425431707844, 0.722595679138496},
    {-1.28795794308199, 0.984637195490736, 0.989279317505444, 0.517800430813425},
    {-4.2409536903252, 0.979377466342688, 0.979239152861308, 0.228227080400857},
    {-12.9402619961251, 0.969574074807707, 0.971507271380435, 0.0829572509506257},
    {-38.985526579479, 0.963555994367854, 0.969733866787899, 0.0319664953014304}};

static rs_status claim_states(rs_lab_report *report, const states *s, rs_error *err)
{
    static const char *const texts[3] = {"state 4: mu/|Y|", "state 4: mu of unit rows over sqrt(N)",
                                         "state 4: rank-1 residual"};
    double norms = 0, shares = 0;
    for (int l = 0; l <= LAYERS; l++) {
        double grown = s->log10_norm[1][l] - s->log10_norm[0][l];
        norms = fmax(norms, fabs(s->log10_norm[0][l] - expected[l][0]));
        norms = fmax(norms, fabs(grown - pow(3, l) * log10(scales[1] / scales[0])));
        for (int i = 0; i < 3; i++)
            shares = fmax(shares, fabs(s->shares[1][l][i] - s->shares[0][l][i]));
    }
    RS_TRY(rs_lab_expect(report, "scale 1, state 4: log10 of the norm", expected[LAYERS][0],
                         s->log10_norm[0][LAYERS], 1e-12, err));
    RS_TRY(rs_lab_expect(report, "scale 10 over scale 1, state 4: log10 of the norms' ratio, 3^4",
                         81, s->log10_norm[1][LAYERS] - s->log10_norm[0][LAYERS], 1e-11, err));
    RS_TRY(rs_lab_expect(report, "the same of mu, which the norm carries along", 81,
                         s->log10_spread[1][LAYERS] - s->log10_spread[0][LAYERS], 1e-11, err));
    RS_TRY(rs_lab_at_most(report,
                          "all states: largest error of log10 of a norm, scale^(3^k) put in", norms,
                          1e-11, err));
    for (int i = 0; i < 3; i++)
        RS_TRY(rs_lab_expect(report, texts[i], expected[LAYERS][i + 1], s->shares[0][LAYERS][i],
                             1e-12, err));
    return rs_lab_at_most(report, "all states: largest difference of a share between the scales",
                          shares, 1e-13, err);
}

static rs_status write_up(rs_lab_report *report, const states *s, rs_error *err)
{
    static const char *const names[SCALES] = {"mu, scale 1", "mu, scale 10"};
    rs_table *table = NULL;
    RS_TRY(rs_lab_curves_open(&table, report, &curves, err));
    for (int i = 0; i < SCALES; i++)
        for (int l = 0; l <= LAYERS; l++)
            RS_TRY(rs_lab_curves_add(table, names[i], l, pow(10, s->log10_spread[i][l]), err));
    for (int l = 0; l <= LAYERS; l++)
        RS_TRY(rs_lab_curves_add(table, "mu/|Y|, either scale", l, s->shares[0][l][0], err));
    return claim_states(report, s, err);
}

static rs_status run_ssm_homogeneity(rs_lab_report *report, const rs_lab_options *options,
                                     const rs_context *context, rs_error *err)
{
    (void)options; /* as quick as it can be */
    states s;
    for (int scale = 0; scale < SCALES; scale++)
        RS_TRY(run_layers(&s, scale, context, err));
    return write_up(report, &s, err);
}

const rs_lab_experiment rs_lab_ssm_homogeneity = {
    "ssm-homogeneity",
    "Doubly exponential by scale alone",
    "Arangath Joseph et al. 2025, selective SSM without norm",
    "The simplified selective state-space layer without norm and skip at two scales of its input: "
    "sizes fall or grow doubly exponentially by the scale alone, and every share (mu/|Y|, "
    "directions, "
    "rank) is that of the other scale. Why a doubly exponential fall of mu is no sign of collapse "
    "unless mu/|Y| falls too. After the proposition on layers without norm of Arangath Joseph, "
    "Sieber, Zeilinger, Amo Alonso, ICLR 2025 (arXiv 2410.10609).",
    run_ssm_homogeneity,
    "< 1 s",
    "< 1 s",
    &table_kind,
    0};
