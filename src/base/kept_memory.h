/* kept_memory.h: memory that a call leaves to the next one of the same session. */
#ifndef RS_BASE_KEPT_MEMORY_H
#define RS_BASE_KEPT_MEMORY_H

#include <stdbool.h>
#include <stddef.h>

enum { RS_KEPT_BLOCKS = 128 };

/* A block of memory that some call took and gave back, or holds now. */
typedef struct rs_kept_block {
    void *data;
    size_t bytes;
    bool taken;
} rs_kept_block;

/*
 * Blocks for one thread at a time, zeroed at first. No more is kept than some call has held at
 * once, so that a session of many shapes needs no more memory than its largest call.
 */
typedef struct rs_kept_memory {
    rs_kept_block blocks[RS_KEPT_BLOCKS];
    size_t n;
    size_t taken, kept; /* bytes in use, and bytes that wait */
    size_t most;        /* bytes in use at once, at most so far */
} rs_kept_memory;

/* A block of at least `bytes` bytes, whatever they hold; NULL: there is no memory. Without
 * kept memory (NULL) it is rs_malloc's, and rs_kept_give frees it. */
void *rs_kept_take(rs_kept_memory *kept, size_t bytes);
void rs_kept_give(rs_kept_memory *kept, void *data); /* data NULL is fine */
/* Frees what waits; every block must have been given back. */
void rs_kept_close(rs_kept_memory *kept);

#endif
