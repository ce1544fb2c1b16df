/* head_outputs.c: outputs of the head at single rows, without the logits of all others: rows of the
 * final state go through a network that is a head and nothing else. */
#include "observe/relevance.h"

#include "base/memory.h"

#include <math.h>

/* ---- rows of the final state ---- */

typedef struct row_taker {
    rs_listener listener;
    const rs_input_batch *batch;
    double *states; /* [samples, d_model] */
    int64_t row;
} row_taker;

static rs_status begin_batch(void *user, const rs_input_batch *batch, rs_error *err)
{
    row_taker *t = user;
    (void)err;
    t->batch = batch;
    return RS_OK;
}

static rs_status take_rows(void *user, rs_site site, int32_t layer, const rs_state_view *view,
                           rs_error *err)
{
    const row_taker *t = user;
    const rs_batch *batch = &t->batch->batch;
    (void)site;
    (void)layer;
    (void)err;
    for (int32_t s = 0; s < batch->samples; s++) {
        double *out = t->states + (t->batch->first + s) * view->cols;
        int64_t at = (batch->begin[s] + t->row) * view->cols;
        for (int64_t c = 0; c < view->cols; c++)
            out[c] = view->precision == RS_PRECISION_F32
                         ? (double)((const float *)view->data)[at + c]
                         : ((const double *)view->data)[at + c];
    }
    return RS_OK;
}

rs_status rs_final_rows(double *states, const rs_relevance_work *w, const rs_inputs *inputs,
                        int64_t row, rs_error *err)
{
    row_taker t = {.states = states, .row = row};
    t.listener =
        (rs_listener){.tap = {.user = &t, .sites = 1u << RS_SITE_FINAL, .state = take_rows},
                      .begin = begin_batch};
    return rs_relevance_pass(NULL, w, inputs, NULL, &t.listener, err);
}

/* ---- the head ---- */

typedef struct head_reader {
    rs_listener listener;
    const rs_input_batch *batch;
    int32_t output;
    double *values;   /* [samples]; NULL: the largest is looked for */
    int32_t *largest; /* of one sample */
} head_reader;

static rs_status begin_heads(void *user, const rs_input_batch *batch, rs_error *err)
{
    head_reader *h = user;
    (void)err;
    h->batch = batch;
    return RS_OK;
}

/* The first of the largest; a NaN is none. */
static int32_t largest_of(const rs_state_view *view)
{
    double most = -(double)INFINITY;
    int32_t best = 0;
    for (int64_t u = 0; u < view->cols; u++) {
        double at = view->precision == RS_PRECISION_F32 ? (double)((const float *)view->data)[u]
                                                        : ((const double *)view->data)[u];
        if (at > most) most = at, best = (int32_t)u;
    }
    return best;
}

static rs_status hear_logits(void *user, int64_t first, const rs_state_view *view, rs_error *err)
{
    head_reader *h = user;
    (void)err;
    for (int64_t i = 0; i < view->rows && h->values; i++) {
        int64_t at = i * view->cols + h->output;
        h->values[h->batch->first + first + i] = view->precision == RS_PRECISION_F32
                                                     ? (double)((const float *)view->data)[at]
                                                     : ((const double *)view->data)[at];
    }
    if (!h->values) *h->largest = largest_of(view);
    return RS_OK;
}

/* Each of n states is a sample of one token, which meets the head alone. */
static rs_status run_head(head_reader *h, const rs_relevance_work *w, double *states, int64_t n,
                          rs_error *err)
{
    rs_network head = *w->network;
    rs_relevance_work own = *w;
    rs_inputs inputs = {.kind = "states",
                        .samples = n,
                        .states = states,
                        .d_model = w->network->d_model,
                        .longest = 1,
                        .shortest = 1};
    head.n_layers = 0;
    head.final_norm = (rs_norm_op){0};
    own.network = &head;
    inputs.begin = rs_malloc((size_t)n + 1, sizeof *inputs.begin);
    if (!inputs.begin) return rs_fail_memory(err, "outputs", (size_t)n * sizeof *inputs.begin);
    for (int64_t i = 0; i <= n; i++)
        inputs.begin[i] = i;
    h->listener = (rs_listener){.tap = {.user = h, .logits = hear_logits}, .begin = begin_heads};
    rs_status status = rs_relevance_pass(NULL, &own, &inputs, NULL, &h->listener, err);
    rs_free(inputs.begin);
    return status;
}

rs_status rs_head_outputs(double *values, const rs_relevance_work *w, double *states, int64_t n,
                          int32_t output, rs_error *err)
{
    int64_t d = w->network->d_model;
    head_reader h = {.output = output, .values = values};
    if (output >= 0) return run_head(&h, w, states, n, err);
    for (int64_t i = 0; i < n; i++) {
        double square = 0;
        for (int64_t c = 0; c < d; c++)
            square += states[i * d + c] * states[i * d + c];
        values[i] = sqrt(square);
    }
    return RS_OK;
}

rs_status rs_head_largest(int32_t *output, const rs_relevance_work *w, double *state, rs_error *err)
{
    head_reader h = {.largest = output};
    return run_head(&h, w, state, 1, err);
}
