/* trials_plan.c: which networks trials are batched of, and how they read them. */
#include "predict/trials_plan.h"

#include <math.h>
#include <string.h>

/* Beyond these the engine's products, which are cut to the caches, are faster. */
enum { TOKENS_MOST = 256, WIDTH_MOST = 1024 };

/* ---- what is plain ---- */

static bool is_law(const rs_tensor *tensor, rs_weight_law_kind kind)
{
    if (!tensor) return true;
    const rs_weight_law *law = rs_init_law(tensor);
    return law && law->kind == kind;
}

static const char *map_not_plain(const rs_dense *map)
{
    if (!map->weight) return NULL;
    if (map->weight->fixed) return "maps whose numbers are given";
    if (rs_init_law(map->weight)->kind == RS_LAW_ORTHOGONAL) return "orthogonal weights";
    if (!is_law(map->bias, RS_LAW_ZERO)) return "biases";
    if (map->scale || map->n_factors > 0) return "scaled weights";
    if (map->run < map->out || map->in * map->out != map->weight->count || map->first != 0)
        return "maps that share a matrix";
    if (map->in > WIDTH_MOST || map->out > 8 * WIDTH_MOST) return "its width";
    return NULL;
}

/* Gains that are one number; NaN: they are not. */
static double gain_of(const rs_norm_op *norm)
{
    double plus = norm->kind == RS_NORM_RMSNORM_PLUS_ONE;
    if (!norm->gain) return 1;
    const rs_weight_law *law = rs_init_law(norm->gain);
    if (!law) return NAN;
    if (law->kind == RS_LAW_ONE || law->kind == RS_LAW_ZERO)
        return plus + (law->kind == RS_LAW_ONE);
    return law->kind == RS_LAW_NORMAL && law->deviation == 0 ? plus + law->mean : NAN;
}

static const char *norm_not_plain(const rs_norm_op *norm)
{
    if (norm->kind == RS_NORM_NONE) return NULL;
    if (norm->kind == RS_NORM_LAYERNORM_PLUS_ONE) return "its norm";
    double gain = gain_of(norm);
    if (isnan(gain) || gain == 0) return "gains of norms";
    return is_law(norm->bias, RS_LAW_ZERO) ? NULL : "biases of norms";
}

static const char *attention_not_plain(const rs_attention_op *op)
{
    if (!op->q.weight || !op->k.weight || !op->v.weight) return "attention that lacks a map";
    if (op->cross) return "cross-attention";
    if (op->gate.weight) return "a gate";
    if (op->q_norm.kind != RS_NORM_NONE || op->k_norm.kind != RS_NORM_NONE) return "QK-norm";
    if (rs_attention_turns(op)) return "rotary positions";
    if (op->relative.r.weight || op->distance_bias) return "relative positions";
    if (op->softcap != 0) return "soft-capped logits";
    return NULL;
}

static const char *mlp_not_plain(const rs_mlp_op *op)
{
    switch (op->activation) {
    case RS_ACT_LINEAR:
    case RS_ACT_RELU:
    case RS_ACT_GELU:
    case RS_ACT_GELU_TANH:
    case RS_ACT_SILU:
        return NULL;
    default:
        return "its activation";
    }
}

/* The maps of a branch in their order; an absent one has no weight. */
static int32_t maps_of(const rs_dense *maps[RS_TRIALS_MAPS], const rs_branch *branch)
{
    const rs_attention_op *attention = rs_branch_attention(branch);
    const rs_mlp_op *mlp = rs_branch_mlp(branch);
    if (attention) {
        maps[RS_TRIALS_Q] = &attention->q;
        maps[RS_TRIALS_K] = &attention->k;
        maps[RS_TRIALS_V] = &attention->v;
        maps[RS_TRIALS_O] = &attention->o;
        return 4;
    }
    if (!mlp) return 0;
    maps[RS_TRIALS_W_UP] = &mlp->up;
    maps[RS_TRIALS_W_GATE] = &mlp->gate;
    maps[RS_TRIALS_W_DOWN] = &mlp->down;
    return 3;
}

static const char *branch_not_plain(const rs_branch *branch)
{
    const rs_dense *maps[RS_TRIALS_MAPS];
    const rs_attention_op *attention = rs_branch_attention(branch);
    const rs_mlp_op *mlp = rs_branch_mlp(branch);
    const rs_norm_op *norms[] = {&branch->before, &branch->inside, &branch->after};
    const char *why = NULL;
    if (!attention && !mlp) return "its mixer";
    if (branch->joins) return "parallel branches";
    why = attention ? attention_not_plain(attention) : mlp_not_plain(mlp);
    int32_t n = maps_of(maps, branch);
    for (int32_t i = 0; i < n && !why; i++)
        why = map_not_plain(maps[i]);
    for (size_t i = 0; i < sizeof norms / sizeof *norms && !why; i++)
        why = norm_not_plain(norms[i]);
    return why;
}

const char *rs_trials_not_batched(const rs_network *network, int64_t n)
{
    const char *why = norm_not_plain(&network->final_norm);
    if (n > TOKENS_MOST) return "its length";
    if (network->d_model > WIDTH_MOST) return "its width";
    for (int32_t l = 0; l < network->n_layers; l++)
        for (int32_t b = 0; b < network->layers[l].n_branches && !why; b++)
            why = branch_not_plain(&network->layers[l].branches[b]);
    return why;
}

/* ---- reading ---- */

static rs_trials_norm read_norm(const rs_norm_op *norm)
{
    return (rs_trials_norm){.on = norm->kind != RS_NORM_NONE,
                            .centred = norm->kind == RS_NORM_LAYERNORM,
                            .eps = norm->eps,
                            .gain = norm->kind != RS_NORM_NONE ? gain_of(norm) : 1};
}

static rs_trials_map read_map(const rs_dense *dense, uint32_t role, int32_t layer)
{
    if (!dense->weight) return (rs_trials_map){0};
    return (rs_trials_map){.out = dense->out,
                           .in = dense->in,
                           .law = *rs_init_law(dense->weight),
                           .role = role,
                           .layer = (uint32_t)layer};
}

static void read_attention(rs_trials_branch *out, const rs_attention_op *op)
{
    out->heads = op->heads;
    out->kv_heads = op->kv_heads;
    out->head_dim = op->head_dim;
    out->value_dim = op->value_dim;
    out->merged = !op->o.weight;
    out->causal = op->causal;
    out->window = op->window;
    out->dial.logit = op->scale / op->temperature;
    out->dial.identity = op->mix_identity;
    out->dial.softmax = op->mix_softmax;
    out->dial.uniform = op->mix_uniform;
}

static void read_branch(rs_trials_branch *out, const rs_branch *branch, int32_t stored, int32_t b)
{
    /* what a stream's role is: 4 b + map, an MLP's behind those of attentions */
    const rs_dense *maps[RS_TRIALS_MAPS];
    const rs_attention_op *attention = rs_branch_attention(branch);
    enum { MLP_ROLES = 64 };
    *out = (rs_trials_branch){.mlp = !attention};
    out->before = read_norm(&branch->before);
    out->inside = read_norm(&branch->inside);
    out->after = read_norm(&branch->after);
    out->dial.skip = branch->skip;
    out->dial.scale = branch->scale;
    int32_t n = maps_of(maps, branch);
    for (int32_t i = 0; i < n; i++)
        out->maps[i] =
            read_map(maps[i], (uint32_t)((attention ? 0 : MLP_ROLES) + 4 * b + i), stored);
    if (attention)
        read_attention(out, attention);
    else
        out->activation = branch->mlp.activation;
}

/* Each map begins on a boundary of vectors. */
static int64_t padded(int64_t count)
{
    return (count + 15) / 16 * 16;
}

/* Layers that share weights share where they are kept. */
static void place_maps(rs_trials_plan *plan, int32_t l, int32_t b)
{
    rs_trials_branch *branch = &plan->layers[l].branches[b];
    int64_t all = 0;
    if (branch->heads > plan->heads) plan->heads = branch->heads;
    for (int32_t i = 0; i < RS_TRIALS_MAPS; i++) {
        rs_trials_map *map = &branch->maps[i];
        int64_t count = map->out * map->in;
        bool known = false;
        if (!count) continue;
        if (map->out > plan->rows) plan->rows = map->out;
        if (map->in > plan->rows) plan->rows = map->in;
        all += padded(count);
        if (all > plan->widest) plan->widest = all;
        int32_t stored = (int32_t)map->layer;
        if (stored < l && plan->layers[stored].n_branches > b) {
            const rs_trials_map *other = &plan->layers[stored].branches[b].maps[i];
            known = other->role == map->role && other->layer == map->layer &&
                    other->out == map->out && other->in == map->in;
            if (known) map->at = other->at;
        }
        if (known) continue;
        map->draws = true;
        map->at = plan->weights;
        plan->weights += padded(count);
    }
}

rs_status rs_trials_plan_open(rs_trials_plan **out, const rs_network *network, int64_t n,
                              rs_error *err)
{
    const char *why = rs_trials_not_batched(network, n);
    *out = NULL;
    if (why)
        return rs_fail(err, RS_E_UNSUPPORTED, "trials", "run them through the engine",
                       "batched trials do not cover %s", why);
    rs_trials_plan *plan = rs_calloc(1, sizeof *plan);
    size_t layers = (size_t)network->n_layers;
    if (plan) plan->layers = rs_calloc(layers ? layers : 1, sizeof *plan->layers);
    if (!plan || !plan->layers) {
        rs_trials_plan_close(plan);
        return rs_fail_memory(err, "trials", layers * sizeof *plan->layers);
    }
    plan->d = plan->rows = network->d_model;
    plan->n_layers = network->n_layers;
    plan->final_norm = read_norm(&network->final_norm);
    for (int32_t l = 0; l < network->n_layers; l++) {
        const rs_layer *layer = &network->layers[l];
        plan->layers[l].n_branches = layer->n_branches;
        for (int32_t b = 0; b < layer->n_branches; b++) {
            read_branch(&plan->layers[l].branches[b], &layer->branches[b], layer->stored, b);
            place_maps(plan, l, b);
        }
    }
    *out = plan;
    return RS_OK;
}

void rs_trials_plan_close(rs_trials_plan *plan)
{
    if (plan) rs_free(plan->layers);
    rs_free(plan);
}

/* ---- what is shared ---- */

static bool same_norm(rs_trials_norm a, rs_trials_norm b)
{
    return a.on == b.on &&
           (!a.on || (a.centred == b.centred && a.eps == b.eps && a.gain == b.gain));
}

static bool same_map(const rs_trials_map *a, const rs_trials_map *b)
{
    return a->out == b->out && a->in == b->in && a->role == b->role && a->layer == b->layer &&
           a->law.kind == b->law.kind && a->law.mean == b->law.mean &&
           a->law.deviation == b->law.deviation && a->law.low == b->law.low &&
           a->law.high == b->law.high;
}

static bool same_branch(const rs_trials_branch *a, const rs_trials_branch *b)
{
    bool same = a->mlp == b->mlp && same_norm(a->before, b->before) &&
                same_norm(a->inside, b->inside) && same_norm(a->after, b->after) &&
                a->heads == b->heads && a->kv_heads == b->kv_heads && a->head_dim == b->head_dim &&
                a->value_dim == b->value_dim && a->merged == b->merged && a->causal == b->causal &&
                a->window == b->window && a->activation == b->activation;
    for (int32_t i = 0; i < RS_TRIALS_MAPS && same; i++)
        same = same_map(&a->maps[i], &b->maps[i]);
    return same;
}

bool rs_trials_plans_share(const rs_trials_plan *a, const rs_trials_plan *b)
{
    int32_t both = a->n_layers < b->n_layers ? a->n_layers : b->n_layers;
    if (a->d != b->d || !same_norm(a->final_norm, b->final_norm)) return false;
    for (int32_t l = 0; l < both; l++) {
        const rs_trials_layer *x = &a->layers[l], *y = &b->layers[l];
        if (x->n_branches != y->n_branches) return false;
        for (int32_t i = 0; i < x->n_branches; i++)
            if (!same_branch(&x->branches[i], &y->branches[i])) return false;
    }
    return true;
}

static bool same_dial(const rs_trials_dial *a, const rs_trials_dial *b)
{
    return a->skip == b->skip && a->scale == b->scale && a->logit == b->logit &&
           a->identity == b->identity && a->softmax == b->softmax && a->uniform == b->uniform;
}

bool rs_trials_plan_begins(const rs_trials_plan *deep, const rs_trials_plan *b)
{
    if (b->n_layers > deep->n_layers) return false;
    for (int32_t l = 0; l < b->n_layers; l++)
        for (int32_t i = 0; i < b->layers[l].n_branches; i++)
            if (!same_dial(&deep->layers[l].branches[i].dial, &b->layers[l].branches[i].dial))
                return false;
    return true;
}

/* ---- draws ---- */

void rs_trials_draw_map(float *w, const rs_trials_map *map, uint64_t seed, int32_t trial)
{
    const rs_trials_stream stream = {seed, (uint32_t)trial, map->role, map->layer};
    int64_t count = map->out * map->in;
    switch (map->law.kind) {
    case RS_LAW_NORMAL:
        if (map->law.mean != 0 || map->law.deviation != 0) {
            rs_trials_normals(w, &stream, count, map->law.mean, map->law.deviation);
            return;
        }
        break;
    case RS_LAW_UNIFORM:
        rs_trials_uniforms(w, &stream, count, map->law.low, map->law.high);
        return;
    case RS_LAW_ONE:
        for (int64_t i = 0; i < count; i++)
            w[i] = 1;
        return;
    case RS_LAW_IDENTITY:
    case RS_LAW_ORTHOGONAL: /* not plain */
    case RS_LAW_ZERO:
        break;
    }
    memset(w, 0, (size_t)count * sizeof *w);
    for (int64_t i = 0; map->law.kind == RS_LAW_IDENTITY && i < map->out && i < map->in; i++)
        w[i * map->in + i] = 1;
}

rs_status rs_trials_weight(double *w, const rs_network *network, int32_t layer, int32_t branch,
                           const char *name, uint64_t seed, int32_t trial, rs_error *err)
{
    static const char *const of_attention[] = {"q", "k", "v", "o"};
    static const char *const of_mlp[] = {"up", "gate", "down", ""};
    rs_trials_plan *plan;
    RS_TRY(rs_trials_plan_open(&plan, network, 1, err));
    const rs_trials_branch *at = NULL;
    if (layer >= 0 && layer < plan->n_layers && branch >= 0 &&
        branch < plan->layers[layer].n_branches)
        at = &plan->layers[layer].branches[branch];
    rs_status status = RS_OK;
    const rs_trials_map *map = NULL;
    for (int32_t i = 0; at && i < RS_TRIALS_MAPS; i++)
        if (strcmp(name, (at->mlp ? of_mlp : of_attention)[i]) == 0) map = &at->maps[i];
    size_t count = map ? (size_t)(map->out * map->in) : 0;
    float *drawn = count ? rs_malloc(count, sizeof *drawn) : NULL;
    if (!count)
        status = rs_fail(err, RS_E_UNSUPPORTED, "trials", NULL, "there is no map \"%s\"", name);
    else if (!drawn)
        status = rs_fail_memory(err, "a weight", count * sizeof *drawn);
    if (status == RS_OK) {
        rs_trials_draw_map(drawn, map, seed, trial);
        for (size_t i = 0; i < count; i++)
            w[i] = (double)drawn[i];
    }
    rs_free(drawn);
    rs_trials_plan_close(plan);
    return status;
}
