/*
 * gguf_split.c: a GGUF model in one file, or in several.
 *
 * The parts of a split model are named NAME-00001-of-00003.gguf and so on. Each carries the keys
 * split.no (from 0), split.count and split.tensors.count (of the whole model); the model's own
 * metadata are in the first part. Naming any part opens them all, in order.
 */
#include "checkpoint/gguf.h"

#include <inttypes.h>
#include <string.h>

/* "-00001-of-00003.gguf" */
enum { DIGITS = 5, SUFFIX = 1 + DIGITS + 4 + DIGITS + 5 };

typedef struct split {
    size_t stem; /* bytes of the path before the suffix */
    uint32_t number, count;
} split;

static bool read_digits(const char *text, uint32_t *value)
{
    *value = 0;
    for (int i = 0; i < DIGITS; i++) {
        if (text[i] < '0' || text[i] > '9') return false;
        *value = *value * 10 + (uint32_t)(text[i] - '0');
    }
    return true;
}

/* True when the path is that of one part among several. */
static bool is_part(const char *path, split *s)
{
    size_t length = strlen(path);
    if (length < SUFFIX) return false;
    s->stem = length - SUFFIX;
    const char *suffix = path + s->stem;
    return suffix[0] == '-' && read_digits(suffix + 1, &s->number) &&
           memcmp(suffix + 1 + DIGITS, "-of-", 4) == 0 &&
           read_digits(suffix + 5 + DIGITS, &s->count) &&
           strcmp(suffix + 5 + 2 * DIGITS, ".gguf") == 0 && s->count > 1 && s->number >= 1 &&
           s->number <= s->count;
}

static const char *plain_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* The keys that every part of a set carries; -1 where one is absent. */
typedef struct split_keys {
    int64_t number, count, tensors;
} split_keys;

static rs_status read_key(int64_t *value, const json_t *metadata, const char *key, const char *path,
                          rs_error *err)
{
    const json_t *found = json_object_get(metadata, key);
    *value = -1;
    if (!found) return RS_OK;
    if (!json_is_integer(found) || json_integer_value(found) < 0)
        return rs_fail(err, RS_E_GGUF_SPLIT, path, "the file is damaged",
                       "metadata key %s must be a whole number", key);
    *value = (int64_t)json_integer_value(found);
    return RS_OK;
}

static rs_status read_keys(split_keys *keys, const json_t *metadata, const char *path,
                           rs_error *err)
{
    RS_TRY(read_key(&keys->number, metadata, "split.no", path, err));
    RS_TRY(read_key(&keys->count, metadata, "split.count", path, err));
    return read_key(&keys->tensors, metadata, "split.tensors.count", path, err);
}

/* Adds the file and its tensors; the first one's metadata become the config. */
static rs_status open_file(rs_checkpoint *checkpoint, const char *path, split_keys *keys,
                           rs_error *err)
{
    uint32_t file;
    json_t *metadata;
    RS_TRY(rs_checkpoint_add_file(checkpoint, path, plain_name(path), &file, err));
    RS_TRY(rs_gguf_read_part(checkpoint, file, &metadata, err));
    rs_status status = read_keys(keys, metadata, path, err);
    if (status == RS_OK && file == 0) {
        json_decref(checkpoint->config);
        checkpoint->config = metadata;
    } else {
        json_decref(metadata);
    }
    return status;
}

static rs_status open_single(rs_checkpoint *checkpoint, const char *path, rs_error *err)
{
    split_keys keys;
    RS_TRY(open_file(checkpoint, path, &keys, err));
    if (keys.count > 1)
        return rs_fail(err, RS_E_GGUF_SPLIT, path,
                       "name the parts NAME-00001-of-0000N.gguf, as they were when downloaded",
                       "is part %" PRId64 " of %" PRId64
                       " of a split model, but its name does not say so",
                       keys.number + 1, keys.count);
    if (keys.count >= 0 && keys.tensors >= 0 && keys.tensors != (int64_t)checkpoint->n_tensors)
        return rs_fail(err, RS_E_GGUF_SPLIT, path, "fetch the model again",
                       "says that the model has %" PRId64 " tensors, but holds %zu", keys.tensors,
                       checkpoint->n_tensors);
    return RS_OK;
}

static rs_status check_part(const char *path, const split *s, uint32_t index,
                            const split_keys *keys, int64_t tensors, rs_error *err)
{
    static const char hint[] = "all parts must come from one model: fetch them again";
    if (keys->count < 0 || keys->number < 0 || keys->tensors < 0)
        return rs_fail(err, RS_E_GGUF_SPLIT, path, hint,
                       "is named as part %u of %u, but lacks the metadata key %s", index + 1,
                       s->count,
                       keys->count < 0    ? "split.count"
                       : keys->number < 0 ? "split.no"
                                          : "split.tensors.count");
    if (keys->count != s->count || keys->number != index)
        return rs_fail(
            err, RS_E_GGUF_SPLIT, path, hint,
            "is named as part %u of %u, but says in its metadata that it is part %" PRId64
            " of %" PRId64,
            index + 1, s->count, keys->number + 1, keys->count);
    if (keys->tensors != tensors)
        return rs_fail(err, RS_E_GGUF_SPLIT, path, hint,
                       "says that the model has %" PRId64 " tensors, the first part says %" PRId64,
                       keys->tensors, tensors);
    return RS_OK;
}

static rs_status open_parts(rs_checkpoint *checkpoint, const char *path, const split *s,
                            rs_error *err)
{
    int64_t tensors = 0;
    for (uint32_t i = 0; i < s->count; i++) {
        const char *part = rs_arena_printf(checkpoint->arena, "%.*s-%05u-of-%05u.gguf",
                                           (int)s->stem, path, i + 1, s->count);
        if (!part) return rs_fail_memory(err, "a file name", 0);
        split_keys keys;
        rs_status status = open_file(checkpoint, part, &keys, err);
        if (status == RS_E_NOT_FOUND)
            return rs_fail(err, RS_E_GGUF_SPLIT, part, "put all parts into one folder",
                           "part %u of %u is missing", i + 1, s->count);
        RS_TRY(status);
        if (i == 0) tensors = keys.tensors;
        RS_TRY(check_part(part, s, i, &keys, tensors, err));
    }
    if ((int64_t)checkpoint->n_tensors != tensors)
        return rs_fail(err, RS_E_GGUF_SPLIT, path, "fetch the model again",
                       "its %u parts hold %zu tensors; their metadata say %" PRId64, s->count,
                       checkpoint->n_tensors, tensors);
    return RS_OK;
}

rs_status rs_gguf_open(rs_checkpoint *checkpoint, const char *path, rs_error *err)
{
    split s;
    return is_part(path, &s) ? open_parts(checkpoint, path, &s, err)
                             : open_single(checkpoint, path, err);
}
