/*
 * run.h: a training run from its settings to its last checkpoint (docs/train.md).
 *
 * Step t = 0, 1, ... takes the batch of step t, logs (the weights are those before the step), and
 * changes the weights; at the last t the batch is looked at and no step follows.
 */
#ifndef RS_TRAIN_RUN_H
#define RS_TRAIN_RUN_H

#include "report/result.h"
#include "train/learner.h"

/* Why a run ended. */
typedef enum rs_run_ending {
    RS_RUN_DONE,
    RS_RUN_STOPPED,    /* an alarm of stop_on rang */
    RS_RUN_NOT_FINITE, /* the loss or a gradient is NaN or infinite */
    RS_RUN_INTERRUPTED
} rs_run_ending;

/* A logged step. */
typedef struct rs_train_row {
    int64_t step;
    double loss, accuracy; /* running means */
    double batch_loss, batch_accuracy, eval_loss, eval_accuracy;
    double learning_rate, gradient_norm, update_ratio;
    double tokens_per_second, seconds;
} rs_train_row;
enum { RS_TRAIN_COLUMNS = 12 };
extern const rs_column rs_train_columns[RS_TRAIN_COLUMNS];

/* A number that a loss or an accuracy is compared with. */
typedef struct rs_mark_row {
    const char *kind, *name;
    double value;
} rs_mark_row;
enum { RS_MARK_COLUMNS = 3 };
extern const rs_column rs_mark_columns[RS_MARK_COLUMNS];

/* What a caller wants to hear while a run goes on. */
typedef struct rs_run_listener {
    void *user;
    void (*opened)(void *user, const rs_learner *learner, int64_t first_step);
    /* alarm: a sentence, what rang first at this step; or NULL */
    void (*logged)(void *user, const rs_train_row *row, const char *alarm);
} rs_run_listener;

typedef struct rs_run_request {
    rs_train_settings *settings; /* gains what follows from the user's data */
    const char *folder;          /* NULL: nothing is written */
    bool resume; /* go on with the run that is there; a folder with one is refused otherwise */
    rs_result *result;               /* gains tables `log` and others, and findings */
    const rs_run_listener *listener; /* or NULL */
    /* Gives a new run's network other numbers, in front of its first step; or NULL. */
    rs_status (*prepare)(void *user, rs_learner *learner, rs_error *err);
    void *prepare_user;
    /* Sees the network behind the last step of a run that ends as it should, and its task; or NULL. */
    rs_status (*finish)(void *user, rs_learner *learner, rs_train_task *task, rs_error *err);
    void *finish_user;
} rs_run_request;

/* What a run came to. */
typedef struct rs_run_outcome {
    rs_run_ending end;
    int64_t first, step; /* steps made before this call, and behind it */
    int64_t saved;       /* step of the newest checkpoint; -1: there is none */
    double loss, accuracy, seconds;
    double floor;    /* the largest accuracy that needs no learning; NaN: not known */
    char blame[320]; /* NOT_FINITE: where it began */
} rs_run_outcome;

/* Errors: of opening a task, a model or a run that is there; RS_E_WRITE; RS_E_TASK_SCHEMA (a resume
 * with other settings). An end that is no error is said in *out. */
rs_status rs_train_run(rs_run_outcome *out, const rs_run_request *request,
                       const rs_context *context, rs_error *err);

#endif
