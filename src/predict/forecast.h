/* forecast.h: what becomes of one architecture, layer by layer, whoever says it: theory or trials. */
#ifndef RS_PREDICT_FORECAST_H
#define RS_PREDICT_FORECAST_H

#include "predict/design.h"
#include "predict/verdict.h"

/* In front of layer l (l = n_layers: the last states, before the final norm), and in that layer. All
 * logarithms are decades; NaN where there is no number, -INFINITY where the quantity is 0. */
typedef struct rs_forecast_row {
    double square, sum; /* log10 ‖X‖_F² and ‖1ᵀX‖² */
    double rho, apart;  /* ρ and log10(1 − ρ) */
    double most; /* at most so much is log10(1 − ρ) where rounding of trials hides it; else NaN */
    double keys;                             /* effective keys of a row of attention */
    double deviation;                        /* of logits within a row */
    double query, key, value, output, state; /* log10 of squared norms of gradients */
    const char *note;                        /* why numbers are missing, or what to doubt; NULL */
    bool
        rough; /* of theory: some layer before has condensed attention, whose correlations are rough */
} rs_forecast_row;

typedef struct rs_forecast {
    int32_t n_layers;
    rs_forecast_row *rows; /* [n_layers + 1] */
    int32_t lost_from;     /* the first row of which 1 − ρ is hidden by rounding; 0: none is */
    rs_predict_found found;
} rs_forecast;

typedef struct rs_forecast_settings {
    bool after_final_norm; /* where the loss reads the states */
    rs_predict_thresholds thresholds;
    rs_theory_kept *kept; /* of one forecast at a time; NULL: nothing is kept */
} rs_forecast_settings;

/* By theory; theory [n_layers + 1] takes its rows, and may be NULL. Errors: those of rs_theory_run. */
rs_status rs_forecast_theory(rs_forecast *out, rs_theory_row *theory, const rs_design *design,
                             const rs_forecast_settings *settings, rs_error *err);
/* The same of rows that there are. */
rs_status rs_forecast_of(rs_forecast *out, const rs_theory_row *theory, int32_t n_layers,
                         const rs_predict_thresholds *thresholds, rs_error *err);
/* The tokens of row l >= 1 become those of the states 1 .. l side by side (Shi et al. 2022, concat): rho and
 * apart alone; sizes and gradients stay those of the layers. To be judged again. */
void rs_forecast_fuse(rs_forecast *forecast);
/* Room for that many layers, all unknown. */
rs_status rs_forecast_new(rs_forecast *out, int32_t n_layers, rs_error *err);
/* Fills `found` from the rows. RS_E_NO_MEMORY. */
rs_status rs_forecast_judge(rs_forecast *forecast, const rs_predict_thresholds *thresholds,
                            rs_error *err);
void rs_forecast_free(rs_forecast *forecast);

/* ---- read-outs ---- */

/* 10^decades; NaN where no double has it, and 0 for -INFINITY alone. */
double rs_from_decades(double decades);

/* log10(gQ/gV) in front of a layer; NaN: not known, or gV is 0. */
double rs_forecast_ratio(const rs_forecast *forecast, int32_t layer);
/* The layer whose ratio is least; -1: none is known, or rounding hides that of one. */
int32_t rs_forecast_worst(const rs_forecast *forecast);
/* That ratio, and the fewest effective keys of any layer; NaN: none is known. */
double rs_forecast_least_ratio(const rs_forecast *forecast);
double rs_forecast_least_keys(const rs_forecast *forecast);
/* The first state with ρ >= target; -1: none, or a state before it has no number. */
int32_t rs_forecast_depth_to(const rs_forecast *forecast, double target);
/* Decades from the first layer to the last: of ‖X‖², and of the derivative, from the last state to the
 * first; the first state's is the input's. */
double rs_forecast_growth(const rs_forecast *forecast);
double rs_forecast_growth_back(const rs_forecast *forecast);

#endif
