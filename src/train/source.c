/* source.c: opening tasks whose data are the user's files, and batches of their samples. */
#include "train/source.h"

#include "base/memory.h"

#include <stdio.h>
#include <string.h>

/* ---- opening ---- */

static const struct {
    const char *name;
    rs_status (*open)(rs_source *s, rs_error *err);
} sources[] = {{"char-lm", rs_source_characters}, {"bpe-lm", rs_source_tokenised},
               {"mlm", rs_source_tokenised},      {"image", rs_source_images},
               {"series", rs_source_series},      {"tokens", rs_source_tokens}};

void rs_source_say(rs_source *s, const char *format, ...)
{
    char text[256];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    if (s->said.length) rs_buffer_puts(&s->said, "; ");
    rs_buffer_puts(&s->said, text);
}

rs_status rs_source_missing(const rs_source *s, const char *field, const char *what, rs_error *err)
{
    char hint[96];
    snprintf(hint, sizeof hint, "set \"data.%s\" in the task file, or by --set", field);
    return rs_fail(err, RS_E_TASK_SCHEMA, s->where, hint, "%s needs \"%s\": %s", s->settings.name,
                   field, what);
}

static rs_status open_source(rs_train_task *task, rs_error *err)
{
    rs_source *s = task->source;
    size_t i = 0, n = sizeof sources / sizeof *sources;
    while (i < n && strcmp(sources[i].name, s->settings.name) != 0)
        i++;
    if (i == n) return rs_task_refuse(s->where, err, "%.60s reads no files", s->settings.name);
    RS_TRY(sources[i].open(s, err));
    if (s->said.failed) return rs_fail_memory(err, "a task", s->said.length);
    s->shape.train = s->sets.windows ? 0 : s->sets.train;
    s->shape.eval = s->sets.n_eval;
    s->shape.probe = s->sets.n_probe;
    if (s->ids) s->shape.held = (uint64_t)s->n_ids * sizeof *s->ids;
    task->shape = s->shape;
    task->data = (rs_task_data){.length = s->shape.n_tok,
                                .train = s->shape.train,
                                .eval = s->shape.eval,
                                .shuffle = s->settings.shuffle};
    RS_TRY(rs_task_check_sets(&task->shape, &task->data, s->where, err));
    return rs_task_take_order(task, err);
}

rs_status rs_task_open_files(rs_train_task **out, const rs_file_task *settings, uint64_t seed,
                             const rs_context *context, const char *where, rs_error *err)
{
    *out = NULL;
    rs_train_task *task = rs_calloc(1, sizeof *task);
    rs_source *s = task ? rs_calloc(1, sizeof *s) : NULL;
    if (!s) {
        rs_free(task);
        return rs_fail_memory(err, "a task", sizeof *task + sizeof *s);
    }
    *s = (rs_source){
        .settings = *settings, .where = where, .context = context, .task = task, .scale = 1};
    *task = (rs_train_task){.source = s, .seed = seed, .order_epoch = -1};
    rs_status status = open_source(task, err);
    if (status != RS_OK)
        rs_task_close(task);
    else
        *out = task;
    return status;
}

void rs_source_close(rs_source *s)
{
    if (!s) return;
    rs_mapping_close(s->x.file);
    rs_mapping_close(s->y.file);
    rs_buffer_free(&s->said);
    rs_free(s->sets.order);
    rs_free(s->ids);
    rs_free(s->characters);
    rs_free(s->frame);
    rs_free(s->scratch);
    rs_free(s);
}

const char *rs_task_said(const rs_train_task *task)
{
    return task->source && task->source->said.data ? task->source->said.data : "";
}

/* FNV-1a's way over words of eight bytes, the last one filled up with zeros, and the length. */
uint64_t rs_task_print(uint64_t before, const rs_mapping *file)
{
    const uint64_t prime = 0x100000001b3u;
    uint64_t hash = before ^ 0xcbf29ce484222325u;
    for (size_t at = 0; at < file->size; at += 8) {
        uint64_t word = 0;
        memcpy(&word, file->data + at, file->size - at < 8 ? file->size - at : 8);
        hash = (hash ^ word) * prime;
        hash ^= hash >> 32;
    }
    hash = (hash ^ file->size) * prime;
    return hash ? hash : 1;
}

void rs_source_print(rs_source *s, const rs_mapping *file)
{
    s->fingerprint = rs_task_print(s->fingerprint, file);
}

uint64_t rs_task_fingerprint(const rs_train_task *task)
{
    if (task->source) return task->source->fingerprint;
    return task->file ? rs_task_file_fingerprint(task->file) : 0;
}

const uint32_t *rs_task_characters(const rs_train_task *task, int64_t *n)
{
    *n = task->source ? task->source->n_characters : 0;
    return task->source ? task->source->characters : NULL;
}

/* ---- batches ---- */

static void put_sample(rs_task_sample *out, rs_source *s, int64_t place, rs_random *random)
{
    *out->length = (int32_t)s->shape.n_tok;
    memset(out->counted, 1, (size_t)s->shape.n_tok);
    s->put(out, s, place, random);
    for (int64_t t = 0; out->classes && t < s->shape.n_tok; t++)
        out->counted[t] = out->classes[t] >= 0;
}

/* Training windows are at places drawn, by the step and the sample alone. */
static void fill_windows(rs_task_batch *out, rs_train_task *task, int64_t step)
{
    rs_source *s = task->source;
    out->samples = out->capacity;
    for (int64_t i = 0; i < out->samples; i++) {
        rs_task_sample sample = rs_task_sample_of(out, &task->shape, i);
        rs_random random = rs_task_draws(task, RS_DRAWS_STREAM, step, i);
        put_sample(&sample, s, rs_sets_draw(&s->sets, &random), &random);
    }
}

static void fill_set(rs_task_batch *out, rs_train_task *task, rs_task_set set, int64_t step)
{
    static const uint64_t draws[] = {RS_DRAWS_SET, RS_DRAWS_EVAL, RS_DRAWS_PROBE};
    rs_source *s = task->source;
    int64_t epoch = 0, number = step, samples = task->shape.train;
    if (set == RS_TASK_TRAIN) {
        int64_t steps = rs_task_epoch(task, out->capacity);
        epoch = step / steps, number = step % steps;
    } else {
        samples = set == RS_TASK_EVAL ? s->sets.n_eval : s->sets.n_probe;
    }
    int64_t first = rs_task_part(out, samples, number);
    for (int64_t i = 0; i < out->samples; i++) {
        int64_t at = first + i;
        if (set == RS_TASK_TRAIN) at = rs_task_in_order(task, epoch, at);
        rs_task_sample sample = rs_task_sample_of(out, &task->shape, i);
        rs_random random = rs_task_draws(task, draws[set], 0, at);
        put_sample(&sample, s, rs_sets_place(&s->sets, set, at), &random);
    }
}

rs_status rs_source_fill(rs_task_batch *out, rs_train_task *task, rs_task_set set, int64_t step,
                         rs_error *err)
{
    const rs_source *s = task->source;
    if (set == RS_TASK_TRAIN && s->sets.windows)
        fill_windows(out, task, step);
    else
        fill_set(out, task, set, step);
    if (s->x.file) RS_TRY(rs_mapping_check(s->x.file, err));
    return s->y.file ? rs_mapping_check(s->y.file, err) : RS_OK;
}
