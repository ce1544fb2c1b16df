/* scan.c: puts the parts of a scan together. */
#include "scan/scan.h"

#include <math.h>

void rs_scan_defaults(rs_scan_options *options)
{
    *options = (rs_scan_options){
        .heads = {.tolerance = NAN, .first_layer = 0, .last_layer = INT32_MAX},
        .thresholds = {.qk_low_rank = 0.5,
                       .ov_low_rank = 0.5,
                       .dead_head = 0.05,
                       .decay_equilibrium = 0.9,
                       .rank_falls = 0.2},
    };
}

json_t *rs_scan_model_object(const rs_model *model)
{
    json_t *files = json_array();
    for (size_t i = 0; i < model->checkpoint->n_files; i++)
        json_array_append_new(files, json_string(model->checkpoint->files[i].name));
    return json_pack(
        "{s:s?, s:i, s:i, s:I, s:i, s:i, s:I, s:I, s:s?, s:s?, s:s, s:b, s:o}", "family",
        model->family, "layers", (int)model->layers, "depth", (int)model->depth, "d_model",
        (json_int_t)model->d_model, "heads", (int)model->heads, "kv_heads", (int)model->kv_heads,
        "d_head", (json_int_t)model->d_head, "parameters", (json_int_t)model->stored.parameters,
        "dtype", model->stored.dtype, "file_type", model->stored.file_type, "format",
        rs_format_name(model->checkpoint->format), "guessed", model->guessed, "files", files);
}

static rs_status set_meta(rs_result *result, const rs_model *model, const rs_heads *heads,
                          rs_error *err)
{
    json_t *object = rs_scan_model_object(model);
    if (!object) return rs_fail_memory(err, "result", 0);
    RS_TRY(rs_result_set_meta(result, "model", object, err));
    json_t *check =
        json_pack("{s:f, s:I, s:I}", "largest_relative_error", heads->worst_check, "products",
                  (json_int_t)heads->n, "by_careful_route", (json_int_t)heads->n_by_factors);
    if (!check) return rs_fail_memory(err, "result", 0);
    return rs_result_set_meta(result, "self_check", check, err);
}

/* Table matrices, then table tensors with what the run has read. */
static rs_status weights_and_tensors(rs_result *result, const rs_model *model,
                                     const rs_heads *heads, const rs_scan_options *options,
                                     const rs_context *context, rs_error *err)
{
    bool *used = rs_calloc(model->checkpoint->n_tensors, sizeof *used);
    if (!used) return rs_fail_memory(err, "tensors", model->checkpoint->n_tensors);
    rs_scan_mark_used(used, model, heads, options->heads.fold);
    rs_scan_mark_rests(used, model, options);
    rs_status status = RS_OK;
    if (options->matrices) status = rs_scan_matrices(result, used, model, options, context, err);
    if (status == RS_OK) status = rs_scan_tensors(result, model, used, err);
    rs_free(used);
    return status;
}

static rs_status fill_result(rs_result *result, const rs_model *model, const rs_heads *heads,
                             const rs_scan_options *options, const rs_context *context,
                             rs_error *err)
{
    RS_TRY(set_meta(result, model, heads, err));
    RS_TRY(rs_scan_summary(result, heads, options, err));
    RS_TRY(rs_scan_head_tables(result, heads, options, err));
    RS_TRY(rs_scan_planes(result, heads, options, err));
    RS_TRY(rs_scan_energy(result, model, heads, options, context, err));
    RS_TRY(weights_and_tensors(result, model, heads, options, context, err));
    RS_TRY(rs_scan_ssm(result, model, options, err));
    RS_TRY(rs_scan_findings(result, model, heads, options, err));
    if (!options->summary) RS_TRY(rs_scan_verdict(result, heads, options, err));
    RS_TRY(rs_result_add_notes(result, &model->checkpoint->notes, err));
    RS_TRY(rs_result_add_notes(result, &model->notes, err));
    return rs_scan_figures(result, heads, err);
}

rs_status rs_scan_no_product(const rs_model *model, rs_error *err)
{
    return rs_fail(err, RS_E_NO_PRODUCT, model->checkpoint->path, "check --layers",
                   "no layer in the chosen range has a head product (the model has %d layers)",
                   (int)model->layers);
}

rs_status rs_scan_judge(rs_result *result, const rs_model *model, const rs_heads *heads,
                        const rs_scan_options *options, rs_error *err)
{
    RS_TRY(rs_scan_ssm(result, model, options, err));
    RS_TRY(rs_scan_findings(result, model, heads, options, err));
    return rs_scan_verdict(result, heads, options, err);
}

rs_status rs_scan(rs_result *result, const rs_model *model, const rs_scan_options *options,
                  const rs_context *context, rs_error *err)
{
    rs_heads *heads;
    RS_TRY(rs_heads_measure(&heads, model, &options->heads, context, err));
    rs_status status;
    status = heads->n ? fill_result(result, model, heads, options, context, err)
                      : rs_scan_no_product(model, err);
    rs_heads_free(heads);
    return status;
}
