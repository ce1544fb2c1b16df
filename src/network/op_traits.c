/* op_traits.c: the rows of op_traits.h by kind, and what asks them of a layer or a network. */
#include "network/op_traits.h"

const rs_op_traits *rs_op_traits_of(rs_branch_kind kind)
{
    switch (kind) {
    case RS_BRANCH_ATTENTION:
        return &rs_traits_attention;
    case RS_BRANCH_MLP:
        return &rs_traits_mlp;
    case RS_BRANCH_SSD:
        return &rs_traits_ssd;
    case RS_BRANCH_S6:
        return &rs_traits_s6;
    }
    return NULL;
}

const rs_attention_op *rs_branch_attention(const rs_branch *branch)
{
    switch (branch->kind) {
    case RS_BRANCH_ATTENTION:
        return &branch->attention;
    case RS_BRANCH_MLP:
    case RS_BRANCH_SSD:
    case RS_BRANCH_S6:
        return NULL;
    }
    return NULL;
}

const rs_mlp_op *rs_branch_mlp(const rs_branch *branch)
{
    switch (branch->kind) {
    case RS_BRANCH_MLP:
        return &branch->mlp;
    case RS_BRANCH_ATTENTION:
    case RS_BRANCH_SSD:
    case RS_BRANCH_S6:
        return NULL;
    }
    return NULL;
}

int32_t rs_branch_proved_heads(const rs_branch *branch)
{
    const rs_op_traits *traits = rs_branch_traits(branch);
    return traits->unproved ? 0 : traits->matrices(branch);
}

int32_t rs_branch_heads(const rs_branch *branch)
{
    const rs_op_traits *traits = rs_branch_traits(branch);
    return traits->by_channel ? 0 : traits->matrices(branch);
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
