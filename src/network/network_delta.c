/* network_delta.c: gated delta rules and short convolutions of a configuration and its tensors
 * (docs/formats.md, 5.10). */
#include "network/network_build.h"

#include <math.h>

/* ---- short convolutions ---- */

rs_status rs_net_describe_short_conv(rs_net_builder *nb, int32_t stored, rs_short_conv_op *op)
{
    int64_t d = nb->d_model;
    bool found;
    *op = (rs_short_conv_op){.conv = {.channels = d}};
    RS_TRY(rs_net_size(nb, nb->forward->ssm->kernel, stored, &op->conv.width, &found));
    op->in = rs_net_map(nb, RS_ROLE_SSM_IN, d, 3 * d);
    op->o = rs_net_map(nb, RS_ROLE_SSM_OUT, d, d);
    return RS_OK;
}

/* ---- sizes of delta rules ---- */

typedef struct sizes {
    int64_t heads, key_heads, key_dim, value_dim;
} sizes;

/* What the configuration leaves out follows OLMo Hybrid: as many heads as attention has, keys of
 * three quarters of a head's share, values twice as wide. */
static rs_status sizes_of(rs_net_builder *nb, int32_t stored, sizes *s)
{
    int64_t heads, most = (int64_t)1 << 30;
    bool found;
    RS_TRY(rs_fields_need(&nb->b->fields, RS_FIELD_HEADS, -1, &heads, nb->err));
    *s = (sizes){.heads = heads, .key_heads = heads};
    RS_TRY(rs_net_size(nb, "linear_num_value_heads", stored, &s->heads, &found));
    RS_TRY(rs_net_size(nb, "linear_num_key_heads", stored, &s->key_heads, &found));
    s->key_dim = (int64_t)(0.75 * (double)nb->d_model / (double)s->key_heads);
    RS_TRY(rs_net_size(nb, "linear_key_head_dim", stored, &s->key_dim, &found));
    s->value_dim = 2 * s->key_dim;
    RS_TRY(rs_net_size(nb, "linear_value_head_dim", stored, &s->value_dim, &found));
    if (s->key_dim > 0 && s->heads <= most && s->key_heads <= most &&
        s->heads * s->value_dim <= most && s->key_heads * s->key_dim <= most &&
        s->heads % s->key_heads == 0)
        return RS_OK;
    return rs_fail(nb->err, RS_E_CONFIG_HEADS, nb->b->fields.path, RS_CONFIG_HINT,
                   "%lld delta-rule heads of width %lld over %lld key heads of width %lld",
                   (long long)s->heads, (long long)s->value_dim, (long long)s->key_heads,
                   (long long)s->key_dim);
}

rs_status rs_net_describe_delta(rs_net_builder *nb, int32_t stored, rs_delta_op *op)
{
    const rs_ssm_forward *forward = nb->forward->ssm;
    int64_t d = nb->d_model;
    sizes s;
    bool found;
    RS_TRY(sizes_of(nb, stored, &s));
    int64_t keys = s.key_heads * s.key_dim, values = s.heads * s.value_dim;
    *op = (rs_delta_op){.heads = (int32_t)s.heads,
                        .key_heads = (int32_t)s.key_heads,
                        .key_dim = s.key_dim,
                        .value_dim = s.value_dim,
                        .tiled = nb->b->family->facts & RS_FACT_TILED_HEADS,
                        .a_stored = nb->gguf && !nb->init,
                        .conv = {.channels = 2 * keys + values},
                        .activation = nb->activation,
                        .strength_most = rs_net_flag(nb, forward->doubled) ? 2 : 1,
                        .gate = RS_GATE_AFTER_NORM};
    RS_TRY(rs_net_size(nb, forward->kernel, stored, &op->conv.width, &found));
    op->norm = (rs_norm_op){.kind = RS_NORM_RMSNORM,
                            .dim = s.value_dim,
                            .eps = forward->norm_eps > 0 ? forward->norm_eps : nb->eps};
    op->q = rs_net_map(nb, RS_ROLE_DELTA_Q, d, keys);
    op->k = rs_net_map(nb, RS_ROLE_DELTA_K, d, keys);
    op->v = rs_net_map(nb, RS_ROLE_DELTA_V, d, values);
    op->z = rs_net_map(nb, RS_ROLE_DELTA_Z, d, values);
    op->b = rs_net_map(nb, RS_ROLE_DELTA_B, d, s.heads);
    op->a = rs_net_map(nb, RS_ROLE_DELTA_A, d, s.heads);
    op->o = rs_net_map(nb, RS_ROLE_SSM_OUT, values, d);
    return RS_OK;
}

/* ---- fused maps ---- */

/* Units first .. first+run-1 of each group of `stride` units. */
static void pick(rs_dense *map, const rs_dense *whole, int64_t first, int64_t run, int64_t stride)
{
    int64_t out = map->out;
    *map = *whole;
    map->out = out;
    map->first = first;
    map->run = run;
    map->stride = stride;
}

rs_status rs_net_take_delta(rs_net_builder *nb, int32_t stored, rs_delta_op *op)
{
    int64_t d = nb->d_model, share = op->heads / op->key_heads;
    int64_t dk = op->key_dim, dv = share * op->value_dim;
    rs_dense whole;
    if (nb->init) return RS_OK;
    if (rs_net_has(nb, RS_ROLE_DELTA_QKV, stored)) {
        RS_TRY(
            rs_net_dense(nb, RS_ROLE_DELTA_QKV, stored, d, op->conv.channels, RS_BIAS_NO, &whole));
        pick(&op->q, &whole, 0, op->q.out, op->q.out);
        pick(&op->k, &whole, op->q.out, op->k.out, op->k.out);
        pick(&op->v, &whole, 2 * op->q.out, op->v.out, op->v.out);
    }
    if (rs_net_has(nb, RS_ROLE_DELTA_QKVZ, stored)) { /* for each key head: q, k, v, z */
        int64_t units = op->conv.channels + op->z.out, stride = 2 * (dk + dv);
        RS_TRY(rs_net_dense(nb, RS_ROLE_DELTA_QKVZ, stored, d, units, RS_BIAS_NO, &whole));
        pick(&op->q, &whole, 0, dk, stride);
        pick(&op->k, &whole, dk, dk, stride);
        pick(&op->v, &whole, 2 * dk, dv, stride);
        pick(&op->z, &whole, 2 * dk + dv, dv, stride);
    }
    if (rs_net_has(nb, RS_ROLE_DELTA_BA, stored)) { /* for each key head: b, a */
        RS_TRY(rs_net_dense(nb, RS_ROLE_DELTA_BA, stored, d, 2 * op->heads, RS_BIAS_NO, &whole));
        pick(&op->b, &whole, 0, share, 2 * share);
        pick(&op->a, &whole, share, share, 2 * share);
    }
    return RS_OK;
}

/* ---- plain numbers ---- */

/* What transformers' modules do at initialisation: rates uniform, up to 16. */
static rs_status draw_numbers(rs_net_builder *nb, const rs_delta_op *op)
{
    double low = 1e-3, high = 0.1, least = 1e-4;
    bool steps = nb->forward->ssm->draws_steps;
    if (!nb->init) return RS_OK;
    rs_init_fill_logs(nb->init, op->a_log, steps ? 0 : 0.01, 16);
    if (!steps) {
        rs_init_fill(nb->init, op->dt_bias, 1);
        return RS_OK;
    }
    RS_TRY(rs_net_real(nb, "linear_dt_min", &low));
    RS_TRY(rs_net_real(nb, "linear_dt_max", &high));
    RS_TRY(rs_net_real(nb, "linear_dt_init_floor", &least));
    if (!(low > 0 && high >= low && isfinite(high)))
        return rs_fail(nb->err, RS_E_CONFIG_SIZE, nb->b->fields.path, RS_CONFIG_HINT,
                       "steps between linear_dt_min %g and linear_dt_max %g cannot be drawn", low,
                       high);
    rs_init_fill_steps(nb->init, op->dt_bias, low, high, least);
    return RS_OK;
}

/* Files with a convolution each for q, k and v: their channels one behind the other, whichever of
 * the three holds how many (transformers writes thirds). */
static rs_status three_convolutions(rs_net_builder *nb, int32_t stored, rs_conv_op *conv)
{
    static const rs_role roles[] = {RS_ROLE_SSM_CONV, RS_ROLE_DELTA_CONV_K, RS_ROLE_DELTA_CONV_V};
    const rs_tensor **places[] = {&conv->weight, &conv->more[0], &conv->more[1]};
    int64_t channels = 0;
    for (size_t i = 0; i < 3; i++) {
        const rs_tensor *tensor = rs_net_stored_tensor(nb, roles[i], RS_PART_WEIGHT, stored);
        int64_t kernel[3] = {tensor && tensor->rank ? tensor->shape[0] : 1, 1, conv->width};
        RS_TRY(rs_net_tensor(nb, roles[i], RS_PART_WEIGHT, stored, 3, kernel, places[i]));
        channels += kernel[0];
        if (!*places[i]) return RS_OK; /* it is told among those that are missing */
    }
    if (channels == conv->channels) return RS_OK;
    return rs_fail(nb->err, RS_E_TENSOR_SHAPE, conv->weight->name, NULL,
                   "the convolutions of q, k and v have %lld channels, not %lld",
                   (long long)channels, (long long)conv->channels);
}

rs_status rs_net_delta_numbers(rs_net_builder *nb, int32_t stored, rs_delta_op *op)
{
    int64_t heads = op->heads;
    bool three = !nb->init && rs_net_has(nb, RS_ROLE_DELTA_CONV_K, stored);
    RS_TRY(three ? three_convolutions(nb, stored, &op->conv)
                 : rs_net_conv_numbers(nb, stored, &op->conv));
    RS_TRY(rs_net_tensor(nb, RS_ROLE_SSM_DT_BIAS, RS_PART_WEIGHT, stored, 1, &heads, &op->dt_bias));
    RS_TRY(rs_net_tensor(nb, RS_ROLE_SSM_A, RS_PART_WEIGHT, stored, 1, &heads, &op->a_log));
    return draw_numbers(nb, op);
}
