/* workspace.h: dividing one block of memory that the caller owns. The same walk with base NULL only
 * adds up what it takes, so that a size function and its user cannot disagree. */
#ifndef RS_LINALG_WORKSPACE_H
#define RS_LINALG_WORKSPACE_H

#include "base/memory.h"

/* The block, and how much of it is taken. */
typedef struct rs_workspace {
    unsigned char *base; /* NULL: what is taken is only added up */
    size_t used;         /* bytes taken so far; SIZE_MAX once the sum left size_t */
} rs_workspace;

/* Takes the next n·size bytes, from a multiple of 64 bytes on; NULL while they are only added
 * up. */
static inline void *rs_workspace_take(rs_workspace *space, size_t n, size_t size)
{
    size_t bytes, end;
    void *block = space->base ? space->base + space->used : NULL;
    bool fits = rs_size_mul(n, size, &bytes) && rs_size_add(bytes, 63, &bytes) &&
                rs_size_add(space->used, bytes & ~(size_t)63, &end);
    space->used = fits ? end : SIZE_MAX;
    return block;
}

static inline double *rs_workspace_doubles(rs_workspace *space, int64_t n)
{
    return (double *)rs_workspace_take(space, (size_t)n, sizeof(double));
}

#endif
