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
    (void)branch;
    return find_map(user, layer, head) != NULL;
}

/* Sample 0 of the first batch: batches come in order, and a head's matrix of one sample comes once,
 * so no two threads meet here. */
static rs_status take_map(void *user, const rs_attention_view *view, rs_error *err)
{
    const rs_map_keeper *keeper = user;
    rs_kept_map *map = find_map(user, view->layer, view->head);
    if (!map || view->sample != 0) return RS_OK;
    if (!rs_is_mixer(keeper->network, view->layer, view->branch)) return RS_OK;
    int64_t n = view->n < RS_MAP_TOKENS ? view->n : RS_MAP_TOKENS;
    if (map->weight) return RS_OK;
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

static rs_status check_choices(const rs_map_choice *choices, size_t n, const rs_network *network,
                               rs_error *err)
{
    for (size_t m = 0; m < n; m++) {
        int32_t l = choices[m].layer;
        if (l >= network->n_layers)
            return rs_fail(err, RS_E_BAD_OPTION, "--attention-maps", "layers count from 0",
                           "there is no layer %d: the model has %d", (int)l,
                           (int)network->n_layers);
        const rs_branch *mixer = rs_layer_mixer(&network->layers[l]);
        int32_t heads = mixer ? rs_branch_traits(mixer)->matrices(mixer) : 0;
        if (choices[m].head >= heads)
            return rs_fail(err, RS_E_BAD_OPTION, "--attention-maps", "heads count from 0",
                           "there is no head %d in layer %d: it has %d", (int)choices[m].head,
                           (int)l, (int)heads);
    }
    return RS_OK;
}

rs_status rs_map_keeper_open(rs_map_keeper **out, const rs_map_choice *choices, size_t n,
                             const rs_network *network, rs_error *err)
{
    *out = NULL;
    RS_TRY(check_choices(choices, n, network, err));
    rs_map_keeper *keeper = rs_calloc(1, sizeof *keeper);
    if (!keeper) return rs_fail_memory(err, "--attention-maps", sizeof *keeper);
    *keeper = (rs_map_keeper){.network = network, .choices = choices, .n = n};
    keeper->listener.tap =
        (rs_tap){.user = keeper, .wants_attention = wants, .attention = take_map};
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
