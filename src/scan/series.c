/* series.c: one checkpoint after another: opened, measured, written down, closed. */
#include "scan/series_parts.h"

#include "base/memory.h"
#include "network/saved.h"

#include <stdio.h>
#include <string.h>

/* ---- one checkpoint ---- */

static rs_status measure(rs_series_read *read, const json_t *map, const rs_series *s,
                         const rs_context *context, const rs_scan_options *options, rs_error *err)
{
    RS_TRY(rs_checkpoint_model(&read->model, read->checkpoint, map, s->request->map, err));
    RS_TRY(rs_heads_measure(&read->heads, read->model, &options->heads, context, err));
    if (read->heads->n == 0) return rs_scan_no_product(read->model, err);
    RS_TRY(rs_scan_judge(read->scan, read->model, read->heads, options, err));
    RS_TRY(rs_result_add_notes(read->scan, &read->checkpoint->notes, err));
    RS_TRY(rs_result_add_notes(read->scan, &read->model->notes, err));
    return rs_verify_checkpoint(read->scan, read->checkpoint, err);
}

static rs_status open_one(rs_series_read *read, rs_input_files *inputs, const json_t *map,
                          const rs_series *s, const rs_context *context,
                          const rs_scan_options *options, rs_error *err)
{
    const rs_checkpoint_options how = {.lenient = s->request->lenient};
    const char *path = read->entry->path;
    rs_status status = rs_checkpoint_open(&read->checkpoint, path, &how, err);
    if (status != RS_OK) RS_TRY(rs_input_files_model(inputs, path, err));
    RS_TRY(status);
    RS_TRY(rs_scan_note_inputs(inputs, read->checkpoint, path, err));
    read->scan = rs_result_new("scan");
    if (!read->scan) return rs_fail_memory(err, "result", 0);
    return measure(read, map, s, context, options, err);
}

static void close_one(rs_series_read *read)
{
    rs_result_free(read->scan);
    rs_heads_free(read->heads);
    rs_model_close(read->model);
    rs_checkpoint_close(read->checkpoint);
}

/* What is not about this checkpoint: the run, the machine, or what was asked for. */
static bool is_fatal(rs_status status)
{
    static const rs_status fatal[] = {RS_E_NO_MEMORY,  RS_E_WRITE,       RS_E_INTERNAL,
                                      RS_E_LAPACK,     RS_E_USAGE,       RS_E_INTERRUPTED,
                                      RS_E_BAD_OPTION, RS_E_MEMORY_LIMIT};
    for (size_t i = 0; i < sizeof fatal / sizeof *fatal; i++)
        if (fatal[i] == status) return true;
    return false;
}

static rs_status skip(rs_series *s, const rs_series_entry *entry, const rs_error *why,
                      rs_error *err)
{
    char message[2000];
    if (s->n_skipped++ == 0) s->first = *why;
    snprintf(message, sizeof message, "%.200s was skipped: %.500s: %.1000s [%s]", entry->path,
             why->where, why->what, rs_status_name(why->status));
    rs_finding f = rs_finding_of(RS_WARN, "skipped_checkpoint");
    f.message = message;
    f.hint = why->hint[0] ? why->hint : "where it is still being written, run again later";
    f.table = "checkpoints";
    f.cases = "checkpoints";
    f.of = (int64_t)s->list.n;
    RS_TRY(rs_result_add_finding(s->result, &f, err));
    return rs_series_list_row(s, entry, NULL, why, err);
}

/* What was measured becomes rows; its findings stay until the next has been read. */
static rs_status take(rs_series *s, rs_series_read *read, rs_error *err)
{
    RS_TRY(rs_series_note(s, read, err));
    RS_TRY(rs_series_list_row(s, read->entry, read, NULL, err));
    if (s->last) RS_TRY(rs_series_changes(s, read->entry, s->last, read->scan, err));
    json_t *model = rs_scan_model_object(read->model);
    if (!model) return rs_fail_memory(err, "result", 0);
    json_decref(s->model);
    s->model = model;
    rs_result_free(s->last);
    s->last = read->scan;
    read->scan = NULL;
    s->read[s->n_read++] = read->entry;
    return RS_OK;
}

/* ---- progress: products of all checkpoints, the rest taken for as many as this one has ---- */

typedef struct watch {
    const rs_context *context;
    uint64_t before;    /* products of the checkpoints before */
    uint64_t done;      /* of this one */
    uint64_t remaining; /* checkpoints from this one on */
} watch;

static void tell(void *user, const char *phase, uint64_t done, uint64_t total, const char *unit)
{
    watch *w = user;
    (void)phase;
    w->done = done;
    rs_progress(w->context, "series", w->before + done, w->before + w->remaining * total, unit);
}

/* ---- all of them ---- */

static rs_status read_all(rs_series *s, rs_input_files *inputs, const json_t *map,
                          const rs_context *context, rs_null_cache *nulls, rs_error *err)
{
    rs_scan_options options = s->request->options;
    watch w = {.context = context};
    rs_context own = *context;
    own.progress = context->progress ? tell : NULL;
    own.progress_user = &w;
    if (!options.heads.nulls) options.heads.nulls = nulls;
    for (size_t i = 0; i < s->list.n; i++) {
        rs_series_read read = {.entry = &s->list.items[i]};
        rs_error why = {0};
        RS_TRY(rs_check_cancelled(context, err));
        w = (watch){context, w.before + w.done, 0, s->list.n - i};
        rs_status status = open_one(&read, inputs, map, s, &own, &options, &why);
        bool lost = status != RS_OK && is_fatal(status);
        if (status == RS_OK)
            status = take(s, &read, &why);
        else if (!lost)
            status = skip(s, read.entry, &why, &why);
        close_one(&read);
        if (status != RS_OK && err) *err = why;
        if (status != RS_OK) return status;
    }
    return RS_OK;
}

static rs_status none_left(const rs_series *s, rs_error *err)
{
    const rs_error *first = &s->first;
    rs_status status = rs_status_exit_code(first->status) == 2 ? first->status : RS_E_NO_CHECKPOINT;
    return rs_fail(err, status, first->where, first->hint[0] ? first->hint : NULL,
                   "none of %zu checkpoints could be read; of %.200s: %.600s", s->list.n,
                   s->list.items[0].path, first->what);
}

/* Names those that appeared in the folder of a run since its list was made. */
static rs_status say_newer(rs_series *s, const char *const *paths, size_t n, rs_error *err)
{
    rs_series_list now = {0};
    rs_strmap known = {0};
    bool series, existed, fine = true;
    size_t newer = 0, at = 0;
    rs_status status = rs_series_list_make(&now, &series, paths, n, err);
    for (size_t i = 0; i < s->list.n && fine; i++)
        fine = rs_strmap_insert(&known, s->list.items[i].path, strlen(s->list.items[i].path), 1,
                                &existed);
    for (size_t i = 0; i < now.n && status == RS_OK; i++) {
        if (rs_strmap_get(&known, now.items[i].path, strlen(now.items[i].path), 0)) continue;
        if (newer++ == 0) at = i;
    }
    if (!fine && status == RS_OK) status = rs_fail_memory(err, "series", 0);
    if (newer > 0 && status == RS_OK) {
        char message[700];
        snprintf(message, sizeof message,
                 "%zu checkpoint%s appeared while the series was read: %.500s%s", newer,
                 newer == 1 ? "" : "s", now.items[at].path, newer == 1 ? "" : " and others");
        rs_finding f = rs_finding_of(RS_INFO, "newer_checkpoint");
        f.value = (double)newer;
        f.message = message;
        f.hint = "run again to have them in the series";
        status = rs_result_add_finding(s->result, &f, err);
    }
    rs_strmap_free(&known);
    rs_series_list_free(&now);
    return status;
}

/* A series of one is a scan: it is read again with all that a scan says. */
static rs_status scan_the_one(rs_series *s, rs_input_files *inputs, const rs_context *context,
                              rs_error *err)
{
    rs_scan_request one = *s->request;
    one.path = s->n_read ? s->read[0]->path : s->list.items[0].path;
    one.n_others = 0;
    return rs_scan_path(s->result, inputs, &one, context, err);
}

static rs_status set_meta(rs_series *s, rs_error *err)
{
    json_t *model = s->model;
    s->model = NULL;
    RS_TRY(rs_result_set_meta(s->result, "model", model, err));
    json_t *about = json_pack("{s:I, s:I, s:s, s:s}", "checkpoints", (json_int_t)s->n_read,
                              "skipped", (json_int_t)s->n_skipped, "first", s->read[0]->path,
                              "last", s->read[s->n_read - 1]->path);
    if (!about) return rs_fail_memory(err, "result", 0);
    return rs_result_set_meta(s->result, "series", about, err);
}

static rs_status finish(rs_series *s, rs_error *err)
{
    RS_TRY(set_meta(s, err));
    RS_TRY(rs_series_judge(s, err));
    RS_TRY(rs_series_end_tables(s, err));
    RS_TRY(rs_series_findings(s, err));
    RS_TRY(rs_series_verdict(s, err));
    return rs_series_figures(s, err);
}

static rs_status fill(rs_series *s, rs_input_files *inputs, const char *const *paths, size_t n,
                      const rs_context *context, rs_error *err)
{
    json_t *map;
    rs_null_cache nulls = {0};
    s->read = rs_malloc(s->list.n, sizeof *s->read);
    if (!s->read) return rs_fail_memory(err, "series", s->list.n * sizeof *s->read);
    RS_TRY(rs_series_add_tables(s, err));
    RS_TRY(rs_scan_read_map(&map, s->request->map, err));
    rs_status status = read_all(s, inputs, map, context, &nulls, err);
    json_decref(map);
    rs_null_cache_close(&nulls);
    RS_TRY(status);
    if (s->n_read == 0) return none_left(s, err);
    RS_TRY(rs_result_add_notes(s->result, &s->list.notes, err));
    RS_TRY(say_newer(s, paths, n, err));
    return s->n_read == 1 ? scan_the_one(s, inputs, context, err) : finish(s, err);
}

/* What is about one checkpoint alone. */
static rs_status check_options(const rs_scan_options *o, rs_error *err)
{
    const struct {
        bool given;
        const char *name;
    } about[] = {
        {o->spectra, "spectra"}, {o->matrices != NULL, "matrices"}, {o->n_energies > 0, "energy"}};
    for (size_t i = 0; i < sizeof about / sizeof *about; i++)
        if (about[i].given)
            return rs_fail(err, RS_E_USAGE, about[i].name, "scan that checkpoint by itself",
                           "it is about one checkpoint, and these are several");
    return RS_OK;
}

rs_status rs_series_check_alone(const rs_scan_request *request, rs_error *err)
{
    rs_series_list list = {0};
    bool series = false;
    const char *paths[] = {request->path};
    rs_status status = rs_series_list_make(&list, &series, paths, 1, err);
    if (status == RS_OK && series && list.n > 1) status = check_options(&request->options, err);
    rs_series_list_free(&list);
    return status;
}

static rs_status follow(rs_series *s, rs_input_files *inputs, const char *const *paths, size_t n,
                        const rs_context *context, rs_error *err)
{
    bool series;
    RS_TRY(rs_series_list_make(&s->list, &series, paths, n, err));
    if (!series || s->list.n == 1) {
        RS_TRY(rs_result_add_notes(s->result, &s->list.notes, err));
        return scan_the_one(s, inputs, context, err);
    }
    RS_TRY(check_options(&s->request->options, err));
    return fill(s, inputs, paths, n, context, err);
}

rs_status rs_series_path(rs_result *result, rs_input_files *inputs, const rs_scan_request *request,
                         const rs_context *context, rs_error *err)
{
    rs_series s = {.request = request, .result = result, .seed = context->seed};
    size_t n = request->n_others + 1;
    const char **paths = rs_malloc(n, sizeof *paths);
    if (!paths) return rs_fail_memory(err, "paths", n * sizeof *paths);
    paths[0] = request->path;
    for (size_t i = 1; i < n; i++)
        paths[i] = request->others[i - 1];
    rs_status status = follow(&s, inputs, paths, n, context, err);
    rs_series_cells_free(&s);
    rs_series_list_free(&s.list);
    rs_result_free(s.last);
    json_decref(s.model);
    rs_free(s.read);
    rs_free(paths);
    return status;
}
