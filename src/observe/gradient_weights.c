/* gradient_weights.c: sums of squares of the parameters themselves, as they are decoded, in front of
 * what a configuration multiplies them by: that is what gradients are by. */
#include "observe/gather_gradients.h"

#include "base/memory.h"
#include "engine/dense_matrix.h"
#include "linalg/threads.h"

/* Sums over pieces are added in the order of the pieces, whichever thread took them. */
typedef struct pieces {
    int64_t outputs; /* of the parameter in a piece */
    int64_t n;
    double *sums;      /* [n, parts] */
    double *numbers;   /* [threads, outputs, in] */
    rs_status *failed; /* [n] */
} pieces;

static void close_pieces(pieces *at)
{
    rs_free(at->sums);
    rs_free(at->numbers);
    rs_free(at->failed);
}

static rs_status open_pieces(pieces *at, const rs_parameter *p, int64_t parts, int threads,
                             rs_error *err)
{
    enum { NUMBERS = 1 << 16 };
    int64_t outputs = p->in > 0 && p->in < NUMBERS ? NUMBERS / p->in : 1;
    *at = (pieces){.outputs = outputs < p->out ? outputs : p->out};
    if (at->outputs < 1) at->outputs = 1;
    at->n = (p->out + at->outputs - 1) / at->outputs;
    size_t room = (size_t)threads * (size_t)at->outputs * (size_t)p->in + 1;
    at->sums = rs_calloc((size_t)at->n * (size_t)parts + 1, sizeof *at->sums);
    at->numbers = rs_malloc(room, sizeof *at->numbers);
    at->failed = rs_calloc((size_t)at->n + 1, sizeof *at->failed);
    if (at->sums && at->numbers && at->failed) return RS_OK;
    close_pieces(at);
    return rs_fail_memory(err, "norms of weights", room * sizeof *at->numbers);
}

rs_status rs_parameter_read(double *out, const rs_network *network, const rs_parameter *p,
                            int64_t first, int64_t n)
{
    rs_dense map = p->map ? *p->map : (rs_dense){0};
    map.factors = NULL;
    map.n_factors = 0;
    if (!p->tensor) {
        *out = *rs_parameter_number(network, p);
        return RS_OK;
    }
    if (p->map && p->part == RS_OF_WEIGHT) return rs_dense_rows(out, NULL, &map, first, n, NULL);
    for (int64_t u = first; p->map && u < first + n; u++)
        rs_tensor_decode_f64(out + (u - first), p->tensor,
                             map.first + u / map.run * map.stride + u % map.run, 1);
    if (!p->map) rs_tensor_decode_f64(out, p->tensor, first * p->in, n * p->in);
    return RS_OK;
}

static void add_squares(double *sums, const double *numbers, const rs_parameter *p, int64_t first,
                        int64_t n, int64_t parts, bool by_input)
{
    int64_t part = (by_input ? p->in : p->out) / parts;
    for (int64_t u = 0; u < n; u++) {
        const double *row = numbers + u * p->in;
        double sum = 0;
        for (int64_t i = 0; i < p->in; i++) {
            if (by_input)
                sums[i / part] += row[i] * row[i];
            else
                sum += row[i] * row[i];
        }
        if (!by_input) sums[(first + u) / part] += sum;
    }
}

rs_status rs_parameter_squares(double *squares, const rs_network *network, const rs_parameter *p,
                               int64_t parts, bool by_input, const rs_context *context,
                               rs_error *err)
{
    int threads = context->threads > 0 ? context->threads : 1;
    rs_status status = RS_OK;
    pieces at;
    for (int64_t i = 0; i < parts; i++)
        squares[i] = 0;
    if (p->out < 1 || p->in < 1) return RS_OK;
    RS_TRY(open_pieces(&at, p, parts, threads, err));
#pragma omp parallel num_threads(threads) if (at.n > 1)
    {
        double *numbers = at.numbers + (int64_t)rs_thread_number() * at.outputs * p->in;
#pragma omp for schedule(dynamic)
        for (int64_t b = 0; b < at.n; b++) {
            int64_t first = b * at.outputs, left = p->out - first;
            int64_t n = left < at.outputs ? left : at.outputs;
            at.failed[b] = rs_parameter_read(numbers, network, p, first, n);
            if (at.failed[b] != RS_OK) continue;
            add_squares(at.sums + b * parts, numbers, p, first, n, parts, by_input);
        }
    }
    for (int64_t b = 0; b < at.n && status == RS_OK; b++) {
        status = at.failed[b];
        for (int64_t i = 0; i < parts; i++)
            squares[i] += at.sums[b * parts + i];
    }
    close_pieces(&at);
    return status == RS_OK ? RS_OK : rs_fail_memory(err, p->name, 0);
}
