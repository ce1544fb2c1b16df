/* answer.c: from a question to a result: the caller's callbacks, BLAS held, what is handed out. */
#include "api/check.h"
#include "api/command.h"
#include "base/memory.h"
#include "linalg/threads.h"

/* Both callbacks of the caller run here, on the thread that called. */
static void tell(void *user, const char *phase, uint64_t done, uint64_t total, const char *unit)
{
    rs_ears *ears = user;
    const rs_call_settings *call = ears->call;
    if (call->progress) call->progress(call->user, phase, done, total, unit);
    bool stop = call->stop && *call->stop;
    if (call->cancel && (stop || call->cancel(call->user)))
        __atomic_store_n(&ears->stop, 1, __ATOMIC_RELAXED);
}

rs_context rs_context_of(rs_ears *ears, const rs_call_settings *call)
{
    *ears = (rs_ears){.call = call};
    return (rs_context){
        .threads = call->threads > 0 ? call->threads : rs_default_threads(),
        .seed = call->seed,
        .progress = call->progress || call->cancel ? tell : NULL,
        .progress_user = ears,
        .cancel = call->cancel ? &ears->stop : call->stop,
        .memory = rs_memory_bound_of(call->memory),
    };
}

static rs_status fill(rs_result *result, const rs_command *command, const rs_task *task,
                      rs_error *err)
{
    rs_task own = *task;
    own.arena = rs_arena_new();
    if (!own.arena) return rs_fail_memory(err, "settings", 0);
    rs_threads_hold();
    rs_status status = command->fill(result, &own, err);
    rs_threads_release();
    rs_arena_free(own.arena);
    return status;
}

rs_status rs_answer(rs_result **out, const rs_command *command, const rs_task *task, rs_error *err)
{
    rs_result *result = rs_result_new(command->name);
    if (!result) return rs_fail_memory(err, "result", 0);
    rs_status status = fill(result, command, task, err);
    if (status == RS_OK) status = rs_result_seal(result, err);
    if (status == RS_OK)
        *out = result;
    else
        rs_result_free(result);
    return status;
}

rs_status rs_answer_path(rs_result **out, const rs_command *command, const char *path,
                         const void *given, rs_error *err)
{
    rs_any_settings settings;
    rs_ears ears;
    if (out) *out = NULL;
    RS_TRY(rs_check_pointer(out, "out", err));
    RS_TRY(rs_check_pointer(path, "path", err));
    RS_TRY(rs_settings_take(&settings, command, given, err));
    RS_TRY(rs_check_call(&settings.common.call, err));
    rs_context context = rs_context_of(&ears, &settings.common.call);
    const rs_task task = {.subject = {.path = path}, .settings = &settings, .context = &context};
    return rs_answer(out, command, &task, err);
}
