/* paths_needs.c: the memory of a run of `rankscope paths`. */
#include "paths/paths.h"

void rs_paths_need(rs_budget *budget, const rs_network *network, rs_run_shape shape,
                   const void *options, const rs_context *context)
{
    const rs_paths_options *o = options;
    rs_need_stack s = rs_need_stack_of(network, &o->edit);
    bool cut = o->max_length >= 0 && (double)o->max_length < s.layers;
    double lengths = (cut ? (double)o->max_length : s.layers) + 1;
    double n = (double)shape.longest, state = n * (double)s.d * sizeof(double);
    (void)context;
    rs_need_copies(budget, 1, s);
    rs_budget_add(budget, "maps without heads", rs_ablation_bytes(network, &o->edit));
    rs_need_pass(budget, network, n, RS_PRECISION_F64);
    rs_budget_add(budget, "counts of paths", (s.layers + 1) * lengths * sizeof(double));
    /* Each row but the model's own is compared with it: its logits and their softmax. */
    if (!o->no_logits) rs_need_logits(budget, network, n * (lengths + 1), 2, RS_PRECISION_F64);
    if (o->semantics == RS_PATHS_CODE) return;
    if (o->lesions) rs_budget_add(budget, "states of lesions", (s.layers + 1 + 2 * 9) * state);
    rs_budget_add(budget, "sums over paths",
                  (2 * (lengths + 1) + 1) * state + (o->by_layer ? s.layers * state : 0));
}
