/* trials_stats.h: what numbers of trials are summed up to. Private to trials_*.c. */
#ifndef RS_PREDICT_TRIALS_STATS_H
#define RS_PREDICT_TRIALS_STATS_H

#include "predict/trials.h"

/* values [n], which are sorted and overwritten. signed: they may be negative. */
void rs_trials_stat_of(rs_trials_stat *out, double *values, int32_t n, bool has_sign);
/* ρ of a row, from pairs (‖X‖², ‖X − 1x̄ᵀ‖²) that are both finite: squares, residuals [n]. */
void rs_trials_rho(rs_trials_row *row, const double *squares, const double *residuals, int32_t n,
                   int64_t tokens);
/* Fills rows, and what left the doubles, from numbers. */
rs_status rs_trials_sum_up(rs_trials *trials, int64_t tokens, rs_error *err);

#endif
