/* probe_needs.c: the memory of a run of `rankscope probe`. */
#include "probe/probe.h"

#include <math.h>

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
    if (!m->attention) return;
    rs_budget_add(budget, "measures of attention",
                  s.all_heads * (sizeof(rs_attention_row) +
                                 at_once * (sizeof(rs_attention_measures) + sizeof(double))) +
                      context->threads * (double)rs_attention_workspace(pairs));
}
