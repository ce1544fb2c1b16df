/* certify_law.c: the leading-order law of one layer, part by part. */
#include "certify/certify_law.h"

#include "network/op_traits.h"

#include <math.h>
#include <string.h>

/* ---- what it is about ---- */

bool rs_law_causal(const rs_attention_op *op)
{
    return op->causal && op->window == 0;
}

const char *rs_law_fails(const rs_layer *layer)
{
    const rs_branch *mixer = &layer->branches[0];
    if (layer->n_branches == 0 || !rs_branch_plain_attention(mixer) || mixer->scale == 0)
        return "no attention in this layer";
    rs_branch bare = *mixer;
    if (rs_law_causal(&bare.attention)) bare.attention.causal = false;
    const char *why = rs_branch_traits(&bare)->not_bilinear(&bare);
    if (!why) why = rs_branch_traits(&bare)->not_stochastic(&bare);
    if (why) return why;
    for (int32_t b = 0; b < layer->n_branches; b++) {
        const rs_branch *branch = &layer->branches[b];
        const rs_mlp_op *mlp = rs_branch_mlp(branch);
        if (b > 0 && !mlp) return "a second mixer in this layer";
        if (b > 0 && branch->joins) return "a parallel block";
        if (branch->inside.kind != RS_NORM_NONE) return "a norm inside the branch";
        if (mlp && mlp->activation == RS_ACT_RELU2) return "squared ReLU";
    }
    return NULL;
}

/* ---- rows ---- */

/* The mean of the rows less the first of them. */
static void mean_offset(double *mean, const double *x, int64_t rows, int64_t d)
{
    memset(mean, 0, (size_t)d * sizeof *mean);
    for (int64_t i = 0; i < rows; i++) /* differences from the first row: nothing cancels */
        for (int64_t k = 0; k < d; k++)
            mean[k] += (x[i * d + k] - x[k]) / (double)rows;
}

void rs_law_mean(double *mean, const double *x, int64_t rows, int64_t d)
{
    mean_offset(mean, x, rows, d);
    for (int64_t k = 0; k < d; k++)
        mean[k] += x[k];
}

void rs_law_centre(double *out, double *mean, const double *x, int64_t rows, int64_t d)
{
    mean_offset(mean, x, rows, d);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t k = 0; k < d; k++)
            out[i * d + k] = (x[i * d + k] - x[k]) - mean[k];
}

/* ---- norms, linearised ---- */

void rs_law_through_norm(double *r, int64_t rows, const double *x, const double *gain,
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

void rs_law_cubic_rows(double *delta, const rs_attention_view *view, const double *mean, double *p)
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

void rs_law_causal_rows(double *delta, int64_t n, const double *mean)
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

/* ---- MLP ---- */

double rs_law_activation(double x, rs_activation a)
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

double rs_law_slope(double x, rs_activation a)
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
