/* arch_mixers.c: the mixers of an architecture file, one function a word. */
#include "network/arch_build.h"

#include <math.h>
#include <string.h>

/* Mamba's rank of the map that gives steps: the width of a state over this, rounded up. */
enum { STATE_PER_RANK = 16 };

/* Steps are never drawn below this (transformers' time_step_floor). */
static const double least_step = 1e-4;

/* ---- what state-space mixers share ---- */

/* All heads' channels: what a mixer is wide inside. */
static int64_t inner_of(const rs_arch *arch)
{
    return arch->heads * arch->d_head;
}

/* Logarithms of rates, rows of 1 .. n; the biases of `steps` steps by the file's bounds; and as many
 * skips of 1. d NULL: the mixer has no skips. */
static rs_status state_numbers(const rs_arch_build *b, int64_t rows, int64_t n, int64_t steps,
                               const rs_tensor **a_log, const rs_tensor **biases,
                               const rs_tensor **d)
{
    const rs_arch *arch = b->arch;
    RS_TRY(rs_arch_matrix(biases, b, RS_ROLE_SSM_DT_BIAS, 1, steps));
    RS_TRY(rs_arch_matrix(a_log, b, RS_ROLE_SSM_A, rows, n));
    rs_init_fill_rates(b->init, *a_log, n);
    rs_init_fill_steps(b->init, *biases, arch->dt_init[0], arch->dt_init[1], least_step);
    if (!d) return RS_OK;
    RS_TRY(rs_arch_matrix(d, b, RS_ROLE_SSM_D, 1, steps));
    rs_init_fill(b->init, *d, 1);
    return RS_OK;
}

/* ---- mixers ---- */

static rs_status add_mamba(rs_branch *branch, const rs_arch_build *b)
{
    const rs_arch *arch = b->arch;
    int64_t d = arch->d_model, inner = inner_of(arch);
    int64_t rank = (d + STATE_PER_RANK - 1) / STATE_PER_RANK;
    branch->kind = RS_BRANCH_S6;
    branch->s6 = (rs_s6_op){.inner = inner,
                            .state = arch->state,
                            .rank = rank,
                            .in = rs_arch_map(2 * inner, d),
                            .x = rs_arch_map(rank + 2 * arch->state, inner),
                            .step = rs_arch_map(inner, rank),
                            .conv = {.channels = inner, .width = arch->conv},
                            .gated = arch->gate != RS_GATE_NONE,
                            .o = rs_arch_map(d, inner)};
    rs_s6_op *op = &branch->s6;
    if (arch->inner_norm == 1) {
        op->dt_norm = rs_arch_norm_of(RS_NORM_RMSNORM, rank);
        op->b_norm = op->c_norm = rs_arch_norm_of(RS_NORM_RMSNORM, arch->state);
    }
    RS_TRY(rs_arch_draw(branch, b));
    return state_numbers(b, inner, arch->state, inner, &op->a_log, &op->step.bias, &op->d);
}

static rs_status add_mamba2(rs_branch *branch, const rs_arch_build *b)
{
    const rs_arch *arch = b->arch;
    int64_t d = arch->d_model, inner = inner_of(arch), keys = arch->groups * arch->state;
    branch->kind = RS_BRANCH_SSD;
    branch->ssd = (rs_ssd_op){.heads = (int32_t)arch->heads,
                              .groups = (int32_t)arch->groups,
                              .head_dim = arch->d_head,
                              .state = arch->state,
                              .in = rs_arch_map(2 * inner + 2 * keys + arch->heads, d),
                              .conv = {.channels = inner + 2 * keys, .width = arch->conv},
                              .step_most = INFINITY,
                              .gate = arch->gate,
                              .norm_groups = arch->groups,
                              .o = rs_arch_map(d, inner)};
    rs_ssd_op *op = &branch->ssd;
    if (arch->inner_norm != 0) op->norm = rs_arch_norm_of(RS_NORM_RMSNORM, inner);
    RS_TRY(rs_arch_draw(branch, b));
    return state_numbers(b, 1, arch->heads, arch->heads, &op->a_log, &op->dt_bias, &op->d);
}

/* The file's decays, in double: they need every digit at thousands of tokens. NULL: all are 1. */
static rs_status add_decays(const rs_tensor **out, const rs_arch_build *b)
{
    const rs_arch *arch = b->arch;
    bool any = false;
    for (int64_t h = 0; arch->decay && h < arch->heads; h++)
        any = any || arch->decay[h] != 1;
    if (!any) return RS_OK;
    rs_tensor *tensor = rs_arena_alloc(b->network->arena, 1, sizeof *tensor);
    int64_t *shape = rs_arena_alloc(b->network->arena, 1, sizeof *shape);
    double *decay = rs_arena_alloc(b->network->arena, (size_t)arch->heads, sizeof *decay);
    if (!tensor || !shape || !decay)
        return rs_fail_memory(b->err, "decays", (size_t)arch->heads * sizeof *decay);
    memcpy(decay, arch->decay, (size_t)arch->heads * sizeof *decay);
    *shape = arch->heads;
    *tensor = (rs_tensor){.name = "decay",
                          .dtype = RS_F64,
                          .rank = 1,
                          .shape = shape,
                          .count = arch->heads,
                          .data = (const uint8_t *)decay,
                          .bytes = (uint64_t)arch->heads * sizeof *decay,
                          .type_id = -1,
                          .fixed = true};
    *out = tensor;
    return RS_OK;
}

static rs_status add_linear(rs_branch *branch, const rs_arch_build *b)
{
    const rs_arch *arch = b->arch;
    int64_t d = arch->d_model;
    bool whole = arch->merged_output || arch->identity_values;
    branch->kind = RS_BRANCH_LINEAR;
    branch->linear = (rs_linear_op){.heads = (int32_t)arch->heads,
                                    .kv_heads = (int32_t)arch->kv_heads,
                                    .head_dim = arch->d_head,
                                    .value_dim = whole ? d : arch->d_head,
                                    .q = rs_arch_map(arch->heads * arch->d_head, d),
                                    .k = rs_arch_map(arch->kv_heads * arch->d_head, d),
                                    .feature_map = arch->feature_map,
                                    .temperature = arch->temperature[b->layer],
                                    .causal = arch->causal,
                                    .normalised = arch->normalised,
                                    .without_self = arch->without_self,
                                    .place = arch->gate_given ? arch->gate : RS_GATE_NONE};
    rs_linear_op *op = &branch->linear;
    int64_t inner = arch->heads * op->value_dim;
    if (!arch->identity_values) op->v = rs_arch_map(arch->kv_heads * op->value_dim, d);
    if (op->place != RS_GATE_NONE) op->gate = rs_arch_map(inner, d);
    if (!arch->merged_output) op->o = rs_arch_map(d, inner);
    if (arch->inner_norm == 1) op->norm = rs_arch_norm_of(RS_NORM_RMSNORM, inner);
    RS_TRY(rs_arch_draw(branch, b));
    return add_decays(&op->decay, b);
}

/* Rates -1/2 + i pi s, the coefficients of S4D-Lin; C complex normal of variance 1. */
static rs_status add_s4d(rs_branch *branch, const rs_arch_build *b)
{
    const rs_arch *arch = b->arch;
    int64_t d = arch->d_model, pairs = arch->state;
    branch->kind = RS_BRANCH_S4D;
    branch->s4d = (rs_s4d_op){
        .channels = d, .pairs = pairs, .o = rs_arch_map(d, d), .gate = rs_arch_map(d, d)};
    rs_s4d_op *op = &branch->s4d;
    RS_TRY(rs_arch_draw(branch, b));
    RS_TRY(rs_arch_matrix(&op->log_step, b, RS_ROLE_SSM_DT_BIAS, 1, d));
    RS_TRY(rs_arch_matrix(&op->log_decay, b, RS_ROLE_SSM_A, d, pairs));
    RS_TRY(rs_arch_matrix(&op->frequency, b, RS_ROLE_SSM_A, d, pairs));
    RS_TRY(rs_arch_matrix(&op->c, b, RS_ROLE_SSM_D, d, 2 * pairs));
    RS_TRY(rs_arch_matrix(&op->d, b, RS_ROLE_SSM_D, 1, d));
    rs_init_fill_log_steps(b->init, op->log_step, arch->dt_init[0], arch->dt_init[1]);
    rs_init_fill(b->init, op->log_decay, log(0.5));
    rs_init_fill_frequencies(b->init, op->frequency, pairs);
    rs_init_scale(b->init, op->c, sqrt(0.5));
    return RS_OK;
}

static rs_status add_recurrence(rs_branch *branch, const rs_arch_build *b)
{
    const rs_arch *arch = b->arch;
    int64_t d = arch->d_model, inner = inner_of(arch);
    branch->kind = RS_BRANCH_RECURRENCE;
    branch->recurrence = (rs_recurrence_op){.inner = inner,
                                            .in = rs_arch_map(2 * inner, d),
                                            .conv = {.channels = inner, .width = arch->conv},
                                            .gates = rs_arch_map(3 * inner, inner),
                                            .gated = arch->gate != RS_GATE_NONE,
                                            .o = rs_arch_map(d, inner)};
    return rs_arch_draw(branch, b);
}

static rs_status add_gated_delta(rs_branch *branch, const rs_arch_build *b)
{
    const rs_arch *arch = b->arch;
    int64_t d = arch->d_model, values = inner_of(arch), keys = arch->kv_heads * arch->state;
    branch->kind = RS_BRANCH_DELTA;
    branch->delta = (rs_delta_op){.heads = (int32_t)arch->heads,
                                  .key_heads = (int32_t)arch->kv_heads,
                                  .key_dim = arch->state,
                                  .value_dim = arch->d_head,
                                  .q = rs_arch_map(keys, d),
                                  .k = rs_arch_map(keys, d),
                                  .v = rs_arch_map(values, d),
                                  .b = rs_arch_map(arch->heads, d),
                                  .a = rs_arch_map(arch->heads, d),
                                  .conv = {.channels = 2 * keys + values, .width = arch->conv},
                                  .activation = RS_ACT_SILU,
                                  .strength_most = 1,
                                  .gate = arch->gate_given ? arch->gate : RS_GATE_AFTER_NORM,
                                  .o = rs_arch_map(d, values)};
    rs_delta_op *op = &branch->delta;
    if (op->gate != RS_GATE_NONE) op->z = rs_arch_map(values, d);
    if (arch->inner_norm != 0) op->norm = rs_arch_norm_of(RS_NORM_RMSNORM, arch->d_head);
    RS_TRY(rs_arch_draw(branch, b));
    return state_numbers(b, 1, arch->heads, arch->heads, &op->a_log, &op->dt_bias, NULL);
}

static rs_status add_short_conv(rs_branch *branch, const rs_arch_build *b)
{
    int64_t d = b->arch->d_model, channels = inner_of(b->arch);
    branch->kind = RS_BRANCH_SHORT_CONV;
    branch->short_conv = (rs_short_conv_op){.in = rs_arch_map(3 * channels, d),
                                            .conv = {.channels = channels, .width = b->arch->conv},
                                            .o = rs_arch_map(d, channels)};
    return rs_arch_draw(branch, b);
}

const rs_arch_mixer_row rs_arch_mixers[RS_ARCH_MIXERS] = {
    [RS_ARCH_ATTENTION] = {"attention", rs_arch_attention},
    [RS_ARCH_LINEAR_ATTENTION] = {"linear_attention", add_linear},
    [RS_ARCH_S4D] = {"s4d", add_s4d},
    [RS_ARCH_MAMBA] = {"mamba", add_mamba},
    [RS_ARCH_MAMBA2] = {"mamba2", add_mamba2},
    [RS_ARCH_GATED_RECURRENCE] = {"gated_recurrence", add_recurrence},
    [RS_ARCH_GATED_DELTA] = {"gated_delta", add_gated_delta},
    [RS_ARCH_SHORT_CONV] = {"short_conv", add_short_conv},
    [RS_ARCH_GRAPH] = {"graph", rs_arch_add_graph},
};
