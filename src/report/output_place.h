/* output_place.h: what the name of an output stands for, and whether it may be written. */
#ifndef RS_REPORT_OUTPUT_PLACE_H
#define RS_REPORT_OUTPUT_PLACE_H

#include "report/output_live.h"
#include "report/result.h"

#include <sys/stat.h>

/* A place that an output names. */
typedef struct rs_place {
    char target[RS_PATH_SIZE]; /* its path, links followed but for those of /proc */
    int descriptor;            /* the descriptor of this process that it is; -1: none */
    bool proc;                 /* it lies in /proc and is no descriptor of this process */
    bool in_model;             /* the name or a link behind it lies in the model's folder */
    bool exists;
    struct stat file; /* set where it exists */
} rs_place;

/* Finds out what PATH is. RS_E_WRITE for names that cannot be (too long, links in a circle). */
rs_status rs_place_find(rs_place *place, const char *path, const rs_input_files *files,
                        rs_error *err);
/* Whether the place is opened and written as it is, being no regular file to be replaced. */
bool rs_place_is_direct(const rs_place *place);
/* Fails with RS_E_OVERWRITES_INPUT where an input would be lost; `bytes` begin what is to be
 * written. */
rs_status rs_place_check(const rs_place *place, const char *path, const rs_input_files *files,
                         const char *bytes, size_t length, rs_error *err);

/* The length of a path's folder with its slash; 0: it has none. */
size_t rs_place_folder(const char *path);
/* Fails with RS_E_WRITE for an errno, with a hint. */
rs_status rs_place_fail(rs_error *err, const char *path, const char *action, int code);

#endif
