/* fuzz_task.c: any bytes as a task file; what is accepted is written and reads back to the same, and
 * a small task draws batches whose ids and classes are in range. */
#include "checkpoint/checkpoint.h"
#include "train/settings.h"

#include <math.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_written(const rs_train_settings *settings)
{
    rs_train_settings *again = NULL;
    rs_error err;
    json_t *written = rs_train_settings_write(settings);
    if (!written || rs_train_settings_read(&again, written, "again", NULL, 0, &err) != RS_OK)
        abort();
    json_t *second = rs_train_settings_write(again);
    if (!second || !json_equal(written, second)) abort();
    json_decref(second);
    json_decref(written);
    rs_train_settings_close(again);
}

static bool is_small(const rs_train_settings *s)
{
    const rs_task_data *d = &s->data;
    return s->kind && !d->batches && d->length <= 256 && d->symbols <= 4096 && d->keys <= 256 &&
           d->values <= 256 && d->train <= 1000 && d->width <= 64 && d->angles <= 4096;
}

static void check_batch(const rs_task_batch *batch, const rs_task_shape *shape)
{
    for (int64_t row = 0; row < batch->samples * shape->n_tok; row++) {
        if (batch->tokens && (batch->tokens[row] < -1 || batch->tokens[row] >= shape->vocab))
            abort();
        if (batch->classes && (batch->classes[row] < -1 || batch->classes[row] >= shape->d_out))
            abort();
        if (batch->counted[row] > 1) abort();
    }
}

static void draw_batches(const rs_train_settings *s)
{
    rs_train_task *task = NULL;
    rs_task_batch batch;
    rs_error err;
    if (rs_task_open(&task, s->kind, &s->data, (uint64_t)s->seed, "memory", &err) != RS_OK) return;
    const rs_task_shape *shape = rs_task_sizes(task);
    if (rs_task_batch_new(&batch, shape, 3, &err) != RS_OK) abort();
    for (int64_t step = 0; step < 2; step++)
        for (int set = RS_TASK_TRAIN; set <= RS_TASK_PROBE; set++) {
            if (rs_task_fill(&batch, task, (rs_task_set)set, step, &err) != RS_OK) abort();
            check_batch(&batch, shape);
        }
    rs_task_batch_free(&batch);
    rs_task_close(task);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    json_t *json;
    rs_error err;
    if (rs_config_parse(&json, "memory", (const char *)data, size, &err) != RS_OK) return 0;
    rs_train_settings *settings = NULL;
    if (rs_train_settings_read(&settings, json, "memory", NULL, 0, &err) == RS_OK) {
        check_written(settings);
        if (is_small(settings)) draw_batches(settings);
        for (int64_t t = 0; t < 8; t++)
            if (isnan(rs_schedule_factor(&settings->schedule, t * 1000)) ||
                isnan(rs_temperature_at(&settings->temperature, t * 1000)))
                abort();
    }
    rs_train_settings_close(settings);
    json_decref(json);
    return 0;
}
