/* maps.c: attention matrices that a figure shows. */
#include "observe/store.h"

#include "base/memory.h"
#include "network/op_traits.h"

static rs_kept_map *find_map(rs_map_keeper *keeper, int32_t layer, int32_t head)
{
    for (size_t m = 0; m < keeper->n; m++)
        if (keeper->choices[m].layer == layer && keeper->choices[m].head == head)
            return &keeper->maps[m];
    return NULL;
}

static bool wants(void *user, int32_t layer, int32_t branch, int32_t head)
{
    const rs_map_keeper *keeper = user;
    return rs_is_mixer(keeper->network, layer, branch) && find_map(user, layer, head);
}

static bool wants_sample(void *user, int32_t sample)
{
    return sample == ((const rs_map_keeper *)user)->sample;
}

/* The first batch that is run has a sample with tokens, and so all that is kept. */
static rs_status begin_batch(void *user, const rs_input_batch *batch, rs_error *err)
{
    rs_map_keeper *keeper = user;
    const int64_t *begin = batch->batch.begin;
    (void)err;
    keeper->sample = -1;
    for (int32_t s = 0; s < batch->batch.samples && !keeper->done && keeper->sample < 0; s++)
        if (begin[s + 1] > begin[s]) keeper->sample = s;
    keeper->done = true;
    return RS_OK;
}

/* A head's matrix of one sample comes once, so no two threads meet here. */
static rs_status take_map(void *user, const rs_attention_view *view, rs_error *err)
{
    rs_kept_map *map = find_map(user, view->layer, view->head);
    int64_t n = view->n < RS_MAP_TOKENS ? view->n : RS_MAP_TOKENS;
    map->weight = rs_malloc((size_t)(n * n), sizeof *map->weight);
    if (!map->weight)
        return rs_fail_memory(err, "--attention-maps", (size_t)(n * n) * sizeof *map->weight);
    map->n = n;
    for (int64_t i = 0; i < n * n; i++) {
        int64_t at = i / n * view->ld + i % n;
        map->weight[i] = view->precision == RS_PRECISION_F32
                             ? (double)((const float *)view->mixing)[at]
                             : ((const double *)view->mixing)[at];
    }
    return RS_OK;
}

rs_status rs_map_choices_check(const char *option, const rs_map_choice *choices, size_t n,
                               const rs_network *network, rs_error *err)
{
    for (size_t m = 0; m < n; m++) {
        int32_t l = choices[m].layer;
        if (l >= network->n_layers)
            return rs_fail(err, RS_E_BAD_OPTION, option, "layers count from 0",
                           "there is no layer %d: the model has %d", (int)l,
                           (int)network->n_layers);
        const rs_branch *mixer = rs_layer_mixer(&network->layers[l]);
        int32_t heads = mixer ? rs_branch_traits(mixer)->matrices(mixer) : 0;
        if (choices[m].head >= heads)
            return rs_fail(err, RS_E_BAD_OPTION, option, "heads count from 0",
                           "there is no head %d in layer %d: it has %d", (int)choices[m].head,
                           (int)l, (int)heads);
    }
    return RS_OK;
}

rs_status rs_map_keeper_open(rs_map_keeper **out, const rs_map_choice *choices, size_t n,
                             const rs_network *network, rs_error *err)
{
    *out = NULL;
    RS_TRY(rs_map_choices_check("--attention-maps", choices, n, network, err));
    rs_map_keeper *keeper = rs_calloc(1, sizeof *keeper);
    if (!keeper) return rs_fail_memory(err, "--attention-maps", sizeof *keeper);
    *keeper = (rs_map_keeper){.network = network, .choices = choices, .n = n};
    keeper->listener = (rs_listener){.tap = {.user = keeper,
                                             .wants_attention = wants,
                                             .wants_sample = wants_sample,
                                             .attention = take_map},
                                     .begin = begin_batch};
    keeper->maps = rs_calloc(n, sizeof *keeper->maps);
    *out = keeper;
    if (keeper->maps) return RS_OK;
    rs_map_keeper_close(keeper);
    *out = NULL;
    return rs_fail_memory(err, "--attention-maps", n * sizeof *keeper->maps);
}

void rs_map_keeper_close(rs_map_keeper *keeper)
{
    if (!keeper) return;
    for (size_t m = 0; m < keeper->n && keeper->maps; m++)
        rs_free(keeper->maps[m].weight);
    rs_free(keeper->maps);
    rs_free(keeper);
}
