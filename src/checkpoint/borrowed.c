/* borrowed.c: a checkpoint of tensors that a caller holds in memory. */
#include "checkpoint/checkpoint.h"
#include "checkpoint/open.h"

#include <string.h>

/* A tensor with gaps between its elements, and the dense copy that readers see. */
typedef struct rs_packing {
    const uint8_t *source;
    uint8_t *copy; /* in the checkpoint's arena */
    const int64_t *shape, *strides;
    uint32_t rank;
    size_t element; /* bytes */
} rs_packing;

static rs_dtype find_dtype(const char *name)
{
    for (int d = RS_DTYPE_UNKNOWN + 1; d < RS_DTYPE_COUNT; d++)
        if (name && strcmp(rs_dtype_info((rs_dtype)d)->name, name) == 0) return (rs_dtype)d;
    return RS_DTYPE_UNKNOWN;
}

/* ---- gaps ---- */

/* Whether the elements lie row-major without gaps: then nothing is copied. */
static bool is_dense(const rs_tensor_data *t)
{
    int64_t expected = 1;
    for (int d = t->strides ? t->rank : 0; d-- > 0;) {
        if (t->shape[d] != 1 && t->strides[d] != expected) return false;
        expected *= t->shape[d];
    }
    return true;
}

static void pack(uint8_t **to, const rs_packing *p, const uint8_t *from, uint32_t dimension)
{
    if (dimension == p->rank) {
        memcpy(*to, from, p->element);
        *to += p->element;
        return;
    }
    int64_t step = p->strides[dimension] * (int64_t)p->element;
    for (int64_t i = 0; i < p->shape[dimension]; i++)
        pack(to, p, from + i * step, dimension + 1);
}

void rs_checkpoint_pack(rs_checkpoint *checkpoint)
{
    for (size_t i = 0; i < checkpoint->n_packings; i++) {
        uint8_t *to = checkpoint->packings[i].copy;
        pack(&to, &checkpoint->packings[i], checkpoint->packings[i].source, 0);
    }
}

static rs_status add_packing(rs_checkpoint *c, rs_tensor *tensor, const rs_tensor_data *from,
                             const rs_dtype_traits *traits, rs_error *err)
{
    if (traits->block != 1 || traits->bits % 8 != 0)
        return rs_fail(err, RS_E_TENSOR_DTYPE, tensor->name, "give it without gaps",
                       "elements of type %s do not stand by themselves, so no strides apply",
                       traits->name);
    rs_packing *p = &c->packings[c->n_packings];
    int64_t *strides = rs_arena_alloc(c->arena, tensor->rank, sizeof *strides);
    uint8_t *copy = rs_arena_alloc(c->arena, tensor->bytes, 1);
    if (!strides || !copy) return rs_fail_memory(err, tensor->name, tensor->bytes);
    memcpy(strides, from->strides, tensor->rank * sizeof *strides);
    *p = (rs_packing){.source = from->data,
                      .copy = copy,
                      .shape = tensor->shape,
                      .strides = strides,
                      .rank = tensor->rank,
                      .element = traits->bits / 8};
    c->n_packings++;
    tensor->data = copy;
    return RS_OK;
}

/* ---- tensors ---- */

/* Shape, count and bytes; nothing that a caller says is trusted to fit. */
static rs_status measure(rs_checkpoint *c, rs_tensor *tensor, const rs_tensor_data *from,
                         const rs_dtype_traits *traits, rs_error *err)
{
    size_t count = 1, bits;
    int64_t *shape = rs_arena_alloc(c->arena, tensor->rank ? tensor->rank : 1, sizeof *shape);
    if (!shape) return rs_fail_memory(err, tensor->name, 0);
    for (uint32_t d = 0; d < tensor->rank; d++) {
        shape[d] = from->shape[d];
        if (shape[d] < 0 || !rs_size_mul(count, (size_t)shape[d], &count) || count > INT64_MAX)
            return rs_fail(err, RS_E_ST_OVERFLOW, tensor->name, NULL,
                           "its dimension %u of %lld does not fit", (unsigned)d,
                           (long long)shape[d]);
    }
    if (traits->block == 0 || count % traits->block != 0)
        return rs_fail(err, RS_E_TENSOR_DTYPE, tensor->name, NULL,
                       "%zu elements are no whole blocks of type %s", count, traits->name);
    if (!rs_size_mul(count / traits->block, traits->bits, &bits))
        return rs_fail(err, RS_E_ST_OVERFLOW, tensor->name, NULL, "its size does not fit");
    tensor->shape = shape;
    tensor->count = (int64_t)count;
    tensor->bytes = bits / 8 + (bits % 8 != 0);
    return RS_OK;
}

static rs_status add_tensor(rs_checkpoint *c, const rs_tensor_data *from, rs_error *err)
{
    if (!from->name)
        return rs_fail(err, RS_E_USAGE, "tensors", NULL, "a tensor has no name (NULL)");
    rs_shown name = rs_show(from->name, strlen(from->name));
    rs_tensor tensor = {.name = rs_arena_strdup(c->arena, from->name),
                        .dtype = find_dtype(from->dtype),
                        .rank = (uint32_t)from->rank,
                        .data = from->data,
                        .type_id = -1};
    if (!tensor.name) return rs_fail_memory(err, name.text, 0);
    if (tensor.dtype == RS_DTYPE_UNKNOWN)
        return rs_fail(err, RS_E_TENSOR_DTYPE, name.text,
                       "give it as safetensors spells it: F32, F16, BF16, F64",
                       "'%.40s' is no type", from->dtype ? from->dtype : "(null)");
    if (from->rank < 0 || from->rank > RS_MAX_RANK)
        return rs_fail(err, RS_E_ST_RANK, name.text, NULL, "%d dimensions", from->rank);
    if (from->rank > 0 && !from->shape)
        return rs_fail(err, RS_E_USAGE, name.text, NULL, "its shape is NULL");
    const rs_dtype_traits *traits = rs_dtype_info(tensor.dtype);
    RS_TRY(measure(c, &tensor, from, traits, err));
    if (tensor.count > 0 && !from->data)
        return rs_fail(err, RS_E_USAGE, name.text, NULL, "its data is NULL");
    if (tensor.count > 0 && !is_dense(from)) RS_TRY(add_packing(c, &tensor, from, traits, err));
    return rs_checkpoint_add(c, &tensor, err);
}

static rs_status add_all(rs_checkpoint *c, const rs_tensor_data *tensors, size_t n, rs_error *err)
{
    size_t gaps = 0;
    for (size_t i = 0; i < n; i++)
        gaps += tensors[i].strides != NULL;
    c->packings = rs_arena_alloc(c->arena, gaps ? gaps : 1, sizeof *c->packings);
    if (!c->packings) return rs_fail_memory(err, "tensors", gaps * sizeof *c->packings);
    for (size_t i = 0; i < n; i++)
        RS_TRY(add_tensor(c, &tensors[i], err));
    return RS_OK;
}

rs_status rs_checkpoint_borrow(rs_checkpoint **out, const rs_tensor_data *tensors, size_t n,
                               json_t *config, rs_error *err)
{
    *out = NULL;
    rs_checkpoint *c = rs_checkpoint_new(RS_FORMAT_MEMORY, "tensors in memory");
    if (!c) return rs_fail_memory(err, "tensors", 0);
    rs_status status = add_all(c, tensors, n, err);
    if (status == RS_OK && config) {
        c->config_path = rs_strdup("config");
        if (!c->config_path) status = rs_fail_memory(err, "config", 0);
    }
    if (status != RS_OK) {
        rs_checkpoint_close(c);
        return status;
    }
    rs_checkpoint_pack(c);
    c->config = config;
    *out = c;
    return RS_OK;
}
