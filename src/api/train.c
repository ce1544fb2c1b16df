/* train.c: rs_train. */
#include "train/train.h"
#include "api/check.h"
#include "api/command.h"
#include "network/saved.h"
#include "report/output.h"

#include <string.h>

/* Hands what a run says on to the caller. */
typedef struct ears {
    const rs_training_settings *settings;
    int64_t steps;
} ears;

static void logged(void *user, const rs_train_row *row, const char *alarm)
{
    const ears *e = user;
    const rs_training_step step = {.step = row->step,
                                   .steps = e->steps,
                                   .loss = row->loss,
                                   .accuracy = row->accuracy,
                                   .batch_loss = row->batch_loss,
                                   .batch_accuracy = row->batch_accuracy,
                                   .eval_loss = row->eval_loss,
                                   .eval_accuracy = row->eval_accuracy,
                                   .learning_rate = row->learning_rate,
                                   .gradient_norm = row->gradient_norm,
                                   .tokens_per_second = row->tokens_per_second,
                                   .seconds = row->seconds,
                                   .alarm = alarm};
    e->settings->logged(e->settings->call.user, &step);
}

static rs_status check(const rs_training_settings *s, rs_error *err)
{
    RS_TRY(rs_check_array(s->sets, s->n_sets, "set", err));
    if (s->resume && !s->out)
        return rs_fail(err, RS_E_USAGE, "resume", "give --out, the folder of the run",
                       "there is no run to go on with");
    if (s->dry_run && s->resume)
        return rs_fail(err, RS_E_USAGE, "dry-run", "give one of the two",
                       "a dry run trains nothing, so there is nothing to resume");
    return RS_OK;
}

/* What is set over the task's own fields, [*n]: the call's seed in front of the settings' own, so that
 * these go before it. There is room for one more. */
static rs_status list_sets(const char ***out, size_t *n, const rs_training_settings *s,
                           rs_arena *arena, rs_error *err)
{
    const char **sets = *out = rs_arena_alloc(arena, s->n_sets + 2, sizeof *sets);
    *n = 0;
    if (!sets) return rs_fail_memory(err, "settings", (s->n_sets + 2) * sizeof *sets);
    if (s->seeded) {
        sets[*n] = rs_arena_printf(arena, "seed=%llu", (unsigned long long)s->call.seed);
        if (!sets[(*n)++]) return rs_fail_memory(err, "settings", 1);
    }
    for (size_t i = 0; i < s->n_sets; i++)
        sets[(*n)++] = s->sets[i];
    return RS_OK;
}

/* The same with stop_on, as an override. */
static rs_status open_settings(rs_train_settings **out, const char *input,
                               const rs_training_settings *s, rs_arena *arena, rs_error *err)
{
    const char **sets;
    size_t n;
    RS_TRY(list_sets(&sets, &n, s, arena, err));
    if (s->stop_on) {
        rs_buffer list = {0};
        rs_buffer_puts(&list, "stop_on=[\"");
        for (const char *c = s->stop_on; *c; c++)
            rs_buffer_append(&list, *c == ',' ? "\",\"" : c, *c == ',' ? 3 : 1);
        rs_buffer_puts(&list, "\"]");
        sets[n] = list.failed ? NULL : rs_arena_strndup(arena, list.data, list.length);
        rs_buffer_free(&list);
        if (!sets[n++]) return rs_fail_memory(err, "settings", 1);
    }
    return rs_train_settings_open(out, input, sets, n, err);
}

static rs_status fill(rs_result *result, const rs_task *task, rs_error *err)
{
    const rs_training_settings *s = &task->settings->training;
    rs_train_settings *settings = NULL;
    rs_context context = *task->context;
    const char **sets;
    size_t n_sets;
    bool stopped = false;
    /* of the instruments' nulls alone: they stay what they were behind --resume */
    context.seed = 0;
    RS_TRY(check(s, err));
    RS_TRY(list_sets(&sets, &n_sets, s, task->arena, err));
    RS_TRY(open_settings(&settings, task->subject.path, s, task->arena, err));
    rs_result_files(result)->outputs->beside = s->out && !s->dry_run;
    ears e = {.settings = s, .steps = settings->steps};
    const rs_run_listener listener = {.user = &e, .logged = s->logged ? logged : NULL};
    const rs_train_options options = {.folder = s->out,
                                      .resume = s->resume,
                                      .dry_run = s->dry_run,
                                      .listener = &listener,
                                      .sets = sets,
                                      .n_sets = n_sets,
                                      .stop_on = s->stop_on};
    rs_status status = rs_train_fill(result, &stopped, settings, &options, &context, err);
    rs_train_settings_close(settings);
    /* the run's own files are not replaced by what is made of its result */
    if (status == RS_OK && s->out && !s->dry_run)
        status = rs_input_files_model(rs_result_files(result), s->out, err);
    if (status == RS_OK && stopped)
        status = rs_result_set_meta(result, "stopped", json_true(), err);
    return status;
}

static const rs_command command = {
    .name = "train", .opens = true, .size = sizeof(rs_training_settings), .fill = fill};

static rs_status write_loader(rs_buffer *out, const char *input, const rs_training_settings *s,
                              rs_arena *arena, rs_error *err)
{
    rs_train_settings *settings = NULL;
    rs_arch *arch = NULL;
    rs_status status = RS_OK;
    if (input) status = open_settings(&settings, input, s, arena, err);
    if (status == RS_OK && settings && settings->model)
        status = rs_arch_read(&arch, settings->model, settings->path, err);
    if (status == RS_OK) rs_loader_write(out, arch);
    rs_arch_close(arch);
    rs_train_settings_close(settings);
    return status;
}

rs_status rs_training_loader(char **out, const char *input, const rs_training_settings *given,
                             rs_error *err)
{
    rs_any_settings settings;
    rs_buffer text = {0};
    RS_TRY(rs_check_pointer(out, "out", err));
    *out = NULL;
    RS_TRY(rs_settings_take(&settings, &command, given, err));
    rs_arena *arena = rs_arena_new();
    rs_status status = arena ? write_loader(&text, input, &settings.training, arena, err)
                             : rs_fail_memory(err, "settings", 1);
    if (status == RS_OK && !text.failed) *out = strndup(text.data, text.length);
    if (status == RS_OK && !*out) status = rs_fail_memory(err, "a program", text.length);
    rs_buffer_free(&text);
    rs_arena_free(arena);
    return status;
}

void rs_training_settings_init(rs_training_settings *settings, size_t size)
{
    rs_settings_init(settings, size, &command);
}

rs_status rs_train(rs_result **out, const char *input, const rs_training_settings *settings,
                   rs_error *err)
{
    return rs_answer_path(out, &command, input, settings, err);
}

bool rs_result_stopped(const rs_result *result)
{
    return result && json_is_true(json_object_get(rs_result_meta(result), "stopped"));
}
