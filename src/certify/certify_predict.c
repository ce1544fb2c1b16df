/*
 * certify_predict.c: the leading-order law of one layer (docs/theory/collapse.md, 9 and 10), as a
 * matrix.
 *
 * About the mean token the logits are r_j + E_ij with E of second order in the residual R, so that
 * with p = softmax(r) the mixer turns R into Σ_h Δ_h R W_h, Δ_ij = p_j (E_ij − Σ_k p_k E_ik): a
 * cubic law. Under a causal mask the rows' own base distributions differ and the law is linear: Σ_h
 * P_h R W_h, P_ij = softmax over j ≤ i of r. Norms and MLPs behind it are linearised about their
 * mean token. Nothing here is certified.
 */
#include "certify/certify_gather.h"

#include "base/memory.h"
#include "engine/dense_matrix.h"
#include "network/op_traits.h"

#include <cblas.h>
#include <float.h>
#include <math.h>
#include <omp.h>
#include <string.h>

static bool causal_law(const rs_attention_op *op)
{
    return op->causal && op->window == 0;
}

/* Why the law says nothing about this layer; NULL: it does. */
static const char *layer_reason(const rs_layer *layer)
{
    const rs_branch *mixer = &layer->branches[0];
    if (layer->n_branches == 0 || !rs_branch_attention(mixer) || mixer->scale == 0)
        return "no attention in this layer";
    rs_branch bare = *mixer;
    if (causal_law(&bare.attention)) bare.attention.causal = false;
    const char *why = rs_branch_traits(&bare)->not_bilinear(&bare);
    if (!why) why = rs_branch_traits(&bare)->not_stochastic(&bare);
    if (why) return why;
    for (int32_t b = 0; b < layer->n_branches; b++) {
        const rs_branch *branch = &layer->branches[b];
        const rs_mlp_op *mlp = rs_branch_mlp(branch);
        if (b > 0 && !mlp) return "a second attention in this layer";
        if (b > 0 && branch->joins) return "a parallel block";
        if (branch->inside.kind != RS_NORM_NONE) return "a norm inside the branch";
        if (mlp && mlp->activation == RS_ACT_RELU2) return "squared ReLU";
    }
    return NULL;
}

static rs_certify_prediction *slot(rs_certify_gather *g, int64_t s, int32_t l)
{
    return &g->pass->predictions[(g->batch.first + s) * g->network->n_layers + l];
}

/* rows less their mean. */
static void centre(double *out, double *mean, const double *x, int64_t rows, int64_t d)
{
    memset(mean, 0, (size_t)d * sizeof *mean);
    for (int64_t i = 0; i < rows; i++) /* differences from the first row: nothing cancels */
        for (int64_t k = 0; k < d; k++)
            mean[k] += (x[i * d + k] - x[k]) / (double)rows;
    for (int64_t i = 0; i < rows; i++)
        for (int64_t k = 0; k < d; k++)
            out[i * d + k] = (x[i * d + k] - x[k]) - mean[k];
    for (int64_t k = 0; k < d; k++)
        mean[k] += x[k];
}

static bool still(const rs_certify_gather *g)
{
    for (int64_t s = 0; s < g->batch.batch.samples; s++)
        if (g->sample_predicts[s]) return true;
    return false;
}

rs_status rs_predict_begin_layer(rs_certify_gather *g, int32_t l, const double *x, rs_error *err)
{
    const char *why = layer_reason(&g->network->layers[l]);
    int64_t d = g->network->d_model, rows = g->batch.batch.begin[g->batch.batch.samples];
    g->predicting = why == NULL;
    for (int64_t s = 0; s < g->batch.batch.samples; s++) {
        const rs_certify_state *in = rs_pass_state(g->pass, g->batch.first + s, l);
        g->reasons[s] = why                              ? why
                        : rs_batch_rows(g, s) < 2        ? "one token"
                        : !in->finite                    ? "not finite"
                        : in->equal || in->diameter == 0 ? "the tokens are equal"
                        : in->at_floor                   ? "the entering residual is rounding"
                                                         : NULL;
        g->sample_predicts[s] = g->reasons[s] == NULL;
        *slot(g, s, l) = (rs_certify_prediction){NAN, NAN, NAN, g->reasons[s]};
    }
    g->predicting = g->predicting && still(g);
    if (!g->predicting) return RS_OK;
    RS_TRY(rs_certify_room_for(&g->predicted, rows + 4, d, err));
    double *mean = g->predicted.data + rows * d;
    for (int64_t s = 0; s < g->batch.batch.samples; s++) {
        int64_t from = g->batch.batch.begin[s] * d;
        if (g->sample_predicts[s])
            centre(g->predicted.data + from, mean, x + from, rs_batch_rows(g, s), d);
    }
    return RS_OK;
}

/* ---- norms, linearised (docs/theory/collapse.md, 14.4) ---- */

/* Residual rows r about a mean token x, through the norm. */
static void through_norm(double *r, int64_t rows, const double *x, const double *gain,
                         const rs_norm_op *norm)
{
    int64_t d = norm->dim;
    bool centred = norm->kind == RS_NORM_LAYERNORM;
    double mean = 0, square = 0;
    for (int64_t k = 0; k < d && centred; k++)
        mean += x[k] / (double)d;
    for (int64_t k = 0; k < d; k++)
        square += (x[k] - mean) * (x[k] - mean);
    double variance = square / (double)d + norm->eps, factor = 1 / sqrt(variance);
    for (int64_t i = 0; i < rows; i++) {
        double *row = r + i * d, own = 0, along = 0;
        for (int64_t k = 0; k < d && centred; k++)
            own += row[k] / (double)d;
        for (int64_t k = 0; k < d; k++)
            along += (row[k] - own) * (x[k] - mean);
        along /= (double)d * variance;
        for (int64_t k = 0; k < d; k++)
            row[k] = gain[k] * factor * ((row[k] - own) - along * (x[k] - mean));
    }
}

/* ---- attention ---- */

static rs_status attention_in(rs_certify_gather *g, const rs_attention_op *op, const double *x,
                              rs_error *err)
{
    int64_t d = op->v.in, rows = g->batch.batch.begin[g->batch.batch.samples];
    RS_TRY(rs_certify_room_for(&g->more, rows + 1, d, err));
    RS_TRY(rs_certify_room_for(&g->values, rows, op->v.out, err));
    RS_TRY(rs_certify_room_for(&g->mixed, rows, op->heads * op->value_dim, err));
    RS_TRY(rs_certify_room_for(&g->weights, op->v.out, d, err));
    RS_TRY(rs_dense_rows(g->weights.data, NULL, &op->v, 0, op->v.out, err));
    for (int64_t s = 0; s < g->batch.batch.samples; s++) {
        int64_t n = rs_batch_rows(g, s), from = g->batch.batch.begin[s];
        if (!g->sample_predicts[s]) continue;
        centre(g->more.data + from * d, g->more.data + rows * d, x + from * d, n, d);
        cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasTrans, (blasint)n, (blasint)op->v.out,
                    (blasint)d, 1, g->more.data + from * d, (blasint)d, g->weights.data, (blasint)d,
                    0, g->values.data + from * op->v.out, (blasint)op->v.out);
    }
    return RS_OK;
}

/* delta [n, n]: what multiplies the residual. */
static void cubic_rows(double *delta, const rs_attention_view *view, const double *mean, double *p)
{
    int64_t n = view->n;
    double most = mean[0], sum = 0;
    for (int64_t j = 1; j < n; j++)
        most = fmax(most, mean[j]);
    for (int64_t j = 0; j < n; j++)
        sum += p[j] = exp(mean[j] - most);
    for (int64_t j = 0; j < n; j++)
        p[j] /= sum;
    for (int64_t i = 0; i < n; i++) {
        const double *row = (const double *)view->logits + i * view->ld;
        double average = 0;
        for (int64_t j = 0; j < n; j++)
            average += p[j] * (row[j] - mean[j]);
        for (int64_t j = 0; j < n; j++)
            delta[i * n + j] = p[j] * ((row[j] - mean[j]) - average);
    }
}

static void causal_rows(double *delta, int64_t n, const double *mean)
{
    for (int64_t i = 0; i < n; i++) {
        double most = mean[0], sum = 0, *row = delta + i * n;
        for (int64_t j = 1; j <= i; j++)
            most = fmax(most, mean[j]);
        for (int64_t j = 0; j < n; j++) {
            row[j] = j <= i ? exp(mean[j] - most) : 0;
            sum += row[j];
        }
        for (int64_t j = 0; j <= i; j++)
            row[j] /= sum;
    }
}

rs_status rs_predict_attention(rs_certify_gather *g, const rs_attention_view *view,
                               const double *mean_logits, double range, double *work, rs_error *err)
{
    (void)err;
    /* a layer whose first branch is another mixer, or has a second one, is not predicted */
    if (!g->predicting || view->branch != 0) return RS_OK;
    const rs_attention_op *op =
        rs_branch_attention(&g->network->layers[view->layer].branches[view->branch]);
    int64_t n = view->n, dim = op->value_dim, from = g->batch.batch.begin[view->sample];
    /* Beyond the published hypothesis on the range a leading order says nothing. */
    if (!(range <= rs_bounds_exact.published_range)) return RS_OK;
    if (!g->sample_predicts[view->sample]) return RS_OK;
    /* E is what the mean's rows leave: its row mean serves as p's workspace. */
    double *delta = work;
    if (causal_law(op)) {
        causal_rows(delta, n, mean_logits);
    } else {
        rs_certify_room *room = &g->scratch[view->thread];
        cubic_rows(delta, view, mean_logits, room->data); /* the distances are not needed again */
    }
    int64_t wide = op->heads * dim, values = op->v.out;
    int64_t kv = view->head / (op->heads / op->kv_heads);
    cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, (blasint)n, (blasint)dim, (blasint)n, 1,
                delta, (blasint)n, g->values.data + from * values + kv * dim, (blasint)values, 0,
                g->mixed.data + from * wide + view->head * dim, (blasint)wide);
    return RS_OK;
}

/* Samples of which a head's logits are too far apart drop out. */
static void drop_wide(rs_certify_gather *g, int32_t l)
{
    const rs_attention_op *op = &g->network->layers[l].branches[0].attention;
    for (int64_t s = 0; s < g->batch.batch.samples; s++) {
        const rs_certify_head *heads = rs_pass_heads(g->pass, g->batch.first + s, l, 0);
        for (int32_t h = 0; h < op->heads && g->sample_predicts[s]; h++)
            if (!(heads[h].range <= rs_bounds_exact.published_range)) {
                g->sample_predicts[s] = false;
                slot(g, s, l)->reason = "logits range beyond leading order (over 1.256)";
            }
    }
    g->predicting = still(g);
}

static rs_status attention_out(rs_certify_gather *g, int32_t l, rs_error *err)
{
    const rs_branch *branch = &g->network->layers[l].branches[0];
    const rs_attention_op *op = &branch->attention;
    int64_t d = g->network->d_model, wide = op->heads * op->value_dim;
    drop_wide(g, l);
    if (!g->predicting) return RS_OK;
    int64_t longest = g->inputs->longest;
    RS_TRY(rs_certify_room_for(&g->wide, longest, d, err));
    if (op->o.weight) {
        RS_TRY(rs_certify_room_for(&g->weights, d, wide, err));
        RS_TRY(rs_dense_rows(g->weights.data, NULL, &op->o, 0, d, err));
    }
    for (int64_t s = 0; s < g->batch.batch.samples; s++) {
        int64_t n = rs_batch_rows(g, s), from = g->batch.batch.begin[s];
        const double *mixed = g->mixed.data + from * wide;
        double *out = g->wide.data, *r = g->predicted.data + from * d;
        if (!g->sample_predicts[s]) continue;
        if (op->o.weight) {
            cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasTrans, (blasint)n, (blasint)d,
                        (blasint)wide, 1, mixed, (blasint)wide, g->weights.data, (blasint)wide, 0,
                        out, (blasint)d);
        } else {
            memset(out, 0, (size_t)(n * d) * sizeof *out);
            for (int64_t i = 0; i < n; i++)
                for (int64_t c = 0; c < wide; c++)
                    out[i * d + c % d] += mixed[i * wide + c];
        }
        for (int64_t i = 0; i < n * d; i++)
            r[i] = (branch->skip == 0 ? 0 : branch->skip * r[i]) + branch->scale * out[i];
    }
    return RS_OK;
}

/* ---- MLP, linearised ---- */

static double activation(double x, rs_activation a)
{
    switch (a) {
    case RS_ACT_RELU:
        return x > 0 ? x : 0;
    case RS_ACT_GELU:
        return 0.5 * x * erfc(-x * M_SQRT1_2);
    case RS_ACT_GELU_TANH:
        return 0.5 * x * (1 + tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    case RS_ACT_QUICK_GELU:
        return x / (1 + exp(-1.702 * x));
    case RS_ACT_SILU:
        return x / (1 + exp(-x));
    case RS_ACT_TANH:
        return tanh(x);
    default:
        return x;
    }
}

static double slope(double x, rs_activation a)
{
    double s, t;
    switch (a) {
    case RS_ACT_RELU:
        return x > 0 ? 1 : 0;
    case RS_ACT_GELU:
        return 0.5 * erfc(-x * M_SQRT1_2) + x * exp(-0.5 * x * x) / sqrt(2 * M_PI);
    case RS_ACT_GELU_TANH:
        t = tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x));
        return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * sqrt(2 / M_PI) * (1 + 3 * 0.044715 * x * x);
    case RS_ACT_QUICK_GELU:
        s = 1 / (1 + exp(-1.702 * x));
        return s + 1.702 * x * s * (1 - s);
    case RS_ACT_SILU:
        s = 1 / (1 + exp(-x));
        return s + x * s * (1 - s);
    case RS_ACT_TANH:
        t = tanh(x);
        return 1 - t * t;
    default:
        return 1;
    }
}

/* y [n, out] = x [n, in] Wᵀ; base [out] = W mean + bias. */
static rs_status apply(rs_certify_gather *g, rs_certify_room *y, const rs_dense *dense,
                       const double *x, int64_t n, const double *mean, rs_error *err)
{
    int64_t in = dense->in, out = dense->out;
    RS_TRY(rs_certify_room_for(&g->weights, out + 1, in > out ? in : out, err));
    RS_TRY(rs_certify_room_for(y, n + 1, out, err));
    double *base = y->data + n * out;
    RS_TRY(rs_dense_rows(g->weights.data, base, dense, 0, out, err));
    cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasTrans, (blasint)n, (blasint)out, (blasint)in, 1,
                x, (blasint)in, g->weights.data, (blasint)in, 0, y->data, (blasint)out);
    if (mean)
        cblas_dgemv(CblasRowMajor, CblasNoTrans, (blasint)out, (blasint)in, 1, g->weights.data,
                    (blasint)in, mean, 1, 1, base, 1);
    return RS_OK;
}

static rs_status mlp_sample(rs_certify_gather *g, const rs_branch *branch, double *r, int64_t n,
                            const double *read, const double *mean, rs_error *err)
{
    const rs_mlp_op *op = &branch->mlp;
    int64_t d = g->network->d_model, width = op->up.out;
    RS_TRY(apply(g, &g->values, &op->up, read, n, mean, err));
    double *up = g->values.data, *up_base = up + n * width;
    if (op->gate.weight) {
        RS_TRY(apply(g, &g->gates, &op->gate, read, n, mean, err));
        double *gate = g->gates.data, *gate_base = gate + n * width;
        for (int64_t i = 0; i < n * width; i++) {
            double x = gate_base[i % width];
            up[i] = activation(x, op->activation) * up[i] +
                    slope(x, op->activation) * up_base[i % width] * gate[i];
        }
    } else {
        for (int64_t i = 0; i < n * width; i++)
            up[i] *= slope(up_base[i % width], op->activation);
    }
    RS_TRY(apply(g, &g->mixed, &op->down, up, n, NULL, err));
    for (int64_t i = 0; i < n * d; i++)
        r[i] = (branch->skip == 0 ? 0 : branch->skip * r[i]) + branch->scale * g->mixed.data[i];
    return RS_OK;
}

static rs_status mlp_in(rs_certify_gather *g, const rs_branch *branch, const double *x,
                        rs_error *err)
{
    int64_t d = g->network->d_model, all = g->batch.batch.begin[g->batch.batch.samples];
    double *mean = g->predicted.data + all * d, *gain = mean + d;
    RS_TRY(rs_certify_room_for(&g->more, g->inputs->longest, d, err));
    if (branch->before.kind != RS_NORM_NONE) rs_norm_vectors(gain, NULL, &branch->before);
    for (int64_t s = 0; s < g->batch.batch.samples; s++) {
        int64_t n = rs_batch_rows(g, s), from = g->batch.batch.begin[s] * d;
        double *r = g->predicted.data + from, *read = g->more.data;
        if (!g->sample_predicts[s]) continue;
        if (branch->before.kind != RS_NORM_NONE) {
            centre(read, mean, g->state.data + from, n, d);
            memcpy(read, r, (size_t)(n * d) * sizeof *r);
            through_norm(read, n, mean, gain, &branch->before);
        } else {
            memcpy(read, r, (size_t)(n * d) * sizeof *r);
        }
        double *scratch = g->predicted.data + (all + 2) * d; /* mean of what the MLP reads */
        RS_TRY(rs_certify_room_for(&g->wide, n, d, err));
        centre(g->wide.data, scratch, x + from, n, d);
        RS_TRY(mlp_sample(g, branch, r, n, read, scratch, err));
    }
    return RS_OK;
}

/* ---- what the pass tells ---- */

rs_status rs_predict_op_in(rs_certify_gather *g, int32_t l, int32_t b, const double *x,
                           rs_error *err)
{
    const rs_branch *branch = &g->network->layers[l].branches[b];
    if (!g->predicting) return RS_OK;
    switch (branch->kind) {
    case RS_BRANCH_ATTENTION:
        return attention_in(g, &branch->attention, x, err);
    case RS_BRANCH_MLP:
        return mlp_in(g, branch, x, err);
    }
    return RS_OK; /* layer_reason lets no other kind in */
}

rs_status rs_predict_op_out(rs_certify_gather *g, int32_t l, int32_t b, rs_error *err)
{
    return g->predicting && b == 0 ? attention_out(g, l, err) : RS_OK;
}

static void compare_prediction(rs_certify_gather *g, int64_t s, int32_t l, const double *x)
{
    int64_t n = rs_batch_rows(g, s), d = g->network->d_model;
    int64_t all = g->batch.batch.begin[g->batch.batch.samples];
    const double *r = g->predicted.data + g->batch.batch.begin[s] * d;
    double *mean = g->predicted.data + all * d, error = 0, norm = 0, own = 0, most = 0;
    rs_certify_prediction *out = slot(g, s, l);
    centre(g->wide.data, mean, x + g->batch.batch.begin[s] * d, n, d);
    memset(mean, 0, (size_t)d * sizeof *mean); /* the law's own mean: a constant of all rows */
    for (int64_t i = 0; i < n * d; i++)
        mean[i % d] += r[i] / (double)n;
    for (int64_t i = 0; i < n * d; i++) {
        double expected = r[i] - mean[i % d], found = g->wide.data[i];
        error += (expected - found) * (expected - found);
        norm += found * found;
        own += expected * expected;
    }
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < i; j++) {
            double square = 0;
            for (int64_t k = 0; k < d; k++)
                square += (r[i * d + k] - r[j * d + k]) * (r[i * d + k] - r[j * d + k]);
            most = fmax(most, square);
        }
    out->diameter = sqrt(most);
    out->residual = sqrt(own);
    out->error = norm > 0 ? sqrt(error / norm) : NAN;
    out->reason = NULL;
}

rs_status rs_predict_out(rs_certify_gather *g, int32_t l, int32_t b, const double *x, rs_error *err)
{
    const rs_layer *layer = &g->network->layers[l];
    const rs_branch *branch = &layer->branches[b];
    int64_t d = g->network->d_model, all = g->batch.batch.begin[g->batch.batch.samples];
    if (!g->predicting) return RS_OK;
    RS_TRY(rs_certify_room_for(&g->wide, g->inputs->longest, d, err));
    double *mean = g->predicted.data + all * d, *gain = mean + d;
    if (branch->scale == 0)
        for (int64_t i = 0; i < all * d; i++)
            g->predicted.data[i] *= branch->skip;
    if (branch->after.kind != RS_NORM_NONE) rs_norm_vectors(gain, NULL, &branch->after);
    for (int64_t s = 0; s < g->batch.batch.samples; s++) {
        int64_t n = rs_batch_rows(g, s), from = g->batch.batch.begin[s] * d;
        if (!g->sample_predicts[s]) continue;
        if (branch->after.kind != RS_NORM_NONE) {
            centre(g->wide.data, mean, g->summed.data + from, n, d);
            through_norm(g->predicted.data + from, n, mean, gain, &branch->after);
        }
        if (b == layer->n_branches - 1) compare_prediction(g, s, l, x);
    }
    return RS_OK;
}

void rs_predict_close(rs_certify_gather *g)
{
    rs_certify_room *const rooms[] = {&g->predicted, &g->values, &g->mixed, &g->weights,
                                      &g->more,      &g->wide,   &g->gates};
    for (size_t i = 0; i < sizeof rooms / sizeof *rooms; i++)
        rs_free(rooms[i]->data);
}
