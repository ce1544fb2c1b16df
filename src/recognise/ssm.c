/*
 * ssm.c: the cb and io products of one state-space layer (docs/theory/products.md, 1;
 * docs/formats.md, 5.8 and 5.9): C Bᵀ takes the place of Q Kᵀ, and x → out that of V → O.
 *
 *   Mamba    in_proj rows x (di) | z (di);                x_proj rows dt (r) | B (n) | C (n)
 *   Mamba-2  in_proj rows z (di) | x (di) | B (g·n) | C (g·n) | dt (heads)
 */
#include "recognise/builder.h"

/* a·c, refused long before sums of it could overflow. */
static rs_status times(rs_builder *b, int64_t a, int64_t c, int64_t *product)
{
    *product = a * c; /* both are at most 2^31 */
    if (*product <= (int64_t)1 << 40) return RS_OK;
    return rs_fail(b->err, RS_E_CONFIG_SIZE, b->fields.path, NULL,
                   "the state-space sizes %lld and %lld multiply to more than any tensor holds",
                   (long long)a, (long long)c);
}

static rs_status inner_width(rs_builder *b, int64_t layer, rs_ssm_sizes *s)
{
    bool found;
    int64_t expand;
    RS_TRY(rs_fields_find(&b->fields, RS_FIELD_SSM_INNER, layer, &s->inner, &found, b->err));
    if (found) return RS_OK;
    RS_TRY(rs_fields_need(&b->fields, RS_FIELD_SSM_EXPAND, layer, &expand, b->err));
    return times(b, expand, s->width, &s->inner);
}

static rs_status s6_sizes(rs_builder *b, int64_t layer, rs_ssm_sizes *s)
{
    bool found;
    RS_TRY(inner_width(b, layer, s));
    RS_TRY(rs_fields_find(&b->fields, RS_FIELD_SSM_RANK, layer, &s->rank, &found, b->err));
    if (!found) s->rank = (s->width + 15) / 16;
    return RS_OK;
}

static rs_status not_dividing(rs_builder *b, const char *what, int64_t a, const char *by, int64_t c)
{
    return rs_fail(b->err, RS_E_CONFIG_HEADS, b->fields.path, NULL,
                   "%s (%lld) is no multiple of %s (%lld)", what, (long long)a, by, (long long)c);
}

static rs_status ssd_sizes(rs_builder *b, int64_t layer, rs_ssm_sizes *s)
{
    bool heads, head_dim, inner, groups;
    const rs_fields *f = &b->fields;
    RS_TRY(rs_fields_find(f, RS_FIELD_SSM_HEADS, layer, &s->heads, &heads, b->err));
    RS_TRY(rs_fields_find(f, RS_FIELD_SSM_HEAD_DIM, layer, &s->head_dim, &head_dim, b->err));
    RS_TRY(rs_fields_find(f, RS_FIELD_SSM_INNER, layer, &s->inner, &inner, b->err));
    RS_TRY(rs_fields_find(f, RS_FIELD_SSM_GROUPS, layer, &s->groups, &groups, b->err));
    if (!groups) s->groups = 0;
    if (heads && head_dim) {
        int64_t product;
        RS_TRY(times(b, s->heads, s->head_dim, &product));
        if (inner && s->inner != product)
            return rs_fail(b->err, RS_E_CONFIG_HEADS, f->path, NULL,
                           "%lld heads of %lld do not make the inner width %lld",
                           (long long)s->heads, (long long)s->head_dim, (long long)s->inner);
        s->inner = product;
        return RS_OK;
    }
    RS_TRY(inner_width(b, layer, s));
    if (!heads && !head_dim) return rs_fields_need(f, RS_FIELD_SSM_HEADS, layer, &s->heads, b->err);
    if (heads && s->inner % s->heads)
        return not_dividing(b, "inner width", s->inner, "state-space heads", s->heads);
    if (!heads && s->inner % s->head_dim)
        return not_dividing(b, "inner width", s->inner, "state-space head width", s->head_dim);
    if (heads) s->head_dim = s->inner / s->heads;
    if (!heads) s->heads = s->inner / s->head_dim;
    return RS_OK;
}

/* Products read in_proj and out_proj of the layer; S6 reads x_proj, too. */
typedef struct mixer {
    rs_weight in, x, out;
    const rs_tensor *in_bias, *gain, *gain_bias, *gated;
    rs_norm_kind norm;
} mixer;

static rs_status missing(rs_builder *b, const rs_block *block, const rs_weight *weight,
                         rs_role role, bool *complete)
{
    if (weight->match) return RS_OK;
    *complete = false;
    return b->seen[block->slot][role] ? rs_layers_missing(b, block, role) : RS_OK;
}

static rs_status find_mixer(rs_builder *b, const rs_block *block, mixer *m, bool *complete)
{
    bool s6 = b->family->ssm == RS_SSM_S6;
    RS_TRY(rs_weight_find(b, block, RS_ROLE_SSM_IN, &m->in));
    RS_TRY(rs_weight_find(b, block, RS_ROLE_SSM_X, &m->x));
    RS_TRY(rs_weight_find(b, block, RS_ROLE_SSM_OUT, &m->out));
    *complete = true;
    RS_TRY(missing(b, block, &m->in, RS_ROLE_SSM_IN, complete));
    if (s6) RS_TRY(missing(b, block, &m->x, RS_ROLE_SSM_X, complete));
    RS_TRY(missing(b, block, &m->out, RS_ROLE_SSM_OUT, complete));
    m->in_bias = rs_block_tensor(b, block, RS_ROLE_SSM_IN, RS_PART_BIAS);
    m->gated = rs_block_tensor(b, block, RS_ROLE_SSM_NORM, RS_PART_WEIGHT);
    if (!(b->family->facts & RS_FACT_PRE_NORM)) return RS_OK;
    m->gain = rs_block_tensor(b, block, RS_ROLE_NORM_MIXER, RS_PART_WEIGHT);
    if (m->gain) m->norm = b->family->norm;
    m->gain_bias = rs_block_tensor(b, block, RS_ROLE_NORM_MIXER, RS_PART_BIAS);
    return RS_OK;
}

static rs_factor in_rows(const mixer *m, int64_t first, int64_t inner)
{
    rs_factor factor = rs_factor_make(&m->in, true, first, inner);
    factor.bias = m->in_bias;
    factor.bias_first = m->in_bias ? first : 0;
    factor.norm = m->norm;
    factor.gain = m->gain;
    factor.gain_bias = m->gain_bias;
    return factor;
}

static rs_status add_product(rs_builder *b, const rs_block *block, rs_product_kind kind,
                             int64_t head, int64_t group_size, rs_factor one, rs_factor two,
                             const char *text)
{
    rs_product product = {.kind = kind,
                          .layer = block->layer,
                          .head = (int32_t)head,
                          .kv_head = (int32_t)head,
                          .group_size = (int32_t)group_size,
                          .a = one,
                          .b = two,
                          .corrections = rs_shared_text(b, (int)kind, text)};
    if (!product.corrections) return rs_fail_memory(b->err, "model", 0);
    return rs_product_add(b, &product);
}

#define IO_TEXT "conv, SiLU, gate, D and the scan left out"

static rs_status build_s6(rs_builder *b, const rs_block *block, const rs_ssm_sizes *s, mixer *m)
{
    int64_t in[2] = {2 * s->inner, s->width}, x[2] = {s->rank + 2 * s->state, s->inner};
    int64_t out[2] = {s->width, s->inner};
    RS_TRY(rs_weight_shape(b, &m->in, 2, in));
    RS_TRY(rs_weight_shape(b, &m->x, 2, x));
    RS_TRY(rs_weight_shape(b, &m->out, 2, out));
    RS_TRY(rs_vector_shape(b, m->in_bias, in[0]));
    RS_TRY(rs_vector_shape(b, m->gain, s->width));
    rs_factor c = rs_factor_make(&m->x, true, s->rank + s->state, s->state);
    rs_factor key = rs_factor_make(&m->x, true, s->rank, s->state);
    RS_TRY(add_product(
        b, block, RS_PRODUCT_CB, 0, 1, c, key,
        "dt and decay left out; norms of B and C, if any, left out; acts behind conv and "
        "SiLU"));
    return add_product(b, block, RS_PRODUCT_IO, 0, 1, in_rows(m, 0, s->inner),
                       rs_factor_make(&m->out, false, 0, s->inner), IO_TEXT);
}

static rs_status check_ssd(rs_builder *b, rs_ssm_sizes *s, mixer *m)
{
    int64_t fixed = 2 * s->inner + s->heads,
            found = m->in.tensor->rank ? m->in.tensor->shape[0] : 0;
    /* A config that does not say how many groups there are leaves it to in_proj's height. */
    if (!s->groups) s->groups = (found - fixed) / (2 * s->state);
    if (s->groups < 1) s->groups = 1;
    int64_t states;
    RS_TRY(times(b, s->groups, s->state, &states));
    int64_t in[2] = {fixed + 2 * states, s->width}, out[2] = {s->width, s->inner};
    RS_TRY(rs_weight_shape(b, &m->in, 2, in));
    RS_TRY(rs_weight_shape(b, &m->out, 2, out));
    RS_TRY(rs_vector_shape(b, m->in_bias, in[0]));
    RS_TRY(rs_vector_shape(b, m->gain, s->width));
    RS_TRY(rs_vector_shape(b, m->gated, s->inner));
    if (s->heads % s->groups)
        return not_dividing(b, "state-space heads", s->heads, "groups", s->groups);
    return RS_OK;
}

static rs_status build_ssd(rs_builder *b, const rs_block *block, rs_ssm_sizes *s, mixer *m)
{
    RS_TRY(check_ssd(b, s, m));
    int64_t share = s->heads / s->groups, keys = 2 * s->inner;
    for (int64_t g = 0; g < s->groups; g++) {
        char text[160];
        snprintf(text, sizeof text, "conv, SiLU, dt and decay left out; shared by heads %lld-%lld",
                 (long long)(g * share), (long long)(g * share + share - 1));
        rs_factor c = in_rows(m, keys + (s->groups + g) * s->state, s->state);
        rs_factor key = in_rows(m, keys + g * s->state, s->state);
        RS_TRY(add_product(b, block, RS_PRODUCT_CB, g, share, c, key, text));
    }
    for (int64_t h = 0; h < s->heads; h++) {
        rs_factor out = rs_factor_make(&m->out, false, h * s->head_dim, s->head_dim);
        out.inner_gain = m->gated;
        out.inner_gain_first = m->gated ? h * s->head_dim : 0;
        RS_TRY(add_product(b, block, RS_PRODUCT_IO, h, 1,
                           in_rows(m, s->inner + h * s->head_dim, s->head_dim), out, IO_TEXT));
    }
    return RS_OK;
}

rs_status rs_ssm_sizes_of(rs_builder *b, const rs_block *block, rs_ssm_sizes *s)
{
    *s = (rs_ssm_sizes){0};
    RS_TRY(rs_fields_need(&b->fields, RS_FIELD_WIDTH, block->layer, &s->width, b->err));
    RS_TRY(rs_fields_need(&b->fields, RS_FIELD_SSM_STATE, block->layer, &s->state, b->err));
    return b->family->ssm == RS_SSM_S6 ? s6_sizes(b, block->layer, s)
                                       : ssd_sizes(b, block->layer, s);
}

rs_status rs_ssm_build(rs_builder *b, const rs_block *block)
{
    rs_ssm_sizes s;
    mixer m = {0};
    bool complete;
    RS_TRY(find_mixer(b, block, &m, &complete));
    if (!complete) return RS_OK;
    RS_TRY(rs_ssm_sizes_of(b, block, &s));
    RS_TRY(b->family->ssm == RS_SSM_S6 ? build_s6(b, block, &s, &m) : build_ssd(b, block, &s, &m));
    return rs_ssm_rest_add(b, block, &s);
}
