/* forward_builder.h: networks and batches drawn at random, for tests of the forward pass. */
#ifndef RS_TEST_FORWARD_BUILDER_H
#define RS_TEST_FORWARD_BUILDER_H

#include "base/random.h"
#include "engine/forward.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A tap's `sites`: all that there are. */
enum { ALL_SITES = (1 << RS_SITE_COUNT) - 1 };

enum { BUILT_TENSORS = 256 };

typedef struct built {
    rs_random random;
    rs_network network;
    rs_layer layers[4];
    rs_tensor tensors[BUILT_TENSORS];
    int64_t shapes[BUILT_TENSORS];
    void *blocks[BUILT_TENSORS];
    rs_dense_factor factors[3 * BUILT_TENSORS];
    int n_tensors, n_factors;
    rs_dtype dtype; /* of the weights */
    rs_batch batch;
    int64_t begin[8], memory_begin[8];
    int32_t *ids;
    double *memory, *states;
    float *images;
} built;

static inline int64_t draw(built *b, int64_t from, int64_t to)
{
    return from + (int64_t)(rs_random_uniform(&b->random) * (double)(to - from + 1));
}

static inline bool chance(built *b, double p)
{
    return rs_random_uniform(&b->random) < p;
}

/* ---- tensors ---- */

static inline uint16_t half_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, 4);
    int32_t exponent = (int32_t)(bits >> 23 & 255) - 112;
    if (exponent <= 0) return (uint16_t)(bits >> 16 & 0x8000);
    return (uint16_t)((bits >> 16 & 0x8000) | (uint32_t)exponent << 10 | (bits >> 13 & 1023));
}

/* Bytes of `count` numbers mean + std N(0,1) in a dtype; blocks of 32 for Q8_0. */
static inline size_t fill_bytes(built *b, uint8_t *out, rs_dtype dtype, int64_t count, double mean,
                                double std)
{
    size_t at = 0;
    for (int64_t i = 0; i < count; i++) {
        double x = mean + std * rs_random_normal(&b->random);
        float f = (float)x;
        uint32_t bits;
        uint16_t half = half_of(f);
        memcpy(&bits, &f, 4);
        switch (dtype) {
        case RS_F64:
            memcpy(out + at, &x, 8), at += 8;
            break;
        case RS_BF16:
            bits >>= 16, memcpy(out + at, &bits, 2), at += 2;
            break;
        case RS_F16:
            memcpy(out + at, &half, 2), at += 2;
            break;
        case RS_F8_E4M3:
            out[at++] = (uint8_t)((draw(b, 0, 1) << 7) | draw(b, 40, 60));
            break;
        case RS_Q8_0:
            if (i % 32 == 0) half = half_of((float)(std / 64)), memcpy(out + at, &half, 2), at += 2;
            out[at++] = (uint8_t)draw(b, 0, 255);
            break;
        default:
            memcpy(out + at, &f, 4), at += 4;
        }
    }
    return at;
}

static inline const rs_tensor *tensor(built *b, rs_dtype dtype, int64_t count, double mean,
                                      double std)
{
    rs_tensor *t = &b->tensors[b->n_tensors];
    if (dtype == RS_Q8_0 && count % 32) dtype = RS_F32;
    /* one in three is not aligned */
    int64_t shift = dtype == RS_F32 && chance(b, 0.3) ? 1 : 0;
    uint8_t *bytes = malloc((size_t)count * 8 + 64);
    b->shapes[b->n_tensors] = count;
    *t = (rs_tensor){.name = "drawn",
                     .dtype = dtype,
                     .rank = 1,
                     .shape = &b->shapes[b->n_tensors],
                     .count = count,
                     .data = bytes + shift,
                     .type_id = -1};
    t->bytes = fill_bytes(b, bytes + shift, dtype, count, mean, std);
    b->blocks[b->n_tensors++] = bytes;
    return t;
}

/* Numbers that stretches of the outputs are multiplied by. */
static inline void draw_factors(built *b, rs_dense *dense)
{
    int64_t left = dense->out;
    dense->factors = b->factors + b->n_factors;
    while (left > 0) {
        int64_t units = dense->n_factors == 2 ? left : draw(b, 1, left);
        b->factors[b->n_factors++] =
            (rs_dense_factor){.units = units,
                              .weight = 2 * rs_random_uniform(&b->random) - 0.5,
                              .bias = 2 * rs_random_uniform(&b->random) - 0.5};
        dense->n_factors++;
        left -= units;
    }
}

static inline rs_dense dense_of(built *b, int64_t in, int64_t out, bool bias)
{
    rs_dense dense = {
        .out_is_row = chance(b, 0.5), .in = in, .out = out, .run = out, .stride = out};
    int64_t stored = out;
    if (chance(b, 0.3)) { /* a part of a fused map: runs with a stride */
        int64_t runs = chance(b, 0.5) ? 1 : out;
        while (out % runs)
            runs--;
        if (runs > 4 && out % 2 == 0) runs = out / 2;
        dense.run = out / runs;
        dense.first = draw(b, 0, 5);
        dense.stride = dense.run + draw(b, 0, 4);
        stored = dense.first + (runs - 1) * dense.stride + dense.run + draw(b, 0, 3);
    }
    dense.rows = dense.out_is_row ? stored : in;
    dense.cols = dense.out_is_row ? in : stored;
    double std = 1 / sqrt((double)in);
    dense.weight = tensor(b, b->dtype, stored * in, 0, std);
    if (bias) dense.bias = tensor(b, chance(b, 0.5) ? RS_F32 : RS_BF16, stored, 0, 0.3);
    if (b->dtype == RS_F8_E4M3) {
        dense.scale_block_rows = draw(b, 1, 7);
        dense.scale_block_cols = draw(b, 1, 7);
        int64_t down = (dense.rows + dense.scale_block_rows - 1) / dense.scale_block_rows;
        int64_t across = (dense.cols + dense.scale_block_cols - 1) / dense.scale_block_cols;
        dense.scale = tensor(b, RS_F32, down * across, 0, std);
    }
    if (chance(b, 0.15)) draw_factors(b, &dense);
    return dense;
}

static inline rs_norm_op norm_of(built *b, int64_t dim)
{
    rs_norm_op norm = {.kind = (rs_norm_kind)draw(b, RS_NORM_LAYERNORM, RS_NORM_RMSNORM_PLUS_ONE),
                       .dim = dim,
                       .eps = 1e-5};
    if (chance(b, 0.8)) norm.gain = tensor(b, chance(b, 0.5) ? RS_F32 : RS_F16, dim, 1, 0.2);
    if (norm.gain && chance(b, 0.5)) norm.bias = tensor(b, RS_F32, dim, 0, 0.2);
    return norm;
}

/* ---- branches ---- */

static inline void draw_edits(built *b, rs_attention_op *op)
{
    op->temperature = chance(b, 0.3) ? 1.7 : 1;
    op->mix_softmax = 1;
    if (!chance(b, 0.3)) return;
    op->mix_identity = chance(b, 0.5) ? 0.7 : 0;
    op->mix_uniform = chance(b, 0.5) ? 0.4 : 0;
    op->mix_softmax = chance(b, 0.2) ? 0 : 1.3;
}

static inline void draw_positions(built *b, rs_attention_op *op, int64_t d)
{
    int64_t all = op->heads * op->head_dim;
    static const rs_rope_kind kinds[] = {RS_ROPE_HALF_SPLIT, RS_ROPE_INTERLEAVED, RS_ROPE_SPREAD};
    int64_t what = draw(b, 0, 6), most = what == 6 ? op->head_dim / 4 : op->head_dim / 2;
    if ((what <= 1 || what == 6) && most >= 1)
        op->rope = (rs_rope_op){.kind = kinds[what == 6 ? 2 : what],
                                .law = RS_ROPE_PLAIN,
                                .dims = (int32_t)(2 * draw(b, 1, most)),
                                .theta = 10000,
                                .factor = 1,
                                .attention_factor = 1};
    if (what == 2) {
        op->distance_reach = draw(b, 0, 9);
        op->distance_bias = tensor(b, RS_F32, op->heads * (2 * op->distance_reach + 1), 0, 1);
    }
    if (what == 3 && d % 2 == 0 && !op->cross) {
        op->relative.r = dense_of(b, d, all, false);
        if (chance(b, 0.7)) op->relative.content_bias = tensor(b, RS_F32, all, 0, 1);
        if (chance(b, 0.7)) op->relative.position_bias = tensor(b, RS_F16, all, 0, 1);
        if (chance(b, 0.7)) op->relative.segment_bias = tensor(b, RS_F32, all, 0, 1);
        if (chance(b, 0.7)) op->relative.segment_embed = tensor(b, RS_F32, 2 * all, 0, 1);
        op->relative.clamp = chance(b, 0.3) ? draw(b, 1, 6) : 0;
    }
}

/* One in ten becomes a map of no file, such as what stands for one that is absent: it has no gradient.
 * By a stream of its own, so that other draws stay as they are. */
static inline void give(built *b, const rs_dense *map)
{
    rs_random aside = rs_random_new(b->random.seed + b->random.counter, 77);
    if (rs_random_uniform(&aside) >= 0.1) return;
    for (int i = 0; i < b->n_tensors; i++)
        if (&b->tensors[i] == map->weight) b->tensors[i].fixed = true;
}

static inline rs_attention_op attention_of(built *b, int64_t d, bool cross)
{
    rs_attention_op op = {.heads = (int32_t)draw(b, 1, 4), .cross = cross};
    bool bias = chance(b, 0.5);
    op.kv_heads = op.heads;
    if (op.heads % 2 == 0 && chance(b, 0.5)) op.kv_heads = op.heads / 2;
    op.head_dim = draw(b, 1, 12);
    op.value_dim = chance(b, 0.7) ? op.head_dim : draw(b, 1, 12);
    bool merged = chance(b, 0.1);
    if (merged) op.value_dim = d;
    op.q = dense_of(b, d, op.heads * op.head_dim, bias);
    op.k = dense_of(b, cross ? 5 : d, op.kv_heads * op.head_dim, bias);
    op.v = dense_of(b, cross ? 5 : d, op.kv_heads * op.value_dim, bias);
    if (!merged) op.o = dense_of(b, op.heads * op.value_dim, d, bias);
    give(b, &op.v);
    give(b, &op.o);
    if (chance(b, 0.3)) op.q_norm = norm_of(b, chance(b, 0.5) ? op.head_dim : op.q.out);
    if (chance(b, 0.3)) op.k_norm = norm_of(b, chance(b, 0.5) ? op.head_dim : op.k.out);
    op.scale = 1 / sqrt((double)op.head_dim);
    op.softcap = chance(b, 0.2) ? 2 : 0;
    op.causal = !cross && chance(b, 0.5);
    op.window = chance(b, 0.3) ? draw(b, 1, 20) : 0;
    draw_positions(b, &op, d);
    draw_edits(b, &op);
    return op;
}

static inline rs_branch branch_of(built *b, int64_t d, rs_branch_kind kind, bool cross)
{
    rs_branch branch = {.kind = kind, .skip = 1, .scale = 1};
    if (chance(b, 0.5)) branch.before = norm_of(b, d);
    if (chance(b, 0.3)) branch.inside = norm_of(b, d);
    if (chance(b, 0.5)) branch.after = norm_of(b, d);
    if (chance(b, 0.3)) branch.skip = chance(b, 0.5) ? 0 : 0.6;
    if (chance(b, 0.3)) branch.scale = chance(b, 0.2) ? 0 : 0.8;
    if (kind == RS_BRANCH_ATTENTION) {
        branch.attention = attention_of(b, d, cross);
        return branch;
    }
    int64_t width = draw(b, 1, 40);
    branch.mlp.activation = (rs_activation)draw(b, 0, RS_ACT_COUNT - 1);
    branch.mlp.up = dense_of(b, d, width, chance(b, 0.5));
    if (chance(b, 0.5)) branch.mlp.gate = dense_of(b, d, width, chance(b, 0.5));
    branch.mlp.down = dense_of(b, width, d, chance(b, 0.5));
    branch.mlp.width = width;
    return branch;
}

/* ---- networks and batches ---- */

static inline void draw_batch(built *b, int64_t longest, bool cross)
{
    rs_network *network = &b->network;
    b->batch = (rs_batch){.samples = (int32_t)draw(b, 1, 4), .begin = b->begin};
    for (int32_t s = 0; s < b->batch.samples; s++) {
        int64_t n = chance(b, 0.15) ? 0 : draw(b, 1, longest);
        b->begin[s + 1] = b->begin[s] + n;
        b->memory_begin[s + 1] = b->memory_begin[s] + draw(b, 0, 9);
    }
    int64_t rows = b->begin[b->batch.samples];
    b->ids = malloc((size_t)(rows + 1) * sizeof *b->ids);
    for (int64_t i = 0; i < rows; i++)
        b->ids[i] = (int32_t)draw(b, 0, network->embedding.vocabulary - 1);
    b->batch.ids = b->ids;
    if (chance(b, 0.2)) {
        b->states = malloc((size_t)(rows * network->d_model + 1) * sizeof *b->states);
        for (int64_t i = 0; i < rows * network->d_model; i++)
            b->states[i] = rs_random_normal(&b->random);
        b->batch.states = b->states;
    }
    if (!cross) return;
    int64_t count = b->memory_begin[b->batch.samples] * 5;
    b->memory = malloc((size_t)(count + 1) * sizeof *b->memory);
    for (int64_t i = 0; i < count; i++)
        b->memory[i] = rs_random_normal(&b->random);
    b->batch.memory = b->memory;
    b->batch.memory_begin = b->memory_begin;
}

static inline void draw_embedding(built *b, int64_t longest)
{
    rs_embedding_op *op = &b->network.embedding;
    int64_t d = b->network.d_model;
    op->width = d;
    op->vocabulary = draw(b, 1, 30);
    op->scale = chance(b, 0.3) ? 3 : 1;
    if (chance(b, 0.3)) {
        op->width = draw(b, 1, 20);
        op->projection = dense_of(b, op->width, d, true);
    }
    op->tokens =
        tensor(b, b->dtype == RS_F8_E4M3 ? RS_BF16 : b->dtype, op->vocabulary * op->width, 0, 1);
    if (chance(b, 0.5)) {
        op->position_offset = draw(b, 0, 2);
        op->n_positions = longest + op->position_offset;
        op->positions = tensor(b, RS_F32, op->n_positions * op->width, 0, 1);
    }
    if (chance(b, 0.5)) op->types = tensor(b, RS_F32, 2 * op->width, 0, 1);
    if (chance(b, 0.5)) op->norm = norm_of(b, op->width);
}

/* Pictures instead of tokens, of up to 3 x 4 patches. */
static inline void draw_images(built *b)
{
    rs_embedding_op *op = &b->network.embedding;
    op->tokens = NULL;
    op->channels = draw(b, 1, 3);
    op->patch_height = draw(b, 1, 4);
    op->patch_width = draw(b, 1, 4);
    int64_t down = draw(b, 1, 3), across = draw(b, 1, 4), rows = down * across;
    op->image_height = down * op->patch_height + draw(b, 0, op->patch_height - 1);
    op->image_width = across * op->patch_width + draw(b, 0, op->patch_width - 1);
    op->patch = dense_of(b, op->channels * op->patch_height * op->patch_width, op->width, true);
    if (chance(b, 0.7)) op->class_token = tensor(b, RS_F32, op->width, 0, 1), rows++;
    if (op->positions) {
        op->n_positions = rows + op->position_offset;
        op->positions = tensor(b, RS_F32, op->n_positions * op->width, 0, 1);
    }
    b->batch = (rs_batch){.samples = (int32_t)draw(b, 1, 3), .begin = b->begin};
    for (int32_t s = 0; s < b->batch.samples; s++)
        b->begin[s + 1] = b->begin[s] + rows;
    int64_t count = b->batch.samples * op->channels * op->image_height * op->image_width;
    b->images = malloc((size_t)count * sizeof *b->images);
    for (int64_t i = 0; i < count; i++)
        b->images[i] = (float)rs_random_normal(&b->random);
    b->batch.images = b->images;
}

static inline void draw_head(built *b)
{
    rs_head_op *op = &b->network.head;
    int64_t d = b->network.d_model, width = d;
    *op = (rs_head_op){.scale = chance(b, 0.3) ? 0.5 : 1, .softcap = chance(b, 0.3) ? 3 : 0};
    if (chance(b, 0.5)) {
        width = draw(b, 1, 20);
        op->transform = dense_of(b, d, width, true);
        op->activation = RS_ACT_GELU;
        op->norm = norm_of(b, width);
    }
    op->decoder = dense_of(b, width, draw(b, 1, 60), chance(b, 0.5));
    if (chance(b, 0.5)) op->bias = tensor(b, RS_F32, op->decoder.out, 0, 1);
    op->next_token = true;
}

/* A network of 1 or 2 layers with texts of up to `longest` tokens. Free with built_free. */
static inline built *built_new(uint64_t seed, int64_t longest)
{
    static const rs_dtype dtypes[] = {RS_F32, RS_F32, RS_F64, RS_BF16, RS_F16, RS_F8_E4M3, RS_Q8_0};
    built *b = calloc(1, sizeof *b);
    b->random = rs_random_new(seed, 77);
    b->dtype = dtypes[draw(b, 0, 6)];
    int64_t d = b->dtype == RS_Q8_0 ? 32 : draw(b, 1, 40);
    bool cross = chance(b, 0.15);
    b->network = (rs_network){
        .family = "drawn", .d_model = d, .layers = b->layers, .n_layers = (int32_t)draw(b, 1, 2)};
    draw_embedding(b, longest);
    for (int32_t l = 0; l < b->network.n_layers; l++) {
        rs_layer *layer = &b->layers[l];
        layer->branches[layer->n_branches++] = branch_of(b, d, RS_BRANCH_ATTENTION, false);
        if (cross)
            layer->branches[layer->n_branches++] = branch_of(b, d, RS_BRANCH_ATTENTION, true);
        if (chance(b, 0.8)) {
            layer->branches[layer->n_branches] = branch_of(b, d, RS_BRANCH_MLP, false);
            layer->branches[layer->n_branches++].joins = chance(b, 0.3);
        }
    }
    if (chance(b, 0.5)) b->network.final_norm = norm_of(b, d);
    if (chance(b, 0.5)) draw_head(b);
    if (!cross && chance(b, 0.15))
        draw_images(b);
    else
        draw_batch(b, longest, cross);
    return b;
}

static inline void built_free(built *b)
{
    for (int i = 0; i < b->n_tensors; i++)
        free(b->blocks[i]);
    free(b->ids);
    free(b->memory);
    free(b->states);
    free(b->images);
    free(b);
}

#endif
