/* paths_lesions.c: lesions, listed and run. */
#include "paths/paths_lesions.h"

#include "base/memory.h"
#include "base/random.h"
#include "network/op_traits.h"
#include "observe/measure.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { STREAM_LESIONS = 0x1e51, DRAWS = 8, AT_ONCE = 8 };

/* ---- the list ---- */

/* The heads of a layer's mixer that can be left out, numbered as table attention numbers them. */
static int32_t heads_of(const rs_layer *layer)
{
    const rs_branch *mixer = rs_layer_mixer(layer);
    return mixer && mixer->scale != 0 ? rs_branch_ablatable(mixer, NULL) : 0;
}

static rs_status list_heads(rs_lesions *l, const rs_network *network, rs_error *err)
{
    size_t most = 1;
    for (int32_t layer = 0; layer < network->n_layers; layer++)
        most += (size_t)heads_of(&network->layers[layer]);
    l->heads = rs_arena_alloc(l->arena, most, sizeof *l->heads);
    if (!l->heads) return rs_fail_memory(err, "lesions", most * sizeof *l->heads);
    for (int32_t layer = 0; layer < network->n_layers; layer++) {
        const rs_layer *at = &network->layers[layer];
        int32_t heads = heads_of(at);
        for (int32_t h = 0; h < heads; h++)
            l->heads[l->n_heads++] =
                (rs_lesion_head){layer, (int32_t)(rs_layer_mixer(at) - at->branches), h};
    }
    return RS_OK;
}

static rs_status add_lesion(rs_lesions *l, rs_lesion_kind kind, int32_t layer, int32_t branch,
                            size_t n, size_t **heads, rs_error *err)
{
    size_t *list = rs_arena_alloc(l->arena, n + 1, sizeof *list);
    if (!list) return rs_fail_memory(err, "lesions", n * sizeof *list);
    l->items[l->n++] = (rs_lesion){.kind = kind,
                                   .layer = layer,
                                   .branch = branch,
                                   .draw = -1,
                                   .n = n,
                                   .heads = list,
                                   .finite = true};
    *heads = list;
    return RS_OK;
}

/* The heads of a layer one by one, then its branches. */
static rs_status list_layer(rs_lesions *l, const rs_network *network, int32_t layer, rs_error *err)
{
    const rs_layer *at = &network->layers[layer];
    size_t *heads = NULL, first = 0, end;
    while (first < l->n_heads && l->heads[first].layer < layer)
        first++;
    for (end = first; end < l->n_heads && l->heads[end].layer == layer; end++) {
        RS_TRY(add_lesion(l, RS_LESION_HEAD, layer, l->heads[end].branch, 1, &heads, err));
        heads[0] = end;
    }
    for (int32_t b = 0; b < at->n_branches; b++) {
        bool mixes = rs_branch_traits(&at->branches[b])->mixes;
        size_t n = first < end && l->heads[first].branch == b ? end - first : 0;
        if (at->branches[b].scale == 0) continue; /* nothing runs there */
        RS_TRY(add_lesion(l, mixes ? RS_LESION_MIXER : RS_LESION_MLP, layer, b, n, &heads, err));
        for (size_t i = 0; i < n; i++)
            heads[i] = first + i;
    }
    return RS_OK;
}

static int by_place(const void *a, const void *b)
{
    size_t x = *(const size_t *)a, y = *(const size_t *)b;
    return (x > y) - (x < y);
}

/* k of all heads without replacement, by the first k exchanges of a shuffle. */
static void draw_heads(size_t *out, size_t *deck, size_t all, size_t k, rs_random *random)
{
    for (size_t i = 0; i < all; i++)
        deck[i] = i;
    for (size_t i = 0; i < k; i++) {
        size_t j = i + (size_t)(rs_random_uniform(random) * (double)(all - i)), kept = deck[i];
        if (j >= all) j = all - 1;
        deck[i] = deck[j];
        deck[j] = kept;
        out[i] = deck[i];
    }
    qsort(out, k, sizeof *out, by_place);
}

static rs_status list_sets(rs_lesions *l, uint64_t seed, rs_error *err)
{
    size_t all = l->n_heads, *heads = NULL;
    size_t *deck = rs_arena_alloc(l->arena, all + 1, sizeof *deck);
    if (!deck) return rs_fail_memory(err, "lesions", all * sizeof *deck);
    for (size_t k = 2; k < all; k *= 2) {
        rs_random random = rs_random_new(seed, (uint64_t)STREAM_LESIONS << 40 ^ (uint64_t)k);
        for (int32_t draw = 0; draw < DRAWS; draw++) {
            RS_TRY(add_lesion(l, RS_LESION_HEADS, -1, -1, k, &heads, err));
            l->items[l->n - 1].draw = draw;
            draw_heads(heads, deck, all, k, &random);
        }
    }
    if (all < 2) return RS_OK;
    RS_TRY(add_lesion(l, RS_LESION_HEADS, -1, -1, all, &heads, err));
    for (size_t i = 0; i < all; i++)
        heads[i] = i;
    l->items[l->n - 1].draw = 0;
    return RS_OK;
}

static rs_status list_all(rs_lesions *l, const rs_network *network, uint64_t seed, rs_error *err)
{
    size_t *none, most;
    l->arena = rs_arena_new();
    if (!l->arena) return rs_fail_memory(err, "lesions", 0);
    RS_TRY(list_heads(l, network, err));
    most = 2 + l->n_heads + (size_t)network->n_layers * RS_BRANCHES_MAX + 64 * DRAWS;
    l->items = rs_arena_alloc(l->arena, most, sizeof *l->items);
    if (!l->items) return rs_fail_memory(err, "lesions", most * sizeof *l->items);
    RS_TRY(add_lesion(l, RS_LESION_NONE, -1, -1, 0, &none, err));
    for (int32_t layer = 0; layer < network->n_layers; layer++)
        RS_TRY(list_layer(l, network, layer, err));
    return list_sets(l, seed, err);
}

rs_status rs_lesions_list(rs_lesions **out, const rs_network *network, uint64_t seed, rs_error *err)
{
    *out = NULL;
    rs_lesions *l = rs_calloc(1, sizeof *l);
    if (!l) return rs_fail_memory(err, "lesions", sizeof *l);
    rs_status status = list_all(l, network, seed, err);
    if (status == RS_OK)
        *out = l;
    else
        rs_lesions_close(l);
    return status;
}

void rs_lesions_close(rs_lesions *lesions)
{
    if (!lesions) return;
    rs_arena_free(lesions->arena);
    rs_free(lesions);
}

/* ---- passes ---- */

/* One sample on its way through lesions. */
typedef struct surgery {
    rs_paths_run *run;
    const rs_batch *batch;
    int64_t n, d;
    double *kept;   /* [n_layers+1][n*d] states of the whole pass; the last one is the output */
    double *states; /* [1+AT_ONCE][n*d] the output, then last states of lesions */
    double *to;     /* where on_state puts the last state; NULL: all go to kept */
    int32_t last;   /* its number */
} surgery;

static rs_status on_state(void *user, rs_site site, int32_t layer, const rs_state_view *view,
                          rs_error *err)
{
    surgery *s = user;
    int64_t count = s->n * s->d;
    (void)site, (void)err;
    double *to = s->to ? s->to : s->kept + layer * count;
    if (!s->to || layer == s->last) memcpy(to, view->data, (size_t)count * sizeof *to);
    return RS_OK;
}

static rs_status observe(surgery *s, const rs_network *network, rs_weights *weights,
                         const rs_batch *batch, rs_error *err)
{
    const rs_tap tap = {.user = s, .sites = 1u << RS_SITE_BLOCK_OUT, .state = on_state};
    return rs_observe_batch(network, weights, batch, &tap, s->run->context, err);
}

/* Runs layers [from, end) on `state` (n×d), in place. */
static rs_status run_layers(surgery *s, double *state, const rs_network *network, int32_t from,
                            int32_t end, rs_weights *weights, rs_error *err)
{
    rs_network part = *network;
    rs_batch batch = *s->batch;
    batch.ids = NULL, batch.rows = NULL, batch.images = NULL;
    batch.states = state;
    part.layers = network->layers + from;
    part.n_layers = end - from;
    part.embedding = (rs_embedding_op){.width = s->d, .scale = 1}; /* fed states, of any length */
    part.max_positions = 0;                                        /* the whole pass has looked */
    s->to = state;
    s->last = part.n_layers;
    return observe(s, &part, weights, &batch, err);
}

/* A layer with weights of its own is decoded for this one run. */
static rs_status run_edited(surgery *s, double *state, const rs_network *network, int32_t layer,
                            rs_error *err)
{
    rs_weights *own;
    RS_TRY(rs_weights_open(&own, RS_PRECISION_F64, 0, err));
    rs_status status = run_layers(s, state, network, layer, layer + 1, own, err);
    rs_weights_close(own);
    return status;
}

/* Leaves out the heads [n] of one branch. */
static rs_status leave_out(rs_network *network, const rs_lesions *l, const size_t *heads, size_t n,
                           rs_error *err)
{
    const rs_lesion_head *first = &l->heads[heads[0]];
    int32_t *numbers = rs_arena_alloc(network->arena, n, sizeof *numbers);
    if (!numbers) return rs_fail_memory(err, "lesions", n * sizeof *numbers);
    for (size_t i = 0; i < n; i++)
        numbers[i] = l->heads[heads[i]].head;
    return rs_branch_ablate(&network->layers[first->layer].branches[first->branch], numbers, n,
                            network->arena, "lesions", err);
}

/* From layer `from` on, whose input is in `state`; where heads are left out their layers run one by
 * one, all between them at once. */
static rs_status run_without_heads(surgery *s, double *state, rs_network *network,
                                   const rs_lesion *lesion, int32_t from, rs_error *err)
{
    const rs_lesions *l = s->run->lesions;
    for (size_t i = 0, end; i < lesion->n; i = end) {
        int32_t layer = l->heads[lesion->heads[i]].layer;
        for (end = i; end < lesion->n && l->heads[lesion->heads[end]].layer == layer;)
            end++;
        RS_TRY(leave_out(network, l, lesion->heads + i, end - i, err));
        if (from < layer) RS_TRY(run_layers(s, state, network, from, layer, s->run->weights, err));
        RS_TRY(run_edited(s, state, network, layer, err));
        from = layer + 1;
    }
    if (from == network->n_layers) return RS_OK;
    return run_layers(s, state, network, from, network->n_layers, s->run->weights, err);
}

static int32_t lowest_layer(const rs_lesions *l, const rs_lesion *lesion)
{
    return lesion->kind == RS_LESION_HEADS ? l->heads[lesion->heads[0]].layer : lesion->layer;
}

static void count_layers(rs_lesions *l, const rs_lesion *lesion, int32_t from, int32_t layers)
{
    bool single = lesion->kind != RS_LESION_HEADS;
    l->layers_run += layers - from;
    l->layers_whole += layers;
    l->single_layers_run += single ? layers - from : 0;
    l->single_layers_whole += single ? layers : 0;
}

/* state (n×d): the last one of the network with that lesion. */
static rs_status run_lesion(surgery *s, double *state, const rs_lesion *lesion, rs_error *err)
{
    rs_network *network;
    int64_t count = s->n * s->d;
    int32_t layers = s->run->network->n_layers, from;
    if (lesion->kind == RS_LESION_NONE) {
        memcpy(state, s->kept + layers * count, (size_t)count * sizeof *state);
        return RS_OK;
    }
    from = lowest_layer(s->run->lesions, lesion);
    memcpy(state, s->kept + from * count, (size_t)count * sizeof *state);
    RS_TRY(rs_check_cancelled(s->run->context, err));
    RS_TRY(rs_network_copy(&network, s->run->network, err));
    rs_status status;
    if (lesion->kind == RS_LESION_MIXER || lesion->kind == RS_LESION_MLP) {
        network->layers[from].branches[lesion->branch].scale = 0;
        status = run_layers(s, state, network, from, layers, s->run->weights, err);
    } else {
        status = run_without_heads(s, state, network, lesion, from, err);
    }
    rs_network_close(network);
    count_layers(s->run->lesions, lesion, from, layers);
    return status;
}

/* ---- what came of them ---- */

static rs_status add_outcome(rs_lesion *lesion, const rs_path_outcome *o, const double *state,
                             int64_t n, int64_t d, rs_error *err)
{
    rs_path_size size;
    for (int64_t i = 0; i < n * d; i++)
        lesion->finite = lesion->finite && isfinite(state[i]);
    RS_TRY(rs_path_size_of(&size, state, n, d, err));
    lesion->samples++;
    lesion->nll += o->nll;
    lesion->scored += o->scored;
    lesion->state_error += o->state_error;
    if (isnan(size.residual)) return RS_OK;
    lesion->residual += size.residual;
    lesion->residuals++;
    return RS_OK;
}

static rs_status run_group(surgery *s, size_t first, size_t n, rs_error *err)
{
    rs_paths_run *run = s->run;
    rs_path_outcome outcomes[1 + AT_ONCE];
    int64_t count = s->n * s->d;
    for (size_t i = 0; i < n; i++) {
        rs_progress(run->context, "lesions", (uint64_t)(first + i), (uint64_t)run->lesions->n,
                    "lesions");
        RS_TRY(run_lesion(s, s->states + (int64_t)(i + 1) * count, &run->lesions->items[first + i],
                          err));
    }
    RS_TRY(rs_path_outcomes(outcomes, run->network, run->weights, s->states, (int64_t)n, s->n,
                            s->batch->ids, !run->options->no_logits, run->context, err));
    for (size_t i = 0; i < n; i++)
        RS_TRY(add_outcome(&run->lesions->items[first + i], &outcomes[1 + i],
                           s->states + (int64_t)(i + 1) * count, s->n, s->d, err));
    return RS_OK;
}

static rs_status operate(surgery *s, rs_error *err)
{
    int64_t count = s->n * s->d, layers = s->run->network->n_layers;
    s->kept = rs_malloc((size_t)(layers + 1), (size_t)count * sizeof *s->kept);
    s->states = rs_malloc(1 + AT_ONCE, (size_t)count * sizeof *s->states);
    if (!s->kept || !s->states) return rs_fail_memory(err, "lesions", (size_t)count * 8);
    RS_TRY(observe(s, s->run->network, s->run->weights, s->batch, err));
    memcpy(s->states, s->kept + layers * count, (size_t)count * sizeof *s->states);
    size_t all = s->run->lesions->n;
    for (size_t first = 0; first < all; first += AT_ONCE)
        RS_TRY(run_group(s, first, all - first < AT_ONCE ? all - first : AT_ONCE, err));
    return RS_OK;
}

rs_status rs_lesions_sample(rs_paths_run *run, const rs_batch *batch, rs_error *err)
{
    surgery s = {.run = run, .batch = batch, .n = batch->begin[1], .d = run->network->d_model};
    rs_status status = operate(&s, err);
    rs_free(s.kept);
    rs_free(s.states);
    return status;
}
