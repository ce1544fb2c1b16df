/* measure.c: one network over all inputs, with the measures listening. */
#include "observe/gather.h"

#include "base/clock.h"
#include "network/op_traits.h"

#include <math.h>
#include <unistd.h>

static uint64_t physical_memory(void)
{
    long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);
    return pages > 0 && size > 0 ? (uint64_t)pages * (uint64_t)size : (uint64_t)4 << 30;
}

/* What numbers depend on, if only by rounding, must not depend on what else the machine does. */
static uint64_t steady_memory(const rs_context *context)
{
    uint64_t all = physical_memory(), asked = context->memory.bytes;
    return context->memory.asked && asked < all ? asked : all;
}

uint64_t rs_weight_limit(const rs_context *context)
{
    uint64_t all = physical_memory(), bound = context->memory.bytes;
    return (bound && bound < all ? bound : all) / 2;
}

/* Numbers that a token occupies on its way through the widest layer: the state, its normed and
 * mixed copies, queries, keys and values, the MLP's inside. */
static int64_t widest(const rs_network *network)
{
    int64_t most = 0;
    for (int32_t l = 0; l < network->n_layers; l++)
        for (int32_t b = 0; b < network->layers[l].n_branches; b++) {
            const rs_branch *branch = &network->layers[l].branches[b];
            rs_op_width width = rs_branch_traits(branch)->width(branch);
            if (width.projected + width.inner > most) most = width.projected + width.inner;
        }
    return most + 6 * network->d_model;
}

int64_t rs_default_batch(const rs_network *network, rs_precision precision, int64_t longest,
                         const rs_context *context)
{
    double token = (double)widest(network) * (double)rs_precision_size(precision);
    double tokens = fmin(4096, (double)steady_memory(context) / 16 / fmax(token, 1));
    int64_t samples = (int64_t)(tokens / (double)(longest > 0 ? longest : 1));
    return samples > 1 ? samples : 1;
}

void rs_measure_defaults(rs_measure_options *options)
{
    *options = (rs_measure_options){
        .tokens = true, .spectral = true, .attention = true, .centre = RS_CENTRE_MEAN};
}

void rs_measured_free(rs_measured *measured)
{
    if (!measured) return;
    rs_free(measured->tokens);
    rs_free(measured->attention);
    rs_free(measured);
}

const rs_token_row *rs_measured_row(const rs_measured *measured, rs_token_site site, int32_t layer)
{
    for (size_t i = 0; i < measured->n_tokens; i++)
        if (measured->tokens[i].site == site && measured->tokens[i].layer == layer)
            return &measured->tokens[i];
    return NULL;
}

/* ---- running ---- */

enum { MOST_TAPS = 8 };

typedef struct pass {
    rs_runner *runner;
    rs_gather gather;
    rs_input_batch batch;
    rs_tap tap, clock;
    const rs_tap *taps[MOST_TAPS];
    size_t n_taps;
    uint64_t done; /* tokens of the batches before */
} pass;

/* A layer of a batch counts as its share of the batch's tokens: one batch of a large model may take
 * minutes. */
static void show_progress(const pass *p, int64_t rows, int32_t layer)
{
    const rs_gather *g = &p->gather;
    const rs_measure_options *o = g->options;
    int32_t layers = g->network->n_layers > 0 ? g->network->n_layers : 1;
    rs_progress(g->context, o->phase ? o->phase : "probe",
                o->done + p->done + (uint64_t)(rows * layer / layers),
                o->total ? o->total : (uint64_t)g->inputs->begin[g->inputs->samples], "tokens");
}

static rs_status layer_done(void *user, rs_site site, int32_t layer, const rs_state_view *view,
                            rs_error *err)
{
    (void)site;
    (void)err;
    show_progress(user, view->rows, layer);
    return RS_OK;
}

static bool can_score(const rs_network *network, const rs_inputs *inputs)
{
    return network->head.decoder.weight && network->head.next_token && inputs->ids;
}

static rs_status open_workspaces(rs_gather *g, rs_error *err)
{
    int threads = g->context->threads;
    g->workspaces = rs_calloc((size_t)threads, sizeof *g->workspaces);
    if (!g->workspaces) return rs_fail_memory(err, "workspaces", 0);
    for (int t = 0; t < threads && g->workspace_bytes; t++) {
        g->workspaces[t] = rs_malloc(1, g->workspace_bytes);
        if (!g->workspaces[t])
            return rs_fail(err, RS_E_NO_MEMORY, "measures",
                           "take a smaller --seq-len; --no-attention and --no-spectral need less",
                           "out of memory: a sample of %lld tokens needs %llu bytes to measure, "
                           "on each of %d threads",
                           (long long)g->inputs->longest, (unsigned long long)g->workspace_bytes,
                           threads);
    }
    g->out->measure_bytes = g->workspace_bytes * (uint64_t)threads;
    return RS_OK;
}

static rs_status open_gather(pass *p, rs_error *err)
{
    rs_gather *g = &p->gather;
    p->tap = (rs_tap){.user = g};
    if (g->options->tokens) {
        RS_TRY(rs_gather_tokens_open(g, err));
        p->tap.sites = 1u << RS_SITE_BLOCK_OUT | 1u << RS_SITE_MIXER_OUT;
        p->tap.state = rs_gather_state;
    }
    if (g->options->attention) {
        RS_TRY(rs_gather_attention_open(g, err));
        p->tap.attention = rs_gather_attention;
        p->tap.wants_logits = true;
    }
    if (g->options->loss && can_score(g->network, g->inputs)) {
        RS_TRY(rs_gather_loss_open(g, err));
        p->tap.logits = rs_gather_logits;
    }
    RS_TRY(open_workspaces(g, err));
    p->clock = (rs_tap){.user = p, .sites = 1u << RS_SITE_BLOCK_OUT, .state = layer_done};
    p->taps[p->n_taps++] = &p->tap;
    p->taps[p->n_taps++] = &p->clock;
    return RS_OK;
}

static rs_status run_batch(pass *p, int64_t first, rs_error *err)
{
    rs_gather *g = &p->gather;
    int64_t left = g->inputs->samples - first;
    rs_input_batch_set(&p->batch, g->inputs, first, left < g->capacity ? left : g->capacity);
    for (int i = 0; i < 2; i++)
        if (g->options->first_sample[i]) *g->options->first_sample[i] = first;
    if (p->batch.batch.begin[p->batch.batch.samples] == 0) return RS_OK; /* nobody has a token */
    if (g->targets) rs_gather_loss_begin_batch(g);
    RS_TRY(rs_runner_run(p->runner, &p->batch.batch, p->taps, p->n_taps, err));
    g->out->flops += rs_runner_flops(p->runner);
    if (g->options->tokens) RS_TRY(rs_gather_tokens_end_batch(g, err));
    if (g->options->attention) rs_gather_attention_end_batch(g);
    if (g->targets) rs_gather_loss_end_batch(g);
    return RS_OK;
}

static rs_status run_all(pass *p, rs_error *err)
{
    rs_gather *g = &p->gather;
    double began = rs_seconds();
    for (int64_t first = 0; first < g->inputs->samples; first += g->capacity) {
        RS_TRY(rs_check_cancelled(g->context, err));
        p->done = (uint64_t)g->inputs->begin[first];
        show_progress(p, 0, 0);
        RS_TRY(run_batch(p, first, err));
    }
    g->out->seconds = rs_seconds() - began;
    g->out->peak_bytes = rs_runner_peak(p->runner);
    return RS_OK;
}

static void finish_gather(rs_gather *g)
{
    rs_measured *out = g->out;
    out->samples = g->inputs->samples - g->inputs->empty;
    out->rows = g->inputs->begin[g->inputs->samples];
    for (int64_t s = 0; s < g->inputs->samples; s++)
        out->singles += g->inputs->begin[s + 1] - g->inputs->begin[s] == 1;
    out->batch = g->capacity;
    out->floor = rs_residual_floor(g->precision);
    out->nll = out->scored ? g->nll_sum / (double)out->scored : NAN;
    if (g->options->tokens) rs_gather_tokens_finish(g);
    if (g->options->attention) rs_gather_attention_finish(g);
}

static void close_pass(pass *p)
{
    rs_gather *g = &p->gather;
    rs_gather_tokens_close(g);
    rs_gather_attention_close(g);
    rs_gather_loss_close(g);
    for (int t = 0; g->workspaces && t < g->context->threads; t++)
        rs_free(g->workspaces[t]);
    rs_free(g->workspaces);
    rs_input_batch_close(&p->batch);
    if (p->runner) rs_runner_close(p->runner);
}

static rs_status run_pass(pass *p, rs_weights *weights, rs_error *err)
{
    rs_gather *g = &p->gather;
    RS_TRY(rs_input_batch_open(&p->batch, g->capacity, err));
    RS_TRY(rs_runner_open(&p->runner, g->network, weights, g->context, err));
    RS_TRY(open_gather(p, err));
    RS_TRY(run_all(p, err));
    finish_gather(g);
    return RS_OK;
}

rs_status rs_measure_network(rs_measured **out, const rs_network *network, rs_weights *weights,
                             const rs_inputs *inputs, const rs_measure_options *options,
                             const rs_tap *const *taps, size_t n_taps, const rs_context *context,
                             rs_error *err)
{
    *out = NULL;
    if (n_taps + 2 > MOST_TAPS)
        return rs_fail(err, RS_E_INTERNAL, "probe", NULL, "%zu taps are too many", n_taps);
    rs_measured *measured = rs_calloc(1, sizeof *measured);
    if (!measured) return rs_fail_memory(err, "measures", sizeof *measured);
    int64_t batch = options->batch > 0
                        ? options->batch
                        : rs_default_batch(network, options->precision, inputs->longest, context);
    pass p = {.gather = {.network = network,
                         .inputs = inputs,
                         .options = options,
                         .context = context,
                         .precision = options->precision,
                         .capacity = batch < inputs->samples ? batch : inputs->samples,
                         .out = measured}};
    for (size_t i = 0; i < n_taps; i++)
        p.taps[p.n_taps++] = taps[i];
    p.gather.batch = &p.batch;
    rs_status status = run_pass(&p, weights, err);
    close_pass(&p);
    if (status == RS_OK)
        *out = measured;
    else
        rs_measured_free(measured);
    return status;
}
