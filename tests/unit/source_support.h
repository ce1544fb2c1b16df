/* source_support.h: tasks of the user's files, opened as a task file says. Include behind cmocka.h. */
#ifndef RS_TEST_SOURCE_SUPPORT_H
#define RS_TEST_SOURCE_SUPPORT_H

#include "case_files.h"
#include "train/settings.h"
#include "train_support.h"

/* A task of files and the settings that it was opened by. */
typedef struct opened {
    rs_train_settings *settings;
    rs_train_task *task;
} opened;

/* "task" with "data" {data} and what else is given, in single quotes. */
static inline json_t *task_file(const char *task, const char *data, const char *rest)
{
    char text[2048];
    snprintf(text, sizeof text, "{'task': '%s', 'data': {%s}%s%s}", task, data, *rest ? ", " : "",
             rest);
    for (char *c = text; *c; c++)
        if (*c == '\'') *c = '"';
    json_error_t why;
    json_t *json = json_loads(text, JSON_REJECT_DUPLICATES, &why);
    if (!json) fail_msg("%s: %s", text, why.text);
    return json;
}

static inline rs_status try_file(opened *out, rs_error *err, const json_t *json)
{
    *out = (opened){0};
    *err = (rs_error){0};
    RS_TRY(rs_train_settings_read(&out->settings, json, "t.json", NULL, 0, err));
    return rs_train_open_task(&out->task, out->settings, NULL, err);
}

static inline rs_status try_open(opened *out, rs_error *err, const char *task, const char *data,
                                 const char *rest)
{
    json_t *json = task_file(task, data, rest);
    rs_status status = try_file(out, err, json);
    json_decref(json);
    return status;
}

static inline void close_opened(opened *o)
{
    rs_task_close(o->task);
    rs_train_settings_close(o->settings);
    *o = (opened){0};
}

static inline opened open_files(const char *task, const char *data, const char *rest)
{
    opened out;
    rs_error err;
    if (try_open(&out, &err, task, data, rest) != RS_OK)
        fail_msg("%s {%s}: %s: %s; %s", task, data, err.where, err.what, err.hint);
    return out;
}

/* A refusal, by its status and parts of what it says. */
typedef struct refusal {
    const char *task, *data, *rest;
    rs_status status;
    const char *where, *what, *hint;
} refusal;

static inline void check_refusal(const refusal *r)
{
    opened out;
    rs_error err;
    rs_status status = try_open(&out, &err, r->task, r->data, r->rest);
    if (status != r->status || !strstr(err.where, r->where) || !strstr(err.what, r->what) ||
        !strstr(err.hint, r->hint))
        fail_msg("%s {%s}: %s: %s: %s; %s", r->task, r->data, rs_status_name(status), err.where,
                 err.what, err.hint);
    assert_null(out.task);
    close_opened(&out);
}

/* Whether two batches of a shape hold the same, of the first `samples`. */
static inline bool same_batches(const rs_task_batch *a, const rs_task_batch *b,
                                const rs_task_shape *s, int64_t samples)
{
    size_t rows = (size_t)(samples * s->n_tok), out = rows * (size_t)s->d_out;
    return (!a->tokens || !memcmp(a->tokens, b->tokens, rows * sizeof(int32_t))) &&
           (!a->rows || !memcmp(a->rows, b->rows, rows * (size_t)s->d_in * sizeof(double))) &&
           (!a->classes || !memcmp(a->classes, b->classes, rows * sizeof(int32_t))) &&
           (!a->values || !memcmp(a->values, b->values, out * sizeof(double))) &&
           !memcmp(a->counted, b->counted, rows) &&
           !memcmp(a->lengths, b->lengths, (size_t)samples * sizeof(int32_t));
}

/* A batch hangs on its set and step alone: not on what was asked for before, nor (for windows at
 * random places) on how many samples it has; another seed gives another. */
static inline void check_keys(const char *task, const char *data, const char *rest)
{
    char other[512];
    snprintf(other, sizeof other, "%s%s'seed': 77", rest, *rest ? ", " : "");
    opened a = open_files(task, data, rest), b = open_files(task, data, rest);
    opened c = open_files(task, data, other);
    const rs_task_shape *shape = rs_task_sizes(a.task);
    bool drawn = shape->train == 0;
    rs_task_batch one = new_batch(a.task, 3), two = new_batch(a.task, 3);
    rs_task_batch wide = new_batch(a.task, 5);
    for (int set = RS_TASK_TRAIN; set <= RS_TASK_PROBE; set++)
        for (int64_t step = 3; step >= 0; step--) {
            fill_batch(&one, a.task, (rs_task_set)set, step);
            fill_batch(&two, b.task, (rs_task_set)set, 3 - step);
            fill_batch(&two, b.task, (rs_task_set)set, step);
            assert_int_equal(one.samples, two.samples);
            assert_true(same_batches(&one, &two, shape, one.samples));
            if (set != RS_TASK_TRAIN) continue;
            fill_batch(&wide, b.task, RS_TASK_TRAIN, step);
            if (drawn) assert_true(same_batches(&one, &wide, shape, 3));
            fill_batch(&two, c.task, RS_TASK_TRAIN, step);
            if (drawn) assert_false(same_batches(&one, &two, shape, 3));
        }
    assert_int_equal(rs_task_epoch(a.task, 3), (shape->train + 2) / 3);
    rs_task_batch_free(&one);
    rs_task_batch_free(&two);
    rs_task_batch_free(&wide);
    close_opened(&a);
    close_opened(&b);
    close_opened(&c);
}

/* Each request for memory refused in turn. */
static inline void check_memory(const char *task, const char *data, const char *rest)
{
    opened out = open_files(task, data, rest);
    close_opened(&out);
    json_t *json = task_file(task, data, rest);
    int64_t blocks = rs_memory_blocks();
    rs_status status = RS_E_NO_MEMORY;
    for (int64_t n = 1; status != RS_OK; n += 1 + n / 40) {
        rs_error err;
        rs_task_mark marks[RS_TASK_MARKS];
        int count;
        rs_memory_fail_at(n);
        status = try_file(&out, &err, json);
        if (status == RS_OK) status = rs_task_marks(marks, &count, out.task, &err);
        rs_memory_fail_at(0);
        close_opened(&out);
        if (status != RS_OK) assert_int_equal(status, RS_E_NO_MEMORY);
        assert_int_equal(rs_memory_blocks(), blocks);
    }
    json_decref(json);
}

#endif
