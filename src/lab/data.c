/* data.c: see data.h. */
#include "lab/data.h"

#include "base/mapping.h"
#include "base/memory.h"
#include "train/task_parts.h"

#include <stdio.h>
#include <string.h>

void rs_lab_data_close(rs_lab_data *data)
{
    rs_free(data->text);
    rs_free(data->x);
    rs_free(data->y);
    *data = (rs_lab_data){0};
}

static bool ends_in(const char *path, const char *tail)
{
    size_t n = strlen(path), m = strlen(tail);
    return n >= m && strcmp(path + n - m, tail) == 0;
}

/* Reads a file once: that it is there, and what its bytes are. */
static rs_status look(uint64_t *print, const char *path, rs_input_files *files, rs_error *err)
{
    rs_mapping *file;
    RS_TRY(rs_mapping_open(&file, path, err));
    *print = rs_task_print(*print, file);
    rs_status status = rs_mapping_check(file, err);
    if (status == RS_OK)
        status = rs_input_files_add(files, (rs_file_id){file->device, file->inode}, err);
    rs_mapping_close(file);
    return status;
}

static rs_status take(char **out, const char *path, const char *what, rs_error *err)
{
    if (*out)
        return rs_fail(err, RS_E_USAGE, "data", "name one text and one array of images at most",
                       "both \"%s\" and \"%s\" are %s", *out, path, what);
    *out = rs_strdup(path);
    return *out ? RS_OK : rs_fail_memory(err, path, strlen(path) + 1);
}

static rs_status take_images(rs_lab_data *data, const char *path, rs_error *err)
{
    if (!ends_in(path, "x.npy"))
        return rs_fail(err, RS_E_USAGE, "data",
                       "name them like digits_x.npy, with the labels in digits_y.npy",
                       "\"%s\" does not end in x.npy: its labels are not known", path);
    RS_TRY(take(&data->x, path, "images", err));
    data->y = rs_strdup(path);
    if (!data->y) return rs_fail_memory(err, path, strlen(path) + 1);
    data->y[strlen(path) - strlen("x.npy")] = 'y';
    return RS_OK;
}

static rs_status take_file(rs_lab_data *data, const char *path, rs_input_files *files,
                           rs_error *err)
{
    if (!ends_in(path, ".npy")) {
        RS_TRY(take(&data->text, path, "texts", err));
        return look(&data->text_print, path, files, err);
    }
    RS_TRY(take_images(data, path, err));
    RS_TRY(look(&data->images_print, data->x, files, err));
    return look(&data->images_print, data->y, files, err);
}

rs_status rs_lab_data_open(rs_lab_data *out, const char *list, rs_input_files *files, rs_error *err)
{
    *out = (rs_lab_data){0};
    char *names = rs_strdup(list);
    if (!names) return rs_fail_memory(err, "data", strlen(list) + 1);
    rs_status status = RS_OK;
    for (char *at = names; at && status == RS_OK;) {
        char *comma = strchr(at, ',');
        if (comma) *comma = 0;
        status = at[0] ? take_file(out, at, files, err)
                       : rs_fail(err, RS_E_USAGE, "data", "name paths, with a comma between two",
                                 "a path in \"%s\" is empty", list);
        at = comma ? comma + 1 : NULL;
    }
    rs_free(names);
    return status;
}

bool rs_lab_data_quote(char *out, size_t size, const char *path)
{
    size_t used = 0;
    for (const char *c = path; used + 8 < size; c++) {
        if (*c == 0) {
            out[used] = 0;
            return true;
        }
        bool plain = (unsigned char)*c >= ' ' && *c != '\'' && *c != '"' && *c != '\\';
        if (plain)
            out[used++] = *c;
        else
            used +=
                (size_t)snprintf(out + used, size - used, "\\u%04x", (unsigned)(unsigned char)*c);
    }
    return false;
}
