/* dense_matrix.c: the weights of a description as plain float64 matrices. */
#include "engine/dense_matrix.h"

#include "base/memory.h"

static int64_t vector_of(const rs_dense *dense, int64_t u)
{
    return dense->first + u / dense->run * dense->stride + u % dense->run;
}

/* View elements (row, col) .. (row, col + count - 1) of the stored matrix. */
static void decode_stretch(double *out, const rs_dense *dense, int64_t row, int64_t col,
                           int64_t count)
{
    rs_tensor_decode_f64(out, dense->weight, row * dense->cols + col, count);
    if (!dense->scale) return;
    int64_t per_row = (dense->cols + dense->scale_block_cols - 1) / dense->scale_block_cols;
    for (int64_t i = 0; i < count; i++) {
        double scale;
        rs_tensor_decode_f64(
            &scale, dense->scale,
            row / dense->scale_block_rows * per_row + (col + i) / dense->scale_block_cols, 1);
        out[i] *= scale;
    }
}

/* Stored columns are output units: each stored row is read once, in stretches of units that lie
 * side by side. */
static rs_status columns(double *w, const rs_dense *dense, int64_t first, int64_t count,
                         rs_error *err)
{
    double *line = rs_malloc((size_t)count, sizeof *line);
    if (!line) return rs_fail_memory(err, dense->weight->name, (size_t)count * sizeof *line);
    for (int64_t r = 0; r < dense->in; r++) {
        for (int64_t u = first; u < first + count;) {
            int64_t n = dense->run - u % dense->run;
            if (n > first + count - u) n = first + count - u;
            decode_stretch(line + (u - first), dense, r, vector_of(dense, u), n);
            u += n;
        }
        for (int64_t u = 0; u < count; u++)
            w[u * dense->in + r] = line[u];
    }
    rs_free(line);
    return RS_OK;
}

rs_status rs_dense_rows(double *w, double *bias, const rs_dense *dense, int64_t first,
                        int64_t count, rs_error *err)
{
    if (first < 0 || count < 0 || first + count > dense->out)
        return rs_fail(err, RS_E_INTERNAL, dense->weight->name, NULL,
                       "outputs %lld to %lld of %lld", (long long)first, (long long)(first + count),
                       (long long)dense->out);
    for (int64_t u = 0; bias && u < count; u++) {
        bias[u] = 0;
        if (!dense->bias) continue;
        rs_tensor_decode_f64(bias + u, dense->bias, vector_of(dense, first + u), 1);
        bias[u] *= rs_dense_factor_of(dense, first + u).bias;
    }
    if (!dense->out_is_row) RS_TRY(columns(w, dense, first, count, err));
    for (int64_t u = 0; u < count; u++) {
        double *row = w + u * dense->in;
        if (dense->out_is_row)
            decode_stretch(row, dense, vector_of(dense, first + u), 0, dense->in);
        double factor = rs_dense_factor_of(dense, first + u).weight;
        for (int64_t i = 0; i < dense->in && factor != 1; i++)
            row[i] *= factor;
    }
    return RS_OK;
}

void rs_norm_vectors(double *gain, double *bias, const rs_norm_op *norm)
{
    double plus = norm->kind == RS_NORM_RMSNORM_PLUS_ONE ? 1 : 0;
    for (int64_t i = 0; i < norm->dim; i++) {
        if (gain) gain[i] = norm->gain ? 0 : 1;
        if (bias) bias[i] = 0;
    }
    if (gain && norm->gain) {
        rs_tensor_decode_f64(gain, norm->gain, 0, norm->dim);
        for (int64_t i = 0; i < norm->dim; i++)
            gain[i] += plus;
    }
    if (bias && norm->bias) rs_tensor_decode_f64(bias, norm->bias, 0, norm->dim);
}
