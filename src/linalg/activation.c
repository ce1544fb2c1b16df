/* activation.c: activations by name. */
#include "linalg/activation.h"

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
    {"sin", RS_ACT_SIN},
    {"sigmoid", RS_ACT_SIGMOID},
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
