/* certify_gather.c: the few numbers that certificates need of a float64 pass: of each state, branch
 * and head. */
#include "certify/certify_gather.h"

#include "base/memory.h"
#include "linalg/threads.h"
#include "linalg/vector.h"
#include "network/op_traits.h"

#include <float.h>
#include <math.h>
#include <string.h>

struct rs_certify_gather {
    rs_listener listener;
    const rs_certify_scene *scene;
    rs_certify_pass *pass;
    const rs_input_batch *batch; /* the one that runs */
    rs_token_measures *measures; /* [capacity] */
    rs_certify_room mlp_in;      /* rows of the batch that the MLP at hand reads */
};

static const double U = DBL_EPSILON / 2;

rs_status rs_certify_room_for(rs_certify_room *room, int64_t rows, int64_t cols, rs_error *err)
{
    size_t count;
    if (!rs_size_mul((size_t)rows, (size_t)cols, &count))
        return rs_fail_memory(err, "certificates", SIZE_MAX);
    if (count <= room->count && room->data) return RS_OK;
    rs_free(room->data);
    *room = (rs_certify_room){.data = rs_malloc(count, sizeof(double))};
    if (!room->data) return rs_fail_memory(err, "certificates", count * sizeof(double));
    room->count = count;
    return RS_OK;
}

/* ---- rows ---- */

/* A lower bound of min over rows of √(var + ε), or of √(mean square + ε) under RMSNorm: the
 * computed one less what its own evaluation can have added (docs/certificates.md, C9). longest: of
 * the rows. */
static double least_std(double *longest, const double *x, int64_t rows, int64_t d,
                        const rs_norm_op *norm)
{
    double least = INFINITY, most = 0, root = sqrt((double)d);
    for (int64_t i = 0; i < rows; i++) {
        const double *row = x + i * d;
        double square = rs_dot(row, row, d), mean = 0, variance = square;
        double length = sqrt(square) * (1 + rs_gamma((double)d + 2)) + 1e-150;
        if (norm->kind == RS_NORM_LAYERNORM) {
            mean = rs_sum(row, d) / (double)d;
            variance = 0;
            for (int64_t k = 0; k < d; k++)
                variance += (row[k] - mean) * (row[k] - mean);
        }
        double shift = rs_gamma((double)d + 2) * length / root;
        double under = variance / (double)d * (1 - rs_gamma((double)d + 8)) - shift * shift;
        under = sqrt(fmax(0, under) + norm->eps) * (1 - 8 * U); /* of 4 (C10) */
        if (!(under >= least)) least = under;                   /* a NaN stays */
        if (!(length <= most)) most = length;
    }
    *longest = most;
    return rows > 0 ? least : NAN;
}

static double longest_row(const double *x, int64_t rows, int64_t d)
{
    double most = 0;
    for (int64_t i = 0; i < rows; i++) {
        double square = rs_dot(x + i * d, x + i * d, d);
        if (!(square <= most)) most = square;
    }
    /* squares of less than 1e-150 underflow (docs/certificates.md, C10) */
    return sqrt(most) * (1 + rs_gamma((double)d + 4)) + 1e-150;
}

static bool all_equal(const double *x, int64_t rows, int64_t d)
{
    for (int64_t i = 1; i < rows; i++)
        if (memcmp(x, x + i * d, (size_t)d * sizeof *x) != 0) return false;
    return true;
}

/* ---- states ---- */

static void keep_state(rs_certify_gather *g, int64_t s, int32_t l, const double *x)
{
    const rs_network *network = g->scene->network;
    int64_t rows = rs_batch_rows(g->batch, s), d = network->d_model;
    const rs_token_measures *m = &g->measures[s];
    g->pass->states[(g->batch->first + s) * (network->n_layers + 1) + l] =
        (rs_certify_state){.diameter = m->diameter,
                           .residual_1inf = m->residual_1inf,
                           .residual_fro = m->residual_fro,
                           .relative_residual = m->relative_residual,
                           .norm_fro = m->norm_fro,
                           .longest = longest_row(x, rows, d),
                           .at_floor = m->at_floor,
                           .equal = all_equal(x, rows, d),
                           .finite = m->first_nonfinite < 0};
}

static rs_status on_state(void *user, rs_site site, int32_t layer, const rs_state_view *view,
                          rs_error *err)
{
    rs_certify_gather *g = user;
    rs_status kept = RS_OK;
    rs_error kept_error = {0};
    rs_token_options options = {.epsilon = U};
    int64_t d = view->cols;
    (void)site;
#pragma omp parallel for num_threads(g->scene->context->threads) schedule(dynamic)
    for (int32_t s = 0; s < view->batch->samples; s++) {
        int64_t rows = rs_batch_rows(g->batch, s);
        const double *x = (const double *)view->data + view->batch->begin[s] * d;
        rs_error error = {0};
        if (rows == 0) continue;
        rs_status status = rs_token_measure_f64(&g->measures[s], x, rows, d, d, &options,
                                                g->listener.scratch[rs_thread_number()], &error);
        if (status != RS_OK) rs_keep_first(&kept, &kept_error, status, &error);
        keep_state(g, s, layer, x);
    }
    if (kept != RS_OK && err) *err = kept_error;
    return kept;
}

/* ---- branches ---- */

/* The rows of one sample at one moment of a branch. */
typedef struct sample_rows {
    const double *x;
    int64_t n, d;
} sample_rows;

static rs_certify_branch *branch_of(rs_certify_gather *g, int64_t s, int32_t l, int32_t b)
{
    return rs_pass_branch(g->pass, g->batch->first + s, l, b);
}

static void measure_norm(double *std, double *longest, const sample_rows *r, const rs_norm_op *norm)
{
    if (norm->kind != RS_NORM_NONE) *std = least_std(longest, r->x, r->n, r->d, norm);
}

/* X before the branch: what its own norm and those of branches that join it will read. */
static void branch_in(rs_certify_gather *g, int32_t l, int32_t b, int64_t s, const sample_rows *r)
{
    const rs_layer *layer = &g->scene->network->layers[l];
    branch_of(g, s, l, b)->longest_in = longest_row(r->x, r->n, r->d);
    for (int32_t other = b; other < layer->n_branches; other++) {
        const rs_branch *reader = &layer->branches[other];
        bool reads = other == b ? !reader->joins || b == 0 : b == 0 && reader->joins;
        rs_certify_branch *to = branch_of(g, s, l, other);
        if (reads) measure_norm(&to->before_std, &to->longest_read, r, &reader->before);
    }
}

/* The MLP's rows beside those that it read. */
static void measure_stretch(const rs_certify_gather *g, rs_certify_branch *own, int64_t s,
                            const sample_rows *out, int64_t d)
{
    const double *in = g->mlp_in.data + g->batch->batch.begin[s] * d;
    own->mlp_stretch = rs_certify_mlp_stretch(in, out->x, out->n, d, out->d, own->longest_op_in);
}

static void sample_told(rs_certify_gather *g, int32_t l, int32_t b, rs_moment moment, int64_t s,
                        const sample_rows *r)
{
    const rs_branch *branch = &g->scene->network->layers[l].branches[b];
    rs_certify_branch *own = branch_of(g, s, l, b);
    double longest;
    switch (moment) {
    case RS_MOMENT_IN:
        branch_in(g, l, b, s, r);
        break;
    case RS_MOMENT_OP_IN:
        own->longest_op_in = longest_row(r->x, r->n, r->d);
        break;
    case RS_MOMENT_OP_OUT:
        own->longest_op_out = longest_row(r->x, r->n, r->d);
        if (rs_branch_mlp(branch)) measure_stretch(g, own, s, r, branch->mlp.up.in);
        measure_norm(&own->inside_std, &longest, r, &branch->inside);
        break;
    default:
        measure_norm(&own->after_std, &own->longest_sum, r, &branch->after);
    }
}

static rs_status keep_rows(rs_certify_gather *g, const rs_state_view *view, rs_error *err)
{
    RS_TRY(rs_certify_room_for(&g->mlp_in, view->rows, view->cols, err));
    memcpy(g->mlp_in.data, view->data, (size_t)(view->rows * view->cols) * sizeof(double));
    return RS_OK;
}

static rs_status on_branch(void *user, int32_t l, int32_t b, rs_moment moment,
                           const rs_state_view *view, rs_error *err)
{
    rs_certify_gather *g = user;
    if (moment == RS_MOMENT_OP_IN && rs_branch_mlp(&g->scene->network->layers[l].branches[b]))
        RS_TRY(keep_rows(g, view, err));
#pragma omp parallel for num_threads(g->scene->context->threads) schedule(dynamic)
    for (int32_t s = 0; s < view->batch->samples; s++) {
        const sample_rows r = {(const double *)view->data + view->batch->begin[s] * view->cols,
                               rs_batch_rows(g->batch, s), view->cols};
        sample_told(g, l, b, moment, s, &r);
    }
    return RS_OK;
}

/* Worker threads call it. */
static bool wants_attention(void *user, int32_t layer, int32_t branch, int32_t head)
{
    const rs_certify_gather *g = user;
    (void)head;
    return rs_branch_proved_heads(&g->pass->network->layers[layer].branches[branch]) > 0;
}

static rs_status on_attention(void *user, const rs_attention_view *view, rs_error *err)
{
    rs_certify_gather *g = user;
    int32_t l = view->layer, b = view->branch;
    int64_t empty_rows = 0;
    (void)err;
    rs_certify_head_of(rs_pass_heads(g->pass, g->batch->first + view->sample, l, b) + view->head,
                       &empty_rows, &g->scene->network->layers[l].branches[b], view,
                       g->listener.scratch[view->thread]);
    if (empty_rows) {
#pragma omp atomic
        branch_of(g, view->sample, l, b)->empty_rows += empty_rows;
    }
    return RS_OK;
}

/* ---- the pass ---- */

static size_t count_heads(rs_certify_pass *p)
{
    size_t n = 0;
    for (int32_t l = 0; l < p->network->n_layers; l++)
        for (int32_t b = 0; b < RS_BRANCHES_MAX; b++) {
            const rs_layer *layer = &p->network->layers[l];
            p->head_at[l * RS_BRANCHES_MAX + b] = n;
            if (b >= layer->n_branches || layer->branches[b].scale == 0) continue;
            n += (size_t)rs_branch_proved_heads(&layer->branches[b]);
        }
    return p->head_at[(size_t)p->network->n_layers * RS_BRANCHES_MAX] = n;
}

/* How far an angle of rotary positions may be wrong: of its frequency, of its product with the
 * position, of sine and cosine and of the rotation itself. */
static void set_turns(rs_certify_pass *p)
{
    static const double OWN = 64, YARN_GAIN = 512; /* units of roundoff */
    for (int64_t l = 0; l < p->network->n_layers; l++)
        for (int32_t b = 0; b < p->network->layers[l].n_branches; b++) {
            const rs_attention_op *op =
                rs_branch_plain_attention(&p->network->layers[l].branches[b]);
            if (!op || op->rope.kind == RS_ROPE_NONE) continue;
            const rs_rope_op *rope = &op->rope;
            double rate = rs_rope_angle_rate(rope, 0);
            double own = (OWN + (rope->law == RS_ROPE_YARN ? YARN_GAIN : 0)) * U;
            for (int64_t s = 0; s < p->samples; s++) {
                int64_t n = p->tokens[s], length = rs_rope_own_length(rope, n);
                double each = length ? rs_rope_angle_rate(rope, length) : rate;
                rs_pass_branch(p, s, l, b)->turn = n > 1 ? (double)(n - 1) * each + own : own;
            }
        }
}

static rs_status open_pass(rs_certify_pass **out, const rs_network *network,
                           const rs_inputs *inputs, rs_error *err)
{
    rs_certify_pass *p = rs_calloc(1, sizeof *p);
    *out = p;
    if (!p) return rs_fail_memory(err, "certificates", 0);
    size_t samples = (size_t)inputs->samples, layers = (size_t)network->n_layers, cells, heads;
    p->network = network;
    p->samples = inputs->samples;
    p->tokens = rs_calloc(samples, sizeof *p->tokens);
    p->head_at = rs_calloc(layers * RS_BRANCHES_MAX + 1, sizeof *p->head_at);
    if (!p->tokens || !p->head_at) return rs_fail_memory(err, "certificates", 0);
    size_t all = count_heads(p);
    if (!rs_size_mul(samples, layers + 1, &cells) || !rs_size_mul(samples, all, &heads))
        return rs_fail_memory(err, "certificates", SIZE_MAX);
    p->states = rs_calloc(cells, sizeof *p->states);
    p->branches = rs_calloc(cells * RS_BRANCHES_MAX, sizeof *p->branches);
    p->heads = rs_calloc(heads, sizeof *p->heads);
    if (!p->states || !p->branches || !p->heads)
        return rs_fail_memory(err, "certificates", heads * sizeof *p->heads);
    for (int64_t s = 0; s < inputs->samples; s++)
        p->tokens[s] = inputs->begin[s + 1] - inputs->begin[s];
    set_turns(p);
    return RS_OK;
}

static void close_pass(rs_certify_pass *p)
{
    if (!p) return;
    rs_free(p->tokens);
    rs_free(p->head_at);
    rs_free(p->states);
    rs_free(p->branches);
    rs_free(p->heads);
    rs_free(p);
}

static rs_status begin_batch(void *user, const rs_input_batch *batch, rs_error *err)
{
    rs_certify_gather *g = user;
    if (batch->batch.samples > g->scene->capacity)
        return rs_fail(err, RS_E_INTERNAL, "certificates", NULL, "batches of %lld samples",
                       (long long)batch->batch.samples);
    g->batch = batch;
    return RS_OK;
}

static rs_status open_gather(rs_certify_gather *g, rs_error *err)
{
    const rs_certify_scene *scene = g->scene;
    const rs_token_options options = {.epsilon = U};
    size_t states = rs_token_workspace(scene->inputs->longest, scene->network->d_model, &options);
    size_t heads = rs_certify_head_bytes(scene->widest);
    g->listener = (rs_listener){.tap = {.user = g,
                                        .sites = 1u << RS_SITE_BLOCK_OUT,
                                        .state = on_state,
                                        .moments = 1u << RS_MOMENT_IN | 1u << RS_MOMENT_OP_IN |
                                                   1u << RS_MOMENT_OP_OUT | 1u << RS_MOMENT_SUM,
                                        .branch = on_branch,
                                        .wants_logits = true,
                                        .wants_attention = wants_attention,
                                        .attention = on_attention},
                                .begin = begin_batch,
                                .scratch_bytes = states > heads ? states : heads};
    g->measures = rs_calloc((size_t)scene->capacity, sizeof *g->measures);
    if (!g->measures) return rs_fail_memory(err, "certificates", 0);
    return open_pass(&g->pass, scene->network, scene->inputs, err);
}

rs_status rs_certify_gather_open(rs_certify_gather **out, const rs_certify_scene *scene,
                                 rs_error *err)
{
    rs_certify_gather *g = rs_calloc(1, sizeof *g);
    *out = g;
    if (!g) return rs_fail_memory(err, "certificates", sizeof *g);
    g->scene = scene;
    return open_gather(g, err);
}

rs_listener *rs_certify_gather_listener(rs_certify_gather *g)
{
    return &g->listener;
}

rs_certify_pass *rs_certify_gather_pass(rs_certify_gather *g)
{
    return g->pass;
}

void rs_certify_gather_close(rs_certify_gather *g)
{
    if (!g) return;
    close_pass(g->pass);
    rs_free(g->measures);
    rs_free(g->mlp_in.data);
    rs_free(g);
}
