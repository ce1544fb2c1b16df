/*
 * bench_theory.c: theory of one architecture, there and back (src/predict/theory.h).
 *
 *   bench_theory KIND LAYERS TOKENS REPEATS      KIND: plain, causal, rotary
 *
 * GPT-2's laws of weights, width 768, GELU by tanh; rotary: Llama's, SwiGLU. Prints one JSON object:
 * processor `seconds` of a run, the best of the repeats, on one thread; `layer` of that by layer; and under a mask
 * `floor`, what a layer's least work takes at rates measured beside it: exponentials of weights, once
 * each way, and sums by powers, a product of all at the rate of dgemm. Powers and terms are what these
 * architectures need (POWERS and TERMS below).
 */
#include "base/memory.h"
#include "linalg/threads.h"
#include "predict/design.h"
#include "predict/gram_kernels.h"

#include <cblas.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { POWERS = 8, ROTARY_POWERS = 12, TERMS = 14 };

/* Of this thread: other work on the machine does not count. */
static double seconds_used(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Operations a second of dgemm. */
static double rate_of_dgemm(void)
{
    enum { SIDE = 512, TIMES = 10 };
    size_t count = (size_t)SIDE * SIDE;
    double *a = rs_calloc(3 * count, sizeof *a), begin = 0;
    for (int i = -1; i < TIMES && a; i++) {
        if (i == 0) begin = seconds_used();
        cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, SIDE, SIDE, SIDE, 1, a, SIDE,
                    a + count, SIDE, 0, a + 2 * count, SIDE);
    }
    double seconds = seconds_used() - begin;
    rs_free(a);
    return 2.0 * SIDE * SIDE * SIDE * TIMES / seconds;
}

/* Exponentials a second, as weights take them. */
static double rate_of_exp(void)
{
    enum { SIDE = 128, TIMES = 400 };
    double *a = rs_calloc(2 * SIDE * SIDE, sizeof *a), own[SIDE];
    for (int i = 0; i < SIDE; i++)
        own[i] = 1;
    double begin = seconds_used();
    for (int i = 0; i < TIMES && a; i++)
        rs_gram_kernels_here()->weigh(a, a + SIDE * SIDE, 0.5, own, SIDE, SIDE);
    double seconds = seconds_used() - begin;
    rs_free(a);
    return SIDE * (SIDE + 1.0) / 2 * TIMES / seconds;
}

/* Seconds of a layer's least work. */
static double floor_of(bool rotary, double n, double flops, double exps)
{
    double pairs = n * (n + 1) / 2, sums = 8 + 6, curves = 2 * 2 * TERMS; /* operations of a pair */
    if (!rotary) return 2 * pairs / exps + pairs * (sums * POWERS + curves) / flops;
    /* n distances: three operations a power and sum there, two a power back */
    double cells = n * pairs, each = 3 + 2 + 2;
    return 2 * cells / exps + cells * each * ROTARY_POWERS / flops;
}

int main(int argc, char **argv)
{
    static const char *const words[] = {
        "{\"depth\": %d, \"d_model\": 768, \"heads\": 12, \"seq_len\": %d, \"norm\": \"pre\", %s, "
        "\"init\": {\"wq\": \"normal(0, 0.02^2)\", \"wk\": \"normal(0, 0.02^2)\", \"wv\": "
        "\"normal(0, 0.02^2)\", \"w1\": \"normal(0, 0.02^2)\", \"wo\": \"normal(0, "
        "0.02^2/(2*L))\", \"w2\": \"normal(0, 0.02^2/(2*L))\"}, \"input\": {\"norm2\": "
        "\"2*0.02^2*d\"}}"};
    if (argc != 5) return 2;
    bool causal = strcmp(argv[1], "plain") != 0, rotary = strcmp(argv[1], "rotary") == 0;
    int layers = atoi(argv[2]), n = atoi(argv[3]);
    const char *kind = rotary ? "\"mask\": \"causal\", \"positions\": \"rope\", \"mlp\": \"swiglu\""
                       : causal ? "\"mask\": \"causal\", \"mlp\": \"gelu_tanh\""
                                : "\"mlp\": \"gelu_tanh\"";
    char text[1024];
    snprintf(text, sizeof text, words[0], layers, n, kind);
    rs_error err;
    rs_design like = {.name = "bench"}, design;
    if (rs_design_of(&design, &like, json_loads(text, 0, NULL), &err) != RS_OK) return 2;
    rs_theory_row *rows = calloc((size_t)layers + 1, sizeof *rows);
    double best = INFINITY, flops = 0, exps = 0;
    rs_threads_hold();
    for (int r = 0; r < atoi(argv[4]) && rows; r++) {
        double begin = seconds_used();
        const rs_theory_network *network = rs_theory_model_network(design.theory);
        if (rs_theory_run(rows, network, &(rs_theory_settings){.rough = true}, &err) != RS_OK)
            return 3;
        best = fmin(best, seconds_used() - begin);
        flops = fmax(flops, rate_of_dgemm());
        exps = fmax(exps, rate_of_exp());
    }
    rs_threads_release();
    if (!rows) return 2;
    printf("{\"seconds\": %.6g, \"layer\": %.6g, \"floor\": %.6g, \"dgemm\": %.5g, \"exps\": %.5g, "
           "\"rho\": %.10g, \"ln_query\": %.10g}\n",
           best, best / layers, causal ? floor_of(rotary, n, flops, exps) : 0.0, flops, exps,
           rows[layers].rho, rows[0].ln_query);
    free(rows);
    rs_design_close(&design);
    return 0;
}
