/* crew.c: parts of a batch, each on a thread. */
#include "train/crew.h"

#include "base/memory.h"
#include "engine/kernels.h"

#include <string.h>

typedef struct part {
    rs_runner *runner; /* the caller's where the batch is whole */
    rs_weights *weights;
    rs_trained_sink sink; /* of the first part the list's own */
    int64_t *begin;       /* [samples + 1] of the part */
    rs_batch batch;
    rs_loss loss;
    rs_loss_told told;
    rs_dropout dropout;
    double value;
    rs_status status;
    rs_error err;
} part;

struct rs_crew {
    rs_trained_list *list;
    rs_precision precision;
    const rs_context *context;
    rs_context alone; /* the same for one thread, which reports no progress */
    int64_t n;
    part *parts; /* [n] */
};

int64_t rs_crew_parts(int64_t numbers, size_t size, int64_t samples, int64_t rows)
{
    enum { MOST = 8, LEAST_ROWS = 128 }; /* for fewer a part costs more than it saves */
    static const double room = 16 << 20; /* bytes of gradients beside the list's own */
    int64_t n = rows / LEAST_ROWS < MOST ? rows / LEAST_ROWS : MOST;
    if (n > samples) n = samples;
    return n < 2 || (MOST - 1) * (double)numbers * (double)size > room ? 1 : n;
}

/* ---- opening ---- */

static rs_status open_part(part *p, rs_crew *crew, int64_t samples, bool own, rs_error *err)
{
    const rs_trained_list *list = crew->list;
    p->begin = rs_malloc((size_t)samples + 1, sizeof *p->begin);
    if (!p->begin) return rs_fail_memory(err, "a batch", (size_t)samples * sizeof *p->begin);
    if (own) RS_TRY(rs_trained_sink_open(&p->sink, list, err));
    RS_TRY(rs_weights_open(&p->weights, crew->precision, UINT64_MAX, err));
    return rs_runner_open(&p->runner, list->network, p->weights, &crew->alone, err);
}

static rs_status open_parts(rs_crew *crew, int64_t samples, rs_runner *runner, rs_error *err)
{
    crew->parts = rs_calloc((size_t)crew->n, sizeof *crew->parts);
    if (!crew->parts)
        return rs_fail_memory(err, "parts of a batch", (size_t)crew->n * sizeof *crew->parts);
    crew->parts[0].sink = crew->list->sink;
    if (crew->n == 1) {
        crew->parts[0].runner = runner;
        return RS_OK;
    }
    for (int64_t i = 0; i < crew->n; i++)
        RS_TRY(open_part(&crew->parts[i], crew, samples, i > 0, err));
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
    rs_status status = open_parts(crew, samples, runner, err);
    if (status == RS_OK) return RS_OK;
    rs_crew_close(crew);
    *out = NULL;
    return status;
}

void rs_crew_close(rs_crew *crew)
{
    if (!crew) return;
    for (int64_t i = 0; i < crew->n && crew->parts; i++) {
        part *p = &crew->parts[i];
        rs_free(p->begin);
        if (i > 0) rs_trained_sink_close(&p->sink);
        if (crew->n == 1) continue;
        rs_runner_close(p->runner);
        rs_weights_close(p->weights);
    }
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

static rs_status take_gradient(void *user, const rs_gradient_view *view, rs_error *err)
{
    return rs_trained_take(user, view, err);
}

/* One batch, or part of it, into a sink. */
static rs_status run_back(part *p, const rs_crew *crew, const rs_context *context, rs_error *err)
{
    const rs_gradient_tap take = {.user = &p->sink, .parameter = take_gradient};
    const rs_gradient_tap *const taps[] = {&take};
    const rs_gradient_plan plan = {.numbers = crew->list->told};
    rs_gradients *gradients = NULL;
    RS_TRY(rs_gradients_open(&gradients, crew->list->network, crew->precision, &plan, taps, 1,
                             context, err));
    rs_status status =
        rs_runner_gradient(&p->value, p->runner, &p->batch, &p->loss, gradients, NULL, 0, err);
    if (status == RS_OK) status = rs_gradients_finish(gradients, err);
    rs_gradients_close(gradients);
    return status;
}

static rs_status run_whole(double *loss, rs_crew *crew, const rs_feed *feed, const rs_loss *wanted,
                           const rs_dropout *dropout, rs_error *err)
{
    part *p = &crew->parts[0];
    p->batch = feed->batch;
    p->batch.dropout = dropout;
    p->loss = *wanted;
    p->value = 0;
    RS_TRY(run_back(p, crew, crew->context, err));
    *loss += p->value;
    return RS_OK;
}

static void run_part(rs_crew *crew, int64_t i, const rs_feed *feed, const rs_loss *wanted,
                     const rs_dropout *dropout)
{
    part *p = &crew->parts[i];
    int64_t samples = feed->batch.samples;
    cut(p, feed, wanted, dropout, samples * i / crew->n, samples * (i + 1) / crew->n);
    p->told = (rs_loss_told){0};
    if (wanted->told) p->loss.told = &p->told;
    if (i > 0) rs_trained_begin(&p->sink);
    p->value = 0;
    p->status = RS_OK;
    if (p->batch.samples > 0) p->status = run_back(p, crew, &crew->alone, &p->err);
    rs_trained_end(&p->sink);
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

/* The list's gradients gain those of the other parts, stretch by stretch. */
static void add_parts(const rs_crew *crew)
{
    enum { STRETCH = 4096 }; /* numbers */
    const rs_trained_list *list = crew->list;
    const rs_kernels_f32 *single = rs_kernels_f32_here();
    int64_t numbers = (int64_t)(list->bytes / list->size);
    int threads = crew->context->threads > 1 && numbers > 4 * STRETCH ? crew->context->threads : 1;
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t at = 0; at < numbers; at += STRETCH) {
        int64_t count = numbers - at < STRETCH ? numbers - at : STRETCH;
        for (int64_t i = 1; i < crew->n; i++)
            if (list->size == sizeof(float))
                single->combine((float *)list->gradients + at,
                                (const float *)crew->parts[i].sink.gradients + at, count, 1, 1);
            else
                rs_kernels_f64_here()->combine((double *)list->gradients + at,
                                               (const double *)crew->parts[i].sink.gradients + at,
                                               count, 1, 1);
    }
}

rs_status rs_crew_run(double *loss, rs_crew *crew, const rs_feed *feed, const rs_loss *wanted,
                      const rs_dropout *dropout, rs_error *err)
{
    int threads = crew->context->threads;
    if (crew->n == 1) return run_whole(loss, crew, feed, wanted, dropout, err);
    if (threads > crew->n) threads = (int)crew->n;
    if (threads > 1)
#pragma omp parallel for num_threads(threads) schedule(dynamic)
        for (int64_t i = 0; i < crew->n; i++)
            run_part(crew, i, feed, wanted, dropout);
    else
        for (int64_t i = 0; i < crew->n; i++)
            run_part(crew, i, feed, wanted, dropout);
    RS_TRY(gather(loss, crew, wanted, err));
    add_parts(crew);
    return RS_OK;
}

void rs_crew_weights_changed(rs_crew *crew)
{
    for (int64_t i = 0; i < crew->n && crew->n > 1; i++)
        rs_weights_changed(crew->parts[i].weights);
}

double rs_crew_flops(const rs_crew *crew)
{
    double sum = 0;
    for (int64_t i = 0; i < crew->n; i++)
        sum += rs_runner_flops(crew->parts[i].runner);
    return sum;
}
