/* needs.c: the parts of a run's memory that several commands have. */
#include "observe/needs.h"

#include "network/op_traits.h"
#include "observe/measure.h"

#include <math.h>

rs_need_stack rs_need_stack_of(const rs_network *network, const rs_edit *edit)
{
    rs_need_stack s = {.layers = network->n_layers, .d = network->d_model};
    for (int32_t l = 0; l < network->n_layers; l++) {
        const rs_branch *mixer = rs_layer_mixer(&network->layers[l]);
        double heads = mixer ? rs_branch_heads(mixer) : 0;
        s.heads = fmax(s.heads, heads);
        s.all_heads += heads;
    }
    if (edit->depth > 0 && network->n_layers > 0) {
        s.all_heads *= (double)edit->depth / s.layers;
        s.layers = edit->depth;
    }
    return s;
}

int64_t rs_need_samples(const rs_network *network, rs_run_shape shape, int64_t batch,
                        rs_precision precision, const rs_context *context)
{
    if (batch <= 0) batch = rs_default_batch(network, precision, shape.longest, context);
    return batch < shape.samples ? batch : shape.samples;
}

void rs_need_pass(rs_budget *budget, const rs_network *network, double tokens,
                  rs_precision precision)
{
    double widest = 0;
    for (int32_t l = 0; l < network->n_layers; l++)
        for (int32_t b = 0; b < network->layers[l].n_branches; b++) {
            const rs_branch *branch = &network->layers[l].branches[b];
            if (rs_layer_mixes_with(&network->layers[l], b))
                widest = fmax(widest, (double)rs_branch_traits(branch)->width(branch).projected);
        }
    double states = network->read_out.kind != RS_FUSION_NONE ? network->n_layers : 0;
    rs_budget_add(budget, "activations",
                  tokens * ((3.0 + states) * (double)network->d_model + widest) *
                      (double)rs_precision_size(precision));
}

void rs_need_logits(rs_budget *budget, const rs_network *network, double rows, double more,
                    rs_precision precision)
{
    const rs_dense *decoder = &network->head.decoder;
    if (!decoder->weight) return;
    rows = fmin(rows, (double)rs_logits_rows(decoder, precision));
    rs_budget_add(budget, "logits",
                  (double)decoder->out * (rows * (double)rs_precision_size(precision) +
                                          more * (double)sizeof(double)));
}

void rs_need_copies(rs_budget *budget, double copies, rs_need_stack s)
{
    rs_budget_add(budget, "layers", copies * s.layers * (double)sizeof(rs_layer));
}
