/* forecast_trials.h: the same forecast from networks that are drawn and run (trials.h). */
#ifndef RS_PREDICT_FORECAST_TRIALS_H
#define RS_PREDICT_FORECAST_TRIALS_H

#include "predict/forecast.h"
#include "predict/trials.h"

/* How many, and of what. */
typedef struct rs_trials_choice {
    int32_t trials; /* 0: none are run, for the reason `why` */
    bool twin;      /* of a narrower network that stands for it */
    const char *why;
} rs_trials_choice;

/* What a design is given: wanted < 0: as many as its shape says. full_size: however wide it is. */
rs_trials_choice rs_trials_choose(const rs_design *design, int64_t wanted, bool full_size);

/* Sizes of a narrower network that stands for another. */
typedef struct rs_twin_size {
    int64_t d_model, heads, d_head;
} rs_twin_size;

/* So wide that a trial takes about so many operations, at most `widest` and no wider than the design,
 * an architecture file: fewer heads of the width that they have, or where those go together (or their
 * number says more than how many there are) narrower ones. */
rs_twin_size rs_design_twin_size(const rs_design *design, int64_t widest, double operations);
bool rs_twin_is_narrower(rs_twin_size size, const rs_design *than);

/* A network of that size with the same mean-field theory: fan_in times variance of every map, tokens,
 * depth and squared token norm over width are those of `from`, an architecture file. */
rs_status rs_design_twin(rs_design *out, const rs_design *from, rs_twin_size size, rs_error *err);
/* The one that rs_trials_choose means, of width 512 at most. RS_E_UNSUPPORTED: it is no architecture
 * file. */
rs_status rs_design_twin_of_run(rs_design *out, const rs_design *from, rs_error *err);

/* Runs them; *out is the caller's. */
rs_status rs_design_trials(rs_trials **out, const rs_design *design, int32_t trials,
                           bool after_final_norm, const rs_context *context, rs_error *err);
/* The same by one way: each draws weights of its own. */
rs_status rs_design_trials_by(rs_trials **out, const rs_design *design, int32_t trials,
                              rs_trials_way way, bool after_final_norm, const rs_context *context,
                              rs_error *err);
/* Where a state of theirs is 0 and theory says that it is not, it left the range of the doubles below, and
 * they have no numbers behind it. */
rs_status rs_design_leave_below(rs_trials *trials, const rs_design *design, rs_error *err);
/* What was measured, as a forecast: means, or where a few draws rule a mean, means of logarithms. */
rs_status rs_forecast_trials(rs_forecast *out, const rs_trials *trials,
                             const rs_forecast_settings *settings, rs_error *err);
/* log10 of a quantity's level: of its mean, or of what stands for it. */
double rs_trials_level(const rs_trials_stat *stat);

#endif
