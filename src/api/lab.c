/* lab.c: rs_lab. */
#include "lab/lab.h"
#include "api/command.h"
#include "base/memory.h"
#include "lab/kept_runs.h"
#include "observe/opened.h"
#include "probe/probe.h"

#include <string.h>

/* Windows that a model is run on, at most; they are as long as probe's. */
enum { WINDOWS = 32, QUICK_WINDOWS = 4 };

/* The models that were named, in that order. */
typedef struct named_models {
    char *names; /* the list, cut at its commas */
    int32_t n, open;
    rs_lab_model *models; /* [n] */
    rs_opened *opened;    /* [n] the last `open` of them */
} named_models;

static void close_models(named_models *all)
{
    for (int32_t m = all->n - all->open; m < all->n; m++)
        rs_opened_close(&all->opened[m]);
    rs_free(all->names);
    rs_free(all->models);
    rs_free(all->opened);
}

/* PATH[,PATH...]: the paths stay in all->names. */
static rs_status cut_names(named_models *all, const char *list, rs_error *err)
{
    size_t length = strlen(list);
    all->n = 1;
    for (const char *c = list; *c; c++)
        all->n += *c == ',';
    all->names = rs_malloc(length + 1, 1);
    all->models = rs_calloc((size_t)all->n, sizeof *all->models);
    all->opened = rs_calloc((size_t)all->n, sizeof *all->opened);
    if (!all->names || !all->models || !all->opened)
        return rs_fail_memory(err, "models", length + 1);
    memcpy(all->names, list, length + 1);
    char *at = all->names;
    for (int32_t m = 0; m < all->n; m++) {
        all->models[m].path = at;
        at += strcspn(at, ",");
        *at++ = 0;
        if (!all->models[m].path[0])
            return rs_fail(err, RS_E_USAGE, "model", "name paths, with a comma between two",
                           "a path in \"%s\" is empty", list);
    }
    return RS_OK;
}

static rs_status open_model(rs_opened *o, rs_lab_model *model, rs_result *result,
                            const rs_lab_settings *s, const rs_context *context, rs_error *err)
{
    rs_probe_options options; /* what a sweep holds is within what a probe of the tokens holds */
    rs_probe_defaults(&options);
    options.measure.attention = options.measure.loss = options.measure.spectral = false;
    options.measure.mixing = RS_MIXING_NONE;
    const int64_t windows = s->quick ? QUICK_WINDOWS : WINDOWS;
    const rs_input_source random = {.random = windows};
    const rs_input_source text = {.texts = &s->text, .n_texts = 1, .samples = windows};
    const rs_open_request request = {.path = model->path,
                                     .source = s->text ? text : random,
                                     .need = rs_probe_need,
                                     .options = &options};
    RS_TRY(rs_opened_open(o, result, rs_result_files(result), &request, context, err));
    model->network = o->network;
    model->inputs = o->inputs;
    model->trained = o->checkpoint != NULL;
    return RS_OK;
}

static rs_status run_models(rs_result *result, named_models *all, const rs_lab_settings *s,
                            const rs_lab_options *options, const rs_context *context, rs_error *err)
{
    RS_TRY(cut_names(all, s->model, err));
    /* before a model is opened */
    RS_TRY(rs_lab_check(s->experiment, all->n, s->data != NULL, err));
    /* The first one is opened last, so that meta "model" is its. */
    while (all->open < all->n) {
        int32_t m = all->n - 1 - all->open++;
        RS_TRY(open_model(&all->opened[m], &all->models[m], result, s, context, err));
    }
    rs_lab_options lab = *options;
    lab.model = all->models;
    lab.n_models = all->n;
    RS_TRY(rs_lab_run(result, s->experiment, &lab, context, err));
    for (int32_t m = 0; m < all->n; m++)
        RS_TRY(rs_verify_checkpoint(result, all->opened[m].checkpoint, err));
    return RS_OK;
}

/* What only the running of an experiment has a use for. */
static rs_status check_list(const rs_lab_settings *s, rs_error *err)
{
    if (s->text && !s->model)
        return rs_fail(err, RS_E_USAGE, "text", "name a model, too: --model PATH",
                       "there is no model to read it");
    if (s->experiment) return RS_OK;
    if (s->model) return rs_fail(err, RS_E_USAGE, "model", "leave it out", "a list runs no model");
    if (s->db) return rs_fail(err, RS_E_USAGE, "db", "leave it out", "a list trains nothing");
    if (s->data) return rs_fail(err, RS_E_USAGE, "data", "leave it out", "a list trains nothing");
    return RS_OK;
}

static rs_status fill(rs_result *result, const rs_task *task, rs_error *err)
{
    const rs_lab_settings *s = &task->settings->lab;
    rs_lab_options options = {
        .quick = s->quick, .seeds = s->seeds, .named_text = s->text, .named_data = s->data};
    named_models all = {0};
    rs_lab_data data = {0};
    rs_result_show(result, s->experiment ? "claims" : "experiments");
    RS_TRY(check_list(s, err));
    if (!s->experiment) return rs_lab_list(result, err);
    /* before a file is made */
    RS_TRY(rs_lab_check(s->experiment, 0, s->data != NULL, err));
    if (s->data) options.data = &data;
    rs_status status =
        s->data ? rs_lab_data_open(&data, s->data, rs_result_files(result), err) : RS_OK;
    if (status == RS_OK && s->db) status = rs_kept_runs_open(&options.kept, s->db, err);
    if (status == RS_OK)
        status = s->model ? run_models(result, &all, s, &options, task->context, err)
                          : rs_lab_run(result, s->experiment, &options, task->context, err);
    rs_kept_runs_close(options.kept);
    rs_lab_data_close(&data);
    close_models(&all);
    return status;
}

static const rs_command command = {.name = "lab", .size = sizeof(rs_lab_settings), .fill = fill};

void rs_lab_settings_init(rs_lab_settings *settings, size_t size)
{
    rs_settings_init(settings, size, &command);
}

rs_status rs_lab(rs_result **out, const rs_lab_settings *settings, rs_error *err)
{
    return rs_answer_path(out, &command, NULL, settings, err);
}
