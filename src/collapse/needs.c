/* needs.c: see needs.h. */
#include "collapse/needs.h"

#include "collapse/attention_measures.h"
#include "collapse/certify_lambda.h"
#include "collapse/certify_parts.h"
#include "collapse/paths.h"
#include "collapse/probe_gather.h"

#include <math.h>

/* A network after --depth: the stack repeated or cut. */
typedef struct stack {
    double layers, heads, all_heads; /* heads: of the layer that has most */
    int64_t d;
} stack;

static stack stack_of(const rs_network *network, const rs_edit *edit)
{
    stack s = {.layers = network->n_layers, .d = network->d_model};
    for (int32_t l = 0; l < network->n_layers; l++) {
        const rs_branch *mixer = rs_layer_mixer(&network->layers[l]);
        double heads = mixer ? mixer->attention.heads : 0;
        s.heads = fmax(s.heads, heads);
        s.all_heads += heads;
    }
    if (edit->depth > 0 && network->n_layers > 0) {
        s.all_heads *= (double)edit->depth / s.layers;
        s.layers = edit->depth;
    }
    return s;
}

static int64_t samples_at_once(const rs_network *network, rs_run_shape shape, int64_t batch,
                               rs_precision precision, const rs_context *context)
{
    if (batch <= 0) batch = rs_probe_default_batch(network, precision, shape.longest, context);
    return batch < shape.samples ? batch : shape.samples;
}

/* The running state, its normed copy, what a branch gives, and the queries, keys and values. */
static void add_pass(rs_budget *budget, const rs_network *network, double tokens,
                     rs_precision precision)
{
    double widest = 0;
    for (int32_t l = 0; l < network->n_layers; l++) {
        const rs_branch *mixer = rs_layer_mixer(&network->layers[l]);
        if (!mixer) continue;
        const rs_attention_op *a = &mixer->attention;
        widest = fmax(widest, (double)a->heads * (double)a->head_dim +
                                  (double)a->kv_heads * (double)(a->head_dim + a->value_dim));
    }
    rs_budget_add(budget, "activations",
                  tokens * (3.0 * (double)network->d_model + widest) *
                      (double)rs_precision_size(precision));
}

/* A piece of the head's logits, and `more` rows of the vocabulary beside it. */
static void add_logits(rs_budget *budget, const rs_network *network, double rows, double more,
                       rs_precision precision)
{
    const rs_dense *decoder = &network->head.decoder;
    if (!decoder->weight) return;
    rows = fmin(rows, (double)rs_logits_rows(decoder, precision));
    rs_budget_add(budget, "logits",
                  (double)decoder->out * (rows * (double)rs_precision_size(precision) +
                                          more * (double)sizeof(double)));
}

/* Descriptions of layers that --depth adds, in a copy for each variant. */
static void add_copies(rs_budget *budget, double copies, stack s)
{
    rs_budget_add(budget, "layers", copies * s.layers * (double)sizeof(rs_layer));
}

void rs_probe_need(rs_budget *budget, const rs_network *network, rs_run_shape shape,
                   const void *options, const rs_context *context)
{
    const rs_probe_options *o = options;
    const rs_measure_options *m = &o->measure;
    stack s = stack_of(network, &o->edit);
    int64_t batch = samples_at_once(network, shape, m->batch, m->precision, context);
    double rows = 2 * s.layers + 1, at_once = (double)batch;
    add_copies(budget, 1, s);
    add_pass(budget, network, at_once * (double)shape.longest, m->precision);
    rs_budget_add(budget, "measures of tokens",
                  rows * (sizeof(rs_token_row) +
                          (RS_TOKEN_REALS + RS_TOKEN_LOGS) * (double)(2 * sizeof(double)) +
                          (double)shape.samples * (2 * sizeof(double) + sizeof(bool))));
    if (m->loss && network->head.next_token && shape.longest > 1)
        add_logits(budget, network, at_once * (double)shape.longest, 0, m->precision);
    if (!m->attention) return;
    rs_budget_add(budget, "measures of attention",
                  s.all_heads * (sizeof(rs_attention_row) +
                                 at_once * (sizeof(rs_attention_measures) + sizeof(double))) +
                      context->threads * (double)rs_attention_workspace(shape.longest));
}

void rs_certify_need(rs_budget *budget, const rs_network *network, rs_run_shape shape,
                     const void *options, const rs_context *context)
{
    const rs_certify_options *o = options;
    stack s = stack_of(network, &o->edit);
    int64_t batch = samples_at_once(network, shape, o->batch, RS_PRECISION_F64, context);
    double samples = (double)shape.samples, rows = samples * s.layers;
    enum { CHAINS = 3 }; /* of each pair of layers: certified, from weights alone, those before */
    add_copies(budget, 1, s);
    add_pass(budget, network, (double)batch * (double)shape.longest, RS_PRECISION_F64);
    rs_budget_add(
        budget, "certificates",
        CHAINS * s.layers * s.layers * sizeof(double) +
            rows * (sizeof(rs_certify_row) + sizeof(rs_lambda_row) + sizeof(rs_certify_state)) +
            samples * s.all_heads * sizeof(rs_certify_head));
}

void rs_paths_need(rs_budget *budget, const rs_network *network, rs_run_shape shape,
                   const void *options, const rs_context *context)
{
    const rs_paths_options *o = options;
    stack s = stack_of(network, &o->edit);
    bool cut = o->max_length >= 0 && (double)o->max_length < s.layers;
    double lengths = (cut ? (double)o->max_length : s.layers) + 1;
    double n = (double)shape.longest, state = n * (double)s.d * sizeof(double);
    (void)context;
    add_copies(budget, 1, s);
    add_pass(budget, network, n, RS_PRECISION_F64);
    rs_budget_add(budget, "counts of paths", (s.layers + 1) * lengths * sizeof(double));
    /* Each row but the model's own is compared with it: its logits and their softmax. */
    if (!o->no_logits) add_logits(budget, network, n * (lengths + 1), 2, RS_PRECISION_F64);
    if (o->semantics == RS_PATHS_CODE) return;
    rs_budget_add(budget, "sums over paths",
                  (2 * (lengths + 1) + 1) * state + (o->by_layer ? s.layers * state : 0));
}
