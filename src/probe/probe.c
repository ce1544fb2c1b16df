/* probe.c: every variant of a network over the same inputs, into one result. */
#include "probe/probe.h"

#include "base/memory.h"
#include "observe/store.h"
#include "probe/probe_parts.h"
#include "probe/probe_ranks.h"
#include "probe/probe_sweep.h"

#include <math.h>
#include <string.h>

void rs_probe_defaults(rs_probe_options *options)
{
    *options = (rs_probe_options){.thresholds = {.token_collapse = 0.1,
                                                 .slow_collapse = 0.5,
                                                 .attention_sink = 0.5,
                                                 .uniform_attention = 0.98,
                                                 .condensed_attention = 0.05,
                                                 .low_rank_attention = 0.25,
                                                 .attention_rank = 0.01,
                                                 .vanishing_qk_gradient = 1e-6,
                                                 .gradient_imbalance = 1e3}};
    rs_measure_defaults(&options->measure);
    options->measure.mixing = RS_MIXING_TOLD;
    rs_edit_init(&options->edit);
}

const char *rs_probe_precision_name(rs_precision precision)
{
    static const char *const names[RS_PRECISIONS] = {"f32", "f64", "residual"};
    return names[precision];
}

size_t rs_probe_main_variant(const rs_probed *variants, size_t n)
{
    for (size_t v = 0; v < n; v++)
        if (rs_probe_is_itself(variants[v].name)) return v;
    return 0;
}

/* ---- what runs ---- */

typedef struct work {
    rs_result *result;
    const rs_network *network;
    const rs_inputs *inputs;
    const rs_tokenizer *tokenizer;
    const rs_probe_options *options;
    const rs_input_files *files;
    rs_probe_guests *guests; /* or NULL */
    const rs_context *context;
    rs_weights *weights;
    rs_arena *arena;
    rs_variant *variants;
    rs_network **networks; /* edited copies */
    rs_map_keeper **keepers;
    rs_probed *probed;
    size_t n, main;
    rs_last_states last;  /* of the first variant, where others have attention of lower rank */
    rs_targets targets;   /* of gradients */
    rs_targets explained; /* by relevance */
    int32_t stand_in;     /* of its removal curves; -1: there are none */
    rs_store *output, *taps;
    rs_pass_account swept; /* all passes of the sweep */
} work;

/* The model as it is comes first, in the tables and in the legends, wherever the list has it. */
static void put_full_first(work *w)
{
    size_t at = 0;
    while (at < w->n && !rs_probe_is_itself(w->variants[at].name))
        at++;
    if (at == 0 || at == w->n) return;
    rs_variant full = w->variants[at];
    memmove(w->variants + 1, w->variants, at * sizeof *w->variants);
    w->variants[0] = full;
}

static rs_status list_variants(work *w, rs_error *err)
{
    const rs_probe_options *o = w->options;
    w->arena = rs_arena_new();
    if (!w->arena) return rs_fail_memory(err, "variants", 0);
    if (o->variants) {
        RS_TRY(rs_variants_parse(&w->variants, &w->n, o->variants, &o->edit, w->arena, err));
        put_full_first(w);
    } else {
        w->variants = rs_arena_alloc(w->arena, 1, sizeof *w->variants);
        if (!w->variants) return rs_fail_memory(err, "variants", 0);
        *w->variants = (rs_variant){.name = o->edited ? "edited" : "full", .edit = o->edit};
        w->n = 1;
    }
    if (!o->ranks) return RS_OK;
    return rs_probe_rank_variants(&w->variants, &w->n, o->ranks, &o->edit, w->arena, err);
}

/* All variants are edited before the first one runs: a wrong one is refused at once. */
static rs_status edit_networks(work *w, rs_error *err)
{
    w->networks = rs_calloc(w->n, sizeof *w->networks);
    w->keepers = rs_calloc(w->n, sizeof(rs_map_keeper *));
    w->probed = rs_calloc(w->n, sizeof *w->probed);
    if (!w->networks || !w->keepers || !w->probed) return rs_fail_memory(err, "variants", 0);
    for (size_t v = 0; v < w->n; v++) {
        RS_TRY(rs_network_copy(&w->networks[v], w->network, err));
        RS_TRY(rs_edit_apply(w->networks[v], &w->variants[v].edit, err));
        w->probed[v] = (rs_probed){.name = w->variants[v].name,
                                   .network = w->networks[v],
                                   .edit = &w->variants[v].edit,
                                   .distance = NAN};
        if (w->options->n_maps == 0) continue;
        RS_TRY(rs_map_keeper_open(&w->keepers[v], w->options->maps, w->options->n_maps,
                                  w->networks[v], err));
        w->probed[v].maps = w->keepers[v];
    }
    w->main = rs_probe_main_variant(w->probed, w->n);
    if (!w->options->generate) return RS_OK;
    return rs_probe_check_generate(w->networks[w->main], w->inputs, w->options->generate, err);
}

/* Each variant must be able to have the loss, before the first one runs. */
static rs_status find_targets(work *w, rs_error *err)
{
    rs_loss_request request = w->options->loss;
    if (!w->options->grad) return RS_OK;
    request.seed = w->context->seed;
    RS_TRY(
        rs_targets_open(&w->targets, &request, w->networks[w->main], w->inputs, w->tokenizer, err));
    for (size_t v = 0; v < w->n; v++)
        RS_TRY(rs_targets_check(&w->targets, w->networks[v], err));
    return RS_OK;
}

static rs_status find_explained(work *w, rs_error *err)
{
    if (!w->options->relevance) return RS_OK;
    if (w->network->read_out.kind != RS_FUSION_NONE)
        return rs_fail(
            err, RS_E_UNSUPPORTED, "--relevance", "ask for gradients (--grad)",
            "the head reads the states of all layers together (\"fusion\"): what the last "
            "state hands on is a part of the output alone, and no layer conserves it");
    w->stand_in = w->inputs->ids ? rs_targets_stand_in(w->network, w->tokenizer) : -1;
    return rs_targets_explain(&w->explained, w->options->explained, w->networks[w->main], w->inputs,
                              err);
}

static rs_status open_stores(work *w, rs_error *err)
{
    const rs_probe_options *o = w->options;
    const rs_network *network = w->networks[w->main];
    rs_precision precision = o->measure.precision;
    if (o->output)
        RS_TRY(rs_store_open_output(&w->output, o->output, network, w->inputs, precision, w->files,
                                    err));
    if (o->taps)
        RS_TRY(rs_store_open_taps(&w->taps, o->taps, network, w->inputs, precision, o->maps,
                                  o->n_maps, w->files, err));
    return RS_OK;
}

/* Whether variant v is the model with the edits of all variants alone. */
static bool is_base(const work *w, size_t v)
{
    return w->options->variants ? rs_probe_is_itself(w->variants[v].name) : v == 0;
}

/* Whoever listens to variant v beside the measures. */
static size_t listeners_of(rs_listener *listeners[RS_MEASURE_GUESTS], work *w, size_t v)
{
    size_t n = 0;
    rs_store *stores[] = {w->output, w->taps};
    if (w->keepers[v]) listeners[n++] = &w->keepers[v]->listener;
    for (size_t i = 0; i < 2 && v == w->main; i++)
        if (stores[i]) listeners[n++] = &stores[i]->listener;
    if (w->last.kept) listeners[n++] = &w->last.listener;
    for (size_t i = 0; w->guests && is_base(w, v) && i < w->guests->n; i++)
        listeners[n++] = w->guests->listeners[i];
    return n;
}

static rs_status run_variant(work *w, size_t v, rs_error *err)
{
    rs_listener *listeners[RS_MEASURE_GUESTS];
    size_t n = listeners_of(listeners, w, v);
    rs_measure_options options = w->options->measure;
    uint64_t rows = (uint64_t)w->inputs->begin[w->inputs->samples];
    options.phase = w->variants[v].name;
    options.fusion = w->variants[v].edit.fusion;
    if (options.fusion == RS_FUSION_NONE) options.fusion = w->networks[v]->fusion;
    options.done = v * rows;
    options.total = w->n * rows;
    const rs_gradient_request gradient = {.targets = &w->targets,
                                          .recompute = w->options->back.recompute,
                                          .hold = w->options->back.hold};
    if (w->options->grad) options.gradient = &gradient;
    if (w->last.kept) rs_last_states_begin(&w->last, v == 0);
    RS_TRY(rs_measure_network(&w->probed[v].measured, w->networks[v], w->weights, w->inputs,
                              &options, listeners, n, w->context, err));
    if (w->last.kept && v > 0) w->probed[v].distance = rs_last_states_distance(&w->last);
    if (w->guests && is_base(w, v)) w->guests->heard = true;
    return RS_OK;
}

static rs_status explain_variant(work *w, size_t v, rs_error *err)
{
    uint64_t rows = (uint64_t)w->inputs->begin[w->inputs->samples];
    const rs_relevance_request request = {.targets = &w->explained,
                                          .precision = w->options->measure.precision,
                                          .recompute = w->options->back.recompute,
                                          .batch = w->options->measure.batch,
                                          .stand_in = w->stand_in,
                                          .seed = w->context->seed,
                                          .phase = "relevance",
                                          .done = v * rows,
                                          .total = w->n * rows};
    return rs_relevance_run(&w->probed[v].relevance, w->networks[v], w->weights, w->inputs,
                            &request, w->context, err);
}

/* The untrained twin of a variant, over the same inputs. */
static rs_status run_twin(work *w, size_t v, rs_error *err)
{
    rs_network *twin = NULL;
    rs_measured *measured = NULL;
    rs_weights *weights = NULL;
    rs_measure_options options = w->options->measure;
    options.phase = "untrained twin";
    options.tokens = options.loss = false;
    options.mixing = RS_MIXING_NONE;
    rs_status status = rs_network_copy(&twin, w->options->twin, err);
    if (status == RS_OK) status = rs_edit_apply(twin, &w->variants[v].edit, err);
    if (status == RS_OK)
        status = rs_weights_open(&weights, options.precision, rs_weight_limit(w->context), err);
    if (status == RS_OK)
        status = rs_measure_network(&measured, twin, weights, w->inputs, &options, NULL, 0,
                                    w->context, err);
    if (status == RS_OK) rs_measured_take_null(w->probed[v].measured, measured);
    rs_measured_free(measured);
    rs_weights_close(weights);
    rs_network_close(twin);
    return status;
}

static rs_status run_all(work *w, rs_error *err)
{
    RS_TRY(rs_weights_open(&w->weights, w->options->measure.precision, rs_weight_limit(w->context),
                           err));
    for (size_t v = 0; v < w->n; v++)
        RS_TRY(run_variant(w, v, err));
    for (size_t v = 0; v < w->n && w->options->relevance; v++)
        RS_TRY(explain_variant(w, v, err));
    for (size_t v = 0; v < w->n && w->options->twin; v++)
        if (w->probed[v].measured->left_out < w->probed[v].measured->samples)
            RS_TRY(run_twin(w, v, err)); /* of no matrix there is no null */
    if (!w->options->generate) return RS_OK;
    return rs_probe_generate(w->result, w->networks[w->main], w->weights, w->inputs, w->tokenizer,
                             w->options, w->context, err);
}

/* ---- what is said of it ---- */

static rs_status set_inputs(const work *w, rs_error *err)
{
    const rs_inputs *in = w->inputs;
    json_t *object = json_pack("{s:s, s:I, s:I, s:I, s:I, s:I}", "kind", in->kind, "samples",
                               (json_int_t)in->samples, "empty_samples", (json_int_t)in->empty,
                               "tokens", (json_int_t)in->begin[in->samples], "longest",
                               (json_int_t)in->longest, "shortest", (json_int_t)in->shortest);
    if (object && strcmp(in->kind, "random") == 0 && in->ids)
        json_object_set_new(object, "law", json_string("id i with probability ~ 1/(i + 2.7)"));
    if (object && in->tokens_in_text)
        json_object_set_new(object, "tokens_in_text", json_integer((json_int_t)in->tokens_in_text));
    return rs_result_set_meta(w->result, "inputs", object, err);
}

/* What gradients are of, and its value in each variant. */
static json_t *loss_of(const work *w)
{
    const rs_targets *t = &w->targets;
    json_t *values = json_object();
    for (size_t v = 0; v < w->n; v++)
        json_object_set_new(values, w->probed[v].name,
                            json_real(w->probed[v].measured->graded->loss));
    return json_pack("{s:s, s:s, s:I, s:o?}", "kind", rs_grad_loss_name(t->kind), "at",
                     t->n               ? "logits"
                     : t->loss.at_state ? "state"
                                        : "final",
                     "targets", (json_int_t)t->n, "values", values);
}

/* What relevance is of. */
static json_t *explained_of(const work *w, uint64_t tape_bytes)
{
    json_t *object =
        json_pack("{s:s, s:s, s:I}", "explained",
                  w->explained.loss.kind == RS_LOSS_OUTPUT ? "output" : "length", "token",
                  w->explained.last ? "last" : "first", "tape_bytes", (json_int_t)tape_bytes);
    if (object && w->stand_in >= 0)
        json_object_set_new(object, "stand_in", json_integer(w->stand_in));
    return object;
}

static void set_relevance(const work *w, json_t *object)
{
    rs_pass_account all = {0};
    for (size_t v = 0; v < w->n; v++)
        rs_pass_account_add(&all, &w->probed[v].relevance->account);
    json_object_set_new(object, "relevance", explained_of(w, all.tape_bytes));
    json_object_set_new(object, "relevance_matrix_flops", json_real(all.flops));
    json_object_set_new(object, "relevance_seconds", json_real(all.seconds));
}

static rs_status set_run(const work *w, rs_error *err)
{
    uint64_t measures = 0;
    rs_pass_account all = {0};
    for (size_t v = 0; v < w->n; v++) {
        const rs_measured *m = w->probed[v].measured;
        if (m->measure_bytes > measures) measures = m->measure_bytes;
        rs_pass_account_add(&all, &m->account);
    }
    json_t *object = json_pack(
        "{s:s, s:I, s:I, s:I, s:I, s:f, s:f, s:s}", "precision",
        rs_probe_precision_name(w->options->measure.precision), "batch",
        (json_int_t)w->probed[0].measured->batch, "peak_activation_bytes",
        (json_int_t)all.peak_bytes, "measure_bytes", (json_int_t)measures, "weight_bytes_decoded",
        (json_int_t)(all.weight_bytes + w->swept.weight_bytes), "matrix_flops", all.flops,
        "pass_seconds", all.seconds, "stored_variant", w->probed[w->main].name);
    if (object && w->options->sweep) {
        json_object_set_new(object, "sweep_matrix_flops", json_real(w->swept.flops));
        json_object_set_new(object, "sweep_seconds", json_real(w->swept.seconds));
    }
    if (object && w->options->grad) {
        json_object_set_new(object, "tape_bytes", json_integer((json_int_t)all.tape_bytes));
        json_object_set_new(object, "loss", loss_of(w));
    }
    if (object && w->options->relevance) set_relevance(w, object);
    return rs_result_set_meta(w->result, "run", object, err);
}

/* What the files, the inputs, the network and its edits had to say. */
static rs_status add_notes(work *w, rs_error *err)
{
    if (w->network->checkpoint)
        RS_TRY(rs_result_add_notes(w->result, &w->network->checkpoint->notes, err));
    RS_TRY(rs_result_add_notes(w->result, &w->inputs->notes, err));
    for (size_t v = 0; v < w->n; v++)
        RS_TRY(rs_result_add_notes(w->result, &w->networks[v]->notes, err));
    return RS_OK;
}

/* --compat is silent where it finds nothing to do. */
static rs_status note_compat(work *w, rs_error *err)
{
    bool applied = !w->options->edit.dong2021_code;
    const char *family = w->network->family ? w->network->family : "another model";
    for (size_t v = 0; v < w->n; v++)
        for (size_t i = 0; i < w->networks[v]->notes.n; i++)
            applied |= strcmp(w->networks[v]->notes.items[i].code, "dong2021_code") == 0;
    if (applied) return RS_OK;
    rs_notes notes = {0};
    rs_status status =
        rs_notes_say(&notes, err, RS_INFO, "dong2021_code",
                     "leave it out, or run ALBERT with --variants san,san+skip",
                     "--compat dong2021-code changes nothing here: the released code differs from "
                     "the paper in ALBERT's variants without MLP only, and this is %s%s",
                     family, w->network->dong2021_code ? " with its MLP" : "");
    if (status == RS_OK) status = rs_result_add_notes(w->result, &notes, err);
    rs_notes_free(&notes);
    return status;
}

/* What the model with the edits of all variants measured; NULL: it is not among them. */
static const rs_measured *base_of(const work *w)
{
    for (size_t v = 0; v < w->n; v++)
        if (is_base(w, v)) return w->probed[v].measured;
    return NULL;
}

static rs_status report_probe(work *w, rs_error *err)
{
    const rs_probe_options *o = w->options;
    RS_TRY(set_inputs(w, err));
    RS_TRY(rs_probe_tables(w->result, w->probed, w->n, o, err));
    RS_TRY(rs_input_texts_table(w->result, w->inputs, err));
    RS_TRY(rs_probe_verdict(w->result, w->probed, w->n, o, err));
    RS_TRY(rs_probe_components(w->result, w->probed, w->n, o, err));
    RS_TRY(rs_probe_summary(w->result, w->probed, w->n, o, err));
    RS_TRY(rs_input_findings(w->result, w->network, w->inputs, o->generate, err));
    RS_TRY(rs_probe_findings(w->result, w->probed, w->n, o, err));
    if (o->grad) {
        RS_TRY(rs_probe_gradients(w->result, w->probed, w->n, err));
        RS_TRY(rs_probe_gradient_findings(w->result, w->probed, w->n, o, &w->targets, err));
    }
    if (o->relevance) {
        RS_TRY(rs_probe_relevance(w->result, w->probed, w->n, w->inputs, w->tokenizer, err));
        RS_TRY(rs_probe_relevance_findings(w->result, w->probed, w->n, o, w->inputs, w->stand_in,
                                           err));
    }
    RS_TRY(add_notes(w, err));
    RS_TRY(note_compat(w, err));
    if (o->sweep) /* before the figures: the first curve is the one that a terminal shows */
        RS_TRY(rs_probe_sweep(w->result, &w->swept, w->network, w->weights, w->inputs, o,
                              base_of(w), w->context, err));
    RS_TRY(set_run(w, err));
    return rs_probe_figures(w->result, w->probed, w->n, o, err);
}

/* Files last: a run that fails leaves none. */
static rs_status commit(work *w, rs_error *err)
{
    rs_store *output = w->output, *taps = w->taps;
    RS_TRY(rs_check_cancelled(w->context, err));
    w->output = NULL;
    RS_TRY(rs_store_commit(output, err));
    w->taps = NULL;
    return rs_store_commit(taps, err);
}

static rs_status run_probe(work *w, rs_error *err)
{
    RS_TRY(list_variants(w, err));
    RS_TRY(edit_networks(w, err));
    RS_TRY(find_targets(w, err));
    RS_TRY(find_explained(w, err));
    RS_TRY(open_stores(w, err));
    if (w->options->ranks) RS_TRY(rs_last_states_open(&w->last, w->networks[0], w->inputs, err));
    RS_TRY(run_all(w, err));
    RS_TRY(report_probe(w, err));
    return commit(w, err);
}

static void close_work(work *w)
{
    rs_store_discard(w->output);
    rs_store_discard(w->taps);
    for (size_t v = 0; v < w->n; v++) {
        if (w->probed) rs_measured_free(w->probed[v].measured);
        if (w->probed) rs_relevance_free(w->probed[v].relevance);
        if (w->keepers) rs_map_keeper_close(w->keepers[v]);
        if (w->networks) rs_network_close(w->networks[v]);
    }
    rs_free(w->probed);
    rs_free(w->keepers);
    rs_free(w->networks);
    rs_last_states_close(&w->last);
    rs_targets_close(&w->targets);
    rs_targets_close(&w->explained);
    rs_arena_free(w->arena);
    rs_weights_close(w->weights);
}

rs_status rs_probe(rs_result *result, const rs_network *network, const rs_inputs *inputs,
                   const rs_tokenizer *tokenizer, const rs_probe_options *options,
                   const rs_input_files *files, rs_probe_guests *guests, const rs_context *context,
                   rs_error *err)
{
    work w = {.result = result,
              .network = network,
              .inputs = inputs,
              .tokenizer = tokenizer,
              .options = options,
              .files = files,
              .guests = guests,
              .context = context};
    rs_status status = run_probe(&w, err);
    close_work(&w);
    return status;
}
