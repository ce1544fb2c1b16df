/*
 * powerlaw.h: WeightWatcher's measures of one spectrum by its own definitions
 * (docs/theory/products.md, 8), and the two fits behind them.
 *
 * The definitions are those of WeightWatcher 0.7.7 with the defaults of analyze(), read in its
 * source and compared with it on golden spectra (tests/oracle/make_weightwatcher_golden.py).
 * lambda = sigma^2 of the weight matrix as it stands, without any division by N.
 *
 *   alpha D sigma xmin xmax num_pl_spikes   continuous power law of the eigenvalues above 1e-5,
 *                                           xmin by least Kolmogorov-Smirnov distance (below)
 *   norm spectral_norm                      sum of lambda, the largest
 *   log_norm stable_rank                    log10 of the sum, sum/largest
 *   alpha_weighted log_alpha_norm           alpha log10 lambda_max; log10 sum lambda^alpha
 *   matrix_rank rank_loss                   #{sigma > sigma_1 N eps}, eps of float64; k minus that
 *   entropy                                 -sum p ln p / ln(matrix_rank + 1e-10),
 *                                           p = lambda/sum lambda + 1e-10
 *   num_spikes mp_softrank                  the Marchenko-Pastur fit; WeightWatcher computes these
 *                                           two only under analyze(mp_fit=True)
 *   warning                                 alpha < 2 over-trained, alpha > 6 under-trained
 *
 * Where this and WeightWatcher can differ:
 *  1. It writes -1 (and a log_alpha_norm of that) where a fit failed, and warns "over-trained"
 *     because -1 < 2. Here the reals are NaN, the counts -1 and the warning is empty.
 *  2. It fits spectra whose values above 1e-5 are all equal: alpha is then infinite, or rounding
 *     noise of 1e15. Here a candidate without spread (sum of log ratios 0, or <= 1e-12 under 20
 *     values, where it gives alpha 0) is no fit. Values equal up to rounding, as of an orthogonal
 *     matrix, give noise in both.
 *  3. Two xmin whose distances D agree to about 1e-14 can swap; alpha, sigma, xmin and
 *     num_pl_spikes then jump together. The same holds for eigenvalues within rounding of the
 *     threshold 1e-5, and for singular values within rounding of sigma_1 N eps (matrix_rank,
 *     entropy). So a singular value is needed to about 1e-10 relative for the same digits.
 *  4. With a CUDA device its default svd_method 'fast' works in float32; without one in float64.
 *  5. log_alpha_norm is computed around lambda_max, so that a large alpha does not overflow.
 *  6. The Marchenko-Pastur variance comes from a 195 to 196 point grid and a simplex search that
 *     stops at 1e-4: num_spikes can differ by an eigenvalue that lies on the edge, mp_softrank by
 *     about 1e-6 relative.
 *  7. It leaves out layers with fewer than 8 or more than 15000 eigenvalues (min_evals, max_evals)
 *     and those whose larger side exceeds 50000 (max_N). Here nothing is left out.
 *  8. Its entropy of a matrix of rank 1 divides by ln(1 + 1e-10); the large number is meaningless
 *     but is reproduced.
 *  9. For 2 to 7 eigenvalues above 1e-5 it prints sigma = -1/sqrt(n), computed before alpha was
 *     known; here it is (alpha - 1)/sqrt(n) as everywhere.
 */
#ifndef RS_LINALG_POWERLAW_H
#define RS_LINALG_POWERLAW_H

#include "base/error.h"

#include <stdint.h>

/* A continuous power law x^-alpha fitted to the values >= xmin. */
typedef struct rs_powerlaw {
    double alpha; /* NaN: no fit */
    double D;     /* Kolmogorov-Smirnov distance of the tail */
    double sigma; /* (alpha - 1)/sqrt(tail) */
    double xmin, xmax;
    int64_t tail; /* number of values >= xmin, from the chosen one on; 0: no fit */
} rs_powerlaw;

/*
 * Fits values, n positive numbers, ascending. From 20 values on every xmin is tried with the
 * maximum likelihood exponent alpha = 1 + t/sum ln(x/xmin) of its tail of t values; below 20 with
 * the bias-corrected 1 + (t - 1)/sum ln(x/xmin) and tails of at least 8 (all n values if n < 8).
 * The least D wins, the smallest xmin among equals. D takes the empirical distribution at the left
 * of its steps: max |1 - (x_j/xmin)^(1 - alpha) - j/t|, j = 0 .. t - 1.
 */
void rs_powerlaw_fit(rs_powerlaw *out, const double *values, int64_t n);

/* A Marchenko-Pastur law fitted to the density of a spectrum that was rescaled to mean 1. */
typedef struct rs_mp_fit {
    double sigma;              /* NaN: no fit */
    double bulk_min, bulk_max; /* edges, in the rescaled eigenvalues */
    double softrank;           /* bulk_max / largest */
    int64_t spikes; /* eigenvalues beyond bulk_max and its Tracy-Widom margin; -1: no fit */
} rs_mp_fit;

/*
 * Fits lambda, k eigenvalues, ascending. rows and cols in either order; a square matrix is fitted
 * by the quarter circle law of the singular values. The density is a triangular kernel estimate of
 * half width 0.1 on 1000 points; of the least-squares variance first 0.05 to 2 times the one that
 * puts the edge on the largest eigenvalue is scanned, in steps of 0.01, then a simplex search
 * refines it.
 */
rs_status rs_marchenko_pastur_fit(rs_mp_fit *out, const double *lambda, int64_t k, int64_t rows,
                                  int64_t cols, rs_error *err);

/* Everything WeightWatcher prints for one layer from the eigenvalues λ = σ² of WᵀW. NaN, or -1 for
 * a count, = not available. Field names are its column names. */
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

/* Computes them from sigma, k = min(rows, cols) singular values, descending, finite. */
rs_status rs_weightwatcher_of(rs_weightwatcher *out, const double *sigma, int64_t k, int64_t rows,
                              int64_t cols, rs_error *err);

#endif
