/* certify.c: rs_certify_checkpoint and rs_session_certify. */
#include "certify/certify.h"
#include "api/check.h"
#include "api/command.h"

static void defaults(rs_any_settings *settings)
{
    rs_certify_options options;
    rs_certify_defaults(&options);
    settings->certify.kept = options.kept;
}

static rs_status options_of(rs_certify_options *o, const rs_certify_settings *s, rs_arena *arena,
                            rs_error *err)
{
    if (!(s->kept > 0 && s->kept < 1))
        return rs_fail(err, RS_E_BAD_OPTION, "kept", "give a fraction between 0 and 1, such as 0.9",
                       "cannot take %g", s->kept);
    if (s->recommend != 0 && !(s->recommend > 0 && s->recommend < 1))
        return rs_fail(err, RS_E_BAD_OPTION, "recommend",
                       "give a share of the tokens' size between 0 and 1, such as 0.5",
                       "cannot take %g", s->recommend);
    if (s->rigorous && s->fast)
        return rs_fail(err, RS_E_USAGE, "fast", "give one of the two",
                       "rigorous leaves out what fast shows");
    RS_TRY(rs_check_heads(s->steps, s->n_steps, "steps", err));
    rs_certify_defaults(o);
    o->steps = s->steps;
    o->n_steps = s->n_steps;
    o->source = rs_source_of(&s->run);
    o->batch = s->run.batch;
    o->kept = s->kept;
    o->recommend = s->recommend;
    o->rigorous = !s->fast;
    return rs_edit_of(&o->edit, &o->edited, &s->run, s->variant, arena, err);
}

static rs_status fill_one(rs_result *result, const rs_task *task, rs_error *err)
{
    const rs_certify_settings *s = &task->settings->certify;
    rs_certify_request request = {.lent = task->subject.lent,
                                  .path = task->subject.path,
                                  .init = s->run.init,
                                  .lenient = s->run.lenient};
    RS_TRY(options_of(&request.options, s, task->arena, err));
    return rs_certify_path(result, rs_result_files(result), &request, task->context, err);
}

static rs_status fill(rs_result *result, const rs_task *task, rs_error *err)
{
    const rs_certify_settings *s = &task->settings->certify;
    return rs_fill_beside(result, task, s->others, s->n_others, fill_one, err);
}

static const rs_command command = {.name = "certify",
                                   .opens = true,
                                   .size = sizeof(rs_certify_settings),
                                   .defaults = defaults,
                                   .runs = true,
                                   .fill = fill};

void rs_certify_settings_init(rs_certify_settings *settings, size_t size)
{
    rs_settings_init(settings, size, &command);
}

rs_status rs_certify_checkpoint(rs_result **out, const char *path,
                                const rs_certify_settings *settings, rs_error *err)
{
    return rs_answer_path(out, &command, path, settings, err);
}

rs_status rs_session_certify(rs_result **out, rs_session *session,
                             const rs_certify_settings *settings, rs_error *err)
{
    return rs_answer_session(out, &command, session, settings, err);
}
