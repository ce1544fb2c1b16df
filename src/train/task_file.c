/*
 * task_file.c: training batches that another program wrote, so that a run can be compared with its.
 *
 * The array is [steps, batch, 2, n_tok] of whole numbers for token ids with classes as targets
 * (plane 0 ids, plane 1 targets, -1 for none), else [steps, batch, n_tok, d_in + width] of reals,
 * where the target of a position stands behind its row: d_out numbers (a NaN among them: no target)
 * or one class (negative: no target).
 */
#include "train/task_parts.h"

#include "base/mapping.h"
#include "base/memory.h"
#include "checkpoint/npy.h"

#include <math.h>
#include <stdio.h>

typedef struct rs_task_file {
    rs_mapping *mapping;
    rs_npy array;
    int64_t stride; /* numbers of a position in a file of reals */
    bool whole;     /* token ids and classes */
    uint64_t fingerprint;
} rs_task_file;

static rs_status check_file(rs_task_file *file, const rs_task_shape *shape, rs_error *err)
{
    const rs_npy *array = &file->array;
    file->whole = shape->vocab && shape->target == RS_TARGET_CLASSES;
    file->stride = shape->d_in + (shape->target == RS_TARGET_CLASSES ? 1 : shape->d_out);
    int64_t third = file->whole ? 2 : shape->n_tok,
            last = file->whole ? shape->n_tok : file->stride;
    char hint[128];
    snprintf(hint, sizeof hint, "batches of this task are [steps, batch, %lld, %lld]",
             (long long)third, (long long)last);
    if (array->rank != 4 || array->shape[2] != third || array->shape[3] != last ||
        array->shape[0] < 1 || array->shape[1] < 1)
        return rs_fail(err, RS_E_INPUT_SHAPE, file->mapping->path, hint,
                       "the array has another shape");
    bool integers = rs_npy_is_whole(array);
    if (integers != file->whole || (shape->vocab && !file->whole))
        return rs_fail(err, RS_E_INPUT_FORMAT, file->mapping->path, hint,
                       "the array is %s; this task's are %s", rs_npy_type_name(array->type),
                       file->whole ? "whole numbers" : "reals");
    return RS_OK;
}

rs_status rs_task_file_open(rs_task_file **out, const char *path, const rs_task_shape *shape,
                            rs_error *err)
{
    *out = NULL;
    rs_task_file *file = rs_calloc(1, sizeof *file);
    if (!file) return rs_fail_memory(err, "batches", sizeof *file);
    rs_status status = rs_mapping_open(&file->mapping, path, err);
    if (status == RS_OK)
        status = rs_npy_parse(&file->array, path, file->mapping->data, file->mapping->size, err);
    if (status == RS_OK) status = check_file(file, shape, err);
    if (status == RS_OK) {
        file->fingerprint = rs_task_print(0, file->mapping);
        status = rs_mapping_check(file->mapping, err);
    }
    if (status != RS_OK)
        rs_task_file_close(file);
    else
        *out = file;
    return status;
}

uint64_t rs_task_file_fingerprint(const rs_task_file *file)
{
    return file->fingerprint;
}

void rs_task_file_close(rs_task_file *file)
{
    if (!file) return;
    rs_mapping_close(file->mapping);
    rs_free(file);
}

/* Whole numbers first, first + 1, ... of the array into [n]; `least` to below `bound`. */
static rs_status read_whole(int32_t *out, const rs_task_file *file, int64_t first, int64_t n,
                            int64_t least, int64_t bound, rs_error *err)
{
    for (int64_t i = 0; i < n; i++) {
        int64_t value;
        rs_npy_integers(&value, &file->array, first + i, 1);
        if (value < least || value >= bound)
            return rs_fail(err, RS_E_TOKEN_RANGE, file->mapping->path, NULL,
                           "number %lld of the array is %lld; it must be from %lld to %lld",
                           (long long)(first + i), (long long)value, (long long)least,
                           (long long)(bound - 1));
        out[i] = (int32_t)value;
    }
    return RS_OK;
}

static rs_status fill_whole(rs_task_batch *out, const rs_task_file *file,
                            const rs_task_shape *shape, int64_t at, rs_error *err)
{
    int64_t n = shape->n_tok;
    for (int64_t i = 0; i < out->samples; i++, at += 2 * n) {
        int32_t *tokens = out->tokens + i * n, *classes = out->classes + i * n;
        RS_TRY(read_whole(tokens, file, at, n, shape->varies ? -1 : 0, shape->vocab, err));
        RS_TRY(read_whole(classes, file, at + n, n, -1, shape->d_out, err));
        int32_t length = (int32_t)n;
        while (length > 0 && tokens[length - 1] < 0)
            length--;
        out->lengths[i] = length;
        for (int64_t t = 0; t < n; t++)
            out->counted[i * n + t] = classes[t] >= 0;
    }
    return RS_OK;
}

static rs_status fill_row(rs_task_batch *out, const rs_task_file *file, const rs_task_shape *shape,
                          int64_t row, int64_t at, rs_error *err)
{
    rs_npy_reals(out->rows + row * shape->d_in, &file->array, at, shape->d_in);
    at += shape->d_in;
    out->counted[row] = 1;
    if (out->values) {
        double *values = out->values + row * shape->d_out;
        rs_npy_reals(values, &file->array, at, shape->d_out);
        for (int64_t c = 0; c < shape->d_out; c++)
            if (isnan(values[c])) out->counted[row] = 0;
        for (int64_t c = 0; !out->counted[row] && c < shape->d_out; c++)
            values[c] = 0;
        return RS_OK;
    }
    double class = 0;
    rs_npy_reals(&class, &file->array, at, 1);
    if (!(class < (double)shape->d_out) || class != floor(class))
        return rs_fail(err, RS_E_TOKEN_RANGE, file->mapping->path, NULL,
                       "the class of row %lld is %g; there are %lld", (long long)row, class,
                       (long long)shape->d_out);
    out->classes[row] = class < 0 ? -1 : (int32_t) class;
    out->counted[row] = class >= 0;
    return RS_OK;
}

rs_status rs_task_file_check(const rs_task_file *file, int64_t steps, int64_t accumulate,
                             int64_t batch, rs_error *err)
{
    const rs_npy *array = &file->array;
    const char *path = file->mapping->path;
    int64_t has = array->shape[0];
    char hint[128];
    if (array->shape[1] != batch)
        return rs_fail(err, RS_E_INPUT_SHAPE, path, "set \"batch\" to the file's",
                       "its batches have %lld samples; \"batch\" is %lld",
                       (long long)array->shape[1], (long long)batch);
    if (has / accumulate > steps) return RS_OK;
    if (has < accumulate)
        snprintf(hint, sizeof hint, "give a file of more");
    else
        snprintf(hint, sizeof hint, "give a file of more, or set \"steps\" to at most %lld",
                 (long long)(has / accumulate - 1));
    return rs_fail(err, RS_E_INPUT_SHAPE, path, hint,
                   "it has %lld batches; %lld steps of %lld and the last look take %.0f",
                   (long long)has, (long long)steps, (long long)accumulate,
                   ((double)steps + 1) * (double)accumulate);
}

rs_status rs_task_file_fill(rs_task_batch *out, const rs_task_file *file,
                            const rs_task_shape *shape, int64_t step, rs_error *err)
{
    const rs_npy *array = &file->array;
    const char *path = file->mapping->path;
    if (step >= array->shape[0])
        return rs_fail(err, RS_E_INPUT_SHAPE, path, NULL,
                       "it has %lld batches; batch %lld (from 0) was asked for",
                       (long long)array->shape[0], (long long)step);
    if (array->shape[1] != out->capacity)
        return rs_fail(err, RS_E_INPUT_SHAPE, path, "set \"batch\" to the file's",
                       "its batches have %lld samples; \"batch\" is %lld",
                       (long long)array->shape[1], (long long)out->capacity);
    out->samples = array->shape[1];
    int64_t at = step * (array->count / array->shape[0]), rows = out->samples * shape->n_tok;
    if (file->whole) RS_TRY(fill_whole(out, file, shape, at, err));
    for (int64_t row = 0; !file->whole && row < rows; row++)
        RS_TRY(fill_row(out, file, shape, row, at + row * file->stride, err));
    for (int64_t i = 0; !file->whole && i < out->samples; i++)
        out->lengths[i] = (int32_t)shape->n_tok;
    return rs_mapping_check(file->mapping, err);
}
