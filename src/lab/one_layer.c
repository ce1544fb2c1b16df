/* one_layer.c: one attention layer, drawn and run. */
#include "lab/one_layer.h"

#include <float.h>
#include <math.h>
#include <string.h>

int64_t rs_pick_between(rs_random *random, int64_t low, int64_t high)
{
    return low + (int64_t)(rs_random_uniform(random) * (double)(high - low + 1));
}

double rs_pick_value(rs_random *random, const double *values, int n)
{
    return values[(int)(rs_random_uniform(random) * n)];
}

/* ---- drawing ---- */

static void draw_residual(rs_one_layer *a, const rs_one_draw *draw, rs_random *random)
{
    double rows[RS_ONE_TOKENS], cols[RS_ONE_WIDTH];
    rs_draw_gaussian(a->residual, a->n * a->d, 1, random);
    for (int64_t i = 0; i < a->n; i++)
        rows[i] = draw->kind == RS_ONE_UNEQUAL_TOKENS ? exp(1.5 * rs_random_normal(random)) : 1;
    for (int64_t j = 0; j < a->d; j++)
        cols[j] = draw->kind == RS_ONE_UNEQUAL_FEATURES ? exp(1.5 * rs_random_normal(random)) : 1;
    for (int64_t i = 0; i < a->n * a->d; i++) {
        a->residual[i] *= rows[i / a->d] * cols[i % a->d];
        if (draw->kind == RS_ONE_SPARSE_TOKENS && rs_random_uniform(random) >= 0.3)
            a->residual[i] = 0;
    }
    double factor = draw->size / fmax(rs_norm_composite(a->residual, a->n, a->d), DBL_MIN);
    for (int64_t i = 0; i < a->n * a->d; i++)
        a->residual[i] *= factor;
}

/* Ranges of the rows of E = R W_QK Rᵀ/sqrt(d). */
static void find_ranges(rs_one_layer *a, int32_t h)
{
    double half[RS_ONE_MATRIX];
    rs_small_product(half, a->residual, a->qk[h], a->n, a->d, a->d);
    for (int64_t i = 0; i < a->n; i++) {
        double low = INFINITY, high = -INFINITY;
        for (int64_t j = 0; j < a->n; j++) {
            double e = 0;
            for (int64_t k = 0; k < a->d; k++)
                e += half[i * a->d + k] * a->residual[j * a->d + k] / sqrt((double)a->d);
            low = fmin(low, e);
            high = fmax(high, e);
        }
        a->range[h][i] = high - low;
    }
}

double rs_one_layer_range(const rs_one_layer *layer, int32_t head)
{
    double largest = 0;
    for (int64_t i = 0; i < layer->n; i++)
        largest = fmax(largest, layer->range[head][i]);
    return largest;
}

static void find_base(rs_one_layer *a, int32_t h, const double *g)
{
    double largest = -INFINITY, sum = 0, *p = a->base[h];
    for (int64_t i = 0; i < a->n; i++) {
        p[i] = 0;
        for (int64_t k = 0; k < a->d; k++)
            p[i] += a->residual[i * a->d + k] * g[k] / sqrt((double)a->d);
        largest = fmax(largest, p[i]);
    }
    for (int64_t i = 0; i < a->n; i++)
        sum += p[i] = exp(p[i] - largest);
    for (int64_t i = 0; i < a->n; i++)
        p[i] /= sum;
}

void rs_one_layer_complete(rs_one_layer *layer, double g[][RS_ONE_WIDTH])
{
    int64_t d = layer->d;
    for (int32_t h = 0; h < layer->heads; h++) {
        find_ranges(layer, h);
        find_base(layer, h, g[h]);
        for (int64_t k = 0; k < d; k++) {
            layer->bias[h][k] = g[h][k];
            for (int64_t j = 0; j < d; j++)
                layer->bias[h][k] -= layer->qk[h][j * d + k] * layer->mean[j];
        }
    }
    for (int64_t i = 0; i < layer->n * d; i++)
        layer->tokens[i] = layer->residual[i] + layer->mean[i % d];
}

static void draw_head(rs_one_layer *a, int32_t h, double *g, const rs_one_draw *draw,
                      rs_random *random)
{
    double *qk = a->qk[h];
    int64_t d = a->d;
    rs_draw_gaussian(qk, d * d, draw->weights, random);
    for (int64_t i = 0; draw->kind == RS_ONE_SPARSE_WEIGHTS && i < d * d; i++)
        if (rs_random_uniform(random) >= 0.2) qk[i] = 0;
    rs_draw_gaussian(a->values[h], d * d, 1, random);
    rs_draw_gaussian(g, d, draw->mean, random);
    for (int64_t k = 0; k < d; k++)
        for (int64_t j = 0; j < d; j++)
            g[k] += qk[j * d + k] * a->mean[j];
    find_ranges(a, h);
    double range = rs_one_layer_range(a, h);
    for (int64_t i = 0; range > draw->max_range && i < d * d; i++)
        qk[i] *= draw->max_range / range;
}

void rs_one_layer_draw(rs_one_layer *layer, const rs_one_draw *draw, rs_random *random)
{
    double g[RS_ONE_HEADS][RS_ONE_WIDTH];
    layer->n = draw->n;
    layer->d = draw->d;
    layer->heads = draw->heads;
    draw_residual(layer, draw, random);
    rs_draw_gaussian(layer->mean, layer->d, draw->mean, random);
    for (int32_t h = 0; h < layer->heads; h++)
        draw_head(layer, h, g[h], draw, random);
    rs_one_layer_complete(layer, g);
}

static void hash_numbers(double *out, uint32_t tag, int64_t count, double scale)
{
    for (int64_t k = 0; k < count; k++)
        out[k] = scale * (rs_lab_hash(tag, (uint32_t)k) / 2147483648.0 - 1);
}

void rs_one_layer_hashed(rs_one_layer *layer, int32_t heads)
{
    double g[RS_ONE_HEADS][RS_ONE_WIDTH];
    *layer = (rs_one_layer){.n = 4, .d = 3, .heads = heads};
    hash_numbers(layer->residual, 1, 12, 0.8);
    hash_numbers(layer->mean, 2, 3, 1);
    for (int32_t h = 0; h < heads; h++) {
        hash_numbers(layer->qk[h], 10 + (uint32_t)h, 9, 1);
        hash_numbers(layer->values[h], 20 + (uint32_t)h, 9, 1);
        hash_numbers(g[h], 30 + (uint32_t)h, 3, 1);
    }
    rs_one_layer_complete(layer, g);
}

/* ---- running ---- */

/* Heads side by side: [d, heads * d]. */
static void side_by_side(double *out, const rs_one_layer *a, double one[][RS_ONE_SQUARE])
{
    int64_t d = a->d, width = a->heads * d;
    for (int32_t h = 0; h < a->heads; h++)
        for (int64_t i = 0; i < d; i++)
            memcpy(out + i * width + h * d, one[h] + i * d, (size_t)d * sizeof *out);
}

static rs_status set_weights(rs_toy *toy, rs_one_layer *a, rs_error *err)
{
    double w[RS_ONE_HEADS * RS_ONE_SQUARE], b[RS_ONE_HEADS * RS_ONE_WIDTH];
    double one[RS_ONE_HEADS][RS_ONE_SQUARE] = {{0}};
    rs_attention_op *op = rs_toy_attention(toy, 0);
    for (int32_t h = 0; h < a->heads; h++)
        for (int64_t i = 0; i < a->d; i++) {
            b[h * a->d + i] = a->bias[h][i];
            one[h][i * a->d + i] = 1;
        }
    side_by_side(w, a, a->qk);
    RS_TRY(rs_toy_set(toy, &op->q, w, b, err));
    side_by_side(w, a, one);
    RS_TRY(rs_toy_set(toy, &op->k, w, NULL, err));
    side_by_side(w, a, a->values);
    return rs_toy_set(toy, &op->v, w, NULL, err);
}

rs_status rs_one_layer_run(rs_toy_trace *trace, rs_one_layer *layer, const rs_context *context,
                           rs_error *err)
{
    rs_toy toy;
    json_t *arch =
        json_pack("{s:i, s:I, s:i, s:I, s:s, s:f, s:s, s:{s:s, s:s, s:s, s:s}}", "depth", 1,
                  "d_model", (json_int_t)layer->d, "heads", (int)layer->heads, "d_head",
                  (json_int_t)layer->d, "norm", "none", "skip_mixer", 0.0, "mlp", "none", "init",
                  "wq", "zero", "wk", "zero", "wv", "zero", "wo", "none");
    RS_TRY(rs_toy_open(&toy, arch, context->seed, context, err));
    rs_status status = set_weights(&toy, layer, err);
    if (status == RS_OK) status = rs_toy_run(trace, &toy, layer->tokens, 1, layer->n, true, err);
    rs_toy_close(&toy);
    return status;
}

void rs_one_layer_tracked(double *out, const rs_one_layer *layer, const rs_toy_trace *trace)
{
    int64_t n = layer->n, d = layer->d;
    double at[RS_ONE_WIDTH], centre[RS_ONE_WIDTH] = {0};
    for (int32_t h = 0; h < layer->heads; h++) {
        for (int64_t k = 0; k < d; k++) {
            at[k] = layer->mean[k];
            for (int64_t j = 0; j < n; j++)
                at[k] += layer->base[h][j] * layer->residual[j * d + k];
        }
        for (int64_t k = 0; k < d; k++)
            for (int64_t j = 0; j < d; j++)
                centre[k] += at[j] * layer->values[h][j * d + k];
    }
    const double *y = rs_toy_state(trace, 1, 0);
    for (int64_t i = 0; i < n * d; i++)
        out[i] = y[i] - centre[i % d];
}
