/* rollout.c: attention rollout (Abnar and Zuidema 2020), which relevance is set beside. */
#include "observe/relevance.h"

#include "base/memory.h"
#include "linalg/blas.h"

#include <math.h>
#include <string.h>

typedef struct rollout {
    rs_listener listener;
    const rs_network *network;
    int64_t n;
    double *heads;   /* [heads, n, n] the layer's matrices: they come in no promised order */
    double *mean;    /* [n, n] */
    double *product; /* [n, n] of the layers so far */
    double *next;    /* [n, n] */
} rollout;

/* The attention of a layer that mixes by one self-attention alone; NULL: it does not mix, or *other. */
static const rs_attention_op *attention_of(const rs_layer *layer, bool *other)
{
    const rs_branch *mixer = rs_layer_mixer(layer);
    const rs_attention_op *op = mixer ? rs_branch_attention(mixer) : NULL;
    *other = mixer && (!op || op->cross);
    for (int32_t b = 0; b < layer->n_branches; b++)
        *other = *other || (&layer->branches[b] != mixer && rs_layer_mixes_with(layer, b));
    return op;
}

int32_t rs_rollout_heads(const rs_network *network)
{
    int32_t most = -1;
    bool other;
    for (int32_t l = 0; l < network->n_layers; l++) {
        const rs_attention_op *op = attention_of(&network->layers[l], &other);
        if (other) return -1;
        if (op && op->heads > most) most = op->heads;
    }
    return most;
}

static bool wants(void *user, int32_t layer, int32_t branch, int32_t head)
{
    const rollout *r = user;
    (void)head;
    return rs_is_mixer(r->network, layer, branch);
}

/* A head's matrix comes once, into a room of its own: no two threads meet here. */
static rs_status take_head(void *user, const rs_attention_view *view, rs_error *err)
{
    const rollout *r = user;
    const void *from = view->probabilities ? view->probabilities : view->mixing;
    double *to = r->heads + view->head * r->n * r->n;
    (void)err;
    for (int64_t i = 0; i < r->n; i++)
        for (int64_t j = 0; j < r->n; j++) {
            int64_t at = i * view->ld + j;
            to[i * r->n + j] = view->precision == RS_PRECISION_F32
                                   ? (double)((const float *)from)[at]
                                   : ((const double *)from)[at];
        }
    return RS_OK;
}

/* Behind a layer: product = (mean + I)/2 product. A branch of factor 0 is not run and tells no
 * matrices: the layer is I, which leaves the order of tokens as it is. */
static rs_status fold_layer(void *user, rs_site site, int32_t layer, const rs_state_view *view,
                            rs_error *err)
{
    rollout *r = user;
    int64_t n = r->n, count = n * n;
    bool other;
    (void)site;
    (void)view;
    (void)err;
    const rs_layer *before = layer > 0 ? &r->network->layers[layer - 1] : NULL;
    const rs_attention_op *op = before ? attention_of(before, &other) : NULL;
    if (!op || rs_layer_mixer(before)->scale == 0) return RS_OK;
    for (int64_t i = 0; i < count; i++) {
        double sum = 0;
        for (int32_t h = 0; h < op->heads; h++)
            sum += r->heads[h * count + i];
        r->mean[i] = 0.5 * (sum / op->heads + (i % (n + 1) == 0));
    }
    cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, (blasint)n, (blasint)n, (blasint)n, 1,
                r->mean, (blasint)n, r->product, (blasint)n, 0, r->next, (blasint)n);
    double *swap = r->product;
    r->product = r->next;
    r->next = swap;
    return RS_OK;
}

static rs_status roll(rollout *r, double *scores, double *rooms, int32_t heads,
                      const rs_relevance_work *w, const rs_inputs *one, int64_t row, rs_error *err)
{
    int64_t n = r->n, count = n * n;
    r->heads = rooms;
    r->mean = rooms + heads * count;
    r->product = r->mean + count;
    r->next = r->product + count;
    memset(r->product, 0, (size_t)count * sizeof *r->product);
    for (int64_t i = 0; i < n; i++)
        r->product[i * (n + 1)] = 1;
    r->listener = (rs_listener){.tap = {.user = r,
                                        .sites = 1u << RS_SITE_BLOCK_OUT,
                                        .state = fold_layer,
                                        .wants_attention = wants,
                                        .attention = take_head}};
    RS_TRY(rs_relevance_pass(NULL, w, one, NULL, &r->listener, err));
    memcpy(scores, r->product + row * n, (size_t)n * sizeof *scores);
    return RS_OK;
}

rs_status rs_rollout(double *scores, bool *there, const rs_relevance_work *w, const rs_inputs *one,
                     int64_t row, rs_error *err)
{
    int32_t heads = rs_rollout_heads(w->network);
    rollout r = {.network = w->network, .n = one->longest};
    *there = heads > 0 && r.n <= RS_ROLLOUT_TOKENS;
    if (!*there) return RS_OK;
    size_t count = ((size_t)heads + 3) * (size_t)(r.n * r.n);
    double *rooms = rs_malloc(count, sizeof *rooms);
    if (!rooms) return rs_fail_memory(err, "rollout", count * sizeof *rooms);
    rs_status status = roll(&r, scores, rooms, heads, w, one, row, err);
    rs_free(rooms);
    return status;
}
