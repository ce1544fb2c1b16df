/*
 * bench_san.c: a batch of small random attention networks (src/engine/san_batch.h).
 *
 *   bench_san NETWORKS LAYERS TOKENS FEATURES HEADS THREADS REPEATS
 *
 * Prints one JSON object: seconds with the weights drawn, seconds of the passes alone on weights
 * that are there, seconds of drawing alone (each the best of the repeats), operations of the
 * products, and the median relative residual after the second layer, by which the peer can be seen
 * to have done the same.
 */
#include "base/clock.h"
#include "base/memory.h"
#include "base/sort.h"
#include "engine/san_batch.h"
#include "network/draw.h"

#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>

static double median_residual(const double *residual, const double *norm, const rs_san_batch *b)
{
    int64_t at = b->layers < 2 ? b->layers : 2;
    double *ratios = malloc((size_t)b->networks * sizeof *ratios);
    for (int64_t i = 0; ratios && i < b->networks; i++)
        ratios[i] = residual[i * (b->layers + 1) + at] / norm[i * (b->layers + 1) + at];
    if (!ratios) return NAN;
    rs_sort_doubles(ratios, b->networks);
    double middle = ratios[b->networks / 2];
    free(ratios);
    return middle;
}

/* As a batch draws them: a network's matrices one after another into memory that stays in cache. */
static void draw_all(const rs_san_batch *b, int threads)
{
    int64_t all = b->d * b->d;
#pragma omp parallel num_threads(threads)
    {
        double *w = malloc((size_t)all * sizeof *w);
#pragma omp for schedule(static)
        for (int64_t i = 0; i < b->networks; i++)
            for (uint32_t m = 0; m < 4 * (uint32_t)b->layers && w; m++) {
                rs_draw stream = {1, {(uint32_t)i, m}};
                rs_draw_normal_f64(w, &stream, all, 0, 1, 1);
            }
        free(w);
    }
}

int main(int argc, char **argv)
{
    if (argc != 8) return 2;
    rs_san_batch b = {
        atoll(argv[1]), atoi(argv[2]), atoll(argv[3]), atoll(argv[4]), atoi(argv[5]), 1, 0};
    int threads = atoi(argv[6]), repeats = atoi(argv[7]);
    rs_context context = {.threads = threads, .seed = 1};
    rs_error err;
    int64_t states = b.networks * (b.layers + 1), weights = b.networks * b.layers * 4 * b.d * b.d;
    double *residual = malloc((size_t)states * sizeof *residual);
    double *norm = malloc((size_t)states * sizeof *norm);
    double *w = malloc((size_t)weights * sizeof *w);
    double *x = malloc((size_t)(b.networks * b.n * b.d) * sizeof *x);
    if (!residual || !norm || !w || !x) return 1;
    rs_draw stream = {2, {0, 0}};
    rs_draw_normal_f64(w, &stream, weights, 0, 1 / sqrt((double)b.d), threads);
    rs_draw_normal_f64(x, &stream, b.networks * b.n * b.d, 0, 1, threads);
    double all = INFINITY, passes = INFINITY, draws = INFINITY, middle = NAN;
    for (int r = 0; r < repeats; r++) {
        double t0 = rs_seconds();
        if (rs_san_batch_apply(residual, norm, NULL, w, x, &b, &context, &err) != RS_OK) return 1;
        double t1 = rs_seconds();
        draw_all(&b, threads);
        double t2 = rs_seconds();
        if (rs_san_batch_run(residual, norm, NULL, &b, &context, &err) != RS_OK) return 1;
        double t3 = rs_seconds();
        passes = fmin(passes, t1 - t0);
        draws = fmin(draws, t2 - t1);
        all = fmin(all, t3 - t2);
        middle = median_residual(residual, norm, &b);
    }
    double n = (double)b.n, d = (double)b.d;
    double flops = (double)b.networks * b.layers * (8 * n * d * d + 4 * n * n * d);
    printf("{\"all\": %.6f, \"passes\": %.6f, \"draws\": %.6f, \"normals\": %lld, \"flops\": %.0f, "
           "\"residual\": %.6g}\n",
           all, passes, draws, (long long)weights, flops, middle);
    free(residual);
    free(norm);
    free(w);
    free(x);
    return 0;
}
