/* probe_needs.c: the memory of a run of `rankscope probe`. */
#include "probe/probe.h"

#include <math.h>

/* Numbers that sums of gradients take: all with several batches, or where layers are repeated; else
 * those of the decoder, whose gradient comes in pieces. */
static double summed_numbers(const rs_network *network, bool several)
{
    for (int32_t l = 0; l < network->n_layers && !several; l++)
        several = network->layers[l].stored != l;
    return several ? (double)network->stored.parameters
                   : (double)network->head.decoder.out * (double)network->head.decoder.in;
}

/* The tape of a batch, and sums of gradients. */
static void add_gradients(rs_budget *budget, const rs_network *network, rs_need_stack s,
                          int64_t batch, rs_run_shape shape, const rs_probe_options *o)
{
    rs_precision precision = o->measure.precision;
    double longer = network->n_layers > 0 ? s.layers / network->n_layers : 1;
    if (o->back.recompute) longer = 1;
    rs_budget_add(budget, "tapes of the way back",
                  longer *
                      (double)rs_tape_bytes(network, precision, &o->back, batch * shape.longest));
    rs_budget_add(budget, "gradients",
                  summed_numbers(network, batch < shape.samples) *
                      (double)rs_precision_size(precision));
    rs_budget_add(budget, "rows of gradients", longer * rs_gradient_rows_bytes(network));
}

/* What relevance holds: the tape of one sample, its states, the texts of removal curves beyond the
 * `batch` samples of the other passes. */
static void add_relevance(rs_budget *budget, const rs_network *network, rs_need_stack s,
                          int64_t batch, rs_run_shape shape, const rs_probe_options *o,
                          const rs_context *context)
{
    rs_precision precision = o->measure.precision;
    const rs_run_shape curves = {.samples = RS_REMOVAL_TEXTS, .longest = shape.longest};
    int64_t texts = rs_need_samples(network, curves, o->measure.batch, precision, context);
    double longer = network->n_layers > 0 ? s.layers / network->n_layers : 1;
    rs_budget_add(budget, "tapes of relevance",
                  (o->back.recompute ? 1 : longer) *
                      (double)rs_tape_bytes(network, precision, &o->back, shape.longest));
    rs_budget_add(budget, "numbers of relevance",
                  longer * rs_relevance_bytes(network, shape.longest, shape.samples * shape.longest,
                                              shape.samples));
    if (texts > batch)
        rs_need_pass(budget, network, (double)(texts - batch) * (double)shape.longest, precision);
}

void rs_probe_need(rs_budget *budget, const rs_network *network, rs_run_shape shape,
                   const void *options, const rs_context *context)
{
    const rs_probe_options *o = options;
    const rs_measure_options *m = &o->measure;
    rs_need_stack s = rs_need_stack_of(network, &o->edit);
    int64_t batch = rs_need_samples(network, shape, m->batch, m->precision, context);
    double rows = 2 * s.layers + 1, at_once = (double)batch;
    /* where the longest is left out nothing is known of the others */
    int64_t pairs = rs_measures_pairs(m, shape.longest) ? shape.longest : 0;
    rs_need_copies(budget, 1, s);
    rs_budget_add(budget, "maps without heads", rs_ablation_bytes(network, &o->edit));
    rs_need_pass(budget, network, at_once * (double)shape.longest, m->precision);
    rs_budget_add(budget, "measures of tokens",
                  rows * (sizeof(rs_token_row) +
                          (RS_TOKEN_REALS + RS_TOKEN_LOGS) * (double)(2 * sizeof(double)) +
                          (double)shape.samples * (2 * sizeof(double) + sizeof(bool))));
    if (m->loss && network->head.next_token && shape.longest > 1)
        rs_need_logits(budget, network, at_once * (double)shape.longest, 0, m->precision);
    if (rs_mixing_is_asked(network, m))
        rs_budget_add(
            budget, "measures of mixing",
            (double)rs_mixing_rows(network, m) * s.layers / fmax(1, network->n_layers) *
                    (sizeof(rs_mixing_row) + at_once * sizeof(rs_mixing_measures)) +
                rs_mixing_bytes(network, m->precision, batch, shape.longest, context->threads));
    if (o->grad) add_gradients(budget, network, s, batch, shape, o);
    if (o->relevance) add_relevance(budget, network, s, batch, shape, o, context);
    if (!m->attention) return;
    if (rs_measures_ranks(m, shape.longest))
        rs_budget_add(budget, "rollout",
                      rs_rollout_bytes(at_once, shape.longest, context->threads));
    rs_budget_add(budget, "measures of attention",
                  s.all_heads * (sizeof(rs_attention_row) +
                                 at_once * (sizeof(rs_attention_measures) + sizeof(double))) +
                      context->threads * (double)rs_attention_workspace(pairs));
}
