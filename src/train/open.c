/* open.c: the task of a task file, drawn or of the user's files, and what follows from those. */
#include "train/settings_parts.h"

static rs_status open_files(rs_train_task **out, rs_train_settings *s, const rs_context *context,
                            rs_error *err)
{
    const rs_file_task files = {.name = s->task,
                                .files = s->files,
                                .length = s->data.length,
                                .shuffle = s->data.shuffle,
                                .probe_samples = s->probe_samples,
                                .shares = s->loss == RS_TRAIN_LOSS_CROSS_ENTROPY};
    return rs_task_open_files(out, &files, (uint64_t)s->seed, context, s->path, err);
}

static rs_status open_drawn(rs_train_task **out, const rs_train_settings *s, rs_error *err)
{
    RS_TRY(rs_task_open(out, s->kind, &s->data, (uint64_t)s->seed, s->path, err));
    rs_status status = rs_task_check_batches(*out, s->steps, s->accumulate, s->batch, err);
    if (status == RS_OK) return RS_OK;
    rs_task_close(*out);
    *out = NULL;
    return status;
}

rs_status rs_train_open_task(rs_train_task **out, rs_train_settings *settings,
                             const rs_context *context, rs_error *err)
{
    *out = NULL;
    rs_train_task *task;
    if (settings->kind) return open_drawn(out, settings, err);
    RS_TRY(open_files(&task, settings, context, err));
    settings->shape = *rs_task_sizes(task);
    rs_train_reader r = {settings, err};
    int64_t failures = rs_memory_failures();
    rs_status status = rs_train_settle(&r);
    if (status == RS_OK) status = rs_memory_check(failures, "settings", err);
    if (status != RS_OK)
        rs_task_close(task);
    else
        *out = task;
    return status;
}
