/*
 * directory.c: which file of a folder is the checkpoint (docs/formats.md, 2):
 * model.safetensors, else model.safetensors.index.json, else a single *.safetensors, else a single
 * *.gguf or one split set. What is passed over is noted.
 */
#include "checkpoint/open.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define SINGLE "model.safetensors"
#define INDEX "model.safetensors.index.json"

const char *rs_path_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

char *rs_path_join(const char *folder, const char *name)
{
    size_t a = strlen(folder), b = strlen(name);
    bool slash = a > 0 && folder[a - 1] != '/';
    char *path = rs_malloc(a + b + 2, 1);
    if (!path) return NULL;
    memcpy(path, folder, a);
    if (slash) path[a++] = '/';
    memcpy(path + a, name, b + 1);
    return path;
}

/* Five digits at `text`, as both formats write part numbers. */
static bool five_digits(const char *text, unsigned *value)
{
    *value = 0;
    for (int i = 0; i < 5; i++) {
        if (text[i] < '0' || text[i] > '9') return false;
        *value = *value * 10 + (unsigned)(text[i] - '0');
    }
    return true;
}

bool rs_shard_name(const char *name, const char *suffix, size_t *stem, unsigned *part,
                   unsigned *parts)
{
    enum { TAIL = sizeof "-00001-of-00002" - 1 };
    size_t length = strlen(name), end = strlen(suffix);
    if (length < end + TAIL || strcmp(name + length - end, suffix) != 0) return false;
    const char *tail = name + length - end - TAIL;
    if (tail[0] != '-' || !five_digits(tail + 1, part) || strncmp(tail + 6, "-of-", 4) != 0 ||
        !five_digits(tail + 10, parts))
        return false;
    *stem = length - end - TAIL;
    return *part >= 1 && *part <= *parts;
}

/* ---- the listing, by kind ---- */

typedef enum kind {
    WHOLE,      /* model.safetensors */
    LISTED,     /* model.safetensors.index.json */
    OTHER_ST,   /* another *.safetensors */
    SHARD,      /* part of a sharded safetensors checkpoint */
    VARIANT,    /* not the model itself, or the model in another form */
    GGUF,       /* *.gguf */
    PICKLED,    /* weights of torch.save */
    INCOMPLETE, /* what a broken download leaves */
    SNAPSHOTS,  /* the folder of a hub cache in which the revisions lie */
    KINDS
} kind;

/* First match wins. An empty prefix or suffix matches all. */
static const struct pattern {
    const char *prefix, *suffix;
    kind kind;
} patterns[] = {
    {"", ".incomplete", INCOMPLETE},
    {"adapter_model", ".safetensors", VARIANT},
    {"consolidated", ".safetensors", VARIANT},
    {"diffusion_pytorch_model", ".safetensors", VARIANT},
    {"model.", ".safetensors", VARIANT},
    {"", ".safetensors", OTHER_ST},
    {"", ".gguf", GGUF},
    {"pytorch_model", ".bin", PICKLED},
    {"adapter_model", ".bin", PICKLED},
    {"diffusion_pytorch_model", ".bin", PICKLED},
    {"", ".pt", PICKLED},
    {"", ".pth", PICKLED},
    {"", ".ckpt", PICKLED},
};

typedef struct listing {
    struct names {
        char **items;
        size_t n, capacity;
    } of[KINDS];
} listing;

static bool matches(const struct pattern *pattern, const char *name)
{
    size_t prefix = strlen(pattern->prefix), suffix = strlen(pattern->suffix);
    size_t length = strlen(name);
    return length >= prefix + suffix && strncmp(name, pattern->prefix, prefix) == 0 &&
           strcmp(name + length - suffix, pattern->suffix) == 0;
}

/* KINDS: of no interest. */
static kind kind_of(const char *name)
{
    size_t stem;
    unsigned part, parts;
    if (strcmp(name, SINGLE) == 0) return WHOLE;
    if (strcmp(name, INDEX) == 0) return LISTED;
    if (strcmp(name, "original") == 0) return VARIANT;
    if (strcmp(name, "snapshots") == 0) return SNAPSHOTS;
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++) {
        if (!matches(&patterns[i], name)) continue;
        bool shard = patterns[i].kind == OTHER_ST &&
                     rs_shard_name(name, ".safetensors", &stem, &part, &parts) && parts > 1;
        return shard ? SHARD : patterns[i].kind;
    }
    return KINDS;
}

static void free_listing(listing *list)
{
    for (size_t k = 0; k < KINDS; k++) {
        for (size_t i = 0; i < list->of[k].n; i++)
            rs_free(list->of[k].items[i]);
        rs_free(list->of[k].items);
    }
}

static bool add_name(struct names *names, const char *name)
{
    if (!RS_GROW(names->items, names->n, names->capacity)) return false;
    char *copy = rs_strdup(name);
    if (copy) names->items[names->n++] = copy;
    return copy != NULL;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static rs_status read_listing(listing *list, const char *folder, rs_error *err)
{
    DIR *directory = opendir(folder);
    if (!directory)
        return rs_fail(err, RS_E_UNREADABLE, folder, "check its permissions",
                       "the folder cannot be listed: %s", strerror(errno));
    rs_status status = RS_OK;
    const struct dirent *entry;
    /* only a NULL with errno set is a failure, and what the loop calls may set errno */
    while (status == RS_OK && (errno = 0, entry = readdir(directory)) != NULL) {
        kind k = kind_of(entry->d_name);
        if (k < KINDS && !add_name(&list->of[k], entry->d_name))
            status = rs_fail_memory(err, folder, 0);
    }
    if (status == RS_OK && errno != 0)
        status = rs_fail(err, RS_E_READ, folder, NULL, "the folder cannot be listed: %s",
                         strerror(errno));
    closedir(directory);
    for (size_t k = 0; k < KINDS; k++)
        if (list->of[k].n > 1)
            qsort(list->of[k].items, list->of[k].n, sizeof *list->of[k].items, by_name);
    return status;
}

/* ---- the choice ---- */

/* "a, b, c and 4 more" */
static void put_names(rs_buffer *buffer, const struct names *names, size_t most)
{
    for (size_t i = 0; i < names->n && i < most; i++)
        rs_buffer_printf(buffer, "%s%s", buffer->length ? ", " : "", names->items[i]);
    if (names->n > most) rs_buffer_printf(buffer, " and %zu more", names->n - most);
}

static rs_status fail_none(const listing *list, const char *folder, rs_error *err)
{
    static const kind shown[] = {OTHER_ST, SHARD, VARIANT, GGUF, PICKLED, INCOMPLETE};
    const char *hint = "name a folder with model.safetensors, or the file itself";
    rs_status status = RS_E_NO_CHECKPOINT;
    rs_buffer found = {0};
    for (size_t i = 0; i < sizeof shown / sizeof *shown; i++)
        put_names(&found, &list->of[shown[i]], 8);
    if (list->of[OTHER_ST].n > 1 || list->of[GGUF].n > 1) {
        hint = "several files could be meant: name one of them";
    } else if (list->of[SHARD].n) {
        hint = "the parts have no " INDEX ": the download is incomplete, fetch that file too";
    } else if (list->of[VARIANT].n) {
        hint = "name the file itself if it is what you mean";
    } else if (list->of[PICKLED].n) {
        status = RS_E_PICKLE;
        hint = "convert it to safetensors; a pickle can run code and is never opened here";
    } else if (list->of[INCOMPLETE].n) {
        hint = "the download is incomplete: run it again";
    } else if (list->of[SNAPSHOTS].n) {
        hint = "this is a hub cache: name the folder of one revision inside snapshots/";
    }
    if (!found.failed)
        rs_fail(err, status, folder, hint,
                status == RS_E_PICKLE ? "holds only pickled weights: %s"
                : found.length        ? "holds no checkpoint that can be chosen; found: %s"
                                      : "holds no *.safetensors and no *.gguf%s",
                found.length ? found.data : "");
    else
        status = rs_fail_memory(err, folder, 0);
    rs_buffer_free(&found);
    return status;
}

/* A single file, or parts with the same stem and number of parts. */
static bool one_gguf(const struct names *names)
{
    size_t stem, first_stem;
    unsigned part, parts, first_parts;
    if (names->n <= 1) return names->n == 1;
    if (!rs_shard_name(names->items[0], ".gguf", &first_stem, &part, &first_parts)) return false;
    for (size_t i = 1; i < names->n; i++)
        if (!rs_shard_name(names->items[i], ".gguf", &stem, &part, &parts) ||
            parts != first_parts || stem != first_stem ||
            strncmp(names->items[0], names->items[i], stem) != 0)
            return false;
    return true;
}

/* The name chosen, NULL when none can be. */
static const char *choose_file(rs_choice_kind *chosen, const listing *list)
{
    *chosen = RS_CHOICE_SAFETENSORS;
    if (list->of[WHOLE].n) return SINGLE;
    if (list->of[OTHER_ST].n == 1 && !list->of[LISTED].n) return list->of[OTHER_ST].items[0];
    if (list->of[OTHER_ST].n > 1 && !list->of[LISTED].n) return NULL;
    *chosen = list->of[LISTED].n ? RS_CHOICE_INDEX : RS_CHOICE_GGUF;
    if (list->of[LISTED].n) return INDEX;
    return one_gguf(&list->of[GGUF]) ? list->of[GGUF].items[0] : NULL;
}

static bool note_group(rs_notes *notes, rs_severity severity, const char *code, const char *hint,
                       const char *what, const struct names *names)
{
    if (names->n == 0) return true;
    rs_buffer text = {0};
    put_names(&text, names, 8);
    bool fine =
        !text.failed && rs_notes_add(notes, severity, code, hint, "%s: %s", what, text.data);
    rs_buffer_free(&text);
    return fine;
}

static bool add_notes(rs_notes *notes, const listing *list, rs_choice_kind chosen)
{
    bool fine = true;
    if (list->of[WHOLE].n && list->of[LISTED].n)
        fine = rs_notes_add(notes, RS_WARN, "ambiguous_checkpoint",
                            "name " INDEX " itself to read the parts",
                            "both " SINGLE " and " INDEX " are there: the first is read");
    static const char hint[] = "name the file itself to read it";
    fine = fine && note_group(notes, RS_INFO, "skipped_file", hint,
                              "not the model itself, passed over", &list->of[VARIANT]);
    if (chosen == RS_CHOICE_INDEX || list->of[WHOLE].n)
        fine = fine && note_group(notes, RS_INFO, "skipped_file", hint,
                                  "passed over for the model's file", &list->of[OTHER_ST]);
    if (chosen == RS_CHOICE_GGUF)
        fine = fine && note_group(notes, RS_WARN, "skipped_file",
                                  "their index (" INDEX ") is missing: fetch it to read them",
                                  "parts passed over", &list->of[SHARD]);
    else
        fine = fine && note_group(notes, RS_INFO, "skipped_file", hint,
                                  "passed over for the safetensors file", &list->of[GGUF]);
    return fine && note_group(notes, RS_WARN, "incomplete_download", "run the download again",
                              "left by a download that did not finish", &list->of[INCOMPLETE]);
}

static bool is_named(json_t *weight_map, const char *name)
{
    const char *tensor;
    json_t *file;
    json_object_foreach(weight_map, tensor, file)
    {
        if (strcmp(json_string_value(file), name) == 0) return true;
    }
    return false;
}

static void drop_named(struct names *names, json_t *weight_map)
{
    size_t kept = 0;
    for (size_t i = 0; i < names->n; i++) {
        if (is_named(weight_map, names->items[i]))
            rs_free(names->items[i]);
        else
            names->items[kept++] = names->items[i];
    }
    names->n = kept;
}

/* Files that the index names are its parts, whatever they are called: nothing passes them over. An
 * index that cannot be read names none, and is refused when it is opened. */
static rs_status drop_parts(listing *list, const char *folder, rs_error *err)
{
    json_t *weight_map;
    rs_error reason = {0};
    if (list->of[OTHER_ST].n + list->of[VARIANT].n == 0) return RS_OK;
    rs_status status = rs_index_load(&weight_map, folder, INDEX, &reason);
    if (status == RS_OK) {
        drop_named(&list->of[OTHER_ST], weight_map);
        drop_named(&list->of[VARIANT], weight_map);
    }
    json_decref(weight_map);
    return status == RS_E_NO_MEMORY ? rs_fail_memory(err, folder, 0) : RS_OK;
}

rs_status rs_directory_choose(rs_choice *choice, rs_notes *notes, const char *folder, rs_error *err)
{
    listing list = {0};
    *choice = (rs_choice){0};
    rs_status status = read_listing(&list, folder, err);
    const char *name = NULL;
    if (status == RS_OK) {
        name = choose_file(&choice->kind, &list);
        if (!name) status = fail_none(&list, folder, err);
    }
    if (name && choice->kind == RS_CHOICE_INDEX) status = drop_parts(&list, folder, err);
    if (name && status == RS_OK) {
        choice->name = rs_strdup(name);
        if (!choice->name || !add_notes(notes, &list, choice->kind)) {
            rs_free(choice->name);
            choice->name = NULL;
            status = rs_fail_memory(err, folder, 0);
        }
    }
    free_listing(&list);
    return status;
}
