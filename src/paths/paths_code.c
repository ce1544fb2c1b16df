/*
 * paths_code.c: paths as the published code evaluates them (docs/theory/collapse.md, 12): each path
 * is a network of its own. The layers outside the path are left out; in the others one head alone
 * attends, by attention weights made from the path's own hidden states; its output, biases
 * included, goes through a LayerNorm without parameters, with no skip and no MLP (that program's
 * model of memorisation has MLPs, which then run, with their skip and norm: `mlps`). The hidden
 * states of the sampled paths of a length are added up and normed the same way.
 *
 * So this is not the term P_path X W_path of the decomposition.
 */
#include "observe/measure.h"
#include "paths/paths_parts.h"

#include "base/memory.h"
#include "linalg/blas.h"
#include "linalg/threads.h"

#include <math.h>
#include <string.h>

typedef struct chains {
    const rs_network *network;
    rs_weights *weights;
    const rs_path_plan *plan;
    const rs_path_set *set;
    const rs_context *context;
    bool mlps; /* MLPs of the layers on a path run */
    int64_t n, d;
    rs_frozen_branch f;
    double *state;   /* [paths][n*d] */
    double *product; /* [paths][n*n]: of the path's own mixing matrices */
    double *output;  /* [n*d] the network's own last state */
    /* at one layer */
    int32_t hop, n_active;
    int32_t active_layer; /* whose attention `active` took a head of; -1: none yet */
    size_t *active;       /* [paths] that take a head here */
    double *states;       /* [paths][n*d] theirs, one behind the other */
    double *op_in;        /* [paths][n*d] through the norm before the attention */
    double *mixing;       /* [paths][n*n] */
    int64_t *begin;
    double **scratch; /* [threads] */
    bool *wanted;     /* [most heads] */
} chains;

static int32_t choice_of(const chains *c, size_t path)
{
    return c->set->choice[path * (size_t)c->plan->n_hops + (size_t)c->hop];
}

/* (x − mean)/sqrt(variance + 1e-5): torch's LayerNorm with its default eps. */
void rs_path_plain_norm(double *x, int64_t n, int64_t d)
{
    for (int64_t i = 0; i < n; i++, x += d) {
        double mean = 0, squares = 0;
        for (int64_t c = 0; c < d; c++)
            mean += x[c] / (double)d;
        for (int64_t c = 0; c < d; c++)
            squares += (x[c] - mean) * (x[c] - mean);
        double factor = 1 / sqrt(squares / (double)d + 1e-5);
        for (int64_t c = 0; c < d; c++)
            x[c] = (x[c] - mean) * factor;
    }
}

/* ---- taps ---- */

static rs_status on_start(void *user, rs_site site, int32_t layer, const rs_state_view *view,
                          rs_error *err)
{
    chains *c = user;
    size_t bytes = (size_t)(c->n * c->d) * sizeof(double);
    (void)site;
    RS_TRY(rs_path_check_finite(view->data, c->n * c->d, layer - 1, NULL, err));
    for (size_t i = 0; i < c->set->n && layer == 0; i++)
        memcpy(c->state + i * (size_t)(c->n * c->d), view->data, bytes);
    if (layer == c->network->n_layers) memcpy(c->output, view->data, bytes);
    return RS_OK;
}

static rs_status on_branch(void *user, int32_t layer, int32_t branch, rs_moment moment,
                           const rs_state_view *view, rs_error *err)
{
    chains *c = user;
    (void)layer;
    (void)branch;
    (void)moment;
    (void)err;
    memcpy(c->op_in, view->data, (size_t)(view->rows * view->cols) * sizeof(double));
    return RS_OK;
}

static bool wants(void *user, int32_t layer, int32_t branch, int32_t head)
{
    const chains *c = user;
    (void)layer;
    (void)branch;
    return c->wanted[head];
}

static rs_status on_attention(void *user, const rs_attention_view *view, rs_error *err)
{
    chains *c = user;
    (void)err;
    if (choice_of(c, c->active[view->sample]) != view->head) return RS_OK;
    const double *mixing = view->mixing;
    double *at = c->mixing + view->sample * c->n * c->n;
    for (int64_t i = 0; i < c->n; i++)
        memcpy(at + i * c->n, mixing + i * view->ld, (size_t)c->n * sizeof *at);
    return RS_OK;
}

/* ---- one layer ---- */

/* The branch as a network of its own, on the states of the paths at hand. */
static rs_status run_branch(chains *c, const rs_branch *branch, const rs_tap *tap, rs_error *err)
{
    rs_network *network;
    const rs_batch batch = {.samples = c->n_active, .begin = c->begin, .states = c->states};
    RS_TRY(rs_network_copy(&network, c->network, err));
    rs_layer layer = {.n_branches = 1};
    layer.branches[0] = *branch;
    network->layers[0] = layer;
    network->n_layers = 1;
    network->final_norm.kind = RS_NORM_NONE;
    rs_status status = rs_observe_batch(network, c->weights, &batch, tap, c->context, err);
    rs_network_close(network);
    return status;
}

/* This attention with its norm before it, nothing else. */
static rs_status attend(chains *c, const rs_branch *branch, rs_error *err)
{
    const rs_tap tap = {.user = c,
                        .moments = 1u << RS_MOMENT_OP_IN,
                        .branch = on_branch,
                        .wants_attention = wants,
                        .attention = on_attention};
    return run_branch(c, branch, &tap, err);
}

static void step_path(chains *c, int32_t at)
{
    int64_t n = c->n, d = c->d;
    size_t path = c->active[at];
    double *product = c->product + path * (size_t)(n * n),
           *state = c->state + path * (size_t)(n * d);
    double *scratch = c->scratch[rs_thread_number()], *mixing = c->mixing + at * n * n;
    rs_frozen_code_head(state, c->op_in + at * n * d, mixing, choice_of(c, path), &c->f, scratch);
    rs_path_plain_norm(state, n, d);
    memcpy(scratch, product, (size_t)(n * n) * sizeof *product);
    cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, (blasint)n, (blasint)n, (blasint)n, 1,
                mixing, (blasint)n, scratch, (blasint)n, 0, product, (blasint)n);
}

static rs_status step_layer(chains *c, const rs_branch *branch, rs_error *err)
{
    int64_t count = c->n * c->d;
    c->n_active = 0;
    c->active_layer = c->plan->hops[c->hop].layer;
    memset(c->wanted, 0, (size_t)rs_branch_plain_attention(branch)->heads * sizeof *c->wanted);
    for (size_t i = 0; i < c->set->n; i++) {
        if (choice_of(c, i) < 0) continue;
        c->wanted[choice_of(c, i)] = true;
        memcpy(c->states + c->n_active * count, c->state + i * (size_t)count,
               (size_t)count * sizeof *c->state);
        c->active[c->n_active++] = i;
        c->begin[c->n_active] = c->n_active * c->n;
    }
    if (c->n_active == 0) return RS_OK;
    RS_TRY(rs_frozen_load(&c->f, branch, true, err));
    RS_TRY(attend(c, branch, err));
#pragma omp parallel for num_threads(c->context->threads) schedule(dynamic)
    for (int32_t i = 0; i < c->n_active; i++)
        step_path(c, i);
    return RS_OK;
}

static rs_status on_out(void *user, int32_t layer, int32_t branch, rs_moment moment,
                        const rs_state_view *view, rs_error *err)
{
    chains *c = user;
    int64_t count = c->n * c->d;
    (void)layer;
    (void)branch;
    (void)moment;
    (void)err;
    for (int32_t i = 0; i < c->n_active; i++)
        memcpy(c->state + c->active[i] * (size_t)count, (const double *)view->data + i * count,
               (size_t)count * sizeof *c->state);
    return RS_OK;
}

/* The whole branch behind the attention of paths that took a head of this layer. */
static rs_status pass_mlp(chains *c, const rs_branch *branch, rs_error *err)
{
    int64_t count = c->n * c->d;
    const rs_tap tap = {.user = c, .moments = 1u << RS_MOMENT_OUT, .branch = on_out};
    if (c->active_layer != c->plan->hops[c->hop].layer || c->n_active == 0) return RS_OK;
    for (int32_t i = 0; i < c->n_active; i++)
        memcpy(c->states + i * count, c->state + c->active[i] * (size_t)count,
               (size_t)count * sizeof *c->state);
    return run_branch(c, branch, &tap, err);
}

static rs_status pass_hops(chains *c, rs_error *err)
{
    for (c->hop = 0; c->hop < c->plan->n_hops; c->hop++) {
        const rs_path_hop *hop = &c->plan->hops[c->hop];
        const rs_branch *branch = &c->network->layers[hop->layer].branches[hop->branch];
        RS_TRY(rs_check_cancelled(c->context, err));
        if (hop->heads > 0)
            RS_TRY(step_layer(c, branch, err));
        else if (c->mlps && branch->kind == RS_BRANCH_MLP)
            RS_TRY(pass_mlp(c, branch, err));
    }
    return RS_OK;
}

/* ---- a sample ---- */

static rs_status open_chains(chains *c, rs_error *err)
{
    size_t paths = c->set->n, count = (size_t)(c->n * c->d), square = (size_t)(c->n * c->n);
    size_t scratch = square, heads = 1;
    double total = (double)paths * (3.0 * (double)count + 2.0 * (double)square);
    if (total * 8 > (double)rs_weight_limit(c->context))
        return rs_fail(err, RS_E_MEMORY_LIMIT, "paths",
                       "take a smaller --max-length, --paths or --seq-len",
                       "%zu single paths of %lld tokens do not fit half of the memory", paths,
                       (long long)c->n);
    RS_TRY(rs_frozen_open(&c->f, c->network, c->n, err));
    for (int32_t i = 0; i < c->plan->n_hops; i++) {
        const rs_path_hop *hop = &c->plan->hops[i];
        if (hop->heads == 0) continue;
        const rs_attention_op *op =
            rs_branch_plain_attention(&c->network->layers[hop->layer].branches[hop->branch]);
        rs_frozen_branch like = c->f;
        like.heads = op->heads;
        like.kv_heads = op->kv_heads;
        like.value_dim = op->value_dim;
        size_t need = rs_frozen_scratch(&like, 1);
        scratch = need > scratch ? need : scratch;
        heads = (size_t)op->heads > heads ? (size_t)op->heads : heads;
    }
    c->state = rs_calloc(paths, count * sizeof(double));
    c->product = rs_calloc(paths, square * sizeof(double));
    c->output = rs_calloc(count, sizeof(double));
    c->active = rs_calloc(paths, sizeof *c->active);
    c->states = rs_calloc(paths, count * sizeof(double));
    c->op_in = rs_calloc(paths, count * sizeof(double));
    c->mixing = rs_calloc(paths, square * sizeof(double));
    c->begin = rs_calloc(paths + 1, sizeof *c->begin);
    c->wanted = rs_calloc(heads, sizeof *c->wanted);
    c->scratch = rs_calloc((size_t)c->context->threads, sizeof *c->scratch);
    if (!c->state || !c->product || !c->output || !c->active || !c->states || !c->op_in ||
        !c->mixing || !c->begin || !c->wanted || !c->scratch)
        return rs_fail_memory(err, "sampled paths", 0);
    for (int t = 0; t < c->context->threads; t++) {
        c->scratch[t] = rs_malloc(scratch, sizeof(double));
        if (!c->scratch[t]) return rs_fail_memory(err, "sampled paths", scratch * 8);
    }
    for (size_t i = 0; i < paths; i++)
        for (int64_t r = 0; r < c->n; r++)
            c->product[i * square + (size_t)(r * c->n + r)] = 1;
    return RS_OK;
}

static void close_chains(chains *c)
{
    rs_frozen_close(&c->f);
    for (int t = 0; c->scratch && t < c->context->threads; t++)
        rs_free(c->scratch[t]);
    void *blocks[] = {c->scratch, c->state, c->product, c->output, c->active,
                      c->states,  c->op_in, c->mixing,  c->begin,  c->wanted};
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++)
        rs_free(blocks[i]);
}

/* The network's own first and last state. */
static rs_status run_full(chains *c, const rs_batch *batch, rs_error *err)
{
    const rs_tap tap = {.user = c, .sites = 1u << RS_SITE_BLOCK_OUT, .state = on_start};
    return rs_observe_batch(c->network, c->weights, batch, &tap, c->context, err);
}

/* The normed sum of each length's paths: sums [longest + 1, n, d]. */
static void add_up(double *sums, const chains *c)
{
    int64_t count = c->n * c->d;
    memset(sums, 0, (size_t)((c->plan->longest + 1) * count) * sizeof *sums);
    for (int32_t k = 0; k <= c->plan->longest; k++) {
        double *sum = sums + k * count;
        for (size_t i = c->set->first[k]; i < c->set->first[k + 1]; i++)
            for (int64_t e = 0; e < count; e++)
                sum[e] += c->state[i * (size_t)count + (size_t)e];
        if (c->set->first[k + 1] > c->set->first[k]) rs_path_plain_norm(sum, c->n, c->d);
    }
}

/* These, measured and put through the head. */
static rs_status combine(chains *c, rs_path_sample *out, const rs_paths_run *run,
                         const rs_batch *batch, rs_error *err)
{
    int64_t count = c->n * c->d, lengths = c->plan->longest + 1;
    double *sums = rs_calloc((size_t)lengths + 1, (size_t)count * sizeof *sums);
    if (!sums) return rs_fail_memory(err, "sampled paths", 0);
    rs_status status = RS_OK;
    memcpy(sums, c->output, (size_t)count * sizeof *sums);
    add_up(sums + count, c);
    for (int64_t k = 0; k < lengths && status == RS_OK; k++)
        status =
            rs_path_size_of(&out->lengths[k].embedding, sums + (k + 1) * count, c->n, c->d, err);
    if (status == RS_OK)
        status = rs_path_outcomes(out->outcomes, c->network, c->weights, sums, lengths, c->n,
                                  batch->ids, !run->options->no_logits, c->context, err);
    rs_free(sums);
    return status;
}

static rs_status run_chains(chains *c, const rs_batch *batch, rs_error *err)
{
    RS_TRY(open_chains(c, err));
    RS_TRY(run_full(c, batch, err));
    return pass_hops(c, err);
}

rs_status rs_paths_code_sample(rs_paths_run *run, rs_path_sample *out, const rs_batch *batch,
                               rs_error *err)
{
    chains c = {.network = run->network,
                .weights = run->weights,
                .plan = run->plan,
                .set = run->set,
                .context = run->context,
                .n = batch->begin[1],
                .d = run->network->d_model,
                .active_layer = -1};
    rs_status status = run_chains(&c, batch, err);
    if (status == RS_OK) status = rs_path_measure_paths(out, run, c.state, c.product, c.n, err);
    if (status == RS_OK) status = combine(&c, out, run, batch, err);
    close_chains(&c);
    return status;
}

rs_status rs_path_code_sums_of(double *sums, const rs_network *network, rs_weights *weights,
                               const rs_batch *batch, const rs_path_plan *plan,
                               const rs_path_set *set, bool mlps, const rs_context *context,
                               rs_error *err)
{
    chains c = {.network = network,
                .weights = weights,
                .plan = plan,
                .set = set,
                .context = context,
                .mlps = mlps,
                .n = batch->begin[1],
                .d = network->d_model,
                .active_layer = -1};
    rs_status status = run_chains(&c, batch, err);
    if (status == RS_OK) add_up(sums, &c);
    close_chains(&c);
    return status;
}
