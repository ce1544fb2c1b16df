/*
 * attention_measures.c: what rows and pairs of rows of the mixing matrix say; the spectra are in
 * attention_spectrum.c.
 */
#include "collapse/attention_measures.h"

#include "collapse/attention_spectrum.h"
#include "linalg/vector.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* How far the row sums of a softmax may be from one another in each precision: a sum of thousands
 * of rounded probabilities. */
#define SUMS_F32 1e-5
#define SUMS_F64 1e-12

typedef struct source {
    const void *mixing, *probabilities, *logits;
    bool wide; /* float64 */
    int64_t n, ld;
    bool causal;
    int64_t window;
} source;

/* Keys low..high are visible to query i. */
typedef struct keys {
    int64_t low, high;
} keys;

static keys visible(const source *x, int64_t i)
{
    keys k = {0, x->causal ? i : x->n - 1};
    if (x->window > 0 && i - x->window + 1 > 0) k.low = i - x->window + 1;
    if (x->window > 0 && k.high - i > x->window - 1) k.high = i + x->window - 1;
    return k;
}

/* Row i of one of the three matrices; false when an entry is NaN or infinite. Above the diagonal a
 * causal matrix is zero without being read. */
static bool load(double *row, const source *x, const void *matrix, int64_t i)
{
    int64_t count = x->causal ? i + 1 : x->n;
    bool finite = true;
    for (int64_t j = 0; j < count; j++) {
        double entry = x->wide ? ((const double *)matrix)[i * x->ld + j]
                               : (double)((const float *)matrix)[i * x->ld + j];
        finite &= fabs(entry) <= DBL_MAX;
        row[j] = entry;
    }
    memset(row + count, 0, (size_t)(x->n - count) * sizeof *row);
    return finite;
}

/* −Σ p ln p; *weight tells whether the row has any. */
static double entropy_of(const double *row, int64_t n, bool *weight)
{
    double sum = 0;
    *weight = false;
    for (int64_t j = 0; j < n; j++) {
        if (!(row[j] > 0)) continue;
        *weight = true;
        sum -= row[j] * log(row[j]);
    }
    return sum;
}

/* Population variance of the finite logits among the visible keys; NaN when there are none. */
static double variance_of(const double *row, keys k)
{
    double sum = 0, squares = 0, rest = 0;
    int64_t count = 0;
    for (int64_t j = k.low; j <= k.high; j++) {
        if (!(fabs(row[j]) <= DBL_MAX)) continue;
        sum += row[j];
        count++;
    }
    if (count == 0) return NAN;
    double mean = sum / (double)count;
    for (int64_t j = k.low; j <= k.high; j++) {
        if (!(fabs(row[j]) <= DBL_MAX)) continue;
        squares += (row[j] - mean) * (row[j] - mean);
        rest += row[j] - mean;
    }
    return fmax(squares - rest * rest / (double)count, 0) / (double)count;
}

/* A mean over the rows that have something to say. */
typedef struct average {
    double sum;
    int64_t count;
} average;

static void add(average *a, double value)
{
    a->sum += value;
    a->count++;
}

static double mean_of(const average *a)
{
    return a->count ? a->sum / (double)a->count : NAN;
}

static void logit_measure(rs_attention_measures *out, const source *x, double *row)
{
    average variance = {0};
    for (int64_t i = 0; x->logits && i < x->n; i++) {
        load(row, x, x->logits, i);
        double value = variance_of(row, visible(x, i));
        if (!isnan(value)) add(&variance, value);
    }
    out->logit_variance = mean_of(&variance);
}

/* The measures of P; false when it is not finite. */
static bool probability_measure(rs_attention_measures *out, const source *x, double *row)
{
    average entropy = {0};
    for (int64_t i = 0; i < x->n; i++) {
        bool weight;
        if (!load(row, x, x->probabilities, i)) return false;
        double value = entropy_of(row, x->n, &weight);
        if (weight) add(&entropy, value);
    }
    out->entropy = mean_of(&entropy);
    return true;
}

/* The measures of single rows of A, and the row sums. */
static void row_measures(rs_attention_measures *out, const source *x, const double *a, double *sums)
{
    int64_t n = x->n;
    average own = {0}, first = {0};
    double distance = 0;
    for (int64_t i = 0; i < n; i++) {
        const double *row = a + i * n;
        keys k = visible(x, i);
        double even = 1 / (double)(k.high - k.low + 1);
        for (int64_t j = 0; j < n; j++) {
            double e = row[j] - (j >= k.low && j <= k.high ? even : 0);
            distance += e * e;
        }
        sums[i] = rs_sum(row, n);
        add(&own, row[i]);
        if (k.low == 0) add(&first, row[0]);
    }
    out->distance_to_uniform = sqrt(distance);
    out->self_weight = mean_of(&own);
    out->first_token_weight = mean_of(&first);
}

typedef struct ranked {
    double distance;
    int64_t row;
} ranked;

static int farther_first(const void *left, const void *right)
{
    const ranked *a = left, *b = right;
    if (a->distance != b->distance) return a->distance > b->distance ? -1 : 1;
    return a->row < b->row ? -1 : a->row > b->row;
}

/*
 * ½ max Σ|A_i − A_i'|. Rows are taken in the order of their distance from the mean row: by the
 * triangle inequality a pair whose distances sum to no more than the best is not better, nor is any
 * pair after it.
 */
static double dobrushin_of(const source *x, const double *a, double *mean, ranked *order)
{
    int64_t n = x->n;
    double best = 0;
    memset(mean, 0, (size_t)n * sizeof *mean);
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n; j++)
            mean[j] += a[i * n + j] / (double)n;
    for (int64_t i = 0; i < n; i++)
        order[i] = (ranked){rs_distance_1(a + i * n, mean, n), i};
    qsort(order, (size_t)n, sizeof *order, farther_first);
    for (int64_t i = 0; i + 1 < n; i++) {
        if (order[i].distance + order[i + 1].distance <= best) break;
        for (int64_t j = i + 1; j < n; j++) {
            if (order[i].distance + order[j].distance <= best) break;
            int64_t p = order[i].row, q = order[j].row;
            int64_t length = x->causal ? (p > q ? p : q) + 1 : n;
            best = fmax(best, rs_distance_1(a + p * n, a + q * n, length));
        }
    }
    return best / 2;
}

typedef struct buffers {
    double *a, *sums, *row;
    ranked *order;
} buffers;

static buffers take(int64_t n, rs_workspace *space)
{
    buffers b;
    b.a = rs_workspace_take(space, (size_t)n, (size_t)n * sizeof *b.a);
    b.sums = rs_workspace_doubles(space, n);
    b.row = rs_workspace_doubles(space, n);
    b.order = rs_workspace_take(space, (size_t)n, sizeof *b.order);
    return b;
}

size_t rs_attention_workspace(int64_t n)
{
    rs_workspace space = {0};
    if (n < 1) return 0;
    if (n > INT32_MAX / 2) return SIZE_MAX;
    (void)take(n, &space);
    rs_attention_spectrum_space(n, &space);
    return space.used;
}

static rs_status measure(rs_attention_measures *out, const source *x, void *workspace,
                         rs_error *err)
{
    int64_t n = x->n;
    if (n < 1 || n > INT32_MAX / 2 || x->ld < n || x->window < 0) {
        return rs_fail(err, RS_E_INTERNAL, "attention measures", NULL,
                       "an attention matrix of %lld rows with leading dimension %lld and window "
                       "%lld",
                       (long long)n, (long long)x->ld, (long long)x->window);
    }
    const rs_attention_measures unknown = {NAN, NAN, NAN, NAN, NAN, NAN,
                                           NAN, NAN, NAN, NAN, NAN, true};
    rs_workspace space = {.base = workspace};
    buffers b = take(n, &space);
    *out = unknown;
    bool finite = true;
    for (int64_t i = 0; i < n; i++)
        finite &= load(b.a + i * n, x, x->mixing, i);
    if (!finite || !probability_measure(out, x, b.row)) {
        *out = unknown;
        return RS_OK;
    }
    logit_measure(out, x, b.row);
    row_measures(out, x, b.a, b.sums);
    out->dobrushin = dobrushin_of(x, b.a, b.row, b.order);
    return rs_attention_spectrum(out, b.a, n, b.sums, x->wide ? SUMS_F64 : SUMS_F32, &space, err);
}

rs_status rs_attention_measure_f32(rs_attention_measures *out, const float *mixing,
                                   const float *probabilities, const float *logits, int64_t n,
                                   int64_t ld, bool causal, int64_t window, void *workspace,
                                   rs_error *err)
{
    source x = {mixing, probabilities, logits, false, n, ld, causal, window};
    return measure(out, &x, workspace, err);
}

rs_status rs_attention_measure_f64(rs_attention_measures *out, const double *mixing,
                                   const double *probabilities, const double *logits, int64_t n,
                                   int64_t ld, bool causal, int64_t window, void *workspace,
                                   rs_error *err)
{
    source x = {mixing, probabilities, logits, true, n, ld, causal, window};
    return measure(out, &x, workspace, err);
}
