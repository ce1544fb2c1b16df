/*
 * bench_measures.c: how long the measures of a matrix take. Reads raw float32 matrices that follow
 * each other in a file and measures them all on some threads, as `probe` does: one matrix a thread.
 *
 *   bench_measures attention|tokens|spectral|median|lp FILE ROWS COLUMNS THREADS REPEATS
 *
 * spectral, median and lp are tokens with the rank columns; the last two with another centre.
 *
 * Prints one JSON object: seconds a matrix (wall time over all matrices, best of the repeats),
 * their number, and the mean of one measure, so that the peer can be seen to have measured the
 * same.
 */
#include "base/memory.h"
#include "linalg/threads.h"
#include "measures/attention_measures.h"
#include "measures/token_measures.h"

#include <float.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

typedef struct job {
    bool attention;
    rs_token_options options;
    const float *data;
    int64_t rows, columns, count;
    int threads;
} job;

/* One pass over all matrices; returns the sum of σ₁ or of the relative residual, NaN on failure. */
static double pass(const job *j, unsigned char *workspaces, size_t size)
{
    double sum = 0;
#pragma omp parallel for num_threads(j->threads) schedule(dynamic) reduction(+ : sum)
    for (int64_t i = 0; i < j->count; i++) {
        void *workspace = workspaces + (size_t)omp_get_thread_num() * size;
        const float *x = j->data + i * j->rows * j->columns;
        rs_attention_measures a = {0};
        rs_token_measures t = {0};
        rs_status status = j->attention
                               ? rs_attention_measure_f32(&a, x, x, NULL, j->rows, j->columns,
                                                          false, 0, false, workspace, NULL)
                               : rs_token_measure_f32(&t, x, j->rows, j->columns, j->columns,
                                                      &j->options, workspace, NULL);
        sum += status != RS_OK ? 0.0 / 0.0 : j->attention ? a.lambda2 : t.relative_residual;
    }
    return sum;
}

static int work(const job *j, int repeats)
{
    size_t size = j->attention ? rs_attention_workspace(j->rows)
                               : rs_token_workspace(j->rows, j->columns, &j->options);
    unsigned char *workspaces = rs_malloc((size_t)j->threads, size);
    if (!workspaces) return 1;
    double best = 1e30, sum = 0;
    for (int r = 0; r < repeats; r++) {
        double begin = omp_get_wtime();
        sum = pass(j, workspaces, size);
        double seconds = omp_get_wtime() - begin;
        best = seconds < best ? seconds : best;
    }
    rs_free(workspaces);
    printf("{\"seconds\": %.9g, \"matrices\": %lld, \"mean\": %.9g}\n", best / (double)j->count,
           (long long)j->count, sum / (double)j->count);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc != 7) {
        fprintf(
            stderr,
            "usage: bench_measures attention|tokens|spectral|median|lp FILE ROWS COLUMNS THREADS "
            "REPEATS\n");
        return 2;
    }
    rs_threads_hold(); /* as the functions of rankscope.h do, which these measurements go below */
    const char *what = argv[1];
    bool median = strcmp(what, "median") == 0, lp = strcmp(what, "lp") == 0;
    job j = {.attention = strcmp(what, "attention") == 0,
             .options = {.spectral = median || lp || strcmp(what, "spectral") == 0,
                         .centre = lp       ? RS_CENTRE_LP
                                   : median ? RS_CENTRE_MEDIAN
                                            : RS_CENTRE_MEAN,
                         .epsilon = FLT_EPSILON / 2},
             .rows = atoll(argv[3]),
             .columns = atoll(argv[4]),
             .threads = atoi(argv[5])};
    struct stat status;
    FILE *file = fopen(argv[2], "rb");
    if (!file || fstat(fileno(file), &status) != 0) {
        fprintf(stderr, "%s cannot be read\n", argv[2]);
        return 1;
    }
    j.count = status.st_size / (4 * j.rows * j.columns);
    size_t entries = (size_t)(j.count * j.rows * j.columns);
    float *data = rs_malloc(entries, sizeof *data);
    int result = 1;
    if (data && fread(data, sizeof *data, entries, file) == entries) {
        j.data = data;
        result = work(&j, atoi(argv[6]));
    }
    rs_free(data);
    fclose(file);
    return result;
}
