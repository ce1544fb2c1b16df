/*
 * output.c: a file appears whole or not at all.
 *
 * A regular file is written beside its target under a temporary name, flushed to the disk, and
 * renamed over the target. Devices and pipes cannot be replaced and are written directly.
 */
#include "report/output.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    PATH_SIZE = 4096,
    LIVE_FILES = 16,
    PIECE = 1 << 24 /* some systems refuse to write more than 2 GiB at once */
};

/* ---- temporary files that exist now, for rs_output_abandon ---- */

static struct {
    atomic_int state; /* FREE, CLAIMED (name being written), LIVE */
    char name[PATH_SIZE];
} live[LIVE_FILES];
enum { FREE, CLAIMED, LIVE };

static int claim(const char *name)
{
    for (int i = 0; i < LIVE_FILES; i++) {
        int expected = FREE;
        if (!atomic_compare_exchange_strong(&live[i].state, &expected, CLAIMED)) continue;
        memcpy(live[i].name, name, strlen(name) + 1);
        atomic_store(&live[i].state, LIVE);
        return i;
    }
    return -1;
}

static void release(int slot)
{
    if (slot >= 0) atomic_store(&live[slot].state, FREE);
}

void rs_output_abandon(void)
{
    int kept = errno;
    for (int i = 0; i < LIVE_FILES; i++)
        if (atomic_load(&live[i].state) == LIVE) unlink(live[i].name);
    errno = kept;
}

/* ---- failures ---- */

static rs_status fail(rs_error *err, const char *path, const char *action, int code)
{
    const char *hint = NULL;
    if (code == ENOSPC || code == EDQUOT || code == EFBIG)
        hint = "free some space or write to another disk; nothing was changed";
    else if (code == EACCES || code == EPERM || code == EROFS)
        hint = "choose a place that you may write to";
    else if (code == ENOENT || code == ENOTDIR)
        hint = "create the folder first";
    if (code == EINTR) return rs_fail(err, RS_E_INTERRUPTED, path, NULL, "interrupted");
    return rs_fail(err, RS_E_WRITE, path, hint, "cannot %s: %s", action, strerror(code));
}

/* ---- paths ---- */

/* The folder part of a path with its slash, "" when it has none. */
static size_t folder_length(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? (size_t)(slash - path) + 1 : 0;
}

/* Follows symbolic links of the last component, so that the file behind them is replaced and the
 * link stays; the file itself need not exist. */
static rs_status follow_links(char target[PATH_SIZE], const char *path, rs_error *err)
{
    enum { MOST_LINKS = 40 };
    if (strlen(path) >= PATH_SIZE) return fail(err, path, "write", ENAMETOOLONG);
    memcpy(target, path, strlen(path) + 1);
    for (int i = 0; i < MOST_LINKS; i++) {
        char link[PATH_SIZE];
        ssize_t length = readlink(target, link, sizeof link - 1);
        if (length < 0) return RS_OK; /* no link, or nothing there */
        link[length] = 0;
        size_t folder = link[0] == '/' ? 0 : folder_length(target);
        if (folder + (size_t)length >= PATH_SIZE) return fail(err, path, "write", ENAMETOOLONG);
        memcpy(target + folder, link, (size_t)length + 1);
    }
    return fail(err, path, "write", ELOOP);
}

/* Where a file is or would be. */
typedef struct place {
    char target[PATH_SIZE]; /* with links followed */
    struct stat folder, file;
    bool exists;
} place;

static bool find_place(place *p, const char *path)
{
    char folder[PATH_SIZE + 2];
    rs_error err;
    if (follow_links(p->target, path, &err) != RS_OK) return false;
    for (size_t n = strlen(p->target); n > 1 && p->target[n - 1] == '/'; n--)
        p->target[n - 1] = 0;
    size_t length = folder_length(p->target);
    memcpy(folder, p->target, length);
    memcpy(folder + length, ".", 2);
    p->exists = stat(p->target, &p->file) == 0;
    return stat(folder, &p->folder) == 0;
}

static bool same_file(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

bool rs_output_same(const char *a, const char *b)
{
    place p, q;
    if (!find_place(&p, a) || !find_place(&q, b)) return false;
    if (p.exists && q.exists)
        return same_file(&p.file, &q.file) && (S_ISREG(p.file.st_mode) || S_ISDIR(p.file.st_mode));
    return !p.exists && !q.exists && same_file(&p.folder, &q.folder) &&
           strcmp(p.target + folder_length(p.target), q.target + folder_length(q.target)) == 0;
}

/* ---- writing ---- */

/* 0, or errno. A signal ends the write only when `stoppable`: a pipe may never take the rest. */
static int write_all(int fd, const char *bytes, size_t length, bool stoppable)
{
    while (length > 0) {
        ssize_t n = write(fd, bytes, length < PIECE ? length : PIECE);
        if (n < 0 && errno == EINTR && !stoppable) continue;
        if (n <= 0) return n < 0 ? errno : EIO;
        bytes += n;
        length -= (size_t)n;
    }
    return 0;
}

static rs_status write_directly(const char *path, const char *bytes, size_t length, rs_error *err)
{
    int fd = open(path, O_WRONLY | O_NOCTTY | O_CLOEXEC);
    if (fd < 0) return fail(err, path, "open for writing", errno);
    int code = write_all(fd, bytes, length, true);
    if (close(fd) != 0 && !code) code = errno;
    return code ? fail(err, path, "write", code) : RS_OK;
}

/* Permissions (and, where allowed, the owner) of a file that is replaced; a new file has those
 * that open() gives under the umask. */
static int copy_mode(int fd, const struct stat *old)
{
    struct stat now;
    if (fstat(fd, &now) != 0) return errno;
    if ((now.st_uid != old->st_uid || now.st_gid != old->st_gid) &&
        fchown(fd, old->st_uid, old->st_gid) != 0 && errno != EPERM)
        return errno;
    return fchmod(fd, old->st_mode & 07777) == 0 ? 0 : errno;
}

/* Some file systems cannot flush; that is no failure of the write. */
static int flush(int fd)
{
    if (fsync(fd) == 0 || errno == EINVAL || errno == ENOTSUP || errno == ENOSYS) return 0;
    return errno;
}

/* The new name is on the disk only when its folder is; a failure here loses nothing. */
static void flush_folder(const char *target)
{
    char folder[PATH_SIZE] = ".";
    size_t length = folder_length(target);
    if (length) {
        memcpy(folder, target, length);
        folder[length] = 0;
    }
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return;
    (void)flush(fd);
    close(fd);
}

/* Opens a file that did not exist, in the target's folder, and registers its name. */
static rs_status open_temporary(char name[PATH_SIZE], int *fd, int *slot, const char *target,
                                rs_error *err)
{
    static atomic_uint counter;
    enum { TRIES = 1000, BASE_SHOWN = 100 }; /* names may have 255 bytes */
    size_t folder = folder_length(target);
    for (int i = 0; i < TRIES; i++) {
        int n = snprintf(name, PATH_SIZE, "%.*s.%.*s.%ld-%u.tmp", (int)folder, target, BASE_SHOWN,
                         target + folder, (long)getpid(), atomic_fetch_add(&counter, 1));
        if (n < 0 || n >= PATH_SIZE) return fail(err, target, "write", ENAMETOOLONG);
        *slot = claim(name);
        if (*slot < 0)
            return rs_fail(err, RS_E_WRITE, target, "write fewer files at once",
                           "more than %d files are being written", LIVE_FILES);
        *fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOCTTY, 0666);
        if (*fd >= 0) return RS_OK;
        int code = errno;
        release(*slot);
        if (code != EEXIST) return fail(err, target, "create a file in its folder", code);
    }
    return fail(err, target, "create a file in its folder", EEXIST);
}

struct rs_output {
    char path[PATH_SIZE];   /* as the user gave it, for messages */
    char target[PATH_SIZE]; /* with links followed */
    char name[PATH_SIZE];   /* temporary */
    struct stat old;        /* of the file that is replaced */
    bool replaces;
    uint64_t size;
    int fd, slot;
};

/* 0 or errno; the temporary file is gone or has become the target. */
static int settle(rs_output *output, int code)
{
    if (!code && output->replaces) code = copy_mode(output->fd, &output->old);
    if (!code) code = flush(output->fd);
    if (close(output->fd) != 0 && !code) code = errno;
    if (!code && rename(output->name, output->target) != 0) code = errno;
    if (code) unlink(output->name);
    release(output->slot);
    return code;
}

/* Finds out what PATH is. *direct: a device or a pipe, which cannot be replaced. */
static rs_status prepare(rs_output *output, bool *direct, const char *path,
                         const rs_file_id *inputs, size_t n_inputs, rs_error *err)
{
    *direct = false;
    if (!path[0]) return fail(err, "output", "write to an empty name", ENOENT);
    RS_TRY(follow_links(output->target, path, err));
    memcpy(output->path, path, strlen(path) + 1);
    if (stat(output->target, &output->old) != 0)
        return errno == ENOENT ? RS_OK : fail(err, path, "write", errno);
    output->replaces = true;
    for (size_t i = 0; i < n_inputs; i++)
        if ((uint64_t)output->old.st_dev == inputs[i].device &&
            (uint64_t)output->old.st_ino == inputs[i].inode)
            return rs_fail(err, RS_E_OVERWRITES_INPUT, path, "choose another name for the output",
                           "this file is one of the inputs");
    if (S_ISDIR(output->old.st_mode)) return fail(err, path, "write", EISDIR);
    *direct = !S_ISREG(output->old.st_mode);
    /* A rename would replace even a write-protected file: do not. */
    if (!*direct && access(output->target, W_OK) != 0) return fail(err, path, "write", errno);
    return RS_OK;
}

rs_status rs_output_write(const char *path, const char *bytes, size_t length,
                          const rs_file_id *inputs, size_t n_inputs, rs_error *err)
{
    rs_output output = {.fd = -1, .slot = -1};
    bool direct;
    RS_TRY(prepare(&output, &direct, path, inputs, n_inputs, err));
    if (direct) return write_directly(output.target, bytes, length, err);
    RS_TRY(open_temporary(output.name, &output.fd, &output.slot, output.target, err));
    int code = settle(&output, write_all(output.fd, bytes, length, false));
    if (code) return fail(err, output.target, "write", code);
    flush_folder(output.target);
    return RS_OK;
}

/* ---- in pieces ---- */

static rs_status open_sized(rs_output *output, const char *path, const rs_file_id *inputs,
                            size_t n_inputs, rs_error *err)
{
    bool direct;
    RS_TRY(prepare(output, &direct, path, inputs, n_inputs, err));
    if (direct)
        return rs_fail(err, RS_E_WRITE, path, "give the name of a file",
                       "this is a device or a pipe, and the file is not written in order");
    RS_TRY(open_temporary(output->name, &output->fd, &output->slot, output->target, err));
    if (output->size <= INT64_MAX && ftruncate(output->fd, (off_t)output->size) == 0) return RS_OK;
    int code = output->size <= INT64_MAX ? errno : EFBIG;
    close(output->fd);
    unlink(output->name);
    release(output->slot);
    return fail(err, path, "write", code);
}

rs_status rs_output_open(rs_output **out, const char *path, uint64_t size, const rs_file_id *inputs,
                         size_t n_inputs, rs_error *err)
{
    *out = NULL;
    rs_output *output = rs_calloc(1, sizeof *output);
    if (!output) return rs_fail_memory(err, path, sizeof *output);
    *output = (rs_output){.size = size, .fd = -1, .slot = -1};
    rs_status status = open_sized(output, path, inputs, n_inputs, err);
    if (status == RS_OK)
        *out = output;
    else
        rs_free(output);
    return status;
}

rs_status rs_output_put(rs_output *output, uint64_t offset, const void *bytes, size_t length,
                        rs_error *err)
{
    const char *at = bytes;
    if (offset > output->size || length > output->size - offset)
        return rs_fail(err, RS_E_INTERNAL, output->path, NULL,
                       "bytes %llu to %llu are outside the file of %llu",
                       (unsigned long long)offset, (unsigned long long)(offset + length),
                       (unsigned long long)output->size);
    while (length > 0) {
        ssize_t n = pwrite(output->fd, at, length < PIECE ? length : PIECE, (off_t)offset);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return fail(err, output->path, "write", n < 0 ? errno : EIO);
        at += n;
        offset += (uint64_t)n;
        length -= (size_t)n;
    }
    return RS_OK;
}

rs_status rs_output_commit(rs_output *output, rs_error *err)
{
    int code = settle(output, 0);
    rs_status status = code ? fail(err, output->path, "write", code) : RS_OK;
    if (!code) flush_folder(output->target);
    rs_free(output);
    return status;
}

void rs_output_discard(rs_output *output)
{
    if (!output) return;
    settle(output, ECANCELED);
    rs_free(output);
}
