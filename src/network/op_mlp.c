/* op_mlp.c: the MLP's row of op_traits.h: each token alone. */
#include "network/op_check.h"

#define AT(member) offsetof(rs_branch, mlp.member)

static const rs_weight_row rows[] = {
    {"up", RS_WEIGHT_MAP, AT(up), RS_ROLE_MLP_UP, NULL},
    {"gate", RS_WEIGHT_MAP, AT(gate), RS_ROLE_MLP_GATE, NULL},
    {"down", RS_WEIGHT_MAP, AT(down), RS_ROLE_MLP_DOWN, NULL},
};

static int32_t matrices(const rs_branch *branch)
{
    (void)branch;
    return 0;
}

static rs_op_width width(const rs_branch *branch)
{
    return (rs_op_width){.projected = branch->mlp.width, .inner = branch->mlp.width};
}

/* Without biases, behind what is a power of a positive number. */
static int32_t degree(const rs_branch *branch)
{
    const rs_mlp_op *op = &branch->mlp;
    bool biased = op->up.bias || op->down.bias || (op->gate.weight && op->gate.bias);
    bool power = op->activation == RS_ACT_LINEAR || op->activation == RS_ACT_RELU ||
                 op->activation == RS_ACT_RELU2;
    if (biased || !power) return 0;
    return (op->activation == RS_ACT_RELU2 ? 2 : 1) + (op->gate.weight != NULL);
}

static const char *no_mixing(const rs_branch *branch)
{
    (void)branch;
    return "an MLP, which mixes no tokens";
}

static rs_status check(const rs_branch *branch, int64_t d, const char *where, rs_error *err)
{
    const rs_mlp_op *op = &branch->mlp;
    RS_TRY(rs_check_dense(&op->up, d, op->up.out, where, err));
    if (op->gate.weight) RS_TRY(rs_check_dense(&op->gate, d, op->up.out, where, err));
    return rs_check_dense(&op->down, op->up.out, d, where, err);
}

const rs_op_traits rs_traits_mlp = {
    .name = "MLP",
    .word = "mlp",
    .weights = RS_WEIGHT_LIST(rows),
    .matrices = matrices,
    .width = width,
    .causal = rs_op_always,
    .reads_memory = rs_op_never,
    .row_sum = rs_op_no_row_sum,
    .degree = degree,
    .not_stochastic = no_mixing,
    .not_bilinear = no_mixing,
    .check = check,
};
