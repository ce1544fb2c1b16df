/* library.c: the functions of rankscope.h that are more than a room's own. */
#include "api/library_check.h"
#include "api/library_options.h"
#include "api/probe_path.h"
#include "base/memory.h"
#include "certify/certify.h"
#include "linalg/threads.h"
#include "paths/paths.h"
#include "scan/scan.h"

/* ---- commands ---- */

static rs_context context_of(int threads, uint64_t seed, uint64_t memory)
{
    return (rs_context){.threads = threads > 0 ? threads : rs_default_threads(),
                        .seed = seed,
                        .memory = rs_memory_bound_of(memory)};
}

rs_status rs_answer(rs_result **out, const char *name, rs_answer_fill *fill, const void *subject,
                    const void *settings, rs_error *err)
{
    RS_TRY(rs_check_pointer(settings, "settings", err));
    rs_result *result = rs_result_new(name);
    rs_arena *arena = rs_arena_new();
    rs_threads_hold();
    rs_status status = result && arena ? fill(result, subject, settings, arena, err)
                                       : rs_fail_memory(err, "result", 0);
    rs_threads_release();
    if (status == RS_OK) status = rs_result_seal(result, err);
    rs_arena_free(arena);
    if (status == RS_OK)
        *out = result;
    else
        rs_result_free(result);
    return status;
}

static rs_status run_command(rs_result **out, const char *name, rs_answer_fill *fill,
                             const char *path, const void *settings, rs_error *err)
{
    if (out) *out = NULL;
    RS_TRY(rs_check_pointer(out, "out", err));
    RS_TRY(rs_check_pointer(path, "path", err));
    return rs_answer(out, name, fill, path, settings, err);
}

void rs_scan_settings_init(rs_scan_settings *settings)
{
    if (settings) *settings = (rs_scan_settings){.last_layer = -1};
}

rs_status rs_options_of_scan(rs_scan_options *options, const rs_scan_settings *settings,
                             rs_error *err)
{
    RS_TRY(rs_check_scan(settings, err));
    rs_scan_defaults(options);
    options->heads.fold = (rs_fold){.norms = settings->fold_norms, .biases = settings->with_bias};
    options->heads.first_layer = settings->first_layer;
    if (settings->last_layer >= 0) options->heads.last_layer = settings->last_layer;
    options->spectra = settings->spectra;
    options->matrices = settings->matrices;
    return RS_OK;
}

static rs_status scan(rs_result *result, const void *path, const void *given, rs_arena *arena,
                      rs_error *err)
{
    const rs_scan_settings *settings = given;
    rs_scan_request request = {.path = path, .map = settings->map, .lenient = settings->lenient};
    (void)arena;
    RS_TRY(rs_options_of_scan(&request.options, settings, err));
    rs_context context = context_of(settings->threads, settings->seed, settings->memory);
    return rs_scan_path(result, NULL, &request, &context, err);
}

rs_status rs_scan_checkpoint(rs_result **out, const char *path, const rs_scan_settings *settings,
                             rs_error *err)
{
    return run_command(out, "scan", scan, path, settings, err);
}

static rs_input_source source_of(const rs_run_settings *run)
{
    return (rs_input_source){.text = run->text,
                             .tokens = run->tokens,
                             .ids = run->ids,
                             .n_ids = run->ids_samples,
                             .id_length = run->ids_length,
                             .images = run->images,
                             .random = run->random,
                             .encoder_states = run->encoder_states,
                             .seq_len = run->seq_len,
                             .samples = run->samples};
}

void rs_probe_settings_init(rs_probe_settings *settings)
{
    if (settings) *settings = (rs_probe_settings){0};
}

rs_status rs_options_of_probe(rs_probe_options *o, const rs_probe_settings *settings, rs_error *err)
{
    const rs_run_settings *run = &settings->run;
    RS_TRY(rs_check_probe(settings, err));
    rs_probe_defaults(o);
    o->source = source_of(run);
    o->measure.precision = settings->precision;
    o->measure.spectral = !settings->no_spectral;
    o->measure.attention = !settings->no_attention;
    o->measure.loss = !settings->no_loss && run->random == 0;
    o->measure.batch = run->batch;
    o->variants = settings->variants;
    o->generate = settings->generate;
    o->output = settings->output;
    o->taps = settings->taps;
    return RS_OK;
}

static rs_status probe(rs_result *result, const void *path, const void *given, rs_arena *arena,
                       rs_error *err)
{
    const rs_probe_settings *settings = given;
    const rs_run_settings *run = &settings->run;
    rs_probe_request request = {.path = path, .init = run->init, .lenient = run->lenient};
    (void)arena;
    RS_TRY(rs_options_of_probe(&request.options, settings, err));
    rs_context context = context_of(run->threads, run->seed, run->memory);
    return rs_probe_path(result, NULL, &request, &context, err);
}

rs_status rs_probe_checkpoint(rs_result **out, const char *path, const rs_probe_settings *settings,
                              rs_error *err)
{
    return run_command(out, "probe", probe, path, settings, err);
}

/* The edit of the one variant that `text` describes; NULL: none. */
static rs_status edit_of(rs_edit *edit, const char *text, rs_arena *arena, rs_error *err)
{
    rs_variant *variants;
    size_t n;
    if (!text) return RS_OK;
    RS_TRY(rs_variants_parse(&variants, &n, text, edit, arena, err));
    if (n != 1)
        return rs_fail(err, RS_E_BAD_OPTION, "variant", "run the others one by one",
                       "\"%.80s\" is not one variant", text);
    *edit = variants[0].edit;
    return RS_OK;
}

void rs_certify_settings_init(rs_certify_settings *settings)
{
    rs_certify_options defaults;
    rs_certify_defaults(&defaults);
    if (settings) *settings = (rs_certify_settings){.kept = defaults.kept};
}

rs_status rs_options_of_certify(rs_certify_options *o, const rs_certify_settings *settings,
                                rs_arena *arena, rs_error *err)
{
    const rs_run_settings *run = &settings->run;
    RS_TRY(rs_check_certify(settings, err));
    rs_certify_defaults(o);
    o->source = source_of(run);
    o->batch = run->batch;
    o->kept = settings->kept;
    o->rigorous = settings->rigorous;
    o->edited = settings->variant != NULL;
    return edit_of(&o->edit, settings->variant, arena, err);
}

static rs_status certify(rs_result *result, const void *path, const void *given, rs_arena *arena,
                         rs_error *err)
{
    const rs_certify_settings *settings = given;
    const rs_run_settings *run = &settings->run;
    rs_certify_request request = {.path = path, .init = run->init, .lenient = run->lenient};
    RS_TRY(rs_options_of_certify(&request.options, settings, arena, err));
    rs_context context = context_of(run->threads, run->seed, run->memory);
    return rs_certify_path(result, NULL, &request, &context, err);
}

rs_status rs_certify_checkpoint(rs_result **out, const char *path,
                                const rs_certify_settings *settings, rs_error *err)
{
    return run_command(out, "certify", certify, path, settings, err);
}

void rs_paths_settings_init(rs_paths_settings *settings)
{
    rs_paths_options defaults;
    rs_paths_defaults(&defaults);
    if (settings)
        *settings = (rs_paths_settings){.max_length = defaults.max_length, .paths = defaults.paths};
}

rs_status rs_options_of_paths(rs_paths_options *o, const rs_paths_settings *settings,
                              rs_arena *arena, rs_error *err)
{
    const rs_run_settings *run = &settings->run;
    RS_TRY(rs_check_paths(settings, err));
    rs_paths_defaults(o);
    o->source = source_of(run);
    o->max_length = settings->max_length;
    o->paths = settings->paths;
    o->semantics = settings->code_semantics ? RS_PATHS_CODE : RS_PATHS_THEOREM;
    o->by_layer = settings->sources;
    o->no_logits = settings->no_loss;
    return edit_of(&o->edit, settings->variant, arena, err);
}

static rs_status paths(rs_result *result, const void *path, const void *given, rs_arena *arena,
                       rs_error *err)
{
    const rs_paths_settings *settings = given;
    const rs_run_settings *run = &settings->run;
    rs_paths_request request = {.path = path, .init = run->init, .lenient = run->lenient};
    RS_TRY(rs_options_of_paths(&request.options, settings, arena, err));
    rs_context context = context_of(run->threads, run->seed, run->memory);
    return rs_paths_path(result, NULL, &request, &context, err);
}

rs_status rs_paths_checkpoint(rs_result **out, const char *path, const rs_paths_settings *settings,
                              rs_error *err)
{
    return run_command(out, "paths", paths, path, settings, err);
}

/* ---- results ---- */

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
    if (text) *text = NULL;
    RS_TRY(rs_check_pointer(text, "text", err));
    RS_TRY(rs_check_pointer(result, "result", err));
    RS_TRY(rs_check_form(form, err));
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
    if (text) *text = NULL;
    RS_TRY(rs_check_pointer(text, "text", err));
    RS_TRY(rs_check_pointer(result, "result", err));
    RS_TRY(rs_check_pointer(table, "table", err));
    RS_TRY(rs_result_complete(result, err));
    const rs_table *found = rs_result_table(result, table);
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
    for (size_t i = 0; result && i < rs_result_finding_count(result); i++)
        count += (int)rs_result_finding_at(result, i)->severity >= least_severity;
    return count;
}
