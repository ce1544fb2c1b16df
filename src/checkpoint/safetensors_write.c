/* safetensors_write.c: see safetensors_write.h. */
#include "checkpoint/safetensors_write.h"

#include "base/memory.h"
#include "base/text.h"
#include "report/emit.h"

typedef struct place {
    uint64_t begin; /* of its first element in the file */
    int64_t count;
    size_t size; /* of an element */
} place;

struct rs_st_writer {
    rs_output *output;
    place *places;
    size_t n;
};

static rs_status plan_tensor(place *out, uint64_t *end, const rs_st_plan *tensor, const char *path,
                             rs_error *err)
{
    size_t bytes = rs_dtype_info(tensor->dtype)->bits / 8, size = bytes;
    for (uint32_t i = 0; i < tensor->rank; i++)
        if (tensor->shape[i] < 0 || !rs_size_mul(bytes, (size_t)tensor->shape[i], &bytes))
            bytes = SIZE_MAX;
    if (bytes > INT64_MAX || *end > INT64_MAX - bytes)
        return rs_fail(err, RS_E_UNSUPPORTED, path, "use fewer samples",
                       "tensor %s would not fit into any file", tensor->name);
    *out = (place){.begin = *end, .count = (int64_t)(bytes / size), .size = size};
    *end += bytes;
    return RS_OK;
}

/* {"__metadata__":{...},"name":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},...}, blanks up
 * to a multiple of 8, its length in front. */
static void write_header(rs_buffer *out, const rs_st_plan *tensors, const place *places, size_t n)
{
    rs_buffer_append(out, "\0\0\0\0\0\0\0\0", 8);
    rs_buffer_printf(out, RS_MARK_SAFETENSORS "%s\"}", rs_version());
    for (size_t t = 0; t < n; t++) {
        rs_buffer_puts(out, ",");
        rs_emit_string(out, tensors[t].name);
        rs_buffer_printf(out, ":{\"dtype\":\"%s\",\"shape\":[",
                         rs_dtype_info(tensors[t].dtype)->name);
        for (uint32_t i = 0; i < tensors[t].rank; i++)
            rs_buffer_printf(out, "%s%lld", i ? "," : "", (long long)tensors[t].shape[i]);
        rs_buffer_printf(out, "],\"data_offsets\":[%llu,%llu]}",
                         (unsigned long long)places[t].begin,
                         (unsigned long long)places[t].begin +
                             (unsigned long long)places[t].count * places[t].size);
    }
    rs_buffer_puts(out, "}");
    while (out->length % 8 && !out->failed)
        rs_buffer_puts(out, " ");
    if (out->failed) return;
    for (size_t i = 0; i < 8; i++)
        out->data[i] = (char)((out->length - 8) >> 8 * i & 0xff);
}

static rs_status open_file(rs_st_writer *w, const char *path, const rs_st_plan *tensors,
                           const rs_input_files *files, rs_error *err)
{
    uint64_t end = 0;
    for (size_t t = 0; t < w->n; t++)
        RS_TRY(plan_tensor(&w->places[t], &end, &tensors[t], path, err));
    rs_buffer header = {0};
    write_header(&header, tensors, w->places, w->n);
    rs_status status = header.failed
                           ? rs_fail_memory(err, path, header.length)
                           : rs_output_open(&w->output, path, header.length + end, files, err);
    if (status == RS_OK) status = rs_output_put(w->output, 0, header.data, header.length, err);
    for (size_t t = 0; t < w->n; t++)
        w->places[t].begin += header.length;
    rs_buffer_free(&header);
    return status;
}

rs_status rs_st_writer_open(rs_st_writer **out, const char *path, const rs_st_plan *tensors,
                            size_t n, const rs_input_files *files, rs_error *err)
{
    *out = NULL;
    rs_st_writer *w = rs_calloc(1, sizeof *w);
    if (!w) return rs_fail_memory(err, path, sizeof *w);
    w->n = n;
    w->places = rs_calloc(n, sizeof *w->places);
    rs_status status = w->places ? open_file(w, path, tensors, files, err)
                                 : rs_fail_memory(err, path, n * sizeof *w->places);
    if (status == RS_OK)
        *out = w;
    else
        rs_st_writer_discard(w);
    return status;
}

rs_status rs_st_writer_put(rs_st_writer *w, size_t tensor, int64_t first, const void *elements,
                           int64_t count, rs_error *err)
{
    const place *p = tensor < w->n ? &w->places[tensor] : NULL;
    if (!p || first < 0 || count < 0 || count > p->count - first)
        return rs_fail(err, RS_E_INTERNAL, "safetensors", NULL,
                       "elements %lld to %lld lie outside tensor %zu", (long long)first,
                       (long long)(first + count), tensor);
    return rs_output_put(w->output, p->begin + (uint64_t)first * p->size, elements,
                         (size_t)count * p->size, err);
}

static void close_writer(rs_st_writer *w)
{
    rs_free(w->places);
    rs_free(w);
}

rs_status rs_st_writer_commit(rs_st_writer *w, rs_error *err)
{
    rs_status status = rs_output_commit(w->output, err);
    close_writer(w);
    return status;
}

void rs_st_writer_discard(rs_st_writer *w)
{
    if (!w) return;
    rs_output_discard(w->output);
    close_writer(w);
}
