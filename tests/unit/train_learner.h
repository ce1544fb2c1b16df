/* train_learner.h: a learner with its task and its instruments, as tests open them. Include behind
 * cmocka.h. */
#ifndef RS_TEST_TRAIN_LEARNER_H
#define RS_TEST_TRAIN_LEARNER_H

#include "train_support.h"

#include "train/instruments.h"

#include <stdio.h>
#include <stdlib.h>

typedef struct trial {
    rs_context context;
    rs_train_settings *settings;
    rs_train_task *task;
    rs_learner learner;
    rs_instruments *instruments;
    rs_task_batch batch;
} trial;

/* Associative recall, five samples a batch. model, more: members with ' for " of the task's model
 * and of the task itself. It must not move. */
static inline void open_trial(trial *t, const char *model, const char *more, int threads)
{
    char text[1200];
    int n = snprintf(text, sizeof text,
                     "{'task': 'associative-recall', 'batch': 5, 'steps': 50, 'probe_samples': 3, "
                     "'data': {'keys': 6, 'values': 5, 'pairs': 3, 'queries': 2}, 'model': %s, %s}",
                     model, more);
    assert_true(n > 0 && (size_t)n < sizeof text);
    for (char *c = text; *c; c++)
        if (*c == '\'') *c = '"';
    json_error_t wrong;
    json_t *json = json_loads(text, 0, &wrong);
    if (!json) fail_msg("%s: %s", text, wrong.text);
    rs_error err = {0};
    *t = (trial){.context = {.threads = threads, .seed = 1}};
    if (rs_train_settings_read(&t->settings, json, "test", NULL, 0, &err) != RS_OK)
        fail_msg("%s: %s %s", text, err.where, err.what);
    json_decref(json);
    t->task = open_task("associative-recall", &t->settings->data, 7);
    if (rs_learner_open(&t->learner, t->settings, rs_task_sizes(t->task), &t->context, &err) !=
        RS_OK)
        fail_msg("%s: %s %s", text, err.where, err.what);
    if (rs_instruments_open(&t->instruments, &t->learner, t->task, &err) != RS_OK)
        fail_msg("%s: %s %s", text, err.where, err.what);
    t->batch = new_batch(t->task, 5);
}

static inline void close_trial(trial *t)
{
    rs_task_batch_free(&t->batch);
    rs_instruments_close(t->instruments);
    rs_learner_close(&t->learner);
    rs_task_close(t->task);
    rs_train_settings_close(t->settings);
}

/* The batch of the next step, forward and back. */
static inline void run_batch(trial *t)
{
    rs_error err = {0};
    rs_batch_outcome outcome;
    fill_batch(&t->batch, t->task, RS_TASK_TRAIN, t->learner.step);
    if (rs_learner_batch(&outcome, &t->learner, &t->batch, 0, &err) != RS_OK)
        fail_msg("%s: %s", err.where, err.what);
}

/* The batch, and a reading. */
static inline void read_trial(trial *t)
{
    rs_error err = {0};
    run_batch(t);
    if (rs_instruments_before_step(t->instruments, &err) != RS_OK)
        fail_msg("%s: %s", err.where, err.what);
}

/* The step behind a reading. */
static inline void step_trial(trial *t)
{
    rs_error err = {0};
    rs_learner_clip(&t->learner);
    rs_learner_step(&t->learner);
    assert_int_equal(rs_instruments_after_step(t->instruments, &err), RS_OK);
}

/* Steps that nobody reads. */
static inline void run_steps(trial *t, int n)
{
    for (int k = 0; k < n; k++) {
        run_batch(t);
        rs_learner_clip(&t->learner);
        rs_learner_step(&t->learner);
    }
}

#endif
