/* certify_gather.c: one float64 pass over all inputs, and the few numbers that certificates need of
 * it. */
#include "certify/certify_gather.h"

#include "base/memory.h"
#include "engine/dense_matrix.h"
#include "linalg/vector.h"
#include "network/op_traits.h"
#include "observe/pass.h"

#include <float.h>
#include <math.h>
#include <omp.h>
#include <string.h>

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
    int64_t rows = rs_batch_rows(g, s), d = g->network->d_model;
    rs_certify_state *out = &g->pass->states[(g->batch.first + s) * (g->network->n_layers + 1) + l];
    const rs_token_measures *m = &g->measures[s];
    if (rows == 0) return;
    *out = (rs_certify_state){.diameter = m->diameter,
                              .residual_1inf = m->residual_1inf,
                              .residual_fro = m->residual_fro,
                              .relative_residual = m->relative_residual,
                              .norm_fro = m->norm_fro,
                              .longest = longest_row(x, rows, d),
                              .at_floor = m->at_floor,
                              .equal = all_equal(x, rows, d),
                              .finite = m->first_nonfinite < 0};
}

static rs_status state(void *user, rs_site site, int32_t layer, const rs_state_view *view,
                       rs_error *err)
{
    rs_certify_gather *g = user;
    rs_status kept = RS_OK;
    rs_error kept_error = {0};
    rs_token_options options = {.epsilon = U};
    int64_t d = view->cols;
    (void)site;
#pragma omp parallel for num_threads(g->context->threads) schedule(dynamic)
    for (int32_t s = 0; s < g->batch.batch.samples; s++) {
        int64_t rows = rs_batch_rows(g, s);
        const double *x = (const double *)view->data + g->batch.batch.begin[s] * d;
        rs_error error = {0};
        if (rows == 0) continue;
        rs_status status = rs_token_measure_f64(&g->measures[s], x, rows, d, d, &options,
                                                g->workspaces[omp_get_thread_num()], &error);
        if (status != RS_OK) rs_keep_first(&kept, &kept_error, status, &error);
        keep_state(g, s, layer, x);
    }
    if (kept != RS_OK && err) *err = kept_error;
    return kept;
}

/* ---- branches ---- */

/* X before the branch; what its own norm and those of branches that join it will read. */
static rs_status branch_in(rs_certify_gather *g, int32_t l, int32_t b, const rs_state_view *view,
                           rs_error *err)
{
    const rs_layer *layer = &g->network->layers[l];
    int64_t d = view->cols;
    RS_TRY(rs_certify_room_for(&g->state, view->rows, d, err));
    memcpy(g->state.data, view->data, (size_t)(view->rows * d) * sizeof(double));
#pragma omp parallel for num_threads(g->context->threads) schedule(dynamic)
    for (int32_t s = 0; s < g->batch.batch.samples; s++) {
        int64_t rows = rs_batch_rows(g, s);
        const double *x = g->state.data + g->batch.batch.begin[s] * d;
        rs_certify_branch *own = rs_batch_branch(g, s, l, b);
        own->longest_in = longest_row(x, rows, d);
        for (int32_t other = b; other < layer->n_branches; other++) {
            const rs_branch *reader = &layer->branches[other];
            bool reads = other == b ? !reader->joins || b == 0 : b == 0 && reader->joins;
            rs_certify_branch *to = rs_batch_branch(g, s, l, other);
            if (reads && reader->before.kind != RS_NORM_NONE)
                to->before_std = least_std(&to->longest_read, x, rows, d, &reader->before);
        }
    }
    return RS_OK;
}

static void branch_op_in(rs_certify_gather *g, int32_t l, int32_t b, const rs_state_view *view)
{
#pragma omp parallel for num_threads(g->context->threads) schedule(dynamic)
    for (int32_t s = 0; s < g->batch.batch.samples; s++)
        rs_batch_branch(g, s, l, b)->longest_op_in =
            longest_row((const double *)view->data + g->batch.batch.begin[s] * view->cols,
                        rs_batch_rows(g, s), view->cols);
}

/* row = norm(row), in float64: only to see what a second norm behind it will read. */
static void norm_row(double *row, const double *gain, const double *bias, const rs_norm_op *norm)
{
    int64_t d = norm->dim;
    double mean = norm->kind == RS_NORM_LAYERNORM ? rs_sum(row, d) / (double)d : 0, square = 0;
    for (int64_t k = 0; k < d; k++)
        square += (row[k] - mean) * (row[k] - mean);
    double factor = 1 / sqrt(square / (double)d + norm->eps);
    for (int64_t k = 0; k < d; k++)
        row[k] = (row[k] - mean) * factor * gain[k] + bias[k];
}

static rs_status branch_op_out(rs_certify_gather *g, int32_t l, int32_t b,
                               const rs_state_view *view, rs_error *err)
{
    const rs_branch *branch = &g->network->layers[l].branches[b];
    int64_t d = view->cols;
    bool inside = branch->inside.kind != RS_NORM_NONE;
    RS_TRY(rs_certify_room_for(&g->branch, view->rows, d, err));
    RS_TRY(rs_certify_room_for(&g->summed, view->rows + 2, d, err));
    double *gain = g->summed.data + view->rows * d, *bias = gain + d;
    if (inside) rs_norm_vectors(gain, bias, &branch->inside);
#pragma omp parallel for num_threads(g->context->threads) schedule(dynamic)
    for (int32_t s = 0; s < g->batch.batch.samples; s++) {
        int64_t rows = rs_batch_rows(g, s), from = g->batch.batch.begin[s] * d;
        rs_certify_branch *own = rs_batch_branch(g, s, l, b);
        const double *y = (const double *)view->data + from;
        double *added = g->branch.data + from;
        memcpy(added, y, (size_t)(rows * d) * sizeof *added);
        own->longest_op_out = longest_row(y, rows, d);
        if (!inside) continue;
        double longest;
        own->inside_std = least_std(&longest, y, rows, d, &branch->inside);
        for (int64_t i = 0; i < rows; i++)
            norm_row(added + i * d, gain, bias, &branch->inside);
    }
    return RS_OK;
}

/* The sum that the norm behind the branch reads. */
static rs_status branch_sum(rs_certify_gather *g, int32_t l, int32_t b, rs_error *err)
{
    const rs_branch *branch = &g->network->layers[l].branches[b];
    int64_t d = g->network->d_model, all = g->batch.batch.begin[g->batch.batch.samples];
    if (branch->after.kind == RS_NORM_NONE) return RS_OK;
    RS_TRY(rs_certify_room_for(&g->summed, all + 2, d, err));
#pragma omp parallel for num_threads(g->context->threads) schedule(dynamic)
    for (int32_t s = 0; s < g->batch.batch.samples; s++) {
        int64_t rows = rs_batch_rows(g, s), from = g->batch.batch.begin[s] * d;
        double *sum = g->summed.data + from;
        const double *x = g->state.data + from;
        for (int64_t i = 0; i < rows * d; i++) {
            double kept = branch->skip == 0 ? 0 : branch->skip * x[i];
            sum[i] = branch->scale == 0 ? kept : kept + branch->scale * g->branch.data[from + i];
        }
        rs_certify_branch *own = rs_batch_branch(g, s, l, b);
        own->after_std = least_std(&own->longest_sum, sum, rows, d, &branch->after);
    }
    return RS_OK;
}

static rs_status told_branch(void *user, int32_t l, int32_t b, rs_moment moment,
                             const rs_state_view *view, rs_error *err)
{
    rs_certify_gather *g = user;
    switch (moment) {
    case RS_MOMENT_IN:
        RS_TRY(branch_in(g, l, b, view, err));
        return b == 0 ? rs_predict_begin_layer(g, l, view->data, err) : RS_OK;
    case RS_MOMENT_OP_IN:
        branch_op_in(g, l, b, view);
        RS_TRY(rs_consensus_begin(g, l, b, err));
        return rs_predict_op_in(g, l, b, view->data, err);
    case RS_MOMENT_OP_OUT:
        RS_TRY(branch_op_out(g, l, b, view, err));
        return rs_predict_op_out(g, l, b, err);
    default:
        RS_TRY(branch_sum(g, l, b, err));
        RS_TRY(rs_certify_lambda_branch(g, l, b, err));
        return rs_predict_out(g, l, b, view->data, err);
    }
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
            n += (size_t)rs_branch_traits(&layer->branches[b])->matrices(&layer->branches[b]);
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
            const rs_attention_op *op = rs_branch_attention(&p->network->layers[l].branches[b]);
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
    p->predictions = rs_calloc(cells, sizeof *p->predictions);
    p->heads = rs_calloc(heads, sizeof *p->heads);
    if (!p->states || !p->branches || !p->predictions || !p->heads)
        return rs_fail_memory(err, "certificates", heads * sizeof *p->heads);
    for (int64_t s = 0; s < inputs->samples; s++)
        p->tokens[s] = inputs->begin[s + 1] - inputs->begin[s];
    set_turns(p);
    return RS_OK;
}

void rs_certify_pass_close(rs_certify_pass *p)
{
    if (!p) return;
    rs_free(p->tokens);
    rs_free(p->head_at);
    rs_free(p->states);
    rs_free(p->branches);
    rs_free(p->predictions);
    rs_free(p->heads);
    rs_free(p);
}

static rs_status open_gather(rs_certify_gather *g, rs_error *err)
{
    size_t threads = (size_t)g->context->threads;
    rs_token_options options = {.epsilon = U};
    size_t bytes = rs_token_workspace(g->inputs->longest, g->network->d_model, &options);
    g->workspaces = rs_calloc(threads, sizeof *g->workspaces);
    g->scratch = rs_calloc(threads, sizeof *g->scratch);
    g->measures = rs_calloc((size_t)g->capacity, sizeof *g->measures);
    g->sample_predicts = rs_calloc((size_t)g->capacity, sizeof *g->sample_predicts);
    g->reasons = rs_calloc((size_t)g->capacity, sizeof *g->reasons);
    if (!g->workspaces || !g->scratch || !g->measures || !g->sample_predicts || !g->reasons)
        return rs_fail_memory(err, "certificates", 0);
    for (size_t t = 0; t < threads; t++)
        if (!(g->workspaces[t] = rs_malloc(1, bytes)))
            return rs_fail_memory(err, "certificates", bytes);
    return RS_OK;
}

static void close_gather(rs_certify_gather *g)
{
    for (int t = 0; t < g->context->threads; t++) {
        if (g->workspaces) rs_free(g->workspaces[t]);
        if (g->scratch) rs_free(g->scratch[t].data);
    }
    rs_predict_close(g);
    rs_free(g->workspaces);
    rs_free(g->scratch);
    rs_free(g->measures);
    rs_free(g->sample_predicts);
    rs_free(g->reasons);
    rs_free(g->state.data);
    rs_free(g->summed.data);
    rs_free(g->branch.data);
    rs_free(g->eigenvalues.data);
    rs_free(g->value_matrix.data);
}

static rs_status begin_batch(void *user, const rs_input_batch *batch, rs_error *err)
{
    rs_certify_gather *g = user;
    (void)err;
    g->batch = *batch;
    return RS_OK;
}

static rs_status run_pass(rs_certify_gather *g, rs_error *err)
{
    rs_listener listener = {.tap = {.user = g,
                                    .sites = 1u << RS_SITE_BLOCK_OUT,
                                    .state = state,
                                    .moments = 1u << RS_MOMENT_IN | 1u << RS_MOMENT_OP_IN |
                                               1u << RS_MOMENT_OP_OUT | 1u << RS_MOMENT_OUT,
                                    .branch = told_branch,
                                    .wants_logits = true,
                                    .attention = rs_certify_attention},
                            .begin = begin_batch};
    rs_listener *listeners[] = {&listener};
    const rs_pass_plan plan = {.network = g->network,
                               .inputs = g->inputs,
                               .precision = RS_PRECISION_F64,
                               .capacity = g->capacity,
                               .phase = "certify"};
    return rs_observe_pass(NULL, &plan, listeners, 1, g->context, err);
}

rs_status rs_certify_gather_pass(rs_certify_pass **out, const rs_network *network,
                                 const rs_weight_norms *norms, const rs_inputs *inputs,
                                 const rs_certify_options *options, rs_certify_lambda *lambda,
                                 const rs_context *context, rs_error *err)
{
    rs_certify_gather g = {.network = network,
                           .inputs = inputs,
                           .norms = norms,
                           .context = context,
                           .options = options,
                           .lambda = lambda};
    g.capacity = rs_pass_capacity(network, RS_PRECISION_F64, inputs, options->batch, context);
    rs_status status = open_pass(&g.pass, network, inputs, err);
    if (status == RS_OK) status = open_gather(&g, err);
    if (status == RS_OK) status = run_pass(&g, err);
    if (status == RS_OK) status = rs_certify_mark_floor(g.pass, err);
    close_gather(&g);
    if (status == RS_OK)
        *out = g.pass;
    else
        rs_certify_pass_close(g.pass);
    return status;
}
