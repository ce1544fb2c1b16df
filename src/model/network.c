/* network.c: what any network needs, wherever its weights come from: activations by name, copies,
 * closing. */
#include "model/network.h"

#include <string.h>

/* The names that configurations use for one function each (transformers 5.23, ACT2FN). */
static const struct {
    const char *name;
    rs_activation activation;
} activations[] = {
    {"gelu", RS_ACT_GELU},
    {"gelu_python", RS_ACT_GELU},
    {"gelu_new", RS_ACT_GELU_TANH},
    {"gelu_pytorch_tanh", RS_ACT_GELU_TANH},
    {"gelu_python_tanh", RS_ACT_GELU_TANH},
    {"gelu_fast", RS_ACT_GELU_TANH},
    {"gelu_accurate", RS_ACT_GELU_TANH},
    {"quick_gelu", RS_ACT_QUICK_GELU},
    {"relu", RS_ACT_RELU},
    {"relu2", RS_ACT_RELU2},
    {"silu", RS_ACT_SILU},
    {"swish", RS_ACT_SILU},
    {"tanh", RS_ACT_TANH},
    {"linear", RS_ACT_LINEAR},
};

bool rs_activation_find(rs_activation *out, const char *name)
{
    for (size_t i = 0; i < sizeof activations / sizeof *activations; i++) {
        if (strcmp(activations[i].name, name) != 0) continue;
        *out = activations[i].activation;
        return true;
    }
    return false;
}

const char *rs_activation_name(rs_activation activation)
{
    for (size_t i = 0; i < sizeof activations / sizeof *activations; i++)
        if (activations[i].activation == activation) return activations[i].name;
    return "unknown";
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

const rs_branch *rs_layer_mixer(const rs_layer *layer)
{
    for (int32_t i = 0; i < layer->n_branches; i++)
        if (layer->branches[i].kind == RS_BRANCH_ATTENTION && !layer->branches[i].attention.cross)
            return &layer->branches[i];
    return NULL;
}
