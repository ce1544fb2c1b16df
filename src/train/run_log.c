/* run_log.c: what a run says at a logged step. */
#include "train/run_parts.h"

#include "base/clock.h"
#include "base/memory.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define COLUMN(member, title, unit, formula)                                                       \
    RS_COLUMN(rs_train_row, member, #member, title, unit, formula, NULL)
const rs_column rs_train_columns[RS_TRAIN_COLUMNS] = {
    COLUMN(step, "step", NULL, "steps made before this row's batch"),
    COLUMN(loss, "loss", "nats", "running mean of batch_loss: .98 of the one before + .02"),
    COLUMN(accuracy, NULL, NULL, "running mean of batch_accuracy: .98 of the one before + .02"),
    COLUMN(batch_loss, "loss of the batch", "nats", "mean over the targets of the step's batches"),
    COLUMN(batch_accuracy, "accuracy of the batch", NULL,
           "share of targets that are the largest output"),
    COLUMN(eval_loss, "loss of evaluation", "nats", "mean over the targets of the evaluation set"),
    COLUMN(eval_accuracy, "accuracy of evaluation", NULL,
           "share of targets of the evaluation set that are the largest output"),
    COLUMN(learning_rate, "learning rate", NULL, "lr times the schedule's factor"),
    COLUMN(gradient_norm, "norm of the gradient", NULL, "of all weights, before clipping"),
    COLUMN(update_ratio, "update", NULL,
           "norm of what the step changed, divided by that of the weights that are trained (not "
           "frozen)"),
    COLUMN(tokens_per_second, "tokens a second", NULL, "since the row before"),
    COLUMN(seconds, NULL, "s", "of training, over all calls that resumed it"),
};

#define ALARM(member, title, formula)                                                              \
    RS_COLUMN(rs_alarm_row, member, #member, title, NULL, formula, NULL)
static const rs_column alarm_columns[] = {
    ALARM(step, NULL, "at which it rang"),
    ALARM(code, NULL, "which alarm"),
    ALARM(severity, NULL, "warn; critical at once, or once it has lasted"),
    ALARM(layer, NULL, "from 0; null: of no layer"),
    ALARM(value, NULL, "what was measured"),
    ALARM(threshold, NULL, "what it was compared with"),
    ALARM(message, NULL, "a sentence"),
    ALARM(hint, "what to try", "what to try"),
};
enum { ALARM_COLUMNS = sizeof alarm_columns / sizeof *alarm_columns };
const rs_table_kind rs_train_alarms_kind = {"train", "alarms", {RS_PART(alarm_columns)}};

#define MARK(member, formula) RS_COLUMN(rs_mark_row, member, #member, NULL, NULL, formula, NULL)
const rs_column rs_mark_columns[RS_MARK_COLUMNS] = {
    MARK(kind, "which number it is compared with"),
    MARK(name, "what gives it"),
    MARK(value, "docs/train.md, Floors and ceilings"),
};
const rs_table_kind rs_train_marks_kind = {"train", "marks", {RS_PART(rs_mark_columns)}};

void rs_run_set_kinds(rs_journal_kind kinds[RS_LOG_KINDS])
{
    const rs_column_part *ranks = &rs_train_ranks_kind.parts[0];
    const rs_column_part *layers = &rs_train_layers_kind.parts[0];
    kinds[RS_LOG_STEPS] = (rs_journal_kind){"log", rs_train_columns, RS_TRAIN_COLUMNS};
    kinds[RS_LOG_RANKS] = (rs_journal_kind){"ranks", ranks->columns, ranks->n};
    kinds[RS_LOG_LAYERS] = (rs_journal_kind){"layers", layers->columns, layers->n};
    kinds[RS_LOG_ALARMS] = (rs_journal_kind){"alarms", alarm_columns, ALARM_COLUMNS};
}

static rs_status evaluate(rs_running *r, rs_train_row *row, rs_error *err)
{
    double loss = 0, right = 0, count = 0, units = 0;
    bool by_sample = r->s->loss == RS_TRAIN_LOSS_SQUARED;
    for (int64_t i = 0;; i++) {
        rs_batch_outcome one;
        RS_TRY(rs_task_fill(&r->eval, r->task, RS_TASK_EVAL, i, err));
        if (r->eval.samples == 0) break;
        RS_TRY(rs_learner_evaluate(&one, &r->learner, &r->eval, err));
        double n = by_sample ? (double)r->eval.samples : (double)one.targets;
        loss += one.loss * n, units += n;
        right += one.accuracy * (double)one.targets, count += (double)one.targets;
    }
    row->eval_loss = loss / units;
    row->eval_accuracy = right / count;
    return RS_OK;
}

bool rs_run_is_measured(const rs_running *r, int64_t t)
{
    return r->instruments && (t % r->s->rank_every == 0 || t == r->s->steps);
}

static bool is_evaluated(const rs_running *r, int64_t t)
{
    int64_t every = r->s->eval_every;
    return every > 0 && (t % every == 0 || t == r->s->steps);
}

bool rs_run_is_logged(const rs_running *r, int64_t t)
{
    return t % r->s->log_every == 0 || t == r->s->steps || rs_run_is_measured(r, t) ||
           is_evaluated(r, t);
}

static void fill_row(rs_running *r)
{
    double now = rs_seconds(), passed = now - r->row_clock;
    r->row = (rs_train_row){.step = r->learner.step,
                            .loss = r->loss,
                            .accuracy = r->accuracy,
                            .batch_loss = r->now.loss,
                            .batch_accuracy = r->now.accuracy,
                            .eval_loss = NAN,
                            .eval_accuracy = NAN,
                            .learning_rate = r->learner.rate,
                            .gradient_norm = r->learner.norm,
                            .update_ratio = NAN,
                            .tokens_per_second = passed > 0 ? r->row_tokens / passed : NAN,
                            .seconds = rs_run_seconds(r)};
    r->row_clock = now;
    r->row_tokens = 0;
}

/* A critical event behind a warning is that warning, which has lasted. */
static rs_status add_finding(rs_running *r, const rs_alarm_event *event, rs_error *err)
{
    rs_alarm_kind kind = event->kind;
    bool lasts = event->severity == RS_CRITICAL && r->last[kind] == RS_WARN;
    if (!lasts) r->rings[kind]++;
    r->last[kind] = event->severity;
    const rs_finding finding = rs_alarm_finding(event, r->rings[kind]);
    return r->request->result ? rs_result_add_finding(r->request->result, &finding, err) : RS_OK;
}

rs_status rs_run_take_old(void *running, size_t kind, const void *row, rs_error *err)
{
    const rs_alarm_row *alarm = row;
    if (kind != RS_LOG_ALARMS || !alarm->code || !alarm->severity || !alarm->message) return RS_OK;
    rs_alarm_event event = {.kind = rs_alarm_find(alarm->code),
                            .severity =
                                strcmp(alarm->severity, "critical") == 0 ? RS_CRITICAL : RS_WARN,
                            .step = alarm->step,
                            .layer = alarm->layer,
                            .value = alarm->value,
                            .threshold = alarm->threshold,
                            .hint = alarm->hint};
    if (event.kind == RS_ALARMS) return RS_OK; /* of another version of the program */
    snprintf(event.message, sizeof event.message, "%s", alarm->message);
    return add_finding(running, &event, err);
}

/* Rings what there is to ring; reading NULL: nothing was measured. */
static rs_status ring(bool *stops, rs_running *r, const rs_instrument_reading *reading,
                      rs_error *err)
{
    const rs_alarm_loss loss = {r->loss, r->now.loss, r->now.targets > 0};
    r->events = rs_alarms_feed(&r->n_events, r->alarms, r->learner.step, &loss, reading);
    for (size_t i = 0; i < r->n_events; i++) {
        RS_TRY(add_finding(r, &r->events[i], err));
        for (int64_t k = 0; k < r->s->stop_on.n; k++)
            if (rs_alarm_find(r->s->stop_on.items[k]) == r->events[i].kind) *stops = true;
    }
    return RS_OK;
}

rs_status rs_run_log(bool *stops, rs_running *r, rs_error *err)
{
    int64_t step = r->learner.step;
    rs_instrument_reading reading = {0};
    fill_row(r);
    if (is_evaluated(r, step)) RS_TRY(evaluate(r, &r->row, err));
    r->measured = rs_run_is_measured(r, step);
    if (r->measured) {
        RS_TRY(rs_instruments_before_step(r->instruments, err));
        reading = rs_instruments_reading(r->instruments);
    }
    return ring(stops, r, r->measured ? &reading : NULL, err);
}

static rs_status add_reading(rs_running *r, rs_error *err)
{
    rs_instrument_reading reading = rs_instruments_reading(r->instruments);
    r->row.update_ratio = reading.update_ratio;
    for (size_t i = 0; i < reading.n_ranks; i++)
        RS_TRY(rs_journal_add(r->journal, RS_LOG_RANKS, &reading.ranks[i], err));
    for (size_t i = 0; i < reading.n_layers; i++)
        RS_TRY(rs_journal_add(r->journal, RS_LOG_LAYERS, &reading.layers[i], err));
    return RS_OK;
}

static rs_status add_alarms(rs_running *r, rs_error *err)
{
    for (size_t i = 0; i < r->n_events; i++) {
        const rs_alarm_event *event = &r->events[i];
        const rs_alarm_row row = {.step = event->step,
                                  .code = rs_alarm_code(event->kind),
                                  .severity = event->severity == RS_CRITICAL ? "critical" : "warn",
                                  .layer = event->layer,
                                  .value = event->value,
                                  .threshold = event->threshold,
                                  .message = event->message,
                                  .hint = event->hint};
        RS_TRY(rs_journal_add(r->journal, RS_LOG_ALARMS, &row, err));
    }
    return RS_OK;
}

rs_status rs_run_log_end(rs_running *r, rs_error *err)
{
    const rs_run_listener *listener = r->request->listener;
    if (r->measured && r->learner.step > r->row.step)
        RS_TRY(rs_instruments_after_step(r->instruments, err));
    if (r->measured) RS_TRY(add_reading(r, err));
    RS_TRY(rs_journal_add(r->journal, RS_LOG_STEPS, &r->row, err));
    RS_TRY(add_alarms(r, err));
    RS_TRY(rs_journal_end(r->journal, err));
    if (listener && listener->logged)
        listener->logged(listener->user, &r->row, r->n_events ? r->events[0].message : NULL);
    r->n_events = 0;
    return RS_OK;
}

rs_status rs_run_ring_not_finite(rs_running *r, rs_error *err)
{
    bool stops = false;
    r->now.loss = NAN;
    r->now.targets = 1; /* it is a loss that is not finite, not one that is missing */
    fill_row(r);
    r->measured = false;
    RS_TRY(ring(&stops, r, NULL, err));
    return rs_run_log_end(r, err);
}
