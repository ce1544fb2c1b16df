/* paths_path.c: from a path to a filled result. */
#include "paths/paths.h"

static rs_status trace_opened(rs_opened *o, rs_result *result, rs_input_files *files,
                              const rs_paths_request *request, const rs_context *context,
                              rs_error *err)
{
    rs_open_request open = {.lent = request->lent,
                            .path = request->path,
                            .init = request->init,
                            .lenient = request->lenient,
                            .source = request->options.source,
                            .need = rs_paths_need,
                            .options = &request->options};
    RS_TRY(rs_opened_open(o, result, files, &open, context, err));
    RS_TRY(rs_paths(result, o->network, o->inputs, &request->options, context, err));
    return rs_verify_checkpoint(result, o->checkpoint, err);
}

rs_status rs_paths_path(rs_result *result, rs_input_files *inputs, const rs_paths_request *request,
                        const rs_context *context, rs_error *err)
{
    rs_opened o = {0};
    rs_status status = trace_opened(&o, result, inputs, request, context, err);
    rs_opened_close(&o);
    return status;
}
