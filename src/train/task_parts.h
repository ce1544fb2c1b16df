/* task_parts.h: what the files of the tasks share; private to task*.c. */
#ifndef RS_TRAIN_TASK_PARTS_H
#define RS_TRAIN_TASK_PARTS_H

#include "train/task.h"

struct rs_mapping;
struct rs_task_file;
struct rs_source;

struct rs_train_task {
    const rs_task_kind *kind; /* NULL: the user's files */
    struct rs_source *source; /* NULL: samples are drawn */
    rs_task_data data;
    rs_task_shape shape;
    uint64_t seed;
    int32_t *scratch;    /* for one sample: `chosen` of its kind */
    double *table;       /* a distribution function, or NULL */
    int64_t *order;      /* [train] of the epoch below, where it is shuffled */
    int64_t order_epoch; /* -1: none yet */
    struct rs_task_file *file;
};

/* What is drawn: the high half of a stream, so that no two of these share a number with each other
 * or with the weights of the same seed (network/init.c). */
enum {
    RS_DRAWS_STREAM = 0x7da7a000,
    RS_DRAWS_SET,
    RS_DRAWS_EVAL,
    RS_DRAWS_PROBE,
    RS_DRAWS_ORDER,
    RS_DRAWS_SPLIT
};
rs_random rs_task_draws(const rs_train_task *task, uint64_t what, int64_t step, int64_t sample);
/* Sample i of a batch. */
rs_task_sample rs_task_sample_of(const rs_task_batch *batch, const rs_task_shape *shape, int64_t i);
/* Sets the batch's samples to part `number` of a set of that many; returns its first. */
int64_t rs_task_part(rs_task_batch *out, int64_t set, int64_t number);
/* The place in its set of sample i of an epoch's training samples. */
int64_t rs_task_in_order(rs_train_task *task, int64_t epoch, int64_t i);
/* Memory for the order of a set that is shuffled. */
rs_status rs_task_take_order(rs_train_task *task, rs_error *err);
rs_status rs_task_check_sets(const rs_task_shape *shape, const rs_task_data *data,
                             const char *where, rs_error *err);

/* A whole number from 0 to below n; the largest uniform number rounds to 1. */
static inline int64_t rs_draw_below(rs_random *random, int64_t n)
{
    int64_t at = (int64_t)(rs_random_uniform(random) * (double)n);
    return at < n ? at : n - 1;
}

/* Draws m different numbers of 0 .. n - 1 into the front of pool [n], in random order (Fisher and
 * Yates). */
void rs_draw_distinct(int32_t *pool, int64_t n, int64_t m, rs_random *random);

/* A number of a file's bytes behind that of the files before it (0: it is the first); never 0. */
uint64_t rs_task_print(uint64_t before, const struct rs_mapping *file);

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
rs_status rs_markov_shape(rs_task_shape *, const rs_task_data *, const char *, rs_error *);
void rs_markov_sample(rs_task_sample *, const rs_train_task *, rs_random *, int64_t);
void rs_sorting_sample(rs_task_sample *, const rs_train_task *, rs_random *, int64_t);
void rs_reversal_sample(rs_task_sample *, const rs_train_task *, rs_random *, int64_t);
void rs_memorization_sample(rs_task_sample *, const rs_train_task *, rs_random *, int64_t);
void rs_hull_sample(rs_task_sample *, const rs_train_task *, rs_random *, int64_t);
void rs_circle_sample(rs_task_sample *, const rs_train_task *, rs_random *, int64_t);
void rs_recall_sample(rs_task_sample *, const rs_train_task *, rs_random *, int64_t);
void rs_mqar_sample(rs_task_sample *, const rs_train_task *, rs_random *, int64_t);
void rs_entry_sample(rs_task_sample *, const rs_train_task *, rs_random *, int64_t);

/* task_markov.c: fills the task's table; entropy of a letter by itself, and given those before it, in
 * nats. */
rs_status rs_markov_tables(rs_train_task *task, rs_error *err);
double rs_markov_unigram(const rs_train_task *task);
rs_status rs_markov_rate(double *out, const rs_train_task *task, rs_error *err);
/* What a letter's two neighbours leave of it, which no reader of the other letters can be below; NaN: it
 * is not known (sources with copies). */
rs_status rs_markov_between(double *out, const rs_train_task *task, rs_error *err);

/* task_file.c: batches that another program wrote. */
rs_status rs_task_file_open(struct rs_task_file **out, const char *path, const rs_task_shape *shape,
                            rs_error *err);
void rs_task_file_close(struct rs_task_file *file);
uint64_t rs_task_file_fingerprint(const struct rs_task_file *file);
rs_status rs_task_file_check(const struct rs_task_file *file, int64_t steps, int64_t accumulate,
                             int64_t batch, rs_error *err);
rs_status rs_task_file_fill(rs_task_batch *out, const struct rs_task_file *file,
                            const rs_task_shape *shape, int64_t step, rs_error *err);

#endif
