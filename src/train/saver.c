/* saver.c: writes checkpoints from a copy, in a thread of its own. */
#include "train/saver.h"
#include "train/saver_parts.h"

#include "base/memory.h"
#include "base/text.h"
#include "checkpoint/safetensors_write.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

/* What is written: a copy. */
typedef struct snapshot {
    int64_t step;
    json_t *state, *config;
    void *values;
    void *states[2]; /* NULL: the optimiser has none */
} snapshot;

struct rs_saver {
    char *folder;
    const rs_learner *learner;
    int64_t keep;
    bool tokenizer; /* DIR/tokenizer.json is this run's */
    int lock;       /* descriptor of DIR/.lock; -1: the file system has no locks */
    snapshot copy;
    pthread_t thread;
    bool running;
    rs_status status; /* of the thread, with its error */
    rs_error err;
};

/* ---- folders ---- */

rs_status rs_saved_path(char out[RS_SAVED_PATH], const char *folder, int64_t step, const char *name,
                        rs_error *err)
{
    int n = step < 0 ? snprintf(out, RS_SAVED_PATH, "%s/%s", folder, name)
                     : snprintf(out, RS_SAVED_PATH, "%s/checkpoints/step-%09lld%s%s", folder,
                                (long long)step, name[0] ? "/" : "", name);
    if (n > 0 && n < RS_SAVED_PATH) return RS_OK;
    return rs_fail(err, RS_E_WRITE, folder, "choose a shorter name", "the name is too long");
}

rs_status rs_saved_fail(const char *path, rs_error *err)
{
    int code = errno;
    return rs_fail(err, RS_E_WRITE, path, code == ENOSPC ? "free space on the disk" : NULL, "%s",
                   strerror(code));
}

rs_status rs_saved_make_folder(const char *path, rs_error *err)
{
    struct stat what;
    if (mkdir(path, 0777) == 0) return RS_OK;
    if (errno == EEXIST && stat(path, &what) == 0 && S_ISDIR(what.st_mode)) return RS_OK;
    return rs_saved_fail(path, err);
}

/* Has the names in a folder survive a power cut. */
static void flush_folder(const char *path)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY);
    if (fd < 0) return;
    (void)fsync(fd);
    (void)close(fd);
}

/* Two programs that write to one folder would cut each other's lines of the log. The lock ends with the
 * program, however that ends; the file stays, so that nobody locks one that has just been removed. */
static rs_status lock_folder(int *out, const char *folder, rs_error *err)
{
    char path[RS_SAVED_PATH];
    RS_TRY(rs_saved_path(path, folder, -1, ".lock", err));
    *out = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (*out < 0) return rs_saved_fail(path, err);
    while (flock(*out, LOCK_EX | LOCK_NB) != 0) {
        if (errno == EINTR) continue;
        bool held = errno == EWOULDBLOCK;
        (void)close(*out);
        *out = -1;
        if (!held) return RS_OK;
        return rs_fail(err, RS_E_OVERWRITES_INPUT, folder,
                       "wait until it has ended, or choose another --out",
                       "another run writes to this folder");
    }
    return RS_OK;
}

/* Removes what a program left that was ended while it put the files of a checkpoint beside each other. */
static void clear_folder(const char *folder)
{
    static const char *const names[] = {".graph.new", ".model.new", ".config.new",
                                        ".tokenizer.new"};
    char path[RS_SAVED_PATH];
    rs_error unused;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (rs_saved_path(path, folder, -1, names[i], &unused) == RS_OK) (void)unlink(path);
}

/* Removes a folder of files. */
static void remove_folder(const char *path)
{
    DIR *folder = opendir(path);
    struct dirent *entry;
    char name[RS_SAVED_PATH];
    while (folder && (entry = readdir(folder)))
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0 &&
            snprintf(name, sizeof name, "%s/%s", path, entry->d_name) < (int)sizeof name)
            (void)unlink(name);
    if (folder) closedir(folder);
    (void)rmdir(path);
}

/* The step that a folder's name says; -1: it is no checkpoint's. */
static int64_t step_of(const char *name)
{
    char *end;
    if (strncmp(name, "step-", 5) != 0 || name[5] < '0' || name[5] > '9') return -1;
    long long step = strtoll(name + 5, &end, 10);
    return *end ? -1 : step;
}

/* The largest step below `below`; -1: there is none. */
static int64_t largest_below(const char *folder, int64_t below)
{
    char path[RS_SAVED_PATH];
    int64_t largest = -1;
    rs_error unused;
    if (rs_saved_path(path, folder, -1, "checkpoints", &unused) != RS_OK) return -1;
    DIR *all = opendir(path);
    struct dirent *entry;
    while (all && (entry = readdir(all))) {
        int64_t step = step_of(entry->d_name);
        if (step > largest && step < below) largest = step;
    }
    if (all) closedir(all);
    return largest;
}

int64_t rs_saved_newest(const char *folder)
{
    return largest_below(folder, INT64_MAX);
}

int64_t rs_saved_before(const char *folder, int64_t step)
{
    return largest_below(folder, step);
}

/* Leaves the `keep` newest. */
static void prune(const char *folder, int64_t keep)
{
    char path[RS_SAVED_PATH];
    rs_error unused;
    int64_t step = INT64_MAX;
    for (int64_t i = 0; i < keep && step >= 0; i++)
        step = largest_below(folder, step);
    while (step >= 0 && (step = largest_below(folder, step)) >= 0)
        if (rs_saved_path(path, folder, step, "", &unused) == RS_OK) remove_folder(path);
}

/* ---- links ---- */

rs_status rs_saved_copy(const char *to, const char *from, rs_error *err)
{
    char room[1 << 16];
    int in = open(from, O_RDONLY), out = in < 0 ? -1 : open(to, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    ssize_t n = out < 0 ? -1 : 0;
    while (out >= 0 && (n = read(in, room, sizeof room)) > 0) {
        size_t left = (size_t)n;
        if (rs_output_descriptor_write(out, room, &left, NULL) != 0) {
            n = -1;
            break;
        }
    }
    rs_status status = n < 0 || fsync(out) != 0 ? rs_saved_fail(to, err) : RS_OK;
    if (in >= 0) (void)close(in);
    if (out >= 0) (void)close(out);
    return status;
}

rs_status rs_saved_link(const char *folder, int64_t step, rs_error *err)
{
    static const struct {
        const char *name, *new;
    } files[] = {{"graph.npy", ".graph.new"},
                 {"model.safetensors", ".model.new"},
                 {"config.json", ".config.new"}};
    char from[RS_SAVED_PATH], to[RS_SAVED_PATH], new[RS_SAVED_PATH];
    for (int i = 0; i < 3; i++) {
        RS_TRY(rs_saved_path(from, folder, step, files[i].name, err));
        RS_TRY(rs_saved_path(to, folder, -1, files[i].name, err));
        RS_TRY(rs_saved_path(new, folder, -1, files[i].new, err));
        if (i == 0 && access(from, F_OK) != 0) continue;
        (void)unlink(new);
        if (link(from, new) != 0) RS_TRY(rs_saved_copy(new, from, err));
        if (rename(new, to) != 0) return rs_saved_fail(to, err);
    }
    flush_folder(folder);
    return RS_OK;
}

/* ---- files ---- */

/* The numbers of items, [n] each of them whole: those of `values`. */
static rs_status write_items(const char *path, const rs_trained_list *list, const rs_st_plan *plans,
                             const int64_t *items, const void *const *values, int64_t n,
                             rs_error *err)
{
    rs_st_writer *writer = NULL;
    RS_TRY(rs_st_writer_open(&writer, path, plans, (size_t)n, NULL, err));
    rs_status status = RS_OK;
    for (int64_t i = 0; i < n && status == RS_OK; i++) {
        const rs_trained *item = &list->items[items[i]];
        size_t offset = (size_t)((const char *)item->weight - (const char *)list->values);
        status = rs_st_writer_put(writer, (size_t)i, 0, (const char *)values[i] + offset,
                                  item->count, err);
    }
    if (status == RS_OK) return rs_st_writer_commit(writer, err);
    rs_st_writer_discard(writer);
    return status;
}

static rs_st_plan plan_of(const rs_trained_list *list, int64_t item, const char *name)
{
    const rs_tensor *tensor = list->places[item].tensor;
    rs_st_plan plan = {.name = name, .dtype = list->size == 4 ? RS_F32 : RS_F64, .rank = 1};
    plan.shape[0] = list->items[item].count;
    if (!tensor || tensor->rank > RS_ST_WRITE_RANK) return plan;
    plan.rank = tensor->rank;
    for (uint32_t i = 0; i < tensor->rank; i++)
        plan.shape[i] = tensor->shape[i];
    return plan;
}

/* model.safetensors has the tensors, training.safetensors the optimiser's state and the numbers that
 * are no tensors. */
static rs_status write_tensors(const rs_saver *saver, const char *path, bool model, rs_error *err)
{
    const rs_trained_list *list = &saver->learner->trained;
    const snapshot *copy = &saver->copy;
    size_t most = 3 * (size_t)list->n + 1;
    rs_arena *arena = rs_arena_new();
    rs_st_plan *plans = arena ? rs_arena_alloc(arena, most, sizeof *plans) : NULL;
    int64_t *items = arena ? rs_arena_alloc(arena, most, sizeof *items) : NULL;
    const void **values = arena ? rs_arena_alloc(arena, most, sizeof *values) : NULL;
    rs_status status = plans && items && values ? RS_OK : rs_fail_memory(err, path, most);
    int64_t n = 0;
    for (int64_t i = 0; i < list->n && status == RS_OK; i++)
        for (int part = 0; part < 3; part++) {
            const void *from = part == 0 ? copy->values : copy->states[part - 1];
            bool tensor = list->places[i].tensor != NULL;
            if (!from || (part == 0 ? tensor != model : model || list->items[i].frozen)) continue;
            static const char *const endings[] = {"", ".state_1", ".state_2"};
            const char *name = rs_arena_printf(arena, "%s%s", list->names[i].name, endings[part]);
            if (!name) status = rs_fail_memory(err, path, 64);
            plans[n] = plan_of(list, i, name);
            items[n] = i;
            values[n++] = from;
        }
    if (status == RS_OK && n > 0) status = write_items(path, list, plans, items, values, n, err);
    rs_arena_free(arena);
    return status;
}

static rs_status write_json(const char *path, const json_t *json, rs_error *err)
{
    char *text = json_dumps(json, JSON_INDENT(1));
    if (!text) return rs_fail_memory(err, path, 1);
    rs_status status = rs_output_write(path, text, strlen(text), NULL, err);
    rs_memory_free_json(text);
    return status;
}

static rs_status write_folder(const rs_saver *saver, const char *writing, rs_error *err)
{
    static const char tokenizer[] = "tokenizer.json";
    char path[RS_SAVED_PATH], shared[RS_SAVED_PATH];
    remove_folder(writing);
    RS_TRY(rs_saved_make_folder(writing, err));
    RS_TRY(rs_saved_path(path, writing, -1, "model.safetensors", err));
    RS_TRY(write_tensors(saver, path, true, err));
    RS_TRY(rs_saved_path(path, writing, -1, "training.safetensors", err));
    RS_TRY(write_tensors(saver, path, false, err));
    RS_TRY(rs_saved_path(path, writing, -1, "config.json", err));
    RS_TRY(write_json(path, saver->copy.config, err));
    RS_TRY(rs_saved_path(path, writing, -1, tokenizer, err));
    RS_TRY(rs_saved_path(shared, saver->folder, -1, tokenizer, err));
    if (saver->tokenizer && link(shared, path) != 0) RS_TRY(rs_saved_copy(path, shared, err));
    if (rs_learner_graph(saver->learner)) {
        RS_TRY(rs_saved_path(path, writing, -1, "graph.npy", err));
        RS_TRY(rs_saved_copy(path, rs_learner_graph(saver->learner), err));
    }
    RS_TRY(rs_saved_path(path, writing, -1, "state.json", err));
    RS_TRY(write_json(path, saver->copy.state, err));
    flush_folder(writing);
    return RS_OK;
}

static rs_status write_checkpoint(const rs_saver *saver, rs_error *err)
{
    char writing[RS_SAVED_PATH], whole[RS_SAVED_PATH], all[RS_SAVED_PATH];
    struct stat what;
    RS_TRY(rs_saved_path(all, saver->folder, -1, "checkpoints", err));
    RS_TRY(rs_saved_path(writing, saver->folder, -1, "checkpoints/.writing", err));
    RS_TRY(rs_saved_path(whole, saver->folder, saver->copy.step, "", err));
    if (stat(whole, &what) != 0) { /* else: it is there, from before a resume */
        rs_status status = write_folder(saver, writing, err);
        if (status == RS_OK && rename(writing, whole) != 0) status = rs_saved_fail(whole, err);
        if (status != RS_OK) {
            remove_folder(writing);
            return status;
        }
        flush_folder(all);
    }
    RS_TRY(rs_saved_link(saver->folder, saver->copy.step, err));
    prune(saver->folder, saver->keep);
    return RS_OK;
}

/* ---- the thread ---- */

static void *write_in_thread(void *user)
{
    rs_saver *saver = user;
    saver->status = write_checkpoint(saver, &saver->err);
    return NULL;
}

static void forget_copy(rs_saver *saver)
{
    snapshot *copy = &saver->copy;
    json_decref(copy->state);
    json_decref(copy->config);
    rs_free(copy->values);
    rs_free(copy->states[0]);
    rs_free(copy->states[1]);
    *copy = (snapshot){0};
}

rs_status rs_saver_wait(rs_saver *saver, rs_error *err)
{
    if (saver->running) pthread_join(saver->thread, NULL);
    saver->running = false;
    forget_copy(saver);
    if (saver->status == RS_OK) return RS_OK;
    rs_status status = saver->status;
    saver->status = RS_OK;
    if (err) *err = saver->err;
    return status;
}

/* State `which` of all items as one block like `values`; NULL: there is none. */
static void *copy_states(const rs_learner *l, int which)
{
    const rs_trained_list *list = &l->trained;
    char *copy = rs_calloc(list->bytes + 1, 1);
    for (int64_t i = 0; copy && i < list->n; i++) {
        const void *state = rs_optimiser_state(l->optimiser, i, which);
        size_t offset = (size_t)((const char *)list->items[i].weight - (const char *)list->values);
        if (state) memcpy(copy + offset, state, (size_t)list->items[i].count * list->size);
    }
    return copy;
}

static rs_status take_copy(rs_saver *saver, rs_learner *l, rs_error *err)
{
    const rs_trained_list *list = &l->trained;
    snapshot *copy = &saver->copy;
    int states = rs_optimiser_states(l->settings->rule.kind);
    copy->step = l->step;
    copy->values = rs_malloc(list->bytes + 1, 1);
    if (copy->values) memcpy(copy->values, list->values, list->bytes);
    for (int k = 0; k < states; k++)
        copy->states[k] = copy_states(l, k);
    RS_TRY(rs_learner_config(&copy->config, l, err));
    bool all = copy->values && copy->config && (states < 1 || copy->states[0]) &&
               (states < 2 || copy->states[1]);
    return all ? RS_OK : rs_fail_memory(err, "a checkpoint", 3 * list->bytes);
}

rs_status rs_saver_begin(rs_saver *saver, rs_learner *learner, json_t *state, rs_error *err)
{
    rs_status status = rs_saver_wait(saver, err);
    if (status == RS_OK) {
        saver->copy.state = state;
        state = NULL;
        status = saver->copy.state ? take_copy(saver, learner, err)
                                   : rs_fail_memory(err, "a checkpoint", 1);
    }
    json_decref(state);
    if (status != RS_OK) {
        forget_copy(saver);
        return status;
    }
    saver->running = pthread_create(&saver->thread, NULL, write_in_thread, saver) == 0;
    if (!saver->running) write_in_thread(saver);
    return RS_OK;
}

rs_status rs_saver_open(rs_saver **out, const char *folder, const rs_learner *learner, int64_t keep,
                        rs_error *err)
{
    char path[RS_SAVED_PATH];
    *out = NULL;
    RS_TRY(rs_saved_path(path, folder, -1, "checkpoints", err));
    rs_saver *saver = rs_calloc(1, sizeof *saver);
    if (!saver) return rs_fail_memory(err, "checkpoints", sizeof *saver);
    *saver = (rs_saver){.folder = rs_strdup(folder), .learner = learner, .keep = keep, .lock = -1};
    rs_status status = saver->folder ? rs_saved_make_folder(folder, err)
                                     : rs_fail_memory(err, "checkpoints", strlen(folder));
    if (status == RS_OK) status = lock_folder(&saver->lock, folder, err);
    if (status == RS_OK) clear_folder(folder);
    if (status == RS_OK) status = rs_saved_make_folder(path, err);
    if (status != RS_OK)
        rs_saver_close(saver);
    else
        *out = saver;
    return status;
}

rs_status rs_saver_tokenizer(rs_saver *saver, const rs_train_task *task, rs_error *err)
{
    return rs_saved_tokenizer(&saver->tokenizer, saver->folder, task, saver->learner->settings,
                              err);
}

void rs_saver_close(rs_saver *saver)
{
    if (!saver) return;
    (void)rs_saver_wait(saver, NULL);
    if (saver->lock >= 0) (void)close(saver->lock);
    rs_free(saver->folder);
    rs_free(saver);
}
