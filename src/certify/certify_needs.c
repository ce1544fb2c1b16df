/* certify_needs.c: the memory of a run of `rankscope certify`. */
#include "certify/certify_exact_states.h"
#include "certify/certify_lambda.h"
#include "certify/certify_parts.h"
#include "certify/certify_steps.h"
#include "network/op_traits.h"

void rs_certify_need_kept(rs_budget *budget, const rs_network *network, rs_run_shape shape,
                          const rs_edit *edit)
{
    rs_need_stack s = rs_need_stack_of(network, edit);
    double samples = (double)shape.samples, rows = samples * s.layers;
    enum { CHAINS = 3 }; /* of each pair of layers: certified, from weights alone, those before */
    rs_need_copies(budget, 1, s);
    rs_budget_add(budget, "certificates",
                  CHAINS * s.layers * s.layers * sizeof(double) +
                      rows * (sizeof(rs_certify_row) + sizeof(rs_lambda_row) + sizeof(double) +
                              sizeof(rs_certify_state)) +
                      samples * s.all_heads * sizeof(rs_certify_head));
}

void rs_certify_need_norms(rs_budget *budget, const rs_network *network, rs_run_shape shape,
                           int64_t batch, const rs_context *context)
{
    rs_budget_add(
        budget, "norms of mixing matrices",
        rs_mixing_bytes(network, RS_PRECISION_F64, batch, shape.longest, context->threads));
    rs_budget_add(budget, "rows that an MLP reads",
                  (double)batch * (double)shape.longest * (double)network->d_model *
                      sizeof(double));
}

void rs_certify_need_rounding(rs_budget *budget, const rs_network *network, rs_run_shape shape,
                              int64_t batch, const rs_context *context)
{
    int64_t rows = batch * shape.longest;
    double most = 0;
    for (int32_t l = 0; l < network->n_layers; l++)
        for (int32_t b = 0; b < network->layers[l].n_branches; b++) {
            const rs_branch *branch = &network->layers[l].branches[b];
            if (branch->scale == 0 || !rs_branch_unproved(branch) ||
                rs_exact_states_unbounded(branch))
                continue;
            most = fmax(most, rs_exact_states_bytes(branch, rows, context->threads));
        }
    if (most > 0) rs_budget_add(budget, "rounding of mixers", most);
}

void rs_certify_need_steps(rs_budget *budget, const rs_network *network, rs_run_shape shape,
                           const rs_certify_options *o, const rs_context *context)
{
    double most = 0, at_once = fmin((double)context->threads, (double)o->n_steps);
    for (size_t i = 0; i < o->n_steps; i++) {
        if (o->steps[i].layer >= network->n_layers) continue; /* refused once it is opened */
        const rs_branch *mixer = rs_layer_mixer(&network->layers[o->steps[i].layer]);
        if (mixer) most = fmax(most, rs_steps_need(mixer, shape.longest));
    }
    if (o->n_steps == 0) return;
    rs_budget_add(budget, "proof steps",
                  at_once * most +
                      (double)o->n_steps *
                          ((double)shape.longest * (double)network->d_model * sizeof(double) +
                           sizeof(rs_proved_head)));
}

void rs_certify_need(rs_budget *budget, const rs_network *network, rs_run_shape shape,
                     const void *options, const rs_context *context)
{
    const rs_certify_options *o = options;
    int64_t batch = rs_need_samples(network, shape, o->batch, RS_PRECISION_F64, context);
    rs_need_pass(budget, network, (double)batch * (double)shape.longest, RS_PRECISION_F64);
    rs_certify_need_norms(budget, network, shape, batch, context);
    if (o->rigorous) rs_certify_need_rounding(budget, network, shape, batch, context);
    rs_certify_need_kept(budget, network, shape, &o->edit);
    rs_certify_need_steps(budget, network, shape, o, context);
}
