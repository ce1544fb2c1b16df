/* linear_builder.h: linear attention, S4D and gated recurrences drawn at random. Include behind cmocka.h. */
#ifndef RS_TEST_LINEAR_BUILDER_H
#define RS_TEST_LINEAR_BUILDER_H

#include "mixer_reference.h"

/* ---- drawn mixers ---- */

/* The last two are there where the quotient by a row's sum is all that the precision can hold. */
static inline rs_tensor *decays_of(built *b, const rs_linear_op *op)
{
    static const double some[] = {0, 1, 0.5, 0.97, 1e-20, 1 - 0x1p-5, 1e-60, 1e-310};
    rs_tensor *t = (rs_tensor *)(uintptr_t)tensor(b, RS_F64, op->heads, 0, 0);
    for (int32_t h = 0; h < op->heads; h++)
        ((double *)(uintptr_t)t->data)[h] = some[draw(b, 0, own_decay_cancels(op, 1) ? 7 : 5)];
    return t;
}

static inline void linear_of(built *b, rs_linear_op *op, int64_t d)
{
    bool identity = chance(b, 0.3), merged = chance(b, 0.3);
    op->kv_heads = (int32_t)draw(b, 1, 2);
    op->heads = op->kv_heads * (int32_t)draw(b, 1, 2);
    op->head_dim = draw(b, 1, 9);
    op->value_dim = identity || merged ? d : draw(b, 1, 9);
    int64_t inner = op->heads * op->value_dim;
    op->q = dense_of(b, d, op->heads * op->head_dim, chance(b, 0.3));
    op->k = dense_of(b, d, op->kv_heads * op->head_dim, chance(b, 0.3));
    if (!identity) op->v = dense_of(b, d, op->kv_heads * op->value_dim, chance(b, 0.3));
    if (chance(b, 0.3)) op->gate = dense_of(b, d, inner, false);
    op->place = chance(b, 0.5) ? RS_GATE_BEFORE_NORM : RS_GATE_AFTER_NORM;
    if (!merged) op->o = dense_of(b, inner, d, chance(b, 0.3));
    if (chance(b, 0.3)) op->norm = (rs_norm_op){RS_NORM_RMSNORM, inner, 1e-5, NULL, NULL};
    op->temperature = chance(b, 0.3) ? 1.7 : 1;
    op->causal = chance(b, 0.6);
    op->without_self = chance(b, 0.4);
    op->normalised = chance(b, 0.4); /* by sums of numbers above 0: nothing cancels */
    op->feature_map = op->normalised || chance(b, 0.3) ? RS_FEATURE_ELU : RS_FEATURE_IDENTITY;
    if (op->causal && chance(b, 0.7)) op->decay = decays_of(b, op);
}

static inline void s4d_of(built *b, rs_s4d_op *op, int64_t d)
{
    op->channels = d;
    op->pairs = draw(b, 1, 5);
    op->log_step = tensor(b, RS_F32, d, -3, 2);
    op->log_decay = tensor(b, RS_F32, d * op->pairs, -0.7, 1);
    op->frequency = tensor(b, RS_F32, d * op->pairs, 0, 4);
    op->c = tensor(b, RS_F32, 2 * d * op->pairs, 0, 1);
    if (chance(b, 0.7)) op->d = tensor(b, RS_F32, d, 0, 1);
    op->o = dense_of(b, d, d, chance(b, 0.5));
    op->gate = dense_of(b, d, d, chance(b, 0.5));
}

static inline void recurrence_of(built *b, rs_recurrence_op *op, int64_t d)
{
    op->inner = chance(b, 0.2) ? 70 : draw(b, 1, 20);
    op->in = dense_of(b, d, 2 * op->inner, chance(b, 0.3));
    op->conv = conv_of(b, op->inner);
    op->gates = dense_of(b, op->inner, 3 * op->inner, chance(b, 0.7));
    op->gated = chance(b, 0.7);
    op->o = dense_of(b, op->inner, d, chance(b, 0.3));
}

static inline rs_branch linear_mixer_of(built *b, int64_t d)
{
    static const rs_branch_kind kinds[] = {RS_BRANCH_LINEAR, RS_BRANCH_S4D, RS_BRANCH_RECURRENCE};
    rs_branch branch = around_of(b, d, kinds[draw(b, 0, 2)]);
    if (branch.kind == RS_BRANCH_LINEAR) linear_of(b, &branch.linear, d);
    if (branch.kind == RS_BRANCH_S4D) s4d_of(b, &branch.s4d, d);
    if (branch.kind == RS_BRANCH_RECURRENCE) recurrence_of(b, &branch.recurrence, d);
    return branch;
}

#endif
