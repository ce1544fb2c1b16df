/*
 * sas_at_init.c: blocks without attention skips and value matrices at their start: shaped attention with
 * W_Q = 0 is the identity, so that a block has its skip inside: He and Hofmann 2024 (arXiv 2311.01906;
 * docs/theory/signal.md, 2). Beside the same without shaping.
 */
#include "lab/signals.h"

#include "network/op_traits.h"

#include <float.h>
#include <math.h>
#include <stdio.h>

enum { N = 12, D = 48, HEADS = 4, DEPTH = 18, WAYS = 3, DRAWS = 64, STREAM = 0x73617330 };
enum { SAS, PLAIN, PRE };
static const char *const names[WAYS] = {"SAS", "the same, not shaped", "pre-norm"};

/* By way: cosine of tokens behind each layer; and of SAS: the largest |A − I|, |MHA(norm X) − norm X|, gK
 * of any layer, the least gQ. */
enum {
    STATES = DEPTH + 1,
    COSINES = WAYS * STATES,
    MATRIX = COSINES,
    BRANCH,
    KEYS,
    QUERIES,
    CELLS
};

/* tests/oracle/lab_signals.py sas-at-init: cosine behind 18 layers, SAS and pre-norm */
static const rs_awaited awaited[1][2] = {
    {{0.240629, 0.003}, {0.266181, 0.0032}},
};

static json_t *architecture(int way, bool causal)
{
    if (way == PRE)
        return json_pack("{s:i, s:i, s:i, s:s, s:s, s:s, s:f, s:f}", "depth", DEPTH, "d_model", D,
                         "heads", HEADS, "norm", "pre", "mlp", "relu", "mask",
                         causal ? "causal" : "none", "branch_mixer", 1 / sqrt(DEPTH), "branch_mlp",
                         1 / sqrt(DEPTH));
    return json_pack("{s:i, s:i, s:i, s:s, s:s, s:s, s:s, s:f, s:f, s:{s:s, s:s, s:s}}", "depth",
                     DEPTH, "d_model", D, "heads", HEADS, "norm", "pre", "mlp", "relu", "mask",
                     causal ? "causal" : "none", "attention", way == SAS ? "shaped" : "softmax",
                     "skip_mixer", 0.0, "branch_mlp", 1 / sqrt(DEPTH), "init", "wq", "zero", "wv",
                     "identity", "wo", "identity");
}

/* A against I, and the state behind an attention, X̂ = Concat_h[A_h norm(X)_h], against norm(X). */
static rs_status see_identity(double *cells, rs_toy *toy, const double *x, rs_error *err)
{
    rs_toy_trace trace;
    toy->network->layers[0].n_branches =
        1; /* the first layer's attention alone is seen in its state */
    RS_TRY(rs_toy_run(&trace, toy, x, 1, N, true, err));
    for (int32_t l = 0; l < DEPTH; l++)
        for (int32_t h = 0; h < HEADS; h++) {
            const double *a = rs_toy_mixing(&trace, l, 0, h);
            for (int i = 0; i < N * N; i++)
                cells[MATRIX] = fmax(cells[MATRIX], fabs(a[i] - (i % (N + 1) == 0)));
        }
    const double *behind = rs_toy_state(&trace, 1, 0);
    for (int i = 0; i < N; i++) {
        double mean = 0, square = 0;
        for (int k = 0; k < D; k++)
            mean += x[i * D + k] / D;
        for (int k = 0; k < D; k++)
            square += (x[i * D + k] - mean) * (x[i * D + k] - mean) / D;
        for (int k = 0; k < D; k++) {
            double normed = (x[i * D + k] - mean) / sqrt(square + 1e-5);
            cells[BRANCH] = fmax(cells[BRANCH], fabs(behind[i * D + k] - normed));
        }
    }
    rs_toy_trace_free(&trace);
    return RS_OK;
}

static rs_status see_way(double *cells, int way, bool causal, rs_random *random,
                         const rs_context *context, rs_error *err)
{
    double x[N * D];
    rs_toy toy;
    rs_signal_layer layers[STATES];
    RS_TRY(rs_toy_open(&toy, architecture(way, causal), rs_draw_seed(random), context, err));
    rs_draw_tokens(x, N, D, 1, 0, random);
    rs_status status = rs_signal_pass(layers, &toy, x, N, rs_draw_seed(random), true, err);
    for (int l = 0; l < STATES && status == RS_OK && !causal; l++)
        cells[way * STATES + l] = layers[l].cosine;
    if (way == SAS && status == RS_OK) {
        for (int l = 0; l < DEPTH; l++) {
            cells[KEYS] = fmax(cells[KEYS], layers[l].key);
            cells[QUERIES] = fmax(cells[QUERIES], 1 / layers[l].query);
        }
        status = see_identity(cells, &toy, x, err);
    }
    rs_toy_close(&toy);
    return status;
}

static rs_status one_draw(double *cells, const void *of, rs_random *random,
                          const rs_context *context, rs_error *err)
{
    (void)of;
    for (int way = 0; way < WAYS; way++)
        RS_TRY(see_way(cells, way, false, random, context, err));
    return see_way(cells, SAS, true, random, context, err);
}

/* ---- what came out ---- */

static const rs_column point_columns[] = RS_LAB_POINTS(
    RS_LAB_X_STATE, RS_LAB_Y("cosine", "mean cosine of tokens", "over pairs of different tokens"));
static const rs_table_kind table_kind = {"lab", "sas_at_init", {RS_PART(point_columns)}};
static const rs_lab_curves curves = {
    .kind = &table_kind,
    .title = "Simplified blocks at their start",
    .about = "Mean cosine of tokens by layer at the start of simplified attention blocks (no skip "
             "around attention, W_V = W_O = I, W_Q = 0), with attention shaped and not, and of "
             "pre-norm blocks with branches over √L.",
};

static double largest(const rs_draws *draws, int32_t cell)
{
    double most = 0;
    for (int32_t i = 0; i < draws->draws; i++)
        most = fmax(most, draws->of[(size_t)i * CELLS + (size_t)cell]);
    return most;
}

static rs_status claim_facts(rs_lab_report *report, const rs_draws *draws, rs_error *err)
{
    /* P and C are sums of at most N terms of 1/N; the norm's are sums of D */
    RS_TRY(rs_lab_at_most(report, "SAS: largest |A - I|, all heads, masked and not",
                          largest(draws, MATRIX), N * DBL_EPSILON, err));
    RS_TRY(rs_lab_at_most(report, "SAS: largest |attention(norm X) - norm X|",
                          largest(draws, BRANCH), D * 8 * DBL_EPSILON, err));
    RS_TRY(rs_lab_at_most(report, "SAS: largest squared gradient of keys, W_Q = 0",
                          largest(draws, KEYS), 0, err));
    return rs_lab_at_most(report, "SAS: 1 over the least squared gradient of queries",
                          largest(draws, QUERIES), 1e6, err);
}

/* Weights of a block at width d: attention and an MLP of 4 d, without W_V and W_O where simplified. */
static rs_status claim_parameters(rs_lab_report *report, rs_error *err)
{
    double d = 768, layers = 18, words = 50000, whole = 12 * d * d, less = 10 * d * d;
    double saved = 1 - (layers * less + words * d) / (layers * whole + words * d);
    const rs_lab_claim claim = {"18 layers of 768, 50000 words: share of parameters saved",
                                0.13,
                                0.128069,
                                saved,
                                5e-3, /* half a unit of the printed percent */
                                false,
                                true};
    return rs_lab_add_claim(report, &claim, err);
}

static rs_status write_up(rs_lab_report *report, const rs_draws *draws, rs_error *err)
{
    char text[160];
    rs_table *table = NULL;
    RS_TRY(rs_lab_curves_open(&table, report, &curves, err));
    for (int way = 0; way < WAYS; way++)
        for (int l = 0; l < STATES; l++)
            RS_TRY(rs_lab_curves_add(table, names[way], l,
                                     rs_draws_seen(draws, way * STATES + l).mean, err));
    for (int way = 0; way < WAYS; way++)
        for (int end = way != PLAIN; end < 2; end++) {
            snprintf(text, sizeof text, "%s: %smean cosine behind layer %d", names[way],
                     way == PLAIN ? "1 less " : "", end ? DEPTH : 1);
            rs_seen seen = rs_draws_seen(draws, way * STATES + (end ? DEPTH : 1));
            /* not shaped, W_Q = 0: uniform attention leaves one token, to rounding */
            RS_TRY(way == PLAIN
                       ? rs_lab_at_most(report, text, fabs(1 - seen.mean), N * D * DBL_EPSILON, err)
                       : rs_lab_seen(report, text, awaited[0][way / 2], 0, seen, err));
        }
    rs_seen sas = rs_draws_seen(draws, SAS * STATES + DEPTH);
    rs_seen plain = rs_draws_seen(draws, PLAIN * STATES + DEPTH);
    RS_TRY(rs_lab_order(report, "not shaped: tokens are nearer, cosine by", plain.mean - sas.mean,
                        hypot(plain.error, sas.error), err));
    RS_TRY(claim_facts(report, draws, err));
    return claim_parameters(report, err);
}

static rs_status run_sas_at_init(rs_lab_report *report, const rs_lab_options *options,
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
    return rs_lab_say_quick(report, "16 networks of each kind instead of 64", err);
}

const rs_lab_experiment rs_lab_sas_at_init = {
    "sas-at-init",
    "Simplified blocks at their start",
    "He and Hofmann 2024, SAS at initialisation",
    "Blocks without attention skips, value and output matrices, with shaped attention and W_Q = 0: "
    "that attention is the identity, which gradients are 0, and how near tokens come in 18 layers. "
    "He, Hofmann, ICLR 2024 (arXiv 2311.01906).",
    run_sas_at_init,
    "1 s",
    "< 1 s",
    &table_kind,
    0};
