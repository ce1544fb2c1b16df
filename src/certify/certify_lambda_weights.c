/* certify_lambda_weights.c: what the weights alone say of a layer, whatever it reads: how long the
 * rows of its mixer and of its MLP can be (L12, L13), and how much a skip beside unnormed attention
 * leaves (L19). */
#include "certify/certify_lambda_parts.h"

#include "base/memory.h"
#include "network/op_traits.h"
#include "proof/lambda_span.h"

#include <math.h>

const rs_norm_op *rs_certify_reads_through(const rs_network *network, int32_t l, int32_t b)
{
    const rs_branch *branch = &network->layers[l].branches[b];
    const rs_norm_op *norm = NULL;
    if (branch->before.kind != RS_NORM_NONE) return &branch->before;
    int32_t above = l - 1; /* the last layer before that has a branch */
    while (above >= 0 && network->layers[above].n_branches == 0)
        above--;
    if (b > 0 && !branch->joins)
        norm = &network->layers[l].branches[b - 1].after;
    else if (above >= 0)
        norm = &network->layers[above].branches[network->layers[above].n_branches - 1].after;
    else if (!network->embedding.projection.weight)
        norm = &network->embedding.norm;
    return norm && norm->kind != RS_NORM_NONE ? norm : NULL;
}

/* ---- MLPs ---- */

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
    case RS_ACT_SIN:
        return true;
    case RS_ACT_RELU2:
    case RS_ACT_SIGMOID:
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
                                     int32_t l, int32_t b, double *scratch)
{
    const rs_branch *mlp = &network->layers[l].branches[b];
    const rs_norm_op *norm = rs_certify_reads_through(network, l, b);
    if (!norm) return no_number("a norm before the MLP: else what it reads has no known length");
    if (mlp->inside.kind != RS_NORM_NONE) return no_number("no norm inside the branch");
    if (rs_branch_unproved(mlp)) return no_number("no multipliers of the MLP's weights");
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

/* c with ‖o_i‖ ≤ c√d for what the layer's MLP adds; scratch: d doubles. */
static rs_lambda_number mlp_gain(const rs_network *network, const rs_weight_norms *norms, int32_t l,
                                 double *scratch)
{
    int32_t b = only_mlp(&network->layers[l]);
    if (b < 0) return no_number("one MLP in the layer");
    return rs_certify_mlp_gain(network, norms, l, b, scratch);
}

/* ---- mixers ---- */

static rs_lambda_attention_weights weights_of(const rs_branch *mixer, const double *head_norm,
                                              double bias)
{
    const rs_attention_op *op = rs_branch_plain_attention(mixer);
    return (rs_lambda_attention_weights){.head_norm = head_norm,
                                         .heads = op->heads,
                                         .kv_heads = op->kv_heads,
                                         .stacked_norm = NAN,
                                         .value_norm = NAN,
                                         .output_norm = NAN,
                                         .bias_norm = bias};
}

rs_lambda_attention_weights rs_certify_attention_weights(const rs_certify_gains *gains,
                                                         const rs_network *network, int32_t l)
{
    return weights_of(rs_layer_mixer(&network->layers[l]), gains->read + gains->head_at[l], 0);
}

const char *rs_certify_gain_fails(const rs_network *network, int32_t l, const rs_branch *mixer)
{
    const rs_attention_op *op = rs_branch_plain_attention(mixer);
    if (!op) return "attention: the bound is on its weights";
    if (op->cross) return "attention to the tokens themselves";
    if (!rs_certify_reads_through(network, l, (int32_t)(mixer - network->layers[l].branches)))
        return "a norm before the branch: else what it reads has no known length";
    if (rs_branch_traits(mixer)->not_stochastic(mixer))
        return "attention that is not edited: its rows are no distributions";
    return mixer->inside.kind == RS_NORM_NONE ? NULL : "no norm inside the branch";
}

rs_lambda_number rs_certify_attention_gain(double *plain, double *read, const rs_network *network,
                                           const rs_weight_norms *norms, int32_t l, int32_t b,
                                           double *scratch)
{
    const rs_branch *mixer = &network->layers[l].branches[b];
    const rs_branch_norms *at = &norms->layers[l].branches[b];
    const rs_norm_op *norm = rs_certify_reads_through(network, l, b);
    const char *failed = rs_certify_gain_fails(network, l, mixer);
    /* multipliers of its maps: two roundings of each entry of either factor (C10) */
    double rounded = rs_branch_unproved(mixer) ? 0x1p-49 : 0;
    double largest = 1, bias = 0, carried = at->o_bias;
    if (norm) {
        rs_gain_norms gain;
        rs_gain_norms_of(&gain, scratch, norm);
        largest = gain.largest, bias = gain.bias;
    }
    for (int32_t h = 0; h < at->n_heads; h++) {
        const rs_product_norms *w = &at->heads[h].w;
        plain[h] = w->two;
        if (rounded > 0) plain[h] = rs_up(w->two + rounded * w->left_fro * w->right_fro * 2);
        read[h] = rs_times_up(plain[h], largest);
        carried += rs_times_up(plain[h], bias) + rs_times_up(w->right_two, at->heads[h].v_bias);
    }
    if (failed) return no_number(failed);
    /* 1e-12: two roundings a head (docs/certificates.md, C10) */
    rs_lambda_attention_weights w = weights_of(mixer, read, carried * (1 + 1e-12));
    return rs_lambda_gain_attention(&w, network->d_model, fabs(mixer->scale));
}

/* The gain of layer l's mixer and the norms of its heads, gains of the norm before folded in: ‖W
 * diag γ‖ ≤ ‖W‖ max|γ|. vector: d doubles. */
static void measure_mixer(rs_certify_gains *gains, const rs_network *network,
                          const rs_weight_norms *all, int32_t l, double *vector)
{
    const rs_branch *mixer = rs_layer_mixer(&network->layers[l]);
    if (!mixer || mixer->scale == 0 || !rs_branch_plain_attention(mixer)) return;
    int32_t b = (int32_t)(mixer - network->layers[l].branches);
    size_t at = gains->head_at[l];
    gains->mixers[l] =
        rs_certify_attention_gain(gains->plain + at, gains->read + at, network, all, l, b, vector)
            .value;
}

/* Where the heads of each layer's mixer begin; returns how many there are, and one. */
static size_t place_heads(rs_certify_gains *gains, const rs_network *network)
{
    size_t n = 0;
    for (int32_t l = 0; l < network->n_layers; l++) {
        const rs_branch *mixer = rs_layer_mixer(&network->layers[l]);
        gains->head_at[l] = n;
        if (mixer) n += (size_t)rs_branch_proved_heads(mixer);
    }
    return n + 1;
}

rs_status rs_certify_gains_open(rs_certify_gains *gains, const rs_certify_scene *scene,
                                rs_error *err)
{
    const rs_network *network = scene->network;
    const rs_weight_norms *norms = scene->norms;
    size_t layers = (size_t)network->n_layers;
    gains->head_at = rs_calloc(layers, sizeof *gains->head_at);
    if (!gains->head_at) return rs_fail_memory(err, "table lambda", layers);
    gains->heads = place_heads(gains, network);
    gains->mixers = rs_calloc(layers, sizeof *gains->mixers);
    gains->mlps = rs_calloc(layers, sizeof *gains->mlps);
    gains->sums = rs_calloc(layers, sizeof *gains->sums);
    gains->stretch = rs_calloc(layers, sizeof *gains->stretch);
    gains->plain = rs_calloc(gains->heads, sizeof *gains->plain);
    gains->read = rs_calloc(gains->heads, sizeof *gains->read);
    double *vector = rs_calloc((size_t)network->d_model, sizeof *vector);
    if (!vector || !gains->mixers || !gains->mlps || !gains->sums || !gains->stretch ||
        !gains->plain || !gains->read) {
        rs_free(vector);
        return rs_fail_memory(err, "table lambda", gains->heads * sizeof *gains->plain);
    }
    for (int32_t l = 0; l < network->n_layers; l++) {
        gains->mixers[l] = NAN;
        gains->mlps[l] = mlp_gain(network, norms, l, vector);
        measure_mixer(gains, network, norms, l, vector);
    }
    rs_free(vector);
    for (int32_t l = 0; l < network->n_layers; l++)
        RS_TRY(rs_certify_stretch(&gains->stretch[l], gains, network, l, err));
    return rs_certify_sum_gains(gains, scene, err);
}

void rs_certify_gains_close(rs_certify_gains *gains)
{
    rs_free(gains->mixers);
    rs_free(gains->mlps);
    rs_free(gains->sums);
    rs_free(gains->stretch);
    rs_free(gains->head_at);
    rs_free(gains->plain);
    rs_free(gains->read);
}

/* ---- every input ---- */

static const char *any_input_fails(const rs_branch *mixer)
{
    const rs_attention_op *op = rs_branch_plain_attention(mixer);
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
