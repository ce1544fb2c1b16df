/*
 * kept_runs.h: finished training runs in a SQLite file, so that an experiment of many runs that was
 * killed goes on where it was. A run follows from its task's text alone, seed included, so that what is
 * kept is what it would give again.
 */
#ifndef RS_LAB_KEPT_RUNS_H
#define RS_LAB_KEPT_RUNS_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>

typedef struct rs_kept_runs rs_kept_runs;

/* Opens the file, or makes it; of one that cannot be written to what is there can be taken. Errors: RS_E_WRITE (path names it), also where it is another database
 * or none. */
rs_status rs_kept_runs_open(rs_kept_runs **out, const char *path, rs_error *err);
/* NULL is allowed. */
void rs_kept_runs_close(rs_kept_runs *kept);

/* What is known of a run by its name (experiment and task): true where it is kept, with n numbers. Of
 * another version of the program nothing is. May be called by several threads. */
bool rs_kept_runs_find(rs_kept_runs *kept, const char *experiment, const char *task,
                       double *numbers, size_t n);
/* Keeps a run; it is on the disk when this returns. */
rs_status rs_kept_runs_add(rs_kept_runs *kept, const char *experiment, const char *task,
                           const double *numbers, size_t n, rs_error *err);

/* What fills the numbers of a run that is not kept. */
typedef struct rs_kept_maker {
    void *user;
    rs_status (*run)(void *user, const char *task, rs_error *err);
} rs_kept_maker;
/* Fills numbers [n] from what is kept; a run that is not is made, and kept. kept NULL: it is made.
 * Fails where it could not be kept (RS_E_WRITE), before it is made. */
rs_status rs_kept_runs_take(rs_kept_runs *kept, const char *experiment, const char *task,
                            double *numbers, size_t n, const rs_kept_maker *maker, rs_error *err);

#endif
