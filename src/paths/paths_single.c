/*
 * paths_single.c: individual paths through the branch that is being passed.
 *
 * Until its first head a path is the one without heads, whose state is the embedding's sum of
 * length 0, so nothing is done for it. Behind a head its state is A B with A = P_h v (n×w) and
 * B = W_O,h (w×d): norms scale the rows of A and the columns of B, the next head needs A (B W_V),
 * and A B itself is multiplied out once, behind the last layer.
 */
#include "paths/paths_parts.h"

#include "linalg/blas.h"
#include "linalg/vector.h"

#include <math.h>
#include <string.h>

static void scale_all(double *x, double a, int64_t count)
{
    for (int64_t i = 0; i < count && a != 1; i++)
        x[i] *= a;
}

static void scale_rows(double *x, const rs_frozen_norm *norm, int64_t n, int64_t width)
{
    for (int64_t i = 0; i < n && norm->kind != RS_NORM_NONE; i++)
        scale_all(x + i * width, norm->factor[i], width);
}

/* Row scales multiply up; only ratios of the product are asked for. */
static void keep_in_range(double *product, int64_t count)
{
    double most = 0;
    for (int64_t i = 0; i < count; i++)
        most = fabs(product[i]) > most ? fabs(product[i]) : most;
    if (most > 0 && isfinite(most) && (most < 0x1p-300 || most > 0x1p300))
        scale_all(product, ldexp(1, -ilogb(most)), count);
}

/* out (cols×rows) = in (rows×cols, leading dimension ld), a cache line of rows at once. */
static void transpose(double *out, const double *in, int64_t rows, int64_t cols, int64_t ld)
{
    enum { LINE = 8 };
    for (int64_t i = 0; i < rows; i += LINE) {
        int64_t end = i + LINE < rows ? i + LINE : rows;
        for (int64_t j = 0; j < cols; j++)
            for (int64_t k = i; k < end; k++)
                out[j * rows + k] = in[k * ld + j];
    }
}

/* c (m×n) = a (m×k) op(b) */
static void multiply(double *c, const double *a, const double *b, CBLAS_TRANSPOSE op, int64_t ldb,
                     int64_t m, int64_t n, int64_t k)
{
    cblas_dgemm(CblasRowMajor, CblasNoTrans, op, (blasint)m, (blasint)n, (blasint)k, 1, a,
                (blasint)k, b, (blasint)ldb, 0, c, (blasint)n);
}

/* The norm's part on the side of the features: x (rows×d) <- x C diag(gain). */
static void norm_features(double *x, const rs_frozen_norm *norm, int64_t rows, int64_t d)
{
    for (int64_t i = 0; i < rows && norm->kind != RS_NORM_NONE; i++, x += d) {
        double mean = norm->kind == RS_NORM_LAYERNORM ? rs_sum(x, d) / (double)d : 0;
        for (int64_t c = 0; c < d; c++)
            x[c] = (x[c] - mean) * norm->gain[c];
    }
}

/* A is behind B in the room of a state. */
static double *left_of(const rs_single_path *path, int64_t d)
{
    return path->state + path->width * d;
}

static void apply_norm(rs_single_path *path, const rs_frozen_norm *norm, int64_t n, int64_t d)
{
    if (path->width == 0) {
        rs_frozen_apply(path->state, norm, n, d, false);
    } else {
        norm_features(path->state, norm, path->width, d);
        scale_rows(left_of(path, d), norm, n, path->width);
    }
}

/* v (n×value_dim) = before(state) W_V,h */
static void values_of(double *v, const rs_single_path *path, const double *w_v,
                      const rs_frozen_branch *f, double *scratch)
{
    int64_t n = f->n, d = f->d, vd = f->value_dim, rows = path->width > 0 ? path->width : n;
    double *in = scratch, *small = in + n * d;
    memcpy(in, path->state, (size_t)(rows * d) * sizeof *in);
    norm_features(in, &f->before, rows, d);
    multiply(path->width > 0 ? small : v, in, w_v, CblasTrans, d, rows, vd, d);
    if (path->width > 0) multiply(v, left_of(path, d), small, CblasNoTrans, vd, n, vd, rows);
    scale_rows(v, &f->before, n, vd);
}

/* state <- scale inside(P_h before(state) W_h) */
static void take_head(rs_single_path *path, int32_t head, const rs_frozen_branch *f,
                      double *scratch)
{
    int64_t n = f->n, d = f->d, vd = f->value_dim, width = f->heads * vd;
    double *v = scratch, *mixed = v + n * vd, *rest = mixed + n * vd;
    const double *p = f->mixing + head * n * n, *w_o = f->w_o + head * vd;
    values_of(v, path, f->w_v + head / (f->heads / f->kv_heads) * vd * d, f, rest);
    multiply(mixed, p, v, CblasNoTrans, vd, n, vd, n);
    scale_all(mixed, f->scale, n * vd);
    path->width = !f->merged && vd * (n + d) <= n * d ? vd : 0;
    if (path->width > 0) {
        transpose(path->state, w_o, d, vd, width);
        memcpy(left_of(path, d), mixed, (size_t)(n * vd) * sizeof *mixed);
    } else if (f->merged) {
        memcpy(path->state, mixed, (size_t)(n * d) * sizeof *mixed);
    } else {
        multiply(path->state, mixed, w_o, CblasTrans, width, n, d, vd);
    }
    apply_norm(path, &f->inside, n, d);
}

/* product <- diag(inside) P_h diag(before) product */
static void multiply_product(rs_single_path *path, int32_t head, const double *first_rows,
                             const rs_frozen_branch *f, double *scratch)
{
    int64_t n = f->n;
    const double *p = f->mixing + head * n * n;
    if (first_rows) { /* the product so far is diagonal */
        for (int64_t i = 0; i < n; i++)
            for (int64_t j = 0; j < n; j++)
                path->product[i * n + j] =
                    p[i * n + j] * first_rows[j] *
                    (f->before.kind == RS_NORM_NONE ? 1 : f->before.factor[j]);
    } else {
        scale_rows(path->product, &f->before, n, n);
        memcpy(scratch, path->product, (size_t)(n * n) * sizeof *scratch);
        multiply(path->product, p, scratch, CblasNoTrans, n, n, n, n);
    }
    scale_rows(path->product, &f->inside, n, n);
}

size_t rs_single_scratch(const rs_frozen_branch *f)
{
    size_t attends = (size_t)(f->n * (f->d + 3 * f->value_dim)), square = (size_t)(f->n * f->n);
    return attends > square ? attends : square;
}

void rs_single_advance(rs_single_path *path, int32_t head, const double *start, const double *rows,
                       const rs_frozen_branch *f, double *scratch)
{
    int64_t n = f->n, d = f->d;
    if (head < 0) {
        if (path->width == RS_PATH_NO_HEAD) return;
        scale_all(path->width > 0 ? left_of(path, d) : path->state, f->skip,
                  path->width > 0 ? n * path->width : n * d);
    } else {
        bool first = path->width == RS_PATH_NO_HEAD;
        if (first) {
            memcpy(path->state, start, (size_t)(n * d) * sizeof *start);
            path->width = 0;
        }
        take_head(path, head, f, scratch);
        if (path->product) multiply_product(path, head, first ? rows : NULL, f, scratch);
    }
    apply_norm(path, &f->after, n, d);
    if (!path->product) return;
    scale_rows(path->product, &f->after, n, n);
    keep_in_range(path->product, n * n);
}

void rs_single_rows(double *rows, const rs_frozen_branch *f)
{
    scale_rows(rows, &f->after, f->n, 1);
    keep_in_range(rows, f->n);
}

void rs_single_finish(rs_single_path *path, const double *start, const double *rows, int64_t n,
                      int64_t d, double *scratch)
{
    if (path->width == RS_PATH_NO_HEAD) {
        memcpy(path->state, start, (size_t)(n * d) * sizeof *start);
        for (int64_t i = 0; i < n && path->product; i++)
            path->product[i * n + i] = rows[i];
    } else if (path->width > 0) {
        multiply(scratch, left_of(path, d), path->state, CblasNoTrans, d, n, d, path->width);
        memcpy(path->state, scratch, (size_t)(n * d) * sizeof *scratch);
    }
}
