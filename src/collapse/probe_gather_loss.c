/* probe_gather_loss.c: how well a causal language model predicts each next token of its sample. */
#include "collapse/probe_gather.h"

#include <math.h>

rs_status rs_gather_loss_open(rs_gather *g, rs_error *err)
{
    int64_t most = 0;
    const rs_probe_inputs *in = g->inputs;
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

/* −ln softmax(x)_target, in double. */
#define NEGATIVE_LOG_LIKELIHOOD(name, real)                                                        \
    static double name(const real *x, int64_t n, int32_t target)                                   \
    {                                                                                              \
        real most = x[0];                                                                          \
        for (int64_t i = 1; i < n; i++)                                                            \
            most = x[i] > most ? x[i] : most;                                                      \
        double sum = 0;                                                                            \
        for (int64_t i = 0; i < n; i++)                                                            \
            sum += exp((double)x[i] - (double)most);                                               \
        return log(sum) + (double)most - (double)x[target];                                        \
    }
NEGATIVE_LOG_LIKELIHOOD(nll_f32, float)
NEGATIVE_LOG_LIKELIHOOD(nll_f64, double)

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
                ? nll_f32((const float *)view->data + i * view->cols, view->cols, target)
                : nll_f64((const double *)view->data + i * view->cols, view->cols, target);
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
