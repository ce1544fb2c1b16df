/* san_batch.c: many small random self-attention networks at once. */
#include "model/san_batch.h"

#include "base/cpu.h"
#include "base/memory.h"
#include "model/draw.h"
#include "model/san_kernels.h"

#include <math.h>
#include <omp.h>
#include <stdatomic.h>
#include <string.h>

/* Matrices of a layer, in the order in which they are drawn. */
enum { W_Q, W_K, W_V, W_O, WEIGHTS };
/* The stream of a network's input; layer l draws from streams 4l .. 4l + 3. */
static const uint32_t input_stream = UINT32_MAX;

enum { LARGEST = 4096 }; /* tokens and features: these networks are small */

static const rs_san_kernels *kernels(void)
{
#if defined(__x86_64__)
    rs_cpu_level level = rs_cpu_vector_level();
    if (level == RS_CPU_AVX2 || level == RS_CPU_AVX512) return &rs_san_kernels_avx2;
#endif
    return &rs_san_kernels_plain;
}

/* What one thread works in. */
typedef struct room {
    double *x, *q, *keys, *v, *mixed; /* [n, d]; keys: [d, n], one key a column */
    double *logits;                   /* [n, n] */
    double *sums;                     /* [n] */
    double *mean;                     /* [d] */
    double *weights;                  /* [4, d, d] */
} room;

typedef struct work {
    const rs_san_batch *batch;
    const rs_context *context;
    const rs_san_kernels *kernels;
    const double *weights, *inputs; /* given, or NULL */
    double *residual, *norm, *final;
} work;

static size_t room_size(const rs_san_batch *b)
{
    size_t n = (size_t)b->n, d = (size_t)b->d;
    return 5 * n * d + n * n + n + d + 4 * d * d;
}

static room room_at(double *memory, const rs_san_batch *b)
{
    int64_t n = b->n, d = b->d;
    room r;
    double **parts[] = {&r.x,      &r.q,    &r.keys, &r.v,      &r.mixed,
                        &r.logits, &r.sums, &r.mean, &r.weights};
    int64_t sizes[] = {n * d, n * d, n * d, n * d, n * d, n * n, n, d, 4 * d * d};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        *parts[i] = memory;
        memory += sizes[i];
    }
    return r;
}

static void transpose(double *out, const double *in, int64_t rows, int64_t cols)
{
    for (int64_t i = 0; i < rows; i++)
        for (int64_t k = 0; k < cols; k++)
            out[k * rows + i] = in[i * cols + k];
}

/* mixed[:, head] = softmax(q keysᵀ scale) v, the division by the row's sum left to the end. */
static void mix_head(const work *w, const room *r, int64_t head)
{
    const rs_san_batch *b = w->batch;
    int64_t n = b->n, d = b->d, width = d / b->heads, at = head * width;
    w->kernels->multiply(r->logits, n, r->q + at, d, r->keys + at * n, n, n, n, width, false);
    w->kernels->exponentiate(r->logits, r->sums, n, n, 1 / sqrt((double)width));
    w->kernels->multiply(r->mixed + at, d, r->logits, n, r->v + at, d, n, width, n, false);
    for (int64_t i = 0; i < n; i++) {
        double factor = 1 / r->sums[i];
        for (int64_t k = at; k < at + width; k++)
            r->mixed[i * d + k] *= factor;
    }
}

static void run_layer(const work *w, const room *r, const double *weights)
{
    const rs_san_batch *b = w->batch;
    int64_t n = b->n, d = b->d, all = d * d;
    w->kernels->multiply(r->q, d, r->x, d, weights + W_K * all, d, n, d, d, false);
    transpose(r->keys, r->q, n, d);
    w->kernels->multiply(r->q, d, r->x, d, weights + W_Q * all, d, n, d, d, false);
    w->kernels->multiply(r->v, d, r->x, d, weights + W_V * all, d, n, d, d, false);
    for (int64_t h = 0; h < b->heads; h++)
        mix_head(w, r, h);
    if (b->skip != 0 && b->skip != 1)
        for (int64_t i = 0; i < n * d; i++)
            r->x[i] *= b->skip;
    w->kernels->multiply(r->x, d, r->mixed, d, weights + W_O * all, d, n, d, d, b->skip != 0);
}

static void draw_layer(const work *w, const room *r, int64_t network, int32_t layer)
{
    int64_t all = w->batch->d * w->batch->d;
    double factor = sqrt(w->batch->variance / (double)w->batch->d);
    for (uint32_t m = 0; m < WEIGHTS; m++) {
        rs_draw stream = {w->context->seed, {(uint32_t)network, 4 * (uint32_t)layer + m}};
        rs_draw_normal_f64(r->weights + m * all, &stream, all, 0, factor, 1);
    }
}

static void run_network(const work *w, const room *r, int64_t network)
{
    const rs_san_batch *b = w->batch;
    int64_t size = b->n * b->d, state = network * (b->layers + 1);
    if (w->inputs) {
        memcpy(r->x, w->inputs + network * size, (size_t)size * sizeof *r->x);
    } else {
        rs_draw stream = {w->context->seed, {(uint32_t)network, input_stream}};
        rs_draw_normal_f64(r->x, &stream, size, 0, 1, 1);
    }
    w->kernels->measure(w->residual + state, w->norm + state, r->mean, r->x, b->n, b->d);
    for (int32_t l = 0; l < b->layers; l++) {
        if (!w->weights) draw_layer(w, r, network, l);
        run_layer(w, r,
                  w->weights ? w->weights + (network * b->layers + l) * WEIGHTS * b->d * b->d
                             : r->weights);
        w->kernels->measure(w->residual + state + l + 1, w->norm + state + l + 1, r->mean, r->x,
                            b->n, b->d);
    }
    if (w->final) memcpy(w->final + network * size, r->x, (size_t)size * sizeof *r->x);
}

static rs_status check(const rs_san_batch *b, rs_error *err)
{
    if (b->networks < 0 || b->networks > UINT32_MAX || b->layers < 0 || b->layers > INT32_MAX / 8 ||
        b->n < 1 || b->n > LARGEST || b->d < 1 || b->d > LARGEST || b->heads < 1 ||
        b->d % b->heads || !(b->variance >= 0) || !isfinite(b->variance) || !isfinite(b->skip))
        return rs_fail(err, RS_E_CONFIG_SIZE, "batch of networks",
                       "tokens and features are 1 to 4096, heads divide the features",
                       "%lld networks of %d layers, %lld tokens, %lld features, %d heads, variance "
                       "%g, skip %g",
                       (long long)b->networks, b->layers, (long long)b->n, (long long)b->d,
                       b->heads, b->variance, b->skip);
    return RS_OK;
}

static rs_status run_all(work *w, rs_error *err)
{
    const rs_san_batch *b = w->batch;
    int threads = w->context->threads > 0 ? w->context->threads : 1;
    atomic_bool stop = false;
    size_t size = room_size(b);
    RS_TRY(check(b, err));
    double *memory = rs_malloc((size_t)threads * size, sizeof *memory);
    if (!memory) return rs_fail_memory(err, "batch of networks", (size_t)threads * size * 8);
    w->kernels = kernels();
#pragma omp parallel for num_threads(threads) schedule(dynamic, 4)
    for (int64_t i = 0; i < b->networks; i++) {
        if (atomic_load_explicit(&stop, memory_order_relaxed)) continue;
        room r = room_at(memory + (size_t)omp_get_thread_num() * size, b);
        run_network(w, &r, i);
        rs_error ignored;
        if (omp_get_thread_num() == 0 && rs_check_cancelled(w->context, &ignored) != RS_OK)
            atomic_store_explicit(&stop, true, memory_order_relaxed);
    }
    rs_free(memory);
    return rs_check_cancelled(w->context, err);
}

rs_status rs_san_batch_run(double *residual, double *norm, double *final, const rs_san_batch *batch,
                           const rs_context *context, rs_error *err)
{
    work w = {
        .batch = batch, .context = context, .residual = residual, .norm = norm, .final = final};
    return run_all(&w, err);
}

rs_status rs_san_batch_apply(double *residual, double *norm, double *final, const double *weights,
                             const double *inputs, const rs_san_batch *batch,
                             const rs_context *context, rs_error *err)
{
    work w = {.batch = batch,
              .context = context,
              .weights = weights,
              .inputs = inputs,
              .residual = residual,
              .norm = norm,
              .final = final};
    return run_all(&w, err);
}
