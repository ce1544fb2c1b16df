/*
 * index.c: model.safetensors.index.json, which says in which file of a folder each tensor lies.
 *
 *   {"metadata": {...advisory...}, "weight_map": {"tensor.name":
 * "model-00001-of-00002.safetensors"}}
 */
#include "checkpoint/checkpoint.h"
#include "checkpoint/json_text.h"
#include "checkpoint/open.h"

#include <stdlib.h>
#include <string.h>

/* ---- the text ---- */

static rs_status check_shard(const char *path, const char *tensor, const json_t *value,
                             rs_error *err)
{
    rs_shown name = rs_show(tensor, strlen(tensor));
    if (!json_is_string(value))
        return rs_fail(err, RS_E_INDEX_SCHEMA, path, NULL,
                       "weight_map gives no file name (a string) for tensor '%s'", name.text);
    const char *shard = json_string_value(value);
    size_t length = json_string_length(value);
    bool plain = length > 0 && !memchr(shard, 0, length) && !strchr(shard, '/') &&
                 !strchr(shard, '\\') && !strstr(shard, "..") && strcmp(shard, ".") != 0;
    if (plain) return RS_OK;
    return rs_fail(err, RS_E_INDEX_PATH, path,
                   "only names of files in the same folder are followed; do not trust this index",
                   "weight_map gives '%s' for tensor '%s', which is no plain file name",
                   rs_show(shard, strlen(shard)).text, name.text);
}

static rs_status check_weight_map(const char *path, json_t *root, json_t **weight_map,
                                  rs_error *err)
{
    *weight_map = json_is_object(root) ? json_object_get(root, "weight_map") : NULL;
    if (!json_is_object(*weight_map))
        return rs_fail(err, RS_E_INDEX_SCHEMA, path, "download the index again",
                       json_is_object(root) ? "has no object 'weight_map'"
                                            : "is not a JSON object ({...})");
    if (json_object_size(*weight_map) == 0)
        return rs_fail(err, RS_E_INDEX_SCHEMA, path, "download the index again",
                       "its weight_map is empty");
    const char *tensor;
    json_t *value;
    json_object_foreach(*weight_map, tensor, value) RS_TRY(check_shard(path, tensor, value, err));
    return RS_OK;
}

rs_status rs_index_parse(json_t **weight_map, const char *path, const char *text, size_t length,
                         rs_error *err)
{
    static const rs_json_rules rules = {.max_depth = 64, .allow_nul = true, .non_finite = true};
    json_t *root;
    *weight_map = NULL;
    RS_TRY(rs_json_load(&root, path, text, length, &rules, err));
    json_t *map;
    rs_status status = check_weight_map(path, root, &map, err);
    if (status == RS_OK) *weight_map = json_incref(map);
    json_decref(root);
    return status;
}

/* ---- the shards ---- */

typedef struct shards {
    const char **names; /* borrowed from the weight map, sorted */
    size_t n, capacity;
} shards;

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static bool collect(shards *list, json_t *weight_map)
{
    rs_strmap seen = {0};
    const char *tensor;
    json_t *value;
    bool fine = true, existed;
    json_object_foreach(weight_map, tensor, value)
    {
        const char *name = json_string_value(value);
        fine = rs_strmap_insert(&seen, name, strlen(name), 0, &existed);
        if (fine && !existed) {
            fine = RS_GROW(list->names, list->n, list->capacity);
            if (fine) list->names[list->n++] = name;
        }
        if (!fine) break;
    }
    rs_strmap_free(&seen);
    if (fine) qsort(list->names, list->n, sizeof *list->names, by_name);
    return fine;
}

static rs_status read_shard(rs_checkpoint *checkpoint, const char *folder, const shards *list,
                            size_t i, const rs_checkpoint_options *options, rs_error *err)
{
    char *path = rs_path_join(folder, list->names[i]);
    if (!path) return rs_fail_memory(err, folder, 0);
    rs_error reason = {0};
    rs_status status =
        rs_checkpoint_read_safetensors(checkpoint, path, list->names[i], options, &reason);
    if (status == RS_E_NOT_FOUND)
        status = rs_fail(err, RS_E_INDEX_SHARD_MISSING, path,
                         "the download is incomplete: fetch the missing file into the same folder",
                         "is named by the index but not there (part %zu of %zu)", i + 1, list->n);
    else if (status != RS_OK && err)
        *err = reason;
    rs_free(path);
    return status;
}

static rs_status check_map_against_shards(const rs_checkpoint *checkpoint, const char *index,
                                          json_t *weight_map, rs_error *err)
{
    const char *name;
    json_t *value;
    json_object_foreach(weight_map, name, value)
    {
        const rs_tensor *tensor = rs_checkpoint_find(checkpoint, name);
        const char *shard = json_string_value(value);
        const char *found = tensor ? checkpoint->files[tensor->file].name : NULL;
        if (found && strcmp(found, shard) == 0) continue;
        return rs_fail(err, RS_E_INDEX_TENSOR_MISSING, index,
                       "index and parts are not of one checkpoint: download them again",
                       "says that tensor '%s' is in %s, but it is in %s",
                       rs_show(name, strlen(name)).text, shard, found ? found : "no part");
    }
    return RS_OK;
}

/* One note for all tensors that the index does not list, with the first few names. */
static rs_status note_unlisted(rs_checkpoint *checkpoint, const char *index, json_t *weight_map,
                               rs_error *err)
{
    enum { SHOWN = 5 };
    rs_buffer names = {0};
    size_t unlisted = 0;
    for (size_t i = 0; i < checkpoint->n_tensors; i++) {
        const char *name = checkpoint->tensors[i].name;
        if (json_object_get(weight_map, name)) continue;
        if (++unlisted <= SHOWN)
            rs_buffer_printf(&names, "%s%s", unlisted > 1 ? ", " : "",
                             rs_show(name, strlen(name)).text);
    }
    bool fine = !names.failed;
    if (fine && unlisted)
        fine = rs_notes_add(&checkpoint->notes, RS_WARN, "unlisted_tensor", NULL,
                            "%zu tensor%s of the parts %s not listed in %s: %s%s", unlisted,
                            unlisted == 1 ? "" : "s", unlisted == 1 ? "is" : "are", index,
                            names.data, unlisted > SHOWN ? ", ..." : "");
    rs_buffer_free(&names);
    return fine ? RS_OK : rs_fail_memory(err, index, 0);
}

static rs_status read_shards(rs_checkpoint *checkpoint, const char *folder, const char *index,
                             json_t *weight_map, const rs_checkpoint_options *options,
                             rs_error *err)
{
    shards list = {0};
    rs_status status = collect(&list, weight_map) ? RS_OK : rs_fail_memory(err, index, 0);
    for (size_t i = 0; i < list.n && status == RS_OK; i++)
        status = read_shard(checkpoint, folder, &list, i, options, err);
    rs_free(list.names);
    if (status == RS_OK) status = check_map_against_shards(checkpoint, index, weight_map, err);
    if (status == RS_OK) status = note_unlisted(checkpoint, index, weight_map, err);
    return status;
}

rs_status rs_index_load(json_t **weight_map, const char *folder, const char *name, rs_error *err)
{
    *weight_map = NULL;
    char *path = rs_path_join(folder, name);
    if (!path) return rs_fail_memory(err, folder, 0);
    rs_mapping *mapping = NULL;
    rs_status status = rs_mapping_open(&mapping, path, err);
    if (status == RS_OK) {
        status = rs_index_parse(weight_map, path, (const char *)mapping->data, mapping->size, err);
        rs_status damage = rs_mapping_verify(mapping, NULL, err);
        if (damage != RS_OK) status = damage;
    }
    rs_mapping_close(mapping);
    rs_free(path);
    return status;
}

rs_status rs_index_open(rs_checkpoint *checkpoint, const char *folder, const char *name,
                        const rs_checkpoint_options *options, rs_error *err)
{
    json_t *weight_map = NULL;
    rs_status status = rs_index_load(&weight_map, folder, name, err);
    char *path = rs_path_join(folder, name);
    if (status == RS_OK && !path) status = rs_fail_memory(err, folder, 0);
    if (status == RS_OK) status = read_shards(checkpoint, folder, path, weight_map, options, err);
    json_decref(weight_map);
    rs_free(path);
    return status;
}
