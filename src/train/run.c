/* run.c: the loop of a training run. */
#include "train/run_parts.h"

#include "base/clock.h"
#include "base/memory.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const double running_weight = 0.02; /* of a step in the running means */

/* ---- a step ---- */

/* The batches of a step, forward and back. */
static rs_status run_batches(rs_running *r, rs_error *err)
{
    int64_t n = r->s->accumulate;
    rs_batch_outcome sum = {0};
    int64_t with = 0, judged = 0; /* batches that have a target; an accuracy */
    for (int64_t i = 0; i < n; i++) {
        rs_batch_outcome one;
        RS_TRY(rs_task_fill(&r->batch, r->task, RS_TASK_TRAIN, r->learner.step * n + i, err));
        RS_TRY(rs_learner_batch(&one, &r->learner, &r->batch, i, err));
        if (one.targets > 0) sum.loss += one.loss, with++;
        if (!isnan(one.accuracy)) sum.accuracy += one.accuracy, judged++;
        sum.tokens += one.tokens;
        sum.targets += one.targets;
    }
    if (rs_run_is_measured(r, r->learner.step)) rs_instruments_hear_loss(r->instruments);
    RS_TRY(rs_learner_penalise(&r->learner, err));
    sum.loss = with > 0 ? sum.loss / (double)with : (double)NAN;
    sum.accuracy = judged > 0 ? sum.accuracy / (double)judged : (double)NAN;
    r->now = sum;
    r->row_tokens += (double)sum.tokens;
    return RS_OK;
}

static double mean_with(double mean, double value)
{
    if (isnan(value)) return mean; /* a batch without a target */
    return isnan(mean) ? value : (1 - running_weight) * mean + running_weight * value;
}

static rs_status end_not_finite(rs_running *r, rs_error *err)
{
    r->out->end = RS_RUN_NOT_FINITE;
    RS_TRY(rs_learner_blame(r->out->blame, sizeof r->out->blame, &r->learner, err));
    return rs_run_ring_not_finite(r, err);
}

/* The step's batches, and what there is to say in front of the step itself; *ends: it is not made. */
static rs_status run_ahead(bool *ends, bool *logged, rs_running *r, rs_error *err)
{
    int64_t step = r->learner.step;
    bool stops = false;
    RS_TRY(rs_run_remember(r, err));
    RS_TRY(run_batches(r, err));
    rs_learner_clip(&r->learner);
    bool broken = r->now.targets > 0 && !isfinite(r->now.loss);
    *ends = broken || !isfinite(r->learner.norm);
    if (*ends) return end_not_finite(r, err);
    r->loss = mean_with(r->loss, r->now.loss);
    r->accuracy = mean_with(r->accuracy, r->now.accuracy);
    *logged = rs_run_is_logged(r, step);
    if (*logged) RS_TRY(rs_run_log(&stops, r, err));
    if (stops) r->out->end = RS_RUN_STOPPED;
    *ends = stops || step >= r->s->steps;
    return *ends && *logged ? rs_run_log_end(r, err) : RS_OK;
}

/* *ends: the run does, behind this. */
static rs_status run_step(bool *ends, rs_running *r, rs_error *err)
{
    const rs_train_settings *s = r->s;
    bool logged = false;
    RS_TRY(run_ahead(ends, &logged, r, err));
    if (*ends) return RS_OK;
    rs_learner_step(&r->learner);
    if (logged) RS_TRY(rs_run_log_end(r, err));
    rs_run_forget(r);
    rs_progress(r->context, "training", (uint64_t)r->learner.step, (uint64_t)s->steps, "steps");
    bool due = s->checkpoint_every > 0 && r->learner.step % s->checkpoint_every == 0;
    return due ? rs_run_save(r, err) : RS_OK;
}

static rs_status run_steps(rs_running *r, rs_error *err)
{
    bool ends = false;
    while (!ends) {
        if (rs_cancelled(r->context)) {
            r->out->end = RS_RUN_INTERRUPTED;
            break;
        }
        rs_status status = run_step(&ends, r, err);
        if (status == RS_E_INTERRUPTED) {
            r->out->end = RS_RUN_INTERRUPTED;
            break;
        }
        RS_TRY(status);
    }
    if (r->out->end != RS_RUN_NOT_FINITE && r->out->saved != r->learner.step)
        RS_TRY(rs_run_save(r, err));
    return r->saver ? rs_saver_wait(r->saver, err) : RS_OK;
}

rs_status rs_train_run(rs_run_outcome *out, const rs_run_request *request,
                       const rs_context *context, rs_error *err)
{
    rs_running r = {.request = request,
                    .s = request->settings,
                    .context = context,
                    .out = out,
                    .loss = NAN,
                    .accuracy = NAN,
                    .before_loss = NAN,
                    .before_accuracy = NAN};
    *out = (rs_run_outcome){.saved = -1, .floor = NAN};
    rs_status status = rs_run_open(&r, err);
    if (status == RS_OK) status = run_steps(&r, err);
    if (status == RS_OK && out->end == RS_RUN_DONE && request->finish)
        status = request->finish(request->finish_user, &r.learner, r.task, err);
    out->step = r.learner.step;
    out->loss = r.loss;
    out->accuracy = r.accuracy;
    out->seconds = rs_run_seconds(&r);
    rs_run_close(&r);
    return status;
}
