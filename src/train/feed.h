/* feed.h: a task's batch as the engine takes one: samples packed one behind the other, and the loss
 * at their targets. */
#ifndef RS_TRAIN_FEED_H
#define RS_TRAIN_FEED_H

#include "engine/gradient.h"
#include "train/settings.h"

typedef struct rs_feed {
    int64_t capacity; /* samples */
    int64_t n_tok, d_in, d_out;
    int64_t *begin;   /* [capacity + 1] */
    int32_t *ids;     /* [capacity * n_tok]; and so on: NULL where the task has none */
    int32_t *targets; /* -1: none */
    double *rows;     /* [capacity * n_tok, d_in] */
    double *values;   /* [capacity * n_tok, d_out]; of classes whose errors are squared 0 and 1 */
    uint8_t *counted;
    rs_batch batch;
    int64_t n_targets;
} rs_feed;

/* squared: the loss is of squared errors. */
rs_status rs_feed_open(rs_feed *out, const rs_task_shape *shape, int64_t capacity, bool squared,
                       rs_error *err);
void rs_feed_close(rs_feed *feed);

/* Packs a batch of at most `capacity` samples: feed->batch, targets and n_targets are its own. */
void rs_feed_pack(rs_feed *feed, const rs_task_batch *batch);

/* The loss of the packed batch, times `weight`: of each target, or of each sample where errors are
 * squared. told: gains the counts. */
rs_loss rs_feed_loss(const rs_feed *feed, const rs_train_settings *settings, double weight,
                     rs_loss_told *told);

#endif
