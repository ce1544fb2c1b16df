/* op_traits.c: the rows of op_traits.h by kind, and what asks them of a layer or a network. */
#include "network/op_traits.h"

static const rs_op_traits *const rows[RS_BRANCH_KINDS] = {
    [RS_BRANCH_ATTENTION] = &rs_traits_attention,
    [RS_BRANCH_MLP] = &rs_traits_mlp,
    [RS_BRANCH_SSD] = &rs_traits_ssd,
    [RS_BRANCH_S6] = &rs_traits_s6,
    [RS_BRANCH_LINEAR] = &rs_traits_linear,
    [RS_BRANCH_S4D] = &rs_traits_s4d,
    [RS_BRANCH_RECURRENCE] = &rs_traits_recurrence,
    [RS_BRANCH_DELTA] = &rs_traits_delta,
    [RS_BRANCH_SHORT_CONV] = &rs_traits_short_conv,
    [RS_BRANCH_GRAPH] = &rs_traits_graph,
};

const rs_op_traits *rs_op_traits_of(rs_branch_kind kind)
{
    return rows[kind];
}

const rs_attention_op *rs_branch_attention(const rs_branch *branch)
{
    return branch->kind == RS_BRANCH_ATTENTION ? &branch->attention : NULL;
}

const rs_mlp_op *rs_branch_mlp(const rs_branch *branch)
{
    return branch->kind == RS_BRANCH_MLP ? &branch->mlp : NULL;
}

int32_t rs_branch_degree(const rs_branch *branch)
{
    const rs_op_traits *traits = rs_branch_traits(branch);
    return traits->degree ? traits->degree(branch) : 0;
}

const rs_attention_op *rs_branch_plain_attention(const rs_branch *branch)
{
    const rs_attention_op *op = rs_branch_attention(branch);
    return op && op->gate.weight ? NULL : op;
}

int32_t rs_branch_proved_heads(const rs_branch *branch)
{
    bool gated = rs_branch_attention(branch) && !rs_branch_plain_attention(branch);
    const rs_op_traits *traits = rs_branch_traits(branch);
    return traits->unproved || gated ? 0 : traits->matrices(branch);
}

int32_t rs_branch_heads(const rs_branch *branch)
{
    const rs_op_traits *traits = rs_branch_traits(branch);
    return traits->by_channel ? 0 : traits->matrices(branch);
}

/* Some map of the branch is multiplied by what the configuration says: its matrix in float64 is
 * rounded, and certificates are about matrices that are not. */
static bool has_factors(const rs_branch *branch)
{
    const rs_weight_list *weights = &rs_branch_traits(branch)->weights;
    for (size_t i = 0; i < weights->n; i++) {
        const rs_dense *map = rs_weight_map(&weights->rows[i], branch);
        if (map && map->factors) return true;
    }
    return false;
}

const char *rs_branch_unproved(const rs_branch *branch)
{
    const char *kind = rs_branch_traits(branch)->unproved;
    if (kind) return kind;
    if (rs_branch_attention(branch) && !rs_branch_plain_attention(branch))
        return "no theorem here is about attention whose heads have gates";
    return has_factors(branch) ? "multipliers of its weights, whose rounding has no bound here"
                               : NULL;
}

const char *rs_layer_unproved(const rs_layer *layer)
{
    const char *why = NULL;
    for (int32_t b = 0; b < layer->n_branches; b++) {
        const rs_branch *branch = &layer->branches[b];
        bool counts = rs_branch_traits(branch)->mixes && branch->scale != 0;
        if (counts && rs_branch_traits(branch)->unproved) return rs_branch_unproved(branch);
        if (counts && !why) why = rs_branch_unproved(branch);
    }
    return why;
}

bool rs_layer_mixes_with(const rs_layer *layer, int32_t branch)
{
    const rs_branch *at = &layer->branches[branch], *mixer = rs_layer_mixer(layer);
    const rs_op_traits *traits = rs_branch_traits(at);
    return at == mixer ||
           (mixer && at > mixer && at->joins && traits->mixes && !traits->reads_memory(at));
}

const rs_branch *rs_layer_mixer(const rs_layer *layer)
{
    for (int32_t b = 0; b < layer->n_branches; b++) {
        const rs_branch *branch = &layer->branches[b];
        const rs_op_traits *traits = rs_branch_traits(branch);
        if (traits->mixes && !traits->reads_memory(branch)) return branch;
    }
    return NULL;
}

bool rs_is_mixer(const rs_network *network, int32_t layer, int32_t branch)
{
    const rs_layer *at = &network->layers[layer];
    return &at->branches[branch] == rs_layer_mixer(at);
}

bool rs_network_reads_memory(const rs_network *network)
{
    for (int32_t l = 0; l < network->n_layers; l++)
        for (int32_t b = 0; b < network->layers[l].n_branches; b++) {
            const rs_branch *branch = &network->layers[l].branches[b];
            if (rs_branch_traits(branch)->reads_memory(branch)) return true;
        }
    return false;
}
