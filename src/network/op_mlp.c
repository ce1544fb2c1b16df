/* op_mlp.c: the MLP's row of op_traits.h: each token alone. */
#include "network/op_check.h"

#include <math.h>

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

static bool causal(const rs_branch *branch)
{
    (void)branch;
    return true;
}

static bool reads_memory(const rs_branch *branch)
{
    (void)branch;
    return false;
}

static double row_sum(const rs_branch *branch)
{
    (void)branch;
    return NAN;
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
    .weights = RS_WEIGHT_LIST(rows),
    .matrices = matrices,
    .width = width,
    .causal = causal,
    .reads_memory = reads_memory,
    .row_sum = row_sum,
    .not_stochastic = no_mixing,
    .not_bilinear = no_mixing,
    .check = check,
};
