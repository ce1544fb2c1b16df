/* op_s6.c: the row of op_traits.h of Mamba's mixer. */
#include "network/op_check.h"

#define AT(member) offsetof(rs_branch, s6.member)

/* ---- weights ---- */

static int64_t entries_of_states(const void *owner)
{
    const rs_s6_op *op = &((const rs_branch *)owner)->s6;
    return op->inner * op->state;
}

static int64_t entries_of_channels(const void *owner)
{
    return ((const rs_branch *)owner)->s6.inner;
}

static const rs_weight_row rows[] = {
    {"in", RS_WEIGHT_MAP, AT(in), RS_ROLE_SSM_IN, NULL},
    {"conv", RS_WEIGHT_CONV, AT(conv), RS_ROLE_SSM_CONV, NULL},
    {"x", RS_WEIGHT_MAP, AT(x), RS_ROLE_SSM_X, NULL},
    {"dt norm", RS_WEIGHT_NORM, AT(dt_norm), RS_ROLE_SSM_DT_NORM, NULL},
    {"B norm", RS_WEIGHT_NORM, AT(b_norm), RS_ROLE_SSM_B_NORM, NULL},
    {"C norm", RS_WEIGHT_NORM, AT(c_norm), RS_ROLE_SSM_C_NORM, NULL},
    {"dt", RS_WEIGHT_MAP, AT(step), RS_ROLE_SSM_DT, NULL},
    {"A_log", RS_WEIGHT_NUMBERS, AT(a_log), RS_ROLE_SSM_A, entries_of_states},
    {"D", RS_WEIGHT_NUMBERS, AT(d), RS_ROLE_SSM_D, entries_of_channels},
    {"out", RS_WEIGHT_MAP, AT(o), RS_ROLE_SSM_OUT, NULL},
};

/* ---- what it is ---- */

static int32_t matrices(const rs_branch *branch)
{
    return (int32_t)branch->s6.inner; /* a matrix for each channel */
}

static rs_op_width width(const rs_branch *branch)
{
    const rs_s6_op *op = &branch->s6;
    return (rs_op_width){.projected = op->in.out + op->x.out + 2 * op->inner, .inner = op->o.in};
}

/* ---- what can be taken away ---- */

static bool drop_gate(rs_branch *branch)
{
    bool gated = branch->s6.gated;
    branch->s6.gated = false;
    return gated;
}

static bool drop_inner_norms(rs_branch *branch)
{
    bool dt = rs_op_drop_norm(&branch->s6.dt_norm);
    bool b = rs_op_drop_norm(&branch->s6.b_norm);
    return rs_op_drop_norm(&branch->s6.c_norm) || b || dt;
}

/* ---- check ---- */

static rs_status check(const rs_branch *branch, int64_t d, const char *where, rs_error *err)
{
    const rs_s6_op *op = &branch->s6;
    if (!rs_counts(op->inner) || !rs_counts(op->state) || !rs_counts(op->rank) ||
        !rs_counts(op->inner * op->state))
        return rs_fail(err, RS_E_CONFIG_SIZE, where, NULL,
                       "%lld state-space channels of state %lld, steps of rank %lld",
                       (long long)op->inner, (long long)op->state, (long long)op->rank);
    if (!op->a_log)
        return rs_fail(err, RS_E_INTERNAL, where, "please report this",
                       "a state-space mixer without its decay");
    RS_TRY(rs_check_conv(&op->conv, op->inner, where, err));
    RS_TRY(rs_check_dense(&op->in, d, 2 * op->inner, where, err));
    RS_TRY(rs_check_dense(&op->x, op->inner, op->rank + 2 * op->state, where, err));
    RS_TRY(rs_check_dense(&op->step, op->rank, op->inner, where, err));
    RS_TRY(rs_check_dense(&op->o, op->inner, d, where, err));
    RS_TRY(rs_check_norm(&op->dt_norm, op->rank, where, err));
    RS_TRY(rs_check_norm(&op->b_norm, op->state, where, err));
    RS_TRY(rs_check_norm(&op->c_norm, op->state, where, err));
    return rs_check_numbers(&rs_traits_s6.weights, branch, err);
}

const rs_op_traits rs_traits_s6 = {
    .name = "Mamba",
    .word = "mamba",
    RS_OP_NO_SOFTMAX,
    .weights = RS_WEIGHT_LIST(rows),
    .matrices = matrices,
    .by_channel = true,
    .width = width,
    .causal = rs_op_always,
    .drop_gate = drop_gate,
    .drop_inner_norms = drop_inner_norms,
    .check = check,
};
