/* library.c: the functions of rankscope.h that are more than a room's own. */
#include "collapse/probe.h"
#include "collapse/scan.h"

void rs_scan_settings_init(rs_scan_settings *settings)
{
    *settings = (rs_scan_settings){.last_layer = -1};
}

rs_status rs_scan_checkpoint(rs_result **out, const char *path, const rs_scan_settings *settings,
                             rs_error *err)
{
    *out = NULL;
    rs_scan_request request = {.path = path, .map = settings->map, .lenient = settings->lenient};
    rs_scan_defaults(&request.options);
    request.options.heads.fold =
        (rs_fold){.norms = settings->fold_norms, .biases = settings->with_bias};
    request.options.heads.first_layer = settings->first_layer;
    if (settings->last_layer >= 0) request.options.heads.last_layer = settings->last_layer;
    request.options.spectra = settings->spectra;
    request.options.matrices = settings->matrices;
    rs_context context = {.threads =
                              settings->threads > 0 ? settings->threads : rs_default_threads(),
                          .seed = settings->seed};
    rs_result *result = rs_result_new("scan");
    if (!result) return rs_fail_memory(err, "result", 0);
    rs_status status = rs_scan_path(result, NULL, &request, &context, err);
    if (status == RS_OK)
        *out = result;
    else
        rs_result_free(result);
    return status;
}

void rs_probe_settings_init(rs_probe_settings *settings)
{
    *settings = (rs_probe_settings){0};
}

static rs_probe_request probe_request(const char *path, const rs_probe_settings *s)
{
    rs_probe_request request = {.path = path, .init = s->init, .lenient = s->lenient};
    rs_probe_options *o = &request.options;
    rs_probe_defaults(o);
    o->source = (rs_probe_source){.text = s->text,
                                  .tokens = s->tokens,
                                  .images = s->images,
                                  .random = s->random,
                                  .encoder_states = s->encoder_states,
                                  .seq_len = s->seq_len,
                                  .samples = s->samples};
    o->measure.precision = s->precision;
    o->measure.spectral = !s->no_spectral;
    o->measure.attention = !s->no_attention;
    o->measure.loss = !s->no_loss && s->random == 0;
    o->measure.batch = s->batch;
    o->variants = s->variants;
    o->generate = s->generate;
    o->output = s->output;
    o->taps = s->taps;
    return request;
}

rs_status rs_probe_checkpoint(rs_result **out, const char *path, const rs_probe_settings *settings,
                              rs_error *err)
{
    *out = NULL;
    rs_probe_request request = probe_request(path, settings);
    rs_context context = {.threads =
                              settings->threads > 0 ? settings->threads : rs_default_threads(),
                          .seed = settings->seed};
    rs_result *result = rs_result_new("probe");
    if (!result) return rs_fail_memory(err, "result", 0);
    rs_status status = rs_probe_path(result, NULL, &request, &context, err);
    if (status == RS_OK)
        *out = result;
    else
        rs_result_free(result);
    return status;
}

/* Hands a buffer's bytes to the caller, or frees them. */
static rs_status give(char **text, size_t *length, rs_buffer *bytes, rs_status status,
                      rs_error *err)
{
    *text = NULL;
    if (status == RS_OK && (bytes->failed || !bytes->data))
        status = rs_fail_memory(err, "text of a result", bytes->length);
    if (status != RS_OK) {
        rs_buffer_free(bytes);
        return status;
    }
    if (length) *length = bytes->length;
    *text = bytes->data;
    return RS_OK;
}

rs_status rs_result_text(char **text, size_t *length, const rs_result *result, rs_form form,
                         rs_error *err)
{
    static const rs_terminal plain = {.width = 80};
    rs_buffer bytes = {0};
    rs_status status;
    if (form == RS_FORM_TERMINAL)
        status = rs_write_terminal(&bytes, result, &plain, err);
    else
        status = (form == RS_FORM_HTML ? rs_write_html : rs_write_json)(&bytes, result, err);
    return give(text, length, &bytes, status, err);
}

rs_status rs_result_csv(char **text, size_t *length, const rs_result *result, const char *table,
                        rs_error *err)
{
    const rs_table *found = rs_result_table(result, table);
    *text = NULL;
    if (!found) return rs_fail(err, RS_E_NOT_FOUND, table, NULL, "the result has no such table");
    rs_buffer bytes = {0};
    rs_status status = rs_write_csv(&bytes, found, err);
    return give(text, length, &bytes, status, err);
}

void rs_text_free(char *text)
{
    rs_free(text);
}

size_t rs_result_count_findings(const rs_result *result, int least_severity)
{
    size_t count = 0;
    for (size_t i = 0; i < rs_result_finding_count(result); i++)
        count += (int)rs_result_finding_at(result, i)->severity >= least_severity;
    return count;
}
