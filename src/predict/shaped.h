/*
 * shaped.h: shaped attention in the limit of depth and width together: drift and noise of the tokens'
 * covariance V [m, m] (Noci et al. 2023; docs/theory/mean_field.md, 10).
 */
#ifndef RS_PREDICT_SHAPED_H
#define RS_PREDICT_SHAPED_H

#include "base/error.h"

enum { RS_SHAPED_TOKENS = 64 };

/* gamma2: γ², share of the branch; tau0: the temperature. */
typedef struct rs_shaped {
    int64_t m; /* up to RS_SHAPED_TOKENS */
    double gamma2, tau0;
} rs_shaped;

/* dV = drift dt + noise: E of the increment per dt, and the covariance of entries ab and cd of it. */
void rs_shaped_drift(double *drift, const rs_shaped *shaped, const double *v);
double rs_shaped_noise(const rs_shaped *shaped, const double *v, int64_t a, int64_t b, int64_t c,
                       int64_t d);
/* Shaped ReLU, s± = 1 + c±/√width: drift of the correlation. */
double rs_shaped_relu_drift(double plus, double minus, double rho);

/* `paths` solutions up to time t in `steps` steps from v0 on. The drift is cubic, so that some leave
 * every bound: a path stops at max|V| > 50 and is counted. median [m, m]: of those that do not, NaN where
 * all do. RS_E_BAD_OPTION: m, paths or steps below 1 or beyond their bounds, v0 no covariance;
 * RS_E_NO_MEMORY. */
typedef struct rs_shaped_run {
    double time;
    int32_t steps, paths;
    uint64_t seed;
} rs_shaped_run;
rs_status rs_shaped_paths(double *median, int32_t *exploded, const rs_shaped *shaped,
                          const double *v0, const rs_shaped_run *run, rs_error *err);

#endif
