/* memory_checkpoint.h: a checkpoint over bytes in memory instead of a mapped file, for tests and
 * fuzz targets. The bytes are copied into a block of exactly their size, so that the sanitizers see
 * every read beside it. */
#ifndef RS_TEST_MEMORY_CHECKPOINT_H
#define RS_TEST_MEMORY_CHECKPOINT_H

#include "checkpoint/checkpoint.h"

#include <stdlib.h>
#include <string.h>

typedef struct memory_checkpoint {
    rs_checkpoint *checkpoint;
    uint8_t *bytes;
} memory_checkpoint;

/* checkpoint is NULL when memory is out; file 0 holds the bytes and nothing is read yet. */
static inline memory_checkpoint memory_checkpoint_new(const void *bytes, size_t size)
{
    memory_checkpoint memory = {rs_checkpoint_new(RS_FORMAT_SAFETENSORS, "memory"),
                                malloc(size ? size : 1)};
    rs_checkpoint *checkpoint = memory.checkpoint;
    if (!checkpoint || !memory.bytes) return memory;
    if (size) memcpy(memory.bytes, bytes, size);
    checkpoint->files = rs_calloc(1, sizeof *checkpoint->files);
    if (!checkpoint->files) return memory;
    checkpoint->n_files = 1;
    checkpoint->files->name = rs_strdup("memory");
    checkpoint->files->mapping = rs_calloc(1, sizeof *checkpoint->files->mapping);
    if (!checkpoint->files->mapping) return memory;
    *checkpoint->files->mapping =
        (rs_mapping){.data = memory.bytes, .size = size, .path = rs_strdup("memory"), .slot = -1};
    return memory;
}

static inline void memory_checkpoint_free(memory_checkpoint *memory)
{
    /* size 0 keeps the mapping from being unmapped: it never was one */
    if (memory->checkpoint && memory->checkpoint->n_files && memory->checkpoint->files->mapping)
        memory->checkpoint->files->mapping->size = 0;
    rs_checkpoint_close(memory->checkpoint);
    free(memory->bytes);
}

#endif
