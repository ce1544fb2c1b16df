/* evaluate.c: what a network that learns says of a batch, without a way back. */
#include "train/learner.h"

#include "base/memory.h"
#include "observe/gather.h"

#include <math.h>

/* Sums over the rows of a batch; each row's numbers are kept, so that they are added in one order. */
typedef struct sums {
    const rs_learner *learner;
    double *loss; /* [rows] */
    uint8_t *right;
} sums;

static double squared_error(const rs_state_view *view, int64_t i, const double *wanted, int64_t n)
{
    double sum = 0;
    for (int64_t c = 0; c < n; c++) {
        double is = view->precision == RS_PRECISION_F32
                        ? (double)((const float *)view->data)[i * view->cols + c]
                        : ((const double *)view->data)[i * view->cols + c];
        sum += (is - wanted[c]) * (is - wanted[c]);
    }
    return sum;
}

/* The first of the largest. */
static int64_t largest(const rs_state_view *view, int64_t i)
{
    const float *x = (const float *)view->data + i * view->cols;
    const double *y = (const double *)view->data + i * view->cols;
    bool single = view->precision == RS_PRECISION_F32;
    int64_t best = 0;
    for (int64_t c = 1; c < view->cols; c++)
        if (single ? x[c] > x[best] : y[c] > y[best]) best = c;
    return best;
}

static double surprise(const rs_state_view *view, int64_t i, int32_t target)
{
    return view->precision == RS_PRECISION_F32
               ? rs_nll_f32((const float *)view->data + i * view->cols, view->cols, target)
               : rs_nll_f64((const double *)view->data + i * view->cols, view->cols, target);
}

static rs_status take_logits(void *user, int64_t first_row, const rs_state_view *view,
                             rs_error *err)
{
    sums *s = user;
    const rs_feed *feed = &s->learner->feed;
    (void)err;
#pragma omp parallel for schedule(static) num_threads(s->learner->context->threads)
    for (int64_t i = 0; i < view->rows; i++) {
        int64_t row = first_row + i;
        if (!feed->counted[row]) continue;
        if (feed->targets) {
            s->loss[row] = surprise(view, i, feed->targets[row]);
            s->right[row] = largest(view, i) == feed->targets[row];
        } else {
            s->loss[row] = squared_error(view, i, feed->values + row * feed->d_out, feed->d_out);
        }
    }
    return RS_OK;
}

rs_status rs_learner_evaluate(rs_batch_outcome *out, rs_learner *l, const rs_task_batch *batch,
                              rs_error *err)
{
    rs_feed_pack(&l->feed, batch);
    int64_t rows = l->feed.begin[batch->samples];
    sums s = {l, rs_calloc((size_t)rows + 1, sizeof(double)), rs_calloc((size_t)rows + 1, 1)};
    const rs_tap tap = {.user = &s, .logits = take_logits};
    const rs_tap *const taps[] = {&tap};
    rs_status status = s.loss && s.right ? RS_OK : rs_fail_memory(err, "an evaluation", 9);
    if (status == RS_OK) status = rs_runner_run(l->runner, &l->feed.batch, taps, 1, err);
    *out = (rs_batch_outcome){.tokens = rows, .targets = l->feed.n_targets};
    for (int64_t i = 0; i < rows && status == RS_OK; i++)
        out->loss += s.loss[i], out->accuracy += s.right[i];
    rs_free(s.loss);
    rs_free(s.right);
    if (!l->feed.targets) out->accuracy = NAN;
    return status;
}
