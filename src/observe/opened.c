/* opened.c: from a path to a network, its tokenizer and its inputs. */
#include "observe/opened.h"

#include "base/mapping.h"
#include "base/memory.h"
#include "network/op_traits.h"
#include "network/saved.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* ---- files that must not be overwritten ---- */

static rs_status add_path(rs_opened *o, const char *path, rs_error *err)
{
    struct stat st;
    if (!path || stat(path, &st) != 0) return RS_OK;
    return rs_input_files_add(o->files, (rs_file_id){(uint64_t)st.st_dev, (uint64_t)st.st_ino},
                              err);
}

const char *rs_model_folder(char *buffer, size_t size, const char *path)
{
    if (rs_is_folder(path)) return path;
    const char *slash = strrchr(path, '/');
    if (!slash) return ".";
    snprintf(buffer, size, "%.*s", slash == path ? 1 : (int)(slash - path), path);
    return buffer;
}

/* An architecture file is a model by itself; of everything else the whole folder is the model. */
static rs_status note_files(rs_opened *o, rs_error *err)
{
    if (o->request->lent) return RS_OK;
    const rs_input_source *source = &o->request->source;
    const char *paths[] = {source->tokens,         source->images, source->states,
                           source->encoder_states, o->config_path, o->request->path};
    for (size_t i = 0; i < source->n_texts; i++)
        RS_TRY(add_path(o, source->texts[i], err));
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
        RS_TRY(add_path(o, paths[i], err));
    RS_TRY(add_path(o, o->network->pooling_file, err));
    if (o->arch) RS_TRY(add_path(o, rs_arch_graph_path(o->arch), err));
    if (!o->arch || o->checkpoint || rs_is_saved(o->config))
        RS_TRY(rs_input_files_model(o->files, o->request->path, err));
    if (!o->checkpoint) return RS_OK;
    for (size_t i = 0; i < o->checkpoint->n_files; i++) {
        const rs_mapping *mapping = o->checkpoint->files[i].mapping;
        RS_TRY(rs_input_files_add(o->files, (rs_file_id){mapping->device, mapping->inode}, err));
    }
    return add_path(o, o->checkpoint->config_path, err);
}

/* ---- the network ---- */

static bool ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

/* config.json of a published model names its type; an architecture file has no such field; that of a
 * saved network holds its architecture. *arch NULL: there is none. */
static rs_status find_architecture(const json_t **arch, const json_t *config, const char *path,
                                   rs_error *err)
{
    bool published =
        json_object_get(config, "model_type") || json_object_get(config, "architectures");
    *arch = published ? NULL : config;
    return rs_is_saved(config) ? rs_saved_arch(arch, config, path, err) : RS_OK;
}

static rs_status read_architecture(rs_opened *o, const json_t *arch, rs_error *err)
{
    RS_TRY(rs_arch_read(&o->arch, arch, o->config_path, err));
    return rs_network_from_arch(&o->network, arch, o->config_path, o->init, err);
}

/* The law of inputs of a saved network. */
static rs_status read_saved(rs_opened *o, rs_error *err)
{
    const rs_checkpoint *checkpoint = o->checkpoint;
    const json_t *arch;
    if (!rs_is_saved(checkpoint->config)) return RS_OK;
    RS_TRY(rs_saved_arch(&arch, checkpoint->config, checkpoint->config_path, err));
    return rs_arch_read(&o->arch, arch, checkpoint->config_path, err);
}

/* ---- memory: before the weights are drawn, and again once the inputs are known ---- */

typedef struct opening {
    const rs_opened *opened;
    const rs_context *context;
} opening;

/* The least that the inputs can be: what is drawn at random is known. */
static rs_run_shape expected_shape(const rs_input_source *source)
{
    rs_run_shape shape = {1, 1};
    if (source->random > 0) {
        shape.samples = source->random;
        shape.longest = source->seq_len > 0 ? source->seq_len : 1;
    }
    return shape;
}

static void add_inputs(rs_budget *budget, const rs_network *network, double tokens, bool numbers)
{
    double bytes = network->embedding.vocabulary > 0 && !numbers
                       ? sizeof(int32_t)
                       : sizeof(double) * (double)network->d_model;
    rs_budget_add(budget, "inputs", tokens * bytes);
}

static void need_of_plan(rs_budget *budget, const rs_network *plan, const void *user)
{
    const opening *at = user;
    const rs_open_request *request = at->opened->request;
    rs_run_shape shape = expected_shape(&request->source);
    if (request->need) request->need(budget, plan, shape, request->options, at->context);
    add_inputs(budget, plan, (double)shape.samples * (double)shape.longest, request->source.states);
}

static rs_status check_memory(const rs_opened *o, rs_run_shape shape, const rs_context *context,
                              rs_error *err)
{
    const rs_open_request *request = o->request;
    rs_budget budget = {0};
    const rs_inputs *in = o->inputs; /* states may be many, and are of any lengths */
    add_inputs(&budget, o->network,
               in ? (double)in->begin[in->samples] : (double)shape.samples * (double)shape.longest,
               request->source.states);
    if (o->init) rs_budget_add(&budget, "weights", (double)rs_init_bytes(o->init));
    if (request->need) request->need(&budget, o->network, shape, request->options, context);
    const char *hint = "take fewer samples, a smaller --seq-len, --batch or --depth, or say how "
                       "much it may take: --memory SIZE";
    return rs_budget_check(&budget, context->memory, request->lent ? "session" : request->path,
                           request->memory_hint ? request->memory_hint : hint, err);
}

static rs_status draw_network(rs_opened *o, const rs_context *context, rs_error *err)
{
    RS_TRY(rs_config_open(&o->config, &o->config_path, o->request->path, err));
    const json_t *arch;
    RS_TRY(find_architecture(&arch, o->config, o->config_path, err));
    if (!(arch && !rs_is_saved(o->config)) && !o->request->init)
        return rs_fail(err, RS_E_USAGE, o->config_path,
                       "give --init default, or the folder of the checkpoint instead of its "
                       "config.json",
                       "a configuration has no weights of its own");
    RS_TRY(rs_init_open(&o->init, o->request->init, context->seed, err));
    rs_init_set_threads(o->init, context->threads);
    opening at = {o, context};
    rs_init_set_memory(o->init, context->memory, NULL, need_of_plan, &at);
    rs_status status =
        arch ? read_architecture(o, arch, err)
             : rs_network_from_config(&o->network, o->config, o->config_path, o->init, err);
    rs_init_set_memory(o->init, context->memory, NULL, NULL, NULL);
    return status;
}

static rs_status open_network(rs_opened *o, const rs_context *context, rs_error *err)
{
    const char *path = o->request->path;
    const rs_lent_model *lent = o->request->lent;
    if (lent) {
        o->lent = true;
        o->checkpoint = lent->checkpoint;
        o->network = lent->network;
        o->model = lent->model;
        return RS_OK;
    }
    if (o->request->init || ends_with(path, ".json")) return draw_network(o, context, err);
    rs_checkpoint_options how = {.lenient = o->request->lenient};
    RS_TRY(rs_checkpoint_open(&o->checkpoint, path, &how, err));
    rs_model **model = o->request->wants_model ? &o->own_model : NULL;
    RS_TRY(rs_network_open_with_model(&o->network, model, o->checkpoint, err));
    o->model = o->own_model;
    return read_saved(o, err);
}

/* The untrained twin needs a description: a model in memory has none, nor has a GGUF file. */
static rs_status draw_twin(rs_opened *o, const rs_context *context, rs_error *err)
{
    const char *path = o->request->path;
    if (!o->request->wants_twin) return RS_OK;
    if (o->request->lent || ends_with(path, ".gguf"))
        return rs_fail(
            err, RS_E_UNSUPPORTED, "null",
            "give a folder with config.json; without --null random the null is a closed "
            "form",
            "a model in memory or in a GGUF file has no config.json to draw an untrained "
            "twin from");
    if (!o->config) RS_TRY(rs_config_open(&o->config, &o->config_path, o->request->path, err));
    RS_TRY(rs_init_open(&o->twin_init, "default", context->seed, err));
    rs_init_set_threads(o->twin_init, context->threads);
    rs_init_set_memory(o->twin_init, context->memory, NULL, NULL, NULL);
    const json_t *arch;
    RS_TRY(find_architecture(&arch, o->config, o->config_path, err));
    return arch ? rs_network_from_arch(&o->twin, arch, o->config_path, o->twin_init, err)
                : rs_network_from_config(&o->twin, o->config, o->config_path, o->twin_init, err);
}

/* ---- the tokenizer: in the folder of the model, or in its GGUF file ---- */

static rs_status open_tokenizer(rs_opened *o, const rs_context *context, rs_error *err)
{
    const char *path = o->request->path;
    const rs_input_source *source = &o->request->source;
    const char *text = source->n_texts ? source->texts[0] : NULL;
    char folder[4096];
    if (!text && !o->request->wants_tokenizer) return RS_OK;
    if (o->request->lent)
        return text ? rs_fail(err, RS_E_UNSUPPORTED, text, "give token ids",
                              "a model in memory has no tokenizer")
                    : RS_OK;
    if (!ends_with(path, ".gguf")) path = rs_model_folder(folder, sizeof folder, path);
    rs_status status = rs_tokenizer_open(&o->tokenizer, path, err);
    rs_tokenizer_watch(o->tokenizer, context);
    return text || status == RS_E_NO_MEMORY ? status : RS_OK;
}

/* ---- meta "model": docs/contract.md ---- */

static json_t *file_names(const rs_opened *o)
{
    json_t *files = json_array();
    for (size_t i = 0; o->checkpoint && i < o->checkpoint->n_files; i++)
        json_array_append_new(files, json_string(o->checkpoint->files[i].name));
    if (!o->config_path) return files;
    const char *slash = strrchr(o->config_path, '/');
    json_array_append_new(files, json_string(slash ? slash + 1 : o->config_path));
    return files;
}

static rs_status set_model(rs_result *result, const rs_opened *o, rs_error *err)
{
    const rs_network *n = o->network;
    const rs_branch *mixer = NULL; /* the first attention, or the first mixer where there is none */
    for (int32_t l = 0; l < n->n_layers; l++) {
        const rs_branch *own = rs_layer_mixer(&n->layers[l]);
        if (own && (!mixer || (rs_branch_attention(own) && !rs_branch_attention(mixer))))
            mixer = own;
    }
    const rs_attention_op *attention = mixer ? rs_branch_attention(mixer) : NULL;
    int heads = mixer ? (int)rs_branch_traits(mixer)->matrices(mixer) : 0;
    int64_t dim = heads ? rs_branch_traits(mixer)->width(mixer).inner / heads : 0;
    int kv_heads = attention ? (int)attention->kv_heads : heads;
    if (attention) dim = attention->head_dim;
    json_t *object = json_pack(
        "{s:s?, s:i, s:I, s:i, s:i, s:I, s:I, s:s, s:s?, s:s, s:o}", "family", n->family, "layers",
        (int)n->n_layers, "d_model", (json_int_t)n->d_model, "heads", heads, "kv_heads", kv_heads,
        "d_head", (json_int_t)dim, "parameters", (json_int_t)n->stored.parameters, "dtype",
        n->stored.dtype, "file_type", n->stored.file_type, "weights",
        o->checkpoint ? "checkpoint" : "random", "files", file_names(o));
    return rs_result_set_meta(result, "model", object, err);
}

/* ---- the inputs ---- */

static rs_status open_inputs(rs_opened *o, const rs_context *context, rs_error *err)
{
    rs_input_source source = o->request->source;
    if (o->arch && source.seq_len == 0) source.seq_len = o->arch->seq_len;
    source.arch = o->arch;
    source.memory = context->memory;
    return rs_inputs_open(&o->inputs, &source, o->network, o->tokenizer, context->seed, err);
}

rs_status rs_opened_open(rs_opened *o, rs_result *result, rs_input_files *files,
                         const rs_open_request *request, const rs_context *context, rs_error *err)
{
    *o = (rs_opened){.request = request, .files = files};
    RS_TRY(rs_input_source_check(&request->source, err));
    RS_TRY(open_network(o, context, err));
    RS_TRY(draw_twin(o, context, err));
    RS_TRY(note_files(o, err));
    RS_TRY(open_tokenizer(o, context, err));
    RS_TRY(check_memory(o, expected_shape(&request->source), context, err));
    RS_TRY(open_inputs(o, context, err));
    rs_run_shape shape = {o->inputs->samples, o->inputs->longest};
    RS_TRY(check_memory(o, shape, context, err));
    RS_TRY(set_model(result, o, err));
    o->request = NULL;
    return RS_OK;
}

void rs_opened_close(rs_opened *o)
{
    rs_inputs_close(o->inputs);
    rs_tokenizer_close(o->tokenizer);
    if (!o->lent) rs_network_close(o->network);
    rs_model_close(o->own_model);
    if (o->arch) rs_arch_close(o->arch);
    rs_init_close(o->init);
    rs_network_close(o->twin);
    rs_init_close(o->twin_init);
    if (!o->lent) rs_checkpoint_close(o->checkpoint);
    json_decref(o->config);
    rs_free(o->config_path);
}
