/* drawn.c: the logits of a head whose weights were drawn and never trained
 * (docs/theory/attention.md, 7). */
#include "observe/gather.h"

#include "network/op_traits.h"

#include <math.h>

/* Behind norms of their own queries and keys have d_head entries of mean square 1. */
static bool normed(const rs_attention_op *op)
{
    return op->q_norm.kind != RS_NORM_NONE && op->k_norm.kind != RS_NORM_NONE;
}

/* The mean square length of the rows that the maps read: behind a norm it is their width, else it is
 * what was measured. */
static double square_length(const rs_branch *mixer, const rs_measured *m,
                            const rs_token_row *enters)
{
    if (mixer->before.kind != RS_NORM_NONE) return (double)mixer->before.dim;
    double rows = (double)m->rows / (double)m->samples;
    return enters->mean.norm_fro * enters->mean.norm_fro / rows;
}

/*
 * q = x W_Q and k = y W_K with entries of variance v: E Var_j(scale·q·k_j) over the draw is
 * scale²·d_head·(|x|² v)(|y − ȳ|² v), and |y − ȳ|² is on average the square of the relative residual
 * times |y|². Multipliers of W_Q and W_K multiply. Position terms of the logits are not counted.
 */
double rs_logit_variance_drawn(const rs_network *network, const rs_measured *m, int32_t layer)
{
    const rs_branch *mixer = rs_layer_mixer(&network->layers[layer]);
    const rs_attention_op *op = mixer ? rs_branch_attention(mixer) : NULL;
    const rs_token_row *enters = rs_measured_row(m, RS_TOKEN_SITE_BLOCK_OUT, layer);
    if (!op || !enters || m->samples == 0) return NAN;
    double spread = enters->residual.mean * enters->residual.mean;
    double scale = op->scale / op->temperature, entries = (double)op->head_dim;
    double common = scale * scale * entries * spread;
    if (normed(op)) return common;
    double factor = rs_dense_factor_of(&op->q, 0).weight * rs_dense_factor_of(&op->k, 0).weight;
    common *= factor * factor;
    double mapped = square_length(mixer, m, enters) * network->init_std * network->init_std;
    return common * mapped * mapped;
}
