/* arch_model.c: a saved network as scan sees it: the role of each tensor, and the products of its
 * heads, which are read from the network's own maps. */
#include "network/names.h"
#include "network/op_traits.h"
#include "network/saved.h"
#include "recognise/builder.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Steps are drawn no smaller (transformers' time_step_floor). */
static const double step_floor = 1e-4;

typedef struct modelling {
    rs_builder *b;
    const rs_network *network;
    const rs_layer *layer; /* whose products are made */
    const rs_branch *branch;
} modelling;

/* ---- roles ---- */

/* Of norms, which have none of their own. */
static rs_role norm_role(const modelling *m, const rs_named_tensor *row)
{
    if (row->layer < 0) return row->bias ? RS_ROLE_NORM_FINAL_BIAS : RS_ROLE_NORM_FINAL;
    const rs_branch *branch = &m->network->layers[row->layer].branches[row->branch];
    bool inside = row->tensor == branch->inside.gain || row->tensor == branch->inside.bias;
    if (rs_branch_mlp(branch)) {
        if (inside) return row->bias ? RS_ROLE_NORM_MLP_OUT_BIAS : RS_ROLE_NORM_MLP_OUT;
        return row->bias ? RS_ROLE_NORM_MLP_BIAS : RS_ROLE_NORM_MLP;
    }
    if (inside) return row->bias ? RS_ROLE_NORM_MIXER_OUT_BIAS : RS_ROLE_NORM_MIXER_OUT;
    return row->bias ? RS_ROLE_NORM_MIXER_BIAS : RS_ROLE_NORM_MIXER;
}

static rs_status set_roles(modelling *m, rs_error *err)
{
    rs_names *names;
    RS_TRY(rs_names_open(&names, m->network, err));
    for (size_t i = 0; i < names->n; i++) {
        const rs_named_tensor *row = &names->rows[i];
        rs_tensor_role *role = &m->b->model->roles[row->tensor - m->b->checkpoint->tensors];
        role->layer = row->layer;
        role->role = row->role == RS_ROLE_UNKNOWN ? norm_role(m, row)
                     : row->bias && !row->gain    ? rs_role_bias(row->role)
                                                  : row->role;
    }
    rs_names_close(names);
    return RS_OK;
}

/* ---- factors ---- */

/* Units [first, first + inner) that a map gives; the norm before the op acts on what it reads. */
static rs_factor outputs_of(const modelling *m, const rs_dense *map, int64_t first, int64_t inner)
{
    const rs_norm_op *before = &m->branch->before;
    return (rs_factor){.tensor = map->weight,
                       .rows = map->rows,
                       .cols = map->cols,
                       .vector_is_row = map->out_is_row,
                       .first = map->first + first,
                       .inner = inner,
                       .features = map->in,
                       .bias = map->bias,
                       .bias_first = map->bias ? map->first + first : 0,
                       .norm = before->kind,
                       .gain = before->gain,
                       .gain_bias = before->bias};
}

/* The same of what stands behind something else than the branch's input. */
static rs_factor inner_outputs(const modelling *m, const rs_dense *map, int64_t first,
                               int64_t inner)
{
    rs_factor factor = outputs_of(m, map, first, inner);
    factor.norm = RS_NORM_NONE;
    factor.gain = factor.gain_bias = NULL;
    return factor;
}

/* Units that a map reads. */
static rs_factor inputs_of(const rs_dense *map, int64_t first, int64_t inner)
{
    return (rs_factor){.tensor = map->weight,
                       .rows = map->rows,
                       .cols = map->cols,
                       .vector_is_row = !map->out_is_row,
                       .first = first,
                       .inner = inner,
                       .features = map->out};
}

static rs_status add_product(const modelling *m, rs_product product, const char *text)
{
    product.layer = m->layer->stored;
    product.corrections = rs_shared_text(m->b, (int)product.kind, text);
    if (!product.corrections) return rs_fail_memory(m->b->err, "model", 0);
    return rs_product_add(m->b, &product);
}

/* ---- attention, and what has queries, keys and values as it has ---- */

typedef struct heads {
    int32_t heads, key_heads, value_heads;
    int64_t head_dim, value_dim;
    const rs_dense *q, *k, *v, *o;
    rs_rope_kind rope;
    int32_t rope_dims;
    const char *qk_text, *ov_text;
} heads;

static rs_status add_pairs(const modelling *m, const heads *h, rs_product_kind kind)
{
    bool qk = kind == RS_PRODUCT_QK;
    const rs_dense *one = qk ? h->q : h->v, *two = qk ? h->k : h->o;
    int32_t shared = h->heads / (qk ? h->key_heads : h->value_heads);
    /* of one map alone, the other merged into it or absent, there is no product */
    if (!one->weight || !two->weight || one->weight->fixed || two->weight->fixed) return RS_OK;
    for (int32_t i = 0; i < h->heads; i++) {
        int32_t g = i / shared;
        rs_product product = {.attention = "self",
                              .kind = kind,
                              .head = i,
                              .kv_head = g,
                              .group_size = shared,
                              .rope = qk ? h->rope : RS_ROPE_NONE,
                              .rope_dims = qk ? h->rope_dims : 0};
        product.a = qk ? outputs_of(m, one, i * h->head_dim, h->head_dim)
                       : outputs_of(m, one, g * h->value_dim, h->value_dim);
        product.b = qk ? outputs_of(m, two, g * h->head_dim, h->head_dim)
                       : inputs_of(two, i * h->value_dim, h->value_dim);
        RS_TRY(add_product(m, product, qk ? h->qk_text : h->ov_text));
    }
    return RS_OK;
}

static rs_status add_heads(const modelling *m, const heads *h)
{
    RS_TRY(add_pairs(m, h, RS_PRODUCT_QK));
    return add_pairs(m, h, RS_PRODUCT_OV);
}

static rs_status add_attention(const modelling *m)
{
    const rs_attention_op *op = &m->branch->attention;
    char text[160];
    size_t n =
        (size_t)snprintf(text, sizeof text, "scale 1/sqrt(%lld) left out", (long long)op->head_dim);
    if (op->temperature != 1)
        n += (size_t)snprintf(text + n, sizeof text - n, "; temperature %g left out",
                              op->temperature);
    if (op->rope.kind != RS_ROPE_NONE) snprintf(text + n, sizeof text - n, "; RoPE at distance 0");
    return add_heads(m, &(heads){.heads = op->heads,
                                 .key_heads = op->kv_heads,
                                 .value_heads = op->kv_heads,
                                 .head_dim = op->head_dim,
                                 .value_dim = op->value_dim,
                                 .q = &op->q,
                                 .k = &op->k,
                                 .v = &op->v,
                                 .o = &op->o,
                                 .rope = op->rope.kind,
                                 .rope_dims = op->rope.dims,
                                 .qk_text = text,
                                 .ov_text = op->gate.weight ? "gate before W_O left out" : ""});
}

static rs_status add_linear(const modelling *m)
{
    const rs_linear_op *op = &m->branch->linear;
    const char *text =
        op->norm.kind != RS_NORM_NONE
            ? op->gate.weight ? "norm and gate before W_O left out" : "norm before W_O left out"
        : op->gate.weight ? "gate before W_O left out"
                          : "";
    return add_heads(m, &(heads){.heads = op->heads,
                                 .key_heads = op->kv_heads,
                                 .value_heads = op->kv_heads,
                                 .head_dim = op->head_dim,
                                 .value_dim = op->value_dim,
                                 .q = &op->q,
                                 .k = &op->k,
                                 .v = &op->v,
                                 .o = &op->o,
                                 .qk_text = op->feature_map == RS_FEATURE_ELU
                                                ? "elu + 1 of queries and keys left out"
                                                : "",
                                 .ov_text = text});
}

static rs_status add_graph(const modelling *m)
{
    const rs_graph_op *op = &m->branch->graph;
    char text[80];
    snprintf(text, sizeof text, "scale 1/sqrt(%lld) left out", (long long)op->head_dim);
    return add_heads(m, &(heads){.heads = op->heads,
                                 .key_heads = op->key_heads ? op->key_heads : op->heads,
                                 .value_heads = op->value_heads,
                                 .head_dim = op->head_dim,
                                 .value_dim = op->value_dim,
                                 .q = &op->q,
                                 .k = &op->k,
                                 .v = &op->v,
                                 .o = &op->o,
                                 .qk_text = text,
                                 .ov_text = ""});
}

/* ---- state spaces: as recognise/ssm.c has them ---- */

static const char io_text[] = "conv, SiLU, gate, D and the scan left out";

static rs_status add_rest(const modelling *m, const rs_ssm_rest *rest)
{
    rs_model *model = m->b->model;
    if (!RS_GROW(model->rests, model->n_rests, m->b->rests_capacity))
        return rs_fail_memory(m->b->err, "model", 0);
    model->rests[model->n_rests++] = *rest;
    return RS_OK;
}

static rs_status add_s6(const modelling *m)
{
    const rs_s6_op *op = &m->branch->s6;
    const rs_product one = {.kv_head = 0, .group_size = 1};
    rs_product cb = one, io = one;
    cb.kind = RS_PRODUCT_CB;
    cb.a = inner_outputs(m, &op->x, op->rank + op->state, op->state);
    cb.b = inner_outputs(m, &op->x, op->rank, op->state);
    io.kind = RS_PRODUCT_IO;
    io.a = outputs_of(m, &op->in, 0, op->inner);
    io.b = inputs_of(&op->o, 0, op->inner);
    RS_TRY(add_product(m, cb,
                       "dt and decay left out; norms of B and C, if any, left out; acts behind "
                       "conv and SiLU"));
    RS_TRY(add_product(m, io, io_text));
    return add_rest(m, &(rs_ssm_rest){.layer = m->layer->stored,
                                      .channels = op->inner,
                                      .states = op->state,
                                      .a = op->a_log,
                                      .dt_bias = op->step.bias,
                                      .d = op->d});
}

static rs_status add_ssd(const modelling *m)
{
    const rs_ssd_op *op = &m->branch->ssd;
    int64_t inner = op->heads * op->head_dim, keys = 2 * inner;
    int32_t share = op->heads / op->groups;
    for (int32_t g = 0; g < op->groups; g++) {
        char text[160];
        snprintf(text, sizeof text, "conv, SiLU, dt and decay left out; shared by heads %d-%d",
                 (int)(g * share), (int)(g * share + share - 1));
        rs_product cb = {.kind = RS_PRODUCT_CB, .head = g, .kv_head = g, .group_size = share};
        cb.a = outputs_of(m, &op->in, keys + (op->groups + g) * op->state, op->state);
        cb.b = outputs_of(m, &op->in, keys + g * op->state, op->state);
        RS_TRY(add_product(m, cb, text));
    }
    for (int32_t h = 0; h < op->heads; h++) {
        rs_product io = {.kind = RS_PRODUCT_IO, .head = h, .kv_head = h, .group_size = 1};
        io.a = outputs_of(m, &op->in, inner + h * op->head_dim, op->head_dim);
        io.b = inputs_of(&op->o, h * op->head_dim, op->head_dim);
        io.b.inner_gain = op->norm.gain;
        io.b.inner_gain_first = op->norm.gain ? h * op->head_dim : 0;
        RS_TRY(add_product(m, io, io_text));
    }
    return add_rest(m, &(rs_ssm_rest){.layer = m->layer->stored,
                                      .by_head = true,
                                      .channels = op->heads,
                                      .states = 1,
                                      .a = op->a_log,
                                      .dt_bias = op->dt_bias,
                                      .d = op->d});
}

/* ---- the model ---- */

/* Those mixers of which products are known (recognise/): others have weights that no pair of maps
 * stands for. */
static rs_status add_products(const modelling *m)
{
    switch (m->branch->kind) {
    case RS_BRANCH_ATTENTION:
        return add_attention(m);
    case RS_BRANCH_LINEAR:
        return add_linear(m);
    case RS_BRANCH_GRAPH:
        return add_graph(m);
    case RS_BRANCH_S6:
        return add_s6(m);
    case RS_BRANCH_SSD:
        return add_ssd(m);
    case RS_BRANCH_MLP:
    case RS_BRANCH_S4D:
    case RS_BRANCH_RECURRENCE:
    case RS_BRANCH_DELTA:
    case RS_BRANCH_SHORT_CONV:
        return RS_OK;
    }
    return RS_OK;
}

static void set_heads(rs_model *model, const rs_branch *branch)
{
    const rs_attention_op *op = rs_branch_attention(branch);
    if (!op || model->heads) return;
    model->heads = op->heads;
    model->kv_heads = op->kv_heads;
    model->d_head = op->head_dim;
}

static rs_status set_steps(rs_model *model, const rs_checkpoint *checkpoint, rs_error *err)
{
    const char *path = checkpoint->config_path ? checkpoint->config_path : "config";
    const json_t *json;
    rs_arch *arch;
    RS_TRY(rs_saved_arch(&json, checkpoint->config, path, err));
    RS_TRY(rs_arch_read(&arch, json, path, err));
    model->steps = (rs_step_law){arch->dt_init[0], arch->dt_init[1], step_floor, 0, INFINITY};
    rs_arch_close(arch);
    return RS_OK;
}

static rs_status build_model(modelling *m, rs_error *err)
{
    rs_model *model = m->b->model;
    const rs_network *network = m->network;
    RS_TRY(rs_builder_roles(m->b));
    model->family = "arch";
    model->depth = network->n_layers;
    model->d_model = network->d_model;
    RS_TRY(set_roles(m, err));
    for (int32_t l = 0; l < network->n_layers; l++) {
        m->layer = &network->layers[l];
        if (m->layer->stored != l) continue; /* shared */
        model->layers++;
        for (int32_t i = 0; i < m->layer->n_branches; i++) {
            m->branch = &m->layer->branches[i];
            set_heads(model, m->branch);
            RS_TRY(add_products(m));
        }
    }
    if (model->n_rests) RS_TRY(set_steps(model, m->b->checkpoint, err));
    return rs_builder_describe(m->b);
}

rs_status rs_saved_model(rs_model **out, const rs_checkpoint *checkpoint, const rs_network *network,
                         rs_error *err)
{
    modelling m = {.network = network};
    *out = NULL;
    RS_TRY(rs_builder_open(&m.b, checkpoint, err));
    rs_status status = build_model(&m, m.b->err);
    rs_model *model = rs_builder_close(m.b);
    if (status == RS_OK)
        *out = model;
    else
        rs_model_close(model);
    return status;
}
