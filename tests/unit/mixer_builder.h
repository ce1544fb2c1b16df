/* mixer_builder.h: mixers drawn at random, for tests of the forward pass. */
#ifndef RS_TEST_MIXER_BUILDER_H
#define RS_TEST_MIXER_BUILDER_H

#include "forward_builder.h"

/* ---- drawn mixers ---- */

static inline rs_conv_op conv_of(built *b, int64_t channels)
{
    rs_conv_op conv = {.channels = channels, .width = draw(b, 1, 6)};
    int64_t first = chance(b, 0.3) ? draw(b, 1, channels) : channels, left = channels - first;
    int64_t second = left > 1 ? draw(b, 1, left) : left; /* stored in up to three tensors */
    conv.weight = tensor(b, RS_F32, first * conv.width, 0, 0.7);
    if (left > 0) conv.more[0] = tensor(b, RS_F32, second * conv.width, 0, 0.7);
    if (left > second) conv.more[1] = tensor(b, RS_F32, (left - second) * conv.width, 0, 0.7);
    if (chance(b, 0.7)) conv.bias = tensor(b, RS_F32, channels, 0, 0.3);
    return conv;
}

static inline rs_branch around_of(built *b, int64_t d, rs_branch_kind kind)
{
    rs_branch branch = {.kind = kind, .skip = chance(b, 0.3) ? 0.5 : 1, .scale = 1};
    if (chance(b, 0.7)) branch.before = norm_of(b, d);
    if (chance(b, 0.3)) branch.after = norm_of(b, d);
    return branch;
}

static inline rs_norm_op inner_norm(built *b, bool there, int64_t dim)
{
    const rs_tensor *gain = there && chance(b, 0.5) ? tensor(b, RS_F32, dim, 1, 0.2) : NULL;
    return there ? (rs_norm_op){RS_NORM_RMSNORM, dim, 1e-6, gain, NULL} : (rs_norm_op){0};
}

static inline rs_branch ssd_of(built *b, int64_t d)
{
    rs_branch branch = around_of(b, d, RS_BRANCH_SSD);
    rs_ssd_op *op = &branch.ssd;
    op->groups = (int32_t)draw(b, 1, 3);
    op->heads = op->groups * (int32_t)draw(b, 1, 4);
    op->head_dim = chance(b, 0.1) ? 130 : draw(b, 1, 9);
    op->state = draw(b, 1, 9);
    int64_t inner = op->heads * op->head_dim, keys = op->groups * op->state;
    op->conv = conv_of(b, inner + 2 * keys);
    op->in = dense_of(b, d, 2 * inner + 2 * keys + op->heads, chance(b, 0.3));
    op->o = dense_of(b, inner, d, chance(b, 0.3));
    op->a_log = tensor(b, RS_F32, op->heads, 0, 1.5);
    if (chance(b, 0.7)) op->dt_bias = tensor(b, RS_F32, op->heads, -1, 2);
    if (chance(b, 0.7)) op->d = tensor(b, RS_F32, op->heads, 1, 0.5);
    op->step_least = chance(b, 0.3) ? 0.05 : 0;
    op->step_most = chance(b, 0.3) ? 0.2 : INFINITY;
    op->gate = (rs_gate_place)draw(b, RS_GATE_BEFORE_NORM, RS_GATE_NONE);
    op->norm_groups = chance(b, 0.5) ? op->groups : 1;
    if (chance(b, 0.8))
        op->norm =
            (rs_norm_op){RS_NORM_RMSNORM, inner, 1e-5, tensor(b, RS_F32, inner, 1, 0.2), NULL};
    return branch;
}

static inline rs_branch s6_of(built *b, int64_t d)
{
    rs_branch branch = around_of(b, d, RS_BRANCH_S6);
    rs_s6_op *op = &branch.s6;
    op->inner = chance(b, 0.2) ? 70 : draw(b, 1, 20);
    op->state = draw(b, 1, 9);
    op->rank = draw(b, 1, 4);
    op->conv = conv_of(b, op->inner);
    op->in = dense_of(b, d, 2 * op->inner, chance(b, 0.3));
    op->x = dense_of(b, op->inner, op->rank + 2 * op->state, false);
    op->step = dense_of(b, op->rank, op->inner, chance(b, 0.8));
    op->o = dense_of(b, op->inner, d, chance(b, 0.3));
    op->a_log = tensor(b, RS_F32, op->inner * op->state, 0, 1);
    if (chance(b, 0.7)) op->d = tensor(b, RS_F32, op->inner, 1, 0.5);
    op->gated = chance(b, 0.8);
    bool norms = chance(b, 0.3);
    op->dt_norm = inner_norm(b, norms, op->rank);
    op->b_norm = inner_norm(b, norms, op->state);
    op->c_norm = inner_norm(b, norms, op->state);
    return branch;
}

/* Draws a branch with one mixer on a state of width d. */
typedef rs_branch draw_mixer(built *b, int64_t d);

/* One of the published state-space mixers. */
static inline rs_branch state_space_of(built *b, int64_t d)
{
    return chance(b, 0.5) ? ssd_of(b, d) : s6_of(b, d);
}

/* States of up to `longest` tokens through one or two mixers. */
static inline built *mixers_new(uint64_t seed, int64_t longest, draw_mixer *mixer)
{
    built *b = calloc(1, sizeof *b);
    b->random = rs_random_new(seed, 78);
    b->dtype = RS_F32;
    int64_t d = draw(b, 1, 12);
    b->network = (rs_network){
        .family = "drawn", .d_model = d, .layers = b->layers, .n_layers = (int32_t)draw(b, 1, 2)};
    b->network.embedding.width = d;
    b->network.embedding.scale = 1;
    for (int32_t l = 0; l < b->network.n_layers; l++) {
        b->layers[l].n_branches = 1;
        b->layers[l].branches[0] = mixer(b, d);
    }
    b->batch = (rs_batch){.samples = (int32_t)draw(b, 1, 4), .begin = b->begin};
    for (int32_t s = 0; s < b->batch.samples; s++)
        b->begin[s + 1] = b->begin[s] + (chance(b, 0.1) ? 0 : draw(b, 1, longest));
    int64_t count = b->begin[b->batch.samples] * d;
    b->states = malloc((size_t)(count + 1) * sizeof *b->states);
    for (int64_t i = 0; i < count; i++)
        b->states[i] = rs_random_normal(&b->random);
    b->batch.states = b->states;
    return b;
}

#endif
