/* op_check.c: whether the pieces of a description fit together, for the checks of ops (op_*.c) and
 * of networks. */
#include "network/op_check.h"

#include <math.h>

bool rs_counts(int64_t n)
{
    return n > 0 && n <= INT32_MAX;
}

/* How many blocks of that size cover n. */
static int64_t blocks_of(int64_t n, int64_t block)
{
    return (n + block - 1) / block;
}

static rs_status check_scale(const rs_dense *dense, rs_error *err)
{
    int64_t rows = dense->scale_block_rows, cols = dense->scale_block_cols;
    if (!dense->scale) return RS_OK;
    if (rs_counts(rows) && rs_counts(cols) &&
        dense->scale->count >= blocks_of(dense->rows, rows) * blocks_of(dense->cols, cols))
        return RS_OK;
    return rs_fail(err, RS_E_TENSOR_SHAPE, dense->scale->name, NULL,
                   "holds %lld scales, which do not cover %lld x %lld numbers in blocks of %lld x "
                   "%lld",
                   (long long)dense->scale->count, (long long)dense->rows, (long long)dense->cols,
                   (long long)rows, (long long)cols);
}

/* Factors cover all outputs, once each. */
static rs_status check_factors(const rs_dense *dense, rs_error *err)
{
    int64_t units = 0;
    for (int32_t i = 0; i < dense->n_factors; i++) {
        const rs_dense_factor *f = &dense->factors[i];
        bool some = rs_counts(f->units) && units <= dense->out - f->units;
        if (!some || !isfinite(f->weight) || !isfinite(f->bias)) break;
        units += f->units;
    }
    if (!dense->factors || units == dense->out) return RS_OK;
    return rs_fail(err, RS_E_INTERNAL, dense->weight->name, "please report this",
                   "factors of %lld outputs, and there are %lld", (long long)units,
                   (long long)dense->out);
}

rs_status rs_check_dense(const rs_dense *dense, int64_t in, int64_t out, const char *where,
                         rs_error *err)
{
    int64_t stored = dense->out_is_row ? dense->rows : dense->cols;
    int64_t inner = dense->out_is_row ? dense->cols : dense->rows;
    if (!dense->weight) return rs_fail(err, RS_E_INTERNAL, where, NULL, "has no weight");
    if (!rs_counts(dense->in) || !rs_counts(dense->out) || dense->in != in || dense->out != out)
        return rs_fail(err, RS_E_TENSOR_SHAPE, dense->weight->name, NULL,
                       "maps %lld to %lld numbers where %s maps %lld to %lld", (long long)dense->in,
                       (long long)dense->out, where, (long long)in, (long long)out);
    int64_t last = dense->run > 0 ? (dense->out - 1) / dense->run : 0;
    if (inner != in || !rs_counts(stored) || dense->run < 1 || dense->first < 0 ||
        dense->stride < (last > 0 ? dense->run : 0) || dense->first + dense->run < 0 ||
        (last > 0 && dense->stride > stored) || dense->first > stored ||
        dense->first + last * dense->stride + (dense->out - 1) % dense->run >= stored ||
        dense->rows * dense->cols > dense->weight->count)
        return rs_fail(err, RS_E_TENSOR_SHAPE, dense->weight->name, NULL,
                       "holds %lld numbers as %lld x %lld, which do not make a map of %lld to "
                       "%lld for %s",
                       (long long)dense->weight->count, (long long)dense->rows,
                       (long long)dense->cols, (long long)in, (long long)out, where);
    if (dense->bias &&
        dense->first + last * dense->stride + (dense->out - 1) % dense->run >= dense->bias->count)
        return rs_fail(err, RS_E_TENSOR_SHAPE, dense->bias->name, NULL,
                       "holds %lld numbers, too few for %lld outputs",
                       (long long)dense->bias->count, (long long)out);
    RS_TRY(check_factors(dense, err));
    return check_scale(dense, err);
}

rs_status rs_check_vector(const rs_tensor *tensor, int64_t count, rs_error *err)
{
    if (!tensor || tensor->count >= count) return RS_OK;
    return rs_fail(err, RS_E_TENSOR_SHAPE, tensor->name, NULL, "holds %lld numbers, not %lld",
                   (long long)tensor->count, (long long)count);
}

rs_status rs_check_norm(const rs_norm_op *norm, int64_t dim, const char *where, rs_error *err)
{
    if (norm->kind == RS_NORM_NONE) return RS_OK;
    if (norm->dim != dim)
        return rs_fail(err, RS_E_TENSOR_SHAPE, where, NULL, "norm of %lld numbers, not %lld",
                       (long long)norm->dim, (long long)dim);
    RS_TRY(rs_check_vector(norm->gain, dim, err));
    return rs_check_vector(norm->bias, dim, err);
}

rs_status rs_check_conv(const rs_conv_op *conv, int64_t channels, const char *where, rs_error *err)
{
    if (conv->channels != channels || !rs_counts(conv->width) ||
        !rs_counts(conv->channels * conv->width))
        return rs_fail(err, RS_E_CONFIG_SIZE, where, NULL,
                       "a convolution of %lld channels and width %lld for %lld channels",
                       (long long)conv->channels, (long long)conv->width, (long long)channels);
    if (!conv->weight)
        return rs_fail(err, RS_E_INTERNAL, where, "please report this",
                       "a mixer without its convolution");
    int64_t held = conv->weight->count;
    for (int i = 0; i < 2 && conv->more[i]; i++) {
        if (held % conv->width)
            return rs_fail(err, RS_E_TENSOR_SHAPE, conv->weight->name, NULL,
                           "holds parts of kernels of width %lld", (long long)conv->width);
        held += conv->more[i]->count;
    }
    if (held < conv->channels * conv->width)
        return rs_fail(err, RS_E_TENSOR_SHAPE, conv->weight->name, NULL,
                       "holds %lld numbers, not %lld", (long long)held,
                       (long long)(conv->channels * conv->width));
    return rs_check_vector(conv->bias, conv->channels, err);
}

rs_status rs_check_numbers(const rs_weight_list *list, const void *owner, rs_error *err)
{
    for (size_t i = 0; i < list->n; i++) {
        const rs_weight_row *row = &list->rows[i];
        const rs_tensor *tensor = rs_weight_numbers(row, owner);
        if (tensor) RS_TRY(rs_check_vector(tensor, row->count(owner), err));
    }
    return RS_OK;
}

/* ---- answers ---- */

bool rs_op_always(const rs_branch *branch)
{
    (void)branch;
    return true;
}

bool rs_op_never(const rs_branch *branch)
{
    (void)branch;
    return false;
}

double rs_op_no_row_sum(const rs_branch *branch)
{
    (void)branch;
    return NAN;
}

const char *rs_op_no_distribution(const rs_branch *branch)
{
    (void)branch;
    return "a mixer without a softmax, whose rows are no distributions";
}

const char *rs_op_no_logits(const rs_branch *branch)
{
    (void)branch;
    return "a mixer without a softmax, which has no logits";
}

bool rs_op_drop_norm(rs_norm_op *norm)
{
    bool there = norm->kind != RS_NORM_NONE;
    *norm = (rs_norm_op){.kind = RS_NORM_NONE};
    return there;
}

bool rs_op_drop_map(rs_dense *map)
{
    bool there = map->weight != NULL;
    *map = (rs_dense){0};
    return there;
}
