/* lambda_figures.c: stacks of random Mamba-2 layers, sweeps of them and of a model, and the claims. */
#include "lab/lambda_figures.h"

#include "base/memory.h"
#include "network/op_traits.h"

#include <math.h>
#include <stdio.h>

enum { SIZE = RS_STRENGTHS_SIZE, HEADS = 8, STATE = 16, INNER = 2 * SIZE, TAPS = 4 };
enum { IN = 2 * INNER + 2 * STATE + HEADS, CHANNELS = INNER + 2 * STATE };
enum { TAG_TOKENS = 1990, TAG_WEIGHTS = 2000 }; /* of a layer: + 10 layer */
static const double exact_eps = 1e-12, common_share = 0.5;

/* ---- random weights ---- */

/* Logarithms of rates uniform in (1, 16), as Mamba-2 begins; architecture files have 1, 2, .... */
static rs_status draw_rates(rs_toy *toy, uint64_t seed, rs_error *err)
{
    rs_random random = rs_random_new(seed, 0x6d616d626132);
    for (int32_t l = 0; l < SIZE; l++) {
        double rates[HEADS];
        for (int h = 0; h < HEADS; h++)
            rates[h] = log(1 + 15 * rs_random_uniform(&random));
        rs_ssd_op *op = &toy->network->layers[l].branches[0].ssd;
        RS_TRY(rs_toy_tensor(&op->a_log, toy, rates, 1, HEADS, err));
    }
    return RS_OK;
}

rs_status rs_strengths_mamba2(rs_toy *toy, const char *norm, uint64_t seed,
                              const rs_context *context, rs_error *err)
{
    static const char *const law = "uniform(-1/sqrt(fan_in), 1/sqrt(fan_in))";
    json_t *arch = json_pack("{s:i, s:i, s:s, s:i, s:i, s:i, s:i, s:s, s:s, s:s, s:{s:s, s:s}}",
                             "depth", SIZE, "d_model", SIZE, "mixer", "mamba2", "heads", HEADS,
                             "d_head", INNER / HEADS, "state", STATE, "conv", TAPS, "norm", norm,
                             "norm_kind", "rmsnorm", "mlp", "none", "init", "win", law, "wo", law);
    RS_TRY(rs_toy_open(toy, arch, seed, context, err));
    for (int32_t l = 0; l < SIZE; l++) {
        rs_branch *branch = &toy->network->layers[l].branches[0];
        branch->before.eps = branch->after.eps = branch->ssd.norm.eps = exact_eps;
    }
    rs_status status = draw_rates(toy, seed, err);
    if (status != RS_OK) rs_toy_close(toy);
    return status;
}

/* Numbers in [middle - scale, middle + scale), a hash of tag and index. */
static void hashed(double *out, uint32_t tag, uint32_t count, double scale, double middle)
{
    for (uint32_t i = 0; i < count; i++)
        out[i] = middle + scale * (rs_lab_hash(tag, i) / 2147483648.0 - 1);
}

static rs_status hash_layer(rs_toy *toy, int32_t layer, double *w, rs_error *err)
{
    rs_ssd_op *op = &toy->network->layers[layer].branches[0].ssd;
    uint32_t tag = TAG_WEIGHTS + 10 * (uint32_t)layer;
    hashed(w, tag, SIZE * IN, 1 / sqrt(SIZE), 0);
    RS_TRY(rs_toy_set(toy, &op->in, w, NULL, err));
    hashed(w, tag + 1, CHANNELS * TAPS, 0.5, 0);
    RS_TRY(rs_toy_tensor(&op->conv.weight, toy, w, CHANNELS, TAPS, err));
    hashed(w, tag + 2, HEADS, 1, -4);
    RS_TRY(rs_toy_tensor(&op->dt_bias, toy, w, 1, HEADS, err));
    hashed(w, tag + 3, HEADS, 7.5, 8.5);
    for (int h = 0; h < HEADS; h++)
        w[h] = log(w[h]);
    RS_TRY(rs_toy_tensor(&op->a_log, toy, w, 1, HEADS, err));
    hashed(w, tag + 4, INNER * SIZE, 1 / sqrt(INNER), 0);
    return rs_toy_set(toy, &op->o, w, NULL, err);
}

rs_status rs_strengths_hash_weights(rs_toy *toy, rs_error *err)
{
    rs_status status = RS_OK;
    double *w = rs_malloc((size_t)SIZE * IN, sizeof *w);
    if (!w) return rs_fail_memory(err, "weights of an experiment", SIZE * IN * sizeof *w);
    for (int32_t l = 0; l < SIZE && status == RS_OK; l++)
        status = hash_layer(toy, l, w, err);
    rs_free(w);
    return status;
}

/* Adds what all tokens share, and brings rows to length sqrt(d). */
static void finish_tokens(double *x, const double *common)
{
    for (int i = 0; i < SIZE; i++, x += SIZE) {
        for (int k = 0; k < SIZE; k++)
            x[k] += common[k];
        double length = rs_norm_frobenius(x, 1, SIZE) / sqrt(SIZE);
        for (int k = 0; k < SIZE; k++)
            x[k] /= length;
    }
}

void rs_strengths_tokens(double *x, rs_random *random)
{
    double common[SIZE];
    rs_draw_gaussian(common, SIZE, common_share, random);
    rs_draw_gaussian(x, SIZE * SIZE, 1, random);
    finish_tokens(x, common);
}

void rs_strengths_hash_tokens(double *x)
{
    double common[SIZE];
    hashed(x, TAG_TOKENS, SIZE * SIZE, 1, 0);
    hashed(common, TAG_TOKENS + 1, SIZE, common_share, 0);
    finish_tokens(x, common);
}

uint64_t rs_strengths_seed(const rs_context *context, int32_t draw)
{
    return context->seed + ((uint64_t)(draw + 1) << 32);
}

/* ---- sweeps ---- */

static rs_status run_sweep(rs_strengths_states *states, const rs_network *network,
                           rs_weights *weights, const rs_inputs *inputs, rs_precision precision,
                           const rs_context *context, rs_error *err)
{
    rs_sweep_spec *spec = &states->spec;
    rs_probe_options options;
    size_t count = (size_t)spec->n * ((size_t)network->n_layers + 1);
    rs_probe_defaults(&options);
    options.measure.precision = precision;
    options.edit.no_inner_norm = states->no_inner_norm;
    if (!spec->of) spec->of = "";
    states->settings =
        (spec->gate == RS_SWEEP_BOTH ? 2 : 1) * (spec->norm == RS_SWEEP_BOTH ? 2 : 1);
    states->layers = network->n_layers;
    RS_TRY(rs_check_cancelled(context, err));
    states->states = rs_malloc((size_t)states->settings * count, sizeof *states->states);
    if (!states->states) return rs_fail_memory(err, "states", count * sizeof *states->states);
    rs_status status = rs_sweep_states(states->states, &states->account, network, weights, inputs,
                                       spec, &options, context, err);
    if (status != RS_OK) rs_strengths_close(states);
    return status;
}

rs_status rs_strengths_run_toy(rs_strengths_states *states, rs_toy *toy, const double *x,
                               int64_t tokens, rs_error *err)
{
    int64_t begin[] = {0, tokens};
    double *rows = rs_malloc((size_t)(tokens * toy->network->d_model), sizeof *rows);
    if (!rows) return rs_fail_memory(err, "the tokens of an experiment", (size_t)tokens);
    for (int64_t i = 0; i < tokens * toy->network->d_model; i++)
        rows[i] = x[i];
    const rs_inputs inputs = {.kind = "random",
                              .samples = 1,
                              .begin = begin,
                              .states = rows,
                              .d_model = toy->network->d_model,
                              .longest = tokens,
                              .shortest = tokens};
    rs_status status = run_sweep(states, toy->network, toy->weights, &inputs, RS_PRECISION_F64,
                                 &toy->context, err);
    rs_free(rows);
    return status;
}

/* In the precision of `probe`, which the sweep leaves where |skip|^layers needs more. */
rs_status rs_strengths_run_model(rs_strengths_states *states, const rs_lab_model *model,
                                 const rs_context *context, rs_error *err)
{
    return run_sweep(states, model->network, NULL, model->inputs, RS_PRECISION_F32, context, err);
}

void rs_strengths_close(rs_strengths_states *states)
{
    rs_free(states->states);
    states->states = NULL;
}

double rs_strengths_left(const rs_strengths_states *states, int32_t setting, int32_t point,
                         int32_t layer)
{
    int64_t at = (int64_t)setting * states->spec.n + point;
    return states->states[at * (states->layers + 1) + layer].relative;
}

bool rs_strengths_gated(const rs_network *network)
{
    for (int32_t l = 0; l < network->n_layers; l++)
        for (int32_t b = 0; b < network->layers[l].n_branches; b++) {
            rs_branch branch = network->layers[l].branches[b];
            const rs_op_traits *traits = rs_branch_traits(&branch);
            if (traits->drop_gate && traits->drop_gate(&branch)) return true;
        }
    return false;
}

/* ---- claims ---- */

rs_status rs_strengths_expect(rs_lab_report *report, const char *text, const double expected[2],
                              double mean, int32_t draws, double rounding, rs_error *err)
{
    double tolerance = 4 * expected[1] * sqrt(1.0 / draws + 1.0 / RS_STRENGTHS_ORACLE_DRAWS);
    return rs_lab_expect(report, text, expected[0], mean, tolerance + rounding, err);
}

rs_strengths_judge rs_strengths_judge_of(rs_lab_report *report, const rs_lab_model *model)
{
    bool trained = model && model->trained;
    return (rs_strengths_judge){.report = report, .reason = trained ? NULL : "random weights"};
}

rs_status rs_strengths_published(rs_strengths_judge *judge, const char *text, double published,
                                 double measured, double tolerance, rs_error *err)
{
    const rs_lab_claim claim = {text, published, NAN, measured, tolerance, false, false};
    const char *reason = judge->reason;
    if (!reason && !isfinite(measured)) reason = "the states are not finite";
    if (!reason) return rs_lab_add_claim(judge->report, &claim, err);
    judge->skipped++;
    return rs_lab_skip_claim(judge->report, &claim, reason, err);
}

static rs_status say_skipped(const rs_strengths_judge *judge, rs_error *err)
{
    char message[240];
    if (judge->skipped == 0) return RS_OK;
    snprintf(message, sizeof message, "%s: %d published claim%s skipped: %s",
             judge->report->experiment, (int)judge->skipped, judge->skipped == 1 ? " is" : "s are",
             judge->reason ? judge->reason : "see column reason");
    rs_finding finding = rs_finding_of(RS_INFO, "not_measured");
    finding.message = message;
    finding.hint = "--model PATH judges them on a checkpoint";
    return rs_result_add_finding(judge->report->result, &finding, err);
}

rs_status rs_strengths_say(rs_strengths_judge *judge, const rs_lab_options *options, rs_error *err)
{
    RS_TRY(say_skipped(judge, err));
    if (!options->quick) return RS_OK;
    return rs_lab_say_quick(judge->report,
                            options->model ? "4 windows of tokens instead of 32"
                                           : "8 draws of weights instead of 16",
                            err);
}
