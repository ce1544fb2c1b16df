/* trials_cost.c: what a trial costs, and how many there are. */
#include "predict/trials.h"

#include "network/op_traits.h"

/* All trials' operations, and how many trials there are at least and at most. */
static const double operations = 3e11;
enum { LEAST = 4, MOST = 100 };

/* Multiply-adds of a branch for one token: of its maps, and of n keys in attention. */
static double branch_products(const rs_branch *branch, double n)
{
    const rs_weight_list *weights = &rs_branch_traits(branch)->weights;
    const rs_attention_op *op = rs_branch_attention(branch);
    double sum = 0;
    for (size_t i = 0; i < weights->n; i++) {
        const rs_dense *map = rs_weight_map(&weights->rows[i], branch);
        bool absent = !map || !map->weight || map->weight->fixed; /* a fixed one is the identity */
        if (!absent) sum += (double)map->out * (double)map->in;
    }
    if (op) sum += n * op->heads * ((double)op->head_dim + (double)op->value_dim);
    return sum;
}

double rs_trials_cost(const rs_network *network, int64_t n)
{
    enum { FORWARD_AND_BACK = 3, A_MULTIPLY_ADD = 2 };
    double sum = 0;
    for (int32_t l = 0; l < network->n_layers; l++)
        for (int32_t b = 0; b < network->layers[l].n_branches; b++)
            sum += branch_products(&network->layers[l].branches[b], (double)n);
    return FORWARD_AND_BACK * A_MULTIPLY_ADD * (double)n * sum;
}

int32_t rs_trials_default(const rs_network *network, int64_t n)
{
    double cost = rs_trials_cost(network, n);
    if (!(cost * MOST > operations)) return MOST;
    double trials = operations / cost;
    return trials < LEAST ? LEAST : (int32_t)trials;
}
