/* op_recurrence.c: the row of op_traits.h of the gated linear recurrence. */
#include "network/op_check.h"

#define AT(member) offsetof(rs_branch, recurrence.member)

static const rs_weight_row rows[] = {
    {"in", RS_WEIGHT_MAP, AT(in), RS_ROLE_SSM_IN, NULL},
    {"conv", RS_WEIGHT_CONV, AT(conv), RS_ROLE_SSM_CONV, NULL},
    {"gates", RS_WEIGHT_MAP, AT(gates), RS_ROLE_SSM_X, NULL},
    {"out", RS_WEIGHT_MAP, AT(o), RS_ROLE_SSM_OUT, NULL},
};

static int32_t matrices(const rs_branch *branch)
{
    return (int32_t)branch->recurrence.inner; /* a matrix for each channel */
}

static rs_op_width width(const rs_branch *branch)
{
    const rs_recurrence_op *op = &branch->recurrence;
    return (rs_op_width){.projected = op->in.out + op->gates.out + op->inner, .inner = op->inner};
}

static bool drop_gate(rs_branch *branch)
{
    bool gated = branch->recurrence.gated;
    branch->recurrence.gated = false;
    return gated;
}

static rs_status check(const rs_branch *branch, int64_t d, const char *where, rs_error *err)
{
    const rs_recurrence_op *op = &branch->recurrence;
    if (!rs_counts(op->inner) || !rs_counts(3 * op->inner))
        return rs_fail(err, RS_E_CONFIG_SIZE, where, NULL, "%lld channels of a recurrence",
                       (long long)op->inner);
    RS_TRY(rs_check_conv(&op->conv, op->inner, where, err));
    RS_TRY(rs_check_dense(&op->in, d, 2 * op->inner, where, err));
    RS_TRY(rs_check_dense(&op->gates, op->inner, 3 * op->inner, where, err));
    return rs_check_dense(&op->o, op->inner, d, where, err);
}

const rs_op_traits rs_traits_recurrence = {
    .name = "gated recurrence",
    .word = "gated_recurrence",
    RS_OP_NO_SOFTMAX,
    .weights = RS_WEIGHT_LIST(rows),
    .matrices = matrices,
    .by_channel = true,
    .width = width,
    .causal = rs_op_always,
    .drop_gate = drop_gate,
    .check = check,
};
