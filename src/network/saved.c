/* saved.c: a network as a folder: writing it, and opening it again. */
#include "network/saved.h"

#include "checkpoint/safetensors_write.h"
#include "network/arch_build.h"
#include "network/names.h"

#include <stdio.h>
#include <string.h>

static const char model_type[] = "rankscope";
static const char graph_file[] = "graph.npy";

/* ---- writing ---- */

typedef struct saving {
    const rs_save_request *request;
    rs_arch *arch;
    rs_names *names;
    rs_outputs own; /* what waits, unless the caller has a set */
    rs_outputs *outputs;
    rs_error *err;
} saving;

static rs_status path_in(char **out, const saving *s, const char *name)
{
    size_t size = strlen(s->request->folder) + strlen(name) + 2;
    *out = rs_malloc(size, 1);
    if (!*out) return rs_fail_memory(s->err, name, size);
    snprintf(*out, size, "%s/%s", s->request->folder, name);
    return RS_OK;
}

/* Whether the file has these bytes already: then it is left alone. */
static bool has_bytes(const char *path, const void *bytes, size_t length)
{
    FILE *file = fopen(path, "rb");
    if (!file) return false;
    char piece[4096];
    size_t done = 0, n;
    bool same = true;
    while (same && (n = fread(piece, 1, sizeof piece, file)) > 0) {
        same = n <= length - done && memcmp((const char *)bytes + done, piece, n) == 0;
        done += n;
    }
    same = same && done == length && !ferror(file);
    fclose(file);
    return same;
}

static rs_status write_bytes(saving *s, const char *name, const void *bytes, size_t length)
{
    char *path;
    RS_TRY(path_in(&path, s, name));
    const rs_input_files files = {.outputs = s->outputs};
    rs_status status = RS_OK;
    if (!has_bytes(path, bytes, length))
        status = rs_output_write(path, bytes, length, &files, s->err);
    rs_free(path);
    return status;
}

/* ---- weights ---- */

static rs_status put_tensor(rs_st_writer *writer, const saving *s, size_t i)
{
    enum { PIECE = 8192 };
    const rs_save_request *request = s->request;
    const rs_tensor *tensor = s->names->rows[i].tensor;
    const void *all = request->numbers ? request->numbers(request->user, tensor) : NULL;
    if (all) return rs_st_writer_put(writer, i, 0, all, tensor->count, s->err);
    union {
        float single[PIECE];
        double whole[PIECE];
    } piece;
    for (int64_t first = 0; first < tensor->count; first += PIECE) {
        int64_t n = tensor->count - first < PIECE ? tensor->count - first : PIECE;
        if (request->dtype == RS_F64)
            rs_tensor_decode_f64(piece.whole, tensor, first, n);
        else
            rs_tensor_decode_f32(piece.single, tensor, first, n);
        RS_TRY(rs_st_writer_put(writer, i, first, &piece, n, s->err));
    }
    return RS_OK;
}

static rs_status plan_tensors(rs_st_plan *plans, const saving *s)
{
    for (size_t i = 0; i < s->names->n; i++) {
        const rs_named_tensor *row = &s->names->rows[i];
        if (row->tensor->rank > RS_ST_WRITE_RANK)
            return rs_fail(s->err, RS_E_UNSUPPORTED, row->name, NULL,
                           "a tensor of %u dimensions is not written", row->tensor->rank);
        plans[i] =
            (rs_st_plan){.name = row->name, .dtype = s->request->dtype, .rank = row->tensor->rank};
        for (uint32_t k = 0; k < row->tensor->rank; k++)
            plans[i].shape[k] = row->tensor->shape[k];
    }
    return RS_OK;
}

static rs_status write_tensors(saving *s, const rs_st_plan *plans, const char *path)
{
    rs_st_writer *writer;
    const rs_input_files files = {.outputs = s->outputs};
    RS_TRY(rs_st_writer_open(&writer, path, plans, s->names->n, &files, s->err));
    for (size_t i = 0; i < s->names->n; i++) {
        rs_status status = put_tensor(writer, s, i);
        if (status == RS_OK) continue;
        rs_st_writer_discard(writer);
        return status;
    }
    return rs_st_writer_commit(writer, s->err);
}

static rs_status write_weights(saving *s)
{
    char *path;
    RS_TRY(path_in(&path, s, "model.safetensors"));
    rs_st_plan *plans = rs_calloc(s->names->n + 1, sizeof *plans);
    rs_status status =
        plans ? plan_tensors(plans, s) : rs_fail_memory(s->err, path, s->names->n * sizeof *plans);
    if (status == RS_OK) status = write_tensors(s, plans, path);
    rs_free(plans);
    rs_free(path);
    return status;
}

/* ---- the configuration ---- */

static rs_status describe(json_t **out, const saving *s)
{
    const rs_save_request *request = s->request;
    json_t *arch, *config = json_object();
    const char *name;
    json_t *value;
    *out = config;
    json_object_set_new(config, "model_type", json_string(model_type));
    RS_TRY(rs_arch_write(&arch, request->arch, s->arch, request->network, graph_file, s->err));
    json_object_set_new(config, "arch", arch);
    json_object_foreach((json_t *)(uintptr_t)request->more, name,
                        value) if (!json_object_get(config, name))
        json_object_set(config, name, value);
    return RS_OK;
}

static rs_status write_config(saving *s)
{
    json_t *config;
    int64_t failures = rs_memory_failures();
    rs_status status = describe(&config, s);
    char *text = NULL;
    if (status == RS_OK) text = json_dumps(config, JSON_INDENT(1) | JSON_REAL_PRECISION(17));
    if (status == RS_OK) status = rs_memory_check(failures, "config.json", s->err);
    if (status == RS_OK && !text) status = rs_fail_memory(s->err, "config.json", 0);
    if (status == RS_OK) status = write_bytes(s, "config.json", text, strlen(text));
    rs_memory_free_json(text);
    json_decref(config);
    return status;
}

static rs_status write_graph(saving *s)
{
    const char *from = rs_arch_graph_path(s->arch);
    rs_mapping *file;
    if (!from) return RS_OK;
    RS_TRY(rs_mapping_open(&file, from, s->err));
    rs_status status = write_bytes(s, graph_file, file->data, file->size);
    if (status == RS_OK) status = rs_mapping_verify(file, NULL, s->err);
    rs_mapping_close(file);
    return status;
}

/* ---- all of it ---- */

static rs_status write_all(saving *s)
{
    const rs_save_request *request = s->request;
    if (request->dtype != RS_F32 && request->dtype != RS_F64)
        return rs_fail(s->err, RS_E_INTERNAL, request->folder, NULL,
                       "weights are stored as F32 or F64");
    RS_TRY(rs_arch_read(&s->arch, request->arch, request->arch_path, s->err));
    RS_TRY(rs_names_open(&s->names, request->network, s->err));
    RS_TRY(rs_outputs_make_folder(s->outputs, request->folder, s->err));
    RS_TRY(write_weights(s));
    RS_TRY(write_graph(s));
    return write_config(s);
}

rs_status rs_network_save(const rs_save_request *request, rs_error *err)
{
    saving s = {.request = request, .err = err};
    s.outputs = request->outputs ? request->outputs : &s.own;
    rs_status status = write_all(&s);
    rs_names_close(s.names);
    rs_arch_close(s.arch);
    if (request->outputs) return status;
    if (status == RS_OK) status = rs_outputs_place(&s.own, err);
    char what[256];
    if (status == RS_OK)
        rs_outputs_keep(&s.own);
    else
        rs_outputs_undo(&s.own, what, sizeof what);
    return status;
}

/* ---- reading ---- */

bool rs_is_saved(const json_t *config)
{
    const char *type = json_string_value(json_object_get(config, "model_type"));
    return type && strcmp(type, model_type) == 0;
}

rs_status rs_saved_arch(const json_t **arch, const json_t *config, const char *path, rs_error *err)
{
    *arch = json_object_get(config, "arch");
    if (json_is_object(*arch)) return RS_OK;
    return rs_fail(err, RS_E_CONFIG_SCHEMA, path, "it is an architecture (docs/arch.md)",
                   "model_type is rankscope, and \"arch\" is %s",
                   *arch ? "no object" : "not there");
}

static const char *path_of(const rs_checkpoint *checkpoint)
{
    return checkpoint->config_path ? checkpoint->config_path : "config";
}

rs_status rs_saved_open(rs_network **out, const rs_checkpoint *checkpoint, rs_error *err)
{
    const json_t *arch;
    rs_init *init;
    rs_network *network = NULL;
    *out = NULL;
    RS_TRY(rs_saved_arch(&arch, checkpoint->config, path_of(checkpoint), err));
    RS_TRY(rs_init_open(&init, NULL, 0, err));
    rs_status status = rs_arch_plan(&network, arch, path_of(checkpoint), init, err);
    if (status == RS_OK) status = rs_names_bind(network, checkpoint, err);
    /* No weight is the source's any more. */
    rs_init_close(init);
    if (status != RS_OK) {
        rs_network_close(network);
        return status;
    }
    network->checkpoint = checkpoint;
    *out = network;
    return RS_OK;
}

rs_status rs_checkpoint_model(rs_model **out, const rs_checkpoint *checkpoint, const json_t *map,
                              const char *map_path, rs_error *err)
{
    rs_network *network;
    *out = NULL;
    if (map || !rs_is_saved(checkpoint->config))
        return rs_model_open(out, checkpoint, map, map_path, err);
    RS_TRY(rs_saved_open(&network, checkpoint, err));
    rs_status status = rs_saved_model(out, checkpoint, network, err);
    rs_network_close(network);
    return status;
}
