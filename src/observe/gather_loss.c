/* gather_loss.c: how well a causal language model predicts each next token of its sample. */
#include "engine/kernels.h"
#include "observe/gather.h"

#include <math.h>
#include <string.h>

rs_status rs_gather_loss_open(rs_gather *g, rs_error *err)
{
    int64_t most = 0;
    const rs_inputs *in = g->inputs;
    for (int64_t s = 0; s < in->samples; s += g->capacity) {
        int64_t end = s + g->capacity < in->samples ? s + g->capacity : in->samples;
        if (in->begin[end] - in->begin[s] > most) most = in->begin[end] - in->begin[s];
    }
    g->targets = rs_malloc((size_t)most, sizeof *g->targets);
    g->nll = rs_calloc((size_t)most, sizeof *g->nll);
    return g->targets && g->nll ? RS_OK
                                : rs_fail_memory(err, "loss", (size_t)most * sizeof *g->nll);
}

void rs_gather_loss_begin_batch(rs_gather *g)
{
    const rs_batch *batch = &g->batch->batch;
    for (int32_t s = 0; s < batch->samples; s++)
        for (int64_t row = batch->begin[s]; row < batch->begin[s + 1]; row++)
            g->targets[row] = row + 1 < batch->begin[s + 1] ? batch->ids[row + 1] : -1;
}

/*
 * −ln softmax(x)_target. A vocabulary of 262144 makes the exponentials the cost: float32 logits
 * take them a piece at a time from the kernels of the pass (1.1 ulp, e⁰ exactly 1), and everything
 * is summed in double, so that the small loss of a certain token keeps its digits as well.
 */
static double sum_of(const float *x, int64_t n)
{
    enum { WAYS = 8 };
    double parts[WAYS] = {0}, sum = 0;
    int64_t i = 0;
    for (; i + WAYS <= n; i += WAYS)
        for (int k = 0; k < WAYS; k++)
            parts[k] += (double)x[i + k];
    for (; i < n; i++)
        sum += (double)x[i];
    for (int k = 0; k < WAYS; k++)
        sum += parts[k];
    return sum;
}

/* Comparisons in eight strands, which the compiler keeps in one register. A NaN is never the
 * largest; it reaches the sum. */
static float largest_of(const float *x, int64_t n)
{
    enum { WAYS = 8 };
    float parts[WAYS], most = -INFINITY;
    int64_t i = 0;
    for (int k = 0; k < WAYS; k++)
        parts[k] = -INFINITY;
    for (; i + WAYS <= n; i += WAYS)
        for (int k = 0; k < WAYS; k++)
            parts[k] = x[i + k] > parts[k] ? x[i + k] : parts[k];
    for (; i < n; i++)
        most = x[i] > most ? x[i] : most;
    for (int k = 0; k < WAYS; k++)
        most = parts[k] > most ? parts[k] : most;
    return most;
}

/* Where the largest is; n when there is none. Its e⁰ is left out of the sum for log1p to add. */
#define PLACE_OF(name, real)                                                                       \
    static int64_t name(const real *x, int64_t n, real most)                                       \
    {                                                                                              \
        int64_t i = 0;                                                                             \
        while (i < n && x[i] != most)                                                              \
            i++;                                                                                   \
        return i;                                                                                  \
    }
PLACE_OF(place_of_f32, float)
PLACE_OF(place_of_f64, double)

double rs_nll_f32(const float *x, int64_t n, int32_t target)
{
    enum { PIECE = 1024 };
    float piece[PIECE];
    const rs_kernels_f32 *kernels = rs_kernels_f32_here();
    const float most = largest_of(x, n);
    const int64_t place = place_of_f32(x, n, most);
    double rest = 0;
    for (int64_t i = 0; i < n; i += PIECE) {
        int64_t count = n - i < PIECE ? n - i : PIECE;
        double largest = (double)most, in_float32 = 0;
        memcpy(piece, x + i, (size_t)count * sizeof *piece);
        kernels->softmax(piece, count, &largest, &in_float32);
        if (place >= i && place < i + count) piece[place - i] = 0;
        rest += sum_of(piece, count);
    }
    return log1p(rest) + ((double)most - (double)x[target]);
}

double rs_nll_f64(const double *x, int64_t n, int32_t target)
{
    double most = x[0], rest = 0;
    for (int64_t i = 1; i < n; i++)
        most = x[i] > most ? x[i] : most;
    const int64_t place = place_of_f64(x, n, most);
    for (int64_t i = 0; i < n; i++)
        if (i != place) rest += exp(x[i] - most);
    return log1p(rest) + (most - x[target]);
}

rs_status rs_gather_logits(void *user, int64_t first_row, const rs_state_view *view, rs_error *err)
{
    rs_gather *g = user;
    RS_TRY(rs_check_cancelled(g->context, err));
#pragma omp parallel for schedule(dynamic) num_threads(g->context->threads)
    for (int64_t i = 0; i < view->rows; i++) {
        int32_t target = g->targets[first_row + i];
        if (target < 0) continue;
        g->nll[first_row + i] =
            view->precision == RS_PRECISION_F32
                ? rs_nll_f32((const float *)view->data + i * view->cols, view->cols, target)
                : rs_nll_f64((const double *)view->data + i * view->cols, view->cols, target);
    }
    return RS_OK;
}

void rs_gather_loss_end_batch(rs_gather *g)
{
    const rs_batch *batch = &g->batch->batch;
    for (int64_t row = 0; row < batch->begin[batch->samples]; row++) {
        if (g->targets[row] < 0) continue;
        g->nll_sum += g->nll[row];
        g->out->scored++;
    }
}

void rs_gather_loss_close(rs_gather *g)
{
    rs_free(g->targets);
    rs_free(g->nll);
}
