/* network_pooling.c: how sentence-transformers turns tokens into one vector: modules.json beside
 * the model, and the configuration of its Pooling module. */
#include "checkpoint/json_text.h"
#include "checkpoint/open.h"
#include "network/network_build.h"

#include <stdio.h>
#include <string.h>

static const rs_json_rules rules = {.max_depth = 16};

/* *out stays NULL when there is no such file. */
static rs_status load_json(json_t **out, const char *folder, const char *name, rs_error *err)
{
    *out = NULL;
    char *path = rs_path_join(folder, name);
    if (!path) return rs_fail_memory(err, "modules.json", 0);
    rs_mapping *mapping;
    rs_error reason = {0};
    rs_status status = rs_mapping_open(&mapping, path, &reason);
    if (status == RS_OK) {
        status = rs_json_load(out, path, (const char *)mapping->data, mapping->size, &rules, err);
        rs_status damage = rs_mapping_verify(mapping, NULL, err);
        if (damage != RS_OK) status = damage;
        rs_mapping_close(mapping);
    } else if (status == RS_E_NOT_FOUND) {
        status = RS_OK;
    } else if (err) {
        *err = reason;
    }
    rs_free(path);
    return status;
}

/* A folder right beside modules.json: no way out of it. */
static bool plain_folder(const char *name)
{
    return name && *name && !strchr(name, '/') && !strchr(name, '\\') && strcmp(name, ".") != 0 &&
           strcmp(name, "..") != 0 && strlen(name) < 128;
}

static rs_status pooling_module(rs_net_builder *nb, const char *folder, const char *module)
{
    static const struct {
        const char *flag, *word;
        rs_pooling pooling;
    } modes[] = {{"pooling_mode_mean_tokens", "mean", RS_POOLING_MEAN},
                 {"pooling_mode_cls_token", "cls", RS_POOLING_CLS},
                 {"pooling_mode_max_tokens", "max", RS_POOLING_MAX}};
    const char *path = rs_arena_printf(nb->network->arena, "%s/config.json", module);
    json_t *config;
    if (!path) return rs_fail_memory(nb->err, "network", 0);
    nb->network->pooling_file = rs_arena_printf(nb->network->arena, "%s/%s", folder, path);
    if (!nb->network->pooling_file) return rs_fail_memory(nb->err, "network", 0);
    RS_TRY(load_json(&config, folder, path, nb->err));
    const char *word = json_string_value(json_object_get(config, "pooling_mode"));
    size_t n = 0;
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++)
        if (json_is_true(json_object_get(config, modes[i].flag)) ||
            (word && strcmp(word, modes[i].word) == 0)) {
            nb->network->pooling = modes[i].pooling;
            n++;
        }
    json_decref(config);
    if (n == 1) return RS_OK;
    nb->network->pooling = RS_POOLING_NONE;
    return rs_notes_say(
        &nb->network->notes, nb->err, RS_WARN, "pooling_unknown", NULL,
        "%s asks for a pooling other than mean, cls or max: sentence embeddings are "
        "not formed",
        path);
}

static rs_status read_modules(rs_net_builder *nb, const char *folder, const json_t *modules)
{
    size_t i;
    json_t *module;
    json_array_foreach(modules, i, module)
    {
        const char *type = json_string_value(json_object_get(module, "type"));
        const char *path = json_string_value(json_object_get(module, "path"));
        const char *kind = type ? strrchr(type, '.') : NULL;
        if (!kind) continue;
        if (strcmp(kind, ".Normalize") == 0) nb->network->normalize = true;
        if (strcmp(kind, ".Dense") == 0)
            RS_TRY(rs_notes_say(&nb->network->notes, nb->err, RS_WARN, "dense_module", NULL,
                                "modules.json has a Dense module, which is not applied"));
        if (strcmp(kind, ".Pooling") != 0) continue;
        if (!plain_folder(path))
            return rs_fail(nb->err, RS_E_INDEX_PATH, "modules.json", NULL,
                           "the path \"%.80s\" of its Pooling module is no plain folder name",
                           path ? path : "(nothing)");
        RS_TRY(pooling_module(nb, folder, path));
    }
    return RS_OK;
}

/* GGUF says it in one number: 1 mean, 2 the first token. */
static void pooling_of_gguf(rs_net_builder *nb)
{
    const json_t *config = nb->b->checkpoint->config;
    const char *type = json_string_value(json_object_get(config, "general.architecture"));
    char key[128];
    snprintf(key, sizeof key, "%.100s.pooling_type", type ? type : "");
    json_int_t kind = json_integer_value(json_object_get(config, key));
    nb->network->pooling = kind == 1   ? RS_POOLING_MEAN
                           : kind == 2 ? RS_POOLING_CLS
                                       : RS_POOLING_NONE;
}

rs_status rs_net_pooling(rs_net_builder *nb)
{
    const rs_checkpoint *checkpoint = nb->b->checkpoint;
    if (nb->gguf) pooling_of_gguf(nb);
    if (nb->init || nb->gguf || !checkpoint->config_path) return RS_OK;
    const char *name = rs_path_name(checkpoint->config_path);
    if (strcmp(name, "config.json") != 0) return RS_OK;
    size_t n = (size_t)(name - checkpoint->config_path);
    const char *folder =
        n ? rs_arena_strndup(nb->network->arena, checkpoint->config_path, n > 1 ? n - 1 : n) : ".";
    json_t *modules;
    if (!folder) return rs_fail_memory(nb->err, "network", 0);
    RS_TRY(load_json(&modules, folder, "modules.json", nb->err));
    rs_status status = read_modules(nb, folder, modules);
    json_decref(modules);
    return status;
}
