/* op_linear.c: the row of op_traits.h of linear attention. */
#include "network/op_check.h"

#define AT(member) offsetof(rs_branch, linear.member)

/* ---- weights ---- */

static int64_t entries_of_heads(const void *owner)
{
    return ((const rs_branch *)owner)->linear.heads;
}

static const rs_weight_row rows[] = {
    {"q", RS_WEIGHT_MAP, AT(q), RS_ROLE_Q, NULL},
    {"k", RS_WEIGHT_MAP, AT(k), RS_ROLE_K, NULL},
    {"v", RS_WEIGHT_MAP, AT(v), RS_ROLE_V, NULL},
    {"gate", RS_WEIGHT_MAP, AT(gate), RS_ROLE_SSM_IN, NULL},
    {"decay", RS_WEIGHT_NUMBERS, AT(decay), RS_ROLE_SSM_A, entries_of_heads},
    {"norm", RS_WEIGHT_NORM, AT(norm), RS_ROLE_SSM_NORM, NULL},
    {"o", RS_WEIGHT_MAP, AT(o), RS_ROLE_O, NULL},
};

/* ---- what it is ---- */

static int32_t matrices(const rs_branch *branch)
{
    return branch->linear.heads;
}

static int32_t parts(const rs_branch *branch, rs_role role)
{
    const rs_linear_op *op = &branch->linear;
    if (role == RS_ROLE_Q) return op->q.weight ? op->heads : 0;
    if (role == RS_ROLE_K) return op->k.weight ? op->kv_heads : 0;
    if (role == RS_ROLE_V) return op->v.weight ? op->kv_heads : 0;
    return role == RS_ROLE_O && op->o.weight ? op->heads : 0;
}

static rs_op_width width(const rs_branch *branch)
{
    const rs_linear_op *op = &branch->linear;
    return (rs_op_width){.projected = op->q.out + op->k.out + op->v.out + op->gate.out,
                         .inner = op->heads * op->value_dim};
}

static bool causal(const rs_branch *branch)
{
    return branch->linear.causal;
}

/* ---- what can be taken away ---- */

static bool drop_gate(rs_branch *branch)
{
    return rs_op_drop_map(&branch->linear.gate);
}

static bool drop_inner_norms(rs_branch *branch)
{
    return rs_op_drop_norm(&branch->linear.norm);
}

/* Of plain linear attention without biases: queries, keys and values count once each; where rows are
 * divided by their sums, the values alone. */
static int32_t degree(const rs_branch *branch)
{
    const rs_linear_op *op = &branch->linear;
    bool biased = op->q.bias || op->k.bias || op->v.bias || op->o.bias;
    bool plain =
        op->feature_map == RS_FEATURE_IDENTITY && !op->gate.weight && op->norm.kind == RS_NORM_NONE;
    if (biased || !plain) return 0;
    return op->normalised ? 1 : 3;
}

/* ---- check ---- */

static rs_status check_parts(const rs_branch *branch, int64_t d, const char *where, rs_error *err)
{
    const rs_linear_op *op = &branch->linear;
    int64_t inner = op->heads * op->value_dim;
    RS_TRY(rs_check_dense(&op->q, d, op->heads * op->head_dim, where, err));
    RS_TRY(rs_check_dense(&op->k, d, op->kv_heads * op->head_dim, where, err));
    if (op->v.weight) RS_TRY(rs_check_dense(&op->v, d, op->kv_heads * op->value_dim, where, err));
    if (op->gate.weight) RS_TRY(rs_check_dense(&op->gate, d, inner, where, err));
    if (op->o.weight) RS_TRY(rs_check_dense(&op->o, inner, d, where, err));
    if ((!op->v.weight || !op->o.weight) && op->value_dim != d)
        return rs_fail(err, RS_E_CONFIG_HEADS, where, NULL,
                       "values of %lld numbers for a state of %lld", (long long)op->value_dim,
                       (long long)d);
    RS_TRY(rs_check_norm(&op->norm, inner, where, err));
    return rs_check_numbers(&rs_traits_linear.weights, branch, err);
}

static rs_status check(const rs_branch *branch, int64_t d, const char *where, rs_error *err)
{
    const rs_linear_op *op = &branch->linear;
    if (op->heads < 1 || op->kv_heads < 1 || op->heads % op->kv_heads || !rs_counts(op->head_dim) ||
        !rs_counts(op->value_dim) || !rs_counts(op->heads * op->head_dim) ||
        !rs_counts(op->heads * op->value_dim))
        return rs_fail(err, RS_E_CONFIG_HEADS, where, NULL,
                       "%d query heads over %d key heads of dimension %lld and %lld", op->heads,
                       op->kv_heads, (long long)op->head_dim, (long long)op->value_dim);
    if (op->decay && !op->causal)
        return rs_fail(err, RS_E_UNSUPPORTED, where, "give it a causal mask, or no decay",
                       "linear attention decays with the distance to an earlier token, and this "
                       "one has no mask");
    if (!(op->temperature > 0))
        return rs_fail(err, RS_E_INTERNAL, where, NULL, "temperature %g", op->temperature);
    return check_parts(branch, d, where, err);
}

const rs_op_traits rs_traits_linear = {
    .name = "linear attention",
    .word = "linear_attention",
    RS_OP_NO_SOFTMAX,
    .weights = RS_WEIGHT_LIST(rows),
    .matrices = matrices,
    .parts = parts,
    .width = width,
    .causal = causal,
    .drop_gate = drop_gate,
    .drop_inner_norms = drop_inner_norms,
    .degree = degree,
    .check = check,
};
