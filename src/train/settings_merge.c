/* settings_merge.c: a task file over the task's own settings, and overrides over both. */
#include "train/settings_parts.h"

#include "base/json_parse.h"

#include <stdio.h>
#include <string.h>

/* Where a number stands for {"default": number}, and what a file says is all of it. */
static bool is_grouped(const char *name)
{
    return strcmp(name, "weight_decay") == 0 || strcmp(name, "lr_factor") == 0;
}

/* The object that member `name` of `json` is, or a number stands for; NULL: it is another thing, or
 * memory is out. */
static json_t *object_of(json_t *json, const char *name)
{
    json_t *member = json_object_get(json, name);
    if (!json_is_number(member) || !is_grouped(name)) return json_is_object(member) ? member : NULL;
    json_t *object = json_pack("{sO}", "default", member);
    if (!object || json_object_set_new(json, name, object) != 0) return NULL;
    return object;
}

bool rs_train_merge(json_t *base, const json_t *top)
{
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)top, name, value)
    {
        json_t *under = json_object_get(base, name);
        if (json_is_object(value) && json_is_object(under) && !is_grouped(name)) {
            if (!rs_train_merge(under, value)) return false;
            continue;
        }
        json_t *copy = json_deep_copy(value);
        if (!copy || json_object_set_new(base, name, copy) != 0) return false;
    }
    return true;
}

/* The end of the name at the front of a path: a dot, '=' or NUL, none of them behind a backslash. */
static size_t name_length(const char *path)
{
    size_t n = 0;
    while (path[n] && path[n] != '.' && path[n] != '=')
        n += path[n] == '\\' && path[n + 1] ? 2 : 1;
    return n;
}

static rs_status refuse_set(const char *set, rs_error *err, const char *what)
{
    char where[160];
    snprintf(where, sizeof where, "--set %.140s", set);
    return rs_fail(err, RS_E_BAD_OPTION, where, "write it as optimizer.lr=0.001", "%s", what);
}

static json_t *value_of(const char *text)
{
    json_t *value =
        rs_json_parse(text, strlen(text), JSON_DECODE_ANY | JSON_REJECT_DUPLICATES, NULL);
    return value ? value : json_string(text);
}

rs_status rs_train_set(json_t *json, const char *set, rs_error *err)
{
    int64_t failures = rs_memory_failures();
    char name[256];
    const char *at = set;
    for (;;) {
        size_t n = name_length(at);
        if (n == 0 || n >= sizeof name) return refuse_set(set, err, "it has no name to set");
        memcpy(name, at, n);
        name[n] = 0;
        at += n;
        if (*at != '.') break;
        at++;
        bool there = json_object_get(json, name) != NULL;
        if (!there) json_object_set_new(json, name, json_object());
        json_t *inner = object_of(json, name);
        RS_TRY(rs_memory_check(failures, "an override", err));
        if (!inner) return refuse_set(set, err, "a part of its name is no object");
        json = inner;
    }
    if (*at != '=') return refuse_set(set, err, "it has no '='");
    if (json_object_set_new(json, name, value_of(at + 1)) != 0)
        return rs_memory_failures() > failures ? rs_fail_memory(err, "an override", 1)
                                               : refuse_set(set, err, "it is not UTF-8");
    return rs_memory_check(failures, "an override", err);
}
