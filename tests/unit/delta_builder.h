/* delta_builder.h: the gated delta rule and the gated short convolution drawn at random. Include
 * behind cmocka.h. */
#ifndef RS_TEST_DELTA_BUILDER_H
#define RS_TEST_DELTA_BUILDER_H

#include "mixer_reference.h"

/* ---- drawn mixers ---- */

static inline rs_branch delta_of(built *b, int64_t d)
{
    rs_branch branch = around_of(b, d, RS_BRANCH_DELTA);
    rs_delta_op *op = &branch.delta;
    op->key_heads = (int32_t)draw(b, 1, 3);
    op->heads = op->key_heads * (int32_t)draw(b, 1, 3);
    op->key_dim = chance(b, 0.1) ? 70 : draw(b, 1, 9);
    op->value_dim = chance(b, 0.1) ? 65 : draw(b, 1, 9);
    int64_t keys = op->key_heads * op->key_dim, values = op->heads * op->value_dim;
    op->q = dense_of(b, d, keys, chance(b, 0.3));
    op->k = dense_of(b, d, keys, chance(b, 0.3));
    op->v = dense_of(b, d, values, chance(b, 0.3));
    op->b = dense_of(b, d, op->heads, chance(b, 0.3));
    op->a = dense_of(b, d, op->heads, chance(b, 0.3));
    if (chance(b, 0.8)) op->z = dense_of(b, d, values, chance(b, 0.3));
    op->conv = conv_of(b, 2 * keys + values);
    op->activation = chance(b, 0.8) ? RS_ACT_SILU : RS_ACT_LINEAR;
    op->a_log = tensor(b, RS_F32, op->heads, 0, 1.5);
    if (chance(b, 0.7)) op->dt_bias = tensor(b, RS_F32, op->heads, -1, 2);
    op->strength_most = chance(b, 0.5) ? 1 : 2;
    op->gate = (rs_gate_place)draw(b, RS_GATE_BEFORE_NORM, RS_GATE_NONE);
    op->norm = inner_norm(b, chance(b, 0.8), op->value_dim);
    op->o = dense_of(b, values, d, chance(b, 0.3));
    return branch;
}

static inline rs_branch short_conv_of(built *b, int64_t d)
{
    rs_branch branch = around_of(b, d, RS_BRANCH_SHORT_CONV);
    rs_short_conv_op *op = &branch.short_conv;
    int64_t channels = chance(b, 0.1) ? 130 : draw(b, 1, 20);
    op->in = dense_of(b, d, 3 * channels, chance(b, 0.5));
    op->conv = conv_of(b, channels);
    op->o = dense_of(b, channels, d, chance(b, 0.5));
    return branch;
}

static inline rs_branch mixer_of(built *b, int64_t d)
{
    return chance(b, 0.6) ? delta_of(b, d) : short_conv_of(b, d);
}

#endif
