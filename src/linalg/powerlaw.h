/* powerlaw.h: WeightWatcher's measures of one spectrum by its own definitions (weight_decay.md 4).
 */
#ifndef RS_LINALG_POWERLAW_H
#define RS_LINALG_POWERLAW_H

#include "base/error.h"

#include <stdint.h>

/* Everything WeightWatcher prints for one layer from the eigenvalues λ = σ² of WᵀW. NaN = not
 * available (WeightWatcher prints NaN or -1 there). Field names are its column names. */
typedef struct rs_weightwatcher {
    double alpha, D, sigma, xmin, xmax, alpha_weighted, log_alpha_norm, log_norm;
    int64_t num_pl_spikes, num_spikes;
    double entropy;
    int64_t matrix_rank, rank_loss;
    double norm, spectral_norm; /* ww_norm, ww_spectral_norm */
    double stable_rank;
    double mp_softrank;
    double Q;
    int64_t N, M;        /* larger and smaller side */
    const char *warning; /* "over-trained", "under-trained", "" */
} rs_weightwatcher;

/* sigma: k = min(rows, cols) singular values, descending. */
rs_status rs_weightwatcher_of(rs_weightwatcher *out, const double *sigma, int64_t k, int64_t rows,
                              int64_t cols, rs_error *err);

#endif
