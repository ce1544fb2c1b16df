/* trials.c: trials of networks, by whichever way. */
#include "predict/trials.h"

#include "base/memory.h"
#include "linalg/threads.h"
#include "predict/trials_batch.h"
#include "predict/trials_engine.h"
#include "predict/trials_stats.h"

#include <math.h>
#include <stdatomic.h>

void rs_trials_free(rs_trials *trials)
{
    if (!trials) return;
    rs_free(trials->rows);
    rs_free(trials->numbers);
    rs_free(trials);
}

static rs_status new_trials(rs_trials **out, int32_t n_trials, int32_t layers, int64_t width,
                            bool batched, rs_error *err)
{
    size_t rows = (size_t)layers + 1, count = 0;
    rs_trials *trials = *out = rs_calloc(1, sizeof *trials);
    bool fits = rs_size_mul(rows * RS_TRIALS_QUANTITIES, (size_t)n_trials, &count);
    if (trials) {
        trials->rows = rs_calloc(rows, sizeof *trials->rows);
        trials->numbers = fits ? rs_malloc(count, sizeof *trials->numbers) : NULL;
    }
    if (!trials || !trials->rows || !trials->numbers)
        return rs_fail_memory(err, "trials", count * sizeof(double));
    trials->trials = n_trials;
    trials->n_layers = layers;
    trials->width = width;
    trials->batched = batched;
    for (size_t i = 0; i < count; i++)
        trials->numbers[i] = NAN;
    return RS_OK;
}

/* ---- batches ---- */

typedef struct work {
    rs_trials **out; /* in the order of the cells */
    const rs_trials_plan **plans;
    const rs_trials_request *request;
    const rs_context *context;
    uint64_t *done, total; /* trials of all cells, for whoever watches */
} work;

/* Says that `more` trials are done; the first thread tells of them. */
static void count_done(const work *w, int32_t more)
{
    uint64_t done = __atomic_add_fetch(w->done, (uint64_t)more, __ATOMIC_RELAXED);
    if (rs_thread_number() == 0) rs_progress(w->context, "trials", done, w->total, "trials");
}

static double *numbers_of(const rs_trials *trials, int32_t trial)
{
    return trials->numbers + (int64_t)trial * (trials->n_layers + 1) * RS_TRIALS_QUANTITIES;
}

static rs_status run_trial(const work *w, const rs_trials_batch *batch, rs_trials_room *room,
                           int32_t trial, rs_error *err)
{
    double *numbers[RS_TRIALS_CELLS];
    for (int32_t c = 0; c < batch->n_cells; c++)
        numbers[c] = numbers_of(w->out[batch->place[c]], trial);
    return rs_trials_batch_run(numbers, batch, room, trial, err);
}

/* Batches, and the trials of one after those of another: all that threads take one by one. */
typedef struct batches {
    rs_trials_batch *items;
    size_t n, capacity;
} batches;

/* A thread's room is for one batch at a time. */
typedef struct hold {
    rs_trials_room room;
    const rs_trials_batch *batch; /* NULL: none */
} hold;

static void let_go(hold *h)
{
    if (h->batch) rs_trials_room_close(&h->room);
    h->batch = NULL;
}

static rs_status take_hold(hold *h, const rs_trials_batch *batch, rs_error *err)
{
    if (h->batch == batch) return RS_OK;
    let_go(h);
    RS_TRY(rs_trials_room_open(&h->room, batch, err));
    h->batch = batch;
    return RS_OK;
}

static rs_status run_batches(const work *w, const batches *all, rs_error *err)
{
    rs_status kept = RS_OK;
    rs_error kept_error;
    atomic_bool stop = false;
    int64_t trials = w->request->trials, total = trials * (int64_t)all->n;
    int threads = w->context->threads > 1 ? w->context->threads : 1;
    if (threads > total) threads = total > 0 ? (int)total : 1;
#pragma omp parallel num_threads(threads)
    {
        hold held = {.batch = NULL};
#pragma omp for schedule(dynamic, 1)
        for (int64_t i = 0; i < total; i++) {
            const rs_trials_batch *batch = &all->items[i / trials];
            rs_error problem;
            if (atomic_load_explicit(&stop, memory_order_relaxed)) continue;
            rs_status status = take_hold(&held, batch, &problem);
            if (status == RS_OK)
                status = run_trial(w, batch, &held.room, (int32_t)(i % trials), &problem);
            if (status != RS_OK) {
                rs_keep_first(&kept, &kept_error, status, &problem);
                atomic_store_explicit(&stop, true, memory_order_relaxed);
            }
            count_done(w, batch->n_cells);
        }
        let_go(&held);
    }
    if (kept != RS_OK && err) *err = kept_error;
    return kept;
}

/* Checks what threads will take, and gives the batch its sizes. */
static rs_status plan_batch(rs_trials_batch *batch, const work *w, rs_error *err)
{
    uint64_t bytes;
    rs_budget budget = {0};
    RS_TRY(rs_trials_batch_plan(batch, &bytes, err));
    rs_budget_add(&budget, "trials", (double)bytes * w->context->threads);
    return rs_budget_check(&budget, w->context->memory, "trials",
                           "take fewer threads, or a smaller network", err);
}

/* Chains of a batch at most: fewer where there are more threads than trials, so that all have something. */
static int32_t chains_most(const work *w)
{
    int64_t most = rs_trials_chains_most(w->request->input.n);
    int64_t trials = w->request->trials, threads = w->context->threads;
    if (threads > trials) most = most * trials / threads;
    return most > 1 ? (int32_t)most : 1;
}

/* Cells that run together, with as many chains as a thread's room has place for. */
static rs_status next_batch(rs_trials_batch *batch, const work *w, const bool *taken, int32_t count,
                            rs_error *err)
{
    for (int32_t chains = chains_most(w);; chains = batch->n_chains / 2) {
        rs_trials_gather(batch, w->plans, taken, count, chains);
        rs_status status = batch->n_cells ? plan_batch(batch, w, err) : RS_OK;
        if (status != RS_E_MEMORY_LIMIT || batch->n_chains == 1) return status;
    }
}

/* Batches of all cells that have a plan. */
static rs_status gather_all(batches *out, const work *w, bool *taken, int32_t count, rs_error *err)
{
    for (;;) {
        rs_trials_batch batch = {
            .request = w->request, .context = w->context, .kernels = rs_trials_kernels_here()};
        RS_TRY(next_batch(&batch, w, taken, count, err));
        if (!batch.n_cells) return RS_OK;
        if (!RS_GROW(out->items, out->n, out->capacity))
            return rs_fail_memory(err, "trials", sizeof batch);
        out->items[out->n++] = batch;
        for (int32_t c = 0; c < batch.n_cells; c++)
            taken[batch.place[c]] = true;
    }
}

static rs_status run_batched(const work *w, int32_t count, rs_error *err)
{
    batches all = {0};
    bool *taken = rs_calloc((size_t)count, sizeof *taken);
    if (!taken) return rs_fail_memory(err, "trials", (size_t)count);
    rs_status status = gather_all(&all, w, taken, count, err);
    if (status == RS_OK) status = run_batches(w, &all, err);
    rs_free(all.items);
    rs_free(taken);
    return status;
}

/* ---- requests ---- */

static rs_status check(const rs_trials_request *request, rs_error *err)
{
    const rs_theory_input *input = &request->input;
    double least = input->n > 1 ? -1 / ((double)input->n - 1) : -1;
    bool rho = input->rho >= least * (1 + 1e-12) && input->rho <= 1;
    if (request->trials >= 1 && input->n >= 1 && input->n <= INT32_MAX && input->norm2 >= 0 &&
        isfinite(input->norm2) && rho)
        return RS_OK;
    return rs_fail(err, RS_E_BAD_OPTION, "trials",
                   "trials and tokens are at least 1, the squared norm of a token at least 0, and "
                   "rho lies between -1/(n - 1) and 1",
                   "%d trials of %lld tokens of squared norm %g and correlation %g",
                   request->trials, (long long)input->n, input->norm2, input->rho);
}

/* *out NULL: it runs through the engine. */
static rs_status plan_cell(rs_trials_plan **out, const rs_network *network,
                           const rs_trials_request *request, rs_error *err)
{
    *out = NULL;
    bool plain = request->laws && !rs_trials_not_batched(network, request->input.n);
    if (request->way == RS_TRIALS_ENGINE || (!plain && request->way == RS_TRIALS_EITHER)) {
        if (request->opener.open) return RS_OK;
        return rs_fail(err, RS_E_UNSUPPORTED, "trials", NULL,
                       "there is nothing that opens a network for the engine");
    }
    if (!request->laws)
        return rs_fail(err, RS_E_UNSUPPORTED, "trials", NULL,
                       "trials are batched of networks that are drawn by laws");
    RS_TRY(rs_trials_plan_open(out, network, request->input.n, err));
    if (request->way != RS_TRIALS_EITHER || !request->opener.open) return RS_OK;
    /* one whose record is too large runs through the engine */
    const rs_trials_plan *const plans[] = {*out};
    const bool taken = false;
    rs_trials_batch batch = {.request = request};
    uint64_t bytes;
    rs_trials_gather(&batch, plans, &taken, 1, 1);
    if (rs_trials_batch_plan(&batch, &bytes, err) == RS_OK) return RS_OK;
    rs_trials_plan_close(*out);
    *out = NULL;
    return RS_OK;
}

static rs_status sum_up(const work *w, int32_t count, rs_error *err)
{
    rs_status kept = RS_OK;
    rs_error kept_error;
    int threads = count > 1 && w->context->threads > 1 ? w->context->threads : 1;
#pragma omp parallel for num_threads(threads) schedule(dynamic, 1) if (threads > 1)
    for (int32_t i = 0; i < count; i++) {
        rs_error problem;
        rs_status status = rs_trials_sum_up(w->out[i], w->request->input.n, &problem);
        if (status != RS_OK) rs_keep_first(&kept, &kept_error, status, &problem);
    }
    if (kept != RS_OK && err) *err = kept_error;
    return kept;
}

static rs_status run_cells(const work *w, const rs_network *const *networks, int32_t count,
                           rs_error *err)
{
    for (int32_t i = 0; i < count; i++) {
        rs_trials_plan *plan;
        RS_TRY(plan_cell(&plan, networks[i], w->request, err));
        w->plans[i] = plan;
        RS_TRY(new_trials(&w->out[i], w->request->trials, networks[i]->n_layers,
                          networks[i]->d_model, plan != NULL, err));
    }
    RS_TRY(run_batched(w, count, err));
    for (int32_t i = 0; i < count; i++)
        if (!w->plans[i])
            RS_TRY(rs_trials_engine_run(w->out[i]->numbers, w->out[i]->n_layers, networks[i],
                                        w->request, w->context, err));
    return sum_up(w, count, err);
}

rs_status rs_trials_run_cells(rs_trials **out, const rs_network *const *networks, int32_t count,
                              const rs_trials_request *request, const rs_context *context,
                              rs_error *err)
{
    uint64_t done = 0;
    work w = {.out = out, .request = request, .context = context, .done = &done};
    for (int32_t i = 0; i < count; i++)
        out[i] = NULL;
    RS_TRY(check(request, err));
    size_t size = count > 0 ? (size_t)count : 0;
    w.total = size * (uint64_t)request->trials;
    w.plans = rs_calloc(size, sizeof *w.plans);
    rs_status status =
        w.plans ? run_cells(&w, networks, count, err) : rs_fail_memory(err, "trials", size);
    for (int32_t i = 0; i < count; i++) {
        if (w.plans) rs_trials_plan_close((rs_trials_plan *)(uintptr_t)w.plans[i]);
        if (status == RS_OK) continue;
        rs_trials_free(out[i]);
        out[i] = NULL;
    }
    rs_free(w.plans);
    return status;
}

rs_status rs_trials_run(rs_trials **out, const rs_network *network,
                        const rs_trials_request *request, const rs_context *context, rs_error *err)
{
    return rs_trials_run_cells(out, &network, 1, request, context, err);
}
