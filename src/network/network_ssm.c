/* network_ssm.c: state-space mixers of a configuration and its tensors (docs/formats.md, 5.9). */
#include "network/network_build.h"

#include <math.h>
#include <string.h>

/* ---- what the configuration says ---- */

/* The configuration's bounds of steps, or, where its family reads another field, that one. */
static rs_status step_limits(rs_net_builder *nb, rs_ssd_op *op)
{
    const rs_ssm_forward *forward = nb->forward->ssm;
    RS_TRY(rs_fields_limits(&nb->b->fields, forward->step_limit, &op->step_least, &op->step_most,
                            nb->err));
    if (!forward->step_least) return RS_OK;
    nb->unread_steps = op->step_least > 0 || op->step_most < INFINITY;
    op->step_least = 0;
    op->step_most = INFINITY;
    nb->unstated_steps = nb->gguf;
    return rs_net_real(nb, forward->step_least, &op->step_least);
}

/* Groups that neither the configuration nor, in what is drawn, a tensor says: in_proj's height has
 * them. */
static int64_t groups_of(const rs_net_builder *nb, int32_t stored, const rs_ssm_sizes *s)
{
    const rs_tensor *in = rs_net_stored_tensor(nb, RS_ROLE_SSM_IN, RS_PART_WEIGHT, stored);
    if (s->groups > 0) return s->groups;
    if (!in || in->rank != 2) return nb->forward->ssm->groups;
    int64_t left = in->shape[0] - 2 * s->inner - s->heads;
    return left >= 2 * s->state ? left / (2 * s->state) : 1;
}

/* Convolutions and gates are run with SiLU. */
static rs_status check_activation(rs_net_builder *nb)
{
    const char *field = nb->forward->ssm->activation;
    rs_activation activation = RS_ACT_SILU;
    if (field) RS_TRY(rs_net_activation(nb, field, &activation));
    if (activation == RS_ACT_SILU) return RS_OK;
    return rs_fail(nb->err, RS_E_UNSUPPORTED, nb->b->fields.path, RS_NOT_RUN_HINT,
                   "%s is \"%.60s\": state-space mixers are run with silu alone", field,
                   rs_fields_text(&nb->b->fields, field));
}

static rs_status sizes_of(rs_net_builder *nb, int32_t stored, rs_ssm_sizes *s)
{
    rs_block block = {.layer = stored, .slot = RS_SLOT_MAIN};
    RS_TRY(check_activation(nb));
    RS_TRY(rs_ssm_sizes_of(nb->b, &block, s));
    s->groups = nb->b->family->ssm == RS_SSM_S6 ? 1 : groups_of(nb, stored, s);
    int64_t most = (int64_t)1 << 30;
    if (s->inner <= most && s->heads <= most && s->groups <= most && s->state <= most &&
        s->groups * s->state <= most && s->heads % s->groups == 0)
        return RS_OK;
    return rs_fail(nb->err, RS_E_CONFIG_HEADS, nb->b->fields.path, RS_CONFIG_HINT,
                   "%lld state-space heads of %lld groups of state %lld, inner width %lld",
                   (long long)s->heads, (long long)s->groups, (long long)s->state,
                   (long long)s->inner);
}

/* Whether there is a norm, its tensor says (in GGUF, one of the first layer means that all layers have
 * one), and of what is drawn the configuration; which comes first, norm or gate, the configuration
 * alone. */
static rs_status gated_norm(rs_net_builder *nb, int32_t stored, rs_ssd_op *op)
{
    const rs_ssm_forward *forward = nb->forward->ssm;
    bool there = !nb->init && rs_net_has(nb, RS_ROLE_SSM_NORM, stored);
    bool stated = !forward->gated_norm || (nb->gguf ? there || rs_net_has(nb, RS_ROLE_SSM_NORM, 0)
                                                    : rs_net_flag(nb, forward->gated_norm));
    if (!stated && !there) return RS_OK;
    op->norm = rs_net_norm_of(nb, op->heads * op->head_dim);
    if (nb->gguf && forward->norm_first) nb->unstated_place = true;
    if (rs_net_flag(nb, forward->norm_first)) op->gate = RS_GATE_AFTER_NORM;
    if (stated) return RS_OK;
    return rs_notes_say(&nb->network->notes, nb->err, RS_WARN, "gated_norm",
                        "set the field to true if the norm is meant",
                        "%s is false, and layer %d stores the gain of such a norm: it is run",
                        forward->gated_norm, (int)stored);
}

/* The stretches of the first map of Mamba-2. */
int32_t rs_net_ssd_stretches(int64_t units[RS_NET_STRETCHES], const rs_ssd_op *op)
{
    int64_t inner = op->heads * op->head_dim, keys = op->groups * op->state;
    const int64_t all[RS_NET_STRETCHES] = {inner, inner, keys, keys, op->heads};
    memcpy(units, all, sizeof all);
    return RS_NET_STRETCHES;
}

rs_status rs_net_describe_ssd(rs_net_builder *nb, int32_t stored, rs_ssd_op *op)
{
    rs_ssm_sizes s;
    bool found;
    RS_TRY(sizes_of(nb, stored, &s));
    int64_t keys = s.groups * s.state;
    *op = (rs_ssd_op){.heads = (int32_t)s.heads,
                      .groups = (int32_t)s.groups,
                      .head_dim = s.head_dim,
                      .state = s.state,
                      .a_stored = nb->gguf && !nb->init,
                      .gate = RS_GATE_BEFORE_NORM,
                      .norm_groups = s.groups};
    op->conv.channels = s.inner + 2 * keys;
    RS_TRY(rs_net_size(nb, nb->forward->ssm->kernel, stored, &op->conv.width, &found));
    RS_TRY(step_limits(nb, op));
    op->in = rs_net_map(nb, RS_ROLE_SSM_IN, nb->d_model, 2 * s.inner + 2 * keys + s.heads);
    op->o = rs_net_map(nb, RS_ROLE_SSM_OUT, s.inner, nb->d_model);
    return gated_norm(nb, stored, op);
}

/* Norms of dt, B and C: the family has them, or a GGUF file stores gains of some. */
static rs_status inner_norms(rs_net_builder *nb, int32_t stored, rs_s6_op *op)
{
    const rs_ssm_forward *forward = nb->forward->ssm;
    bool gains = rs_net_stored_gain(nb, RS_ROLE_SSM_DT_NORM, stored) ||
                 rs_net_stored_gain(nb, RS_ROLE_SSM_B_NORM, stored) ||
                 rs_net_stored_gain(nb, RS_ROLE_SSM_C_NORM, stored);
    if (!forward->inner_eps && !gains) return RS_OK;
    op->b_norm = (rs_norm_op){.kind = RS_NORM_RMSNORM, .dim = op->state, .eps = nb->eps};
    if (forward->inner_eps) RS_TRY(rs_net_real(nb, forward->inner_eps, &op->b_norm.eps));
    op->c_norm = op->dt_norm = op->b_norm;
    op->dt_norm.dim = op->rank;
    if (!nb->gguf || !forward->bare_inner_norms || stored > 0) return RS_OK;
    return rs_notes_say(&nb->network->notes, nb->err, RS_INFO, "inner_norm_eps", NULL,
                        "GGUF has no key for the epsilon of the norms of dt, B and C "
                        "(mixer_rms_eps): %g, as transformers has it, is used",
                        op->b_norm.eps);
}

rs_status rs_net_describe_s6(rs_net_builder *nb, int32_t stored, rs_s6_op *op)
{
    rs_ssm_sizes s;
    bool found;
    const rs_ssm_forward *forward = nb->forward->ssm;
    RS_TRY(sizes_of(nb, stored, &s));
    *op = (rs_s6_op){.inner = s.inner,
                     .state = s.state,
                     .rank = s.rank,
                     .a_stored = nb->gguf && !nb->init,
                     .gated = true};
    op->conv.channels = s.inner;
    RS_TRY(rs_net_size(nb, forward->kernel, stored, &op->conv.width, &found));
    op->in = rs_net_map(nb, RS_ROLE_SSM_IN, nb->d_model, 2 * s.inner);
    op->x = rs_net_map(nb, RS_ROLE_SSM_X, s.inner, s.rank + 2 * s.state);
    op->step = rs_net_map(nb, RS_ROLE_SSM_DT, s.rank, s.inner);
    op->o = rs_net_map(nb, RS_ROLE_SSM_OUT, s.inner, nb->d_model);
    return inner_norms(nb, stored, op);
}

/* ---- drawn numbers ---- */

/* Biases whose softplus is a step between the configuration's bounds, uniform in its logarithm. */
static rs_status draw_steps(rs_net_builder *nb, const rs_tensor *tensor)
{
    double low = 1e-3, high = 0.1, least = 1e-4;
    if (!nb->init || !tensor) return RS_OK;
    RS_TRY(rs_net_real(nb, "time_step_min", &low));
    RS_TRY(rs_net_real(nb, "time_step_max", &high));
    RS_TRY(rs_net_real(nb, "time_step_floor", &least));
    if (!(low > 0 && high >= low && isfinite(high)))
        return rs_fail(nb->err, RS_E_CONFIG_SIZE, nb->b->fields.path, RS_CONFIG_HINT,
                       "steps between time_step_min %g and time_step_max %g cannot be drawn", low,
                       high);
    rs_init_fill_steps(nb->init, tensor, low, high, least);
    return RS_OK;
}

/* What transformers' modules do at initialisation beside their plain linear maps. */
static void draw_around(const rs_net_builder *nb, const rs_conv_op *conv, const rs_dense *o,
                        const rs_tensor *a_log, int64_t n, const rs_tensor *d)
{
    const rs_init *init = nb->init;
    const rs_ssm_forward *forward = nb->forward->ssm;
    if (!init) return;
    bool rescaled = rs_net_flag(nb, forward->rescaled);
    double bound = 1 / sqrt((double)o->in) / (rescaled ? sqrt(nb->depth) : 1);
    if (forward->draws_maps)
        rs_init_fill_uniform(init, conv->weight, 1 / sqrt((double)conv->width));
    rs_init_fill(init, conv->bias, 0);
    if ((forward->draws_maps || rescaled) && rs_init_is_default(init))
        rs_init_fill_uniform(init, o->weight, bound);
    rs_init_fill_rates(init, a_log, n);
    rs_init_fill(init, d, 1);
}

/* ---- plain numbers ---- */

rs_status rs_net_conv_numbers(rs_net_builder *nb, int32_t stored, rs_conv_op *conv)
{
    int64_t kernel[3] = {conv->channels, 1, conv->width};
    bool biased = nb->init
                      ? rs_net_flag(nb, nb->forward->ssm->conv_bias)
                      : rs_net_stored_tensor(nb, RS_ROLE_SSM_CONV, RS_PART_BIAS, stored) != NULL;
    RS_TRY(rs_net_tensor(nb, RS_ROLE_SSM_CONV, RS_PART_WEIGHT, stored, 3, kernel, &conv->weight));
    if (!biased) return RS_OK;
    return rs_net_tensor(nb, RS_ROLE_SSM_CONV, RS_PART_BIAS, stored, 1, kernel, &conv->bias);
}

rs_status rs_net_s6_numbers(rs_net_builder *nb, int32_t stored, rs_s6_op *op)
{
    int64_t states[2] = {op->inner, op->state};
    RS_TRY(rs_net_conv_numbers(nb, stored, &op->conv));
    RS_TRY(rs_net_tensor(nb, RS_ROLE_SSM_A, RS_PART_WEIGHT, stored, 2, states, &op->a_log));
    RS_TRY(rs_net_tensor(nb, RS_ROLE_SSM_D, RS_PART_WEIGHT, stored, 1, states, &op->d));
    draw_around(nb, &op->conv, &op->o, op->a_log, op->state, op->d);
    if (!nb->init || !nb->forward->ssm->draws_steps) return RS_OK;
    rs_init_fill_uniform(nb->init, op->step.weight, 1 / sqrt((double)op->rank));
    return draw_steps(nb, op->step.bias);
}

/* A gain that is stored in as many rows as there are stretches to normalise, or in one. */
static rs_status check_stretches(rs_net_builder *nb, const rs_ssd_op *op)
{
    const rs_tensor *gain = op->norm.gain;
    if (nb->init || !gain || gain->rank < 2 || gain->shape[0] == op->norm_groups) return RS_OK;
    return rs_fail(nb->err, RS_E_TENSOR_SHAPE, gain->name, RS_CONFIG_HINT,
                   "has a row for each of %lld stretches, and the model has %lld groups",
                   (long long)gain->shape[0], (long long)op->norm_groups);
}

rs_status rs_net_ssd_numbers(rs_net_builder *nb, int32_t stored, rs_ssd_op *op)
{
    int64_t heads = op->heads;
    RS_TRY(check_stretches(nb, op));
    RS_TRY(rs_net_conv_numbers(nb, stored, &op->conv));
    RS_TRY(rs_net_tensor(nb, RS_ROLE_SSM_DT_BIAS, RS_PART_WEIGHT, stored, 1, &heads, &op->dt_bias));
    RS_TRY(rs_net_tensor(nb, RS_ROLE_SSM_A, RS_PART_WEIGHT, stored, 1, &heads, &op->a_log));
    RS_TRY(rs_net_tensor(nb, RS_ROLE_SSM_D, RS_PART_WEIGHT, stored, 1, &heads, &op->d));
    draw_around(nb, &op->conv, &op->o, op->a_log, op->heads, op->d);
    if (!nb->init) return RS_OK;
    rs_init_fill(nb->init, op->dt_bias, 1);
    return nb->forward->ssm->draws_steps ? draw_steps(nb, op->dt_bias) : RS_OK;
}
