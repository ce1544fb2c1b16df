/*
 * output.c: a file appears whole or not at all, and several together.
 *
 * A regular file is written without a name where the file system can do that (O_TMPFILE), else
 * beside its target under a temporary name, and flushed to the disk. Once all are complete they get
 * their names one after the other, and the files they replace are kept until everything is done, so
 * that all can be taken back. Devices and pipes cannot be replaced and are written directly, last.
 */
#include "report/output.h"

#include "report/output_place.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum {
    BASE_SHOWN = 100, /* bytes of the target's name in a temporary one: names may have 255 */
    NAME_SIZE = 32,   /* of /proc/self/fd/N */
    PIECE = 1 << 24,  /* some systems refuse to write more than 2 GiB at once */
    PIPE_PIECE = 1 << 16
};

struct rs_output {
    struct rs_output *next;
    rs_outputs *set; /* it waits there; NULL: it appears by itself */
    char *path;      /* as the user gave it, for messages */
    rs_place place;  /* what it was when it was opened */
    char *bytes;     /* direct: what is to be written */
    uint64_t size;
    int fd, slot;
    bool direct, placed, kept; /* kept: cannot be taken back */
    char name[RS_PATH_SIZE];   /* temporary; "" while the file has no name */
    char backup[RS_PATH_SIZE]; /* the file that was replaced; "" for none */
};

/* ---- writing ---- */

/* 0, or errno. */
static int write_all(int fd, const char *bytes, size_t length)
{
    while (length > 0) {
        ssize_t n = write(fd, bytes, length < PIECE ? length : PIECE);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return n < 0 ? errno : EIO;
        bytes += n;
        length -= (size_t)n;
    }
    return 0;
}

/* Waits until the descriptor takes bytes: a pipe may never do. 0 or errno. */
static int wait_ready(int fd, const volatile sig_atomic_t *cancel)
{
    struct pollfd ready = {.fd = fd, .events = POLLOUT};
    for (;;) {
        int n = poll(&ready, 1, cancel && *cancel ? 0 : -1);
        if (n > 0 || (n < 0 && errno != EINTR)) return 0; /* what write says is the better error */
        if (cancel && *cancel && n == 0) return EINTR;
    }
}

int rs_output_descriptor_write(int fd, const char *bytes, size_t *left,
                               const volatile sig_atomic_t *cancel)
{
    while (*left > 0) {
        int code = wait_ready(fd, cancel);
        if (code) return code;
        ssize_t n = write(fd, bytes, *left < PIPE_PIECE ? *left : PIPE_PIECE);
        if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
        if (n <= 0) return n < 0 ? errno : EIO;
        bytes += n;
        *left -= (size_t)n;
    }
    return 0;
}

static int write_directly(rs_output *o)
{
    const volatile sig_atomic_t *cancel = o->set ? o->set->cancel : NULL;
    int fd = o->place.descriptor;
    if (fd < 0) fd = open(o->place.target, O_WRONLY | O_APPEND | O_NOCTTY | O_CLOEXEC);
    if (fd < 0) return errno;
    size_t left = (size_t)o->size;
    int code = rs_output_descriptor_write(fd, o->bytes, &left, cancel);
    o->kept = left < o->size;
    if (o->place.descriptor < 0 && close(fd) != 0 && !code) code = errno;
    return code;
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

static void folder_of(char folder[RS_PATH_SIZE], const char *target)
{
    size_t length = rs_place_folder(target);
    memcpy(folder, length ? target : ".", length ? length : 1);
    folder[length ? length : 1] = 0;
}

/* The new name is on the disk only when its folder is; a failure here loses nothing. */
static void flush_folder(const char *target)
{
    char folder[RS_PATH_SIZE];
    folder_of(folder, target);
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return;
    (void)flush(fd);
    close(fd);
}

/* ---- temporary names ---- */

/* A name beside the target that is not taken as far as this process knows. */
static bool make_name(char name[RS_PATH_SIZE], const char *target)
{
    static atomic_uint counter;
    size_t folder = rs_place_folder(target);
    int n = snprintf(name, RS_PATH_SIZE, "%.*s.%.*s.%ld-%u.tmp", (int)folder, target, BASE_SHOWN,
                     target + folder, (long)getpid(), atomic_fetch_add(&counter, 1));
    return n >= 0 && n < RS_PATH_SIZE;
}

enum { NAME_TRIES = 1000 };

/* Opens a file that did not exist, in the target's folder. 0 or errno. */
static int open_named(rs_output *o)
{
    for (int i = 0; i < NAME_TRIES; i++) {
        if (!make_name(o->name, o->place.target)) return ENAMETOOLONG;
        rs_live_set(o->slot, RS_LIVE_TEMPORARY, o->name, NULL);
        o->fd = open(o->name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOCTTY, 0666);
        if (o->fd >= 0 && rs_live_abandoned()) unlink(o->name);
        if (o->fd >= 0) return 0;
        int code = errno;
        rs_live_set(o->slot, RS_LIVE_CLAIMED, "", NULL);
        if (code != EEXIST) return code;
    }
    return EEXIST;
}

static void descriptor_name(char name[NAME_SIZE], int fd)
{
    snprintf(name, NAME_SIZE, "/proc/self/fd/%d", fd);
}

/* Opens a file that has no name and gets it when it is complete;
 * fd stays -1 where that cannot be. */
static void open_unnamed(rs_output *o)
{
#ifdef O_TMPFILE
    char folder[RS_PATH_SIZE], self[NAME_SIZE];
    folder_of(folder, o->place.target);
    o->fd = open(folder, O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666);
    if (o->fd < 0) return;
    descriptor_name(self, o->fd);
    if (access(self, F_OK) == 0) return;
    close(o->fd);
    o->fd = -1;
#else
    (void)o;
#endif
}

/* ---- one output ---- */

static void free_output(rs_output *o)
{
    if (o->fd >= 0) close(o->fd);
    rs_live_release(o->slot);
    rs_free(o->bytes);
    rs_free(o->path);
    rs_free(o);
}

/* Takes it back as far as that can be. */
static void take_back(rs_output *o)
{
    if (o->placed && o->backup[0])
        o->kept = rename(o->backup, o->place.target) != 0;
    else if (o->placed && !o->kept)
        unlink(o->place.target);
    else if (!o->placed && o->name[0])
        unlink(o->name);
}

static rs_status open_regular(rs_output *o, rs_error *err)
{
    o->slot = rs_live_claim();
    if (o->slot < 0)
        return rs_fail(err, RS_E_WRITE, o->path, "write fewer files at once",
                       "too many files are being written");
    /* A rename would replace even a write-protected file: do not. */
    if (o->place.exists && access(o->place.target, W_OK) != 0)
        return rs_place_fail(err, o->path, "write", errno);
    open_unnamed(o);
    int code = o->fd < 0 ? open_named(o) : 0;
    return code ? rs_place_fail(err, o->path, "create a file in its folder", code) : RS_OK;
}

/* Two outputs of one name: the second would replace the first. */
static rs_status check_others(const rs_output *o, rs_error *err)
{
    for (const rs_output *other = o->set ? o->set->first : NULL; other; other = other->next)
        if (!other->direct && rs_output_same(other->path, o->path))
            return rs_fail(err, RS_E_OVERWRITES_INPUT, o->path, "choose another name",
                           "another output of this run has this name");
    return RS_OK;
}

static rs_status start_output(rs_output *o, const char *path, const rs_input_files *files,
                              const char *bytes, size_t length, rs_error *err)
{
    o->path = rs_strdup(path);
    if (!o->path) return rs_fail_memory(err, path, 0);
    RS_TRY(rs_place_find(&o->place, path, files, err));
    RS_TRY(rs_place_check(&o->place, path, files, bytes, length, err));
    o->direct = rs_place_is_direct(&o->place);
    if (o->direct) return RS_OK;
    RS_TRY(check_others(o, err));
    return open_regular(o, err);
}

static rs_status new_output(rs_output **out, const char *path, const rs_input_files *files,
                            const char *bytes, size_t length, rs_error *err)
{
    *out = NULL;
    rs_output *o = rs_calloc(1, sizeof *o);
    if (!o) return rs_fail_memory(err, path, sizeof *o);
    o->fd = o->slot = -1;
    o->set = files ? files->outputs : NULL;
    rs_status status = start_output(o, path, files, bytes, length, err);
    if (status == RS_OK)
        *out = o;
    else
        free_output(o);
    return status;
}

/* Everything that can fail on a full disk, before any name changes. */
static int complete(rs_output *o)
{
    int code = o->place.exists ? copy_mode(o->fd, &o->place.file) : 0;
    return code ? code : flush(o->fd);
}

/* ---- placing ---- */

/* Keeps the file that is to be replaced under a second name; without one (the file system has no
 * hard links) it cannot be brought back. */
static void keep_old(rs_output *o)
{
    for (int i = 0; i < NAME_TRIES; i++) {
        if (!make_name(o->backup, o->place.target)) break;
        if (link(o->place.target, o->backup) == 0) return;
        if (errno != EEXIST) break;
    }
    o->backup[0] = 0;
}

/* Gives a file without a name the target's, or a temporary one when there is such a file. */
static int give_name(rs_output *o, bool replace)
{
    char self[NAME_SIZE];
    descriptor_name(self, o->fd);
    for (int i = 0; i < NAME_TRIES; i++) {
        if (replace && !make_name(o->name, o->place.target)) return ENAMETOOLONG;
        const char *name = replace ? o->name : o->place.target;
        if (linkat(AT_FDCWD, self, AT_FDCWD, name, AT_SYMLINK_FOLLOW) == 0) return 0;
        o->name[0] = 0;
        if (errno != EEXIST) return errno;
        replace = true; /* it has come meanwhile */
    }
    return EEXIST;
}

/* 0 or errno; on failure it stays as it was. Between rs_live_enter and rs_live_leave. */
static int place_one(rs_output *o)
{
    struct stat now;
    bool unnamed = !o->name[0], replaces = lstat(o->place.target, &now) == 0;
    if (unnamed) {
        int code = give_name(o, replaces);
        if (code) return code;
    }
    if (o->name[0]) {
        replaces = lstat(o->place.target, &now) == 0;
        if (replaces) keep_old(o);
        if (rename(o->name, o->place.target) != 0) {
            int code = errno;
            if (o->backup[0]) unlink(o->backup);
            o->backup[0] = 0;
            if (unnamed) unlink(o->name), o->name[0] = 0;
            return code;
        }
    }
    o->placed = true;
    o->kept = replaces && !o->backup[0];
    rs_live_kind kind = o->kept ? RS_LIVE_CLAIMED : replaces ? RS_LIVE_REPLACED : RS_LIVE_NEW;
    rs_live_set(o->slot, kind, o->backup[0] ? o->backup : o->place.target, o->place.target);
    return 0;
}

static rs_status place_files(rs_outputs *outputs, rs_error *err)
{
    rs_status status = RS_OK;
    rs_live_enter();
    for (rs_output *o = outputs->first; o && status == RS_OK; o = o->next) {
        int code = o->direct ? 0 : place_one(o);
        if (code) status = rs_place_fail(err, o->path, "write", code);
    }
    rs_live_leave();
    return status;
}

rs_status rs_outputs_place(rs_outputs *outputs, rs_error *err)
{
    rs_status status = place_files(outputs, err);
    for (rs_output *o = outputs->first; o && status == RS_OK; o = o->next) {
        int code = o->direct ? write_directly(o) : 0;
        if (code) status = rs_place_fail(err, o->path, "write", code);
    }
    return status;
}

static void close_set(rs_outputs *outputs)
{
    for (rs_output *o = outputs->first, *next; o; o = next) {
        next = o->next;
        free_output(o);
    }
    for (size_t i = 0; i < outputs->n_folders; i++) {
        rs_live_release(outputs->folders[i].slot);
        rs_free(outputs->folders[i].path);
    }
    *outputs =
        (rs_outputs){.cancel = outputs->cancel, .kept = outputs->kept, .beside = outputs->beside};
}

void rs_outputs_keep(rs_outputs *outputs)
{
    outputs->kept = true;
    rs_live_enter();
    for (rs_output *o = outputs->first; o; o = o->next) {
        if (o->direct) continue;
        rs_live_set(o->slot, RS_LIVE_CLAIMED, "", NULL);
        if (o->backup[0]) unlink(o->backup);
        flush_folder(o->place.target);
    }
    close_set(outputs);
    rs_live_leave();
}

static void append_path(char *what, size_t size, const char *path)
{
    size_t used = strlen(what);
    snprintf(what + used, size - used, "%s%s", used ? ", " : "", path);
}

void rs_outputs_undo(rs_outputs *outputs, char *what, size_t size)
{
    what[0] = 0;
    rs_live_enter();
    for (rs_output *o = outputs->first; o; o = o->next) {
        if (!o->direct) take_back(o);
        if (o->kept) append_path(what, size, o->path);
    }
    for (size_t i = outputs->n_folders; i > 0; i--)
        rmdir(outputs->folders[i - 1].path);
    close_set(outputs);
    rs_live_leave();
    size_t used = strlen(what);
    if (used)
        snprintf(what + used, size - used, " could not be taken back");
    else if (!outputs->beside)
        snprintf(what, size, "nothing was written");
}

/* Remembers a folder that was just made. */
static rs_status own_folder(rs_outputs *outputs, const char *folder, rs_error *err)
{
    char *path = outputs->n_folders < RS_MOST_FOLDERS ? rs_strdup(folder) : NULL;
    if (!path) {
        rmdir(folder);
        return rs_fail_memory(err, folder, 0);
    }
    int slot = rs_live_claim();
    if (slot >= 0 && strlen(folder) < RS_PATH_SIZE) rs_live_set(slot, RS_LIVE_FOLDER, folder, NULL);
    outputs->folders[outputs->n_folders++] = (struct rs_made_folder){slot, path};
    return RS_OK;
}

rs_status rs_outputs_make_folder(rs_outputs *outputs, const char *folder, rs_error *err)
{
    if (mkdir(folder, 0777) == 0) return own_folder(outputs, folder, err);
    struct stat st;
    int code = errno;
    if (code == EEXIST && stat(folder, &st) != 0) /* a link to nowhere */
        code = errno;
    else if (code == EEXIST && !S_ISDIR(st.st_mode))
        code = ENOTDIR;
    if (code == EEXIST) return RS_OK;
    return rs_fail(err, RS_E_WRITE, folder, "choose a place that can be written",
                   "cannot be made: %s", strerror(code));
}

/* ---- all at once ---- */

/* Hands a complete output to its set; one without a set appears now. */
static rs_status hand_over(rs_output *o, rs_error *err)
{
    rs_outputs alone = {0}, *set = o->set ? o->set : &alone;
    if (set->last)
        set->last->next = o;
    else
        set->first = o;
    set->last = o;
    set->n++;
    if (o->set) return RS_OK;
    rs_status status = rs_outputs_place(&alone, err);
    char what[64];
    if (status == RS_OK)
        rs_outputs_keep(&alone);
    else
        rs_outputs_undo(&alone, what, sizeof what);
    return status;
}

static rs_status fail_output(rs_output *o, int code, rs_error *err)
{
    rs_status status = rs_place_fail(err, o->path, "write", code);
    rs_output_discard(o);
    return status;
}

rs_status rs_output_write(const char *path, const char *bytes, size_t length,
                          const rs_input_files *files, rs_error *err)
{
    rs_output *o;
    RS_TRY(new_output(&o, path, files, bytes, length, err));
    o->size = length;
    if (o->direct) { /* written last, when all files have their names */
        o->bytes = rs_malloc(length + 1, 1);
        if (!o->bytes) {
            rs_output_discard(o);
            return rs_fail_memory(err, path, length);
        }
        if (length) memcpy(o->bytes, bytes, length);
        return hand_over(o, err);
    }
    int code = write_all(o->fd, bytes, length);
    if (!code) code = complete(o);
    return code ? fail_output(o, code, err) : hand_over(o, err);
}

/* ---- in pieces ---- */

rs_status rs_output_open(rs_output **out, const char *path, uint64_t size,
                         const rs_input_files *files, rs_error *err)
{
    RS_TRY(new_output(out, path, files, RS_MARK_SAFETENSORS, 0, err));
    rs_output *o = *out;
    o->size = size;
    *out = NULL;
    if (o->direct) {
        rs_output_discard(o);
        return rs_fail(err, RS_E_WRITE, path, "give the name of a file",
                       "this is a device or a pipe, and the file is not written in order");
    }
    if (size > INT64_MAX) return fail_output(o, EFBIG, err);
    if (ftruncate(o->fd, (off_t)size) != 0) return fail_output(o, errno, err);
    *out = o;
    return RS_OK;
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
        if (n <= 0) return rs_place_fail(err, output->path, "write", n < 0 ? errno : EIO);
        at += n;
        offset += (uint64_t)n;
        length -= (size_t)n;
    }
    return RS_OK;
}

rs_status rs_output_commit(rs_output *output, rs_error *err)
{
    int code = complete(output);
    return code ? fail_output(output, code, err) : hand_over(output, err);
}

void rs_output_discard(rs_output *output)
{
    if (!output) return;
    if (!output->direct) take_back(output);
    free_output(output);
}
