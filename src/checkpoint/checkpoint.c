/* checkpoint.c: a checkpoint as a list of tensors: opening, adding, finding. */
#include "checkpoint/checkpoint.h"

#include "checkpoint/open.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

rs_checkpoint *rs_checkpoint_new(rs_format format, const char *path)
{
    rs_checkpoint *checkpoint = rs_calloc(1, sizeof *checkpoint);
    if (!checkpoint) return NULL;
    checkpoint->format = format;
    checkpoint->path = rs_strdup(path);
    checkpoint->arena = rs_arena_new();
    if (checkpoint->path && checkpoint->arena) return checkpoint;
    rs_checkpoint_close(checkpoint);
    return NULL;
}

void rs_checkpoint_close(rs_checkpoint *checkpoint)
{
    if (!checkpoint) return;
    for (size_t i = 0; i < checkpoint->n_files; i++) {
        rs_free(checkpoint->files[i].name);
        rs_mapping_close(checkpoint->files[i].mapping);
    }
    rs_free(checkpoint->files);
    rs_free(checkpoint->tensors);
    rs_strmap_free(&checkpoint->by_name);
    json_decref(checkpoint->config);
    rs_free(checkpoint->config_path);
    json_decref(checkpoint->adapter_config);
    rs_notes_free(&checkpoint->notes);
    rs_arena_free(checkpoint->arena);
    rs_free(checkpoint->path);
    rs_free(checkpoint);
}

rs_shown rs_show(const char *name, size_t length)
{
    rs_shown shown;
    size_t room = sizeof shown.text - 1, cut = length;
    if (length > room) {
        cut = room - 3;
        while (cut > 0 && ((unsigned char)name[cut] & 0xC0) == 0x80) /* keep UTF-8 whole */
            cut--;
    }
    memcpy(shown.text, name, cut);
    strcpy(shown.text + cut, cut < length ? "..." : "");
    return shown;
}

/* ---- adding ---- */

rs_status rs_checkpoint_add_file(rs_checkpoint *checkpoint, const char *path, const char *name,
                                 uint32_t *file, rs_error *err)
{
    rs_checkpoint_file added = {0};
    *file = 0;
    RS_TRY(rs_mapping_open(&added.mapping, path, err));
    added.name = rs_strdup(name);
    rs_checkpoint_file *files =
        rs_realloc(checkpoint->files, checkpoint->n_files + 1, sizeof *checkpoint->files);
    if (files) checkpoint->files = files;
    if (!added.name || !files) {
        rs_free(added.name);
        rs_mapping_close(added.mapping);
        return rs_fail_memory(err, path, 0);
    }
    *file = (uint32_t)checkpoint->n_files;
    files[checkpoint->n_files++] = added;
    return RS_OK;
}

static rs_status fail_twice(const rs_checkpoint *checkpoint, const rs_tensor *tensor,
                            uint32_t other_file, rs_error *err)
{
    rs_shown name = rs_show(tensor->name, strlen(tensor->name));
    const char *file = checkpoint->files[tensor->file].name;
    if (other_file == tensor->file)
        return rs_fail(err, RS_E_DUPLICATE_TENSOR, checkpoint->files[tensor->file].mapping->path,
                       NULL, "tensor '%s' is there twice", name.text);
    rs_status status = checkpoint->format == RS_FORMAT_SAFETENSORS ? RS_E_INDEX_TENSOR_TWICE
                                                                   : RS_E_DUPLICATE_TENSOR;
    return rs_fail(
        err, status, checkpoint->path, "the parts are not of one checkpoint: download them again",
        "tensor '%s' is in %s and in %s", name.text, checkpoint->files[other_file].name, file);
}

rs_status rs_checkpoint_add(rs_checkpoint *checkpoint, const rs_tensor *tensor, rs_error *err)
{
    size_t n = checkpoint->n_tensors;
    if (n >= RS_MAX_TENSORS)
        return rs_fail(err, RS_E_TOO_MANY_TENSORS, checkpoint->path, NULL, "more than %d tensors",
                       RS_MAX_TENSORS);
    if (!RS_GROW(checkpoint->tensors, n, checkpoint->tensor_capacity))
        return rs_fail_memory(err, checkpoint->path, 0);
    size_t length = strlen(tensor->name);
    bool existed;
    if (!rs_strmap_insert(&checkpoint->by_name, tensor->name, length, (int64_t)n, &existed))
        return rs_fail_memory(err, checkpoint->path, 0);
    if (existed) {
        const rs_tensor *other = rs_checkpoint_find(checkpoint, tensor->name);
        return fail_twice(checkpoint, tensor, other->file, err);
    }
    checkpoint->tensors[n] = *tensor;
    checkpoint->n_tensors++;
    return RS_OK;
}

const rs_tensor *rs_checkpoint_find(const rs_checkpoint *checkpoint, const char *name)
{
    int64_t index = rs_strmap_get(&checkpoint->by_name, name, strlen(name), -1);
    return index < 0 ? NULL : &checkpoint->tensors[index];
}

rs_status rs_tensor_check(const rs_checkpoint *checkpoint, const rs_tensor *tensor, rs_error *err)
{
    return rs_mapping_check(checkpoint->files[tensor->file].mapping, err);
}

/* ---- opening ---- */

rs_status rs_checkpoint_read_safetensors(rs_checkpoint *checkpoint, const char *path,
                                         const char *name, const rs_checkpoint_options *options,
                                         rs_error *err)
{
    uint32_t file;
    RS_TRY(rs_checkpoint_add_file(checkpoint, path, name, &file, err));
    rs_status status = rs_safetensors_read(checkpoint, file, options, err);
    /* zeros from a page that vanished look like a bad header: the cause is the better message */
    RS_TRY(rs_mapping_check(checkpoint->files[file].mapping, err));
    return status;
}

static bool ends_with(const char *name, const char *suffix)
{
    size_t a = strlen(name), b = strlen(suffix);
    return a >= b && strcmp(name + a - b, suffix) == 0;
}

static rs_status open_single(rs_checkpoint *checkpoint, const char *folder, const char *path,
                             const rs_checkpoint_options *options, rs_error *err)
{
    const char *name = rs_path_name(path);
    RS_TRY(rs_checkpoint_read_safetensors(checkpoint, path, name, options, err));
    size_t stem;
    unsigned part, parts;
    if (rs_shard_name(name, ".safetensors", &stem, &part, &parts) && parts > 1 &&
        !rs_notes_add(&checkpoint->notes, RS_WARN, "single_shard",
                      "name the folder, or its .safetensors.index.json, to read all parts",
                      "%s is part %u of %u: only its own tensors are read", name, part, parts))
        return rs_fail_memory(err, path, 0);
    return rs_config_load(checkpoint, folder, err);
}

static rs_status open_gguf(rs_checkpoint *checkpoint, const char *path, rs_error *err)
{
    checkpoint->format = RS_FORMAT_GGUF;
    return rs_gguf_open(checkpoint, path, err);
}

/* A file that the user named: its content decides, then its name. */
static rs_status open_file(rs_checkpoint *checkpoint, const char *folder, const char *path,
                           const rs_checkpoint_options *options, rs_error *err)
{
    const char *name = rs_path_name(path);
    if (ends_with(name, ".safetensors.index.json")) {
        RS_TRY(rs_index_open(checkpoint, folder, name, options, err));
        return rs_config_load(checkpoint, folder, err);
    }
    rs_mapping *mapping;
    rs_content content;
    RS_TRY(rs_mapping_open(&mapping, path, err));
    rs_status status = rs_content_check(&content, mapping, err);
    rs_mapping_close(mapping);
    if (status != RS_OK) return status;
    if (content == RS_CONTENT_GGUF) return open_gguf(checkpoint, path, err);
    if (content == RS_CONTENT_SAFETENSORS || ends_with(name, ".safetensors"))
        return open_single(checkpoint, folder, path, options, err);
    if (ends_with(name, ".gguf")) return open_gguf(checkpoint, path, err);
    return rs_fail(err, RS_E_UNKNOWN_FORMAT, path,
                   "name a folder with config.json and *.safetensors, a .safetensors file, or a "
                   ".gguf file",
                   "is neither safetensors nor GGUF");
}

static rs_status open_chosen(rs_checkpoint *checkpoint, const char *folder, const rs_choice *choice,
                             const rs_checkpoint_options *options, rs_error *err)
{
    char *path = rs_path_join(folder, choice->name);
    if (!path) return rs_fail_memory(err, folder, 0);
    rs_status status;
    switch (choice->kind) {
    case RS_CHOICE_INDEX:
        status = rs_index_open(checkpoint, folder, choice->name, options, err);
        break;
    case RS_CHOICE_GGUF:
        status = open_gguf(checkpoint, path, err);
        break;
    default:
        status = rs_checkpoint_read_safetensors(checkpoint, path, choice->name, options, err);
    }
    if (status == RS_OK && choice->kind != RS_CHOICE_GGUF)
        status = rs_config_load(checkpoint, folder, err);
    rs_free(path);
    return status;
}

static rs_status open_folder(rs_checkpoint *checkpoint, const char *folder,
                             const rs_checkpoint_options *options, rs_error *err)
{
    rs_choice choice;
    RS_TRY(rs_directory_choose(&choice, &checkpoint->notes, folder, err));
    rs_status status = open_chosen(checkpoint, folder, &choice, options, err);
    rs_free(choice.name);
    return status;
}

/* The folder that a file lies in. */
static char *folder_of(const char *path)
{
    size_t length = (size_t)(rs_path_name(path) - path);
    char *folder = rs_malloc(length + 2, 1);
    if (!folder) return NULL;
    memcpy(folder, path, length);
    if (length == 0) folder[length++] = '.';
    folder[length] = 0;
    return folder;
}

static rs_status open_any(rs_checkpoint *checkpoint, const char *path,
                          const rs_checkpoint_options *options, rs_error *err)
{
    struct stat status;
    if (stat(path, &status) != 0) {
        bool absent = errno == ENOENT || errno == ENOTDIR;
        return rs_fail(err, absent ? RS_E_NOT_FOUND : RS_E_UNREADABLE, path,
                       absent ? "give a folder or file of this machine; download a model of a hub "
                                "first"
                              : "check its permissions",
                       "cannot be opened: %s", strerror(errno));
    }
    if (S_ISDIR(status.st_mode)) return open_folder(checkpoint, path, options, err);
    char *folder = folder_of(path);
    if (!folder) return rs_fail_memory(err, path, 0);
    rs_status result = open_file(checkpoint, folder, path, options, err);
    rs_free(folder);
    return result;
}

rs_status rs_checkpoint_open(rs_checkpoint **out, const char *path,
                             const rs_checkpoint_options *options, rs_error *err)
{
    *out = NULL;
    rs_checkpoint *checkpoint = rs_checkpoint_new(RS_FORMAT_SAFETENSORS, path);
    if (!checkpoint) return rs_fail_memory(err, path, 0);
    rs_status status = open_any(checkpoint, path, options, err);
    if (status != RS_OK) {
        rs_checkpoint_close(checkpoint);
        return status;
    }
    *out = checkpoint;
    return RS_OK;
}
