/*
 * bench_residual.c: passes of a small attention network in the residual precision: one head, 4
 * features, 5 tokens, as bench/peers/residual_peer.py does them in multiprecision.
 *
 *   bench_residual LAYERS PASSES
 *
 * Prints one JSON object: seconds of a pass (least of 21 series of PASSES), and log10 of the
 * largest entry of the last residual, of the size that the peer's has.
 */
#include "base/clock.h"
#include "lab/toy.h"
#include "linalg/threads.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { TOKENS = 5, WIDTH = 4, SERIES = 21 };

/* Queries and keys of variance 4/d, values of 1/d, with W_O merged into them. */
static json_t *architecture(int layers)
{
    return json_pack("{s:i, s:i, s:s, s:f, s:s, s:{s:s, s:s, s:s, s:s}}", "depth", layers,
                     "d_model", WIDTH, "norm", "none", "skip_mixer", 0.0, "mlp", "none", "init",
                     "wq", "normal(0, 4/d)", "wk", "normal(0, 4/d)", "wv", "normal(0, 1/d)", "wo",
                     "none");
}

static void draw_tokens(double *x)
{
    rs_random random = rs_random_new(1, 0);
    double base[WIDTH];
    rs_draw_gaussian(base, WIDTH, 1, &random);
    rs_draw_gaussian(x, TOKENS * WIDTH, 0.3, &random);
    for (int i = 0; i < TOKENS * WIDTH; i++)
        x[i] += base[i % WIDTH];
}

/* Seconds of a pass. */
static rs_status time_passes(double *seconds, rs_runner *runner, const double *x, int passes)
{
    const int64_t begin[] = {0, TOKENS};
    const rs_batch batch = {.samples = 1, .begin = begin, .states = x};
    *seconds = (double)INFINITY;
    for (int s = 0; s < SERIES; s++) {
        double start = rs_seconds();
        for (int i = 0; i < passes; i++)
            RS_TRY(rs_runner_run(runner, &batch, NULL, 0, NULL));
        *seconds = fmin(*seconds, (rs_seconds() - start) / passes);
    }
    return RS_OK;
}

int main(int argc, char **argv)
{
    if (argc != 3) return 2;
    rs_threads_hold(); /* as the functions of rankscope.h do, which these measurements go below */
    int layers = atoi(argv[1]), passes = atoi(argv[2]);
    rs_context context = {.threads = 1};
    rs_toy toy;
    rs_runner *runner = NULL;
    rs_toy_trace trace;
    rs_error err;
    double x[TOKENS * WIDTH], seconds, most = 0;
    draw_tokens(x);
    if (rs_toy_open(&toy, architecture(layers), 1, &context, &err) != RS_OK ||
        rs_toy_precision(&toy, RS_PRECISION_RESIDUAL, &err) != RS_OK ||
        rs_toy_run(&trace, &toy, x, 1, TOKENS, false, &err) != RS_OK ||
        rs_runner_open(&runner, toy.network, toy.weights, &toy.context, &err) != RS_OK ||
        time_passes(&seconds, runner, x, passes) != RS_OK)
        return 1;
    const double *r = rs_toy_state(&trace, layers, 0);
    for (int i = 0; i < TOKENS * WIDTH; i++)
        most = fmax(most, fabs(r[i]));
    printf("{\"seconds\": %.4g, \"log10\": %.6g}\n", seconds,
           log10(most) + (double)trace.exponents[layers] * log10(2));
    rs_toy_trace_free(&trace);
    rs_runner_close(runner);
    rs_toy_close(&toy);
    return 0;
}
