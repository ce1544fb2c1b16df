/*
 * powerlaw.c: the power-law fit and WeightWatcher's columns. What is computed, and where it differs
 * from WeightWatcher, is in powerlaw.h.
 *
 * Cost of the fit. The exponents of all tails come from one pass, because with L_i = ln x_i the sum
 * over a tail obeys s_i = s_{i+1} + (tail - 1)(L_{i+1} - L_i), without cancellation. The distances
 * would take n²/2 powers; both distribution functions rise, so the values at the ends of an
 * interval bound the distance inside it, and branch and bound looks at a few points per tail only.
 */
#include "linalg/powerlaw.h"

#include "base/memory.h"

#include <float.h>
#include <math.h>

enum {
    SMALL_SAMPLE = 20,    /* fewer values take the bias-corrected exponent */
    SMALL_SAMPLE_TAIL = 8 /* its shortest tail */
};
#define EIGENVALUE_THRESHOLD 1e-5
#define NO_SPREAD 1e-12 /* of the sum of log ratios, in small samples */
#define OVER_TRAINED_BELOW 2.0
#define UNDER_TRAINED_ABOVE 6.0
#define ENTROPY_SHIFT 1e-10

/* The distribution function of the fitted law at x. */
static double law(double x, double xmin, double alpha)
{
    return 1.0 - pow(x / xmin, 1.0 - alpha);
}

/* Distance at value j of a tail. */
static double gap_at(double distribution, int64_t j, double tail)
{
    return fabs(distribution - (double)j / tail);
}

/* Interval [first, last] of a tail whose ends are known. */
typedef struct interval {
    int64_t first, last;
    double law_first, law_last;
} interval;

/* The most that |law - j/tail| can be strictly inside. */
static double interval_bound(const interval *range, double tail)
{
    double above = range->law_last - (double)(range->first + 1) / tail;
    double below = (double)(range->last - 1) / tail - range->law_first;
    return fmax(above, below);
}

/*
 * The largest distance over the tail x[0 .. n-1], or some value above `enough` once one has been
 * found. *hint: where to look first, and where the largest was found (relative to the tail's end,
 * which neighbouring tails share).
 */
static double ks_distance(const double *x, int64_t n, double alpha, double enough, int64_t *hint)
{
    interval stack[2 * 64 + 2]; /* halving an int64_t: at most 64 deep */
    int depth = 0;
    double tail = (double)n;
    double top = law(x[n - 1], x[0], alpha);
    double largest = gap_at(top, n - 1, tail);
    int64_t split = n - *hint;
    *hint = 1;
    stack[depth++] = (interval){0, n - 1, 0.0, top};
    while (depth > 0 && largest <= enough) {
        interval range = stack[--depth];
        if (range.last - range.first < 2 || interval_bound(&range, tail) <= largest) continue;
        if (split <= range.first || split >= range.last) {
            split = range.first + (range.last - range.first) / 2;
        }
        double middle = law(x[split], x[0], alpha);
        double gap = gap_at(middle, split, tail);
        if (gap > largest) {
            largest = gap;
            *hint = n - split;
        }
        interval left = {range.first, split, range.law_first, middle};
        interval right = {split, range.last, middle, range.law_last};
        bool left_first = interval_bound(&left, tail) > interval_bound(&right, tail);
        stack[depth++] = left_first ? right : left;
        stack[depth++] = left_first ? left : right;
        split = -1;
    }
    return largest;
}

/* Every value of the tail, so that the D that is reported owes nothing to the pruning. */
static double ks_distance_full(const double *x, int64_t n, double alpha)
{
    double largest = 0.0;
    for (int64_t j = 0; j < n; j++) {
        largest = fmax(largest, gap_at(law(x[j], x[0], alpha), j, (double)n));
    }
    return largest;
}

/* The exponent of a tail from its sum of log ratios; NaN when the tail has no spread or, in a small
 * sample of n values, is too short to be a candidate. */
static double exponent(double sum_log, int64_t tail, int64_t n)
{
    double alpha;
    if (n >= SMALL_SAMPLE) {
        alpha = 1.0 + (double)tail / sum_log;
    } else {
        bool short_tail = n < SMALL_SAMPLE_TAIL ? tail < n : tail < SMALL_SAMPLE_TAIL;
        if (short_tail || !(sum_log > NO_SPREAD)) return NAN;
        alpha = 1.0 + (double)(tail - 1) / sum_log;
    }
    return sum_log > 0.0 && isfinite(alpha) && alpha > 1.0 ? alpha : (double)NAN;
}

void rs_powerlaw_fit(rs_powerlaw *out, const double *values, int64_t n)
{
    *out = (rs_powerlaw){NAN, NAN, NAN, NAN, NAN, 0};
    double best = 1.0; /* no distance exceeds it */
    int64_t chosen = -1, hint = 1;
    double sum_log = 0.0;
    double next_log = n > 0 ? log(values[n - 1]) : 0.0;
    for (int64_t i = n - 2; i >= 0; i--) {
        int64_t tail = n - i;
        double this_log = log(values[i]);
        sum_log += (double)(tail - 1) * (next_log - this_log);
        next_log = this_log;
        double alpha = exponent(sum_log, tail, n);
        if (isnan(alpha)) continue;
        double distance = ks_distance(values + i, tail, alpha, best, &hint);
        if (distance > best) continue;
        best = distance;
        chosen = i;
        out->alpha = alpha;
    }
    if (chosen < 0) return;
    out->tail = n - chosen;
    out->D = ks_distance_full(values + chosen, out->tail, out->alpha);
    out->sigma = (out->alpha - 1.0) / sqrt((double)out->tail);
    out->xmin = values[chosen];
    out->xmax = values[n - 1];
}

/* The columns of the power-law fit. lambda: ascending. */
static void powerlaw_columns(rs_weightwatcher *out, const double *lambda, int64_t k)
{
    int64_t first = 0;
    while (first < k && !(lambda[first] > EIGENVALUE_THRESHOLD))
        first++;
    rs_powerlaw fit;
    rs_powerlaw_fit(&fit, lambda + first, k - first);
    out->alpha = fit.alpha;
    out->D = fit.D;
    out->sigma = fit.sigma;
    out->xmin = fit.xmin;
    out->xmax = fit.xmax;
    if (fit.tail == 0) return;

    /* Equal eigenvalues just below the chosen one count too. */
    out->num_pl_spikes = fit.tail;
    while (out->num_pl_spikes < k && lambda[k - 1 - out->num_pl_spikes] >= fit.xmin) {
        out->num_pl_spikes++;
    }
    if (fit.alpha < OVER_TRAINED_BELOW) out->warning = "over-trained";
    if (fit.alpha > UNDER_TRAINED_ABOVE) out->warning = "under-trained";

    double largest = lambda[k - 1], sum = 0.0;
    for (int64_t i = 0; i < k; i++)
        sum += pow(lambda[i] / largest, fit.alpha);
    out->alpha_weighted = fit.alpha * log10(largest);
    out->log_alpha_norm = out->alpha_weighted + log10(sum);
}

/* The columns that need no fit. */
static void norm_columns(rs_weightwatcher *out, const double *lambda, const double *sigma,
                         int64_t k)
{
    double sum = 0.0, threshold = sigma[0] * (double)out->N * DBL_EPSILON;
    out->matrix_rank = 0;
    for (int64_t i = 0; i < k; i++) {
        sum += lambda[i];
        if (sigma[i] > threshold) out->matrix_rank++;
    }
    out->rank_loss = k - out->matrix_rank;
    out->norm = sum;
    out->spectral_norm = lambda[k - 1];
    if (!(sum > 0.0) || !isfinite(sum)) return;
    out->log_norm = log10(sum);
    out->stable_rank = sum / out->spectral_norm;

    double entropy = 0.0;
    for (int64_t i = 0; i < k; i++) {
        double p = lambda[i] / sum + ENTROPY_SHIFT;
        entropy -= p * log(p);
    }
    out->entropy = entropy / log((double)out->matrix_rank + ENTROPY_SHIFT);
}

rs_status rs_weightwatcher_of(rs_weightwatcher *out, const double *sigma, int64_t k, int64_t rows,
                              int64_t cols, rs_error *err)
{
    *out = (rs_weightwatcher){
        .alpha = NAN,
        .D = NAN,
        .sigma = NAN,
        .xmin = NAN,
        .xmax = NAN,
        .alpha_weighted = NAN,
        .log_alpha_norm = NAN,
        .log_norm = NAN,
        .num_pl_spikes = -1,
        .num_spikes = -1,
        .entropy = NAN,
        .matrix_rank = -1,
        .rank_loss = -1,
        .norm = NAN,
        .spectral_norm = NAN,
        .stable_rank = NAN,
        .mp_softrank = NAN,
        .Q = NAN,
        .N = rows > cols ? rows : cols,
        .M = rows > cols ? cols : rows,
        .warning = "",
    };
    if (out->M > 0) out->Q = (double)out->N / (double)out->M;
    if (k <= 0) return RS_OK;

    double *lambda = rs_malloc((size_t)k, sizeof *lambda);
    if (!lambda) {
        return rs_fail_memory(err, "eigenvalues of a weight matrix", (size_t)k * sizeof *lambda);
    }
    for (int64_t i = 0; i < k; i++)
        lambda[i] = sigma[k - 1 - i] * sigma[k - 1 - i];

    norm_columns(out, lambda, sigma, k);
    powerlaw_columns(out, lambda, k);
    rs_mp_fit bulk;
    rs_status status = rs_marchenko_pastur_fit(&bulk, lambda, k, rows, cols, err);
    if (status == RS_OK) {
        out->num_spikes = bulk.spikes;
        out->mp_softrank = bulk.softrank;
    }
    rs_free(lambda);
    return status;
}
