/* measure.c: the measures as a listener, and a pass over all inputs with it. */
#include "observe/gather.h"

#include "network/op_traits.h"

#include <math.h>

void rs_measure_defaults(rs_measure_options *options)
{
    *options = (rs_measure_options){
        .tokens = true, .spectral = true, .attention = true, .centre = RS_CENTRE_MEAN};
}

bool rs_measures_pairs(const rs_measure_options *options, int64_t n)
{
    return options->quadratic || n <= RS_QUADRATIC_TOKENS;
}

bool rs_measures_ranks(const rs_measure_options *options, int64_t n)
{
    return options->attention && options->spectral && (options->quadratic || n <= RS_RANK_TOKENS);
}

void rs_measured_free(rs_measured *measured)
{
    if (!measured) return;
    rs_free(measured->tokens);
    rs_free(measured->attention);
    rs_free(measured->rollout);
    rs_free(measured->mixing);
    rs_graded_free(measured->graded);
    rs_free(measured);
}

void rs_measured_take_null(rs_measured *measured, const rs_measured *twin)
{
    for (size_t i = 0; i < measured->n_attention && i < twin->n_attention; i++) {
        const rs_attention_measures *m = &twin->attention[i].mean;
        measured->attention[i].null =
            (rs_attention_null){.entropy = m->entropy,
                                .spectral_gap = m->spectral_gap,
                                .dobrushin = m->dobrushin,
                                .self_weight = m->self_weight,
                                .first_token_weight = m->first_token_weight,
                                .logit_variance = m->logit_variance,
                                .effective_rank = m->effective_rank,
                                .stable_rank = m->stable_rank,
                                .energy_rank = m->energy_rank,
                                .numerical_rank = m->numerical_rank,
                                .centred_effective_rank = m->centred_effective_rank,
                                .centred_stable_rank = m->centred_stable_rank,
                                .centred_energy_rank = m->centred_energy_rank,
                                .centred_numerical_rank = m->centred_numerical_rank};
    }
}

const rs_token_row *rs_measured_row(const rs_measured *measured, rs_token_site site, int32_t layer)
{
    for (size_t i = 0; i < measured->n_tokens; i++)
        if (measured->tokens[i].site == site && measured->tokens[i].layer == layer)
            return &measured->tokens[i];
    return NULL;
}

/* ---- the listener ---- */

static bool can_score(const rs_network *network, const rs_inputs *inputs)
{
    return network->head.decoder.weight && network->head.next_token && inputs->ids;
}

static rs_status begin_batch(void *user, const rs_input_batch *batch, rs_error *err)
{
    rs_gather *g = user;
    (void)err;
    g->batch = batch;
    if (g->targets) rs_gather_loss_begin_batch(g);
    return RS_OK;
}

static rs_status end_batch(void *user, rs_error *err)
{
    rs_gather *g = user;
    if (g->options->tokens) RS_TRY(rs_gather_tokens_end_batch(g, err));
    if (g->options->attention) rs_gather_attention_end_batch(g);
    rs_gather_rollout_end_batch(g);
    if (g->out->mixing) rs_gather_mixing_end_batch(g);
    if (g->targets) rs_gather_loss_end_batch(g);
    return RS_OK;
}

static bool wants_matrix(void *user, int32_t layer, int32_t branch, int32_t head)
{
    const rs_gather *g = user;
    if (g->options->attention && rs_gather_wants_attention(user, layer, branch, head)) return true;
    return g->out->mixing && rs_branch_attention(&g->network->layers[layer].branches[branch]) &&
           rs_gather_wants_mixing(user, layer, branch);
}

static rs_status hear_matrix(void *user, const rs_attention_view *view, rs_error *err)
{
    rs_gather *g = user;
    if (g->out->mixing) rs_gather_mixing_matrix(g, view);
    if (rs_is_mixer(g->network, view->layer, view->branch)) rs_gather_rollout_head(g, view);
    return g->options->attention ? rs_gather_attention(user, view, err) : RS_OK;
}

/* The state behind a layer is told when all of its matrices have been. */
static rs_status hear_state(void *user, rs_site site, int32_t layer, const rs_state_view *view,
                            rs_error *err)
{
    rs_gather *g = user;
    if (g->rolled && site == RS_SITE_BLOCK_OUT && layer > 0)
        RS_TRY(rs_gather_rollout_layer(g, layer - 1, err));
    return g->options->tokens ? rs_gather_state(user, site, layer, view, err) : RS_OK;
}

static rs_status open_gather(rs_gather *g, rs_error *err)
{
    g->listener = (rs_listener){.tap = {.user = g}, .begin = begin_batch, .end = end_batch};
    rs_tap *tap = &g->listener.tap;
    if (g->options->tokens) {
        RS_TRY(rs_gather_tokens_open(g, err));
        tap->state = hear_state;
    }
    if (g->options->attention) {
        RS_TRY(rs_gather_attention_open(g, err));
        tap->wants_logits = true;
        RS_TRY(rs_gather_rollout_open(g, err));
        if (g->rolled) tap->sites |= 1u << RS_SITE_BLOCK_OUT, tap->state = hear_state;
    }
    if (rs_mixing_is_asked(g->network, g->options)) {
        RS_TRY(rs_gather_mixing_open(g, err));
        tap->mixing = rs_gather_mixing;
        tap->wants_mixing = rs_gather_wants_mixing;
    }
    if (g->options->attention || g->out->mixing) {
        tap->attention = hear_matrix;
        tap->wants_attention = wants_matrix;
        tap->wants_sample = rs_gather_wants_sample;
    }
    if (g->options->loss && can_score(g->network, g->inputs)) {
        RS_TRY(rs_gather_loss_open(g, err));
        tap->logits = rs_gather_logits;
    }
    g->out->measure_bytes = g->listener.scratch_bytes * (uint64_t)g->context->threads;
    return RS_OK;
}

static void finish_gather(rs_gather *g, const rs_pass_account *account)
{
    rs_measured *out = g->out;
    out->samples = g->inputs->samples - g->inputs->empty;
    out->rows = g->inputs->begin[g->inputs->samples];
    for (int64_t s = 0; s < g->inputs->samples; s++) {
        int64_t n = g->inputs->begin[s + 1] - g->inputs->begin[s];
        out->singles += n == 1;
        out->left_out += !rs_measures_pairs(g->options, n);
        out->unranked += g->options->attention && g->options->spectral &&
                         rs_measures_pairs(g->options, n) && !rs_measures_ranks(g->options, n);
    }
    out->batch = g->capacity;
    out->account = *account;
    out->floor = rs_residual_floor(g->precision);
    out->nll = out->scored ? g->nll_sum / (double)out->scored : NAN;
    if (g->options->tokens) rs_gather_tokens_finish(g);
    if (g->options->attention) rs_gather_attention_finish(g);
    rs_gather_rollout_finish(g);
    if (out->mixing) rs_gather_mixing_finish(g);
}

static int64_t longest_of(const rs_gather *g,
                          bool (*counts)(const rs_measure_options *options, int64_t n))
{
    int64_t longest = 0;
    for (int64_t s = 0; s < g->inputs->samples; s++) {
        int64_t n = g->inputs->begin[s + 1] - g->inputs->begin[s];
        if (n > longest && counts(g->options, n)) longest = n;
    }
    return longest;
}

int64_t rs_gather_longest_pairs(const rs_gather *g)
{
    return longest_of(g, rs_measures_pairs);
}

int64_t rs_gather_longest_ranks(const rs_gather *g)
{
    return longest_of(g, rs_measures_ranks);
}

static void close_gather(rs_gather *g)
{
    rs_gather_tokens_close(g);
    rs_gather_attention_close(g);
    rs_gather_rollout_close(g);
    rs_gather_mixing_close(g);
    rs_gather_loss_close(g);
}

/* ---- the pass ---- */

/* What all passes of a network are. */
static rs_pass_plan plan_of(const rs_gather *g, rs_weights *weights)
{
    const rs_measure_options *o = g->options;
    return (rs_pass_plan){.network = g->network,
                          .inputs = g->inputs,
                          .precision = g->precision,
                          .weights = weights,
                          .capacity = g->capacity,
                          .phase = o->phase ? o->phase : "probe",
                          .done = o->done,
                          .total = o->total};
}

/* The measures listen last, and gradients behind them where they are taken of the same inputs. */
static rs_status run_measures(rs_pass_account *account, rs_gather *g, const rs_pass_plan *plan,
                              rs_listener *const *others, size_t n, rs_listener *gradients,
                              rs_error *err)
{
    rs_listener *listeners[RS_MEASURE_GUESTS + 2];
    for (size_t i = 0; i < n; i++)
        listeners[i] = others[i];
    listeners[n++] = &g->listener;
    if (plan->gradient) listeners[n++] = gradients;
    RS_TRY(open_gather(g, err));
    return rs_observe_pass(account, plan, listeners, n, g->context, err);
}

/* Whether gradients have a pass of their own: masked tokens are no inputs to measure, and an attention
 * whose matrices are told is worked out in another order, so that digits would hang on who listens. */
static bool apart(const rs_gather *g, rs_listener *const *others, size_t n)
{
    bool told = g->options->attention || rs_mixing_is_asked(g->network, g->options);
    for (size_t i = 0; i < n; i++)
        told = told || others[i]->tap.attention;
    return told || g->options->gradient->targets->ids;
}

static rs_status run_graded(rs_pass_account *account, rs_gather *g, rs_weights *weights,
                            rs_listener *const *others, size_t n, rs_gradient_gather *gradients,
                            rs_error *err)
{
    const rs_gradient_request *request = g->options->gradient;
    rs_listener *listener = rs_gradient_gather_listener(gradients);
    rs_pass_plan plan = plan_of(g, weights);
    const rs_pass_gradient back = {.loss = request->targets->loss,
                                   .ids = request->targets->ids,
                                   .plan = {.recompute = request->recompute, .hold = request->hold},
                                   .tap = rs_gradient_gather_tap(gradients)};
    bool own_pass = apart(g, others, n);
    if (!own_pass) plan.gradient = &back;
    RS_TRY(run_measures(account, g, &plan, others, n, listener, err));
    if (own_pass) {
        rs_pass_account own;
        plan.gradient = &back;
        RS_TRY(rs_observe_pass(&own, &plan, &listener, 1, g->context, err));
        rs_pass_account_add(account, &own);
    }
    return rs_gradient_gather_take(&g->out->graded, gradients, account->loss, err);
}

static rs_status run_pass(rs_gather *g, rs_weights *weights, rs_listener *const *others, size_t n,
                          rs_error *err)
{
    rs_pass_account account;
    rs_gradient_gather *gradients = NULL;
    rs_status status;
    if (g->options->gradient) {
        status = rs_gradient_gather_open(&gradients, g->network, g->precision, g->context, err);
        if (status == RS_OK) status = run_graded(&account, g, weights, others, n, gradients, err);
    } else {
        rs_pass_plan plan = plan_of(g, weights);
        status = run_measures(&account, g, &plan, others, n, NULL, err);
    }
    rs_gradient_gather_close(gradients);
    if (status == RS_OK) finish_gather(g, &account);
    if (status == RS_OK && g->options->attention) status = rs_gather_attention_nulls(g, err);
    return status;
}

rs_status rs_measure_network(rs_measured **out, const rs_network *network, rs_weights *weights,
                             const rs_inputs *inputs, const rs_measure_options *options,
                             rs_listener *const *listeners, size_t n, const rs_context *context,
                             rs_error *err)
{
    *out = NULL;
    if (n > RS_MEASURE_GUESTS)
        return rs_fail(err, RS_E_INTERNAL, "probe", NULL, "%zu listeners are too many", n);
    rs_measured *measured = rs_calloc(1, sizeof *measured);
    if (!measured) return rs_fail_memory(err, "measures", sizeof *measured);
    rs_gather g = {
        .network = network,
        .inputs = inputs,
        .options = options,
        .context = context,
        .precision = options->precision,
        .capacity = rs_pass_capacity(network, options->precision, inputs, options->batch, context),
        .out = measured};
    rs_status status = run_pass(&g, weights, listeners, n, err);
    close_gather(&g);
    if (status == RS_OK)
        *out = measured;
    else
        rs_measured_free(measured);
    return status;
}
