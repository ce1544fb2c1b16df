/* crew.c: parts of a batch, each on a thread. */
#include "train/crew.h"

#include "base/memory.h"
#include "engine/kernels.h"
#include "engine/loop.h"

#include <omp.h>
#include <string.h>

typedef struct part {
    rs_trained_sink *sink;
    int64_t *begin; /* [samples + 1] of the part */
    rs_batch batch;
    rs_loss loss;
    rs_loss_told told;
    rs_dropout dropout;
    double value, flops;
    rs_status status;
    rs_error err;
} part;

/* What a thread runs its parts in, one after the other. */
typedef struct worker {
    rs_runner *runner; /* the caller's where the batch is whole */
    rs_weights *weights;
    rs_gradients *gradients;
    rs_gradient_tap take; /* into the sink of the part that it runs */
    const rs_gradient_tap *taps[1];
} worker;

struct rs_crew {
    rs_trained_list *list;
    rs_precision precision;
    const rs_context *context;
    rs_context alone; /* the same for one thread, which reports no progress */
    int64_t n, n_workers, n_sinks;
    part *parts;            /* [n] */
    worker *workers;        /* [n_workers] */
    rs_trained_sink *sinks; /* [n_sinks], the first one the list's own */
};

int64_t rs_crew_parts(int64_t numbers, size_t size, int64_t samples, int64_t rows)
{
    enum { MOST = 8, LEAST_ROWS = 128 }; /* for fewer a part costs more than it saves */
    static const double room = 16 << 20; /* bytes of gradients beside the list's own */
    int64_t n = rows / LEAST_ROWS < MOST ? rows / LEAST_ROWS : MOST;
    if (n > samples) n = samples;
    return n < 2 || (MOST - 1) * (double)numbers * (double)size > room ? 1 : n;
}

int64_t rs_crew_workers(int64_t parts, int threads)
{
    if (threads < 1) threads = 1;
    return threads < parts ? threads : parts;
}

int64_t rs_crew_sinks(int64_t parts, int threads)
{
    return rs_crew_workers(parts, threads) == 1 && parts > 2 ? 2 : parts;
}

/* ---- opening ---- */

static rs_status take_gradient(void *user, const rs_gradient_view *view, rs_error *err)
{
    return rs_trained_take(user, view, err);
}

static rs_status open_gradients(worker *w, const rs_crew *crew, const rs_context *context,
                                rs_error *err)
{
    const rs_gradient_plan plan = {.numbers = crew->list->told};
    w->take.parameter = take_gradient;
    w->taps[0] = &w->take;
    return rs_gradients_open(&w->gradients, crew->list->network, crew->precision, &plan, w->taps, 1,
                             context, err);
}

static rs_status open_worker(worker *w, rs_crew *crew, rs_error *err)
{
    RS_TRY(rs_weights_open(&w->weights, crew->precision, UINT64_MAX, err));
    RS_TRY(rs_runner_open(&w->runner, crew->list->network, w->weights, &crew->alone, err));
    return open_gradients(w, crew, &crew->alone, err);
}

static rs_status open_parts(rs_crew *crew, int64_t samples, rs_runner *runner, rs_error *err)
{
    crew->parts = rs_calloc((size_t)crew->n, sizeof *crew->parts);
    crew->workers = rs_calloc((size_t)crew->n_workers, sizeof *crew->workers);
    crew->sinks = rs_calloc((size_t)crew->n_sinks, sizeof *crew->sinks);
    if (!crew->parts || !crew->workers || !crew->sinks)
        return rs_fail_memory(err, "parts of a batch", (size_t)crew->n * sizeof *crew->parts);
    crew->sinks[0] = crew->list->sink;
    crew->parts[0].sink = crew->sinks;
    if (crew->n == 1) {
        crew->workers[0].runner = runner;
        return open_gradients(&crew->workers[0], crew, crew->context, err);
    }
    for (int64_t i = 1; i < crew->n_sinks; i++)
        RS_TRY(rs_trained_sink_open(&crew->sinks[i], crew->list, err));
    for (int64_t i = 0; i < crew->n_workers; i++)
        RS_TRY(open_worker(&crew->workers[i], crew, err));
    for (int64_t i = 0; i < crew->n; i++) {
        part *p = &crew->parts[i];
        p->sink = &crew->sinks[i < crew->n_sinks ? i : crew->n_sinks - 1];
        p->begin = rs_malloc((size_t)samples + 1, sizeof *p->begin);
        if (!p->begin) return rs_fail_memory(err, "a batch", (size_t)samples * sizeof *p->begin);
    }
    return RS_OK;
}

rs_status rs_crew_open(rs_crew **out, rs_trained_list *list, rs_precision precision,
                       int64_t samples, int64_t n_tok, rs_runner *runner, const rs_context *context,
                       rs_error *err)
{
    rs_crew *crew = *out = rs_calloc(1, sizeof *crew);
    if (!crew) return rs_fail_memory(err, "parts of a batch", sizeof *crew);
    *crew = (rs_crew){.list = list, .precision = precision, .context = context, .alone = *context};
    crew->alone.threads = 1;
    crew->alone.progress = NULL;
    crew->alone.kept = NULL; /* which threads do not share */
    crew->n = rs_crew_parts(list->numbers, list->size, samples, samples * n_tok);
    crew->n_workers = rs_crew_workers(crew->n, context->threads);
    crew->n_sinks = rs_crew_sinks(crew->n, context->threads);
    rs_status status = open_parts(crew, samples, runner, err);
    if (status == RS_OK) return RS_OK;
    rs_crew_close(crew);
    *out = NULL;
    return status;
}

void rs_crew_close(rs_crew *crew)
{
    if (!crew) return;
    for (int64_t i = 0; i < crew->n && crew->parts; i++)
        rs_free(crew->parts[i].begin);
    for (int64_t i = 0; i < crew->n_workers && crew->workers; i++) {
        worker *w = &crew->workers[i];
        rs_gradients_close(w->gradients);
        if (crew->n > 1) rs_runner_close(w->runner);
        rs_weights_close(w->weights);
    }
    for (int64_t i = 1; i < crew->n_sinks && crew->sinks; i++)
        rs_trained_sink_close(&crew->sinks[i]);
    rs_free(crew->sinks);
    rs_free(crew->workers);
    rs_free(crew->parts);
    rs_free(crew);
}

/* ---- running ---- */

/* Samples first .. end-1 of what is packed. */
static void cut(part *p, const rs_feed *f, const rs_loss *wanted, const rs_dropout *dropout,
                int64_t first, int64_t end)
{
    int64_t at = f->begin[first];
    const rs_batch *whole = &f->batch;
    for (int64_t s = first; s <= end; s++)
        p->begin[s - first] = f->begin[s] - at;
    p->batch = *whole;
    p->batch.samples = (int32_t)(end - first);
    p->batch.begin = p->begin;
    if (whole->ids) p->batch.ids = whole->ids + at;
    if (whole->rows) p->batch.rows = whole->rows + at * f->d_in;
    p->loss = *wanted;
    if (wanted->targets) p->loss.targets = wanted->targets + at;
    if (wanted->values) p->loss.values = wanted->values + at * f->d_out;
    if (wanted->counted) p->loss.counted = wanted->counted + at;
    if (!dropout) return;
    p->dropout = *dropout;
    p->dropout.first_row += at;
    p->batch.dropout = &p->dropout;
}

/* One batch, or part of it, into a sink. */
static rs_status run_back(part *p, worker *w, rs_error *err)
{
    w->take.user = p->sink;
    rs_gradients_again(w->gradients);
    RS_TRY(
        rs_runner_gradient(&p->value, w->runner, &p->batch, &p->loss, w->gradients, NULL, 0, err));
    p->flops = rs_runner_flops(w->runner);
    return rs_gradients_finish(w->gradients, err);
}

static rs_status run_whole(double *loss, rs_crew *crew, const rs_feed *feed, const rs_loss *wanted,
                           const rs_dropout *dropout, rs_error *err)
{
    part *p = &crew->parts[0];
    p->batch = feed->batch;
    p->batch.dropout = dropout;
    p->loss = *wanted;
    p->value = 0;
    RS_TRY(run_back(p, &crew->workers[0], err));
    *loss += p->value;
    return RS_OK;
}

static void run_part(rs_crew *crew, int64_t i, worker *w, const rs_feed *feed,
                     const rs_loss *wanted, const rs_dropout *dropout)
{
    part *p = &crew->parts[i];
    int64_t samples = feed->batch.samples;
    cut(p, feed, wanted, dropout, samples * i / crew->n, samples * (i + 1) / crew->n);
    p->told = (rs_loss_told){0};
    if (wanted->told) p->loss.told = &p->told;
    if (i > 0) rs_trained_begin(p->sink);
    p->value = p->flops = 0;
    p->status = RS_OK;
    if (p->batch.samples > 0) p->status = run_back(p, w, &p->err);
    rs_trained_end(p->sink);
}

/* What the parts found, in their order. */
static rs_status gather(double *loss, rs_crew *crew, const rs_loss *wanted, rs_error *err)
{
    for (int64_t i = 0; i < crew->n; i++) {
        const part *p = &crew->parts[i];
        if (p->status != RS_OK) {
            *err = p->err;
            return p->status;
        }
        *loss += p->value;
        if (!wanted->told) continue;
        wanted->told->targets += p->told.targets;
        wanted->told->right += p->told.right;
    }
    return RS_OK;
}

enum { STRETCH = 4096 }; /* numbers of gradients that a thread adds at a time */

/* Parts whose gradients the list's gain. */
typedef struct adding {
    const rs_crew *crew;
    int64_t first, end;
} adding;

static void add_stretch(const void *user, int64_t i)
{
    const adding *job = user;
    const rs_trained_list *list = job->crew->list;
    int64_t at = i * STRETCH, left = (int64_t)(list->bytes / list->size) - at;
    int64_t count = left < STRETCH ? left : STRETCH;
    for (int64_t k = job->first; k < job->end; k++) {
        const void *gradients = job->crew->parts[k].sink->gradients;
        if (list->size == sizeof(float))
            rs_kernels_f32_here()->combine((float *)list->gradients + at,
                                           (const float *)gradients + at, count, 1, 1);
        else
            rs_kernels_f64_here()->combine((double *)list->gradients + at,
                                           (const double *)gradients + at, count, 1, 1);
    }
}

/* The list's gradients gain those of parts first .. end-1, in their order. */
static void add_parts(const rs_crew *crew, int64_t first, int64_t end)
{
    int64_t numbers = (int64_t)(crew->list->bytes / crew->list->size);
    rs_loop(numbers > 4 * STRETCH ? crew->context->threads : 1, (numbers + STRETCH - 1) / STRETCH,
            add_stretch, &(adding){crew, first, end});
}

/* One thread needs no more than one sink beside the list's own: a part's gradients are added while they are
 * still in its cache. */
static void run_in_turn(rs_crew *crew, const rs_feed *feed, const rs_loss *wanted,
                        const rs_dropout *dropout)
{
    for (int64_t i = 0; i < crew->n; i++) {
        run_part(crew, i, &crew->workers[0], feed, wanted, dropout);
        if (i > 0) add_parts(crew, i, i + 1);
    }
}

static void run_side_by_side(rs_crew *crew, const rs_feed *feed, const rs_loss *wanted,
                             const rs_dropout *dropout)
{
#pragma omp parallel for num_threads((int)crew->n_workers) schedule(dynamic)
    for (int64_t i = 0; i < crew->n; i++)
        run_part(crew, i, &crew->workers[omp_get_thread_num()], feed, wanted, dropout);
    add_parts(crew, 1, crew->n);
}

rs_status rs_crew_run(double *loss, rs_crew *crew, const rs_feed *feed, const rs_loss *wanted,
                      const rs_dropout *dropout, rs_error *err)
{
    if (crew->n == 1) return run_whole(loss, crew, feed, wanted, dropout, err);
    if (crew->n_workers > 1)
        run_side_by_side(crew, feed, wanted, dropout);
    else
        run_in_turn(crew, feed, wanted, dropout);
    return gather(loss, crew, wanted, err);
}

void rs_crew_weights_changed(rs_crew *crew)
{
    for (int64_t i = 0; i < crew->n_workers && crew->n > 1; i++)
        rs_weights_changed(crew->workers[i].weights);
}

double rs_crew_flops(const rs_crew *crew)
{
    double sum = 0;
    for (int64_t i = 0; i < crew->n; i++)
        sum += crew->parts[i].flops;
    return sum;
}
