/* penalty.c: the product penalty of a task: (mu/2) |A B^T|^2 of each head's query-key and value-output
 * product (docs/theory/products.md), whose gradients join those of the loss. */
#include "train/learner.h"

#include "base/memory.h"

/* What is penalised of one attention. */
typedef struct penalised {
    rs_trained_list *list;
    rs_precision precision;
    double mu;
    void *work;
} penalised;

/* Stretch `head` of a map's outputs (or of its inputs, by_input) as a factor of `r` columns; false: the
 * map is not stored row by row in the order of its outputs. */
static bool factor_of(rs_product_factor *out, const penalised *p, const rs_dense *map, int64_t head,
                      int64_t r, bool by_input)
{
    rs_trained *item = rs_trained_find(p->list, map->weight);
    if (!item || !map->out_is_row || map->first != 0 || map->run < map->out) return false;
    size_t at = (size_t)(head * r * (by_input ? 1 : map->cols)) * p->list->size;
    *out = (rs_product_factor){.weight = (const char *)item->weight + at,
                               .gradient = (char *)item->gradient + at,
                               .d = by_input ? map->out : map->in,
                               .ld = map->cols,
                               .transposed = !by_input};
    return true;
}

static bool penalise(const penalised *p, const rs_dense *a, int64_t a_head, bool a_by_input,
                     const rs_dense *b, int64_t b_head, int64_t r)
{
    rs_product_factor x, y;
    if (!a->weight || !b->weight || a->weight->fixed || b->weight->fixed) return true;
    if (!factor_of(&x, p, a, a_head, r, a_by_input) || !factor_of(&y, p, b, b_head, r, false))
        return false;
    rs_product_penalty(&x, &y, r, p->mu, p->precision, p->work);
    return true;
}

static bool penalise_attention(const penalised *p, const rs_attention_op *op)
{
    bool fits = true;
    for (int64_t h = 0; h < op->heads && fits; h++) {
        int64_t key = h / (op->heads / op->kv_heads);
        fits = penalise(p, &op->k, key, false, &op->q, h, op->head_dim) &&
               penalise(p, &op->o, h, true, &op->v, key, op->value_dim);
    }
    return fits;
}

/* The largest of the heads' widths. */
static int64_t widest_head(const rs_network *network)
{
    int64_t r = 1;
    for (int32_t l = 0; l < network->n_layers; l++)
        for (int32_t b = 0; b < network->layers[l].n_branches; b++) {
            const rs_attention_op *op = rs_branch_attention(&network->layers[l].branches[b]);
            if (op && op->head_dim > r) r = op->head_dim;
            if (op && op->value_dim > r) r = op->value_dim;
        }
    return r;
}

rs_status rs_learner_penalise(rs_learner *l, rs_error *err)
{
    const rs_network *network = l->network;
    penalised p = {&l->trained, l->precision, l->settings->product_penalty, NULL};
    if (p.mu == 0) return RS_OK;
    rs_trained_end(
        &l->trained.sink); /* what the loss told nothing of is 0, and gains the penalty */
    int64_t r = widest_head(network);
    p.work = rs_malloc((size_t)(2 * r * r), l->trained.size);
    if (!p.work) return rs_fail_memory(err, "the product penalty", (size_t)(2 * r * r));
    bool fits = true;
    for (int32_t i = 0; i < network->n_layers && fits; i++)
        for (int32_t b = 0; b < network->layers[i].n_branches && fits; b++) {
            const rs_attention_op *op = rs_branch_attention(&network->layers[i].branches[b]);
            bool again = i > 0 && network->layers[i].stored < i; /* another layer's weights */
            if (op && !again) fits = penalise_attention(&p, op);
        }
    rs_free(p.work);
    return fits ? RS_OK
                : rs_fail(err, RS_E_UNSUPPORTED, l->settings->path,
                          "leave out optimizer.product_penalty, or take an architecture",
                          "the weights of this checkpoint's heads are not stored one by one");
}
