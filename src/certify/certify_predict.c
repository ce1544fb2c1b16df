/* certify_predict.c: the listener that follows the law of collapse (certify_law.h) through each layer
 * and holds what it gives against what the pass gave. */
#include "certify/certify_gather.h"

#include "base/memory.h"
#include "certify/certify_law.h"
#include "engine/dense_matrix.h"

#include <cblas.h>
#include <math.h>
#include <string.h>

struct rs_certify_predict {
    rs_listener listener;
    const rs_certify_scene *scene;
    const rs_certify_pass *pass;
    rs_certify_prediction *rows; /* [samples, layers] */
    const rs_input_batch *batch; /* the one that runs */
    bool following;              /* the law is followed in this layer, */
    bool *follows;               /* [capacity] and on this sample */
    /* [rows of the batch + 1, d] residual rows of the law so far, and a mean token behind them */
    rs_certify_room predicted;
    rs_certify_room means; /* [capacity, d] of the tokens before the MLP that runs */
    rs_certify_room gain;  /* [d] of the norm at hand */
    rs_certify_room values, mixed, weights, read, wide, gates;
};

static rs_certify_prediction *slot(const rs_certify_predict *p, int64_t s, int32_t l)
{
    return &p->rows[(p->batch->first + s) * p->scene->network->n_layers + l];
}

static bool still(const rs_certify_predict *p)
{
    for (int64_t s = 0; s < p->batch->batch.samples; s++)
        if (p->follows[s]) return true;
    return false;
}

/* The rows of all samples of the batch. */
static int64_t all_rows(const rs_certify_predict *p)
{
    return p->batch->batch.begin[p->batch->batch.samples];
}

/* Room for a mean token, behind the rows of the law. */
static double *spare_row(const rs_certify_predict *p)
{
    return p->predicted.data + all_rows(p) * p->scene->network->d_model;
}

/* Why sample s is not followed in layer l; NULL: it is. */
static const char *sample_reason(const rs_certify_predict *p, int64_t s, int32_t l)
{
    const rs_certify_state *in = rs_pass_state(p->pass, p->batch->first + s, l);
    if (rs_batch_rows(p->batch, s) < 2) return "one token";
    if (!in->finite) return "not finite";
    if (in->equal || in->diameter == 0) return "the tokens are equal";
    return in->at_floor ? "the entering residual is rounding" : NULL;
}

/* x: what enters layer l. */
static rs_status begin_layer(rs_certify_predict *p, int32_t l, const double *x, rs_error *err)
{
    const char *why = rs_law_fails(&p->scene->network->layers[l]);
    int64_t d = p->scene->network->d_model;
    for (int64_t s = 0; s < p->batch->batch.samples; s++) {
        const char *reason = why ? why : sample_reason(p, s, l);
        p->follows[s] = reason == NULL;
        *slot(p, s, l) = (rs_certify_prediction){NAN, NAN, NAN, reason};
    }
    p->following = !why && still(p);
    if (!p->following) return RS_OK;
    RS_TRY(rs_certify_room_for(&p->predicted, all_rows(p) + 1, d, err));
    RS_TRY(rs_certify_room_for(&p->gain, 1, d, err));
    for (int64_t s = 0; s < p->batch->batch.samples; s++) {
        int64_t from = p->batch->batch.begin[s] * d;
        if (p->follows[s])
            rs_law_centre(p->predicted.data + from, spare_row(p), x + from,
                          rs_batch_rows(p->batch, s), d);
    }
    return RS_OK;
}

/* ---- attention ---- */

static rs_status attention_in(rs_certify_predict *p, const rs_attention_op *op, const double *x,
                              rs_error *err)
{
    int64_t d = op->v.in, rows = all_rows(p);
    RS_TRY(rs_certify_room_for(&p->read, rows + 1, d, err));
    RS_TRY(rs_certify_room_for(&p->values, rows, op->v.out, err));
    RS_TRY(rs_certify_room_for(&p->mixed, rows, op->heads * op->value_dim, err));
    RS_TRY(rs_certify_room_for(&p->weights, op->v.out, d, err));
    RS_TRY(rs_dense_rows(p->weights.data, NULL, &op->v, 0, op->v.out, err));
    for (int64_t s = 0; s < p->batch->batch.samples; s++) {
        int64_t n = rs_batch_rows(p->batch, s), from = p->batch->batch.begin[s];
        if (!p->follows[s]) continue;
        rs_law_centre(p->read.data + from * d, p->read.data + rows * d, x + from * d, n, d);
        cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasTrans, (blasint)n, (blasint)op->v.out,
                    (blasint)d, 1, p->read.data + from * d, (blasint)d, p->weights.data, (blasint)d,
                    0, p->values.data + from * op->v.out, (blasint)op->v.out);
    }
    return RS_OK;
}

/* Worker threads call it. The scratch holds the mean logits, p and what multiplies the residual. */
static rs_status on_attention(void *user, const rs_attention_view *view, rs_error *err)
{
    rs_certify_predict *p = user;
    const rs_attention_op *op =
        rs_branch_plain_attention(&p->scene->network->layers[view->layer].branches[view->branch]);
    int64_t n = view->n, dim = op->value_dim, from = p->batch->batch.begin[view->sample];
    const rs_certify_head *head =
        rs_pass_heads(p->pass, p->batch->first + view->sample, view->layer, 0) + view->head;
    (void)err;
    /* Beyond the published hypothesis on the range a leading order says nothing. */
    if (!(head->range <= rs_bounds_exact.published_range)) return RS_OK;
    if (!p->follows[view->sample]) return RS_OK;
    double *mean = p->listener.scratch[view->thread], *weight = mean + n, *delta = weight + n;
    rs_certify_mean_logits(mean, view);
    if (rs_law_causal(op))
        rs_law_causal_rows(delta, n, mean);
    else
        rs_law_cubic_rows(delta, view, mean, weight);
    int64_t wide = op->heads * dim, values = op->v.out;
    int64_t kv = view->head / (op->heads / op->kv_heads);
    cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, (blasint)n, (blasint)dim, (blasint)n, 1,
                delta, (blasint)n, p->values.data + from * values + kv * dim, (blasint)values, 0,
                p->mixed.data + from * wide + view->head * dim, (blasint)wide);
    return RS_OK;
}

/* A layer whose first branch is another mixer, or that has a second one, is not followed. */
static bool wants_attention(void *user, int32_t layer, int32_t branch, int32_t head)
{
    const rs_certify_predict *p = user;
    (void)layer;
    (void)head;
    return p->following && branch == 0;
}

/* Samples of which a head's logits are too far apart drop out. */
static void drop_wide(rs_certify_predict *p, int32_t l)
{
    const rs_attention_op *op = &p->scene->network->layers[l].branches[0].attention;
    for (int64_t s = 0; s < p->batch->batch.samples; s++) {
        const rs_certify_head *heads = rs_pass_heads(p->pass, p->batch->first + s, l, 0);
        for (int32_t h = 0; h < op->heads && p->follows[s]; h++)
            if (!(heads[h].range <= rs_bounds_exact.published_range)) {
                p->follows[s] = false;
                slot(p, s, l)->reason = "logits range beyond leading order (over 1.256)";
            }
    }
    p->following = still(p);
}

static rs_status attention_out(rs_certify_predict *p, int32_t l, rs_error *err)
{
    const rs_branch *branch = &p->scene->network->layers[l].branches[0];
    const rs_attention_op *op = &branch->attention;
    int64_t d = p->scene->network->d_model, wide = op->heads * op->value_dim;
    drop_wide(p, l);
    if (!p->following) return RS_OK;
    int64_t longest = p->scene->inputs->longest;
    RS_TRY(rs_certify_room_for(&p->wide, longest, d, err));
    if (op->o.weight) {
        RS_TRY(rs_certify_room_for(&p->weights, d, wide, err));
        RS_TRY(rs_dense_rows(p->weights.data, NULL, &op->o, 0, d, err));
    }
    for (int64_t s = 0; s < p->batch->batch.samples; s++) {
        int64_t n = rs_batch_rows(p->batch, s), from = p->batch->batch.begin[s];
        const double *mixed = p->mixed.data + from * wide;
        double *out = p->wide.data, *r = p->predicted.data + from * d;
        if (!p->follows[s]) continue;
        if (op->o.weight) {
            cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasTrans, (blasint)n, (blasint)d,
                        (blasint)wide, 1, mixed, (blasint)wide, p->weights.data, (blasint)wide, 0,
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

/* y [n, out] = x [n, in] Wᵀ; base [out] = W mean + bias. */
static rs_status apply(rs_certify_predict *p, rs_certify_room *y, const rs_dense *dense,
                       const double *x, int64_t n, const double *mean, rs_error *err)
{
    int64_t in = dense->in, out = dense->out;
    RS_TRY(rs_certify_room_for(&p->weights, out + 1, in > out ? in : out, err));
    RS_TRY(rs_certify_room_for(y, n + 1, out, err));
    double *base = y->data + n * out;
    RS_TRY(rs_dense_rows(p->weights.data, base, dense, 0, out, err));
    cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasTrans, (blasint)n, (blasint)out, (blasint)in, 1,
                x, (blasint)in, p->weights.data, (blasint)in, 0, y->data, (blasint)out);
    if (mean)
        cblas_dgemv(CblasRowMajor, CblasNoTrans, (blasint)out, (blasint)in, 1, p->weights.data,
                    (blasint)in, mean, 1, 1, base, 1);
    return RS_OK;
}

static rs_status mlp_sample(rs_certify_predict *p, const rs_branch *branch, double *r, int64_t n,
                            const double *read, const double *mean, rs_error *err)
{
    const rs_mlp_op *op = &branch->mlp;
    int64_t d = p->scene->network->d_model, width = op->up.out;
    RS_TRY(apply(p, &p->values, &op->up, read, n, mean, err));
    double *up = p->values.data, *up_base = up + n * width;
    if (op->gate.weight) {
        RS_TRY(apply(p, &p->gates, &op->gate, read, n, mean, err));
        double *gate = p->gates.data, *gate_base = gate + n * width;
        for (int64_t i = 0; i < n * width; i++) {
            double x = gate_base[i % width];
            up[i] = rs_law_activation(x, op->activation) * up[i] +
                    rs_law_slope(x, op->activation) * up_base[i % width] * gate[i];
        }
    } else {
        for (int64_t i = 0; i < n * width; i++)
            up[i] *= rs_law_slope(up_base[i % width], op->activation);
    }
    RS_TRY(apply(p, &p->mixed, &op->down, up, n, NULL, err));
    for (int64_t i = 0; i < n * d; i++)
        r[i] = (branch->skip == 0 ? 0 : branch->skip * r[i]) + branch->scale * p->mixed.data[i];
    return RS_OK;
}

/* The means of the tokens x before branch b, which its norm is linearised about. */
static rs_status keep_means(rs_certify_predict *p, const double *x, rs_error *err)
{
    int64_t d = p->scene->network->d_model;
    RS_TRY(rs_certify_room_for(&p->means, p->scene->capacity, d, err));
    for (int64_t s = 0; s < p->batch->batch.samples; s++)
        if (p->follows[s])
            rs_law_mean(p->means.data + s * d, x + p->batch->batch.begin[s] * d,
                        rs_batch_rows(p->batch, s), d);
    return RS_OK;
}

/* x: what the MLP reads. */
static rs_status mlp_in(rs_certify_predict *p, const rs_branch *branch, const double *x,
                        rs_error *err)
{
    int64_t d = p->scene->network->d_model;
    bool normed = branch->before.kind != RS_NORM_NONE;
    RS_TRY(rs_certify_room_for(&p->read, p->scene->inputs->longest, d, err));
    if (normed) rs_norm_vectors(p->gain.data, NULL, &branch->before);
    for (int64_t s = 0; s < p->batch->batch.samples; s++) {
        int64_t n = rs_batch_rows(p->batch, s), from = p->batch->batch.begin[s] * d;
        double *r = p->predicted.data + from, *mean = spare_row(p);
        if (!p->follows[s]) continue;
        memcpy(p->read.data, r, (size_t)(n * d) * sizeof *r);
        if (normed)
            rs_law_through_norm(p->read.data, n, p->means.data + s * d, p->gain.data,
                                &branch->before);
        rs_law_mean(mean, x + from, n, d);
        RS_TRY(mlp_sample(p, branch, r, n, p->read.data, mean, err));
    }
    return RS_OK;
}

/* ---- what the pass tells ---- */

static rs_status told_in(rs_certify_predict *p, int32_t l, int32_t b, const double *x,
                         rs_error *err)
{
    const rs_branch *branch = &p->scene->network->layers[l].branches[b];
    if (b == 0) return begin_layer(p, l, x, err);
    if (!p->following || branch->before.kind == RS_NORM_NONE) return RS_OK;
    return keep_means(p, x, err);
}

static rs_status told_op_in(rs_certify_predict *p, const rs_branch *branch, const double *x,
                            rs_error *err)
{
    const rs_attention_op *attention = rs_branch_plain_attention(branch);
    if (attention) return attention_in(p, attention, x, err);
    /* rs_law_fails lets no other kind in */
    return rs_branch_mlp(branch) ? mlp_in(p, branch, x, err) : RS_OK;
}

/* sum: skip and branch added up, before the norm behind them. */
static void told_sum(rs_certify_predict *p, const rs_branch *branch, const double *sum)
{
    int64_t d = p->scene->network->d_model;
    if (branch->scale == 0)
        for (int64_t i = 0; i < all_rows(p) * d; i++)
            p->predicted.data[i] *= branch->skip;
    if (branch->after.kind == RS_NORM_NONE) return;
    rs_norm_vectors(p->gain.data, NULL, &branch->after);
    for (int64_t s = 0; s < p->batch->batch.samples; s++) {
        int64_t n = rs_batch_rows(p->batch, s), from = p->batch->batch.begin[s] * d;
        if (!p->follows[s]) continue;
        rs_law_mean(spare_row(p), sum + from, n, d);
        rs_law_through_norm(p->predicted.data + from, n, spare_row(p), p->gain.data,
                            &branch->after);
    }
}

/* x: the rows of sample s behind layer l. */
static void compare_prediction(rs_certify_predict *p, int64_t s, int32_t l, const double *x)
{
    int64_t n = rs_batch_rows(p->batch, s), d = p->scene->network->d_model;
    const double *r = p->predicted.data + p->batch->batch.begin[s] * d;
    double *mean = spare_row(p), error = 0, norm = 0, own = 0, most = 0;
    rs_certify_prediction *out = slot(p, s, l);
    rs_law_centre(p->wide.data, mean, x, n, d);
    memset(mean, 0, (size_t)d * sizeof *mean); /* the law's own mean: a constant of all rows */
    for (int64_t i = 0; i < n * d; i++)
        mean[i % d] += r[i] / (double)n;
    for (int64_t i = 0; i < n * d; i++) {
        double expected = r[i] - mean[i % d], found = p->wide.data[i];
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

static rs_status told_out(rs_certify_predict *p, int32_t l, const double *x, rs_error *err)
{
    int64_t d = p->scene->network->d_model;
    RS_TRY(rs_certify_room_for(&p->wide, p->scene->inputs->longest, d, err));
    for (int64_t s = 0; s < p->batch->batch.samples; s++)
        if (p->follows[s]) compare_prediction(p, s, l, x + p->batch->batch.begin[s] * d);
    return RS_OK;
}

static rs_status on_branch(void *user, int32_t l, int32_t b, rs_moment moment,
                           const rs_state_view *view, rs_error *err)
{
    rs_certify_predict *p = user;
    const rs_layer *layer = &p->scene->network->layers[l];
    if (moment == RS_MOMENT_IN) return told_in(p, l, b, view->data, err);
    if (!p->following) return RS_OK;
    switch (moment) {
    case RS_MOMENT_OP_IN:
        return told_op_in(p, &layer->branches[b], view->data, err);
    case RS_MOMENT_OP_OUT:
        return b == 0 ? attention_out(p, l, err) : RS_OK;
    case RS_MOMENT_SUM:
        told_sum(p, &layer->branches[b], view->data);
        return RS_OK;
    default:
        return b == layer->n_branches - 1 ? told_out(p, l, view->data, err) : RS_OK;
    }
}

/* ---- opening and closing ---- */

static rs_status begin_batch(void *user, const rs_input_batch *batch, rs_error *err)
{
    rs_certify_predict *p = user;
    (void)err;
    p->batch = batch;
    p->following = false;
    return RS_OK;
}

static rs_status open_predict(rs_certify_predict *p, rs_error *err)
{
    const rs_certify_scene *scene = p->scene;
    size_t cells, n = (size_t)scene->inputs->longest;
    p->listener = (rs_listener){.tap = {.user = p,
                                        .moments = 1u << RS_MOMENT_IN | 1u << RS_MOMENT_OP_IN |
                                                   1u << RS_MOMENT_OP_OUT | 1u << RS_MOMENT_SUM |
                                                   1u << RS_MOMENT_OUT,
                                        .branch = on_branch,
                                        .wants_attention = wants_attention,
                                        .wants_logits = true,
                                        .attention = on_attention},
                                .begin = begin_batch};
    if (!rs_size_mul((size_t)scene->inputs->samples, (size_t)scene->network->n_layers, &cells) ||
        !rs_size_mul(n + 2, n * sizeof(double), &p->listener.scratch_bytes))
        return rs_fail_memory(err, "predictions", SIZE_MAX);
    p->rows = rs_calloc(cells, sizeof *p->rows);
    p->follows = rs_calloc((size_t)scene->capacity, sizeof *p->follows);
    return p->rows && p->follows ? RS_OK : rs_fail_memory(err, "predictions", cells);
}

rs_status rs_certify_predict_open(rs_certify_predict **out, const rs_certify_scene *scene,
                                  const rs_certify_pass *pass, rs_error *err)
{
    rs_certify_predict *p = rs_calloc(1, sizeof *p);
    *out = p;
    if (!p) return rs_fail_memory(err, "predictions", sizeof *p);
    p->scene = scene;
    p->pass = pass;
    return open_predict(p, err);
}

rs_listener *rs_certify_predict_listener(rs_certify_predict *p)
{
    return &p->listener;
}

const rs_certify_prediction *rs_certify_predict_row(const rs_certify_predict *p, int64_t s,
                                                    int32_t l)
{
    return &p->rows[s * p->scene->network->n_layers + l];
}

void rs_certify_predict_close(rs_certify_predict *p)
{
    if (!p) return;
    rs_certify_room *const rooms[] = {&p->predicted, &p->means, &p->gain, &p->values, &p->mixed,
                                      &p->weights,   &p->read,  &p->wide, &p->gates};
    for (size_t i = 0; i < sizeof rooms / sizeof *rooms; i++)
        rs_free(rooms[i]->data);
    rs_free(p->rows);
    rs_free(p->follows);
    rs_free(p);
}
