/* context.c: progress and interruption. */
#include "base/context.h"

void rs_progress(const rs_context *context, const char *phase, uint64_t done, uint64_t total,
                 const char *unit)
{
    if (context->progress) context->progress(context->progress_user, phase, done, total, unit);
}

rs_status rs_check_cancelled(const rs_context *context, rs_error *err)
{
    if (!rs_cancelled(context)) return RS_OK;
    return rs_fail(err, RS_E_INTERRUPTED, "rankscope", NULL, "interrupted; nothing was written");
}
