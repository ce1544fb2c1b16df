/* run_parts.h: a run while it goes on: what run.c, run_open.c and run_log.c share. */
#ifndef RS_TRAIN_RUN_PARTS_H
#define RS_TRAIN_RUN_PARTS_H

#include "train/alarms.h"
#include "train/journal.h"
#include "train/run.h"
#include "train/saver.h"
#include "train/train.h"

/* An alarm that rang, as the log has it. */
typedef struct rs_alarm_row {
    int64_t step;
    const char *code, *severity;
    int32_t layer; /* -1: of none */
    double value, threshold;
    const char *message, *hint;
} rs_alarm_row;

/* Kinds of rows of the log. */
enum { RS_LOG_STEPS, RS_LOG_RANKS, RS_LOG_LAYERS, RS_LOG_ALARMS, RS_LOG_KINDS };

typedef struct rs_running {
    const rs_run_request *request;
    const rs_train_settings *s;
    const rs_context *context;
    rs_run_outcome *out;
    rs_train_task *task;
    rs_task_batch batch, eval;
    rs_learner learner;
    rs_saver *saver;
    rs_journal *journal;
    rs_journal_kind kinds[RS_LOG_KINDS];
    rs_instruments *instruments; /* NULL: rank_every is 0 */
    rs_alarms *alarms;
    json_t *instruments_before, *alarms_before; /* as they were before this step's batch, where a
                                                   checkpoint may be written inside of it */
    double loss, accuracy;                      /* running means; NaN before the first step */
    double before_loss, before_accuracy;        /* as they were before this step's batch */
    double seconds, clock;                      /* of calls before this one; when this one began */
    double row_clock, row_tokens;               /* since the row before */
    rs_batch_outcome now;
    rs_train_row row;             /* of the step that is being logged */
    bool measured;                /* its instruments wait for what the step changes */
    const rs_alarm_event *events; /* [n_events] that rang at it */
    size_t n_events;
    int64_t rings[RS_ALARMS]; /* how often each alarm of no layer began, and what it was last */
    rs_severity last[RS_ALARMS];
} rs_running;

/* run_open.c */
rs_status rs_run_open(rs_running *r, rs_error *err);
void rs_run_close(rs_running *r);
/* Keeps what a checkpoint of this step has to say, before the step's batch changes it. */
rs_status rs_run_remember(rs_running *r, rs_error *err);
/* What the step has changed is what a checkpoint says from here on. */
void rs_run_forget(rs_running *r);
rs_status rs_run_save(rs_running *r, rs_error *err);
double rs_run_seconds(const rs_running *r);

/* run_log.c: begins the line of a logged step, in front of the step that follows it; *stops: an alarm
 * of stop_on rang. */
rs_status rs_run_log(bool *stops, rs_running *r, rs_error *err);
/* Ends it, behind the step or at the end. */
rs_status rs_run_log_end(rs_running *r, rs_error *err);
/* A row of the log that a run goes on from, of an rs_running: what rang before the break is a finding
 * of the run as much as what rings behind it. */
rs_status rs_run_take_old(void *running, size_t kind, const void *row, rs_error *err);
/* Rings nonfinite_loss. */
rs_status rs_run_ring_not_finite(rs_running *r, rs_error *err);
/* Whether step t of the run is logged, and whether its ranks are measured. */
bool rs_run_is_logged(const rs_running *r, int64_t t);
bool rs_run_is_measured(const rs_running *r, int64_t t);
/* Where `log` has its columns, and the kinds of the log. */
void rs_run_set_kinds(rs_journal_kind kinds[RS_LOG_KINDS]);

#endif
