/*
 * bench_trials.c: Monte Carlo trials of a small post-norm ReLU network (src/predict/trials.h).
 *
 *   bench_trials TRIALS LAYERS TOKENS FEATURES HEADS WIDTH THREADS REPEATS
 *
 * Prints one JSON object, seconds each the best of the repeats: `trials` batched, `engine` the same
 * through the engine (a tenth of them, times ten), `draws` the normals alone; flops of all products
 * forward, back and by weights; the rate of dgemm on matrices of 768; `floor` what products at that
 * rate and draws take; and means by which the peer can be seen to have done the same.
 */
#include "base/clock.h"
#include "base/memory.h"
#include "linalg/threads.h"
#include "network/arch.h"
#include "predict/trials.h"
#include "predict/trials_draw.h"

#include <cblas.h>
#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct drawn {
    rs_init *init;
    rs_network *network;
} drawn;

static void undraw(void *user, void *what)
{
    drawn *d = what;
    (void)user;
    rs_network_close(d->network);
    rs_init_close(d->init);
    free(d);
}

static rs_status draw(void *user, const rs_network **network, void **what, int32_t trial,
                      uint64_t seed, rs_error *err)
{
    json_t *json = json_loads(user, 0, NULL);
    drawn *d = calloc(1, sizeof *d);
    (void)trial;
    if (!json || !d) exit(2);
    rs_status status = rs_init_open(&d->init, NULL, seed, err);
    if (status == RS_OK) status = rs_network_from_arch(&d->network, json, "bench", d->init, err);
    json_decref(json);
    *network = d->network;
    *what = d;
    return status;
}

/* Normals alone, matrix by matrix into memory that stays in cache. */
static double seconds_of_draws(int64_t trials, int64_t matrices, int64_t numbers, int threads)
{
    double begin = rs_seconds();
#pragma omp parallel num_threads(threads)
    {
        float *w = malloc((size_t)numbers * sizeof *w);
#pragma omp for schedule(dynamic)
        for (int64_t t = 0; t < trials; t++)
            for (int64_t m = 0; m < matrices && w; m++) {
                rs_trials_stream stream = {1, (uint32_t)t, (uint32_t)m, 0};
                rs_trials_normals(w, &stream, numbers, 0, 1);
            }
        free(w);
    }
    return rs_seconds() - begin;
}

/* Operations a second of dgemm, one product a thread. */
static double rate_of_dgemm(int threads)
{
    enum { SIDE = 768, TIMES = 6 };
    double begin = 0, seconds = 0;
#pragma omp parallel num_threads(threads)
    {
        size_t count = (size_t)SIDE * SIDE;
        double *a = rs_calloc(3 * count, sizeof *a);
        for (int i = -1; i < TIMES && a; i++) {
#pragma omp barrier
#pragma omp master
            if (i == 0) begin = rs_seconds();
            cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, SIDE, SIDE, SIDE, 1, a, SIDE,
                        a + count, SIDE, 0, a + 2 * count, SIDE);
        }
#pragma omp barrier
#pragma omp master
        seconds = rs_seconds() - begin;
        rs_free(a);
    }
    return 2.0 * SIDE * SIDE * SIDE * TIMES * threads / seconds;
}

static double least(double a, double b)
{
    return a < b ? a : b;
}

int main(int argc, char **argv)
{
    if (argc != 9) return 2;
    int trials = atoi(argv[1]), layers = atoi(argv[2]), n = atoi(argv[3]), d = atoi(argv[4]);
    int heads = atoi(argv[5]), width = atoi(argv[6]), threads = atoi(argv[7]);
    char text[512];
    snprintf(text, sizeof text,
             "{\"depth\": %d, \"d_model\": %d, \"heads\": %d, \"seq_len\": %d, \"norm\": \"post\", "
             "\"mlp\": \"relu\", \"mlp_width\": %d}",
             layers, d, heads, n, width);
    rs_context context = {.threads = threads, .seed = 1};
    rs_trials_request request = {
        .input = {n, d, 0}, .trials = trials, .laws = true, .opener = {draw, undraw, text}};
    rs_error err;
    const rs_network *network;
    void *owner;
    if (draw(text, &network, &owner, 0, 1, &err) != RS_OK) return 2;
    double batched = INFINITY, engine = INFINITY, draws = INFINITY, rate = 0;
    int64_t numbers = (int64_t)d * d, all = (int64_t)layers * (4 * numbers + 2LL * d * width);
    rs_trials *result = NULL;
    rs_threads_hold();
    for (int r = 0; r < atoi(argv[8]); r++) {
        rs_trials_free(result);
        double begin = rs_seconds();
        if (rs_trials_run(&result, network, &request, &context, &err) != RS_OK) return 3;
        batched = least(batched, rs_seconds() - begin);
        rs_trials_request tenth = request;
        rs_trials *other;
        tenth.trials = trials < 10 ? 1 : trials / 10;
        tenth.way = RS_TRIALS_ENGINE;
        begin = rs_seconds();
        if (rs_trials_run(&other, network, &tenth, &context, &err) != RS_OK) return 3;
        engine = least(engine, (rs_seconds() - begin) * trials / tenth.trials);
        rs_trials_free(other);
        draws = least(draws, seconds_of_draws(trials, all / numbers, numbers, threads));
        rate = fmax(rate, rate_of_dgemm(threads));
    }
    rs_threads_release();
    double flops = rs_trials_cost(network, n) * trials;
    const rs_trials_row *first = &result->rows[0], *last = &result->rows[layers];
    printf("{\"trials\": %.6g, \"engine\": %.6g, \"draws\": %.6g, \"ns_per_normal\": %.4g, "
           "\"flops\": %.6g, \"dgemm\": %.5g, \"floor\": %.6g, \"batched\": %s, \"rho\": %.6g, "
           "\"log_value\": %.6g, \"log_query\": %.6g}\n",
           batched, engine, draws, draws * threads / ((double)all * trials) * 1e9, flops, rate,
           flops / rate + draws, result->batched ? "true" : "false", last->rho,
           first->of[RS_TRIALS_VALUE].log_mean, first->of[RS_TRIALS_QUERY].log_mean);
    rs_trials_free(result);
    undraw(NULL, owner);
    return 0;
}
