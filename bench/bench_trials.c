/*
 * bench_trials.c: Monte Carlo trials of a small post-norm ReLU network (src/predict/trials.h).
 *
 *   bench_trials TRIALS LAYERS TOKENS FEATURES HEADS WIDTH THREADS REPEATS [CELLS]
 *
 * Prints one JSON object, seconds each the best of the repeats: `trials` batched, `engine` the same
 * through the engine (a tenth of them, times ten), `draws` the normals alone; flops of all products
 * forward, back and by weights; the rate of dgemm on matrices of 768; `floor` what products at that
 * rate and draws take; and means by which the peer can be seen to have done the same.
 *
 * With CELLS it is a phase diagram's networks: CELLS depths from 1 to LAYERS by CELLS strengths of the
 * branch around attention from 0 to 2. Then `grid` is the time of them all; flops are those of states
 * once for each strength, and of derivatives by states for each cell; draws once for each trial.
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

/* planned: its weights have laws, and no numbers. */
static rs_status open_network(drawn **out, const char *text, bool planned, uint64_t seed,
                              rs_error *err)
{
    json_t *json = json_loads(text, 0, NULL);
    drawn *d = *out = calloc(1, sizeof *d);
    if (!json || !d) exit(2);
    rs_status status = rs_init_open(&d->init, NULL, seed, err);
    if (status == RS_OK)
        status = (planned ? rs_arch_plan : rs_network_from_arch)(&d->network, json, "bench",
                                                                 d->init, err);
    json_decref(json);
    return status;
}

static rs_status draw(void *user, const rs_network **network, void **what, int32_t trial,
                      uint64_t seed, rs_error *err)
{
    drawn *d;
    (void)trial;
    rs_status status = open_network(&d, user, false, seed, err);
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

/* What is asked for. */
typedef struct task {
    int trials, layers, n, d, heads, width, threads, repeats, cells;
} task;

static void write_network(char text[512], const task *t, int layers, double strength)
{
    snprintf(text, 512,
             "{\"depth\": %d, \"d_model\": %d, \"heads\": %d, \"seq_len\": %d, \"norm\": \"post\", "
             "\"mlp\": \"relu\", \"mlp_width\": %d, \"branch_mixer\": %.17g}",
             layers, t->d, t->heads, t->n, t->width, strength);
}

static int64_t normals_of(const task *t)
{
    return (int64_t)t->layers * (4 * (int64_t)t->d * t->d + 2LL * t->d * t->width);
}

/* ---- one network ---- */

static int run_one(const task *t)
{
    char text[512];
    rs_context context = {.threads = t->threads, .seed = 1};
    rs_trials_request request = {.input = {t->n, t->d, 0},
                                 .trials = t->trials,
                                 .laws = true,
                                 .opener = {draw, undraw, text}};
    rs_error err;
    const rs_network *network;
    void *owner;
    write_network(text, t, t->layers, 1);
    if (draw(text, &network, &owner, 0, 1, &err) != RS_OK) return 2;
    double batched = INFINITY, engine = INFINITY, draws = INFINITY, rate = 0;
    int64_t numbers = (int64_t)t->d * t->d, all = normals_of(t);
    rs_trials *result = NULL;
    for (int r = 0; r < t->repeats; r++) {
        rs_trials_free(result);
        double begin = rs_seconds();
        if (rs_trials_run(&result, network, &request, &context, &err) != RS_OK) return 3;
        batched = least(batched, rs_seconds() - begin);
        rs_trials_request tenth = request;
        rs_trials *other;
        tenth.trials = t->trials < 10 ? 1 : t->trials / 10;
        tenth.way = RS_TRIALS_ENGINE;
        begin = rs_seconds();
        if (rs_trials_run(&other, network, &tenth, &context, &err) != RS_OK) return 3;
        engine = least(engine, (rs_seconds() - begin) * t->trials / tenth.trials);
        rs_trials_free(other);
        draws = least(draws, seconds_of_draws(t->trials, all / numbers, numbers, t->threads));
        rate = fmax(rate, rate_of_dgemm(t->threads));
    }
    double flops = rs_trials_cost(network, t->n) * t->trials;
    const rs_trials_row *first = &result->rows[0], *last = &result->rows[t->layers];
    printf("{\"trials\": %.6g, \"engine\": %.6g, \"draws\": %.6g, \"ns_per_normal\": %.4g, "
           "\"flops\": %.6g, \"dgemm\": %.5g, \"floor\": %.6g, \"batched\": %s, \"rho\": %.6g, "
           "\"log_value\": %.6g, \"log_query\": %.6g}\n",
           batched, engine, draws, draws * t->threads / ((double)all * t->trials) * 1e9, flops,
           rate, flops / rate + draws, result->batched ? "true" : "false", last->rho,
           first->of[RS_TRIALS_VALUE].log_mean, first->of[RS_TRIALS_QUERY].log_mean);
    rs_trials_free(result);
    undraw(NULL, owner);
    return 0;
}

/* ---- a phase diagram's ---- */

/* Operations of a pass over the states of a network, and those of attention alone. */
static double pass_of(const rs_network *network, const task *t)
{
    return rs_trials_cost(network, t->n) / 3;
}

static double attention_of(const rs_network *network, const task *t)
{
    return 4.0 * network->n_layers * t->n * t->n * t->d;
}

/* All depths of a few strengths at a time, as a grid gives them; adds their operations. */
static int run_cells(double *flops, const task *t)
{
    enum { TOGETHER = 128 };
    drawn *planned[TOGETHER];
    const rs_network *networks[TOGETHER];
    rs_trials *out[TOGETHER];
    rs_context context = {.threads = t->threads, .seed = 1};
    const rs_trials_request request = {
        .input = {t->n, t->d, 0}, .trials = t->trials, .laws = true, .ends = true};
    int all = t->cells * t->cells, stretch = TOGETHER / t->cells * t->cells;
    *flops = 0;
    for (int first = 0; first < all; first += stretch) {
        int count = all - first < stretch ? all - first : stretch;
        rs_error err;
        for (int i = 0; i < count; i++) {
            char text[512];
            double steps = t->cells - 1, depth = (first + i) % t->cells * (t->layers - 1) / steps;
            write_network(text, t, 1 + (int)lround(depth), 2 * ((first + i) / t->cells) / steps);
            if (open_network(&planned[i], text, true, 1, &err) != RS_OK) return 2;
            networks[i] = planned[i]->network;
            *flops += pass_of(networks[i], t) + attention_of(networks[i], t);
            if (networks[i]->n_layers == t->layers) *flops += pass_of(networks[i], t);
        }
        if (rs_trials_run_cells(out, networks, count, &request, &context, &err) != RS_OK) return 3;
        for (int i = 0; i < count; i++) {
            rs_trials_free(out[i]);
            undraw(NULL, planned[i]);
        }
    }
    *flops *= t->trials;
    return 0;
}

static int run_grid(const task *t)
{
    double grid = INFINITY, draws = INFINITY, rate = 0, flops = 0;
    int64_t numbers = (int64_t)t->d * t->d;
    if (t->cells < 2 || t->cells > 128) return 2;
    for (int r = 0; r < t->repeats; r++) {
        double begin = rs_seconds();
        int failed = run_cells(&flops, t);
        if (failed) return failed;
        grid = least(grid, rs_seconds() - begin);
        draws =
            least(draws, seconds_of_draws(t->trials, normals_of(t) / numbers, numbers, t->threads));
        rate = fmax(rate, rate_of_dgemm(t->threads));
    }
    printf("{\"grid\": %.6g, \"draws\": %.6g, \"flops\": %.6g, \"dgemm\": %.5g, \"floor\": %.6g}\n",
           grid, draws, flops, rate, flops / rate + draws);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc != 9 && argc != 10) return 2;
    const task t = {.trials = atoi(argv[1]),
                    .layers = atoi(argv[2]),
                    .n = atoi(argv[3]),
                    .d = atoi(argv[4]),
                    .heads = atoi(argv[5]),
                    .width = atoi(argv[6]),
                    .threads = atoi(argv[7]),
                    .repeats = atoi(argv[8]),
                    .cells = argc > 9 ? atoi(argv[9]) : 0};
    rs_threads_hold();
    int failed = t.cells ? run_grid(&t) : run_one(&t);
    rs_threads_release();
    return failed;
}
