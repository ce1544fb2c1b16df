/* train_support.h: what the tests of src/train/ share. Include behind cmocka.h. */
#ifndef RS_TEST_TRAIN_SUPPORT_H
#define RS_TEST_TRAIN_SUPPORT_H

#include "train/task.h"

#include <stdio.h>
#include <string.h>

/* The generator of the published golden inputs: a 64-bit LCG, its upper 53 bits as a number of
 * [0, 1). */
typedef struct lcg {
    uint64_t state;
} lcg;

static inline double lcg_next(lcg *g)
{
    g->state = g->state * 6364136223846793005u + 1442695040888963407u;
    return (double)(g->state >> 11) * 0x1p-53;
}

static inline rs_task_data task_defaults(const char *name)
{
    const rs_task_kind *kind = rs_task_find(name);
    assert_non_null(kind);
    return kind->data;
}

static inline rs_train_task *open_task(const char *name, const rs_task_data *data, uint64_t seed)
{
    rs_error err = {0};
    rs_train_task *task = NULL;
    if (rs_task_open(&task, rs_task_find(name), data, seed, "task", &err) != RS_OK)
        fail_msg("%s: %s", name, err.what);
    return task;
}

static inline rs_task_batch new_batch(const rs_train_task *task, int64_t capacity)
{
    rs_task_batch batch = {0};
    rs_error err = {0};
    assert_int_equal(rs_task_batch_new(&batch, rs_task_sizes(task), capacity, &err), RS_OK);
    return batch;
}

static inline void fill_batch(rs_task_batch *batch, rs_train_task *task, rs_task_set set,
                              int64_t step)
{
    rs_error err = {0};
    if (rs_task_fill(batch, task, set, step, &err) != RS_OK) fail_msg("%s", err.what);
}

/* The mark of that name. */
static inline double mark_of(rs_train_task *task, const char *name)
{
    rs_task_mark marks[RS_TASK_MARKS];
    int count = 0;
    rs_error err = {0};
    assert_int_equal(rs_task_marks(marks, &count, task, &err), RS_OK);
    for (int i = 0; i < count; i++)
        if (strcmp(marks[i].name, name) == 0) return marks[i].value;
    fail_msg("no mark is called '%s'", name);
    return 0;
}

/* Writes a version 1.0 .npy file. */
static inline void write_npy(const char *path, const char *descr, const char *shape,
                             const void *data, size_t bytes)
{
    char header[128];
    int length =
        snprintf(header, sizeof header,
                 "{'descr': '%s', 'fortran_order': False, 'shape': (%s), }\n", descr, shape);
    unsigned char front[10] = {0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0, (unsigned char)length, 0};
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(front, 1, 10, file), 10);
    assert_int_equal(fwrite(header, 1, (size_t)length, file), length);
    assert_int_equal(fwrite(data, 1, bytes, file), bytes);
    assert_int_equal(fclose(file), 0);
}

#endif
