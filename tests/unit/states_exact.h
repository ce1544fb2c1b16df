/* states_exact.h: state-space mixers in long double, token by token as docs/theory/ssm.md, 2 and 3,
 * defines them: what certify_exact_states.c bounds the distance from. Include behind cmocka.h. */
#ifndef RS_TEST_STATES_EXACT_H
#define RS_TEST_STATES_EXACT_H

#include "mixer_support.h"

typedef long double real;

static inline real *reals(int64_t count)
{
    return calloc((size_t)(count + 1), sizeof(real));
}

/* y [rows, out] = W x + b, times the map's factors; x with leading dimension ld. */
static inline real *exact_map(const real *x, int64_t ld, int64_t rows, const rs_dense *dense)
{
    double *w = ref_numbers(dense->weight), *b = ref_numbers(dense->bias);
    real *y = reals(rows * dense->out);
    for (int64_t u = 0; u < dense->out; u++) {
        int64_t v = dense->first + u / dense->run * dense->stride + u % dense->run;
        rs_dense_factor factor = rs_dense_factor_of(dense, u);
        for (int64_t i = 0; i < rows; i++) {
            real sum = 0;
            for (int64_t k = 0; k < dense->in; k++)
                sum += w[(dense->out_is_row ? v : k) * dense->cols + (dense->out_is_row ? k : v)] *
                       x[i * ld + k];
            y[i * dense->out + u] = factor.weight * sum;
            if (b) y[i * dense->out + u] += (real)factor.bias * b[v];
        }
    }
    free(w);
    free(b);
    return y;
}

/* x [dim] of the norm's entries first .. first+dim-1. */
static inline void exact_norm(real *x, const rs_norm_op *norm, int64_t first, int64_t dim)
{
    if (norm->kind == RS_NORM_NONE) return;
    double *gain = ref_numbers(norm->gain), *bias = ref_numbers(norm->bias);
    real mean = 0, power = 0;
    for (int64_t k = 0; k < dim && norm->kind == RS_NORM_LAYERNORM; k++)
        mean += x[k] / dim;
    for (int64_t k = 0; k < dim; k++)
        power += (x[k] - mean) * (x[k] - mean) / dim;
    for (int64_t k = 0; k < dim; k++) {
        real g = gain ? gain[first + k] : 1;
        if (gain && norm->kind == RS_NORM_RMSNORM_PLUS_ONE) g += 1;
        x[k] = (x[k] - mean) / sqrtl(power + norm->eps) * g + (bias ? bias[first + k] : 0);
    }
    free(gain);
    free(bias);
}

static inline real exact_silu(real x)
{
    return x / (1 + expl(-x));
}

static inline real exact_softplus(real x)
{
    return x > 20 ? x : log1pl(expl(x));
}

/* [n, channels] behind convolution and SiLU of columns first .. of rows of `width` numbers. */
static inline real *exact_conv(const real *rows, int64_t n, int64_t width, int64_t first,
                               const rs_conv_op *conv)
{
    double *w = ref_kernels(conv), *bias = ref_numbers(conv->bias);
    real *u = reals(n * conv->channels);
    for (int64_t t = 0; t < n; t++)
        for (int64_t c = 0; c < conv->channels; c++) {
            real sum = bias ? bias[c] : 0;
            for (int64_t j = 0; j < conv->width; j++) {
                int64_t row = t - conv->width + 1 + j;
                if (row >= 0) sum += w[c * conv->width + j] * rows[row * width + first + c];
            }
            u[t * conv->channels + c] = exact_silu(sum);
        }
    free(w);
    free(bias);
    return u;
}

static inline void exact_gate(real *y, const real *z, int64_t n)
{
    for (int64_t c = 0; c < n; c++)
        y[c] *= exact_silu(z[c]);
}

/* One head of one sample. p: what the first map gives; u: behind the convolution; y [n, inner]. */
static inline void exact_head(real *y, const rs_ssd_op *op, const real *p, const real *u, int64_t n,
                              int64_t h)
{
    int64_t inner = op->heads * op->head_dim, channels = op->conv.channels, dim = op->head_dim;
    double stored, bias = 0, d = 0;
    rs_tensor_decode_f64(&stored, op->a_log, h, 1);
    if (op->dt_bias) rs_tensor_decode_f64(&bias, op->dt_bias, h, 1);
    if (op->d) rs_tensor_decode_f64(&d, op->d, h, 1);
    real rate = op->a_stored ? (real)stored : -expl(stored);
    real *state = reals(op->state * dim);
    for (int64_t t = 0; t < n; t++) {
        const real *x = u + t * channels + h * dim;
        const real *b = u + t * channels + inner + h / (op->heads / op->groups) * op->state;
        real step = exact_softplus(p[(t + 1) * op->in.out - op->heads + h] + bias);
        step = fminl(fmaxl(step, op->step_least), op->step_most);
        for (int64_t c = 0; c < dim; c++) {
            real sum = d * x[c];
            for (int64_t s = 0; s < op->state; s++) {
                real *at = &state[s * dim + c];
                *at = expl(rate * step) * *at + step * b[s] * x[c];
                sum += b[op->groups * op->state + s] * *at;
            }
            y[t * inner + h * dim + c] = sum;
        }
    }
    free(state);
}

/* [n, d] of one sample from what the op reads. */
static inline real *exact_ssd(const rs_ssd_op *op, const real *x, int64_t n)
{
    int64_t inner = op->heads * op->head_dim, dim = inner / op->norm_groups;
    real *p = exact_map(x, op->in.in, n, &op->in);
    real *u = exact_conv(p, n, op->in.out, inner, &op->conv), *y = reals(n * inner);
    for (int64_t h = 0; h < op->heads; h++)
        exact_head(y, op, p, u, n, h);
    for (int64_t i = 0; i < n; i++) {
        real *row = y + i * inner;
        if (op->gate == RS_GATE_BEFORE_NORM) exact_gate(row, p + i * op->in.out, inner);
        for (int64_t g = 0; g < op->norm_groups; g++)
            exact_norm(row + g * dim, &op->norm, g * dim, dim);
        if (op->gate == RS_GATE_AFTER_NORM) exact_gate(row, p + i * op->in.out, inner);
    }
    real *out = exact_map(y, inner, n, &op->o);
    free(p);
    free(u);
    free(y);
    return out;
}

/* One channel of one sample. u: behind the convolution; read: dt, B, C of each token; step: before its
 * softplus; y [n, inner]. */
static inline void exact_channel(real *y, const rs_s6_op *op, const real *u, const real *read,
                                 const real *step, int64_t n, int64_t c)
{
    real *state = reals(op->state);
    double d = 0;
    if (op->d) rs_tensor_decode_f64(&d, op->d, c, 1);
    for (int64_t t = 0; t < n; t++) {
        const real *b = read + t * op->x.out + op->rank;
        real delta = exact_softplus(step[t * op->inner + c]), sum = d * u[t * op->inner + c];
        for (int64_t s = 0; s < op->state; s++) {
            double stored;
            rs_tensor_decode_f64(&stored, op->a_log, c * op->state + s, 1);
            real rate = op->a_stored ? (real)stored : -expl(stored);
            state[s] = expl(rate * delta) * state[s] + delta * b[s] * u[t * op->inner + c];
            sum += b[op->state + s] * state[s];
        }
        y[t * op->inner + c] = sum;
    }
    free(state);
}

/* [n, d] of one sample from what the op reads. */
static inline real *exact_s6(const rs_s6_op *op, const real *x, int64_t n)
{
    int64_t inner = op->inner;
    real *p = exact_map(x, op->in.in, n, &op->in);
    real *u = exact_conv(p, n, op->in.out, 0, &op->conv), *read = exact_map(u, inner, n, &op->x);
    for (int64_t t = 0; t < n; t++) {
        real *row = read + t * op->x.out;
        exact_norm(row, &op->dt_norm, 0, op->rank);
        exact_norm(row + op->rank, &op->b_norm, 0, op->state);
        exact_norm(row + op->rank + op->state, &op->c_norm, 0, op->state);
    }
    real *step = exact_map(read, op->x.out, n, &op->step), *y = reals(n * inner);
    for (int64_t c = 0; c < inner; c++)
        exact_channel(y, op, u, read, step, n, c);
    for (int64_t t = 0; t < n && op->gated; t++)
        exact_gate(y + t * inner, p + t * op->in.out + inner, inner);
    real *out = exact_map(y, inner, n, &op->o), *used[] = {p, u, read, step, y};
    for (size_t i = 0; i < sizeof used / sizeof *used; i++)
        free(used[i]);
    return out;
}

/* [n, d] of one sample from what the op reads. */
static inline real *exact_op(const rs_branch *branch, const real *x, int64_t n)
{
    return branch->kind == RS_BRANCH_SSD ? exact_ssd(&branch->ssd, x, n)
                                         : exact_s6(&branch->s6, x, n);
}

/* inside(op(before(x))) of one sample of n rows of width d. */
static inline real *exact_added(const rs_branch *branch, const double *x, int64_t n, int64_t d)
{
    real *read = reals(n * d);
    for (int64_t i = 0; i < n * d; i++)
        read[i] = x[i];
    for (int64_t i = 0; i < n; i++)
        exact_norm(read + i * d, &branch->before, 0, d);
    real *out = exact_op(branch, read, n);
    for (int64_t i = 0; i < n; i++)
        exact_norm(out + i * d, &branch->inside, 0, d);
    free(read);
    return out;
}

#endif
