/* gguf_builder.h: GGUF files written byte by byte in memory, right or wrong as a test wants them.
 */
#ifndef RS_TESTS_GGUF_BUILDER_H
#define RS_TESTS_GGUF_BUILDER_H

#include "base/memory.h"
#include "base/text.h"
#include "checkpoint/checkpoint.h"

#include <stdlib.h>
#include <string.h>

enum { U8, I8, U16, I16, U32, I32, F32, BOOL, STRING, ARRAY, U64, I64, F64 };

static inline void put(rs_buffer *b, uint64_t value, int bytes)
{
    for (int i = 0; i < bytes; i++)
        rs_buffer_append(b, &(char){(char)(value >> 8 * i)}, 1);
}

static inline void put_text(rs_buffer *b, const char *text, size_t length)
{
    put(b, length, 8);
    rs_buffer_append(b, text, length);
}

static inline void put_string(rs_buffer *b, const char *text)
{
    put_text(b, text, strlen(text));
}

static inline void put_header(rs_buffer *b, uint32_t version, uint64_t tensors, uint64_t pairs)
{
    rs_buffer_puts(b, "GGUF");
    put(b, version, 4);
    put(b, tensors, 8);
    put(b, pairs, 8);
}

/* A key and the type of its value, which the caller puts behind it. */
static inline void put_key(rs_buffer *b, const char *key, uint32_t type)
{
    put_string(b, key);
    put(b, type, 4);
}

static inline void put_array(rs_buffer *b, const char *key, uint32_t type, uint64_t count)
{
    put_key(b, key, ARRAY);
    put(b, type, 4);
    put(b, count, 8);
}

/* ne: dims numbers, the fastest first. */
static inline void put_tensor(rs_buffer *b, const char *name, uint32_t dims, const uint64_t *ne,
                              uint32_t type, uint64_t offset)
{
    put_string(b, name);
    put(b, dims, 4);
    for (uint32_t i = 0; i < dims; i++)
        put(b, ne[i], 8);
    put(b, type, 4);
    put(b, offset, 8);
}
#define NE(...)                                                                                    \
    (const uint64_t[])                                                                             \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }

static inline void put_zeros(rs_buffer *b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        rs_buffer_append(b, "", 1);
}

static inline void put_padding(rs_buffer *b, size_t alignment)
{
    while (b->length % alignment)
        put_zeros(b, 1);
}

/* One tensor and `data` bytes behind the padded header. */
static inline rs_buffer one_tensor(uint32_t dims, const uint64_t *ne, uint32_t type,
                                   uint64_t offset, size_t data)
{
    rs_buffer b = {0};
    put_header(&b, 3, 1, 0);
    put_tensor(&b, "blk.0.attn_q.weight", dims, ne, type, offset);
    put_padding(&b, 32);
    put_zeros(&b, data);
    return b;
}

/* A scalar of that name. */
static inline rs_buffer named(const char *name, size_t length)
{
    rs_buffer b = {0};
    put_header(&b, 3, 1, 0);
    put_text(&b, name, length);
    put(&b, 0, 4);
    put(&b, 0, 4);
    put(&b, 0, 8);
    put_padding(&b, 32);
    put_zeros(&b, 4);
    return b;
}

/* Reads the bytes as file 0 of a new checkpoint. They are copied to a block of exactly their size,
 * so that a sanitizer sees each read beyond them. *out is to be given to close_bytes whatever the
 * status; it is NULL when memory was out from the start. */
static inline rs_status open_bytes(rs_checkpoint **out, const void *bytes, size_t size,
                                   rs_error *err)
{
    rs_checkpoint *checkpoint = *out = rs_checkpoint_new(RS_FORMAT_GGUF, "memory.gguf");
    if (!checkpoint) return RS_E_NO_MEMORY;
    checkpoint->files = rs_calloc(1, sizeof *checkpoint->files);
    if (!checkpoint->files) return RS_E_NO_MEMORY;
    checkpoint->n_files = 1;
    rs_checkpoint_file *file = &checkpoint->files[0];
    file->name = rs_strdup("memory.gguf");
    file->mapping = rs_calloc(1, sizeof *file->mapping);
    if (!file->name || !file->mapping) return RS_E_NO_MEMORY;
    file->mapping->path = rs_strdup("memory.gguf");
    void *copy = malloc(size ? size : 1);
    if (!file->mapping->path || !copy) {
        free(copy);
        return RS_E_NO_MEMORY;
    }
    if (size) memcpy(copy, bytes, size);
    *file->mapping =
        (rs_mapping){.data = copy, .size = size, .path = file->mapping->path, .slot = -1};
    return rs_gguf_read(checkpoint, 0, err);
}

static inline void close_bytes(rs_checkpoint *checkpoint)
{
    if (checkpoint && checkpoint->files && checkpoint->files[0].mapping) {
        rs_mapping *mapping = checkpoint->files[0].mapping;
        free((void *)(uintptr_t)mapping->data);
        mapping->data = NULL;
        mapping->size = 0; /* nothing to unmap */
    }
    rs_checkpoint_close(checkpoint);
}

#endif
