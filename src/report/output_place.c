/* output_place.c: see output_place.h. */
#include "report/output_place.h"

#include "base/memory.h"
#include "report/output.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

rs_status rs_place_fail(rs_error *err, const char *path, const char *action, int code)
{
    const char *hint = NULL;
    if (code == ENOSPC || code == EDQUOT || code == EFBIG)
        hint = "free some space or write to another disk";
    else if (code == EACCES || code == EPERM || code == EROFS)
        hint = "choose a place that you may write to";
    else if (code == ENOENT || code == ENOTDIR)
        hint = "create the folder first";
    else if (code == EBADF)
        hint = "open it for writing, as in 3>FILE";
    if (code == EINTR) return rs_fail(err, RS_E_INTERRUPTED, path, NULL, "interrupted");
    rs_status status = code == EPIPE ? RS_E_BROKEN_PIPE : RS_E_WRITE;
    return rs_fail(err, status, path, hint, "cannot %s: %s", action, strerror(code));
}

size_t rs_place_folder(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? (size_t)(slash - path) + 1 : 0;
}

static bool same_file(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

/* The folder of a path without links, dots and a slash at its end; as it stands where it is not
 * there. */
static void real_folder(char folder[RS_PATH_SIZE], const char *path)
{
    char given[RS_PATH_SIZE];
    size_t length = rs_place_folder(path);
    memcpy(given, length ? path : ".", length ? length : 1);
    given[length ? length : 1] = 0;
    char *real = realpath(given, NULL);
    snprintf(folder, RS_PATH_SIZE, "%s", real ? real : given);
    free(real);
    for (size_t n = strlen(folder); n > 1 && folder[n - 1] == '/'; n--)
        folder[n - 1] = 0;
}

/* ---- descriptors ---- */

/* /dev/fd, /proc/PID/fd and /proc/PID/task/TID/fd of this process. */
static bool lists_descriptors(const char *folder)
{
    char own[64];
    if (strcmp(folder, "/dev/fd") == 0 || strcmp(folder, "/proc/self/fd") == 0) return true;
    size_t length = (size_t)snprintf(own, sizeof own, "/proc/%ld/", (long)getpid());
    size_t all = strlen(folder);
    if (strncmp(folder, own, length) != 0 || strcmp(folder + all - 3, "/fd") != 0) return false;
    return all == length + 2 || strncmp(folder + length, "task/", 5) == 0;
}

static int descriptor_of(const char *folder, const char *name)
{
    static const char *const standard[] = {"stdin", "stdout", "stderr"};
    if (strcmp(folder, "/dev") == 0)
        for (int i = 0; i < 3; i++)
            if (strcmp(name, standard[i]) == 0) return i;
    size_t digits = strspn(name, "0123456789");
    if (!lists_descriptors(folder) || digits == 0 || digits > 6 || name[digits]) return -1;
    return atoi(name);
}

/* ---- the model's folder ---- */

/* Whether the folder is the model's or lies in it. */
static bool within(const char *folder, const char *model)
{
    struct stat wanted, now;
    char at[RS_PATH_SIZE];
    if (!model || stat(model, &wanted) != 0) return false;
    snprintf(at, sizeof at, "%s", folder);
    for (;;) {
        if (stat(at, &now) == 0 && same_file(&now, &wanted)) return true;
        char *slash = strrchr(at, '/');
        if (!slash || !at[1]) return false;
        slash[slash == at] = 0;
    }
}

/* Whether the file is one of those that the model's folder lists, perhaps as a link. */
static bool listed(const char *model, const struct stat *file)
{
    bool found = false;
    DIR *directory = model ? opendir(model) : NULL;
    if (!directory) return false;
    struct stat entry;
    for (struct dirent *e; !found && (e = readdir(directory));)
        found = fstatat(dirfd(directory), e->d_name, &entry, 0) == 0 && same_file(&entry, file);
    closedir(directory);
    return found;
}

/* ---- what rankscope wrote ---- */

static bool begins_with(const char *bytes, size_t length, const char *start)
{
    size_t n = strlen(start);
    return length >= n && memcmp(bytes, start, n) == 0;
}

/* One name of a header line is among those of another. */
static bool has_name(const char *line, size_t length, const char *name, size_t size)
{
    for (const char *end = line + length; line <= end;) {
        const char *comma = memchr(line, ',', (size_t)(end - line));
        size_t n = (size_t)((comma ? comma : end) - line);
        if (n == size && memcmp(line, name, n) == 0) return true;
        line += n + 1;
    }
    return false;
}

static bool has_names(const char *line, size_t length, const char *names, size_t size)
{
    for (const char *end = names + size; names <= end;) {
        const char *comma = memchr(names, ',', (size_t)(end - names));
        size_t n = (size_t)((comma ? comma : end) - names);
        if (!has_name(line, length, names, n)) return false;
        names += n + 1;
    }
    return true;
}

/* A table as CSV has no room for a mark: it is known by its header line, which has the columns of
 * the table that is to be written, or some of them, or them and others (of another version). */
static bool same_header(const char *old, size_t old_length, const char *new, size_t new_length)
{
    const char *a = memchr(old, '\n', old_length), *b = memchr(new, '\n', new_length);
    if (!a || !b || !memchr(old, ',', (size_t)(a - old))) return false;
    size_t n = (size_t)(a - old), m = (size_t)(b - new);
    return has_names(new, m, old, n) || has_names(old, n, new, m);
}

static bool is_ours(const rs_place *place, const char *bytes, size_t length)
{
    char head[8192];
    int fd = open(place->target, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (fd < 0) return false;
    ssize_t n = pread(fd, head, sizeof head, 0);
    close(fd);
    if (n <= 0) return false;
    size_t size = (size_t)n;
    return begins_with(head, size, RS_MARK_JSON) ||
           (size > 8 && begins_with(head + 8, size - 8, RS_MARK_SAFETENSORS)) ||
           (begins_with(head, size, "<!doctype html>") &&
            memmem(head, size, RS_MARK_HTML, strlen(RS_MARK_HTML))) ||
           same_header(head, size, bytes, length);
}

/* ---- finding and checking ---- */

rs_status rs_place_find(rs_place *place, const char *path, const rs_input_files *files,
                        rs_error *err)
{
    enum { MOST_LINKS = 40 };
    char *target = place->target, folder[RS_PATH_SIZE], link[RS_PATH_SIZE];
    *place = (rs_place){.descriptor = -1};
    if (!path[0]) return rs_place_fail(err, "output", "write to an empty name", ENOENT);
    if (strlen(path) >= RS_PATH_SIZE) return rs_place_fail(err, path, "write", ENAMETOOLONG);
    memcpy(target, path, strlen(path) + 1);
    for (int i = 0; i < MOST_LINKS; i++) {
        size_t start = rs_place_folder(target);
        real_folder(folder, target);
        for (size_t m = 0; files && m < files->n_models; m++)
            place->in_model |= within(folder, files->models[m]);
        place->descriptor = descriptor_of(folder, target + start);
        place->proc = strncmp(folder, "/proc/", 6) == 0;
        ssize_t length = -1;
        /* A link of /proc tells what a descriptor is of, it is no name to write to. */
        if (place->descriptor < 0 && !place->proc) length = readlink(target, link, sizeof link - 1);
        if (length < 0) {
            place->exists = (place->descriptor >= 0 ? fstat(place->descriptor, &place->file)
                                                    : stat(target, &place->file)) == 0;
            if (place->exists || (errno == ENOENT && place->descriptor < 0)) return RS_OK;
            return rs_place_fail(err, path, "write", errno);
        }
        link[length] = 0;
        if (link[0] == '/') start = 0;
        if (start + (size_t)length >= RS_PATH_SIZE)
            return rs_place_fail(err, path, "write", ENAMETOOLONG);
        memcpy(target + start, link, (size_t)length + 1);
    }
    return rs_place_fail(err, path, "write", ELOOP);
}

bool rs_place_is_direct(const rs_place *place)
{
    return place->descriptor >= 0 || place->proc ||
           (place->exists && !S_ISREG(place->file.st_mode));
}

rs_status rs_place_check(const rs_place *place, const char *path, const rs_input_files *files,
                         const char *bytes, size_t length, rs_error *err)
{
    if (!place->exists) return RS_OK;
    if (S_ISDIR(place->file.st_mode)) return rs_place_fail(err, path, "write", EISDIR);
    for (size_t i = 0; files && i < files->n; i++)
        if ((uint64_t)place->file.st_dev == files->ids[i].device &&
            (uint64_t)place->file.st_ino == files->ids[i].inode)
            return rs_fail(err, RS_E_OVERWRITES_INPUT, path, "choose another name for the output",
                           "this file is one of the inputs");
    /* What stands behind a descriptor was opened by whoever started this process. */
    if (!files || place->descriptor >= 0 || !S_ISREG(place->file.st_mode)) return RS_OK;
    bool model = place->in_model;
    for (size_t m = 0; !model && m < files->n_models; m++)
        model = listed(files->models[m], &place->file);
    if (!model || (!place->proc && is_ours(place, length ? bytes : "", length))) return RS_OK;
    return rs_fail(err, RS_E_OVERWRITES_INPUT, path,
                   "choose another name, or remove the file yourself",
                   "this file is in the model's folder and is no earlier result of this kind");
}

/* ---- two names ---- */

/* As rs_place_find; "folder/" and "folder" are one name here. */
static bool find_plain(rs_place *place, const char *path)
{
    char plain[RS_PATH_SIZE];
    size_t length = strlen(path);
    if (length >= sizeof plain) return false;
    while (length > 1 && path[length - 1] == '/')
        length--;
    memcpy(plain, path, length);
    plain[length] = 0;
    return rs_place_find(place, plain, NULL, NULL) == RS_OK;
}

bool rs_output_same(const char *a, const char *b)
{
    rs_place p, q;
    char first[RS_PATH_SIZE], second[RS_PATH_SIZE];
    if (!a || !b || !find_plain(&p, a) || !find_plain(&q, b)) return false;
    if (p.descriptor >= 0 || q.descriptor >= 0) return p.descriptor == q.descriptor;
    if (p.exists && q.exists)
        return same_file(&p.file, &q.file) && (S_ISREG(p.file.st_mode) || S_ISDIR(p.file.st_mode));
    real_folder(first, p.target);
    real_folder(second, q.target);
    return !p.exists && !q.exists && strcmp(first, second) == 0 &&
           strcmp(p.target + rs_place_folder(p.target), q.target + rs_place_folder(q.target)) == 0;
}

rs_status rs_input_files_add(rs_input_files *files, rs_file_id id, rs_error *err)
{
    if (!RS_GROW(files->ids, files->n, files->capacity))
        return rs_fail_memory(err, "input files", 0);
    files->ids[files->n++] = id;
    return RS_OK;
}

rs_status rs_input_files_model(rs_input_files *files, const char *path, rs_error *err)
{
    struct stat st;
    bool folder = stat(path, &st) == 0 && S_ISDIR(st.st_mode);
    size_t length = folder ? strlen(path) : rs_place_folder(path);
    if (!RS_GROW(files->models, files->n_models, files->model_capacity))
        return rs_fail_memory(err, "folders of models", 0);
    char *model = rs_malloc(length + 2, 1);
    if (!model) return rs_fail_memory(err, path, length + 2);
    files->models[files->n_models++] = model;
    memcpy(model, path, length);
    if (!length) model[length++] = '.';
    model[length] = 0;
    return RS_OK;
}

void rs_input_files_free(rs_input_files *files)
{
    rs_free(files->ids);
    for (size_t m = 0; m < files->n_models; m++)
        rs_free(files->models[m]);
    rs_free(files->models);
    *files = (rs_input_files){.outputs = files->outputs};
}
