/* probe_path.c: from a path to a filled result: opens, probes, and on request scans the same
 * weights. */
#include "api/probe_path.h"

#include "certify/certify.h"
#include "observe/opened.h"

static rs_status scan_too(rs_result *result, const rs_opened *o, const rs_lent_model *lent,
                          const rs_context *context, rs_error *err)
{
    rs_scan_options options;
    rs_model *model;
    rs_scan_defaults(&options);
    options.summary = "weights";
    if (lent) return rs_scan(result, lent->model, &options, context, err);
    RS_TRY(rs_model_open(&model, o->checkpoint, NULL, NULL, err));
    rs_status status = rs_scan(result, model, &options, context, err);
    rs_model_close(model);
    return status;
}

static rs_status certify_too(rs_result *result, const rs_opened *o, const rs_probe_request *request,
                             const rs_context *context, rs_error *err)
{
    rs_certify_options options;
    rs_certify_defaults(&options);
    options.edit = request->options.edit;
    options.batch = request->options.measure.batch;
    options.rigorous = request->rigorous;
    options.beside = true;
    return rs_certify(result, o->network, o->inputs, &options, context, err);
}

static rs_status probe_opened(rs_opened *o, rs_result *result, rs_input_files *files,
                              const rs_probe_request *request, const rs_context *context,
                              rs_error *err)
{
    const rs_probe_options *options = &request->options;
    rs_open_request open = {.lent = request->lent,
                            .path = request->path,
                            .init = request->init,
                            .lenient = request->lenient,
                            .wants_tokenizer = options->generate > 0,
                            .source = options->source,
                            .need = rs_probe_need,
                            .options = options};
    RS_TRY(rs_opened_open(o, result, files, &open, context, err));
    if (request->scan && !o->checkpoint)
        return rs_fail(err, RS_E_USAGE, "--scan", "leave it out",
                       "weights that were just drawn are not worth a scan");
    RS_TRY(rs_probe(result, o->network, o->inputs, o->tokenizer, options, files, context, err));
    if (request->certify) RS_TRY(certify_too(result, o, request, context, err));
    if (request->scan) RS_TRY(scan_too(result, o, request->lent, context, err));
    return rs_verify_checkpoint(result, o->checkpoint, err);
}

rs_status rs_probe_path(rs_result *result, rs_input_files *inputs, const rs_probe_request *request,
                        const rs_context *context, rs_error *err)
{
    rs_opened o = {0};
    rs_status status = probe_opened(&o, result, inputs, request, context, err);
    rs_opened_close(&o);
    return status;
}
