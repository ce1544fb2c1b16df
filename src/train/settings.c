/* settings.c: a task's name or file to checked settings. */
#include "train/settings.h"
#include "train/settings_parts.h"

#include "base/json_parse.h"
#include "base/mapping.h"
#include "checkpoint/checkpoint.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- the task's own settings ---- */

static const char *named_text(const char *name)
{
    for (const rs_named_task *task = rs_named_tasks; task->name; task++)
        if (strcmp(task->name, name) == 0) return task->text;
    return NULL;
}

static rs_status refuse_task(const char *path, const char *name, rs_error *err)
{
    const char *known[32];
    size_t n = 0;
    for (; rs_named_tasks[n].name && n < 31; n++)
        known[n] = rs_named_tasks[n].name;
    known[n] = NULL;
    char hint[96];
    snprintf(hint, sizeof hint, "did you mean \"%s\"?", rs_nearest_name(name, known));
    return rs_fail(err, RS_E_TASK_SCHEMA, path, hint, "there is no task \"%.80s\"", name);
}

static rs_status parse_named(json_t **out, const char *name, rs_error *err)
{
    char *text = rs_strdup(named_text(name));
    if (!text) return rs_fail_memory(err, "a task", 1);
    for (char *c = text; *c; c++)
        if (*c == '\'') *c = '"';
    json_error_t why;
    *out = rs_json_parse(text, strlen(text), JSON_REJECT_DUPLICATES, &why);
    rs_free(text);
    return *out ? RS_OK : rs_fail_memory(err, "a task", 1);
}

/* ---- what holds between fields ---- */

static rs_status put_size(const rs_train_reader *r, const char *field, int64_t least)
{
    rs_train_settings *s = r->settings;
    const json_t *given = json_object_get(s->model, field);
    if (!given) {
        bool failed = json_object_set_new(s->model, field, json_integer(least)) != 0;
        return failed ? rs_fail_memory(r->err, "a task file", 1) : RS_OK;
    }
    if (json_is_integer(given) && json_integer_value(given) >= least) return RS_OK;
    char wanted[64];
    snprintf(wanted, sizeof wanted, "%lld or more, for this task,", (long long)least);
    return rs_train_bad_value(r, field, wanted, given);
}

/* What the task says of the way in, as the architecture says it. */
static rs_status put_embed(const rs_train_reader *r)
{
    static const char *const maps[] = {"none", "linear", "mlp"};
    const rs_train_settings *s = r->settings;
    if (s->embed_map == RS_EMBED_NONE && !s->embed_norm) return RS_OK;
    if (s->embed_width && s->embed_map != RS_EMBED_MLP)
        return rs_fail(r->err, RS_E_TASK_SCHEMA, s->path,
                       "set embed.width to 0, or embed.map to \"mlp\"",
                       "\"embed.width\" is %lld; a map that is \"%s\" has no width inside",
                       (long long)s->embed_width, maps[s->embed_map]);
    json_t *embed = json_pack("{sssIsb}", "map", maps[s->embed_map], "map_width",
                              (json_int_t)s->embed_width, "norm", (int)s->embed_norm);
    if (!s->shape.vocab && embed &&
        json_object_set_new(embed, "width", json_integer(s->shape.d_in)) != 0) {
        json_decref(embed);
        embed = NULL;
    }
    return json_object_set_new(s->model, s->shape.vocab ? "embed" : "rows", embed) == 0
               ? RS_OK
               : rs_fail_memory(r->err, "a task file", 1);
}

static rs_status check_loss(const rs_train_reader *r)
{
    rs_train_settings *s = r->settings;
    bool reals = s->shape.target == RS_TARGET_REALS;
    if (s->loss == RS_TRAIN_LOSS_AUTO)
        s->loss = reals ? RS_TRAIN_LOSS_SQUARED : RS_TRAIN_LOSS_CROSS_ENTROPY;
    if (reals && s->loss == RS_TRAIN_LOSS_CROSS_ENTROPY)
        return rs_fail(r->err, RS_E_TASK_SCHEMA, s->path, "choose \"squared\"",
                       "the targets of %s are numbers, which have no cross-entropy", s->task);
    return RS_OK;
}

rs_status rs_train_settle(const rs_train_reader *r)
{
    rs_train_settings *s = r->settings;
    RS_TRY(check_loss(r));
    if (!s->shape.vocab && s->embed_map == RS_EMBED_NONE && s->model)
        return rs_fail(r->err, RS_E_TASK_SCHEMA, s->path, "give \"embed\": {\"map\": \"linear\"}",
                       "tokens of %s are rows of %lld numbers: something must map them in", s->task,
                       (long long)s->shape.d_in);
    if (!s->model) return RS_OK;
    RS_TRY(put_embed(r));
    RS_TRY(put_size(r, "seq_len", s->shape.n_tok));
    if (s->shape.vocab) RS_TRY(put_size(r, "vocab", s->shape.vocab));
    return s->shape.d_out != s->shape.vocab ? put_size(r, "outputs", s->shape.d_out) : RS_OK;
}

static rs_status check_settings(const rs_train_reader *r, const json_t *json)
{
    rs_train_settings *s = r->settings;
    if (!json_object_get(json_object_get(json, "schedule"), "steps")) s->schedule.steps = s->steps;
    if (!isinf(s->clip) && !isinf(s->clip_each))
        return rs_fail(r->err, RS_E_TASK_SCHEMA, s->path, "set one of them to null",
                       "gradients are clipped by \"clip\" or by \"clip_each\", not by both");
    if (!s->kind) return RS_OK; /* rs_train_open_task knows */
    RS_TRY(s->kind->shape(&s->shape, &s->data, s->path, r->err));
    return rs_train_settle(r);
}

/* ---- opening ---- */

static void set_defaults(rs_train_settings *s, const char *task)
{
    *s = (rs_train_settings){
        .arena = s->arena,
        .steps = 1000,
        .batch = 32,
        .accumulate = 1,
        .rule = {RS_OPTIMISER_ADAMW, {0.9, 0.999}, 1e-8},
        .lr = 1e-3,
        .clip = INFINITY,
        .clip_each = INFINITY,
        .schedule = {.factor = 0.1},
        .temperature = {1, 1, 0},
        .log_every = 50,
        .rank_every = 50,
        .probe_samples = 8,
        .keep = 2,
        .alarms = {0.05, 1e-3, 0.6, 0.6, 0.03, 3, 200},
        .files = {.patch = 4,
                  .horizon = 1,
                  .mask_rate = 0.15,
                  .eval_share = 0.1,
                  .at = strcmp(task, "image") == 0 ? RS_AT_ALL : RS_AT_LAST},
        .data = {.length = 128},
    };
}

/* json: the whole of it, the task's own settings included. */
static rs_status read_settings(rs_train_settings *s, const json_t *json, const char *path,
                               rs_error *err)
{
    const char *task = json_string_value(json_object_get(json, "task"));
    set_defaults(s, task);
    rs_train_reader r = {s, err};
    s->path = rs_arena_strdup(s->arena, path);
    s->task = rs_arena_strdup(s->arena, task);
    if (!s->path || !s->task) return rs_fail_memory(err, "a task file", strlen(path));
    s->kind = rs_task_find(task);
    if (s->kind) s->data = s->kind->data;
    RS_TRY(rs_train_read_fields(&r, json, rs_train_fields, NULL, ""));
    return check_settings(&r, json);
}

/* The overrides that say which task it is, whose settings the others change, or those others. */
static rs_status set_all(json_t *json, const char *const *sets, size_t n_sets, bool task,
                         rs_error *err)
{
    for (size_t i = 0; i < n_sets; i++)
        if ((strncmp(sets[i], "task=", 5) == 0) == task) RS_TRY(rs_train_set(json, sets[i], err));
    return RS_OK;
}

static rs_status merge_all(json_t **out, const json_t *json, const char *path,
                           const char *const *sets, size_t n_sets, rs_error *err)
{
    *out = NULL;
    json_t *user = json_deep_copy(json);
    if (!user) return rs_fail_memory(err, "a task file", 1);
    rs_status status = set_all(user, sets, n_sets, true, err);
    const char *task = json_string_value(json_object_get(user, "task"));
    if (status == RS_OK && !task)
        status = rs_fail(err, RS_E_TASK_SCHEMA, path, "give \"task\", such as \"sorting\"",
                         "a task file says which task it is");
    if (status == RS_OK && !named_text(task)) status = refuse_task(path, task, err);
    if (status == RS_OK) status = parse_named(out, task, err);
    if (status == RS_OK && !rs_train_merge(*out, user))
        status = rs_fail_memory(err, "a task file", 1);
    if (status == RS_OK) status = set_all(*out, sets, n_sets, false, err);
    json_decref(user);
    return status;
}

rs_status rs_train_settings_read(rs_train_settings **out, const json_t *json, const char *path,
                                 const char *const *sets, size_t n_sets, rs_error *err)
{
    *out = NULL;
    if (!json_is_object(json))
        return rs_fail(err, RS_E_TASK_SCHEMA, path, NULL, "a task file is a JSON object");
    json_t *all = NULL;
    rs_memory_watch_json();
    int64_t failures = rs_memory_failures();
    rs_status status = merge_all(&all, json, path, sets, n_sets, err);
    rs_train_settings *s = status == RS_OK ? rs_calloc(1, sizeof *s) : NULL;
    if (s) s->arena = rs_arena_new();
    if (status == RS_OK && (!s || !s->arena)) status = rs_fail_memory(err, "settings", sizeof *s);
    if (status == RS_OK) status = read_settings(s, all, path, err);
    json_decref(all);
    if (status == RS_OK) status = rs_memory_check(failures, "settings", err);
    if (status != RS_OK)
        rs_train_settings_close(s);
    else
        *out = s;
    return status;
}

rs_status rs_train_parse_file(json_t **out, const char *path, rs_error *err)
{
    rs_mapping *mapping;
    RS_TRY(rs_mapping_open(&mapping, path, err));
    rs_status status = rs_config_parse(out, path, (const char *)mapping->data, mapping->size, err);
    if (status == RS_OK) status = rs_mapping_check(mapping, err);
    rs_mapping_close(mapping);
    return status;
}

rs_status rs_train_settings_open(rs_train_settings **out, const char *input,
                                 const char *const *sets, size_t n_sets, rs_error *err)
{
    *out = NULL;
    rs_memory_watch_json();
    json_t *json = NULL;
    bool file = strchr(input, '/') || strchr(input, '.');
    if (!file && !named_text(input)) return refuse_task(input, input, err);
    rs_status status = file ? rs_train_parse_file(&json, input, err) : RS_OK;
    if (!file) json = json_pack("{ss}", "task", input);
    if (status == RS_OK && !json) status = rs_fail_memory(err, "a task", 1);
    if (status == RS_OK) status = rs_train_settings_read(out, json, input, sets, n_sets, err);
    json_decref(json);
    return status;
}

void rs_train_settings_close(rs_train_settings *settings)
{
    if (!settings) return;
    json_decref(settings->model);
    rs_arena_free(settings->arena);
    rs_free(settings);
}

rs_status rs_train_settings_renew(json_t **out, const json_t *old, rs_error *err)
{
    rs_train_settings *own = NULL;
    json_t *name = json_object(), *task = json_object_get(old, "task");
    *out = NULL;
    if (!name || json_object_set(name, "task", task) != 0) {
        json_decref(name);
        return rs_fail_memory(err, "settings", 1);
    }
    rs_status status = rs_train_settings_read(&own, name, "settings", NULL, 0, err);
    json_decref(name);
    if (status == RS_E_TASK_SCHEMA) *out = json_object(); /* a task that is no more adds nothing */
    if (status == RS_OK) *out = rs_train_settings_write(own);
    rs_train_settings_close(own);
    if (status != RS_OK && status != RS_E_TASK_SCHEMA) return status;
    (void)json_object_del(*out, "model");
    if (*out && rs_train_merge(*out, old)) return RS_OK;
    json_decref(*out);
    *out = NULL;
    return rs_fail_memory(err, "settings", 1);
}
