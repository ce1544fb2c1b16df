/*
 * mapping.h: files mapped read-only, and what happens when one shrinks under us.
 *
 * A page of a mapping that lies beyond the end of its file raises SIGBUS when touched.
 * rs_guard_install puts in a handler that, for addresses inside our mappings only, replaces the
 * page by zeros and marks the mapping damaged; the reader then finds RS_E_TRUNCATED_WHILE_MAPPED at
 * its next rs_mapping_check. All other SIGBUS go where they went before.
 */
#ifndef RS_BASE_MAPPING_H
#define RS_BASE_MAPPING_H

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

typedef struct rs_mapping {
    const uint8_t *data; /* size bytes; a valid pointer even when size is 0 */
    size_t size;
    char *path; /* as opened */
    int slot;   /* index into the guard's table, -1 when it is full */
    uint64_t device,
        inode; /* identity of the file, so that an output can be refused that is also an input */
} rs_mapping;

/* Maps a regular file read-only. Errors: RS_E_NOT_FOUND, RS_E_UNREADABLE (permissions, a directory,
 * a device), RS_E_READ, RS_E_NO_MEMORY. Follows symbolic links. */
rs_status rs_mapping_open(rs_mapping **out, const char *path, rs_error *err);
void rs_mapping_close(rs_mapping *mapping); /* NULL is fine */
/* RS_OK, or RS_E_TRUNCATED_WHILE_MAPPED once a page of it has vanished. Cheap: call it after each
 * tile that was read. */
rs_status rs_mapping_check(const rs_mapping *mapping, rs_error *err);

#endif
