/* config.c: config.json and adapter_config.json as JSON objects. What they mean is the model room's
 * business. */
#include "checkpoint/checkpoint.h"
#include "checkpoint/json_text.h"
#include "checkpoint/open.h"

#include "base/mapping.h"
#include "base/memory.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

rs_status rs_config_parse(json_t **config, const char *path, const char *text, size_t length,
                          rs_error *err)
{
    enum { MOST_BYTES = 16 << 20 }; /* the largest that is known has 100 kB */
    static const rs_json_rules rules = {.max_depth = 64, .non_finite = true};
    *config = NULL;
    if (length > MOST_BYTES)
        return rs_fail(err, RS_E_UNSUPPORTED, path, "is it the model's config.json?",
                       "has %zu bytes; a configuration of more than %d (16 MiB) is not read",
                       length, MOST_BYTES);
    RS_TRY(rs_json_load(config, path, text, length, &rules, err));
    /* a lone NaN has become an object too: the text decides */
    size_t first = 0;
    while (first < length && memchr(" \t\r\n", text[first], 4))
        first++;
    if (json_is_object(*config) && first < length && text[first] == '{') return RS_OK;
    json_decref(*config);
    *config = NULL;
    return rs_fail(err, RS_E_CONFIG_SCHEMA, path,
                   "an architecture file is an object, {\"depth\": 12}; of a published model, "
                   "download the model's config.json again",
                   "is not a JSON object ({...})");
}

/* *config stays NULL when there is no such file; *path is where it came from. */
static rs_status load_json(json_t **config, char **path, const char *folder, const char *name,
                           rs_error *err)
{
    *path = rs_path_join(folder, name);
    if (!*path) return rs_fail_memory(err, name, 0);
    rs_mapping *mapping;
    rs_error reason = {0};
    rs_status status = rs_mapping_open(&mapping, *path, &reason);
    if (status == RS_OK) {
        status = rs_config_parse(config, *path, (const char *)mapping->data, mapping->size, err);
        rs_status damage = rs_mapping_verify(mapping, NULL, err);
        if (damage != RS_OK) status = damage;
        rs_mapping_close(mapping);
        return status;
    }
    rs_free(*path);
    *path = NULL;
    if (status == RS_E_NOT_FOUND) return RS_OK;
    if (err) *err = reason;
    return status;
}

rs_status rs_config_load(rs_checkpoint *checkpoint, const char *folder, rs_error *err)
{
    RS_TRY(load_json(&checkpoint->config, &checkpoint->config_path, folder, "config.json", err));
    char *path = NULL;
    rs_status status =
        load_json(&checkpoint->adapter_config, &path, folder, "adapter_config.json", err);
    rs_free(path);
    return status;
}

rs_status rs_config_open(json_t **config, char **file, const char *path, rs_error *err)
{
    struct stat st;
    bool folder = stat(path, &st) == 0 && S_ISDIR(st.st_mode);
    size_t size = strlen(path) + sizeof "/config.json";
    *config = NULL;
    *file = rs_malloc(size, 1);
    if (!*file) return rs_fail_memory(err, path, size);
    snprintf(*file, size, "%s%s", path, folder ? "/config.json" : "");
    rs_mapping *mapping;
    RS_TRY(rs_mapping_open(&mapping, *file, err));
    rs_status status =
        rs_config_parse(config, *file, (const char *)mapping->data, mapping->size, err);
    if (status == RS_OK) status = rs_mapping_verify(mapping, NULL, err);
    rs_mapping_close(mapping);
    return status;
}
