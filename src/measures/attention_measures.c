/*
 * attention_measures.c: what rows and pairs of rows of the mixing matrix say; the spectra are in
 * attention_spectrum.c.
 */
#include "measures/attention_measures.h"

#include "linalg/vector.h"
#include "measures/attention_ranks.h"
#include "measures/attention_spectrum.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct source {
    const void *mixing, *probabilities, *logits;
    bool wide; /* float64 */
    int64_t n, ld;
    bool causal;
    int64_t window;
    bool ranks;
} source;

static rs_visible_keys visible(const source *x, int64_t i)
{
    return rs_visible_keys_of(i, x->n, x->causal, x->window);
}

/* Row i of one of the three matrices; false when an entry is NaN or infinite. Above the diagonal a
 * causal matrix is zero without being read. */
static bool load_row(double *row, const source *x, const void *matrix, int64_t i)
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

/* Population variance of the finite logits among the visible keys; NaN when there are none. The row
 * is overwritten. */
static double variance_of(double *row, rs_visible_keys k)
{
    int64_t count = 0;
    for (int64_t j = k.low; j <= k.high; j++) {
        row[count] = row[j];
        count += fabs(row[j]) <= DBL_MAX;
    }
    if (count == 0) return NAN;
    double mean = rs_sum(row, count) / (double)count;
    for (int64_t j = 0; j < count; j++)
        row[j] -= mean;
    double rest = rs_sum(row, count);
    return fmax(rs_dot(row, row, count) - rest * rest / (double)count, 0) / (double)count;
}

/* A mean over the rows that have something to say. */
typedef struct average {
    double sum;
    int64_t count;
} average;

static void add_value(average *a, double value)
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
        load_row(row, x, x->logits, i);
        double value = variance_of(row, visible(x, i));
        if (!isnan(value)) add_value(&variance, value);
    }
    out->logit_variance = mean_of(&variance);
}

/* The measures of P, which A is where nothing was edited; false when it is not finite. */
static bool probability_measure(rs_attention_measures *out, const source *x, const double *a,
                                double *row)
{
    average entropy = {0};
    out->entropy = NAN;
    if (!x->probabilities) return true;
    for (int64_t i = 0; i < x->n; i++) {
        const double *p = x->probabilities == x->mixing ? a + i * x->n : row;
        if (p == row && !load_row(row, x, x->probabilities, i)) return false;
        if (rs_sum_absolute(p, x->n) > 0) add_value(&entropy, rs_entropy(p, x->n));
    }
    out->entropy = mean_of(&entropy);
    return true;
}

/* The measures of single rows of A, and the row sums. */
static void row_measures(rs_attention_measures *out, const source *x, const double *a, double *sums,
                         double *uniform)
{
    int64_t n = x->n;
    average own = {0}, first = {0};
    double distance = 0;
    for (int64_t i = 0; i < n; i++) {
        const double *row = a + i * n;
        rs_visible_keys k = visible(x, i);
        double even = 1 / (double)(k.high - k.low + 1);
        for (int64_t j = 0; j < n; j++)
            uniform[j] = j >= k.low && j <= k.high ? even : 0;
        distance += rs_distance_squared(row, uniform, n);
        sums[i] = rs_sum(row, n);
        add_value(&own, row[i]);
        if (k.low == 0) add_value(&first, row[0]);
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

/* Columns that a pair's distance is summed over at a time. */
enum { CHUNK = 64 };

static int64_t chunks_of(int64_t n)
{
    return (n + CHUNK - 1) / CHUNK;
}

typedef struct pairs {
    const double *a;
    int64_t n;
    double *rest; /* [n, chunks + 1] Σ|A_ij| over the columns from a chunk's first on */
    ranked *order;
    double best;
} pairs;

static void sum_rests(pairs *s)
{
    int64_t chunks = chunks_of(s->n);
    for (int64_t i = 0; i < s->n; i++) {
        double *rest = s->rest + i * (chunks + 1);
        rest[chunks] = 0;
        for (int64_t c = chunks; c-- > 0;) {
            int64_t width = s->n - c * CHUNK < CHUNK ? s->n - c * CHUNK : CHUNK;
            rest[c] = rest[c + 1] + rs_sum_absolute(s->a + i * s->n + c * CHUNK, width);
        }
    }
}

/* Σ|A_p − A_q| if it may exceed the best; given up as soon as it cannot, which is when the rows
 * have overlapped enough: Σ|a − b| ≤ Σ|a| + Σ|b| over the columns still to come. */
static void compare_rows(pairs *s, int64_t p, int64_t q)
{
    int64_t chunks = chunks_of(s->n);
    const double *a = s->a + p * s->n, *b = s->a + q * s->n;
    const double *rest_a = s->rest + p * (chunks + 1), *rest_b = s->rest + q * (chunks + 1);
    double sum = 0;
    for (int64_t c = 0; c < chunks; c++) {
        if (sum + (rest_a[c] + rest_b[c]) <= s->best) return;
        int64_t width = s->n - c * CHUNK < CHUNK ? s->n - c * CHUNK : CHUNK;
        sum += rs_distance_1(a + c * CHUNK, b + c * CHUNK, width);
    }
    s->best = fmax(s->best, sum);
}

/*
 * ½ max Σ|A_i − A_i'|. Rows are taken in the order of their distance from the mean row: by the
 * triangle inequality a pair whose distances sum to no more than the best is not better, nor is any
 * pair after it.
 */
static double dobrushin_of(pairs *s, double *mean)
{
    int64_t n = s->n;
    ranked *order = s->order;
    memset(mean, 0, (size_t)n * sizeof *mean);
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n; j++)
            mean[j] += s->a[i * n + j];
    for (int64_t j = 0; j < n; j++)
        mean[j] /= (double)n;
    for (int64_t i = 0; i < n; i++)
        order[i] = (ranked){rs_distance_1(s->a + i * n, mean, n), i};
    qsort(order, (size_t)n, sizeof *order, farther_first);
    sum_rests(s);
    for (int64_t i = 0; i + 1 < n; i++) {
        if (order[i].distance + order[i + 1].distance <= s->best) break;
        for (int64_t j = i + 1; j < n; j++) {
            if (order[i].distance + order[j].distance <= s->best) break;
            compare_rows(s, order[i].row, order[j].row);
        }
    }
    return s->best / 2;
}

typedef struct buffers {
    double *a, *sums, *row, *rest;
    ranked *order;
} buffers;

static buffers take_buffers(int64_t n, rs_workspace *space)
{
    buffers b;
    b.a = rs_workspace_take(space, (size_t)n, (size_t)n * sizeof *b.a);
    b.sums = rs_workspace_doubles(space, n);
    b.row = rs_workspace_doubles(space, n);
    b.rest = rs_workspace_take(space, (size_t)n, (size_t)(chunks_of(n) + 1) * sizeof *b.rest);
    b.order = rs_workspace_take(space, (size_t)n, sizeof *b.order);
    return b;
}

size_t rs_attention_workspace(int64_t n)
{
    rs_workspace space = {0};
    if (n < 1) return 0;
    if (n > INT32_MAX / 2) return SIZE_MAX;
    (void)take_buffers(n, &space);
    rs_workspace ranks = space;
    rs_attention_spectrum_space(n, &space);
    rs_matrix_ranks_space(n, &ranks);
    return space.used > ranks.used ? space.used : ranks.used;
}

/* They give σ₁ and σ₂ as well, which need not be sought again. */
static void rank_measures(rs_attention_measures *out, const source *x, const double *a,
                          rs_workspace space)
{
    rs_attention_ranks r;
    if (!rs_attention_ranks_measure(&r, a, x->n, x->causal, x->window, !x->wide, &space)) {
        out->converged = false;
        return;
    }
    out->sigma1 = r.sigma1;
    out->sigma2 = r.sigma2;
    out->effective_rank = r.whole.effective;
    out->stable_rank = r.whole.stable;
    out->energy_rank = r.whole.energy;
    out->numerical_rank = r.whole.numerical;
    out->centred_effective_rank = r.centred.effective;
    out->centred_stable_rank = r.centred.stable;
    out->centred_energy_rank = r.centred.energy;
    out->centred_numerical_rank = r.centred.numerical;
}

static rs_status measure_mixing(rs_attention_measures *out, const source *x, void *workspace,
                                rs_error *err)
{
    int64_t n = x->n;
    if (n < 1 || n > INT32_MAX / 2 || x->ld < n || x->window < 0) {
        return rs_fail(err, RS_E_INTERNAL, "attention measures", NULL,
                       "an attention matrix of %lld rows with leading dimension %lld and window "
                       "%lld",
                       (long long)n, (long long)x->ld, (long long)x->window);
    }
    const rs_attention_measures unknown = {NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN,
                                           NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN, true};
    rs_workspace space = {.base = workspace};
    buffers b = take_buffers(n, &space);
    *out = unknown;
    bool finite = true;
    for (int64_t i = 0; i < n; i++)
        finite &= load_row(b.a + i * n, x, x->mixing, i);
    if (!finite || !probability_measure(out, x, b.a, b.row)) {
        *out = unknown;
        return RS_OK;
    }
    logit_measure(out, x, b.row);
    row_measures(out, x, b.a, b.sums, b.row);
    pairs p = {.a = b.a, .n = n, .rest = b.rest, .order = b.order};
    out->dobrushin = dobrushin_of(&p, b.row);
    if (x->ranks) rank_measures(out, x, b.a, space);
    rs_attention_spectrum(out, b.a, n, b.sums, !x->wide, &space);
    return RS_OK;
}

rs_status rs_attention_measure_f32(rs_attention_measures *out, const float *mixing,
                                   const float *probabilities, const float *logits, int64_t n,
                                   int64_t ld, bool causal, int64_t window, bool ranks,
                                   void *workspace, rs_error *err)
{
    source x = {mixing, probabilities, logits, false, n, ld, causal, window, ranks};
    return measure_mixing(out, &x, workspace, err);
}

rs_status rs_attention_measure_f64(rs_attention_measures *out, const double *mixing,
                                   const double *probabilities, const double *logits, int64_t n,
                                   int64_t ld, bool causal, int64_t window, bool ranks,
                                   void *workspace, rs_error *err)
{
    source x = {mixing, probabilities, logits, true, n, ld, causal, window, ranks};
    return measure_mixing(out, &x, workspace, err);
}
