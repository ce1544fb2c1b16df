/* certify_lambda_weights.c: what the weights alone say of a layer, whatever it reads: how long the
 * rows of its MLP can be (L13), and how much a skip beside unnormed attention leaves (L19). */
#include "certify/certify_lambda.h"

#include "network/op_traits.h"
#include "proof/lambda_span.h"

#include <math.h>

/* |φ(x)| ≤ |x| for every x. */
static bool bounded_by_identity(rs_activation activation)
{
    switch (activation) {
    case RS_ACT_LINEAR:
    case RS_ACT_RELU:
    case RS_ACT_GELU:
    case RS_ACT_GELU_TANH:
    case RS_ACT_QUICK_GELU:
    case RS_ACT_SILU:
    case RS_ACT_TANH:
        return true;
    case RS_ACT_RELU2:
    case RS_ACT_COUNT:
        return false;
    }
    return false;
}

static rs_lambda_number no_number(const char *failed)
{
    return (rs_lambda_number){NAN, false, failed};
}

/* The place of a layer's one MLP; -1: it has none, or several. */
static int32_t only_mlp(const rs_layer *layer)
{
    int32_t found = -1, count = 0;
    for (int32_t b = 0; b < layer->n_branches; b++)
        if (rs_branch_mlp(&layer->branches[b])) found = b, count++;
    return count == 1 ? found : -1;
}

rs_lambda_number rs_certify_mlp_gain(const rs_network *network, const rs_weight_norms *norms,
                                     int32_t l, double *scratch)
{
    int32_t b = only_mlp(&network->layers[l]);
    if (b < 0) return no_number("one MLP in the layer");
    const rs_branch *mlp = &network->layers[l].branches[b];
    const rs_norm_op *norm = rs_certify_reads_through(network, l, b);
    if (!norm) return no_number("a norm before the MLP: else what it reads has no known length");
    if (mlp->inside.kind != RS_NORM_NONE) return no_number("no norm inside the branch");
    if (mlp->scale == 0) return (rs_lambda_number){0, true, NULL};
    const rs_branch_norms *m = &norms->layers[l].branches[b];
    rs_gain_norms gain;
    rs_gain_norms_of(&gain, scratch, norm);
    rs_lambda_mlp_weights weights = {
        .gated = m->mlp.gated,
        .down_norm = m->mlp.down_two,
        .up_norm = rs_times_up(m->mlp.up_two, gain.largest),
        .gate_row_norm = rs_times_up(m->mlp.gate_row, gain.largest),
        .up_bias_norm = rs_up(rs_times_up(m->mlp.up_two, gain.bias) + m->up_bias),
        .gate_bias_max = rs_up(rs_times_up(m->mlp.gate_row, gain.bias) + m->mlp.gate_bias),
        .down_bias_norm = m->down_bias,
        .bounded_by_identity = bounded_by_identity(mlp->mlp.activation)};
    return rs_lambda_gain_mlp(&weights, network->d_model, mlp->scale);
}

static const char *any_input_fails(const rs_branch *mixer)
{
    const rs_attention_op *op = rs_branch_attention(mixer);
    bool bare = mixer->before.kind == RS_NORM_NONE && mixer->inside.kind == RS_NORM_NONE &&
                mixer->after.kind == RS_NORM_NONE && !mixer->joins;
    if (!op) return "attention: the bound is on its weights";
    if (!bare) return "no norm before, inside or behind the branch";
    if (op->cross) return "attention to the tokens themselves";
    if (rs_branch_traits(mixer)->not_stochastic(mixer))
        return "attention that is not edited: its rows are no distributions";
    return NULL;
}

void rs_certify_any_input(rs_lambda_row *row, const rs_branch *mixer, const double *head_norms,
                          int64_t n, double kept)
{
    row->failed_any = any_input_fails(mixer);
    if (row->failed_any) return;
    rs_lambda_attention_weights weights = {.head_norm = head_norms,
                                           .heads = mixer->attention.heads,
                                           .kv_heads = mixer->attention.kv_heads,
                                           .stacked_norm = NAN,
                                           .value_norm = NAN,
                                           .output_norm = NAN};
    double demand = rs_lambda_demand_any_input(&weights, n, NULL, mixer->scale, kept);
    double left = rs_lambda_kept_any_input(&weights, n, NULL, mixer->scale, mixer->skip);
    if (isfinite(demand) && isfinite(left)) {
        row->any_demand = demand;
        row->any_kept = fmax(0, left); /* what is left is never negative */
    } else {
        row->failed_any = "norms of the weights that are doubles";
    }
}
