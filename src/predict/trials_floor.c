/* trials_floor.c: what of a trial is no measurement: numbers behind a state that no double holds, and
 * tokens that rounding alone keeps apart (docs/theory/mean_field.md, 13). */
#include "predict/trials_stats.h"

#include "base/memory.h"

#include <float.h>
#include <math.h>

static double *row_of(const rs_trials *trials, int32_t trial, int32_t layer)
{
    int64_t row = (int64_t)trial * (trials->n_layers + 1) + layer;
    return trials->numbers + row * RS_TRIALS_QUANTITIES;
}

/* ---- what left the doubles ---- */

static void drop(double *row, int first, int last)
{
    for (int q = first; q <= last; q++)
        row[q] = NAN;
}

/* The trial's first layer in front of which ‖X‖² is no double, and the last at which a derivative's is
 * none; -1: there is none. */
static void find_leaving(int32_t *forward, int32_t *back, const rs_trials *trials, int32_t t)
{
    *forward = *back = -1;
    for (int32_t l = trials->n_layers; l >= 0; l--) {
        const double *row = row_of(trials, t, l);
        if (!isfinite(row[RS_TRIALS_SQUARE])) *forward = l;
        if (*back < 0 && !isfinite(row[RS_TRIALS_STATE])) *back = l;
    }
}

/* Derivatives pass through every state, so that one that is no number spoils those of all layers; one
 * of a derivative those in front of it. */
static void drop_trial(rs_trials *trials, int32_t t, int32_t forward, int32_t back)
{
    int32_t last = forward >= 0 ? trials->n_layers : back;
    for (int32_t l = 0; l <= last; l++)
        drop(row_of(trials, t, l), RS_TRIALS_QUERY, RS_TRIALS_STATE);
    for (int32_t l = forward; l <= trials->n_layers && forward >= 0; l++)
        drop(row_of(trials, t, l), RS_TRIALS_SQUARE, RS_TRIALS_LOGIT);
}

void rs_trials_drop_left(rs_trials *trials)
{
    trials->left_forward = trials->left_back = 0;
    trials->left_layer = trials->left_back_layer = -1;
    for (int32_t t = 0; t < trials->trials; t++) {
        int32_t forward, back;
        find_leaving(&forward, &back, trials, t);
        drop_trial(trials, t, forward, back);
        if (forward >= 0) {
            trials->left_forward++;
            if (trials->left_layer < 0 || forward < trials->left_layer)
                trials->left_layer = forward;
        } else if (back >= 0) {
            trials->left_back++;
            if (back > trials->left_back_layer) trials->left_back_layer = back;
        }
    }
}

/* Below this the squares of a state's numbers have lost their digits. */
static bool is_below(double square)
{
    return square >= 0 && square < DBL_MIN / DBL_EPSILON;
}

int32_t rs_trials_vanishing(const rs_trials *trials)
{
    for (int32_t l = 0; l <= trials->n_layers; l++)
        for (int32_t t = 0; t < trials->trials; t++)
            if (is_below(row_of(trials, t, l)[RS_TRIALS_SQUARE])) return l;
    return -1;
}

rs_status rs_trials_leave_below(rs_trials *trials, const bool *exactly_zero, int64_t tokens,
                                rs_error *err)
{
    bool left = false;
    for (int32_t t = 0; t < trials->trials; t++)
        for (int32_t l = 0; l <= trials->n_layers; l++) {
            double *square = &row_of(trials, t, l)[RS_TRIALS_SQUARE];
            if (!is_below(*square) || exactly_zero[l]) continue;
            *square = NAN;
            left = true;
        }
    if (!left) return RS_OK;
    trials->left_below = true;
    return rs_trials_sum_up(trials, tokens, err);
}

/* ---- what rounding rules ---- */

/* 1 − ρ that rounding gives equal tokens in one layer, at most: n + d roundings of 2^-53 of each number,
 * independent of one another. */
static double unit_of(const rs_trials *trials, int64_t tokens)
{
    return ((double)tokens + (double)trials->width) * DBL_EPSILON * DBL_EPSILON / 4;
}

/* Part of 1 − ρ that may be rounding. */
static const double part_most = 0.1;

/* An input's ρ is a double: where 1 − ρ is less than any double's, tokens are equal, exactly. */
void rs_trials_level_input(rs_trials *trials, int64_t tokens)
{
    for (int32_t t = 0; t < trials->trials; t++) {
        double *row = row_of(trials, t, 0);
        if (!(row[RS_TRIALS_APART] <= unit_of(trials, tokens) / part_most)) continue;
        row[RS_TRIALS_RESIDUAL] = row[RS_TRIALS_RELATIVE] = row[RS_TRIALS_APART] = 0;
        row[RS_TRIALS_COSINE_APART] = 0;
    }
}

/* Rounding that a layer brings in is handed on as the tokens' own differences are, so that parts of it in
 * 1 − ρ add up. Equal tokens that enter stay equal, and what is exactly 0 from the start is no rounding. */
int32_t rs_trials_lost_from(const rs_trials *trials, int32_t trial, int64_t tokens)
{
    double unit = unit_of(trials, tokens), part = 0;
    bool equal = true;
    for (int32_t l = 0; l <= trials->n_layers; l++) {
        double apart = row_of(trials, trial, l)[RS_TRIALS_APART];
        if (isnan(apart)) continue;
        equal = equal && apart == 0;
        if (!equal) part += unit / apart;
        if (part > part_most) return l;
    }
    return trials->n_layers + 1;
}

void rs_trials_strike(rs_trials_row *row, int32_t lost, double most)
{
    static const rs_trials_quantity ruled[] = {
        RS_TRIALS_RESIDUAL,     RS_TRIALS_RELATIVE,    RS_TRIALS_APART,
        RS_TRIALS_COSINE_APART, RS_TRIALS_LOGIT,       RS_TRIALS_QUERY,
        RS_TRIALS_KEY,          RS_TRIALS_QUERY_VALUE, RS_TRIALS_KEY_VALUE};
    for (size_t i = 0; i < sizeof ruled / sizeof *ruled; i++)
        row->of[ruled[i]] = rs_trials_stat_none;
    row->lost = lost;
    row->most = most;
    row->apart = row->rho_se = NAN;
    row->rho_ruled_by_few = true;
    if (most < DBL_EPSILON) return; /* ρ is 1 to the last digit, whatever 1 − ρ is */
    row->rho = NAN;
    row->of[RS_TRIALS_COSINE] = row->of[RS_TRIALS_CONCENTRATION] = rs_trials_stat_none;
}

void rs_trials_strike_lost(rs_trials *trials, int64_t tokens)
{
    double floor = unit_of(trials, tokens) / part_most;
    for (int32_t l = 0; l <= trials->n_layers; l++) {
        trials->rows[l].lost = 0;
        trials->rows[l].most = floor;
    }
    for (int32_t t = 0; t < trials->trials && tokens > 1; t++)
        for (int32_t l = rs_trials_lost_from(trials, t, tokens); l <= trials->n_layers; l++) {
            rs_trials_row *row = &trials->rows[l];
            row->lost++;
            row->most = fmax(row->most, row_of(trials, t, l)[RS_TRIALS_APART]);
        }
    for (int32_t l = 0; l <= trials->n_layers; l++) {
        rs_trials_row *row = &trials->rows[l];
        if (row->lost > 0) rs_trials_strike(row, row->lost, row->most);
    }
}
