/* network_ssm.c: state-space mixers of a configuration and its tensors (docs/formats.md, 5.9). */
#include "network/network_build.h"

#include <math.h>
#include <string.h>

/* ---- what the configuration says ---- */

/* A number, or one of the words that stand for those that JSON lacks. */
static bool limit_of(const json_t *value, double *out)
{
    const char *word = json_is_string(value)
                           ? json_string_value(value)
                           : json_string_value(json_object_get(value, "__float__"));
    if (json_is_number(value)) *out = json_number_value(value);
    if (word && (strcmp(word, "Infinity") == 0 || strcmp(word, "inf") == 0)) *out = INFINITY;
    return json_is_number(value) || (word && *out == INFINITY);
}

/* [least, most]; absent: 0 and no bound. */
static rs_status step_limits(rs_net_builder *nb, rs_ssd_op *op)
{
    const char *field = nb->forward->ssm->step_limit;
    const json_t *pair = field ? rs_fields_key(&nb->b->fields, field) : NULL;
    op->step_least = 0;
    op->step_most = INFINITY;
    if (!pair || json_is_null(pair)) return RS_OK;
    if (json_array_size(pair) == 2 && limit_of(json_array_get(pair, 0), &op->step_least) &&
        limit_of(json_array_get(pair, 1), &op->step_most) && op->step_least <= op->step_most)
        return RS_OK;
    return rs_fail(nb->err, RS_E_CONFIG_SCHEMA, nb->b->fields.path, RS_CONFIG_HINT,
                   "%s must be two numbers, the least and the most step", field);
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

static rs_status sizes_of(rs_net_builder *nb, int32_t stored, rs_ssm_sizes *s)
{
    rs_block block = {.layer = stored, .slot = RS_SLOT_MAIN};
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
                      .gate = RS_GATE_BEFORE_NORM,
                      .norm_groups = s.groups};
    op->conv.channels = s.inner + 2 * keys;
    RS_TRY(rs_net_size(nb, nb->forward->ssm->kernel, stored, &op->conv.width, &found));
    RS_TRY(step_limits(nb, op));
    op->in = rs_net_map(nb, RS_ROLE_SSM_IN, nb->d_model, 2 * s.inner + 2 * keys + s.heads);
    op->o = rs_net_map(nb, RS_ROLE_SSM_OUT, s.inner, nb->d_model);
    op->norm = rs_net_norm_of(nb, s.inner);
    return RS_OK;
}

rs_status rs_net_describe_s6(rs_net_builder *nb, int32_t stored, rs_s6_op *op)
{
    rs_ssm_sizes s;
    bool found;
    const rs_ssm_forward *forward = nb->forward->ssm;
    RS_TRY(sizes_of(nb, stored, &s));
    *op = (rs_s6_op){.inner = s.inner, .state = s.state, .rank = s.rank, .gated = true};
    op->conv.channels = s.inner;
    RS_TRY(rs_net_size(nb, forward->kernel, stored, &op->conv.width, &found));
    op->in = rs_net_map(nb, RS_ROLE_SSM_IN, nb->d_model, 2 * s.inner);
    op->x = rs_net_map(nb, RS_ROLE_SSM_X, s.inner, s.rank + 2 * s.state);
    op->step = rs_net_map(nb, RS_ROLE_SSM_DT, s.rank, s.inner);
    op->o = rs_net_map(nb, RS_ROLE_SSM_OUT, s.inner, nb->d_model);
    if (!forward->inner_eps) return RS_OK;
    op->b_norm = (rs_norm_op){.kind = RS_NORM_RMSNORM, .dim = s.state};
    RS_TRY(rs_net_real(nb, forward->inner_eps, &op->b_norm.eps));
    op->c_norm = op->dt_norm = op->b_norm;
    op->dt_norm.dim = s.rank;
    return RS_OK;
}

/* ---- drawn numbers ---- */

/* The numbers to overwrite of a drawn tensor; NULL: there are none. */
static float *drawn(const rs_net_builder *nb, const rs_tensor *tensor)
{
    return nb->init && tensor ? rs_init_numbers(nb->init, tensor) : NULL;
}

/* Uniform in (-bound, bound), in the stream of that tensor. */
static void draw_uniform(const rs_net_builder *nb, const rs_tensor *tensor, double bound)
{
    float *numbers = drawn(nb, tensor);
    for (int64_t i = 0; numbers && i < tensor->count; i++)
        numbers[i] = (float)(bound * (2 * rs_init_uniform(nb->init, tensor, i) - 1));
}

static void draw_constant(const rs_net_builder *nb, const rs_tensor *tensor, double value)
{
    float *numbers = drawn(nb, tensor);
    for (int64_t i = 0; numbers && i < tensor->count; i++)
        numbers[i] = (float)value;
}

/* A = -1, -2, ..., -n in each row (S4D's real part). */
static void draw_rates(const rs_net_builder *nb, const rs_tensor *tensor, int64_t n)
{
    float *numbers = drawn(nb, tensor);
    for (int64_t i = 0; numbers && i < tensor->count; i++)
        numbers[i] = (float)log((double)(i % n + 1));
}

/* Biases whose softplus is a step between the configuration's bounds, uniform in its logarithm. */
static rs_status draw_steps(rs_net_builder *nb, const rs_tensor *tensor)
{
    double low = 1e-3, high = 0.1, least = 1e-4;
    float *numbers = drawn(nb, tensor);
    RS_TRY(rs_net_real(nb, "time_step_min", &low));
    RS_TRY(rs_net_real(nb, "time_step_max", &high));
    RS_TRY(rs_net_real(nb, "time_step_floor", &least));
    if (!(low > 0 && high >= low && isfinite(high)))
        return rs_fail(nb->err, RS_E_CONFIG_SIZE, nb->b->fields.path, RS_CONFIG_HINT,
                       "steps between time_step_min %g and time_step_max %g cannot be drawn", low,
                       high);
    for (int64_t i = 0; numbers && i < tensor->count; i++) {
        double u = rs_init_uniform(nb->init, tensor, i);
        double step = fmax(exp(log(low) + u * (log(high) - log(low))), least);
        numbers[i] = (float)(step + log(-expm1(-step)));
    }
    return RS_OK;
}

/* What transformers' modules do at initialisation beside their plain linear maps. */
static void draw_around(const rs_net_builder *nb, const rs_conv_op *conv, const rs_dense *o,
                        const rs_tensor *d)
{
    draw_uniform(nb, conv->weight, 1 / sqrt((double)conv->width));
    draw_constant(nb, conv->bias, 0);
    draw_uniform(nb, o->weight, 1 / sqrt((double)o->in));
    draw_constant(nb, d, 1);
}

/* ---- plain numbers ---- */

static rs_status conv_numbers(rs_net_builder *nb, int32_t stored, rs_conv_op *conv)
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
    RS_TRY(conv_numbers(nb, stored, &op->conv));
    RS_TRY(rs_net_tensor(nb, RS_ROLE_SSM_A, RS_PART_WEIGHT, stored, 2, states, &op->a_log));
    RS_TRY(rs_net_tensor(nb, RS_ROLE_SSM_D, RS_PART_WEIGHT, stored, 1, states, &op->d));
    draw_around(nb, &op->conv, &op->o, op->d);
    draw_rates(nb, op->a_log, op->state);
    draw_uniform(nb, op->step.weight, 1 / sqrt((double)op->rank));
    return draw_steps(nb, op->step.bias);
}

rs_status rs_net_ssd_numbers(rs_net_builder *nb, int32_t stored, rs_ssd_op *op)
{
    int64_t heads = op->heads;
    RS_TRY(conv_numbers(nb, stored, &op->conv));
    RS_TRY(rs_net_tensor(nb, RS_ROLE_SSM_DT_BIAS, RS_PART_WEIGHT, stored, 1, &heads, &op->dt_bias));
    RS_TRY(rs_net_tensor(nb, RS_ROLE_SSM_A, RS_PART_WEIGHT, stored, 1, &heads, &op->a_log));
    RS_TRY(rs_net_tensor(nb, RS_ROLE_SSM_D, RS_PART_WEIGHT, stored, 1, &heads, &op->d));
    draw_around(nb, &op->conv, &op->o, op->d);
    draw_rates(nb, op->a_log, op->heads);
    return draw_steps(nb, op->dt_bias);
}
