/* op_ssd.c: the row of op_traits.h of Mamba-2's mixer. */
#include "network/op_check.h"

#define AT(member) offsetof(rs_branch, ssd.member)

/* ---- weights ---- */

static int64_t entries_of_heads(const void *owner)
{
    return ((const rs_branch *)owner)->ssd.heads;
}

static const rs_weight_row rows[] = {
    {"in", RS_WEIGHT_MAP, AT(in), RS_ROLE_SSM_IN, NULL},
    {"conv", RS_WEIGHT_CONV, AT(conv), RS_ROLE_SSM_CONV, NULL},
    {"dt_bias", RS_WEIGHT_NUMBERS, AT(dt_bias), RS_ROLE_SSM_DT_BIAS, entries_of_heads},
    {"A_log", RS_WEIGHT_NUMBERS, AT(a_log), RS_ROLE_SSM_A, entries_of_heads},
    {"D", RS_WEIGHT_NUMBERS, AT(d), RS_ROLE_SSM_D, entries_of_heads},
    {"norm", RS_WEIGHT_NORM, AT(norm), RS_ROLE_SSM_NORM, NULL},
    {"out", RS_WEIGHT_MAP, AT(o), RS_ROLE_SSM_OUT, NULL},
};

/* ---- what it is ---- */

static int32_t matrices(const rs_branch *branch)
{
    return branch->ssd.heads;
}

static rs_op_width width(const rs_branch *branch)
{
    const rs_ssd_op *op = &branch->ssd;
    return (rs_op_width){.projected = op->in.out + op->conv.channels, .inner = op->o.in};
}

/* ---- what can be taken away ---- */

static bool drop_gate(rs_branch *branch)
{
    bool gated = branch->ssd.gate != RS_GATE_NONE;
    branch->ssd.gate = RS_GATE_NONE;
    return gated;
}

static bool drop_inner_norms(rs_branch *branch)
{
    return rs_op_drop_norm(&branch->ssd.norm);
}

/* ---- check ---- */

static rs_status check(const rs_branch *branch, int64_t d, const char *where, rs_error *err)
{
    const rs_ssd_op *op = &branch->ssd;
    int64_t inner = op->heads * op->head_dim, keys = op->groups * op->state;
    if (op->heads < 1 || op->groups < 1 || op->heads % op->groups || !rs_counts(op->head_dim) ||
        !rs_counts(op->state) || !rs_counts(inner) || !rs_counts(keys))
        return rs_fail(err, RS_E_CONFIG_HEADS, where, NULL,
                       "%d state-space heads of width %lld over %d groups of state %lld",
                       (int)op->heads, (long long)op->head_dim, (int)op->groups,
                       (long long)op->state);
    if (op->norm_groups < 1 || inner % op->norm_groups)
        return rs_fail(err, RS_E_CONFIG_SIZE, where, NULL,
                       "a norm in %lld stretches for an inner width of %lld",
                       (long long)op->norm_groups, (long long)inner);
    if (!op->a_log)
        return rs_fail(err, RS_E_INTERNAL, where, "please report this",
                       "a state-space mixer without its decay");
    RS_TRY(rs_check_conv(&op->conv, inner + 2 * keys, where, err));
    RS_TRY(rs_check_dense(&op->in, d, 2 * inner + 2 * keys + op->heads, where, err));
    RS_TRY(rs_check_dense(&op->o, inner, d, where, err));
    RS_TRY(rs_check_norm(&op->norm, inner, where, err));
    return rs_check_numbers(&rs_traits_ssd.weights, branch, err);
}

const rs_op_traits rs_traits_ssd = {
    .name = "Mamba-2",
    .word = "mamba2",
    RS_OP_NO_SOFTMAX,
    .weights = RS_WEIGHT_LIST(rows),
    .matrices = matrices,
    .width = width,
    .causal = rs_op_always,
    .drop_gate = drop_gate,
    .drop_inner_norms = drop_inner_norms,
    .check = check,
};
