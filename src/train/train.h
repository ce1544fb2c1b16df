/* train.h: what `rankscope train` does with a task: trains (run.h), or says what that would be. */
#ifndef RS_TRAIN_TRAIN_H
#define RS_TRAIN_TRAIN_H

#include "train/run.h"

/* How a run is asked for. */
typedef struct rs_train_options {
    const char *folder;
    bool resume, dry_run;
    const rs_run_listener *listener;
    const char *const *sets; /* [n_sets] what was set over the task, for the command that goes on */
    size_t n_sets;
    const char *stop_on; /* codes; or NULL */
} rs_train_options;

/* Fills the result: tables log (and what belongs to it), or plan and task for a dry run. *stopped:
 * an alarm of stop_on ended the run. Errors: those of rs_train_run; RS_E_NOT_FINITE and
 * RS_E_INTERRUPTED, whose hints name the last checkpoint. */
rs_status rs_train_fill(rs_result *result, bool *stopped, rs_train_settings *settings,
                        const rs_train_options *options, const rs_context *context, rs_error *err);

/* plan.c: tables `plan` and `task`. */
rs_status rs_train_plan(rs_result *result, rs_train_settings *settings, const rs_context *context,
                        rs_error *err);

extern const rs_table_kind rs_train_log_kind, rs_train_plan_kind, rs_train_task_kind,
    rs_train_alarms_kind, rs_train_marks_kind;

#endif
