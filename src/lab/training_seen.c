/* training_seen.c: training runs for what their last network is worth. */
#include "lab/training.h"

rs_status rs_lab_train_seen(bool *diverged, const char *text, const rs_lab_finish *finish,
                            const rs_context *context, rs_error *err)
{
    rs_context own = *context;
    own.threads = 1;
    own.progress = NULL;
    rs_run_outcome outcome = {0};
    rs_run_request request = {.finish = finish->run, .finish_user = finish->user};
    RS_TRY(rs_lab_read_task(&request.settings, text, err));
    rs_status status = rs_train_run(&outcome, &request, &own, err);
    rs_train_settings_close(request.settings);
    RS_TRY(status);
    *diverged = outcome.end == RS_RUN_NOT_FINITE;
    if (outcome.end == RS_RUN_INTERRUPTED)
        return rs_fail(err, RS_E_INTERRUPTED, "training", NULL, "interrupted");
    return RS_OK;
}
