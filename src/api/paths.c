/* paths.c: rs_paths_checkpoint and rs_session_paths. */
#include "paths/paths.h"
#include "api/check.h"
#include "api/command.h"

enum { MOST_PATHS = 1 << 20 };

static void defaults(rs_any_settings *settings)
{
    rs_paths_options options;
    rs_paths_defaults(&options);
    settings->paths.max_length = options.max_length;
    settings->paths.paths = options.paths;
}

static rs_status options_of(rs_paths_options *o, const rs_paths_settings *s, rs_arena *arena,
                            rs_error *err)
{
    const rs_range ranges[] = {
        {"max_length", s->max_length, -1, RS_MOST_COUNT},
        {"paths", s->paths, 0, MOST_PATHS},
        {"semantics", (int)s->semantics, RS_PATHS_THEOREM, RS_PATHS_CODE},
    };
    RS_TRY(RS_CHECK_RANGES(ranges, err));
    rs_paths_defaults(o);
    o->source = rs_source_of(&s->run);
    o->max_length = s->max_length;
    o->paths = s->paths;
    o->semantics = s->semantics;
    o->by_layer = s->sources;
    o->no_logits = s->no_loss;
    o->lesions = s->lesions;
    return rs_edit_of(&o->edit, NULL, &s->run, s->variant, arena, err);
}

static rs_status fill(rs_result *result, const rs_task *task, rs_error *err)
{
    const rs_paths_settings *s = &task->settings->paths;
    rs_paths_request request = {.lent = task->subject.lent,
                                .path = task->subject.path,
                                .init = s->run.init,
                                .lenient = s->run.lenient};
    RS_TRY(options_of(&request.options, s, task->arena, err));
    return rs_paths_path(result, rs_result_files(result), &request, task->context, err);
}

static const rs_command command = {.name = "paths",
                                   .opens = true,
                                   .size = sizeof(rs_paths_settings),
                                   .defaults = defaults,
                                   .runs = true,
                                   .fill = fill};

void rs_paths_settings_init(rs_paths_settings *settings, size_t size)
{
    rs_settings_init(settings, size, &command);
}

rs_status rs_paths_checkpoint(rs_result **out, const char *path, const rs_paths_settings *settings,
                              rs_error *err)
{
    return rs_answer_path(out, &command, path, settings, err);
}

rs_status rs_session_paths(rs_result **out, rs_session *session, const rs_paths_settings *settings,
                           rs_error *err)
{
    return rs_answer_session(out, &command, session, settings, err);
}
