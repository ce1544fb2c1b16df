/* arch_ends.c: what enters an architecture's first layer, and what leaves its last. */
#include "network/arch_build.h"

#include "network/op_traits.h"

#include <math.h>

/* No token depends on a later one. */
static bool is_causal(const rs_network *network)
{
    for (int32_t l = 0; l < network->n_layers; l++)
        for (int32_t i = 0; i < network->layers[l].n_branches; i++) {
            const rs_branch *branch = &network->layers[l].branches[i];
            if (!rs_branch_traits(branch)->causal(branch)) return false;
        }
    return true;
}

/* Vaswani et al. 2017, 3.5: sin(p / 10000^(2i/d)) at 2i, the cosine at 2i + 1. */
static rs_status sinusoids(const rs_tensor **out, const rs_arch_build *b)
{
    int64_t n = b->arch->seq_len, d = b->arch->d_model;
    float *table;
    RS_TRY(rs_arch_fixed(out, &table, b, "sinusoids", n, d));
    for (int64_t p = 0; p < n; p++)
        for (int64_t c = 0; c < d; c++) {
            double angle = (double)p * pow(10000, -(double)(c - c % 2) / (double)d);
            table[p * d + c] = (float)(c % 2 ? cos(angle) : sin(angle));
        }
    return RS_OK;
}

static rs_status add_positions(const rs_arch_build *b)
{
    const rs_arch *arch = b->arch;
    rs_embedding_op *embedding = &b->network->embedding;
    bool learned = arch->positions == RS_ARCH_POSITIONS_LEARNED;
    if (!learned && arch->positions != RS_ARCH_POSITIONS_SINUSOIDAL) return RS_OK;
    embedding->n_positions = b->network->max_positions = arch->seq_len;
    embedding->positions_fixed = !learned;
    if (!learned) return sinusoids(&embedding->positions, b);
    return rs_arch_matrix(&embedding->positions, b, RS_ROLE_EMBED_POSITION, arch->seq_len,
                          arch->d_model);
}

static rs_status add_map(rs_dense *map, const rs_arch_build *b, int64_t out, int64_t in)
{
    *map = rs_arch_map(out, in);
    RS_TRY(rs_arch_matrix(&map->weight, b, RS_ROLE_EMBED_PROJECTION, out, in));
    return rs_arch_zero_bias(map, b, RS_ROLE_EMBED_PROJECTION);
}

/* What stands between tokens or rows and the first layer. */
static rs_status add_maps(const rs_arch_build *b)
{
    const rs_arch *arch = b->arch;
    rs_embedding_op *embedding = &b->network->embedding;
    int64_t d = arch->d_model, in = arch->rows ? arch->rows : d;
    int64_t inner = arch->embed.width ? arch->embed.width : d;
    bool two = arch->embed.map == RS_ARCH_MAP_MLP;
    if (arch->embed.map != RS_ARCH_MAP_NONE)
        RS_TRY(add_map(&embedding->map, b, two ? inner : d, in));
    return two ? add_map(&embedding->map_out, b, d, inner) : RS_OK;
}

static rs_status add_embedding(const rs_arch_build *b)
{
    const rs_arch *arch = b->arch;
    rs_embedding_op *embedding = &b->network->embedding;
    embedding->width = arch->d_model;
    embedding->scale = 1;
    embedding->rows = arch->rows;
    if (arch->vocab) {
        embedding->vocabulary = arch->vocab;
        RS_TRY(
            rs_arch_matrix(&embedding->tokens, b, RS_ROLE_EMBED_TOKEN, arch->vocab, arch->d_model));
    }
    RS_TRY(add_maps(b));
    RS_TRY(add_positions(b));
    return arch->embed.norm ? rs_arch_full_norm(&embedding->norm, b, RS_ROLE_NORM_EMBED) : RS_OK;
}

/* Shi et al. 2022: what the head reads of all layers. A softmax over layers does not see what is added to
 * all of them, so a gate has no bias. */
static rs_status add_read_out(const rs_arch_build *b)
{
    const rs_arch *arch = b->arch;
    rs_read_out_op *op = &b->network->read_out;
    int64_t d = arch->d_model;
    if (!arch->outputs && !arch->vocab) return RS_OK; /* nothing reads it */
    op->kind = arch->fusion;
    if (op->kind == RS_FUSION_CONCAT) op->map = rs_arch_map(d, arch->depth * d);
    if (op->kind == RS_FUSION_GATE) op->map = rs_arch_map(1, d);
    if (op->map.out == 0) return RS_OK;
    return rs_arch_matrix(&op->map.weight, b, RS_ROLE_HEAD_FUSION, op->map.out, op->map.in);
}

static rs_status add_head(const rs_arch_build *b)
{
    const rs_arch *arch = b->arch;
    rs_head_op *head = &b->network->head;
    int64_t out = arch->outputs ? arch->outputs : arch->vocab;
    head->scale = 1;
    if (!out) return RS_OK;
    head->decoder = rs_arch_map(out, arch->d_model);
    RS_TRY(rs_arch_matrix(&head->decoder.weight, b, RS_ROLE_LM_HEAD, out, arch->d_model));
    RS_TRY(rs_arch_bias(&head->decoder, b, RS_ROLE_LM_HEAD));
    head->next_token = out == arch->vocab && is_causal(b->network);
    return RS_OK;
}

rs_status rs_arch_ends(rs_arch_build *b)
{
    const rs_arch *arch = b->arch;
    b->layer = -1;
    b->network->fusion = arch->fusion;
    if (arch->norm == RS_ARCH_NORM_PRE || arch->norm == RS_ARCH_NORM_SANDWICH)
        RS_TRY(rs_arch_state_norm(&b->network->final_norm, b, RS_ROLE_NORM_FINAL));
    RS_TRY(add_embedding(b));
    RS_TRY(add_read_out(b));
    return add_head(b);
}
