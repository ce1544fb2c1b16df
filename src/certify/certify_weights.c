/* certify_weights.c: certified norms of the weights of every layer, each stored layer once. */
#include "base/memory.h"
#include "certify/certify.h"
#include "engine/dense_matrix.h"

#include <math.h>
#include <string.h>

/* ---- the matrices of one branch ---- */

static double largest(const double *x, int64_t n)
{
    double most = 0;
    for (int64_t i = 0; i < n; i++)
        most = isfinite(x[i]) ? fmax(most, fabs(x[i])) : (double)INFINITY;
    return most;
}

typedef struct matrices {
    double *q, *k, *v, *o, *bias, *o_head, *sums;
} matrices;

static rs_status room(double **out, int64_t rows, int64_t cols, rs_error *err)
{
    size_t count;
    *out = NULL;
    if (!rs_size_mul((size_t)rows, (size_t)cols, &count))
        return rs_fail_memory(err, "weights", SIZE_MAX);
    *out = rs_malloc(count, sizeof **out);
    return *out ? RS_OK : rs_fail_memory(err, "weights", count * sizeof **out);
}

static void close_matrices(matrices *m)
{
    double *const all[] = {m->q, m->k, m->v, m->o, m->bias, m->o_head, m->sums};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        rs_free(all[i]);
}

void rs_gain_norms_of(rs_gain_norms *out, double *scratch, const rs_norm_op *norm)
{
    *out = (rs_gain_norms){.largest = 1, .plain = true};
    if (norm->kind == RS_NORM_NONE) return;
    double most = 0;
    rs_norm_vectors(scratch, NULL, norm);
    for (int64_t i = 0; i < norm->dim; i++) {
        if (!isfinite(scratch[i])) most = INFINITY;
        most = fmax(most, fabs(scratch[i]));
        if (scratch[i] != 1) out->plain = false;
    }
    out->largest = most;
    rs_norm_vectors(NULL, scratch, norm);
    out->bias = rs_length_bound(scratch, norm->dim);
    if (out->bias != 0) out->plain = false;
}

/* The columns of W_O that read head h, as rows: o_head [value_dim, out]. */
static void head_columns(double *out, const double *o, const rs_attention_op *op, int32_t h)
{
    int64_t dim = op->value_dim, in = op->o.in, width = op->o.out;
    for (int64_t u = 0; u < width; u++)
        for (int64_t c = 0; c < dim; c++)
            out[c * width + u] = o[u * in + h * dim + c];
}

/* W_O merged into W_V: the identity behind it. */
static void merged(rs_product_norms *w, matrices *m, int64_t dim, int64_t in, rs_error *err,
                   rs_status *status)
{
    rs_plain_norms plain;
    double two;
    *status = rs_spectral_bound(&two, m->v, dim, in, err);
    rs_plain_bounds(&plain, m->sums, m->v, dim, in);
    /* v = W_V x stores the transpose of the row-vector map, so the induced norms change places */
    *w = (rs_product_norms){.two = two,
                            .one = plain.inf,
                            .inf = plain.one,
                            .left_two = two,
                            .left_fro = plain.fro,
                            .right_two = 1,
                            .right_fro = sqrt((double)dim) * (1 + 1e-15)}; /* of 1 (C10) */
}

static rs_status one_head(rs_head_norms *out, matrices *m, const rs_attention_op *op, int32_t h,
                          rs_error *err)
{
    int32_t g = h / (op->heads / op->kv_heads);
    int64_t dim = op->head_dim, value = op->value_dim;
    RS_TRY(rs_dense_rows(m->q, m->bias, &op->q, h * dim, dim, err));
    out->q_bias = rs_length_bound(m->bias, dim);
    RS_TRY(rs_dense_rows(m->k, m->bias, &op->k, g * dim, dim, err));
    out->k_bias = rs_length_bound(m->bias, dim);
    RS_TRY(rs_dense_rows(m->v, m->bias, &op->v, g * value, value, err));
    out->v_bias = rs_length_bound(m->bias, value);
    if (op->q.in == op->k.in)
        RS_TRY(rs_product_bounds(&out->qk, m->q, m->k, dim, op->q.in, op->k.in, err));
    if (!op->o.weight) {
        rs_status status;
        merged(&out->w, m, value, op->v.in, err, &status);
        return status;
    }
    head_columns(m->o_head, m->o, op, h);
    return rs_product_bounds(&out->w, m->v, m->o_head, value, op->v.in, op->o.out, err);
}

/* The largest |bias| by distance of each head. */
static rs_status distance_biases(rs_branch_norms *out, const rs_attention_op *op, rs_error *err)
{
    int64_t width = 2 * op->distance_reach + 1;
    double *bias;
    if (!op->distance_bias) return RS_OK;
    RS_TRY(room(&bias, width, 1, err));
    for (int32_t h = 0; h < op->heads; h++) {
        rs_tensor_decode_f64(bias, op->distance_bias, h * width, width);
        out->heads[h].distance_most = largest(bias, width);
    }
    rs_free(bias);
    return RS_OK;
}

static rs_status open_attention(matrices *m, const rs_attention_op *op, rs_error *err)
{
    int64_t most = op->head_dim > op->value_dim ? op->head_dim : op->value_dim;
    int64_t wide = op->v.in > op->q.in ? op->v.in : op->q.in;
    int64_t out = op->o.weight ? op->o.out : op->value_dim;
    if (out > wide) wide = out;
    RS_TRY(room(&m->q, op->head_dim, op->q.in, err));
    RS_TRY(room(&m->k, op->head_dim, op->k.in, err));
    RS_TRY(room(&m->v, op->value_dim, op->v.in, err));
    RS_TRY(room(&m->bias, most > out ? most : out, 1, err));
    RS_TRY(room(&m->sums, wide, 1, err));
    if (!op->o.weight) return RS_OK;
    RS_TRY(room(&m->o, op->o.out, op->o.in, err));
    return room(&m->o_head, op->value_dim, op->o.out, err);
}

static rs_status attention(rs_branch_norms *out, const rs_attention_op *op, rs_error *err)
{
    matrices m = {0};
    rs_status status = open_attention(&m, op, err);
    if (status == RS_OK && op->o.weight) {
        status = rs_dense_rows(m.o, m.bias, &op->o, 0, op->o.out, err);
        if (status == RS_OK) out->o_bias = rs_length_bound(m.bias, op->o.out);
    }
    for (int32_t h = 0; h < op->heads && status == RS_OK; h++)
        status = one_head(&out->heads[h], &m, op, h, err);
    close_matrices(&m);
    return status == RS_OK ? distance_biases(out, op, err) : status;
}

/* ---- MLP ---- */

typedef struct map_norms {
    double two, bias_length, bias_most;
    rs_plain_norms plain;
} map_norms;

static rs_status map_of(map_norms *out, const rs_dense *dense, rs_error *err)
{
    double *w, *bias = NULL, *sums = NULL;
    RS_TRY(room(&w, dense->out, dense->in, err));
    rs_status status = room(&bias, dense->out, 1, err);
    if (status == RS_OK) status = room(&sums, dense->in, 1, err);
    if (status == RS_OK) status = rs_dense_rows(w, bias, dense, 0, dense->out, err);
    if (status == RS_OK) {
        rs_plain_bounds(&out->plain, sums, w, dense->out, dense->in);
        out->bias_length = rs_length_bound(bias, dense->out);
        out->bias_most = largest(bias, dense->out);
        status = rs_spectral_bound(&out->two, w, dense->out, dense->in, err);
    }
    rs_free(sums);
    rs_free(bias);
    rs_free(w);
    return status;
}

static rs_status mlp(rs_branch_norms *out, const rs_mlp_op *op, rs_error *err)
{
    map_norms up, down, gate = {0};
    RS_TRY(map_of(&up, &op->up, err));
    RS_TRY(map_of(&down, &op->down, err));
    if (op->gate.weight) RS_TRY(map_of(&gate, &op->gate, err));
    out->mlp = (rs_mlp_bound){.activation = op->activation,
                              .gated = op->gate.weight != NULL,
                              .up_two = up.two,
                              .gate_two = gate.two,
                              .down_two = down.two,
                              .up_row = up.plain.longest_row,
                              .gate_row = gate.plain.longest_row,
                              .up_bias = up.bias_most,
                              .gate_bias = gate.bias_most};
    out->up_fro = up.plain.fro;
    out->gate_fro = gate.plain.fro;
    out->down_fro = down.plain.fro;
    out->up_bias = up.bias_length;
    out->gate_bias = gate.bias_length;
    out->down_bias = down.bias_length;
    /* stored rows are outputs: transposed as a map of row vectors */
    out->up_one = up.plain.inf, out->up_inf = up.plain.one;
    out->down_one = down.plain.inf, out->down_inf = down.plain.one;
    return RS_OK;
}

/* ---- layers ---- */

static rs_status one_branch(rs_branch_norms *out, const rs_branch *branch, int64_t d, rs_error *err)
{
    double *scratch;
    const rs_attention_op *op = rs_branch_plain_attention(branch);
    int64_t widest = d > 0 ? d : 1;
    if (op && op->q_norm.dim > widest) widest = op->q_norm.dim;
    if (op && op->k_norm.dim > widest) widest = op->k_norm.dim;
    RS_TRY(room(&scratch, widest, 1, err));
    rs_gain_norms_of(&out->before, scratch, &branch->before);
    rs_gain_norms_of(&out->inside, scratch, &branch->inside);
    rs_gain_norms_of(&out->after, scratch, &branch->after);
    if (op) rs_gain_norms_of(&out->q_norm, scratch, &op->q_norm);
    if (op) rs_gain_norms_of(&out->k_norm, scratch, &op->k_norm);
    rs_free(scratch);
    if (branch->scale == 0) return RS_OK;
    if (op) return attention(out, op, err);
    return rs_branch_mlp(branch) ? mlp(out, &branch->mlp, err) : RS_OK;
}

/* An earlier layer with the same weights, or -1: ALBERT's layers, --depth beyond the stack. */
static int32_t twin_of(const rs_network *network, int32_t l)
{
    const rs_layer *layer = &network->layers[l];
    for (int32_t e = 0; e < l; e++) {
        const rs_layer *other = &network->layers[e];
        if (other->stored != layer->stored || other->n_branches != layer->n_branches) continue;
        bool same = true;
        for (int32_t b = 0; b < layer->n_branches; b++)
            same = same && other->branches[b].kind == layer->branches[b].kind &&
                   (other->branches[b].scale == 0) == (layer->branches[b].scale == 0);
        if (same) return e;
    }
    return -1;
}

static int32_t heads_of(const rs_branch *branch)
{
    const rs_attention_op *op = rs_branch_plain_attention(branch);
    return op && branch->scale != 0 ? op->heads : 0;
}

typedef struct job {
    int32_t layer, branch;
} job;

static rs_status run_jobs(rs_weight_norms *w, const rs_network *network, const job *jobs,
                          int64_t n_jobs, const rs_context *context, rs_error *err)
{
    rs_status kept = RS_OK;
    rs_error kept_error = {0};
#pragma omp parallel for num_threads(context->threads) schedule(dynamic)
    for (int64_t i = 0; i < n_jobs; i++) {
        rs_error error = {0};
        rs_status status = rs_check_cancelled(context, &error);
        if (status == RS_OK)
            status = one_branch(&w->layers[jobs[i].layer].branches[jobs[i].branch],
                                &network->layers[jobs[i].layer].branches[jobs[i].branch],
                                network->d_model, &error);
        if (status != RS_OK) rs_keep_first(&kept, &kept_error, status, &error);
    }
    if (kept != RS_OK && err) *err = kept_error;
    return kept;
}

static rs_status measure_layers(rs_weight_norms *w, const rs_network *network,
                                const rs_context *context, rs_error *err)
{
    job *jobs = rs_malloc((size_t)network->n_layers * RS_BRANCHES_MAX, sizeof *jobs);
    if (!jobs) return rs_fail_memory(err, "weights", 0);
    rs_head_norms *next = w->heads;
    int64_t n = 0;
    for (int32_t l = 0; l < network->n_layers; l++) {
        if (twin_of(network, l) >= 0) continue;
        for (int32_t b = 0; b < network->layers[l].n_branches; b++) {
            rs_branch_norms *branch = &w->layers[l].branches[b];
            branch->n_heads = heads_of(&network->layers[l].branches[b]);
            branch->heads = branch->n_heads ? next : NULL;
            next += branch->n_heads;
            jobs[n++] = (job){l, b};
        }
    }
    rs_status status = run_jobs(w, network, jobs, n, context, err);
    rs_free(jobs);
    for (int32_t l = 0; l < network->n_layers && status == RS_OK; l++) {
        int32_t twin = twin_of(network, l);
        if (twin >= 0) w->layers[l] = w->layers[twin];
    }
    return status;
}

rs_status rs_weight_norms_open(rs_weight_norms **out, const rs_network *network,
                               const rs_context *context, rs_error *err)
{
    size_t heads = 0;
    *out = NULL;
    for (int32_t l = 0; l < network->n_layers; l++)
        for (int32_t b = 0; b < network->layers[l].n_branches; b++)
            heads += (size_t)heads_of(&network->layers[l].branches[b]);
    rs_weight_norms *w = rs_calloc(1, sizeof *w);
    if (!w) return rs_fail_memory(err, "weights", sizeof *w);
    w->n_layers = network->n_layers;
    w->layers = rs_calloc((size_t)network->n_layers, sizeof *w->layers);
    w->heads = rs_calloc(heads, sizeof *w->heads);
    rs_status status = w->layers && w->heads ? measure_layers(w, network, context, err)
                                             : rs_fail_memory(err, "weights", 0);
    if (status == RS_OK)
        *out = w;
    else
        rs_weight_norms_close(w);
    return status;
}

void rs_weight_norms_close(rs_weight_norms *w)
{
    if (!w) return;
    rs_free(w->layers);
    rs_free(w->heads);
    rs_free(w);
}
