/* attention_spectrum.h: the singular values and eigenvalues behind attention_measures.h. */
#ifndef RS_MEASURES_ATTENTION_SPECTRUM_H
#define RS_MEASURES_ATTENTION_SPECTRUM_H

#include "linalg/workspace.h"
#include "measures/attention_measures.h"

/* Adds what rs_attention_spectrum takes from `space`. */
void rs_attention_spectrum_space(int64_t n, rs_workspace *space);

/*
 * Sets sigma1 and sigma2 where sigma1 is NaN, and centred_norm_squared, lambda2, spectral_gap and converged of A (n×n, finite,
 * row-major). sums: A's row sums; single: its entries were rounded to float32, so that digits
 * beyond those need not be sought.
 */
void rs_attention_spectrum(rs_attention_measures *out, const double *a, int64_t n,
                           const double *sums, bool single, rs_workspace *space);

#endif
