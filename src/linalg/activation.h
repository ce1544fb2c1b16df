/* activation.h: the functions that an MLP applies entry by entry, and the names that configurations
 * give them. */
#ifndef RS_LINALG_ACTIVATION_H
#define RS_LINALG_ACTIVATION_H

#include <stdbool.h>

/* The activations. */
typedef enum rs_activation {
    RS_ACT_LINEAR,
    RS_ACT_RELU,
    RS_ACT_GELU,       /* x Φ(x), by erf */
    RS_ACT_GELU_TANH,  /* its approximation by tanh: gelu_new, gelu_pytorch_tanh, gelu_fast */
    RS_ACT_QUICK_GELU, /* x σ(1.702 x) */
    RS_ACT_SILU,
    RS_ACT_TANH,
    RS_ACT_RELU2, /* relu(x)² */
    RS_ACT_SIN,
    RS_ACT_SIGMOID,
    RS_ACT_COUNT
} rs_activation;

/* Finds the activation that configurations call so ("gelu_new"); false when there is none. */
bool rs_activation_find(rs_activation *out, const char *name);
const char *rs_activation_name(rs_activation activation);

#endif
