/*
 * paths_outcome.c: what a network makes of other last states than its own: through the final norm,
 * the head and the pooling.
 *
 * A network without layers is fed the states. Its rows do not see each other, so they are put in
 * the order token by token: the row of the model's own state, then the rows to be compared with it.
 */
#include "observe/gather.h"
#include "paths/paths_parts.h"

#include "base/memory.h"

#include <math.h>
#include <string.h>

typedef struct outcomes {
    rs_path_outcome *out; /* [1 + others] */
    const rs_network *network;
    const rs_context *context;
    int64_t n, d, others;
    const int32_t *ids;
    double *states; /* [n][1 + others][d] */
    int64_t *begin; /* [n+1] */
    bool logits;
    double *own;     /* [vocabulary]: logits of the model's own state, of the token at hand */
    double *per_row; /* [n][1 + others][ROW_REALS] */
    struct reference *references; /* of the tokens in a piece of logits */
    double *probabilities;        /* [references][vocabulary] */
    size_t n_references;          /* there is room for */
} outcomes;

/* A token's own logits and what all rows to be compared with them need. */
typedef struct reference {
    const double *logits, *probabilities;
    double log_sum, squares;
    int64_t place; /* of the largest */
} reference;

enum { NLL, TOP1, KL, SQUARES, ERROR_SQUARES, ROW_REALS };

/* ---- the state ---- */

static void compare_states(rs_path_outcome *out, const double *x, const double *y, int64_t n,
                           int64_t stride, int64_t d, double scale)
{
    double wrong = 0, whole = 0, cosines = 0;
    int64_t defined = 0;
    for (int64_t i = 0; i < n; i++, x += stride, y += stride) {
        double xx = 0, yy = 0, xy = 0;
        for (int64_t c = 0; c < d; c++) {
            double a = scale * x[c], b = scale * y[c];
            xx += a * a;
            yy += b * b;
            xy += a * b;
            wrong += (b - a) * (b - a);
        }
        whole += xx;
        if (!(xx > 0 && yy > 0)) continue;
        cosines += fmax(-1, fmin(1, xy / sqrt(xx) / sqrt(yy)));
        defined++;
    }
    out->state_error = wrong == 0 ? 0 : sqrt(wrong / whole);
    out->state_cosine = defined ? cosines / (double)defined : NAN;
}

static void pool(double *out, const double *x, int64_t n, int64_t stride, int64_t d,
                 rs_pooling pooling)
{
    memcpy(out, x, (size_t)d * sizeof *out);
    for (int64_t i = 1; i < n && pooling != RS_POOLING_CLS; i++)
        for (int64_t c = 0; c < d; c++) {
            double value = x[i * stride + c];
            out[c] = pooling == RS_POOLING_MAX ? fmax(out[c], value) : out[c] + value;
        }
}

static rs_status compare_embeddings(outcomes *o, const double *states, rs_error *err)
{
    int64_t d = o->d, stride = (1 + o->others) * d;
    if (o->network->pooling == RS_POOLING_NONE) return RS_OK;
    double *pooled = rs_malloc(2 * (size_t)d, sizeof *pooled);
    if (!pooled) return rs_fail_memory(err, "embeddings", 2 * (size_t)d * sizeof *pooled);
    pool(pooled, states, o->n, stride, d, o->network->pooling);
    for (int64_t j = 0; j <= o->others; j++) {
        rs_path_outcome one;
        pool(pooled + d, states + j * d, o->n, stride, d, o->network->pooling);
        compare_states(&one, pooled, pooled + d, 1, d, d, rs_path_scale(pooled, 2 * d));
        o->out[j].embedding_cosine = one.state_cosine;
    }
    rs_free(pooled);
    return RS_OK;
}

static rs_status on_final(void *user, rs_site site, int32_t layer, const rs_state_view *view,
                          rs_error *err)
{
    outcomes *o = user;
    const double *states = view->data;
    (void)site;
    (void)layer;
    int64_t stride = (1 + o->others) * o->d;
    double scale = rs_path_scale(states, o->n * stride);
    for (int64_t j = 0; j <= o->others; j++)
        compare_states(&o->out[j], states, states + j * o->d, o->n, stride, o->d, scale);
    return compare_embeddings(o, states, err);
}

/* ---- the logits ---- */

static int64_t place_of_largest(const double *x, int64_t n)
{
    int64_t at = 0;
    for (int64_t i = 1; i < n; i++)
        if (x[i] > x[at]) at = i;
    return at;
}

static void refer(reference *r, double *probabilities, const double *logits, int64_t n)
{
    *r = (reference){.logits = logits, .probabilities = probabilities};
    r->place = place_of_largest(logits, n);
    double most = logits[r->place], sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += probabilities[i] = exp(logits[i] - most);
    for (int64_t i = 0; i < n; i++) {
        probabilities[i] /= sum;
        r->squares += logits[i] * logits[i];
    }
    r->log_sum = most + log(sum);
}

/* KL(own || x) = sum p (own - x) - log_sum(own) + log_sum(x). */
static void compare_logits(double row[ROW_REALS], const reference *own, const double *x, int64_t n,
                           int32_t target)
{
    int64_t place = place_of_largest(x, n);
    double most = x[place], sum = 0, kl = 0, wrong = 0;
    for (int64_t i = 0; i < n && x != own->logits; i++) {
        double difference = x[i] - own->logits[i];
        sum += exp(x[i] - most);
        kl -= own->probabilities[i] * difference;
        wrong += difference * difference;
    }
    double log_sum = x == own->logits ? own->log_sum : most + log(sum);
    row[NLL] = target < 0 ? NAN : log_sum - x[target];
    row[TOP1] = own->place == place;
    row[KL] = fmax(kl - own->log_sum + log_sum, 0);
    row[SQUARES] = own->squares;
    row[ERROR_SQUARES] = wrong;
}

static int32_t target_of(const outcomes *o, int64_t token)
{
    return o->network->head.next_token && o->ids && token + 1 < o->n ? o->ids[token + 1] : -1;
}

static rs_status make_room(outcomes *o, size_t references, int64_t width, rs_error *err)
{
    if (references <= o->n_references) return RS_OK;
    rs_free(o->references);
    rs_free(o->probabilities);
    o->n_references = 0;
    o->references = rs_malloc(references, sizeof *o->references);
    o->probabilities = rs_malloc(references, (size_t)width * sizeof(double));
    if (!o->references || !o->probabilities) return rs_fail_memory(err, "truncated models", 0);
    o->n_references = references;
    return RS_OK;
}

static rs_status on_logits(void *user, int64_t first_row, const rs_state_view *view, rs_error *err)
{
    outcomes *o = user;
    const double *logits = view->data;
    int64_t group = 1 + o->others, width = view->cols, first = first_row / group;
    int64_t tokens = (first_row + view->rows - 1) / group - first + 1;
    RS_TRY(rs_check_cancelled(o->context, err));
    RS_TRY(make_room(o, (size_t)tokens, width, err));
#pragma omp parallel for schedule(dynamic) num_threads(o->context->threads)
    for (int64_t t = 0; t < tokens; t++) {
        int64_t at = (first + t) * group - first_row;
        refer(&o->references[t], o->probabilities + t * width,
              at >= 0 ? logits + at * width : o->own, width);
    }
#pragma omp parallel for schedule(dynamic) num_threads(o->context->threads)
    for (int64_t r = 0; r < view->rows; r++) {
        int64_t row = first_row + r;
        compare_logits(o->per_row + row * ROW_REALS, &o->references[row / group - first],
                       logits + r * width, width, target_of(o, row / group));
    }
    /* The token that the next piece goes on with. */
    int64_t last = (first + tokens - 1) * group - first_row;
    if (last >= 0) memcpy(o->own, logits + last * width, (size_t)width * sizeof *o->own);
    return RS_OK;
}

static void sum_rows(outcomes *o, bool has_head)
{
    for (int64_t j = 0; j <= o->others; j++) {
        rs_path_outcome *out = &o->out[j];
        out->tokens = o->n;
        out->top1 = out->kl = has_head ? 0 : NAN;
        for (int64_t i = 0; i < o->n && has_head; i++) {
            const double *row = o->per_row + (i * (1 + o->others) + j) * ROW_REALS;
            out->top1 += row[TOP1];
            out->kl += row[KL];
            out->logit_squares += row[SQUARES];
            out->logit_error_squares += row[ERROR_SQUARES];
            if (isnan(row[NLL]) && target_of(o, i) < 0) continue;
            out->nll += row[NLL];
            out->scored++;
        }
    }
}

/* ---- running ---- */

static rs_status prepare_outcomes(outcomes *o, const double *states, rs_error *err)
{
    int64_t group = 1 + o->others, vocabulary = o->network->head.decoder.out;
    o->states = rs_malloc((size_t)(o->n * group), (size_t)o->d * sizeof(double));
    o->begin = rs_calloc((size_t)o->n + 1, sizeof *o->begin);
    o->own = rs_calloc((size_t)(vocabulary > 0 ? vocabulary : 1), sizeof *o->own);
    o->per_row = rs_calloc((size_t)(o->n * group), ROW_REALS * sizeof(double));
    if (!o->states || !o->begin || !o->own || !o->per_row)
        return rs_fail_memory(err, "truncated models", 0);
    for (int64_t i = 0; i < o->n; i++) {
        o->begin[i + 1] = (i + 1) * group;
        for (int64_t j = 0; j < group; j++)
            memcpy(o->states + (i * group + j) * o->d, states + (j * o->n + i) * o->d,
                   (size_t)o->d * sizeof *states);
    }
    return RS_OK;
}

static rs_status run_tail(outcomes *o, rs_weights *weights, rs_error *err)
{
    rs_network *tail;
    bool has_head = o->logits && o->network->head.decoder.weight != NULL;
    const rs_batch batch = {.samples = (int32_t)o->n, .begin = o->begin, .states = o->states};
    const rs_tap tap = {.user = o,
                        .sites = 1u << RS_SITE_FINAL,
                        .state = on_final,
                        .logits = has_head ? on_logits : NULL};
    RS_TRY(rs_network_copy(&tail, o->network, err));
    tail->n_layers = 0;
    tail->embedding = (rs_embedding_op){.width = o->d, .scale = 1}; /* fed states, of any length */
    tail->max_positions = 0;
    rs_status status = rs_observe_batch(tail, weights, &batch, &tap, o->context, err);
    rs_network_close(tail);
    RS_TRY(status);
    sum_rows(o, has_head);
    return RS_OK;
}

rs_status rs_path_outcomes(rs_path_outcome *out, const rs_network *network, rs_weights *weights,
                           const double *states, int64_t count, int64_t n, const int32_t *ids,
                           bool logits, const rs_context *context, rs_error *err)
{
    outcomes o = {.out = out,
                  .network = network,
                  .context = context,
                  .n = n,
                  .d = network->d_model,
                  .others = count,
                  .ids = ids,
                  .logits = logits};
    for (int64_t j = 0; j <= count; j++)
        out[j] = (rs_path_outcome){.embedding_cosine = NAN};
    rs_status status = prepare_outcomes(&o, states, err);
    if (status == RS_OK) status = run_tail(&o, weights, err);
    rs_free(o.states);
    rs_free(o.begin);
    rs_free(o.own);
    rs_free(o.per_row);
    rs_free(o.references);
    rs_free(o.probabilities);
    return status;
}
