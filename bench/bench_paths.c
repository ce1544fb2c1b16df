/*
 * bench_paths.c: times the sums over paths of one sample of a BERT-base with random weights, beside
 * the pass alone and the rate of plain dgemm.
 *
 *   bench_paths [--tokens N] [--layers L] [--repeat R] [--threads T] [--paths N]
 *
 * One JSON object: least and median seconds of all sums (the pass included), of the pass alone, the
 * operations of both, and what they would take at the rate of one large dgemm on the same threads.
 */
#include "base/clock.h"
#include "base/memory.h"
#include "base/sort.h"
#include "linalg/blas.h"
#include "linalg/peak.h"
#include "linalg/threads.h"
#include "paths/paths.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WIDTH = 768, HEADS = 12, VOCABULARY = 30522, MOST_REPEATS = 100 };

typedef struct bench_request {
    int64_t tokens, layers, repeat, threads, paths;
} bench_request;

/* Layer l maps l + 1 sums of the embedding, l of the sources, and its own biases. */
static double sums_flops(const bench_request *r)
{
    double n = (double)r->tokens, l = (double)r->layers, maps = l * (l + 1) / 2 * 2;
    return maps * (4 * n * WIDTH * WIDTH + 2 * n * n * WIDTH);
}

static rs_status time_all(const bench_request *r, const rs_network *network, rs_weights *weights,
                          const rs_batch *batch, rs_error *err)
{
    double seconds[2][MOST_REPEATS], pass_flops = 0, worst = 0;
    rs_gemm_rate rate = {0};
    rs_context context = {.threads = (int)r->threads};
    rs_runner *runner = NULL;
    rs_path_plan *plan = NULL;
    rs_path_set *set = NULL;
    rs_status status = rs_runner_open(&runner, network, weights, &context, err);
    if (status == RS_OK) status = rs_path_plan_open(&plan, network, -1, err);
    if (status == RS_OK && r->paths) status = rs_path_set_draw(&set, plan, r->paths, 0, err);
    for (int64_t i = -1; i < r->repeat && status == RS_OK; i++) {
        rs_path_sums *sums = NULL;
        double start = rs_seconds();
        status = rs_path_sums_of(&sums, network, weights, batch, plan, set, false, &context, err);
        if (status != RS_OK) break;
        if (i >= 0) seconds[0][i] = rs_seconds() - start;
        worst = sums->identity.error > worst ? sums->identity.error : worst;
        rs_path_sums_close(sums);
        start = rs_seconds();
        status = rs_runner_run(runner, batch, NULL, 0, err);
        if (i >= 0) seconds[1][i] = rs_seconds() - start;
        pass_flops = rs_runner_flops(runner);
    }
    if (status == RS_OK) status = rs_rate_dgemm(&rate, 1024, (int)r->threads, err);
    if (status == RS_OK) {
        double flops = sums_flops(r) + pass_flops;
        for (int k = 0; k < 2; k++)
            rs_sort_doubles(seconds[k], r->repeat);
        printf("{\"tokens\": %lld, \"layers\": %lld, \"paths\": %lld, \"threads\": %lld, "
               "\"seconds\": %.4f, \"least\": %.4f, \"pass_seconds\": %.4f, \"gflop\": %.2f, "
               "\"dgemm_gflops\": %.2f, \"floor_seconds\": %.4f, \"identity_error\": %.2g}\n",
               (long long)r->tokens, (long long)r->layers, (long long)r->paths,
               (long long)r->threads, seconds[0][r->repeat / 2], seconds[0][0],
               seconds[1][r->repeat / 2], flops * 1e-9, rate.gflops, flops * 1e-9 / rate.gflops,
               worst);
    }
    rs_path_set_close(set);
    rs_path_plan_close(plan);
    rs_runner_close(runner);
    return status;
}

static rs_status bench(const bench_request *r, rs_error *err)
{
    rs_init *init = NULL;
    rs_network *network = NULL;
    rs_weights *weights = NULL;
    int64_t begin[] = {0, r->tokens};
    int32_t *ids = rs_malloc((size_t)r->tokens, sizeof *ids);
    json_t *config =
        json_pack("{s:s, s:i, s:i, s:I, s:i, s:i, s:i, s:i}", "model_type", "bert", "vocab_size",
                  VOCABULARY, "hidden_size", WIDTH, "num_hidden_layers", (json_int_t)r->layers,
                  "num_attention_heads", HEADS, "intermediate_size", 4 * WIDTH,
                  "max_position_embeddings", 512, "type_vocab_size", 2);
    rs_status status = ids && config ? RS_OK : rs_fail_memory(err, "bench", 0);
    if (status == RS_OK) status = rs_input_draw_ids(ids, 1, r->tokens, VOCABULARY, 0, 0, err);
    if (status == RS_OK) status = rs_init_open(&init, NULL, 0, err);
    if (status == RS_OK) rs_init_set_threads(init, (int)r->threads);
    if (status == RS_OK) status = rs_network_from_config(&network, config, "BERT-base", init, err);
    if (status == RS_OK)
        status = rs_weights_open(&weights, RS_PRECISION_F64, (uint64_t)8 << 30, err);
    const rs_batch batch = {.samples = 1, .begin = begin, .ids = ids};
    if (status == RS_OK) status = time_all(r, network, weights, &batch, err);
    rs_weights_close(weights);
    rs_network_close(network);
    rs_init_close(init);
    json_decref(config);
    rs_free(ids);
    return status;
}

int main(int argc, char **argv)
{
    rs_threads_hold(); /* as the functions of rankscope.h do, which these measurements go below */
    bench_request r = {.tokens = 128, .layers = 12, .repeat = 5, .threads = rs_default_threads()};
    const struct {
        const char *name;
        int64_t *value;
    } options[] = {{"--tokens", &r.tokens},
                   {"--layers", &r.layers},
                   {"--repeat", &r.repeat},
                   {"--threads", &r.threads},
                   {"--paths", &r.paths}};
    for (int i = 1; i + 1 < argc; i += 2)
        for (size_t o = 0; o < sizeof options / sizeof *options; o++)
            if (strcmp(argv[i], options[o].name) == 0)
                *options[o].value = strtoll(argv[i + 1], NULL, 10);
    rs_error err = {0};
    if (r.repeat > MOST_REPEATS) r.repeat = MOST_REPEATS;
    if (bench(&r, &err) == RS_OK) return 0;
    fprintf(stderr, "bench_paths: %s: %s\n", err.where, err.what);
    return 1;
}
