/* paths_linear.c: the branches of a network as the linear maps that they were in one pass. */
#include "paths/paths_parts.h"

#include "base/memory.h"
#include "engine/dense_matrix.h"
#include "linalg/blas.h"
#include "linalg/vector.h"

#include <math.h>
#include <string.h>

static int64_t greater(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

rs_status rs_frozen_open(rs_frozen_branch *f, const rs_network *network, int64_t n, rs_error *err)
{
    int64_t d = network->d_model, v = 0, o = 0;
    *f = (rs_frozen_branch){.n = n, .d = d};
    for (int32_t l = 0; l < network->n_layers; l++)
        for (int32_t b = 0; b < network->layers[l].n_branches; b++) {
            const rs_attention_op *op = rs_branch_plain_attention(&network->layers[l].branches[b]);
            if (!op || op->cross) continue;
            v = greater(v, op->v.out);
            if (op->o.weight) o = greater(o, op->heads * op->value_dim);
        }
    size_t values, outputs, room;
    if (!rs_size_mul((size_t)v, (size_t)d + 1, &values) ||
        !rs_size_mul((size_t)o, (size_t)d, &outputs) || !rs_size_add(values, outputs, &room) ||
        !rs_size_add(room, 7 * (size_t)d + 3 * (size_t)n, &room))
        return rs_fail_memory(err, "path weights", SIZE_MAX);
    double *at = f->room = rs_malloc(room, sizeof *at);
    if (!at) return rs_fail_memory(err, "path weights", room * sizeof *at);
    rs_frozen_norm *norms[] = {&f->before, &f->inside, &f->after};
    for (size_t i = 0; i < 3; i++) {
        norms[i]->factor = at;
        norms[i]->gain = at + n;
        norms[i]->bias = at + n + d;
        at += n + 2 * d;
    }
    f->w_v = at;
    f->b_v = f->w_v + v * d;
    f->w_o = f->b_v + v;
    f->b_o = f->w_o + o * d;
    return RS_OK;
}

void rs_frozen_close(rs_frozen_branch *f)
{
    rs_free(f->room);
    f->room = NULL;
}

static void load_norm(rs_frozen_norm *norm, const rs_norm_op *op)
{
    norm->kind = op->kind;
    if (op->kind != RS_NORM_NONE) rs_norm_vectors(norm->gain, norm->bias, op);
}

rs_status rs_frozen_load(rs_frozen_branch *f, const rs_branch *branch, bool attends, rs_error *err)
{
    load_norm(&f->before, &branch->before);
    load_norm(&f->inside, &branch->inside);
    load_norm(&f->after, &branch->after);
    f->skip = branch->skip;
    f->scale = branch->scale;
    f->heads = 0;
    const rs_attention_op *op = attends ? rs_branch_plain_attention(branch) : NULL;
    if (!op) return RS_OK;
    f->heads = op->heads;
    f->kv_heads = op->kv_heads;
    f->value_dim = op->value_dim;
    f->merged = !op->o.weight;
    RS_TRY(rs_dense_rows(f->w_v, f->b_v, &op->v, 0, op->v.out, err));
    if (!f->merged) return rs_dense_rows(f->w_o, f->b_o, &op->o, 0, op->o.out, err);
    memset(f->b_o, 0, (size_t)f->d * sizeof *f->b_o);
    return RS_OK;
}

void rs_frozen_measure(rs_frozen_norm *norm, const rs_norm_op *op, const double *state, int64_t n,
                       int64_t d)
{
    for (int64_t i = 0; i < n && op->kind != RS_NORM_NONE; i++) {
        const double *x = state + i * d;
        double mean = 0, squares = 0, scale = rs_path_scale(x, d);
        for (int64_t c = 0; c < d && op->kind == RS_NORM_LAYERNORM; c++)
            mean += x[c] / (double)d;
        for (int64_t c = 0; c < d; c++)
            squares += (scale * (x[c] - mean)) * (scale * (x[c] - mean));
        norm->factor[i] = scale < 1 ? scale / sqrt(squares / (double)d + scale * scale * op->eps)
                                    : 1 / sqrt(squares / (scale * scale) / (double)d + op->eps);
    }
}

void rs_path_shake(double *x, int64_t count, double by)
{
    for (int64_t i = 0; i < count; i++) {
        uint64_t bits;
        memcpy(&bits, &x[i], sizeof bits);
        bits = (bits ^ (uint64_t)i * 0x9E3779B97F4A7C15u) * 0xD1342543DE82EF95u;
        x[i] *= 1 + ((bits ^ bits >> 31) >> 40 & 1 ? by : -by);
    }
}

void rs_frozen_apply(double *x, const rs_frozen_norm *norm, int64_t n, int64_t d, bool bias)
{
    if (norm->kind == RS_NORM_NONE) return;
    if (norm->shake > 0) rs_path_shake(x, n * d, norm->shake);
    for (int64_t i = 0; i < n; i++, x += d) {
        double factor = norm->factor[i];
        double mean = norm->kind == RS_NORM_LAYERNORM ? rs_sum(x, d) / (double)d : 0;
        for (int64_t c = 0; c < d; c++)
            x[c] = (x[c] - mean) * factor * norm->gain[c];
        for (int64_t c = 0; c < d && bias; c++)
            x[c] += norm->bias[c];
    }
}

/* ---- attention ---- */

size_t rs_frozen_scratch(const rs_frozen_branch *f, int64_t slots)
{
    int64_t width = greater((int64_t)f->heads, 1) * f->value_dim;
    int64_t values = greater((int64_t)f->kv_heads, 1) * f->value_dim;
    return (size_t)(slots * f->n * (2 * f->d + width + values));
}

/* c (m×n) = beta c + a (m×k) bᵀ, b n×k */
static void multiply_transposed(double *c, int64_t ldc, const double *a, int64_t lda,
                                const double *b, int64_t ldb, int64_t m, int64_t n, int64_t k,
                                double beta)
{
    cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasTrans, (blasint)m, (blasint)n, (blasint)k, 1, a,
                (blasint)lda, b, (blasint)ldb, beta, c, (blasint)ldc);
}

/* c (m×n) = beta c + a (m×k) b (k×n) */
static void multiply(double *c, int64_t ldc, const double *a, int64_t lda, const double *b,
                     int64_t ldb, int64_t m, int64_t n, int64_t k, double beta)
{
    cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, (blasint)m, (blasint)n, (blasint)k, 1, a,
                (blasint)lda, b, (blasint)ldb, beta, c, (blasint)ldc);
}

static void add_bias(double *x, const double *bias, int64_t n, int64_t width)
{
    for (int64_t i = 0; i < n; i++)
        for (int64_t c = 0; c < width; c++)
            x[i * width + c] += bias[c];
}

/* before() of each state, one behind the other. */
static void gather(double *in, double *const *x, int64_t slots, const rs_frozen_branch *f)
{
    int64_t n = f->n, d = f->d;
    for (int64_t s = 0; s < slots; s++) {
        double *at = in + s * n * d;
        if (x[s]) {
            memcpy(at, x[s], (size_t)(n * d) * sizeof *at);
            rs_frozen_apply(at, &f->before, n, d, false);
            continue;
        }
        memset(at, 0, (size_t)(n * d) * sizeof *at);
        if (f->before.kind != RS_NORM_NONE) add_bias(at, f->before.bias, n, d);
    }
}

void rs_frozen_attend(double *const *out, double *const *x, int64_t slots,
                      const rs_frozen_branch *f, double *scratch)
{
    int64_t n = f->n, d = f->d, vd = f->value_dim, values = f->kv_heads * vd;
    int64_t width = f->merged ? d : f->heads * vd, share = f->heads / f->kv_heads;
    double *in = scratch, *v = in + slots * n * d, *mixed = v + slots * n * values;
    double *y = mixed + slots * n * f->heads * vd;
    gather(in, x, slots, f);
    multiply_transposed(v, values, in, d, f->w_v, d, slots * n, values, d, 0);
    for (int64_t s = 0; s < slots; s++) {
        if (!x[s]) add_bias(v + s * n * values, f->b_v, n, values);
        for (int32_t h = 0; h < f->heads; h++)
            multiply(mixed + s * n * width + (f->merged ? 0 : h * vd), width, f->mixing + h * n * n,
                     n, v + s * n * values + h / share * vd, values, n, vd, n, f->merged && h > 0);
    }
    if (f->merged)
        y = mixed;
    else
        multiply_transposed(y, d, mixed, width, f->w_o, width, slots * n, d, width, 0);
    for (int64_t s = 0; s < slots; s++) {
        double *at = y + s * n * d;
        if (!x[s]) add_bias(at, f->b_o, n, d);
        rs_frozen_apply(at, &f->inside, n, d, !x[s]);
        memcpy(out[s], at, (size_t)(n * d) * sizeof *at);
    }
}

/* out (n×d) = P (x W_V,h + bias) W_O,h */
static void one_head(double *out, const double *x, const double *p, const double *bias,
                     int32_t head, const rs_frozen_branch *f, double *scratch)
{
    int64_t n = f->n, d = f->d, vd = f->value_dim, width = f->heads * vd;
    int64_t first = head / (f->heads / f->kv_heads) * vd;
    double *v = scratch, *mixed = v + n * vd;
    multiply_transposed(v, vd, x, d, f->w_v + first * d, d, n, vd, d, 0);
    if (bias) add_bias(v, bias + first, n, vd);
    if (f->merged) {
        multiply(out, d, p, n, v, vd, n, vd, n, 0);
        return;
    }
    multiply(mixed, vd, p, n, v, vd, n, vd, n, 0);
    multiply_transposed(out, d, mixed, vd, f->w_o + head * vd, width, n, d, vd, 0);
}

void rs_frozen_code_head(double *out, const double *x, const double *p, int32_t head,
                         const rs_frozen_branch *f, double *scratch)
{
    one_head(out, x, p, f->b_v, head, f, scratch);
    add_bias(out, f->b_o, f->n, f->d);
}
