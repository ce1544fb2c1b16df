/* lab.c: rs_lab. */
#include "lab/lab.h"
#include "api/command.h"

static rs_status fill(rs_result *result, const rs_task *task, rs_error *err)
{
    const rs_lab_settings *s = &task->settings->lab;
    const rs_lab_options options = {.quick = s->quick};
    rs_result_show(result, s->experiment ? "claims" : "experiments");
    if (!s->experiment) return rs_lab_list(result, err);
    return rs_lab_run(result, s->experiment, &options, task->context, err);
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
