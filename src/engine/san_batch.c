/* san_batch.c: many small random self-attention networks at once. */
#include "engine/san_batch.h"

#include "base/cpu.h"
#include "base/memory.h"
#include "engine/san_kernels.h"
#include "linalg/threads.h"
#include "network/draw.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

/* Matrices of a layer, in the order in which they are drawn. */
enum { W_Q, W_K, W_V, W_O, WEIGHTS };
/* The stream of a network's input; layer l draws from streams 4l .. 4l + 3. */
static const uint32_t input_stream = UINT32_MAX;

enum { LINE = 8 };       /* numbers in a line of cache: a vector that lies in two costs two reads */
enum { LARGEST = 4096 }; /* tokens and features: these networks are small */

static const rs_san_kernels *kernels(void)
{
#if defined(__x86_64__)
    rs_cpu_level level = rs_cpu_vector_level();
    if (level == RS_CPU_AVX2 || level == RS_CPU_AVX512) return &rs_san_kernels_avx2;
#endif
    return &rs_san_kernels_plain;
}

/* What one thread works in: matrices of tokens as the kernels take them, one token a column, the
 * columns filled up to a multiple of RS_SAN_COLUMNS. What stands in the filling is a token that
 * looks at the others and that nobody looks at. */
typedef struct room {
    double *x, *q, *keys, *v, *mixed; /* [d, wide] */
    double *logits;                   /* [n, RS_SAN_COLUMNS] */
    double *weights;                  /* [4, d, d] */
} room;

typedef struct work {
    const rs_san_batch *batch;
    const rs_context *context;
    const rs_san_kernels *kernels;
    const double *weights, *inputs; /* given, or NULL */
    double *residual, *norm, *final;
} work;

static int64_t wide(const rs_san_batch *b)
{
    return (b->n + RS_SAN_COLUMNS - 1) / RS_SAN_COLUMNS * RS_SAN_COLUMNS;
}

static size_t room_size(const rs_san_batch *b)
{
    size_t size = (size_t)(5 * b->d * wide(b) + b->n * RS_SAN_COLUMNS + 4 * b->d * b->d);
    return (size + LINE - 1) / LINE * LINE;
}

static room room_at(double *memory, const rs_san_batch *b)
{
    int64_t size = b->d * wide(b);
    room r;
    double **parts[] = {&r.x, &r.q, &r.keys, &r.v, &r.mixed};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++, memory += size)
        *parts[i] = memory;
    r.logits = memory;
    r.weights = memory + b->n * RS_SAN_COLUMNS;
    return r;
}

/* One head; asks meanwhile for its part of the weights that come next: a product goes down the
 * columns of a matrix, in steps too long for the processor to run ahead of it. */
static void mix_head(const work *w, const room *r, int64_t head, const double *next)
{
    const rs_san_batch *b = w->batch;
    int64_t columns = wide(b), width = b->d / b->heads, at = head * width * columns;
    int64_t calls = b->heads * columns / RS_SAN_COLUMNS, size = WEIGHTS * b->d * b->d;
    int64_t call = head * columns / RS_SAN_COLUMNS;
    for (int64_t j = 0; j < columns; j += RS_SAN_COLUMNS, call++) {
        if (next)
            for (int64_t i = size * call / calls; i < size * (call + 1) / calls; i += LINE)
                __builtin_prefetch(next + i, 0, 2);
        w->kernels->attend(r->mixed + at + j, r->q + at + j, r->keys + at, r->v + at, r->logits,
                           b->n, columns, width);
    }
}

static void run_layer(const work *w, const room *r, const double *weights, const double *next)
{
    const rs_san_batch *b = w->batch;
    int64_t d = b->d, all = d * d, columns = wide(b);
    w->kernels->multiply(r->q, weights + W_Q * all, r->x, d, columns, 0);
    w->kernels->multiply(r->keys, weights + W_K * all, r->x, d, columns, 0);
    w->kernels->multiply(r->v, weights + W_V * all, r->x, d, columns, 0);
    for (int64_t h = 0; h < b->heads; h++)
        mix_head(w, r, h, next);
    w->kernels->multiply(r->x, weights + W_O * all, r->mixed, d, columns, b->skip);
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

static void measure_state(const work *w, const room *r, int64_t state)
{
    const rs_san_batch *b = w->batch;
    w->kernels->measure(w->residual + state, w->norm + state, r->x, b->d, b->n, wide(b));
}

/* x = the network's input, which r->q [n, d] has room for before the first layer. */
static void start_network(const work *w, const room *r, int64_t network)
{
    const rs_san_batch *b = w->batch;
    int64_t size = b->n * b->d, columns = wide(b);
    const double *input = w->inputs ? w->inputs + network * size : r->q;
    if (!w->inputs) {
        rs_draw stream = {w->context->seed, {(uint32_t)network, input_stream}};
        rs_draw_normal_f64(r->q, &stream, size, 0, 1, 1);
    }
    for (int64_t k = 0; k < b->d; k++)
        for (int64_t i = 0; i < columns; i++)
            r->x[k * columns + i] = i < b->n ? input[i * b->d + k] : 0;
}

static void run_network(const work *w, const room *r, int64_t network)
{
    const rs_san_batch *b = w->batch;
    int64_t n = b->n, d = b->d, columns = wide(b), state = network * (b->layers + 1);
    start_network(w, r, network);
    measure_state(w, r, state);
    for (int32_t l = 0; l < b->layers; l++) {
        if (w->weights) {
            int64_t at = network * b->layers + l, last = b->networks * b->layers - 1;
            const double *weights = w->weights + at * WEIGHTS * d * d;
            run_layer(w, r, weights, at < last ? weights + WEIGHTS * d * d : NULL);
        } else {
            draw_layer(w, r, network, l);
            run_layer(w, r, r->weights, NULL);
        }
        measure_state(w, r, state + l + 1);
    }
    for (int64_t i = 0; w->final && i < n; i++)
        for (int64_t k = 0; k < d; k++)
            w->final[(network * n + i) * d + k] = r->x[k * columns + i];
}

static rs_status check_batch(const rs_san_batch *b, rs_error *err)
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
    RS_TRY(check_batch(b, err));
    size_t size = room_size(b);
    double *memory = rs_malloc((size_t)threads * size, sizeof *memory);
    if (!memory) return rs_fail_memory(err, "batch of networks", (size_t)threads * size * 8);
    w->kernels = kernels();
#pragma omp parallel for num_threads(threads) schedule(dynamic, 4)
    for (int64_t i = 0; i < b->networks; i++) {
        if (atomic_load_explicit(&stop, memory_order_relaxed)) continue;
        room r = room_at(memory + (size_t)rs_thread_number() * size, b);
        run_network(w, &r, i);
        rs_error ignored;
        if (rs_thread_number() == 0 && rs_check_cancelled(w->context, &ignored) != RS_OK)
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
