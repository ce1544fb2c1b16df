/* kept_memory.c: the smallest block that fits serves a call, unless half of it would be idle. */
#include "base/kept_memory.h"

#include "base/memory.h"

static void drop(rs_kept_memory *w, size_t i)
{
    w->kept -= w->blocks[i].bytes;
    rs_free(w->blocks[i].data);
    w->blocks[i] = w->blocks[--w->n];
}

/* Blocks that wait make room for those in use. */
static void trim(rs_kept_memory *w)
{
    for (size_t i = 0; i < w->n && w->taken + w->kept > w->most;)
        if (w->blocks[i].taken)
            i++;
        else
            drop(w, i);
}

static rs_kept_block *waiting(rs_kept_memory *w, size_t bytes)
{
    rs_kept_block *best = NULL;
    for (size_t i = 0; i < w->n; i++) {
        rs_kept_block *b = &w->blocks[i];
        bool fits = !b->taken && b->bytes >= bytes && b->bytes / 2 <= bytes;
        if (fits && (!best || b->bytes < best->bytes)) best = b;
    }
    return best;
}

void *rs_kept_take(rs_kept_memory *w, size_t bytes)
{
    if (!w) return rs_malloc(bytes, 1);
    rs_kept_block *block = waiting(w, bytes);
    if (block) {
        w->kept -= block->bytes;
    } else {
        if (w->n == RS_KEPT_BLOCKS) return rs_malloc(bytes, 1); /* given back, it is freed */
        void *data = rs_malloc(bytes, 1);
        if (!data) return NULL;
        block = &w->blocks[w->n++];
        *block = (rs_kept_block){.data = data, .bytes = bytes};
    }
    block->taken = true;
    w->taken += block->bytes;
    if (w->taken > w->most) w->most = w->taken;
    void *data = block->data;
    trim(w);
    return data;
}

void rs_kept_give(rs_kept_memory *w, void *data)
{
    for (size_t i = 0; w && data && i < w->n; i++) {
        rs_kept_block *b = &w->blocks[i];
        if (b->data != data) continue;
        b->taken = false;
        w->taken -= b->bytes;
        w->kept += b->bytes;
        return;
    }
    rs_free(data);
}

void rs_kept_close(rs_kept_memory *w)
{
    while (w->n > 0)
        drop(w, w->n - 1);
    *w = (rs_kept_memory){0};
}
