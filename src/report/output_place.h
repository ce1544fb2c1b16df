/* output_place.h: what the name of an output stands for, and whether it may be written. */
#ifndef RS_REPORT_OUTPUT_PLACE_H
#define RS_REPORT_OUTPUT_PLACE_H

#include "report/output_live.h"
#include "report/result.h"

#include <sys/stat.h>

typedef struct rs_place {
    char target[RS_PATH_SIZE]; /* links followed, but for those of /proc */
    int descriptor;            /* of this process, or -1 */
    bool proc;                 /* in /proc, and no descriptor of this process */
    bool in_model;             /* the name or a link behind it lies in the model's folder */
    bool exists;
    struct stat file; /* where it exists */
} rs_place;

/* Finds out what PATH is. RS_E_WRITE: names that cannot be (too long, links in a circle). */
rs_status rs_place_find(rs_place *place, const char *path, const rs_input_files *files,
                        rs_error *err);
/* No regular file to be replaced: it is opened and written as it is. */
bool rs_place_is_direct(const rs_place *place);
/* RS_E_OVERWRITES_INPUT where an input would be lost; `bytes` begin what is to be written. */
rs_status rs_place_check(const rs_place *place, const char *path, const rs_input_files *files,
                         const char *bytes, size_t length, rs_error *err);

/* The folder part of a path with its slash, 0 when it has none. */
size_t rs_place_folder(const char *path);
/* RS_E_WRITE for an errno, with a hint. */
rs_status rs_place_fail(rs_error *err, const char *path, const char *action, int code);

#endif
