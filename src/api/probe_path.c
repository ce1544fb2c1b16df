/* probe_path.c: from a path to a filled result: opens, probes, and on request scans the same weights
 * and certifies the same samples. */
#include "api/probe_path.h"

#include "certify/certify.h"
#include "observe/opened.h"

static rs_status scan_too(rs_result *result, const rs_opened *o, const rs_context *context,
                          rs_error *err)
{
    rs_scan_options options;
    rs_scan_defaults(&options);
    options.summary = "weights";
    return rs_scan(result, o->model, &options, context, err);
}

/* The certificates hear the pass that probe makes of the model, where that is a float64 one and
 * there is one; else a pass of their own. */
static rs_status probe_certified(rs_opened *o, rs_result *result, rs_input_files *files,
                                 const rs_probe_options *options, bool rigorous,
                                 const rs_context *context, rs_error *err)
{
    rs_listener *listeners[RS_CERTIFY_LISTENERS];
    rs_probe_guests guests = {.listeners = listeners};
    rs_certify_options certify;
    rs_certifying *certifying;
    rs_certify_defaults(&certify);
    certify.edit = options->edit;
    certify.batch = options->measure.batch;
    certify.rigorous = rigorous;
    certify.beside = true;
    RS_TRY(rs_certify_open(&certifying, o->network, o->inputs, &certify, context, err));
    rs_certify_listeners(listeners, certifying);
    if (options->measure.precision == RS_PRECISION_F64) guests.n = RS_CERTIFY_LISTENERS;
    rs_status status = rs_probe(result, o->network, o->inputs, o->tokenizer, options, files,
                                &guests, context, err);
    if (status == RS_OK && !(guests.n && guests.heard)) status = rs_certify_run(certifying, err);
    if (status == RS_OK) status = rs_certify_finish(result, certifying, err);
    rs_certify_close(certifying);
    return status;
}

/* What a run will hold. */
typedef struct needs {
    const rs_probe_options *options;
    bool certify, rigorous;
} needs;

static void need_of(rs_budget *budget, const rs_network *network, rs_run_shape shape,
                    const void *user, const rs_context *context)
{
    const needs *n = user;
    const rs_measure_options *m = &n->options->measure;
    rs_probe_need(budget, network, shape, n->options, context);
    if (!n->certify) return;
    int64_t batch = rs_need_samples(network, shape, m->batch, RS_PRECISION_F64, context);
    rs_certify_need_kept(budget, network, shape, &n->options->edit);
    if (!rs_mixing_is_asked(network, m))
        rs_certify_need_norms(budget, network, shape, batch, context);
    if (n->rigorous) rs_certify_need_rounding(budget, network, shape, batch, context);
}

static rs_status probe_opened(rs_opened *o, rs_result *result, rs_input_files *files,
                              const rs_probe_request *request, const rs_context *context,
                              rs_error *err)
{
    rs_probe_options own = request->options;
    const rs_probe_options *options = &own;
    /* certificates are about a float64 pass: one serves both */
    if (request->certify && own.measure.precision == RS_PRECISION_F32)
        own.measure.precision = RS_PRECISION_F64;
    const needs need = {options, request->certify, request->rigorous};
    rs_open_request open = {.lent = request->lent,
                            .path = request->path,
                            .init = request->init,
                            .lenient = request->lenient,
                            .wants_model = request->scan,
                            .wants_twin = request->twin,
                            .wants_tokenizer = options->generate > 0 || options->relevance ||
                                               options->loss.loss == RS_GRAD_LOSS_MLM,
                            .source = options->source,
                            .need = need_of,
                            .options = &need};
    if ((options->grad || options->relevance) && !options->back.recompute)
        open.memory_hint = "add --recompute, which keeps one layer's insides at a time, or take a "
                           "smaller --batch or --seq-len, or say how much it may take: --memory "
                           "SIZE";
    RS_TRY(rs_opened_open(o, result, files, &open, context, err));
    own.twin = o->twin;
    own.bounds = rs_certify_stack;
    if (request->scan && !o->checkpoint)
        return rs_fail(err, RS_E_USAGE, "--scan", "leave it out",
                       "weights that were just drawn are not worth a scan");
    if (request->certify)
        RS_TRY(probe_certified(o, result, files, options, request->rigorous, context, err));
    else
        RS_TRY(rs_probe(result, o->network, o->inputs, o->tokenizer, options, files, NULL, context,
                        err));
    if (request->scan) RS_TRY(scan_too(result, o, context, err));
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
