/* op_s4d.c: the row of op_traits.h of S4D. */
#include "network/op_check.h"

#define AT(member) offsetof(rs_branch, s4d.member)

/* ---- weights ---- */

static int64_t entries_of_channels(const void *owner)
{
    return ((const rs_branch *)owner)->s4d.channels;
}

static int64_t entries_of_pairs(const void *owner)
{
    const rs_s4d_op *op = &((const rs_branch *)owner)->s4d;
    return op->channels * op->pairs;
}

static int64_t entries_of_c(const void *owner)
{
    return 2 * entries_of_pairs(owner);
}

static const rs_weight_row rows[] = {
    {"log step", RS_WEIGHT_NUMBERS, AT(log_step), RS_ROLE_SSM_DT_BIAS, entries_of_channels},
    {"log decay", RS_WEIGHT_NUMBERS, AT(log_decay), RS_ROLE_SSM_A, entries_of_pairs},
    {"frequency", RS_WEIGHT_NUMBERS, AT(frequency), RS_ROLE_SSM_A, entries_of_pairs},
    {"C", RS_WEIGHT_NUMBERS, AT(c), RS_ROLE_SSM_D, entries_of_c},
    {"D", RS_WEIGHT_NUMBERS, AT(d), RS_ROLE_SSM_D, entries_of_channels},
    {"out", RS_WEIGHT_MAP, AT(o), RS_ROLE_SSM_OUT, NULL},
    {"out gate", RS_WEIGHT_MAP, AT(gate), RS_ROLE_SSM_OUT, NULL},
};

/* ---- what it is ---- */

static int32_t matrices(const rs_branch *branch)
{
    return (int32_t)branch->s4d.channels; /* a matrix for each channel */
}

static rs_op_width width(const rs_branch *branch)
{
    const rs_s4d_op *op = &branch->s4d;
    return (rs_op_width){.projected = op->gate.out, .inner = op->channels};
}

/* ---- check ---- */

static rs_status check(const rs_branch *branch, int64_t d, const char *where, rs_error *err)
{
    const rs_s4d_op *op = &branch->s4d;
    if (!rs_counts(op->channels) || !rs_counts(op->pairs) ||
        !rs_counts(2 * op->channels * op->pairs) || op->channels != d)
        return rs_fail(err, RS_E_CONFIG_SIZE, where, NULL,
                       "%lld state-space channels of %lld pairs for a state of %lld",
                       (long long)op->channels, (long long)op->pairs, (long long)d);
    if (!op->log_step || !op->log_decay || !op->frequency || !op->c)
        return rs_fail(err, RS_E_INTERNAL, where, "please report this",
                       "a state-space mixer without its decay");
    RS_TRY(rs_check_dense(&op->o, d, d, where, err));
    RS_TRY(rs_check_dense(&op->gate, d, d, where, err));
    return rs_check_numbers(&rs_traits_s4d.weights, branch, err);
}

const rs_op_traits rs_traits_s4d = {
    .name = "S4D",
    .word = "s4d",
    RS_OP_NO_SOFTMAX,
    .weights = RS_WEIGHT_LIST(rows),
    .matrices = matrices,
    .by_channel = true,
    .width = width,
    .causal = rs_op_always,
    .check = check,
};
