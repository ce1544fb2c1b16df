/*
 * instruments_probe.c: a forward pass over the probe batch: how far tokens are apart behind each
 * layer, and how attention spreads (docs/train.md, Instruments).
 *
 * Every head and sample has a place of its own, and places are added up in their order when the pass
 * is over: the number of threads changes nothing.
 */
#include "train/instruments_parts.h"

#include "base/memory.h"
#include "linalg/threads.h"
#include "linalg/vector.h"
#include "measures/attention_null.h"
#include "measures/token_measures.h"
#include "network/op_traits.h"

#include <math.h>
#include <string.h>

/* ---- tokens ---- */

static rs_token_options token_options(const rs_instruments *i)
{
    return (rs_token_options){.centre = RS_CENTRE_MEAN,
                              .epsilon = rs_precision_roundoff(i->learner->precision),
                              .no_diameter = true};
}

static rs_status measure_sample(rs_instruments *i, const rs_state_view *view, int32_t sample,
                                rs_error *err)
{
    rs_instrument_probe *p = &i->probe;
    const rs_token_options options = token_options(i);
    rs_token_measures measures;
    int64_t first = view->batch->begin[sample], n = view->batch->begin[sample + 1] - first;
    void *space = p->workspaces[rs_thread_number()];
    p->residual[sample] = p->cosine[sample] = NAN;
    if (n < 1) return RS_OK;
    if (view->precision == RS_PRECISION_F32)
        RS_TRY(rs_token_measure_f32(&measures, (const float *)view->data + first * view->cols, n,
                                    view->cols, view->cols, &options, space, err));
    else
        RS_TRY(rs_token_measure_f64(&measures, (const double *)view->data + first * view->cols, n,
                                    view->cols, view->cols, &options, space, err));
    if (n > 1) p->residual[sample] = measures.relative_residual;
    p->cosine[sample] = measures.mean_cosine;
    return RS_OK;
}

/* Of what is a number. */
static double mean_of(const double *x, int64_t n)
{
    double sum = 0, count = 0;
    for (int64_t k = 0; k < n; k++)
        if (!isnan(x[k])) sum += x[k], count++;
    return sum / count;
}

static rs_status hear_state(void *user, rs_site site, int32_t layer, const rs_state_view *view,
                            rs_error *err)
{
    (void)site;
    rs_instruments *i = user;
    rs_status kept = RS_OK;
    rs_error kept_error = {0};
    int32_t samples = view->batch->samples;
#pragma omp parallel for num_threads(i->context->threads) schedule(dynamic)
    for (int32_t s = 0; s < samples; s++) {
        rs_error error = {0};
        rs_status status = measure_sample(i, view, s, &error);
        rs_keep_first(&kept, &kept_error, status, &error);
    }
    if (kept != RS_OK && err) *err = kept_error;
    i->layers[layer].relative_residual = mean_of(i->probe.residual, samples);
    i->layers[layer].mean_cosine = mean_of(i->probe.cosine, samples);
    return kept;
}

/* ---- attention ---- */

static bool is_softmax(const rs_instruments *i, int32_t layer, int32_t branch)
{
    const rs_layer *of = &i->network->layers[layer];
    const rs_attention_op *op = rs_branch_attention(&of->branches[branch]);
    return op && !op->cross && rs_layer_mixes_with(of, branch);
}

/* The row of a branch's first head among those of its layer. */
static int64_t row_of(const rs_instruments *i, int32_t layer, int32_t branch)
{
    int64_t row = i->probe.head_first[layer];
    for (int32_t b = 0; b < branch; b++)
        if (is_softmax(i, layer, b))
            row += rs_branch_attention(&i->network->layers[layer].branches[b])->heads;
    return row;
}

static bool wants_attention(void *user, int32_t layer, int32_t branch, int32_t head)
{
    (void)head;
    return is_softmax(user, layer, branch);
}

/* Keys [*first, *end) are visible to a query. */
static void visible_keys(const rs_attention_view *view, int64_t query, int64_t *first, int64_t *end)
{
    *first = 0;
    *end = view->causal ? query + 1 : view->keys;
    if (view->window <= 0) return;
    if (query - view->window + 1 > 0) *first = query - view->window + 1;
    if (!view->causal && query + view->window < *end) *end = query + view->window;
}

/* n numbers of a matrix from `at` on. */
static void read_numbers(double *out, const rs_attention_view *view, const void *matrix, int64_t at,
                         int64_t n)
{
    if (view->precision == RS_PRECISION_F32)
        rs_widen(out, (const float *)matrix + at, n);
    else
        memcpy(out, (const double *)matrix + at, (size_t)n * sizeof *out);
}

/* What the visible keys of all queries say, a piece at a time: rows may be shorter than a vector. */
typedef struct spread {
    double entropy, logit; /* the largest */
    int64_t held;
    double shares[256], logits[256];
} spread;

enum { PIECE = sizeof((spread *)0)->shares / sizeof(double) };

static void let_go(spread *s)
{
    s->entropy += rs_entropy(s->shares, s->held);
    for (int64_t k = 0; k < s->held; k++)
        s->logit = s->logits[k] > s->logit ? s->logits[k] : s->logit;
    s->held = 0;
}

static void take_row(spread *s, const rs_attention_view *view, int64_t at, int64_t n)
{
    for (int64_t end = at + n, here; at < end; at += here) {
        if (s->held == PIECE) let_go(s);
        here = end - at < PIECE - s->held ? end - at : PIECE - s->held;
        read_numbers(s->shares + s->held, view, view->probabilities, at, here);
        read_numbers(s->logits + s->held, view, view->logits, at, here);
        s->held += here;
    }
}

static rs_status hear_attention(void *user, const rs_attention_view *view, rs_error *err)
{
    (void)err;
    rs_instruments *i = user;
    rs_instrument_probe *p = &i->probe;
    if (!view->probabilities) return RS_OK;
    spread s = {.logit = -INFINITY};
    double most = 0, rows = (double)view->n;
    for (int64_t q = 0; q < view->n; q++) {
        int64_t first, end;
        visible_keys(view, q, &first, &end);
        take_row(&s, view, q * view->ld + first, end - first);
        most += log((double)(end - first));
    }
    let_go(&s);
    int64_t at = (row_of(i, view->layer, view->branch) + view->head) * p->samples + view->sample;
    p->entropy[at] = s.entropy / rows;
    p->share[at] = most > 0 ? s.entropy / most : NAN;
    p->logit[at] = rows > 0 ? s.logit : NAN;
    return RS_OK;
}

static void sum_attention(rs_instruments *i)
{
    rs_instrument_probe *p = &i->probe;
    for (int32_t l = 0; l < i->network->n_layers; l++) {
        int64_t first = p->head_first[l] * p->samples, end = p->head_first[l + 1] * p->samples;
        rs_layer_row *row = &i->layers[l + 1];
        row->entropy = mean_of(p->entropy + first, end - first);
        row->entropy_share = mean_of(p->share + first, end - first);
        for (int64_t k = first; k < end; k++)
            row->logit_max = fmax(row->logit_max, p->logit[k]);
    }
}

/* ---- opening ---- */

static rs_status pack_batch(rs_instruments *i, rs_train_task *task, rs_error *err)
{
    rs_instrument_probe *p = &i->probe;
    const rs_task_shape *shape = rs_task_sizes(task);
    int64_t wanted = i->learner->settings->probe_samples;
    rs_task_batch batch = {0};
    rs_status status = rs_task_batch_new(&batch, shape, wanted, err);
    if (status == RS_OK) status = rs_task_fill(&batch, task, RS_TASK_PROBE, 0, err);
    if (status == RS_OK) status = rs_feed_open(&p->feed, shape, wanted, false, err);
    if (status == RS_OK) {
        rs_feed_pack(&p->feed, &batch);
        p->samples = batch.samples;
        p->longest = shape->n_tok;
    }
    rs_task_batch_free(&batch);
    return status;
}

static rs_status open_places(rs_instruments *i, rs_error *err)
{
    rs_instrument_probe *p = &i->probe;
    int32_t layers = i->network->n_layers, heads = 0;
    p->head_first = rs_calloc((size_t)layers + 1, sizeof *p->head_first);
    if (!p->head_first) return rs_fail_memory(err, "instruments", 0);
    for (int32_t l = 0; l < layers; l++) {
        for (int32_t b = 0; b < i->network->layers[l].n_branches; b++)
            if (is_softmax(i, l, b))
                heads += rs_branch_attention(&i->network->layers[l].branches[b])->heads;
        p->head_first[l + 1] = heads;
    }
    size_t places = (size_t)heads * (size_t)p->samples;
    p->entropy = rs_malloc(3 * places + 2 * (size_t)p->samples + 1, sizeof *p->entropy);
    if (!p->entropy) return rs_fail_memory(err, "instruments", 3 * places * sizeof(double));
    p->share = p->entropy + places;
    p->logit = p->share + places;
    p->residual = p->logit + places;
    p->cosine = p->residual + p->samples;
    return RS_OK;
}

static rs_status open_workspaces(rs_instruments *i, rs_error *err)
{
    rs_instrument_probe *p = &i->probe;
    const rs_token_options options = token_options(i);
    size_t bytes = rs_token_workspace(p->longest, i->network->d_model, &options);
    p->workspaces = rs_calloc((size_t)i->context->threads, sizeof *p->workspaces);
    if (!p->workspaces) return rs_fail_memory(err, "instruments", 0);
    for (int t = 0; t < i->context->threads; t++) {
        p->workspaces[t] = rs_malloc(bytes, 1);
        if (!p->workspaces[t]) return rs_fail_memory(err, "instruments", bytes);
    }
    return RS_OK;
}

rs_status rs_instruments_probe_open(rs_instruments *i, rs_train_task *task, rs_error *err)
{
    rs_instrument_probe *p = &i->probe;
    RS_TRY(pack_batch(i, task, err));
    RS_TRY(open_places(i, err));
    RS_TRY(open_workspaces(i, err));
    p->tap = (rs_tap){.user = i,
                      .sites = 1u << RS_SITE_BLOCK_OUT,
                      .state = hear_state,
                      .wants_attention = wants_attention,
                      .wants_logits = true,
                      .attention = hear_attention};
    return rs_runner_open(&p->runner, i->network, i->learner->weights, i->context, err);
}

void rs_instruments_probe_close(rs_instruments *i)
{
    rs_instrument_probe *p = &i->probe;
    rs_runner_close(p->runner);
    rs_feed_close(&p->feed);
    rs_free(p->head_first);
    rs_free(p->entropy);
    for (int t = 0; p->workspaces && t < i->context->threads; t++)
        rs_free(p->workspaces[t]);
    rs_free(p->workspaces);
}

/* ---- a pass ---- */

rs_status rs_instruments_probe(rs_instruments *i, rs_error *err)
{
    rs_instrument_probe *p = &i->probe;
    if (p->samples < 1) return RS_OK;
    int64_t places = p->head_first[i->network->n_layers] * p->samples;
    for (int64_t k = 0; k < 3 * places; k++)
        p->entropy[k] = NAN;
    const rs_tap *const taps[] = {&p->tap};
    RS_TRY(rs_runner_run(p->runner, &p->feed.batch, taps, 1, err));
    sum_attention(i);
    return RS_OK;
}
