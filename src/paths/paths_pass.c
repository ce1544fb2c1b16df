/*
 * paths_pass.c: the sums over paths of one sample, made while its pass runs: behind every branch
 * the sums for all lengths go through the linear map that the branch just was.
 */
#include "network/op_traits.h"
#include "observe/measure.h"
#include "paths/paths_parts.h"

#include "base/memory.h"
#include "linalg/blas.h"
#include "linalg/threads.h"
#include "linalg/vector.h"

#include <math.h>
#include <string.h>

/* Rows that go through a weight matrix at once. */
enum { TASK_ROWS = 128 };

typedef struct pass {
    const rs_network *network;
    const rs_path_plan *plan;
    const rs_path_set *set;
    const rs_context *context;
    rs_path_sums *sums;
    rs_frozen_branch f;
    double shake; /* 0, but for rs_path_sums_moved */
    int64_t n, d;
    int32_t hop; /* the branch that runs */
    bool has_op;
    double *joined, *in,
        *op_out;    /* [n*d] the state that the layer read, that this branch read; y */
    double *mixing; /* [most heads][n*n] */
    int32_t n_slots, group;
    double **slot; /* [n_slots]: embedding by length and rest, sources the same, then by layer */
    double **out;  /* [n_slots+1]: what a branch makes of them; the last one: of nothing */
    double *out_room;
    bool *live;             /* [n_slots]: not zero */
    double **scratch;       /* [threads] */
    rs_single_path *single; /* [paths] */
    double *rows;           /* [n]: the product of a path without heads is diagonal */
    double **from,
        **to; /* [n_slots+1]: those of slot and out that are live, and the branch's own */
} pass;

/* ---- slots ---- */

static int32_t rest_of(const pass *p)
{
    return p->plan->longest + 1;
}

static int32_t source_slot(const pass *p, int32_t length)
{
    return p->plan->longest + 2 + length;
}

static int32_t layer_slot(const pass *p, int32_t layer)
{
    return 2 * (p->plan->longest + 2) + layer;
}

/* x += a y */
static void add_scaled(double *x, double a, const double *y, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        x[i] += a * y[i];
}

static void multiply_all(double *x, double a, int64_t count)
{
    for (int64_t i = 0; i < count && a != 1; i++)
        x[i] *= a;
}

/* ---- one branch ---- */

/* All live states through the heads. Tasks do not depend on the number of threads. */
static void attend_all(pass *p)
{
    int32_t m = 0;
    for (int32_t s = 0; s < p->n_slots; s++)
        if (p->live[s]) p->from[m] = p->slot[s], p->to[m++] = p->out[s];
    p->from[m] = NULL;
    p->to[m++] = p->out[p->n_slots];
    int32_t group = p->group;
#pragma omp parallel for num_threads(p->context->threads) schedule(dynamic)
    for (int32_t at = 0; at < m; at += group)
        rs_frozen_attend(p->to + at, p->from + at, at + group < m ? group : m - at, &p->f,
                         p->scratch[rs_thread_number()]);
}

/* What flows into slot s from the heads: from one length below; `rest` keeps what it has. */
static void take_heads(pass *p, int32_t s, int32_t first, int32_t layer)
{
    int64_t count = p->n * p->d;
    double scale = p->f.scale, *x = p->slot[s];
    bool by_length = s < layer_slot(p, 0);
    if (by_length && s > first && p->live[s - 1]) add_scaled(x, scale, p->out[s - 1], count);
    if ((!by_length || s - first == rest_of(p)) && p->live[s])
        add_scaled(x, scale, p->out[s], count);
    if (s == source_slot(p, 0) || s == layer_slot(p, layer))
        add_scaled(x, scale, p->out[p->n_slots], count);
}

/* Where slot s is live behind a branch of that kind. */
static bool becomes_live(const pass *p, int32_t s, int32_t first, int32_t layer, bool attends)
{
    bool below = attends && s < layer_slot(p, 0) && s > first && p->live[s - 1];
    bool own = s == source_slot(p, 0) || s == layer_slot(p, layer);
    return p->live[s] || below || own;
}

/* Every slot: skip, what the branch adds, the norm behind it. */
static void combine_all(pass *p, int32_t layer, bool attends)
{
    int64_t count = p->n * p->d;
#pragma omp parallel for num_threads(p->context->threads) schedule(static)
    for (int32_t s = 0; s < p->n_slots; s++) {
        int32_t first = s < source_slot(p, 0) ? 0 : source_slot(p, 0);
        if (!becomes_live(p, s, first, layer, attends)) continue;
        bool own = s == source_slot(p, 0) || s == layer_slot(p, layer);
        if (p->live[s]) multiply_all(p->slot[s], p->f.skip, count);
        if (attends)
            take_heads(p, s, first, layer);
        else if (own && p->has_op)
            add_scaled(p->slot[s], p->f.scale, p->op_out, count);
        rs_frozen_apply(p->slot[s], &p->f.after, p->n, p->d, own);
        if (p->shake > 0) rs_path_shake(p->slot[s], count, p->shake);
    }
    for (int32_t s = p->n_slots - 1; s >= 0; s--)
        p->live[s] =
            becomes_live(p, s, s < source_slot(p, 0) ? 0 : source_slot(p, 0), layer, attends);
}

/* ---- individual paths ---- */

/* Before the sums go through the branch: slot 0 is what paths without heads are. */
static void advance_paths(pass *p)
{
    int64_t paths = p->set ? (int64_t)p->set->total : 0;
#pragma omp parallel for num_threads(p->context->threads) schedule(dynamic)
    for (int64_t i = 0; i < paths; i++)
        rs_single_advance(&p->single[i], p->set->choice[i * p->plan->n_hops + p->hop], p->slot[0],
                          p->rows, &p->f, p->scratch[rs_thread_number()]);
    if (paths) rs_single_rows(p->rows, &p->f);
}

static void finish_paths(pass *p)
{
    int64_t paths = p->set ? (int64_t)p->set->total : 0;
#pragma omp parallel for num_threads(p->context->threads) schedule(dynamic)
    for (int64_t i = 0; i < paths; i++)
        rs_single_finish(&p->single[i], p->slot[0], p->rows, p->n, p->d,
                         p->scratch[rs_thread_number()]);
}

static rs_status pass_branch(pass *p, rs_error *err)
{
    const rs_path_hop *hop = &p->plan->hops[p->hop];
    const rs_layer *layer = &p->network->layers[hop->layer];
    const rs_branch *branch = &layer->branches[hop->branch];
    int64_t count = p->n * p->d;
    bool attends = hop->heads > 0, reads_joined = branch->joins && hop->branch > 0;
    RS_TRY(rs_frozen_load(&p->f, branch, attends, err));
    p->f.mixing = p->mixing;
    rs_frozen_measure(&p->f.before, &branch->before, reads_joined ? p->joined : p->in, p->n, p->d);
    multiply_all(p->in, branch->skip, count);
    if (p->has_op) {
        rs_frozen_measure(&p->f.inside, &branch->inside, p->op_out, p->n, p->d);
        rs_frozen_apply(p->op_out, &p->f.inside, p->n, p->d, true);
        add_scaled(p->in, branch->scale, p->op_out, count);
    }
    rs_frozen_measure(&p->f.after, &branch->after, p->in, p->n, p->d);
    if (attends) attend_all(p);
    advance_paths(p);
    combine_all(p, hop->layer, attends);
    if (p->sums->injected && hop->branch == layer->n_branches - 1) {
        const double *own = p->slot[layer_slot(p, hop->layer)];
        p->sums->injection[hop->layer] = sqrt(rs_dot(own, own, count));
    }
    return RS_OK;
}

/* ---- taps ---- */

static rs_status on_branch(void *user, int32_t layer, int32_t branch, rs_moment moment,
                           const rs_state_view *view, rs_error *err)
{
    pass *p = user;
    size_t bytes = (size_t)(p->n * p->d) * sizeof(double);
    switch (moment) {
    case RS_MOMENT_IN:
        memcpy(p->in, view->data, bytes);
        if (branch == 0) memcpy(p->joined, view->data, bytes);
        p->has_op = false;
        return RS_OK;
    case RS_MOMENT_OP_OUT:
        memcpy(p->op_out, view->data, bytes);
        p->has_op = true;
        return RS_OK;
    case RS_MOMENT_OUT:
        RS_TRY(rs_check_cancelled(p->context, err));
        RS_TRY(rs_path_check_finite(
            view->data, p->n * p->d, layer,
            rs_branch_traits(&p->network->layers[layer].branches[branch])->name, err));
        RS_TRY(pass_branch(p, err));
        p->hop++;
        return RS_OK;
    default:
        return RS_OK;
    }
}

static rs_status on_attention(void *user, const rs_attention_view *view, rs_error *err)
{
    pass *p = user;
    (void)err;
    const double *mixing = view->mixing;
    const rs_path_hop *hop = &p->plan->hops[p->hop];
    bool passed = hop->layer == view->layer && hop->branch == view->branch && hop->heads > 0;
    double *at = p->mixing + view->head * p->n * p->n;
    for (int64_t i = 0; i < p->n && passed; i++)
        memcpy(at + i * p->n, mixing + i * view->ld, (size_t)p->n * sizeof *at);
    return RS_OK;
}

static rs_status on_state(void *user, rs_site site, int32_t layer, const rs_state_view *view,
                          rs_error *err)
{
    pass *p = user;
    size_t bytes = (size_t)(p->n * p->d) * sizeof(double);
    (void)site;
    if (layer == 0) {
        RS_TRY(rs_path_check_finite(view->data, p->n * p->d, -1, NULL, err));
        memcpy(p->slot[0], view->data, bytes);
        p->live[0] = true;
    }
    if (layer == p->network->n_layers) memcpy(p->sums->output, view->data, bytes);
    return RS_OK;
}

/* ---- memory ---- */

/* n_a × n_b × n_c doubles; false when that is no size. */
static bool add_size(size_t *total, int64_t a, int64_t b, int64_t c)
{
    size_t ab, abc;
    return rs_size_mul((size_t)a, (size_t)b, &ab) && rs_size_mul(ab, (size_t)c, &abc) &&
           rs_size_add(*total, abc, total);
}

static rs_status check_size(const pass *p, int64_t slots, int64_t heads, rs_error *err)
{
    int64_t paths = p->set ? (int64_t)p->set->total : 0;
    int64_t products = p->set ? (int64_t)p->set->n : 0;
    size_t total = 0;
    bool fits = add_size(&total, 2 * slots + 6 + paths, p->n, p->d) &&
                add_size(&total, heads + products, p->n, p->n);
    if (fits && (double)total * 8 <= (double)rs_weight_limit(p->context)) return RS_OK;
    return rs_fail(err, RS_E_MEMORY_LIMIT, "paths",
                   "take a smaller --max-length, --paths or --seq-len, or leave out --sources",
                   "%lld sums and %lld single paths of %lld tokens by %lld features do not fit "
                   "half of the memory",
                   (long long)slots, (long long)paths, (long long)p->n, (long long)p->d);
}

static double *states(int64_t count, int64_t rows, int64_t cols)
{
    return rs_calloc((size_t)count, (size_t)(rows * cols) * sizeof(double));
}

static rs_status open_sums(pass *p, bool by_layer, rs_error *err)
{
    rs_path_sums *s = p->sums;
    int64_t n = p->n, d = p->d, lengths = p->plan->longest + 2;
    int64_t paths = p->set ? (int64_t)p->set->total : 0, layers = p->network->n_layers;
    int64_t products = p->set ? (int64_t)p->set->n : 0;
    *s = (rs_path_sums){.n = n, .d = d, .longest = p->plan->longest};
    s->embedding = states(lengths, n, d);
    s->source = states(lengths, n, d);
    s->output = states(1, n, d);
    s->path_state = states(paths, n, d);
    s->path_product = states(products, n, n);
    bool got = s->embedding && s->source && s->output && s->path_state && s->path_product;
    if (by_layer) {
        s->injected = states(layers, n, d);
        s->injection = states(layers, 1, 1);
        got = got && s->injected && s->injection;
    }
    return got ? RS_OK : rs_fail_memory(err, "sums over paths", 0);
}

static rs_status open_paths(pass *p, rs_error *err)
{
    size_t paths = p->set ? p->set->total : 0, count = (size_t)(p->n * p->d);
    p->single = rs_calloc(paths, sizeof *p->single);
    p->rows = rs_malloc((size_t)p->n, sizeof *p->rows);
    if (!p->single || !p->rows) return rs_fail_memory(err, "single paths", 0);
    for (size_t i = 0; i < paths; i++)
        p->single[i] = (rs_single_path){
            .width = RS_PATH_NO_HEAD,
            .state = p->sums->path_state + i * count,
            .product = i < p->set->n ? p->sums->path_product + i * (size_t)(p->n * p->n) : NULL};
    for (int64_t i = 0; i < p->n; i++)
        p->rows[i] = 1;
    return RS_OK;
}

static void set_slots(pass *p, bool by_layer)
{
    int64_t count = p->n * p->d;
    int32_t lengths = p->plan->longest + 2;
    for (int32_t k = 0; k < lengths; k++) {
        p->slot[k] = p->sums->embedding + k * count;
        p->slot[lengths + k] = p->sums->source + k * count;
    }
    for (int32_t l = 0; by_layer && l < p->network->n_layers; l++)
        p->slot[2 * lengths + l] = p->sums->injected + l * count;
    for (int32_t s = 0; s <= p->n_slots; s++)
        p->out[s] = p->out_room + s * count;
}

/* Scratch that the widest attention needs, and the most heads. */
static void widest(const pass *p, size_t *scratch, int64_t *heads)
{
    *scratch = (size_t)(p->n * p->d);
    *heads = 1;
    for (int32_t i = 0; i < p->plan->n_hops; i++) {
        const rs_path_hop *hop = &p->plan->hops[i];
        if (hop->heads == 0) continue;
        const rs_attention_op *op =
            rs_branch_plain_attention(&p->network->layers[hop->layer].branches[hop->branch]);
        rs_frozen_branch like = p->f;
        like.heads = op->heads;
        like.kv_heads = op->kv_heads;
        like.value_dim = op->value_dim;
        size_t need = rs_frozen_scratch(&like, p->group);
        if (need > *scratch) *scratch = need;
        need = rs_single_scratch(&like);
        if (need > *scratch) *scratch = need;
        if (op->heads > *heads) *heads = op->heads;
    }
}

static rs_status open_pass(pass *p, bool by_layer, rs_error *err)
{
    size_t scratch;
    int64_t heads, count = p->n * p->d, slots;
    p->n_slots = 2 * (p->plan->longest + 2) + (by_layer ? p->network->n_layers : 0);
    slots = p->n_slots;
    p->group = (int32_t)(p->n < TASK_ROWS ? TASK_ROWS / p->n : 1);
    RS_TRY(rs_frozen_open(&p->f, p->network, p->n, err));
    p->f.before.shake = p->f.inside.shake = p->f.after.shake = p->shake;
    widest(p, &scratch, &heads);
    RS_TRY(check_size(p, slots, heads, err));
    RS_TRY(open_sums(p, by_layer, err));
    RS_TRY(open_paths(p, err));
    p->joined = states(3, p->n, p->d);
    p->mixing = states(heads, p->n, p->n);
    p->out_room = rs_malloc((size_t)slots + 1, (size_t)count * sizeof(double));
    p->slot = rs_calloc((size_t)slots, sizeof *p->slot);
    p->out = rs_calloc((size_t)slots + 1, sizeof *p->out);
    p->from = rs_calloc(2 * ((size_t)slots + 1), sizeof *p->from);
    p->live = rs_calloc((size_t)slots, sizeof *p->live);
    p->scratch = rs_calloc((size_t)p->context->threads, sizeof *p->scratch);
    if (!p->joined || !p->mixing || !p->out_room || !p->slot || !p->out || !p->from || !p->live ||
        !p->scratch)
        return rs_fail_memory(err, "sums over paths", 0);
    for (int t = 0; t < p->context->threads; t++) {
        p->scratch[t] = rs_malloc(scratch, sizeof(double));
        if (!p->scratch[t]) return rs_fail_memory(err, "sums over paths", scratch * 8);
    }
    p->in = p->joined + count;
    p->op_out = p->in + count;
    p->to = p->from + slots + 1;
    set_slots(p, by_layer);
    return RS_OK;
}

static void close_pass(pass *p)
{
    rs_frozen_close(&p->f);
    for (int t = 0; p->scratch && t < p->context->threads; t++)
        rs_free(p->scratch[t]);
    rs_free(p->scratch);
    rs_free(p->single);
    rs_free(p->rows);
    rs_free(p->joined);
    rs_free(p->mixing);
    rs_free(p->out_room);
    rs_free(p->slot);
    rs_free(p->out);
    rs_free(p->from);
    rs_free(p->live);
}

void rs_path_sums_close(rs_path_sums *sums)
{
    if (!sums) return;
    rs_free(sums->embedding);
    rs_free(sums->source);
    rs_free(sums->injected);
    rs_free(sums->injection);
    rs_free(sums->output);
    rs_free(sums->path_state);
    rs_free(sums->path_product);
    rs_free(sums);
}

/* ---- running ---- */

static rs_status run_pass(pass *p, rs_weights *weights, const rs_batch *batch, bool by_layer,
                          rs_error *err)
{
    const rs_tap tap = {.user = p,
                        .sites = 1u << RS_SITE_BLOCK_OUT,
                        .state = on_state,
                        .moments =
                            1u << RS_MOMENT_IN | 1u << RS_MOMENT_OP_OUT | 1u << RS_MOMENT_OUT,
                        .branch = on_branch,
                        .attention = on_attention};
    RS_TRY(open_pass(p, by_layer, err));
    RS_TRY(rs_observe_batch(p->network, weights, batch, &tap, p->context, err));
    finish_paths(p);
    p->sums->identity = rs_path_identity_of(p->sums);
    return RS_OK;
}

static rs_status make_sums(rs_path_sums **out, const rs_network *network, rs_weights *weights,
                           const rs_batch *batch, const rs_path_plan *plan, const rs_path_set *set,
                           bool by_layer, double shake, const rs_context *context, rs_error *err)
{
    *out = NULL;
    rs_path_sums *sums = rs_calloc(1, sizeof *sums);
    if (!sums) return rs_fail_memory(err, "sums over paths", sizeof *sums);
    pass p = {.network = network,
              .plan = plan,
              .set = set,
              .context = context,
              .sums = sums,
              .shake = shake,
              .n = batch->begin[1],
              .d = network->d_model};
    rs_status status = run_pass(&p, weights, batch, by_layer, err);
    close_pass(&p);
    if (status == RS_OK)
        *out = sums;
    else
        rs_path_sums_close(sums);
    return status;
}

rs_status rs_path_sums_of(rs_path_sums **out, const rs_network *network, rs_weights *weights,
                          const rs_batch *batch, const rs_path_plan *plan, const rs_path_set *set,
                          bool by_layer, const rs_context *context, rs_error *err)
{
    return make_sums(out, network, weights, batch, plan, set, by_layer, 0, context, err);
}

/* The whole of the sums, in the place of the output that they are to equal. */
static void put_total(double *output, const rs_path_sums *s)
{
    int64_t count = s->n * s->d;
    memset(output, 0, (size_t)count * sizeof *output);
    for (int32_t k = 0; k < s->longest + 2; k++) {
        add_scaled(output, 1, s->embedding + k * count, count);
        add_scaled(output, 1, s->source + k * count, count);
    }
}

rs_status rs_path_sums_moved(double *moved, const rs_path_sums *sums, const rs_network *network,
                             rs_weights *weights, const rs_batch *batch, const rs_path_plan *plan,
                             const rs_context *context, rs_error *err)
{
    rs_path_sums *shaken;
    RS_TRY(make_sums(&shaken, network, weights, batch, plan, NULL, false, 0x1p-52, context, err));
    put_total(shaken->output, sums);
    *moved = rs_path_identity_of(shaken).error;
    rs_path_sums_close(shaken);
    return RS_OK;
}
