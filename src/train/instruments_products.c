/* instruments_products.c: which head products a network has, as pairs of factors in the tensors that
 * are trained (docs/train.md, Instruments). */
#include "train/instruments_parts.h"

#include "base/memory.h"
#include "network/op_traits.h"

#include <math.h>

/* ---- items ---- */

static int64_t item_of(const rs_instruments *i, const rs_tensor *tensor)
{
    const rs_trained_list *list = &i->learner->trained;
    int64_t low = 0, high = list->n;
    while (low < high) {
        int64_t mid = low + (high - low) / 2;
        if (list->order[mid].at < (uintptr_t)tensor)
            low = mid + 1;
        else
            high = mid;
    }
    bool found = low < list->n && list->order[low].at == (uintptr_t)tensor;
    return found ? list->order[low].item : -1;
}

/* ---- factors ---- */

/* Outputs [first, first + n) of a map as vectors; false where they do not lie side by side. */
static bool outputs_of(rs_factor *out, const rs_dense *map, int64_t first, int64_t n)
{
    int64_t at = map->first + first / map->run * map->stride + first % map->run;
    int64_t last = first + n - 1,
            end = map->first + last / map->run * map->stride + last % map->run;
    if (n < 1 || last >= map->out || end - at != n - 1) return false;
    *out = (rs_factor){.tensor = map->weight,
                       .rows = map->rows,
                       .cols = map->cols,
                       .vector_is_row = map->out_is_row,
                       .first = at,
                       .inner = n,
                       .features = map->out_is_row ? map->cols : map->rows};
    return true;
}

/* Inputs [first, first + n) of a map that has all of its tensor. */
static bool inputs_of(rs_factor *out, const rs_dense *map, int64_t first, int64_t n)
{
    int64_t outputs = map->out_is_row ? map->rows : map->cols;
    if (n < 1 || first + n > map->in || outputs != map->out) return false;
    *out = (rs_factor){.tensor = map->weight,
                       .rows = map->rows,
                       .cols = map->cols,
                       .vector_is_row = !map->out_is_row,
                       .first = first,
                       .inner = n,
                       .features = outputs};
    return true;
}

/* The number of the factor among those listed; -1: out of memory, or its tensor is not trained. */
static int64_t add_factor(rs_instruments *i, const rs_factor *factor)
{
    for (size_t f = 0; f < i->n_factors; f++)
        if (rs_factor_same(&i->factors[f].factor, factor)) return (int64_t)f;
    int64_t item = item_of(i, factor->tensor);
    if (item < 0 || !RS_GROW(i->factors, i->n_factors, i->factor_capacity)) return -1;
    i->factors[i->n_factors] = (rs_watched_factor){.factor = *factor, .item = item};
    return (int64_t)i->n_factors++;
}

/* ---- products ---- */

/* What a mixer's maps are to its heads. A map that is absent is NULL. */
typedef struct mixer_heads {
    rs_product_kind kinds[2]; /* of the products of a with b, and of c with d */
    struct {
        const rs_dense *map;
        int64_t first; /* output, or input of d */
        int64_t heads; /* that it has */
    } a, b, c, d;
    int64_t heads[2], inner[2];
    bool alone[2];
} mixer_heads;

/* All factors of one map stand side by side, so that columns of one tensor are read together. */
static bool add_factors(rs_instruments *i, int64_t numbers[], const rs_dense *map, int64_t first,
                        int64_t heads, int64_t inner, bool inputs)
{
    rs_factor factor;
    for (int64_t h = 0; map && h < heads; h++) {
        int64_t at = first + h * inner;
        bool held =
            inputs ? inputs_of(&factor, map, at, inner) : outputs_of(&factor, map, at, inner);
        numbers[h] = held ? add_factor(i, &factor) : -1;
        if (numbers[h] < 0) return false;
    }
    return map != NULL;
}

/* A layer that has its weights from another has no rows of its own. */
static bool is_listed(const rs_instruments *i, int64_t a, int64_t b)
{
    for (size_t p = 0; p < i->n_products; p++)
        if (i->products[p].a == a && i->products[p].b == b) return true;
    return false;
}

static rs_status add_product(rs_instruments *i, const rs_watched_product *product, rs_error *err)
{
    if (is_listed(i, product->a, product->b)) return RS_OK;
    if (!RS_GROW(i->products, i->n_products, i->product_capacity))
        return rs_fail_memory(err, "head products", 0);
    i->products[i->n_products++] = *product;
    return RS_OK;
}

static rs_status add_pairs(rs_instruments *i, int32_t layer, const mixer_heads *m, int which,
                           rs_error *err)
{
    const rs_dense *left = which ? m->c.map : m->a.map, *right = which ? m->d.map : m->b.map;
    int64_t heads = m->heads[which], inner = m->inner[which];
    int64_t left_heads = which ? m->c.heads : m->a.heads,
            right_heads = which ? m->d.heads : m->b.heads;
    if (heads < 1 || inner < 1) return RS_OK;
    int64_t *numbers = rs_malloc((size_t)(left_heads + right_heads), sizeof *numbers);
    if (!numbers) return rs_fail_memory(err, "head products", 0);
    int64_t *others = numbers + left_heads;
    bool has_left = add_factors(i, numbers, left, which ? m->c.first : m->a.first, left_heads,
                                inner, false),
         has_right = add_factors(i, others, right, which ? m->d.first : m->b.first, right_heads,
                                 inner, which == 1);
    bool whole = (has_left || !left) && (has_right || !right) && (has_left || has_right);
    rs_status status = RS_OK;
    for (int64_t h = 0; h < heads && whole && status == RS_OK; h++) {
        int64_t a = has_left ? numbers[h / (heads / left_heads)] : -1,
                b = has_right ? others[h / (heads / right_heads)] : -1;
        const rs_watched_product product = {
            .layer = layer,
            .head = (int32_t)h,
            .kind = m->kinds[which],
            .a = has_left ? a : b,
            .b = has_left ? b : -1,
            .inner = inner,
            .alone = m->alone[which] && has_left && has_right && left->weight != right->weight &&
                     left_heads == heads && right_heads == heads,
            .first_norm = NAN,
        };
        status = add_product(i, &product, err);
    }
    rs_free(numbers);
    return status;
}

static const rs_dense *there(const rs_dense *map)
{
    return map->weight && !map->weight->fixed ? map : NULL;
}

static bool is_plain(const rs_norm_op *norm)
{
    return norm->kind == RS_NORM_NONE;
}

static mixer_heads heads_of_attention(const rs_attention_op *op)
{
    const rs_relative_op *r = &op->relative;
    bool relative = r->r.weight || r->content_bias || r->position_bias || r->segment_bias;
    return (mixer_heads){
        .kinds = {RS_PRODUCT_QK, RS_PRODUCT_OV},
        .a = {there(&op->q), 0, op->heads},
        .b = {there(&op->k), 0, op->kv_heads},
        .c = {there(&op->v), 0, op->kv_heads},
        .d = {there(&op->o), 0, op->heads},
        .heads = {op->heads, op->o.weight ? op->heads : op->kv_heads},
        .inner = {op->head_dim, op->value_dim},
        .alone = {!op->q.bias && !op->k.bias && !relative && !rs_attention_turns(op) &&
                      is_plain(&op->q_norm) && is_plain(&op->k_norm),
                  !op->v.bias && !op->gate.weight},
    };
}

static mixer_heads heads_of_linear(const rs_linear_op *op)
{
    return (mixer_heads){
        .kinds = {RS_PRODUCT_QK, RS_PRODUCT_OV},
        .a = {there(&op->q), 0, op->heads},
        .b = {there(&op->k), 0, op->kv_heads},
        .c = {there(&op->v), 0, op->kv_heads},
        .d = {there(&op->o), 0, op->heads},
        .heads = {op->heads, op->o.weight ? op->heads : op->kv_heads},
        .inner = {op->head_dim, op->value_dim},
        .alone = {!op->q.bias && !op->k.bias && op->feature_map == RS_FEATURE_IDENTITY,
                  !op->v.bias && !op->gate.weight && is_plain(&op->norm)},
    };
}

static mixer_heads heads_of_graph(const rs_graph_op *op)
{
    bool softmax = !op->matrix;
    return (mixer_heads){
        .kinds = {RS_PRODUCT_QK, RS_PRODUCT_OV},
        .a = {softmax ? there(&op->q) : NULL, 0, op->heads},
        .b = {softmax ? there(&op->k) : NULL, 0, softmax ? op->key_heads : 1},
        .c = {there(&op->v), 0, op->value_heads},
        .d = {there(&op->o), 0, op->heads},
        .heads = {softmax ? op->heads : 0, op->o.weight ? op->heads : op->value_heads},
        .inner = {op->head_dim, op->value_dim},
        .alone = {!op->q.bias && !op->k.bias, !op->v.bias},
    };
}

static mixer_heads heads_of_delta(const rs_delta_op *op)
{
    return (mixer_heads){
        .kinds = {RS_PRODUCT_QK, RS_PRODUCT_OV},
        .a = {there(&op->q), 0, op->key_heads},
        .b = {there(&op->k), 0, op->key_heads},
        .c = {there(&op->v), 0, op->heads},
        .d = {there(&op->o), 0, op->heads},
        .heads = {op->key_heads, op->heads},
        .inner = {op->key_dim, op->value_dim},
    };
}

/* Outputs of `in`: z, x, B, C, dt. */
static mixer_heads heads_of_ssd(const rs_ssd_op *op)
{
    int64_t wide = op->heads * op->head_dim, states = op->groups * op->state;
    return (mixer_heads){
        .kinds = {RS_PRODUCT_CB, RS_PRODUCT_IO},
        .a = {there(&op->in), 2 * wide + states, op->groups},
        .b = {there(&op->in), 2 * wide, op->groups},
        .c = {there(&op->in), wide, op->heads},
        .d = {there(&op->o), 0, op->heads},
        .heads = {op->groups, op->heads},
        .inner = {op->state, op->head_dim},
    };
}

/* Outputs of `x`: dt, B, C. Its projections in and out are wider than the tokens: no head product. */
static mixer_heads heads_of_s6(const rs_s6_op *op)
{
    return (mixer_heads){
        .kinds = {RS_PRODUCT_CB, RS_PRODUCT_IO},
        .a = {there(&op->x), op->rank + op->state, 1},
        .b = {there(&op->x), op->rank, 1},
        .c = {NULL, 0, 1},
        .d = {NULL, 0, 1},
        .heads = {1, 0},
        .inner = {op->state, 0},
    };
}

static bool heads_of(mixer_heads *out, const rs_branch *branch)
{
    switch (branch->kind) {
    case RS_BRANCH_ATTENTION:
        *out = heads_of_attention(&branch->attention);
        return !branch->attention.cross;
    case RS_BRANCH_LINEAR:
        *out = heads_of_linear(&branch->linear);
        return true;
    case RS_BRANCH_GRAPH:
        *out = heads_of_graph(&branch->graph);
        return true;
    case RS_BRANCH_DELTA:
        *out = heads_of_delta(&branch->delta);
        return true;
    case RS_BRANCH_SSD:
        *out = heads_of_ssd(&branch->ssd);
        return true;
    case RS_BRANCH_S6:
        *out = heads_of_s6(&branch->s6);
        return true;
    default:
        return false;
    }
}

/* ---- mixers ---- */

static bool has_maps_of(const rs_watched_mixer *a, const rs_watched_mixer *b)
{
    for (int k = 0; k < RS_MAPS; k++) {
        const rs_dense *x = a->maps[k], *y = b->maps[k];
        if ((x != NULL) != (y != NULL)) return false;
        if (x && (x->weight != y->weight || x->first != y->first)) return false;
    }
    return true;
}

static rs_status add_mixer(rs_instruments *i, int32_t layer, const mixer_heads *m, rs_error *err)
{
    if (m->kinds[0] != RS_PRODUCT_QK) return RS_OK;
    rs_watched_mixer mixer = {.layer = layer, .maps = {m->a.map, m->b.map, m->c.map, m->d.map}};
    for (size_t k = 0; k < i->n_mixers; k++)
        if (has_maps_of(&i->mixers[k], &mixer)) return RS_OK;
    for (int k = 0; k < RS_MAPS; k++)
        mixer.items[k] = mixer.maps[k] ? item_of(i, mixer.maps[k]->weight) : -1;
    if (!RS_GROW(i->mixers, i->n_mixers, i->mixer_capacity))
        return rs_fail_memory(err, "mixers", 0);
    i->mixers[i->n_mixers++] = mixer;
    return RS_OK;
}

rs_status rs_instruments_list(rs_instruments *i, rs_error *err)
{
    for (int32_t l = 0; l < i->network->n_layers; l++)
        for (int32_t b = 0; b < i->network->layers[l].n_branches; b++) {
            mixer_heads m;
            if (!heads_of(&m, &i->network->layers[l].branches[b])) continue;
            RS_TRY(add_pairs(i, l, &m, 0, err));
            RS_TRY(add_pairs(i, l, &m, 1, err));
            RS_TRY(add_mixer(i, l, &m, err));
        }
    return RS_OK;
}
