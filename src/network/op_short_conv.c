/* op_short_conv.c: the row of op_traits.h of the gated short convolution. */
#include "network/op_check.h"

#define AT(member) offsetof(rs_branch, short_conv.member)

static const rs_weight_row rows[] = {
    {"in", RS_WEIGHT_MAP, AT(in), RS_ROLE_SSM_IN, NULL},
    {"conv", RS_WEIGHT_CONV, AT(conv), RS_ROLE_SSM_CONV, NULL},
    {"out", RS_WEIGHT_MAP, AT(o), RS_ROLE_SSM_OUT, NULL},
};

static int32_t matrices(const rs_branch *branch)
{
    return (int32_t)branch->short_conv.conv.channels; /* a matrix for each channel */
}

static rs_op_width width(const rs_branch *branch)
{
    const rs_short_conv_op *op = &branch->short_conv;
    return (rs_op_width){.projected = op->in.out + op->conv.channels, .inner = op->o.in};
}

static rs_status check(const rs_branch *branch, int64_t d, const char *where, rs_error *err)
{
    const rs_short_conv_op *op = &branch->short_conv;
    int64_t channels = op->conv.channels;
    if (!rs_counts(channels) || !rs_counts(3 * channels))
        return rs_fail(err, RS_E_CONFIG_SIZE, where, NULL, "a short convolution of %lld channels",
                       (long long)channels);
    RS_TRY(rs_check_conv(&op->conv, channels, where, err));
    RS_TRY(rs_check_dense(&op->in, d, 3 * channels, where, err));
    return rs_check_dense(&op->o, channels, d, where, err);
}

const rs_op_traits rs_traits_short_conv = {
    .name = "a gated short convolution",
    .word = "short_conv",
    RS_OP_NO_SOFTMAX,
    .weights = RS_WEIGHT_LIST(rows),
    .matrices = matrices,
    .by_channel = true,
    .width = width,
    .causal = rs_op_always,
    .check = check,
};
