/* paths_needs.c: the memory of a run of `rankscope paths`. */
#include "paths/paths_parts.h"

#include <math.h>

/* Single paths of all lengths below `lengths` that are drawn, at most: of a length with fewer each is
 * taken. */
static double drawn_paths(const rs_paths_options *o, rs_need_stack s, double lengths)
{
    double count = 1, sum = 0;
    for (double k = 0; k < lengths; k++) {
        sum += fmin(count, (double)o->paths);
        count *= s.heads * (s.layers - k) / (k + 1);
    }
    return sum;
}

void rs_paths_need(rs_budget *budget, const rs_network *network, rs_run_shape shape,
                   const void *options, const rs_context *context)
{
    const rs_paths_options *o = options;
    rs_need_stack s = rs_need_stack_of(network, &o->edit);
    bool cut = o->max_length >= 0 && (double)o->max_length < s.layers;
    double lengths = (cut ? (double)o->max_length : s.layers) + 1;
    double n = (double)shape.longest, state = n * (double)s.d * sizeof(double);
    rs_need_copies(budget, 1, s);
    rs_budget_add(budget, "maps without heads", rs_ablation_bytes(network, &o->edit));
    rs_need_pass(budget, network, n, RS_PRECISION_F64);
    rs_budget_add(budget, "counts of paths", (s.layers + 1) * lengths * sizeof(double));
    /* Each row but the model's own is compared with it: its logits and their softmax. */
    if (!o->no_logits) rs_need_logits(budget, network, n * (lengths + 1), 2, RS_PRECISION_F64);
    if (o->semantics == RS_PATHS_CODE) return;
    double drawn = drawn_paths(o, s, lengths), ones = lengths > 1 ? s.all_heads : 0;
    bool beside = o->paths > 0 && ones > (double)o->paths;
    if (!beside || !rs_paths_take_ones(ones, state, context)) ones = 0;
    rs_budget_add(budget, "single paths", (drawn + ones) * state + drawn * n * n * sizeof(double));
    if (o->lesions) rs_budget_add(budget, "states of lesions", (s.layers + 1 + 2 * 9) * state);
    rs_budget_add(budget, "sums over paths",
                  (2 * (lengths + 1) + 1) * state + (o->by_layer ? s.layers * state : 0));
}
