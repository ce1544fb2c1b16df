/* network_layer.c: one layer: attention, cross-attention where there is some, MLP, and the norms
 * around them: each op is described by the configuration, then its list of weights is walked. */
#include "network/network_build.h"
#include "network/op_traits.h"

#include <math.h>
#include <string.h>

/* ---- masks ---- */

static rs_status is_sliding(rs_net_builder *nb, int32_t layer, bool *sliding)
{
    const rs_forward *forward = nb->forward;
    const rs_fields *fields = &nb->b->fields;
    *sliding = false;
    if (!forward->window_period && !(forward->facts & RS_W_WINDOW_BEYOND)) return RS_OK;
    const json_t *list = rs_fields_key(fields, "layer_types");
    if (json_is_array(list)) {
        const char *word = json_string_value(json_array_get(list, (size_t)layer));
        *sliding = word && strcmp(word, "sliding_attention") == 0;
        if (*sliding || (word && strcmp(word, "full_attention") == 0)) return RS_OK;
        return rs_fail(nb->err, word ? RS_E_UNSUPPORTED : RS_E_CONFIG_LAYERS, fields->path,
                       RS_NOT_RUN_HINT,
                       "layer_types calls layer %d \"%.60s\"; known are full_attention and "
                       "sliding_attention",
                       (int)layer, word ? word : "(nothing)");
    }
    bool found;
    int64_t period = forward->window_period, beyond = 0;
    if (forward->facts & RS_W_WINDOW_BEYOND) {
        double from = 0; /* a layer number: 0 is one, too */
        RS_TRY(rs_net_real(nb, "max_window_layers", &from));
        beyond = from > INT32_MAX ? INT32_MAX : (int64_t)from;
        *sliding = rs_fields_true(fields, "use_sliding_window") && layer >= beyond;
        return RS_OK;
    }
    const json_t *each = rs_fields_key(fields, "sliding_window_pattern");
    if (forward->facts & RS_W_PERIOD_FIELD && json_is_array(each)) {
        const json_t *own = json_array_get(each, (size_t)layer); /* GGUF: one truth a layer */
        *sliding = json_is_true(own) || json_integer_value(own) == 1;
        return RS_OK;
    }
    if (forward->facts & RS_W_PERIOD_FIELD)
        RS_TRY(rs_net_size(nb, "sliding_window_pattern", -1, &period, &found));
    *sliding = period == 1 || (layer + 1) % period != 0;
    return RS_OK;
}

static rs_status mask(rs_net_builder *nb, bool sliding, rs_attention_op *op)
{
    const rs_fields *fields = &nb->b->fields;
    unsigned facts = nb->forward->facts;
    bool found;
    op->causal =
        facts & RS_W_CAUSAL || (facts & RS_W_DECODER && rs_fields_true(fields, "is_decoder"));
    bool both_ways =
        facts & RS_W_BIDIRECTIONAL && rs_fields_true(fields, "use_bidirectional_attention");
    if (both_ways || json_is_false(rs_fields_key(fields, "is_causal"))) op->causal = false;
    if (!sliding || (facts & RS_W_WINDOW_BEYOND && !rs_fields_true(fields, "use_sliding_window")))
        return RS_OK;
    RS_TRY(rs_net_size(nb, "sliding_window", -1, &op->window, &found));
    /* the window is then as wide as it says, half of it to each side */
    if (found && both_ways) op->window = op->window / 2 + 1;
    return RS_OK;
}

/* ---- attention ---- */

static rs_status score_scale(rs_net_builder *nb, const rs_attention *at, int32_t layer,
                             rs_attention_op *op)
{
    const rs_fields *fields = &nb->b->fields;
    unsigned facts = nb->forward->facts;
    double divisor = (double)at->head_dim;
    if (facts & RS_W_KEY_SCALE) RS_TRY(rs_net_real(nb, "query_pre_attn_scalar", &divisor));
    if (!(divisor > 0))
        return rs_fail(nb->err, RS_E_CONFIG_SIZE, fields->path, RS_CONFIG_HINT,
                       "query_pre_attn_scalar is %g; it must be above 0", divisor);
    op->scale = 1 / sqrt(divisor);
    if (facts & RS_W_GRANITE) RS_TRY(rs_net_real(nb, "attention_multiplier", &op->scale));
    if (json_is_false(rs_fields_key(fields, "scale_attn_weights"))) op->scale = 1;
    if (rs_fields_true(fields, "scale_attn_by_inverse_layer_idx")) op->scale /= layer + 1;
    if (facts & RS_W_SCORE_CAP) op->softcap = at->softcap;
    return RS_OK;
}

/* Whether the family's files keep q, k and v of that layer in one tensor. */
static bool stores_qkv(const rs_net_builder *nb, int32_t stored)
{
    return rs_net_pattern(nb, RS_ROLE_QKV) &&
           (!rs_net_pattern(nb, RS_ROLE_Q) || (!nb->init && rs_net_has(nb, RS_ROLE_QKV, stored)));
}

static rs_status fits_qkv(rs_net_builder *nb, const rs_attention *at)
{
    unsigned flags = rs_net_pattern(nb, RS_ROLE_QKV)->flags;
    if (at->value_dim == at->head_dim && (!(flags & RS_P_INTERLEAVED) || at->heads == at->kv_heads))
        return RS_OK;
    return rs_fail(nb->err, RS_E_CONFIG_HEADS, nb->b->fields.path, RS_CONFIG_HINT,
                   "%lld query and %lld key/value heads do not fit this family's fused layout",
                   (long long)at->heads, (long long)at->kv_heads);
}

/* XLNet: what its scores add for distance and segment. */
static rs_status relative_biases(rs_net_builder *nb, int32_t stored, rs_attention_op *op)
{
    int64_t h = op->heads, c = op->head_dim;
    int64_t bias[2] = {h, c}, segments[3] = {2, h, c};
    rs_relative_op *r = &op->relative;
    RS_TRY(
        rs_net_tensor(nb, RS_ROLE_CONTENT_BIAS, RS_PART_WEIGHT, stored, 2, bias, &r->content_bias));
    RS_TRY(rs_net_tensor(nb, RS_ROLE_POSITION_BIAS, RS_PART_WEIGHT, stored, 2, bias,
                         &r->position_bias));
    RS_TRY(
        rs_net_tensor(nb, RS_ROLE_SEGMENT_BIAS, RS_PART_WEIGHT, stored, 2, bias, &r->segment_bias));
    return rs_net_tensor(nb, RS_ROLE_SEGMENT_EMBED, RS_PART_WEIGHT, stored, 3, segments,
                         &r->segment_embed);
}

static rs_status relative_positions(rs_net_builder *nb, rs_attention_op *op)
{
    const rs_fields *fields = &nb->b->fields;
    const char *kind = rs_fields_text(fields, "attn_type");
    double clamp = -1;
    if (!kind || (strcmp(kind, "bi") != 0 && strcmp(kind, "uni") != 0))
        return rs_fail(nb->err, RS_E_UNSUPPORTED, fields->path, RS_NOT_RUN_HINT,
                       "attn_type is \"%.60s\"; known are bi and uni", kind ? kind : "(nothing)");
    op->causal = strcmp(kind, "uni") == 0;
    if (rs_fields_true(fields, "bi_data") || (op->causal && rs_fields_true(fields, "same_length")))
        return rs_fail(nb->err, RS_E_UNSUPPORTED, fields->path, RS_NOT_RUN_HINT,
                       "bi_data, and same_length with attn_type uni, are ways of training that "
                       "are not run here");
    RS_TRY(rs_net_real(nb, "clamp_len", &clamp));
    op->relative.clamp = clamp >= 1 && clamp < INT32_MAX ? (int64_t)clamp : 0;
    op->relative.r = rs_net_map(nb, RS_ROLE_R, nb->d_model, op->heads * op->head_dim);
    return RS_OK;
}

static void describe_qk_norms(const rs_net_builder *nb, const rs_attention *at, rs_attention_op *op)
{
    if (!(nb->forward->facts & RS_W_QK_NORM)) return;
    op->q_norm = rs_net_norm_of(nb, at->head_dim * (at->qk_norm_full ? at->heads : 1));
    op->k_norm = rs_net_norm_of(nb, at->head_dim * (at->qk_norm_full ? at->kv_heads : 1));
}

static void sizes_of(rs_attention_op *op, const rs_attention *at)
{
    *op = (rs_attention_op){.heads = (int32_t)at->heads,
                            .kv_heads = (int32_t)at->kv_heads,
                            .head_dim = at->head_dim,
                            .value_dim = at->value_dim,
                            .temperature = 1,
                            .mix_softmax = 1};
}

/* Attention before it has its weights: what a configuration says. */
static rs_status describe_attention(rs_net_builder *nb, int32_t stored, int32_t applied,
                                    const rs_attention *at, rs_attention_op *op)
{
    int64_t d = nb->d_model;
    bool sliding;
    sizes_of(op, at);
    RS_TRY(is_sliding(nb, applied, &sliding));
    RS_TRY(mask(nb, sliding, op));
    RS_TRY(score_scale(nb, at, applied, op));
    /* XLNet's tensors know neither groups of heads nor values of another width */
    bool relative = nb->forward->facts & RS_W_RELATIVE;
    int64_t kv_heads = relative ? at->heads : at->kv_heads;
    int64_t value_dim = relative ? at->head_dim : at->value_dim;
    op->q = rs_net_map(nb, RS_ROLE_Q, d, at->heads * at->head_dim);
    op->k = rs_net_map(nb, RS_ROLE_K, d, kv_heads * at->head_dim);
    op->v = rs_net_map(nb, RS_ROLE_V, d, kv_heads * value_dim);
    op->o = rs_net_map(nb, RS_ROLE_O, at->heads * value_dim, d);
    const rs_module_pattern *query = rs_net_pattern(nb, RS_ROLE_Q);
    if (query && query->flags & RS_P_GATED) {
        if (at->value_dim != at->head_dim)
            return rs_fail(nb->err, RS_E_CONFIG_HEADS, nb->b->fields.path, RS_CONFIG_HINT,
                           "values of width %lld for gates of width %lld", (long long)at->value_dim,
                           (long long)at->head_dim);
        op->gate = rs_net_map(nb, RS_ROLE_Q_GATE, d, at->heads * at->value_dim);
    }
    if (relative) return relative_positions(nb, op);
    describe_qk_norms(nb, at, op);
    RS_TRY(rs_net_rope(nb, at, sliding, &op->rope));
    return stores_qkv(nb, stored) ? fits_qkv(nb, at) : RS_OK;
}

/* To another model's output, as wide as this one's. */
static rs_status describe_cross_attention(rs_net_builder *nb, int32_t applied,
                                          const rs_attention *at, rs_attention_op *op)
{
    int64_t d = nb->d_model, units = at->heads * at->head_dim;
    sizes_of(op, at);
    op->cross = true;
    op->q = rs_net_map(nb, RS_ROLE_CROSS_Q, d, units);
    op->k = rs_net_map(nb, RS_ROLE_CROSS_K, d, units);
    op->v = rs_net_map(nb, RS_ROLE_CROSS_V, d, units);
    op->o = rs_net_map(nb, RS_ROLE_CROSS_O, units, d);
    return score_scale(nb, at, applied, op);
}

/* ---- MLP ---- */

/* LFM2 takes two thirds of the width that is stated, times a factor, and up to a multiple of a block;
 * without a factor that is all. */
static rs_status adjust_width(rs_net_builder *nb, int64_t *width)
{
    int64_t block = 256;
    double factor = NAN;
    bool found;
    if (!nb->forward->mlp_adjusted || !rs_net_flag(nb, nb->forward->mlp_adjusted)) return RS_OK;
    *width = (int64_t)((double)(2 * *width) / 3);
    RS_TRY(rs_net_real(nb, "block_ffn_dim_multiplier", &factor));
    RS_TRY(rs_net_size(nb, "block_multiple_of", -1, &block, &found));
    if (!isnan(factor)) {
        double wide = factor * (double)*width;
        if (!(wide >= 1 && wide <= INT32_MAX))
            return rs_fail(nb->err, RS_E_CONFIG_SIZE, nb->b->fields.path, RS_CONFIG_HINT,
                           "block_ffn_dim_multiplier %g makes an MLP of width %g", factor, wide);
        *width = ((int64_t)wide + block - 1) / block * block;
    }
    if (*width >= 1 && *width <= INT32_MAX) return RS_OK;
    return rs_fail(nb->err, RS_E_CONFIG_SIZE, nb->b->fields.path, RS_CONFIG_HINT,
                   "the MLP's adjusted width is %lld", (long long)*width);
}

static rs_status describe_mlp(rs_net_builder *nb, int32_t stored, rs_mlp_op *op)
{
    int64_t d = nb->d_model, width = 0;
    bool found;
    RS_TRY(rs_net_size(nb, nb->forward->old_mlp_width, stored, &width, &found));
    if (!found) RS_TRY(rs_net_size(nb, nb->forward->mlp_width, stored, &width, &found));
    if (!found) width = 4 * d;
    RS_TRY(adjust_width(nb, &width));
    *op = (rs_mlp_op){.activation = nb->activation, .width = width};
    op->up = rs_net_map(nb, RS_ROLE_MLP_UP, d, width);
    op->down = rs_net_map(nb, RS_ROLE_MLP_DOWN, width, d);
    if (nb->forward->facts & RS_W_GATED) op->gate = rs_net_map(nb, RS_ROLE_MLP_GATE, d, width);
    return RS_OK;
}

/* ---- weights ---- */

static rs_net_bias bias_of(const rs_net_builder *nb, rs_role role)
{
    const rs_forward *forward = nb->forward;
    bool mlp = role >= RS_ROLE_MLP_UP && role <= RS_ROLE_MLP_DOWN;
    bool output = role == RS_ROLE_O || role == RS_ROLE_CROSS_O;
    if (role == RS_ROLE_SSM_DT) return RS_BIAS_YES;
    if (role == RS_ROLE_SSM_X) return RS_BIAS_NO;
    if (role >= RS_ROLE_DELTA_Q && role <= RS_ROLE_DELTA_BA) return RS_BIAS_NO;
    bool ssm = role == RS_ROLE_SSM_IN || role == RS_ROLE_SSM_OUT;
    if (ssm && !nb->init) return RS_BIAS_IF_THERE; /* flags have said what files did not hold */
    if (ssm)
        return rs_net_bias_of(nb, role == RS_ROLE_SSM_IN ? forward->ssm->in_bias
                                                         : forward->ssm->o_bias);
    return rs_net_bias_of(nb, mlp      ? forward->mlp_bias
                              : output ? forward->o_bias
                                       : forward->qkv_bias);
}

/* The role of the tensor in which files keep several of the branch's maps; UNKNOWN: each has its
 * own. Draws are per map, also where files store several in one tensor: laws that know fans or a
 * matrix's shape (xavier, orthogonal) then mean the same model in every family. */
static rs_role fused_role(const rs_net_builder *nb, int32_t stored, const rs_branch *branch)
{
    if (nb->init) return RS_ROLE_UNKNOWN;
    const rs_attention_op *attention = rs_branch_attention(branch);
    const rs_mlp_op *mlp = rs_branch_mlp(branch);
    if (attention && attention->cross)
        return rs_net_pattern(nb, RS_ROLE_CROSS_KV) ? RS_ROLE_CROSS_KV : RS_ROLE_UNKNOWN;
    if (attention && attention->gate.out) return RS_ROLE_Q;
    if (attention) return stores_qkv(nb, stored) ? RS_ROLE_QKV : RS_ROLE_UNKNOWN;
    if (!mlp || mlp->gate.out == 0 || rs_net_has(nb, RS_ROLE_MLP_GATE, stored))
        return RS_ROLE_UNKNOWN;
    if (rs_net_pattern(nb, RS_ROLE_MLP_GATE_UP)) return RS_ROLE_MLP_GATE_UP;
    return nb->gguf ? RS_ROLE_MLP_UP : RS_ROLE_UNKNOWN;
}

/* Which units of a fused qkv belong to whom: the table over attention.c in terms of rs_dense. */
static void split_qkv(rs_attention_op *op, const rs_dense *qkv, unsigned flags)
{
    int64_t c = op->head_dim, share = op->heads / op->kv_heads;
    int64_t q = op->heads * c, k = op->kv_heads * c;
    op->q = op->k = op->v = *qkv;
    op->q.out = q;
    op->k.out = op->v.out = k;
    if (flags & RS_P_ROWS) {
        op->q.run = op->q.stride = q;
        op->k.run = op->k.stride = op->v.run = op->v.stride = k;
        op->k.first = q;
        op->v.first = q + k;
        return;
    }
    if (flags & RS_P_INTERLEAVED) share = 1;
    op->q.run = share * c;
    op->k.run = op->v.run = c;
    op->q.stride = op->k.stride = op->v.stride = (share + 2) * c;
    op->k.first = share * c;
    op->v.first = (share + 1) * c;
}

/* Two maps in one tensor, one behind the other. */
static void split_pair(rs_dense *first, rs_dense *second, const rs_dense *both)
{
    int64_t units = both->out / 2;
    *first = *both;
    first->out = first->run = first->stride = units;
    *second = *first;
    second->first = units;
}

/* Each head's query in front of the gate of what it writes. */
static void split_gated(rs_attention_op *op, const rs_dense *both)
{
    op->q = *both;
    op->q.out = both->out / 2;
    op->q.run = op->head_dim;
    op->q.stride = 2 * op->head_dim;
    op->gate = op->q;
    op->gate.first = op->head_dim;
}

/* Takes the maps that a fused tensor holds: q, k and v; q and its gate; k and v; gate and up (gate
 * first, Phi-3). */
static rs_status take_fused(rs_net_builder *nb, rs_role role, int32_t stored, rs_branch *branch)
{
    const rs_attention_op *op = &branch->attention;
    bool mlp = branch->kind == RS_BRANCH_MLP, cross = !mlp && op->cross;
    int64_t units = mlp                 ? 2 * branch->mlp.width
                    : cross             ? op->k.out + op->v.out
                    : role == RS_ROLE_Q ? op->q.out + op->gate.out
                                        : op->q.out + op->k.out + op->v.out;
    rs_dense whole;
    RS_TRY(rs_net_dense(nb, role, stored, nb->d_model, units, bias_of(nb, role), &whole));
    if (mlp)
        split_pair(&branch->mlp.gate, &branch->mlp.up, &whole);
    else if (cross)
        split_pair(&branch->attention.k, &branch->attention.v, &whole);
    else if (role == RS_ROLE_Q)
        split_gated(&branch->attention, &whole);
    else
        split_qkv(&branch->attention, &whole, rs_net_pattern(nb, role)->flags);
    return RS_OK;
}

static bool is_fused(rs_role fused, rs_role role)
{
    switch (fused) {
    case RS_ROLE_QKV:
        return role == RS_ROLE_Q || role == RS_ROLE_K || role == RS_ROLE_V;
    case RS_ROLE_Q:
        return role == RS_ROLE_Q || role == RS_ROLE_Q_GATE;
    case RS_ROLE_CROSS_KV:
        return role == RS_ROLE_K || role == RS_ROLE_V;
    case RS_ROLE_MLP_GATE_UP:
    case RS_ROLE_MLP_UP:
        return role == RS_ROLE_MLP_GATE || role == RS_ROLE_MLP_UP;
    default:
        return false;
    }
}

/* The role under which families store a weight of a cross-attention. */
static rs_role cross_role(rs_role role)
{
    static const rs_role roles[][2] = {{RS_ROLE_Q, RS_ROLE_CROSS_Q},
                                       {RS_ROLE_K, RS_ROLE_CROSS_K},
                                       {RS_ROLE_V, RS_ROLE_CROSS_V},
                                       {RS_ROLE_O, RS_ROLE_CROSS_O}};
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++)
        if (roles[i][0] == role) return roles[i][1];
    return role;
}

/* Finds or draws the maps and norms that an op was described with, in the order of its kind's list
 * of weights. Plain numbers, whose shapes the list does not know, are taken by themselves. */
static rs_status take_weights(rs_net_builder *nb, int32_t stored, rs_branch *branch)
{
    const rs_weight_list *weights = &rs_branch_traits(branch)->weights;
    const rs_attention_op *attention = rs_branch_attention(branch);
    rs_role fused = fused_role(nb, stored, branch);
    if (fused != RS_ROLE_UNKNOWN) RS_TRY(take_fused(nb, fused, stored, branch));
    for (size_t i = 0; i < weights->n; i++) {
        const rs_weight_row *row = &weights->rows[i];
        rs_role role = attention && attention->cross ? cross_role(row->role) : row->role;
        rs_dense *map = rs_weight_map_to_fill(row, branch);
        rs_norm_op *norm = rs_weight_norm_to_fill(row, branch);
        if (map && map->out > 0 && !map->weight && !is_fused(fused, row->role))
            RS_TRY(rs_net_fill_map(nb, role, stored, attention ? attention->heads : 1,
                                   bias_of(nb, role), map));
        if (map && map->out > 0) RS_TRY(rs_net_multiply(nb, role, branch, map));
        if (norm && norm->kind != RS_NORM_NONE) RS_TRY(rs_net_fill_norm(nb, role, stored, norm));
    }
    return RS_OK;
}

/* ---- the layer ---- */

/* facts: RS_W_BEFORE, RS_W_INSIDE, RS_W_AFTER: where this branch has norms. */
static rs_status norms_at(rs_net_builder *nb, int32_t stored, rs_role around, rs_role inside,
                          unsigned facts, rs_branch *branch)
{
    branch->skip = branch->scale = 1;
    if (nb->forward->facts & RS_W_GRANITE)
        RS_TRY(rs_net_real(nb, "residual_multiplier", &branch->scale));
    if (facts & RS_W_BEFORE && around != RS_ROLE_UNKNOWN)
        RS_TRY(rs_net_norm(nb, around, stored, nb->d_model, &branch->before));
    if (facts & RS_W_INSIDE && inside != RS_ROLE_UNKNOWN)
        RS_TRY(rs_net_norm(nb, inside, stored, nb->d_model, &branch->inside));
    if (facts & RS_W_AFTER) RS_TRY(rs_net_norm(nb, around, stored, nb->d_model, &branch->after));
    return RS_OK;
}

static rs_status norms_around(rs_net_builder *nb, int32_t stored, rs_role around, rs_role inside,
                              rs_branch *branch)
{
    return norms_at(nb, stored, around, inside, nb->forward->facts, branch);
}

/* Falcon's parallel block has one norm for both branches or one for each. */
static rs_status one_norm_for_both(rs_net_builder *nb, bool *one)
{
    *one = false;
    if (!(nb->forward->facts & RS_W_FALCON) || !rs_net_flag(nb, nb->forward->parallel))
        return RS_OK;
    int64_t norms = rs_fields_true(&nb->b->fields, "new_decoder_architecture") ? 2 : 1;
    bool found;
    RS_TRY(rs_net_size(nb, "num_ln_in_parallel_attn", -1, &norms, &found));
    *one = norms < 2;
    return RS_OK;
}

/* Depth i of ALBERT runs group floor(i / (depths/groups)), all of its blocks in order. */
int32_t rs_net_stored(const rs_net_builder *nb, int32_t applied)
{
    if (!(nb->b->family->facts & RS_FACT_SHARED_LAYERS)) return applied;
    int64_t inner = nb->b->inner_group, groups = nb->stored / inner, depths = nb->depth / inner;
    int64_t group = (int64_t)((double)(applied / inner) / ((double)depths / (double)groups));
    return (int32_t)(group * inner + applied % inner);
}

/* ---- branches ---- */

/* A mixer whose kind the family's row for runs names, not its products. */
static rs_status named_branch(rs_net_builder *nb, int32_t stored, rs_branch *branch)
{
    bool delta = nb->forward->ssm->kind == RS_SSM_DELTA;
    branch->kind = delta ? RS_BRANCH_DELTA : RS_BRANCH_SHORT_CONV;
    RS_TRY(norms_at(nb, stored, RS_ROLE_NORM_MIXER, RS_ROLE_UNKNOWN, RS_W_BEFORE, branch));
    RS_TRY(delta ? rs_net_describe_delta(nb, stored, &branch->delta)
                 : rs_net_describe_short_conv(nb, stored, &branch->short_conv));
    if (delta) RS_TRY(rs_net_take_delta(nb, stored, &branch->delta));
    RS_TRY(take_weights(nb, stored, branch));
    return delta ? rs_net_delta_numbers(nb, stored, &branch->delta)
                 : rs_net_conv_numbers(nb, stored, &branch->short_conv.conv);
}

/* One beside an attention reads what that reads. */
static rs_status ssm_branch(rs_net_builder *nb, int32_t stored, rs_layer *layer)
{
    bool s6 = nb->b->family->ssm == RS_SSM_S6;
    rs_branch *branch = &layer->branches[layer->n_branches++];
    if (nb->forward->ssm->kind != RS_SSM_NONE) return named_branch(nb, stored, branch);
    branch->kind = s6 ? RS_BRANCH_S6 : RS_BRANCH_SSD;
    branch->joins = layer->n_branches > 1;
    RS_TRY(norms_around(nb, stored, branch->joins ? RS_ROLE_UNKNOWN : RS_ROLE_NORM_MIXER,
                        RS_ROLE_UNKNOWN, branch));
    if (branch->joins) branch->before = layer->branches[0].before;
    RS_TRY(s6 ? rs_net_describe_s6(nb, stored, &branch->s6)
              : rs_net_describe_ssd(nb, stored, &branch->ssd));
    RS_TRY(take_weights(nb, stored, branch));
    return s6 ? rs_net_s6_numbers(nb, stored, &branch->s6)
              : rs_net_ssd_numbers(nb, stored, &branch->ssd);
}

/* The attention of a layer, and the cross-attention behind it where there is one. */
static rs_status attention_branches(rs_net_builder *nb, int32_t applied, int32_t stored,
                                    rs_layer *layer)
{
    unsigned facts = nb->forward->facts;
    rs_block block = {.layer = stored, .slot = RS_SLOT_MAIN};
    rs_attention at;
    rs_branch *branch = &layer->branches[layer->n_branches++];
    RS_TRY(rs_attention_sizes(nb->b, &block, &at));
    branch->kind = RS_BRANCH_ATTENTION;
    RS_TRY(norms_around(nb, stored, RS_ROLE_NORM_MIXER, RS_ROLE_NORM_MIXER_OUT, branch));
    RS_TRY(describe_attention(nb, stored, applied, &at, &branch->attention));
    RS_TRY(take_weights(nb, stored, branch));
    if (facts & RS_W_RELATIVE) RS_TRY(relative_biases(nb, stored, &branch->attention));
    if (!(facts & RS_W_DECODER) || !rs_fields_true(&nb->b->fields, "add_cross_attention"))
        return RS_OK;
    branch = &layer->branches[layer->n_branches++];
    branch->kind = RS_BRANCH_ATTENTION;
    RS_TRY(norms_around(nb, stored, RS_ROLE_NORM_CROSS, RS_ROLE_UNKNOWN, branch));
    RS_TRY(describe_cross_attention(nb, applied, &at, &branch->attention));
    return take_weights(nb, stored, branch);
}

static rs_status mlp_branch(rs_net_builder *nb, int32_t stored, rs_layer *layer)
{
    bool shared, alone = nb->forward->one_branch;
    rs_role around = alone ? RS_ROLE_NORM_MIXER : RS_ROLE_NORM_MLP;
    rs_branch *branch = &layer->branches[layer->n_branches++];
    branch->kind = RS_BRANCH_MLP;
    branch->joins = rs_net_flag(nb, nb->forward->parallel);
    RS_TRY(one_norm_for_both(nb, &shared));
    if (nb->forward->ssm && nb->forward->ssm->before && !rs_branch_attention(layer->branches))
        RS_TRY(norms_at(nb, stored, RS_ROLE_NORM_MIXER_OUT, RS_ROLE_UNKNOWN, RS_W_BEFORE, branch));
    else
        RS_TRY(norms_around(nb, stored, shared ? RS_ROLE_UNKNOWN : around, RS_ROLE_NORM_MLP_OUT,
                            branch));
    if (shared) branch->before = layer->branches[0].before;
    RS_TRY(describe_mlp(nb, stored, &branch->mlp));
    return take_weights(nb, stored, branch);
}

rs_status rs_net_layer(rs_net_builder *nb, int32_t applied, int32_t stored, rs_layer *layer)
{
    int parts;
    bool alone = nb->forward->one_branch;
    *layer = (rs_layer){.stored = stored};
    RS_TRY(rs_net_parts(nb, stored, &parts));
    if (parts & RS_LAYER_ATTENTION) RS_TRY(attention_branches(nb, applied, stored, layer));
    if (parts & RS_LAYER_SSM) RS_TRY(ssm_branch(nb, stored, layer));
    bool mlp = alone ? layer->n_branches == 0 : nb->forward->mlp_width != NULL;
    return mlp ? mlp_branch(nb, stored, layer) : RS_OK;
}
