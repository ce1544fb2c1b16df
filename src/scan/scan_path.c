/* scan_path.c: from a path to a filled result: opening, understanding, scanning, closing. */
#include "scan/scan.h"

#include "network/saved.h"

#include <stdio.h>
#include <sys/stat.h>

rs_status rs_scan_read_map(json_t **map, const char *path, rs_error *err)
{
    *map = NULL;
    if (!path) return RS_OK;
    rs_mapping *file;
    RS_TRY(rs_mapping_open(&file, path, err));
    rs_status status = rs_config_parse(map, path, (const char *)file->data, file->size, err);
    if (status == RS_OK) status = rs_mapping_verify(file, NULL, err);
    rs_mapping_close(file);
    return status;
}

/* ---- files that must not be overwritten ---- */

static rs_status add_path(rs_input_files *files, const char *path, rs_error *err)
{
    struct stat status;
    if (!path || stat(path, &status) != 0) return RS_OK;
    return rs_input_files_add(files, (rs_file_id){(uint64_t)status.st_dev, (uint64_t)status.st_ino},
                              err);
}

rs_status rs_scan_note_inputs(rs_input_files *files, const rs_checkpoint *checkpoint,
                              const char *path, rs_error *err)
{
    for (size_t i = 0; i < checkpoint->n_files; i++) {
        const rs_mapping *mapping = checkpoint->files[i].mapping;
        RS_TRY(rs_input_files_add(files, (rs_file_id){mapping->device, mapping->inode}, err));
    }
    RS_TRY(add_path(files, checkpoint->config_path, err));
    return rs_input_files_model(files, path, err);
}

/* ---- files that changed while they were read ---- */

static rs_status add_touched(rs_result *result, const char *name, rs_error *err)
{
    char message[512];
    snprintf(message, sizeof message,
             "%.200s was touched while it was read: its size and its time of modification stayed, "
             "its time of change did not",
             name);
    rs_finding finding = rs_finding_of(RS_WARN, "file_touched");
    finding.message = message;
    finding.hint = "a new hard link or chmod does that and harms nothing; if something may have "
                   "written to it, run again";
    return rs_result_add_finding(result, &finding, err);
}

rs_status rs_verify_checkpoint(rs_result *result, const rs_checkpoint *checkpoint, rs_error *err)
{
    for (size_t i = 0; checkpoint && i < checkpoint->n_files; i++) {
        bool touched;
        RS_TRY(rs_mapping_verify(checkpoint->files[i].mapping, &touched, err));
        if (touched) RS_TRY(add_touched(result, checkpoint->files[i].name, err));
    }
    return RS_OK;
}

/* ---- scanning ---- */

static rs_status scan_mapped(rs_result *result, const rs_checkpoint *checkpoint, const json_t *map,
                             const rs_scan_request *request, const rs_context *context,
                             rs_error *err)
{
    rs_model *model;
    RS_TRY(rs_checkpoint_model(&model, checkpoint, map, request->map, err));
    rs_status status = rs_scan(result, model, &request->options, context, err);
    rs_model_close(model);
    return status;
}

static rs_status scan_open(rs_result *result, rs_input_files *inputs,
                           const rs_checkpoint *checkpoint, const rs_scan_request *request,
                           const rs_context *context, rs_error *err)
{
    json_t *map;
    RS_TRY(rs_scan_note_inputs(inputs, checkpoint, request->path, err));
    RS_TRY(add_path(inputs, request->map, err));
    rs_status status = rs_scan_read_map(&map, request->map, err);
    if (status == RS_OK) status = scan_mapped(result, checkpoint, map, request, context, err);
    if (status == RS_OK) status = rs_verify_checkpoint(result, checkpoint, err);
    json_decref(map);
    return status;
}

rs_status rs_scan_path(rs_result *result, rs_input_files *inputs, const rs_scan_request *request,
                       const rs_context *context, rs_error *err)
{
    rs_checkpoint *checkpoint;
    rs_checkpoint_options how = {.lenient = request->lenient};
    RS_TRY(rs_checkpoint_open(&checkpoint, request->path, &how, err));
    rs_status status = scan_open(result, inputs, checkpoint, request, context, err);
    rs_checkpoint_close(checkpoint);
    return status;
}
