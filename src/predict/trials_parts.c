/* trials_parts.c: fewer trials, or more states, out of trials that were run; and by how much each of them
 * moves a mean, so that two means over the same draws can be compared. */
#include "predict/trials.h"

#include "base/memory.h"
#include "predict/trials_stats.h"

#include <math.h>
#include <string.h>

/* The first `count` trials' numbers, not summed up. */
static rs_status copy_numbers(rs_trials **out, const rs_trials *from, int32_t count, rs_error *err)
{
    size_t rows = (size_t)from->n_layers + 1, numbers = rows * RS_TRIALS_QUANTITIES * (size_t)count;
    rs_trials *trials = *out = rs_calloc(1, sizeof *trials);
    if (!trials) return rs_fail_memory(err, "trials", sizeof *trials);
    trials->trials = count;
    trials->n_layers = from->n_layers;
    trials->batched = from->batched;
    trials->width = from->width;
    trials->rows = rs_calloc(rows, sizeof *trials->rows);
    trials->numbers = rs_malloc(numbers, sizeof *trials->numbers);
    if (!trials->rows || !trials->numbers) {
        rs_trials_free(trials);
        *out = NULL;
        return rs_fail_memory(err, "trials", numbers * sizeof(double));
    }
    memcpy(trials->numbers, from->numbers, numbers * sizeof *trials->numbers);
    return RS_OK;
}

static rs_status sum_up(rs_trials **trials, int64_t tokens, rs_error *err)
{
    rs_status status = rs_trials_sum_up(*trials, tokens, err);
    if (status == RS_OK) return RS_OK;
    rs_trials_free(*trials);
    *trials = NULL;
    return status;
}

rs_status rs_trials_first(rs_trials **out, const rs_trials *trials, int32_t count, int64_t tokens,
                          rs_error *err)
{
    RS_TRY(copy_numbers(out, trials, count < trials->trials ? count : trials->trials, err));
    return sum_up(out, tokens, err);
}

/* ---- states side by side ---- */

/* Lengths of rows that stand side by side add up; cosines of pairs do not. */
static void fuse_row(double *row, const double *before, int32_t l, int64_t tokens)
{
    static const rs_trials_quantity sums[] = {RS_TRIALS_SQUARE, RS_TRIALS_SUM, RS_TRIALS_RESIDUAL};
    double n = (double)tokens;
    for (size_t i = 0; i < sizeof sums / sizeof *sums && l > 1; i++)
        row[sums[i]] += before[sums[i]];
    double relative = row[RS_TRIALS_RESIDUAL] / row[RS_TRIALS_SQUARE];
    if (tokens > 1) row[RS_TRIALS_APART] = n / (n - 1) * relative;
    row[RS_TRIALS_RELATIVE] = sqrt(relative);
    row[RS_TRIALS_COSINE] = row[RS_TRIALS_COSINE_APART] = NAN;
}

static double residual_of(const rs_trials *trials, int32_t layer)
{
    double sum = 0;
    for (int32_t t = 0; t < trials->trials; t++) {
        double residual = rs_trials_number(trials, t, layer, RS_TRIALS_RESIDUAL);
        if (isfinite(residual)) sum += residual;
    }
    return sum;
}

/* What is rounding in a layer is rounding beside others, too, where it is more than a part of the sum. */
static void strike_fused(rs_trials *fused, const rs_trials *trials)
{
    const double part_most = 0.1;
    double lost = 0;
    for (int32_t l = 1; l <= trials->n_layers; l++) {
        if (trials->rows[l].lost) lost += residual_of(trials, l);
        if (!fused->rows[l].lost && lost > part_most * residual_of(fused, l))
            rs_trials_strike(&fused->rows[l], trials->rows[l].lost, fused->rows[l].apart);
    }
}

rs_status rs_trials_fused(rs_trials **out, const rs_trials *trials, int64_t tokens, rs_error *err)
{
    RS_TRY(copy_numbers(out, trials, trials->trials, err));
    for (int32_t t = 0; t < trials->trials; t++)
        for (int32_t l = 1; l <= trials->n_layers; l++) {
            int64_t at = (int64_t)t * (trials->n_layers + 1) + l;
            double *row = (*out)->numbers + at * RS_TRIALS_QUANTITIES;
            fuse_row(row, row - RS_TRIALS_QUANTITIES, l, tokens);
        }
    RS_TRY(sum_up(out, tokens, err));
    strike_fused(*out, trials);
    return RS_OK;
}

/* ---- what one trial does to a mean ---- */

static double pull_of(const rs_trials_stat *stat, double number, bool ruled_by_few)
{
    double by = ruled_by_few ? log(number) - stat->log_mean : number / stat->mean - 1;
    return isfinite(by) ? by / log(10) : NAN;
}

double rs_trials_pull(const rs_trials *trials, int32_t trial, int32_t layer,
                      rs_trials_quantity quantity)
{
    const rs_trials_stat *stat = &trials->rows[layer].of[quantity];
    return pull_of(stat, rs_trials_number(trials, trial, layer, quantity), stat->ruled_by_few);
}

double rs_trials_pull_apart(const rs_trials *trials, int32_t trial, int32_t layer)
{
    const rs_trials_row *row = &trials->rows[layer];
    const rs_trials_stat *of = row->of;
    double apart = rs_trials_number(trials, trial, layer, RS_TRIALS_APART);
    if (row->rho_ruled_by_few) return pull_of(&of[RS_TRIALS_APART], apart, true);
    double residual = rs_trials_number(trials, trial, layer, RS_TRIALS_RESIDUAL);
    double square = rs_trials_number(trials, trial, layer, RS_TRIALS_SQUARE);
    return pull_of(&of[RS_TRIALS_RESIDUAL], residual, false) -
           pull_of(&of[RS_TRIALS_SQUARE], square, false);
}
