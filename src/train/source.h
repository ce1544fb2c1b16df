/*
 * source.h: samples from the user's files (docs/train.md, Your own data); private to task*.c and
 * source*.c.
 *
 * A sample is found by its place: its number among the samples, or where its window begins, counted
 * in steps over all series one behind the other (a text is one series). Places of training,
 * evaluation and the probe batch share nothing, neither in what goes in nor in targets.
 */
#ifndef RS_TRAIN_SOURCE_H
#define RS_TRAIN_SOURCE_H

#include "base/mapping.h"
#include "base/text.h"
#include "checkpoint/npy.h"
#include "train/task_parts.h"

/* Which places belong to which set. */
typedef struct rs_source_sets {
    bool windows;               /* samples are windows of series, for training at random places */
    int64_t *order;             /* samples, or several series: those of training come first, then
                                   those of evaluation, then the probe's; NULL: one series */
    int64_t train, eval, probe; /* how many of them in each set; of one series 1, 0, 0 */
    int64_t steps;              /* of a series */
    int64_t starts;             /* steps of a series where a training window may begin */
    int64_t stride;             /* steps between windows that are gone through */
    int64_t per_series;         /* windows of a series that was kept back */
    int64_t eval_first, probe_first; /* one series: where these windows begin */
    int64_t n_eval, n_probe;         /* samples of the two sets */
} rs_source_sets;

/* Splits `n` samples by order drawn. `what` is their name for messages. */
rs_status rs_sets_of_samples(struct rs_source *s, int64_t n, const char *what, rs_error *err);
/* Splits `n` series of `steps` each; a window reads `need` steps from its place on, the next begins
 * s->shape.n_tok (for a text in a frame: its own tokens, `stride`) later. */
rs_status rs_sets_of_series(struct rs_source *s, int64_t n, int64_t steps, int64_t stride,
                            int64_t need, const char *what, rs_error *err);
int64_t rs_sets_draw(const rs_source_sets *sets, rs_random *random); /* of training; windows */
int64_t rs_sets_place(const rs_source_sets *sets, rs_task_set set, int64_t number);
/* The training part gone through once: how many samples that is, and the place of one. The last window
 * of a series that is no whole number of them ends where the part does, and lies over the one before:
 * its tokens from *fresh on are new. */
int64_t rs_sets_walk(const rs_source_sets *sets);
int64_t rs_sets_walked(int64_t *fresh, const rs_source_sets *sets, int64_t number);

/* A .npy file. */
typedef struct rs_source_array {
    rs_mapping *file; /* NULL: none */
    rs_npy npy;
    const rs_context *context; /* whoever goes through all of it asks whether to stop; or NULL */
} rs_source_array;

typedef struct rs_source {
    rs_file_task settings;
    const char *where;
    const rs_context *context; /* or NULL */
    const rs_train_task *task;
    /* Writes the sample at a place; where out->rows is NULL, targets alone. */
    void (*put)(rs_task_sample *out, struct rs_source *s, int64_t place, rs_random *random);
    rs_task_shape shape; /* train and eval are the task's */
    rs_source_sets sets;
    rs_buffer said;
    uint64_t fingerprint; /* of the files' bytes */
    /* texts */
    int32_t *ids; /* [n_ids] */
    int64_t n_ids;
    uint32_t *characters; /* [n_characters] */
    int64_t n_characters;
    int32_t *frame; /* [n_before + n_after] special tokens around a window */
    int64_t n_before, n_after;
    int64_t body, masked; /* tokens of a window that are the text's; how many are asked for */
    int32_t mask;         /* id of the token that hides one */
    int32_t *scratch;     /* [body] */
    /* arrays */
    rs_source_array x, y;
    double scale;  /* of x, where it holds whole numbers */
    int64_t cols;  /* numbers of one step of x */
    bool per_step; /* y has a target for each step, not for each sample */
    int64_t channels, height, width;
    bool channels_last;
} rs_source;

rs_status rs_source_fill(rs_task_batch *out, rs_train_task *task, rs_task_set set, int64_t step,
                         rs_error *err);
rs_status rs_source_marks(rs_task_mark out[RS_TASK_MARKS], int *count, rs_train_task *task,
                          rs_error *err);
void rs_source_close(rs_source *source); /* NULL is fine */
/* Appends a sentence to what is said. */
void rs_source_say(rs_source *s, const char *format, ...) RS_PRINTF(2, 3);
/* Takes a file's bytes into the fingerprint. */
void rs_source_print(rs_source *s, const rs_mapping *file);
/* Refuses a field that was not given. */
rs_status rs_source_missing(const rs_source *s, const char *field, const char *what, rs_error *err);

/* The tasks' openers: read the files, set shape, sets and put. */
rs_status rs_source_characters(rs_source *s, rs_error *err);
rs_status rs_source_tokenised(rs_source *s, rs_error *err); /* bpe-lm and mlm */
rs_status rs_source_images(rs_source *s, rs_error *err);
rs_status rs_source_series(rs_source *s, rs_error *err);
rs_status rs_source_tokens(rs_source *s, rs_error *err);

/* source_arrays.c. Opens the file of a field: an array with elements, all finite (none: NaN is
 * allowed). */
rs_status rs_source_array_open(rs_source_array *out, rs_source *s, const char *field,
                               const char *path, rs_error *err);
rs_status rs_source_check_reals(const rs_source_array *array, bool none, rs_error *err);
/* Refuses elements, by the first of them. */
rs_status rs_source_bad_element(const rs_source_array *array, int64_t at, const char *wanted,
                                rs_error *err);
/* Elements as reals; whole numbers times `scale`. */
void rs_source_reals(double *out, const rs_npy *array, int64_t first, int64_t count, double scale);
/* The least and the largest of an array of whole numbers. */
rs_status rs_source_range(int64_t *least, int64_t *most, const rs_source_array *array,
                          rs_error *err);
/* Opens y, the targets of n samples of `steps` tokens each, and sets target, d_out and per_step by
 * its type and shape. one: x is one series, so y has no axis of samples. */
rs_status rs_source_targets(rs_source *s, int64_t n, int64_t steps, bool one, rs_error *err);
/* Writes the targets of `steps` tokens from `first` on (counted over all samples), or a sample's one
 * target. */
void rs_source_put_targets(rs_task_sample *out, const rs_source *s, int64_t first, int64_t sample);

#endif
