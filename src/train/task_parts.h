/* task_parts.h: what the files of the tasks share; private to task*.c. */
#ifndef RS_TRAIN_TASK_PARTS_H
#define RS_TRAIN_TASK_PARTS_H

#include "train/task.h"

struct rs_task_file;

struct rs_train_task {
    const rs_task_kind *kind;
    rs_task_data data;
    rs_task_shape shape;
    uint64_t seed;
    int32_t *scratch;    /* for one sample: `chosen` of its kind */
    double *table;       /* a distribution function, or NULL */
    int64_t *order;      /* [train] of the epoch below, where it is shuffled */
    int64_t order_epoch; /* -1: none yet */
    struct rs_task_file *file;
};

/* A whole number from 0 to below n; the largest uniform number rounds to 1. */
static inline int64_t rs_draw_below(rs_random *random, int64_t n)
{
    int64_t at = (int64_t)(rs_random_uniform(random) * (double)n);
    return at < n ? at : n - 1;
}

/* Draws m different numbers of 0 .. n - 1 into the front of pool [n], in random order (Fisher and
 * Yates). */
void rs_draw_distinct(int32_t *pool, int64_t n, int64_t m, rs_random *random);

/* Refuses settings of a task. */
rs_status rs_task_refuse(const char *where, rs_error *err, const char *format, ...) RS_PRINTF(3, 4);

/* The rows' own functions, file by file. */
rs_status rs_sorting_shape(rs_task_shape *, const rs_task_data *, const char *, rs_error *);
rs_status rs_memorization_shape(rs_task_shape *, const rs_task_data *, const char *, rs_error *);
rs_status rs_hull_shape(rs_task_shape *, const rs_task_data *, const char *, rs_error *);
rs_status rs_circle_shape(rs_task_shape *, const rs_task_data *, const char *, rs_error *);
rs_status rs_recall_shape(rs_task_shape *, const rs_task_data *, const char *, rs_error *);
rs_status rs_mqar_shape(rs_task_shape *, const rs_task_data *, const char *, rs_error *);
rs_status rs_entry_shape(rs_task_shape *, const rs_task_data *, const char *, rs_error *);
void rs_sorting_sample(rs_task_sample *, const rs_train_task *, rs_random *, int64_t);
void rs_reversal_sample(rs_task_sample *, const rs_train_task *, rs_random *, int64_t);
void rs_memorization_sample(rs_task_sample *, const rs_train_task *, rs_random *, int64_t);
void rs_hull_sample(rs_task_sample *, const rs_train_task *, rs_random *, int64_t);
void rs_circle_sample(rs_task_sample *, const rs_train_task *, rs_random *, int64_t);
void rs_recall_sample(rs_task_sample *, const rs_train_task *, rs_random *, int64_t);
void rs_mqar_sample(rs_task_sample *, const rs_train_task *, rs_random *, int64_t);
void rs_entry_sample(rs_task_sample *, const rs_train_task *, rs_random *, int64_t);

/* task_file.c: batches that another program wrote. */
rs_status rs_task_file_open(struct rs_task_file **out, const char *path, const rs_task_shape *shape,
                            rs_error *err);
void rs_task_file_close(struct rs_task_file *file);
rs_status rs_task_file_fill(rs_task_batch *out, const struct rs_task_file *file,
                            const rs_task_shape *shape, int64_t step, rs_error *err);

#endif
