/*
 * residual_golden.h: the networks that tests/oracle/make_residual_golden.py has stored under
 * tests/golden/residual/. Include behind cmocka.h.
 */
#ifndef RS_TEST_RESIDUAL_GOLDEN_H
#define RS_TEST_RESIDUAL_GOLDEN_H

#include "checkpoint/checkpoint.h"
#include "network/network.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LAYERS_MAX = 40 };

typedef struct golden {
    const char *name;
    rs_checkpoint *file;
    json_t *description;
    rs_network network;
    rs_layer layers[LAYERS_MAX];
    const double *input;
    int64_t n, d;
    double logit;
    bool plain; /* some op has no form of its own */
    double *states;
} golden;

static inline const rs_tensor *find(const golden *g, const char *prefix, const char *part)
{
    char name[200];
    snprintf(name, sizeof name, "%s.%s", prefix, part);
    return rs_checkpoint_find(g->file, name);
}

static inline const rs_tensor *find_part(const golden *g, const char *prefix, const char *map,
                                         const char *part)
{
    char name[160];
    snprintf(name, sizeof name, "%s.%s", map, part);
    return find(g, prefix, name);
}

static inline rs_dense dense(const golden *g, const char *prefix, const char *map)
{
    const rs_tensor *weight = find_part(g, prefix, map, "weight");
    rs_dense out = {0};
    if (!weight) return out;
    out.weight = weight;
    out.rows = out.out = out.run = out.stride = weight->shape[0];
    out.cols = out.in = weight->shape[1];
    out.out_is_row = true;
    out.bias = find_part(g, prefix, map, "bias");
    return out;
}

static inline const char *text(const json_t *object, const char *key)
{
    return json_string_value(json_object_get(object, key));
}

static inline double number(const json_t *object, const char *key)
{
    return json_number_value(json_object_get(object, key));
}

static inline int64_t whole(const json_t *object, const char *key)
{
    return json_integer_value(json_object_get(object, key));
}

static inline bool flag(const json_t *object, const char *key)
{
    return json_is_true(json_object_get(object, key));
}

static inline rs_norm_op norm(const golden *g, const char *prefix, const char *place,
                              const char *kind, int64_t dim)
{
    static const char *const kinds[] = {"none", "layernorm", "rmsnorm", "rmsnorm_plus_one"};
    rs_norm_op op = {.dim = dim, .eps = 1e-5};
    for (int k = 0; k < 4; k++)
        if (strcmp(kinds[k], kind) == 0) op.kind = (rs_norm_kind)k;
    op.gain = find_part(g, prefix, place, "gain");
    op.bias = find_part(g, prefix, place, "bias");
    return op;
}

static inline rs_attention_op attention(const golden *g, const char *prefix, const json_t *b)
{
    const json_t *rope = json_object_get(b, "rope"), *mix = json_object_get(b, "mix");
    rs_attention_op op = {.heads = (int32_t)whole(b, "heads"),
                          .kv_heads = (int32_t)whole(b, "kv_heads"),
                          .head_dim = whole(b, "head_dim"),
                          .value_dim = whole(b, "value_dim"),
                          .q = dense(g, prefix, "q"),
                          .k = dense(g, prefix, "k"),
                          .v = dense(g, prefix, "v"),
                          .o = dense(g, prefix, "o"),
                          .scale = number(b, "qk_scale"),
                          .softcap = number(b, "softcap"),
                          .temperature = number(b, "temperature"),
                          .causal = flag(b, "causal"),
                          .window = whole(b, "window")};
    op.q_norm = norm(g, prefix, "q_norm", text(b, "q_norm"), whole(b, "norm_dim_q"));
    op.k_norm = norm(g, prefix, "k_norm", text(b, "k_norm"), whole(b, "norm_dim_k"));
    op.mix_identity = json_number_value(json_array_get(mix, 0));
    op.mix_softmax = json_number_value(json_array_get(mix, 1));
    op.mix_uniform = json_number_value(json_array_get(mix, 2));
    if (json_is_object(rope))
        op.rope = (rs_rope_op){.kind = flag(rope, "interleaved") ? RS_ROPE_INTERLEAVED
                                                                 : RS_ROPE_HALF_SPLIT,
                               .law = RS_ROPE_PLAIN,
                               .dims = (int32_t)whole(rope, "dims"),
                               .theta = number(rope, "theta"),
                               .factor = 1,
                               .attention_factor = 1};
    if (flag(b, "relative")) {
        op.relative.r = dense(g, prefix, "r");
        op.relative.content_bias = find(g, prefix, "content");
        op.relative.position_bias = find(g, prefix, "position");
    }
    op.distance_bias = find(g, prefix, "distance");
    op.distance_reach = whole(b, "reach");
    return op;
}

static inline rs_conv_op conv(const golden *g, const char *prefix)
{
    const rs_tensor *weight = find_part(g, prefix, "conv", "weight");
    return (rs_conv_op){.channels = weight->shape[0],
                        .width = weight->shape[2],
                        .weight = weight,
                        .bias = find_part(g, prefix, "conv", "bias")};
}

static inline rs_ssd_op ssd(const golden *g, const char *prefix, const json_t *b)
{
    static const char *const gates[] = {
        [RS_GATE_BEFORE_NORM] = "before", [RS_GATE_AFTER_NORM] = "after", [RS_GATE_NONE] = "none"};
    rs_ssd_op op = {.heads = (int32_t)whole(b, "heads"),
                    .groups = (int32_t)whole(b, "groups"),
                    .head_dim = whole(b, "head_dim"),
                    .state = whole(b, "state"),
                    .in = dense(g, prefix, "in"),
                    .conv = conv(g, prefix),
                    .dt_bias = find(g, prefix, "dt_bias"),
                    .a_log = find(g, prefix, "a_log"),
                    .d = find(g, prefix, "d"),
                    .step_most = INFINITY,
                    .norm = norm(g, prefix, "norm", text(b, "norm"), 0),
                    .norm_groups = whole(b, "groups"),
                    .o = dense(g, prefix, "o")};
    op.norm.dim = op.heads * op.head_dim;
    for (int i = 0; i < 3; i++)
        if (strcmp(gates[i], text(b, "gate")) == 0) op.gate = (rs_gate_place)i;
    return op;
}

static inline rs_s6_op s6(const golden *g, const char *prefix, const json_t *b)
{
    return (rs_s6_op){.inner = whole(b, "inner"),
                      .state = whole(b, "state"),
                      .rank = whole(b, "rank"),
                      .in = dense(g, prefix, "in"),
                      .x = dense(g, prefix, "x"),
                      .step = dense(g, prefix, "step"),
                      .conv = conv(g, prefix),
                      .a_log = find(g, prefix, "a_log"),
                      .d = find(g, prefix, "d"),
                      .gated = flag(b, "gated"),
                      .o = dense(g, prefix, "o")};
}

static inline rs_branch branch(golden *g, const char *prefix, const json_t *b)
{
    rs_branch out = {.before = norm(g, prefix, "before", text(b, "before"), g->d),
                     .inside = norm(g, prefix, "inside", text(b, "inside"), g->d),
                     .after = norm(g, prefix, "after", text(b, "after"), g->d),
                     .skip = number(b, "skip"),
                     .scale = number(b, "scale"),
                     .joins = flag(b, "joins")};
    if (strcmp(text(b, "kind"), "attention") == 0) {
        out.attention = attention(g, prefix, b);
        return out;
    }
    if (text(b, "kind")[0] == 's') {
        bool is_ssd = strcmp(text(b, "kind"), "ssd") == 0;
        out.kind = is_ssd ? RS_BRANCH_SSD : RS_BRANCH_S6;
        if (is_ssd)
            out.ssd = ssd(g, prefix, b);
        else
            out.s6 = s6(g, prefix, b);
        g->plain = true;
        return out;
    }
    out.kind = RS_BRANCH_MLP;
    out.mlp = (rs_mlp_op){.up = dense(g, prefix, "up"),
                          .gate = dense(g, prefix, "gate"),
                          .down = dense(g, prefix, "down"),
                          .width = whole(b, "width")};
    static const char *const acts[] = {"linear", "relu", "gelu",  "gelu_tanh", "quick_gelu",
                                       "silu",   "tanh", "relu2", "sin",       "sigmoid"};
    for (int a = 0; a < RS_ACT_COUNT; a++)
        if (strcmp(acts[a], text(b, "act")) == 0) out.mlp.activation = (rs_activation)a;
    return out;
}

static inline void build(golden *g)
{
    const json_t *layers = json_object_get(g->description, "layers");
    g->network = (rs_network){.family = "golden", .d_model = g->d, .layers = g->layers};
    g->network.n_layers = (int32_t)json_array_size(layers);
    assert_true(g->network.n_layers <= LAYERS_MAX);
    for (int32_t l = 0; l < g->network.n_layers; l++) {
        const json_t *branches = json_array_get(layers, (size_t)l);
        g->layers[l].n_branches = (int32_t)json_array_size(branches);
        for (int32_t b = 0; b < g->layers[l].n_branches; b++) {
            char prefix[40];
            snprintf(prefix, sizeof prefix, "l%d.b%d", (int)l, (int)b);
            g->layers[l].branches[b] = branch(g, prefix, json_array_get(branches, (size_t)b));
        }
    }
}

static inline double entry(const rs_tensor *tensor, int64_t i)
{
    double value;
    rs_tensor_decode_f64(&value, tensor, i, 1);
    return value;
}

/* The description is JSON in a tensor of bytes. */
static inline json_t *describe(const golden *g)
{
    const rs_tensor *bytes = rs_checkpoint_find(g->file, "network");
    assert_non_null(bytes);
    return json_loadb((const char *)bytes->data, (size_t)bytes->count, 0, NULL);
}

/* The network of a file of that folder. */
static inline void open_golden(golden *g, const char *file_name)
{
    char path[512];
    rs_error err;
    rs_checkpoint_options options = {0};
    *g = (golden){.name = file_name};
    snprintf(path, sizeof path, "%s/residual/%s", RS_TEST_DATA, file_name);
    assert_int_equal(rs_checkpoint_open(&g->file, path, &options, &err), RS_OK);
    g->description = describe(g);
    assert_non_null(g->description);
    g->d = whole(g->description, "d");
    const rs_tensor *input = rs_checkpoint_find(g->file, "input");
    g->states = malloc((size_t)input->count * sizeof *g->states);
    rs_tensor_decode_f64(g->states, input, 0, input->count);
    g->input = g->states;
    g->n = input->shape[0];
    g->logit = entry(rs_checkpoint_find(g->file, "largest_logit"), 0);
    build(g);
}

static inline void close_golden(golden *g)
{
    free(g->states);
    json_decref(g->description);
    rs_checkpoint_close(g->file);
}

#endif
