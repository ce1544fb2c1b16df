/* stack.c: the tokens that enter a stack of branches, and how skips alone make them grow. */
#include "observe/stack.h"

#include "base/memory.h"

#include <math.h>

int64_t rs_stack_branches(const rs_network *network)
{
    int64_t n = 0;
    for (int32_t l = 0; l < network->n_layers; l++)
        n += network->layers[l].n_branches;
    return n;
}

double rs_stack_decades(const rs_network *network, const double *skips, int64_t step)
{
    double now = 0, most = 0;
    for (int32_t l = 0; l < network->n_layers; l++)
        for (int32_t b = 0; b < network->layers[l].n_branches; b++, skips += step) {
            now += log10(fmax(fabs(*skips), 1e-300));
            if (now < 0 || network->layers[l].branches[b].after.kind != RS_NORM_NONE) now = 0;
            if (now > most) most = now;
        }
    return most;
}

/* ---- what enters ---- */

typedef struct entering {
    rs_listener listener;
    rs_lambda_entering *out;
    const rs_input_batch *batch;
    double *rows; /* [longest, d] of one sample */
    int64_t room; /* samples' longest */
} entering;

static rs_status begin_batch(void *user, const rs_input_batch *batch, rs_error *err)
{
    (void)err;
    ((entering *)user)->batch = batch;
    return RS_OK;
}

/* The rows of one sample, in float64; false: one is not finite. */
static bool copy_rows(double *out, const rs_state_view *view, int64_t first, int64_t rows)
{
    bool finite = true;
    for (int64_t k = 0; k < rows * view->cols; k++) {
        int64_t at = first * view->cols + k;
        out[k] = view->precision == RS_PRECISION_F32 ? (double)((const float *)view->data)[at]
                                                     : ((const double *)view->data)[at];
        finite = finite && isfinite(out[k]);
    }
    return finite;
}

static rs_status hear_state(void *user, rs_site site, int32_t layer, const rs_state_view *view,
                            rs_error *err)
{
    entering *w = user;
    const int64_t *begin = view->batch->begin;
    (void)site;
    if (layer > 0) return RS_OK;
    for (int32_t s = 0; s < view->batch->samples; s++) {
        int64_t n = begin[s + 1] - begin[s];
        rs_lambda_entering *out = &w->out[w->batch->first + s];
        if (n > 0 && n <= w->room && copy_rows(w->rows, view, begin[s], n))
            RS_TRY(rs_lambda_entering_of(out, w->rows, n, view->cols, view->cols, err));
    }
    return RS_OK;
}

rs_status rs_observe_entering(rs_lambda_entering *out, const rs_pass_plan *given, int64_t batch,
                              const rs_context *context, rs_error *err)
{
    rs_pass_plan plan = *given;
    rs_network embedding = *given->network; /* without layers; nothing of it is owned */
    size_t cells;
    embedding.n_layers = 0;
    plan.network = &embedding;
    plan.points = NULL;
    plan.capacity = rs_pass_capacity(given->network, plan.precision, plan.inputs, batch, context);
    for (int64_t s = 0; s < plan.inputs->samples; s++)
        out[s] = (rs_lambda_entering){NAN, NAN};
    entering w = {
        .listener = {.tap = {.user = &w, .sites = 1u << RS_SITE_BLOCK_OUT, .state = hear_state},
                     .begin = begin_batch},
        .out = out,
        .room = plan.inputs->longest};
    if (!rs_size_mul((size_t)w.room, (size_t)embedding.d_model, &cells))
        return rs_fail_memory(err, "tokens that enter", SIZE_MAX);
    w.rows = rs_malloc(cells ? cells : 1, sizeof *w.rows);
    if (!w.rows) return rs_fail_memory(err, "tokens that enter", cells * sizeof *w.rows);
    rs_listener *listeners[] = {&w.listener};
    rs_status status = rs_observe_pass(NULL, &plan, listeners, 1, context, err);
    rs_free(w.rows);
    return status;
}
