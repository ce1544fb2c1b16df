/* compare.c: rs_compare_checkpoints. */
#include "compare/compare.h"
#include "api/check.h"
#include "api/command.h"

#include <limits.h>
#include <math.h>

static void defaults(rs_any_settings *settings)
{
    settings->compare.last_layer = -1;
    settings->compare.tolerance = -1;
}

static rs_status take_thresholds(rs_compare_options *o, const rs_compare_settings *s, rs_error *err)
{
    const rs_known_threshold known[] = {
        {"rank_fell", &o->thresholds.rank_fell},
        {"rank_rose", &o->thresholds.rank_rose},
        {"turned_away", &o->thresholds.turned_away},
        {"qk_low_rank", &o->scan.thresholds.qk_low_rank},
        {"ov_low_rank", &o->scan.thresholds.ov_low_rank},
        {"dead_head", &o->scan.thresholds.dead_head},
        {"decay_equilibrium", &o->scan.thresholds.decay_equilibrium}};
    return rs_take_thresholds(known, sizeof known / sizeof *known, s->thresholds, s->n_thresholds,
                              err);
}

/* Checkpoints have weights of their own, and are compared as they are. */
static rs_status check_run(const rs_run_settings *run, rs_error *err)
{
    if (run->init)
        return rs_fail(err, RS_E_USAGE, "init", "leave it out",
                       "checkpoints are compared, and drawn weights are none");
    if (run->n_edits)
        return rs_fail(err, RS_E_USAGE, run->edits[0].name, "'rankscope probe' compares variants",
                       "checkpoints are compared as they are");
    return RS_OK;
}

/* Whether any inputs are given. */
static bool has_inputs(const rs_run_settings *run)
{
    return run->text || run->n_texts || run->tokens || run->ids || run->images || run->states ||
           run->random > 0;
}

static rs_status check_inputs(const rs_run_settings *run, rs_error *err)
{
    const struct {
        bool given;
        const char *name;
    } about[] = {{run->seq_len > 0, "seq-len"},
                 {run->samples > 0, "samples"},
                 {run->batch > 0, "batch"},
                 {run->encoder_states != NULL, "encoder-states"}};
    for (size_t i = 0; i < sizeof about / sizeof *about && !has_inputs(run); i++)
        if (about[i].given)
            return rs_fail(err, RS_E_USAGE, about[i].name, "give inputs too, such as --text FILE",
                           "it is about inputs, and the models are not run on any");
    return RS_OK;
}

static rs_status check_others(const rs_compare_settings *s, rs_error *err)
{
    if (s->n_others == 0)
        return rs_fail(err, RS_E_USAGE, "compare", "rankscope compare A B",
                       "needs two checkpoints at least");
    return rs_check_others(s->others, s->n_others, false, err);
}

static rs_status options_of(rs_compare_options *o, const rs_compare_settings *s, rs_error *err)
{
    const rs_range ranges[] = {{"first_layer", s->first_layer, 0, INT_MAX},
                               {"last_layer", s->last_layer, -1, INT_MAX},
                               {"subspace", s->subspace, 0, RS_MOST_COUNT}};
    RS_TRY(RS_CHECK_RANGES(ranges, err));
    RS_TRY(check_others(s, err));
    RS_TRY(check_run(&s->run, err));
    RS_TRY(check_inputs(&s->run, err));
    if (s->tolerance != -1 && !(isfinite(s->tolerance) && s->tolerance >= 0))
        return rs_fail(err, RS_E_BAD_OPTION, "tolerance", "give a number such as 1e-6, or -1",
                       "%g is no tolerance", s->tolerance);
    rs_compare_defaults(o);
    o->scan.heads.fold = (rs_fold){.norms = s->fold_norms, .biases = s->with_bias};
    o->scan.heads.first_layer = s->first_layer;
    if (s->last_layer >= 0) o->scan.heads.last_layer = s->last_layer;
    if (s->tolerance >= 0) o->scan.heads.tolerance = s->tolerance;
    o->subspace = s->subspace;
    o->tokens = has_inputs(&s->run);
    o->source = rs_source_of(&s->run);
    o->batch = s->run.batch;
    return take_thresholds(o, s, err);
}

static rs_status fill(rs_result *result, const rs_task *task, rs_error *err)
{
    const rs_compare_settings *s = &task->settings->compare;
    rs_compare_request request = {.path = task->subject.path,
                                  .others = s->others,
                                  .n_others = s->n_others,
                                  .lenient = s->run.lenient};
    RS_TRY(options_of(&request.options, s, err));
    return rs_compare_paths(result, rs_result_files(result), &request, task->context, err);
}

static const rs_command command = {.name = "compare",
                                   .opens = true,
                                   .size = sizeof(rs_compare_settings),
                                   .defaults = defaults,
                                   .runs = true,
                                   .fill = fill};

void rs_compare_settings_init(rs_compare_settings *settings, size_t size)
{
    rs_settings_init(settings, size, &command);
}

rs_status rs_compare_checkpoints(rs_result **out, const char *path,
                                 const rs_compare_settings *settings, rs_error *err)
{
    return rs_answer_path(out, &command, path, settings, err);
}
