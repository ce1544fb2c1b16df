/* predict.c: rs_predict. */
#include "predict/predict.h"
#include "api/check.h"
#include "api/command.h"

#include <string.h>

/* Beyond them counts of parameters are no whole numbers of 64 bits. */
static const double most_parameters = 1e18;

static rs_status check(const rs_predict_settings *s, const char *input, rs_error *err)
{
    const rs_range ranges[] = {
        {"seq_len", s->seq_len, 0, RS_MOST_COUNT},
        {"trials", s->trials, -1, 1 << 20},
        {"loss_at", (int)s->loss_at, RS_GRAD_AT_AUTO, RS_GRAD_AT_FINAL},
    };
    if (!input && !s->preset)
        return rs_fail(
            err, RS_E_USAGE, "predict",
            "give an architecture file, a config.json, or --preset NAME (list: the names)",
            "needs an architecture");
    if (input && s->preset)
        return rs_fail(err, RS_E_USAGE, "preset", "give one of the two",
                       "an architecture and a preset are two questions");
    if (!(s->budget == 0 || (s->budget >= 1 && s->budget <= most_parameters)))
        return rs_fail(err, RS_E_BAD_OPTION, "budget", "0: no shapes are compared",
                       "%g is no number of parameters from 1 to %g", s->budget, most_parameters);
    return RS_CHECK_RANGES(ranges, err);
}

/* Thresholds by name, over the defaults. */
static rs_status take_thresholds(rs_predict_thresholds *out, const rs_predict_settings *s,
                                 rs_error *err)
{
    *out = rs_predict_defaults;
    RS_TRY(rs_check_array(s->thresholds, s->n_thresholds, "thresholds", err));
    for (size_t i = 0; i < s->n_thresholds; i++)
        RS_TRY(rs_predict_threshold_set(out, s->thresholds[i].code, s->thresholds[i].value, err));
    return RS_OK;
}

static rs_status fill(rs_result *result, const rs_task *task, rs_error *err)
{
    const rs_predict_settings *s = &task->settings->predict;
    bool best = s->remedies && strcmp(s->remedies, "best") == 0;
    rs_predict_options options = {.source = {task->subject.path, s->preset, s->init, s->seq_len},
                                  .after_final_norm = s->loss_at == RS_GRAD_AT_FINAL,
                                  .remedies = best ? NULL : s->remedies,
                                  .trials = s->trials,
                                  .grid = s->grid,
                                  .budget = s->budget,
                                  .full_size = s->full_size,
                                  .explain = s->explain};
    RS_TRY(check(s, task->subject.path, err));
    RS_TRY(take_thresholds(&options.thresholds, s, err));
    if (s->preset && strcmp(s->preset, "list") == 0) return rs_predict_presets(result, err);
    return rs_predict_fill(result, &options, task->context, err);
}

static void defaults(rs_any_settings *settings)
{
    settings->predict.trials = -1;
}

static const rs_command command = {
    .name = "predict", .defaults = defaults, .size = sizeof(rs_predict_settings), .fill = fill};

void rs_predict_settings_init(rs_predict_settings *settings, size_t size)
{
    rs_settings_init(settings, size, &command);
}

rs_status rs_predict(rs_result **out, const char *input, const rs_predict_settings *settings,
                     rs_error *err)
{
    return rs_answer_path(out, &command, input, settings, err);
}
