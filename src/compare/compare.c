/* compare.c: from paths to a filled result: opens and scans each, pairs the others with the first. */
#include "compare/compare.h"

#include "base/memory.h"
#include "compare/compare_parts.h"
#include "network/saved.h"

void rs_compare_defaults(rs_compare_options *options)
{
    *options =
        (rs_compare_options){.thresholds = {.rank_fell = 0.2, .rank_rose = 0.2, .turned_away = 3}};
    rs_scan_defaults(&options->scan);
}

/* ---- one checkpoint ---- */

static rs_status open_one(rs_compared *c, const char *path, rs_input_files *files,
                          const rs_compare_request *request, rs_null_cache *nulls,
                          const rs_context *context, rs_error *err)
{
    rs_checkpoint_options how = {.lenient = request->lenient};
    rs_scan_options options = request->options.scan;
    c->path = path;
    options.heads.nulls = nulls;
    RS_TRY(rs_checkpoint_open(&c->checkpoint, path, &how, err));
    RS_TRY(rs_scan_note_inputs(files, c->checkpoint, path, err));
    RS_TRY(rs_checkpoint_model(&c->model, c->checkpoint, NULL, NULL, err));
    RS_TRY(rs_heads_measure(&c->heads, c->model, &options.heads, context, err));
    if (c->heads->n == 0) return rs_scan_no_product(c->model, err);
    c->scan = rs_result_new("scan");
    if (!c->scan) return rs_fail_memory(err, "result", 0);
    return rs_scan_judge(c->scan, c->model, c->heads, &options, err);
}

static void close_one(rs_compared *c)
{
    rs_result_free(c->scan);
    rs_result_free(c->probe);
    rs_heads_free(c->heads);
    rs_model_close(c->model);
    rs_checkpoint_close(c->checkpoint);
    rs_free(c->ids);
}

/* ---- all of them ---- */

/* What a run holds. */
typedef struct work {
    const rs_compare_request *request;
    rs_compared *models; /* [n + 1] the first one first */
    rs_comparison *all;  /* [n] */
    size_t n;
    rs_null_cache nulls;
} work;

static rs_status run_models(work *w, rs_result *result, rs_input_files *files,
                            const rs_context *context, rs_error *err)
{
    size_t ran = 0;
    rs_error first = {0};
    if (!w->request->options.tokens) return RS_OK;
    RS_TRY(rs_input_source_check(&w->request->options.source, err));
    for (size_t i = 0; i <= w->n; i++) {
        rs_error why = {0};
        rs_status status = rs_compare_run(&w->models[i], result, files, w->request, context, &why);
        if (status != RS_OK && err) *err = why;
        if (status != RS_OK) return status;
        ran += w->models[i].probe != NULL;
        if (!w->models[i].probe && !first.status) first = why;
    }
    if (ran > 0) return RS_OK;
    if (err) *err = first; /* none can take them: the inputs are wrong */
    return first.status;
}

static rs_status compare_all(work *w, rs_result *result, rs_input_files *files,
                             const rs_context *context, rs_error *err)
{
    const rs_compare_request *request = w->request;
    for (size_t i = 0; i <= w->n; i++)
        RS_TRY(open_one(&w->models[i], i ? request->others[i - 1] : request->path, files, request,
                        &w->nulls, context, err));
    for (size_t c = 0; c < w->n; c++) {
        w->all[c] = (rs_comparison){.a = &w->models[0], .b = &w->models[c + 1]};
        RS_TRY(rs_pairs_measure(&w->all[c].pairs, w->models[0].heads, w->models[c + 1].heads,
                                &request->options, &w->nulls, context, err));
    }
    return run_models(w, result, files, context, err);
}

static rs_status set_meta(rs_result *result, const work *w, rs_error *err)
{
    json_t *models = json_array();
    for (size_t i = 0; i <= w->n; i++) {
        const rs_model *m = w->models[i].model;
        json_array_append_new(
            models, json_pack("{s:s, s:s?, s:i, s:I, s:i, s:i, s:I, s:I, s:s?}", "path",
                              w->models[i].path, "family", m->family, "layers", (int)m->layers,
                              "d_model", (json_int_t)m->d_model, "heads", (int)m->heads, "kv_heads",
                              (int)m->kv_heads, "d_head", (json_int_t)m->d_head, "parameters",
                              (json_int_t)m->stored.parameters, "dtype", m->stored.dtype));
    }
    return rs_result_set_meta(result, "models", models, err);
}

static rs_status fill(rs_result *result, work *w, rs_error *err)
{
    const rs_compare_options *options = &w->request->options;
    RS_TRY(set_meta(result, w, err));
    RS_TRY(rs_compare_tables(result, w->all, w->n, err));
    RS_TRY(rs_compare_tokens(result, w->all, w->n, err));
    RS_TRY(rs_compare_findings(result, w->all, w->n, options, err));
    RS_TRY(rs_compare_verdict(result, w->all, w->n, options, err));
    RS_TRY(rs_compare_figures(result, w->all, w->n, err));
    for (size_t i = 0; i <= w->n; i++)
        RS_TRY(rs_verify_checkpoint(result, w->models[i].checkpoint, err));
    return RS_OK;
}

rs_status rs_compare_paths(rs_result *result, rs_input_files *inputs,
                           const rs_compare_request *request, const rs_context *context,
                           rs_error *err)
{
    work w = {.request = request, .n = request->n_others};
    w.models = rs_calloc(w.n + 1, sizeof *w.models);
    w.all = rs_calloc(w.n + 1, sizeof *w.all);
    rs_status status = w.models && w.all ? compare_all(&w, result, inputs, context, err)
                                         : rs_fail_memory(err, "checkpoints", w.n * sizeof *w.all);
    if (status == RS_OK) status = fill(result, &w, err);
    for (size_t c = 0; w.all && c < w.n; c++)
        rs_pairs_free(&w.all[c].pairs);
    for (size_t i = 0; w.models && i <= w.n; i++)
        close_one(&w.models[i]);
    rs_null_cache_close(&w.nulls);
    rs_free(w.models);
    rs_free(w.all);
    return status;
}
