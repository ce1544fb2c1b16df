/* beside.c: one command over several models, whose results become one (report/beside.h). */
#include "report/beside.h"
#include "api/check.h"
#include "api/command.h"
#include "base/memory.h"

static rs_status fill_parts(rs_result **parts, const rs_task *task, const char *const *paths,
                            size_t n, rs_fill *fill, rs_error *err)
{
    for (size_t i = 0; i < n; i++) {
        rs_task own = *task;
        own.subject.path = paths[i];
        parts[i] = rs_result_new("part");
        if (!parts[i]) return rs_fail_memory(err, "result", 0);
        RS_TRY(fill(parts[i], &own, err));
        RS_TRY(rs_check_cancelled(task->context, err));
    }
    return RS_OK;
}

rs_status rs_fill_beside(rs_result *result, const rs_task *task, const char *const *others,
                         size_t n_others, rs_fill *fill, rs_error *err)
{
    RS_TRY(rs_check_others(others, n_others, task->subject.lent != NULL, err));
    if (n_others == 0) return fill(result, task, err);
    size_t n = n_others + 1;
    const char **paths = rs_arena_alloc(task->arena, n, sizeof *paths);
    rs_result **parts = rs_calloc(n, sizeof *parts);
    if (!paths || !parts) {
        rs_free(parts);
        return rs_fail_memory(err, "paths", n * sizeof *paths);
    }
    paths[0] = task->subject.path;
    for (size_t i = 1; i < n; i++)
        paths[i] = others[i - 1];
    rs_status status = fill_parts(parts, task, paths, n, fill, err);
    if (status == RS_OK) status = rs_results_beside(result, parts, paths, n, err);
    for (size_t i = 0; i < n; i++)
        rs_result_free(parts[i]);
    rs_free(parts);
    return status;
}
