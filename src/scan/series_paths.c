/*
 * series_paths.c: which checkpoints a series has, and in which order.
 *
 * The folder of a run holds folders whose names end in a number (checkpoint-500, step-000001000), in itself
 * or in a folder `checkpoints`. Where it has several such families, the one with the most checkpoints is
 * taken, of equals one in the folder itself, and the others are named.
 */
#include "scan/series.h"

#include "base/mapping.h"
#include "base/memory.h"
#include "checkpoint/open.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* ---- names ---- */

static bool ends_in(const char *text, size_t length, const char *ending)
{
    size_t n = strlen(ending);
    return length > n && memcmp(text + length - n, ending, n) == 0;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

int64_t rs_series_step(const char *path, const char **words, size_t *n_words)
{
    static const char *const endings[] = {".safetensors", ".gguf"};
    enum { MOST_DIGITS = 18 };
    size_t length = strlen(path);
    while (length > 1 && path[length - 1] == '/')
        length--;
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++)
        if (ends_in(path, length, endings[i])) length -= strlen(endings[i]);
    size_t begin = length, first = length;
    while (begin > 0 && path[begin - 1] != '/')
        begin--;
    while (first > begin && is_digit(path[first - 1]))
        first--;
    bool version = first > begin + 1 && path[first - 1] == '.' && is_digit(path[first - 2]);
    int64_t step = 0;
    size_t significant = first; /* behind the zeros that fill it up */
    while (significant < length && path[significant] == '0')
        significant++;
    bool none = first == length || version || length - significant > MOST_DIGITS;
    for (size_t i = significant; i < length && !none; i++)
        step = 10 * step + (path[i] - '0');
    *words = path + begin;
    *n_words = (none ? length : first) - begin;
    return none ? -1 : step;
}

/* ---- what a folder is ---- */

/* Whether weights, or what is left of them, lie in the folder itself. */
static rs_status holds_model(bool *holds, const char *folder, bool or_traces, rs_error *err)
{
    rs_choice choice;
    rs_notes notes = {0};
    rs_error why = {0};
    rs_status status = rs_directory_choose(&choice, &notes, folder, &why);
    rs_free(choice.name);
    rs_notes_free(&notes);
    *holds = status == RS_OK || (or_traces && status == RS_E_PICKLE);
    if (status == RS_E_NO_MEMORY) return rs_fail_memory(err, folder, 0);
    if (*holds || !or_traces) return RS_OK;
    struct stat config;
    char *path = rs_path_join(folder, "config.json");
    if (!path) return rs_fail_memory(err, folder, 0);
    *holds = stat(path, &config) == 0;
    rs_free(path);
    return RS_OK;
}

/* ---- the folders inside a run ---- */

/* A folder whose name ends in a number, or one without a number that holds a model. */
typedef struct member {
    char *name;
    int64_t step;
    size_t n_words;
    bool model;
} member;

typedef struct members {
    member *items;
    size_t n, capacity;
} members;

static void free_members(members *list)
{
    for (size_t i = 0; i < list->n; i++)
        rs_free(list->items[i].name);
    rs_free(list->items);
}

static rs_status add_member(members *list, const char *folder, const char *name, rs_error *err)
{
    const char *words;
    char *path = rs_path_join(folder, name);
    if (!path) return rs_fail_memory(err, folder, 0);
    member m = {.step = rs_series_step(name, &words, &m.n_words)};
    rs_status status = RS_OK;
    bool taken = rs_is_folder(path);
    if (taken) status = holds_model(&m.model, path, m.step >= 0, err);
    rs_free(path);
    if (status != RS_OK || !taken || (m.step < 0 && !m.model)) return status;
    if (!RS_GROW(list->items, list->n, list->capacity)) return rs_fail_memory(err, folder, 0);
    m.name = rs_strdup(name);
    if (!m.name) return rs_fail_memory(err, folder, 0);
    list->items[list->n++] = m;
    return RS_OK;
}

/* By the words before the number, then by the number, then by name: families stand together. */
static int by_family(const void *a, const void *b)
{
    const member *x = a, *y = b;
    if ((x->step < 0) != (y->step < 0)) return x->step < 0 ? 1 : -1;
    size_t n = x->n_words < y->n_words ? x->n_words : y->n_words;
    int words = memcmp(x->name, y->name, n);
    if (words) return words;
    if (x->n_words != y->n_words) return x->n_words < y->n_words ? -1 : 1;
    if (x->step != y->step) return x->step < y->step ? -1 : 1;
    return strcmp(x->name, y->name);
}

static bool same_family(const member *x, const member *y)
{
    return x->step >= 0 && y->step >= 0 && x->n_words == y->n_words &&
           memcmp(x->name, y->name, x->n_words) == 0;
}

static rs_status list_members(members *list, const char *folder, rs_error *err)
{
    DIR *directory = opendir(folder);
    if (!directory) return RS_OK; /* who opens it as a checkpoint says why */
    rs_status status = RS_OK;
    const struct dirent *entry;
    while (status == RS_OK && (errno = 0, entry = readdir(directory)) != NULL)
        if (entry->d_name[0] != '.') status = add_member(list, folder, entry->d_name, err);
    if (status == RS_OK && errno != 0)
        status = rs_fail(err, RS_E_READ, folder, NULL, "the folder cannot be listed: %s",
                         strerror(errno));
    closedir(directory);
    if (list->n > 1) qsort(list->items, list->n, sizeof *list->items, by_family);
    return status;
}

/* The family with the most checkpoints, of equals the first: [*begin, *end); empty where none has any. Returns
 * how many it has. */
static size_t choose_family(size_t *begin, size_t *end, const members *list)
{
    size_t most = 0;
    *begin = *end = 0;
    for (size_t i = 0, next; i < list->n; i = next) {
        size_t models = list->items[i].step >= 0 && list->items[i].model;
        for (next = i + 1; next < list->n && same_family(&list->items[i], &list->items[next]);)
            models += list->items[next++].model;
        if (models <= most) continue;
        most = models;
        *begin = i;
        *end = next;
    }
    return most;
}

/* ---- the list ---- */

/* Slashes behind a path, which make its last name empty, are cut off. */
static rs_status add_entry(rs_series_list *list, char *path, rs_error *err)
{
    const char *words;
    size_t n_words;
    if (!path) return rs_fail_memory(err, "checkpoints", 0);
    for (size_t n = strlen(path); n > 1 && path[n - 1] == '/'; n--)
        path[n - 1] = '\0';
    if (!RS_GROW(list->items, list->n, list->capacity)) {
        rs_free(path);
        return rs_fail_memory(err, "checkpoints", 0);
    }
    list->items[list->n++] =
        (rs_series_entry){.path = path, .step = rs_series_step(path, &words, &n_words)};
    return RS_OK;
}

/* Says which folders of the run are not of the family that was taken. */
static rs_status note_others(rs_notes *notes, const members *list, const char *folder, size_t begin,
                             size_t end, rs_error *err)
{
    enum { MOST_NAMED = 8 };
    rs_buffer names = {0};
    size_t n = 0;
    for (size_t i = 0; i < list->n; i++) {
        if ((i >= begin && i < end) || !list->items[i].model) continue;
        if (n++ < MOST_NAMED)
            rs_buffer_printf(&names, "%s%s", n > 1 ? ", " : "", list->items[i].name);
    }
    if (n > MOST_NAMED) rs_buffer_printf(&names, " and %zu more", n - MOST_NAMED);
    rs_status status = names.failed ? rs_fail_memory(err, folder, 0) : RS_OK;
    if (n > 0 && status == RS_OK)
        status = rs_notes_say(notes, err, RS_INFO, "skipped_file",
                              "name the folders themselves to have them in the series",
                              "%.200s: passed over for %.*s...: %.700s", folder,
                              (int)list->items[begin].n_words, list->items[begin].name, names.data);
    rs_buffer_free(&names);
    return status;
}

/* Adds the checkpoints of a run; *found: there are any. */
static rs_status add_run(rs_series_list *list, bool *found, const char *folder, rs_error *err)
{
    members inside = {0};
    size_t begin, end;
    rs_status status = list_members(&inside, folder, err);
    choose_family(&begin, &end, &inside);
    *found = status == RS_OK && end > begin;
    for (size_t i = begin; i < end && status == RS_OK; i++)
        status = add_entry(list, rs_path_join(folder, inside.items[i].name), err);
    if (*found && status == RS_OK)
        status = note_others(&list->notes, &inside, folder, begin, end, err);
    free_members(&inside);
    return status;
}

/* Says that a checkpoint's folder holds those of a run, too, which are passed over. */
static rs_status note_inside(rs_series_list *list, const char *folder, rs_error *err)
{
    members inside = {0};
    size_t begin, end;
    rs_status status = list_members(&inside, folder, err);
    choose_family(&begin, &end, &inside);
    if (status == RS_OK && end - begin > 1)
        status =
            rs_notes_say(&list->notes, err, RS_INFO, "skipped_file",
                         "name them, or their folder without weights beside them, to have a "
                         "series",
                         "%.300s has weights of its own, which are scanned; passed over are "
                         "%zu checkpoints inside, %.100s to %.100s",
                         folder, end - begin, inside.items[begin].name, inside.items[end - 1].name);
    free_members(&inside);
    return status;
}

/* How many checkpoints the largest family of a folder has. */
static rs_status count_family(size_t *n, const char *folder, rs_error *err)
{
    members inside = {0};
    size_t begin, end;
    *n = 0;
    if (!rs_is_folder(folder)) return RS_OK;
    rs_status status = list_members(&inside, folder, err);
    if (status == RS_OK) *n = choose_family(&begin, &end, &inside);
    free_members(&inside);
    return status;
}

/* Adds the checkpoints of a run's folder, or of `checkpoints` in it, whichever has more in one family. */
static rs_status add_run_of_two(rs_series_list *list, bool *found, const char *folder,
                                const char *inner, rs_error *err)
{
    size_t here = 0, there;
    RS_TRY(count_family(&there, inner, err));
    if (there > 0) RS_TRY(count_family(&here, folder, err));
    const char *taken = there > here ? inner : folder;
    RS_TRY(add_run(list, found, taken, err));
    if (here == 0 || there == 0) return RS_OK;
    return rs_notes_say(
        &list->notes, err, RS_INFO, "skipped_file",
        "name the folders themselves to have them in the series",
        "%.300s: passed over for %.300s: its largest family has %zu checkpoints, that "
        "one's %zu",
        there > here ? folder : inner, taken, there > here ? here : there,
        there > here ? there : here);
}

/* Adds what one path means; *run: it is the folder of a run. */
static rs_status add_path(rs_series_list *list, bool *run, const char *path, rs_error *err)
{
    bool model = true;
    *run = false;
    if (rs_is_folder(path)) {
        RS_TRY(holds_model(&model, path, false, err));
        if (model) RS_TRY(note_inside(list, path, err));
    }
    if (!model) {
        char *inner = rs_path_join(path, "checkpoints");
        if (!inner) return rs_fail_memory(err, path, 0);
        rs_status status = add_run_of_two(list, run, path, inner, err);
        rs_free(inner);
        RS_TRY(status);
    }
    return *run ? RS_OK : add_entry(list, rs_strdup(path), err);
}

/* ---- the order ---- */

/* Whether the numbers of all numbered names are of one family, of two members at least: one number
 * (mamba2) gives no order. */
static bool one_family(const rs_series_list *list)
{
    const char *words = NULL;
    size_t n_words = 0, numbered = 0;
    for (size_t i = 0; i < list->n; i++) {
        const char *own;
        size_t n_own;
        if (rs_series_step(list->items[i].path, &own, &n_own) < 0) continue;
        if (words && (n_own != n_words || memcmp(own, words, n_own) != 0)) return false;
        words = own;
        n_words = n_own;
        numbered++;
    }
    return numbered > 1;
}

/* An entry with the place that it was given at. */
typedef struct placed {
    rs_series_entry entry;
    size_t place;
} placed;

static int by_step(const void *a, const void *b)
{
    const placed *x = a, *y = b;
    bool x_has = x->entry.step >= 0, y_has = y->entry.step >= 0;
    if (x_has != y_has) return x_has ? -1 : 1;
    if (x_has && x->entry.step != y->entry.step) return x->entry.step < y->entry.step ? -1 : 1;
    return x->place < y->place ? -1 : x->place > y->place;
}

/* Of two entries of one step: are they two checkpoints, or one that was named twice? */
static rs_status note_repeated(rs_series_list *list, const rs_series_entry *one,
                               const rs_series_entry *other, rs_error *err)
{
    if (strcmp(one->path, other->path) == 0)
        return rs_notes_say(&list->notes, err, RS_WARN, "repeated_step",
                            "name each checkpoint once",
                            "%.200s is named more than once: all stand in the order in which they "
                            "were given",
                            one->path);
    return rs_notes_say(
        &list->notes, err, RS_WARN, "repeated_step",
        "scan each run by itself; 'rankscope compare A B' sets two checkpoints "
        "side by side",
        "step %lld comes more than once: these are checkpoints of several runs, and "
        "stand in the order in which they were given",
        (long long)one->step);
}

/* The place of an entry, sorted, of which the one before has the step; 0: there is none. One of another path
 * comes before one that was named twice. */
static size_t repeated(const placed *all, size_t n)
{
    size_t found = 0;
    for (size_t i = 1; i < n; i++) {
        if (all[i].entry.step < 0 || all[i].entry.step != all[i - 1].entry.step) continue;
        if (strcmp(all[i].entry.path, all[i - 1].entry.path) != 0) return i;
        found = i;
    }
    return found;
}

/* Sorts where the numbers give an order, and says where they do not. */
static rs_status put_in_order(rs_series_list *list, rs_error *err)
{
    if (!one_family(list)) {
        for (size_t i = 0; i < list->n; i++)
            list->items[i].step = -1;
        return RS_OK;
    }
    placed *all = rs_malloc(list->n, sizeof *all);
    if (!all) return rs_fail_memory(err, "checkpoints", list->n * sizeof *all);
    for (size_t i = 0; i < list->n; i++)
        all[i] = (placed){list->items[i], i};
    qsort(all, list->n, sizeof *all, by_step);
    size_t twice = repeated(all, list->n);
    list->steps = twice == 0;
    for (size_t i = 0; i < list->n && list->steps; i++)
        list->items[i] = all[i].entry;
    rs_status status = RS_OK;
    if (twice) status = note_repeated(list, &all[twice - 1].entry, &all[twice].entry, err);
    rs_free(all);
    return status;
}

rs_status rs_series_list_make(rs_series_list *list, bool *is_series, const char *const *paths,
                              size_t n, rs_error *err)
{
    *is_series = n > 1;
    for (size_t i = 0; i < n; i++) {
        bool run;
        RS_TRY(add_path(list, &run, paths[i], err));
        *is_series |= run;
    }
    return put_in_order(list, err);
}

void rs_series_list_free(rs_series_list *list)
{
    for (size_t i = 0; i < list->n; i++)
        rs_free(list->items[i].path);
    rs_free(list->items);
    rs_notes_free(&list->notes);
    *list = (rs_series_list){0};
}
