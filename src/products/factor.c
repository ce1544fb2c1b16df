/*
 * factor.c: reading head factors out of mapped tensors.
 *
 * A tile is a stretch of the tensor decoded to doubles: r vectors × some features when vectors are
 * tensor rows, or some tensor rows × the width of a bundle when vectors are columns. It is sized to
 * stay in the second-level cache while BLAS multiplies it with itself.
 */
#include "products/factor.h"

#include "linalg/blas.h"
#include "linalg/gram.h"

#include <math.h>
#include <string.h>

enum {
    TILE_DOUBLES = 32768, /* 256 KiB */
    TILE_STEP = 256,      /* features at a time: whole blocks of every quantised type */
    BUNDLE_WIDTH = 512,   /* columns decoded together */
    AHEAD = 16            /* tensor rows between the one that is decoded and the one fetched */
};

int64_t rs_factor_features(const rs_factor *factor, rs_fold fold)
{
    bool shifted = fold.norms && factor->gain_bias;
    return factor->features + (fold.biases && (factor->bias || shifted));
}

bool rs_factor_same(const rs_factor *a, const rs_factor *b)
{
    return a->tensor == b->tensor && a->first == b->first && a->inner == b->inner &&
           a->vector_is_row == b->vector_is_row && a->gain == b->gain &&
           a->inner_gain == b->inner_gain && a->bias == b->bias && a->norm == b->norm;
}

size_t rs_factor_bundle(const rs_factor *const *factors, size_t n)
{
    if (n == 0 || factors[0]->vector_is_row) return n ? 1 : 0;
    size_t count = 1;
    int64_t width = factors[0]->inner;
    while (count < n) {
        const rs_factor *last = factors[count - 1], *next = factors[count];
        if (next->vector_is_row || next->tensor != last->tensor || next->gain != factors[0]->gain ||
            next->first != last->first + last->inner || width + next->inner > BUNDLE_WIDTH)
            break;
        width += next->inner;
        count++;
    }
    return count;
}

/* ---- side vectors ---- */

/* The norm before the projection, as doubles; a NULL member is absent. */
typedef struct side {
    double *gain;  /* γ or 1 + w, `features` long */
    double *shift; /* β, when it reaches the augmented column */
    bool centred;  /* LayerNorm subtracts the mean of its input */
} side;

static void side_free(side *s)
{
    rs_free(s->gain);
    rs_free(s->shift);
}

static rs_status side_read(side *s, const rs_factor *factor, rs_fold fold, rs_error *err)
{
    *s = (side){0};
    if (!fold.norms || factor->norm == RS_NORM_NONE) return RS_OK;
    s->centred = factor->norm == RS_NORM_LAYERNORM || factor->norm == RS_NORM_LAYERNORM_PLUS_ONE;
    size_t n = (size_t)factor->features;
    if (factor->gain) {
        s->gain = rs_malloc(n, sizeof(double));
        if (!s->gain) return rs_fail_memory(err, factor->gain->name, n * sizeof(double));
        rs_tensor_decode_f64(s->gain, factor->gain, 0, factor->features);
        if (factor->norm == RS_NORM_RMSNORM_PLUS_ONE || factor->norm == RS_NORM_LAYERNORM_PLUS_ONE)
            for (size_t i = 0; i < n; i++)
                s->gain[i] += 1.0;
    }
    if (factor->gain_bias && fold.biases) {
        s->shift = rs_malloc(n, sizeof(double));
        if (!s->shift) {
            side_free(s);
            return rs_fail_memory(err, factor->gain_bias->name, n * sizeof(double));
        }
        rs_tensor_decode_f64(s->shift, factor->gain_bias, 0, factor->features);
    }
    return RS_OK;
}

/* ---- decoding ---- */

/* Multiplies `n` decoded elements of view row `row`, from column `col` on, by the FP8 scales of
 * their blocks. */
static void apply_scale(double *out, const rs_factor *factor, int64_t row, int64_t col, int64_t n)
{
    int64_t across = (factor->cols + factor->scale_block_cols - 1) / factor->scale_block_cols;
    int64_t scale_row = row / factor->scale_block_rows;
    for (int64_t i = 0; i < n;) {
        int64_t block = (col + i) / factor->scale_block_cols;
        int64_t end = (block + 1) * factor->scale_block_cols - col;
        double scale;
        rs_tensor_decode_f64(&scale, factor->scale, scale_row * across + block, 1);
        for (; i < n && i < end; i++)
            out[i] *= scale;
    }
}

/* Elements (row, col…col+n) of the factor's view, as true weights. */
static void decode(double *out, const rs_factor *factor, int64_t row, int64_t col, int64_t n)
{
    rs_tensor_decode_f64(out, factor->tensor, row * factor->cols + col, n);
    if (factor->scale) apply_scale(out, factor, row, col, n);
}

/* Has the same elements fetched, which will be decoded soon: rows are too short and too far apart
 * for the processor to see where the next one will be. */
static void expect(const rs_factor *factor, int64_t row, int64_t col, int64_t n)
{
    rs_tensor_expect(factor->tensor, row * factor->cols + col, n);
}

/* ---- Grams ---- */

/* What is collected beside the Gram while tiles stream by; each r long, for one factor. */
typedef struct sums {
    double *mean;  /* Σ_k of the (gain-scaled) entries of each vector: for LayerNorm's centring */
    double *shift; /* Wβ */
} sums;

static void gather_row(sums *s, int64_t i, const double *raw, const double *beta, int64_t n)
{
    double shift = 0;
    for (int64_t k = 0; k < n; k++)
        shift += raw[k] * beta[k];
    s->shift[i] += shift;
}

/* Vectors are tensor rows: tiles of r × step. */
static void stream_rows(double *gram, sums *s, const rs_factor *f, const side *norm, double *tile,
                        int64_t step)
{
    for (int64_t k = 0; k < f->features; k += step) {
        int64_t n = f->features - k < step ? f->features - k : step;
        for (int64_t i = 0; i < f->inner; i++) {
            double *row = tile + i * n;
            if (i + 1 < f->inner) expect(f, f->first + i + 1, k, n);
            decode(row, f, f->first + i, k, n);
            if (norm->shift) gather_row(s, i, row, norm->shift + k, n);
            if (norm->gain)
                for (int64_t j = 0; j < n; j++)
                    row[j] *= norm->gain[k + j];
            if (norm->centred)
                for (int64_t j = 0; j < n; j++)
                    s->mean[i] += row[j];
        }
        rs_gram_add_rows(gram, tile, f->inner, n, n);
    }
}

/* Vectors are tensor columns: tiles of step × width, shared by the bundle. */
static void stream_cols(double *const *grams, sums *s, const rs_factor *const *factors,
                        size_t n_factors, const side *norm, double *tile, int64_t step,
                        int64_t width)
{
    const rs_factor *f = factors[0];
    for (int64_t k = 0; k < f->features; k += step) {
        int64_t n = f->features - k < step ? f->features - k : step;
        for (int64_t i = 0; i < n; i++) {
            double *row = tile + i * width;
            if (k + i + AHEAD < f->features) expect(f, k + i + AHEAD, f->first, width);
            decode(row, f, k + i, f->first, width);
            if (norm->shift)
                for (int64_t j = 0; j < width; j++)
                    s->shift[j] += row[j] * norm->shift[k + i];
            if (norm->gain)
                for (int64_t j = 0; j < width; j++)
                    row[j] *= norm->gain[k + i];
            if (norm->centred)
                for (int64_t j = 0; j < width; j++)
                    s->mean[j] += row[j];
        }
        for (size_t g = 0; g < n_factors; g++)
            rs_gram_add_cols(grams[g], tile + (factors[g]->first - f->first), n, factors[g]->inner,
                             width);
    }
}

static double inner_gain(const rs_factor *f, int64_t i)
{
    double gain;
    rs_tensor_decode_f64(&gain, f->inner_gain, f->inner_gain_first + i, 1);
    return gain + (f->inner_gain_plus_one ? 1.0 : 0.0);
}

/* The entry of the augmented (bias) feature of vector i. */
static double bias_entry(const rs_factor *f, int64_t i, double shift)
{
    double bias = 0;
    if (f->bias) rs_tensor_decode_f64(&bias, f->bias, f->bias_first + i, 1);
    return bias + shift;
}

/* Applies to the upper triangle what acts on whole vectors: centring, the bias feature, QK-norm
 * gains. */
static bool finish_gram(double *x, const rs_factor *f, rs_fold fold, const side *norm,
                        const double *mean, const double *shift)
{
    int64_t r = f->inner;
    bool fragile = false, biased = rs_factor_features(f, fold) > f->features,
         gained = fold.norms && f->inner_gain;
    for (int64_t i = 0; i < r; i++) {
        double gain_i = gained ? inner_gain(f, i) : 1.0;
        double bias_i = biased ? bias_entry(f, i, shift[i]) : 0.0;
        int64_t end = norm->centred || biased || gained ? r : i + 1; /* else nothing is applied */
        for (int64_t j = i; j < end; j++) {
            double *entry = x + i * r + j, before = *entry;
            if (norm->centred) *entry -= mean[i] * mean[j] / (double)f->features;
            if (i == j && !(*entry >= 1e-6 * before)) fragile = true;
            if (biased) *entry += bias_i * bias_entry(f, j, shift[j]);
            if (gained) *entry *= gain_i * inner_gain(f, j);
        }
    }
    rs_gram_symmetrise(x, r);
    return fragile;
}

static int64_t tile_step(int64_t width, int64_t features)
{
    int64_t step = TILE_DOUBLES / (width > 0 ? width : 1) / TILE_STEP * TILE_STEP;
    if (step == 0) step = TILE_STEP;
    return step > features && features > 0 ? features : step;
}

/* Makes room for n numbers, whose old values are not kept. */
static rs_status reserve_tile(rs_tile *tile, size_t n, const char *where, rs_error *err)
{
    if (tile->values && n <= tile->capacity) return RS_OK;
    rs_free(tile->values);
    tile->values = rs_malloc(n, sizeof *tile->values);
    tile->capacity = tile->values ? n : 0;
    return tile->values ? RS_OK : rs_fail_memory(err, where, n * sizeof *tile->values);
}

rs_status rs_factor_grams(double *const *grams, bool *fragile, const rs_factor *const *factors,
                          size_t n, rs_fold fold, rs_tile *tile, rs_error *err)
{
    const rs_factor *first = factors[0];
    int64_t width = 0;
    for (size_t g = 0; g < n; g++) {
        size_t r = (size_t)factors[g]->inner;
        memset(grams[g], 0, r * r * sizeof(double));
        width += factors[g]->inner;
    }
    int64_t step = tile_step(width, first->features);
    size_t tiled = (size_t)(step * width), w = (size_t)width;
    side norm;
    RS_TRY(reserve_tile(tile, tiled + 2 * w, first->tensor->name, err));
    RS_TRY(side_read(&norm, first, fold, err));
    sums s = {.mean = tile->values + tiled, .shift = tile->values + tiled + w};
    memset(s.mean, 0, 2 * w * sizeof *s.mean);
    if (first->vector_is_row)
        stream_rows(grams[0], &s, first, &norm, tile->values, step);
    else
        stream_cols(grams, &s, factors, n, &norm, tile->values, step, width);
    for (size_t g = 0; g < n; g++) {
        int64_t offset = factors[g]->first - first->first;
        fragile[g] =
            finish_gram(grams[g], factors[g], fold, &norm, s.mean + offset, s.shift + offset);
    }
    side_free(&norm);
    return RS_OK;
}

/* ---- the whole factor ---- */

static void read_raw(double *out, const rs_factor *f, double *row)
{
    int64_t r = f->inner;
    for (int64_t k = 0; k < f->features && !f->vector_is_row; k++)
        decode(out + k * r, f, k, f->first, r);
    for (int64_t i = 0; i < r && f->vector_is_row; i++) {
        decode(row, f, f->first + i, 0, f->features);
        for (int64_t k = 0; k < f->features; k++)
            out[k * r + i] = row[k];
    }
}

/* Folds the norm into column i of the features×r matrix; returns Wβ. */
static double fold_vector(double *out, int64_t i, const rs_factor *f, const side *norm)
{
    int64_t r = f->inner, m = f->features;
    double shift = 0, mean = 0;
    for (int64_t k = 0; k < m; k++) {
        double *entry = out + k * r + i;
        if (norm->shift) shift += *entry * norm->shift[k];
        if (norm->gain) *entry *= norm->gain[k];
        mean += *entry;
    }
    if (norm->centred)
        for (int64_t k = 0; k < m; k++)
            out[k * r + i] -= mean / (double)m;
    return shift;
}

rs_status rs_factor_read(double *out, const rs_factor *f, rs_fold fold, rs_error *err)
{
    side norm;
    RS_TRY(side_read(&norm, f, fold, err));
    double *row = rs_malloc((size_t)f->features, sizeof *row);
    if (!row) {
        side_free(&norm);
        return rs_fail_memory(err, f->tensor->name, (size_t)f->features * sizeof *row);
    }
    read_raw(out, f, row);
    int64_t r = f->inner, features = rs_factor_features(f, fold);
    for (int64_t i = 0; i < r; i++) {
        double shift = fold_vector(out, i, f, &norm);
        if (features > f->features) out[f->features * r + i] = bias_entry(f, i, shift);
        double gain = fold.norms && f->inner_gain ? inner_gain(f, i) : 1.0;
        for (int64_t k = 0; k < features; k++)
            out[k * r + i] *= gain;
    }
    rs_free(row);
    side_free(&norm);
    return RS_OK;
}

/* [n, r] to columns k … k+n-1 of [r, m]. */
static void turn(double *out, const double *rows, int64_t n, int64_t r, int64_t m, int64_t k)
{
    for (int64_t i = 0; i < r; i++)
        for (int64_t j = 0; j < n; j++)
            out[i * m + k + j] = rows[j * r + i];
}

/* Rows at a time, so that lines of `out` are written whole. */
enum { TURNED_ROWS = 16 };

static rs_status read_turned(double *out, const rs_factor *f, rs_error *err)
{
    int64_t r = f->inner, m = f->features;
    double *rows = rs_malloc((size_t)r, TURNED_ROWS * sizeof *rows);
    if (!rows) return rs_fail_memory(err, f->tensor->name, (size_t)r * TURNED_ROWS * sizeof *rows);
    for (int64_t k = 0; k < m; k += TURNED_ROWS) {
        int64_t n = m - k < TURNED_ROWS ? m - k : TURNED_ROWS;
        for (int64_t j = 0; j < n; j++)
            decode(rows + j * r, f, k + j, f->first, r);
        turn(out, rows, n, r, m, k);
    }
    rs_free(rows);
    return RS_OK;
}

rs_status rs_factor_read_vectors(double *out, const rs_factor *f, rs_fold fold, rs_error *err)
{
    int64_t r = f->inner, m = rs_factor_features(f, fold);
    if (!fold.norms && !fold.biases && !f->vector_is_row) return read_turned(out, f, err);
    if (!fold.norms && !fold.biases) {
        for (int64_t i = 0; i < r; i++)
            decode(out + i * m, f, f->first + i, 0, m);
        return RS_OK;
    }
    double *whole = rs_malloc((size_t)m, (size_t)r * sizeof *whole);
    if (!whole) return rs_fail_memory(err, f->tensor->name, (size_t)m * (size_t)r * sizeof *whole);
    rs_status status = rs_factor_read(whole, f, fold, err);
    if (status == RS_OK) turn(out, whole, m, r, m, 0);
    rs_free(whole);
    return status;
}

rs_status rs_factor_examine(rs_factor_census *census, const rs_factor *f, rs_error *err)
{
    int64_t rows = f->vector_is_row ? f->inner : f->features,
            cols = f->vector_is_row ? f->features : f->inner;
    int64_t row0 = f->vector_is_row ? f->first : 0, col0 = f->vector_is_row ? 0 : f->first;
    double *line = rs_malloc((size_t)cols, sizeof *line);
    *census = (rs_factor_census){0};
    if (!line) return rs_fail_memory(err, f->tensor->name, (size_t)cols * sizeof *line);
    for (int64_t i = 0; i < rows; i++) {
        decode(line, f, row0 + i, col0, cols);
        for (int64_t j = 0; j < cols; j++) {
            if (isfinite(line[j])) {
                census->largest = fmax(census->largest, fabs(line[j]));
            } else if (census->nonfinite++ == 0) {
                census->row = row0 + i;
                census->col = col0 + j;
            }
        }
    }
    rs_free(line);
    return RS_OK;
}

double rs_factor_step_squared(const rs_factor *f)
{
    const rs_dtype_traits *traits = rs_dtype_info(f->tensor->dtype);
    if (!traits->step_squared) return 0.0;
    int64_t rows = f->vector_is_row ? f->inner : f->features,
            length = f->vector_is_row ? f->features : f->inner;
    int64_t row0 = f->vector_is_row ? f->first : 0, col0 = f->vector_is_row ? 0 : f->first;
    size_t bytes = traits->bits / 8;
    double sum = 0;
    int64_t blocks = 0;
    for (int64_t i = 0; i < rows; i++) {
        int64_t begin = (row0 + i) * f->cols + col0, last = begin + length - 1;
        for (int64_t b = begin / traits->block; b <= last / traits->block; b++, blocks++)
            sum += traits->step_squared(f->tensor->data + (size_t)b * bytes);
    }
    return blocks ? sum / (double)blocks : 0.0;
}
