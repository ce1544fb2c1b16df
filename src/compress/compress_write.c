/*
 * compress_write.c: a truncated checkpoint as a folder of its own. Its safetensors files are copies, byte
 * for byte, in which the tensors that were cut have other numbers of the same type; whatever else the model's
 * folder has of text and settings is copied beside them.
 */
#include "compress/compress_parts.h"

#include "base/mapping.h"
#include "base/memory.h"
#include "report/output.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { PIECE = 1 << 24 };

static bool ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

/* ---- files ---- */

typedef struct writing {
    const char *folder, *from; /* the new one, the model's */
    const rs_checkpoint *checkpoint;
    const rs_cut_weights *weights;
    const rs_input_files *files;
    rs_error *err;
} writing;

static rs_status path_in(char **out, const char *folder, const char *name, rs_error *err)
{
    size_t size = strlen(folder) + strlen(name) + 2;
    *out = rs_malloc(size, 1);
    if (!*out) return rs_fail_memory(err, name, size);
    snprintf(*out, size, "%s/%s", folder, name);
    return RS_OK;
}

static rs_status put_all(rs_output *output, uint64_t at, const uint8_t *bytes, uint64_t n,
                         rs_error *err)
{
    for (uint64_t done = 0; done < n; done += PIECE) {
        size_t piece = n - done < PIECE ? (size_t)(n - done) : PIECE;
        RS_TRY(rs_output_put(output, at + done, bytes + done, piece, err));
    }
    return RS_OK;
}

/* The bytes of file number i, and over them the tensors of it that were cut. */
static rs_status put_file(rs_output *output, const writing *w, uint32_t i)
{
    const rs_mapping *mapping = w->checkpoint->files[i].mapping;
    RS_TRY(put_all(output, 0, mapping->data, mapping->size, w->err));
    for (size_t t = 0; t < w->weights->n; t++) {
        const rs_recut *r = &w->weights->items[t];
        if (r->from->file != i) continue;
        RS_TRY(put_all(output, (uint64_t)(r->from->data - mapping->data), r->to.data, r->to.bytes,
                       w->err));
    }
    return rs_mapping_check(mapping, w->err);
}

static rs_status write_file(const writing *w, uint32_t i)
{
    char *path;
    rs_output *output;
    RS_TRY(path_in(&path, w->folder, w->checkpoint->files[i].name, w->err));
    rs_status status =
        rs_output_open(&output, path, w->checkpoint->files[i].mapping->size, w->files, w->err);
    rs_free(path);
    RS_TRY(status);
    status = put_file(output, w, i);
    if (status == RS_OK) return rs_output_commit(output, w->err);
    rs_output_discard(output);
    return status;
}

/* What belongs to a model beside its weights: settings, vocabularies, templates, code. */
static bool is_beside(const char *name)
{
    static const char *const ends[] = {".json", ".txt",      ".model", ".jinja",
                                       ".py",   ".tiktoken", ".npy"};
    if (strstr(name, ".bin.index")) return false; /* of other weights, which are not copied */
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        if (ends_with(name, ends[i])) return true;
    return false;
}

static rs_status copy_file(const writing *w, const char *from, const char *to, const char *name)
{
    char *source, *target = NULL;
    rs_mapping *file;
    struct stat st;
    RS_TRY(path_in(&source, from, name, w->err));
    rs_status status = RS_OK;
    if (stat(source, &st) == 0 && S_ISREG(st.st_mode)) {
        status = path_in(&target, to, name, w->err);
        if (status == RS_OK) status = rs_mapping_open(&file, source, w->err);
        if (status == RS_OK) {
            status =
                rs_output_write(target, (const char *)file->data, file->size, w->files, w->err);
            if (status == RS_OK) status = rs_mapping_verify(file, NULL, w->err);
            rs_mapping_close(file);
        }
    }
    rs_free(source);
    rs_free(target);
    return status;
}

/* The folder of a module of sentence-transformers, such as 1_Pooling. */
static rs_status copy_module(const writing *w, const char *name)
{
    char *from, *to = NULL;
    RS_TRY(path_in(&from, w->from, name, w->err));
    rs_status status = path_in(&to, w->folder, name, w->err);
    char *config = NULL;
    struct stat st;
    if (status == RS_OK) status = path_in(&config, from, "config.json", w->err);
    if (status == RS_OK && stat(config, &st) == 0) {
        status = rs_outputs_make_folder(w->files->outputs, to, w->err);
        if (status == RS_OK) status = copy_file(w, from, to, "config.json");
    }
    rs_free(config);
    rs_free(from);
    rs_free(to);
    return status;
}

static rs_status copy_entry(const writing *w, const char *name)
{
    if (name[0] >= '0' && name[0] <= '9' && name[1] == '_') return copy_module(w, name);
    return name[0] != '.' && is_beside(name) ? copy_file(w, w->from, w->folder, name) : RS_OK;
}

static rs_status copy_beside(const writing *w)
{
    struct dirent **entries;
    int n = scandir(w->from, &entries, NULL, alphasort);
    if (n < 0) return rs_fail(w->err, RS_E_UNREADABLE, w->from, NULL, "cannot list what is in it");
    rs_status status = RS_OK;
    for (int i = 0; i < n; i++) {
        if (status == RS_OK) status = copy_entry(w, entries[i]->d_name);
        free(entries[i]); /* NOLINT: scandir's own */
    }
    free(entries);
    return status;
}

rs_status rs_cut_write(const char *folder, const rs_checkpoint *checkpoint,
                       const rs_cut_weights *weights, const rs_input_files *files, rs_error *err)
{
    char buffer[4096];
    const writing w = {.folder = folder,
                       .from = rs_model_folder(buffer, sizeof buffer, checkpoint->path),
                       .checkpoint = checkpoint,
                       .weights = weights,
                       .files = files,
                       .err = err};
    for (uint32_t i = 0; i < (uint32_t)checkpoint->n_files; i++)
        RS_TRY(write_file(&w, i));
    RS_TRY(copy_beside(&w));
    return rs_cut_write_factors(folder, weights, files, err);
}
