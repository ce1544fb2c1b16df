/*
 * made_up_runs.h: an experiment of the laboratory over training runs that a test makes up: what keeps
 * runs (lab/kept_runs.h) is defined here instead of in the library, and has every run that it is asked
 * for. So all claims of the whole experiment, every seed and rate, are judged in no time, and the test
 * knows from which numbers. Include behind cmocka.h, once a program.
 */
#ifndef RS_TEST_MADE_UP_RUNS_H
#define RS_TEST_MADE_UP_RUNS_H

#include "lab/kept_runs.h"
#include "lab/training.h"
#include "train_support.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What a task's text says of a run. */
typedef struct made_up_task {
    const char *text;
    int seed;
    double rate;
} made_up_task;

struct rs_kept_runs {
    void (*fill)(double *numbers, size_t n, const made_up_task *task);
    const char *train; /* a run whose task has this text is trained after all; NULL: none */
    int trained;
    char task[2000]; /* of the run that was trained, with its numbers */
    double numbers[200];
};

void rs_kept_runs_close(rs_kept_runs *kept)
{
    (void)kept;
}

rs_status rs_kept_runs_open(rs_kept_runs **out, const char *path, rs_error *err)
{
    (void)out;
    return rs_fail(err, RS_E_WRITE, path, NULL, "runs are made up here");
}

bool rs_kept_runs_find(rs_kept_runs *kept, const char *experiment, const char *task,
                       double *numbers, size_t n)
{
    const char *seed = strstr(task, "'seed': "), *rate = strstr(task, "'lr': ");
    (void)experiment;
    const made_up_task asked = {task, seed ? atoi(seed + 8) : -1, rate ? atof(rate + 6) : NAN};
    kept->fill(numbers, n, &asked);
    return true;
}

rs_status rs_kept_runs_add(rs_kept_runs *kept, const char *experiment, const char *task,
                           const double *numbers, size_t n, rs_error *err)
{
    (void)kept, (void)experiment, (void)task, (void)numbers, (void)n, (void)err;
    return RS_OK;
}

rs_status rs_kept_runs_take(rs_kept_runs *kept, const char *experiment, const char *task,
                            double *numbers, size_t n, const rs_kept_maker *maker, rs_error *err)
{
    if (kept->train && strstr(task, kept->train)) {
        RS_TRY(maker->run(maker->user, task, err));
        kept->trained++;
        if (strlen(task) < sizeof kept->task) memcpy(kept->task, task, strlen(task) + 1);
        memcpy(kept->numbers, numbers, (n < 200 ? n : 200) * sizeof *numbers);
        return RS_OK;
    }
    (void)rs_kept_runs_find(kept, experiment, task, numbers, n);
    return RS_OK;
}

static inline bool task_has(const made_up_task *task, const char *words)
{
    return strstr(task->text, words) != NULL;
}

/* The place of a rate among several; fails where it is none of them. */
static inline int task_rate(const made_up_task *task, const double *rates, int n)
{
    for (int i = 0; i < n; i++)
        if (task->rate == rates[i]) return i;
    fail_msg("no rate: %s", task->text);
    return 0;
}

/* A run of a grid (lab/runs.c, put_list): it diverged (NaN: it did not), logs, loss and accuracy of
 * evaluation, then step, loss and accuracy of each log, and what was seen of it. */
typedef struct made_up_run {
    double diverged, first, loss, accuracy; /* first: loss of the first log */
    double seen[20];
} made_up_run;

static inline void put_run(double *numbers, size_t n, int n_seen, const made_up_run *run)
{
    int logs = ((int)n - 4 - n_seen) / 3;
    bool gone = !isnan(run->diverged);
    double *step = numbers + 4, *loss = step + logs, *accuracy = loss + logs;
    assert_int_equal(4 + 3 * logs + n_seen, n);
    numbers[0] = run->diverged;
    numbers[1] = gone ? 1 : logs;
    numbers[2] = gone ? (double)NAN : run->loss;
    numbers[3] = gone ? (double)NAN : run->accuracy;
    for (int i = 0; i < logs; i++) {
        step[i] = i;
        loss[i] = gone && i > 0 ? 0 : run->first - i;
        accuracy[i] = gone && i > 0 ? 0 : run->accuracy;
    }
    for (int k = 0; k < n_seen; k++)
        accuracy[logs + k] = gone ? (double)NAN : run->seen[k];
}

/* A text, or images, that nobody looks at but to see that they are there: 20 of 4 x 4 in two classes. */
static inline void write_data(const char *text, const char *x, const char *y)
{
    float images[20 * 16];
    int64_t labels[20];
    FILE *file = fopen(text, "w");
    assert_non_null(file);
    for (int i = 0; i < 100; i++)
        fputs("the rain in Spain stays mainly in the plain; ", file);
    fclose(file);
    for (int i = 0; i < 20 * 16; i++)
        images[i] = (float)(i % 7), labels[i / 16] = i / 16 % 2;
    write_npy(x, "<f4", "20, 4, 4", images, sizeof images);
    write_npy(y, "<i8", "20,", labels, sizeof labels);
}

/* Runs an experiment over such runs; seeds: of each the first so many, 0: all. The caller frees it. */
static inline rs_result *run_made_up(const char *id, rs_kept_runs *kept, const rs_lab_options *more)
{
    rs_error err = {0};
    const rs_context context = {.threads = 1};
    rs_result *result = rs_result_new("lab");
    rs_lab_options options = *more;
    options.kept = kept;
    if (rs_lab_run(result, id, &options, &context, &err) != RS_OK) fail_msg("%s: %s", id, err.what);
    return result;
}

static inline size_t claim_row(const rs_table *claims, const char *text)
{
    for (size_t row = 0; row < rs_table_rows(claims); row++)
        if (strcmp(rs_lab_cell_text(claims, row, "claim"), text) == 0) return row;
    for (size_t row = 0; row < rs_table_rows(claims); row++)
        print_message("%s\n", rs_lab_cell_text(claims, row, "claim"));
    fail_msg("no such claim: %s", text);
    return 0;
}

static inline void check_claim(const rs_result *result, const char *text, double measured,
                               double tolerance, const char *verdict)
{
    const rs_table *claims = rs_result_table(result, "claims");
    size_t row = claim_row(claims, text);
    double got = rs_lab_cell(claims, row, "measured");
    double within = rs_lab_cell(claims, row, "tolerance");
    if (!(fabs(got - measured) <= 1e-12 * (1 + fabs(measured))))
        fail_msg("%s: measured %.17g, not %.17g", text, got, measured);
    if (!(within == tolerance || fabs(within - tolerance) <= 1e-12 * (1 + fabs(tolerance))))
        fail_msg("%s: tolerance %.17g, not %.17g", text, within, tolerance);
    assert_string_equal(rs_lab_cell_text(claims, row, "verdict"), verdict);
}

/* What the standard error of n seeds counts for: Student's t(0.975, n - 1) over that of a normal law; in closed
 * form for one and two degrees of freedom. */
static inline double few_seeds(int n)
{
    static const double normal = 1.959963984540054;
    return n == 2   ? tan(0.475 * acos(-1)) / normal
           : n == 3 ? 0.95 * sqrt(2 / (1 - 0.95 * 0.95)) / normal
           : n == 4 ? 3.182446305283710 / normal
                    : 1;
}

/* The claim that numbers [n], one a seed, are above 0: its mean, twice its standard error, and what
 * follows from the two. turned: the verdict where it is the other way round. */
static inline void check_order(const rs_result *result, const char *text, const double *by, int n,
                               const char *turned)
{
    double sum = 0, squares = 0;
    for (int i = 0; i < n; i++)
        sum += by[i];
    for (int i = 0; i < n; i++)
        squares += pow(by[i] - sum / n, 2);
    double twice = n > 1 ? 2 * few_seeds(n) * sqrt(squares / ((double)n * (n - 1))) : INFINITY;
    check_claim(result, text, sum / n, twice,
                sum / n > twice    ? "pass"
                : sum / n < -twice ? turned
                                   : "no_difference");
}

/* The same of an order that nobody published: `up` is claimed, or `down` of numbers below 0. */
static inline void check_either(const rs_result *result, const char *up, const char *down,
                                const double *by, int n)
{
    double turned[8], sum = 0;
    for (int i = 0; i < n; i++)
        sum += by[i];
    for (int i = 0; i < n; i++)
        turned[i] = sum < 0 ? -by[i] : by[i];
    check_order(result, sum < 0 ? down : up, turned, n, "fail");
}

#endif
