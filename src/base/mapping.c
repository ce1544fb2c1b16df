/* mapping.c: read-only file mappings and the SIGBUS guard (see mapping.h). */
#include "base/mapping.h"

#include "base/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef MAP_ANONYMOUS
#define MAP_ANONYMOUS MAP_ANON
#endif

/* The handler may only read this table: slots are claimed and released with atomics,
 * never moved. */
enum { SLOTS = 4096 };
static struct {
    atomic_uintptr_t begin; /* 0: free; 1: being filled */
    atomic_size_t size;
    atomic_int damaged;
} slots[SLOTS];

static struct sigaction previous;
static atomic_int installed;
static size_t page_size;

static void on_sigbus(int signal_number, siginfo_t *info, void *ucontext)
{
    uintptr_t address = (uintptr_t)info->si_addr;
    for (size_t i = 0; i < SLOTS; i++) {
        uintptr_t begin = atomic_load(&slots[i].begin);
        if (begin <= 1 || address < begin || address - begin >= atomic_load(&slots[i].size))
            continue;
        void *page = (void *)(address / page_size * page_size);
        if (mmap(page, page_size, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) ==
            MAP_FAILED)
            break;
        atomic_store(&slots[i].damaged, 1);
        return;
    }
    /* Not ours: let it happen as it would have without us. */
    sigaction(SIGBUS, &previous, NULL);
    (void)signal_number, (void)ucontext;
    raise(SIGBUS);
}

void rs_guard_install(void)
{
    if (atomic_exchange(&installed, 1)) return;
    page_size = (size_t)sysconf(_SC_PAGESIZE);
    struct sigaction action = {.sa_sigaction = on_sigbus, .sa_flags = SA_SIGINFO};
    sigemptyset(&action.sa_mask);
    sigaction(SIGBUS, &action, &previous);
}

static int claim_slot(const void *data, size_t size)
{
    for (int i = 0; i < SLOTS; i++) {
        uintptr_t unused = 0;
        if (!atomic_compare_exchange_strong(&slots[i].begin, &unused, 1)) continue;
        atomic_store(&slots[i].size, size);
        atomic_store(&slots[i].damaged, 0);
        atomic_store(&slots[i].begin, (uintptr_t)data);
        return i;
    }
    return -1;
}

static struct timespec modified(const struct stat *status)
{
#ifdef __APPLE__
    return status->st_mtimespec;
#else
    return status->st_mtim;
#endif
}

static struct timespec changed(const struct stat *status)
{
#ifdef __APPLE__
    return status->st_ctimespec;
#else
    return status->st_ctim;
#endif
}

static bool same_time(struct timespec a, struct timespec b)
{
    return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
}

/* Files of /proc and their like make their bytes when they are read and say that they have none. */
static rs_status check_empty(const rs_mapping *mapping, int fd, rs_error *err)
{
    char byte;
    if (pread(fd, &byte, 1, 0) <= 0) return RS_OK;
    return rs_fail(err, RS_E_UNREADABLE, mapping->path, "copy it into a plain file, and name that",
                   "gives bytes although its size is 0, as files of /proc do");
}

static rs_status map_descriptor(rs_mapping *mapping, int fd, rs_error *err)
{
    const char *path = mapping->path;
    struct stat status;
    if (fstat(fd, &status) != 0)
        return rs_fail(err, RS_E_READ, path, NULL, "cannot read its size: %s", strerror(errno));
    if (!S_ISREG(status.st_mode))
        return rs_fail(err, RS_E_UNREADABLE, path, "name a file", "is not a regular file");
    mapping->device = (uint64_t)status.st_dev;
    mapping->inode = (uint64_t)status.st_ino;
    mapping->modified = modified(&status);
    mapping->changed = changed(&status);
    mapping->size = (size_t)status.st_size;
    if (mapping->size == 0) {
        mapping->data = (const uint8_t *)"";
        return check_empty(mapping, fd, err);
    }
    void *data = mmap(NULL, mapping->size, PROT_READ, MAP_SHARED, fd, 0);
    if (data == MAP_FAILED)
        return rs_fail(err, errno == ENOMEM ? RS_E_NO_MEMORY : RS_E_READ, path, NULL,
                       "cannot be mapped: %s", strerror(errno));
    mapping->data = data;
    mapping->slot = claim_slot(data, mapping->size);
    if (mapping->slot >= 0) return RS_OK;
    return rs_fail(err, RS_E_UNSUPPORTED, path, "put the checkpoint into fewer files",
                   "more than %d files would be mapped at once", (int)SLOTS);
}

rs_status rs_mapping_open(rs_mapping **out, const char *path, rs_error *err)
{
    *out = NULL;
    rs_mapping *mapping = rs_calloc(1, sizeof *mapping);
    if (!mapping || !(mapping->path = rs_strdup(path))) {
        rs_mapping_close(mapping);
        return rs_fail_memory(err, path, 0);
    }
    mapping->slot = -1;
    int fd;
    do
        fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    while (fd < 0 && errno == EINTR);
    rs_status status;
    if (fd < 0) {
        bool absent = errno == ENOENT || errno == ENOTDIR;
        status = rs_fail(err, absent ? RS_E_NOT_FOUND : RS_E_UNREADABLE, path,
                         absent ? "check the path" : "check its permissions",
                         "cannot be opened: %s", strerror(errno));
    } else {
        status = map_descriptor(mapping, fd, err);
        close(fd);
    }
    if (status != RS_OK) {
        rs_mapping_close(mapping);
        return status;
    }
    *out = mapping;
    return RS_OK;
}

void rs_mapping_close(rs_mapping *mapping)
{
    if (!mapping) return;
    if (mapping->size) munmap((void *)(uintptr_t)mapping->data, mapping->size);
    if (mapping->size && mapping->slot >= 0) atomic_store(&slots[mapping->slot].begin, 0);
    rs_free(mapping->path);
    rs_free(mapping);
}

rs_status rs_mapping_check(const rs_mapping *mapping, rs_error *err)
{
    if (mapping->size == 0 || mapping->slot < 0 || !atomic_load(&slots[mapping->slot].damaged))
        return RS_OK;
    return rs_fail(err, RS_E_TRUNCATED_WHILE_MAPPED, mapping->path,
                   "do not change a checkpoint while it is read; run again once it is complete",
                   "the file was cut short, or could not be read, while it was in use");
}

rs_status rs_mapping_verify(const rs_mapping *mapping, bool *touched, rs_error *err)
{
    static const char hint[] =
        "do not change a file while it is read; run again once nothing writes to it";
    struct stat now;
    if (touched) *touched = false;
    RS_TRY(rs_mapping_check(mapping, err));
    if (stat(mapping->path, &now) != 0)
        return rs_fail(err, RS_E_CHANGED_WHILE_READ, mapping->path, hint,
                       "could not be found again when it had been read: %s", strerror(errno));
    if ((uint64_t)now.st_dev != mapping->device || (uint64_t)now.st_ino != mapping->inode)
        return rs_fail(err, RS_E_CHANGED_WHILE_READ, mapping->path, hint,
                       "was replaced by another file while it was read");
    if ((uint64_t)now.st_size != mapping->size)
        return rs_fail(err, RS_E_CHANGED_WHILE_READ, mapping->path, hint,
                       "had %zu bytes when it was opened and has %lld now", mapping->size,
                       (long long)now.st_size);
    if (!same_time(modified(&now), mapping->modified))
        return rs_fail(err, RS_E_CHANGED_WHILE_READ, mapping->path, hint,
                       "was written to while it was read");
    if (touched) *touched = !same_time(changed(&now), mapping->changed);
    return RS_OK;
}

bool rs_is_folder(const char *path)
{
    struct stat status;
    return stat(path, &status) == 0 && S_ISDIR(status.st_mode);
}
