/*
 * attention.c: the QK and OV products of one attention layer (docs/formats.md, 4,
 * docs/contract.md).
 *
 * Where head h's units lie in a projection of H query and G key/value heads, c wide (v for values):
 *
 *   separate   q: h·c            k: g·c              v: g·v
 *   gated      q: h·2c           (the gate behind each head's query acts on o's input)
 *   rows       q: h·c            k: H·c + g·c        v: (H + G)·c + g·v
 *   per head   q: h·3c           k: h·3c + c         v: h·3c + 2c
 *   per group  q: g·(s+2)c + jc  k: g·(s+2)c + sc    v: g·(s+2)c + (s+1)c     s = H/G, h = g·s + j
 */
#include "recognise/builder.h"

#include <string.h>

typedef struct projections {
    rs_weight q, k, v, o, r;
    const rs_tensor *q_bias, *k_bias, *v_bias, *content_bias, *position_bias;
    const rs_tensor *q_gain, *k_gain; /* of QK-norm, where they can be folded */
    bool qk_norm;
    unsigned fuse; /* RS_P_ROWS, RS_P_INTERLEAVED, RS_P_GROUPED, RS_P_GATED or 0 */
} projections;

enum { FUSED = RS_P_ROWS | RS_P_INTERLEAVED | RS_P_GROUPED };

static int64_t first_unit(const rs_attention *at, unsigned fuse, char which, int64_t h, int64_t g)
{
    int64_t c = at->head_dim, share = at->heads / at->kv_heads;
    if (fuse & RS_P_INTERLEAVED) return h * 3 * c + (which == 'q' ? 0 : which == 'k' ? c : 2 * c);
    if (fuse & RS_P_GROUPED) {
        int64_t group = g * (share + 2) * c;
        return group + (which == 'q' ? h % share : which == 'k' ? share : share + 1) * c;
    }
    bool rows = fuse & RS_P_ROWS;
    if (which == 'q') return h * (fuse & RS_P_GATED ? 2 * c : c);
    if (which == 'k') return (rows ? at->heads * c : 0) + g * c;
    return (rows ? (at->heads + at->kv_heads) * c : 0) + g * at->value_dim;
}

/* An input projection to `units` units, or the output projection from them. */
static rs_status check_shape(rs_builder *b, rs_weight *weight, const rs_attention *at,
                             int64_t units, int64_t width, bool output)
{
    if (!weight->match) return RS_OK;
    if (weight->match->flags & RS_P_XLNET) {
        int64_t shape[3] = {width, at->heads, units / at->heads};
        return rs_weight_shape(b, weight, 3, shape);
    }
    bool units_first = !(weight->match->flags & RS_P_CONV1D) != output;
    int64_t shape[2] = {units_first ? units : width, units_first ? width : units};
    return rs_weight_shape(b, weight, 2, shape);
}

static rs_status find_fused(rs_builder *b, const rs_block *block, const rs_attention *at,
                            projections *p)
{
    rs_weight *qkv = &p->q;
    p->fuse = qkv->match->flags & FUSED;
    bool equal = at->head_dim == at->value_dim && at->width == at->kv_width;
    if (!equal || (p->fuse & RS_P_INTERLEAVED && at->heads != at->kv_heads))
        return rs_fail(b->err, RS_E_CONFIG_HEADS, qkv->tensor->name, NULL,
                       "%lld query and %lld key/value heads do not fit this fused layout",
                       (long long)at->heads, (long long)at->kv_heads);
    int64_t units = (at->heads + at->kv_heads) * at->head_dim + at->kv_heads * at->value_dim;
    RS_TRY(check_shape(b, qkv, at, units, at->width, false));
    p->k = p->v = *qkv;
    p->q_bias = rs_block_tensor(b, block, RS_ROLE_QKV, RS_PART_BIAS);
    p->k_bias = p->v_bias = p->q_bias;
    return rs_vector_shape(b, p->q_bias, units);
}

static rs_status find_separate(rs_builder *b, const rs_block *block, const rs_attention *at,
                               projections *p)
{
    int64_t q = at->heads * at->head_dim, k = at->kv_heads * at->head_dim;
    int64_t v = at->kv_heads * at->value_dim;
    RS_TRY(rs_weight_find(b, block, RS_ROLE_Q, &p->q));
    RS_TRY(rs_weight_find(b, block, RS_ROLE_K, &p->k));
    RS_TRY(rs_weight_find(b, block, RS_ROLE_V, &p->v));
    p->fuse = p->q.match ? p->q.match->flags & RS_P_GATED : 0;
    if (p->fuse) q *= 2;
    RS_TRY(check_shape(b, &p->q, at, q, at->width, false));
    RS_TRY(check_shape(b, &p->k, at, k, at->kv_width, false));
    RS_TRY(check_shape(b, &p->v, at, v, at->kv_width, false));
    p->q_bias = rs_block_tensor(b, block, RS_ROLE_Q, RS_PART_BIAS);
    p->k_bias = rs_block_tensor(b, block, RS_ROLE_K, RS_PART_BIAS);
    p->v_bias = rs_block_tensor(b, block, RS_ROLE_V, RS_PART_BIAS);
    RS_TRY(rs_vector_shape(b, p->q_bias, q));
    RS_TRY(rs_vector_shape(b, p->k_bias, k));
    return rs_vector_shape(b, p->v_bias, v);
}

static rs_status find_all(rs_builder *b, const rs_block *block, const rs_attention *at,
                          projections *p)
{
    int64_t q = at->heads * at->head_dim;
    RS_TRY(rs_weight_find(b, block, RS_ROLE_QKV, &p->q));
    RS_TRY(p->q.match ? find_fused(b, block, at, p) : find_separate(b, block, at, p));
    RS_TRY(rs_weight_find(b, block, RS_ROLE_O, &p->o));
    RS_TRY(check_shape(b, &p->o, at, at->heads * at->value_dim, at->out_width, true));
    RS_TRY(rs_weight_find(b, block, RS_ROLE_R, &p->r));
    RS_TRY(check_shape(b, &p->r, at, q, at->width, false));
    p->content_bias = rs_block_tensor(b, block, RS_ROLE_CONTENT_BIAS, RS_PART_WEIGHT);
    p->position_bias = rs_block_tensor(b, block, RS_ROLE_POSITION_BIAS, RS_PART_WEIGHT);
    RS_TRY(rs_vector_shape(b, p->content_bias, q));
    RS_TRY(rs_vector_shape(b, p->position_bias, q));
    const rs_tensor *q_gain = rs_block_tensor(b, block, RS_ROLE_Q_NORM, RS_PART_WEIGHT);
    const rs_tensor *k_gain = rs_block_tensor(b, block, RS_ROLE_K_NORM, RS_PART_WEIGHT);
    p->qk_norm = (q_gain && k_gain) || at->bare_qk_norm || b->guessing;
    /* What such a gain multiplies is not known in a model that is guessed; a LayerNorm also takes a
     * mean away inside the head. */
    if (b->guessing || (b->family && b->family->facts & RS_FACT_QK_LAYERNORM)) return RS_OK;
    p->q_gain = q_gain;
    p->k_gain = k_gain;
    int64_t k = at->kv_heads * at->head_dim;
    RS_TRY(rs_vector_shape(b, p->q_gain, at->qk_norm_full ? q : at->head_dim));
    return rs_vector_shape(b, p->k_gain, at->qk_norm_full ? k : at->head_dim);
}

/* Appends a clause to a "; "-joined text. */
static void clause(rs_buffer *text, const char *words)
{
    rs_buffer_printf(text, "%s%s", text->length ? "; " : "", words);
}

/* What is left out of a product whatever the options, in the order in which the forward pass would
 * apply it. Norms, QK-norm gains and biases depend on them: the scan says what it did with
 * those. */
static rs_status describe(rs_builder *b, const rs_attention *at, const projections *p, int kind,
                          const char **out)
{
    rs_buffer text = {0};
    bool positional = kind > RS_PRODUCT_IO, qk = kind == RS_PRODUCT_QK || positional;
    char number[64];
    if (positional) clause(&text, "r meets the position code instead of a token");
    if (qk && *at->scale) clause(&text, at->scale);
    if (kind == RS_PRODUCT_QK && at->rope != RS_ROPE_NONE) clause(&text, "RoPE at distance 0");
    if (kind == RS_PRODUCT_QK && b->guessing)
        clause(&text, "a guess: RoPE and QK-norm not known");
    else if (kind == RS_PRODUCT_QK && p->qk_norm && b->family &&
             b->family->facts & RS_FACT_QK_LAYERNORM)
        clause(&text, "QK-norm (a LayerNorm of the head) left out");
    else if (kind == RS_PRODUCT_QK && p->qk_norm)
        clause(&text, at->qk_norm_full ? "QK-norm over all heads left out"
                                       : "QK-norm: the score ignores the scale");
    if (kind == RS_PRODUCT_OV && b->family && b->family->facts & RS_FACT_VALUE_NORM)
        clause(&text, "norm of the values left out");
    if (kind == RS_PRODUCT_OV && at->value_scale != 0) {
        snprintf(number, sizeof number, "scale %g of the values left out", at->value_scale);
        clause(&text, number);
    }
    if (kind == RS_PRODUCT_OV && b->guessing)
        clause(&text, "a guess: what stands between W_V and W_O not known");
    if (kind == RS_PRODUCT_OV && p->fuse & RS_P_GATED) clause(&text, "gate before W_O left out");
    if (qk && at->softcap > 0) {
        snprintf(number, sizeof number, "soft-cap %g left out", at->softcap);
        clause(&text, number);
    }
    *out = text.failed ? NULL : rs_shared_text(b, kind, text.data ? text.data : "");
    rs_buffer_free(&text);
    return *out ? RS_OK : rs_fail_memory(b->err, "model", 0);
}

static rs_factor input_factor(const rs_attention *at, const projections *p, char which, int64_t h,
                              int64_t g)
{
    const rs_weight *weight = which == 'q' ? &p->q : which == 'k' ? &p->k : &p->v;
    int64_t first = first_unit(at, p->fuse, which, h, g);
    bool rows = !(weight->match->flags & (RS_P_CONV1D | RS_P_XLNET));
    rs_factor factor =
        rs_factor_make(weight, rows, first, which == 'v' ? at->value_dim : at->head_dim);
    factor.bias = which == 'q' ? p->q_bias : which == 'k' ? p->k_bias : p->v_bias;
    factor.bias_first = factor.bias ? first : 0;
    factor.norm = which == 'q' ? at->norm : at->kv_norm;
    factor.gain = which == 'q' ? at->gain : at->kv_gain;
    factor.gain_bias = which == 'q' ? at->gain_bias : at->kv_gain_bias;
    if (which == 'v') return factor;
    factor.inner_gain = which == 'q' ? p->q_gain : p->k_gain;
    if (at->qk_norm_full && factor.inner_gain)
        factor.inner_gain_first = (which == 'q' ? h : g) * at->head_dim;
    factor.inner_gain_plus_one = factor.inner_gain && at->qk_norm == RS_NORM_RMSNORM_PLUS_ONE;
    return factor;
}

static rs_product start_product(const rs_attention *at, const rs_block *block, rs_product_kind kind,
                                int64_t h, const char *corrections)
{
    int64_t share = at->heads / at->kv_heads;
    return (rs_product){.stack = at->stack,
                        .attention = at->attention,
                        .kind = kind,
                        .layer = block->layer,
                        .head = (int32_t)h,
                        .kv_head = (int32_t)(h / share),
                        .group_size = (int32_t)share,
                        .corrections = corrections};
}

static rs_status add_qk(rs_builder *b, const rs_block *block, const rs_attention *at,
                        const projections *p)
{
    const char *text;
    RS_TRY(describe(b, at, p, RS_PRODUCT_QK, &text));
    for (int64_t h = 0; h < at->heads; h++) {
        rs_product product = start_product(at, block, RS_PRODUCT_QK, h, text);
        product.a = input_factor(at, p, 'q', h, product.kv_head);
        product.b = input_factor(at, p, 'k', h, product.kv_head);
        if (p->content_bias) {
            product.a.bias = p->content_bias;
            product.a.bias_first = h * at->head_dim;
        }
        product.rope = at->rope;
        product.rope_dims = at->rope_dims;
        product.qk_norm = p->qk_norm;
        RS_TRY(rs_product_add(b, &product));
    }
    return RS_OK;
}

static rs_status add_ov(rs_builder *b, const rs_block *block, const rs_attention *at,
                        const projections *p)
{
    const char *text;
    RS_TRY(describe(b, at, p, RS_PRODUCT_OV, &text));
    bool rows = p->o.match->flags & RS_P_CONV1D;
    for (int64_t h = 0; h < at->heads; h++) {
        rs_product product = start_product(at, block, RS_PRODUCT_OV, h, text);
        product.a = input_factor(at, p, 'v', h, product.kv_head);
        product.b = rs_factor_make(&p->o, rows, h * at->value_dim, at->value_dim);
        RS_TRY(rs_product_add(b, &product));
    }
    return RS_OK;
}

/* XLNet's positional score: (q + r_r_bias) · r(position). */
static rs_status add_positional(rs_builder *b, const rs_block *block, const rs_attention *at,
                                const projections *p)
{
    const char *text;
    RS_TRY(describe(b, at, p, RS_PRODUCT_IO + 1, &text));
    for (int64_t h = 0; h < at->heads; h++) {
        rs_product product = start_product(at, block, RS_PRODUCT_QK, h, text);
        product.attention = "positional";
        product.a = input_factor(at, p, 'q', h, h);
        product.a.bias = p->position_bias;
        product.a.bias_first = p->position_bias ? h * at->head_dim : 0;
        product.b = rs_factor_make(&p->r, false, h * at->head_dim, at->head_dim);
        RS_TRY(rs_product_add(b, &product));
    }
    return RS_OK;
}

/* Whether the checkpoint has such a tensor in some layer, alone or fused. */
static bool anywhere(const rs_builder *b, const rs_block *block, rs_role role, rs_role *as)
{
    if (block->slot >= RS_SLOT_MAP) return false; /* map.c has checked its entries */
    const bool *seen = b->seen[block->slot];
    bool fusable = role == RS_ROLE_Q || role == RS_ROLE_K || role == RS_ROLE_V;
    *as = fusable && !seen[role] ? RS_ROLE_QKV : role;
    return seen[*as];
}

/* Both tensors of a product, or a complaint about the one that is absent. A kind of tensor that the
 * whole checkpoint lacks makes no complaint: its product is not reported. */
static rs_status pair(rs_builder *b, const rs_block *block, const rs_weight *one, rs_role role_one,
                      const rs_weight *two, rs_role role_two, bool *both)
{
    rs_role as_one, as_two;
    *both = one->match && two->match;
    if (b->family && b->family->facts & RS_FACT_SHARED_KV) return RS_OK; /* nothing of its own */
    if (*both || !anywhere(b, block, role_one, &as_one) || !anywhere(b, block, role_two, &as_two))
        return RS_OK;
    if (!one->match) RS_TRY(rs_layers_missing(b, block, as_one));
    if (!two->match && (one->match || as_two != as_one))
        RS_TRY(rs_layers_missing(b, block, as_two));
    return RS_OK;
}

rs_status rs_attention_build(rs_builder *b, const rs_block *block, const rs_attention *at)
{
    projections p = {0};
    bool qk, ov, positional;
    RS_TRY(find_all(b, block, at, &p));
    RS_TRY(pair(b, block, &p.q, RS_ROLE_Q, &p.k, RS_ROLE_K, &qk));
    RS_TRY(pair(b, block, &p.v, RS_ROLE_V, &p.o, RS_ROLE_O, &ov));
    RS_TRY(pair(b, block, &p.q, RS_ROLE_Q, &p.r, RS_ROLE_R, &positional));
    RS_TRY(rs_vector_shape(b, at->gain, at->width));
    RS_TRY(rs_vector_shape(b, at->gain_bias, at->width));
    RS_TRY(rs_vector_shape(b, at->kv_gain, at->kv_width));
    RS_TRY(rs_vector_shape(b, at->kv_gain_bias, at->kv_width));
    if (qk) RS_TRY(add_qk(b, block, at, &p));
    bool paired = b->family && b->family->facts & RS_FACT_PAIRED_VALUES;
    if (ov && !paired) RS_TRY(add_ov(b, block, at, &p));
    return positional ? add_positional(b, block, at, &p) : RS_OK;
}
