/* plan.c: what a run would be, before it is one: sizes, memory and the time that a few steps take. */
#include "train/train.h"

#include "base/clock.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct plan_row {
    const char *name, *unit, *says;
    double value;
} plan_row;

static const rs_column plan_columns[] = {
    RS_COLUMN(plan_row, name, "name", NULL, NULL, "what is counted", NULL),
    RS_COLUMN(plan_row, value, "value", NULL, NULL, "how much of it", NULL),
    RS_COLUMN(plan_row, unit, "unit", NULL, NULL, "of the value", NULL),
    RS_COLUMN(plan_row, says, "says", NULL, NULL, "what the number is made of", NULL),
};
enum { PLAN_COLUMNS = sizeof plan_columns / sizeof *plan_columns };

typedef struct task_row {
    const char *field, *value;
} task_row;

static const rs_column task_columns[] = {
    RS_COLUMN(task_row, field, "field", NULL, NULL, "as --set names it", NULL),
    RS_COLUMN(task_row, value, "value", NULL, NULL, "its setting, as JSON", NULL),
};
enum { TASK_COLUMNS = sizeof task_columns / sizeof *task_columns };

const rs_table_kind rs_train_plan_kind = {"train", "plan", {RS_PART(plan_columns)}};
const rs_table_kind rs_train_task_kind = {"train", "task", {RS_PART(task_columns)}};

/* ---- the task, field by field ---- */

static rs_status add_field(rs_table *table, rs_arena *arena, const char *name, const json_t *value,
                           rs_error *err)
{
    char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(12));
    const char *kept = text ? rs_arena_strdup(arena, text) : NULL;
    rs_memory_free_json(text);
    if (!kept) return rs_fail_memory(err, "the task", 1);
    const task_row row = {name, kept};
    return rs_table_append(table, &row, err);
}

static rs_status add_fields(rs_table *table, rs_arena *arena, const char *within, json_t *object,
                            rs_error *err)
{
    const char *key;
    json_t *value;
    json_object_foreach(object, key, value)
    {
        const char *name = rs_arena_printf(arena, "%s%s%s", within, *within ? "." : "", key);
        if (!name) return rs_fail_memory(err, "the task", 1);
        if (json_is_object(value) && json_object_size(value) > 0)
            RS_TRY(add_fields(table, arena, name, value, err));
        else
            RS_TRY(add_field(table, arena, name, value, err));
    }
    return RS_OK;
}

static rs_status add_task(rs_result *result, const rs_train_settings *s, rs_error *err)
{
    rs_table *table = NULL;
    RS_TRY(rs_result_add_table(result, "task", "The task", "Every field with its value.",
                               task_columns, TASK_COLUMNS, &table, err));
    json_t *json = rs_train_settings_write(s);
    if (!json) return rs_fail_memory(err, "the task", 1);
    rs_status status = add_fields(table, rs_result_arena(result), "", json, err);
    json_decref(json);
    return status;
}

/* ---- what a step takes ---- */

typedef struct measured {
    double seconds, bytes, products;
    int64_t parameters, tokens, tensors;
} measured;

/* Steps are made until a second has passed, the first one left out of the mean. Sizes are those of the
 * first batch, which is full: how many steps fit into a second must not change them. */
static rs_status time_steps(measured *out, rs_learner *l, rs_train_task *task, rs_task_batch *batch,
                            rs_error *err)
{
    enum { MOST = 50 };
    double begun = 0, now = 0;
    int64_t n = 0;
    for (; n <= MOST && (n < 2 || now - begun < 1); n++) {
        rs_batch_outcome outcome;
        RS_TRY(rs_check_cancelled(l->context, err));
        RS_TRY(rs_task_fill(batch, task, RS_TASK_TRAIN, n % (l->settings->steps + 1), err));
        for (int64_t i = 0; i < l->settings->accumulate; i++)
            RS_TRY(rs_learner_batch(&outcome, l, batch, i, err));
        rs_learner_clip(l);
        rs_learner_step(l);
        now = rs_seconds();
        if (n > 0) continue;
        begun = now;
        out->tokens = outcome.tokens * l->settings->accumulate;
        out->products = rs_crew_flops(l->crew);
    }
    out->seconds = (now - begun) / (double)(n - 1);
    return RS_OK;
}

static void measure_sizes(measured *out, const rs_learner *l)
{
    const rs_trained_list *list = &l->trained;
    out->parameters = list->numbers;
    out->tensors = list->n;
    out->bytes = rs_learner_bytes(l);
}

static rs_status measure(measured *out, rs_train_settings *s, const rs_context *context,
                         rs_error *err)
{
    rs_train_task *task = NULL;
    rs_task_batch batch = {0};
    rs_learner learner = {0};
    rs_status status = rs_train_open_task(&task, s, context, err);
    if (status == RS_OK) status = rs_task_batch_new(&batch, rs_task_sizes(task), s->batch, err);
    if (status == RS_OK) status = rs_learner_open(&learner, s, rs_task_sizes(task), context, err);
    if (status == RS_OK) status = time_steps(out, &learner, task, &batch, err);
    if (status == RS_OK) measure_sizes(out, &learner);
    rs_learner_close(&learner);
    rs_task_batch_free(&batch);
    rs_task_close(task);
    return status;
}

static rs_status set_verdict(rs_result *result, const rs_train_settings *s, const measured *m,
                             rs_error *err)
{
    char answer[256];
    double all = m->seconds * (double)s->steps;
    snprintf(answer, sizeof answer,
             "%s would train %" PRId64 " numbers for %lld steps: about %.*f %s.", s->task,
             m->parameters, (long long)s->steps, all < 100 ? 1 : 0, all < 600 ? all : all / 60,
             all < 600 ? "seconds" : "minutes");
    const rs_verdict verdict = {.answer = answer,
                                .code = "planned",
                                .value = all,
                                .threshold = NAN,
                                .next = "rankscope train without --dry-run trains; --table task "
                                        "shows every field"};
    return rs_result_set_verdict(result, &verdict, err);
}

rs_status rs_train_plan(rs_result *result, rs_train_settings *s, const rs_context *context,
                        rs_error *err)
{
    measured m = {0};
    rs_table *table = NULL;
    RS_TRY(measure(&m, s, context, err));
    const plan_row rows[] = {
        {"parameters", NULL, "numbers that are trained", (double)m.parameters},
        {"tensors", NULL, "weights, biases and gains, each once", (double)m.tensors},
        {"tokens a step", NULL, "of the first batch, times accumulate", (double)m.tokens},
        {"operations a step", "GFLOP", "of its matrix products, forward and back",
         1e-9 * m.products * (double)s->accumulate},
        {"memory", "MiB", "what the run holds at most, as --memory counts it", m.bytes / 0x1p20},
        {"a step", "ms", "measured here just now", 1e3 * m.seconds},
        {"all steps", "s", "at that rate, without logs and checkpoints",
         m.seconds * (double)s->steps}};
    RS_TRY(rs_result_add_table(result, "plan", "The run", "What it would be, on this machine.",
                               plan_columns, PLAN_COLUMNS, &table, err));
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        RS_TRY(rs_table_append(table, &rows[i], err));
    RS_TRY(add_task(result, s, err));
    rs_result_show(result, "plan,task");
    return set_verdict(result, s, &m, err);
}
