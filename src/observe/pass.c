/* pass.c: opens a runner and drives it, over all inputs, one batch or the prompts to continue. */
#include "observe/pass.h"

#include "base/clock.h"
#include "base/memory.h"
#include "network/op_traits.h"

#include <math.h>
#include <unistd.h>

/* ---- memory ---- */

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
 * mixed copies, queries, keys and values, the MLP's inside; the states that a read-out reads. */
static int64_t widest(const rs_network *network)
{
    int64_t most = 0;
    for (int32_t l = 0; l < network->n_layers; l++)
        for (int32_t b = 0; b < network->layers[l].n_branches; b++) {
            const rs_branch *branch = &network->layers[l].branches[b];
            rs_op_width width = rs_branch_traits(branch)->width(branch);
            if (width.projected + width.inner > most) most = width.projected + width.inner;
        }
    int64_t read = network->read_out.kind != RS_FUSION_NONE ? network->n_layers : 0;
    return most + (6 + read) * network->d_model;
}

/* Tokens whose activations take a sixteenth of the memory. */
static double tokens_at_once(const rs_network *network, rs_precision precision,
                             const rs_context *context)
{
    double token = (double)widest(network) * (double)rs_precision_size(precision);
    return (double)steady_memory(context) / 16 / fmax(token, 1);
}

int64_t rs_pass_tokens(const rs_network *network, rs_precision precision, const rs_context *context)
{
    return (int64_t)fmin(tokens_at_once(network, precision, context), 0x1p62);
}

int64_t rs_default_batch(const rs_network *network, rs_precision precision, int64_t longest,
                         const rs_context *context)
{
    double tokens = fmin(4096, tokens_at_once(network, precision, context));
    int64_t samples = (int64_t)(tokens / (double)(longest > 0 ? longest : 1));
    return samples > 1 ? samples : 1;
}

int64_t rs_pass_capacity(const rs_network *network, rs_precision precision, const rs_inputs *inputs,
                         int64_t batch, const rs_context *context)
{
    if (batch <= 0) batch = rs_default_batch(network, precision, inputs->longest, context);
    return batch < inputs->samples ? batch : inputs->samples;
}

/* ---- all inputs ---- */

typedef struct pass {
    const rs_pass_plan *plan;
    rs_listener *const *listeners;
    size_t n;
    const rs_context *context;
    rs_weights *own; /* NULL: the plan has weights */
    rs_weights *weights;
    uint64_t decoded; /* by the weights before the pass */
    rs_runner *runner;
    rs_gradients *gradients; /* NULL: there is no way back */
    double loss;
    uint64_t tape_bytes;
    rs_input_batch batch;
    void **scratch; /* [threads], shared by the listeners: calls on a thread follow each other */
    rs_tap clock;
    const rs_tap **taps; /* [n + 1] */
    uint64_t done;       /* tokens of the batches before */
    double flops;
} pass;

/* A layer of a batch counts as its share of the batch's tokens: one batch of a large model may take
 * minutes. */
static void show_progress(const pass *p, int64_t rows, int32_t layer)
{
    const rs_pass_plan *plan = p->plan;
    int32_t layers = plan->network->n_layers > 0 ? plan->network->n_layers : 1;
    uint64_t all = (uint64_t)plan->inputs->begin[plan->inputs->samples];
    rs_progress(p->context, plan->phase, plan->done + p->done + (uint64_t)(rows * layer / layers),
                plan->total ? plan->total : all, "tokens");
}

static rs_status layer_done(void *user, rs_site site, int32_t layer, const rs_state_view *view,
                            rs_error *err)
{
    const pass *p = user;
    (void)site;
    (void)view;
    (void)err;
    show_progress(p, p->batch.batch.begin[p->batch.batch.samples], layer);
    return RS_OK;
}

static rs_status open_scratch(pass *p, rs_error *err)
{
    int threads = p->context->threads;
    size_t bytes = 0;
    for (size_t i = 0; i < p->n; i++)
        if (p->listeners[i]->scratch_bytes > bytes) bytes = p->listeners[i]->scratch_bytes;
    p->scratch = rs_calloc((size_t)threads, sizeof *p->scratch);
    if (!p->scratch) return rs_fail_memory(err, "workspaces", 0);
    for (int t = 0; t < threads && bytes; t++) {
        p->scratch[t] = rs_malloc(1, bytes);
        if (!p->scratch[t])
            return rs_fail(err, RS_E_NO_MEMORY, "measures",
                           "take a smaller --seq-len; where there are such options, "
                           "--no-attention and --no-spectral need less",
                           "out of memory: a sample of %lld tokens needs %llu bytes to measure, "
                           "on each of %d threads",
                           (long long)p->plan->inputs->longest, (unsigned long long)bytes, threads);
    }
    for (size_t i = 0; i < p->n; i++)
        p->listeners[i]->scratch = p->scratch;
    return RS_OK;
}

/* Rows of the batch that begins with sample `first`. */
static int64_t batch_rows(const rs_pass_plan *plan, int64_t first)
{
    int64_t samples = plan->inputs->samples, end = first + plan->capacity;
    return plan->inputs->begin[end < samples ? end : samples] - plan->inputs->begin[first];
}

static rs_status open_gradients(pass *p, rs_error *err)
{
    const rs_pass_plan *plan = p->plan;
    int64_t batches = 0, most = 0;
    if (!plan->gradient) return RS_OK;
    for (int64_t first = 0; first < plan->inputs->samples; first += plan->capacity) {
        int64_t rows = batch_rows(plan, first);
        batches += rows > 0;
        most = rows > most ? rows : most;
    }
    rs_gradient_plan how = plan->gradient->plan;
    how.several = batches > 1;
    p->tape_bytes = rs_tape_bytes(plan->network, plan->precision, &how, most);
    return rs_gradients_open(&p->gradients, plan->network, plan->precision, &how,
                             &plan->gradient->tap, 1, p->context, err);
}

static rs_status open_pass(pass *p, rs_error *err)
{
    const rs_pass_plan *plan = p->plan;
    RS_TRY(rs_input_batch_open(&p->batch, plan->capacity, err));
    if (!plan->weights)
        RS_TRY(rs_weights_open(&p->own, plan->precision, rs_weight_limit(p->context), err));
    p->weights = plan->weights ? plan->weights : p->own;
    p->decoded = rs_weights_decoded(p->weights);
    RS_TRY(rs_runner_open(&p->runner, plan->network, p->weights, p->context, err));
    RS_TRY(open_gradients(p, err));
    p->taps = rs_calloc(p->n + 1, sizeof *p->taps);
    if (!p->taps) return rs_fail_memory(err, "listeners", p->n * sizeof *p->taps);
    for (size_t i = 0; i < p->n; i++)
        p->taps[i] = &p->listeners[i]->tap;
    p->clock = (rs_tap){.user = p, .sites = 1u << RS_SITE_BLOCK_OUT, .state = layer_done};
    p->taps[p->n] = &p->clock;
    return open_scratch(p, err);
}

static void close_pass(pass *p)
{
    for (size_t i = 0; i < p->n; i++)
        p->listeners[i]->scratch = NULL;
    for (int t = 0; p->scratch && t < p->context->threads; t++)
        rs_free(p->scratch[t]);
    rs_free(p->scratch);
    rs_free(p->taps);
    rs_runner_close(p->runner);
    rs_gradients_close(p->gradients);
    rs_weights_close(p->own);
    rs_input_batch_close(&p->batch);
}

/* Forward, and back where gradients are asked for. */
static rs_status run_ways(pass *p, int64_t first, rs_error *err)
{
    rs_batch *batch = &p->batch.batch;
    const rs_pass_gradient *gradient = p->plan->gradient;
    if (!gradient) return rs_runner_run(p->runner, batch, p->taps, p->n + 1, err);
    int64_t row = p->plan->inputs->begin[first];
    rs_loss loss = gradient->loss;
    loss.first_row = row;
    if (loss.targets) loss.targets += row;
    if (gradient->ids) batch->ids = gradient->ids + row;
    return rs_runner_gradient(&p->loss, p->runner, batch, &loss, p->gradients, p->taps, p->n + 1,
                              err);
}

static rs_status run_batch(pass *p, int64_t first, rs_error *err)
{
    int64_t left = p->plan->inputs->samples - first, capacity = p->plan->capacity;
    rs_input_batch_set(&p->batch, p->plan->inputs, first, left < capacity ? left : capacity);
    if (p->batch.batch.begin[p->batch.batch.samples] == 0) return RS_OK; /* nobody has a token */
    p->batch.batch.points = p->plan->points;
    for (size_t i = 0; i < p->n; i++) {
        const rs_listener *l = p->listeners[i];
        if (l->begin) RS_TRY(l->begin(l->tap.user, &p->batch, err));
    }
    RS_TRY(run_ways(p, first, err));
    p->flops += rs_runner_flops(p->runner);
    for (size_t i = 0; i < p->n; i++) {
        const rs_listener *l = p->listeners[i];
        if (l->end) RS_TRY(l->end(l->tap.user, err));
    }
    return RS_OK;
}

static rs_status run_batches(pass *p, rs_error *err)
{
    const rs_inputs *inputs = p->plan->inputs;
    for (int64_t first = 0; first < inputs->samples; first += p->plan->capacity) {
        RS_TRY(rs_check_cancelled(p->context, err));
        p->done = (uint64_t)inputs->begin[first];
        show_progress(p, 0, 0);
        RS_TRY(run_batch(p, first, err));
    }
    return p->gradients ? rs_gradients_finish(p->gradients, err) : RS_OK;
}

rs_status rs_observe_pass(rs_pass_account *account, const rs_pass_plan *plan,
                          rs_listener *const *listeners, size_t n, const rs_context *context,
                          rs_error *err)
{
    pass p = {.plan = plan, .listeners = listeners, .n = n, .context = context};
    rs_status status = rs_inputs_check_precision(plan->inputs, plan->precision, err);
    if (status == RS_OK) status = open_pass(&p, err);
    double began = rs_seconds();
    if (status == RS_OK) status = run_batches(&p, err);
    if (status == RS_OK && account)
        *account = (rs_pass_account){.peak_bytes = rs_runner_peak(p.runner),
                                     .weight_bytes = rs_weights_decoded(p.weights) - p.decoded,
                                     .flops = p.flops,
                                     .seconds = rs_seconds() - began,
                                     .loss = p.loss,
                                     .tape_bytes = p.tape_bytes};
    close_pass(&p);
    return status;
}

void rs_pass_account_add(rs_pass_account *sum, const rs_pass_account *other)
{
    if (other->peak_bytes > sum->peak_bytes) sum->peak_bytes = other->peak_bytes;
    if (other->tape_bytes > sum->tape_bytes) sum->tape_bytes = other->tape_bytes;
    sum->weight_bytes += other->weight_bytes;
    sum->flops += other->flops;
    sum->seconds += other->seconds;
    sum->loss += other->loss;
}

/* ---- a batch, and prompts ---- */

rs_status rs_observe_batch(const rs_network *network, rs_weights *weights, const rs_batch *batch,
                           const rs_tap *tap, const rs_context *context, rs_error *err)
{
    rs_runner *runner;
    RS_TRY(rs_runner_open(&runner, network, weights, context, err));
    rs_status status = rs_runner_run(runner, batch, &tap, 1, err);
    rs_runner_close(runner);
    return status;
}

typedef struct continuation {
    rs_runner *runner;
    const rs_inputs *inputs;
    rs_input_batch prompt;
    int64_t n_new;
    int32_t *ids; /* [n_new] */
    rs_continued *tell;
    void *user;
} continuation;

static rs_status continue_sample(continuation *c, int64_t sample, rs_error *err)
{
    if (c->inputs->begin[sample] == c->inputs->begin[sample + 1]) return RS_OK;
    rs_input_batch_set(&c->prompt, c->inputs, sample, 1);
    RS_TRY(rs_generate(c->ids, c->runner, &c->prompt.batch, c->n_new, err));
    return c->tell(c->user, sample, c->ids, err);
}

rs_status rs_observe_continuations(const rs_network *network, rs_weights *weights,
                                   const rs_inputs *inputs, int64_t n_new, rs_continued *tell,
                                   void *user, const rs_context *context, rs_error *err)
{
    int64_t prompts = rs_inputs_prompts(inputs);
    continuation c = {.inputs = inputs, .n_new = n_new, .tell = tell, .user = user};
    c.ids = rs_malloc((size_t)n_new, sizeof *c.ids);
    if (!c.ids) return rs_fail_memory(err, "generate", (size_t)n_new * sizeof *c.ids);
    rs_status status = rs_input_batch_open(&c.prompt, 1, err);
    if (status == RS_OK) status = rs_runner_open(&c.runner, network, weights, context, err);
    for (int64_t i = 0; i < prompts && status == RS_OK; i++) {
        status = rs_check_cancelled(context, err);
        if (status != RS_OK) break;
        rs_progress(context, "generate", (uint64_t)i, (uint64_t)prompts, "samples");
        status = continue_sample(&c, rs_inputs_prompt(inputs, i), err);
    }
    rs_runner_close(c.runner);
    rs_input_batch_close(&c.prompt);
    rs_free(c.ids);
    return status;
}
