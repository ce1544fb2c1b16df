/* dong_circle_loop.c: trains a network of dong_circle_loop.h and feeds it its own answers. */
#include "lab/dong_circle_loop.h"

#include "lab/kept_runs.h"
#include "lab/training.h"

#include "observe/pass.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

const char *const rs_circle_names[RS_CIRCLE_KINDS] = {"attention",       "attention, MLP",
                                                      "attention, skip", "released",
                                                      "released, MLP",   "released, skip"};

/* How a kind differs from the named task. */
static const struct {
    const char *model, *rest;
} recipes[RS_CIRCLE_KINDS] = {
    {", 'norm': 'none', 'skip_mixer': 0",
     ", 'embed': {'map': 'linear', 'norm': false}, 'dropout': 0"},
    {", 'norm': 'none', 'skip_mixer': 0, 'mlp': 'gelu', 'skip_mlp': 0",
     ", 'embed': {'map': 'linear', 'norm': false}, 'dropout': 0"},
    {", 'norm': 'none'", ", 'embed': {'map': 'linear', 'norm': false}, 'dropout': 0"},
    {"", ""},
    {", 'mlp': 'gelu'", ""},
    {"", ", 'data': {'lag': 30}"},
};

/* ---- the loop ---- */

typedef struct loop {
    rs_circle_run *run;
    rs_circle_kind kind;
    double answer[4];
    const rs_context *context;
} loop;
enum { NUMBERS = sizeof(rs_circle_run) / sizeof(double) };

static rs_status on_answer(void *user, int64_t first_row, const rs_state_view *view, rs_error *err)
{
    loop *l = user;
    (void)err;
    memcpy(l->answer + first_row * 2, view->data, (size_t)(view->rows * 2) * sizeof *l->answer);
    return RS_OK;
}

static void look(rs_circle_run *run, int t, const double *z, double first)
{
    double apart = hypot(z[0] - z[2], z[1] - z[3]) / first;
    double radius = (hypot(z[0], z[1]) + hypot(z[2], z[3])) / (2 * 0.3);
    run->apart[t] = isfinite(apart) ? apart : INFINITY;
    run->radius[t] = isfinite(radius) ? radius : INFINITY;
    if (t > 0) run->stays += fmin(run->apart[t], 1) / RS_CIRCLE_STEPS;
}

static rs_status go_round(loop *l, rs_runner *runner, double *z, rs_error *err)
{
    static const int64_t begin[2] = {0, 2};
    const rs_batch batch = {.samples = 1, .begin = begin, .rows = z};
    const rs_tap tap = {.user = l, .logits = on_answer};
    const rs_tap *const taps[] = {&tap};
    double first = hypot(z[0] - z[2], z[1] - z[3]);
    bool adds = l->kind == RS_CIRCLE_RELEASED_SKIP;
    look(l->run, 0, z, first);
    for (int t = 1; t <= RS_CIRCLE_STEPS; t++) {
        if (isfinite(l->run->apart[t - 1]) && isfinite(l->run->radius[t - 1]))
            RS_TRY(rs_runner_run(runner, &batch, taps, 1, err));
        look(l->run, t, l->answer, first);
        for (int i = 0; i < 4; i++)
            z[i] = (adds ? z[i] : 0) + l->answer[i];
    }
    return RS_OK;
}

/* The mean squared error over the samples that it was trained on. */
static rs_status see_loss(loop *l, rs_learner *learner, rs_train_task *task, rs_error *err)
{
    rs_task_batch batch;
    rs_batch_outcome one;
    double sum = 0, samples = 0;
    RS_TRY(rs_task_batch_new(&batch, rs_task_sizes(task), learner->feed.capacity, err));
    rs_status status = RS_OK;
    for (int64_t i = 0; status == RS_OK; i++) {
        status = rs_task_fill(&batch, task, RS_TASK_EVAL, i, err);
        if (status != RS_OK || batch.samples == 0) break;
        status = rs_learner_evaluate(&one, learner, &batch, err);
        sum += one.loss * (double)batch.samples;
        samples += (double)batch.samples;
    }
    rs_task_batch_free(&batch);
    l->run->loss = sum / samples;
    return status;
}

static rs_status watch(void *user, rs_learner *learner, rs_train_task *task, rs_error *err)
{
    loop *l = user;
    rs_weights *weights = NULL;
    rs_runner *runner = NULL;
    double z[4];
    for (int p = 0; p < 2; p++) {
        double angle = p * 2 * 3.14159265358979323846 * 499 / 1000;
        z[2 * p] = 0.3 * cos(angle);
        z[2 * p + 1] = 0.3 * sin(angle);
    }
    RS_TRY(see_loss(l, learner, task, err));
    RS_TRY(rs_weights_open(&weights, RS_PRECISION_F64, rs_weight_limit(learner->context), err));
    rs_status status = rs_runner_open(&runner, learner->network, weights, learner->context, err);
    if (status == RS_OK) status = go_round(l, runner, z, err);
    rs_runner_close(runner);
    rs_weights_close(weights);
    return status;
}

static rs_status train_task(void *user, const char *task, rs_error *err)
{
    loop *l = user;
    bool diverged = false;
    const rs_lab_finish finish = {l, watch};
    RS_TRY(rs_lab_train_seen(&diverged, task, &finish, l->context, err));
    l->run->diverged = diverged;
    for (int t = 0; t <= RS_CIRCLE_STEPS && diverged; t++)
        l->run->apart[t] = l->run->radius[t] = INFINITY;
    return RS_OK;
}

rs_status rs_circle_go(rs_circle_run *run, const rs_circle_asked *asked, struct rs_kept_runs *kept,
                       const rs_context *context, rs_error *err)
{
    char text[600], name[60];
    loop l = {.run = run, .kind = asked->kind, .context = context};
    const rs_kept_maker maker = {&l, train_task};
    *run = (rs_circle_run){0};
    snprintf(name, sizeof name, "dong-circle, %s", rs_circle_names[asked->kind]);
    snprintf(
        text, sizeof text,
        "{'task': 'circle', 'steps': %d, 'log_every': 100000000, 'rank_every': 0, 'seed': %llu, "
        "'model': {'d_model': %d%s}, 'optimizer': {'lr': %s}%s}",
        asked->steps, (unsigned long long)asked->seed, asked->width, recipes[asked->kind].model,
        asked->rate, recipes[asked->kind].rest);
    return rs_kept_runs_take(kept, name, text, (double *)run, NUMBERS, &maker, err);
}
