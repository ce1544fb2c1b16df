/* feed.c: packs a task's batch. */
#include "train/feed.h"

#include "base/memory.h"

#include <string.h>

/* An array of rows [rows, cols]; nothing where cols is 0. */
static bool take(void **out, int64_t rows, int64_t cols, size_t size)
{
    size_t count;
    if (cols == 0) return true;
    if (!rs_size_mul((size_t)rows, (size_t)cols, &count)) return false;
    *out = rs_malloc(count + 1, size);
    return *out != NULL;
}

rs_status rs_feed_open(rs_feed *out, const rs_task_shape *shape, int64_t capacity, bool squared,
                       rs_error *err)
{
    *out = (rs_feed){
        .capacity = capacity, .n_tok = shape->n_tok, .d_in = shape->d_in, .d_out = shape->d_out};
    bool classes = shape->target == RS_TARGET_CLASSES, ids = shape->vocab > 0;
    int64_t rows = capacity * shape->n_tok;
    if (take((void **)&out->begin, capacity + 1, 1, sizeof *out->begin) &&
        take((void **)&out->ids, rows, ids, sizeof *out->ids) &&
        take((void **)&out->rows, rows, ids ? 0 : shape->d_in, sizeof *out->rows) &&
        take((void **)&out->targets, rows, classes, sizeof *out->targets) &&
        take((void **)&out->values, rows, classes && !squared ? 0 : shape->d_out,
             sizeof *out->values) &&
        take((void **)&out->counted, rows, 1, sizeof *out->counted))
        return RS_OK;
    rs_feed_close(out);
    return rs_fail_memory(err, "a batch", (size_t)rows * sizeof(double));
}

void rs_feed_close(rs_feed *feed)
{
    rs_free(feed->begin);
    rs_free(feed->ids);
    rs_free(feed->rows);
    rs_free(feed->targets);
    rs_free(feed->values);
    rs_free(feed->counted);
    *feed = (rs_feed){0};
}

/* Copies one sample's `length` rows of `cols` entries; NULL arrays are left out. */
static void copy_rows(void *to, int64_t at, const void *from, int64_t first, int64_t length,
                      int64_t cols, size_t size)
{
    if (!to || !from) return;
    size_t row = (size_t)cols * size;
    memcpy((char *)to + (size_t)at * row, (const char *)from + (size_t)first * row,
           (size_t)length * row);
}

/* A class as 0 and 1, for squared errors. */
static void put_class(rs_feed *f, int64_t row)
{
    double *values = f->values + row * f->d_out;
    memset(values, 0, (size_t)f->d_out * sizeof *values);
    if (f->targets[row] >= 0) values[f->targets[row]] = 1;
}

void rs_feed_pack(rs_feed *f, const rs_task_batch *batch)
{
    int64_t at = 0;
    f->n_targets = 0;
    for (int64_t s = 0; s < batch->samples; s++) {
        int64_t first = s * f->n_tok, length = batch->lengths[s];
        f->begin[s] = at;
        copy_rows(f->ids, at, batch->tokens, first, length, 1, sizeof *f->ids);
        copy_rows(f->rows, at, batch->rows, first, length, f->d_in, sizeof *f->rows);
        copy_rows(f->targets, at, batch->classes, first, length, 1, sizeof *f->targets);
        copy_rows(f->values, at, batch->values, first, length, f->d_out, sizeof *f->values);
        copy_rows(f->counted, at, batch->counted, first, length, 1, sizeof *f->counted);
        for (int64_t i = 0; i < length; i++) {
            if (f->targets) f->counted[at + i] = f->targets[at + i] >= 0;
            f->n_targets += f->counted[at + i];
            if (f->targets && f->values) put_class(f, at + i);
        }
        at += length;
    }
    f->begin[batch->samples] = at;
    f->batch = (rs_batch){
        .samples = (int32_t)batch->samples, .begin = f->begin, .ids = f->ids, .rows = f->rows};
}

rs_loss rs_feed_loss(const rs_feed *f, const rs_train_settings *s, double weight,
                     rs_loss_told *told)
{
    double samples = f->batch.samples > 0 ? f->batch.samples : 1;
    double targets = f->n_targets > 0 ? (double)f->n_targets : 1;
    rs_loss loss = {.kind = RS_LOSS_TARGETS,
                    .weight = weight / targets,
                    .targets = f->targets,
                    .values = f->values,
                    .counted = f->counted,
                    .smoothing = s->label_smoothing,
                    .told = told};
    if (s->loss == RS_TRAIN_LOSS_SQUARED) {
        loss.kind = RS_LOSS_SQUARED;
        loss.weight = weight / samples;
    } else if (s->loss == RS_TRAIN_LOSS_HINGE) {
        loss.kind = RS_LOSS_HINGE;
    } else if (f->values) {
        loss.kind = RS_LOSS_SHARES;
    }
    return loss;
}
