/* training.c: training runs inside of experiments. */
#include "lab/training.h"

#include "base/memory.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static rs_status read_task(rs_train_settings **out, const char *text, rs_error *err)
{
    char *copy = rs_strdup(text);
    if (!copy) return rs_fail_memory(err, "a task", strlen(text));
    for (char *c = copy; *c; c++)
        if (*c == '\'') *c = '"';
    json_error_t wrong;
    json_t *json = json_loads(copy, 0, &wrong);
    rs_status status =
        json ? rs_train_settings_read(out, json, "the experiment's task", NULL, 0, err)
             : rs_fail(err, RS_E_INTERNAL, "the experiment's task", NULL, "%s", wrong.text);
    json_decref(json);
    rs_free(copy);
    return status;
}

/* Runs the task on one thread; the request is complete but for its settings. */
static rs_status run_task(rs_run_outcome *outcome, rs_run_request *request, const char *text,
                          const rs_context *context, rs_error *err)
{
    rs_context own = *context;
    own.threads = 1;
    own.progress = NULL;
    RS_TRY(read_task(&request->settings, text, err));
    rs_status status = rs_train_run(outcome, request, &own, err);
    rs_train_settings_close(request->settings);
    if (status == RS_OK && outcome->end == RS_RUN_INTERRUPTED)
        status = rs_fail(err, RS_E_INTERRUPTED, "training", NULL, "interrupted");
    return status;
}

static rs_status train(rs_result **out, rs_run_outcome *outcome, const char *text,
                       const rs_lab_prepare *prepare, const rs_lab_finish *finish,
                       const rs_context *context, rs_error *err)
{
    *out = rs_result_new("train");
    if (!*out) return rs_fail_memory(err, "a result", 1);
    rs_run_request request = {.result = *out,
                              .prepare = prepare ? prepare->run : NULL,
                              .prepare_user = prepare ? prepare->user : NULL,
                              .finish = finish ? finish->run : NULL,
                              .finish_user = finish ? finish->user : NULL};
    rs_status status = run_task(outcome, &request, text, context, err);
    if (status == RS_OK) return RS_OK;
    rs_result_free(*out);
    *out = NULL;
    return status;
}

rs_status rs_lab_train(rs_result **out, const char *text, const rs_lab_prepare *prepare,
                       const rs_context *context, rs_error *err)
{
    rs_run_outcome outcome = {0};
    RS_TRY(train(out, &outcome, text, prepare, NULL, context, err));
    if (outcome.end != RS_RUN_NOT_FINITE) return RS_OK;
    rs_result_free(*out);
    *out = NULL; /* a run whose numbers are none has nothing to compare */
    return rs_fail(err, RS_E_INTERNAL, "training", NULL, "step %lld: %s", (long long)outcome.step,
                   outcome.blame);
}

rs_status rs_lab_train_to(rs_result **out, double *diverged, const char *text,
                          const rs_lab_prepare *prepare, const rs_lab_finish *finish,
                          const rs_context *context, rs_error *err)
{
    rs_run_outcome outcome = {0};
    *diverged = NAN;
    RS_TRY(train(out, &outcome, text, prepare, finish, context, err));
    if (outcome.end == RS_RUN_NOT_FINITE) *diverged = (double)outcome.step;
    return RS_OK;
}

rs_status rs_lab_train_seen(bool *diverged, const char *text, const rs_lab_finish *finish,
                            const rs_context *context, rs_error *err)
{
    rs_run_outcome outcome = {0};
    rs_run_request request = {.finish = finish->run, .finish_user = finish->user};
    RS_TRY(run_task(&outcome, &request, text, context, err));
    *diverged = outcome.end == RS_RUN_NOT_FINITE;
    return RS_OK;
}

rs_status rs_lab_try_data(const char *text, const rs_context *context, rs_error *err)
{
    rs_train_settings *settings = NULL;
    rs_train_task *task = NULL;
    RS_TRY(read_task(&settings, text, err));
    rs_status status = rs_train_open_task(&task, settings, context, err);
    rs_task_close(task);
    rs_train_settings_close(settings);
    return status;
}

float *rs_lab_weight(const rs_learner *learner, const char *name)
{
    for (int64_t i = 0; i < learner->trained.n; i++)
        if (strcmp(learner->trained.names[i].name, name) == 0)
            return learner->trained.items[i].weight;
    return NULL;
}

double rs_lab_cell(const rs_table *table, size_t row, const char *column)
{
    int at = rs_table_find_column(table, column);
    if (at < 0) return NAN;
    bool real = rs_table_column(table, (size_t)at)->type == RS_COLUMN_REAL;
    return real ? rs_table_real(table, row, (size_t)at)
                : (double)rs_table_int(table, row, (size_t)at);
}

const char *rs_lab_cell_text(const rs_table *table, size_t row, const char *column)
{
    int at = rs_table_find_column(table, column);
    return at < 0 ? NULL : rs_table_text(table, row, (size_t)at);
}

/* The last layer's row of a step is its last one. */
void rs_lab_last_layer(double *out, int most, const rs_result *result, const char *column)
{
    const rs_table *layers = rs_result_table(result, "layers");
    size_t n = layers ? rs_table_rows(layers) : 0;
    int log = 0;
    for (size_t i = 0; i < n && log < most; i++) {
        bool last =
            i + 1 == n || rs_lab_cell(layers, i + 1, "step") > rs_lab_cell(layers, i, "step");
        if (last) out[log++] = rs_lab_cell(layers, i, column);
    }
}

double rs_lab_mark(const rs_result *result, const char *name)
{
    const rs_table *marks = rs_result_table(result, "marks");
    size_t n = marks ? rs_table_rows(marks) : 0;
    for (size_t i = 0; i < n; i++)
        if (strcmp(rs_lab_cell_text(marks, i, "name"), name) == 0)
            return rs_lab_cell(marks, i, "value");
    return NAN;
}

rs_lab_spread rs_lab_spread_of(const double *values, int n)
{
    double mean = 0, squares = 0;
    for (int i = 0; i < n; i++)
        mean += values[i] / n;
    for (int i = 0; i < n; i++)
        squares += (values[i] - mean) * (values[i] - mean);
    return (rs_lab_spread){mean, n > 1 ? sqrt(squares / (n - 1) / n) : INFINITY, n};
}

double rs_lab_order_error(rs_lab_spread of)
{
    enum { FIRST = 2, END = 5 };
    static const double student[END - FIRST] = {12.706204736174705, 4.302652729749464,
                                                3.182446305283710}; /* t(0.975, n - 1) */
    static const double normal = 1.959963984540054;
    return of.n < FIRST || of.n >= END ? of.error : of.error * (student[of.n - FIRST] / normal);
}

int rs_lab_seeds(const rs_lab_options *options, int own)
{
    if (options->quick) return 1;
    return options->seeds > 0 && options->seeds < own ? (int)options->seeds : own;
}

rs_status rs_lab_say_seeds(rs_lab_report *report, int seeds, int own, rs_error *err)
{
    char message[160];
    if (seeds == own) return RS_OK;
    snprintf(message, sizeof message, "%s: --seeds ran %d of %d seeds", report->experiment, seeds,
             own);
    rs_finding finding = rs_finding_of(RS_INFO, "quick");
    finding.message = message;
    finding.hint = "leave out --seeds for the experiment as it is meant";
    return rs_result_add_finding(report->result, &finding, err);
}
