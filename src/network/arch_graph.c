/* arch_graph.c: the field "graph" of an architecture file, and mixers with a given matrix. */
#include "network/arch_build.h"

#include "base/mapping.h"
#include "base/memory.h"
#include "checkpoint/npy.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* More nodes than this are a slip of the pen: no array of their pairs fits anywhere. */
#define MOST_NODES ((int64_t)1 << 24)

/* The array that the file names. */
typedef struct rs_arch_graph {
    rs_graph_form form;
    char *path;
    rs_mapping *file;
    rs_npy array;
    int64_t *integers; /* [nodes] a row of them; NULL: the array is of reals */
} rs_arch_graph;

const char *rs_arch_graph_path(const rs_arch *arch)
{
    return arch->graph ? arch->graph->path : NULL;
}

void rs_arch_graph_close(rs_arch *arch)
{
    if (!arch->graph) return;
    rs_mapping_close(arch->graph->file);
    rs_free(arch->graph->integers);
    rs_free(arch->graph->path);
}

/* ---- the field ---- */

static rs_status refuse(const rs_arch *arch, const char *hint, const char *what, rs_error *err)
{
    return rs_fail(err, RS_E_ARCH_SCHEMA, arch->path, hint, "%s", what);
}

static rs_status read_form(rs_graph_form *form, const rs_arch *arch, const json_t *json,
                           rs_error *err)
{
    const char *known[RS_GRAPH_FORMS + 1] = {NULL};
    const char *text = json_string_value(json);
    *form = RS_GRAPH_ROW;
    if (!json) return RS_OK;
    if (!text)
        return refuse(arch, "use row, symmetric, attention or given",
                      "\"form\" in \"graph\" is no text", err);
    for (int f = 0; f < RS_GRAPH_FORMS; f++) {
        known[f] = rs_graph_form_name((rs_graph_form)f);
        if (strcmp(text, known[f]) == 0) return *form = (rs_graph_form)f, RS_OK;
    }
    char hint[96];
    snprintf(hint, sizeof hint, "did you mean \"%s\"?", rs_nearest_name(text, known));
    return rs_fail(err, RS_E_ARCH_SCHEMA, arch->path, hint,
                   "\"form\" in \"graph\" is \"%.60s\"; there are row, symmetric, attention, given",
                   text);
}

static rs_status check_names(const rs_arch *arch, const json_t *json, rs_error *err)
{
    static const char *const names[] = {"file", "form", NULL};
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)json, name, value)
    {
        if (strcmp(name, names[0]) == 0 || strcmp(name, names[1]) == 0) continue;
        char hint[96];
        snprintf(hint, sizeof hint, "did you mean \"%s\"?", rs_nearest_name(name, names));
        return rs_fail(err, RS_E_ARCH_SCHEMA, arch->path, hint,
                       "unknown field \"%.80s\" in \"graph\"", name);
    }
    return RS_OK;
}

/* A relative path begins in the folder of the architecture file. */
static rs_status find_path(rs_arch_graph *graph, const rs_arch *arch, const char *file,
                           rs_error *err)
{
    const char *slash = strrchr(arch->path, '/');
    size_t folder = file[0] == '/' || !slash ? 0 : (size_t)(slash - arch->path) + 1;
    size_t size = folder + strlen(file) + 1;
    graph->path = rs_malloc(size, 1);
    if (!graph->path) return rs_fail_memory(err, "\"graph\"", size);
    memcpy(graph->path, arch->path, folder);
    memcpy(graph->path + folder, file, size - folder);
    return RS_OK;
}

static rs_status open_array(rs_arch_graph *graph, rs_error *err)
{
    rs_npy *array = &graph->array;
    RS_TRY(rs_mapping_open(&graph->file, graph->path, err));
    RS_TRY(rs_npy_parse(array, graph->path, graph->file->data, graph->file->size, err));
    if (array->rank != 2 || array->shape[0] != array->shape[1] || array->count == 0)
        return rs_fail(err, RS_E_INPUT_SHAPE, graph->path, "one row and one column for each node",
                       "a graph is a square matrix; this array has %u dimensions, the first %lld, "
                       "the last %lld",
                       array->rank, (long long)(array->rank ? array->shape[0] : 0),
                       (long long)(array->rank ? array->shape[array->rank - 1] : 0));
    if (array->shape[0] > MOST_NODES)
        return rs_fail(err, RS_E_INPUT_SHAPE, graph->path, NULL, "%lld nodes; at most %lld",
                       (long long)array->shape[0], (long long)MOST_NODES);
    if (!rs_npy_is_whole(array)) return RS_OK;
    graph->integers = rs_malloc((size_t)array->shape[0], sizeof *graph->integers);
    return graph->integers ? RS_OK : rs_fail_memory(err, graph->path, 8 * (size_t)array->shape[0]);
}

/* ---- what else the file says ---- */

static int64_t layers_of(const rs_arch *arch, rs_arch_mixer mixer)
{
    int64_t n = 0;
    for (int64_t l = 0; l < arch->depth; l++)
        n += arch->mixer[l] == mixer;
    return n;
}

/* Fields that nothing would read. */
static rs_status check_unread(const rs_arch *arch, rs_error *err)
{
    bool softmax = arch->mix_identity == 0 && arch->mix_softmax == 1 && arch->mix_uniform == 0;
    bool linear = layers_of(arch, RS_ARCH_LINEAR_ATTENTION) > 0; /* reads mask and temperature */
    if (layers_of(arch, RS_ARCH_ATTENTION) > 0) return RS_OK;
    if (arch->causal && !linear)
        return refuse(arch, "take the edges out of the file's matrix",
                      "\"mask\" is read by no mixer here: a graph's edges are its mask", err);
    if (arch->positions != RS_ARCH_POSITIONS_NONE && arch->positions != RS_ARCH_POSITIONS_LEARNED &&
        arch->positions != RS_ARCH_POSITIONS_SINUSOIDAL)
        return refuse(arch, "use \"positions\": \"none\" or \"learned\"",
                      "\"positions\" acts on the logits of attention between all tokens; a graph "
                      "has none",
                      err);
    if (!softmax)
        return refuse(
            arch, "leave it out",
            "\"attention\" is read by no mixer here: a graph's \"form\" says how it mixes", err);
    for (int64_t l = 0; l < arch->depth; l++)
        if (arch->temperature[l] != 1 && arch->graph->form != RS_GRAPH_ATTENTION && !linear)
            return refuse(arch, "leave it out, or use \"form\": \"attention\"",
                          "\"temperature\" divides logits; this graph has none", err);
    return RS_OK;
}

static rs_status check_values(const rs_arch *arch, rs_error *err)
{
    bool attention = arch->graph && arch->graph->form == RS_GRAPH_ATTENTION;
    if (!arch->identity_values || layers_of(arch, RS_ARCH_GRAPH) == 0) return RS_OK;
    if (attention && arch->kv_heads != arch->heads)
        return refuse(arch, "leave \"kv_heads\" out",
                      "\"value_map\" identity gives each head its own stretch of a token, and "
                      "\"kv_heads\" is not \"heads\"",
                      err);
    if (!arch->merged_output && arch->heads * arch->d_head != arch->d_model)
        return rs_fail(err, RS_E_ARCH_SCHEMA, arch->path, "leave \"d_head\" out",
                       "\"value_map\" identity: %lld heads of %lld numbers are no token of %lld",
                       (long long)arch->heads, (long long)arch->d_head, (long long)arch->d_model);
    return RS_OK;
}

static rs_status take_length(rs_arch *arch, const json_t *json, rs_error *err)
{
    int64_t nodes = arch->graph->array.shape[0];
    if (json_object_get(json, "seq_len") && arch->seq_len != nodes)
        return rs_fail(err, RS_E_ARCH_SCHEMA, arch->path, "leave \"seq_len\" out",
                       "\"seq_len\" is %lld; the graph has %lld nodes", (long long)arch->seq_len,
                       (long long)nodes);
    arch->seq_len = nodes;
    return RS_OK;
}

rs_status rs_arch_read_graph(rs_arch *arch, const json_t *json, rs_error *err)
{
    const json_t *field = json_object_get(json, "graph");
    bool used = layers_of(arch, RS_ARCH_GRAPH) > 0;
    if (!field && used)
        return refuse(arch, "give \"graph\": {\"file\": FILE.npy, \"form\": \"row\"}",
                      "the mixer \"graph\" needs its matrix", err);
    if (arch->identity_values && !used && layers_of(arch, RS_ARCH_LINEAR_ATTENTION) == 0)
        return refuse(arch, "leave it out", "\"value_map\" identity is read by no mixer here", err);
    if (!field) return RS_OK;
    if (!used)
        return refuse(arch, "use \"mixer\": \"graph\"", "\"graph\" is read by no mixer here", err);
    if (!json_is_object(field))
        return refuse(arch, "give {\"file\": FILE.npy, \"form\": \"row\"}",
                      "\"graph\" is no object of \"file\" and \"form\"", err);
    RS_TRY(check_names(arch, field, err));
    const char *file = json_string_value(json_object_get(field, "file"));
    if (!file || !file[0])
        return refuse(arch, "save an n x n array with numpy.save",
                      "\"graph\" names no \"file\" with the text of a path", err);
    arch->graph = rs_arena_alloc(arch->arena, 1, sizeof *arch->graph);
    if (!arch->graph) return rs_fail_memory(err, "\"graph\"", sizeof *arch->graph);
    RS_TRY(read_form(&arch->graph->form, arch, json_object_get(field, "form"), err));
    RS_TRY(find_path(arch->graph, arch, file, err));
    RS_TRY(open_array(arch->graph, err));
    RS_TRY(take_length(arch, json, err));
    RS_TRY(check_unread(arch, err));
    return check_values(arch, err);
}

/* ---- the mixer ---- */

static rs_status read_row(void *user, double *row, int64_t i, rs_error *err)
{
    const rs_arch_graph *graph = user;
    int64_t n = graph->array.shape[0];
    if (graph->integers) {
        rs_npy_integers(graph->integers, &graph->array, i * n, n);
        for (int64_t j = 0; j < n; j++)
            row[j] = (double)graph->integers[j];
    } else {
        rs_npy_reals(row, &graph->array, i * n, n);
    }
    return rs_mapping_check(graph->file, err);
}

/* All layers of a network share one. */
static rs_status find_graph(const rs_graph **out, const rs_arch_build *b)
{
    rs_arch_graph *from = b->arch->graph;
    const rs_graph_source source = {
        .name = from->path, .nodes = from->array.shape[0], .read_row = read_row, .user = from};
    for (int32_t l = 0; l < b->layer; l++)
        if (b->network->layers[l].branches[0].kind == RS_BRANCH_GRAPH)
            return *out = b->network->layers[l].branches[0].graph.graph, RS_OK;
    RS_TRY(rs_graph_build(out, b->network->arena, b->init, &source, from->form, b->err));
    return rs_mapping_verify(from->file, NULL, b->err);
}

static void add_queries(rs_graph_op *op, const rs_arch *arch, int32_t layer)
{
    op->head_dim = arch->d_head;
    op->heads = (int32_t)arch->heads;
    op->key_heads = (int32_t)arch->kv_heads;
    op->value_heads = (int32_t)arch->kv_heads;
    op->value_dim = arch->d_head;
    op->scale = 1 / sqrt((double)arch->d_head);
    op->temperature = arch->temperature[layer];
    op->q = rs_arch_map(arch->heads * arch->d_head, arch->d_model);
    op->k = rs_arch_map(arch->kv_heads * arch->d_head, arch->d_model);
}

rs_status rs_arch_add_graph(rs_branch *branch, const rs_arch_build *b)
{
    const rs_arch *arch = b->arch;
    const rs_graph *graph;
    RS_TRY(find_graph(&graph, b));
    branch->kind = RS_BRANCH_GRAPH;
    branch->graph = (rs_graph_op){.graph = graph,
                                  .matrix = graph->matrix,
                                  .heads = 1,
                                  .value_heads = 1,
                                  .value_dim = arch->heads * arch->d_head};
    rs_graph_op *op = &branch->graph;
    if (graph->form == RS_GRAPH_ATTENTION) add_queries(op, arch, b->layer);
    if (arch->merged_output) {
        op->value_dim = arch->d_model;
        if (arch->identity_values) op->value_heads = 1; /* each head reads all of a token */
    } else {
        op->o = rs_arch_map(arch->d_model, op->heads * op->value_dim);
    }
    if (!arch->identity_values) op->v = rs_arch_map(op->value_heads * op->value_dim, arch->d_model);
    return rs_arch_draw(branch, b);
}
