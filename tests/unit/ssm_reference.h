/* ssm_reference.h: the state-space mixers' definitions, written as plain loops over the matrices
 * M_ij of docs/theory/ssm.md. Include behind cmocka.h. */
#ifndef RS_TEST_SSM_REFERENCE_H
#define RS_TEST_SSM_REFERENCE_H

#include "mixer_support.h"

/* ---- the definitions ---- */

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

static inline void ref_mixer(double *y, const rs_branch *branch, const double *x, int64_t n,
                             hear_matrix *hear, void *user)
{
    if (branch->kind == RS_BRANCH_SSD)
        ref_ssd(y, &branch->ssd, x, n, hear, user);
    else
        ref_s6(y, &branch->s6, x, n, hear, user);
}

#endif
