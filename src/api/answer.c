/* answer.c: from a question to a result: the caller's callbacks, BLAS held, what is handed out. */
#include "api/check.h"
#include "api/command.h"
#include "base/clock.h"
#include "base/cpu.h"
#include "base/memory.h"
#include "linalg/blas.h"
#include "linalg/threads.h"
#include "report/output.h"

#include <math.h>
#include <time.h>

/* Both callbacks of the caller run here, on the thread that called. */
static void tell(void *user, const char *phase, uint64_t done, uint64_t total, const char *unit)
{
    rs_ears *ears = user;
    const rs_call_settings *call = ears->call;
    if (__atomic_load_n(&ears->stop, __ATOMIC_RELAXED)) return; /* the call is about to end */
    if (call->progress) call->progress(call->user, phase, done, total, unit);
    bool stop = call->stop && __atomic_load_n(call->stop, __ATOMIC_RELAXED);
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

/* ---- meta of a run (docs/contract.md, 2) ---- */

rs_status rs_set_machine(rs_result *result, int threads, double gflops, rs_error *err)
{
    char cpu[64];
    rs_cpu_name(cpu, sizeof cpu);
    json_t *blas = json_pack("{s:s, s:s}", "name", "OpenBLAS", "core", rs_blas_core());
    json_object_set_new(blas, "gflops", isnan(gflops) ? json_null() : json_real(gflops));
    json_t *machine = json_pack("{s:s, s:i, s:o}", "cpu", cpu, "threads", threads, "blas", blas);
    return rs_result_set_meta(result, "machine", machine, err);
}

static rs_status set_begin(rs_result *result, const rs_context *context, rs_error *err)
{
    char text[64];
    time_t now = time(NULL);
    struct tm utc;
    gmtime_r(&now, &utc);
    strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc);
    RS_TRY(rs_set_machine(result, context->threads, NAN, err));
    return rs_result_set_meta(result, "started", json_string(text), err);
}

static rs_status set_end(rs_result *result, double started, rs_error *err)
{
    return rs_result_set_meta(result, "seconds", json_real(rs_seconds() - started), err);
}

/* ---- from a task to a result ---- */

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

/* The results of a session name no run: they come by the thousand, and are the same each time. */
static rs_status fill_run(rs_result *result, const rs_command *command, const rs_task *task,
                          rs_error *err)
{
    double started = rs_seconds();
    bool session = task->subject.lent != NULL;
    if (!session) RS_TRY(set_begin(result, task->context, err));
    RS_TRY(fill(result, command, task, err));
    if (!session) RS_TRY(set_end(result, started, err));
    return rs_result_seal(result, err);
}

rs_status rs_answer(rs_result **out, const rs_command *command, const rs_task *task, rs_error *err)
{
    rs_result *result = rs_result_new(command->name);
    if (!result) return rs_fail_memory(err, "result", 0);
    rs_result_files(result)->outputs->cancel = task->context->cancel;
    rs_status status = fill_run(result, command, task, err);
    rs_result_files(result)->outputs->cancel = NULL; /* it may end with the call */
    if (status == RS_OK) {
        *out = result;
        return RS_OK;
    }
    rs_undo_outputs(result, status, err);
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
    if (command->opens) RS_TRY(rs_check_pointer(path, "path", err));
    RS_TRY(rs_settings_take(&settings, command, given, err));
    RS_TRY(rs_check_call(&settings.common.call, err));
    rs_context context = rs_context_of(&ears, &settings.common.call);
    const rs_task task = {.subject = {.path = path}, .settings = &settings, .context = &context};
    return rs_answer(out, command, &task, err);
}
