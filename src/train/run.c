/* run.c: the loop of a training run. */
#include "train/run.h"

#include "base/clock.h"
#include "base/memory.h"
#include "train/journal.h"
#include "train/saver.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const double running_weight = 0.02; /* of a step in the running means */

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
    COLUMN(tokens_per_second, "tokens a second", NULL, "since the row before"),
    COLUMN(seconds, NULL, "s", "of training, over all calls that resumed it"),
};

typedef struct run {
    const rs_run_request *request;
    const rs_train_settings *s;
    const rs_context *context;
    rs_run_outcome *out;
    rs_train_task *task;
    rs_task_batch batch, eval;
    rs_learner learner;
    rs_saver *saver;
    rs_journal *journal;
    double loss, accuracy;               /* running means; NaN before the first step */
    double before_loss, before_accuracy; /* as they were before this step's batch */
    double seconds, clock;               /* of calls before this one; when this one began */
    double row_clock, row_tokens;        /* since the row before */
    rs_batch_outcome now;
} run;

/* ---- state ---- */

static json_t *number_or_null(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

static double number_of(const json_t *state, const char *name)
{
    const json_t *value = json_object_get(state, name);
    return json_is_number(value) ? json_number_value(value) : NAN;
}

static double seconds_so_far(const run *r)
{
    return r->seconds + rs_seconds() - r->clock;
}

/* What a checkpoint of this step says beside tensors, as it was before the step's batch. */
static json_t *state_of(const run *r)
{
    return json_pack("{sI so so so so}", "step", (json_int_t)r->learner.step, "loss",
                     number_or_null(r->before_loss), "accuracy", number_or_null(r->before_accuracy),
                     "seconds", json_real(seconds_so_far(r)), "settings",
                     rs_train_settings_write(r->s));
}

static void take_state(run *r, const json_t *state)
{
    r->loss = r->before_loss = number_of(state, "loss");
    r->accuracy = r->before_accuracy = number_of(state, "accuracy");
    r->seconds = number_of(state, "seconds");
}

/* Fields that may be other ones when a run goes on: they change no number of it. */
static rs_status check_same(const run *r, const json_t *state, rs_error *err)
{
    static const char *const free_fields[] = {"every_checkpoint", "keep", "stop_on"};
    json_t *old = json_deep_copy(json_object_get(state, "settings"));
    json_t *now = rs_train_settings_write(r->s);
    rs_buffer differences = {0};
    rs_status status = RS_OK;
    for (size_t i = 0; i < sizeof free_fields / sizeof *free_fields; i++) {
        (void)json_object_del(old, free_fields[i]);
        (void)json_object_del(now, free_fields[i]);
    }
    if (old && now) rs_train_settings_differ(&differences, old, now);
    if (!old || !now || differences.failed)
        status = rs_fail_memory(err, "settings", 1);
    else if (differences.length > 0)
        status = rs_fail(
            err, RS_E_TASK_SCHEMA, r->request->folder, "give the same task, or another folder",
            "the run that is there has other settings: %.*s",
            (int)(differences.length < 300 ? differences.length : 300), differences.data);
    rs_buffer_free(&differences);
    json_decref(old);
    json_decref(now);
    return status;
}

static rs_status save(run *r, rs_error *err)
{
    if (!r->saver) return RS_OK;
    RS_TRY(rs_saver_begin(r->saver, &r->learner, state_of(r), err));
    r->out->saved = r->learner.step;
    return RS_OK;
}

/* ---- opening ---- */

static rs_status go_on(run *r, rs_error *err)
{
    const char *folder = r->request->folder;
    int64_t step = rs_saved_newest(folder);
    json_t *state = NULL;
    if (step < 0) return RS_OK; /* it ended before its first checkpoint */
    RS_TRY(rs_saved_state(&state, folder, step, err));
    rs_status status = check_same(r, state, err);
    if (status == RS_OK) status = rs_saved_load(&r->learner, folder, step, err);
    if (status == RS_OK) take_state(r, state);
    json_decref(state);
    r->out->saved = step;
    return status;
}

/* A folder with a run in it is not written over. */
static rs_status check_folder(const run *r, rs_error *err)
{
    static const char *const names[] = {"log.jsonl", "run.db", "model.safetensors", "checkpoints"};
    char path[4200];
    for (size_t i = 0; i < 4 && !r->request->resume; i++) {
        snprintf(path, sizeof path, "%.4096s/%s", r->request->folder, names[i]);
        if (access(path, F_OK) == 0)
            return rs_fail(err, RS_E_OVERWRITES_INPUT, path,
                           "--resume goes on with the run that is there; or choose another --out",
                           "there is a run or a model in this folder");
    }
    return RS_OK;
}

static rs_status add_table(rs_table **out, const run *r, const char *name, const char *title,
                           const char *about, const rs_column *columns, size_t n, rs_error *err)
{
    *out = NULL;
    if (!r->request->result) return RS_OK;
    return rs_result_add_table(r->request->result, name, title, about, columns, n, out, err);
}

static rs_status open_journal(run *r, rs_error *err)
{
    static const rs_journal_kind kinds[] = {{"log", rs_train_columns, RS_TRAIN_COLUMNS}};
    rs_table *tables[1];
    RS_TRY(add_table(&tables[0], r, "log", "Steps", "A row for each logged step.", rs_train_columns,
                     RS_TRAIN_COLUMNS, err));
    return rs_journal_open(&r->journal, r->request->folder, kinds, 1, tables, r->learner.step, err);
}

static rs_status open_run(run *r, rs_error *err)
{
    const rs_train_settings *s = r->s;
    RS_TRY(rs_train_open_task(&r->task, r->request->settings, r->context, err));
    RS_TRY(rs_task_batch_new(&r->batch, rs_task_sizes(r->task), s->batch, err));
    RS_TRY(rs_task_batch_new(&r->eval, rs_task_sizes(r->task), s->batch, err));
    RS_TRY(rs_learner_open(&r->learner, s, rs_task_sizes(r->task), r->context, err));
    if (r->request->folder) {
        RS_TRY(check_folder(r, err));
        RS_TRY(rs_saver_open(&r->saver, r->request->folder, &r->learner, s->keep, err));
        if (r->request->resume) RS_TRY(go_on(r, err));
    }
    RS_TRY(open_journal(r, err));
    r->out->first = r->learner.step;
    r->clock = r->row_clock = rs_seconds();
    const rs_run_listener *listener = r->request->listener;
    if (listener && listener->opened)
        listener->opened(listener->user, &r->learner, r->learner.step);
    return RS_OK;
}

static void close_run(run *r)
{
    rs_journal_close(r->journal);
    rs_saver_close(r->saver);
    rs_learner_close(&r->learner);
    rs_task_batch_free(&r->batch);
    rs_task_batch_free(&r->eval);
    rs_task_close(r->task);
}

/* ---- a step ---- */

/* The batches of a step, forward and back. */
static rs_status run_batches(run *r, rs_error *err)
{
    int64_t n = r->s->accumulate;
    rs_batch_outcome sum = {0};
    for (int64_t i = 0; i < n; i++) {
        rs_batch_outcome one;
        RS_TRY(rs_task_fill(&r->batch, r->task, RS_TASK_TRAIN, r->learner.step * n + i, err));
        RS_TRY(rs_learner_batch(&one, &r->learner, &r->batch, i, NULL, err));
        sum.loss += one.loss / (double)n;
        sum.accuracy += one.accuracy / (double)n;
        sum.tokens += one.tokens;
        sum.targets += one.targets;
    }
    r->now = sum;
    r->row_tokens += (double)sum.tokens;
    return RS_OK;
}

static double mean_with(double mean, double value)
{
    return isnan(mean) ? value : (1 - running_weight) * mean + running_weight * value;
}

static rs_status evaluate(run *r, rs_train_row *row, rs_error *err)
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

static rs_status log_step(run *r, rs_error *err)
{
    const rs_train_settings *s = r->s;
    double now = rs_seconds(), passed = now - r->row_clock;
    int64_t step = r->learner.step;
    rs_train_row row = {.step = step,
                        .loss = r->loss,
                        .accuracy = r->accuracy,
                        .batch_loss = r->now.loss,
                        .batch_accuracy = r->now.accuracy,
                        .eval_loss = NAN,
                        .eval_accuracy = NAN,
                        .learning_rate = r->learner.rate,
                        .gradient_norm = r->learner.norm,
                        .tokens_per_second = passed > 0 ? r->row_tokens / passed : NAN,
                        .seconds = seconds_so_far(r)};
    if (s->eval_every > 0 && (step % s->eval_every == 0 || step == s->steps))
        RS_TRY(evaluate(r, &row, err));
    RS_TRY(rs_journal_add(r->journal, 0, &row, err));
    RS_TRY(rs_journal_end(r->journal, err));
    const rs_run_listener *listener = r->request->listener;
    if (listener && listener->logged) listener->logged(listener->user, &row);
    r->row_clock = now;
    r->row_tokens = 0;
    return RS_OK;
}

/* False: the run ends here. */
static rs_status run_step(bool *goes_on, run *r, rs_error *err)
{
    const rs_train_settings *s = r->s;
    int64_t step = r->learner.step;
    r->before_loss = r->loss, r->before_accuracy = r->accuracy;
    RS_TRY(run_batches(r, err));
    rs_learner_clip(&r->learner);
    if (!isfinite(r->now.loss) || !isfinite(r->learner.norm)) {
        r->out->end = RS_RUN_NOT_FINITE;
        *goes_on = false;
        return rs_learner_blame(r->out->blame, sizeof r->out->blame, &r->learner, err);
    }
    r->loss = mean_with(r->loss, r->now.loss);
    r->accuracy = mean_with(r->accuracy, r->now.accuracy);
    if (step % s->log_every == 0 || step == s->steps) RS_TRY(log_step(r, err));
    *goes_on = step < s->steps;
    if (!*goes_on) return RS_OK;
    rs_learner_step(&r->learner);
    r->before_loss = r->loss, r->before_accuracy = r->accuracy;
    rs_progress(r->context, "training", (uint64_t)r->learner.step, (uint64_t)s->steps, "steps");
    if (s->checkpoint_every > 0 && r->learner.step % s->checkpoint_every == 0) return save(r, err);
    return RS_OK;
}

static rs_status run_steps(run *r, rs_error *err)
{
    bool goes_on = true;
    while (goes_on) {
        if (rs_cancelled(r->context)) {
            r->out->end = RS_RUN_INTERRUPTED;
            break;
        }
        rs_status status = run_step(&goes_on, r, err);
        if (status == RS_E_INTERRUPTED) {
            r->out->end = RS_RUN_INTERRUPTED;
            break;
        }
        RS_TRY(status);
    }
    if (r->out->end != RS_RUN_NOT_FINITE && r->out->saved != r->learner.step) RS_TRY(save(r, err));
    return r->saver ? rs_saver_wait(r->saver, err) : RS_OK;
}

rs_status rs_train_run(rs_run_outcome *out, const rs_run_request *request,
                       const rs_context *context, rs_error *err)
{
    run r = {.request = request,
             .s = request->settings,
             .context = context,
             .out = out,
             .loss = NAN,
             .accuracy = NAN,
             .before_loss = NAN,
             .before_accuracy = NAN};
    *out = (rs_run_outcome){.saved = -1};
    rs_status status = open_run(&r, err);
    if (status == RS_OK) status = run_steps(&r, err);
    out->step = r.learner.step;
    out->loss = r.loss;
    out->accuracy = r.accuracy;
    out->seconds = seconds_so_far(&r);
    close_run(&r);
    return status;
}
