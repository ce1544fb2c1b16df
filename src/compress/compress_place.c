/*
 * compress_place.c: whether --write can write, asked before anything is measured: the folder is made at once,
 * the disk has room for the copies, and the numbers of all products can be written in their own types.
 */
#include "compress/compress_parts.h"

#include "base/mapping.h"
#include "network/saved.h"
#include "report/output.h"
#include "report/output_place.h"

#include <dirent.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

/* ---- the folder ---- */

static bool same_place(const char *a, const char *b)
{
    struct stat one, two;
    return stat(a, &one) == 0 && stat(b, &two) == 0 && one.st_dev == two.st_dev &&
           one.st_ino == two.st_ino;
}

/* Whether a folder has entries. */
static bool has_entries(const char *folder)
{
    DIR *dir = opendir(folder);
    bool any = false;
    if (!dir) return false;
    for (const struct dirent *e = readdir(dir); e && !any; e = readdir(dir))
        any = strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
    closedir(dir);
    return any;
}

static rs_status check_folder(const char *folder, const char *path, rs_error *err)
{
    char buffer[RS_PATH_SIZE];
    struct stat st;
    if (!folder[0]) return rs_fail(err, RS_E_WRITE, "--write", "give a folder", "has no name");
    if (same_place(folder, rs_model_folder(buffer, sizeof buffer, path)))
        return rs_fail(err, RS_E_OVERWRITES_INPUT, folder, "give another folder",
                       "is the model's own folder, which is read");
    if (stat(folder, &st) == 0 && !S_ISDIR(st.st_mode))
        return rs_fail(err, RS_E_WRITE, folder, "give a folder", "is no folder");
    if (has_entries(folder))
        return rs_fail(err, RS_E_OVERWRITES_INPUT, folder, "give a new or an empty folder",
                       "has files already, and a checkpoint among others would be neither");
    return RS_OK;
}

/* ---- the checkpoint ---- */

static rs_status check_type(const rs_factor *factor, rs_error *err)
{
    const rs_tensor *tensor = factor->tensor;
    if (!tensor || (rs_dtype_encodable(tensor->dtype) && !factor->scale)) return RS_OK;
    return rs_fail(err, RS_E_UNSUPPORTED, tensor->name,
                   "write from a checkpoint of F16, BF16, F32 or F64; without --write it is "
                   "measured",
                   "a truncation cannot be written as %s: it would need scales of its own",
                   rs_dtype_info(tensor->dtype)->name);
}

static rs_status check_types(const rs_checkpoint *checkpoint, const rs_scan_request *scan,
                             rs_error *err)
{
    json_t *map;
    rs_model *model = NULL;
    RS_TRY(rs_scan_read_map(&map, scan->map, err));
    rs_status status = rs_checkpoint_model(&model, checkpoint, map, scan->map, err);
    for (size_t i = 0; status == RS_OK && i < model->n_products; i++) {
        status = check_type(&model->products[i].a, err);
        if (status == RS_OK) status = check_type(&model->products[i].b, err);
    }
    rs_model_close(model);
    json_decref(map);
    return status;
}

/* Whether the disk has room for copies of the files; what it says of itself may be less than a quota allows. */
static rs_status check_room(const char *folder, const rs_checkpoint *checkpoint, rs_error *err)
{
    struct statvfs disk;
    double needed = 0;
    for (size_t i = 0; i < checkpoint->n_files; i++)
        needed += (double)checkpoint->files[i].mapping->size;
    if (statvfs(folder, &disk) != 0) return RS_OK;
    double free_bytes = (double)disk.f_bavail * (double)disk.f_frsize;
    if (free_bytes >= needed) return RS_OK;
    return rs_fail(err, RS_E_WRITE, folder, "free some space or write to another disk",
                   "its disk has %.4g GB left, and the checkpoint takes %.4g GB", free_bytes / 1e9,
                   needed / 1e9);
}

static rs_status check_source(const char *folder, const rs_scan_request *scan, rs_error *err)
{
    rs_checkpoint *checkpoint;
    const rs_checkpoint_options how = {.lenient = scan->lenient};
    RS_TRY(rs_checkpoint_open(&checkpoint, scan->path, &how, err));
    rs_status status = RS_OK;
    if (checkpoint->format != RS_FORMAT_SAFETENSORS)
        status = rs_fail(err, RS_E_UNSUPPORTED, checkpoint->path,
                         "write from the safetensors checkpoint that it was made of; without "
                         "--write it is measured",
                         "a GGUF file is not written: its blocks of integers would round the "
                         "truncation to full rank again");
    if (status == RS_OK) status = check_types(checkpoint, scan, err);
    if (status == RS_OK) status = check_room(folder, checkpoint, err);
    rs_checkpoint_close(checkpoint);
    return status;
}

rs_status rs_cut_write_check(const char *folder, const rs_scan_request *scan,
                             const rs_input_files *files, rs_error *err)
{
    RS_TRY(check_folder(folder, scan->path, err));
    RS_TRY(rs_outputs_make_folder(files->outputs, folder, err));
    if (access(folder, W_OK | X_OK) != 0) return rs_place_fail(err, folder, "write", errno);
    return check_source(folder, scan, err);
}
