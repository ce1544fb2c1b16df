/* network_layer.c: one layer: attention, cross-attention where there is some, MLP, and the norms
 * around them. */
#include "network/network_build.h"

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

/* Which units of a fused qkv belong to whom: the table over attention.c in terms of rs_dense. */
static void split(rs_attention_op *op, const rs_dense *qkv, unsigned flags, const rs_attention *at)
{
    int64_t c = at->head_dim, share = at->heads / at->kv_heads;
    int64_t q = at->heads * c, k = at->kv_heads * c;
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

static rs_status fits_fused(rs_net_builder *nb, const rs_attention *at)
{
    unsigned flags = rs_net_pattern(nb, RS_ROLE_QKV)->flags;
    if (at->value_dim == at->head_dim && (!(flags & RS_P_INTERLEAVED) || at->heads == at->kv_heads))
        return RS_OK;
    return rs_fail(nb->err, RS_E_CONFIG_HEADS, nb->b->fields.path, RS_CONFIG_HINT,
                   "%lld query and %lld key/value heads do not fit this family's fused layout",
                   (long long)at->heads, (long long)at->kv_heads);
}

static rs_status fused_maps(rs_net_builder *nb, int32_t stored, const rs_attention *at,
                            rs_attention_op *op)
{
    unsigned flags = rs_net_pattern(nb, RS_ROLE_QKV)->flags;
    rs_dense qkv;
    int64_t units = (at->heads + 2 * at->kv_heads) * at->head_dim;
    RS_TRY(rs_net_dense(nb, RS_ROLE_QKV, stored, nb->d_model, units,
                        rs_net_bias_of(nb, nb->forward->qkv_bias), &qkv));
    split(op, &qkv, flags, at);
    return RS_OK;
}

static rs_status maps(rs_net_builder *nb, int32_t stored, const rs_attention *at,
                      rs_attention_op *op)
{
    rs_net_bias bias = rs_net_bias_of(nb, nb->forward->qkv_bias);
    int64_t d = nb->d_model, k = at->kv_heads * at->head_dim;
    bool fused =
        rs_net_pattern(nb, RS_ROLE_QKV) &&
        (!rs_net_pattern(nb, RS_ROLE_Q) || (!nb->init && rs_net_has(nb, RS_ROLE_QKV, stored)));
    if (fused) RS_TRY(fits_fused(nb, at));
    /* Draws are per map, also where files store several in one tensor: laws that know fans or a
     * matrix's shape (xavier, orthogonal) then mean the same model in every family. */
    if (fused && !nb->init) {
        RS_TRY(fused_maps(nb, stored, at, op));
    } else {
        RS_TRY(rs_net_dense(nb, RS_ROLE_Q, stored, d, at->heads * at->head_dim, bias, &op->q));
        RS_TRY(rs_net_dense(nb, RS_ROLE_K, stored, d, k, bias, &op->k));
        RS_TRY(rs_net_dense(nb, RS_ROLE_V, stored, d, at->kv_heads * at->value_dim, bias, &op->v));
    }
    return rs_net_dense(nb, RS_ROLE_O, stored, at->heads * at->value_dim, d,
                        rs_net_bias_of(nb, nb->forward->o_bias), &op->o);
}

/* XLNet: maps stored [width, heads, head_dim], and what scores add for distance and segment. */
static rs_status relative_maps(rs_net_builder *nb, int32_t stored, const rs_attention *at,
                               rs_attention_op *op)
{
    const rs_fields *fields = &nb->b->fields;
    const char *kind = rs_fields_text(fields, "attn_type");
    int64_t d = nb->d_model, h = at->heads, c = at->head_dim;
    int64_t bias[2] = {h, c}, segments[3] = {2, h, c};
    rs_relative_op *r = &op->relative;
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
    r->clamp = clamp >= 1 && clamp < INT32_MAX ? (int64_t)clamp : 0;
    RS_TRY(rs_net_xlnet(nb, RS_ROLE_Q, stored, d, h, c, false, &op->q));
    RS_TRY(rs_net_xlnet(nb, RS_ROLE_K, stored, d, h, c, false, &op->k));
    RS_TRY(rs_net_xlnet(nb, RS_ROLE_V, stored, d, h, c, false, &op->v));
    RS_TRY(rs_net_xlnet(nb, RS_ROLE_O, stored, d, h, c, true, &op->o));
    RS_TRY(rs_net_xlnet(nb, RS_ROLE_R, stored, d, h, c, false, &r->r));
    RS_TRY(
        rs_net_tensor(nb, RS_ROLE_CONTENT_BIAS, RS_PART_WEIGHT, stored, 2, bias, &r->content_bias));
    RS_TRY(rs_net_tensor(nb, RS_ROLE_POSITION_BIAS, RS_PART_WEIGHT, stored, 2, bias,
                         &r->position_bias));
    RS_TRY(
        rs_net_tensor(nb, RS_ROLE_SEGMENT_BIAS, RS_PART_WEIGHT, stored, 2, bias, &r->segment_bias));
    return rs_net_tensor(nb, RS_ROLE_SEGMENT_EMBED, RS_PART_WEIGHT, stored, 3, segments,
                         &r->segment_embed);
}

static rs_status qk_norms(rs_net_builder *nb, int32_t stored, const rs_attention *at,
                          rs_attention_op *op)
{
    if (!(nb->forward->facts & RS_W_QK_NORM)) return RS_OK;
    int64_t q = at->qk_norm_full ? op->q.out : at->head_dim;
    int64_t k = at->qk_norm_full ? op->k.out : at->head_dim;
    RS_TRY(rs_net_norm(nb, RS_ROLE_Q_NORM, stored, q, &op->q_norm));
    return rs_net_norm(nb, RS_ROLE_K_NORM, stored, k, &op->k_norm);
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

static rs_status self_attention(rs_net_builder *nb, int32_t stored, int32_t applied,
                                const rs_attention *at, rs_attention_op *op)
{
    bool sliding;
    sizes_of(op, at);
    RS_TRY(is_sliding(nb, applied, &sliding));
    RS_TRY(mask(nb, sliding, op));
    RS_TRY(score_scale(nb, at, applied, op));
    if (nb->forward->facts & RS_W_RELATIVE) return relative_maps(nb, stored, at, op);
    RS_TRY(rs_net_rope(nb, at, sliding, &op->rope));
    RS_TRY(maps(nb, stored, at, op));
    return qk_norms(nb, stored, at, op);
}

/* Attention to another model's output, as wide as this one's. */
static rs_status cross_attention(rs_net_builder *nb, int32_t stored, int32_t applied,
                                 const rs_attention *at, rs_attention_op *op)
{
    rs_net_bias bias = rs_net_bias_of(nb, nb->forward->qkv_bias);
    int64_t d = nb->d_model, units = at->heads * at->head_dim;
    sizes_of(op, at);
    op->cross = true;
    RS_TRY(score_scale(nb, at, applied, op));
    RS_TRY(rs_net_dense(nb, RS_ROLE_CROSS_Q, stored, d, units, bias, &op->q));
    if (!nb->init && rs_net_pattern(nb, RS_ROLE_CROSS_KV)) {
        rs_dense both;
        RS_TRY(rs_net_dense(nb, RS_ROLE_CROSS_KV, stored, d, 2 * units, bias, &both));
        op->k = op->v = both;
        op->k.out = op->k.run = op->k.stride = op->v.out = op->v.run = op->v.stride = units;
        op->v.first = units;
    } else {
        RS_TRY(rs_net_dense(nb, RS_ROLE_CROSS_K, stored, d, units, bias, &op->k));
        RS_TRY(rs_net_dense(nb, RS_ROLE_CROSS_V, stored, d, units, bias, &op->v));
    }
    return rs_net_dense(nb, RS_ROLE_CROSS_O, stored, units, d,
                        rs_net_bias_of(nb, nb->forward->o_bias), &op->o);
}

/* ---- MLP ---- */

/* gate and up in one tensor, gate first (Phi-3). */
static rs_status fused_gate(rs_net_builder *nb, rs_role role, int32_t stored, rs_net_bias bias,
                            rs_mlp_op *op)
{
    rs_dense both;
    RS_TRY(rs_net_dense(nb, role, stored, nb->d_model, 2 * op->width, bias, &both));
    op->gate = op->up = both;
    op->gate.out = op->gate.run = op->gate.stride = op->width;
    op->up.out = op->up.run = op->up.stride = op->width;
    op->up.first = op->width;
    return RS_OK;
}

static rs_status mlp(rs_net_builder *nb, int32_t stored, rs_mlp_op *op)
{
    rs_net_bias bias = rs_net_bias_of(nb, nb->forward->mlp_bias);
    int64_t d = nb->d_model, width = 0;
    bool found;
    RS_TRY(rs_net_size(nb, nb->forward->mlp_width, stored, &width, &found));
    *op = (rs_mlp_op){.activation = nb->activation, .width = found ? width : 4 * d};
    bool gated = nb->forward->facts & RS_W_GATED;
    bool fused = gated && !nb->init && rs_net_pattern(nb, RS_ROLE_MLP_GATE_UP);
    if (fused) {
        RS_TRY(fused_gate(nb, RS_ROLE_MLP_GATE_UP, stored, bias, op));
    } else if (gated && nb->gguf && !rs_net_has(nb, RS_ROLE_MLP_GATE, stored)) {
        RS_TRY(fused_gate(nb, RS_ROLE_MLP_UP, stored, bias, op));
    } else {
        if (gated)
            RS_TRY(rs_net_dense(nb, RS_ROLE_MLP_GATE, stored, d, op->width, bias, &op->gate));
        RS_TRY(rs_net_dense(nb, RS_ROLE_MLP_UP, stored, d, op->width, bias, &op->up));
    }
    return rs_net_dense(nb, RS_ROLE_MLP_DOWN, stored, op->width, d, bias, &op->down);
}

/* ---- the layer ---- */

static rs_status norms_around(rs_net_builder *nb, int32_t stored, rs_role around, rs_role inside,
                              rs_branch *branch)
{
    unsigned facts = nb->forward->facts;
    branch->skip = branch->scale = 1;
    if (facts & RS_W_GRANITE) RS_TRY(rs_net_real(nb, "residual_multiplier", &branch->scale));
    if (facts & RS_W_BEFORE && around != RS_ROLE_UNKNOWN)
        RS_TRY(rs_net_norm(nb, around, stored, nb->d_model, &branch->before));
    if (facts & RS_W_INSIDE && inside != RS_ROLE_UNKNOWN)
        RS_TRY(rs_net_norm(nb, inside, stored, nb->d_model, &branch->inside));
    if (facts & RS_W_AFTER) RS_TRY(rs_net_norm(nb, around, stored, nb->d_model, &branch->after));
    return RS_OK;
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

static rs_status refuse_experts(rs_net_builder *nb, int32_t stored)
{
    if (nb->init ||
        !(rs_net_has(nb, RS_ROLE_MOE_EXPERT, stored) || rs_net_has(nb, RS_ROLE_MOE_ROUTER, stored)))
        return RS_OK;
    return rs_fail(nb->err, RS_E_UNSUPPORTED, nb->b->checkpoint->path, "scan reads its weights",
                   "layer %d is a mixture of experts, which is not run here", (int)stored);
}

rs_status rs_net_layer(rs_net_builder *nb, int32_t applied, int32_t stored, rs_layer *layer)
{
    unsigned facts = nb->forward->facts;
    rs_attention at;
    bool shared;
    *layer = (rs_layer){.n_branches = 2, .stored = stored};
    RS_TRY(refuse_experts(nb, stored));
    rs_block block = {.layer = stored, .slot = RS_SLOT_MAIN};
    RS_TRY(rs_attention_sizes(nb->b, &block, &at));
    rs_branch *branch = layer->branches;
    branch->kind = RS_BRANCH_ATTENTION;
    RS_TRY(norms_around(nb, stored, RS_ROLE_NORM_MIXER, RS_ROLE_NORM_MIXER_OUT, branch));
    RS_TRY(self_attention(nb, stored, applied, &at, &branch->attention));
    if (facts & RS_W_DECODER && rs_fields_true(&nb->b->fields, "add_cross_attention")) {
        layer->n_branches = 3;
        branch++;
        branch->kind = RS_BRANCH_ATTENTION;
        RS_TRY(norms_around(nb, stored, RS_ROLE_NORM_CROSS, RS_ROLE_UNKNOWN, branch));
        RS_TRY(cross_attention(nb, stored, applied, &at, &branch->attention));
    }
    branch++;
    branch->kind = RS_BRANCH_MLP;
    branch->joins = rs_net_flag(nb, nb->forward->parallel);
    RS_TRY(one_norm_for_both(nb, &shared));
    RS_TRY(norms_around(nb, stored, shared ? RS_ROLE_UNKNOWN : RS_ROLE_NORM_MLP,
                        RS_ROLE_NORM_MLP_OUT, branch));
    if (shared) branch->before = layer->branches[0].before;
    return mlp(nb, stored, &branch->mlp);
}
