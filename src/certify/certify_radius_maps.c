/* certify_radius_maps.c: linear maps and causal convolutions with radii (docs/certificates.md,
 * C11). */
#include "certify/certify_radius.h"

#include "engine/dense_matrix.h"
#include "linalg/blas.h"
#include "linalg/norm_bounds.h"
#include "linalg/threads.h"

#include <string.h>

/* ---- maps ---- */

rs_status rs_radius_map_open(rs_radius_map *map, rs_arena *arena, int64_t rows, int64_t cols,
                             rs_error *err)
{
    map->cols = cols;
    RS_TRY(rs_radius_room(&map->x, arena, rows, cols, err));
    RS_TRY(rs_radius_room(&map->spread, arena, rows, 1, err));
    RS_TRY(rs_radius_room(&map->rounding, arena, rows, 1, err));
    RS_TRY(rs_radius_room(&map->share, arena, cols, 1, err));
    return rs_radius_room(&map->own, arena, cols, 1, err);
}

double rs_radius_map_size(double rows, double cols)
{
    return rows * (cols + 2) + 2 * cols;
}

/* Outputs that a thread decodes at once, and entries that one product adds up. */
enum { UNITS = 128, TERMS = 128 };

double rs_radius_apply_size(const rs_dense *dense, double rows, int threads)
{
    return threads * UNITS * ((double)dense->in + 1 + rows);
}

/* The matrix; its product with itself, and a copy (norm_bounds.c). */
double rs_radius_map_norm_size(const rs_dense *dense)
{
    double in = (double)dense->in, out = (double)dense->out, least = in < out ? in : out;
    return in * out + 2 * least * least;
}

/* A thread's weights, and a product on its way. */
typedef struct map_room {
    double *w, *part; /* [units, in + 1], [rows, units] */
} map_room;

/* out [rows, units] with leading dimension cols: the sum of products of TERMS entries each, so that no
 * entry passes more roundings than TERMS and the number of products, in whatever order BLAS adds. */
static void multiply_rows(double *out, int64_t cols, const map_room *room, int64_t units,
                          int64_t in, const rs_radius_rows *rows)
{
    for (int64_t first = 0; first < in; first += TERMS) {
        int64_t terms = in - first < TERMS ? in - first : TERMS;
        cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasTrans, (blasint)rows->n, (blasint)units,
                    (blasint)terms, 1, rows->x + first, (blasint)rows->ld, room->w + first,
                    (blasint)in, 0, first ? room->part : out, (blasint)(first ? units : cols));
        for (int64_t i = 0; i < rows->n && first; i++)
            for (int64_t u = 0; u < units; u++)
                out[i * cols + u] += room->part[i * units + u];
    }
}

/* Outputs first .. first+units-1. */
static rs_status map_units(rs_radius_map *out, const map_room *room, const rs_dense *dense,
                           int64_t first, int64_t units, const rs_radius_rows *rows, rs_error *err)
{
    int64_t in = dense->in;
    double *bias = room->w + units * in;
    RS_TRY(rs_dense_rows(room->w, bias, dense, first, units, err));
    for (int64_t u = 0; u < units; u++) {
        out->share[first + u] = rs_radius_length(room->w + u * in, in);
        /* the sum with the bias, and the bias times a configuration's factor */
        out->own[first + u] = 4 * RS_RADIUS_U * fabs(bias[u]) + RS_RADIUS_TINY;
    }
    multiply_rows(out->x + first, out->cols, room, units, in, rows);
    for (int64_t i = 0; i < rows->n; i++)
        for (int64_t u = 0; u < units; u++)
            out->x[i * out->cols + first + u] += bias[u];
    return RS_OK;
}

static void spread_rows(rs_radius_map *out, int64_t in, const rs_radius_rows *rows,
                        const rs_context *context)
{
    double terms = (double)(in < TERMS ? in : TERMS);
    /* two more for a factor of the map and the sum with the bias */
    double gamma = rs_gamma(terms + (double)in / TERMS + 8);
    out->radius = rows->radius;
#pragma omp parallel for num_threads(context->threads) schedule(static)
    for (int64_t i = 0; i < rows->n; i++) {
        double length = rs_radius_length(rows->x + i * rows->ld, in);
        out->rounding[i] = gamma * length * RS_RADIUS_GROW + RS_RADIUS_TINY;
        out->spread[i] = (rows->radius[i] + out->rounding[i]) * RS_RADIUS_GROW;
    }
}

rs_status rs_radius_apply(rs_radius_map *out, const rs_dense *dense, const rs_radius_rows *rows,
                          const rs_context *context, rs_error *err)
{
    size_t weights = (size_t)(UNITS * (dense->in + 1)), all;
    size_t most = weights + (size_t)(UNITS * rows->n);
    bool fits = rs_size_mul((size_t)context->threads, most, &all);
    double *work = fits ? rs_malloc(all, sizeof *work) : NULL;
    if (!work) return rs_fail_memory(err, dense->weight->name, most * sizeof *work);
    rs_status kept = RS_OK;
    rs_error kept_error = {0};
    spread_rows(out, dense->in, rows, context);
#pragma omp parallel for num_threads(context->threads) schedule(dynamic)
    for (int64_t first = 0; first < dense->out; first += UNITS) {
        double *own = work + (size_t)rs_thread_number() * most;
        map_room room = {own, own + weights};
        int64_t left = dense->out - first;
        rs_error error = {0};
        rs_status status =
            map_units(out, &room, dense, first, left < UNITS ? left : UNITS, rows, &error);
        if (status != RS_OK) rs_keep_first(&kept, &kept_error, status, &error);
    }
    rs_free(work);
    if (kept != RS_OK && err) *err = kept_error;
    return kept;
}

rs_status rs_radius_map_norm(double *two, const rs_dense *dense, rs_error *err)
{
    size_t count;
    bool fits = rs_size_mul((size_t)dense->out, (size_t)dense->in, &count);
    double *w = fits ? rs_malloc(count, sizeof *w) : NULL;
    if (!w) return rs_fail_memory(err, dense->weight->name, SIZE_MAX);
    rs_status status = rs_dense_rows(w, NULL, dense, 0, dense->out, err);
    if (status == RS_OK) status = rs_spectral_bound(two, w, dense->out, dense->in, err);
    /* a factor of the map rounds each entry */
    if (status == RS_OK) *two += rs_length_bound(w, (int64_t)count) * 0x1p-50;
    rs_free(w);
    return status;
}

/* ---- causal convolution and SiLU ---- */

/* The weights, the channels of one tap side by side, from up to three tensors. */
static rs_status read_kernel(rs_radius_conv *conv, rs_arena *arena, rs_error *err)
{
    const rs_conv_op *op = conv->op;
    const rs_tensor *tensors[] = {op->weight, op->more[0], op->more[1]};
    int64_t width = op->width;
    double *w;
    RS_TRY(rs_radius_room(&w, arena, op->channels, width, err));
    for (int64_t t = 0, from = 0; t < 3 && from < op->channels && tensors[t]; t++) {
        int64_t own = tensors[t]->count / width, left = op->channels - from;
        int64_t n = own < left ? own : left;
        rs_tensor_decode_f64(w, tensors[t], 0, n * width);
        for (int64_t j = 0; j < width; j++)
            for (int64_t c = 0; c < n; c++)
                conv->kernel[j * op->channels + from + c] = w[c * width + j];
        from += n;
    }
    if (op->bias) rs_tensor_decode_f64(conv->bias, op->bias, 0, op->channels);
    return RS_OK;
}

rs_status rs_radius_conv_open(rs_radius_conv *conv, rs_arena *arena, const rs_conv_op *op,
                              int64_t rows, rs_error *err)
{
    conv->op = op;
    RS_TRY(rs_radius_room(&conv->kernel, arena, op->width, op->channels, err));
    RS_TRY(rs_radius_room(&conv->bias, arena, op->channels, 1, err));
    RS_TRY(rs_radius_room(&conv->before, arena, op->width, op->channels, err));
    RS_TRY(rs_radius_room(&conv->before_spread, arena, op->width, 1, err));
    RS_TRY(rs_radius_room(&conv->x, arena, rows, op->channels, err));
    RS_TRY(rs_radius_room(&conv->radius, arena, rows, op->channels, err));
    return read_kernel(conv, arena, err);
}

double rs_radius_conv_size(const rs_conv_op *op, double rows)
{
    double channels = (double)op->channels;
    return channels * (3 * (double)op->width + 1 + 2 * rows);
}

/* A row as the convolution reads it; x NULL: before the sample. */
typedef struct conv_row {
    const double *x;
    double spread;
} conv_row;

static conv_row row_at(const rs_radius_conv *conv, const rs_radius_map *map, int64_t first,
                       const rs_states_part *part, int64_t row)
{
    if (row >= part->from) return (conv_row){map->x + row * map->cols + first, map->spread[row]};
    if (part->begins) return (conv_row){NULL, 0};
    int64_t at = row - part->from + conv->op->width - 1;
    return (conv_row){conv->before + at * conv->op->channels, conv->before_spread[at]};
}

static void convolve_row(const rs_radius_conv *conv, const rs_radius_map *map, int64_t first,
                         const rs_states_part *part, int64_t row)
{
    int64_t channels = conv->op->channels, width = conv->op->width;
    double *x = conv->x + row * channels, *radius = conv->radius + row * channels;
    const double *share = map->share + first, *own = map->own + first;
    double gamma = rs_gamma((double)width + 4);
    for (int64_t c = 0; c < channels; c++) {
        x[c] = conv->bias[c];
        radius[c] = gamma * fabs(x[c]);
    }
    for (int64_t j = 0; j < width; j++) {
        conv_row in = row_at(conv, map, first, part, row - (width - 1) + j);
        const double *kernel = conv->kernel + j * channels;
        for (int64_t c = 0; c < channels && in.x; c++) {
            x[c] += kernel[c] * in.x[c];
            radius[c] += fabs(kernel[c]) * (in.spread * share[c] + own[c] + gamma * fabs(in.x[c]));
        }
    }
    double grow = (1 + gamma) * RS_RADIUS_GROW;
    for (int64_t c = 0; c < channels; c++) {
        x[c] = rs_radius_silu(x[c]);
        radius[c] = rs_radius_behind_silu(x[c], (radius[c] + RS_RADIUS_TINY) * grow);
    }
}

/* Keeps the rows that the first ones of the next panel look back to; zeros before the sample. */
static void keep_rows(rs_radius_conv *conv, const rs_radius_map *map, int64_t first,
                      const rs_states_part *part)
{
    int64_t channels = conv->op->channels, width = conv->op->width;
    for (int64_t j = 0; j < width - 1; j++) {
        conv_row in = row_at(conv, map, first, part, part->to - (width - 1) + j);
        double *out = conv->before + j * channels;
        conv->before_spread[j] = in.spread;
        if (in.x)
            memmove(out, in.x, (size_t)channels * sizeof *out);
        else
            memset(out, 0, (size_t)channels * sizeof *out);
    }
}

void rs_radius_convolve(rs_radius_conv *conv, const rs_radius_map *map, int64_t first,
                        const rs_states_part *parts, int64_t n_parts, const rs_context *context)
{
#pragma omp parallel num_threads(context->threads)
    for (int64_t p = 0; p < n_parts; p++) {
#pragma omp for schedule(static) nowait
        for (int64_t i = parts[p].from; i < parts[p].to; i++)
            convolve_row(conv, map, first, &parts[p], i);
    }
    if (n_parts > 0) keep_rows(conv, map, first, &parts[n_parts - 1]);
}
