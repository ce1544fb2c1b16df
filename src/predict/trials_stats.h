/* trials_stats.h: what numbers of trials are summed up to. Private to trials_*.c. */
#ifndef RS_PREDICT_TRIALS_STATS_H
#define RS_PREDICT_TRIALS_STATS_H

#include "predict/trials.h"

/* Of no number at all. */
extern const rs_trials_stat rs_trials_stat_none;
/* values [n], which are sorted and overwritten. signed: they may be negative. */
void rs_trials_stat_of(rs_trials_stat *out, double *values, int32_t n, bool has_sign);
/* ρ of a row, from pairs (‖X‖², ‖X − 1x̄ᵀ‖²) that are both finite: squares, residuals [n]. */
void rs_trials_rho(rs_trials_row *row, const double *squares, const double *residuals, int32_t n,
                   int64_t tokens);
/* The first layer whose tokens rounding rules in a trial; n_layers + 1: none. */
int32_t rs_trials_lost_from(const rs_trials *trials, int32_t trial, int64_t tokens);
/* Takes away what follows from 1 − ρ of a row. */
void rs_trials_strike(rs_trials_row *row, int32_t lost, double most);
/* Takes what rounding leaves between equal tokens that enter for what it is, 0. */
void rs_trials_level_input(rs_trials *trials, int64_t tokens);
/* Fills lost of all rows, and strikes those that have some. */
void rs_trials_strike_lost(rs_trials *trials, int64_t tokens);
/* A trial has no numbers behind what left the doubles: NaN. */
void rs_trials_drop_left(rs_trials *trials);
/* Fills rows, and what left the doubles, from numbers. */
rs_status rs_trials_sum_up(rs_trials *trials, int64_t tokens, rs_error *err);

#endif
