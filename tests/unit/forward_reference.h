/*
 * forward_reference.h: the formulas of network.h as plain loops over double, one token, one head,
 * one key at a time. Slow and without any of the engine's ideas: what the engine is tested against.
 */
#ifndef RS_TEST_FORWARD_REFERENCE_H
#define RS_TEST_FORWARD_REFERENCE_H

#include "engine/forward.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* All numbers of a tensor, or NULL; the caller frees. */
static inline double *ref_numbers(const rs_tensor *tensor)
{
    if (!tensor) return NULL;
    double *out = malloc((size_t)(tensor->count + 1) * sizeof *out);
    rs_tensor_decode_f64(out, tensor, 0, tensor->count);
    return out;
}

/* y[out] = W x + b, times the map's factors */
static inline void ref_dense(double *y, const double *x, const rs_dense *dense)
{
    double *w = ref_numbers(dense->weight), *b = ref_numbers(dense->bias);
    double *s = ref_numbers(dense->scale);
    for (int64_t u = 0; u < dense->out; u++) {
        int64_t v = dense->first + u / dense->run * dense->stride + u % dense->run;
        double sum = 0, weight = 1, bias = 1;
        int64_t end = 0;
        for (int32_t f = 0; f < dense->n_factors; f++) {
            end += dense->factors[f].units;
            if (u >= end) continue;
            weight = dense->factors[f].weight;
            bias = dense->factors[f].bias;
            break;
        }
        for (int64_t i = 0; i < dense->in; i++) {
            int64_t row = dense->out_is_row ? v : i, col = dense->out_is_row ? i : v;
            double entry = w[row * dense->cols + col];
            if (s) {
                int64_t across =
                    (dense->cols + dense->scale_block_cols - 1) / dense->scale_block_cols;
                entry *= s[row / dense->scale_block_rows * across + col / dense->scale_block_cols];
            }
            sum += entry * x[i];
        }
        y[u] = weight * sum + (b ? bias * b[v] : 0);
    }
    free(w);
    free(b);
    free(s);
}

/* Rows through a map. */
static inline double *ref_dense_rows(const double *x, int64_t rows, const rs_dense *dense)
{
    double *y = malloc((size_t)(rows * dense->out + 1) * sizeof *y);
    for (int64_t i = 0; i < rows; i++)
        ref_dense(y + i * dense->out, x + i * dense->in, dense);
    return y;
}

static inline void ref_norm(double *x, const rs_norm_op *norm)
{
    if (norm->kind == RS_NORM_NONE) return;
    double *gain = ref_numbers(norm->gain), *bias = ref_numbers(norm->bias), mean = 0, power = 0;
    int64_t n = norm->dim;
    for (int64_t i = 0; i < n; i++)
        mean += x[i] / (double)n;
    if (norm->kind != RS_NORM_LAYERNORM) mean = 0;
    for (int64_t i = 0; i < n; i++)
        power += (x[i] - mean) * (x[i] - mean) / (double)n;
    for (int64_t i = 0; i < n; i++) {
        double g = gain ? gain[i] : norm->kind == RS_NORM_RMSNORM_PLUS_ONE ? 0 : 1;
        if (norm->kind == RS_NORM_RMSNORM_PLUS_ONE) g += 1;
        x[i] = (x[i] - mean) / sqrt(power + norm->eps) * g + (bias ? bias[i] : 0);
    }
    free(gain);
    free(bias);
}

static inline void ref_norm_rows(double *x, int64_t rows, int64_t width, const rs_norm_op *norm)
{
    for (int64_t at = 0; norm->kind != RS_NORM_NONE && at < rows * width; at += norm->dim)
        ref_norm(x + at, norm);
}

static inline double ref_act(double x, rs_activation activation)
{
    switch (activation) {
    case RS_ACT_RELU:
        return fmax(x, 0);
    case RS_ACT_GELU:
        return x * 0.5 * (1 + erf(x / sqrt(2)));
    case RS_ACT_GELU_TANH:
        return 0.5 * x * (1 + tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    case RS_ACT_QUICK_GELU:
        return x / (1 + exp(-1.702 * x));
    case RS_ACT_SILU:
        return x / (1 + exp(-x));
    case RS_ACT_TANH:
        return tanh(x);
    case RS_ACT_RELU2:
        return fmax(x, 0) * fmax(x, 0);
    case RS_ACT_SIN:
        return sin(x);
    case RS_ACT_SIGMOID:
        return 1 / (1 + exp(-x));
    default:
        return x;
    }
}

/* ---- attention ---- */

static inline void ref_rotate(double *x, int64_t position, const rs_rope_op *rope,
                              const double *inverse, double factor)
{
    int32_t pairs = rope->dims / 2;
    for (int32_t t = 0; t < pairs; t++) {
        int32_t a = rope->kind == RS_ROPE_HALF_SPLIT ? t : 2 * t;
        int32_t b = rope->kind == RS_ROPE_HALF_SPLIT    ? t + pairs
                    : rope->kind == RS_ROPE_INTERLEAVED ? 2 * t + 1
                                                        : 2 * t + 2 * pairs;
        double u = x[a], v = x[b], angle = (double)position * inverse[t];
        x[a] = (u * cos(angle) - v * sin(angle)) * factor;
        x[b] = (u * sin(angle) + v * cos(angle)) * factor;
    }
}

static inline bool ref_sees(const rs_attention_op *op, int64_t i, int64_t j)
{
    if (op->causal && j > i) return false;
    if (op->window > 0 && op->causal) return i - j < op->window;
    if (op->window > 0) return llabs(i - j) < op->window;
    return true;
}

static inline double ref_dot(const double *a, const double *extra, const double *b, int64_t n)
{
    double sum = 0;
    for (int64_t c = 0; c < n; c++)
        sum += (a[c] + (extra ? extra[c] : 0)) * b[c];
    return sum;
}

typedef struct ref_vectors {
    double *content, *position, *segment, *segment_embed, *distance;
} ref_vectors;

/* Logit (i, j) of head h from query row q and key row k (both of the head). */
static inline double ref_logit(const rs_attention_op *op, const ref_vectors *vectors, int32_t h,
                               const double *q, const double *k, int64_t i, int64_t j)
{
    int64_t dim = op->head_dim, at = h * dim;
    double s = ref_dot(q, vectors->content ? vectors->content + at : NULL, k, dim);
    if (op->relative.r.weight) {
        int64_t d = op->relative.r.in, p = i - j;
        double *wave = malloc((size_t)d * sizeof *wave);
        double *r = malloc((size_t)op->relative.r.out * sizeof *r);
        if (op->relative.clamp > 0 && p > op->relative.clamp) p = op->relative.clamp;
        if (op->relative.clamp > 0 && p < -op->relative.clamp) p = -op->relative.clamp;
        for (int64_t t = 0; t < d / 2; t++) {
            wave[t] = sin((double)p / pow(10000, 2.0 * (double)t / (double)d));
            wave[d / 2 + t] = cos((double)p / pow(10000, 2.0 * (double)t / (double)d));
        }
        ref_dense(r, wave, &op->relative.r);
        s += ref_dot(q, vectors->position ? vectors->position + at : NULL, r + at, dim);
        free(wave);
        free(r);
    }
    if (vectors->segment_embed)
        s += ref_dot(q, vectors->segment ? vectors->segment + at : NULL,
                     vectors->segment_embed + at, dim);
    s *= op->scale;
    if (op->softcap != 0) s = op->softcap * tanh(s / op->softcap);
    if (vectors->distance) {
        int64_t reach = op->distance_reach, p = i - j;
        p = p > reach ? reach : p < -reach ? -reach : p;
        s += vectors->distance[h * (2 * reach + 1) + p + reach];
    }
    return s / op->temperature;
}

/* One head's matrices [n, keys] of one sample. */
typedef struct ref_head {
    double *logits, *probabilities, *mixing;
} ref_head;

static inline void ref_matrices(ref_head *out, const rs_attention_op *op,
                                const ref_vectors *vectors, int32_t h, const double *q,
                                const double *k, int64_t n, int64_t keys)
{
    int32_t g = h / (op->heads / op->kv_heads);
    for (int64_t i = 0; i < n; i++) {
        double *l = out->logits + i * keys, *p = out->probabilities + i * keys;
        double *m = out->mixing + i * keys, largest = -INFINITY, sum = 0;
        int64_t seen = 0;
        for (int64_t j = 0; j < keys; j++) {
            l[j] = ref_logit(op, vectors, h, q + (i * op->heads + h) * op->head_dim,
                             k + (j * op->kv_heads + g) * op->head_dim, i, j);
            if (ref_sees(op, i, j)) largest = fmax(largest, l[j]), seen++;
        }
        for (int64_t j = 0; j < keys; j++)
            sum += p[j] = ref_sees(op, i, j) ? exp(l[j] - largest) : 0;
        for (int64_t j = 0; j < keys; j++) {
            if (sum > 0) p[j] /= sum;
            m[j] = op->mix_softmax * p[j] + (i == j ? op->mix_identity : 0);
            if (ref_sees(op, i, j)) m[j] -= op->mix_uniform / (double)seen;
        }
    }
}

/* What hears of each head's matrices. */
typedef void ref_listener(void *user, int32_t layer, int32_t sample, int32_t head,
                          const ref_head *matrices, int64_t n, int64_t keys, bool cross);

/* mixed [n, heads*value_dim] of one sample whose rows in the batch are x and memory. */
static inline void ref_sample(double *mixed, const rs_attention_op *op, const double *x, int64_t n,
                              const double *source, int64_t keys, int32_t layer, int32_t sample,
                              ref_listener *listener, void *user)
{
    double *q = ref_dense_rows(x, n, &op->q), *k = ref_dense_rows(source, keys, &op->k);
    double *v = ref_dense_rows(source, keys, &op->v);
    ref_norm_rows(q, n, op->q.out, &op->q_norm);
    ref_norm_rows(k, keys, op->k.out, &op->k_norm);
    if (op->rope.kind != RS_ROPE_NONE) {
        double *inverse = malloc((size_t)op->rope.dims * sizeof *inverse), factor = 1;
        rs_rope_frequencies(inverse, &factor, &op->rope, keys > n ? keys : n);
        for (int64_t i = 0; i < n * op->heads; i++)
            ref_rotate(q + i * op->head_dim, i / op->heads, &op->rope, inverse, factor);
        for (int64_t i = 0; i < keys * op->kv_heads; i++)
            ref_rotate(k + i * op->head_dim, i / op->kv_heads, &op->rope, inverse, factor);
        free(inverse);
    }
    ref_vectors vectors = {ref_numbers(op->relative.content_bias),
                           ref_numbers(op->relative.position_bias),
                           ref_numbers(op->relative.segment_bias),
                           ref_numbers(op->relative.segment_embed), ref_numbers(op->distance_bias)};
    size_t bytes = (size_t)(n * keys + 1) * sizeof(double);
    ref_head head = {malloc(bytes), malloc(bytes), malloc(bytes)};
    for (int32_t h = 0; h < op->heads; h++) {
        int32_t g = h / (op->heads / op->kv_heads);
        ref_matrices(&head, op, &vectors, h, q, k, n, keys);
        if (listener) listener(user, layer, sample, h, &head, n, keys, op->cross);
        for (int64_t i = 0; i < n; i++)
            for (int64_t c = 0; c < op->value_dim; c++) {
                double sum = 0;
                for (int64_t j = 0; j < keys; j++)
                    sum +=
                        head.mixing[i * keys + j] * v[(j * op->kv_heads + g) * op->value_dim + c];
                mixed[(i * op->heads + h) * op->value_dim + c] = sum;
            }
    }
    double *all[] = {q,
                     k,
                     v,
                     head.logits,
                     head.probabilities,
                     head.mixing,
                     vectors.content,
                     vectors.position,
                     vectors.segment,
                     vectors.segment_embed,
                     vectors.distance};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
}

static inline double *ref_attention(const rs_attention_op *op, const double *x,
                                    const rs_batch *batch, int32_t layer, ref_listener *listener,
                                    void *user)
{
    int64_t rows = batch->begin[batch->samples], width = op->heads * op->value_dim;
    double *mixed = calloc((size_t)(rows * width + 1), sizeof *mixed);
    for (int32_t s = 0; s < batch->samples; s++) {
        int64_t b = batch->begin[s], n = batch->begin[s + 1] - b, keys = n;
        const double *source = x + b * op->q.in;
        if (op->cross) {
            source = batch->memory + batch->memory_begin[s] * op->k.in;
            keys = batch->memory_begin[s + 1] - batch->memory_begin[s];
        }
        if (n > 0)
            ref_sample(mixed + b * width, op, x + b * op->q.in, n, source, keys, layer, s, listener,
                       user);
    }
    double *out;
    if (op->o.weight) {
        out = ref_dense_rows(mixed, rows, &op->o);
    } else { /* merged into the values: heads are added up */
        out = calloc((size_t)(rows * op->value_dim + 1), sizeof *out);
        for (int64_t i = 0; i < rows * width; i++)
            out[i / width * op->value_dim + i % width % op->value_dim] += mixed[i];
    }
    free(mixed);
    return out;
}

/* ---- the rest ---- */

static inline double *ref_mlp(const rs_mlp_op *op, const double *x, int64_t rows)
{
    double *up = ref_dense_rows(x, rows, &op->up), *gate = NULL;
    if (op->gate.weight) gate = ref_dense_rows(x, rows, &op->gate);
    for (int64_t i = 0; i < rows * op->up.out; i++)
        up[i] = gate ? ref_act(gate[i], op->activation) * up[i] : ref_act(up[i], op->activation);
    double *out = ref_dense_rows(up, rows, &op->down);
    free(up);
    free(gate);
    return out;
}

static inline double *ref_embed(const rs_network *network, const rs_batch *batch)
{
    const rs_embedding_op *op = &network->embedding;
    int64_t rows = batch->begin[batch->samples], width = op->width;
    if (batch->states) {
        double *copy = malloc((size_t)(rows * network->d_model + 1) * sizeof *copy);
        if (rows) memcpy(copy, batch->states, (size_t)(rows * network->d_model) * sizeof *copy);
        return copy;
    }
    double *x = calloc((size_t)(rows * width + 1), sizeof *x);
    double *tokens = ref_numbers(op->tokens), *positions = ref_numbers(op->positions);
    double *types = ref_numbers(op->types), *class_token = ref_numbers(op->class_token);
    int64_t across = op->patch_width ? op->image_width / op->patch_width : 0;
    for (int32_t s = 0; s < batch->samples; s++)
        for (int64_t i = batch->begin[s]; i < batch->begin[s + 1]; i++) {
            int64_t p = i - batch->begin[s], patch = p - (class_token != NULL);
            double *row = x + i * width;
            if (batch->images && patch < 0) {
                memcpy(row, class_token, (size_t)width * sizeof *row);
            } else if (batch->images) {
                double *cut = malloc((size_t)op->patch.in * sizeof *cut), *at = cut;
                for (int64_t c = 0; c < op->channels; c++)
                    for (int64_t y = 0; y < op->patch_height; y++)
                        for (int64_t z = 0; z < op->patch_width; z++)
                            *at++ =
                                (double)batch->images[((s * op->channels + c) * op->image_height +
                                                       patch / across * op->patch_height + y) *
                                                          op->image_width +
                                                      patch % across * op->patch_width + z];
                ref_dense(row, cut, &op->patch);
                free(cut);
            }
            for (int64_t c = 0; c < width; c++) {
                if (!batch->images) row[c] = tokens[batch->ids[i] * width + c] * op->scale;
                if (positions) row[c] += positions[(p + op->position_offset) * width + c];
                if (types) row[c] += types[c];
            }
        }
    free(tokens);
    free(positions);
    free(types);
    free(class_token);
    ref_norm_rows(x, rows, width, &op->norm);
    if (!op->projection.weight) return x;
    double *y = ref_dense_rows(x, rows, &op->projection);
    free(x);
    return y;
}

/* What hears of the states. */
typedef void ref_state(void *user, rs_site site, int32_t layer, const double *x);

/* x [rows, d] after the final norm; the caller frees. */
static inline double *ref_run(const rs_network *network, const rs_batch *batch, ref_state *state,
                              ref_listener *listener, void *user)
{
    int64_t d = network->d_model, rows = batch->begin[batch->samples], count = rows * d;
    double *x = ref_embed(network, batch);
    size_t bytes = (size_t)(count + 1) * sizeof *x;
    double *entered = malloc(bytes), *in = malloc(bytes);
    if (state) state(user, RS_SITE_BLOCK_OUT, 0, x);
    for (int32_t l = 0; l < network->n_layers; l++) {
        bool told = false;
        memcpy(entered, x, bytes);
        for (int32_t b = 0; b < network->layers[l].n_branches; b++) {
            const rs_branch *branch = &network->layers[l].branches[b];
            double *y = NULL;
            memcpy(in, branch->joins ? entered : x, bytes);
            ref_norm_rows(in, rows, d, &branch->before);
            if (branch->scale != 0 && branch->kind == RS_BRANCH_ATTENTION)
                y = ref_attention(&branch->attention, in, batch, l, listener, user);
            else if (branch->scale != 0)
                y = ref_mlp(&branch->mlp, in, rows);
            if (y && !told && branch->kind == RS_BRANCH_ATTENTION && !branch->attention.cross) {
                told = true;
                if (state) state(user, RS_SITE_MIXER_OUT, l + 1, y);
            }
            if (y) ref_norm_rows(y, rows, d, &branch->inside);
            for (int64_t i = 0; i < count; i++)
                x[i] = branch->skip * x[i] + (y ? branch->scale * y[i] : 0);
            ref_norm_rows(x, rows, d, &branch->after);
            free(y);
        }
        if (state) state(user, RS_SITE_BLOCK_OUT, l + 1, x);
    }
    ref_norm_rows(x, rows, d, &network->final_norm);
    if (state) state(user, RS_SITE_FINAL, network->n_layers, x);
    free(entered);
    free(in);
    return x;
}

/* logits [rows, vocabulary] from the state after the final norm */
static inline double *ref_logits(const rs_head_op *op, const double *x, int64_t rows)
{
    int64_t width = op->decoder.in, out = op->decoder.out;
    double *y = NULL, *bias = ref_numbers(op->bias);
    if (op->transform.weight) {
        y = ref_dense_rows(x, rows, &op->transform);
    } else {
        y = malloc((size_t)(rows * width + 1) * sizeof *y);
        memcpy(y, x, (size_t)(rows * width) * sizeof *y);
    }
    for (int64_t i = 0; i < rows * width; i++)
        y[i] = ref_act(y[i], op->activation);
    ref_norm_rows(y, rows, width, &op->norm);
    double *logits = ref_dense_rows(y, rows, &op->decoder);
    for (int64_t i = 0; i < rows * out; i++) {
        logits[i] = (logits[i] + (bias ? bias[i % out] : 0)) * op->scale;
        if (op->softcap != 0) logits[i] = op->softcap * tanh(logits[i] / op->softcap);
    }
    free(y);
    free(bias);
    return logits;
}

#endif
