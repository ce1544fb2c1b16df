/* op_delta.c: the row of op_traits.h of the gated delta rule. */
#include "network/op_check.h"

#define AT(member) offsetof(rs_branch, delta.member)

/* ---- weights ---- */

static int64_t entries_of_heads(const void *owner)
{
    return ((const rs_branch *)owner)->delta.heads;
}

static const rs_weight_row rows[] = {
    {"q", RS_WEIGHT_MAP, AT(q), RS_ROLE_DELTA_Q, NULL},
    {"k", RS_WEIGHT_MAP, AT(k), RS_ROLE_DELTA_K, NULL},
    {"v", RS_WEIGHT_MAP, AT(v), RS_ROLE_DELTA_V, NULL},
    {"z", RS_WEIGHT_MAP, AT(z), RS_ROLE_DELTA_Z, NULL},
    {"b", RS_WEIGHT_MAP, AT(b), RS_ROLE_DELTA_B, NULL},
    {"a", RS_WEIGHT_MAP, AT(a), RS_ROLE_DELTA_A, NULL},
    {"conv", RS_WEIGHT_CONV, AT(conv), RS_ROLE_SSM_CONV, NULL},
    {"A_log", RS_WEIGHT_NUMBERS, AT(a_log), RS_ROLE_SSM_A, entries_of_heads},
    {"dt_bias", RS_WEIGHT_NUMBERS, AT(dt_bias), RS_ROLE_SSM_DT_BIAS, entries_of_heads},
    {"norm", RS_WEIGHT_NORM, AT(norm), RS_ROLE_SSM_NORM, NULL},
    {"out", RS_WEIGHT_MAP, AT(o), RS_ROLE_SSM_OUT, NULL},
};

/* ---- what it is ---- */

static int32_t matrices(const rs_branch *branch)
{
    return branch->delta.heads;
}

static rs_op_width width(const rs_branch *branch)
{
    const rs_delta_op *op = &branch->delta;
    int64_t behind = op->z.weight ? op->z.out : 0;
    return (rs_op_width){.projected = 2 * op->conv.channels + behind + 2 * op->heads,
                         .inner = op->o.in};
}

/* ---- what can be taken away ---- */

static bool drop_gate(rs_branch *branch)
{
    return rs_op_drop_map(&branch->delta.z);
}

static bool drop_inner_norms(rs_branch *branch)
{
    return rs_op_drop_norm(&branch->delta.norm);
}

/* ---- check ---- */

static rs_status check(const rs_branch *branch, int64_t d, const char *where, rs_error *err)
{
    const rs_delta_op *op = &branch->delta;
    int64_t keys = op->key_heads * op->key_dim, values = op->heads * op->value_dim;
    if (op->heads < 1 || op->key_heads < 1 || op->heads % op->key_heads || !rs_counts(keys) ||
        !rs_counts(values) || !rs_counts(2 * keys + values) ||
        !rs_counts(op->key_dim * op->value_dim))
        return rs_fail(err, RS_E_CONFIG_HEADS, where, NULL,
                       "%d delta-rule heads of width %lld over %d key heads of width %lld",
                       (int)op->heads, (long long)op->value_dim, (int)op->key_heads,
                       (long long)op->key_dim);
    if (!op->a_log)
        return rs_fail(err, RS_E_INTERNAL, where, "please report this",
                       "a delta rule without its decay");
    RS_TRY(rs_check_conv(&op->conv, 2 * keys + values, where, err));
    RS_TRY(rs_check_dense(&op->q, d, keys, where, err));
    RS_TRY(rs_check_dense(&op->k, d, keys, where, err));
    RS_TRY(rs_check_dense(&op->v, d, values, where, err));
    if (op->z.weight) RS_TRY(rs_check_dense(&op->z, d, values, where, err));
    RS_TRY(rs_check_dense(&op->b, d, op->heads, where, err));
    RS_TRY(rs_check_dense(&op->a, d, op->heads, where, err));
    RS_TRY(rs_check_dense(&op->o, values, d, where, err));
    RS_TRY(rs_check_norm(&op->norm, op->value_dim, where, err));
    return rs_check_numbers(&rs_traits_delta.weights, branch, err);
}

const rs_op_traits rs_traits_delta = {
    .name = "the gated delta rule",
    .word = "gated_delta",
    RS_OP_NO_SOFTMAX,
    .weights = RS_WEIGHT_LIST(rows),
    .matrices = matrices,
    .width = width,
    .causal = rs_op_always,
    .drop_gate = drop_gate,
    .drop_inner_norms = drop_inner_norms,
    .check = check,
};
