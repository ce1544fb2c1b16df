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
#include <time.h>

/* A file that is mapped. */
typedef struct rs_mapping {
    const uint8_t *data; /* [size]; a valid pointer even when size is 0 */
    size_t size;
    char *path;                        /* the path that was opened */
    int slot;                          /* index into the guard's table; -1 when nothing is mapped */
    uint64_t device, inode;            /* identity of the file, so that no output replaces it */
    struct timespec modified, changed; /* its st_mtime and st_ctime when it was opened */
} rs_mapping;

/* Maps a regular file read-only. Errors: RS_E_NOT_FOUND, RS_E_UNREADABLE (permissions, a directory,
 * a device, a file that has bytes but no size, as in /proc), RS_E_READ, RS_E_NO_MEMORY,
 * RS_E_UNSUPPORTED (more files at once than the guard has room for). Follows symbolic links. */
rs_status rs_mapping_open(rs_mapping **out, const char *path, rs_error *err);
void rs_mapping_close(rs_mapping *mapping); /* NULL is fine */
/* Fails with RS_E_TRUNCATED_WHILE_MAPPED once a page of the file has vanished. Cheap: call it after
 * each tile that was read. */
rs_status rs_mapping_check(const rs_mapping *mapping, rs_error *err);
/* Says, when reading is over, whether all that was read is of one file as it was when it was
 * opened. RS_E_CHANGED_WHILE_READ when its path leads to another file now, or its size or time of
 * modification moved (a write in place, or a cut inside the last page, raises no SIGBUS). *touched
 * (may be NULL): its time of change alone moved, as a new hard link or a chmod does it. */
rs_status rs_mapping_verify(const rs_mapping *mapping, bool *touched, rs_error *err);

/* Whether there is a folder of that name. */
bool rs_is_folder(const char *path);

#endif
