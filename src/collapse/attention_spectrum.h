/* attention_spectrum.h: the singular values and eigenvalues behind attention_measures.h. */
#ifndef RS_COLLAPSE_ATTENTION_SPECTRUM_H
#define RS_COLLAPSE_ATTENTION_SPECTRUM_H

#include "collapse/attention_measures.h"
#include "linalg/workspace.h"

/* Adds what rs_attention_spectrum takes from `space`. */
void rs_attention_spectrum_space(int64_t n, rs_workspace *space);

/*
 * sigma1, sigma2, centred_norm_squared, lambda2, spectral_gap and converged of A (n×n, finite,
 * row-major). sums: A's row sums; `tolerance`: how far apart they may be, relative to the largest
 * magnitude or 1, to count as one constant.
 */
rs_status rs_attention_spectrum(rs_attention_measures *out, const double *a, int64_t n,
                                const double *sums, double tolerance, rs_workspace *space,
                                rs_error *err);

#endif
