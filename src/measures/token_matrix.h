/* token_matrix.h: a token matrix X whose rows are read as doubles whatever its type; shared by the
 * files behind token_measures.h. */
#ifndef RS_MEASURES_TOKEN_MATRIX_H
#define RS_MEASURES_TOKEN_MATRIX_H

#include "linalg/workspace.h"
#include "measures/token_measures.h"

/* The matrix X [n, d]; one of the two pointers is set. */
typedef struct rs_token_matrix {
    const float *single;
    const double *wide;
    int64_t n, d, ld;
    /* Every entry is multiplied by this when it is read: a power of two that keeps squares and
     * fourth powers in range; 1 for all but extreme float64 data. */
    double scale;
} rs_token_matrix;

/* Reads row i into row [d]. */
void rs_token_matrix_row(double *row, const rs_token_matrix *x, int64_t i);

/*
 * The centre of the rows, kept as first + offset, first being row 0 of X: differences from a row of
 * X are exact where tokens are nearly equal, so the mean of the differences loses nothing there,
 * while a mean of the entries themselves would carry n rounding errors of the size of the entries.
 */
typedef struct rs_token_centre {
    const double *first, *offset; /* [d] each */
} rs_token_centre;

/* Sets offset [d] to the columns' medians less `first`, for RS_CENTRE_MEDIAN. columns: 8n doubles
 * of workspace. */
void rs_token_median(double *offset, const rs_token_matrix *x, const double *first,
                     double *columns);

/* Finds max ‖X_i − X_j‖₂. norms [n]: ‖X_i − centre‖₂. */
void rs_token_diameter(double *diameter, const rs_token_matrix *x, const rs_token_centre *centre,
                       const double *norms, rs_workspace *space);
void rs_token_diameter_space(int64_t n, int64_t d, rs_workspace *space);

/* Sets rank1_residual, effective_rank, the stable ranks and numerical_rank of a non-zero finite
 * X. */
rs_status rs_token_spectrum(rs_token_measures *out, const rs_token_matrix *x,
                            const rs_token_options *options, rs_workspace *space, rs_error *err);
void rs_token_spectrum_space(int64_t n, int64_t d, rs_workspace *space);

#endif
