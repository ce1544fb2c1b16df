/*
 * bench_gradient.c: times a pass forward and back over a checkpoint, and what it stands on beside it.
 *
 *   bench_gradient PATH [--samples S] [--tokens N] [--repeat R] [--threads T] [--f64]
 *                  [--loss lm|random] [--kind NAME] [--recompute] [--once]
 *
 * Prints one JSON object. "forward": seconds of a pass that keeps nothing; "step": of one with its
 * way back, all gradients written as a trainer would; "norms": the same with their norms instead;
 * "recompute": as "norms", with one layer's tape; "alone": nobody listens to gradients. "floor": three
 * times as long as the products of "forward" take alone at the rate of large GEMMs of the first
 * layer's shapes. Rounds of all of them take turns; medians. --once runs the step alone, so that its
 * caller can read the memory of the process, --kind one of them, for a profile.
 */
#include "base/clock.h"
#include "base/memory.h"
#include "base/random.h"
#include "base/sort.h"
#include "engine/gradient.h"
#include "linalg/blas.h"
#include "linalg/peak.h"
#include "linalg/threads.h"
#include "network/op_traits.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FORWARD, STEP, NORMS, RECOMPUTE, ALONE, KINDS };
static const char *const kinds[KINDS] = {"forward", "step", "norms", "recompute", "alone"};

typedef struct bench {
    const char *path;
    int32_t samples;
    int64_t tokens;
    int repeat, threads;
    bool lm, recompute, once;
    const char *kind; /* the only one; NULL: all */
    rs_precision precision;
    rs_context context;
    rs_checkpoint *checkpoint;
    rs_network *network;
    rs_weights *weights;
    rs_runner *runner;
    rs_batch batch;
    rs_loss loss;
    void *gradient; /* as large as the largest parameter */
    size_t gradient_bytes;
    double squares;
    double *seconds[KINDS];
    double gflop;
    uint64_t peak;
} bench;

/* A trainer would have a room for each; writing them one over the other costs the same. */
static rs_status write_one(void *user, const rs_gradient_view *view, rs_error *err)
{
    bench *b = user;
    size_t bytes = (size_t)(view->out * view->in) * rs_precision_size(view->precision);
    if (bytes > b->gradient_bytes) {
        rs_free(b->gradient);
        b->gradient = rs_malloc(bytes, 1);
        b->gradient_bytes = bytes;
        if (!b->gradient) return rs_fail_memory(err, "bench", bytes);
    }
    return rs_gradient_write(b->gradient, view, err);
}

static rs_status norm_one(void *user, const rs_gradient_view *view, rs_error *err)
{
    bench *b = user;
    double square;
    RS_TRY(rs_gradient_squares(&square, view, 1, false, err));
    b->squares += square;
    return RS_OK;
}

static rs_status run_kind(bench *b, int kind, rs_error *err)
{
    rs_gradient_tap tap = {.user = b,
                           .parameter = kind == STEP    ? write_one
                                        : kind == ALONE ? NULL
                                                        : norm_one};
    const rs_gradient_tap *taps[] = {&tap};
    rs_gradient_plan plan = {.recompute = kind == RECOMPUTE};
    rs_gradients *gradients;
    if (kind == FORWARD) return rs_runner_run(b->runner, &b->batch, NULL, 0, err);
    RS_TRY(
        rs_gradients_open(&gradients, b->network, b->precision, &plan, taps, 1, &b->context, err));
    double loss = 0;
    rs_status status =
        rs_runner_gradient(&loss, b->runner, &b->batch, &b->loss, gradients, NULL, 0, err);
    if (status == RS_OK) status = rs_gradients_finish(gradients, err);
    rs_gradients_close(gradients);
    return status;
}

static rs_status time_all(bench *b, rs_error *err)
{
    for (int r = -1; r < b->repeat; r++)
        for (int kind = 0; kind < KINDS; kind++) {
            if (b->kind && strcmp(b->kind, kinds[kind]) != 0) continue;
            double start = rs_seconds();
            RS_TRY(run_kind(b, kind, err));
            if (r >= 0) b->seconds[kind][r] = rs_seconds() - start;
            if (kind == FORWARD) b->gflop = rs_runner_flops(b->runner) * 1e-9;
        }
    b->peak = rs_runner_peak(b->runner);
    return RS_OK;
}

/* Seconds of the first layer's products at the measured rates, for each of their operations. */
static rs_status gemm_rate(double *seconds_per_gflop, const bench *b, rs_error *err)
{
    double gflop = 0, seconds = 0;
    int64_t rows = b->samples * b->tokens;
    const rs_layer *layer = &b->network->layers[0];
    for (int32_t k = 0; k < layer->n_branches; k++) {
        const rs_weight_list *weights = &rs_branch_traits(&layer->branches[k])->weights;
        for (size_t i = 0; i < weights->n; i++) {
            const rs_dense *map = rs_weight_map(&weights->rows[i], &layer->branches[k]);
            rs_gemm_rate rate;
            if (!map) continue;
            RS_TRY(rs_rate_gemm_shape(&rate, rows, map->out, map->in, b->threads, err));
            double own = 2e-9 * (double)rows * (double)map->out * (double)map->in;
            gflop += own, seconds += own / rate.gflops;
        }
    }
    *seconds_per_gflop = seconds / gflop;
    return RS_OK;
}

static rs_status open_texts(bench *b, int64_t **begin, int32_t **ids, int32_t **targets,
                            rs_error *err)
{
    rs_random random = rs_random_new(0, 0);
    int64_t rows = b->samples * b->tokens;
    *begin = rs_malloc((size_t)b->samples + 1, sizeof **begin);
    *ids = rs_malloc((size_t)rows, sizeof **ids);
    *targets = rs_malloc((size_t)rows, sizeof **targets);
    if (!*begin || !*ids || !*targets) return rs_fail_memory(err, "bench", 0);
    for (int32_t s = 0; s <= b->samples; s++)
        (*begin)[s] = s * b->tokens;
    for (int64_t i = 0; i < rows; i++)
        (*ids)[i] =
            (int32_t)(rs_random_uniform(&random) * (double)(b->network->embedding.vocabulary - 1));
    for (int64_t i = 0; i < rows; i++)
        (*targets)[i] = (i + 1) % b->tokens ? (*ids)[i + 1] : -1;
    b->batch = (rs_batch){.samples = b->samples, .begin = *begin, .ids = *ids};
    b->loss = (rs_loss){.kind = b->lm ? RS_LOSS_TARGETS : RS_LOSS_RANDOM,
                        .weight = b->lm ? 1.0 / (double)(rows - b->samples) : 1,
                        .targets = *targets};
    return RS_OK;
}

static rs_status print_times(bench *b, rs_error *err)
{
    double rate;
    RS_TRY(gemm_rate(&rate, b, err));
    printf("{\"samples\": %d, \"tokens\": %lld, \"gflop\": %.3f, \"floor\": %.6f", b->samples,
           (long long)b->tokens, b->gflop, 3 * b->gflop * rate);
    for (int kind = 0; kind < KINDS; kind++) {
        if (b->kind && strcmp(b->kind, kinds[kind]) != 0) continue;
        rs_sort_doubles(b->seconds[kind], b->repeat);
        printf(", \"%s\": %.6f", kinds[kind], b->seconds[kind][b->repeat / 2]);
    }
    printf(", \"peak_mib\": %.2f, \"core\": \"%s\"}\n", (double)b->peak / 1048576, rs_blas_core());
    return RS_OK;
}

static rs_status run_bench(bench *b, rs_error *err)
{
    int64_t *begin = NULL;
    int32_t *ids = NULL, *targets = NULL;
    b->context = (rs_context){.threads = b->threads};
    rs_status status = rs_checkpoint_open(&b->checkpoint, b->path, NULL, err);
    if (status == RS_OK) status = rs_network_open(&b->network, b->checkpoint, err);
    if (status == RS_OK) status = open_texts(b, &begin, &ids, &targets, err);
    if (status == RS_OK)
        status = rs_weights_open(&b->weights, b->precision, b->once ? 0 : (uint64_t)8 << 30, err);
    if (status == RS_OK)
        status = rs_runner_open(&b->runner, b->network, b->weights, &b->context, err);
    for (int kind = 0; kind < KINDS && status == RS_OK; kind++) {
        b->seconds[kind] = rs_malloc((size_t)b->repeat, sizeof(double));
        if (!b->seconds[kind]) status = rs_fail_memory(err, "bench", 0);
    }
    if (status == RS_OK && b->once) {
        double start = rs_seconds();
        status = run_kind(b, b->recompute ? RECOMPUTE : NORMS, err);
        if (status == RS_OK)
            printf("{\"seconds\": %.6f, \"peak_mib\": %.2f, \"decoded_mib\": %.2f}\n",
                   rs_seconds() - start, (double)rs_runner_peak(b->runner) / 1048576,
                   (double)rs_weights_decoded(b->weights) / 1048576);
    } else if (status == RS_OK) {
        status = time_all(b, err);
        if (status == RS_OK) status = print_times(b, err);
    }
    for (int kind = 0; kind < KINDS; kind++)
        rs_free(b->seconds[kind]);
    rs_free(b->gradient);
    rs_free(begin);
    rs_free(ids);
    rs_free(targets);
    rs_runner_close(b->runner);
    rs_weights_close(b->weights);
    rs_network_close(b->network);
    rs_checkpoint_close(b->checkpoint);
    return status;
}

int main(int argc, char **argv)
{
    rs_threads_hold(); /* as the functions of rankscope.h do, which these measurements go below */
    bench b = {.samples = 1, .tokens = 128, .repeat = 5, .threads = rs_default_threads()};
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : "1";
        if (argv[i][0] != '-') {
            b.path = argv[i];
        } else if (strcmp(argv[i], "--f64") == 0) {
            b.precision = RS_PRECISION_F64;
        } else if (strcmp(argv[i], "--recompute") == 0) {
            b.recompute = true;
        } else if (strcmp(argv[i], "--once") == 0) {
            b.once = true;
        } else {
            if (strcmp(argv[i], "--kind") == 0) b.kind = value;
            if (strcmp(argv[i], "--samples") == 0) b.samples = (int32_t)strtol(value, NULL, 10);
            if (strcmp(argv[i], "--tokens") == 0) b.tokens = strtoll(value, NULL, 10);
            if (strcmp(argv[i], "--repeat") == 0) b.repeat = (int)strtol(value, NULL, 10);
            if (strcmp(argv[i], "--threads") == 0) b.threads = (int)strtol(value, NULL, 10);
            if (strcmp(argv[i], "--loss") == 0) b.lm = strcmp(value, "lm") == 0;
            i++;
        }
    }
    rs_error err = {0};
    if (!b.path || run_bench(&b, &err) != RS_OK) {
        fprintf(stderr, "bench_gradient: %s: %s\n", err.where, err.what);
        return 1;
    }
    return 0;
}
