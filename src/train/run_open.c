/* run_open.c: opens a run, new or taken up again, and writes its checkpoints. */
#include "train/run_parts.h"

#include "base/clock.h"
#include "base/memory.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

double rs_run_seconds(const rs_running *r)
{
    return r->seconds + rs_seconds() - r->clock;
}

/* What a checkpoint of this step says beside tensors, as it was before the step's batch. */
static json_t *state_of(const rs_running *r)
{
    json_t *instruments = r->instruments_before ? json_incref(r->instruments_before)
                          : r->instruments      ? rs_instruments_save(r->instruments)
                                                : json_null();
    json_t *alarms = r->alarms_before ? json_incref(r->alarms_before) : rs_alarms_save(r->alarms);
    char data[32];
    snprintf(data, sizeof data, "%016llx", (unsigned long long)rs_task_fingerprint(r->task));
    return json_pack("{sI so so so so so so ss}", "step", (json_int_t)r->learner.step, "loss",
                     number_or_null(r->before_loss), "accuracy", number_or_null(r->before_accuracy),
                     "seconds", json_real(rs_run_seconds(r)), "settings",
                     rs_train_settings_write(r->s), "instruments", instruments, "alarms", alarms,
                     "data", data);
}

void rs_run_forget(rs_running *r)
{
    r->before_loss = r->loss, r->before_accuracy = r->accuracy;
    json_decref(r->instruments_before);
    json_decref(r->alarms_before);
    r->instruments_before = r->alarms_before = NULL;
}

rs_status rs_run_remember(rs_running *r, rs_error *err)
{
    rs_run_forget(r);
    if (!r->saver || !rs_run_is_logged(r, r->learner.step)) return RS_OK;
    if (r->instruments) r->instruments_before = rs_instruments_save(r->instruments);
    r->alarms_before = rs_alarms_save(r->alarms);
    bool failed = !r->alarms_before || (r->instruments && !r->instruments_before);
    return failed ? rs_fail_memory(err, "the state of a run", 1) : RS_OK;
}

static rs_status take_state(rs_running *r, const json_t *state, rs_error *err)
{
    const json_t *instruments = json_object_get(state, "instruments");
    const char *folder = r->request->folder;
    r->loss = r->before_loss = number_of(state, "loss");
    r->accuracy = r->before_accuracy = number_of(state, "accuracy");
    r->seconds = number_of(state, "seconds");
    if (r->instruments) RS_TRY(rs_instruments_load(r->instruments, instruments, folder, err));
    return rs_alarms_load(r->alarms, json_object_get(state, "alarms"), folder, err);
}

/* Fields that may be other ones when a run goes on: they change no number of it. */
static rs_status check_same(const rs_running *r, const json_t *state, rs_error *err)
{
    static const char *const free_fields[] = {"every_checkpoint", "keep", "stop_on"};
    json_t *old = NULL;
    RS_TRY(rs_train_settings_renew(&old, json_object_get(state, "settings"), err));
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

rs_status rs_run_save(rs_running *r, rs_error *err)
{
    if (!r->saver) return RS_OK;
    RS_TRY(rs_saver_begin(r->saver, &r->learner, state_of(r), err));
    r->out->saved = r->learner.step;
    return RS_OK;
}

/* ---- opening ---- */

/* A run goes on with the files that it began with. Checkpoints of earlier versions say nothing (0) of
 * a file of batches: they are believed. */
static rs_status check_data(const rs_running *r, const json_t *state, rs_error *err)
{
    const char *old = json_string_value(json_object_get(state, "data"));
    unsigned long long was = old ? strtoull(old, NULL, 16) : 0;
    if (was == 0 && r->s->kind) return RS_OK;
    if (was == rs_task_fingerprint(r->task)) return RS_OK;
    return rs_fail(err, RS_E_TASK_SCHEMA, r->request->folder,
                   "give the files that the run began with, or another folder",
                   "the data's files are not those that the run began with");
}

/* A checkpoint that cannot be read is none of which there is another copy: what can be done is to go on
 * from the one before. */
static rs_status say_older(rs_status status, const char *folder, int64_t step, rs_error *err)
{
    int64_t older = rs_saved_before(folder, step);
    char hint[400];
    if (status == RS_OK || status == RS_E_NO_MEMORY || !err) return status;
    const rs_error was = *err;
    if (older >= 0)
        snprintf(hint, sizeof hint,
                 "remove %.200s/checkpoints/step-%09lld: --resume then goes on from step %lld",
                 folder, (long long)step, (long long)older);
    else
        snprintf(hint, sizeof hint, "there is no older checkpoint: choose another --out");
    return rs_fail(err, status, was.where, hint, "%s", was.what);
}

static rs_status go_on(rs_running *r, rs_error *err)
{
    const char *folder = r->request->folder;
    int64_t step = rs_saved_newest(folder);
    json_t *state = NULL;
    if (step < 0) return RS_OK; /* it ended before its first checkpoint */
    RS_TRY(say_older(rs_saved_state(&state, folder, step, err), folder, step, err));
    rs_status status = check_same(r, state, err);
    if (status == RS_OK) status = check_data(r, state, err);
    if (status == RS_OK)
        status = say_older(rs_saved_load(&r->learner, folder, step, err), folder, step, err);
    if (status == RS_OK) status = take_state(r, state, err);
    json_decref(state);
    r->out->saved = step;
    return status;
}

/* A folder with a run in it is not written over. */
static rs_status check_folder(const rs_running *r, rs_error *err)
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

static rs_status add_table(rs_table **out, const rs_running *r, const char *name, const char *title,
                           const char *about, const rs_column *columns, size_t n, rs_error *err)
{
    *out = NULL;
    if (!r->request->result) return RS_OK;
    return rs_result_add_table(r->request->result, name, title, about, columns, n, out, err);
}

/* An entropy is no baseline of a squared or a hinge loss. */
static bool is_of_loss(const rs_running *r, const rs_task_mark *mark)
{
    return mark->kind != RS_MARK_LOSS || r->s->loss == RS_TRAIN_LOSS_CROSS_ENTROPY;
}

/* The entropy of a language model's tokens by themselves; NaN: the task has none. */
static rs_status unigram_entropy(double *out, rs_running *r, rs_error *err)
{
    rs_task_mark marks[RS_TASK_MARKS];
    int n = 0;
    *out = NAN;
    RS_TRY(rs_task_marks(marks, &n, r->task, err));
    for (int i = 0; i < n; i++)
        if (marks[i].kind == RS_MARK_LOSS && is_of_loss(r, &marks[i]) &&
            strstr(marks[i].name, "unigram"))
            *out = marks[i].value;
    return RS_OK;
}

/* Table `marks`, and what there is to know of the user's data. */
static rs_status say_task(rs_running *r, rs_error *err)
{
    static const char *const kinds[] = {[RS_MARK_FLOOR] = "accuracy without learning",
                                        [RS_MARK_CEILING] = "largest accuracy",
                                        [RS_MARK_ERROR] = "squared error without learning",
                                        [RS_MARK_LOSS] = "loss"};
    rs_task_mark marks[RS_TASK_MARKS];
    rs_table *table = NULL;
    int n = 0;
    RS_TRY(add_table(&table, r, "marks", "What to compare with",
                     "Losses and accuracies that need no learning, or cannot be beaten.",
                     rs_mark_columns, RS_MARK_COLUMNS, err));
    if (!table) return RS_OK;
    RS_TRY(rs_task_marks(marks, &n, r->task, err));
    for (int i = 0; i < n; i++) {
        if (!is_of_loss(r, &marks[i])) continue;
        const rs_mark_row row = {kinds[marks[i].kind], marks[i].name, marks[i].value};
        RS_TRY(rs_table_append(table, &row, err));
        if (marks[i].kind == RS_MARK_FLOOR) r->out->floor = fmax(r->out->floor, marks[i].value);
    }
    const char *said = rs_task_said(r->task);
    if (!said || !said[0]) return RS_OK;
    rs_finding finding = rs_finding_of(RS_INFO, "training_data");
    finding.message = said;
    return rs_result_add_finding(r->request->result, &finding, err);
}

/* Instruments and alarms. */
static rs_status open_watch(rs_running *r, rs_error *err)
{
    rs_alarm_rules rules = {.limits = r->s->alarms,
                            .warmup = r->s->schedule.warmup,
                            .layers = r->learner.network->n_layers,
                            .single = rs_task_sizes(r->task)->n_tok < 2};
    RS_TRY(unigram_entropy(&rules.unigram_entropy, r, err));
    if (r->s->rank_every > 0)
        RS_TRY(rs_instruments_open(&r->instruments, &r->learner, r->task, err));
    return rs_alarms_open(&r->alarms, &rules, err);
}

static rs_status open_journal(rs_running *r, rs_error *err)
{
    static const char *const titles[RS_LOG_KINDS] = {"Steps", "Ranks of heads", "Layers", "Alarms"};
    static const char *const abouts[RS_LOG_KINDS] = {
        "A row for each logged step.",
        "The head products of each measured step, with what random weights would give.",
        "What leaves each layer on the probe batch, its attention and its gradients.",
        "What rang, and when."};
    const rs_journal_reader reader = {r, rs_run_take_old};
    rs_table *tables[RS_LOG_KINDS];
    rs_run_set_kinds(r->kinds);
    for (int k = 0; k < RS_LOG_KINDS; k++)
        RS_TRY(add_table(&tables[k], r, r->kinds[k].name, titles[k], abouts[k], r->kinds[k].columns,
                         r->kinds[k].n, err));
    return rs_journal_open(&r->journal, r->request->folder, r->kinds, RS_LOG_KINDS, tables,
                           r->learner.step, &reader, err);
}

rs_status rs_run_open(rs_running *r, rs_error *err)
{
    const rs_train_settings *s = r->s;
    r->request->settings->saves = r->request->folder != NULL;
    RS_TRY(rs_train_open_task(&r->task, r->request->settings, r->context, err));
    RS_TRY(rs_task_batch_new(&r->batch, rs_task_sizes(r->task), s->batch, err));
    RS_TRY(rs_task_batch_new(&r->eval, rs_task_sizes(r->task), s->batch, err));
    RS_TRY(rs_learner_open(&r->learner, s, rs_task_sizes(r->task), r->context, err));
    if (r->request->prepare)
        RS_TRY(r->request->prepare(r->request->prepare_user, &r->learner, err));
    RS_TRY(open_watch(r, err));
    RS_TRY(say_task(r, err));
    if (r->request->folder) {
        RS_TRY(check_folder(r, err));
        RS_TRY(rs_saver_open(&r->saver, r->request->folder, &r->learner, s->keep, err));
        RS_TRY(rs_saver_tokenizer(r->saver, r->task, err));
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

void rs_run_close(rs_running *r)
{
    rs_journal_close(r->journal);
    rs_alarms_close(r->alarms);
    rs_instruments_close(r->instruments);
    rs_run_forget(r);
    rs_saver_close(r->saver);
    rs_learner_close(&r->learner);
    rs_task_batch_free(&r->batch);
    rs_task_batch_free(&r->eval);
    rs_task_close(r->task);
}
