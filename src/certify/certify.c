/* certify.c: norms, pass, certificates, tables: one network. */
#include "certify/certify.h"

#include "base/memory.h"
#include "certify/certify_gather.h"
#include "certify/certify_parts.h"
#include "certify/certify_recommend.h"
#include "certify/certify_steps.h"
#include "network/op_traits.h"

#include <math.h>
#include <string.h>

void rs_certify_defaults(rs_certify_options *options)
{
    *options = (rs_certify_options){.kept = 0.9};
    rs_edit_init(&options->edit);
}

struct rs_certifying {
    rs_certify_scene scene;
    rs_network *network; /* edited copy */
    rs_weight_norms *norms;
    rs_certify_hearing heard;
    rs_certify_steps *steps; /* NULL: none were asked for */
    rs_certified certified;
    /* workspace */
    rs_head_bound *heads;
    rs_head_sums *sums;
    double *slack, *chains_before;
    rs_certify_layer *layers;
    rs_published_row *published;
};

static size_t most_heads(const rs_network *network)
{
    size_t most = 1;
    for (int32_t l = 0; l < network->n_layers; l++)
        for (int32_t b = 0; b < network->layers[l].n_branches; b++) {
            const rs_branch *branch = &network->layers[l].branches[b];
            size_t matrices = (size_t)rs_branch_proved_heads(branch);
            if (matrices > most) most = matrices;
        }
    return most;
}

static rs_status open_rows(rs_certifying *w, int64_t samples, rs_error *err)
{
    size_t heads = most_heads(w->network), layers = (size_t)w->network->n_layers;
    rs_certified *c = &w->certified;
    w->heads = rs_calloc(heads, sizeof *w->heads);
    w->sums = rs_calloc(heads, sizeof *w->sums);
    w->slack = rs_calloc(heads, sizeof *w->slack);
    w->chains_before = rs_calloc(layers * layers, sizeof *w->chains_before);
    w->layers = rs_calloc(layers, sizeof *w->layers);
    w->published = rs_calloc(layers, sizeof *w->published);
    c->rows = rs_calloc((size_t)samples * layers, sizeof *c->rows);
    c->chains = rs_calloc(layers * layers, sizeof *c->chains);
    c->weight_chains = rs_calloc(layers * layers, sizeof *c->weight_chains);
    if (!w->heads || !w->sums || !w->slack || !w->chains_before || !w->layers || !w->published ||
        !c->rows || !c->chains || !c->weight_chains)
        return rs_fail_memory(err, "certificates", (size_t)samples * layers * sizeof *c->rows);
    for (size_t i = 0; i < layers * layers; i++)
        c->chains[i] = c->weight_chains[i] = NAN;
    c->network = w->network;
    c->samples = samples;
    c->options = w->scene.options;
    return RS_OK;
}

static double largest_tau(const rs_certify_pass *pass, int64_t s, int32_t l)
{
    const rs_layer *layer = &pass->network->layers[l];
    double most = NAN;
    for (int32_t b = 0; b < layer->n_branches; b++) {
        const rs_branch *branch = &layer->branches[b];
        if (branch->scale == 0) continue;
        const rs_certify_head *heads = rs_pass_heads(pass, s, l, b);
        for (int32_t h = 0; h < rs_branch_proved_heads(branch); h++)
            most = fmax(most, heads[h].tau);
    }
    return most;
}

/* Tokens twice as far apart as was proved are so by rounding: a norm behind a sum that cancels can
 * lift it above the floor of a state. True: there are some that were not marked yet. */
static bool mark_refuted(rs_certifying *w, int64_t s)
{
    bool any = false;
    for (int32_t l = 0; l < w->network->n_layers; l++) {
        const rs_certificate *best = &w->layers[l].best;
        rs_certify_state *state = &w->heard.pass->states[s * (w->network->n_layers + 1) + l + 1];
        if (best->failed || best->condition || state->at_floor) continue;
        if (!(state->diameter > 2 * best->upper)) continue;
        any = state->at_floor = true;
    }
    return any;
}

static void certify_sample(rs_certifying *w, int64_t s, const rs_chain_options *options)
{
    size_t bytes = (size_t)w->network->n_layers * (size_t)w->network->n_layers * sizeof(double);
    double *chains = w->certified.chains;
    memcpy(w->chains_before, chains, bytes);
    rs_certify_chains(w->layers, chains, w->heard.pass, w->norms, s, options, w->heads, w->slack);
    if (!mark_refuted(w, s)) return;
    memcpy(chains, w->chains_before, bytes); /* such states are none to start from */
    rs_certify_chains(w->layers, chains, w->heard.pass, w->norms, s, options, w->heads, w->slack);
}

static void fill_sample(rs_certifying *w, int64_t s)
{
    rs_certified *c = &w->certified;
    int32_t layers = w->network->n_layers;
    const rs_chain_options chain = {w->scene.options->rigorous, false, rs_bounds_exact};
    const rs_chain_options weights = {w->scene.options->rigorous, true, rs_bounds_exact};
    if (w->heard.pass->tokens[s] == 0) return;
    certify_sample(w, s, &chain);
    rs_certify_chains(NULL, c->weight_chains, w->heard.pass, w->norms, s, &weights, w->heads,
                      w->slack);
    rs_certify_published(w->published, w->heard.pass, w->norms, s, w->sums, w->slack, &chain);
    for (int32_t l = 0; l < layers; l++)
        c->rows[s * layers + l] = (rs_certify_row){
            .sample = s,
            .tokens = w->heard.pass->tokens[s],
            .layer = l,
            .in = rs_pass_state(w->heard.pass, s, l),
            .out = rs_pass_state(w->heard.pass, s, l + 1),
            .certificate = w->layers[l],
            .published = w->published[l],
            .predicted = *rs_certify_predict_row(w->heard.predict, s, l),
            .rate = rs_certify_rate(w->heard.pass, rs_certify_predict_row(w->heard.predict, s, l),
                                    s, l),
            .equal_input = rs_pass_state(w->heard.pass, s, 0)->equal,
            .tau = largest_tau(w->heard.pass, s, l),
            .mlp = rs_certify_slope_of(w->heard.pass, w->norms, s, l),
        };
}

static rs_status fill_rows(rs_certifying *w, int64_t samples, rs_error *err)
{
    RS_TRY(open_rows(w, samples, err));
    for (int64_t s = 0; s < samples; s++) {
        RS_TRY(rs_check_cancelled(w->scene.context, err));
        fill_sample(w, s);
    }
    return RS_OK;
}

/* What the chain of one layer says; what its mixer keeps where that says nothing. */
static rs_certify_least least_apart(const rs_certifying *w, const rs_certificate *one, int64_t s,
                                    int32_t l)
{
    rs_certify_least least = {one->lower, one->log_lower, NULL, one->condition, one->failed}, other;
    if (one->lower > 0) least.by = one->enclosed ? "enclosure" : "skip";
    if (!one->failed || !rs_certify_least_by_mixer(&other, w->heard.lambda, s, l)) return least;
    return other;
}

static void set_apart(rs_certifying *w)
{
    rs_certified *c = &w->certified;
    for (int64_t i = 0; i < c->samples * w->network->n_layers; i++) {
        rs_certify_row *row = &c->rows[i];
        if (row->tokens)
            row->apart = least_apart(w, &row->certificate.one_step, row->sample, row->layer);
    }
}

static rs_status set_meta(rs_result *result, const rs_certifying *w, const rs_inputs *inputs,
                          rs_error *err)
{
    json_t *inputs_meta =
        json_pack("{s:s, s:I, s:I, s:I, s:I}", "kind", inputs->kind, "samples",
                  (json_int_t)inputs->samples, "tokens", (json_int_t)inputs->begin[inputs->samples],
                  "longest", (json_int_t)inputs->longest, "shortest", (json_int_t)inputs->shortest);
    RS_TRY(rs_result_set_meta(result, "inputs", inputs_meta, err));
    bool rigorous = w->scene.options->rigorous;
    json_t *run =
        json_pack("{s:s, s:b, s:s, s:s}", "precision", "f64", "rigorous", rigorous ? 1 : 0,
                  "rigorous_because",
                  rigorous ? "what hangs on a condition is left out" : "asked for: --fast",
                  "margin", "proved error bounds");
    return rs_result_set_meta(result, "run", run, err);
}

/* Tokens or keys of a mixing matrix, at most. */
static int64_t widest_matrix(const rs_inputs *inputs)
{
    int64_t most = inputs->longest;
    for (int64_t s = 0; inputs->memory_begin && s < inputs->samples; s++) {
        int64_t keys = inputs->memory_begin[s + 1] - inputs->memory_begin[s];
        if (keys > most) most = keys;
    }
    return most;
}

static rs_status open_certifying(rs_certifying *w, const rs_network *network, rs_error *err)
{
    RS_TRY(rs_network_copy(&w->network, network, err));
    RS_TRY(rs_edit_apply(w->network, &w->scene.options->edit, err));
    if (rs_edit_cuts_attention(&w->scene.options->edit))
        return rs_fail(err, RS_E_UNSUPPORTED, "attention-rank", NULL,
                       "nothing is proved of attention that is cut to a lower rank");
    RS_TRY(rs_weight_norms_open(&w->norms, w->network, w->scene.context, err));
    w->scene.network = w->network;
    w->scene.norms = w->norms;
    w->scene.capacity = rs_pass_capacity(w->network, RS_PRECISION_F64, w->scene.inputs,
                                         w->scene.options->batch, w->scene.context);
    RS_TRY(rs_certify_hearing_open(&w->heard, &w->scene, true, err));
    if (w->scene.options->n_steps == 0) return RS_OK;
    RS_TRY(rs_certify_steps_open(&w->steps, &w->scene, err));
    w->heard.guest = rs_certify_steps_listener(w->steps);
    return RS_OK;
}

rs_status rs_certify_open(rs_certifying **out, const rs_network *network, const rs_inputs *inputs,
                          const rs_certify_options *options, const rs_context *context,
                          rs_error *err)
{
    rs_certifying *w = rs_calloc(1, sizeof *w);
    *out = w;
    if (!w) return rs_fail_memory(err, "certificates", sizeof *w);
    w->scene = (rs_certify_scene){
        .inputs = inputs, .options = options, .context = context, .widest = widest_matrix(inputs)};
    rs_status status = open_certifying(w, network, err);
    if (status == RS_OK) return RS_OK;
    rs_certify_close(w);
    *out = NULL;
    return status;
}

void rs_certify_listeners(rs_listener *out[RS_CERTIFY_LISTENERS], const rs_certifying *w)
{
    rs_certify_hearing_listeners(out, &w->heard);
}

rs_status rs_certify_run(const rs_certifying *w, rs_error *err)
{
    return rs_certify_hear(&w->heard, NULL, err);
}

rs_status rs_certify_finish(rs_result *result, rs_certifying *w, rs_error *err)
{
    const rs_inputs *inputs = w->scene.inputs;
    RS_TRY(rs_certify_mark_floor(w->heard.pass, err));
    RS_TRY(fill_rows(w, inputs->samples, err));
    RS_TRY(
        rs_certify_lambda_finish(w->heard.lambda, err)); /* reads floors that chains have marked */
    set_apart(w);
    if (!w->scene.options->beside) RS_TRY(set_meta(result, w, inputs, err));
    RS_TRY(rs_certify_tables(result, &w->certified, err));
    RS_TRY(rs_certify_lambda_table(result, w->heard.lambda, err));
    RS_TRY(rs_certify_demands_table(result, w->heard.lambda, err));
    RS_TRY(rs_certify_findings(result, &w->certified, err));
    RS_TRY(rs_certify_lambda_findings(result, w->heard.lambda, err));
    if (w->steps) RS_TRY(rs_certify_steps_finish(result, w->steps, err));
    if (!w->scene.options->beside) {
        RS_TRY(rs_input_texts_table(result, inputs, err));
        RS_TRY(rs_result_add_notes(result, &inputs->notes, err));
        RS_TRY(rs_result_add_notes(result, &w->network->notes, err));
    }
    RS_TRY(rs_certify_figures(result, &w->certified, err));
    return RS_OK;
}

void rs_certify_close(rs_certifying *w)
{
    if (!w) return;
    rs_free(w->heads);
    rs_free(w->sums);
    rs_free(w->slack);
    rs_free(w->chains_before);
    rs_free(w->layers);
    rs_free(w->published);
    rs_free(w->certified.rows);
    rs_free(w->certified.chains);
    rs_free(w->certified.weight_chains);
    rs_certify_steps_close(w->steps);
    rs_certify_hearing_close(&w->heard);
    rs_weight_norms_close(w->norms);
    rs_network_close(w->network);
    rs_free(w);
}

rs_status rs_certify(rs_result *result, const rs_network *network, const rs_inputs *inputs,
                     const rs_certify_options *options, const rs_context *context, rs_error *err)
{
    rs_certifying *w;
    RS_TRY(rs_certify_open(&w, network, inputs, options, context, err));
    rs_status status = rs_certify_run(w, err);
    if (status == RS_OK) status = rs_certify_finish(result, w, err);
    if (status == RS_OK && options->recommend > 0)
        status = rs_certify_recommend(result, &w->scene, err);
    rs_certify_close(w);
    return status;
}

rs_status rs_certify_path(rs_result *result, rs_input_files *inputs,
                          const rs_certify_request *request, const rs_context *context,
                          rs_error *err)
{
    rs_opened o = {0};
    rs_open_request open = {.lent = request->lent,
                            .path = request->path,
                            .init = request->init,
                            .lenient = request->lenient,
                            .source = request->options.source,
                            .need = rs_certify_need,
                            .options = &request->options};
    rs_status status = rs_opened_open(&o, result, inputs, &open, context, err);
    if (status == RS_OK)
        status = rs_certify(result, o.network, o.inputs, &request->options, context, err);
    if (status == RS_OK) status = rs_verify_checkpoint(result, o.checkpoint, err);
    rs_opened_close(&o);
    return status;
}
