/* certify_recommend_run.c: the network at given λ, in one pass of many or in a run by itself. */
#include "certify/certify_recommend.h"

#include "network/op_traits.h"
#include "observe/measure.h"
#include "observe/stack.h"
#include "observe/sweep.h"

#include <math.h>
#include <string.h>

bool rs_recommend_is_mixer(const rs_branch *branch)
{
    return rs_branch_traits(branch)->mixes && !branch->joins;
}

/* ---- many at once ---- */

/* Writes the skips of n lists of λ as rs_points has them. */
static void fill_skips(double *skips, const rs_recommending *w, const double *lambdas, int32_t n)
{
    const rs_network *network = w->scene->network;
    for (int32_t l = 0; l < w->layers; l++)
        for (int32_t b = 0; b < network->layers[l].n_branches; b++, skips += n) {
            const rs_branch *branch = &network->layers[l].branches[b];
            for (int32_t p = 0; p < n; p++) {
                double lambda = lambdas[(int64_t)p * w->layers + l];
                bool edited = rs_recommend_is_mixer(branch) && !isnan(lambda);
                skips[p] = edited ? lambda : branch->skip;
            }
        }
}

/* The same of no more than fit in memory. */
static rs_status sweep_some(double *relative, const rs_recommending *w, const double *lambdas,
                            int32_t n, double *skips, rs_swept_state *states, rs_error *err)
{
    const rs_points points = {.n = n, .skip = skips};
    const rs_pass_plan plan = {.network = w->scene->network,
                               .inputs = w->scene->inputs,
                               .precision = RS_PRECISION_F64,
                               .weights = w->weights,
                               .points = &points,
                               .phase = "recommend"};
    fill_skips(skips, w, lambdas, n);
    RS_TRY(rs_observe_sweep(states, NULL, &plan, w->scene->options->batch, w->scene->context, err));
    for (int32_t p = 0; p < n; p++) {
        const rs_swept_state *last = &states[(int64_t)p * (w->layers + 1) + w->layers];
        relative[p] = last->samples == w->samples ? last->relative : (double)NAN;
    }
    return RS_OK;
}

rs_status rs_recommend_sweep(double *relative, const rs_recommending *w, const double *lambdas,
                             int32_t n, rs_error *err)
{
    if (n == 0) return RS_OK;
    int32_t at_once = rs_sweep_points(w->scene->network, RS_PRECISION_F64, w->scene->inputs, n,
                                      w->scene->context);
    size_t states = (size_t)w->layers + 1;
    double *skips = rs_malloc(w->branches * (size_t)at_once, sizeof *skips);
    rs_swept_state *swept = rs_malloc(states * (size_t)at_once, sizeof *swept);
    rs_status status = skips && swept ? RS_OK : rs_fail_memory(err, "recommendation", 0);
    for (int32_t p = 0; status == RS_OK && p < n; p += at_once)
        status = sweep_some(relative + p, w, lambdas + (int64_t)p * w->layers,
                            n - p < at_once ? n - p : at_once, skips, swept, err);
    rs_free(skips);
    rs_free(swept);
    return status;
}

double rs_recommend_decades(const rs_recommending *w, const double *lambdas, double *room)
{
    fill_skips(room, w, lambdas, 1);
    return rs_stack_decades(w->scene->network, room, 1);
}

/* ---- one by itself ---- */

/* A listener: how much of the sum with the skip each mixer's branch is. */
typedef struct shares {
    const rs_network *network;
    double *added; /* [samples of a batch] log2 of ‖αO‖_F */
    double *sum;   /* [layers] of the shares */
    int64_t *count;
} shares;

/* log2 of the Frobenius norm of `count` numbers, whatever their size; -infinity for 0. */
static double log2_norm(const double *x, int64_t count)
{
    double most = 0, squares = 0;
    int exponent = 0;
    for (int64_t i = 0; i < count; i++) {
        if (!isfinite(x[i])) return NAN;
        most = fmax(most, fabs(x[i]));
    }
    if (most == 0) return -INFINITY;
    frexp(most, &exponent);
    for (int64_t i = 0; i < count; i++) {
        double y = scalbn(x[i], -exponent);
        squares += y * y;
    }
    return 0.5 * log2(squares) + (double)exponent;
}

static rs_status hear_branch(void *user, int32_t l, int32_t b, rs_moment moment,
                             const rs_state_view *view, rs_error *err)
{
    shares *w = user;
    const rs_branch *branch = &w->network->layers[l].branches[b];
    const int64_t *begin = view->batch->begin;
    (void)err;
    if (!rs_recommend_is_mixer(branch) || branch->scale == 0) return RS_OK;
    for (int32_t s = 0; s < view->batch->samples; s++) {
        double norm = log2_norm((const double *)view->data + begin[s] * view->cols,
                                (begin[s + 1] - begin[s]) * view->cols);
        if (moment == RS_MOMENT_ADDED) {
            w->added[s] = norm + log2(fabs(branch->scale));
        } else if (begin[s + 1] > begin[s] && isfinite(norm) && !isnan(w->added[s])) {
            w->sum[l] += exp2(w->added[s] - norm);
            w->count[l]++;
        }
    }
    return RS_OK;
}

/* What a run measured, as a candidate has it. */
static void take_measures(rs_recommended *r, const rs_recommending *w, const rs_measured *m,
                          const shares *heard)
{
    double shares_of_layers = 0;
    int32_t with_share = 0;
    for (int32_t l = 0; l < w->layers; l++) {
        const rs_token_row *row = rs_measured_row(m, RS_TOKEN_SITE_BLOCK_OUT, l + 1);
        bool all = row->zero == 0 && row->nonfinite == 0;
        r->layers[l].relative = all ? row->mean.relative_residual : (double)NAN;
        r->layers[l].share =
            heard->count[l] ? heard->sum[l] / (double)heard->count[l] : (double)NAN;
        if (!heard->count[l]) continue;
        shares_of_layers += r->layers[l].share;
        with_share++;
    }
    const rs_token_row *first = rs_measured_row(m, RS_TOKEN_SITE_BLOCK_OUT, 0),
                       *last = rs_measured_row(m, RS_TOKEN_SITE_BLOCK_OUT, w->layers);
    r->relative = r->layers[w->layers - 1].relative;
    r->log10_norm = log10(last->mean.norm_fro);
    r->log10_growth = r->log10_norm - log10(first->mean.norm_fro);
    r->share = with_share ? shares_of_layers / with_share : (double)NAN;
    r->loss = m->scored > 0 ? m->nll : (double)NAN;
}

static rs_status run_network(rs_recommended *r, const rs_recommending *w, const rs_network *network,
                             rs_arena *arena, rs_error *err)
{
    /* as probe: ids drawn at random have no loss */
    const rs_measure_options options = {.precision = RS_PRECISION_F64,
                                        .tokens = true,
                                        .loss = w->scene->options->source.random == 0,
                                        .centre = RS_CENTRE_MEAN,
                                        .batch = w->scene->options->batch,
                                        .phase = "recommend"};
    size_t layers = (size_t)w->layers;
    shares heard = {
        .network = network,
        .added = rs_arena_alloc(arena, (size_t)w->scene->inputs->samples, sizeof *heard.added),
        .sum = rs_arena_alloc(arena, layers, sizeof *heard.sum),
        .count = rs_arena_alloc(arena, layers, sizeof *heard.count)};
    if (!heard.added || !heard.sum || !heard.count) return rs_fail_memory(err, "recommendation", 0);
    rs_listener listener = {.tap = {.user = &heard,
                                    .moments = 1u << RS_MOMENT_ADDED | 1u << RS_MOMENT_SUM,
                                    .branch = hear_branch}};
    rs_listener *listeners[] = {&listener};
    rs_measured *measured = NULL;
    RS_TRY(rs_measure_network(&measured, network, w->weights, w->scene->inputs, &options, listeners,
                              1, w->scene->context, err));
    take_measures(r, w, measured, &heard);
    rs_measured_free(measured);
    return RS_OK;
}

rs_status rs_recommend_candidate(rs_network **out, const rs_recommended *r,
                                 const rs_recommending *w, rs_error *err)
{
    RS_TRY(rs_network_copy(out, w->scene->network, err));
    if (r == &w->of[RS_RECOMMEND_NONE]) return RS_OK;
    for (int32_t l = 0; l < w->layers; l++)
        for (int32_t b = 0; b < (*out)->layers[l].n_branches; b++) {
            rs_branch *branch = &(*out)->layers[l].branches[b];
            double lambda = r->layers[l].lambda;
            if (rs_recommend_is_mixer(branch) && !isnan(lambda)) branch->skip = lambda;
        }
    return RS_OK;
}

rs_status rs_recommend_run(rs_recommended *r, const rs_recommending *w, rs_error *err)
{
    rs_network *network = NULL;
    rs_arena *arena = rs_arena_new();
    rs_status status = arena ? rs_recommend_candidate(&network, r, w, err)
                             : rs_fail_memory(err, "recommendation", 0);
    if (status == RS_OK) status = run_network(r, w, network, arena, err);
    rs_network_close(network);
    rs_arena_free(arena);
    return status;
}

/* ---- logits ---- */

/* Logits of some samples, kept while another network's are told. */
typedef struct beside {
    double *kept; /* [rows, vocabulary] */
    int64_t vocabulary;
    bool comparing;
    double change, square; /* Σ(Z − Z_own)² and ΣZ_own² */
} beside;

static rs_status hear_logits(void *user, int64_t first, const rs_state_view *view, rs_error *err)
{
    beside *w = user;
    double *kept = w->kept + first * w->vocabulary;
    const double *told = view->data;
    (void)err;
    if (!w->comparing) memcpy(kept, told, (size_t)(view->rows * view->cols) * sizeof *kept);
    for (int64_t i = 0; w->comparing && i < view->rows * view->cols; i++) {
        double off = told[i] - kept[i];
        w->change += off * off;
        w->square += kept[i] * kept[i];
    }
    return RS_OK;
}

/* Samples whose logits take no more than a sixteenth of the memory; at least one. */
static int64_t samples_beside(const rs_recommending *w, int64_t vocabulary)
{
    const rs_inputs *inputs = w->scene->inputs;
    double bytes = (double)inputs->longest * (double)vocabulary * sizeof(double);
    double most = (double)rs_weight_limit(w->scene->context) / 8 / fmax(bytes, 1);
    int64_t capacity = w->scene->capacity;
    return most < 1 ? 1 : most < (double)capacity ? (int64_t)most : capacity;
}

static rs_status compare_logits(beside *to, const rs_recommending *w, const rs_network *network,
                                rs_input_batch *batch, int64_t capacity, rs_error *err)
{
    const rs_inputs *inputs = w->scene->inputs;
    const rs_tap tap = {.user = to, .logits = hear_logits};
    const rs_network *both[] = {w->scene->network, network};
    for (int64_t s = 0; s < inputs->samples; s += capacity) {
        int64_t n = inputs->samples - s < capacity ? inputs->samples - s : capacity;
        RS_TRY(rs_check_cancelled(w->scene->context, err));
        rs_input_batch_set(batch, inputs, s, n);
        if (batch->batch.begin[n] == 0) continue;
        for (int i = 0; i < 2; i++) {
            to->comparing = i == 1;
            RS_TRY(
                rs_observe_batch(both[i], w->weights, &batch->batch, &tap, w->scene->context, err));
        }
    }
    return RS_OK;
}

rs_status rs_recommend_logits(rs_recommended *r, const rs_recommending *w, rs_error *err)
{
    const rs_head_op *head = &w->scene->network->head;
    rs_network *network = NULL;
    rs_input_batch batch = {0};
    if (!head->decoder.weight) return RS_OK;
    beside to = {.vocabulary = head->decoder.out};
    int64_t capacity = samples_beside(w, to.vocabulary);
    rs_status status = rs_recommend_candidate(&network, r, w, err);
    if (status == RS_OK) status = rs_input_batch_open(&batch, capacity, err);
    size_t rows = (size_t)capacity * (size_t)w->scene->inputs->longest;
    to.kept = rs_malloc(rows * (size_t)to.vocabulary, sizeof *to.kept);
    if (status == RS_OK && !to.kept)
        status = rs_fail_memory(err, "logits", rows * (size_t)to.vocabulary * sizeof *to.kept);
    if (status == RS_OK) status = compare_logits(&to, w, network, &batch, capacity, err);
    if (status == RS_OK && to.square > 0) r->logits = sqrt(to.change / to.square);
    rs_free(to.kept);
    rs_input_batch_close(&batch);
    rs_network_close(network);
    return status;
}
