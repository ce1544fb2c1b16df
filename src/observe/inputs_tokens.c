/* inputs_tokens.c: samples of token ids, from a file or from memory. */
#include "base/memory.h"
#include "checkpoint/json_text.h"
#include "observe/inputs_parts.h"

#include <string.h>

/* ---- .npy ---- */

static rs_status take_npy(rs_inputs *in, const rs_npy *array, const rs_input_source *source,
                          const rs_network *network, rs_error *err)
{
    const char *path = source->tokens;
    if (!rs_npy_is_whole(array) || array->rank != 2)
        return rs_fail(err, RS_E_INPUT_FORMAT, path, "save int32 or int64 [samples, n]",
                       "token ids must be integers in 2 dimensions; this is %s of %u",
                       rs_npy_type_name(array->type), array->rank);
    if (array->shape[0] == 0)
        return rs_fail(err, RS_E_INPUT_FORMAT, path, NULL, "there is no sample in it");
    if (array->count == 0) /* before there is room for as many samples as a header can promise */
        return rs_fail(err, RS_E_INPUT_FORMAT, path, "give at least one token",
                       "all %lld samples are without tokens", (long long)array->shape[0]);
    int64_t samples = rs_input_wanted_samples(source, array->shape[0]), n = array->shape[1];
    RS_TRY(rs_input_rows(in, samples, n, path, err));
    in->ids = rs_malloc((size_t)(samples * n), sizeof *in->ids);
    if (!in->ids) return rs_fail_memory(err, path, (size_t)(samples * n) * sizeof *in->ids);
    for (int64_t i = 0; i < samples * n; i++) {
        int64_t id;
        rs_npy_integers(&id, array, i, 1);
        RS_TRY(rs_input_id(&in->ids[i], id, i / n, i % n, network, path, err));
    }
    return RS_OK;
}

/* ---- memory ---- */

rs_status rs_input_ids(rs_inputs *in, const rs_input_source *source, const rs_network *network,
                       rs_error *err)
{
    int64_t samples = rs_input_wanted_samples(source, source->n_ids), n = source->id_length;
    if (samples <= 0 || n <= 0)
        return rs_fail(err, RS_E_INPUT_FORMAT, "ids", NULL, "there is no token in %lld x %lld ids",
                       (long long)source->n_ids, (long long)n);
    RS_TRY(rs_input_rows(in, samples, n, "ids", err));
    in->ids = rs_malloc((size_t)(samples * n), sizeof *in->ids);
    if (!in->ids) return rs_fail_memory(err, "ids", (size_t)(samples * n) * sizeof *in->ids);
    for (int64_t i = 0; i < samples * n; i++)
        RS_TRY(rs_input_id(&in->ids[i], source->ids[i], i / n, i % n, network, "ids", err));
    return RS_OK;
}

/* ---- JSON ---- */

static rs_status take_row(rs_inputs *in, const json_t *row, int64_t sample, const char *path,
                          const rs_network *network, rs_error *err)
{
    size_t n = json_array_size(row);
    int64_t begin = in->begin[sample];
    for (size_t i = 0; i < n; i++) {
        const json_t *id = json_array_get(row, i);
        if (!json_is_integer(id))
            return rs_fail(err, RS_E_INPUT_FORMAT, path, "give whole numbers",
                           "sample %lld, position %zu: this is no token id", (long long)sample, i);
        RS_TRY(rs_input_id(&in->ids[begin + (int64_t)i], json_integer_value(id), sample, (int64_t)i,
                           network, path, err));
    }
    return RS_OK;
}

static rs_status take_json(rs_inputs *in, const json_t *rows, const char *path,
                           const rs_input_source *source, const rs_network *network, rs_error *err)
{
    if (!json_is_array(rows) || json_array_size(rows) == 0)
        return rs_fail(err, RS_E_INPUT_FORMAT, path, "write [[id, id, ...], [id, ...], ...]",
                       "there is no list of samples in it");
    int64_t samples = rs_input_wanted_samples(source, (int64_t)json_array_size(rows));
    RS_TRY(rs_input_rows(in, samples, 0, path, err));
    for (int64_t s = 0; s < samples; s++) {
        const json_t *row = json_array_get(rows, (size_t)s);
        if (!json_is_array(row))
            return rs_fail(err, RS_E_INPUT_FORMAT, path, "write [[id, id, ...], [id, ...], ...]",
                           "sample %lld is not a list of ids", (long long)s);
        in->begin[s + 1] = in->begin[s] + (int64_t)json_array_size(row);
    }
    in->ids = rs_malloc((size_t)in->begin[samples], sizeof *in->ids);
    if (!in->ids) return rs_fail_memory(err, path, (size_t)in->begin[samples] * sizeof *in->ids);
    for (int64_t s = 0; s < samples; s++)
        RS_TRY(take_row(in, json_array_get(rows, (size_t)s), s, path, network, err));
    return RS_OK;
}

rs_status rs_input_json(rs_inputs *in, const char *path, const char *text, size_t length,
                        const rs_input_source *source, const rs_network *network, rs_error *err)
{
    json_t *rows;
    RS_TRY(rs_json_load(&rows, path, text, length, &(rs_json_rules){.max_depth = 8}, err));
    rs_status status = take_json(in, rows, path, source, network, err);
    json_decref(rows);
    return status;
}

bool rs_input_is_json(const uint8_t *bytes, size_t length)
{
    return length && (bytes[0] == '[' || strchr(" \t\r\n{\"", bytes[0]));
}

rs_status rs_input_tokens(rs_inputs *in, const rs_input_source *source, const rs_network *network,
                          rs_error *err)
{
    rs_mapping *file;
    RS_TRY(rs_mapping_open(&file, source->tokens, err));
    rs_status status;
    if (rs_input_is_json(file->data, file->size)) {
        status = rs_input_json(in, source->tokens, (const char *)file->data, file->size, source,
                               network, err);
    } else {
        rs_npy array;
        status = rs_npy_parse(&array, source->tokens, file->data, file->size, err);
        if (status == RS_OK) status = take_npy(in, &array, source, network, err);
    }
    if (status == RS_OK) status = rs_mapping_verify(file, NULL, err);
    rs_mapping_close(file);
    return status;
}
