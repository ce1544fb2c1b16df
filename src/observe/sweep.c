/* sweep.c: the listener of a sweep: of every sample at every point, behind every layer, its spread. */
#include "observe/sweep.h"

#include "base/memory.h"
#include "linalg/threads.h"

#include <math.h>

typedef struct sweep {
    rs_listener listener;
    const rs_context *context;
    rs_swept_state *out; /* [points, states]: sums while the pass goes on */
    int32_t points, states;
    const rs_input_batch *batch;
    rs_swept_state *slots; /* [points x capacity] of the samples of one state */
} sweep;

/* ---- one sample ---- */

typedef struct sample {
    const void *data;
    bool f32;
    int64_t n, d;
} sample;

/* Row i times `scale`. */
static void row_of(double *row, const sample *x, int64_t i, double scale)
{
    const float *narrow = (const float *)x->data + i * x->d;
    const double *wide = (const double *)x->data + i * x->d;
    for (int64_t c = 0; c < x->d; c++)
        row[c] = (x->f32 ? (double)narrow[c] : wide[c]) * scale;
}

/* The exponent of the largest entry, within +-1000, so that no square leaves the doubles; false: an
 * entry is not finite. */
static bool exponent_of(int *exponent, const sample *x, double *row)
{
    double most = 0;
    *exponent = 0;
    for (int64_t i = 0; i < x->n; i++) {
        row_of(row, x, i, 1);
        for (int64_t c = 0; c < x->d; c++) {
            if (!isfinite(row[c])) return false;
            if (fabs(row[c]) > most) most = fabs(row[c]);
        }
    }
    if (most > 0) frexp(most, exponent);
    *exponent = *exponent > 1000 ? 1000 : *exponent < -1000 ? -1000 : *exponent;
    return true;
}

/* scratch: room for 2 d doubles. The mean is taken away before squares are summed. */
static rs_swept_state measure(const sample *x, double *scratch)
{
    int exponent;
    double all = 0, rest = 0, *mean = scratch, *row = scratch + x->d;
    if (x->n == 0 || !exponent_of(&exponent, x, row))
        return (rs_swept_state){NAN, NAN, NAN, NAN, 0};
    for (int64_t c = 0; c < x->d; c++)
        mean[c] = 0;
    for (int64_t i = 0; i < x->n; i++) {
        row_of(row, x, i, ldexp(1, -exponent));
        for (int64_t c = 0; c < x->d; c++)
            mean[c] += row[c] / (double)x->n;
    }
    for (int64_t i = 0; i < x->n; i++) {
        row_of(row, x, i, ldexp(1, -exponent));
        for (int64_t c = 0; c < x->d; c++) {
            all += row[c] * row[c];
            rest += (row[c] - mean[c]) * (row[c] - mean[c]);
        }
    }
    double relative = all > 0 ? sqrt(rest / all) : NAN, mu = sqrt(rest);
    return (rs_swept_state){.relative = relative,
                            .log10_relative = log10(relative),
                            .mu = ldexp(mu, exponent),
                            .log10_mu = log10(mu) + (double)exponent * log10(2),
                            .samples = 1};
}

/* ---- the listener ---- */

static rs_status begin_batch(void *user, const rs_input_batch *batch, rs_error *err)
{
    (void)err;
    ((sweep *)user)->batch = batch;
    return RS_OK;
}

static void add(rs_swept_state *sum, const rs_swept_state *x)
{
    if (!x->samples || isnan(x->relative)) return;
    sum->relative += x->relative;
    sum->log10_relative += x->log10_relative;
    sum->mu += x->mu;
    sum->log10_mu += x->log10_mu;
    sum->samples++;
}

/* Samples in parallel, summed in their order; what enters the first layer is every point's. */
static rs_status hear_state(void *user, rs_site site, int32_t layer, const rs_state_view *view,
                            rs_error *err)
{
    sweep *w = user;
    int32_t samples = w->batch->batch.samples, all = view->batch->samples;
    const int64_t *begin = view->batch->begin;
    size_t size = rs_precision_size(view->precision);
    (void)site;
    (void)err;
#pragma omp parallel for num_threads(w->context->threads) schedule(dynamic)
    for (int32_t s = 0; s < all; s++) {
        const sample x = {.data = (const char *)view->data + (size_t)(begin[s] * view->cols) * size,
                          .f32 = view->precision == RS_PRECISION_F32,
                          .n = begin[s + 1] - begin[s],
                          .d = view->cols};
        w->slots[s] = measure(&x, w->listener.scratch[rs_thread_number()]);
    }
    for (int32_t p = 0; p < w->points; p++)
        for (int32_t s = 0; s < samples; s++)
            add(&w->out[(int64_t)p * w->states + layer],
                &w->slots[all == samples ? s : p * samples + s]);
    return RS_OK;
}

/* Sums become means. */
static void finish(sweep *w)
{
    for (int64_t i = 0; i < (int64_t)w->points * w->states; i++) {
        rs_swept_state *x = &w->out[i];
        double n = x->samples ? (double)x->samples : NAN;
        x->relative /= n;
        x->log10_relative /= n;
        x->mu /= n;
        x->log10_mu /= n;
    }
}

rs_status rs_observe_sweep(rs_swept_state *out, rs_pass_account *account, const rs_pass_plan *given,
                           int64_t batch, const rs_context *context, rs_error *err)
{
    rs_pass_plan plan = *given;
    int32_t points = plan.points->n;
    int64_t capacity = rs_pass_capacity(plan.network, plan.precision, plan.inputs, batch, context);
    plan.capacity = batch > 0 ? capacity : capacity / points > 1 ? capacity / points : 1;
    sweep w = {
        .listener = {.tap = {.user = &w, .sites = 1u << RS_SITE_BLOCK_OUT, .state = hear_state},
                     .begin = begin_batch,
                     .scratch_bytes = 2 * (size_t)plan.network->d_model * sizeof(double)},
        .context = context,
        .out = out,
        .points = points,
        .states = plan.network->n_layers + 1,
        .slots = rs_malloc((size_t)points * (size_t)plan.capacity, sizeof *w.slots)};
    if (!w.slots) return rs_fail_memory(err, "sweep", (size_t)points * sizeof *w.slots);
    for (int64_t i = 0; i < (int64_t)points * w.states; i++)
        out[i] = (rs_swept_state){0};
    rs_listener *listeners[] = {&w.listener};
    rs_status status = rs_observe_pass(account, &plan, listeners, 1, context, err);
    rs_free(w.slots);
    if (status == RS_OK) finish(&w);
    return status;
}

int32_t rs_sweep_points(const rs_network *network, rs_precision precision, const rs_inputs *inputs,
                        int32_t n, const rs_context *context)
{
    int64_t tokens = rs_pass_tokens(network, precision, context);
    int64_t most = 2 * tokens / (inputs->longest > 0 ? inputs->longest : 1);
    return most < 1 ? 1 : most < n ? (int32_t)most : n;
}
