/*
 * bench_train.c: times steps of training as `rankscope train` makes them, without logs.
 *
 *   bench_train TASK THREADS [NAME=VALUE...]
 *
 * Prints a JSON line about the run, then answers each line "N" on standard input with one: the seconds
 * that the next N steps took, the operations of their products, the most memory
 * of activations and workspace, and the loss of the last batch.
 */
#include "base/clock.h"
#include "linalg/blas.h"
#include "linalg/peak.h"
#include "linalg/threads.h"
#include "train/learner.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

typedef struct bench {
    rs_context context;
    rs_train_settings *settings;
    rs_train_task *task;
    rs_task_batch batch;
    rs_learner learner;
    rs_batch_outcome last;
} bench;

static rs_status open_bench(bench *b, const char *task, const char *const *sets, size_t n,
                            rs_error *err)
{
    RS_TRY(rs_train_settings_open(&b->settings, task, sets, n, err));
    RS_TRY(rs_train_open_task(&b->task, b->settings, &b->context, err));
    RS_TRY(rs_task_batch_new(&b->batch, rs_task_sizes(b->task), b->settings->batch, err));
    return rs_learner_open(&b->learner, b->settings, rs_task_sizes(b->task), &b->context, err);
}

static rs_status run_steps(bench *b, int64_t n, rs_error *err)
{
    rs_learner *l = &b->learner;
    for (int64_t i = 0; i < n; i++) {
        RS_TRY(rs_task_fill(&b->batch, b->task, RS_TASK_TRAIN, l->step, err));
        RS_TRY(rs_learner_batch(&b->last, l, &b->batch, 0, err));
        rs_learner_clip(l);
        rs_learner_step(l);
    }
    return RS_OK;
}

static void answer(const bench *b, int64_t n, double seconds)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    printf("{\"seconds\": %.9g, \"steps\": %lld, \"gflop\": %.9g, \"loss\": %.9g, "
           "\"peak_mib\": %.1f}\n",
           seconds, (long long)n, 1e-9 * rs_crew_flops(b->learner.crew) * (double)n, b->last.loss,
           (double)usage.ru_maxrss / 1024);
    fflush(stdout);
}

static int fail(const rs_error *err)
{
    fprintf(stderr, "bench_train: %s: %s; %s\n", err->where, err->what, err->hint);
    return 1;
}

int main(int argc, char **argv)
{
    rs_error err;
    bench b = {.context = {.threads = argc > 2 ? atoi(argv[2]) : 1}};
    long long n;
    if (argc < 3) {
        fprintf(stderr, "bench_train TASK THREADS [NAME=VALUE...]\n");
        return 2;
    }
    rs_threads_hold();
    if (open_bench(&b, argv[1], (const char *const *)argv + 3, (size_t)argc - 3, &err) != RS_OK)
        return fail(&err);
    printf("{\"core\": \"%s\", \"parameters\": %lld}\n", rs_blas_core(),
           (long long)b.learner.trained.numbers);
    fflush(stdout);
    while (scanf("%lld", &n) == 1) {
        double begun = rs_seconds();
        if (run_steps(&b, n, &err) != RS_OK) return fail(&err);
        answer(&b, n, rs_seconds() - begun);
    }
    return 0;
}
