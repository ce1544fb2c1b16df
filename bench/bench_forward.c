/*
 * bench_forward.c: times passes over a checkpoint, and single GEMMs of its shapes beside them.
 *
 *   bench_forward PATH [--samples S] [--tokens N,N,...] [--repeat R] [--threads T] [--f64]
 *                 [--mixing] [--start]
 *
 * One JSON object a line: for each length the least and the median seconds of a pass without taps
 * and those of the first one, which meets cold memory, the operations of its products, the peak of
 * activations, and for comparison, on the same threads, the rate of one large GEMM of the shapes of
 * the first layer, and how long all maps of all layers take alone, one GEMM each, one after the
 * other, with the model's own weights: the least of as many rounds as there are passes. --start ends behind the first layer
 * of a text of 8 tokens and prints nothing: its caller times the process. --mixing times passes
 * whose mixing matrices are listened to.
 */
#include "base/clock.h"
#include "base/memory.h"
#include "base/random.h"
#include "base/sort.h"
#include "engine/forward.h"
#include "engine/weights.h"
#include "linalg/blas.h"
#include "linalg/peak.h"
#include "linalg/threads.h"
#include "network/op_traits.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct bench_request {
    const char *path;
    const char *tokens;
    int32_t samples;
    int repeat, threads;
    bool start, mixing;
    rs_precision precision;
} bench_request;

/* What is done with each map of a layer. */
typedef rs_status map_visit(void *user, const rs_dense *map, rs_error *err);

static rs_status each_map(const rs_layer *layer, map_visit *visit, void *user, rs_error *err)
{
    for (int32_t b = 0; b < layer->n_branches; b++) {
        const rs_branch *branch = &layer->branches[b];
        const rs_weight_list *weights = &rs_branch_traits(branch)->weights;
        for (size_t i = 0; i < weights->n; i++) {
            const rs_dense *map = rs_weight_map(&weights->rows[i], branch);
            if (map) RS_TRY(visit(user, map, err));
        }
    }
    return RS_OK;
}

/* The products of the first layer at `rows` rows, as plain calls of GEMM. */
typedef struct layer_rate {
    int64_t rows;
    int threads;
    double gflop, seconds;
} layer_rate;

static rs_status rate_map(void *user, const rs_dense *map, rs_error *err)
{
    layer_rate *layer = user;
    rs_gemm_rate rate;
    double gflop = 2e-9 * (double)layer->rows * (double)map->out * (double)map->in;
    RS_TRY(rs_rate_gemm_shape(&rate, layer->rows, map->out, map->in, layer->threads, err));
    layer->gflop += gflop;
    layer->seconds += gflop / rate.gflops;
    return RS_OK;
}

/* All maps of a model, one after the other: in and out are [rows, most], most the widest. */
typedef struct maps_alone {
    rs_weights *weights;
    const rs_context *context;
    int64_t rows, most;
    float *in, *out;
} maps_alone;

static rs_status widest_map(void *user, const rs_dense *map, rs_error *err)
{
    maps_alone *all = user;
    (void)err;
    if (map->in > all->most) all->most = map->in;
    if (map->out > all->most) all->most = map->out;
    return RS_OK;
}

static rs_status multiply_map(void *user, const rs_dense *dense, rs_error *err)
{
    const maps_alone *all = user;
    rs_dense_map map;
    RS_TRY(rs_weights_map(&map, all->weights, dense, 0, all->context, err));
    cblas_sgemm(CblasRowMajor, CblasNoTrans, map.out_is_row ? CblasTrans : CblasNoTrans,
                (blasint)all->rows, (blasint)map.out, (blasint)map.in, 1, all->in, (blasint)map.in,
                map.data, (blasint)map.ld, 0, all->out, (blasint)map.out);
    return RS_OK;
}

static rs_status each_layer(const rs_network *network, map_visit *visit, maps_alone *all,
                            rs_error *err)
{
    for (int32_t layer = 0; layer < network->n_layers; layer++)
        RS_TRY(each_map(&network->layers[layer], visit, all, err));
    return RS_OK;
}

static rs_status maps_open(maps_alone *all, const rs_network *network, rs_error *err)
{
    RS_TRY(each_layer(network, widest_map, all, err));
    size_t count = (size_t)(all->rows * all->most);
    all->in = rs_malloc(2 * count, sizeof *all->in);
    if (!all->in) return rs_fail_memory(err, "bench", 2 * count * sizeof *all->in);
    all->out = all->in + count;
    for (size_t i = 0; i < 2 * count; i++)
        all->in[i] = (float)((double)((i * 2654435761u) % 1000) * 1e-3 - 0.5);
    return RS_OK;
}

/* The seconds of one round, where they are less than *least. */
static rs_status maps_round(double *least, maps_alone *all, const rs_network *network,
                            rs_error *err)
{
    rs_thread_counts before = rs_threads_lend(all->context->threads);
    double begin = rs_seconds();
    rs_status status = each_layer(network, multiply_map, all, err);
    double seconds = rs_seconds() - begin;
    rs_threads_restore(before);
    if (seconds < *least) *least = seconds;
    return status;
}

static rs_status hear_mixing(void *user, const rs_mixing_view *view, rs_error *err)
{
    (void)user;
    (void)view;
    (void)err;
    return RS_OK;
}

/* The texts of a length. */
typedef struct bench_texts {
    int64_t *begin;
    int32_t *ids;
    rs_batch batch;
} bench_texts;

static rs_status texts_open(bench_texts *texts, int32_t samples, int64_t n,
                            const rs_network *network, rs_error *err)
{
    rs_random random = rs_random_new(0, 0);
    texts->begin = rs_malloc((size_t)samples + 1, sizeof *texts->begin);
    texts->ids = rs_malloc((size_t)(samples * n), sizeof *texts->ids);
    if (!texts->begin || !texts->ids) return rs_fail_memory(err, "bench", 0);
    for (int32_t s = 0; s <= samples; s++)
        texts->begin[s] = s * n;
    for (int64_t i = 0; i < samples * n; i++)
        texts->ids[i] =
            (int32_t)(rs_random_uniform(&random) * (double)(network->embedding.vocabulary - 1));
    texts->batch = (rs_batch){.samples = samples, .begin = texts->begin, .ids = texts->ids};
    return RS_OK;
}

static void texts_close(bench_texts *texts)
{
    rs_free(texts->begin);
    rs_free(texts->ids);
}

/* What passes of one length took. */
typedef struct pass_times {
    double first, *seconds; /* [repeat], sorted */
    maps_alone maps;
    double maps_seconds;
    layer_rate layer;
} pass_times;

/* Passes and rounds of the maps take turns, so that both meet the same machine. */
static rs_status time_passes(pass_times *times, const bench_request *request, rs_runner *runner,
                             const rs_network *network, const rs_batch *batch, rs_error *err)
{
    const rs_tap tap = {.mixing = hear_mixing}, *taps[] = {&tap};
    bool maps = request->precision == RS_PRECISION_F32;
    if (maps) RS_TRY(maps_open(&times->maps, network, err));
    for (int r = -1; r < request->repeat; r++) {
        double start = rs_seconds();
        RS_TRY(rs_runner_run(runner, batch, taps, request->mixing ? 1 : 0, err));
        *(r < 0 ? &times->first : &times->seconds[r]) = rs_seconds() - start;
        if (maps && r >= 0) RS_TRY(maps_round(&times->maps_seconds, &times->maps, network, err));
    }
    rs_sort_doubles(times->seconds, request->repeat);
    return each_map(&network->layers[0], rate_map, &times->layer, err);
}

static void print_times(const pass_times *times, const bench_request *request, int64_t n,
                        const rs_runner *runner)
{
    double median = times->seconds[request->repeat / 2], gflop = rs_runner_flops(runner) * 1e-9;
    printf("{\"tokens\": %lld, \"samples\": %d, \"seconds\": %.6f, \"first\": %.6f, \"least\": "
           "%.6f, "
           "\"gflop\": %.3f, \"gflops\": %.2f, \"layer_gemm_gflops\": %.2f, ",
           (long long)n, request->samples, median, times->first, times->seconds[0], gflop,
           gflop / median, times->layer.gflop / times->layer.seconds);
    if (isfinite(times->maps_seconds)) printf("\"maps\": %.6f, ", times->maps_seconds);
    printf("\"peak_mib\": %.2f, \"core\": \"%s\"}\n", (double)rs_runner_peak(runner) / 1048576,
           rs_blas_core());
    fflush(stdout);
}

static rs_status time_length(const bench_request *request, rs_runner *runner, rs_weights *weights,
                             const rs_context *context, const rs_network *network, int64_t n,
                             rs_error *err)
{
    int64_t rows = request->samples * n;
    bench_texts texts = {0};
    pass_times times = {.seconds = rs_malloc((size_t)request->repeat, sizeof *times.seconds),
                        .maps = {.weights = weights, .context = context, .rows = rows},
                        .maps_seconds = (double)INFINITY,
                        .layer = {.rows = rows, .threads = request->threads}};
    rs_status status = times.seconds ? RS_OK : rs_fail_memory(err, "bench", 0);
    if (status == RS_OK) status = texts_open(&texts, request->samples, n, network, err);
    if (status == RS_OK) status = time_passes(&times, request, runner, network, &texts.batch, err);
    if (status == RS_OK) print_times(&times, request, n, runner);
    texts_close(&texts);
    rs_free(times.maps.in);
    rs_free(times.seconds);
    return status;
}

/* Ends the pass behind the first layer. */
static rs_status end_pass(void *user, rs_site site, int32_t layer, const rs_state_view *view,
                          rs_error *err)
{
    (void)user;
    (void)site;
    (void)view;
    (void)err;
    return layer == 1 ? RS_E_INTERRUPTED : RS_OK;
}

static rs_status first_layer(rs_runner *runner, rs_error *err)
{
    const int64_t begin[] = {0, 8};
    const int32_t ids[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    const rs_batch batch = {.samples = 1, .begin = begin, .ids = ids};
    const rs_tap tap = {.sites = 1u << RS_SITE_BLOCK_OUT, .state = end_pass}, *taps[] = {&tap};
    rs_status status = rs_runner_run(runner, &batch, taps, 1, err);
    return status == RS_E_INTERRUPTED ? RS_OK : status;
}

static rs_status bench(const bench_request *request, rs_error *err)
{
    rs_checkpoint *checkpoint = NULL;
    rs_network *network = NULL;
    rs_weights *weights = NULL;
    rs_runner *runner = NULL;
    rs_context context = {.threads = request->threads};
    rs_status status = rs_checkpoint_open(&checkpoint, request->path, NULL, err);
    if (status == RS_OK) status = rs_network_open(&network, checkpoint, err);
    if (status == RS_OK)
        status = rs_weights_open(&weights, request->precision, (uint64_t)8 << 30, err);
    if (status == RS_OK) status = rs_runner_open(&runner, network, weights, &context, err);
    if (request->start) {
        if (status == RS_OK) status = first_layer(runner, err);
    } else
        for (const char *at = request->tokens; status == RS_OK && at; at = strchr(at, ',')) {
            if (*at == ',') at++;
            status = time_length(request, runner, weights, &context, network, strtoll(at, NULL, 10),
                                 err);
        }
    rs_runner_close(runner);
    rs_weights_close(weights);
    rs_network_close(network);
    rs_checkpoint_close(checkpoint);
    return status;
}

int main(int argc, char **argv)
{
    rs_threads_hold(); /* as the functions of rankscope.h do, which these measurements go below */
    bench_request request = {
        .tokens = "128", .samples = 1, .repeat = 5, .threads = rs_default_threads()};
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : "1";
        if (argv[i][0] != '-') {
            request.path = argv[i];
            continue;
        }
        if (strcmp(argv[i], "--f64") == 0) {
            request.precision = RS_PRECISION_F64;
            continue;
        }
        if (strcmp(argv[i], "--mixing") == 0) {
            request.mixing = true;
            continue;
        }
        if (strcmp(argv[i], "--start") == 0) {
            request.start = true;
            continue;
        }
        if (strcmp(argv[i], "--samples") == 0) request.samples = (int32_t)strtol(value, NULL, 10);
        if (strcmp(argv[i], "--tokens") == 0) request.tokens = value;
        if (strcmp(argv[i], "--repeat") == 0) request.repeat = (int)strtol(value, NULL, 10);
        if (strcmp(argv[i], "--threads") == 0) request.threads = (int)strtol(value, NULL, 10);
        i++;
    }
    rs_error err = {0};
    if (!request.path || bench(&request, &err) != RS_OK) {
        fprintf(stderr, "bench_forward: %s: %s\n", err.where, err.what);
        return 1;
    }
    return 0;
}
