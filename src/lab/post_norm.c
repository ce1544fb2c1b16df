/* post_norm.c: stacks of Y <- rn(skip Y + M Y W), and their nearly equal tokens. */
#include "lab/post_norm.h"

#include <math.h>

void rs_post_norm_exact(rs_toy *toy)
{
    for (int32_t l = 0; l < toy->network->n_layers; l++)
        toy->network->layers[l].branches[0].after.eps = 0; /* rows never come near zero */
}

rs_status rs_post_norm_selective(rs_toy *toy, int depth, int width, double decay,
                                 const rs_context *context, rs_error *err)
{
    /* rows of length sqrt(width): products over `width` are cosines */
    json_t *arch = json_pack(
        "{s:i, s:i, s:i, s:s, s:s, s:f, s:s, s:f, s:s, s:s, s:s, s:{s:s, s:s, s:s}}", "depth",
        depth, "d_model", width, "heads", 1, "mixer", "linear_attention", "mask", "causal", "decay",
        decay, "value_map", "identity", "temperature", (double)width, "norm", "post", "norm_kind",
        "rmsnorm", "mlp", "none", "init", "wq", "identity", "wk", "identity", "wo", "none");
    RS_TRY(rs_toy_open(toy, arch, 0, context, err));
    rs_post_norm_exact(toy);
    return RS_OK;
}

static rs_status open_attention(rs_toy *toy, int depth, int width, uint64_t seed,
                                const rs_context *context, rs_error *err)
{
    json_t *arch = json_pack("{s:i, s:i, s:s, s:s, s:s, s:s, s:{s:s, s:s}}", "depth", depth,
                             "d_model", width, "norm", "post", "norm_kind", "rmsnorm", "mask",
                             "causal", "mlp", "none", "init", "wv", "identity", "wo", "none");
    RS_TRY(rs_toy_open(toy, arch, seed, context, err));
    rs_post_norm_exact(toy);
    return RS_OK;
}

rs_status rs_post_norm_open(rs_toy *toy, int depth, int width, const rs_context *context,
                            rs_error *err)
{
    return open_attention(toy, depth, width, 0, context, err);
}

rs_status rs_post_norm_attention(rs_toy *toy, int depth, int width, const rs_context *context,
                                 rs_error *err)
{
    return open_attention(toy, depth, width, context->seed, context, err);
}

rs_status rs_post_norm_give(rs_toy *toy, int32_t first, int32_t step, const double *m, int64_t n,
                            rs_error *err)
{
    return rs_toy_mix_some(toy, first, step, m, n, RS_GRAPH_GIVEN, err);
}

void rs_post_norm_skip(rs_toy *toy, double skip)
{
    for (int32_t l = 0; l < toy->network->n_layers; l++)
        toy->network->layers[l].branches[0].skip = skip;
}

/* ---- how far tokens are apart ---- */

/* mu of unit rows, those on the other side of the first turned where `lines`. */
static double unit_spread(const double *y, int64_t n, int64_t d, bool lines)
{
    double sum = 0;
    for (int64_t k = 0; k < d; k++) {
        double mean = 0, square = 0, first = 0;
        for (int pass = 0; pass < 2; pass++)
            for (int64_t i = 0; i < n; i++) {
                const double *row = y + i * d;
                double along = 0;
                for (int64_t j = 0; j < d; j++)
                    along += row[j] * y[j];
                double unit = row[k] / rs_norm_frobenius(row, 1, d);
                if (lines && along < 0) unit = -unit;
                if (i == 0) first = unit;
                /* about the first row's, which loses no digits where all are nearly equal */
                if (pass == 0)
                    mean += (unit - first) / (double)n;
                else
                    square += (unit - first - mean) * (unit - first - mean);
            }
        sum += square;
    }
    return sqrt(sum);
}

double rs_post_norm_spread(const double *y, int64_t n, int64_t d)
{
    return unit_spread(y, n, d, false);
}

double rs_post_norm_line_spread(const double *y, int64_t n, int64_t d)
{
    return unit_spread(y, n, d, true);
}

/* ---- nearly equal tokens ---- */

static double row_sum(const double *m, int64_t n, int64_t i)
{
    double sum = 0;
    for (int64_t j = 0; j < n; j++)
        sum += m[i * n + j];
    return sum;
}

double rs_post_norm_multipliers(double *out, const double *m, int64_t n, double skip, double w)
{
    double largest = 0;
    for (int64_t i = 1; i < n; i++) {
        out[i - 1] = (skip + w * m[i * n + i]) / (skip + w * row_sum(m, n, i));
        largest = fmax(largest, fabs(out[i - 1]));
    }
    return largest;
}

double rs_post_norm_signs(const double *m, int64_t n, double skip, double w)
{
    double first = skip + w * row_sum(m, n, 0), least = fabs(first), sign = 1;
    for (int64_t i = 1; i < n; i++) {
        double scale = skip + w * row_sum(m, n, i);
        if ((scale < 0) != (first < 0)) sign = -1;
        least = fmin(least, fabs(scale));
    }
    return sign * least;
}

rs_post_norm_end rs_post_norm_predict(const double *m, int64_t n, double skip, double w)
{
    enum { MOST = 64 };
    double g[MOST];
    if (n > MOST || rs_post_norm_multipliers(g, m, n, skip, w) > 1) return RS_ENDS_REPELLED;
    return rs_post_norm_signs(m, n, skip, w) < 0 ? RS_ENDS_UP_TO_SIGN : RS_ENDS_EQUAL;
}
