/* network.c: what any network needs, wherever its weights come from: copies, closing. */
#include "network/network.h"

#include <string.h>

rs_dense_factor rs_dense_factor_of(const rs_dense *dense, int64_t u)
{
    for (int32_t i = 0; i < dense->n_factors; u -= dense->factors[i++].units)
        if (u < dense->factors[i].units) return dense->factors[i];
    return (rs_dense_factor){.weight = 1, .bias = 1};
}

rs_status rs_network_copy(rs_network **out, const rs_network *from, rs_error *err)
{
    *out = NULL;
    rs_network *copy = rs_malloc(1, sizeof *copy);
    if (!copy) return rs_fail_memory(err, "network", sizeof *copy);
    *copy = *from;
    copy->notes = (rs_notes){0};
    copy->arena = rs_arena_new();
    copy->layers = copy->arena
                       ? rs_arena_alloc(copy->arena, (size_t)from->n_layers, sizeof *copy->layers)
                       : NULL;
    copy->family = copy->arena && from->family ? rs_arena_strdup(copy->arena, from->family) : NULL;
    bool copied = copy->arena && copy->layers && (copy->family || !from->family);
    if (copied && from->n_layers)
        memcpy(copy->layers, from->layers, (size_t)from->n_layers * sizeof *copy->layers);
    for (size_t i = 0; copied && i < from->notes.n; i++) {
        const rs_note *note = &from->notes.items[i];
        copied =
            rs_notes_add(&copy->notes, note->severity, note->code, note->hint, "%s", note->message);
    }
    if (!copied) {
        rs_network_close(copy);
        return rs_fail_memory(err, "network", (size_t)from->n_layers * sizeof *copy->layers);
    }
    *out = copy;
    return RS_OK;
}

void rs_network_close(rs_network *network)
{
    if (!network) return;
    rs_notes_free(&network->notes);
    rs_arena_free(network->arena);
    rs_free(network);
}
