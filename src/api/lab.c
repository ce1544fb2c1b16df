/* lab.c: rs_lab. */
#include "lab/lab.h"
#include "api/command.h"
#include "observe/opened.h"
#include "probe/probe.h"

/* Windows that a model is run on, at most; they are as long as probe's. */
enum { WINDOWS = 32, QUICK_WINDOWS = 4 };

static rs_status run_model(rs_result *result, rs_opened *o, const rs_lab_settings *s,
                           const rs_context *context, rs_error *err)
{
    rs_probe_options options; /* what a sweep holds is within what a probe of the tokens holds */
    rs_probe_defaults(&options);
    options.measure.attention = options.measure.loss = options.measure.spectral = false;
    options.measure.mixing = RS_MIXING_NONE;
    const int64_t windows = s->quick ? QUICK_WINDOWS : WINDOWS;
    const rs_input_source random = {.random = windows};
    const rs_input_source text = {.texts = &s->text, .n_texts = 1, .samples = windows};
    const rs_open_request request = {.path = s->model,
                                     .source = s->text ? text : random,
                                     .need = rs_probe_need,
                                     .options = &options};
    RS_TRY(rs_opened_open(o, result, rs_result_files(result), &request, context, err));
    const rs_lab_model model = {
        .network = o->network, .inputs = o->inputs, .trained = o->checkpoint != NULL};
    const rs_lab_options lab = {.quick = s->quick, .model = &model};
    RS_TRY(rs_lab_run(result, s->experiment, &lab, context, err));
    return rs_verify_checkpoint(result, o->checkpoint, err);
}

static rs_status fill(rs_result *result, const rs_task *task, rs_error *err)
{
    const rs_lab_settings *s = &task->settings->lab;
    const rs_lab_options options = {.quick = s->quick};
    rs_opened o = {0};
    rs_result_show(result, s->experiment ? "claims" : "experiments");
    if (s->text && !s->model)
        return rs_fail(err, RS_E_USAGE, "text", "name a model, too: --model PATH",
                       "there is no model to read it");
    if (s->model && !s->experiment)
        return rs_fail(err, RS_E_USAGE, "model", "leave it out", "a list runs no model");
    if (!s->experiment) return rs_lab_list(result, err);
    if (!s->model) return rs_lab_run(result, s->experiment, &options, task->context, err);
    RS_TRY(rs_lab_check(s->experiment, true, err)); /* before the model is opened */
    rs_status status = run_model(result, &o, s, task->context, err);
    rs_opened_close(&o);
    return status;
}

static const rs_command command = {.name = "lab", .size = sizeof(rs_lab_settings), .fill = fill};

void rs_lab_settings_init(rs_lab_settings *settings, size_t size)
{
    rs_settings_init(settings, size, &command);
}

rs_status rs_lab(rs_result **out, const rs_lab_settings *settings, rs_error *err)
{
    return rs_answer_path(out, &command, NULL, settings, err);
}
