/* source_arrays.c: the user's .npy files: their elements, and targets of samples or of their steps. */
#include "train/source.h"

#include "base/memory.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { CHUNK = 1024, MOST_CLASSES = 1 << 24 };

/* ---- opening ---- */

rs_status rs_source_array_open(rs_source_array *out, rs_source *s, const char *field,
                               const char *path, rs_error *err)
{
    if (!path) return rs_source_missing(s, field, "the path of a .npy file", err);
    out->context = s->context;
    RS_TRY(rs_mapping_open(&out->file, path, err));
    RS_TRY(rs_npy_parse(&out->npy, path, out->file->data, out->file->size, err));
    rs_source_print(s, out->file);
    if (out->npy.count > 0 && out->npy.rank > 0) return RS_OK;
    return rs_fail(err, RS_E_INPUT_SHAPE, path, "save an array with an axis of samples",
                   "there is no sample in the array");
}

/* "[3, 0, 17]" */
static void write_index(char *out, size_t size, const rs_npy *array, int64_t at)
{
    int64_t stride = array->count;
    size_t used = 0;
    for (uint32_t axis = 0; axis < array->rank && used < size; axis++) {
        stride /= array->shape[axis];
        used += (size_t)snprintf(out + used, size - used, "%s%lld", axis ? ", " : "[",
                                 (long long)(at / stride));
        at %= stride;
    }
    if (used < size) snprintf(out + used, size - used, "]");
}

rs_status rs_source_bad_element(const rs_source_array *array, int64_t at, const char *wanted,
                                rs_error *err)
{
    char index[RS_NPY_MAX_RANK * 24], value[32];
    write_index(index, sizeof index, &array->npy, at);
    if (rs_npy_is_whole(&array->npy)) {
        int64_t whole;
        rs_npy_integers(&whole, &array->npy, at, 1);
        snprintf(value, sizeof value, "%lld", (long long)whole);
    } else {
        double real;
        rs_npy_reals(&real, &array->npy, at, 1);
        snprintf(value, sizeof value, "%g", real);
    }
    return rs_fail(err, RS_E_INPUT_FORMAT, array->file->path, NULL, "element %s is %s; %s", index,
                   value, wanted);
}

/* Before each chunk of the array. */
static rs_status may_go_on(const rs_source_array *array, rs_error *err)
{
    return array->context ? rs_check_cancelled(array->context, err) : RS_OK;
}

rs_status rs_source_check_reals(const rs_source_array *array, bool none, rs_error *err)
{
    double part[CHUNK];
    int64_t count = array->npy.count;
    for (int64_t at = 0; at < count; at += CHUNK) {
        int64_t n = count - at < CHUNK ? count - at : CHUNK;
        RS_TRY(may_go_on(array, err));
        rs_npy_reals(part, &array->npy, at, n);
        for (int64_t i = 0; i < n; i++)
            if (!isfinite(part[i]) && !(none && isnan(part[i])))
                return rs_source_bad_element(array, at + i,
                                             none ? "finite numbers are needed, or NaN for none"
                                                  : "finite numbers are needed",
                                             err);
    }
    return rs_mapping_check(array->file, err);
}

void rs_source_reals(double *out, const rs_npy *array, int64_t first, int64_t count, double scale)
{
    if (!rs_npy_is_whole(array)) {
        rs_npy_reals(out, array, first, count);
        return;
    }
    for (int64_t i = 0; i < count; i++) {
        int64_t value;
        rs_npy_integers(&value, array, first + i, 1);
        out[i] = scale * (double)value;
    }
}

rs_status rs_source_range(int64_t *least, int64_t *most, const rs_source_array *array,
                          rs_error *err)
{
    int64_t part[CHUNK], count = array->npy.count;
    *least = INT64_MAX, *most = INT64_MIN;
    for (int64_t at = 0; at < count; at += CHUNK) {
        int64_t n = count - at < CHUNK ? count - at : CHUNK;
        RS_TRY(may_go_on(array, err));
        rs_npy_integers(part, &array->npy, at, n);
        for (int64_t i = 0; i < n; i++) {
            if (part[i] < *least) *least = part[i];
            if (part[i] > *most) *most = part[i];
        }
    }
    return rs_mapping_check(array->file, err);
}

/* ---- labels ---- */

/* The first element outside [least, most). */
static rs_status find_outside(const rs_source_array *array, int64_t least, int64_t most,
                              const char *wanted, rs_error *err)
{
    for (int64_t i = 0; i < array->npy.count; i++) {
        int64_t value;
        rs_npy_integers(&value, &array->npy, i, 1);
        if (value < least || value >= most) return rs_source_bad_element(array, i, wanted, err);
    }
    return rs_fail(err, RS_E_CHANGED_WHILE_READ, array->file->path, NULL, "the file changed");
}

/* Labels that no sample has do no harm, but they are said: they may be a slip. */
static rs_status say_gaps(rs_source *s, int64_t classes, rs_error *err)
{
    uint8_t *seen = rs_calloc((size_t)classes, 1);
    if (!seen) return rs_fail_memory(err, "labels", (size_t)classes);
    int64_t missing = classes;
    for (int64_t i = 0; i < s->y.npy.count; i++) {
        int64_t label;
        rs_npy_integers(&label, &s->y.npy, i, 1);
        if (label < 0 || label >= classes || seen[label]) continue;
        seen[label] = 1;
        missing--;
    }
    rs_free(seen);
    if (missing)
        rs_source_say(s, "of the labels 0 to %lld no sample has %lld", (long long)(classes - 1),
                      (long long)missing);
    if (classes == 1) rs_source_say(s, "all labels are 0: there is nothing to tell apart");
    return RS_OK;
}

static rs_status check_labels(rs_source *s, rs_error *err)
{
    int64_t least, most;
    RS_TRY(rs_source_range(&least, &most, &s->y, err));
    int64_t lowest = s->per_step ? -1 : 0;
    if (least < lowest || most >= MOST_CLASSES)
        return find_outside(&s->y, lowest, MOST_CLASSES,
                            s->per_step ? "labels are from 0 to 16777215, or -1 for none: number "
                                          "the classes from 0 on"
                                        : "labels are from 0 to 16777215: number the classes from "
                                          "0 on",
                            err);
    if (most < 0)
        return rs_fail(err, RS_E_INPUT_FORMAT, s->y.file->path, NULL,
                       "all labels are -1: there is no target");
    s->shape.target = RS_TARGET_CLASSES;
    s->shape.d_out = most + 1;
    return say_gaps(s, most + 1, err);
}

/* ---- reals ---- */

static rs_status check_shares(const rs_source *s, rs_error *err)
{
    int64_t width = s->shape.d_out, rows = s->y.npy.count / width;
    for (int64_t row = 0; row < rows; row++) {
        double sum = 0;
        for (int64_t c = 0; c < width; c++) {
            double share;
            rs_npy_reals(&share, &s->y.npy, row * width + c, 1);
            if (share < 0)
                return rs_source_bad_element(
                    &s->y, row * width + c,
                    "with \"loss\": \"cross_entropy\" targets are probabilities", err);
            sum += share;
        }
        if (fabs(sum - 1) > 1e-3) /* NaN: no target */
            return rs_fail(err, RS_E_INPUT_FORMAT, s->y.file->path,
                           "divide each by its sum; numbers that are no probabilities take "
                           "\"loss\": \"squared\"",
                           "the probabilities of target %lld sum to %g", (long long)row, sum);
    }
    return rs_mapping_check(s->y.file, err);
}

static rs_status check_numbers(rs_source *s, int64_t width, rs_error *err)
{
    RS_TRY(rs_source_check_reals(&s->y, s->per_step, err));
    s->shape.target = s->settings.shares ? RS_TARGET_SHARES : RS_TARGET_REALS;
    s->shape.d_out = width;
    return s->settings.shares ? check_shares(s, err) : RS_OK;
}

/* ---- shapes ---- */

static rs_status bad_targets(const rs_source *s, int64_t n, int64_t steps, bool one, rs_error *err)
{
    char hint[160], shape[RS_NPY_MAX_RANK * 24];
    size_t used = 0;
    const rs_npy *y = &s->y.npy;
    for (uint32_t axis = 0; axis < y->rank; axis++)
        used += (size_t)snprintf(shape + used, sizeof shape - used, "%s%lld", axis ? ", " : "",
                                 (long long)y->shape[axis]);
    if (one)
        snprintf(hint, sizeof hint,
                 "targets of one series are [%lld] whole numbers or reals, or [%lld, d] reals",
                 (long long)steps, (long long)steps);
    else
        snprintf(hint, sizeof hint,
                 "whole numbers are [%lld] or [%lld, %lld], reals these, [%lld, d] or [%lld, %lld, "
                 "d]",
                 (long long)n, (long long)n, (long long)steps, (long long)n, (long long)n,
                 (long long)steps);
    return rs_fail(err, RS_E_INPUT_SHAPE, s->y.file->path, hint,
                   "targets [%s] do not belong to %lld samples of %lld tokens", shape, (long long)n,
                   (long long)steps);
}

rs_status rs_source_targets(rs_source *s, int64_t n, int64_t steps, bool one, rs_error *err)
{
    RS_TRY(rs_source_array_open(&s->y, s, "y", s->settings.files.y, err));
    const rs_npy *y = &s->y.npy;
    const int64_t *inner = y->shape + (one ? 0 : 1); /* behind the axis of samples */
    uint32_t rank = y->rank - (one ? 0 : 1);
    if (!one && y->shape[0] != n)
        return rs_fail(err, RS_E_INPUT_SHAPE, y->shape[0] < n ? s->y.file->path : s->x.file->path,
                       "each sample has its targets", "x has %lld samples, y has %lld",
                       (long long)n, (long long)y->shape[0]);
    bool whole = rs_npy_is_whole(y), stepped = rank > 0 && inner[0] == steps;
    s->per_step = stepped;
    int64_t width = rank == 0 || (stepped && rank == 1) ? 1 : inner[rank - 1];
    bool fits = whole ? rank == 0 || (stepped && rank == 1) : stepped ? rank <= 2 : rank <= 1;
    if (!fits || (one && !stepped)) return bad_targets(s, n, steps, one, err);
    return whole ? check_labels(s, err) : check_numbers(s, width, err);
}

/* ---- of a sample ---- */

static void put_steps(rs_task_sample *out, const rs_source *s, int64_t first)
{
    int64_t n = s->shape.n_tok, width = s->shape.d_out;
    for (int64_t t = 0; t < n; t++) {
        if (out->classes) {
            int64_t label;
            rs_npy_integers(&label, &s->y.npy, first + t, 1);
            bool is = label >= 0 && label < width && t < *out->length;
            out->classes[t] = is ? (int32_t)label : -1;
            continue;
        }
        double *values = out->values + t * width;
        rs_npy_reals(values, &s->y.npy, (first + t) * width, width);
        bool none = t >= *out->length;
        for (int64_t c = 0; c < width; c++)
            none = none || !isfinite(values[c]);
        out->counted[t] = !none;
        if (none) memset(values, 0, (size_t)width * sizeof *values);
    }
}

void rs_source_put_targets(rs_task_sample *out, const rs_source *s, int64_t first, int64_t sample)
{
    int64_t n = s->shape.n_tok, width = s->shape.d_out, last = *out->length - 1;
    if (s->per_step) {
        put_steps(out, s, first);
        return;
    }
    int64_t label = 0;
    if (out->classes) rs_npy_integers(&label, &s->y.npy, sample, 1);
    for (int64_t t = 0; t < n; t++) {
        bool here = s->settings.files.at == RS_AT_FIRST  ? t == 0
                    : s->settings.files.at == RS_AT_LAST ? t == last
                                                         : t <= last;
        if (out->classes) {
            out->classes[t] = here && label >= 0 && label < width ? (int32_t)label : -1;
            continue;
        }
        double *values = out->values + t * width;
        out->counted[t] = here;
        if (here)
            rs_npy_reals(values, &s->y.npy, sample * width, width);
        else
            memset(values, 0, (size_t)width * sizeof *values);
    }
}
