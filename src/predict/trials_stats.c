/* trials_stats.c: means, logarithms and quantiles over trials. */
#include "predict/trials_stats.h"

#include "base/memory.h"
#include "base/sort.h"

#include <math.h>

/* A mean whose relative error is larger is ruled by few draws (ERRATA P9). */
static const double error_most = 0.3;

/* Mean and its standard error, in units of the largest value so that nothing overflows. */
static void mean_of(double *mean, double *se, const double *values, int32_t n)
{
    double most = 0, sum = 0, square = 0;
    *mean = *se = NAN;
    if (n < 1) return;
    for (int32_t i = 0; i < n; i++)
        most = fmax(most, fabs(values[i]));
    double unit = most > 0 ? most : 1;
    for (int32_t i = 0; i < n; i++)
        sum += values[i] / unit;
    double centre = sum / n;
    for (int32_t i = 0; i < n; i++)
        square += (values[i] / unit - centre) * (values[i] / unit - centre);
    *mean = centre * unit;
    if (n > 1) *se = sqrt(square / (n - 1.0) / n) * unit;
}

const rs_trials_stat rs_trials_stat_none = {.mean = NAN,
                                            .se = NAN,
                                            .log_mean = NAN,
                                            .log_se = NAN,
                                            .low = NAN,
                                            .median = NAN,
                                            .high = NAN,
                                            .ruled_by_few = true};

static double quantile(const double *sorted, int32_t n, double share)
{
    double at = share * (n - 1);
    int32_t i = (int32_t)at;
    if (i + 1 >= n) return sorted[n - 1];
    double part = at - i;
    return sorted[i] * (1 - part) + sorted[i + 1] * part;
}

static bool ruled_by_few(double mean, double se, int32_t n)
{
    return n < 2 || !(se <= error_most * fabs(mean));
}

void rs_trials_stat_of(rs_trials_stat *out, double *values, int32_t n, bool has_sign)
{
    *out = rs_trials_stat_none;
    int32_t finite = 0, positive = 0;
    for (int32_t i = 0; i < n; i++)
        if (isfinite(values[i])) values[finite++] = values[i];
    out->n = finite;
    if (!finite) return;
    rs_sort_doubles(values, finite);
    mean_of(&out->mean, &out->se, values, finite);
    out->ruled_by_few = ruled_by_few(out->mean, out->se, finite);
    out->low = quantile(values, finite, 0.1);
    out->median = quantile(values, finite, 0.5);
    out->high = quantile(values, finite, 0.9);
    for (int32_t i = 0; i < finite; i++) {
        out->zeros += values[i] == 0;
        if (values[i] > 0) values[positive++] = log(values[i]);
    }
    if (has_sign) return;
    mean_of(&out->log_mean, &out->log_se, values, positive);
    if (out->zeros == finite) out->log_mean = -INFINITY;
}

void rs_trials_rho(rs_trials_row *row, const double *squares, const double *residuals, int32_t n,
                   int64_t tokens)
{
    double square, residual, ignored, apart, error = 0, count = (double)tokens;
    row->rho = row->apart = row->rho_se = NAN;
    row->rho_ruled_by_few = true;
    mean_of(&square, &ignored, squares, n);
    mean_of(&residual, &ignored, residuals, n);
    if (tokens < 2 || n < 1 || !(square > 0)) return;
    /* res = F - C/n: 1 - rho = n E res/((n - 1) E F) */
    apart = residual / square;
    row->apart = count / (count - 1) * apart;
    row->rho = 1 - row->apart;
    if (n < 2) return;
    for (int32_t i = 0; i < n; i++) {
        double part = residuals[i] / square - apart * (squares[i] / square);
        error += part * part;
    }
    row->rho_se = count / (count - 1) * sqrt(error / (n - 1.0) / n);
    row->rho_ruled_by_few = row->of[RS_TRIALS_SQUARE].ruled_by_few;
}

/* ---- all rows ---- */

double rs_trials_number(const rs_trials *trials, int32_t trial, int32_t layer,
                        rs_trials_quantity quantity)
{
    int64_t row = (int64_t)trial * (trials->n_layers + 1) + layer;
    return trials->numbers[row * RS_TRIALS_QUANTITIES + (int)quantity];
}

static void sum_up_row(rs_trials *trials, int32_t l, int64_t tokens, double *values, double *more)
{
    rs_trials_row *row = &trials->rows[l];
    int32_t pairs = 0;
    for (int q = 0; q < RS_TRIALS_QUANTITIES; q++) {
        for (int32_t t = 0; t < trials->trials; t++)
            values[t] = rs_trials_number(trials, t, l, (rs_trials_quantity)q);
        rs_trials_stat_of(&row->of[q], values, trials->trials, q == RS_TRIALS_COSINE);
    }
    for (int32_t t = 0; t < trials->trials; t++) {
        double square = rs_trials_number(trials, t, l, RS_TRIALS_SQUARE);
        double residual = rs_trials_number(trials, t, l, RS_TRIALS_RESIDUAL);
        if (!isfinite(square) || !isfinite(residual)) continue;
        values[pairs] = square;
        more[pairs++] = residual;
    }
    rs_trials_rho(row, values, more, pairs, tokens);
}

rs_status rs_trials_sum_up(rs_trials *trials, int64_t tokens, rs_error *err)
{
    size_t n = (size_t)trials->trials;
    double *values = rs_malloc(2 * n, sizeof *values);
    if (!values) return rs_fail_memory(err, "trials", 2 * n * sizeof *values);
    rs_trials_drop_left(trials);
    rs_trials_level_input(trials, tokens);
    for (int32_t l = 0; l <= trials->n_layers; l++)
        sum_up_row(trials, l, tokens, values, values + n);
    rs_trials_strike_lost(trials, tokens);
    rs_free(values);
    return RS_OK;
}
