/* mixer_reference.h: the definitions of docs/theory/ssm.md, 2 to 9, as plain loops over the matrices
 * M_ij. Include behind cmocka.h. */
#ifndef RS_TEST_MIXER_REFERENCE_H
#define RS_TEST_MIXER_REFERENCE_H

#include "mixer_support.h"

#include <complex.h>

/* ---- 2, 3: Mamba and Mamba-2 ---- */

/* y: [n, d] of one sample. */
static inline void ref_ssd(double *y, const rs_ssd_op *op, const double *x, int64_t n,
                           hear_matrix *hear, void *user)
{
    int64_t inner = op->heads * op->head_dim, width = op->in.out, channels = op->conv.channels;
    double *p = ref_dense_rows(x, n, &op->in), *u = ref_conv(p, n, width, inner, &op->conv, true);
    double *a = ref_numbers(op->a_log), *bias = ref_numbers(op->dt_bias), *d = ref_numbers(op->d);
    double *gain = ref_numbers(op->norm.gain), *m = malloc((size_t)(n * n + 1) * sizeof *m);
    double *step = malloc((size_t)(n + 1) * sizeof *step);
    double *v = calloc((size_t)(n * inner + 1), sizeof *v);
    for (int32_t h = 0; h < op->heads; h++) {
        const double *keys = u + inner + h / (op->heads / op->groups) * op->state;
        const double *queries = keys + op->groups * op->state;
        for (int64_t t = 0; t < n; t++) {
            double dt = p[t * width + width - op->heads + h] + (bias ? bias[h] : 0);
            step[t] = fmin(fmax(softplus(dt), op->step_least), op->step_most);
        }
        for (int64_t i = 0; i < n; i++)
            for (int64_t j = 0; j < n; j++) {
                double dot = 0, sum = 0;
                for (int64_t s = 0; s < op->state; s++)
                    dot += queries[i * channels + s] * keys[j * channels + s];
                for (int64_t t = j + 1; t <= i; t++)
                    sum += step[t];
                m[i * n + j] = j > i ? 0 : dot * exp(-exp(a[h]) * sum) * step[j];
                if (i == j && d) m[i * n + j] += d[h];
            }
        if (hear) hear(user, h, m, n);
        for (int64_t i = 0; i < n; i++)
            for (int64_t j = 0; j <= i; j++)
                for (int64_t c = h * op->head_dim; c < (h + 1) * op->head_dim; c++)
                    v[i * inner + c] += m[i * n + j] * u[j * channels + c];
    }
    int64_t dim = inner / op->norm_groups;
    for (int64_t i = 0; i < n; i++) {
        double *row = v + i * inner;
        for (int64_t c = 0; c < inner && op->gate == RS_GATE_BEFORE_NORM; c++)
            row[c] *= silu(p[i * width + c]);
        for (int64_t g = 0; g < op->norm_groups && op->norm.kind != RS_NORM_NONE; g++) {
            double square = 0;
            for (int64_t c = g * dim; c < (g + 1) * dim; c++)
                square += row[c] * row[c];
            for (int64_t c = g * dim; c < (g + 1) * dim; c++)
                row[c] *= (gain ? gain[c] : 1) / sqrt(square / (double)dim + op->norm.eps);
        }
        for (int64_t c = 0; c < inner && op->gate == RS_GATE_AFTER_NORM; c++)
            row[c] *= silu(p[i * width + c]);
        ref_dense(y + i * op->o.out, row, &op->o);
    }
    void *used[] = {p, u, a, bias, d, gain, m, step, v};
    for (size_t i = 0; i < sizeof used / sizeof *used; i++)
        free(used[i]);
}

/* y: [n, d] of one sample. */
static inline void ref_s6(double *y, const rs_s6_op *op, const double *x, int64_t n,
                          hear_matrix *hear, void *user)
{
    int64_t inner = op->inner, width = op->in.out, read = op->x.out, k = op->state;
    double *p = ref_dense_rows(x, n, &op->in), *u = ref_conv(p, n, width, 0, &op->conv, true);
    double *r = ref_dense_rows(u, n, &op->x), *a = ref_numbers(op->a_log), *d = ref_numbers(op->d);
    double *step = malloc((size_t)(n * inner + 1) * sizeof *step);
    double *m = malloc((size_t)(n * n + 1) * sizeof *m), *v = calloc((size_t)(n * inner + 1), 8);
    for (int64_t t = 0; t < n; t++) {
        ref_norm(r + t * read, &op->dt_norm);
        ref_norm(r + t * read + op->rank, &op->b_norm);
        ref_norm(r + t * read + op->rank + k, &op->c_norm);
        ref_dense(step + t * inner, r + t * read, &op->step);
        for (int64_t c = 0; c < inner; c++)
            step[t * inner + c] = softplus(step[t * inner + c]);
    }
    for (int64_t c = 0; c < inner; c++) {
        for (int64_t i = 0; i < n; i++)
            for (int64_t j = 0; j < n; j++) {
                double sum = 0, entry = 0;
                for (int64_t t = j + 1; t <= i; t++)
                    sum += step[t * inner + c];
                for (int64_t s = 0; s < k && j <= i; s++)
                    entry += r[i * read + op->rank + k + s] * r[j * read + op->rank + s] *
                             exp(-exp(a[c * k + s]) * sum) * step[j * inner + c];
                m[i * n + j] = entry + (i == j && d ? d[c] : 0);
            }
        if (hear) hear(user, (int32_t)c, m, n);
        for (int64_t i = 0; i < n; i++)
            for (int64_t j = 0; j <= i; j++)
                v[i * inner + c] += m[i * n + j] * u[j * inner + c];
    }
    for (int64_t i = 0; i < n; i++) {
        for (int64_t c = 0; c < inner && op->gated; c++)
            v[i * inner + c] *= silu(p[i * width + inner + c]);
        ref_dense(y + i * op->o.out, v + i * inner, &op->o);
    }
    void *used[] = {p, u, r, a, d, step, m, v};
    for (size_t i = 0; i < sizeof used / sizeof *used; i++)
        free(used[i]);
}

/* ---- 5 to 7: linear attention, S4D, gated recurrence ---- */

static inline double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

static inline double feature(double x, rs_feature_map map)
{
    return map == RS_FEATURE_IDENTITY ? x : x > 0 ? x + 1 : exp(x);
}

static inline void ref_apply(double *y, int64_t ldy, const double *m, const double *v, int64_t ldv,
                             int64_t n, int64_t dim)
{
    for (int64_t i = 0; i < n; i++)
        for (int64_t c = 0; c < dim; c++) {
            y[i * ldy + c] = 0;
            for (int64_t j = 0; j < n; j++)
                y[i * ldy + c] += m[i * n + j] * v[j * ldv + c];
        }
}

/* Whether a row's own decay, which all of its entries have, goes out where the row is divided by its
 * sum. */
static inline bool own_decay_cancels(const rs_linear_op *op, double decay)
{
    return op->normalised && op->without_self && decay > 0;
}

/* m: [heads, n, n]. */
static inline void linear_matrices(double *m, const rs_linear_op *op, const double *x, int64_t n)
{
    double *q = ref_dense_rows(x, n, &op->q), *k = ref_dense_rows(x, n, &op->k);
    double *decay = ref_numbers(op->decay);
    for (int32_t h = 0; h < op->heads; h++)
        for (int64_t i = 0; i < n; i++) {
            double *row = m + (h * n + i) * n, sum = 0;
            for (int64_t j = 0; j < n; j++) {
                bool seen = (j <= i || !op->causal) && !(op->without_self && i == j);
                const double *a = q + i * op->q.out + h * op->head_dim;
                const double *b = k + j * op->k.out + h / (op->heads / op->kv_heads) * op->head_dim;
                row[j] = 0;
                for (int64_t s = 0; seen && s < op->head_dim; s++)
                    row[j] += feature(a[s], op->feature_map) * feature(b[s], op->feature_map);
                int64_t apart = i - j - (decay && own_decay_cancels(op, decay[h]));
                row[j] *= (decay && seen ? pow(decay[h], (double)apart) : 1) / op->temperature;
                sum += row[j];
            }
            for (int64_t j = 0; op->normalised && j < n; j++)
                row[j] = sum == 0 ? 0 : row[j] / sum;
        }
    free(q);
    free(k);
    free(decay);
}

static inline void ref_linear(double *y, const rs_linear_op *op, const double *m, const double *x,
                              int64_t n)
{
    int64_t dim = op->value_dim, inner = op->heads * dim, d = op->q.in;
    double *v = op->v.weight ? ref_dense_rows(x, n, &op->v) : NULL;
    double *z = op->gate.weight ? ref_dense_rows(x, n, &op->gate) : NULL;
    double *mixed = malloc((size_t)(n * inner + 1) * sizeof *mixed);
    rs_norm_op norm = op->norm;
    norm.dim = dim;
    for (int32_t h = 0; h < op->heads; h++)
        ref_apply(mixed + h * dim, inner, m + h * n * n,
                  v ? v + h / (op->heads / op->kv_heads) * dim : x, v ? op->v.out : d, n, dim);
    for (int64_t i = 0; i < n; i++) {
        double *row = mixed + i * inner;
        for (int64_t c = 0; z && op->place == RS_GATE_BEFORE_NORM && c < inner; c++)
            row[c] *= silu(z[i * inner + c]);
        ref_norm_rows(row, 1, inner, &norm);
        for (int64_t c = 0; z && op->place == RS_GATE_AFTER_NORM && c < inner; c++)
            row[c] *= silu(z[i * inner + c]);
        if (op->o.weight) ref_dense(y + i * d, row, &op->o);
        for (int64_t c = 0; !op->o.weight && c < dim; c++) {
            y[i * d + c] = 0;
            for (int32_t h = 0; h < op->heads; h++)
                y[i * d + c] += row[h * dim + c];
        }
    }
    free(v);
    free(z);
    free(mixed);
}

static inline void s4d_matrices(double *m, const rs_s4d_op *op, int64_t n)
{
    double *step = ref_numbers(op->log_step), *rate = ref_numbers(op->log_decay);
    double *w = ref_numbers(op->frequency), *c = ref_numbers(op->c), *d = ref_numbers(op->d);
    for (int64_t h = 0; h < op->channels; h++)
        for (int64_t i = 0; i < n; i++)
            for (int64_t j = 0; j < n; j++) {
                double sum = 0;
                for (int64_t s = h * op->pairs; s < (h + 1) * op->pairs && j <= i; s++) {
                    double complex a = -exp(rate[s]) + I * w[s], z = a * exp(step[h]);
                    double complex both = c[2 * s] + I * c[2 * s + 1];
                    sum += 2 * creal(both * (cexp(z) - 1) / a * cexp((double)(i - j) * z));
                }
                m[(h * n + i) * n + j] = sum + (i == j && d ? d[h] : 0);
            }
    void *used[] = {step, rate, w, c, d};
    for (size_t i = 0; i < sizeof used / sizeof *used; i++)
        free(used[i]);
}

static inline void ref_s4d(double *y, const rs_s4d_op *op, const double *m, const double *x,
                           int64_t n)
{
    int64_t d = op->channels;
    double *u = malloc((size_t)(n * d + 1) * sizeof *u), *z = malloc((size_t)d * sizeof *z);
    for (int64_t h = 0; h < d; h++)
        ref_apply(u + h, d, m + h * n * n, x + h, d, n, 1);
    for (int64_t i = 0; i < n; i++) {
        for (int64_t c = 0; c < d; c++)
            u[i * d + c] = ref_act(u[i * d + c], RS_ACT_GELU);
        ref_dense(y + i * d, u + i * d, &op->o);
        ref_dense(z, u + i * d, &op->gate);
        for (int64_t c = 0; c < d; c++)
            y[i * d + c] *= sigmoid(z[c]);
    }
    free(u);
    free(z);
}

static inline void ref_recurrence(double *y, double *m, const rs_recurrence_op *op, const double *x,
                                  int64_t n)
{
    int64_t inner = op->inner;
    double *p = ref_dense_rows(x, n, &op->in);
    double *u = ref_conv(p, n, 2 * inner, inner, &op->conv, false);
    double *g = ref_dense_rows(u, n, &op->gates);
    double *v = malloc((size_t)(n * inner + 1) * sizeof *v);
    for (int64_t c = 0; c < inner; c++) {
        for (int64_t i = 0; i < n; i++)
            for (int64_t j = 0; j < n; j++) {
                double entry = sigmoid(g[i * 3 * inner + 2 * inner + c]) *
                               sigmoid(g[j * 3 * inner + inner + c]);
                for (int64_t t = j + 1; t <= i; t++)
                    entry *= sigmoid(g[t * 3 * inner + c]);
                m[(c * n + i) * n + j] = j <= i ? entry : 0;
            }
        ref_apply(v + c, inner, m + c * n * n, u + c, inner, n, 1);
    }
    for (int64_t i = 0; i < n; i++) {
        for (int64_t c = 0; c < inner && op->gated; c++)
            v[i * inner + c] *= ref_act(p[i * 2 * inner + c], RS_ACT_GELU);
        ref_dense(y + i * op->o.out, v + i * inner, &op->o);
    }
    free(p);
    free(u);
    free(g);
    free(v);
}

/* ---- 8, 9: the gated delta rule, the short convolution ---- */

/* M = tril(QKᵀ∘Γ) (I + stril(diag β (KKᵀ∘Γ)))⁻¹ diag β of one head, by forward substitution: the
 * rows of the inverse times diag β first, then the product. g: [n] logarithms of decays. */
static inline void ref_delta_matrix(double *m, const double *q, const double *k, const double *g,
                                    const double *strength, int64_t n, int64_t dk)
{
    double *w = calloc((size_t)(n * n + 1), sizeof *w);
    for (int64_t i = 0; i < n; i++) {
        w[i * n + i] = strength[i];
        double decay = 0;
        for (int64_t l = i - 1; l >= 0; l--) {
            double dot = 0;
            decay += g[l + 1];
            for (int64_t s = 0; s < dk; s++)
                dot += k[i * dk + s] * k[l * dk + s];
            for (int64_t j = 0; j <= l; j++)
                w[i * n + j] -= strength[i] * dot * exp(decay) * w[l * n + j];
        }
    }
    memset(m, 0, (size_t)(n * n) * sizeof *m);
    for (int64_t i = 0; i < n; i++) {
        double decay = 0;
        for (int64_t l = i; l >= 0; l--) {
            double dot = 0;
            for (int64_t s = 0; s < dk; s++)
                dot += q[i * dk + s] * k[l * dk + s];
            for (int64_t j = 0; j <= l; j++)
                m[i * n + j] += dot * exp(decay) * w[l * n + j];
            decay += g[l];
        }
    }
    free(w);
}

/* out: [n, dim] of `from` [n, width], columns first .. first+dim-1, each row over its length. */
static inline void ref_units(double *out, const double *from, int64_t n, int64_t width,
                             int64_t first, int64_t dim, double scale)
{
    for (int64_t i = 0; i < n; i++) {
        double square = 1e-6;
        for (int64_t c = 0; c < dim; c++)
            square += pow(from[i * width + first + c], 2);
        for (int64_t c = 0; c < dim; c++)
            out[i * dim + c] = scale * from[i * width + first + c] / sqrt(square);
    }
}

/* Puts rows of `cols` numbers into columns first .. of rows of `width` numbers. */
static inline int64_t put_columns(double *out, int64_t width, int64_t first, const double *x,
                                  int64_t n, const rs_dense *map)
{
    double *rows = ref_dense_rows(x, n, map);
    for (int64_t i = 0; i < n; i++)
        memcpy(out + i * width + first, rows + i * map->out, (size_t)map->out * sizeof *out);
    free(rows);
    return first + map->out;
}

/* row: [values], behind its heads; z: [values], or NULL. */
static inline void ref_delta_leave(double *row, const rs_delta_op *op, const double *z)
{
    int64_t values = op->heads * op->value_dim;
    for (int64_t c = 0; z && op->gate == RS_GATE_BEFORE_NORM && c < values; c++)
        row[c] *= silu(z[c]);
    for (int32_t h = 0; h < op->heads; h++)
        ref_norm(row + h * op->value_dim, &op->norm);
    for (int64_t c = 0; z && op->gate == RS_GATE_AFTER_NORM && c < values; c++)
        row[c] *= silu(z[c]);
}

static inline void ref_delta(double *y, const rs_delta_op *op, const double *x, int64_t n,
                             hear_matrix *hear, void *user)
{
    int64_t dk = op->key_dim, dv = op->value_dim, keys = op->key_heads * dk;
    int64_t values = op->heads * dv, width = op->conv.channels;
    double *p = malloc((size_t)(n * width + 1) * sizeof *p), *m = malloc((size_t)(n * n + 1) * 8);
    put_columns(p, width,
                put_columns(p, width, put_columns(p, width, 0, x, n, &op->q), x, n, &op->k), x, n,
                &op->v);
    double *u = ref_conv(p, n, width, 0, &op->conv, op->activation == RS_ACT_SILU);
    double *b = ref_dense_rows(x, n, &op->b), *a = ref_dense_rows(x, n, &op->a);
    double *z = op->z.weight ? ref_dense_rows(x, n, &op->z) : NULL;
    double *rate = ref_numbers(op->a_log), *bias = ref_numbers(op->dt_bias);
    double *q = malloc((size_t)(n * dk + 1) * 8), *k = malloc((size_t)(n * dk + 1) * 8);
    double *g = malloc((size_t)(n + 1) * 8), *strength = malloc((size_t)(n + 1) * 8);
    double *v = calloc((size_t)(n * values + 1), 8);
    for (int32_t h = 0; h < op->heads; h++) {
        int64_t first = h / (op->heads / op->key_heads) * dk;
        ref_units(q, u, n, width, first, dk, 1 / sqrt((double)dk));
        ref_units(k, u, n, width, keys + first, dk, 1);
        for (int64_t t = 0; t < n; t++) {
            g[t] = -exp(rate[h]) * softplus(a[t * op->heads + h] + (bias ? bias[h] : 0));
            strength[t] = op->strength_most / (1 + exp(-b[t * op->heads + h]));
        }
        ref_delta_matrix(m, q, k, g, strength, n, dk);
        if (hear) hear(user, h, m, n);
        for (int64_t i = 0; i < n; i++)
            for (int64_t j = 0; j <= i; j++)
                for (int64_t c = 0; c < dv; c++)
                    v[i * values + h * dv + c] +=
                        m[i * n + j] * u[j * width + 2 * keys + h * dv + c];
    }
    for (int64_t i = 0; i < n; i++) {
        ref_delta_leave(v + i * values, op, z ? z + i * values : NULL);
        ref_dense(y + i * op->o.out, v + i * values, &op->o);
    }
    void *used[] = {p, m, u, b, a, z, rate, bias, q, k, g, strength, v};
    for (size_t i = 0; i < sizeof used / sizeof *used; i++)
        free(used[i]);
}

/* y: [n, d]. The output is formed from the matrices, so that they and the engine's states agree. */
static inline void ref_short_conv(double *y, const rs_short_conv_op *op, const double *x, int64_t n,
                                  hear_matrix *hear, void *user)
{
    int64_t channels = op->conv.channels, width = op->conv.width;
    double *p = ref_dense_rows(x, n, &op->in), *w = ref_kernels(&op->conv);
    double *bias = ref_numbers(op->conv.bias), *m = malloc((size_t)(n * n + 1) * sizeof *m);
    double *v = calloc((size_t)(n * channels + 1), sizeof *v);
    for (int64_t c = 0; c < channels; c++) {
        for (int64_t i = 0; i < n; i++) {
            const double *row = p + i * 3 * channels;
            if (bias) v[i * channels + c] = row[channels + c] * bias[c];
            for (int64_t j = 0; j < n; j++) {
                bool seen = j <= i && i - j < width;
                m[i * n + j] = seen ? row[channels + c] * w[c * width + width - 1 - (i - j)] *
                                          p[j * 3 * channels + c]
                                    : 0;
                v[i * channels + c] += m[i * n + j] * p[j * 3 * channels + 2 * channels + c];
            }
        }
        if (hear) hear(user, (int32_t)c, m, n);
    }
    for (int64_t i = 0; i < n; i++)
        ref_dense(y + i * op->o.out, v + i * channels, &op->o);
    void *used[] = {p, w, bias, m, v};
    for (size_t i = 0; i < sizeof used / sizeof *used; i++)
        free(used[i]);
}

/* ---- all ---- */

static inline void ref_matrices_first(double *y, const rs_branch *branch, const double *x,
                                      int64_t n, hear_matrix *hear, void *user)
{
    int32_t heads = rs_branch_traits(branch)->matrices(branch);
    double *m = malloc((size_t)(heads * n * n + 1) * sizeof *m);
    if (branch->kind == RS_BRANCH_LINEAR) {
        linear_matrices(m, &branch->linear, x, n);
        ref_linear(y, &branch->linear, m, x, n);
    } else if (branch->kind == RS_BRANCH_S4D) {
        s4d_matrices(m, &branch->s4d, n);
        ref_s4d(y, &branch->s4d, m, x, n);
    } else {
        ref_recurrence(y, m, &branch->recurrence, x, n);
    }
    for (int32_t i = 0; i < heads && hear; i++)
        hear(user, i, m + i * n * n, n);
    free(m);
}

static inline void ref_mixer(double *y, const rs_branch *branch, const double *x, int64_t n,
                             hear_matrix *hear, void *user)
{
    if (branch->kind == RS_BRANCH_SSD)
        ref_ssd(y, &branch->ssd, x, n, hear, user);
    else if (branch->kind == RS_BRANCH_S6)
        ref_s6(y, &branch->s6, x, n, hear, user);
    else if (branch->kind == RS_BRANCH_DELTA)
        ref_delta(y, &branch->delta, x, n, hear, user);
    else if (branch->kind == RS_BRANCH_SHORT_CONV)
        ref_short_conv(y, &branch->short_conv, x, n, hear, user);
    else
        ref_matrices_first(y, branch, x, n, hear, user);
}

#endif
