/*
 * bench_forward.c: times passes over a checkpoint, and single GEMMs of its shapes beside them.
 *
 *   bench_forward PATH [--samples S] [--tokens N,N,...] [--repeat R] [--threads T] [--f64]
 *                 [--mixing] [--start]
 *
 * One JSON object a line: for each length the least and the median seconds of a pass without taps
 * and those of the first one, which meets cold memory, the operations of its products, the peak of
 * activations, and for comparison the rate of one large GEMM of the shapes of the first layer, on
 * the same threads, and how long all layers' maps take at it. --start ends behind the first layer
 * of a text of 8 tokens and prints nothing: its caller times the process. --mixing times passes
 * whose mixing matrices are listened to.
 */
#include "base/clock.h"
#include "base/memory.h"
#include "base/random.h"
#include "base/sort.h"
#include "engine/forward.h"
#include "linalg/blas.h"
#include "linalg/peak.h"
#include "linalg/threads.h"
#include "network/op_traits.h"

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

/* Rate over the products of the first layer at `rows` rows, as plain calls of GEMM, and the seconds
 * that they take. */
static rs_status layer_rate(double *gflops, double *seconds, const rs_network *network,
                            int64_t rows, int threads, rs_error *err)
{
    double flops = 0;
    const rs_layer *layer = &network->layers[0];
    *seconds = 0;
    for (int32_t b = 0; b < layer->n_branches; b++) {
        const rs_branch *branch = &layer->branches[b];
        const rs_weight_list *weights = &rs_branch_traits(branch)->weights;
        for (size_t i = 0; i < weights->n; i++) {
            rs_gemm_rate rate;
            const rs_dense *map = rs_weight_map(&weights->rows[i], branch);
            if (!map) continue;
            RS_TRY(rs_rate_gemm_shape(&rate, rows, map->out, map->in, threads, err));
            double work = 2e-9 * (double)rows * (double)map->out * (double)map->in;
            flops += work;
            *seconds += work / rate.gflops;
        }
    }
    *gflops = flops / *seconds;
    return RS_OK;
}

static rs_status hear_mixing(void *user, const rs_mixing_view *view, rs_error *err)
{
    (void)user;
    (void)view;
    (void)err;
    return RS_OK;
}

static rs_status time_length(const bench_request *request, rs_runner *runner,
                             const rs_network *network, int64_t n, rs_error *err)
{
    rs_random random = rs_random_new(0, 0);
    int64_t rows = request->samples * n;
    int64_t *begin = rs_malloc((size_t)request->samples + 1, sizeof *begin);
    int32_t *ids = rs_malloc((size_t)rows, sizeof *ids);
    double *seconds = rs_malloc((size_t)request->repeat, sizeof *seconds), rate = 0, first = 0,
           layer = 0;
    rs_status status = begin && ids && seconds ? RS_OK : rs_fail_memory(err, "bench", 0);
    for (int32_t s = 0; status == RS_OK && s <= request->samples; s++)
        begin[s] = s * n;
    for (int64_t i = 0; status == RS_OK && i < rows; i++)
        ids[i] =
            (int32_t)(rs_random_uniform(&random) * (double)(network->embedding.vocabulary - 1));
    rs_batch batch = {.samples = request->samples, .begin = begin, .ids = ids};
    const rs_tap tap = {.mixing = hear_mixing}, *taps[] = {&tap};
    for (int r = -1; status == RS_OK && r < request->repeat; r++) {
        double start = rs_seconds();
        status = rs_runner_run(runner, &batch, taps, request->mixing ? 1 : 0, err);
        *(r < 0 ? &first : &seconds[r]) = rs_seconds() - start;
    }
    if (status == RS_OK) status = layer_rate(&rate, &layer, network, rows, request->threads, err);
    if (status == RS_OK) {
        rs_sort_doubles(seconds, request->repeat);
        double median = seconds[request->repeat / 2], flops = rs_runner_flops(runner);
        printf("{\"tokens\": %lld, \"samples\": %d, \"seconds\": %.6f, \"first\": %.6f, \"least\": "
               "%.6f, "
               "\"gflop\": %.3f, \"gflops\": %.2f, \"layer_gemm_gflops\": %.2f, \"maps\": %.6f, "
               "\"peak_mib\": %.2f, \"core\": \"%s\"}\n",
               (long long)n, request->samples, median, first, seconds[0], flops * 1e-9,
               flops * 1e-9 / median, rate, layer * network->n_layers,
               (double)rs_runner_peak(runner) / 1048576, rs_blas_core());
        fflush(stdout);
    }
    rs_free(begin);
    rs_free(ids);
    rs_free(seconds);
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
            status = time_length(request, runner, network, strtoll(at, NULL, 10), err);
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
