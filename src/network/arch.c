/* arch.c: an architecture as a network. */
#include "network/arch_build.h"

#include "network/op_traits.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const double norm_epsilon = 1e-5;
static const double rope_theta = 10000;

static const rs_role weight_roles[RS_ARCH_WEIGHTS] = {
    [RS_ARCH_WQ] = RS_ROLE_Q,
    [RS_ARCH_WK] = RS_ROLE_K,
    [RS_ARCH_WV] = RS_ROLE_V,
    [RS_ARCH_WO] = RS_ROLE_O,
    [RS_ARCH_W1] = RS_ROLE_MLP_UP,
    [RS_ARCH_WG] = RS_ROLE_MLP_GATE,
    [RS_ARCH_W2] = RS_ROLE_MLP_DOWN,
    [RS_ARCH_EMBEDDING] = RS_ROLE_EMBED_TOKEN,
    [RS_ARCH_POSITION] = RS_ROLE_EMBED_POSITION,
    [RS_ARCH_RELATIVE] = RS_ROLE_POSITION_BIAS,
    [RS_ARCH_HEAD] = RS_ROLE_LM_HEAD,
    [RS_ARCH_WIN] = RS_ROLE_SSM_IN,
    [RS_ARCH_WX] = RS_ROLE_SSM_X,
    [RS_ARCH_WDT] = RS_ROLE_SSM_DT,
    [RS_ARCH_CONV] = RS_ROLE_SSM_CONV,
    [RS_ARCH_MAP] = RS_ROLE_EMBED_PROJECTION,
    [RS_ARCH_FUSION] = RS_ROLE_HEAD_FUSION,
};
/* Roles that a name of "init" stands for beside its own. */
static const struct {
    rs_arch_weight weight;
    rs_role role;
} more_roles[] = {
    {RS_ARCH_WO, RS_ROLE_SSM_OUT},  {RS_ARCH_WIN, RS_ROLE_DELTA_Q}, {RS_ARCH_WIN, RS_ROLE_DELTA_K},
    {RS_ARCH_WIN, RS_ROLE_DELTA_V}, {RS_ARCH_WIN, RS_ROLE_DELTA_Z}, {RS_ARCH_WIN, RS_ROLE_DELTA_B},
    {RS_ARCH_WIN, RS_ROLE_DELTA_A},
};
static const char *const weight_names[RS_ARCH_WEIGHTS] = {
    "init.wq", "init.wk",        "init.wv",       "init.wo",       "init.w1",    "init.wg",
    "init.w2", "init.embedding", "init.position", "init.relative", "init.head",  "init.win",
    "init.wx", "init.wdt",       "init.conv",     "init.map",      "init.fusion"};

const char *rs_arch_init_name(rs_role role)
{
    const size_t prefix = sizeof "init." - 1;
    for (int w = 0; w < RS_ARCH_WEIGHTS; w++)
        if (weight_roles[w] == role) return weight_names[w] + prefix;
    for (size_t i = 0; i < sizeof more_roles / sizeof *more_roles; i++)
        if (more_roles[i].role == role) return weight_names[more_roles[i].weight] + prefix;
    return NULL;
}

static const rs_activation activations[] = {
    [RS_ARCH_MLP_NONE] = RS_ACT_LINEAR,
    [RS_ARCH_MLP_LINEAR] = RS_ACT_LINEAR,
    [RS_ARCH_MLP_RELU] = RS_ACT_RELU,
    [RS_ARCH_MLP_GELU] = RS_ACT_GELU,
    [RS_ARCH_MLP_GELU_TANH] = RS_ACT_GELU_TANH,
    [RS_ARCH_MLP_SWIGLU] = RS_ACT_SILU,
    [RS_ARCH_MLP_SIN] = RS_ACT_SIN,
    [RS_ARCH_MLP_SIGMOID] = RS_ACT_SIGMOID,
};

/* ---- pieces ---- */

rs_status rs_arch_matrix(const rs_tensor **out, const rs_arch_build *b, rs_role role, int64_t rows,
                         int64_t cols)
{
    const int64_t shape[] = {rows, cols};
    RS_TRY(rs_init_tensor(out, b->init, role, false, b->layer, 2, shape, true, b->err));
    b->network->stored.parameters += (uint64_t)(*out)->count;
    b->network->stored.dtype = rs_dtype_info((*out)->dtype)->name;
    return RS_OK;
}

rs_dense rs_arch_map(int64_t out, int64_t in)
{
    return (rs_dense){.rows = out,
                      .cols = in,
                      .out_is_row = true,
                      .in = in,
                      .out = out,
                      .run = out,
                      .stride = out};
}

rs_status rs_arch_draw(rs_branch *branch, const rs_arch_build *b)
{
    const rs_weight_list *weights = &rs_branch_traits(branch)->weights;
    for (size_t i = 0; i < weights->n; i++) {
        const rs_weight_row *row = &weights->rows[i];
        rs_dense *map = rs_weight_map_to_fill(row, branch);
        rs_conv_op *conv = rs_weight_conv_to_fill(row, branch);
        if (map && map->out > 0)
            RS_TRY(rs_arch_is_absent(b->arch, row->role)
                       ? rs_arch_identity(map, b, row->role)
                       : rs_arch_matrix(&map->weight, b, row->role, map->rows, map->cols));
        if (conv && conv->channels > 0)
            RS_TRY(rs_arch_matrix(&conv->weight, b, row->role, conv->channels, conv->width));
    }
    return RS_OK;
}

rs_norm_op rs_arch_norm_of(rs_norm_kind kind, int64_t dim)
{
    return (rs_norm_op){.kind = kind, .dim = dim, .eps = norm_epsilon};
}

static rs_status draw_vector(const rs_tensor **out, const rs_arch_build *b, rs_role role, bool bias,
                             int64_t n)
{
    RS_TRY(rs_init_tensor(out, b->init, role, bias, b->layer, 1, &n, true, b->err));
    b->network->stored.parameters += (uint64_t)n;
    b->network->stored.dtype = rs_dtype_info((*out)->dtype)->name;
    return RS_OK;
}

static rs_status affine_norm(rs_norm_op *out, const rs_arch_build *b, rs_role role,
                             rs_norm_kind kind, rs_arch_affine affine)
{
    *out = rs_arch_norm_of(kind, b->arch->d_model);
    if (affine != RS_ARCH_AFFINE_NONE) RS_TRY(draw_vector(&out->gain, b, role, false, out->dim));
    if (affine == RS_ARCH_AFFINE_BOTH) RS_TRY(draw_vector(&out->bias, b, role, true, out->dim));
    return RS_OK;
}

rs_status rs_arch_state_norm(rs_norm_op *out, const rs_arch_build *b, rs_role role)
{
    return affine_norm(out, b, role, b->arch->norm_kind, b->arch->affine);
}

rs_status rs_arch_full_norm(rs_norm_op *out, const rs_arch_build *b, rs_role role)
{
    return affine_norm(out, b, role, RS_NORM_LAYERNORM, RS_ARCH_AFFINE_BOTH);
}

rs_status rs_arch_zero_bias(rs_dense *map, const rs_arch_build *b, rs_role role)
{
    return draw_vector(&map->bias, b, role, true, map->out);
}

rs_status rs_arch_bias(rs_dense *map, const rs_arch_build *b, rs_role role)
{
    bool there = map->weight && !map->weight->fixed;
    return b->arch->bias && there ? rs_arch_zero_bias(map, b, role) : RS_OK;
}

/* Norms of the layer's first branch, and of its MLP. */
static rs_status add_norms(rs_branch *branch, const rs_arch_build *b, bool mlp)
{
    rs_arch_norm norm = b->arch->norm;
    rs_role around = mlp ? RS_ROLE_NORM_MLP : RS_ROLE_NORM_MIXER,
            inside = mlp ? RS_ROLE_NORM_MLP_OUT : RS_ROLE_NORM_MIXER_OUT;
    if (norm == RS_ARCH_NORM_PRE || norm == RS_ARCH_NORM_SANDWICH)
        RS_TRY(rs_arch_state_norm(&branch->before, b, around));
    if (norm == RS_ARCH_NORM_SANDWICH) RS_TRY(rs_arch_state_norm(&branch->inside, b, inside));
    if (norm == RS_ARCH_NORM_POST) RS_TRY(rs_arch_state_norm(&branch->after, b, around));
    return RS_OK;
}

rs_status rs_arch_fixed(const rs_tensor **out, float **numbers, const rs_arch_build *b,
                        const char *name, int64_t rows, int64_t cols)
{
    RS_TRY(rs_init_expect(b->init, (double)rows * (double)cols, b->err));
    rs_arena *arena = b->network->arena;
    rs_tensor *tensor = rs_arena_alloc(arena, 1, sizeof *tensor);
    int64_t *shape = rs_arena_alloc(arena, 2, sizeof *shape);
    *numbers = rs_arena_alloc(arena, (size_t)rows * (size_t)cols, sizeof **numbers);
    if (!tensor || !shape || !*numbers)
        return rs_fail_memory(b->err, name, (size_t)(rows * cols) * sizeof **numbers);
    shape[0] = rows;
    shape[1] = cols;
    *tensor = (rs_tensor){.name = name,
                          .dtype = RS_F32,
                          .rank = 2,
                          .shape = shape,
                          .count = rows * cols,
                          .data = (const uint8_t *)*numbers,
                          .bytes = (uint64_t)(rows * cols) * sizeof **numbers,
                          .type_id = -1,
                          .fixed = true};
    *out = tensor;
    return RS_OK;
}

/* ---- positions ---- */

/* Press, Smith, Lewis 2022: 2^(-8(h+1)/H) for H a power of two; otherwise the slopes of the power
 * below, then every second one of the power above. */
static double alibi_slope(int64_t head, int64_t heads)
{
    int64_t power = 1;
    while (2 * power <= heads)
        power *= 2;
    if (head < power) return exp2(-8.0 * (double)(head + 1) / (double)power);
    return exp2(-4.0 * (double)(2 * (head - power) + 1) / (double)power);
}

static rs_status alibi(const rs_tensor **out, const rs_arch_build *b, int64_t reach)
{
    int64_t heads = b->arch->heads, width = 2 * reach + 1;
    float *bias;
    RS_TRY(rs_arch_fixed(out, &bias, b, "alibi", heads, width));
    for (int64_t h = 0; h < heads; h++)
        for (int64_t i = 0; i < width; i++)
            bias[h * width + i] = (float)(-alibi_slope(h, heads) * fabs((double)(i - reach)));
    return RS_OK;
}

static rs_status add_positions(rs_attention_op *attention, const rs_arch_build *b)
{
    const rs_arch *arch = b->arch;
    int64_t reach = arch->seq_len - 1;
    switch (arch->positions) {
    case RS_ARCH_POSITIONS_NONE:
    case RS_ARCH_POSITIONS_LEARNED:
    case RS_ARCH_POSITIONS_SINUSOIDAL:
        return RS_OK;
    case RS_ARCH_POSITIONS_ROPE:
        attention->rope = (rs_rope_op){.kind = RS_ROPE_HALF_SPLIT,
                                       .law = RS_ROPE_PLAIN,
                                       .dims = (int32_t)arch->d_head,
                                       .theta = rope_theta,
                                       .factor = 1,
                                       .attention_factor = 1};
        return RS_OK;
    case RS_ARCH_POSITIONS_ALIBI:
        attention->distance_bias = b->alibi;
        attention->distance_reach = reach;
        return RS_OK;
    case RS_ARCH_POSITIONS_RELATIVE:
        attention->distance_reach = reach;
        return rs_arch_matrix(&attention->distance_bias, b, weight_roles[RS_ARCH_RELATIVE],
                              arch->heads, 2 * reach + 1);
    }
    return RS_OK;
}

/* ---- branches ---- */

static void set_mix(rs_attention_op *attention, const rs_arch *arch, int32_t layer)
{
    const double *own = arch->layer_mix ? arch->layer_mix[layer] : NULL;
    attention->mix_identity = own ? own[0] : arch->mix_identity;
    attention->mix_softmax = own ? own[1] : arch->mix_softmax;
    attention->mix_uniform = own ? own[2] : arch->mix_uniform;
}

rs_status rs_arch_attention(rs_branch *branch, const rs_arch_build *b)
{
    const rs_arch *arch = b->arch;
    branch->kind = RS_BRANCH_ATTENTION;
    rs_attention_op *attention = &branch->attention;
    attention->heads = (int32_t)arch->heads;
    attention->kv_heads = (int32_t)arch->kv_heads;
    attention->head_dim = arch->d_head;
    attention->value_dim = arch->merged_output ? arch->d_model : arch->d_head;
    attention->scale = 1 / sqrt((double)arch->d_head);
    attention->causal = arch->causal;
    attention->window = arch->window;
    attention->temperature = arch->temperature[b->layer];
    set_mix(attention, arch, b->layer);
    int64_t d = arch->d_model, queries = arch->heads * arch->d_head;
    attention->q = rs_arch_map(queries, d);
    attention->k = rs_arch_map(arch->kv_heads * arch->d_head, d);
    attention->v = rs_arch_map(arch->kv_heads * attention->value_dim, d);
    if (!arch->merged_output) attention->o = rs_arch_map(d, queries);
    RS_TRY(rs_arch_draw(branch, b));
    RS_TRY(rs_arch_bias(&attention->q, b, RS_ROLE_Q));
    RS_TRY(rs_arch_bias(&attention->k, b, RS_ROLE_K));
    RS_TRY(rs_arch_bias(&attention->v, b, RS_ROLE_V));
    RS_TRY(rs_arch_bias(&attention->o, b, RS_ROLE_O));
    return add_positions(attention, b);
}

static rs_status add_mixer(rs_layer *layer, const rs_arch_build *b)
{
    const rs_arch *arch = b->arch;
    rs_branch *branch = &layer->branches[layer->n_branches++];
    *branch =
        (rs_branch){.skip = arch->skip_mixer[b->layer], .scale = arch->branch_mixer[b->layer]};
    RS_TRY(add_norms(branch, b, false));
    return rs_arch_mixers[arch->mixer[b->layer]].add(branch, b);
}

static rs_status add_mlp(rs_layer *layer, const rs_arch_build *b)
{
    const rs_arch *arch = b->arch;
    if (arch->mlp == RS_ARCH_MLP_NONE) return RS_OK;
    rs_branch *branch = &layer->branches[layer->n_branches++];
    *branch = (rs_branch){.kind = RS_BRANCH_MLP,
                          .skip = arch->skip_mlp[b->layer],
                          .scale = arch->branch_mlp[b->layer],
                          .joins = arch->parallel};
    RS_TRY(add_norms(branch, b, true));
    rs_mlp_op *mlp = &branch->mlp;
    mlp->width = arch->mlp_width;
    mlp->activation = activations[arch->mlp];
    mlp->up = rs_arch_map(mlp->width, arch->d_model);
    if (arch->mlp == RS_ARCH_MLP_SWIGLU) mlp->gate = rs_arch_map(mlp->width, arch->d_model);
    mlp->down = rs_arch_map(arch->d_model, mlp->width);
    RS_TRY(rs_arch_draw(branch, b));
    RS_TRY(rs_arch_bias(&mlp->up, b, RS_ROLE_MLP_UP));
    RS_TRY(rs_arch_bias(&mlp->gate, b, RS_ROLE_MLP_GATE));
    return rs_arch_bias(&mlp->down, b, RS_ROLE_MLP_DOWN);
}

/* ---- the network ---- */

static void set_temperature(rs_branch *mixer, double temperature)
{
    if (mixer->kind == RS_BRANCH_ATTENTION) mixer->attention.temperature = temperature;
    if (mixer->kind == RS_BRANCH_LINEAR) mixer->linear.temperature = temperature;
    if (mixer->kind == RS_BRANCH_GRAPH && !mixer->graph.matrix)
        mixer->graph.temperature = temperature;
}

/* Layer l as the first one, with its own strengths, temperature and shaped gains. */
static void repeat_layer(rs_network *network, const rs_arch *arch, int32_t l)
{
    rs_layer *layer = &network->layers[l];
    *layer = network->layers[0];
    set_temperature(&layer->branches[0], arch->temperature[l]);
    if (layer->branches[0].kind == RS_BRANCH_ATTENTION)
        set_mix(&layer->branches[0].attention, arch, l);
    layer->branches[0].skip = arch->skip_mixer[l];
    layer->branches[0].scale = arch->branch_mixer[l];
    if (layer->n_branches == 1) return;
    layer->branches[1].skip = arch->skip_mlp[l];
    layer->branches[1].scale = arch->branch_mlp[l];
}

static rs_status add_layers(rs_arch_build *b)
{
    rs_network *network = b->network;
    for (int32_t l = 0; l < network->n_layers; l++) {
        b->layer = l;
        if (l > 0 && b->arch->share_layers) {
            repeat_layer(network, b->arch, l);
            continue;
        }
        network->layers[l].stored = l;
        RS_TRY(add_mixer(&network->layers[l], b));
        RS_TRY(add_mlp(&network->layers[l], b));
    }
    return RS_OK;
}

static rs_status build_network(rs_arch_build *b)
{
    const rs_arch *arch = b->arch;
    rs_network *network = b->network;
    network->family = "arch";
    network->init_std = NAN;
    network->stored.dtype = rs_dtype_info(RS_F32)->name; /* as drawn; a graph may need no weights */
    network->d_model = arch->d_model;
    network->n_layers = (int32_t)arch->depth;
    RS_TRY(rs_init_expect_layers(b->init, arch->depth, sizeof(rs_layer), b->err));
    network->layers = rs_arena_alloc(network->arena, (size_t)arch->depth, sizeof(rs_layer));
    if (!network->layers)
        return rs_fail_memory(b->err, "the layers", (size_t)arch->depth * sizeof(rs_layer));
    rs_init_set_default(b->init, 1, 1, arch->d_model, network->n_layers);
    for (int w = 0; w < RS_ARCH_WEIGHTS; w++) {
        char where[160];
        snprintf(where, sizeof where, "%.100s, \"%s\"", arch->path, weight_names[w]);
        RS_TRY(rs_init_set_role(b->init, weight_roles[w], arch->init[w], where, b->err));
        for (size_t i = 0; i < sizeof more_roles / sizeof *more_roles; i++)
            if ((int)more_roles[i].weight == w)
                RS_TRY(rs_init_set_role(b->init, more_roles[i].role, arch->init[w], where, b->err));
    }
    if (arch->positions == RS_ARCH_POSITIONS_ALIBI) RS_TRY(alibi(&b->alibi, b, arch->seq_len - 1));
    RS_TRY(add_layers(b));
    return rs_arch_ends(b);
}

static rs_status open_network(rs_network **out, const rs_arch *arch, rs_init *init, rs_error *err)
{
    rs_network *network = rs_calloc(1, sizeof *network);
    if (!network) return rs_fail_memory(err, "a network", sizeof *network);
    network->arena = rs_arena_new();
    network->padding_id = network->padding_row = -1;
    const rs_tensor *identity[2] = {NULL, NULL};
    rs_arch_build b = {.arch = arch,
                       .init = init,
                       .network = network,
                       .layer = -1,
                       .identity = identity,
                       .err = err};
    rs_status status =
        network->arena ? build_network(&b) : rs_fail_memory(err, "a network", sizeof *network);
    if (status != RS_OK) {
        rs_network_close(network);
        return status;
    }
    *out = network;
    return RS_OK;
}

rs_status rs_network_from_arch(rs_network **out, const json_t *json, const char *path,
                               rs_init *init, rs_error *err)
{
    *out = NULL;
    rs_arch *arch = NULL;
    rs_network *plan = NULL;
    RS_TRY(rs_arch_read(&arch, json, path, err));
    rs_init_plan(init);
    rs_status status = open_network(&plan, arch, init, err);
    if (status == RS_OK) status = rs_init_start(init, plan, err);
    rs_network_close(plan);
    if (status == RS_OK) status = open_network(out, arch, init, err);
    rs_arch_close(arch);
    return status;
}

rs_status rs_arch_plan(rs_network **out, const json_t *json, const char *path, rs_init *init,
                       rs_error *err)
{
    rs_arch *arch;
    *out = NULL;
    RS_TRY(rs_arch_read(&arch, json, path, err));
    rs_init_plan(init);
    rs_status status = open_network(out, arch, init, err);
    rs_arch_close(arch);
    return status;
}
