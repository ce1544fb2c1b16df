/*
 * weights.c: weights as numbers of one precision.
 *
 * Three ways, in this order: float32 tensors that lie aligned in their mapping are used there;
 * other ones are decoded once and kept while the limit lasts; beyond it they are decoded into
 * scratch at each use, or held from rs_weights_hold to rs_weights_release. Vectors (gains, biases)
 * are small and always kept.
 */
#include "engine/weights.h"

#include "base/memory.h"

#include <string.h>

/* What identifies a decoded piece: the stored vectors it takes, and how. */
typedef struct weight_key {
    const rs_tensor *tensor, *scale;
    const rs_dense_factor *factors;
    int64_t first, run, stride, out;
    int64_t vector; /* 1: entries of a vector */
} weight_key;

typedef struct entry {
    struct entry *next;
    weight_key key;
    void *data;
    size_t bytes;
    bool held; /* beyond the limit, until rs_weights_release */
} entry;

enum { SLOTS = 1024 };

struct rs_weights {
    rs_precision precision;
    size_t size;
    uint64_t limit, kept, changes, decoded;
    size_t held; /* entries that are */
    bool holding;
    entry *slots[SLOTS];
    struct {
        void *data;
        size_t bytes;
    } scratch[RS_WEIGHT_SLOTS];
};

rs_status rs_weights_open(rs_weights **out, rs_precision precision, uint64_t limit_bytes,
                          rs_error *err)
{
    *out = rs_calloc(1, sizeof **out);
    if (!*out) return rs_fail_memory(err, "weights", sizeof **out);
    (*out)->precision = precision;
    (*out)->size = rs_precision_size(precision);
    (*out)->limit = limit_bytes;
    return RS_OK;
}

static void forget_all(rs_weights *weights)
{
    for (int i = 0; i < SLOTS; i++) {
        for (entry *e = weights->slots[i], *next; e; e = next) {
            next = e->next;
            rs_free(e->data);
            rs_free(e);
        }
        weights->slots[i] = NULL;
    }
    weights->kept = 0;
    weights->held = 0;
}

void rs_weights_hold(rs_weights *weights)
{
    weights->holding = true;
}

void rs_weights_release(rs_weights *weights)
{
    if (!weights->holding) return;
    weights->holding = false;
    /* mostly there are none, and a walk at every layer of a deep network takes longer than the layer */
    for (int i = 0; i < SLOTS && weights->held > 0; i++)
        for (entry **at = &weights->slots[i]; *at;) {
            entry *e = *at;
            if (!e->held) {
                at = &e->next;
                continue;
            }
            *at = e->next;
            weights->held--;
            rs_free(e->data);
            rs_free(e);
        }
}

void rs_weights_changed(rs_weights *weights)
{
    forget_all(weights);
    weights->changes++;
}

uint64_t rs_weights_decoded(const rs_weights *weights)
{
    return weights->decoded;
}

uint64_t rs_weights_changes(const rs_weights *weights)
{
    return weights->changes;
}

void rs_weights_close(rs_weights *weights)
{
    if (!weights) return;
    forget_all(weights);
    for (int i = 0; i < RS_WEIGHT_SLOTS; i++)
        rs_free(weights->scratch[i].data);
    rs_free(weights);
}

rs_precision rs_weights_precision(const rs_weights *weights)
{
    return weights->precision;
}

static entry **slot_of(rs_weights *weights, const weight_key *key)
{
    uint64_t hash = (uint64_t)(uintptr_t)key->tensor * 0x9e3779b97f4a7c15u;
    hash ^= (uint64_t)key->first * 0xc2b2ae3d27d4eb4fu + (uint64_t)key->out;
    hash ^= hash >> 29;
    return &weights->slots[hash % SLOTS];
}

static entry *find_entry(rs_weights *weights, const weight_key *key)
{
    entry *e = *slot_of(weights, key);
    while (e && (e->key.tensor != key->tensor || e->key.scale != key->scale ||
                 e->key.factors != key->factors || e->key.first != key->first ||
                 e->key.run != key->run || e->key.stride != key->stride || e->key.out != key->out ||
                 e->key.vector != key->vector))
        e = e->next;
    return e;
}

/* An entry with room for `bytes`, in the table. */
static rs_status add_entry(entry **out, rs_weights *weights, const weight_key *key, size_t bytes,
                           rs_error *err)
{
    entry *e = rs_calloc(1, sizeof *e);
    void *data = rs_malloc(bytes, 1);
    if (!e || !data) {
        rs_free(e);
        rs_free(data);
        return rs_fail_memory(err, key->tensor->name, bytes);
    }
    entry **slot = slot_of(weights, key);
    *e = (entry){.next = *slot, .key = *key, .data = data, .bytes = bytes};
    *out = *slot = e;
    return RS_OK;
}

/* Takes back what `add` put last. */
static void drop_last(rs_weights *weights, const weight_key *key)
{
    entry **slot = slot_of(weights, key), *e = *slot;
    *slot = e->next;
    rs_free(e->data);
    rs_free(e);
}

/* ---- decoding ---- */

static void decode(const rs_weights *weights, void *out, int64_t at, const rs_tensor *tensor,
                   int64_t first, int64_t count)
{
    if (weights->precision == RS_PRECISION_F32)
        rs_tensor_decode_f32((float *)out + at, tensor, first, count);
    else
        rs_tensor_decode_f64((double *)out + at, tensor, first, count);
}

static bool in_place(const rs_weights *weights, const rs_tensor *tensor)
{
    return tensor->dtype == (weights->precision == RS_PRECISION_F32 ? RS_F32 : RS_F64) &&
           (uintptr_t)tensor->data % weights->size == 0;
}

static int64_t vector_of(const rs_dense *dense, int64_t u)
{
    return dense->first + u / dense->run * dense->stride + u % dense->run;
}

static void multiply(const rs_weights *weights, void *out, int64_t at, int64_t count, double factor)
{
    for (int64_t i = at; i < at + count; i++) {
        if (weights->precision == RS_PRECISION_F32)
            ((float *)out)[i] = (float)((double)((float *)out)[i] * factor);
        else
            ((double *)out)[i] *= factor;
    }
}

/* Elements [at, at+count) of the result, which are view element (row, col) and those behind it,
 * times the scales of their blocks. */
static void apply_scale(const rs_weights *weights, void *out, int64_t at, const rs_dense *dense,
                        int64_t row, int64_t col, int64_t count)
{
    int64_t per_row = (dense->cols + dense->scale_block_cols - 1) / dense->scale_block_cols;
    while (count > 0) {
        int64_t block = col / dense->scale_block_cols;
        int64_t n = (block + 1) * dense->scale_block_cols - col;
        double scale;
        if (n > count) n = count;
        rs_tensor_decode_f64(&scale, dense->scale, row / dense->scale_block_rows * per_row + block,
                             1);
        multiply(weights, out, at, n, scale);
        at += n, col += n, count -= n;
    }
}

static void decode_stretch(const rs_weights *weights, void *out, int64_t at, const rs_dense *dense,
                           int64_t row, int64_t col, int64_t count)
{
    decode(weights, out, at, dense->weight, row * dense->cols + col, count);
    if (dense->scale) apply_scale(weights, out, at, dense, row, col, count);
}

/* A row of the result of decode_map times what the configuration multiplies outputs by. */
static void apply_factors(const rs_weights *weights, void *out, int64_t r, const rs_dense *dense)
{
    if (!dense->factors) return;
    if (dense->out_is_row) {
        multiply(weights, out, r * dense->in, dense->in, rs_dense_factor_of(dense, r).weight);
        return;
    }
    int64_t at = r * dense->out;
    for (int32_t i = 0; i < dense->n_factors; at += dense->factors[i++].units)
        multiply(weights, out, at, dense->factors[i].units, dense->factors[i].weight);
}

/* [out, in] when out_is_row, else [in, out]; rows of the result in parallel. One map may take
 * seconds, most of them the disk's. */
static rs_status decode_map(const rs_weights *weights, void *out, const rs_dense *dense,
                            const rs_context *context, rs_error *err)
{
    int64_t rows = dense->out_is_row ? dense->out : dense->in;
    int threads = context->threads > 0 ? context->threads : 1;
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t r = 0; r < rows; r++) {
        if (rs_cancelled(context)) continue;
        if (dense->out_is_row) {
            decode_stretch(weights, out, r * dense->in, dense, vector_of(dense, r), 0, dense->in);
            apply_factors(weights, out, r, dense);
            continue;
        }
        for (int64_t u = 0; u < dense->out;) {
            int64_t n = dense->run - u % dense->run;
            if (n > dense->out - u) n = dense->out - u;
            decode_stretch(weights, out, r * dense->out + u, dense, r, vector_of(dense, u), n);
            u += n;
        }
        apply_factors(weights, out, r, dense);
    }
    return rs_check_cancelled(context, err);
}

static rs_status grow_scratch(rs_weights *weights, int slot, size_t bytes, rs_error *err)
{
    if (weights->scratch[slot].bytes >= bytes) return RS_OK;
    rs_free(weights->scratch[slot].data);
    weights->scratch[slot].bytes = 0;
    weights->scratch[slot].data = rs_malloc(bytes, 1);
    if (!weights->scratch[slot].data) return rs_fail_memory(err, "decoded weights", bytes);
    weights->scratch[slot].bytes = bytes;
    return RS_OK;
}

/* Entries of a bias in the order of the map's outputs. */
static rs_status map_bias(rs_dense_map *map, rs_weights *weights, const rs_dense *dense,
                          rs_error *err)
{
    if (!dense->bias) return RS_OK;
    if (!dense->factors && dense->run >= dense->out && in_place(weights, dense->bias)) {
        map->bias = dense->bias->data + (size_t)dense->first * weights->size;
        return RS_OK;
    }
    weight_key key = {dense->bias, NULL,          dense->factors, dense->first,
                      dense->run,  dense->stride, dense->out,     1};
    entry *e = find_entry(weights, &key);
    if (!e) {
        RS_TRY(add_entry(&e, weights, &key, (size_t)dense->out * weights->size, err));
        weights->decoded += e->bytes;
        for (int64_t u = 0; u < dense->out; u++) {
            decode(weights, e->data, u, dense->bias, vector_of(dense, u), 1);
            if (dense->factors) multiply(weights, e->data, u, 1, rs_dense_factor_of(dense, u).bias);
        }
    }
    map->bias = e->data;
    return RS_OK;
}

rs_status rs_weights_map(rs_dense_map *map, rs_weights *weights, const rs_dense *dense, int slot,
                         const rs_context *context, rs_error *err)
{
    *map = (rs_dense_map){.ld = dense->cols,
                          .out_is_row = dense->out_is_row,
                          .in = dense->in,
                          .out = dense->out,
                          .first = dense->first,
                          .run = dense->run,
                          .stride = dense->stride};
    RS_TRY(map_bias(map, weights, dense, err));
    if (!dense->scale && !dense->factors && in_place(weights, dense->weight)) {
        map->data = dense->weight->data;
        return RS_OK;
    }
    /* decoded maps hold their own outputs only, one behind the other */
    map->ld = dense->out_is_row ? dense->in : dense->out;
    map->first = 0;
    map->run = map->stride = dense->out;
    weight_key key = {dense->weight, dense->scale,  dense->factors, dense->first,
                      dense->run,    dense->stride, dense->out,     0};
    entry *e = find_entry(weights, &key);
    if (e) {
        map->data = e->data;
        return RS_OK;
    }
    size_t count, bytes;
    if (!rs_size_mul((size_t)dense->in, (size_t)dense->out, &count) ||
        !rs_size_mul(count, weights->size, &bytes))
        return rs_fail_memory(err, dense->weight->name, SIZE_MAX);
    weights->decoded += bytes;
    bool beyond = bytes > weights->limit - weights->kept;
    if (beyond && !weights->holding) {
        RS_TRY(grow_scratch(weights, slot, bytes, err));
        map->data = weights->scratch[slot].data;
        return decode_map(weights, weights->scratch[slot].data, dense, context, err);
    }
    RS_TRY(add_entry(&e, weights, &key, bytes, err));
    map->data = e->data;
    rs_status status = decode_map(weights, e->data, dense, context, err);
    if (status != RS_OK) {
        drop_last(weights, &key);
        return status;
    }
    e->held = beyond;
    weights->held += beyond;
    weights->kept += beyond ? 0 : bytes;
    return RS_OK;
}

rs_status rs_weights_vector(const void **out, rs_weights *weights, const rs_tensor *tensor,
                            int64_t count, rs_error *err)
{
    *out = NULL;
    if (!tensor) return RS_OK;
    if (in_place(weights, tensor)) {
        *out = tensor->data;
        return RS_OK;
    }
    weight_key key = {tensor, NULL, NULL, 0, count, count, count, 1};
    entry *e = find_entry(weights, &key);
    if (!e) {
        RS_TRY(add_entry(&e, weights, &key, (size_t)count * weights->size, err));
        weights->decoded += e->bytes;
        decode(weights, e->data, 0, tensor, 0, count);
    }
    *out = e->data;
    return RS_OK;
}
